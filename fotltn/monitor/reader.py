"""The truth of formulas without future operators, over a stretch of steps at once.

A value is an array with axes (step, named axes …); the first has size 1 if the value is static.
Past operators keep a memory from one stretch to the next: the last time at which an operand was
true. So an unbounded operator needs one number for each binding, and an operator with a lower
bound needs as many numbers as the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from fotltn.logic import core as c
from fotltn.logic.parts import free_axes_of_all
from fotltn.monitor.domain import Array, Axes, Domain, Stranger, aligner, ordered
from fotltn.monitor.obligations import ENDLESS
from fotltn.tree import children, postorder

_NEVER = -(1 << 62)


@dataclass(slots=True)
class Stretch:
    """Some steps: the time of the first, their number, and tables with axes (step, arguments …).

    The tables of predicates have truth values. The table of a static symbol has one step.
    """

    start: int
    count: int
    predicates: Mapping[str, Array]
    functions: Mapping[str, Array]


#: The memory of a past operator: arrays with axes (earlier step, named axes …).
Memory = dict[str, Array]


class Reader:
    """Computes the truth of formulas, each distinct part once."""

    def __init__(self, domain: Domain, kinds: frozenset[Stranger] = frozenset()) -> None:
        """Start without formulas; quantifiers range over named entities, and some strangers."""
        self.domain, self.kinds = domain, kinds
        self.slots: dict[c.Core, int] = {}
        self.axes: list[Axes] = []
        self.runs: list[Callable[[Stretch], Array]] = []
        self.values: list[Array] = []
        self.memories: dict[int, Memory] = {}

    def add(self, formula: c.Core) -> None:
        """Read one more formula."""
        free = free_axes_of_all(formula)
        for node in postorder(formula):
            if node not in self.slots:
                axes = ordered(free[node])
                below = [self.slots[child] for child in children(node)]  # type: ignore[index]
                slot = self.slots[node] = len(self.runs)
                self.axes.append(axes)
                self.runs.append(self._run(node, slot, axes, below))  # type: ignore[arg-type]

    def read(self, stretch: Stretch) -> None:
        """Compute all formulas over some steps, which follow the steps read before."""
        self.values = []
        for run in self.runs:
            self.values.append(run(stretch))

    def grown(self, kind: Stranger) -> dict[int, Memory]:
        """Return the memories with one more entity, which takes over those of a stranger."""
        return {
            slot: {n: self.domain.grown(a, self.axes[slot], kind) for n, a in memory.items()}
            for slot, memory in self.memories.items()
        }

    def adopt(self, memories: Mapping[int, Memory]) -> None:
        """Continue from the memories of this or another reader of the same formulas."""
        self.memories = {slot: dict(memory) for slot, memory in memories.items()}

    def _run(
        self, node: c.AnyNode, slot: int, axes: Axes, below: list[int]
    ) -> Callable[[Stretch], Array]:
        inputs = [(arg, aligner(self.axes[arg], axes)) for arg in below]

        def values() -> list[Array]:
            """Return the operands, with a dimension for each axis."""
            return [align(self.values[arg]) for arg, align in inputs]

        def memory() -> Memory:
            return self.memories.setdefault(slot, {})

        def everywhere(stretch: Stretch) -> list[Array]:
            shape = (stretch.count, *self.domain.shape(axes))
            return [v if v.shape == shape else np.broadcast_to(v, shape) for v in values()]

        match node:
            case c.Variable(axis, _, None):
                return lambda _: np.arange(*self.domain.shape([axis])).reshape(1, -1)
            case c.Variable(axis, _, column):
                return lambda _: self.domain.relations[str(axis.relation)][None, :, column]
            case c.Constant(name, sort):
                return lambda _: np.array([self.domain.names[sort][name]])
            case c.Number(value) | c.Truth(value):
                return lambda _: np.array([value])
            case c.Apply(name):
                return lambda s: _gather(s.functions[name], values())
            case c.Atom(name, args):
                order = _plain(args, axes)
                if order is None:
                    return lambda s: _gather(s.predicates[name], values())
                return lambda s: s.predicates[name].transpose(order)
            case c.Edge(past):
                assert past
                return lambda s: np.arange(s.start, s.start + s.count) == 0
            case c.Equal():
                return lambda _: np.equal(*values())
            case c.Compare(op):
                compare = _COMPARE[op]
                return lambda _: compare(*values())
            case c.Not():
                return lambda _: np.logical_not(*values())
            case c.And():
                return lambda _: np.logical_and(*values())
            case c.Or():
                return lambda _: np.logical_or(*values())
            case c.Quantifier(universal, bound):
                return self._quantified(universal, axes, bound, below[-1])
            case c.Shift(_, steps, past, weak):
                assert past
                return lambda s: _prev(everywhere(s)[0], steps, weak, memory())
            case c.Until(dual, _, _, window, past):
                assert past

                def since(stretch: Stretch) -> Array:
                    a, b = everywhere(stretch)
                    true = _since(~a if dual else a, ~b if dual else b, window, stretch, memory())
                    return ~true if dual else true

                return since
            case c.Implies() | c.Aggregate():
                raise AssertionError(node)  # not in normal form
            case never:
                assert_never(never)

    def _quantified(
        self, universal: bool, axes: Axes, bound: Axes, body: int
    ) -> Callable[[Stretch], Array]:
        align = aligner(self.axes[body], (*axes, *bound))
        idle = not set(bound) <= set(self.axes[body])
        dims = tuple(range(1 + len(axes), 1 + len(axes) + len(bound)))
        join = np.logical_and if universal else np.logical_or

        def run(_: Stretch) -> Array:
            value = align(self.values[body])
            if idle:  # an axis that the body does not have may still be empty
                value = np.broadcast_to(value, (len(value), *self.domain.shape((*axes, *bound))))
            for dim, axis in zip(dims, bound, strict=True):
                if axis.sort is not None:
                    value = value[(*[slice(None)] * dim, self.domain.seen(axis.sort, self.kinds))]
            truth: Array = join.reduce(value, dims)
            return truth

        return run


_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


def _plain(args: tuple[c.Term, ...], axes: Axes) -> tuple[int, ...] | None:
    """Return the order of a table's dimensions, if its arguments are different variables."""
    plain = [a.axis for a in args if isinstance(a, c.Variable) and a.column is None]
    if len(plain) != len(args) or len(set(plain)) != len(args):
        return None
    return (0, *(1 + plain.index(a) for a in axes))


