"""Asking a model: the value of any formula, by entity and time, and its predictions as a table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from fotltn.analysis.atoms import Names
from fotltn.analysis.evaluate_cells import evaluate_parts, two_valued
from fotltn.errors import BuildError, DataError
from fotltn.evaluation import Time, present
from fotltn.logic import core as c
from fotltn.logic.check import check_formula
from fotltn.logic.signature import Signature
from fotltn.semantics.config import Semantics
from fotltn.semantics.interpretation import Tables, Value
from fotltn.syntax.formula import Formula
from fotltn.syntax.notebook import bar, number, strip, table, text
from fotltn.syntax.parse import parse_formula

#: The most rows that a notebook shows.
_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Answer:
    """The values of a formula.

    Args:
        text: the formula.
        axes: its free variables.
        tensor: the values, with axes (trace, free variables …, time); beyond the end of a trace
            NaN, or false under the crisp semantics.
        times: the points that the axis of time stands for.
        lengths: the number of points of each trace.
        names: gives the name of an entity, for notebooks; without it, they are numbered.
        traces: the names of traces, likewise.
    """

    text: str
    axes: tuple[c.Axis, ...]
    tensor: Tensor
    times: tuple[int, ...]
    lengths: tuple[int, ...]
    names: Names | None = field(default=None, compare=False, repr=False)
    traces: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def _repr_html_(self) -> str:
        return answer_html(self)

    def rows(
        self, names: Names, traces: Sequence[str] | None = None
    ) -> Iterator[dict[str, object]]:
        """One row for each trace, binding and time: variables, `trace`, `time`, `value`.

        Bindings to entities that a trace lacks are left out.

        Args:
            names: gives the name of an entity from its sort, the trace and its number.
            traces: the names of traces; without, they are numbered.
        """
        sizes = self.tensor.shape[1:-1]
        for trace, length in enumerate(self.lengths):
            label = trace if traces is None else traces[trace]
            here = [t for t in self.times if t < length]
            for place in itertools.product(*(range(n) for n in sizes)):
                bound = {
                    a.name: names(str(a.sort), trace, i)
                    for a, i in zip(self.axes, place, strict=True)
                }
                if None in bound.values():
                    continue
                values = self.tensor[(trace, *place)].tolist()
                for time, value in zip(here, values, strict=False):
                    yield {**bound, "trace": label, "time": time, "value": value}


def ask(
    formula: str | Formula,
    signature: Signature,
    tables: Tables,
    semantics: Semantics,
    *,
    at: Time = 0,
    dtype: torch.dtype = torch.float32,
    threshold: float = 0.5,
    names: Names | None = None,
    traces: tuple[str, ...] = (),
) -> Answer:
    """The value of a formula, for each binding of its free variables.

    Args:
        formula: the formula or its text.
        signature: the symbols that it may use.
        tables: the tables.
        semantics: what gives it its value.
        at: a time point, or "all".
        dtype: the precision of values.
        threshold: for the crisp semantics, the degree from which on a fact is true.
        names: gives the name of an entity, for notebooks.
        traces: the names of traces, likewise.

    Raises:
        CheckError: the formula does not fit the signature.
        DataError: the time point does not exist, or a table is missing.
    """
    parsed = parse_formula(formula) if isinstance(formula, str) else formula
    if not isinstance(parsed, Formula):
        raise BuildError(f"expected a formula or its text, not {parsed!r}")
    checked = check_formula(parsed, signature)
    if at != "all" and (isinstance(at, bool) or not 0 <= at < tables.horizon):
        raise DataError(
            f"the time point {at!r} does not exist: there are 0 to {tables.horizon - 1}"
        )
    if semantics.boolean:
        tables = two_valued(tables, threshold)
    point = None if at == "all" else at
    with torch.no_grad():
        ((axes, tensor),) = evaluate_parts(
            {"formula": checked.formula}, signature, tables, semantics, dtype=dtype, at=point
        ).values()
    value = Value(axes, tensor.detach().expand(*tensor.shape[:-1], tables.horizon))
    shown = present(value, checked.free, tables, at=at, batched=True)
    if point is not None:
        shown = shown.unsqueeze(-1)
    times = tuple(range(tables.horizon)) if point is None else (point,)
    lengths = tuple(tables.lengths.tolist())
    return Answer(str(parsed), checked.free, shown, times, lengths, names, traces)


def answer_html(answer: Answer) -> str:
    """An answer for notebooks: a row for each binding, with bars, or strips over time."""
    several, over_time = len(answer.lengths) > 1, len(answer.times) > 1
    variables = [a.name for a in answer.axes]
    heads = [*(["trace"] if several else []), *variables]
    heads += ["over time", "lowest", "highest"] if over_time else ["value"]
    named = answer.names or (lambda sort, _, number: f"{sort}#{number}")
    rows: list[list[object]] = []
    for row in itertools.islice(_bindings(answer, named), _SHOWN):
        said = ", ".join(f"{n} = {name}" for n, name in zip(heads, row.names, strict=False))
        low, high = min(row.values), max(row.values)
        degrees: list[object] = [bar(row.values[0])]
        if over_time:
            said = f"{said}: from {low:.3f} to {high:.3f}"
            degrees = [strip(row.values, said=said), number(low), number(high)]
        rows.append([*row.names, *degrees])
    total = math.prod(answer.tensor.shape[:-1])
    rest = f"{total - len(rows):,} more rows" if len(rows) == _SHOWN < total else ""
    shown = parse_formula(answer.text)._repr_latex_()
    return table(heads, rows, left=["trace", *variables, "over time"], caption=shown) + text(rest)


class _Row(NamedTuple):
    names: list[str]
    values: list[float]


def _bindings(answer: Answer, named: Names) -> Iterator[_Row]:
    """The trace, if there are several, and entities by name, with their values over time."""
    for trace, length in enumerate(answer.lengths):
        label = [answer.traces[trace] if answer.traces else str(trace)]
        here = sum(t < length for t in answer.times)
        for place in itertools.product(*(range(n) for n in answer.tensor.shape[1:-1])):
            names = [named(str(a.sort), trace, i) for a, i in zip(answer.axes, place, strict=True)]
            if None in names or not here:
                continue
            values = answer.tensor[(trace, *place)][:here].double().tolist()
            yield _Row([*(label if len(answer.lengths) > 1 else []), *map(str, names)], values)
