"""Count the work of a plan by kind, and estimate the time that a machine takes for it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, assert_never

from fotltn.algebra import expr as e
from fotltn.kernels.until import extent
from fotltn.plan.plan import Plan, Route, Step
from fotltn.plan.sizes import Sizes


class Unit(StrEnum):
    """The operations that a machine is measured by."""

    CALL = "call"  # an operation on a few numbers
    NUMBER = "number"  # one of many numbers, read and written in order
    LOOKUP = "lookup"  # one of many numbers, read at any place of a table
    FRESH = "fresh"  # a byte of memory newly requested from the system


class Kind(StrEnum):
    """Kinds of work."""

    STEP = "step"  # a step of a plan, however small
    CALL = "call"  # an operation inside a step
    CELL = "cell"
    POWER = "power"
    FILLED = "filled"  # a cell of a table of facts that is made dense
    MOVED = "moved"  # a cell that is moved in time
    WINDOW = "window"  # a cell of a scan
    REDUCED = "reduced"  # a cell that is summed or reduced otherwise
    EXTREME = "extreme"  # a cell of a minimum or maximum
    FACT = "fact"
    LOOKUP = "lookup"
    PRODUCT = "product"  # a product in a contraction
    PAIR = "pair"  # a point and a witness of until
    ROW_CALL = "row call"  # an operation on rows, however few
    BIT = "bit"  # a truth value of rows, or of a base
    NEW_BYTE = "new byte"  # a byte written to newly requested memory
    SWEPT = "swept"  # the same where a temporal operator processes few rows at a time
    SORTED = "sorted"  # a number that is sorted


class Effort(NamedTuple):
    """The cost of one piece of a kind of work, in units: for values alone, and with gradients."""

    unit: Unit
    values: float
    gradients: float


#: From this number of bytes, the C library requests memory from the system each time.
LARGE = 2**25

#: Fitted to the cases of `benchmarks/plan.py`.
EFFORT = {
    Kind.STEP: Effort(Unit.CALL, 10, 26),
    Kind.CALL: Effort(Unit.CALL, 1.7, 11),
    Kind.CELL: Effort(Unit.NUMBER, 2.5, 4),
    Kind.POWER: Effort(Unit.NUMBER, 2, 23),
    Kind.FILLED: Effort(Unit.NUMBER, 4, 4),
    Kind.MOVED: Effort(Unit.NUMBER, 9, 15),
    Kind.WINDOW: Effort(Unit.NUMBER, 20, 32),
    Kind.REDUCED: Effort(Unit.NUMBER, 7, 11),
    Kind.EXTREME: Effort(Unit.NUMBER, 22, 165),
    Kind.FACT: Effort(Unit.NUMBER, 5.5, 19),
    Kind.LOOKUP: Effort(Unit.LOOKUP, 0.65, 1.3),
    Kind.PRODUCT: Effort(Unit.NUMBER, 2.4, 6.4),
    Kind.PAIR: Effort(Unit.NUMBER, 20, 32),
    Kind.ROW_CALL: Effort(Unit.CALL, 5, 5),
    Kind.BIT: Effort(Unit.NUMBER, 0.3, 0.3),
    Kind.NEW_BYTE: Effort(Unit.FRESH, 1, 0),  # training reuses its memory
    Kind.SWEPT: Effort(Unit.NUMBER, 1.4, 1.4),
    Kind.SORTED: Effort(Unit.LOOKUP, 200, 200),
}


@dataclass(frozen=True, slots=True)
class Machine:
    """The number of seconds that each unit takes."""

    seconds: Mapping[Unit, float]

    def time(self, work: Mapping[Kind, int], *, gradients: bool) -> float:
        """Estimate the seconds that some work takes."""
        total = 0.0
        for kind, number in work.items():
            unit, values, with_gradients = EFFORT[kind]
            total += number * self.seconds[unit] * (with_gradients if gradients else values)
        return total


def measured(clock: Callable[[], float] = time.perf_counter) -> Machine:
    """Measure this machine with PyTorch's current number of threads, in a fifth of a second."""
    import torch

    few, many, bytes_ = 16, 2**18, 2**26
    small, table, other = torch.rand(few), torch.rand(many), torch.rand(many)
    places = torch.randint(many, (many,))
    operations: dict[Unit, tuple[int, Callable[[], object]]] = {
        Unit.CALL: (100, lambda: [small * small for _ in range(100)]),
        Unit.NUMBER: (many, lambda: table * other),
        Unit.LOOKUP: (many, lambda: table.index_select(0, places)),
        Unit.FRESH: (bytes_, lambda: torch.ones(bytes_, dtype=torch.bool)),
    }
    return Machine(
        {unit: _least(run, clock) / number for unit, (number, run) in operations.items()}
    )


