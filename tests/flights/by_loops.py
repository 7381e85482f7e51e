"""Cells of rules about flights that fail only since the hours end, by loops over rows of a file.

Nothing here reads a formula. Rules that look ahead are written out by hand, with what could still
come: a late landing in one of eight hours can, if not all of them are in the table.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

EVER = 10**6
NOW = (0, 0)

Window = tuple[int, int]
Binding = tuple[str, ...]
Truth = Callable[[Binding, int], bool]


class Ahead(NamedTuple):
    """A rule whose consequent looks ahead; planes come first in bindings, then airports.

    Args:
        bindings: of the rule.
        antecedent: where it claims something.
        consequent: what it claims.
        could: whether that may still become true, where it is not.
        plane: the windows in which the rule uses the plane.
        airport: those in which it uses the airport; none if it has none.
        pairs: whether the consequent speaks of plane and airport, and not of the plane alone.
    """

    bindings: Sequence[Binding]
    antecedent: Truth
    consequent: Truth
    could: Truth
    plane: list[Window]
    airport: list[Window]
    pairs: bool = False


class Hours:
    """The rows of a table of facts."""

    def __init__(self, file: Path, horizon: int, *, presence: bool) -> None:
        self.horizon, self.presence = horizon, presence
        self.true: dict[str, set[tuple[Binding, int]]] = defaultdict(set)
        with file.open(newline="", encoding="utf-8") as rows:
            for row in csv.DictReader(rows):
                names = (row["arg1"], row["arg2"]) if row["arg2"] else (row["arg1"],)
                self.true[row["predicate"]].add((names, int(row["time"] or 0)))
        of_planes = ("Flying", "Late", "LateIn", "Active", "Large")
        named = [n for p in (*of_planes, "Departed", "Landed", "served") for n, _ in self.true[p]]
        self.planes = sorted({names[0] for names in named})
        self.hubs = sorted(names[0] for names, _ in self.true["Hub"])
        self.pairs = sorted(names for names, _ in self.true["served"])

    def is_so(self, name: str, binding: Binding, time: int) -> bool:
        return (binding, time) in self.true[name]

    def inside(self, time: int, window: Window) -> range:
        low, high = window
        return range(max(0, time + low), min(self.horizon, time + high + 1))

    def some(self, name: str, window: Window, arity: int = 1) -> Truth:
        return lambda b, t: any(self.is_so(name, b[:arity], s) for s in self.inside(t, window))

    def cut(self, last: int) -> Truth:
        return lambda b, t: t + last >= self.horizon  # noqa: ARG005 whoever it is

    def there(self, name: str, entity: str, time: int, windows: list[Window]) -> bool:
        return not self.presence or all(
            any(self.is_so(name, (entity,), s) for s in self.inside(time, window))
            for window in windows
        )

    def until(self, b: Binding, t: int) -> bool:
        for s in range(t, self.horizon):
            if self.is_so("LateIn", b[:1], s):
                return True
            if not self.is_so("Flying", b[:1], s):
                return False
        return False

    def still_flying(self, b: Binding, t: int) -> bool:
        return all(self.is_so("Flying", b[:1], s) for s in range(t, self.horizon))

    def landed(self, b: Binding, t: int) -> bool:
        window = self.inside(t, (0, 12))
        return any(n[0] == b[0] and s in window for n, s in self.true["Landed"])


def _rules(h: Hours) -> Iterator[tuple[str, Ahead]]:
    alone, with_hubs = [(p,) for p in h.planes], list(product(h.planes, h.hubs))
    late, jammed = h.some("Late", NOW), lambda b, t: h.is_so("Jammed", b[1:], t)
    flies = h.some("Flying", (1, 1))

    def takes_off(b: Binding, t: int) -> bool:
        before = t > 0 and not h.is_so("Flying", b, t - 1)
        return before and h.is_so("Flying", b, t)

    departs = h.some("Departed", NOW, 2)
    late_in, day = h.some("LateIn", (0, 8)), h.some("Departed", (1, 24), 2)
    again = h.some("Departed", (1, EVER), 2)
    yield "R1", Ahead(alone, late, late_in, h.cut(8), [NOW, (0, 8)], [])
    yield "R2", Ahead(with_hubs, jammed, flies, h.cut(1), [(1, 1)], [NOW])
    both = [NOW, (1, 24)]
    yield "R3", Ahead(h.pairs, departs, day, h.cut(24), both, both, pairs=True)
    yield "R6", Ahead(alone, late, h.until, h.still_flying, [NOW, (0, EVER)], [])
    yield "R8", Ahead(alone, takes_off, flies, h.cut(1), [NOW, (-1, -1), (1, 1)], [])
    yield "R10", Ahead(with_hubs, departs, h.landed, h.cut(12), [NOW, (0, 12)], [NOW])
    both = [NOW, (1, EVER)]
    yield "R12", Ahead(h.pairs, departs, again, h.cut(EVER), both, both, pairs=True)


def undecided(file: Path, horizon: int, *, presence: bool) -> dict[str, tuple[int, int]]:
    """Of rules that look ahead: their undecided cells, and those of their consequents alone."""
    h = Hours(file, horizon, presence=presence)

    def together(b: Binding, t: int, windows: list[Window]) -> bool:
        return not presence or all(
            any(
                h.is_so("Active", b[:1], s) and h.is_so("Open", b[1:], s)
                for s in h.inside(t, window)
            )
            for window in windows
        )

    def present(rule: Ahead, b: Binding, t: int) -> bool:
        if rule.pairs:
            return together(b, t, rule.plane)
        airport = not rule.airport or h.there("Open", b[1], t, rule.airport)
        return airport and h.there("Active", b[0], t, rule.plane)

    def base_present(rule: Ahead, b: Binding, t: int) -> bool:
        if rule.pairs:
            return together(b, t, rule.plane)
        return h.there("Active", b[0], t, rule.plane)

    counts = {}
    for name, rule in _rules(h):
        open_cells = [
            (b, t)
            for b in rule.bindings
            for t in range(horizon)
            if not rule.consequent(b, t) and rule.could(b, t)
        ]
        asked = [(b, t) for b, t in open_cells if rule.antecedent(b, t) and present(rule, b, t)]
        alone = {(b if rule.pairs else b[:1], t) for b, t in open_cells if base_present(rule, b, t)}
        counts[name] = (len(asked), len(alone))
    return counts
