"""Compute the degree of an axiom if the trace ended now, and bounds on its final degree.

Every operator is monotone in each operand, so bounds of the parts give bounds of an axiom. The
future is unknown: degrees may be anything from 0 to 1, the trace may end at any point (or ends at
its horizon), and any number of entities may come. So bounds always hold. They are tight if an axiom
uses no fact twice, and loose if a series looks too far ahead to try all continuations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import assert_never

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.monitor.domain import Axes
from fotltn.monitor.graded import Graded, Piece
from fotltn.monitor.obligations import ENDLESS
from fotltn.monitor.series import Series, extremes
from fotltn.monitor.totals import Total, aggregator
from fotltn.monitor.window import expanded
from fotltn.semantics.tables import Value, align

_MOST_POINTS = 64  # most points that a series may read if its bounds are to be tight

#: The value if the trace ends now, or the lowest and the highest value.
Ends = tuple[Value, ...]


class Limits:
    """The values and bounds of axioms whose degrees are followed."""

    def __init__(self, graded: Graded) -> None:
        """Read the degrees of some axioms."""
        self.ops = graded.ops
        self.follow(graded)
        self._futures: dict[c.Formula, Ends] = {}
        self._limits: dict[int, tuple[Tensor, Tensor, Ends]] = {}
        self._before: dict[int, tuple[list[Ends], Ends]] = {}
        self._known: dict[c.Formula, Value] = {}
        self._ended = False
        self._horizon: int | None = None

    def follow(self, graded: Graded) -> None:
        """Read the degrees of other axioms, or of the same axioms at other steps."""
        self.graded, self.recent = graded, graded.recent

    def forget(self) -> None:
        """Drop results that depend on the number of entities."""
        self._futures, self._limits, self._before = {}, {}, {}

    def values(self) -> dict[str, list[float]]:
        """Return the degrees of each axiom if the trace ended now, one for each row."""
        self._ended, self._horizon = True, self.recent.count
        return {name: low for name, (low, _) in self._degrees().items()}

    def bounds(self, horizon: int | None) -> dict[str, tuple[list[float], list[float]]]:
        """Return the lowest and highest degrees of each axiom at the end of the trace."""
        self._ended, self._horizon = False, horizon
        return self._degrees()

    def _degrees(self) -> dict[str, tuple[list[float], list[float]]]:
        self._known = {}
        ends: list[Ends] = []
        for number, piece in enumerate(self.graded.pieces):
            below = [ends[i] for i in piece.args]
            if self._open_ended() and not isinstance(piece.node, c.Aggregate | c.Until):
                ends.append(self._as_before(number, piece, below))
            else:
                ends.append(self._ends(piece, below, number))
        return {
            name: (self._degree(ends[number][0]), self._degree(ends[number][-1]))
            for name, number in self.graded.roots.items()
        }

    def _open_ended(self) -> bool:
        """Return whether bounds are wanted for a trace without a known end."""
        return not self._ended and self._horizon is None and self.graded.steady

    def _as_before(self, number: int, piece: Piece, below: list[Ends]) -> Ends:
        """Return the bounds of a piece, computed only if the bounds of its parts have changed."""
        parts, ends = self._before.get(number, ([], ()))
        if not ends or not all(new is old for new, old in zip(below, parts, strict=True)):
            ends = self._ends(piece, below, number)
            self._before[number] = below, ends
        return ends

    def _degree(self, value: Value) -> list[float]:
        degrees: list[float] = self.ops.leave(value.tensor).flatten().tolist()
        return degrees if len(degrees) == self.recent.rows else degrees * self.recent.rows

    def _ends(self, piece: Piece, below: list[Ends], number: int) -> Ends:
        node = piece.node
        match node:
            case None:
                return self._point(piece)
            case c.Not() | c.And() | c.Or() | c.Implies():
                # For an operand in which a connective falls, the highest value counts as lowest.
                return tuple(
                    self._joined(node, [e[i] for e in below], [e[-1 - i] for e in below])
                    for i in range(len(below[0]))
                )
            case c.Shift(_, steps, _, weak):
                target, outside = piece.anchor + steps, self._same(self._constant(float(weak)))
                if target < max(self.recent.count, self._horizon or 0):
                    return below[0]
                return outside if self._horizon is not None else _hull([below[0], outside])
            case c.Quantifier():
                return self._quantified(piece, node, below[0])
            case c.Aggregate() | c.Until():
                return self._endless(piece, node, number) or self._over_time(piece, node)
            case c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare():
                raise AssertionError(node)  # these are series
            case never:
                assert_never(never)

    def _constant(self, degree: float) -> Value:
        """Return a degree without variables as a value."""
        return Value((), self.ops.enter(torch.full((1, 1), degree, dtype=torch.float64)))

    def _same(self, value: Value) -> Ends:
        return (value,) if self._ended else (value, value)

    def _anything(self) -> Ends:
        return self._constant(0.0), self._constant(1.0)

    def _joined(
        self, node: c.Not | c.And | c.Or | c.Implies, same: list[Value], opposite: list[Value]
    ) -> Value:
        """Return a connective of values; operands in which it falls come from the second list."""
        match node:
            case c.Not():
                return Value(opposite[0].axes, self.ops.negate(opposite[0].tensor))
            case c.And():
                axes, (u, v) = align(same)
                return Value(axes, self.ops.conjoin(u, v))
            case c.Or():
                axes, (u, v) = align(same)
                return Value(axes, self.ops.disjoin(u, v))
            case c.Implies():
                axes, (u, v) = align([opposite[0], same[1]])
                return Value(axes, self.ops.imply(u, v))
            case never:
                assert_never(never)

    # --- series -------------------------------------------------------------------------------

    def _point(self, piece: Piece) -> Ends:
        """Return a series at the anchor."""
        (series,) = piece.series
        if piece.value is not None:
            return self._same(piece.value)
        if piece.anchor < self.recent.count:
            return tuple(self.graded.at(piece, value) for value in self._near(series))
        # The shift around the piece decides what is beyond the end.
        return self._same(self._constant(0.0)) if self._ended else self._future(series)

    def _near(self, series: Series) -> Ends:
        """Return a series at recent points, whose values may depend on later points."""
        length, ahead = self.recent.length, series.reach.ahead
        if self._ended:
            return (self.graded.value(series, self._known),)
        formulas = extremes(series.formula, self.graded.signature)
        if formulas is None or ahead > _MOST_POINTS:
            return tuple(Value((), v.tensor.expand(1, length)) for v in self._anything())
        more: Sequence[int] = range(ahead + 1)
        if self._horizon is not None:
            more = [min(ahead, max(0, self._horizon - self.recent.count))]
        pair = self.recent.extreme(formulas, more)
        return tuple(Value(v.axes, v.tensor[..., :length]) for v in pair)

    def _future(self, series: Series) -> Ends:
        """Return the bounds of a series at any later point."""
        if series.formula not in self._futures:
            back, ahead = series.reach
            formulas = extremes(series.formula, self.graded.signature)
            options: list[Ends] = []
            if formulas is None or back + ahead > _MOST_POINTS:
                options = [self._anything()]
            else:
                for before in range(min(back, 1), back + 1):
                    lengths = range(before + 1, before + ahead + 2)
                    pair = self.recent.extreme(formulas, lengths, known=False)
                    point = slice(before, before + 1)
                    options.append(tuple(Value(v.axes, v.tensor[..., point]) for v in pair))
            self._futures[series.formula] = _hull(options)
        return self._futures[series.formula]

    # --- time ---------------------------------------------------------------------------------

    def _to_come(self, piece: Piece) -> list[float]:
        """Return the least and the greatest number of later points that F, G, U or R reads."""
        first = max(piece.done, self.recent.count)
        most = piece.last - first + 1
        if self._horizon is not None:
            return [max(0, min(most, self._horizon - first))]
        return [0, math.inf if piece.last == ENDLESS else max(0, most)]

    def _over_time(self, piece: Piece, node: c.Aggregate | c.Until) -> Ends:
        """Return F, G, U or R: its totals with recent points, and with later ones."""
        stop = min(self.recent.count, piece.last + 1)
        near: list[Ends] = []
        if stop > piece.done or not piece.totals:
            near = [self._near(s) for s in piece.series]
        futures = [] if self._ended else [self._future(s) for s in piece.series]
        axes = piece.axes
        if not piece.totals:
            axes, _ = align([value for ends in (*near, *futures) for value in ends])
        totals = piece.totals or self.graded.empty(piece, axes)
        dual = isinstance(node, c.Until) and node.dual
        options: list[Ends] = []
        for times in self._to_come(piece):
            ends: list[Value] = []
            for i in range(1 if self._ended else 2):
                values = [expanded(pair[-1 - i if dual else i], axes) for pair in near]
                first = self.graded.added(piece, totals, values, stop)[0]
                if times:
                    u = expanded(self._to_add(node, futures)[i], axes)[..., 0]
                    shape = (1, *first.total.shape[1:])
                    first = first.repeated(u.expand(shape), times)
                total = first.read().unsqueeze(-1)
                ends.append(Value(axes, self.ops.negate(total) if dual else total))
            options.append(tuple(reversed(ends) if dual else ends))
        return _hull(options)

    def _endless(self, piece: Piece, node: c.Aggregate | c.Until, number: int) -> Ends | None:
        """Return the bounds of an endless mean, if later points alone decide them.

        Later points are as free as recent ones. So a mean that is between its limits stays there,
        and can come as near to either limit as one likes.
        """
        if not self._open_ended() or isinstance(node, c.Until) or piece.last != ENDLESS:
            return None
        (total,) = piece.totals
        if total.rule.mean is None:
            return None
        if number not in self._limits:
            shape = (1, *total.total.shape[1:])
            future = self._future(piece.series[0])
            low, high = (expanded(u, piece.axes)[..., 0].expand(shape) for u in future)
            ends = (total.repeated(u, math.inf).read().unsqueeze(-1) for u in (low, high))
            self._limits[number] = low, high, tuple(Value(piece.axes, end) for end in ends)
        low, high, limits = self._limits[number]
        return limits if total.between(low, high) else None

    def _to_add(self, node: c.Aggregate | c.Until, futures: list[Ends]) -> Ends:
        """Return the lowest and the highest degree that a later point may add to a total."""
        if isinstance(node, c.Aggregate):
            return futures[0]
        # Before a later witness, the left side may be anything. A dual swaps low and high.
        low, high = futures[1]
        axes, best = (low.axes, self.ops.negate(low.tensor)) if node.dual else high
        return self._constant(0.0), Value(axes, self.ops.conjoin(best, self._constant(1.0).tensor))

    # --- entities -----------------------------------------------------------------------------

    def _quantified(self, piece: Piece, node: c.Quantifier, body: Ends) -> Ends:
        """Return a quantifier, whose sort may get more entities."""
        guard = piece.value
        if piece.series and guard is None:
            if not self._ended:
                return self._anything()  # the guard is not known yet
            if piece.anchor >= self.recent.count:
                return self._same(self._constant(0.0))
            guard = self.graded.anchored(piece, self._known)
        ends = []
        for value, lowest in zip(body, (True, False), strict=False):
            axes, total, values, strangers = self._bindings(node, value, guard)
            now = total.read()
            if not self._ended and bool(strangers.any()):
                worst = math.inf if lowest else -math.inf
                reached = torch.where(strangers, values, worst)
                extreme = reached.amin(-1) if lowest else reached.amax(-1)
                known = extreme.isfinite()
                more = total.repeated(torch.where(known, extreme, now), math.inf).read()
                limit = torch.minimum(now, more) if lowest else torch.maximum(now, more)
                now = torch.where(known, limit, now)
            ends.append(Value(axes, now))
        return tuple(ends)

    def _bindings(
        self, node: c.Quantifier, body: Value, guard: Value | None
    ) -> tuple[Axes, Total, Tensor, Tensor]:
        """Split the values of a quantifier's body.

        Returns:
            The free axes; for each of their bindings, the total over present entities; the values
            of all entities; and which of these are strangers that the guard admits.
        """
        domain, bound = self.graded.domain, node.axes
        parts = [body, *([guard] if guard is not None else [])]
        free = dict.fromkeys(axis for part in parts for axis in part.axes)
        left = tuple(axis for axis in free if axis not in bound)
        shape = domain.shape((*left, *bound))

        def flat(tensor: Tensor) -> Tensor:
            full = tensor.expand(tensor.shape[0], *shape, 1)
            return full.movedim(-1, 1 + len(left)).flatten(2 + len(left))

        values, *counts = (flat(expanded(part, (*left, *bound))) for part in parts)
        present = flat(torch.from_numpy(domain.present(bound)).unsqueeze(0).unsqueeze(-1))
        counted = counts[0].bool() if counts else torch.ones_like(present)
        rule = aggregator(self.ops, self.graded.semantics, node.universal, time=False)
        total = rule.empty(tuple(values.shape[:-1])).plus(values, present & counted)
        return left, total, values, ~present & counted


def _hull(options: Sequence[Ends]) -> Ends:
    """Return the lowest and the highest of several bounds."""
    return functools.reduce(_wider, options)


def _wider(first: Ends, second: Ends) -> Ends:
    ends = []
    for a, b, choose in zip(first, second, (torch.minimum, torch.maximum), strict=True):
        axes, (u, v) = align([a, b])
        ends.append(Value(axes, choose(u, v)))
    return tuple(ends)