def _least(run: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return the shortest time of a call, after a warm-up, as other load can only add to it."""
    run()
    times = []
    for _ in range(5):
        start = clock()
        run()
        times.append(clock() - start)
    return min(times)


def work(plan: Plan) -> Counter[Kind]:
    """Count the work by kind."""
    done: Counter[Kind] = Counter()
    for step in plan.steps:
        done[Kind.STEP] += 1
        done.update(_work(step, plan.sizes))
        if step.bytes - step.passing > LARGE:
            done[Kind.NEW_BYTE] += step.bytes - step.passing
    return done


def _work(step: Step, sizes: Sizes) -> dict[Kind, int]:
    node, route = step.node, step.route
    cells = sizes.of(node)
    match route:
        case Route.TABLE:
            assert isinstance(node, e.TableLeaf)
            return {Kind.FILLED: cells} if node.predicate in sizes.sparse else {}
        case Route.GIVEN:
            return {Kind.CELL: step.flops}
        case Route.POINTWISE:
            kind = Kind.POWER if isinstance(node, e.Power | e.Root) else Kind.CELL
            return {kind: cells * max(1, len(step.inputs))}
        case Route.CONTRACTION:
            return {
                Kind.PRODUCT: step.flops,
                Kind.CALL: len(step.factors),
                Kind.CELL: cells + sum(sizes.of(f) for f in step.factors),
            }
        case Route.SPARSE | Route.SUPPORT:
            assert step.leaf is not None
            facts = sizes.sparse[step.leaf.predicate].facts
            looked = facts * (1 + len(step.inputs))
            inputs = sum(sizes.of(i) for i in step.inputs)
            if route is Route.SPARSE:
                return {Kind.LOOKUP: looked, Kind.CELL: cells + inputs}
            return {Kind.LOOKUP: looked, Kind.FACT: step.flops, Kind.CELL: cells}
        case Route.DENSE:
            assert isinstance(node, e.Reduce)
            extreme = node.kind in (e.Reduction.MINIMUM, e.Reduction.MAXIMUM)
            return {Kind.EXTREME if extreme else Kind.REDUCED: step.flops}
        case Route.CHUNKED:
            assert step.region is not None
            inner = work(step.region)
            return {kind: number * step.chunks for kind, number in inner.items()}
        case Route.SCAN:
            return {Kind.WINDOW: cells, Kind.CALL: 10}
        case Route.PAIRS:
            return _pairs(node, cells, sizes)
        case Route.SHIFT:
            return {Kind.MOVED: cells}
        case Route.POINT | Route.RENAMED | Route.EXPANDED:
            return {}
        case _:
            assert_never(route)


def _pairs(node: e.Expr, cells: int, sizes: Sizes) -> dict[Kind, int]:
    if isinstance(node, e.At):
        return {Kind.PAIR: cells * sizes.horizon, Kind.CALL: 8}
    assert isinstance(node, e.Pairs)
    lead = max(1, cells // sizes.horizon)
    needs = extent(lead, sizes.horizon, node.window, node.semantics)
    return {Kind.PAIR: needs.pairs, Kind.CALL: needs.calls}
