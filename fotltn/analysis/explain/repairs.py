"""Find the smallest set of facts to flip so that a body is true at a cell."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch

from fotltn.analysis.explain.circuit import Circuit
from fotltn.analysis.explain.search import Search
from fotltn.analysis.explain.site import FactPlace, Site
from fotltn.analysis.explain.values import body_value
from fotltn.analysis.record import Record
from fotltn.errors import LimitError
from fotltn.format import degree
from fotltn.semantics.config import CRISP

#: How many gates a search looks at before it gives up.
EFFORT = 400_000


@dataclass(frozen=True, slots=True)
class Flip(Record):
    """A fact that a repair makes true or false.

    Args:
        text: the fact.
        predicate: its predicate.
        time: its time; None if it is static.
        value: its degree.
        becomes: its truth after the repair.
        place: its place in the table of the trace.
    """

    text: str
    predicate: str
    time: int | None
    value: float
    becomes: bool
    place: int

    KEYS = ("fact=text", "predicate", "time", "value", "becomes")

    def __str__(self) -> str:
        """Return the change in words."""
        when = "" if self.time is None else f" at {self.time}"
        becomes = "true" if self.becomes else "false"
        return f"{self.text}{when} becomes {becomes} (it is {degree(self.value)})"


@dataclass(frozen=True, slots=True)
class Repair(Record):
    """The facts to flip so that a body is true at a cell.

    Args:
        needed: whether the body is false without changes.
        flips: the facts; None if no repair was found.
        exact: whether no repair is smaller; without flips, whether no repair exists.
        least: the least number of flips of any repair.
        note: the same in words.
    """

    needed: bool
    flips: tuple[Flip, ...] | None
    exact: bool
    least: int
    note: str

    def __str__(self) -> str:
        """Return the repair in words."""
        flips = ", ".join(map(str, self.flips or ()))
        return f"{flips}; {self.note}" if flips else self.note


@torch.no_grad()
def repair(
    site: Site,
    *,
    fixed: Collection[str] = (),
    held: Collection[FactPlace] = (),
    effort: int = EFFORT,
) -> Repair:
    """Find the fewest facts to flip so that the body of a rule is true at a cell.

    If no fact is read twice, the cost of each part follows from the costs of its parts. Otherwise
    this gives a first repair, and a search looks for smaller ones.

    Args:
        site: the cell.
        fixed: predicates whose facts must not change.
        held: further facts that must not change.
        effort: how many gates the search may visit; the best repair so far is returned.

    Raises:
        DataError: there is no such predicate, or a table is missing.
    """
    site.cells.check_predicates(fixed)
    if _true(site, frozenset()):
        return Repair(
            False, (), True, 0, "no repair is needed, because it is true in two-valued logic"
        )
    try:
        gates = Circuit(site, fixed, held)
    except LimitError as error:
        reason = error.diagnostics[0].message
        return Repair(True, None, False, 1, f"no repair was looked for: {reason}")
    flips, exact, least = Search(gates, effort).run()
    if flips is None:
        note = "no change of the facts that may change makes it true"
        if not exact:
            note = "no repair was found before the search was cut short"
        return Repair(True, None, exact, least, note)
    facts = frozenset(gates.facts[number] for number in flips)
    assert _true(site, facts), "a repair that the evaluator does not confirm"
    note = "no smaller set of facts will do"
    if not exact:
        note = f"a smaller set may do, of {least} or more: the search was cut short"
    flipped = sorted((_flip(site, fact) for fact in facts), key=_order)
    return Repair(True, tuple(flipped), exact, least, note)


def _flip(site: Site, fact: FactPlace) -> Flip:
    text, time = site.name(fact)
    value = site.degree(fact)
    return Flip(text, fact.predicate, time, value, not site.truth(fact), fact.place)


def _order(flip: Flip) -> tuple[int, str]:
    return (-1 if flip.time is None else flip.time), flip.text


def _true(site: Site, flipped: frozenset[FactPlace]) -> bool:
    """Whether the body is true with some facts flipped, by the two-valued evaluator."""
    tables = {}
    for leaf, (_, truth, places) in site.leaves.items():
        turned = [fact.place for fact in flipped if fact.predicate == leaf.predicate]
        if places is not None and turned:
            truth = truth ^ torch.isin(places, torch.tensor(turned, device=truth.device))
        tables[leaf] = truth
    return bool(body_value(site, site.variant(tables, tables), CRISP))
