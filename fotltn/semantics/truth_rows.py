"""Two-valued truth stored sparsely: a base that covers most bindings, and rows for the others.

A relation is false for nearly all pairs of entities. So the truth of a formula is stored as a
*base*, which depends on few variables, and as *rows*: for each binding that differs from the base,
its truth at all time points of its trace. No tensor has an element for each pair at each time
point, unless the formula is about all of them.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.errors import LimitError
from fotltn.logic import core as c
from fotltn.logic.parts import check_axes
from fotltn.semantics.tables import Tables, Value, align, in_order

#: The number of bytes of rows that temporal operators process at once.
_AT_ONCE = 2**20

#: A temporal operator: from truth of shape (…, time) and the lengths of traces to truth.
InTime = Callable[..., Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class TruthRows:
    """The truth of a formula for every trace, binding and time point.

    Args:
        axes: the axes of a binding, ordered by name.
        base: the truth where no row says otherwise: the conjunction of these values. The axes for
            trace and time may have size 1.
        negated: whether the base is the negation of that conjunction.
        keys: the sorted numbers of the rows; a number encodes (trace, *axes).
        bits: the truth of the rows, shape (row, time).
    """

    axes: tuple[c.Axis, ...]
    base: tuple[Value, ...]
    negated: bool
    keys: Tensor
    bits: Tensor

    @property
    def never(self) -> bool:
        """Whether only rows can be true."""
        first = self.base[0]
        return not self.negated and not first.axes and not bool(first.tensor.any())

    @property
    def empty(self) -> bool:
        """Whether nothing can be true."""
        return not len(self.keys) and self.never


class Truths:
    """Operations on truth over the same tables, within a memory budget."""

    def __init__(self, tables: Tables, budget: int, what: str = "the formula") -> None:
        """Set the budget in bytes, and the name of what is evaluated for messages."""
        self.tables, self.budget, self.what = tables, budget, what
        self.device = tables.lengths.device
        self._made: list[weakref.ref[Tensor]] = []

    # --- rows and their numbers ---------------------------------------------------------------

    def sizes(self, axes: Iterable[c.Axis]) -> list[int]:
        """Return the number of places on each axis."""
        return [self.tables.size(a) for a in axes]

    def places(self, keys: Tensor, axes: Sequence[c.Axis]) -> tuple[Tensor, dict[c.Axis, Tensor]]:
        """Return the trace of each row, and its place on each axis."""
        places: dict[c.Axis, Tensor] = {}
        for axis, size in zip(reversed(axes), reversed(self.sizes(axes)), strict=True):
            places[axis] = keys % max(1, size)
            keys = keys // max(1, size)
        return keys, places

    def keys(self, trace: Tensor, places: dict[c.Axis, Tensor], axes: Sequence[c.Axis]) -> Tensor:
        """Return the numbers of rows."""
        keys = trace
        for axis, size in zip(axes, self.sizes(axes), strict=True):
            keys = keys * size + places[axis]
        return keys

    def truth(
        self,
        axes: tuple[c.Axis, ...],
        base: tuple[Value, ...],
        negated: bool,
        keys: Tensor,
        bits: Tensor,
    ) -> TruthRows:
        """Build `TruthRows`, and count their memory for as long as they are referenced."""
        self._made += [weakref.ref(t) for t in (keys, bits, *(f.tensor for f in base))]
        return TruthRows(axes, base, negated, keys, bits)

    def room(self, cells: int) -> None:
        """Raise an error if a result does not fit into the budget next to the live ones.

        Raises:
            LimitError: the live results, and the temporary memory of an operator on this many
                cells, exceed the budget.
        """
        there = {t.untyped_storage().data_ptr(): t for r in self._made if (t := r()) is not None}
        self._made = [weakref.ref(t) for t in there.values()]
        needed = sum(t.untyped_storage().nbytes() for t in there.values()) + 3 * cells
        if needed > self.budget:
            raise LimitError(
                f"{self.what} needs {needed:,} bytes, more than the budget of {self.budget:,}; "
                "evaluate it on fewer entities, or give it a larger budget"
            )

    def _rowless(
        self, axes: tuple[c.Axis, ...], base: tuple[Value, ...], negated: bool
    ) -> TruthRows:
        keys = torch.zeros(0, dtype=torch.int64, device=self.device)
        bits = torch.zeros(0, self.tables.horizon, dtype=torch.bool, device=self.device)
        return self.truth(axes, base, negated, keys, bits)

    def dense(self, value: Value) -> TruthRows:
        """Return truth that is stored for every binding."""
        return self._rowless(in_order(value.axes), (value,), False)

    def constant(self, truth: bool) -> Value:
        """Return the same truth for every cell."""
        return Value((), torch.full((1, 1), truth, device=self.device))

    def rows(
        self, axes: tuple[c.Axis, ...], base: bool, keys: Tensor, bits: Tensor, *, distinct: bool
    ) -> TruthRows:
        """Build truth from unsorted rows over a constant base; equal keys are joined by "or"."""
        if not distinct:
            keys, group = keys.unique(return_inverse=True)
            bits = _by_group(bits, group, torch.bitwise_or)
        else:
            keys, order = keys.sort()
            bits = bits[order]
        differ = (bits != base).any(1)
        return self.made(
            self.truth(axes, (self.constant(base),), False, keys[differ], bits[differ])
        )

    def made(self, u: TruthRows) -> TruthRows:
        """Store truth about a single variable densely, which costs no more than its table."""
        return u if len(u.axes) > 1 or not len(u.keys) else self.dense(self.laid_out(u))

    def base_at(self, u: TruthRows, trace: Tensor, places: dict[c.Axis, Tensor]) -> Tensor:
        """Return the base at some rows, shape (row, time)."""
        result: Tensor | None = None
        for axes, tensor in u.base:
            at = trace if tensor.shape[0] > 1 else torch.zeros_like(trace)
            here = tensor[(at, *(places[a] for a in axes))]
            result = here if result is None else result & here
        assert result is not None
        return (~result if u.negated else result).expand(len(trace), self.tables.horizon)

    def at(self, u: TruthRows, keys: Tensor, axes: Sequence[c.Axis]) -> Tensor:
        """Return the truth at rows that have at least its axes, shape (row, time)."""
        self.room(len(keys) * self.tables.horizon)
        if u.axes == tuple(axes) and keys is u.keys:
            return u.bits
        trace, places = self.places(keys, axes)
        truth = self.base_at(u, trace, places)
        if not len(u.keys):
            return truth
        numbers = self.keys(trace, places, u.axes)
        row = torch.searchsorted(u.keys, numbers).clamp(max=len(u.keys) - 1)
        known = u.keys[row] == numbers
        return torch.where(known.unsqueeze(-1), u.bits[row], truth)

    def at_point(self, u: TruthRows, axes: Sequence[c.Axis], trace: int, time: int) -> Tensor:
        """Return the truth of every binding at one time point, with the axes in the order given."""
        shape = self.sizes(u.axes)
        self.room(math.prod(shape))
        full = torch.ones(shape, dtype=torch.bool, device=self.device)
        for here, tensor in u.base:
            at = (trace if tensor.shape[0] > 1 else 0, ..., time if tensor.shape[-1] > 1 else 0)
            _, (_, factor) = align([
                Value(u.axes, torch.empty((1, *shape, 1), device="meta")),
                Value(here, tensor[at].reshape(1, *tensor.shape[1:-1], 1)),
            ])  # fmt: skip
            full &= factor.reshape(factor.shape[1:-1])
        full = ~full if u.negated else full
        start, many = trace * math.prod(shape), math.prod(shape)
        mine = (u.keys >= start) & (u.keys < start + many)
        full.view(-1)[u.keys[mine] - start] = u.bits[mine, time]
        return full.permute([u.axes.index(a) for a in axes])

    def spread(self, u: TruthRows, axes: tuple[c.Axis, ...]) -> TruthRows:
        """Add a row for each place on the axes that are missing."""
        lacking = [a for a in axes if a not in u.axes]
        if not lacking or not len(u.keys):
            return self.truth(axes, u.base, u.negated, u.keys, u.bits)
        many = math.prod(self.sizes(lacking))
        self.room(len(u.keys) * many * self.tables.horizon)
        trace, places = self.places(u.keys, u.axes)
        every = torch.arange(many, device=self.device)
        for axis in reversed(lacking):
            places[axis] = (every % self.tables.size(axis)).repeat(len(u.keys))
            every = every // self.tables.size(axis)
        for axis in u.axes:
            places[axis] = places[axis].repeat_interleave(many)
        keys, order = self.keys(trace.repeat_interleave(many), places, axes).sort()
        return self.truth(axes, u.base, u.negated, keys, u.bits.repeat_interleave(many, 0)[order])

    def laid_out(self, u: TruthRows) -> Value:
        """Return the truth of every binding, shape (trace, *axes, time)."""
        value = self._solid(u)
        if not len(u.keys):
            return Value(value.axes, self.tables.everywhere(value.tensor))
        shape = (self.tables.batch, *self.sizes(u.axes), self.tables.horizon)
        self.room(math.prod(shape))
        _, (_, tensor) = align([Value(u.axes, torch.empty(shape, device="meta")), value])
        full = tensor.expand(shape).clone()
        full.reshape(-1, shape[-1])[u.keys] = u.bits
        return Value(u.axes, full)

    def _solid(self, u: TruthRows) -> Value:
        """Return the base as one table."""
        axes, tensors = align(u.base)
        if len(tensors) > 1:
            self.room(math.prod(self.sizes(axes)) * self.tables.batch * self.tables.horizon)
        truth = tensors[0]
        for tensor in tensors[1:]:
            truth = truth & tensor
        return Value(axes, ~truth if u.negated else truth)

    # --- connectives --------------------------------------------------------------------------

    def negate(self, u: TruthRows) -> TruthRows:
        """Return the truth of the negation."""
        if len(u.base) == 1:
            return self.truth(u.axes, (_not(u.base[0]),), False, u.keys, ~u.bits)
        return self.truth(u.axes, u.base, not u.negated, u.keys, ~u.bits)

    def both(self, u: TruthRows, v: TruthRows) -> TruthRows:
        """Return the truth of the conjunction."""
        if v.never and not (u.never and set(v.axes) <= set(u.axes)):
            u, v = v, u
        axes = in_order({*u.axes, *v.axes})
        if not u.never:
            u, v = self.spread(u, axes), self.spread(v, axes)
            keys = torch.cat([u.keys, v.keys]).unique()
            bits = self.at(u, keys, axes) & self.at(v, keys, axes)
            return self.truth(axes, *self._both_bases(u, v), keys, bits)
        if axes != u.axes:
            if v.never:
                return self._joined(u, v, axes)
            u = self.spread(u, axes)
        bits = u.bits & self.at(v, u.keys, axes)
        true = bits.any(1)
        return self.truth(axes, u.base, False, u.keys[true], bits[true])

    def _both_bases(self, u: TruthRows, v: TruthRows) -> tuple[tuple[Value, ...], bool]:
        factors = [*((self._solid(u),) if u.negated else u.base)]
        factors += [*((self._solid(v),) if v.negated else v.base)]
        factors.sort(key=lambda factor: -len(factor.axes))
        merged: list[Value] = []
        for factor in factors:  # factors about the same variables are merged
            for number, other in enumerate(merged):
                if set(factor.axes) <= set(other.axes):
                    axes, (a, b) = align([other, factor])
                    merged[number] = Value(axes, a & b)
                    break
            else:
                merged.append(factor)
        return tuple(merged), False

    def _joined(self, u: TruthRows, v: TruthRows, axes: tuple[c.Axis, ...]) -> TruthRows:
        """Join pairs of rows that agree on the axes they share."""
        shared = [a for a in u.axes if a in v.axes]
        (trace, places), (v_trace, v_places) = (self.places(w.keys, w.axes) for w in (u, v))
        ours, theirs = self.keys(trace, places, shared), self.keys(v_trace, v_places, shared)
        theirs, order = theirs.sort()
        first, after = (torch.searchsorted(theirs, ours, right=right) for right in (False, True))
        many = after - first
        self.room(int(many.sum()) * self.tables.horizon)
        left = torch.arange(len(ours), device=self.device).repeat_interleave(many)
        start = (many.cumsum(0) - many).repeat_interleave(many)
        right = order[first[left] + torch.arange(len(left), device=self.device) - start]
        chosen = {a: p[left] for a, p in places.items()}
        chosen |= {a: p[right] for a, p in v_places.items() if a not in chosen}
        keys = self.keys(trace[left], chosen, axes)
        return self.rows(axes, False, keys, u.bits[left] & v.bits[right], distinct=True)

    # --- quantifiers --------------------------------------------------------------------------

    def some(self, u: TruthRows, bound: Sequence[c.Axis]) -> TruthRows:
        """Return where it is true for some place on the bound axes."""
        free = tuple(a for a in u.axes if a not in bound)
        if 0 in self.sizes(bound):
            return self._rowless(free, (self.constant(False),), False)
        mine = [a for a in bound if a in u.axes]
        if not mine:
            return u
        trace, places = self.places(u.keys, u.axes)
        keys = self.keys(trace, places, free)
        if u.never:
            return self.rows(free, False, keys, u.bits, distinct=False)
        axes, number = self._how_many(u, mine)
        base = (Value(axes, number > 0),)
        if not len(keys):
            return self.truth(free, base, False, keys, u.bits)
        groups, group = keys.unique(return_inverse=True)
        self.room(4 * len(groups) * self.tables.horizon)
        more = u.bits.to(torch.int8) - self.base_at(u, trace, places).to(torch.int8)
        more = _by_group(more, group, lambda a, b: a.to(torch.int32) + b)
        trace, places = self.places(groups, free)
        at = trace if number.shape[0] > 1 else torch.zeros_like(trace)
        bits = number[(at, *(places[a] for a in axes))] + more > 0
        return self.made(self.truth(free, base, False, groups, bits))

    def _how_many(self, u: TruthRows, bound: list[c.Axis]) -> Value:
        """Count the places on the bound axes for which the base is true."""
        inside = {a for factor in u.base for a in factor.axes}
        free = [a for a in u.axes if a in inside and a not in bound]
        if len(u.base) == 1:
            axes, tensor = u.base[0]
            dims = [1 + axes.index(a) for a in bound if a in axes]
            total = tensor.sum(dims, dtype=torch.int32) if dims else tensor.to(torch.int32)
            free = [a for a in axes if a not in bound]
        else:
            check_axes(len(u.axes), self.what)
            places = {a: i for i, a in enumerate(u.axes, start=2)}  # traces are 0, time is 1
            terms: list[Tensor | list[int]] = []
            for axes, tensor in u.base:
                terms.append(self.tables.everywhere(tensor).to(torch.float64))
                terms.append([0, *(places[a] for a in axes), 1])
            total = torch.einsum(*terms, [0, *(places[a] for a in free), 1]).to(torch.int64)
        total = total * math.prod(self.sizes(a for a in bound if a not in inside))
        return Value(tuple(free), math.prod(self.sizes(bound)) - total if u.negated else total)

    def count(self, u: TruthRows, axes: Sequence[c.Axis]) -> Tensor:
        """Count the bindings of the axes for which it is true, shape (trace, time)."""
        shape = (self.tables.batch, self.tables.horizon)
        lacking = math.prod(self.sizes(a for a in axes if a not in u.axes))
        total = torch.zeros(shape, dtype=torch.int64, device=self.device)
        if not u.never:
            total = total + self._how_many(u, list(u.axes)).tensor
        trace, places = self.places(u.keys, u.axes)
        bits = u.bits.to(torch.int64)
        if not u.never:
            bits = bits - self.base_at(u, trace, places).to(torch.int64)
        return total.index_add(0, trace, bits) * lacking

    # --- time ---------------------------------------------------------------------------------

    def over_time(self, operator: InTime, *parts: TruthRows) -> TruthRows:
        """Apply a temporal operator to the base and the rows alike."""
        axes = in_order({a for u in parts for a in u.axes})
        lengths = self.tables.lengths
        spread = [self.spread(u, axes) for u in parts]
        base_axes, tensors = align([self._solid(u) for u in parts])
        self.room(math.prod(self.sizes(base_axes)) * self.tables.batch * self.tables.horizon)
        full = torch.broadcast_tensors(*map(self.tables.everywhere, tensors))
        base = Value(base_axes, operator(*full, lengths))
        keys = spread[0].keys
        if len(spread) > 1:
            keys = torch.cat([u.keys for u in spread]).unique()
        if not len(keys):
            return self.truth(axes, (base,), False, keys, spread[0].bits[:0])
        trace, _ = self.places(keys, axes)
        bits = torch.empty(len(keys), self.tables.horizon, dtype=torch.bool, device=self.device)
        many = max(1, _AT_ONCE // self.tables.horizon)
        for start in range(0, len(keys), many):
            part = slice(start, start + many)
            values = [self.at(u, keys[part], axes) for u in spread]
            bits[part] = operator(*values, lengths[trace[part]])
        return self.truth(axes, (base,), False, keys, bits)


def _not(value: Value) -> Value:
    return Value(value.axes, ~value.tensor)


def _by_group(rows: Tensor, group: Tensor, operation: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Combine the rows of each group, by pairs, then pairs of pairs, and so on.

    Groups are numbered from 0, and none is empty.
    """
    group, order = group.sort(stable=True)
    while True:
        first = torch.searchsorted(group, group)
        even = ((torch.arange(len(group), device=group.device) - first) % 2 == 0).nonzero()[:, 0]
        after = (even + 1).clamp(max=len(group) - 1)
        paired = (group[after] == group[even]) & (after > even)
        if not bool(paired.any()):
            return rows[order]
        halved = rows[order[even]]
        both = operation(halved[paired], rows[order[after[paired]]])
        halved = halved.to(both.dtype)
        halved[paired] = both
        rows, group = halved, group[even]
        order = torch.arange(len(group), device=group.device)
