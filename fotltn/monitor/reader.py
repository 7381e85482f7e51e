"""The truth of state formulas, those without the future, over a stretch of steps at once.

A value is an array with axes (step, named axes …); the first has size 1 if nothing changes.
Operators of the past keep what they need from one stretch to the next: when something was last
true, as a time. So unbounded operators need one number for each binding, and bounded ones with a
lower bound as many as that says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fotltn.algebra.expr import free_axes_of_all
from fotltn.logic import core as c
from fotltn.monitor.domain import Array, Domain, Kind
from fotltn.monitor.promises import ENDLESS
from fotltn.tree import children, postorder

_NEVER = -(1 << 62)

Axes = tuple[c.Axis, ...]
Index = tuple[Any, ...]


@dataclass(slots=True)
class Stretch:
    """Some steps: the time of the first, their number, and tables with axes (step, arguments …).

    Degrees are truth values here. A table of what is static has one step.
    """

    start: int
    count: int
    predicates: Mapping[str, Array]
    functions: Mapping[str, Array]


@dataclass(slots=True)
class Kept:
    """What an operator of the past keeps: arrays with axes (earlier step, named axes …)."""

    axes: Axes
    arrays: dict[str, Array] = field(default_factory=dict)


class Reader:
    """Reads formulas, each distinct part of them once."""

    def __init__(
        self, domain: Domain, relations: Mapping[str, Array], kinds: frozenset[Kind] = frozenset()
    ) -> None:
        """Nothing to read yet; quantifiers run over those who are there, and some strangers."""
        self.domain, self.relations, self.kinds = domain, relations, kinds
        self.order: dict[c.Axis, int] = {}
        self.slots: dict[c.Core, int] = {}
        self.axes: list[Axes] = []
        self.runs: list[Callable[[Stretch], Array]] = []
        self.values: list[Array] = []
        self.kept: dict[c.Core, Kept] = {}

    def add(self, formula: c.Core) -> int:
        """Read this, too; its place among the values."""
        free = free_axes_of_all(formula)
        for node in postorder(formula):
            if node in self.slots:
                continue
            for axis in sorted(free[node], key=str):
                self.order.setdefault(axis, len(self.order))
            axes = self._sorted(free[node])
            below = [self.slots[child] for child in children(node)]  # type: ignore[index]
            self.slots[node] = len(self.runs)
            self.axes.append(axes)
            self.runs.append(self._run(node, axes, below))
        return self.slots[formula]

    def read(self, stretch: Stretch) -> list[Array]:
        """The values of everything over some steps, which follow those read before."""
        self.values = []
        for run in self.runs:
            self.values.append(run(stretch))
        return self.values

    def grown(self, kind: Kind) -> dict[c.Core, dict[str, Array]]:
        """What is kept, with one more entity, who was a stranger of that kind."""
        return {
            node: {
                name: self.domain.grown(array, kept.axes, kind, lead=1)
                for name, array in kept.arrays.items()
            }
            for node, kept in self.kept.items()
        }

    def adopt(self, found: Mapping[c.Core, dict[str, Array]]) -> None:
        """Go on from what this or another reader of the same formulas has kept."""
        for node, arrays in found.items():
            self.kept[node].arrays = dict(arrays)

    def _sorted(self, axes: frozenset[c.Axis]) -> Axes:
        return tuple(sorted(axes, key=self.order.__getitem__))

    def _size(self, axis: c.Axis) -> int:
        if axis.relation is not None:
            return len(self.relations[axis.relation])
        return self.domain.size(str(axis.sort))

    def _run(self, node: c.Core, axes: Axes, below: list[int]) -> Callable[[Stretch], Array]:
        values = self._aligned(below, axes)
        match node:
            case c.Variable(axis, _, column):
                return lambda _: self._variable(axis, column)
            case c.Constant(name, sort):
                return lambda _: np.array([self.domain.names[sort][name]])
            case c.Number(value):
                return lambda _: np.array([value])
            case c.Apply(name):
                return lambda s: _gather(s.functions[name], values())
            case c.Atom(name, args):
                order = _plain(args, axes)
                if order is None:
                    return lambda s: _gather(s.predicates[name], values())
                return lambda s: s.predicates[name].transpose(order)
            case c.Truth(value):
                return lambda _: np.full((1,), value)
            case c.Edge(True):
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
                return self._quantifier(universal, bound, self.axes[below[-1]], below[-1])
            case c.Shift(_, steps, True, weak):
                kept = self.kept.setdefault(node, Kept(axes))
                return lambda s: _prev(self._wide(values()[0], axes, s), steps, weak, kept)
            case c.Until(dual, _, _, window, True):
                kept = self.kept.setdefault(node, Kept(axes))

                def since(stretch: Stretch) -> Array:
                    a, b = (self._wide(v, axes, stretch) for v in values())
                    found = _since(~a if dual else a, ~b if dual else b, window, stretch, kept)
                    return ~found if dual else found

                return since
        raise AssertionError(node)

    def _aligned(self, below: Sequence[int], axes: Axes) -> Callable[[], list[Array]]:
        """The operands, with a dimension for each axis."""
        indices: list[Index] = []
        for slot in below:
            own = self.axes[slot]
            indices.append((slice(None), *(slice(None) if a in own else None for a in axes)))
        plain = all(self.axes[slot] == axes for slot in below)

        def values() -> list[Array]:
            found = [self.values[slot] for slot in below]
            return found if plain else [v[i] for v, i in zip(found, indices, strict=True)]

        return values

    def _wide(self, value: Array, axes: Axes, stretch: Stretch) -> Array:
        shape = (stretch.count, *(self._size(a) for a in axes))
        return value if value.shape == shape else np.broadcast_to(value, shape)

    def _variable(self, axis: c.Axis, column: int | None) -> Array:
        if column is None:
            return np.arange(self._size(axis)).reshape(1, -1)
        assert axis.relation is not None
        found: Array = self.relations[axis.relation][:, column].reshape(1, -1)
        return found

    def _quantifier(
        self, universal: bool, bound: Axes, axes: Axes, body: int
    ) -> Callable[[Stretch], Array]:
        dims = tuple(1 + axes.index(a) for a in bound if a in axes)
        inside = [a for a in bound if a in axes]
        absent = [a for a in bound if a not in axes]

        def run(_: Stretch) -> Array:
            value = self.values[body]
            index: list[Any] = [slice(None)] * value.ndim
            for axis, dim in zip(inside, dims, strict=True):
                if axis.sort is not None:
                    index[dim] = self.domain.seen(axis.sort, self.kinds)
                    if not isinstance(index[dim], slice):
                        value = value.take(index[dim], axis=dim)
                        index[dim] = slice(None)
            value = value[tuple(index)]
            found: Array = value.all(dims) if universal else value.any(dims)
            if any(self._count(a) == 0 for a in absent):
                return np.full_like(found, universal)
            return found

        return run

    def _count(self, axis: c.Axis) -> int:
        if axis.sort is None:
            return self._size(axis)
        return len(np.arange(self._size(axis))[self.domain.seen(axis.sort, self.kinds)])


_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


def _plain(args: tuple[c.Term, ...], axes: Axes) -> tuple[int, ...] | None:
    """The order of a table's dimensions, if its arguments are different variables."""
    found = [a.axis for a in args if isinstance(a, c.Variable) and a.column is None]
    if len(found) != len(args) or len(set(found)) != len(args):
        return None
    return (0, *(1 + found.index(a) for a in axes))


