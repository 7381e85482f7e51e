"""The smallest set of facts to flip so that a body is true at a cell, in two-valued logic."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch

from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.explain.circuit import FALSE, TRUE, circuit
from fotltn.analysis.explain.ground import Fact
from fotltn.analysis.explain.search import Search
from fotltn.analysis.explain.values import Site, site
from fotltn.errors import LimitError
from fotltn.evaluation import evaluate_core
from fotltn.format import degree
from fotltn.semantics.config import CRISP

#: How many gates a search looks at before it gives up.
EFFORT = 400_000


@dataclass(frozen=True, slots=True)
class Flip:
    """A fact that a repair makes true or false.

    Args:
        text: the fact.
        predicate: its predicate.
        time: its time; None if it is static.
        value: its degree.
        becomes: its truth after the repair.
    """

    text: str
    predicate: str
    time: int | None
    value: float
    becomes: bool

    def __str__(self) -> str:
        """What is done, in words."""
        when = "" if self.time is None else f" at {self.time}"
        becomes = "true" if self.becomes else "false"
        return f"{self.text}{when} becomes {becomes} (it is {degree(self.value, 2)})"

    def as_dict(self) -> dict[str, object]:
        """The flip for machines."""
        return {
            "fact": self.text,
            "predicate": self.predicate,
            "time": self.time,
            "value": self.value,
            "becomes": self.becomes,
        }


@dataclass(frozen=True, slots=True)
class Repair:
    """What to flip so that a body is true at a cell.

    Args:
        needed: whether it is false as it is.
        flips: the facts; None if no repair was found.
        exact: whether no repair is smaller, or, without flips, whether there is none.
        least: how many flips every repair has at least.
        note: the same in words.
    """

    needed: bool
    flips: tuple[Flip, ...] | None
    exact: bool
    least: int
    note: str

    def __str__(self) -> str:
        """The repair in words."""
        flips = ", ".join(map(str, self.flips or ()))
        return f"{flips}; {self.note}" if flips else self.note

    def as_dict(self) -> dict[str, object]:
        """The repair for machines."""
        return {
            "needed": self.needed,
            "flips": None if self.flips is None else [flip.as_dict() for flip in self.flips],
            "exact": self.exact,
            "least": self.least,
            "note": self.note,
        }


def repair(
    cells: Cells,
    cell: Cell,
    *,
    fixed: Collection[str] = (),
    effort: int = EFFORT,
) -> Repair:
    """The fewest facts to flip so that the body of a rule is true at a cell.

    Where no fact is read twice, the cost of each part follows from those of its own parts. Where
    one is, that gives a first repair, and a search looks for smaller ones.

    Args:
        cells: of the rule.
        cell: where.
        fixed: predicates whose facts stay as they are.
        effort: how many gates the search may look at; what it has found by then is given.

    Raises:
        DataError: there is no such cell or predicate, or a table is missing.
    """
    return repair_at(site(cells, cell), fixed=fixed, effort=effort)


@torch.no_grad()
def repair_at(found: Site, *, fixed: Collection[str] = (), effort: int = EFFORT) -> Repair:
    """The same for a cell whose tables are there already."""
    found.cells.check_predicates(fixed)
    if _true(found, frozenset()):
        return Repair(False, (), True, 0, "none is needed, since it is true in two-valued logic")
    try:
        gates = circuit(found, fixed)
    except LimitError as error:
        reason = error.diagnostics[0].message
        return Repair(True, None, False, 1, f"no repair was looked for: {reason}")
    assert gates.root != TRUE
    if gates.root == FALSE:
        return _none()
    best = Search(gates, effort).run()
    if best.flips is None:
        return _none() if best.exact else Repair(True, None, False, best.least, _CUT_NONE)
    facts = frozenset(gates.facts[number] for number in best.flips)
    assert _true(found, facts), "a repair that the evaluator does not confirm"
    flips = tuple(sorted((_flip(found, fact) for fact in facts), key=_order))
    note = "no smaller set of facts will do"
    if not best.exact:
        note = f"a smaller set may do, of {best.least} or more: the search was cut short"
    return Repair(True, flips, best.exact, best.least, note)


_CUT_NONE = "no repair was found before the search was cut short"


def _none() -> Repair:
    note = "no change of the facts that may change makes it true"
    return Repair(True, None, True, 0, note)


def _flip(found: Site, fact: Fact) -> Flip:
    text, time = found.view.name(fact)
    place = torch.tensor(fact.place, device=found.cells.tables.lengths.device)
    degree = float(found.view.degrees(fact.predicate, place))
    return Flip(text, fact.predicate, time, degree, degree < found.cells.threshold)


def _order(flip: Flip) -> tuple[int, str]:
    return (-1 if flip.time is None else flip.time), flip.text


def _true(found: Site, flipped: frozenset[Fact]) -> bool:
    """Whether the body is true with some facts flipped, by the two-valued evaluator."""
    by_name: dict[str, list[int]] = {}
    for fact in flipped:
        by_name.setdefault(fact.predicate, []).append(fact.place)
    tables = {}
    for leaf, own in found.degrees.items():
        places = by_name.get(getattr(leaf.node, "predicate", ""), [])
        truth = own.truth
        if own.places is not None and places:
            truth = truth ^ torch.isin(own.places, torch.tensor(places, device=truth.device))
        tables[leaf] = truth
    model = found.tables(tables, tables)
    value = evaluate_core(found.pattern.parts[found.pattern.body], model, CRISP)
    return bool(value.tensor[0, ..., found.time - found.first])
