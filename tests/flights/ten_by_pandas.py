"""The ten rules of `benchmarks/flights.fot` counted with pandas, over all planes and airports.

    python -m tests.flights.ten_by_pandas

makes the record of their counts on made-up flights again. It needs pandas, which is no dependency.
Nothing here reads a formula: each rule is written out by hand, with the hours at which it uses
planes and airports.
"""

import importlib.metadata
import json
from collections.abc import Iterator
from typing import Any

from benchmarks.flights import made_up, write
from tests.flights.by_pandas import Facts, Frame, Part, pd, shifted, some, tally, until
from tests.flights.make import TEN_FACTS, TEN_HOURS, TEN_RECORD

Window = tuple[int | None, int | None]
NOW: Window = (0, 0)


class Pairs(Facts):
    """Frames of hours by all pairs of a plane and an airport."""

    def __init__(self, table: Frame, horizon: int, presence: bool) -> None:
        super().__init__(table, horizon, presence)
        self.pairs = pd.MultiIndex.from_product([self.planes, self.airports])
        self.departed, self.landed = self.of_pairs("Departed"), self.of_pairs("Landed")
        self.every = self.departed | True

    def by_plane(self, frame: Frame) -> Frame:
        """What planes do, for each pair."""
        return self.spread(frame, 0)

    def by_airport(self, frame: Frame) -> Frame:
        """What is so at airports, for each pair."""
        return self.spread(frame, 1)

    def spread(self, frame: Frame, level: int) -> Frame:
        values = frame[self.pairs.get_level_values(level)].to_numpy()
        return pd.DataFrame(values, index=frame.index, columns=self.pairs)

    def both(self, planes: list[Window], airports: list[Window]) -> Frame:
        """Where a plane and an airport are present: at one hour of windows that they share."""
        shared = [window for window in planes if window in airports]
        first = self.there(self.active, *(w for w in planes if w not in shared))
        second = self.there(self.open, *(w for w in airports if w not in shared))
        return self.pair_there(*shared) & self.by_plane(first) & self.by_airport(second)

    def one(
        self, antecedent: Frame, consequent: Frame, planes: list[Window], airports: list[Window]
    ) -> tuple[list[Part], Part]:
        """A rule about one pair, with the windows in which plane and airport are used."""
        present = self.both(planes, airports)
        return (
            [Part(self.every, present, antecedent, consequent)],
            Part(self.every, present, self.every, consequent),
        )

    def alike(
        self, antecedent: Frame, consequent: Frame, window: Window
    ) -> tuple[list[Part], Part]:
        """The same where both are used now, and in the window of the consequent."""
        return self.one(antecedent, consequent, [NOW, window], [NOW, window])


def ten(f: Pairs) -> Iterator[tuple[str, int | None, list[Part], Part]]:
    """The name, how far ahead the consequent looks, cells by airport, and those for the base."""
    departed, landed = f.departed, f.landed
    yield "T1", 1, *f.alike(departed, shifted(departed, 1), (1, 1))
    yield "T2", 12, *f.alike(departed, some(landed, 0, 12), (0, 12))
    yield "T3", 24, *f.alike(landed, some(departed, 0, 24), (0, 24))
    yield "T4", 24, *_chained(f)
    waits = shifted(until(~landed, departed), 1)
    yield "T5", None, *f.alike(landed, waits, (1, None))
    yield "T6", 0, *f.alike(departed, some(landed, -48, 0), (-48, 0))
    flies = shifted(until(f.by_plane(f.flying), landed), 1)
    yield "T7", None, *f.alike(departed & f.by_plane(f.late), flies, (1, None))
    yield "T8", 0, *f.alike(departed, ~some(departed, -24, -1), (-24, -1))
    leaves = f.by_plane(f.anywhere("Departed")) & f.by_airport(f.open)
    yield "T9", 0, *f.alike(leaves, ~landed, NOW)
    then = f.by_airport(f.jammed) | f.by_plane(some(f.late, 0, 3))
    yield "T10", 3, *f.one(shifted(departed, 1), then, [(1, 1), (0, 3)], [(1, 1), NOW])


def _chained(f: Pairs) -> tuple[list[Part], Part]:
    """T4: left one airport and soon landed at another, with cells for each of the first."""
    soon, then = some(f.landed, 0, 8), some(f.departed, 0, 24)
    present = f.both([NOW, (0, 8), (0, 24)], [(0, 8), (0, 24)])
    parts = []
    for airport in f.airports:
        here = f.there(f.open, NOW)[[airport] * len(f.pairs)].to_numpy()
        left = f.by_plane(f.at("Departed", airport))
        parts.append(Part(f.every, present & here, left & soon, then))
    return parts, Part(f.every, present, f.every, then)


def count(table: Frame, horizon: int, *, presence: bool) -> dict[str, dict[str, Any]]:
    """The counts of the ten rules on a table of facts."""
    return tally(ten(Pairs(table, horizon, presence)), horizon)


def main() -> None:
    """Write the flights and the record."""
    write(made_up(36, 8, TEN_HOURS, seed=1), TEN_FACTS)
    table = pd.read_csv(TEN_FACTS)
    counts = {
        word: count(table, TEN_HOURS, presence=presence)
        for word, presence in (("present", True), ("all", False))
    }
    record = {"pandas": importlib.metadata.version("pandas"), "counts": counts}
    TEN_RECORD.write_text(json.dumps(record, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()
