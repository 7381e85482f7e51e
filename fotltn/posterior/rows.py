"""Formulas over rows of bindings, in many worlds at once.

A row is a trace and an entity for each variable. A quantifier has rows beneath each row: only those
that given facts do not decide, so that the cost follows the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_, or_
from typing import assert_never

import torch
from torch import Tensor

from fotltn.errors import LimitError
from fotltn.logic import core as c
from fotltn.logic.parts import predicates_in
from fotltn.posterior.clauses import decisive, is_node, number_of, pieces
from fotltn.posterior.stated import FactJoin, StatedFacts, stated
from fotltn.semantics import crisp
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables, within
from fotltn.tree import postorder

#: The most cells beneath a quantifier that are computed at once.
_CELLS_AT_ONCE = 1 << 26

#: The most rows beneath a quantifier.
MOST_ROWS = 1 << 24

#: With so many values, a loop over rows beneath is faster than a sum, unless a row has more rows
#: beneath than the second number, or values are read more often than the third.
_MANY_VALUES, _MOST_BENEATH, _MOST_REPEATED = 1 << 20, 256, 4


@dataclass(slots=True, eq=False)
class Bindings:
    """Rows: bindings of variables in traces.

    Args:
        trace: the number of the trace of each row.
        places: for each variable, the place on its axis.
        parent: the row above each row, for rows beneath a quantifier.
        cache: truth that is the same in all worlds, by formula.
        below: the rows beneath quantifiers.
    """

    trace: Tensor
    places: dict[c.Axis, Tensor]
    parent: Tensor | None = None
    cache: dict[c.Core, Tensor] = field(default_factory=dict)
    below: dict[c.Core, Bindings] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.trace.shape[0]

    def take(self, index: Tensor) -> Bindings:
        """Take some rows."""
        parent = None if self.parent is None else self.parent[index]
        return Bindings(self.trace[index], {a: p[index] for a, p in self.places.items()}, parent)


def all_rows(tables: Tables, axes: Sequence[c.Axis]) -> Bindings:
    """Make every binding of some variables in every trace, sorted by trace."""
    sizes = [tables.batch, *(tables.full_size(a) for a in axes)]
    device = tables.lengths.device
    count = 1
    for size in sizes:
        count *= size
    if count > MOST_ROWS:
        raise LimitError(f"{count:,} bindings are more than {MOST_ROWS:,}")
    numbers = torch.arange(count, device=device)
    parts: list[Tensor] = []
    for size in reversed(sizes):
        parts.append(numbers % size)
        numbers = numbers // size
    trace, *places = reversed(parts)
    return Bindings(trace, dict(zip(axes, places, strict=True)))


class RowTruth:
    """Evaluates formulas in normal form over rows.

    Attributes:
        tables: the given facts.
        varying: the predicates whose tables differ between worlds, with axes (world, trace,
            arguments …, time).
    """

    def __init__(self, tables: Tables, varying: Sequence[str]) -> None:
        """Evaluate over some tables, with predicates that vary between worlds."""
        self.tables, self.varying = tables, frozenset(varying)
        self.times = tables.times
        self._flags: dict[str, Tensor | StatedFacts] = {}
        self._varies: dict[c.Core, bool] = {}

    def varies(self, node: c.Core) -> bool:
        """Whether a formula may differ between worlds."""
        if node not in self._varies:
            self._varies[node] = bool(predicates_in(node) & self.varying)
        return self._varies[node]

    def flags(self, name: str) -> Tensor | StatedFacts:
        """The table of a given predicate as truth values, with axes (trace, arguments …, time)."""
        if name not in self._flags:
            table = self.tables.table(name)
            facts = stated(name, table) if isinstance(table, SparseTable) else None
            self._flags[name] = facts or crisp.true(name, self.tables.predicate(name), None)
        return self._flags[name]

    def lengths(self, rows: Bindings) -> Tensor:
        """The number of time points of the trace of each row."""
        return self.tables.lengths[rows.trace]

    # --- terms ---

    def numbers(self, term: c.Term, rows: Bindings) -> Tensor:
        """The entity numbers (or numbers) of a term, with axes (row, time), or one time point."""
        if isinstance(term, c.Variable):
            places, axis = rows.places[term.axis], term.axis
            if term.column is not None:
                assert axis.relation is not None
                column = self.tables.relation(axis.relation)[:, term.column]
                places = column.to(places.device)[places]
            return places.unsqueeze(-1)
        if isinstance(term, c.Apply):
            args = [self.numbers(a, rows) for a in term.args]
            return self._gathered(self.tables.function(term.function), args, rows)
        number: float | None
        if isinstance(term, c.Constant):
            number = number_of(term)
            number = self.tables.constant(term) if number is None else number
            return rows.trace.new_full((len(rows), 1), number)
        assert isinstance(term, c.Number)
        shape, device = (len(rows), 1), rows.trace.device
        return torch.full(shape, term.value, dtype=torch.float64, device=device)

    def _gathered(
        self, table: Tensor | StatedFacts, args: Sequence[Tensor], rows: Bindings
    ) -> Tensor:
        """The values of a given table at terms, with axes (row, time)."""
        trace = rows.trace if table.shape[0] > 1 else torch.zeros_like(rows.trace)
        if all(a.shape[-1] == 1 for a in args):
            index = (trace, *(a[:, 0] for a in args))
            return table.at(index) if isinstance(table, StatedFacts) else table[index]
        length = (table.truth if isinstance(table, StatedFacts) else table).shape[-1]
        times = self.times if length > 1 else torch.zeros_like(self.times)
        index = (trace.unsqueeze(-1), *args)
        if isinstance(table, StatedFacts):
            return table.at(index, times)
        return table[(*index, times)]

    def _atom(self, node: c.Atom, rows: Bindings, worlds: Mapping[str, Tensor]) -> Tensor:
        args = [self.numbers(a, rows) for a in node.args]
        if node.predicate not in self.varying:
            return self._gathered(self.flags(node.predicate), args, rows).unsqueeze(0)
        table = worlds[node.predicate]
        if all(a.shape[-1] == 1 for a in args):
            return at_index(table, rows.trace, *(a[:, 0] for a in args))
        times = self.times if table.shape[-1] > 1 else torch.zeros_like(self.times)
        return at_index(table, rows.trace.unsqueeze(-1), *args, times)

    # --- formulas ---

    def truth(self, node: c.Formula, rows: Bindings, worlds: Mapping[str, Tensor]) -> Tensor:
        """The truth of a formula, with axes (world, row, time); each may have size one."""
        return self._truth(node, rows, worlds, {})

    def _truth(
        self,
        node: c.Formula,
        rows: Bindings,
        worlds: Mapping[str, Tensor],
        memo: dict[object, Tensor],
    ) -> Tensor:
        varies = self.varies(node)
        if not varies and node in rows.cache:
            return rows.cache[node]
        if (key := (node, id(rows))) in memo:
            return memo[key]
        value = self._value(node, rows, worlds, memo)
        if not varies:
            rows.cache[node] = value
        else:
            memo[key] = value
        return value

    def _value(
        self,
        node: c.Formula,
        rows: Bindings,
        worlds: Mapping[str, Tensor],
        memo: dict[object, Tensor],
    ) -> Tensor:
        def at(part: c.Formula) -> Tensor:
            return self._truth(part, rows, worlds, memo)

        match is_node(node):
            case c.Truth(constant):
                return torch.full((1, 1, 1), constant, device=rows.trace.device)
            case c.Edge(past):
                return self.tables.edge(past)[rows.trace].unsqueeze(0)
            case c.Atom() as atom:
                return self._atom(atom, rows, worlds)
            case c.Equal(left, right):
                pair = crisp.alike(self.numbers(left, rows), self.numbers(right, rows))
                return torch.eq(*pair).unsqueeze(0)
            case c.Compare(op, left, right):
                a, b = self.numbers(left, rows), self.numbers(right, rows)
                return crisp.compare(op, a, b).unsqueeze(0)
            case c.Not(arg):
                return ~at(arg)
            case c.And() | c.Or() as both:
                kind, join = (c.And, and_) if isinstance(both, c.And) else (c.Or, or_)
                return reduce(join, map(at, pieces(both, kind)))
            case c.Quantifier(universal, _, _, body) as quantifier:
                inner = self.beneath(quantifier, rows)
                value = self._truth(body, inner, worlds, memo)
                if inner.parent is None or not len(inner):
                    return torch.full((1, 1, 1), universal, device=rows.trace.device)
                some = some_beneath(~value if universal else value, inner.parent, len(rows))
                return ~some if universal else some
            case c.Shift(arg, steps, past, weak):
                value = self.in_full(at(arg), rows)
                lengths = self.lengths(rows)
                return _by_row(lambda u: crisp.shift(u, steps, past, weak, lengths), value)
            case c.Until(dual, left, right, window, past):
                a, b = self.in_full(at(left), rows), self.in_full(at(right), rows)
                a, b = torch.broadcast_tensors(a, b)
                lengths = self.lengths(rows)
                if dual:
                    a, b = ~a, ~b
                joined = torch.stack([a, b])
                reached = _by_row(
                    lambda u: crisp.until(u[:, 0], u[:, 1], window, past, lengths), joined
                )
                return ~reached if dual else reached
            case c.Implies() | c.Aggregate():
                raise AssertionError(node)
            case never:
                assert_never(never)

    def in_full(self, value: Tensor, rows: Bindings) -> Tensor:
        """Expand a value to all rows and time points."""
        return value.expand(value.shape[0], len(rows), self.tables.horizon)

    def beneath(self, node: c.Quantifier, rows: Bindings) -> Bindings:
        """The rows beneath a quantifier that given facts leave open."""
        if node not in rows.below:
            rows.below[node] = self._beneath(node, rows)
        return rows.below[node]

    def instances(self, axes: Sequence[c.Axis], body: c.Formula) -> Bindings:
        """The bindings at which given facts leave open whether a formula is true."""
        root = Bindings(torch.arange(self.tables.batch, device=self.times.device), {})
        if not axes:
            return root
        rows = self.beneath(c.Quantifier(True, tuple(axes), None, body), root)
        return Bindings(rows.trace, rows.places)

    def _beneath(self, node: c.Quantifier, rows: Bindings) -> Bindings:
        decided = [p for p in decisive(node.body, node.universal) if not self.varies(p)]
        start, axes = self._joined(node, rows, decided)
        factor = 1
        for axis in axes:
            factor *= self.tables.full_size(axis)
        at_once = max(1, _CELLS_AT_ONCE // max(1, factor * self.tables.horizon))
        chunks: list[Bindings] = []
        total = 0
        for begin in range(0, len(start), at_once):
            part = torch.arange(begin, min(begin + at_once, len(start)), device=rows.trace.device)
            chunk = self._every(axes, start, part, factor)
            inside = within(self.lengths(chunk), self.times)
            for piece in decided:
                if not len(chunk):
                    break
                truth = self._truth(piece, chunk, {}, {})[0]
                possible = ((~truth if node.universal else truth) & inside).any(-1)
                index = possible.nonzero().squeeze(-1)
                chunk, inside = chunk.take(index), inside[index]
            total += len(chunk)
            if total > MOST_ROWS:
                raise LimitError(f"a quantifier has more than {MOST_ROWS:,} bindings to look at")
            chunks.append(Bindings(chunk.trace, chunk.places, chunk.parent))
        return self._in_order(_together(chunks, node.axes, rows), node.axes)

    def _joined(
        self, node: c.Quantifier, rows: Bindings, decided: Sequence[c.Formula]
    ) -> tuple[Bindings, list[c.Axis]]:
        """Bind variables of a quantifier by facts; return the rows, and the variables left."""
        count = torch.arange(len(rows), device=rows.trace.device)
        outer = {axis: places for axis, places in rows.places.items() if axis not in node.axes}
        start, left = Bindings(rows.trace, outer, count), list(node.axes)
        atoms: list[tuple[list[c.Axis], StatedFacts]] = []
        for piece in decided:
            atom = piece.arg if node.universal and isinstance(piece, c.Not) else piece
            if not isinstance(atom, c.Atom) or (atom is piece) == node.universal:
                continue
            axes = [a.axis for a in atom.args if isinstance(a, c.Variable) and a.column is None]
            facts = self.flags(atom.predicate)
            # If a variable occurred twice, several facts would give one binding.
            if len(set(axes)) == len(atom.args) and isinstance(facts, StatedFacts):
                atoms.append((axes, facts))
        while usable := [one for one in atoms if set(one[0]) & set(left)]:
            # The facts that leave the fewest rows come first.
            ways = [FactJoin(facts, self._bound(axes, facts, start)) for axes, facts in usable]
            sizes = [way.size for way in ways]
            best = sizes.index(min(sizes))
            if sizes[best] > MOST_ROWS:
                raise LimitError(f"a quantifier has more than {MOST_ROWS:,} bindings to look at")
            row, place = ways[best].pairs()
            axes, facts = usable[best]
            start = start.take(row)
            for number, axis in enumerate(axes, start=1):
                start.places.setdefault(axis, facts.tuples[number, place])
            left = [axis for axis in left if axis not in axes]
        return start, left

    def _bound(
        self, axes: Sequence[c.Axis], facts: StatedFacts, rows: Bindings
    ) -> list[tuple[int, Tensor]]:
        """The places of facts whose value rows determine, with these values."""
        trace = rows.trace if facts.shape[0] > 1 else torch.zeros_like(rows.trace)
        here = rows.places
        return [(0, trace), *((n, here[a]) for n, a in enumerate(axes, start=1) if a in here)]

    def _every(self, axes: Sequence[c.Axis], rows: Bindings, part: Tensor, factor: int) -> Bindings:
        above = part.repeat_interleave(factor)
        numbers = torch.arange(factor, device=part.device).repeat(part.shape[0])
        places = {a: p[above] for a, p in rows.places.items()}
        for axis in reversed(axes):
            size = self.tables.full_size(axis)
            places[axis] = numbers % size
            numbers = numbers // size
        assert rows.parent is not None
        return Bindings(rows.trace[above], places, rows.parent[above])

    def _in_order(self, rows: Bindings, axes: Sequence[c.Axis]) -> Bindings:
        """Sort rows by the row above, then by variables."""
        assert rows.parent is not None
        number = rows.parent
        for axis in axes:
            number = number * self.tables.full_size(axis) + rows.places[axis]
        if bool((number[1:] > number[:-1]).all()):
            return rows
        return rows.take(torch.argsort(number))


def _together(chunks: list[Bindings], axes: Sequence[c.Axis], rows: Bindings) -> Bindings:
    if not chunks:
        empty = rows.trace[:0]
        places = dict.fromkeys((*rows.places, *axes), empty)
        return Bindings(empty, places, empty)
    parents = [chunk.parent for chunk in chunks if chunk.parent is not None]
    return Bindings(
        torch.cat([chunk.trace for chunk in chunks]),
        {a: torch.cat([chunk.places[a] for chunk in chunks]) for a in chunks[0].places},
        torch.cat(parents),
    )


def some_beneath(value: Tensor, parent: Tensor, rows: int) -> Tensor:
    """Whether some row beneath each row is true, with axes (world, row, …), as in `value`.

    Args:
        value: the truth of the rows beneath.
        parent: the row above each of them, sorted.
        rows: the number of rows above.
    """
    shape = (value.shape[0], rows, *value.shape[2:])
    spread = value.expand(value.shape[0], parent.shape[0], *value.shape[2:])
    if value.device.type == "cpu" and spread.numel() >= _MANY_VALUES:
        number = torch.bincount(parent, minlength=rows)
        above, most = number.nonzero().squeeze(-1), int(number.max())
        if most * len(above) <= _MOST_REPEATED * len(parent) and most <= _MOST_BENEATH:
            first, last = (
                (number.cumsum(0) - at)[above] for at in (number, torch.ones_like(number))
            )
            some = spread.index_select(1, first)
            for ahead in range(1, most):  # shorter ones read their last row again
                some |= spread.index_select(1, torch.minimum(first + ahead, last))
            return torch.zeros(shape, dtype=torch.bool).index_copy_(1, above, some)
    total = torch.zeros(shape, dtype=torch.int32, device=value.device)
    return total.index_add_(1, parent, spread.to(torch.int32)) > 0


def at_index(table: Tensor, *index: Tensor) -> Tensor:
    """Read cells of tables (world, …) at an index that is the same in all worlds."""
    result: Tensor = table[(slice(None), *index)]  # type: ignore[index]
    return result


def put(table: Tensor, values: Tensor, *index: Tensor) -> None:
    """Write cells of tables (world, …) at an index that is the same in all worlds."""
    table[(slice(None), *index)] = values  # type: ignore[index]


def _by_row(function: Callable[[Tensor], Tensor], value: Tensor) -> Tensor:
    """Apply a function of tensors (row, …, time) to a tensor with axes (…, row, time)."""
    leading = value.dim() - 2
    moved = value.movedim(leading, 0)
    result = function(moved.contiguous())
    return result.movedim(0, result.dim() - 2)


def atoms_of(formula: c.Core, names: frozenset[str]) -> list[c.Atom]:
    """The atoms of some predicates, each once."""
    atoms = [n for n in postorder(formula) if isinstance(n, c.Atom) and n.predicate in names]
    return list(dict.fromkeys(atoms))
