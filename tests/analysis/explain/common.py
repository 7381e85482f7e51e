"""Random rules with a cell each, and small worlds, for tests of explanations."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from fotltn.analysis.explain import Cell, Rule, Subject, rule_of
from fotltn.logic.check import check_formula
from fotltn.logic.signature import build_signature
from fotltn.semantics.config import STABLE_PRODUCT, Semantics
from fotltn.semantics.interpretation import Tables
from fotltn.semantics.tables import interpret
from fotltn.syntax import theory as th
from fotltn.syntax.parse import parse_formula
from tests.random_cases import SIGNATURE, random_case


def name(sort: str, _: int, number: int) -> str:
    return f"{sort}{number}"


@dataclass(frozen=True)
class Example:
    """A rule, data and a cell of it."""

    rule: Rule
    subject: Subject
    cell: Cell
    rng: random.Random

    @property
    def model(self) -> Tables:
        return self.subject.tables


def example(seed: int, semantics: Semantics | None = None) -> Example:
    """A random one; of rules without cells, or about entities that there are not, another."""
    rng = random.Random(seed)
    while True:
        case = random_case(seed)
        rule, model = rule_of(case.checked), case.model
        nobody = not model.sizes["u"] and '"u0"' in case.text
        if not nobody and all(model.size(a) for a in rule.axes):
            break
        seed += 10_000
    subject = Subject(SIGNATURE, model, semantics or case.semantics, name, dtype=torch.float64)
    trace = rng.randrange(model.batch)
    numbers = tuple(rng.randrange(model.size(a)) for a in rule.axes)
    time = rng.randrange(int(model.lengths[trace]))
    return Example(rule, subject, Cell(trace, numbers, time), rng)


def world(
    text: str,
    tables: Mapping[str, object],
    *,
    semantics: Semantics = STABLE_PRODUCT,
    **more: object,
) -> tuple[Rule, Subject]:
    """A formula over agents, and its tables; a table with one axis less is static."""
    places = {"Near": 2, "Close": 2, "wet": 0}
    declared: list[th.Declaration] = [th.SortDecl("agent")]
    for symbol, table in tables.items():
        arity = places.get(symbol, 1)
        static = torch.as_tensor(table).dim() == arity
        declared.append(th.PredicateDecl(symbol, ("agent",) * arity, static))
    signature = build_signature(declared)[0]
    rule = rule_of(check_formula(parse_formula(text), signature))
    model, dtype = interpret(signature, tables, **more)  # type: ignore[arg-type]
    return rule, Subject(signature, model, semantics, name, dtype=dtype)
