"""The limits of a typed formula, in bytes and operations, checked before it is computed."""

from __future__ import annotations

from dataclasses import replace

from fotltn.analysis.cells import Cells
from fotltn.analysis.evaluate_cells import places_at_once
from fotltn.engine import compile_for, sizes_of
from fotltn.errors import LimitError
from fotltn.plan.cost import dense_cost

#: The most operations: some seconds on one core.
MAX_OPERATIONS = 2 * 10**10

#: A formula with more operations waits for other long ones; some tenths of a second.
HEAVY = 10**8

_BYTES = 9  # bytes per cell of a heat map: its degree, its truth, and space for sorting


def check_cost(cells: Cells) -> int:
    """Return the operations of a formula; raise an error if its heat map would cost too much.

    Args:
        cells: the cells of the formula; the budget applies to values and to intermediate results.

    Raises:
        LimitError: the message says what the formula would need.
    """
    tables, number, budget = cells.tables, cells.rows * cells.columns, cells.view.budget
    if number * _BYTES > budget:
        over = " × ".join(f"{size:,}" for size in cells.sizes)
        raise LimitError(
            f"the values of this formula need {number * _BYTES:,} bytes ({over} bindings, "
            f"{tables.horizon:,} times, {tables.batch:,} traces), more than the budget of "
            f"{budget:,}; use fewer variables, or start with a larger --budget"
        )
    operations = _operations(cells)
    if operations > MAX_OPERATIONS:
        raise LimitError(
            f"this formula needs about {operations:,} operations; at most {MAX_OPERATIONS:,} "
            "are allowed for a typed formula (fotltn ask and fotltn eval have no such limit)"
        )
    return operations


def _operations(cells: Cells) -> int:
    """Count the operations of the engine for degrees, and of the dense evaluator for truth.

    Raises:
        LimitError: the engine's intermediate results need more than the budget.
    """
    tables, semantics = cells.tables, cells.semantics
    sizes, parts = sizes_of(tables, tables.dtype), 1
    if cells.axes:  # a heat map is computed in parts of the first axis
        size, width = cells.sizes[0], places_at_once(cells.axes, tables)
        if width < size:
            sizes, parts = sizes.cut(cells.axes[0], width), -(-size // width)
    by_equations = semantics.boolean or semantics.log_space
    flops, _ = dense_cost(cells.body, sizes if by_equations else replace(sizes, width=1))
    if by_equations:
        return 2 * parts * flops
    program = compile_for({"": cells.body}, tables, semantics, None)
    plan = program.plan(sizes, budget=cells.view.budget)
    return parts * (flops + sum(step.flops for step in plan.steps))
