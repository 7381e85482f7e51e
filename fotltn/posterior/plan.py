"""How worlds will be sampled, and at what cost, before they are."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from fotltn.errors import listing
from fotltn.format import count
from fotltn.logic.defined import Definition
from fotltn.posterior.movers import Colour, Mover
from fotltn.posterior.sampler import Sampler

#: How what ties tracks is obeyed: as a window of each draw, or by a test of what is drawn.
FactorRoute = Literal["window", "tested"]

_NUMBER = 8  # bytes
_MOMENT, _MOST_SWEEPS = 0.5, 10  # seconds, and sweeps, that are measured


@dataclass(frozen=True, slots=True)
class FactorPlan:
    """What ties tracks to others.

    Args:
        name: the axiom, or the predicate whose labels speak of several tracks.
        labels: whether it is that predicate.
        hard: whether it must hold.
        route: how it is obeyed.
        points: of a window, how many points it sees at once.
        places: where tracks meet it: bindings, of a window at points in time, with their tracks.
    """

    name: str
    labels: bool
    hard: bool
    route: FactorRoute
    points: int
    places: int


@dataclass(frozen=True, slots=True)
class TrackPlan:
    """Tracks that are drawn alike, each over all of time.

    Args:
        of: the sorts of their arguments.
        drawn: the predicates that are drawn.
        bits: how many facts of a track are drawn at each point.
        computed: the predicates that automata compute along.
        axioms: those that automata obey, as they are of one track alone.
        tracks: how many there are.
        states: of all automata together.
        letters: the values that a track may have at a point.
        ways: that lead on from a state, at most.
        colours: the groups that are drawn one after the other, as factors tie their tracks.
        factors: what ties tracks to others.
        steps: of automata that a sweep computes, in all worlds.
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
    """What is sampled, by which route, and what it costs.

    Args:
        worlds: how many at once.
        sweeps: how many, with those that do not count; at most, if fewer may be enough.
        enough: whether fewer may be.
        cells: facts that a world says true or false of.
        points: time points of the longest trace.
        drawn: the predicates that are drawn.
        defined: those that follow from them.
        tracks: the kinds of tracks.
        watched: hard axioms that follow from the rest; worlds that break them go back a sweep.
        tied: hard axioms that tie tracks which move one at a time, so that chains may get stuck.
        steps: of automata that a sweep computes.
        bytes: that worlds take in memory, with those that are stored.
        working: bytes that the largest move takes beside, about.
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
        """The plan for machines."""
        return asdict(self)


def plan_of(sampler: Sampler) -> SamplingPlan:
    """What a sampler would do."""
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
    """Bytes that it takes to draw the tracks of a colour, about."""
    kind, chain, worlds = mover.kind, mover.chain, mover.worlds
    times, tracks = len(mover.row_truth.times), len(colour.tracks)
    gains: dict[tuple[int, int, int], int] = {}
    single = 0  # of one factor at a time
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
            factor.weight is None and factor.labelled is None,
            "tested" if span is None else "window",
            0 if span is None else max(1, span.high - span.low + 1),
            sum(len(tie.cells) for tie in ties),
        )  # fmt: skip


def seconds_of(sampler: Sampler) -> float:
    """How long all sweeps will take here, by those that are made now, for a moment."""
    sampler.sweep(0)  # which makes what others keep
    began, done = time.perf_counter(), 0
    while done < _MOST_SWEEPS and time.perf_counter() - began < _MOMENT:
        done += 1
        sampler.sweep(done)
    how = sampler.sampling
    return (how.burn_in + how.sweeps) * (time.perf_counter() - began) / done


# --- as text ----------------------------------------------------------------------------------


def explain(plan: SamplingPlan) -> Iterator[str]:
    """The plan for people, line by line."""
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
            "tie tracks that move one at a time, or change places, so that chains may get stuck: "
            f"{', '.join(plan.tied)}"
        )
    yield f"a sweep: {count(plan.steps)} steps of automata"
    yield f"all: {count(plan.steps * plan.sweeps)} steps"
    yield f"worlds: {count(plan.bytes)} bytes, with those that are stored"
    yield f"the largest move: about {count(plan.working)} bytes beside"


def _explained(one: TrackPlan, points: int) -> Iterator[str]:
    of = f", one of each {' and '.join(one.of)}" if one.of else ""
    bits = f" ({one.bits} facts)" if one.bits > len(one.drawn) else ""
    many = f"{_many(one.tracks, 'track')}{of}, {_many(points, 'point')} long"
    yield f"{many}: {', '.join(one.drawn)}{bits}"
    along = f", {', '.join(one.computed)} along" if one.computed else ""
    yield (
        f"  automaton: {_many(one.states, 'state')}, {_many(one.letters, 'letter')}, "
        f"at most {_many(one.ways, 'way')} on{along}"
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
