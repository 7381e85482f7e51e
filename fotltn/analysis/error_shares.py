"""What the error of a cell is, such that the errors of all cells of an axiom add up to its own.

Under p-means with one p, `(1 - value)^p` of `forall x. G(body)` is the mean of `(1 - u)^p` over all
bindings and times, `u` being the value of the body. So each of them has an exact share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import torch
from torch import Tensor

from fotltn.analysis.cells import Block, Cells
from fotltn.analysis.prefix import Prefix, outer, prefix
from fotltn.logic import core as c
from fotltn.semantics.config import Fold, PMean, Semantics, TNorm


class Measure(StrEnum):
    """What the error of a cell is, such that the errors of all cells add up."""

    MEAN = "mean"  # (1 - u)^p
    WORST = "worst"  # the largest 1 - u alone
    LOGARITHM = "logarithm"  # -log u
    SUM = "sum"  # 1 - u


def exact(u: Tensor, dtype: torch.dtype) -> Tensor:
    """Degrees in double precision; what differs from 1 by rounding only is 1."""
    u = u.to(torch.float64).clamp(0, 1)
    return torch.where(u >= 1 - 4 * torch.finfo(dtype).eps, 1.0, u)


@dataclass(frozen=True, slots=True)
class Errors:
    """How errors of cells are measured: by which measure, with which p and epsilon."""

    measure: Measure
    p: float = 1.0
    epsilon: float = 0.0

    def of(self, u: Tensor, weight: Tensor) -> Tensor:
        """The error of each cell times its weight."""
        match self.measure:
            case Measure.MEAN:
                error = (1 - (1 - self.epsilon) * u) ** self.p
            case Measure.LOGARITHM:
                error = -u.log()
            case Measure.WORST | Measure.SUM:
                error = 1 - u
        if self.measure is Measure.WORST:
            return torch.where(weight > 0, error, 0.0)
        return torch.where(weight > 0, error * weight, 0.0)

    def words(self, part: Prefix, traces: int, inner: bool) -> str:
        """What the cells are, and what a share is of."""
        what = [f"binding of {', '.join(a.name for a in part.axes)}"] if part.axes else []
        what += ["time"] if part.timed else []
        what += ["trace"] if traces > 1 else []
        cells = f"each {', '.join(what)}" if what else "the axiom as a whole"
        shares = {
            Measure.MEAN: f"of the sum of (1 - value)^{self.p:g}",
            Measure.WORST: "all of the worst, in equal parts",
            Measure.LOGARITHM: "of the sum of -log(value)",
            Measure.SUM: "of the sum of 1 - value",
        }[self.measure]
        rest = "; the forall and G inside are taken as a whole" if inner else ""
        return f"{cells}; a share is {shares}{rest}"


def split(formula: c.Formula, semantics: Semantics, traces: int) -> tuple[Prefix, Errors]:
    """The outermost layers whose errors add up, and how."""
    whole = prefix(formula)
    if semantics.boolean:
        return whole, Errors(Measure.WORST)
    kinds = [_kind(semantics.forall, semantics)] if traces > 1 else []
    kinds += [
        _kind(semantics.forall if isinstance(n, c.Quantifier) else semantics.always, semantics)
        for n in whole.layers
    ]
    if not kinds:
        return whole, Errors(Measure.MEAN)
    count = 1
    while count < len(kinds) and kinds[count] == kinds[0] and kinds[0].measure is not Measure.SUM:
        count += 1
    layers = count - (traces > 1)
    epsilon = semantics.epsilon if kinds[0].measure is Measure.MEAN and layers else 0.0
    if epsilon:
        layers = 1  # a second projection stands between this mean and the next
    return outer(whole, layers), Errors(kinds[0].measure, kinds[0].p, epsilon)


def _kind(how: PMean | Fold, semantics: Semantics) -> Errors:
    match how:
        case PMean(p) if p < math.inf:
            return Errors(Measure.MEAN, p)
        case Fold() if semantics.conjunction is TNorm.PRODUCT:
            return Errors(Measure.LOGARITHM)
        case Fold() if semantics.conjunction is TNorm.LUKASIEWICZ:
            return Errors(Measure.SUM)
    return Errors(Measure.WORST)


class Erring(NamedTuple):
    """Some cells: the block, and in full the degree, error, and truth of the body at each.

    Errors are weighed; of a cell that is not in the mean they are 0. `truth` is two-valued.
    """

    block: Block
    degree: Tensor
    error: Tensor
    truth: Tensor


def erring(
    cells: Cells, errors: Errors, others: Mapping[str, c.Formula] | None = None
) -> Iterator[Erring]:
    """The errors of the body at all cells, some at a time.

    Args:
        cells: the cells.
        errors: how errors are measured.
        others: formulas whose values are wanted as well.
    """
    count = errors.measure in (Measure.LOGARITHM, Measure.SUM)
    graded = cells.blocks({"body": cells.body, **(others or {})}, count=count)
    truths = cells.blocks({"body": cells.body}, crisp=True)
    for block, other in _aligned(graded, truths):
        degree = exact(block.values["body"], cells.tables.dtype).expand(block.shape)
        error = errors.of(degree, block.weight.expand(block.shape))
        yield Erring(block, degree, error, other.values["body"].expand(block.shape))


def _aligned(left: Iterator[Block], right: Iterator[Block]) -> Iterator[tuple[Block, Block]]:
    """Two ways to cut the same cells, as pairs of blocks of the same cells."""
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        start, stop = max(one.start, other.start), min(one.stop, other.stop)
        yield one.between(start, stop), other.between(start, stop)
        one, other = (
            next(blocks, None) if block.stop == stop else block
            for block, blocks in ((one, left), (other, right))
        )


def shared_cells(cells: Cells) -> tuple[Cells, Errors]:
    """The cells that the error of a formula is shared among exactly, and how.

    Where the means of ∀ and G differ, the body keeps the inner layers, which have no exact shares.
    """
    layers, errors = split(cells.formula, cells.semantics, cells.tables.batch)
    return replace(cells, prefix=layers), errors
