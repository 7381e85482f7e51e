"""Degrees of axioms if the trace ended now, and between which they may end, in constant memory.

An axiom is taken apart at its top, where it is read at few points: quantifiers, connectives, X, and
the outermost F, G, U and R. What is below are series, evaluated on the last points, and added to
totals as soon as no later point can change them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.domain import Array, Domain, Kind
from fotltn.monitor.intake import Intake
from fotltn.monitor.segment import Segment
from fotltn.monitor.series import GrowingError, Series, Streams
from fotltn.monitor.totals import Total, over_entities, over_time
from fotltn.semantics import crisp
from fotltn.semantics.config import PMean, Semantics
from fotltn.semantics.interpretation import Value, align
from fotltn.semantics.operators import operators
from fotltn.tree import children


class Role(StrEnum):
    """How a part of an axiom gets its value."""

    POINT = "point"  # a series at the anchor
    JOIN = "join"  # a connective
    OVER = "over"  # a quantifier
    SHIFT = "shift"  # X or WX, whose operand has another anchor
    TOTAL = "total"  # F or G
    UNTIL = "until"  # U or R


@dataclass(slots=True)
class Piece:
    """A part of an axiom that is read at one point, the anchor.

    Args:
        role: how it gets its value.
        node: the part.
        anchor: the point.
        args: the numbers of its own parts.
        series: what is evaluated at points: of a point, itself; of F, G, U and R, the operands;
            of a quantifier, its guard.
        done: the first point that is not in the totals yet.
        value: at the anchor, if it is settled; of a guard, Booleans.
        axes: of the totals.
        totals: of F and G, the total; of U and R, that of witnesses and that of what comes before.
    """

    role: Role
    node: c.Formula
    anchor: int
    args: tuple[int, ...] = ()
    series: tuple[Series, ...] = ()
    done: int = 0
    value: Value | None = None
    axes: tuple[c.Axis, ...] = ()
    totals: tuple[Total, ...] = ()

    @property
    def ahead(self) -> int:
        """How many points a value waits for."""
        return max((s.reach.ahead for s in self.series), default=0)


class Graded:
    """The degrees of axioms that need constant memory."""

    def __init__(
        self, signature: Signature, semantics: Semantics, domain: Domain, intake: Intake
    ) -> None:
        """No axioms yet."""
        self.signature, self.semantics, self.domain = signature, semantics, domain
        self.ops = operators(semantics)
        self.segment = Segment(signature, domain, intake, semantics, self.ops)
        self.streams = Streams(signature, semantics, lambda sort: domain.strangers(sort) > 0)
        self.pieces: list[Piece] = []
        self.roots: dict[str, int] = {}

    def add(self, name: str, formula: c.Formula) -> None:
        """Follow an axiom, too.

        Raises:
            GrowingError: it needs the whole history.
        """
        means = [a for a in self.semantics.aggregations if isinstance(a, PMean)]
        if self.semantics.log_space and any(a.p < math.inf for a in means):
            raise GrowingError("means in log space are not added to")
        parts = self.streams.parts(formula)
        pieces: list[Piece] = []
        numbers: dict[tuple[c.Formula, int], int] = {}
        stack: list[tuple[c.Formula, int, bool]] = [(formula, 0, False)]
        while stack:
            node, anchor, ready = stack.pop()
            if (node, anchor) in numbers:
                continue
            piece, below = self._piece(node, anchor, parts)
            if below and not ready:
                stack.append((node, anchor, True))
                stack.extend((child, at, False) for child, at in below)
                continue
            piece.args = tuple(numbers[key] for key in below)
            numbers[node, anchor] = len(self.pieces) + len(pieces)
            pieces.append(piece)
        self.pieces += pieces
        self.roots[name] = numbers[formula, 0]
        self.segment.streams = self.streams.used(s.formula for p in self.pieces for s in p.series)
        reaches = [s.reach for p in self.pieces for s in p.series]
        reaches += [s.reach for s in self.segment.streams]
        self.segment.keep = 1 + max((r.back + r.ahead for r in reaches), default=0)

    def _piece(
        self, node: c.Formula, anchor: int, parts: Mapping[c.Core, Series | str]
    ) -> tuple[Piece, list[tuple[c.Formula, int]]]:
        """A part, and what it has to be read of first."""
        found = parts[node]
        if isinstance(found, Series):
            return Piece(Role.POINT, node, anchor, series=(found,)), []
        match node:
            case c.Not() | c.And() | c.Or() | c.Implies():
                return Piece(Role.JOIN, node, anchor), [(n, anchor) for n in children(node)]  # type: ignore[misc]
            case c.Quantifier(_, _, guard, body):
                needed = [] if guard is None else [guard]
                guards = _series(needed, parts)
                for one in guards:
                    self.streams.check_guard(one.formula)
                return Piece(Role.OVER, node, anchor, series=guards), [(body, anchor)]
            case c.Shift(arg, steps, False):
                return Piece(Role.SHIFT, node, anchor), [(arg, anchor + steps)]
            case c.Aggregate(_, arg, window, False):
                series = _series([arg], parts)
                begin = anchor + window.low
                return Piece(Role.TOTAL, node, anchor, series=series, done=begin), []
            case c.Until(_, left, right, _, False):
                series = _series([left, right], parts)
                return Piece(Role.UNTIL, node, anchor, series=series, done=anchor), []
        raise GrowingError(found)

    # --- points -------------------------------------------------------------------------------

    def run(self, added: int, tables: Mapping[str, Array], functions: Mapping[str, Array]) -> None:
        """Take in points: tables with axes (step, arguments …)."""
        self.segment.push(added, tables, functions)
        known: dict[c.Formula, Value] = {}
        for piece in self.pieces:
            self._settle(piece, known)
        self.segment.trim()

    def _settle(self, piece: Piece, known: dict[c.Formula, Value]) -> None:
        """Take in what no later point can change."""
        stop = self.segment.count - piece.ahead  # points before this are settled
        if piece.role in (Role.TOTAL, Role.UNTIL):
            stop = min(stop, last_point(piece) + 1)
            if piece.done < stop:
                axes, values = align([self.value(s, known) for s in piece.series])
                if not piece.totals:
                    piece.axes, piece.totals = axes, self.empty(piece, axes)
                piece.totals = self.added(piece, piece.totals, values, piece.done, stop)
                piece.done = stop
        elif piece.series and piece.value is None and piece.anchor < stop:
            piece.value = self.anchored(piece, known)

    def value(self, series: Series, known: dict[c.Formula, Value]) -> Value:
        """A series at every point of the segment, if the trace ends with it."""
        if series.formula not in known:
            known[series.formula] = self.segment.evaluate(series.formula)
        return known[series.formula]

    def anchored(self, piece: Piece, known: dict[c.Formula, Value]) -> Value:
        """A point, or a guard, at its anchor."""
        (series,) = piece.series
        if piece.role is Role.OVER:
            model = self.segment.model(self.segment.tables, [self.segment.length])
            value = crisp.evaluate(series.formula, model)
        else:
            value = self.value(series, known)
        here = piece.anchor - self.segment.start
        return Value(value.axes, value.tensor[..., here : here + 1].clone())

    def empty(self, piece: Piece, axes: tuple[c.Axis, ...]) -> tuple[Total, ...]:
        """The totals of a part over nothing."""
        shape = (1, *(self.size(a) for a in axes))
        if isinstance(piece.node, c.Aggregate):
            return (over_time(self.ops, self.semantics, piece.node.universal).empty(shape),)
        witnesses = over_time(self.ops, self.semantics, False).empty(shape)
        return witnesses, over_time(self.ops, self.semantics, True).empty(shape)

    def size(self, axis: c.Axis) -> int:
        """The number of places of an axis, with strangers."""
        if axis.relation is not None:
            return len(self.segment.intake.relations[axis.relation])
        return self.domain.size(str(axis.sort))

    def added(
        self,
        piece: Piece,
        totals: tuple[Total, ...],
        values: list[Tensor],
        begin: int,
        end: int,
    ) -> tuple[Total, ...]:
        """The totals of a part with the points from `begin` to before `end`, if there are any.

        The values of its series have the axes (trace, axes …, time), and begin as the segment does.
        """
        first = self.segment.start
        if end <= begin:
            return totals
        if piece.role is Role.TOTAL:
            (total,) = totals
            (u,) = values
            shape = (*total.total.shape, end - begin)
            return (total.plus(u[..., begin - first : end - first].expand(shape)),)
        assert isinstance(piece.node, c.Until)
        witnesses, before = totals
        for point in range(begin, end):
            a, b = (v[..., point - first : point - first + 1] for v in values)
            if piece.node.dual:
                a, b = self.ops.negate(a), self.ops.negate(b)
            shape = (*before.total.shape, 1)
            if point >= piece.anchor + piece.node.window.low:
                candidate = self.ops.conjoin(b, before.read().unsqueeze(-1))
                witnesses = witnesses.plus(candidate.expand(shape))
            before = before.plus(a.expand(shape))
        return witnesses, before

    def read(self, piece: Piece, axes: tuple[c.Axis, ...], totals: tuple[Total, ...]) -> Value:
        """The degree of F, G, U or R."""
        found = totals[0].read().unsqueeze(-1)
        dual = isinstance(piece.node, c.Until) and piece.node.dual
        return Value(axes, self.ops.negate(found) if dual else found)

    # --- values -------------------------------------------------------------------------------

    def values(self) -> dict[str, float]:
        """The degree of each axiom if the trace ended now."""
        known: dict[c.Formula, Value] = {}
        found: list[Value] = []
        for piece in self.pieces:
            found.append(self._now(piece, [found[i] for i in piece.args], known))
        return {name: self.degree(found[number]) for name, number in self.roots.items()}

    def degree(self, value: Value) -> float:
        """A value without variables as a number."""
        return float(self.ops.leave(value.tensor).reshape(()))

    def _now(self, piece: Piece, below: list[Value], known: dict[c.Formula, Value]) -> Value:
        count = self.segment.count
        match piece.role:
            case Role.POINT:
                if piece.anchor >= count:  # beyond the end: the shift around it knows
                    return self.constant(0.0)
                return piece.value or self.anchored(piece, known)
            case Role.JOIN:
                return self.joined(piece.node, below, below)
            case Role.SHIFT:
                assert isinstance(piece.node, c.Shift)
                inside = piece.anchor + piece.node.steps < count
                return below[0] if inside else self.constant(float(piece.node.weak))
            case Role.OVER:
                guard = None
                if piece.series:
                    if piece.anchor >= count:
                        return self.constant(0.0)
                    guard = piece.value or self.anchored(piece, known)
                return self.over(piece.node, below[0], guard)[0].value()
        stop = min(count, last_point(piece) + 1)
        axes, values = align([self.value(s, known) for s in piece.series])
        totals = piece.totals or self.empty(piece, axes)
        return self.read(piece, axes, self.added(piece, totals, values, piece.done, stop))

    def constant(self, degree: float) -> Value:
        """A degree without variables."""
        return Value((), self.ops.enter(torch.full((1, 1), degree, dtype=torch.float64)))

    def joined(self, node: c.Formula, same: list[Value], opposite: list[Value]) -> Value:
        """A connective of values; what it turns around is taken from the second list."""
        ops = self.ops
        match node:
            case c.Not():
                return Value(opposite[0].axes, ops.negate(opposite[0].tensor))
            case c.And():
                axes, (u, v) = align(same)
                return Value(axes, ops.conjoin(u, v))
            case c.Or():
                axes, (u, v) = align(same)
                return Value(axes, ops.disjoin(u, v))
            case c.Implies():
                axes, (u, v) = align([opposite[0], same[1]])
                return Value(axes, ops.imply(u, v))
        raise AssertionError(node)

    def over(self, node: c.Formula, body: Value, guard: Value | None) -> tuple[Quantified, Tensor]:
        """A quantifier over those who are there, and all values with a mask of strangers.

        Returns:
            The aggregation; and, for bounds, which bindings would count if a stranger came.
        """
        assert isinstance(node, c.Quantifier)
        every = [
            Value((a,), torch.ones(1, self.size(a), 1, dtype=torch.float64)) for a in node.axes
        ]
        parts = [body, *every, *([guard] if guard is not None else [])]
        axes, (u, *rest) = align(parts)
        shape = torch.broadcast_shapes(u.shape, *(r.shape for r in rest))
        kept = tuple(a for a in axes if a not in node.axes)
        order = [0, *(1 + axes.index(a) for a in kept), len(axes) + 1]
        order += [1 + axes.index(a) for a in node.axes]
        here = torch.ones(shape, dtype=torch.bool)
        for axis in node.axes:
            if axis.sort is not None:
                index: list[slice] = [slice(None)] * len(shape)
                index[1 + axes.index(axis)] = slice(0, self.domain.strangers(axis.sort))
                here[tuple(index)] = False
        counts = rest[-1].expand(shape) if guard is not None else torch.ones_like(here)
        flat = [t.expand(shape).permute(order).flatten(len(kept) + 2) for t in (u, here, counts)]
        values, present, counted = flat[0], flat[1].bool(), flat[2].bool()
        rule = over_entities(self.ops, self.semantics, node.universal)
        total = rule.empty(tuple(values.shape[:-1])).plus(values, present & counted)
        return Quantified(kept, total, values), ~present & counted

    # --- entities -----------------------------------------------------------------------------

    def grow(self, kind: Kind) -> None:
        """One more entity, who is as a stranger of that kind was. It is numbered afterwards."""
        segment = self.segment
        segment.grow(kind)
        for piece in self.pieces:
            piece.totals = tuple(segment.grown_total(t, piece.axes, kind) for t in piece.totals)
            if piece.value is not None:
                axes, tensor = piece.value
                piece.value = Value(axes, segment.grown(tensor, axes, kind))


class Quantified(NamedTuple):
    """An aggregation over entities: the axes that are left, the total, and all values."""

    axes: tuple[c.Axis, ...]
    total: Total
    values: Tensor

    def value(self) -> Value:
        """The degree."""
        return Value(self.axes, self.total.read())


def last_point(piece: Piece) -> int:
    """The last point that F, G, U or R at its anchor looks at, however long the trace."""
    assert isinstance(piece.node, c.Aggregate | c.Until)
    high = piece.node.window.high
    return piece.anchor + high if high is not None else 1 << 62


def _series(nodes: list[c.Formula], parts: Mapping[c.Core, Series | str]) -> tuple[Series, ...]:
    found = []
    for node in nodes:
        series = parts[node]
        if isinstance(series, str):
            raise GrowingError(series)
        found.append(series)
    return tuple(found)
