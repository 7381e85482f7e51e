"""What a typed formula may cost: bytes and operations, known before anything is computed."""

from __future__ import annotations

import math
from dataclasses import replace

from fotltn.analysis.evaluate_cells import MAX_CELLS
from fotltn.analysis.explain import Rule, Subject
from fotltn.engine import as_given, compile_formulas, sizes_of
from fotltn.errors import LimitError
from fotltn.plan.cost import dense_cost

#: The most operations; some seconds on one core.
MAX_OPERATIONS = 2 * 10**10

_BYTES = 9  # of a cell of a heat map: its degree, its truth, and room to sort


def check_cost(rule: Rule, subject: Subject, budget: int) -> None:
    """Refuse a formula whose heat map would take too much memory or time.

    Args:
        rule: the formula.
        subject: the data.
        budget: bytes for its values, and again for intermediate results.

    Raises:
        LimitError: with what it would need.
    """
    model = subject.tables
    cells = math.prod(model.size(a) for a in rule.axes) * model.batch
    cells *= model.horizon if rule.timed else 1
    if cells * _BYTES > budget:
        over = " × ".join(f"{model.size(a):,}" for a in rule.axes)
        raise LimitError(
            f"the values of this formula need {cells * _BYTES:,} bytes ({over} bindings, "
            f"{model.horizon:,} times, {model.batch:,} traces), more than the budget of "
            f"{budget:,}; use fewer variables, or start with a larger --budget"
        )
    operations = _operations(rule, subject, budget)
    if operations > MAX_OPERATIONS:
        raise LimitError(
            f"this formula needs about {operations:,} operations; at most {MAX_OPERATIONS:,} "
            "are made for what is typed (fotltn query and fotltn eval have no such limit)"
        )


def _operations(rule: Rule, subject: Subject, budget: int) -> int:
    """Those of degrees by the engine, and those of truth by the dense evaluator.

    Raises:
        LimitError: intermediate results of one of the two need more than the budget.
    """
    model, semantics = subject.tables, subject.semantics
    sizes, parts = sizes_of(model, subject.dtype), 1
    if rule.axes:  # a heat map is computed a part of the first axis at a time
        each = model.batch * model.horizon * math.prod(model.size(a) for a in rule.axes[1:])
        size = model.size(rule.axes[0])
        width = max(1, min(size, MAX_CELLS // max(1, each)))
        if width < size:
            sizes, parts = sizes.cut(rule.axes[0], width), -(-size // width)
    by_equations = semantics.boolean or semantics.log_space
    flops, held = dense_cost(rule.body, sizes if by_equations else replace(sizes, width=1))
    if held > budget:
        raise LimitError(
            f"this formula needs {held:,} bytes for its parts, more than the budget of {budget:,}; "
            "use fewer variables, or start with a larger --budget"
        )
    if by_equations:
        return 2 * parts * flops
    signature = as_given(subject.signature, model)
    plan = compile_formulas({"": rule.body}, signature, semantics, at=None).plan(
        sizes, budget=budget
    )
    return parts * (flops + sum(step.flops for step in plan.steps))
