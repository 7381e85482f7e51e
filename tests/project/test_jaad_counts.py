"""All rules on the clips of the example, counted a second time by loops over rows of tables.

Nothing here reads a formula. Each rule is written out as two functions of a pedestrian and a step,
with the steps at which it uses the pedestrian.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from fotltn.project.find import load_project
from tests.project.test_jaad import FOLDERS, PROJECT, Rows

#: A clip, a pedestrian of it (none in rules about cars alone), and a step.
Cell = tuple[str, str, int]
Truth = Callable[[Cell], bool]
Window = tuple[int, int]
EVER = 10**6
NOW, BEFORE = (0, 0), (-1, -1)


class Rule(NamedTuple):
    """A rule by hand.

    Args:
        antecedent: None if it is no implication.
        consequent: the other side.
        uses: when the antecedent uses the pedestrian; None if the rule has none.
        then_uses: the same of the consequent; None if it speaks of cars alone.
        reach: how far ahead the consequent looks; None for the end.
        first: whether it is about the first step only.
    """

    antecedent: Truth | None
    consequent: Truth
    uses: tuple[Window, ...] | None
    then_uses: tuple[Window, ...] | None = None
    reach: int | None = 0
    first: bool = False


class Clips(Rows):
    """Rows, and what is so at a cell."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.names: dict[str, list[str]] = defaultdict(list)
        for clip, ped in sorted({(clip, ped) for clip, ped, _ in self.ped}):
            self.names[clip].append(ped)

    def inside(self, cell: Cell, low: int, high: int) -> Iterable[Cell]:
        clip, ped, t = cell
        return [
            (clip, ped, s) for s in range(max(0, t + low), min(self.length[clip], t + high + 1))
        ]

    def car_is(self, *columns: str) -> Truth:
        return lambda cell: any(self.car[cell[0], cell[2]][c] == "True" for c in columns)

    def ped_is(self, column: str) -> Truth:
        return lambda cell: self.ped.get(cell, {}).get(column) == "True"

    def height(self, least: float) -> Truth:
        return lambda cell: float(self.ped.get(cell, {}).get("h_rel", 0)) >= least

    def weak_next(self, what: Truth) -> Truth:
        return lambda cell: all(what(c) for c in self.inside(cell, 1, 1))

    def before(self, what: Truth) -> Truth:
        return lambda cell: any(what(c) for c in self.inside(cell, -1, -1))

    def some(self, what: Truth, low: int, high: int) -> Truth:
        return lambda cell: any(what(c) for c in self.inside(cell, low, high))

    def anybody(self, what: Truth) -> Truth:
        return lambda cell: any(what((cell[0], ped, cell[2])) for ped in self.names[cell[0]])

    def present(self, cell: Cell, windows: Iterable[Window]) -> bool:
        return all(
            any(step in self.ped for step in self.inside(cell, *window)) for window in windows
        )

    def cells(self, *, with_ped: bool, first: bool, ahead: int) -> list[Cell]:
        return [
            (clip, ped, t)
            for clip, length in self.length.items()
            for ped in (self.names[clip] if with_ped else [""])
            for t in range(min(length - ahead, 1 if first else length))
        ]


def both(*parts: Truth) -> Truth:
    return lambda cell: all(part(cell) for part in parts)


def either(*parts: Truth) -> Truth:
    return lambda cell: any(part(cell) for part in parts)


def no(what: Truth) -> Truth:
    return lambda cell: not what(cell)


