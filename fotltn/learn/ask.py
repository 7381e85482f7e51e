"""Asking a model: the value of any formula, by entity and time, and its predictions as a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.errors import BuildError, DataError
from fotltn.evaluation import Time, present
from fotltn.learn.atoms import Names
from fotltn.learn.sweep import evaluate_parts, two_valued
from fotltn.logic import core as c
from fotltn.logic.check import check_formula
from fotltn.logic.signature import Signature
from fotltn.semantics.config import Semantics
from fotltn.semantics.interpretation import Interpretation, Value
from fotltn.syntax.formula import Formula
from fotltn.syntax.parse import parse_formula


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
    """

    text: str
    axes: tuple[c.Axis, ...]
    tensor: Tensor
    times: tuple[int, ...]
    lengths: tuple[int, ...]

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
    model: Interpretation,
    semantics: Semantics,
    *,
    at: Time = 0,
    dtype: torch.dtype = torch.float32,
    threshold: float = 0.5,
) -> Answer:
    """The value of a formula, for each binding of its free variables.

    Args:
        formula: the formula or its text.
        signature: the symbols that it may use.
        model: the tables.
        semantics: what gives it its value.
        at: a time point, or "all".
        dtype: the precision of values.
        threshold: for the crisp semantics, the degree from which on a fact is true.

    Raises:
        CheckError: the formula does not fit the signature.
        DataError: the time point does not exist, or a table is missing.
    """
    parsed = parse_formula(formula) if isinstance(formula, str) else formula
    if not isinstance(parsed, Formula):
        raise BuildError(f"expected a formula or its text, not {parsed!r}")
    checked = check_formula(parsed, signature)
    if at != "all" and (isinstance(at, bool) or not 0 <= at < model.horizon):
        raise DataError(f"the time point {at!r} does not exist: there are 0 to {model.horizon - 1}")
    if semantics.boolean:
        model = two_valued(model, threshold)
    point = None if at == "all" else at
    with torch.no_grad():
        ((axes, tensor),) = evaluate_parts(
            {"formula": checked.formula}, signature, model, semantics, dtype=dtype, at=point
        ).values()
    value = Value(axes, tensor.detach().expand(*tensor.shape[:-1], model.horizon))
    shown = present(value, checked.free, model, at=at, batched=True)
    if point is not None:
        shown = shown.unsqueeze(-1)
    times = tuple(range(model.horizon)) if point is None else (point,)
    return Answer(str(parsed), checked.free, shown, times, tuple(model.lengths.tolist()))
