"""Ask for the value of any formula, by entity and time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from fotltn.analysis.presence import absent_where_used
from fotltn.analysis.shared_values import shared_values
from fotltn.analysis.view import View
from fotltn.decisions import two_valued
from fotltn.errors import BuildError
from fotltn.evaluation import Time, present, time_point
from fotltn.format import ABSENT, cell_words, degree
from fotltn.logic import core as c
from fotltn.logic.check import CheckedFormula, check_formula
from fotltn.logic.parts import predicates_in
from fotltn.semantics.tables import Names, Value
from fotltn.syntax.formula import Formula
from fotltn.syntax.notebook import bar, code, strip, table, text
from fotltn.syntax.parse import parse_formula
from fotltn.syntax.show import show

#: The most rows that a notebook shows.
_SHOWN = 50

#: What the ends of an interval are called.
ENDS = ("low", "high")


@dataclass(frozen=True, slots=True)
class Answer:
    """The values of a formula, as `model.ask` returns them.

    Use `rows()` to see names, and `tensor` to compute.

    Args:
        text: the formula.
        axes: its free variables.
        tensor: the values, with axes (trace, free variables …, time); beyond the end of a trace
            NaN, or false under the crisp semantics.
        times: the time points of the time axis.
        lengths: the number of time points of each trace.
        names: the names of traces and entities.
        low: for probabilities, the lower ends of 95 % intervals.
        high: the upper ends of these intervals.
        worlds: for probabilities, the number of sampled worlds that were counted in each trace.
        absent: where an entity is not present when the formula uses it; None if no entity comes or
            goes.
    """

    text: str
    axes: tuple[c.Axis, ...]
    tensor: Tensor
    times: tuple[int, ...]
    lengths: tuple[int, ...]
    names: Names = field(default_factory=Names, compare=False, repr=False)
    low: Tensor | None = None
    high: Tensor | None = None
    worlds: tuple[int, ...] = ()
    absent: Tensor | None = None

    def __repr__(self) -> str:
        """Return the number of values, and their range."""
        values = [value for row in self.bindings() for value in row.seen]
        ends = "" if not values else f" from {degree(min(values))} to {degree(max(values))}"
        return f"<{self.text}: {len(values):,} value{'s' * (len(values) != 1)}{ends}>"

    def _repr_html_(self) -> str:
        several, over_time = len(self.lengths) > 1, len(self.times) > 1
        variables = [a.name for a in self.axes]
        heads = [*(["trace"] if several else []), *variables]
        heads += ["over time", "lowest", "highest"] if over_time else ["value"]
        heads += ["95 %"] if self.low is not None and not over_time else []
        rows: list[list[object]] = []
        for row in itertools.islice(self.bindings(), _SHOWN):
            said = cell_words(row.binding)
            low, high = (end(row.seen, default=None) for end in (min, max))
            shown = [math.nan if value is None else value for value in row.values]
            degrees: list[object] = [bar(shown[0])]
            if over_time:
                said = f"{said}: from {degree(low)} to {degree(high)}" if row.seen else said
                degrees = [strip(shown, said=said), degree(low), degree(high)]
            elif not row.seen:
                degrees = [ABSENT, *([""] * (self.low is not None))]
            elif row.intervals is not None:
                degrees.append(" to ".join(map(degree, row.intervals[0])))
            rows.append([*([row.trace] if several else []), *row.binding.values(), *degrees])
        total = math.prod(self.tensor.shape[:-1])
        rest = f"{total - len(rows):,} more rows" if len(rows) == _SHOWN < total else ""
        caption = code(show(parse_formula(self.text), "unicode"))
        left = ["trace", *variables, "over time"]
        return table(heads, rows, left=left, caption=caption) + text(rest)

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield a row for each trace, binding and time: variables, `trace`, `time`, `value`.

        Probabilities also have `low` and `high`. Entities that a trace lacks, or that are not
        present when the formula uses them, are left out.
        """
        for row in self.bindings():
            for place, (time, value) in enumerate(zip(self.times, row.values, strict=False)):
                if value is None:
                    continue
                ends: dict[str, float] = {}
                if row.intervals is not None:
                    ends = dict(zip(ENDS, row.intervals[place], strict=True))
                yield {**row.binding, "trace": row.trace, "time": time, "value": value, **ends}

    def bindings(self) -> Iterator[BoundValues]:
        """Yield bindings with their values over time, except those that a trace lacks."""
        for trace, length in enumerate(self.lengths):
            here = sum(t < length for t in self.times)
            for place in itertools.product(*(range(n) for n in self.tensor.shape[1:-1])):
                named = {
                    a.name: self.names.entity(str(a.sort), trace, i)
                    for a, i in zip(self.axes, place, strict=True)
                }
                if here and None not in named.values():
                    at = (trace, *place)
                    values, intervals = self.tensor[at][:here].tolist(), None
                    if self.absent is not None:
                        absent = self.absent[at][:here].tolist()
                        values = [None if a else v for v, a in zip(values, absent, strict=True)]
                    if self.low is not None and self.high is not None:
                        ends = (end[at][:here].tolist() for end in (self.low, self.high))
                        intervals = list(zip(*ends, strict=True))
                    binding = {variable: str(name) for variable, name in named.items()}
                    yield BoundValues(self.names.trace(trace), binding, values, intervals)


