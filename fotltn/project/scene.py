"""Generate the paper's scenes of cars and pedestrians from a seed.

The scenes follow section 5.1 of the paper:

- A pedestrian has one or two crossings. Each starts at one of the time points 0 to T-1 and lasts 1
  to ⌊T/5⌋-1 time points, cut off at the end of the trace. Crossings of one pedestrian may overlap.
  At all other time points the pedestrian is on the sidewalk.
- A car that is close to a crossing pedestrian at t stops at t+1, and runs at all other time points.
  At the first time point every car runs.

The paper leaves these choices open; here they are made as follows:

- All choices are uniform: the number of crossings, each start, each duration.
- Close is drawn once for each car, pedestrian and time point, and mirrored. Two cars, or two
  pedestrians, are never close. Only this gives the published 2.5 % of all pairs of agents. Draws
  over all pairs would give 4.9 %, or 9.7 % if either of two draws were enough.
- Facts of Run and Stop are about cars only, facts of Crossing and OnSidewalk about pedestrians
  only, and facts of Car and Ped about every agent, once. This gives the published totals.
- In a trace of fewer than 10 time points, no duration is allowed by the paper. There, a crossing
  lasts one time point.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from fotltn.errors import DataError, LimitError
from fotltn.files import Content

#: The paper's thirteen axioms, and the declarations that they need.
THEORY = Path(__file__).with_name("scene.fot")

Flags = np.ndarray[Any, np.dtype[np.bool_]]

#: The learned predicates, in the order of the paper's Table 1; Close is given.
LEARNED = ("Car", "Ped", "Run", "Stop", "Crossing", "OnSidewalk")

#: The largest number of draws of Close in one scene.
MAX_DRAWS = 2**28


class Size(NamedTuple):
    """The size of a scene; `generate(*size, seed=0)` makes one."""

    cars: int
    pedestrians: int
    steps: int


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """The events of a scene, as read-only arrays.

    Args:
        cars: the names of the cars.
        pedestrians: the names of the pedestrians.
        crossing: which pedestrians cross, shape (pedestrian, time).
        stop: which cars stop, shape (car, time).
        close: which cars and pedestrians are close, shape (car, pedestrian, time).
    """

    cars: tuple[str, ...]
    pedestrians: tuple[str, ...]
    crossing: Flags
    stop: Flags
    close: Flags

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of all agents, cars first, in the order of the tables."""
        return self.cars + self.pedestrians

    @property
    def size(self) -> Size:
        """The size of the scene."""
        return Size(*self.close.shape)

    def tables(self) -> dict[str, Flags]:
        """Return what is true: shape (agent,) for Car and Ped, (*agents, time) for the others."""
        cars, pedestrians, steps = self.size
        is_car = np.arange(cars + pedestrians) < cars
        near = np.zeros((len(is_car), len(is_car), steps), dtype=np.bool_)
        near[:cars, cars:] = self.close
        near[cars:, :cars] = self.close.transpose(1, 0, 2)
        of_cars = ((0, pedestrians), (0, 0))
        of_pedestrians = ((cars, 0), (0, 0))
        return {
            "Car": is_car,
            "Ped": ~is_car,
            "Run": np.pad(~self.stop, of_cars),
            "Stop": np.pad(self.stop, of_cars),
            "Crossing": np.pad(self.crossing, of_pedestrians),
            "OnSidewalk": np.pad(~self.crossing, of_pedestrians),
            "Close": near,
        }

    def stated(self) -> dict[str, Flags]:
        """Return which cells of the tables are facts, true or false; all cells for Close."""
        tables = self.tables()
        about_cars = tables["Run"] | tables["Stop"]
        every = {name: np.ones_like(tables[name]) for name in ("Car", "Ped", "Close")}
        moving = dict.fromkeys(("Run", "Stop"), about_cars)
        moving |= dict.fromkeys(("Crossing", "OnSidewalk"), ~about_cars)
        return {name: (every | moving)[name] for name in tables}


