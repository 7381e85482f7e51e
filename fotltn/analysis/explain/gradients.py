"""Find the facts that the value of a cell depends on most, by its gradient."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.analysis.explain.pattern import BodyLeaf
from fotltn.analysis.explain.site import FactPlace, Site
from fotltn.analysis.explain.values import body_value
from fotltn.analysis.record import Record

#: The most degrees of one table that variants of a cell are made of at once.
_CELLS = 2**22


@dataclass(frozen=True, slots=True)
class Influence(Record):
    """A fact that the value of a cell depends on.

    Args:
        text: the fact.
        predicate: its predicate.
        time: its time; None if it is static.
        value: its degree.
        gradient: how fast the cell's value grows with it.
        then: the cell's value if this fact alone were true, or, for a negative gradient, false.
    """

    text: str
    predicate: str
    time: int | None
    value: float
    gradient: float
    then: float

    KEYS = ("fact=text", "predicate", "time", "value", "gradient", "then")


def influence(site: Site, *, top: int = 10, fixed: Collection[str] = ()) -> tuple[Influence, ...]:
    """Return the facts with the largest gradients of a cell's value, ignoring signs.

    Facts without effect on the value are left out, and so are guards, which have no gradient. In
    two-valued logic, no fact has a gradient.

    Args:
        site: the cell.
        top: the maximum number of facts.
        fixed: predicates whose facts are left out.

    Raises:
        DataError: there is no such predicate, or a table is missing.
    """
    site.cells.check_predicates(fixed)
    semantics = site.cells.semantics
    if semantics.boolean:
        return ()
    moving = {leaf for leaf in site.leaves if leaf.predicate not in (None, *fixed)}
    tables = {
        leaf: table.value.clone().requires_grad_(leaf in moving)
        for leaf, table in site.leaves.items()
    }
    free = {leaf: table for leaf, table in tables.items() if leaf in moving}
    with torch.enable_grad():
        value = body_value(site, site.variant(tables), semantics)
        if not value.requires_grad:
            return ()
        slopes = torch.autograd.grad(value.sum(), list(free.values()), allow_unused=True)
    influences = []
    facts = _steepest(site, dict(zip(free, slopes, strict=True)), top)
    for (fact, slope), then in zip(facts, _then(site, facts), strict=True):
        text, time = site.name(fact)
        influences.append(Influence(text, fact.predicate, time, site.degree(fact), slope, then))
    return tuple(influences)


def _steepest(
    site: Site, slopes: Mapping[BodyLeaf, Tensor | None], top: int
) -> list[tuple[FactPlace, float]]:
    """The facts with the largest gradients, each summed over all places where it is read."""
    read: dict[str, list[tuple[Tensor, Tensor]]] = {}
    for leaf, slope in slopes.items():
        places = site.leaves[leaf].places
        if slope is not None and places is not None and leaf.predicate is not None:
            read.setdefault(leaf.predicate, []).append((places.reshape(-1), slope.reshape(-1)))
    ranked: list[tuple[FactPlace, float]] = []
    for predicate, parts in read.items():
        places, inverse = torch.cat([p for p, _ in parts]).unique(return_inverse=True)
        every = torch.cat([s for _, s in parts])
        total = torch.zeros(len(places), dtype=every.dtype, device=every.device)
        total.index_add_(0, inverse, every)
        order = total.abs().argsort(descending=True, stable=True)[:top]
        facts = [FactPlace(predicate, place) for place in places[order].tolist()]
        ranked += zip(facts, total[order].tolist(), strict=True)
    ranked.sort(key=lambda item: -abs(item[1]))
    return [(fact, slope) for fact, slope in ranked[:top] if slope]


@torch.no_grad()
def _then(site: Site, facts: list[tuple[FactPlace, float]]) -> list[float]:
    """The cell's value with each fact alone as true or false as its gradient wants it."""
    largest = max((table.value.numel() for table in site.leaves.values()), default=1)
    width = max(1, _CELLS // max(1, largest))
    values: list[float] = []
    for start in range(0, len(facts), width):
        chosen = facts[start : start + width]
        tables = {}
        for leaf, (value, _, places) in site.leaves.items():
            variants = value.expand(len(chosen), *value.shape).clone()
            for number, (fact, slope) in enumerate(chosen):
                if places is not None and leaf.predicate == fact.predicate:
                    variants[number][places == fact.place] = float(slope > 0)
            tables[leaf] = variants
        values += body_value(site, site.variant(tables), site.cells.semantics).tolist()
    return values
