"""Cells of soft axioms: each counts once, in sampled worlds as in violations."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

import fotltn
from fotltn.analysis.view import View
from fotltn.analysis.violations import violations
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sampler_of
from fotltn.posterior.sampler import Sampler, Sampling
from fotltn.semantics.config import CRISP
from tests.posterior.oracle import SIGNATURE, Case, stated
from tests.posterior.test_enumeration import every

#: Axioms whose cells are several, one, or some of the points, with what is learned.
SHAPES = {
    "both": ("P Q", "forall x. G(P(x) & Q(x))"),
    "three": ("P Q V", "forall x, y. G(P(x) & Q(x) & V(y))"),
    "first": ("P Q", "forall x. (P(x) & F Q(x))"),
    "equal": ("P Q", "forall x. G(P(x) <-> X Q(x))"),
    "tracks": ("P V", "forall x, y. G((Has(x, y) -> V(y)) & (P(x) | Near(x)))"),
    "window": ("P", "forall x. G[1,2] P(x)"),
    "twice": ("P", "G forall x. G (P(x) & Near(x))"),
    "apart": ("P V", "(forall x. G P(x)) & (forall y. G !V(y))"),
    "together": ("P Q", "forall x. (G P(x) & G Q(x))"),
    "guard": ("P", "forall x where Near(x). G (P(x) & X P(x))"),
    "guards": ("P Q", "G forall x where Near(x). (P(x) & Q(x))"),
    "past": ("P", "forall x. G H[<=1] P(x)"),
}


def small(text: str, seed: int) -> Case:
    learned, axiom = SHAPES[text]
    axioms = [f"axiom A weight 1.0: {axiom}"]
    return stated(random.Random(seed), seed, axioms, learned.split(), SIGNATURE)


@pytest.mark.parametrize("text", [name for name in SHAPES if name != "past"])
def test_what_is_counted_is_what_violations_count(text):
    for seed in range(3):
        one = small(text, seed)
        sampler = sampler_of(
            Problem(
                one.theory,
                one.tables,
                one.labels,
                one.learned,
                sampling=Sampling(4),
                end=one.end,
            )
        )
        for table in sampler.tables.values():
            table.copy_(torch.rand(table.shape) < 0.5)
        counted = sampler.soft()["A"].sum(1).tolist()
        (axiom,) = one.theory.axioms
        for number, count in enumerate(counted):
            tables = {n: t[number].double() for n, t in sampler.tables.items()}
            world = replace(one.tables, predicates={**one.tables.predicates, **tables})
            cells = View(world, CRISP, end=one.end).cells(axiom)
            assert count == violations(cells).violated, one.text
        loss = sampler.density() - unweighed(sampler)
        assert loss.squeeze(1).tolist() == pytest.approx([-count for count in counted])


def unweighed(sampler: Sampler) -> torch.Tensor:
    """The logarithm of how likely worlds are, without what soft axioms say."""
    clauses = sampler.structure.clauses
    sampler.structure = replace(sampler.structure, clauses=())
    density = sampler.density()
    sampler.structure = replace(sampler.structure, clauses=clauses)
    return density


def test_sampled_probabilities_equal_those_of_enumeration():
    names = ["both", "three", "first", "equal", "tracks", "past"]
    cases = [(seed, small(text, seed)) for text in names for seed in range(3)]
    counts, _ = every(cases)
    assert counts["compared"] > 12


def test_a_model_counts_what_its_violations_count():
    """Two facts that are false at both cells: two cells, not four."""
    theory = """
    sort a
    predicate A(a), B(a)
    axiom Both: forall x. G(A(x) & B(x))
    """
    facts = {
        "predicate": ["A", "B", "A", "B"], "arg1": ["x", "x", "x", "x"], "time": [0, 0, 1, 1],
        "truth": [0, 0, 0, 0],
    }  # fmt: skip
    model = fotltn.train(
        theory, facts=facts, learn=["A", "B"], method="posterior",
        objective={"missed": 0.0, "invented": 0.0},
        posterior={"worlds": 4, "burn_in": 4, "sweeps": 4},
    )  # fmt: skip
    assert model.violations("Both").violated == 2
    assert model.posterior is not None
    assert model.posterior.violations["Both"] == (2.0, 2, 2)
