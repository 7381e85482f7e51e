"""The errors of cells, measured so that they add up to the error of the axiom.

Under p-means with one p, `(1 - value)^p` of `forall x. G(body)` is the mean of `(1 - u)^p` over all
bindings and times, `u` being the value of the body. So each of them has an exact share.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

import torch
from torch import Tensor

from fotltn.analysis.cells import Cells
from fotltn.analysis.evaluate_cells import CellBlock
from fotltn.format import listed
from fotltn.logic import core as c
from fotltn.logic.prefix import Prefix, outer, prefix
from fotltn.semantics.config import Fold, PMean, Semantics, TNorm
from fotltn.sharing import WHOLE, BindingPart


class ErrorMeasure(StrEnum):
    """A measure of the error of a cell, such that the errors of all cells add up."""

    MEAN = "mean"  # (1 - u)^p
    WORST = "worst"  # only the largest 1 - u
    LOGARITHM = "logarithm"  # -log u
    SUM = "sum"  # 1 - u


def exact(u: Tensor, dtype: torch.dtype) -> Tensor:
    """Return degrees in double precision; a degree that differs from 1 only by rounding is 1."""
    u = u.to(torch.float64).clamp(0, 1)
    return torch.where(u >= 1 - 4 * torch.finfo(dtype).eps, 1.0, u)


@dataclass(frozen=True, slots=True)
class Errors:
    """How errors of cells are measured: by which measure, with which p and epsilon."""

    measure: ErrorMeasure
    p: float = 1.0
    epsilon: float = 0.0

    def of(self, u: Tensor, weight: Tensor) -> Tensor:
        """The error of each cell times its weight."""
        match self.measure:
            case ErrorMeasure.MEAN:
                error = (1 - (1 - self.epsilon) * u) ** self.p
            case ErrorMeasure.LOGARITHM:
                error = -u.log()
            case ErrorMeasure.WORST | ErrorMeasure.SUM:
                error = 1 - u
            case _:
                assert_never(self.measure)
        if self.measure is ErrorMeasure.WORST:
            return torch.where(weight > 0, error, 0.0)
        return torch.where(weight > 0, error * weight, 0.0)

    def words(self, part: Prefix, traces: int, inner: bool) -> str:
        """Return in words what the cells are, and what their shares refer to."""
        what = [axis.name for axis in part.axes]
        what += ["time"] if part.timed else []
        what += ["trace"] if traces > 1 else []
        bound = "binding of " if part.axes else ""
        cells = f"one row per {bound}{listed(what)}" if what else "the axiom as a whole"
        shares = {
            ErrorMeasure.MEAN: f"share is the row's part of the sum of (1 - value)^{self.p:g}",
            ErrorMeasure.WORST: "the worst rows have equal shares, all others none",
            ErrorMeasure.LOGARITHM: "share is the row's part of the sum of -log(value)",
            ErrorMeasure.SUM: "share is the row's part of the sum of 1 - value",
        }[self.measure]
        rest = "; the forall and G inside are taken as a whole" if inner else ""
        return f"{cells}; {shares}{rest}"


def shared_cells(cells: Cells) -> tuple[Cells, Errors]:
    """Return the cells with exact shares of the error of a formula, and how to measure errors.

    If the means of ∀ and G differ, the inner layers have no exact shares, and belong to the body.
    """
    semantics, several = cells.semantics, cells.tables.batch > 1
    layers = prefix(cells.formula)
    if semantics.boolean:
        return replace(cells, prefix=layers), Errors(ErrorMeasure.WORST)
    means = [semantics.forall] if several else []
    means += [
        semantics.forall if isinstance(n, c.Quantifier) else semantics.always for n in layers.layers
    ]
    if not means:
        return replace(cells, prefix=layers), Errors(ErrorMeasure.MEAN)
    first, *others = [_errors(how, semantics) for how in means]
    if first.measure is ErrorMeasure.SUM:
        others = []
    alike = len(list(itertools.takewhile(lambda one: one == first, others)))
    count = alike + (not several)
    if first.measure is ErrorMeasure.MEAN and count and semantics.epsilon:
        first = replace(first, epsilon=semantics.epsilon)
        count = 1  # a second projection stands between this mean and the next
    return replace(cells, prefix=outer(layers, count)), first


_FOLDED = {TNorm.PRODUCT: ErrorMeasure.LOGARITHM, TNorm.LUKASIEWICZ: ErrorMeasure.SUM}


def _errors(how: PMean | Fold, semantics: Semantics) -> Errors:
    match how:
        case PMean(p):
            return Errors(ErrorMeasure.MEAN, p) if p < math.inf else Errors(ErrorMeasure.WORST)
        case Fold():
            return Errors(_FOLDED.get(semantics.conjunction, ErrorMeasure.WORST))
        case _:
            assert_never(how)


def erring(
    cells: Cells,
    errors: Errors,
    others: Mapping[str, c.Formula] | None = None,
    part: BindingPart = WHOLE,
) -> Iterator[CellBlock]:
    """Yield the body at all cells, some at a time: `degree`, `error` and `truth`, in full size.

    Errors are weighted; a cell that is not in the mean has error 0. The truth is two-valued, and
    `undecided` says where it is false only because the trace ends.

    Args:
        cells: the cells.
        errors: how errors are measured.
        others: formulas whose values are wanted as well.
        part: a part of the places of the largest axis; all by default.
    """
    count = errors.measure in (ErrorMeasure.LOGARITHM, ErrorMeasure.SUM)
    formulas = {"body": cells.body, **(others or {})}
    truths = {"truth": cells.body, "undecided": cells.undecided or c.Truth(False)}
    for block in cells.blocks(formulas, truths=truths, count=count, part=part):
        full = {name: u.expand(block.shape) for name, u in block.values.items()}
        full["degree"] = exact(block.values["body"], cells.tables.dtype).expand(block.shape)
        full["error"] = errors.of(full["degree"], block.weight.expand(block.shape))
        yield block._replace(values=full)
