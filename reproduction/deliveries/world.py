"""Generate worlds of robots that carry parcels between stations, from a seed.

A world has other sorts, relations and operators than the paper's scenes, and other noise: labels
miss true facts, and never invent false ones. Its axioms are in `deliveries.fot`.

These are given:

- A robot visits up to three stations in turn. It stays 2 to 6 time points at each, and is at none
  for 1 to 4 time points in between. The first stay may have begun earlier and lasts 1 to 6 time
  points.
- A station is reset at a time point with probability 0.1.
- A parcel has a robot that carries it, and an origin and a target on the robot's way.

These are to be learned:

- Half of the robots are worn. At each time point at which it is ready, a worn robot becomes faulty
  with probability 0.08. It stays faulty for 3 to 9 time points, and is ready again at the fifth
  time point after that. A worn robot without any fault is drawn again. The others have no faults.
- A parcel begins to wait at any time point. At each later time point at which its robot is at the
  origin, it is loaded with probability 0.4, and moves from then on. At each time point after that
  at which the robot is at the target, it is unloaded with probability 0.5, and is gone.

All choices without a stated probability are uniform, and the end of the trace cuts off whatever is
under way. Everything else follows: see `DEFINITIONS`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch

from fotltn.errors import DataError, LimitError, did_you_mean, listing
from fotltn.files import write_files
from fotltn.grounding.labels import Labels
from fotltn.project.scene import Flags, facts_content
from reproduction.paper.carped import Count

#: The axioms, and the declarations that they need.
THEORY = Path(__file__).with_name("deliveries.fot")

#: The learned predicates.
LEARNED = ("Worn", "Faulty", "Waits", "Moves", "Alarm", "Busy", "Due", "Delayed")

#: The given predicates; facts state where they are true.
GIVEN = ("At", "Reset", "Origin", "Target", "Carrier")

#: The sorts of the arguments of each predicate.
SORTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Worn": ("robot",),
        "Faulty": ("robot",),
        "Waits": ("parcel",),
        "Moves": ("parcel",),
        "Alarm": ("station",),
        "Busy": ("station",),
        "Due": ("parcel",),
        "Delayed": ("parcel",),
        "At": ("robot", "station"),
        "Reset": ("station",),
        "Origin": ("parcel", "station"),
        "Target": ("parcel", "station"),
        "Carrier": ("robot", "parcel"),
    }
)

#: The definitions in the axioms D1 to D4.
DEFINITIONS: Mapping[str, str] = MappingProxyType(
    {
        "Alarm(s)": "!Reset(s) S[<=3] (exists r. At(r, s) & Faulty(r))",
        "Busy(s)": "exists p. Origin(p, s) & Waits(p)",
        "Due(p)": "Waits(p) U[1,3] Moves(p)",
        "Delayed(p)": "(Waits(p) | Moves(p)) & O[<=3] (exists r. Carrier(r, p) & Faulty(r))",
    }
)

#: How many time points Alarm and Delayed look back, and Due looks ahead.
WINDOW = 3

WORN = 0.5
BREAKS = 0.08
FAULTS = range(3, 10)
PAUSE = 4
LOADS = 0.4
UNLOADS = 0.5
RESETS = 0.1
ROUND = 3
STAYS = range(2, 7)
TRIPS = range(1, 5)

#: The largest number of cells of At in one world.
MAX_CELLS = 2**26


class Size(NamedTuple):
    """The size of a world; `generate(*size, seed=0)` makes one."""

    robots: int
    parcels: int
    stations: int
    steps: int


#: The default size.
DELIVERIES = Size(30, 60, 10, 80)


class Rates(NamedTuple):
    """The probabilities that a label is wrong: that of a true fact, and that of a false one."""

    missed: float
    invented: float


#: The noise of labels. Stations are observed best.
RATES: Mapping[str, Rates] = MappingProxyType(
    {
        "Worn": Rates(0.2, 0.0),
        "Faulty": Rates(0.3, 0.0),
        "Waits": Rates(0.25, 0.0),
        "Moves": Rates(0.25, 0.0),
        "Alarm": Rates(0.15, 0.0),
        "Busy": Rates(0.15, 0.0),
        "Due": Rates(0.25, 0.0),
        "Delayed": Rates(0.25, 0.0),
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """The given part of a world, as read-only arrays.

    Args:
        at: which robot is where, shape (robot, station, time).
        reset: which stations are reset, shape (station, time).
        origin: the number of the station where each parcel waits, shape (parcel,).
        target: the number of the station where it is unloaded, shape (parcel,).
        carrier: the number of the robot that carries it, shape (parcel,).
    """

    at: Flags
    reset: Flags
    origin: np.ndarray[Any, np.dtype[np.int64]]
    target: np.ndarray[Any, np.dtype[np.int64]]
    carrier: np.ndarray[Any, np.dtype[np.int64]]

    @property
    def size(self) -> Size:
        """The size of the world."""
        robots, stations, steps = self.at.shape
        return Size(robots, len(self.origin), stations, steps)


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """The events of a world, as read-only arrays.

    Args:
        known: the given part.
        faulty: which robots have a fault, shape (robot, time).
        waits: which parcels wait, shape (parcel, time).
        moves: which parcels move, shape (parcel, time).
    """

    known: Given
    faulty: Flags
    waits: Flags
    moves: Flags

    @property
    def size(self) -> Size:
        """The size of the world."""
        return self.known.size

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The names of the entities by sort, in the order of the tables."""
        robots, parcels, stations, _ = self.size
        return {
            "robot": tuple(f"r{i + 1}" for i in range(robots)),
            "parcel": tuple(f"p{i + 1}" for i in range(parcels)),
            "station": tuple(f"s{i + 1}" for i in range(stations)),
        }

    def tables(self) -> dict[str, Flags]:
        """Return what is true, shape (*entities, time); static predicates have no time axis."""
        known = self.known
        robots, _, stations, _ = self.size
        origin = known.origin[:, None] == np.arange(stations)
        faulty_there = some(known.at & self.faulty[:, None], 0)
        return {
            "Worn": some(self.faulty, 1),
            "Faulty": self.faulty,
            "Waits": self.waits,
            "Moves": self.moves,
            "Alarm": some(ago(faulty_there) & since_reset(known.reset), 0),
            "Busy": origin.T.astype(int) @ self.waits > 0,
            "Due": _due(self.waits, self.moves),
            "Delayed": (self.waits | self.moves) & some(ago(self.faulty), 0)[known.carrier],
            "At": known.at,
            "Reset": known.reset,
            "Origin": origin,
            "Target": known.target[:, None] == np.arange(stations),
            "Carrier": known.carrier == np.arange(robots)[:, None],
        }


