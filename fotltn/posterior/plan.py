"""The plan of sampling and its cost, known before anything is sampled."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from fotltn.errors import listing
from fotltn.format import count
from fotltn.logic.defined import Definition
from fotltn.posterior.colours import Colour
from fotltn.posterior.movers import Mover
from fotltn.posterior.sampler import Sampler

#: How a draw respects a factor: by a window of the draw, or by a test after it.
FactorRoute = Literal["window", "tested"]

_NUMBER = 8  # bytes
_MOMENT, _MOST_SWEEPS = 0.5, 10  # seconds, and sweeps, that are measured


@dataclass(frozen=True, slots=True)
class FactorPlan:
    """A factor, which ties tracks to others.

    Args:
        name: the axiom; or the predicate whose labels depend on several tracks.
        labels: whether the name is that of a predicate.
        hard: whether it is a hard axiom.
        route: how draws respect it.
        points: the number of time points in its window; 0 if draws are tested.
        places: the number of places where it touches tracks: pairs of a binding and a track; for a
            window, at each time point.
    """

    name: str
    labels: bool
    hard: bool
    route: FactorRoute
    points: int
    places: int


@dataclass(frozen=True, slots=True)
class TrackPlan:
    """A kind of track: tracks that are drawn alike, each over all time points.

    Args:
        of: the sorts of their arguments.
        drawn: the predicates that are drawn.
        bits: the number of facts of a track that are drawn at each time point.
        computed: the defined predicates that the automaton computes.
        axioms: the axioms of single tracks, which the automaton obeys.
        tracks: the number of tracks.
        states: the number of states of the automaton.
        letters: the number of values that a track may have at a time point.
        ways: the most successors of a state.
        colours: the number of groups of tracks that are drawn one after the other, because factors
            tie them.
        factors: the factors that tie tracks to others.
        steps: the steps of the automaton in one sweep over all worlds.
    """

    of: tuple[str, ...]
    drawn: tuple[str, ...]
    bits: int
    computed: tuple[str, ...]
    axioms: tuple[str, ...]
    tracks: int
    states: int
    letters: int
    ways: int
    colours: int
    factors: tuple[FactorPlan, ...]
    steps: int


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """The plan of sampling: routes and costs.

    Args:
        worlds: the number of worlds.
        sweeps: the number of sweeps with the burn-in; at most, if sampling may end early.
        enough: whether sampling may end early.
        cells: the number of facts of a world.
        points: the number of time points of the longest trace.
        drawn: the predicates that are drawn.
        defined: the predicates that follow by definition.
        tracks: the kinds of tracks.
        watched: hard axioms that follow from the rest; a world that breaks one goes back a sweep.
        tied: hard axioms that tie tracks, although tracks move one at a time or draws are only
            tested; chains may get stuck.
        steps: the steps of automata in one sweep.
        bytes: the memory of all worlds, with the stored ones.
        working: the additional memory of the largest move, in bytes, approximately.
    """

    worlds: int
    sweeps: int
    enough: bool
    cells: int
    points: int
    drawn: tuple[str, ...]
    defined: tuple[str, ...]
    tracks: tuple[TrackPlan, ...]
    watched: tuple[str, ...]
    tied: tuple[str, ...]
    steps: int
    bytes: int
    working: int

    def as_dict(self) -> dict[str, object]:
        """Return the plan as data."""
        return asdict(self)


def plan_of(sampler: Sampler) -> SamplingPlan:
    """Return the plan of a sampler."""
    how, structure = sampler.sampling, sampler.structure
    definitions = structure.definitions.values()
    tracks = tuple(_tracks(mover, definitions, how.worlds) for mover in sampler.movers)
    names = (*structure.free, *structure.definitions)
    cells = sum(sampler.tables[name][0].numel() for name in names)
    return SamplingPlan(
        how.worlds, how.burn_in + how.sweeps, len(how.looks) > 1, cells, sampler.known.horizon,
        structure.free, tuple(structure.definitions), tracks, structure.watched, structure.tied,
        sum(one.steps for one in tracks), cells * how.worlds * (1 + min(how.stored, how.sweeps)),
        max((_working(mover, colour) for mover in sampler.movers for colour in mover.colours),
            default=0),
    )  # fmt: skip


def _working(mover: Mover, colour: Colour) -> int:
    """The memory to draw the tracks of a colour, in bytes, approximately."""
    kind, chain, worlds = mover.kind, mover.chain, mover.worlds
    times, tracks = len(mover.row_truth.times), len(colour.tracks)
    gains: dict[tuple[int, int, int], int] = {}
    single = 0  # the most numbers of one factor
    for one in colour.couplings:
        if one.window is None:
            single = max(single, worlds * len(one.cells.rows) * times)
            continue
        window, read = one.window
        assert one.factor.span is not None
        points = one.factor.span.high - one.factor.span.low + 1
        latest = one.factor.span.high if points > 0 else 0
        patterns = 1 << len(kind.shape.static) + len(read) * max(0, points)
        gains[window, points, latest] = worlds * tracks * (times + max(0, latest)) * patterns
        single = max(single, worlds * len(one.cells) * patterns)
    edges = len(chain.letter)
    track = worlds * ((times + 1) * (chain.states + edges) + 3 * edges)
    drawn = max(track, min(chain.at_once, tracks * track))
    bits = worlds * tracks * times * len(kind.moving.bits)
    return _NUMBER * (sum(gains.values()) + max(single, drawn)) + 3 * bits


def _tracks(mover: Mover, definitions: Collection[Definition], worlds: int) -> TrackPlan:
    kind, times = mover.kind, len(mover.row_truth.times)
    states, ways = kind.product.letter.shape
    names = [bit.predicate for bit in kind.moving.bits]
    computed = [name for name in names[kind.free :] if name not in kind.helping]
    known = {*kind.helping, *(listing(d.axioms or (d.name,)) for d in definitions)}
    axioms = [axiom for axiom, _ in kind.parts if axiom not in known]
    axioms += [axiom for costs in kind.soft.values() for axiom in costs]
    axioms += [axiom for axiom, _, _ in kind.pointwise]
    return TrackPlan(
        kind.moving.sorts, tuple(dict.fromkeys(names[: kind.free])), kind.free,
        tuple(dict.fromkeys(computed)), tuple(dict.fromkeys(axioms)), mover.tracks, states,
        len(kind.product.letters), ways, len(mover.colours), tuple(_factors(mover)),
        worlds * mover.tracks * times * states * ways,
    )  # fmt: skip


def _factors(mover: Mover) -> Iterator[FactorPlan]:
    for factor in mover.kind.factors:
        ties = [c for colour in mover.colours for c in colour.couplings if c.factor is factor]
        span = factor.span
        yield FactorPlan(
            factor.axiom, factor.labelled is not None,
            factor.hard,
            "tested" if span is None else "window",
            0 if span is None else max(1, span.high - span.low + 1),
            sum(len(tie.cells) for tie in ties),
        )  # fmt: skip


def seconds_of(sampler: Sampler) -> float:
    """Estimate the seconds of all sweeps on this machine from a few sweeps."""
    sampler.sweep(0)  # the first sweep makes tables that later ones reuse
    began, done = time.perf_counter(), 0
    while done < _MOST_SWEEPS and time.perf_counter() - began < _MOMENT:
        done += 1
        sampler.sweep(done)
    how = sampler.sampling
    return (how.burn_in + how.sweeps) * (time.perf_counter() - began) / done


# --- as text ----------------------------------------------------------------------------------


def explain(plan: SamplingPlan) -> Iterator[str]:
    """The plan in words, line by line."""
    most = "at most " if plan.enough else ""
    yield f"{count(plan.worlds)} worlds at once, {most}{_many(plan.sweeps, 'sweep')}"
    yield f"drawn: {', '.join(plan.drawn) or 'nothing'}"
    if plan.defined:
        yield f"follow by definition: {', '.join(plan.defined)}"
    for one in plan.tracks:
        yield ""
        yield from _explained(one, plan.points)
    yield ""
    if plan.watched:
        yield f"follow from the rest, and are watched after each sweep: {', '.join(plan.watched)}"
    if plan.tied:
        yield (
            "tie tracks that move one at a time or change places, or test their draws, so that "
            f"chains may get stuck: {', '.join(plan.tied)}"
        )
    yield f"a sweep: {count(plan.steps)} steps of automata"
    yield f"all: {count(plan.steps * plan.sweeps)} steps"
    yield f"worlds: {count(plan.bytes)} bytes, with those that are stored"
    yield f"the largest move: about {count(plan.working)} bytes more"


def _explained(one: TrackPlan, points: int) -> Iterator[str]:
    of = f", one of each {' and '.join(one.of)}" if one.of else ""
    bits = f" ({one.bits} facts)" if one.bits > len(one.drawn) else ""
    many = f"{_many(one.tracks, 'track')}{of}, {_many(points, 'point')} long"
    yield f"{many}: {', '.join(one.drawn)}{bits}"
    along = f", {', '.join(one.computed)} along" if one.computed else ""
    yield (
        f"  automaton: {_many(one.states, 'state')}, {_many(one.letters, 'letter')}, "
        f"at most {_many(one.ways, 'successor')} of a state{along}"
    )
    if one.axioms:
        yield f"  obeys: {', '.join(one.axioms)}"
    for factor in one.factors:
        name = f"labels of {factor.name}" if factor.labels else factor.name
        window = f"window of {_many(factor.points, 'point')}"
        how = window if factor.route == "window" else "draws are tested"
        yield f"  {name}: {how}, {_many(factor.places, 'place')}"
    if one.colours > 1:
        yield f"  {count(one.colours)} groups, one after the other"


def _many(number: int, what: str) -> str:
    return f"{count(number)} {what}{'' if number == 1 else 's'}"
