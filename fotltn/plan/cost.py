"""What dense evaluation would cost: every subformula at every binding and time point."""

from __future__ import annotations

from fotltn.algebra.expr import free_axes_of_all
from fotltn.logic import core as c
from fotltn.plan.sizes import Sizes


def dense_cost(formula: c.Formula, sizes: Sizes) -> tuple[int, int]:
    """FLOPs, and bytes of all intermediate results, of the obvious evaluation."""
    flops = held = 0
    for node, axes in free_axes_of_all(formula).items():
        if not isinstance(node, c.Formula):
            continue
        if isinstance(node, c.Quantifier):
            axes = axes | set(node.axes)
        cells = sizes.cells(axes, True)
        pairs = sizes.horizon if isinstance(node, c.Until) else 1
        flops += (
            cells * pairs * (8 if isinstance(node, c.Quantifier | c.Aggregate | c.Until) else 1)
        )
        held += cells * sizes.width
    return flops, held