def some(table: Flags, axis: int) -> Flags:
    """Return whether anything is true along an axis."""
    result: Flags = np.logical_or.reduce(table, axis=axis)
    return result


def ago(table: Flags) -> Flags:
    """Return a table as it was 0 to 3 time points ago, along a new first axis; False before 0."""
    steps = table.shape[-1]
    past = np.zeros((WINDOW + 1, *table.shape), dtype=table.dtype)
    for j in range(min(WINDOW + 1, steps)):
        past[j, ..., j:] = table[..., : steps - j]
    return past


def since_reset(reset: Flags) -> Flags:
    """Return where there was no reset since 0 to 3 time points ago, shape (ago, station, time).

    A reset at the time point itself does not count.
    """
    clear: Flags = np.logical_and.accumulate(~ago(reset), axis=0)
    return np.concatenate([np.ones_like(clear[:1]), clear[:-1]])


def _due(waits: Flags, moves: Flags) -> Flags:
    """Return where a parcel waits and is loaded within 3 time points."""
    due = np.zeros_like(waits)
    so_far = waits.copy()
    for ahead in range(1, min(WINDOW + 1, waits.shape[1])):
        due[:, :-ahead] |= so_far[:, :-ahead] & moves[:, ahead:]
        so_far[:, :-ahead] &= waits[:, ahead:]
    return due


# --- the process -----------------------------------------------------------------------------