def _gather(table: Array, args: Sequence[Array]) -> Array:
    rank = max((a.ndim for a in args), default=1)
    times = np.arange(len(table)).reshape(-1, *[1] * (rank - 1))
    cells: Array = table[(times, *args)]
    return cells


def _prev(value: Array, steps: int, outside: bool | int, memory: Memory, name: str = "") -> Array:
    """Return the value a number of steps ago; it is `outside` before the first step."""
    before = memory.get(name, value[:0])
    known = np.concatenate([before, value])
    missing = min(len(value), steps - len(before))
    memory[name] = known[-steps:].copy()
    nothing = np.full((missing, *value.shape[1:]), outside, dtype=value.dtype)
    return np.concatenate([nothing, known[: len(value) - missing]])


def _since(a: Array, b: Array, window: c.Window, stretch: Stretch, memory: Memory) -> Array:
    """Return whether `b` was true inside the window, and `a` at all steps since.

    The best witness is the last `b` that is at least `low` steps ago. It counts if it is at most
    `high` steps ago, and not before the last time at which `a` was false.
    """
    times = np.arange(stretch.start, stretch.start + stretch.count)
    times = times.reshape(-1, *[1] * (a.ndim - 1))
    broken = _last(~a, times, memory, "broken")
    witness = _last(b, times, memory, "witness")
    if window.low > 0:
        witness = _prev(witness, window.low, _NEVER, memory, "witnesses")
    high = ENDLESS if window.high is None else window.high
    true: Array = witness >= np.maximum(np.maximum(times - high, 0), broken)
    return true


def _last(value: Array, times: Array, memory: Memory, name: str) -> Array:
    """Return the last time at which a value was true."""
    last = np.where(value, times, _NEVER)
    if name in memory:
        last[:1] = np.maximum(last[:1], memory[name])
    last = np.maximum.accumulate(last)
    memory[name] = last[-1:].copy()
    return last