def by_hand(c: Clips) -> dict[str, Rule]:
    stop, run, crossing, aside = (
        c.car_is("Stop"), c.car_is("Run"), c.ped_is("Crossing"), c.ped_is("OnSidewalk"),
    )  # fmt: skip
    close, looking = c.height(0.2), c.ped_is("Looking")
    danger = both(crossing, close)
    starts = both(crossing, c.before(aside))
    start_uses = (NOW, BEFORE)
    rules = {
        "A1": Rule(danger, c.weak_next(stop), (NOW,), None, 1),
        "A2": Rule(both(stop, danger), c.some(run, 0, EVER), (NOW,), None, None),
        "A3": Rule(no(c.anybody(danger)), c.weak_next(run), None, None, 1),
        "A4": Rule(None, run, None, first=True),
        "A6": Rule(None, c.car_is("Run", "Stop"), None),
        "A7": Rule(run, no(stop), None),
        "A10": Rule(crossing, no(aside), (NOW,), (NOW,)),
        "A11": Rule(lambda cell: cell in c.ped, either(crossing, aside), (NOW,), (NOW,)),
        "A13": Rule(crossing, c.some(aside, 0, EVER), (NOW,), ((0, EVER),), None),
        "S1": Rule(danger, c.weak_next(c.car_is("Stop", "Slow", "Decel")), (NOW,), None, 1),
        "W1": Rule(crossing, c.ped_is("Walking"), (NOW,), (NOW,)),
        "N1": Rule(both(crossing, c.height(0.25)), c.weak_next(stop), (NOW,), None, 1),
        "B13": Rule(crossing, c.some(aside, 0, 30), (NOW,), ((0, 30),), 30),
        "P3": Rule(crossing, c.some(aside, -EVER, 0), (NOW,), ((-EVER, 0),)),
        "P4": Rule(both(stop, c.before(run)), c.some(c.anybody(danger), -30, 0), None),
        "P6": Rule(starts, looking, start_uses, (NOW,)),
        "E1": Rule(both(run, starts, close), c.some(stop, 0, 30), start_uses, None, 30),
    }
    for name, steps in (("B1", 10), ("B2", 20), ("B3", 30)):
        rules[name] = Rule(danger, c.some(stop, 0, steps), (NOW,), None, steps)
    for percent in (10, 15, 20, 25, 30, 35, 40):
        high = both(crossing, c.height(percent / 100))
        rules[f"C{percent}"] = Rule(high, c.weak_next(stop), (NOW,), None, 1)
        rules[f"D{percent}"] = Rule(high, c.some(stop, 0, 30), (NOW,), None, 30)
    for name, steps in (("P1", EVER), ("P2", 30), ("P5", 10)):
        rules[name] = Rule(starts, c.some(looking, -steps, 0), start_uses, ((-steps, 0),))
    return rules


@pytest.mark.parametrize("end", ["final", "undecided"])
@pytest.mark.parametrize("presence", [True, False])
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_all_rules_with_presence_and_without(folder, presence, end):
    clips = Clips(folder)
    evidence = load_project(PROJECT, data=folder, theory=PROJECT / "audit.fot")
    if not presence:
        evidence = replace(evidence, tables=replace(evidence.tables, present={}))
    by_name = by_hand(clips)

    def there(cell: Cell, windows: Iterable[Window]) -> bool:
        return not presence or clips.present(cell, windows)

    for found in evidence.rules(resamples=0, end=end):
        rule = by_name[found.name]

        def decided(cell: Cell, rule: Rule = rule) -> bool:
            clip, _, t = cell
            inside = rule.reach is not None and t + rule.reach < clips.length[clip]
            return end == "final" or inside or rule.consequent(cell)

        for strength, ahead in ((found.overall, 0), (found.uncut, rule.reach)):
            if ahead is None:
                assert strength is None
                continue
            assert strength is not None
            uses = None if rule.uses is None else {*rule.uses, *(rule.then_uses or ())}
            every = clips.cells(with_ped=uses is not None, first=rule.first, ahead=ahead)
            cells = [cell for cell in every if there(cell, uses or ())]
            asked = [c for c in cells if rule.antecedent is None or rule.antecedent(c)]
            support = [c for c in asked if decided(c)]
            assert strength.support == len(support), found.name
            assert strength.traces == len({clip for clip, _, _ in support})
            confidence = share(support, rule.consequent)
            assert strength.confidence.value == pytest.approx(confidence), found.name
            if strength is found.overall:
                assert found.absent == len(every) - len(cells), found.name
                assert found.undecided == len(asked) - len(support), found.name
            if rule.antecedent is None:
                assert strength.base_rate.value is None
                continue
            about = clips.cells(with_ped=rule.then_uses is not None, first=False, ahead=ahead)
            about = [cell for cell in about if rule.then_uses is None or there(cell, uses or ())]
            about = [cell for cell in about if decided(cell)]
            base = share(about, rule.consequent)
            assert strength.base_rate.value == pytest.approx(base), found.name


def share(cells: list[Cell], what: Truth) -> float | None:
    return sum(map(what, cells)) / len(cells) if cells else None
