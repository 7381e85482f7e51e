"""The passes, in order. Each maps an expression to another one with the same value."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, islice

from fotltn.algebra.expr import Expr
from fotltn.algebra.passes.distribute_powers import distribute_powers
from fotltn.algebra.passes.enter_shifts import enter_shifts
from fotltn.algebra.passes.factor_products import factor_products
from fotltn.algebra.passes.fold_constants import fold_constants
from fotltn.algebra.passes.merge_reductions import merge_reductions
from fotltn.algebra.passes.push_time import push_time
from fotltn.algebra.passes.split_sums import split_sums

Pass = Callable[[Expr], Expr]

PASSES: tuple[Pass, ...] = (
    fold_constants,  # first: complements cancel, and products remain
    push_time,  # turns an outermost G or F into a reduction, which can then be merged
    enter_shifts,  # the shift then becomes a factor that other parts can share
    distribute_powers,  # before merging: a power must be next to its root
    merge_reductions,
    factor_products,  # moves factors that do not depend on a reduced axis out of the reduction
    split_sums,  # last: it undoes some merging, axis by axis, where that is cheaper
)
_ROUNDS = 20  # each round makes the expression smaller or flatter, so a few suffice


def optimize(expr: Expr, passes: tuple[Pass, ...] = PASSES) -> Expr:
    """Apply the passes in turn until none of them changes the expression."""
    unchanged = 0
    for rewrite in islice(cycle(passes), _ROUNDS * len(passes)):
        before, expr = expr, rewrite(expr)
        unchanged = unchanged + 1 if expr == before else 0
        if unchanged == len(passes):
            break
    return expr
