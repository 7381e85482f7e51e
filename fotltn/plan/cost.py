"""The cost of evaluation by the equations: every subformula at every binding and time point."""

from __future__ import annotations

from collections import Counter

from fotltn.errors import LimitError
from fotltn.kernels.until import BLOCK
from fotltn.logic import core as c
from fotltn.logic.parts import check_axes, free_axes_of_all
from fotltn.plan.sizes import Sizes
from fotltn.tree import Node, children, postorder

#: Temporary numbers that an operator needs for each of its cells, besides its result.
_PASSING = {c.Quantifier: 3, c.Aggregate: 4, c.Until: 8}

#: Numbers that an operator keeps for gradients, for each of its cells: most under logarithms.
_KEPT = {
    c.Atom: 4, c.Not: 12, c.Or: 36, c.Implies: 24, c.Quantifier: 16, c.Aggregate: 16, c.Until: 16,
}  # fmt: skip


def dense_cost(formula: c.Formula, sizes: Sizes) -> tuple[int, int]:
    """Return the FLOPs of the direct evaluation, and the bytes of all intermediate results."""
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


def blocks_cost(formula: c.Formula, sizes: Sizes) -> tuple[int, int]:
    """Return the FLOPs of the equations in blocks of time, and their bytes, with gradients."""
    flops, _ = dense_cost(formula, sizes)
    held = passing = 0
    for node, axes in free_axes_of_all(formula).items():
        if not isinstance(node, c.Formula):
            continue
        cells = sizes.cells(axes | (set(node.axes) if isinstance(node, c.Quantifier) else set()),
                            True)  # fmt: skip
        held += _KEPT.get(type(node), 2) * cells
        if isinstance(node, c.Aggregate):
            passing = max(passing, 8 * min(max(BLOCK, cells), cells * sizes.horizon))
        if isinstance(node, c.Until):
            passing = max(passing, 8 * cells * sizes.horizon)
    return flops, (held + passing) * sizes.width


def peak_bytes(formula: c.Formula, sizes: Sizes, *, gradients: bool = False) -> int:
    """Return the peak memory of evaluation by the equations, in bytes.

    Without gradients, a result is freed after its last use, as `tree.fold` does. With them, every
    window of a temporal operator is kept.
    """
    if gradients:
        return _kept_bytes(formula, sizes)
    axes = free_axes_of_all(formula)
    order = list(postorder(formula))
    uses = Counter(child for node in order for child in children(node))
    held: dict[Node, int] = {}
    live = peak = 0
    for node in order:
        below = children(node)
        result = passing = 0
        if isinstance(node, c.Formula):
            result = sizes.cells(axes[node], True) * sizes.width
            summed = axes[node] | (set(node.axes) if isinstance(node, c.Quantifier) else set())
            passing = sizes.cells(summed, True) * _PASSING.get(type(node), 0) * sizes.width
        held[node] = result
        live += result
        peak = max(peak, live + passing)
        for child in below:
            uses[child] -= 1
            if not uses[child]:
                live -= held.pop(child)
    return peak


def _kept_bytes(formula: c.Formula, sizes: Sizes) -> int:
    """Return what evaluation by the equations keeps for gradients, in bytes."""
    values = 0
    for node, axes in free_axes_of_all(formula).items():
        if isinstance(node, c.Formula):
            bound = set(node.axes) if isinstance(node, c.Quantifier) else set()
            cells, windows = sizes.cells(axes | bound, True), 1
            if isinstance(node, c.Aggregate | c.Until):
                high = sizes.horizon if node.window.high is None else node.window.high + 1
                windows = min(high, sizes.horizon) ** (1 + isinstance(node, c.Until))
            values += _KEPT.get(type(node), 2) * cells * windows
    return values * sizes.width


def check_peak(
    name: str, formula: c.Formula, sizes: Sizes, budget: int, *, gradients: bool = False
) -> None:
    """Raise an error for a formula whose evaluation by the equations exceeds the budget.

    Raises:
        LimitError: names the formula, the memory it needs and the budget.
    """
    check_variables(name, formula)
    needed = peak_bytes(formula, sizes, gradients=gradients)
    if needed > budget:
        raise LimitError(
            f"{called(name)} needs {needed:,} bytes, more than the budget of {budget:,}; evaluate "
            "it on fewer entities, or give it a larger budget"
        )


def check_variables(name: str, formula: c.Formula) -> None:
    """Refuse a formula with a part that depends on too many variables for the equations.

    Raises:
        LimitError: names the formula.
    """
    check_axes(max(map(len, free_axes_of_all(formula).values())), called(name))


def called(name: str) -> str:
    """Return the name of a formula for use in a sentence."""
    return f"'{name}'" if name else "the formula"
