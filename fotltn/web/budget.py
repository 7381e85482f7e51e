"""What a typed formula may cost: bytes and operations, known before anything is computed."""

from __future__ import annotations

from dataclasses import replace

from fotltn.analysis.cells import Cells
from fotltn.analysis.evaluate_cells import places_at_once
from fotltn.engine import sizes_of
from fotltn.errors import LimitError
from fotltn.evaluation import compile_for
from fotltn.plan.cost import dense_cost

#: The most operations; some seconds on one core.
MAX_OPERATIONS = 2 * 10**10

#: From where on a formula waits for others of its kind; some tenths of a second.
HEAVY = 10**8

_BYTES = 9  # of a cell of a heat map: its degree, its truth, and room to sort


def check_cost(cells: Cells) -> int:
    """The operations of a formula, unless its heat map would take too much memory or time.

    Args:
        cells: of the formula; its budget is for its values, and again for intermediate results.

    Raises:
        LimitError: with what it would need.
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
            "are made for what is typed (fotltn ask and fotltn eval have no such limit)"
        )
    return operations


def _operations(cells: Cells) -> int:
    """Those of degrees by the engine, and those of truth by the dense evaluator.

    Raises:
        LimitError: the engine's intermediate results need more than the budget.
    """
    tables, semantics = cells.tables, cells.semantics
    sizes, parts = sizes_of(tables, tables.dtype), 1
    if cells.axes:  # a heat map is computed a part of the first axis at a time
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
