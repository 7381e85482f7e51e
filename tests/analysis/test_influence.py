"""How much axioms move what is learned, and what a guard changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import fotltn
from fotltn.analysis.audit_data import FindingKind
from fotltn.analysis.influence import (
    Weakness,
    guarded,
    influence_part,
    influences,
    influences_of,
    weaknesses,
)
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


@pytest.mark.filterwarnings("ignore::fotltn.errors.DataWarning")
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
    assert warning.startswith("A, B: hardly any influence on learned predicates")
    view = View(model.truth, model.semantics, theory=model.theory, learned=["Learned", "Also"])
    assert weaknesses(view) == {"A": Weakness.GUARD, "B": Weakness.GUARD}


# --- axioms that a guard does not help --------------------------------------------------------


def reasons(*axioms: str, semantics=PLAIN, learned=("Learned",), entities=4, horizon=5):
    checked = theory(*axioms)
    data = tables(checked, entities, horizon)
    predicates = dict(data.predicates)
    predicates["Given"] = torch.ones_like(predicates["Given"])
    predicates["Fuzzy"] = torch.zeros_like(predicates["Fuzzy"])  # true nowhere
    view = View(replace(data, predicates=predicates), semantics, theory=checked, learned=learned)
    result = {w.axiom: w.message for w in view.audit().warnings if w.kind == "influence"}
    weak = weaknesses(view)
    assert result == {name: f"{name}: {why.meaning}" for name, why in weak.items()}
    return weak


@pytest.mark.parametrize(
    ("axiom", "reason"),
    [
        # Nothing satisfies the conditions, with a possible guard or without, or a guard.
        ("forall x. G(Fuzzy(x) -> Learned(x))", Weakness.NEVER),
        ("forall x. G(Y Fuzzy(x) -> Learned(x))", Weakness.NEVER),
        ("G(forall x where Fuzzy(x). Learned(x))", Weakness.NEVER),
        ("forall x. G(Fuzzy(x) & Learned(x) -> X Learned(x))", Weakness.NEVER),
        ("forall x. G(Given(x) -> forall y. (Fuzzy(y) -> Learned(y)))", Weakness.NEVER),
        ("forall x. G[9,9](Given(x) -> Learned(x))", Weakness.NEVER),
        # Conditions are true, or may become true.
        ("forall x. G(Learned(x) -> Given(x))", Weakness.UNMOVED),
        ("forall x. G !(Learned(x) & Fuzzy(x))", Weakness.UNMOVED),
        ("forall x. G(Rare(x) -> Learned(x) | Given(x))", Weakness.UNMOVED),
        # Nothing to warn of.
        ("forall x. G(Given(x) -> Learned(x))", None),
        ("forall x. G(Learned(x) -> Fuzzy(x))", None),
        ("forall x. G(Learned(x) -> WX Learned(x))", None),
        # Nothing learned is mentioned.
        ("forall x. G(Fuzzy(x) -> Given(x))", None),
        ("forall x. G(Given(x) -> Fuzzy(x))", None),
    ],
)
@pytest.mark.parametrize("semantics", [PLAIN, *map(named, ("stable-product", "product", "godel"))])
def test_axioms_at_slope_0_are_named_with_the_reason(axiom, reason, semantics):
    weak = reasons(f"axiom A: {axiom}", TWO[1], semantics=semantics)
    assert weak == ({} if reason is None else {"A": reason})


def test_an_axiom_with_a_guard_and_a_small_share_is_named():
    guard = "G(forall x where Rare(x). Learned(x))"
    other = "axiom B: G(forall x. Learned(x))"
    assert reasons(f"axiom A: {guard}", other, horizon=1000) == {"A": Weakness.SMALL}
    assert reasons(f"axiom A: {guard}", other, horizon=50) == {}
    # Alone it is all that is learned from; a weight makes up for it; a small weight is meant so.
    assert reasons(f"axiom A: {guard}", horizon=1000) == {}
    assert reasons(f"axiom A weight 1000: {guard}", other, horizon=1000) == {}
    assert reasons("axiom A weight 0.0001: forall x. G Learned(x)", other, horizon=1000) == {}


@pytest.mark.parametrize("name", ["stable-product", "product", "godel-residual", "goguen"])
def test_an_axiom_that_is_flat_at_a_half_alone_is_not_weak(name):
    # `a <-> b` has a slope of 0 where both are 0.5, and so has `a -> b` by residuals.
    axioms = (
        "axiom A: forall x. G(Learned(x) <-> Near(x, x))",
        "axiom B: forall x. G(Learned(x) -> Near(x, x))",
        TWO[1].replace("B", "C"),
    )
    assert reasons(*axioms, semantics=named(name), learned=["Learned", "Near"]) == {}


def test_products_of_many_cells_are_not_weak():
    # 0.5 to the power of 4000 is 0, and so is its slope.
    axioms = TWO[1], "axiom A: G(forall x where Rare(x). Learned(x))"
    assert reasons(*axioms, semantics=named("product"), horizon=1000) == {}


def test_conditions_are_true_if_they_are_so_in_some_traces():
    checked = theory("axiom A: forall x. G(Fuzzy(x) -> Learned(x) | Given(x))", TWO[1])

    def part(*, never: bool):
        data = tables(checked)
        predicates = {**data.predicates, "Given": torch.ones_like(data.table("Given"))}
        predicates["Fuzzy"] = torch.full_like(data.table("Fuzzy"), 0.0 if never else 1.0)
        told = replace(data, predicates=predicates)
        return influence_part(View(told, PLAIN, theory=checked, learned=["Learned"]), {"Given"})

    def reason(*parts):
        return influences_of(checked, parts, PLAIN)[0].weakness

    assert reason(part(never=True), part(never=True)) is Weakness.NEVER
    assert reason(part(never=True), part(never=False)) is Weakness.UNMOVED
    assert reason(part(never=False), part(never=True)) is Weakness.UNMOVED


def test_what_a_model_satisfies_is_not_weak():
    checked = theory(TWO[1])
    data = tables(checked)
    full = replace(
        data, predicates={**data.predicates, "Learned": torch.ones_like(data.table("Learned"))}
    )
    assert weaknesses(View(full, PLAIN, theory=checked, learned=["Learned"])) == {}


@pytest.mark.filterwarnings("ignore::fotltn.errors.DataWarning")
@pytest.mark.parametrize(
    "batches", [None, {"by": "traces", "size": 1}, {"by": "entities", "size": 2, "sort": "s"}]
)
def test_training_names_axioms_without_influence(batches):
    # The conditions of B are true in one trace, those of B2 in the other, and those of A in none.
    rows = [(n, t, f"x{k}", 1) for n, t in (("Rare", "t1"), ("Other", "t0")) for k in range(4)]
    rows += [("Learned", t, f"x{k}", k % 3) for t in ("t0", "t1") for k in range(4)]
    columns = ("predicate", "trace", "arg1", "time")
    facts = dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))
    text = """
        sort s
        predicate Rare(s), Other(s), Learned(s), No(s)
        axiom A: forall x. G(No(x) -> Learned(x))
        axiom A2: G(forall x where No(x). Learned(x))
        axiom B: forall x. G(Rare(x) -> Learned(x))
        axiom B2: forall x. G(Other(x) -> Learned(x))
        axiom C: forall x. G(Learned(x) | !No(x))
        axiom D: forall x. G(No(x) -> Rare(x))
        axiom E: forall x. G Learned(x)
    """
    training = {"epochs": 1, **({"batches": batches} if batches else {})}
    model = fotltn.train(text, facts=facts, learn=["Learned"], p=1.0, training=training)
    warnings = [w for w in model.warnings if "influence" in w]
    wanted = [f"A, A2: {Weakness.NEVER.meaning}", f"C: {Weakness.UNMOVED.meaning}"]
    some = batches is not None and batches["by"] == "entities"  # which are not all
    assert warnings == ([] if some else wanted)


@pytest.mark.filterwarnings("ignore::fotltn.errors.DataWarning")
@pytest.mark.parametrize(("weight", "weak"), [(1.0, True), (1000.0, False)])
def test_training_counts_the_weights_of_the_project(weight, weak):
    rows = [("Rare", "x1", 3), *(("Learned", f"x{k}", 399) for k in range(3))]
    facts = dict(
        zip(("predicate", "arg1", "time"), map(list, zip(*rows, strict=True)), strict=True)
    )
    text = "sort s\npredicate Rare(s), Learned(s)\naxiom A: G(forall x where Rare(x). Learned(x))\n"
    model = fotltn.train(
        text + TWO[1], facts=facts, learn=["Learned"], p=1.0,
        objective={"axiom_weights": {"A": weight}}, training={"epochs": 1},
    )  # fmt: skip
    warnings = [w for w in model.warnings if "influence" in w]
    assert warnings == ([f"A: {Weakness.SMALL.meaning}"] if weak else [])


def test_suggestions_name_axioms_that_no_guard_helps(capsys):
    from fotltn.cli.audit import _suggest

    checked = theory(
        "axiom A: forall x. G(Fuzzy(x) -> Learned(x))",
        "axiom B: forall x. G(Learned(x) -> Learned(x) | true)",
        TWO[0].replace("axiom A", "axiom C weight 3"),
    )
    data = tables(checked, entities=100)
    none = {**data.predicates, "Fuzzy": torch.zeros_like(data.table("Fuzzy"))}
    view = View(replace(data, predicates=none), PLAIN, theory=checked, learned=["Learned"])
    _suggest(view.audit())
    out = " ".join(capsys.readouterr().out.split())
    assert f"A: {Weakness.NEVER.meaning} B: {Weakness.UNMOVED.meaning}" in out
    assert "axiom C weight 3: G(forall x where Rare(x). Learned(x))" in out
