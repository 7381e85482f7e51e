"""Quantifiers in front of temporal operators mean the same, and leave single entities behind."""

from __future__ import annotations

import random

import pytest
import torch

from fotltn.logic import core as c
from fotltn.logic.check import check, check_formula
from fotltn.logic.nnf import nnf
from fotltn.logic.quantifiers import pulled_out
from fotltn.semantics import crisp
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula
from fotltn.tree import postorder
from tests.posterior.oracle import random_text

SORTS = {"P": "a", "Q": "a", "V": "b", "Tie": "ab"}
THEORY = check(parse_theory("sort a, b\npredicate P(a), Q(a), V(b), Tie(a, b)\n"))


def formula(text: str) -> c.Formula:
    return nnf(check_formula(parse_formula(text), THEORY.signature).formula)


def variables(whole: c.Formula, sort: str = "ab") -> set[c.Axis]:
    quantifiers = (node for node in postorder(whole) if isinstance(node, c.Quantifier))
    return {axis for node in quantifiers for axis in node.axes if (axis.sort or "") in sort}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("O exists x. P(x)", "exists x. O P(x)"),
        ("F[<=3] exists x. P(x)", "exists x. F[<=3] P(x)"),
        ("!H[2,5] forall x. P(x)", "exists x. O[2,5] !P(x)"),
        ("G forall x. P(x)", "forall x. G P(x)"),
        ("X exists x. P(x)", "exists x. X P(x)"),
        ("WX forall x. P(x)", "forall x. WX P(x)"),
        ("(exists y. V(y)) U exists x. P(x)", "exists x. (exists y. V(y)) U P(x)"),
        ("(forall x. P(x)) U exists y. V(y)", "exists y. (forall x. P(x)) U V(y)"),
        ("(forall x. P(x)) U forall y. V(y)", "forall x. P(x) U forall y. V(y)"),
        ("(exists x. P(x)) U[1,2] exists x. P(x)", "(exists x. P(x)) U[1,2] exists x. P(x)"),
        ("P(x) S exists x. Q(x)", "P(x) S exists x. Q(x)"),
        ("O (last & exists x. P(x))", "exists x. O (last & P(x))"),
        ("O (last | exists x. P(x))", "exists x. O (last | P(x))"),
        ("F O exists x. P(x)", "exists x. F O P(x)"),
        ("O forall x. P(x)", "O forall x. P(x)"),
        ("G exists x. P(x)", "G exists x. P(x)"),
        ("WX exists x. P(x)", "WX exists x. P(x)"),
        ("exists x. P(x)", "exists x. P(x)"),
    ],
)
def test_quantifiers_move_in_front_where_the_meaning_stays(text, expected):
    before = formula(text)
    after = pulled_out(before, variables(before))
    assert after == formula(expected)


def test_other_variables_stay():
    before = formula("O exists x, y. P(x) & Tie(x, y)")
    after = pulled_out(before, variables(before, "a"))
    assert after == formula("exists x. O exists y. P(x) & Tie(x, y)")


def test_the_meaning_of_random_formulas_stays():
    moved = 0
    for seed in range(1500):
        choose = random.Random(seed)
        try:
            before = formula(random_text(choose, SORTS, [], 4))
        except ValueError:
            continue
        after = pulled_out(before, variables(before))
        if after == before:
            continue
        moved += 1
        sizes, length = {"a": choose.randint(1, 3), "b": choose.randint(1, 2)}, choose.randint(1, 5)
        draw = torch.Generator().manual_seed(seed)
        predicates = {
            name: (torch.rand(1, *(sizes[s] for s in sorts), length, generator=draw) < 0.5).double()
            for name, sorts in SORTS.items()
        }
        tables = Tables(
            sizes, torch.tensor([length]), length, predicates, signature=THEORY.signature
        )
        values = [crisp.evaluate(one, tables).tensor for one in (before, after)]
        assert torch.equal(*values), seed
    assert moved > 100
