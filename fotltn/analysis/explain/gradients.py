"""Which facts the value of a cell depends on most, by its gradient."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.explain.ground import Fact
from fotltn.analysis.explain.pattern import Leaf
from fotltn.analysis.explain.values import Site, site
from fotltn.evaluation import evaluate_core
from fotltn.logic import core as c
from fotltn.semantics.interpretation import Value

#: The most degrees of one table that variants of a cell are made of at once.
_CELLS = 2**22


@dataclass(frozen=True, slots=True)
class Influence:
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

    def as_dict(self) -> dict[str, object]:
        """The influence for machines."""
        return {
            "fact": self.text,
            "predicate": self.predicate,
            "time": self.time,
            "value": self.value,
            "gradient": self.gradient,
            "then": self.then,
        }


def influence(
    cells: Cells, cell: Cell, *, top: int = 10, fixed: Collection[str] = ()
) -> tuple[Influence, ...]:
    """The facts with the largest gradients of a cell's value, whatever their sign.

    Facts on which the value does not depend are left out, and guards, which have no gradient. In
    two-valued logic there is none at all.

    Args:
        cells: of the rule.
        cell: where.
        top: how many at most.
        fixed: predicates whose facts are left out.

    Raises:
        DataError: there is no such cell or predicate, or a table is missing.
    """
    return influence_at(site(cells, cell), top=top, fixed=fixed)


def influence_at(
    found: Site, *, top: int = 10, fixed: Collection[str] = ()
) -> tuple[Influence, ...]:
    """The same for a cell whose tables are there already."""
    found.cells.check_predicates(fixed)
    if found.cells.semantics.boolean:
        return ()
    leaves = {
        leaf: own.value.clone().requires_grad_(_moves(leaf, fixed))
        for leaf, own in found.degrees.items()
    }
    chosen = [leaf for leaf, table in leaves.items() if table.requires_grad]
    with torch.enable_grad():
        value = _value(found, leaves)
        if not value.requires_grad:
            return ()
        slopes = torch.autograd.grad(
            value.sum(), [leaves[leaf] for leaf in chosen], allow_unused=True
        )
    facts = _steepest(found, dict(zip(chosen, slopes, strict=True)), top)
    then = _then(found, facts)
    result = []
    for (fact, slope), after in zip(facts, then, strict=True):
        text, time = found.view.name(fact)
        degree = float(
            found.view.degrees(fact.predicate, torch.tensor(fact.place, device=value.device))
        )
        result.append(Influence(text, fact.predicate, time, degree, slope, after))
    return tuple(result)


def _moves(leaf: Leaf, fixed: Collection[str]) -> bool:
    return isinstance(leaf.node, c.Atom) and leaf.node.predicate not in fixed


def _value(found: Site, tables: Mapping[Leaf, Tensor]) -> Tensor:
    """The value of the body at the cell, one a variant."""
    model = found.graded(tables)
    value: Value = evaluate_core(
        found.pattern.parts[found.pattern.body],
        model,
        found.cells.semantics,
    )
    point = found.time - found.first if value.tensor.shape[-1] > 1 else 0
    return value.tensor[..., point].expand(model.batch)


def _steepest(
    found: Site, slopes: Mapping[Leaf, Tensor | None], top: int
) -> list[tuple[Fact, float]]:
    """The facts with the largest gradients, each summed over all places where it is read."""
    read: dict[str, list[tuple[Tensor, Tensor]]] = {}
    for leaf, slope in slopes.items():
        places = found.degrees[leaf].places
        if slope is not None and places is not None and isinstance(leaf.node, c.Atom):
            parts = read.setdefault(leaf.node.predicate, [])
            parts.append((places.reshape(-1), slope.reshape(-1)))
    ranked: list[tuple[Fact, float]] = []
    for predicate, parts in read.items():
        places, inverse = torch.cat([p for p, _ in parts]).unique(return_inverse=True)
        whole = torch.cat([s for _, s in parts])
        total = torch.zeros(len(places), dtype=whole.dtype, device=whole.device)
        total.index_add_(0, inverse, whole)
        order = total.abs().argsort(descending=True, stable=True)[:top]
        facts = [Fact(predicate, place) for place in places[order].tolist()]
        ranked += zip(facts, total[order].tolist(), strict=True)
    ranked.sort(key=lambda item: -abs(item[1]))
    return [(fact, slope) for fact, slope in ranked[:top] if slope]


@torch.no_grad()
def _then(found: Site, facts: list[tuple[Fact, float]]) -> list[float]:
    """The cell's value with each fact alone as true or false as its gradient wants it."""
    largest = max((own.value.numel() for own in found.degrees.values()), default=1)
    width = max(1, _CELLS // max(1, largest))
    values: list[float] = []
    for start in range(0, len(facts), width):
        chosen = facts[start : start + width]
        tables = {}
        for leaf, own in found.degrees.items():
            variants = own.value.expand(len(chosen), *own.value.shape).clone()
            for number, (fact, slope) in enumerate(chosen):
                if own.places is not None and leaf.node.predicate == fact.predicate:  # type: ignore[attr-defined]
                    variants[number][own.places == fact.place] = float(slope > 0)
            tables[leaf] = variants
        values += _value(found, tables).tolist()
    return values
