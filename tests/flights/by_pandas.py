"""Rules about flights counted with pandas: frames of hours by entities, shifted and joined.

Nothing here reads a formula. Each rule of `flights.fot` is written out by hand, with the hours at
which it uses planes and airports.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pytest

pd: Any = pytest.importorskip("pandas", reason="pandas is not installed")
Frame = Any

OF_PLANES = ["Flying", "Late", "LateIn", "Active", "Large"]
OF_AIRPORTS = ["Jammed", "Open", "Hub"]
OF_BOTH = ["Departed", "Landed", "served"]


class Part(NamedTuple):
    """Cells of a rule, or of its consequent alone: all in frames of hours by bindings."""

    cells: Frame
    present: Frame
    antecedent: Frame
    consequent: Frame


class Facts:
    """Frames of hours by planes, airports or pairs."""

    def __init__(self, table: Frame, horizon: int, presence: bool) -> None:
        self.table, self.horizon, self.presence = table, horizon, presence
        of_plane = table[table.predicate.isin(OF_PLANES + OF_BOTH)].arg1
        airports = [
            table[table.predicate.isin(OF_AIRPORTS)].arg1,
            table[table.predicate.isin(OF_BOTH)].arg2,
        ]
        self.planes = pd.Index(sorted(of_plane.unique()))
        self.airports = pd.Index(sorted(pd.concat(airports).unique()))
        served = table[table.predicate == "served"]
        self.pairs = pd.MultiIndex.from_frame(served[["arg1", "arg2"]])
        self.flying, self.late = self.of_planes("Flying"), self.of_planes("Late")
        self.late_in, self.jammed = self.of_planes("LateIn"), self.of_airports("Jammed")
        self.active, self.open = self.of_planes("Active"), self.of_airports("Open")
        self.hubs = sorted(table[table.predicate == "Hub"].arg1)
        large = set(table[table.predicate == "Large"].arg1)
        self.large = [plane for plane in self.planes if plane in large]

    def wide(self, rows: Frame, columns: Frame, key: Frame) -> Frame:
        frame = pd.crosstab(rows.time.astype(int), key).astype(bool)
        hours = pd.RangeIndex(self.horizon)
        return frame.reindex(index=hours, columns=columns, fill_value=False)

    def rows(self, name: str) -> Frame:
        return self.table[self.table.predicate == name]

    def of_planes(self, name: str) -> Frame:
        rows = self.rows(name)
        return self.wide(rows, self.planes, rows.arg1)

    def of_airports(self, name: str) -> Frame:
        rows = self.rows(name)
        return self.wide(rows, self.airports, rows.arg1)

    def at(self, name: str, airport: str) -> Frame:
        """Which planes do something at one airport."""
        rows = self.rows(name)
        rows = rows[rows.arg2 == airport]
        return self.wide(rows, self.planes, rows.arg1)

    def anywhere(self, name: str) -> Frame:
        rows = self.rows(name)
        return self.wide(rows, self.planes, rows.arg1)

    def of_pairs(self, name: str) -> Frame:
        rows = self.rows(name)
        frame = pd.DataFrame(False, index=pd.RangeIndex(self.horizon), columns=self.pairs)
        place = {pair: number for number, pair in enumerate(self.pairs)}
        numbers = [place[pair] for pair in zip(rows.arg1, rows.arg2, strict=True)]
        values = frame.to_numpy(copy=True)
        values[rows.time.astype(int), numbers] = True
        return pd.DataFrame(values, index=frame.index, columns=frame.columns)

    # --- presence -----------------------------------------------------------------------------

    def there(self, here: Frame, *windows: tuple[int | None, int | None]) -> Frame:
        """Where entities are present in each window; beyond the month nobody is."""
        every = here | True
        if not self.presence:
            return every
        for low, high in windows:
            every = every & within(here, low, high)
        return every

    def pair_there(self, *windows: tuple[int | None, int | None]) -> Frame:
        """Where both are present at one hour of each window."""
        first = self.active[self.pairs.get_level_values(0)].to_numpy()
        second = self.open[self.pairs.get_level_values(1)].to_numpy()
        here = pd.DataFrame(first & second, index=self.active.index, columns=self.pairs)
        return self.there(here, *windows)


# --- operators ------------------------------------------------------------------------------------


def shifted(frame: Frame, steps: int, outside: bool = False) -> Frame:
    """What comes so many hours later."""
    return frame.shift(-steps, fill_value=outside)


def some(frame: Frame, low: int, high: int) -> Frame:
    """Whether it is so in one of the hours from `low` to `high`, counted from each."""
    result = shifted(frame, low)
    for steps in range(low + 1, high + 1):
        result = result | shifted(frame, steps)
    return result


def ever(frame: Frame) -> Frame:
    """Whether it is so in an hour from each one on."""
    return frame[::-1].cummax()[::-1].astype(bool)


def within(here: Frame, low: int | None, high: int | None) -> Frame:
    if low is None or high is None:
        assert (low is None) != (high is None)
        if high is None:
            return shifted(ever(here), low or 0)
        return shifted(here.cummax().astype(bool), high)
    return some(here, low, high)


def hours(frame: Frame) -> Frame:
    """The hour at each place, where it is true."""
    number = pd.DataFrame(dict.fromkeys(frame.columns, frame.index), frame.index, dtype=float)
    return number.where(frame)


def until(left: Frame, right: Frame) -> Frame:
    """The next hour of the right comes, and no hour without the left before it."""
    end, gap = hours(right).bfill(), hours(~left).bfill()
    return end.notna() & (gap.isna() | (gap >= end))


def since(left: Frame, right: Frame, most: int) -> Frame:
    """The last hour of the right is not too long ago, and no hour without the left after it."""
    start, gap = hours(right).ffill(), hours(~left).ffill()
    now = hours(left | True)
    return start.notna() & (now - start <= most) & (gap.isna() | (gap <= start))


def beside(column: Frame, frame: Frame) -> Frame:
    """One column, next to each column of a frame."""
    return pd.DataFrame(dict.fromkeys(frame.columns, column), frame.index)


# --- rules ----------------------------------------------------------------------------------------


def rules(f: Facts) -> Iterator[tuple[str, int | None, list[Part], Part]]:
    """The name, how far ahead the consequent looks, cells by airport, and those for the base."""
    now = (0, 0)
    every = f.late | True

    then = some(f.late_in, 0, 8)
    yield "R1", 8, *_one(f.late, then, every, f.there(f.active, now, (0, 8)))

    then = shifted(f.flying, 1)
    base = f.there(f.active, (1, 1))
    parts = [
        Part(every, base & beside(f.there(f.open, now)[a], base), beside(f.jammed[a], then), then)
        for a in f.hubs
    ]
    yield "R2", 1, parts, Part(every, base, every, then)

    departed = f.of_pairs("Departed")
    yield "R3", 24, *_one(departed, some(departed, 1, 24), departed | True,
                          f.pair_there(now, (1, 24)))  # fmt: skip

    window = (-12, 0)
    yield "R4", 0, *_one(f.late_in, some(f.late, -12, 0), every,
                         f.there(f.active, now, window))  # fmt: skip

    base = f.there(f.active, now)
    parts = [
        Part(every, base & beside(f.there(f.open, now)[a], base),
             f.at("Departed", a) & beside(f.jammed[a], every), f.late)
        for a in f.hubs
    ]  # fmt: skip
    yield "R5", 0, parts, Part(every, base, every, f.late)

    yield "R6", None, *_one(f.late, until(f.flying, f.late_in), every,
                            f.there(f.active, now, (0, None)))  # fmt: skip

    yield "R7", 0, *_one(f.late_in, since(f.flying, f.late, 12), every,
                         f.there(f.active, now, window))  # fmt: skip

    yield "R8", 1, *_one(f.flying & shifted(~f.flying, -1), shifted(f.flying, 1), every,
                         f.there(f.active, now, (-1, -1), (1, 1)))  # fmt: skip

    jammed, opened = f.jammed[f.hubs], f.open[f.hubs]
    yield "R9", 1, *_one(jammed, shifted(jammed, 1, outside=True), opened,
                         f.there(opened, now, (1, 1)))  # fmt: skip

    then = some(f.anywhere("Landed"), 0, 12)
    used = f.there(f.active, now, (0, 12))
    parts = [
        Part(every, used & beside(f.there(f.open, now)[a], used), f.at("Departed", a), then)
        for a in f.hubs
    ]
    yield "R10", 12, parts, Part(every, used, every, then)

    late, active, window = f.late[f.large], f.active[f.large], (-24, -1)
    yield "R11", 0, *_one(late, ~some(late, -24, -1), late | True,
                          f.there(active, now, window))  # fmt: skip

    later = shifted(ever(departed), 1)
    yield "R12", None, *_one(departed, later, departed | True,
                             f.pair_there(now, (1, None)))  # fmt: skip


def _one(
    antecedent: Frame, consequent: Frame, cells: Frame, present: Frame
) -> tuple[list[Part], Part]:
    """A rule whose consequent has all of its variables."""
    return [Part(cells, present, antecedent, consequent)], Part(cells, present, cells, consequent)


def count(table: Frame, horizon: int, *, presence: bool) -> dict[str, dict[str, Any]]:
    """The counts of all rules on a table of facts."""
    return tally(rules(Facts(table, horizon, presence)), horizon)


def tally(
    parts_of_rules: Iterable[tuple[str, int | None, list[Part], Part]], horizon: int
) -> dict[str, dict[str, Any]]:
    """The counts of rules, over all hours and over those that the consequent does not look past."""
    return {
        name: {
            **_counts(parts, base, horizon),
            "uncut": None if ahead is None else _counts(parts, base, horizon - ahead),
        }
        for name, ahead, parts, base in parts_of_rules
    }


def _counts(parts: list[Part], base: Part, stop: int) -> dict[str, int]:
    def total(*frames: Frame) -> int:
        product = frames[0].to_numpy(bool)[:stop]
        for frame in frames[1:]:
            product = product & frame.to_numpy(bool)[:stop]
        return int(product.sum())

    return {
        "cells": sum(total(p.cells, p.present) for p in parts),
        "absent": sum(total(p.cells, ~p.present) for p in parts),
        "support": sum(total(p.cells, p.present, p.antecedent) for p in parts),
        "held": sum(total(*p) for p in parts),
        "base_cells": total(base.cells, base.present),
        "base_true": total(base.cells, base.present, base.consequent),
    }
