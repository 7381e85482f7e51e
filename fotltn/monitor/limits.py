"""Between which degrees an axiom may end, whatever comes.

Bounds are kept through the structure of an axiom: every operator is monotone in each operand. What
comes is unknown: every degree from 0 to 1, a trace that ends at any point (or at its horizon), and
any number of further entities. So bounds hold always. They are tight where an axiom does not use
one fact twice, and loose where a series looks too far for all its continuations to be tried.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.monitor.graded import Graded, Piece, Role, last_point
from fotltn.monitor.series import Series, extremes
from fotltn.monitor.totals import Total
from fotltn.semantics.interpretation import Value, align

_MOST_POINTS = 64  # that a series may look at, if its bounds are to be tight


class Bounds(NamedTuple):
    """The lowest and the highest value."""

    low: Value
    high: Value


class Limits:
    """The bounds of axioms whose degrees are followed."""

    def __init__(self, graded: Graded) -> None:
        """Nothing is known but the degrees so far."""
        self.graded = graded
        self._futures: dict[c.Formula, Bounds] = {}

    def forget(self) -> None:
        """Forget what depends on the number of entities."""
        self._futures = {}

    def bounds(self, horizon: int | None) -> dict[str, tuple[float, float]]:
        """The lowest and highest degree of each axiom at the end of the trace."""
        found: list[Bounds] = []
        for piece in self.graded.pieces:
            found.append(self._bounds(piece, [found[i] for i in piece.args], horizon))
        degree = self.graded.degree
        return {
            name: (degree(found[number].low), degree(found[number].high))
            for name, number in self.graded.roots.items()
        }

    def _bounds(self, piece: Piece, below: list[Bounds], horizon: int | None) -> Bounds:
        count = self.graded.segment.count
        match piece.role:
            case Role.POINT:
                if piece.value is not None:
                    return Bounds(piece.value, piece.value)
                if piece.anchor >= count:
                    return self._future(piece.series[0])
                here = piece.anchor - self.graded.segment.start
                near = self._near(piece.series[0], horizon)
                return Bounds(*(Value(v.axes, v.tensor[..., here : here + 1]) for v in near))
            case Role.JOIN:
                lows, highs = [b.low for b in below], [b.high for b in below]
                joined = self.graded.joined
                return Bounds(joined(piece.node, lows, highs), joined(piece.node, highs, lows))
            case Role.SHIFT:
                return self._shift(piece, below[0], horizon)
            case Role.OVER:
                return self._over(piece, below[0])
            case Role.TOTAL:
                return self._total(piece, horizon)
            case Role.UNTIL:
                return self._until(piece, horizon)

    def _anything(self) -> Bounds:
        return Bounds(self.graded.constant(0.0), self.graded.constant(1.0))

    def _shift(self, piece: Piece, arg: Bounds, horizon: int | None) -> Bounds:
        assert isinstance(piece.node, c.Shift)
        target = piece.anchor + piece.node.steps
        outside = self.graded.constant(float(piece.node.weak))
        if target < self.graded.segment.count or (horizon is not None and target < horizon):
            return arg
        if horizon is not None:
            return Bounds(outside, outside)
        return _hull(arg, Bounds(outside, outside))

    # --- series -------------------------------------------------------------------------------

    def _near(self, series: Series, horizon: int | None) -> Bounds:
        """A series at the points of the segment, some of which depend on what comes."""
        segment, ahead = self.graded.segment, series.reach.ahead
        formulas = extremes(series.formula, self.graded.signature)
        left = ahead if horizon is None else min(ahead, max(0, horizon - segment.count))
        if formulas is None or ahead > _MOST_POINTS:
            low, high = self._anything()
            shape = (1, segment.length)
            return Bounds(Value((), low.tensor.expand(shape)), Value((), high.tensor.expand(shape)))
        pair = segment.extreme(formulas, range(left + 1) if horizon is None else [left])
        return Bounds(*(Value(v.axes, v.tensor[..., : segment.length]) for v in pair))

    def _future(self, series: Series) -> Bounds:
        """A series at any point to come."""
        if series.formula in self._futures:
            return self._futures[series.formula]
        back, ahead = series.reach
        formulas = extremes(series.formula, self.graded.signature)
        found: Bounds | None = None
        if formulas is None or back + ahead > _MOST_POINTS:
            found = self._anything()
        else:
            for before in range(min(back, 1), back + 1):
                lengths = range(before + 1, before + ahead + 2)
                pair = self.graded.segment.extreme(formulas, lengths, known=False)
                point = slice(before, before + 1)
                here = Bounds(*(Value(v.axes, v.tensor[..., point]) for v in pair))
                found = here if found is None else _hull(found, here)
        assert found is not None
        self._futures[series.formula] = found
        return found

    # --- time ---------------------------------------------------------------------------------

    def _to_come(self, piece: Piece, horizon: int | None) -> list[float]:
        """The least and the greatest number of points to come that F, G, U or R looks at."""
        first = max(piece.done, self.graded.segment.count)
        most = last_point(piece) - first + 1
        if horizon is not None:
            return [max(0, min(most, horizon - first))]
        return [0, math.inf if most > 1 << 60 else max(0, most)]

    def _pending(
        self, piece: Piece, horizon: int | None
    ) -> tuple[tuple[c.Axis, ...], list[list[Tensor]], list[tuple[Total, ...]]]:
        """Axes, the low and the high values of series, and totals before those points."""
        pairs = [self._near(s, horizon) for s in piece.series]
        futures = [self._future(s) for s in piece.series]
        whole = [v for pair in (*pairs, *futures) for v in pair]
        axes, _ = align(whole)
        order = piece.axes if piece.totals else axes
        lows = self._expanded([p.low for p in pairs], order)
        highs = self._expanded([p.high for p in pairs], order)
        totals = piece.totals or self.graded.empty(piece, order)
        return order, [lows, highs], [totals, totals]

    def _expanded(self, values: list[Value], axes: tuple[c.Axis, ...]) -> list[Tensor]:
        """Values with a dimension for each of some axes, in their order."""
        guide = Value(axes, torch.zeros((1, *[1] * len(axes), 1), dtype=torch.float64))
        return align([guide, *values])[1][1:]

    def _total(self, piece: Piece, horizon: int | None) -> Bounds:
        axes, values, totals = self._pending(piece, horizon)
        stop = min(self.graded.segment.count, last_point(piece) + 1)
        future = self._future(piece.series[0])
        ends: list[Bounds] = []
        for times in self._to_come(piece, horizon):
            found = []
            for own, before, bound in zip(values, totals, future, strict=True):
                (total,) = self.graded.added(piece, before, own, piece.done, stop)
                (u,) = self._expanded([bound], axes)
                more = u[..., 0].expand(total.total.shape)
                found.append(Value(axes, total.repeated(more, times).read().unsqueeze(-1)))
            ends.append(Bounds(*found))
        return ends[0] if len(ends) == 1 else _hull(*ends)

    def _until(self, piece: Piece, horizon: int | None) -> Bounds:
        axes, values, totals = self._pending(piece, horizon)
        assert isinstance(piece.node, c.Until)
        stop = min(self.graded.segment.count, last_point(piece) + 1)
        ops, dual = self.graded.ops, piece.node.dual
        future = self._future(piece.series[1])
        # Of the witnesses to come, the left side may be anything; below a dual, low is high.
        best = ops.negate(future.low.tensor) if dual else future.high.tensor
        best = ops.conjoin(best, self.graded.constant(1.0).tensor)
        own_axes = (future.low if dual else future.high).axes
        extremes_ = (self.graded.constant(0.0), Value(own_axes, best))
        ends: list[Bounds] = []
        for times in self._to_come(piece, horizon):
            found = []
            for own, before, bound in zip(
                reversed(values) if dual else values, totals, extremes_, strict=True
            ):
                witnesses, past = self.graded.added(piece, before, own, piece.done, stop)
                (u,) = self._expanded([bound], axes)
                more = u[..., 0].expand(witnesses.total.shape)
                found.append(self.graded.read(piece, axes, (witnesses.repeated(more, times), past)))
            ends.append(Bounds(*(reversed(found) if dual else found)))
        return ends[0] if len(ends) == 1 else _hull(*ends)

    # --- entities -----------------------------------------------------------------------------

    def _over(self, piece: Piece, body: Bounds) -> Bounds:
        """A quantifier, over which somebody may still come."""
        if piece.series and piece.value is None:
            return self._anything()  # who counts is not known yet
        found = []
        for value, lowest in zip(body, (True, False), strict=True):
            here, strangers = self.graded.over(piece.node, value, piece.value)
            now = here.total.read()
            if bool(strangers.any()):
                worst = math.inf if lowest else -math.inf
                values = torch.where(strangers, here.values, worst)
                extreme = values.amin(-1) if lowest else values.amax(-1)
                known = extreme.isfinite()
                more = here.total.repeated(torch.where(known, extreme, now), math.inf).read()
                ends = torch.minimum(now, more) if lowest else torch.maximum(now, more)
                now = torch.where(known, ends, now)
            found.append(Value(here.axes, now))
        return Bounds(*found)


def _hull(first: Bounds, second: Bounds) -> Bounds:
    axes, (a, b) = align([first.low, second.low])
    low = Value(axes, torch.minimum(a, b))
    axes, (a, b) = align([first.high, second.high])
    return Bounds(low, Value(axes, torch.maximum(a, b)))
