"""Random rules with a cell each, and small worlds, for tests of explanations."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.explain import explanation, gradients, repairs, tree
from fotltn.analysis.explain.site import Site
from fotltn.analysis.explain.tree import ValueNode
from fotltn.analysis.view import View
from fotltn.logic.check import check_formula
from fotltn.logic.signature import build_signature
from fotltn.semantics.config import STABLE_PRODUCT, Semantics
from fotltn.semantics.from_tensors import tables_of_tensors
from fotltn.semantics.tables import Tables
from fotltn.syntax import theory as th
from fotltn.syntax.parse import parse_formula
from tests.helpers import numbered
from tests.random_cases import random_case


@dataclass(frozen=True)
class Example:
    """The cells of a rule, and one of them."""

    cells: Cells
    cell: Cell
    rng: random.Random

    @property
    def tables(self) -> Tables:
        return self.cells.tables


def example(seed: int, semantics: Semantics | None = None) -> Example:
    """A random one; of rules without cells, or about entities that there are not, another."""
    rng = random.Random(seed)
    while True:
        case = random_case(seed)
        cells = View(case.model, semantics or case.semantics).cells(case.checked)
        nobody = not case.model.sizes["u"] and '"u0"' in case.text
        if not nobody and all(cells.sizes):
            break
        seed += 10_000
    trace = rng.randrange(case.model.batch)
    numbers = tuple(rng.randrange(size) for size in cells.sizes)
    time = rng.randrange(case.model.length(trace))
    return Example(cells, Cell(trace, numbers, time), rng)


def world(
    text: str,
    predicates: Mapping[str, object],
    *,
    semantics: Semantics = STABLE_PRODUCT,
    **more: object,
) -> Cells:
    """The cells of a formula over agents; a table with one axis less is static."""
    places = {"Near": 2, "Close": 2, "wet": 0}
    declared: list[th.Declaration] = [th.SortDecl("agent")]
    for symbol, table in predicates.items():
        arity = places.get(symbol, 1)
        static = torch.as_tensor(table).dim() == arity
        declared.append(th.PredicateDecl(symbol, ("agent",) * arity, static))
    signature = build_signature(declared)[0]
    checked = check_formula(parse_formula(text), signature)
    tables = tables_of_tensors(signature, predicates, **more)  # type: ignore[arg-type]
    return View(replace(tables, names=numbered(tables.sizes)), semantics).cells(checked)


def explain(cells: Cells, cell: Cell, **more: int) -> ValueNode:
    return tree.explain(Site(cells, cell), **more)


def timelines(cells: Cells, cell: Cell, **more: int) -> tuple[explanation.Timeline, ...]:
    return explanation.timelines(Site(cells, cell), explain(cells, cell), **more)


def influence(cells: Cells, cell: Cell, **more: Any) -> tuple[gradients.Influence, ...]:
    return gradients.influence(Site(cells, cell), **more)


def repair(cells: Cells, cell: Cell, **more: Any) -> repairs.Repair:
    return repairs.repair(Site(cells, cell), **more)