def generate(
    robots: int = DELIVERIES.robots,
    parcels: int = DELIVERIES.parcels,
    stations: int = DELIVERIES.stations,
    steps: int = DELIVERIES.steps,
    *,
    seed: int,
) -> World:
    """Generate a world; the same arguments give the same world.

    Args:
        robots: the number of robots.
        parcels: the number of parcels.
        stations: the number of stations, at least 2: a parcel goes from one to another.
        steps: the number of time points.
        seed: the seed of the world's own generator, a whole number of at least 0.

    >>> world = generate(1, 1, 2, 12, seed=4)
    >>> world.waits.astype(int).tolist(), world.moves.astype(int).tolist()
    ([[0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0]], [[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]])
    """
    for name, number, least in (
        ("robots", robots, 1),
        ("parcels", parcels, 1),
        ("stations", stations, 2),
        ("steps", steps, 1),
    ):
        if number < least:
            raise DataError(f"a world needs at least {least} of '{name}', not {number}")
    if seed < 0:
        raise DataError(f"a seed must be a whole number of at least 0, not {seed}")
    cells = max(robots, parcels) * stations * steps
    if cells > MAX_CELLS:
        raise LimitError(
            f"{robots:,} robots, {parcels:,} parcels, {stations:,} stations and {steps:,} time "
            f"points need {cells:,} cells; at most {MAX_CELLS:,} are possible"
        )
    generator = np.random.default_rng(seed)
    known = _given(Size(robots, parcels, stations, steps), generator)
    faulty = np.stack([_faults(steps, generator) for _ in range(robots)])
    tracks = [_track(known, parcel, generator) for parcel in range(parcels)]
    waits, moves = (np.stack(rows) for rows in zip(*tracks, strict=True))
    for array in (faulty, waits, moves):
        array.setflags(write=False)
    return World(known, faulty, waits, moves)


def _given(size: Size, generator: np.random.Generator) -> Given:
    robots, parcels, stations, steps = size
    length = min(ROUND, stations)
    ways = np.stack([generator.permutation(stations)[:length] for _ in range(robots)])
    at = np.zeros((robots, stations, steps), dtype=np.bool_)
    for places, way in zip(at, ways, strict=True):
        point = 0
        stay, stop = int(generator.integers(1, STAYS.stop)), 0
        while point < steps:
            places[way[stop % length], point : point + stay] = True
            point += stay + int(generator.integers(TRIPS.start, TRIPS.stop))
            stay, stop = int(generator.integers(STAYS.start, STAYS.stop)), stop + 1
    reset = generator.random((stations, steps)) < RESETS
    carrier = generator.integers(0, robots, size=parcels)
    ends = np.stack([generator.permutation(way)[:2] for way in ways[carrier]])
    known = Given(at, reset, ends[:, 0].copy(), ends[:, 1].copy(), carrier)
    for array in (known.at, known.reset, known.origin, known.target, known.carrier):
        array.setflags(write=False)
    return known


def _faults(steps: int, generator: np.random.Generator) -> Flags:
    """Draw when a robot has a fault."""
    faulty = np.zeros(steps, dtype=np.bool_)
    worn = generator.random() < WORN
    while worn and not faulty.any():
        point = int(generator.geometric(BREAKS)) - 1
        while point < steps:
            length = int(generator.integers(FAULTS.start, FAULTS.stop))
            faulty[point : point + length] = True
            point += length + PAUSE + int(generator.geometric(BREAKS)) - 1
    return faulty


def _track(known: Given, parcel: int, generator: np.random.Generator) -> tuple[Flags, Flags]:
    """Draw when a parcel waits, and when it moves."""
    steps = known.size.steps
    there = known.at[known.carrier[parcel]]
    begins = int(generator.integers(0, steps))
    loads = there[known.origin[parcel]] & (generator.random(steps) < LOADS)
    loaded = _first(loads, begins + 1)
    unloads = there[known.target[parcel]] & (generator.random(steps) < UNLOADS)
    gone = _first(unloads, loaded + 1)
    time = np.arange(steps)
    return (time >= begins) & (time < loaded), (time >= loaded) & (time < gone)


def _first(events: Flags, start: int) -> int:
    """Return the first event from a time point on; without one, the length of the trace."""
    hits = np.flatnonzero(events[start:])
    return start + int(hits[0]) if len(hits) else len(events)


# --- labels ----------------------------------------------------------------------------------


