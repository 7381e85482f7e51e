"""How much axioms move what is learned, and what a guard changes."""

from __future__ import annotations

import pytest
import torch

import fotltn
from fotltn.analysis.audit_data import FindingKind
from fotltn.analysis.influence import guarded, influences, weak_axioms
from fotltn.analysis.view import View
from fotltn.logic.check import check
from fotltn.semantics.config import CRISP, named, semantics_of
from fotltn.syntax.load import parse_theory

DECLARED = """
sort s
predicate Given(s), Rare(s), Near(s, s), Learned(s), Fuzzy(s)
"""
PLAIN = semantics_of("stable-product", 1.0)
TWO = "axiom A: forall x. G(Rare(x) -> Learned(x))", "axiom B: forall x. G Learned(x)"


def theory(*axioms: str):
    return check(parse_theory(DECLARED + "\n".join(axioms)))


def tables(checked, entities: int = 4, horizon: int = 5):
    generator = torch.Generator().manual_seed(0)
    rare = torch.zeros(entities, horizon)
    rare[1, 2] = 1
    return fotltn.tables(
        checked.source,
        Given=(torch.rand(entities, horizon, generator=generator) < 0.5).float(),
        Rare=rare,
        Near=(torch.rand(entities, entities, horizon, generator=generator) < 0.5).float(),
        Learned=torch.rand(entities, horizon, generator=generator),
        Fuzzy=torch.rand(entities, horizon, generator=generator),
    )


@pytest.mark.parametrize(
    ("axiom", "wanted"),
    [
        ("forall x. G(Rare(x) -> Learned(x))", "G(forall x where Rare(x). Learned(x))"),
        (
            "forall x. G(Rare(x) & Learned(x) & Given(x) -> X Learned(x))",
            "G(forall x where Rare(x) & Given(x). Learned(x) -> X Learned(x))",
        ),
        (
            "forall x, y. G[1,3](Near(x, y) & x = y -> Learned(x))",
            "G[1,3](forall x, y where Near(x, y). x = y -> Learned(x))",
        ),
        ("forall x. G(Learned(x) -> Given(x))", None),
        ("forall x. G(Fuzzy(x) -> Learned(x))", None),
        ("forall x. G(Y Rare(x) -> Learned(x))", None),
        ("forall x where Given(x). G(Rare(x) -> Learned(x))", None),
        ("forall x. G Learned(x)", None),
        ("exists x. Rare(x) -> Learned(x)", None),
    ],
)
def test_given_conditions_become_a_guard(axiom, wanted):
    checked = theory(f"axiom A: {axiom}")
    (one,) = influences(View(tables(checked), PLAIN, theory=checked, learned=["Learned"]))
    assert one.suggestion == (None if wanted is None else f"axiom A: {wanted}")
    if wanted is None:
        return
    # In two-valued logic, the two are violated at the same cells.
    other = theory(f"axiom A: {wanted}")
    both = [
        {(tuple(v.binding.values()), v.time) for v in cells.worst(1000) if v.violated}
        for cells in (View(tables(t), CRISP, 0.5).cells(t.axioms[0]) for t in (checked, other))
    ]
    assert both[0] == both[1]
    assert both[0] or "Rare" in axiom  # which is true once


@pytest.mark.parametrize("start", ["axiom A", "axiom A weight 3", "hard axiom A"])
def test_a_suggestion_has_the_weight_of_the_axiom(start):
    checked = theory(f"{start}: forall x. G(Rare(x) -> Learned(x))")
    (one,) = influences(View(tables(checked), PLAIN, theory=checked, learned=["Learned"]))
    assert one.suggestion == f"{start}: G(forall x where Rare(x). Learned(x))"
    again = theory(str(one.suggestion)).axioms[0]
    assert (again.weight, again.hard) == (checked.axioms[0].weight, checked.axioms[0].hard)


def test_the_gain_is_that_of_the_cells_that_are_left():
    checked = theory(
        "axiom A: forall x. G(Rare(x) -> Learned(x))", "axiom B: forall x. G Learned(x)"
    )
    weak, strong = influences(View(tables(checked), PLAIN, theory=checked, learned=["Learned"]))
    assert weak.slope == pytest.approx(1 / 20)  # one of twenty cells
    assert weak.gain == pytest.approx(20 / 5)  # inside of time, four points have nobody
    assert strong.slope == pytest.approx(1)
    assert weak.share + strong.share == pytest.approx(1)
    assert strong.gain is None


def test_an_audit_warns_of_what_moves_nothing():
    checked = theory(
        "axiom A: forall x. G(Rare(x) -> Learned(x))", "axiom B: forall x. G Learned(x)"
    )
    data = tables(checked, entities=100)
    result = View(data, PLAIN, learned=["Learned"], theory=checked).audit()
    weak = [w for w in result.warnings if w.kind is FindingKind.INFLUENCE]
    assert [w.axiom for w in weak] == ["A"]
    assert "hardly any influence" in weak[0].message
    influence = result.axiom("A").influence
    assert influence is not None
    assert influence.as_dict()["suggestion"] == "axiom A: G(forall x where Rare(x). Learned(x))"


def test_nothing_moves_if_nothing_is_learned():
    checked = theory("axiom A: forall x. G(Rare(x) -> Learned(x))")
    assert influences(View(tables(checked), PLAIN, theory=checked, learned=[])) == ()
    assert (
        influences(View(tables(checked), named("crisp"), theory=checked, learned=["Learned"])) == ()
    )


def test_a_formula_without_a_rule_has_no_guard():
    assert guarded(theory("axiom A: G(exists x. Rare(x))").axioms[0].formula, {"Rare"}) is None


@pytest.mark.parametrize("batches", [None, {"by": "traces", "size": 1}])
def test_training_warns_once_of_all_that_move_nothing(batches):
    rare = [("Rare", f"t{n}", f"x{k}", 2) for n in range(2) for k in range(100) if k == 3]
    rows = [("Learned", f"t{n}", f"x{k}", k % 5) for n in range(2) for k in range(100)]
    columns = ("predicate", "trace", "arg1", "time")
    facts = dict(zip(columns, map(list, zip(*rare, *rows, strict=True)), strict=True))
    axioms = [
        "axiom A: forall x. G(Rare(x) -> Learned(x))",
        "axiom B: forall x. G(Rare(x) -> !Also(x))",
        "axiom C: forall x. G(Also(x) -> WX Also(x))",
        "axiom D: forall x. G(Made(x) -> Also(x))",
    ]
    text = "sort s\npredicate Rare(s), Learned(s), Also(s), Made(s)\n" + "\n".join(axioms)
    model = fotltn.train(
        text, facts=facts, learn=["Learned", "Also"], p=1.0,
        predicates={"Made": lambda given, _: 1 - given.predicate("Rare")},
        training={"epochs": 1, **({"batches": batches} if batches else {})},
    )  # fmt: skip
    (warning,) = [w for w in model.warnings if "influence" in w]
    assert warning.startswith("A, B: hardly any influence on what is learned")
    assert weak_axioms(
        View(model.truth, model.semantics, theory=model.theory, learned=["Learned", "Also"])
    ) == (
        "A",
        "B",
    )