def generate(cars: int, pedestrians: int, steps: int, *, seed: int, close: float = 0.05) -> Scene:
    """Generate a scene; the same arguments give the same scene.

    Args:
        cars: the number of cars.
        pedestrians: the number of pedestrians.
        steps: the number of time points.
        seed: the seed of the scene's own generator, a whole number of at least 0.
        close: the probability that a car and a pedestrian are close at a time point.

    >>> scene = generate(2, 1, 5, seed=3, close=0.9)
    >>> scene.crossing.astype(int).tolist(), scene.stop.astype(int).tolist()
    ([[1, 0, 0, 0, 0]], [[0, 1, 0, 0, 0], [0, 1, 0, 0, 0]])
    """
    for name, number in (("cars", cars), ("pedestrians", pedestrians), ("steps", steps)):
        if number < 1:
            raise DataError(f"a scene needs at least 1 of '{name}', not {number}")
    if seed < 0:
        raise DataError(f"a seed must be a whole number of at least 0, not {seed}")
    if not 0 <= close <= 1:
        raise DataError(f"the probability of being close must be in [0, 1], not {close}")
    draws = cars * pedestrians * steps
    if draws > MAX_DRAWS:
        raise LimitError(
            f"{cars:,} cars, {pedestrians:,} pedestrians and {steps:,} time points need {draws:,} "
            f"draws of Close; at most {MAX_DRAWS:,} are possible"
        )
    generator = np.random.default_rng(seed)
    crossing = _crossings(pedestrians, steps, generator)
    near = generator.random((cars, pedestrians, steps)) < close
    stop = np.zeros((cars, steps), dtype=np.bool_)
    stop[:, 1:] = np.any(near[..., :-1] & crossing[:, :-1], axis=1)
    for array in (crossing, stop, near):
        array.setflags(write=False)
    return Scene(
        tuple(f"c{i + 1}" for i in range(cars)),
        tuple(f"p{i + 1}" for i in range(pedestrians)),
        crossing,
        stop,
        near,
    )


def _crossings(pedestrians: int, steps: int, generator: np.random.Generator) -> Flags:
    """Draw crossings. Two are drawn for everyone, so the number of draws does not vary."""
    longest = max(1, steps // 5 - 1)
    two = generator.integers(0, 2, size=pedestrians) == 1
    start = generator.integers(0, steps, size=(2, pedestrians, 1))
    duration = generator.integers(1, longest + 1, size=(2, pedestrians, 1))
    time = np.arange(steps)
    first, second = (start <= time) & (time < start + duration)
    crossing: Flags = first | (second & two[:, None])
    return crossing


def facts(scene: Scene) -> pa.Table:
    """Return all facts, one per row: both true and false for learned predicates, true for Close."""
    tables, stated = scene.tables(), scene.stated()
    names = np.array(scene.agents)
    parts = []
    for predicate in (*LEARNED, "Close"):
        table = tables[predicate]
        static = predicate in ("Car", "Ped")
        cells = np.nonzero(table if predicate == "Close" else stated[predicate])
        rows = len(cells[0])
        args = cells if static else cells[:-1]
        columns: dict[str, Any] = {
            "predicate": np.full(rows, predicate),
            "arg1": names[args[0]],
            "arg2": names[args[1]] if len(args) > 1 else pa.nulls(rows, pa.string()),
            "time": pa.nulls(rows, pa.int32()) if static else cells[-1].astype(np.int32),
            "truth": table[cells].astype(np.int8),
        }
        parts.append(pa.table(columns))
    return pa.concat_tables(parts)


def facts_content(table: pa.Table, name: str) -> Content:
    """Return facts as the content of a file, in the format of its name.

    Raises:
        DataError: the name is neither CSV nor Parquet.
    """
    if not name.endswith((".csv", ".parquet")) or Path(name).name != name:
        raise DataError(
            f"a table of facts must be named like 'facts.csv' or 'facts.parquet', not '{name}'"
        )

    def write(file: BinaryIO) -> None:
        if name.endswith(".parquet"):
            parquet.write_table(table, file)
            return
        file.write(",".join(table.column_names).encode() + b"\n")
        csv.write_csv(table, file, csv.WriteOptions(include_header=False, quoting_style="none"))

    return write
