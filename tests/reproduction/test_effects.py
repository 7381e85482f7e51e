"""What single flips change, by one backward pass, equals what changes when facts are flipped."""

from __future__ import annotations

import pytest
import torch

from fotltn.logic.check import check, check_formula
from fotltn.logic.nnf import nnf
from fotltn.posterior.evidence import LabelEvidence
from fotltn.posterior.sampler import Sampler, Sampling
from fotltn.posterior.structure import Structure, statements
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula
from reproduction.posterior.effects import FlipEffects, occurs_once
from tests.posterior.oracle import Case, case

WORLDS = 2


class ByHand:
    """How likely worlds are, but for how tracks go on, and what they break."""

    def __init__(self, one: Case, said: Structure, evidence: LabelEvidence) -> None:
        """Worlds at random."""
        self.sampler = Sampler(said, one.tables, evidence, Sampling(WORLDS, learn=False))
        generator = torch.Generator().manual_seed(0)
        for name in said.free:
            table = self.sampler.tables[name]
            table.copy_(torch.rand(table.shape, generator=generator) < 0.5)

    def worth(self) -> tuple[torch.Tensor, torch.Tensor]:
        self.sampler.define_anew(self.sampler.structure.definitions)
        hard = [one for one in self.sampler.structure.clauses if one.weight is None]
        return self.sampler.density_by_trace(), self.sampler.false_by_trace(hard)


def compare(seeds: range) -> tuple[int, int]:
    """How many flips were compared, and how many of predicates that occur several times."""
    count = several = 0
    for seed in seeds:
        one = case(seed)
        said = statements(one.theory, one.tables, one.learned, end=one.end)
        evidence = LabelEvidence(one.labels, dict(one.rates))
        free = said.free
        by_hand = ByHand(one, said, evidence)
        effects = FlipEffects(said, one.tables, evidence, free)
        gain, broken = effects(by_hand.sampler.tables, by_hand.sampler.weights)
        before, broke = by_hand.worth()
        inside = one.tables.inside
        for name in free:
            table = by_hand.sampler.tables[name]
            often = any(name in saying.several for saying in effects.sayings)
            for cell in torch.ones(table.shape[1:]).nonzero().tolist():
                if table.shape[-1] > 1 and not bool(inside[cell[0], cell[-1]]):
                    continue
                place = (slice(None), *cell)
                table[place] = ~table[place]
                after, breaks = by_hand.worth()
                table[place] = ~table[place]
                changed = (after - before)[:, cell[0]]
                torch.testing.assert_close(gain[name][place], changed, rtol=0, atol=1e-9)
                wrong = (breaks - broke)[:, cell[0]].double()
                torch.testing.assert_close(broken[name][place], wrong, rtol=0, atol=1e-9)
                count, several = count + WORLDS, several + WORLDS * often
    return count, several


def test_effects_equal_those_of_flips():
    count, several = compare(range(60))
    assert count - several > 300
    assert several > 300


@pytest.mark.parametrize(
    ("text", "once"),
    [
        ("P(x) -> Q(x)", True),
        ("P(x) & Q(x) | P(x)", False),
        ("exists y. K(x, y) & P(y)", True),
        ("exists y. K(x, y) & P(x)", False),  # the same fact for every y
        ("F P(x)", True),
        ("F F P(x)", False),  # the same point by several ways
        ("F (exists y. P(y))", True),
        ("X X P(x)", True),
        ("Q(x) U P(x)", True),
        ("P(x) U Q(x)", False),  # the left side counts until each point
        ("O Fix(x)", False),
        ("X Fix(x)", True),
        ("P(next(x))", True),
        ("exists y. P(next(y))", False),  # two entities may have the same next one
    ],
)
def test_which_facts_occur_once(text, once):
    theory = check(
        parse_theory(
            "sort a\npredicate P(a), Q(a), K(a, a)\nstatic predicate Fix(a)\nfunction next(a): a\n"
        )
    )
    formula = nnf(check_formula(parse_formula(text), theory.signature).formula)
    name = "Fix" if "Fix" in text else "P"
    assert occurs_once(formula, name, static=name == "Fix") is once


@pytest.mark.slow
def test_effects_equal_those_of_flips_in_many_theories():
    compare(range(60, 1060))
