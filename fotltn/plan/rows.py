"""Estimate the cost of two-valued logic by rows of facts, from sizes alone.

This mirrors the operations of `semantics/truth_rows.py`, on numbers of rows and cells instead of
tensors. It is unknown how many bindings the facts are about: they are assumed to be spread at
random. Blocks of memory are objects here as well, so they are freed when Python would free the
tensors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from fotltn.logic import core as c
from fotltn.logic.parts import free_axes
from fotltn.plan.sizes import Sizes
from fotltn.plan.work import LARGE, Kind
from fotltn.tree import fold

Axes = frozenset[c.Axis]
_NONE: Axes = frozenset()


@dataclass(slots=True, eq=False)
class _PeakMemory:
    live: int = 0
    peak: int = 0

    def passing(self, number: int) -> None:
        """Note a temporary use of memory on top of what is live."""
        self.peak = max(self.peak, self.live + number)


class _Block:
    """Some bytes that are live as long as the object is referenced."""

    __slots__ = ("memory", "number")

    def __init__(self, memory: _PeakMemory, number: int) -> None:
        self.memory, self.number = memory, number
        memory.live += number
        memory.passing(0)

    def __del__(self) -> None:
        self.memory.live -= self.number


@dataclass(frozen=True, slots=True, eq=False)
class _Base:
    """A factor of a base: its axes, and whether it changes over time."""

    axes: Axes
    timed: bool
    block: _Block


@dataclass(frozen=True, slots=True, eq=False)
class _TruthSize:
    """The truth of a formula: how many rows differ from its base.

    Args:
        axes: the axes of a binding.
        base: the tables whose conjunction holds where no row says otherwise.
        negated: whether the base is the negation of that conjunction.
        rows: the number of rows.
        keys: the memory of the row numbers.
        bits: the memory of the truth of the rows.
        constant: the base, if it is true or false everywhere.
        share: the share of bindings for which the base is ever true, if known; a table that does
            not change over time is assumed to be true for one half.
    """

    axes: Axes
    base: tuple[_Base, ...]
    negated: bool
    rows: int
    keys: _Block
    bits: _Block
    constant: bool | None = None
    share: float = 1.0

    @property
    def never(self) -> bool:
        """Whether only rows can be true."""
        return self.constant is False


@dataclass(frozen=True, slots=True)
class RowCost:
    """The peak memory in bytes, and the amount of work."""

    peak: int
    work: Counter[Kind]


def row_cost(formula: c.Formula, sizes: Sizes, *, static: Collection[str] = ()) -> RowCost:
    """Return the cost of the truth of a formula at every binding of its free variables.

    Args:
        formula: the formula.
        sizes: the sizes of everything, and the predicates that are facts.
        static: the predicates, given as tables, that do not change over time.
    """
    rows = _RowCosts(sizes, frozenset(static))

    def visit(node: c.AnyTerm | c.AnyFormula, below: list[_TruthSize | None]) -> _TruthSize | None:
        if isinstance(node, c.Variable | c.Constant | c.Number | c.Apply):
            return None
        rows.work[Kind.ROW_CALL] += 7
        return rows.visit(node, [truth for truth in below if truth is not None])

    result = fold(formula, visit)
    assert result is not None
    rows.laid_out(result)
    return RowCost(rows.memory.peak, rows.work)


class _RowCosts:
    def __init__(self, sizes: Sizes, static: frozenset[str]) -> None:
        self.sizes, self.static = sizes, static
        self.memory, self.work = _PeakMemory(), Counter[Kind]()

    # --- numbers ------------------------------------------------------------------------------

    def cells(self, axes: Iterable[c.Axis], *, timed: bool) -> int:
        return self.sizes.cells(axes, timed)

    def spread_out(self, axes: Axes, number: float) -> int:
        """Estimate how many bindings a number of randomly spread facts is about."""
        places = self.cells(axes, timed=False)
        return math.ceil(places * -math.expm1(-number / places)) if places else 0

    def held(self, number: int) -> _Block:
        return _Block(self.memory, number)

    def passing(self, rows: int, bytes_each: float) -> None:
        """Note an operation on rows at all time points, with temporary bytes for each of them."""
        bits = rows * self.sizes.horizon
        self.memory.passing(math.ceil(bits * bytes_each))
        self.write(bits, 1 + bytes_each)
        self.work[Kind.ROW_CALL] += 8 if rows else 0

    def write(self, bits: int, times: float) -> None:
        self.work[Kind.NEW_BYTE if bits > LARGE else Kind.BIT] += math.ceil(bits * times)

    def rows(
        self,
        axes: Axes,
        base: tuple[_Base, ...],
        number: int,
        *,
        negated: bool = False,
        constant: bool | None = None,
        share: float = 1.0,
    ) -> _TruthSize:
        keys, bits = self.held(8 * number), self.held(number * self.sizes.horizon)
        return _TruthSize(axes, base, negated, number, keys, bits, constant, share)

    def dense(self, axes: Axes, *, timed: bool) -> _TruthSize:
        """Return truth that is stored for each binding."""
        base = (self.base(axes, timed=timed),)
        return self.rows(axes, base, 0, share=1.0 if timed else 0.5)

    def base(self, axes: Axes, *, timed: bool, bytes_each: float = 0.0) -> _Base:
        number = self.cells(axes, timed=timed)
        self.memory.passing(math.ceil(number * (1 + bytes_each)))
        self.write(number, 1 + bytes_each)
        self.work[Kind.ROW_CALL] += 2
        return _Base(axes, timed, self.held(number))

    def constant(self) -> tuple[_Base, ...]:
        return (_Base(_NONE, False, self.held(1)),)

    def made(self, u: _TruthSize) -> _TruthSize:
        return u if len(u.axes) > 1 or not u.rows else self.dense(u.axes, timed=True)

    def laid_out(self, u: _TruthSize) -> None:
        """Note the dense result of a formula with free variables."""
        if u.rows:
            self.base(u.axes, timed=True)

    # --- operations ---------------------------------------------------------------------------

    def visit(self, node: c.AnyFormula, parts: list[_TruthSize]) -> _TruthSize:
        match node:
            case c.Truth(value):
                return self.rows(_NONE, self.constant(), 0, constant=value)
            case c.Edge():
                return self.dense(_NONE, timed=True)
            case c.Atom():
                return self.atom(node)
            case c.Equal() | c.Compare():
                return self.dense(free_axes(node), timed=False)
            case c.Not():
                return self.negate(parts[0])
            case c.And():
                return self.both(*parts)
            case c.Or():
                return self.negate(self.both(*map(self.negate, parts)))
            case c.Implies():
                return self.negate(self.both(parts[0], self.negate(parts[1])))
            case c.Quantifier(universal, bound):
                *guards, u = parts
                u = self.negate(u) if universal else u
                for guard in guards:
                    u = self.both(guard, u)
                some = self.some(u, frozenset(bound))
                return self.negate(some) if universal else some
            case c.Shift(_, _, _, weak):
                return self.over_time(parts, 1, weak, at_once=False)
            case c.Aggregate(universal, _, window):
                times = self.doublings(window)
                return self.over_time(parts, times, universal, at_once=window.low == 0)
            case c.Until(dual, _, _, window):
                times = 2 * self.doublings(window)
                return self.over_time(parts, times, dual, at_once=window.low == 0)
            case _:
                assert_never(node)

    def doublings(self, window: c.Window) -> int:
        last = self.sizes.horizon - 1
        last = last if window.high is None else min(window.high, last)
        return 1 + math.ceil(math.log2(max(1, last - window.low + 1)))

    def atom(self, atom: c.Atom) -> _TruthSize:
        name, axes = atom.predicate, free_axes(atom)
        if name not in self.sizes.sparse:
            return self.dense(axes, timed=name not in self.static)
        table = self.sizes.sparse[name]
        plain = [a for a in atom.args if isinstance(a, c.Variable) and a.column is None]
        self.work[Kind.SORTED] += table.facts
        if not len(plain) == len(atom.args) == len(axes):
            self.memory.passing(8 * table.facts * (2 + len(atom.args)))
            return self.dense(axes, timed=table.temporal)
        number = self.spread_out(axes, table.facts)
        self.memory.passing(8 * table.facts * (6 + len(axes)) + 8 * number)
        self.passing(number, 0)
        return self.made(self.rows(axes, self.constant(), number, constant=False))

    def negate(self, u: _TruthSize) -> _TruthSize:
        self.passing(u.rows, 0)
        bits = self.held(u.rows * self.sizes.horizon)
        if len(u.base) == 1:
            (only,) = u.base
            base = (self.base(only.axes, timed=only.timed),)
            constant = None if u.constant is None else not u.constant
            share = 1.0 if only.timed else 1 - u.share
            return replace(u, base=base, bits=bits, constant=constant, share=share)
        return replace(u, negated=not u.negated, bits=bits, share=1.0)

    def both(self, u: _TruthSize, v: _TruthSize) -> _TruthSize:
        if v.never and not (u.never and v.axes <= u.axes):
            u, v = v, u
        axes = u.axes | v.axes
        if not u.never:
            u, v = self.spread(u, axes), self.spread(v, axes)
            number = min(u.rows + v.rows, self.cells(axes, timed=False))
            self.work[Kind.SORTED] += u.rows + v.rows
            self.passing(number, self.looking(u) + self.looking(v))
            self.passing(number, 3)
            constant = True if u.constant and v.constant else None
            base = self.both_bases(u, v)
            return self.rows(axes, base, number, constant=constant, share=u.share * v.share)
        if axes != u.axes:
            if v.never:
                return self.joined(u, v, axes)
            u = self.spread(u, axes)
        self.passing(u.rows, 1 + self.looking(v))
        if v.rows:  # each row is searched for, and its truth selected
            self.passing(u.rows, 3)
        number = min(u.rows, v.rows) if v.never else math.ceil(u.rows * v.share)
        before = self.held(u.rows * self.sizes.horizon)  # rows that are never true are then dropped
        result = self.rows(axes, u.base, number, constant=False)
        del before
        return result

    def looking(self, u: _TruthSize) -> float:
        """Return the bytes per bit of a lookup in the base, in the rows, or in both."""
        return (2.0 if u.rows else 0.0) + (1.0 if any(b.axes for b in u.base) else 0.0)

    def both_bases(self, u: _TruthSize, v: _TruthSize) -> tuple[_Base, ...]:
        factors = [*((self.solid(u),) if u.negated else u.base)]
        factors += [*((self.solid(v),) if v.negated else v.base)]
        factors.sort(key=lambda factor: -len(factor.axes))
        merged: list[_Base] = []
        for factor in factors:
            for number, other in enumerate(merged):
                if factor.axes <= other.axes:
                    merged[number] = self.base(other.axes, timed=other.timed or factor.timed)
                    break
            else:
                merged.append(factor)
        return tuple(merged)

    def solid(self, u: _TruthSize) -> _Base:
        """Return a base as one table."""
        if len(u.base) == 1:
            return u.base[0]
        axes = _NONE.union(*(b.axes for b in u.base))
        return self.base(axes, timed=any(b.timed for b in u.base), bytes_each=1.0)

    def spread(self, u: _TruthSize, axes: Axes) -> _TruthSize:
        if axes == u.axes or not u.rows:
            return replace(u, axes=axes)
        number = u.rows * math.prod(self.sizes.axis(a) for a in axes - u.axes)
        self.passing(number, 1)
        self.work[Kind.SORTED] += number
        return self.rows(
            axes, u.base, number, negated=u.negated, constant=u.constant, share=u.share
        )

    def joined(self, u: _TruthSize, v: _TruthSize, axes: Axes) -> _TruthSize:
        groups = self.cells(u.axes & v.axes, timed=False)
        number = math.ceil(u.rows * v.rows / max(1, groups))
        self.work[Kind.SORTED] += u.rows + v.rows + number
        self.memory.passing(8 * number * (4 + len(axes)))
        self.passing(number, 3)
        return self.made(self.rows(axes, self.constant(), number, constant=False))

    def some(self, u: _TruthSize, bound: Axes) -> _TruthSize:
        free, mine = u.axes - bound, u.axes & bound
        if not mine:
            return u
        number = self.spread_out(free, u.rows)
        self.work[Kind.SORTED] += u.rows
        self.work[Kind.ROW_CALL] += 10 * u.rows.bit_length()
        if u.never:
            self.passing(u.rows, 2)
            return self.made(self.rows(free, self.constant(), number, constant=False))
        base = (self.how_many(u, mine),)
        if u.rows:
            self.passing(u.rows, 6)
        return self.made(self.rows(free, base, number, constant=u.constant))

    def how_many(self, u: _TruthSize, bound: Axes) -> _Base:
        """Count the places on the bound axes for which a base is true, and compare with 0."""
        axes = _NONE.union(*(b.axes for b in u.base)) - bound
        timed = any(b.timed for b in u.base)
        width = 4 if len(u.base) == 1 else 8
        if len(u.base) > 1:
            every = sum(self.cells(b.axes, timed=True) for b in u.base)
            self.memory.passing(8 * every)
            self.work[Kind.REDUCED] += 2 * every
            letters = _NONE.union(*(b.axes for b in u.base))
            self.work[Kind.PRODUCT] += self.cells(letters, timed=True)
        else:
            (only,) = u.base
            number = self.cells(only.axes, timed=only.timed)
            self.work[Kind.REDUCED] += number
            self.memory.passing(4 * number)
        counted = self.held(width * self.cells(axes, timed=timed))
        result = self.base(axes, timed=timed)
        del counted
        return result

    def over_time(
        self, parts: list[_TruthSize], times: int, outside: bool, *, at_once: bool
    ) -> _TruthSize:
        """Note a temporal operator: its number of passes over all points, its value over none."""
        axes = _NONE.union(*(u.axes for u in parts))
        spread = [self.spread(u, axes) for u in parts]
        solid = [self.solid(u) for u in parts]
        about = _NONE.union(*(b.axes for b in solid))
        base = self.base(about, timed=True, bytes_each=3.0)
        number = min(sum(u.rows for u in spread), self.cells(axes, timed=False))
        bits = number * self.sizes.horizon
        cells = self.cells(about, timed=True)
        self.work[Kind.SWEPT] += 3 * times * bits
        self.write(bits, 1)
        self.write(cells, 3 * times)
        self.work[Kind.ROW_CALL] += 4 * times * (1 + bits // 2**20)
        if len(parts) > 1:
            self.work[Kind.SORTED] += number
        self.memory.passing(min(bits, 2**20) * (4 + len(parts)) + bits + 32 * number)
        last = parts[-1].constant
        constant = last if last == outside or at_once else None
        return self.rows(axes, (base,), number, constant=constant, share=parts[-1].share)