def _gather(table: Array, args: Sequence[Array]) -> Array:
    rank = max((a.ndim for a in args), default=1)
    times = np.arange(len(table)).reshape(-1, *[1] * (rank - 1))
    found: Array = table[(times, *args)]
    return found


def _prev(value: Array, steps: int, weak: bool, kept: Kept) -> Array:
    """The value so many steps ago."""
    before = kept.arrays.get("values")
    count = len(value)
    whole = value if before is None else np.concatenate([before, value])
    first = len(whole) - count - steps  # where the first of these steps looks
    kept.arrays["values"] = whole[-steps:].copy()
    if first >= 0:
        return whole[first : first + count]
    missing = np.full((min(count, -first), *value.shape[1:]), weak)
    return np.concatenate([missing, whole[: max(0, count + first)]])


def _since(a: Array, b: Array, window: c.Window, stretch: Stretch, kept: Kept) -> Array:
    """Whether `b` was true inside the window, and `a` ever since.

    The best witness is the last one at least `low` steps ago. It serves if it is at most `high`
    steps ago, and not before the last time at which `a` was false.
    """
    times = np.arange(stretch.start, stretch.start + stretch.count)
    times = times.reshape(-1, *[1] * (a.ndim - 1))
    broken = _last(~a, times, kept, "broken")
    witness = _last(b, times, kept, "witness")
    if window.low > 0:
        earlier = kept.arrays.get("witnesses", witness[:0])
        whole = np.concatenate([earlier, witness])
        first = len(whole) - len(witness) - window.low
        kept.arrays["witnesses"] = whole[-window.low :].copy()
        none = np.full((max(0, min(len(witness), -first)), *witness.shape[1:]), _NEVER)
        seen = whole[max(0, first) : max(0, first + len(witness))]
        witness = np.concatenate([none, seen])
    high = ENDLESS if window.high is None else window.high
    found: Array = witness >= np.maximum(np.maximum(times - high, 0), broken)
    return found


def _last(value: Array, times: Array, kept: Kept, name: str) -> Array:
    """The last time at which something was true."""
    found = np.where(value, times, _NEVER)
    if name in kept.arrays:
        found[:1] = np.maximum(found[:1], kept.arrays[name])
    found = np.maximum.accumulate(found)
    kept.arrays[name] = found[-1:].copy()
    return found
