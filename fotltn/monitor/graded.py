"""Degrees of axioms in constant memory.

An axiom is split at its top, where it is read at few time points: quantifiers, connectives, X, and
the outermost F, G, U and R are *pieces*. The formulas below them are series. Series are evaluated
on the last points, and added to totals as soon as no later point can change them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from torch import Tensor

from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.domain import Array, Axes, Domain, Stranger
from fotltn.monitor.numbering import Numbering
from fotltn.monitor.obligations import ENDLESS
from fotltn.monitor.series import GrowingError, Series, Streams
from fotltn.monitor.totals import Total, aggregator, joined
from fotltn.monitor.window import RecentPoints
from fotltn.semantics import crisp
from fotltn.semantics.config import PMean, Semantics
from fotltn.semantics.operators import operators
from fotltn.semantics.tables import Value, align
from fotltn.tree import children


@dataclass(slots=True)
class Piece:
    """A part of an axiom that is read at one time point, the anchor.

    Args:
        node: the part; None if it is a series.
        anchor: the time point.
        args: the numbers of the pieces below.
        series: the series to evaluate: the piece itself, the operands of F, G, U or R, or the
            guard of a quantifier.
        done: the first point that is not in the totals yet.
        value: the value at the anchor, once no later point can change it; for a guard, Booleans.
        axes: the axes of the totals.
        totals: for F and G, one total; for U and R, the total of witnesses and the total of the
            points before a witness.
    """

    node: c.AnyFormula | None
    anchor: int
    args: tuple[int, ...] = ()
    series: tuple[Series, ...] = ()
    done: int = 0
    value: Value | None = None
    axes: Axes = ()
    totals: tuple[Total, ...] = ()

    @property
    def last(self) -> int:
        """The last point that F, G, U or R at the anchor reads, if the trace is long enough."""
        assert isinstance(self.node, c.Aggregate | c.Until)
        high = self.node.window.high
        return self.anchor + high if high is not None else ENDLESS


class Graded:
    """The axioms whose degrees need only constant memory."""

    def __init__(
        self, signature: Signature, semantics: Semantics, domain: Domain, intake: Numbering
    ) -> None:
        """Start without axioms."""
        self.signature, self.semantics, self.domain = signature, semantics, domain
        self.ops = operators(semantics)
        self.recent = RecentPoints(signature, domain, intake, semantics, self.ops)
        self.streams = Streams(signature, semantics, lambda sort: domain.strangers(sort) > 0)
        self.pieces: list[Piece] = []
        self.roots: dict[str, int] = {}
        self.steady = False

    def add(self, name: str, formula: c.Formula) -> None:
        """Follow one more axiom.

        Raises:
            GrowingError: the axiom needs the whole trace.
        """
        means = [a for a in self.semantics.aggregations if isinstance(a, PMean)]
        if self.semantics.log_space and any(a.p < math.inf for a in means):
            raise GrowingError("means in log space have no running total")
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
        series = [s for p in self.pieces for s in p.series]
        self.recent.streams = self.streams.used(s.formula for s in series)
        reaches = [s.reach for s in series] + [s.reach for s in self.recent.streams]
        self.recent.need = 1 + max((r.back + r.ahead for r in reaches), default=0)

    def _piece(
        self, formula: c.Formula, anchor: int, parts: Mapping[c.Core, Series | str]
    ) -> tuple[Piece, list[tuple[c.Formula, int]]]:
        """Return a piece, and the formulas below it with their anchors."""
        series = parts[formula]
        if isinstance(series, Series):
            return Piece(None, anchor, series=(series,)), []
        node = c.closed(formula)
        match node:
            case c.Not() | c.And() | c.Or() | c.Implies():
                return Piece(node, anchor), [(n, anchor) for n in children(node)]  # type: ignore[misc]
            case c.Quantifier(_, _, guard, body):
                guards = _series([] if guard is None else [guard], parts)
                for one in guards:
                    self.streams.check_guard(one.formula)
                return Piece(node, anchor, series=guards), [(body, anchor)]
            case c.Shift(arg, steps, False):
                return Piece(node, anchor), [(arg, anchor + steps)]
            case c.Aggregate(_, arg, window, False):
                begin = anchor + window.low
                return Piece(node, anchor, series=_series([arg], parts), done=begin), []
            case c.Until(_, left, right, _, False):
                return Piece(node, anchor, series=_series([left, right], parts), done=anchor), []
            case (
                c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Shift()
                | c.Aggregate() | c.Until()
            ):  # fmt: skip
                raise GrowingError(series)
            case never:
                assert_never(never)

    # --- points -------------------------------------------------------------------------------

    def run(
        self,
        added: int,
        tables: Mapping[str, Array],
        functions: Mapping[str, Array],
        ends: Sequence[int] = (),
    ) -> Graded:
        """Add time points.

        Args:
            added: the number of points.
            tables: the degrees of predicates, with axes (step, arguments …).
            functions: the values of functions, with the same axes.
            ends: numbers of points at which values are wanted. The axioms must be steady before.

        Returns:
            These axioms as they were at each of the ends, one row for each.
        """
        self.recent.push(added, tables, functions)
        known: dict[c.Formula, Value] = {}
        pieces = [self._settle(piece, known, ends) for piece in self.pieces]
        rows = copy.copy(self)
        if ends:
            rows.pieces, rows.recent = pieces, self.recent.before_each(ends, self._unsettled())
        self.recent.trim()
        self.steady = self.steady or self._is_steady()
        return rows

    def _unsettled(self) -> int:
        """Return how many last points decide all degrees that may still change, once steady."""
        ahead = [s.reach for p in self.pieces for s in p.series if s.reach.ahead]
        return max((r.back + r.ahead for r in ahead), default=1)

    def _is_steady(self) -> bool:
        """Return whether all values at anchors are settled, and all windows are full."""
        recent = self.recent
        return recent.length >= recent.need - 1 and all(map(self._is_settled, self.pieces))

    def _is_settled(self, piece: Piece) -> bool:
        if isinstance(piece.node, c.Aggregate | c.Until):
            return bool(piece.totals) and (piece.done > piece.last or piece.last == ENDLESS)
        if isinstance(piece.node, c.Shift):
            return piece.anchor + piece.node.steps < self.recent.count
        return not piece.series or piece.value is not None

    def _settle(
        self, piece: Piece, known: dict[c.Formula, Value], ends: Sequence[int] = ()
    ) -> Piece:
        """Add what no later point can change, and return the piece as it was at some ends."""
        ahead = max((s.reach.ahead for s in piece.series), default=0)
        # No later point can change the series before this point.
        stop = self.recent.count - ahead
        if isinstance(piece.node, c.Aggregate | c.Until):
            stop = min(stop, piece.last + 1)
            if piece.done < stop:
                axes, values = align([self.value(s, known) for s in piece.series])
                if not piece.totals:
                    piece.axes, piece.totals = axes, self.empty(piece, axes)
                stops = [end - ahead for end in ends]
                totals = self.added_by_each(piece, piece.totals, values, [*stops, stop])
                rows = replace(piece, totals=tuple(t.rows(0, len(ends)) for t in totals))
                piece.totals = tuple(t.rows(len(ends), None) for t in totals)
                piece.done = stop
                rows.done = stops[-1] if stops else stop
                return rows
        elif piece.series and piece.value is None and piece.anchor < stop:
            piece.value = self.anchored(piece, known)
        return piece

    def value(self, series: Series, known: dict[c.Formula, Value]) -> Value:
        """Return the value of a series at every recent point, if the trace ended now."""
        if series.formula not in known:
            known[series.formula] = self.recent.evaluate(series.formula)
        return known[series.formula]

    def anchored(self, piece: Piece, known: dict[c.Formula, Value]) -> Value:
        """Return the value of a series or a guard at its anchor."""
        (series,) = piece.series
        if piece.node is None:
            return self.at(piece, self.value(series, known))
        tables = self.recent.points(self.recent.tables, [self.recent.length])
        return self.at(piece, crisp.evaluate(series.formula, tables))

    def at(self, piece: Piece, value: Value) -> Value:
        """Return the value at the anchor of a piece, from its values at recent points."""
        here = piece.anchor - self.recent.start
        return Value(value.axes, value.tensor[..., here : here + 1].clone())

    def empty(self, piece: Piece, axes: Axes) -> tuple[Total, ...]:
        """Return the totals of F, G, U or R over no points."""
        kinds = [piece.node.universal] if isinstance(piece.node, c.Aggregate) else [False, True]
        shape = (1, *self.domain.shape(axes))
        return tuple(aggregator(self.ops, self.semantics, k, time=True).empty(shape) for k in kinds)

    def added(
        self, piece: Piece, totals: tuple[Total, ...], values: list[Tensor], end: int
    ) -> tuple[Total, ...]:
        """Return the totals of F, G, U or R with all further points up to an end.

        Args:
            piece: the piece.
            totals: its totals up to `piece.done`.
            values: the values of its series at recent points, with axes (trace, axes …, time).
            end: the first point that is not added.
        """
        first = self.recent.start
        if end <= piece.done:
            return totals
        if isinstance(piece.node, c.Aggregate):
            (total,) = totals
            (u,) = values
            shape = (*total.total.shape, end - piece.done)
            return (total.plus(u[..., piece.done - first : end - first].expand(shape)),)
        assert isinstance(piece.node, c.Until)
        witnesses, before = totals
        for point in range(piece.done, end):
            a, b = (v[..., point - first : point - first + 1] for v in values)
            if piece.node.dual:
                a, b = self.ops.negate(a), self.ops.negate(b)
            shape = (*before.total.shape, 1)
            if point >= piece.anchor + piece.node.window.low:
                candidate = self.ops.conjoin(b, before.read().unsqueeze(-1))
                witnesses = witnesses.plus(candidate.expand(shape))
            before = before.plus(a.expand(shape))
        return witnesses, before

    def added_by_each(
        self, piece: Piece, totals: tuple[Total, ...], values: list[Tensor], ends: Sequence[int]
    ) -> tuple[Total, ...]:
        """Return the totals up to each of several ends, one row for each."""
        if isinstance(piece.node, c.Aggregate):
            (total,) = totals
            (u,) = values
            first, count = piece.done - self.recent.start, ends[-1] - piece.done
            u = u[..., first : first + count].expand(*total.total.shape, count)
            return (total.after_each(u, [end - piece.done for end in ends]),)
        rows = []
        done = piece.done
        for end in ends:
            totals = self.added(replace(piece, done=done), totals, values, end)
            rows.append(totals)
            done = end
        return tuple(joined(column) for column in zip(*rows, strict=True))

    # --- entities -----------------------------------------------------------------------------

    def grow(self, kind: Stranger) -> None:
        """Add an entity, which takes over the values of a stranger. It is numbered afterwards."""
        recent = self.recent
        recent.grow(kind)
        for piece in self.pieces:
            piece.totals = tuple(recent.grown_total(t, piece.axes, kind) for t in piece.totals)
            if piece.value is not None:
                axes, tensor = piece.value
                piece.value = Value(axes, recent.grown(tensor, axes, kind))


def _series(nodes: list[c.Formula], parts: Mapping[c.Core, Series | str]) -> tuple[Series, ...]:
    series = []
    for node in nodes:
        part = parts[node]
        if isinstance(part, str):
            raise GrowingError(part)
        series.append(part)
    return tuple(series)