class BoundValues(NamedTuple):
    """The names of a trace and of the entities of variables, with the values of a formula.

    A value is None where an entity is not present when the formula uses it. Probabilities also have
    intervals.
    """

    trace: str
    binding: dict[str, str]
    values: list[float | None]
    intervals: list[tuple[float, float]] | None = None

    @property
    def seen(self) -> list[float]:
        """The values where all entities are present."""
        return [value for value in self.values if value is not None]


def ask(view: View, formula: str | Formula, *, at: Time = 0) -> Answer:
    """Return the value of a formula for each binding of its free variables.

    Args:
        view: the tables, and the semantics of the formula.
        formula: the formula or its text.
        at: a time point, or "all".

    Raises:
        CheckError: the formula does not fit the signature of the tables.
        DataError: the time point does not exist, or a table is missing.
    """
    parsed = parse_formula(formula) if isinstance(formula, str) else formula
    if not isinstance(parsed, Formula):
        raise BuildError(f"expected a formula or its text, not {parsed!r}")
    text = str(parsed)
    return answers(view, {text: check_formula(parsed, view.tables.signature)}, at=at)[text]


@torch.no_grad()
def answers(
    view: View, formulas: Mapping[str, CheckedFormula], *, at: Time = 0
) -> dict[str, Answer]:
    """Return the values of checked formulas by name, evaluated together.

    Raises:
        DataError: the time point does not exist, or a table is missing.
        LimitError: a formula does not fit the budget; the message names it.
    """
    tables = view.tables
    point = None if isinstance(at, str) and at == "all" else time_point(at, tables)
    times = tuple(range(tables.horizon)) if point is None else (point,)
    lengths = tuple(tables.lengths.tolist())
    cores = {name: one.formula for name, one in formulas.items()}
    if view.semantics.boolean:
        used = predicates_in(*cores.values())
        tables = two_valued(tables, view.threshold, used, budget=view.budget)
    values = shared_values(cores, tables, view.semantics, at=point, budget=view.budget)
    every = {}
    for name, (axes, tensor) in values.items():
        value = Value(axes, tensor.detach().expand(*tensor.shape[:-1], tables.horizon))
        free = formulas[name].free
        shown = present(value, free, tables, at=at, batched=True)
        shown = shown if point is None else shown.unsqueeze(-1)
        absent = absent_where_used(free, cores[name], tables)
        every[name] = Answer(
            name, free, shown, times, lengths, tables.names,
            absent=None if absent is None else absent[..., times],
        )  # fmt: skip
    return every
