"""Kinds of tracks, and the factors that tie tracks to each other, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fotltn.logic import core as c
from fotltn.posterior.patterns import Moving, Sight
from fotltn.posterior.product import Part, Shape, TrackAutomaton


@dataclass(frozen=True, slots=True)
class Below:
    """What the prior of tracks below reads of the tracks above.

    Args:
        kind: the number of the kind of the tracks below.
        conditions: the numbers of conditions of that kind.
        formulas: the formulas of these conditions, as the kind above reads them.
        now: whether a condition matters only at its own time point; see `only_now`.
    """

    kind: int
    conditions: tuple[int, ...]
    formulas: tuple[c.Formula, ...]
    now: bool


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor, which ties tracks to others.

    Args:
        axiom: its axiom; or the defined predicate whose labels are its evidence.
        axes: its variables.
        formula: its formula, in normal form; for labels, the definition of the predicate.
        weight: the cost of a cell in which the formula is false; None for a hard axiom.
        labelled: the atom whose labels are evidence about the formula.
        span: the time points that it sees; None if no window holds them, so that it tests draws.
        below: if the factor is the prior of tracks below, what that prior reads; the formula is
            then true where all of it is true.
    """

    axiom: str
    axes: tuple[c.Axis, ...]
    formula: c.Formula
    weight: float | None
    labelled: c.Atom | None
    span: Sight | None
    below: Below | None = None

    @property
    def hard(self) -> bool:
        """Whether it is a hard axiom."""
        return self.weight is None and self.labelled is None and self.below is None


@dataclass(frozen=True, slots=True)
class TrackKind:
    """A kind of track: tracks that are drawn alike.

    Args:
        moving: the bits: first free ones, then defined ones, then helping ones.
        axes: the variables that stand for the arguments of a track.
        free: the number of free bits.
        helping: the formula of each helping bit, by its name.
        soft: the bits that cost something where they are false, with the cost by axiom.
        pointwise: soft axioms that see one time point: axiom, formula, cost.
        conditions: formulas over the axes that automata read.
        parts: the automata, with the names of their axioms.
        product: all automata in one.
        shape: the bits, windows and conditions of the product.
        factors: the factors that tie tracks to others.
        windows: for each factor, the window of the product and its bits; None without a span.
        above: the conditions about tracks above on which the prior depends; see `above.py`.
    """

    moving: Moving
    axes: tuple[c.Axis, ...]
    free: int
    helping: Mapping[str, c.Formula]
    soft: Mapping[int, Mapping[str, float]]
    pointwise: tuple[tuple[str, c.Formula, float], ...]
    conditions: tuple[c.Formula, ...]
    parts: tuple[tuple[str, Part], ...]
    product: TrackAutomaton
    shape: Shape
    factors: tuple[Factor, ...]
    windows: tuple[tuple[int, tuple[int, ...]] | None, ...]
    above: tuple[int, ...] = ()