def noisy(labels: Labels, seed: int, *, rates: Mapping[str, Rates] = RATES) -> Labels:
    """Return labels as they are observed: some true facts are labelled false.

    Args:
        labels: the true labels; they are not changed.
        seed: the seed of the draw.
        rates: how often the labels of each predicate are wrong.

    Raises:
        DataError: a predicate has no rates, or the seed is not valid.
    """
    if not 0 <= seed < 2**63:
        raise DataError(f"a seed must be a whole number from 0 to 2**63 - 1, not {seed}")
    generator = torch.Generator().manual_seed(seed)
    truth = {}
    for name, stated in labels.truth.items():
        rate = rates_of(name, rates)
        draws = torch.rand(stated.shape[0], generator=generator, dtype=torch.float64).to(
            stated.device
        )
        wrong = torch.where(stated >= 0.5, draws < rate.missed, draws < rate.invented)
        truth[name] = torch.where(wrong, 1 - stated, stated)
    return replace(labels, truth=truth)


def rates_of(name: str, rates: Mapping[str, Rates]) -> Rates:
    """Return the rates of a predicate; raise DataError if there are none or they are not valid."""
    if name not in rates:
        hint = did_you_mean(name, rates) or f"there are {listing(rates)}"
        raise DataError(f"there are no rates of wrong labels for '{name}'; {hint}")
    for rate in rates[name]:
        if not 0 <= rate <= 1:
            raise DataError(f"the rates of '{name}' must be numbers from 0 to 1, not {rate}")
    return rates[name]


# --- facts -----------------------------------------------------------------------------------


def statistics(world: World) -> dict[str, Count]:
    """Count the true facts and all facts of each predicate."""
    return {name: Count(int(t.sum()), t.size) for name, t in world.tables().items()}


def facts(world: World) -> pa.Table:
    """Return all facts, one per row: learned predicates true and false, others where true."""
    return table_of(world.tables(), SORTS, GIVEN, world.names)


def table_of(
    tables: Mapping[str, Flags],
    sorts: Mapping[str, tuple[str, ...]],
    known: Collection[str],
    entities: Mapping[str, Sequence[str]],
    *,
    traces: bool = False,
) -> pa.Table:
    """Turn tables of truth values into facts, one per row; given predicates only where true.

    Args:
        tables: shape (*entities, time), with a first axis for traces if there are several, and
            without time if static.
        sorts: the sorts of each predicate's arguments, one or two.
        known: the given predicates.
        entities: the names of entities by sort.
        traces: whether there is an axis for traces.
    """
    names = {sort: np.array(listed) for sort, listed in entities.items()}
    parts = []
    for predicate, table in tables.items():
        cells = np.nonzero(table if predicate in known else np.ones_like(table))
        first, *others = sorts[predicate]
        rows, args = len(cells[0]), cells[int(traces) :]
        static = len(args) == 1 + len(others)
        nothing = pa.nulls(rows, pa.string())
        trace = {"trace": np.char.add("t", (cells[0] + 1).astype(str))} if traces else {}
        columns: dict[str, Any] = {
            "predicate": np.full(rows, predicate),
            **trace,
            "arg1": names[first][args[0]],
            "arg2": names[others[0]][args[1]] if others else nothing,
            "time": pa.nulls(rows, pa.int32()) if static else cells[-1].astype(np.int32),
            "truth": table[cells].astype(np.int8),
        }
        parts.append(pa.table(columns))
    return pa.concat_tables(parts)


def write(world: World, folder: Path | str, *, name: str = "facts.csv") -> Path:
    """Write all facts as a table, as a user would have it, and return its path.

    Args:
        world: the world.
        folder: the folder to write to; it is created if it does not exist.
        name: the name of the file, which ends in `.csv` or `.parquet`.

    Raises:
        DataError: the name has another ending, or the file cannot be written.
    """
    return write_facts(facts(world), folder, name)


def write_facts(table: pa.Table, folder: Path | str, name: str) -> Path:
    """Write facts to a file in one step, and return its path.

    Raises:
        DataError: the name is neither CSV nor Parquet, or the file cannot be written.
    """
    path = Path(folder) / name
    write_files({path: facts_content(table, name)}, parents=True)
    return path
