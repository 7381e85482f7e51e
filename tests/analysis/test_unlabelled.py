"""What facts without a label leave open, against all ways to label them."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
import torch

from fotltn import check
from fotltn.analysis.unlabelled import labelled, opened, without_label
from fotltn.analysis.view import View
from fotltn.decisions import two_valued
from fotltn.logic.check import check_formula
from fotltn.semantics import crisp
from fotltn.semantics.tables import Decisions, Tables
from fotltn.syntax import formula as f
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula
from tests.analysis.test_truncation import READ_ONCE, propositional, world
from tests.helpers import random_formula


def partly(rows: list[list[bool | None]]) -> Tables:
    """One trace of p and q, where some facts have no label."""
    low = world([[bool(fact) for fact in facts] for facts in rows])
    high = world([[fact is not False for fact in facts] for facts in rows])
    return replace(low, possible=dict(high.predicates))


def completed(rows: list[list[bool | None]]) -> Tables:
    """A trace for each way to label what has no label."""
    gaps = [(i, t) for i, facts in enumerate(rows) for t, fact in enumerate(facts) if fact is None]
    traces = []
    for bits in itertools.product([False, True], repeat=len(gaps)):
        full = [[bool(fact) for fact in facts] for facts in rows]
        for (i, t), bit in zip(gaps, bits, strict=True):
            full[i][t] = bit
        traces.append(full)
    return world(*traces)


def some_rows(rng: random.Random) -> list[list[bool | None]]:
    return [[rng.choice([True, False, None]) for _ in range(3)] for _ in range(2)]


def bounds_on(formula, rows):
    """The bounds of a formula at each point of a trace with gaps."""
    tables = opened(partly(rows))
    low, high = labelled(formula, without_label(formula, tables))
    return (crisp.evaluate(bound, tables).tensor.expand(1, 3)[0] for bound in (low, high))


@pytest.mark.parametrize("text", [t for t in READ_ONCE if t not in {"G F p", "p S q"}])
def test_bounds_without_labels_are_those_over_all_labels(text):
    formula, rng = propositional(text), random.Random(3)
    for _ in range(40):
        rows = some_rows(rng)
        low, high = bounds_on(formula, rows)
        every = crisp.evaluate(formula, completed(rows)).tensor
        assert low.tolist() == every.all(0).tolist(), rows
        assert high.tolist() == every.any(0).tolist(), rows


def test_bounds_without_labels_are_never_too_narrow():
    rng = random.Random(6)
    atoms = [f.Atom("p", ()), f.Atom("q", ())]
    for _ in range(60):
        formula = check_formula(random_formula(rng, 4, atoms, edges=False)).formula
        rows = some_rows(rng)
        low, high = bounds_on(formula, rows)
        every = crisp.evaluate(formula, completed(rows)).tensor.expand(-1, 3)
        assert not bool((low & ~every.all(0)).any())
        assert not bool((every.any(0) & ~high).any())


def test_guards_and_definitions_are_read_with_and_without_facts_that_have_no_label():
    theory = check(
        parse_theory(
            "sort s\npredicate P(s), Q(s), D(s)\n"
            "axiom A: forall x where P(x). Q(x)\naxiom B: exists x where P(x). Q(x)\n"
            "axiom C: forall x. !D(x)"
        )
    )
    facts = {"P": [1.0, 0.0, 0.0], "Q": [1.0, 0.0, 0.0]}  # the last entity's facts have no labels
    tables = {n: torch.tensor(t, dtype=torch.float64).reshape(1, 3, 1) for n, t in facts.items()}
    maybe = {n: t.index_fill(1, torch.tensor([2]), 1.0) for n, t in tables.items()}
    defined = check_formula(parse_formula("P(x) & !Q(x)"), theory.signature)
    data = Tables(
        {"s": 3}, torch.tensor([1]), 1, {**tables, "D": torch.zeros(1, 3, 1)},
        decisions=Decisions(definitions={"D": defined}), possible=maybe,
    )  # fmt: skip
    there = two_valued(opened(data))
    for axiom, wanted in zip(
        theory.axioms, [(False, True), (True, True), (False, True)], strict=True
    ):
        bounds = labelled(axiom.formula, without_label(axiom.formula, there))
        assert tuple(bool(crisp.evaluate(b, there).tensor) for b in bounds) == wanted, axiom.name


def test_cells_that_labels_do_not_decide_count_nowhere():
    theory = check(parse_theory("predicate p, q\naxiom A: G(p -> q)"))
    rng = random.Random(8)
    for _ in range(30):
        rows = some_rows(rng)
        (rule,) = View(partly(rows), theory=theory).rules()
        pairs = list(zip(*rows, strict=True))
        support = [q for p, q in pairs if p and q is not None]
        known = [q for _, q in pairs if q is not None]
        both = [not p or q for p, q in pairs if p is False or q or (p and q is False)]
        assert rule.overall.support == len(support)
        assert rule.overall.confidence.value == (sum(support) / len(support) if support else None)
        assert rule.overall.base_rate.value == (sum(known) / len(known) if known else None)
        assert rule.unlabelled == 3 - len(both)
