"""The audit: the paper's figures, counts against brute force, gradients, and every warning."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from fotltn.analysis import evaluate_cells as sweeping
from fotltn.analysis.audit_data import FindingKind
from fotltn.analysis.truncation import if_longer
from fotltn.analysis.view import View
from fotltn.decisions import two_valued
from fotltn.errors import DataError
from fotltn.logic.check import CheckedAxiom, CheckedTheory, check
from fotltn.logic.prefix import Prefix, prefix
from fotltn.semantics import crisp, reference
from fotltn.semantics.config import CRISP, LOG_PRODUCT, LTN, PRODUCT, STABLE_PRODUCT
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula
from tests.analysis.scenes import LEARNED, about, carped, carped_theory, cell_weights
from tests.analysis.test_violations import case, crisp_values
from tests.helpers import seeds


@pytest.fixture(scope="module")
def truth():
    torch.set_default_dtype(torch.float64)
    return carped()


@pytest.fixture(scope="module")
def of_truth(truth):
    return View(truth, STABLE_PRODUCT, learned=LEARNED, theory=carped_theory()).audit(labels=truth)


def kinds(found, name):
    return [w.kind for w in found.warnings if w.axiom == name]


def said(found, name, kind):
    (message,) = [w.message for w in found.warnings if w.axiom == name and w.kind is kind]
    return message


# --- the paper's scene -----------------------------------------------------------------------


def test_the_figures_of_the_paper(of_truth):
    total = of_truth.knowledge_base.kb_sat
    assert total.labels == pytest.approx(0.93, abs=0.02)
    assert total.value == total.labels
    assert total.all_false == 1.0
    assert total.all_half == pytest.approx(0.81, abs=0.005)
    assert of_truth.axiom("A3").labels == pytest.approx(0.58, abs=0.03)
    assert of_truth.axiom("A13").labels == pytest.approx(0.73, abs=0.05)
    assert all(a.all_false == 1.0 for a in of_truth.axioms)
    exact = {"A1", "A4", "A5", "A6", "A7", "A8", "A9", "A10", "A11", "A12"}
    assert {a.name for a in of_truth.axioms if a.labels == 1.0} == exact


def test_nobody_can_miss_that_all_false_is_perfect(of_truth):
    line = of_truth.knowledge_base.line
    assert "all-false 1.000" in line
    assert "KB-SAT does not measure how good predictions are" in line
    first = of_truth.warnings[0]
    assert (first.axiom, first.kind) == (None, FindingKind.VACUOUS)
    assert "Predicting false for everything scores 1.000" in first.message
    told = json.loads(json.dumps(of_truth.as_dict()))
    assert told["knowledge_base"]["kb_sat"]["all_false"] == 1.0
    assert told["knowledge_base"]["meaning"] == first.message
    assert [a["axiom"] for a in told["axioms"]] == [f"A{i}" for i in range(1, 14)]
    assert told["axioms"][0]["on_labels"]["support"] == of_truth.axiom("A1").evidence.support


def test_satisfaction_is_the_mean_error_of_training(of_truth):
    values = torch.tensor([a.value for a in of_truth.axioms])
    expected = 1 - ((1 - values) ** 4).mean() ** 0.25
    assert of_truth.knowledge_base.satisfaction.value == pytest.approx(float(expected))


def test_the_values_are_those_of_the_reference():
    scene, theory = carped(cars=5, horizon=12), carped_theory()
    torch.manual_seed(1)
    tables = {n: torch.rand(scene.predicates[n].shape) for n in LEARNED}
    model = replace(scene, predicates={**scene.predicates, **tables})
    found = View(model, STABLE_PRODUCT, learned=LEARNED, theory=theory).audit(labels=scene)
    half = {n: torch.full_like(t, 0.5) for n, t in tables.items()}
    half_model = replace(scene, predicates={**scene.predicates, **half})
    for axiom in theory.axioms:
        row = found.axiom(axiom.name)
        for value, world in ((row.value, model), (row.labels, scene), (row.all_half, half_model)):
            expected = reference.evaluate(
                axiom.formula, world, STABLE_PRODUCT, dtype=torch.float64
            ).tensor[0, 0]
            assert value == pytest.approx(float(expected), abs=1e-9)


def test_the_warnings_of_the_scene(of_truth):
    for name in ("A1", "A7", "A12"):
        assert kinds(of_truth, name) == [FindingKind.VACUOUS]
    message = said(of_truth, "A1", FindingKind.VACUOUS)
    assert message == (
        "A1 is fully satisfied if every learned predicate is false; a high value is no evidence"
    )
    assert kinds(of_truth, "A5") == []  # it has no learned predicate
    message = said(of_truth, "A3", FindingKind.DILUTED)
    assert "'exists y' is a mean" in message
    assert "100^(-1/4) = 0.316" in message
    late = of_truth.axiom("A13").on_labels
    assert late is not None
    assert (late.violated, late.holds) == (0, True)
    assert late.undecided > 0
    words = (
        f"A13: {late.undecided} of 10,000 bindings and times on the labels are undecided, because"
    )
    assert said(of_truth, "A13", FindingKind.UNDECIDED).startswith(words)
    assert FindingKind.CONTRADICTED not in kinds(of_truth, "A13")


def test_support_of_the_scene_is_counted_by_hand(truth, of_truth):
    close = truth.predicate("Close")[0]
    crossing = truth.predicates["Crossing"][0]
    stop = truth.predicates["Stop"][0]
    support = int(torch.einsum("xyt,yt->", close[:50], crossing))
    first = of_truth.axiom("A1").evidence
    assert (first.support, first.count) == (support, 100 * 100 * 100)
    assert (first.confidence, first.violated, first.holds) == (1.0, 0, True)
    assert first.active_share == support / 10**6
    rate = (int(stop[:, 1:].sum()) + 100) / (100 * 100)  # WX is true at the end
    assert first.base_rate == pytest.approx(rate)
    assert first.lift == pytest.approx(1 / rate)
    start = of_truth.axiom("A4").evidence  # no G: the first point alone
    assert (start.count, start.support, start.base_rate) == (100, 50, 0.5)


# --- counts against brute force --------------------------------------------------------------


@pytest.mark.parametrize("end", ["final", "undecided"])
@pytest.mark.parametrize("seed", seeds(40, 100))
def test_counts_are_those_of_brute_force(seed, end, monkeypatch):
    text, checked, model = case(seed)
    boolean = two_valued(model, 0.4)
    part = prefix(checked.formula)
    if seed % 2:
        monkeypatch.setattr(sweeping, "MAX_CELLS", 7)
    axiom = CheckedAxiom("N", checked.formula, 1.0, parse_formula(text))
    theory = CheckedTheory(model.signature, (axiom,), ())
    options: dict[str, Any] = {"learned": ["B"], "threshold": 0.4, "end": end}
    found = View(model, STABLE_PRODUCT, theory=theory, **options).audit().axiom("N").on_model
    cells = list(cell_weights(part.layers, boolean))
    true = crisp_values(part, boolean)

    def loose(part, cell):
        """Whether only the end of the trace makes a body false there."""
        body = Prefix(part.layers, if_longer(part.body))
        cut = crisp_values(body, boolean)(cell) and not crisp_values(part, boolean)(cell)
        return end == "undecided" and cut

    undecided = [cell for cell in cells if loose(part, cell)]
    wrong = [cell for cell in cells if not true(cell) and cell not in undecided]
    assert (found.count, found.violated, found.absent) == (len(cells), len(wrong), 0)
    assert found.undecided == len(undecided)
    if end == "final":
        assert found.holds == bool(crisp.evaluate(checked.formula, boolean).tensor[:, 0].all())
    if part.rule is None:
        assert (found.support, found.confidence, found.base_rate) == (None, None, None)
        return
    consequent = part.rule[1]
    cause, effect = (crisp_values(Prefix(part.layers, side), boolean) for side in part.rule)
    active = [cell for cell in cells if cause(cell) and cell not in undecided]
    assert found.support == len(active)
    if active:
        assert found.confidence == pytest.approx(sum(map(effect, active)) / len(active))
    alone = Prefix(about(part.layers, crisp.evaluate(consequent, boolean).axes), consequent)
    then = crisp_values(alone, boolean)
    base = [cell for cell in cell_weights(alone.layers, boolean) if not loose(alone, cell)]
    rate = [then(cell) for cell in base]
    assert found.base_rate == (pytest.approx(sum(rate) / len(rate)) if rate else None)


# --- gradients -------------------------------------------------------------------------------

TEXT = """
sort s
predicate P(s)
predicate Q(s)
predicate Given(s, s)
axiom N1: forall x. G(P(x) & Q(x) -> F Q(x))
axiom N2: forall x, y. G(Given(x, y) & P(x) -> X Q(y))
axiom N3: G exists x. P(x)
axiom N4: forall x where Given(x, x). G(Given(x, x) -> P(x))
"""


def small(seed: int = 0, lengths=(4,), horizon: int = 4) -> Tables:
    torch.manual_seed(seed)
    tables = {
        "P": torch.rand(len(lengths), 3, horizon),
        "Q": torch.rand(len(lengths), 3, horizon),
        "Given": (torch.rand(len(lengths), 3, 3, horizon) < 0.4).double(),
    }
    return Tables({"s": 3}, torch.tensor(lengths), horizon, tables)


def test_gradients_are_split_by_occurrence():
    theory, model = check(parse_theory(TEXT)), small()
    found = View(model, STABLE_PRODUCT, learned=["P", "Q"], theory=theory).audit()
    left, right = (
        {n: model.predicate(n).clone().requires_grad_() for n in ("P", "Q")} for _ in range(2)
    )
    p, q, late = left["P"][0], left["Q"][0], right["Q"][0]
    soon = torch.stack([(late[:, t:] ** 4).mean(-1) ** 0.25 for t in range(4)], -1)
    value = 1 - ((p * q * (1 - soon)) ** 4).mean() ** 0.25
    assert found.axiom("N1").value == pytest.approx(value.item())
    inputs = [left["P"], left["Q"], right["Q"]]
    sums = [float(g.abs().sum()) for g in torch.autograd.grad(value, inputs)]
    assert found.axiom("N1").gradient_antecedent == pytest.approx((sums[0] + sums[1]) / sum(sums))
    assert found.axiom("N1").gradient_consequent == pytest.approx(sums[2] / sum(sums))


def test_what_is_no_implication_has_no_antecedent():
    found = View(
        small(), STABLE_PRODUCT, learned=["P", "Q"], theory=check(parse_theory(TEXT))
    ).audit()
    row = found.axiom("N3")
    assert not row.implication
    assert (row.antecedent, row.gradient_antecedent, row.gradient_consequent) == (None,) * 3
    assert (row.on_model.support, row.on_model.active_share, row.on_model.lift) == (None,) * 3
    only = found.axiom("N4")
    assert (only.gradient_antecedent, only.gradient_consequent) == (0.0, 1.0)


def test_most_of_the_gradient_to_the_antecedent_is_told():
    text = "sort s\npredicate P(s)\npredicate Q(s)\naxiom N: forall x. G(P(x) -> Q(x))"
    tables = {"P": torch.full((1, 2, 3), 0.05), "Q": torch.full((1, 2, 3), 0.9)}
    model = Tables({"s": 2}, torch.tensor([3]), 3, tables)
    theory = check(parse_theory(text))
    found = View(model, STABLE_PRODUCT, learned=["P", "Q"], theory=theory).audit()
    # The error is P (1 - Q): its derivatives are 0.1 and 0.05.
    assert found.axiom("N").gradient_antecedent == pytest.approx(2 / 3)
    assert FindingKind.GRADIENT not in kinds(found, "N")
    low = replace(model, predicates={**tables, "Q": torch.zeros(1, 2, 3)})
    found = View(low, STABLE_PRODUCT, learned=["P", "Q"], theory=theory).audit()
    assert found.axiom("N").gradient_antecedent == pytest.approx(1 / 1.05)
    assert "95 % of the gradient goes to the antecedent" in said(found, "N", FindingKind.GRADIENT)


# --- warnings, one by one --------------------------------------------------------------------


def rule(text: str, tables, horizon: int, **options):
    theory = check(parse_theory(f"sort s\npredicate P(s)\npredicate Q(s)\naxiom N: {text}"))
    model = Tables(
        {"s": len(next(iter(tables.values())))},
        torch.tensor([horizon]),
        horizon,
        {n: torch.tensor([t], dtype=torch.float64) for n, t in tables.items()},
    )
    options.setdefault("learned", ["P", "Q"])
    return View(model, STABLE_PRODUCT, theory=theory, **options).audit(model)


def without_labels(tables: Tables, *names: str) -> Tables:
    """The same, of some predicates without any label."""
    nothing = {n: torch.zeros_like(tables.predicate(n)) for n in names}
    possible = {n: torch.ones_like(table) for n, table in nothing.items()}
    return replace(tables, predicates={**tables.predicates, **nothing}, possible=possible)


def test_an_antecedent_that_is_true_nowhere():
    found = rule("forall x. G(P(x) -> Q(x))", {"P": [[0, 0]], "Q": [[1, 0]]}, 2)
    messages = [w.message for w in found.warnings if w.axiom == "N"]
    assert messages[0] == (
        "N: the antecedent is true nowhere on the labels, so the axiom says nothing"
    )
    assert found.axiom("N").evidence.confidence is None


def test_an_axiom_that_all_false_violates_is_not_vacuous():
    found = rule("forall x. G(P(x) | Q(x))", {"P": [[1, 0]], "Q": [[0, 1]]}, 2)
    assert found.warnings == ()
    assert found.knowledge_base.telling
    assert "only what is above that can be evidence" in found.knowledge_base.line
    assert found.knowledge_base.kb_sat.all_false == 0.0


def test_all_false_may_be_better_without_being_perfect():
    found = rule(
        "forall x. G(P(x) -> X Q(x)) & F Q(x)",
        {"P": [[1, 1, 1]], "Q": [[0, 0, 0]]},
        3,
        learned=["P"],
    )
    assert found.axiom("N").all_false == 0.0
    assert (
        "N scores 0.000 if every learned predicate is false, no less than on the labels (0.000)"
        in (said(found, "N", FindingKind.VACUOUS))
    )


def test_a_diluted_eventually():
    tables = {"P": [[1] + [0] * 99], "Q": [[0] * 99 + [1]]}
    found = rule("forall x. G(P(x) -> F Q(x))", tables, 100)
    message = said(found, "N", FindingKind.DILUTED)
    assert "'F' is a mean" in message
    assert "one witness among 100 gives 100^(-1/4) = 0.316" in message
    near = rule("forall x. G(P(x) -> F Q(x))", {"P": [[1, 1, 1]], "Q": [[1, 1, 1]]}, 3)
    assert FindingKind.DILUTED not in kinds(near, "N")


def test_means_alone_dilute():
    theory, model = check(parse_theory(TEXT)), small()
    for semantics in (PRODUCT, LOG_PRODUCT, CRISP, STABLE_PRODUCT.with_p(math.inf)):
        found = View(model, semantics, learned=["P", "Q"], threshold=0.8, theory=theory).audit()
        assert all(w.kind is not FindingKind.DILUTED for w in found.warnings)


def test_violations_at_the_end_and_elsewhere_are_told_apart():
    tables = {"P": [[1, 0, 0, 0, 1]], "Q": [[0, 0, 0, 0, 0]]}
    found = rule("forall x. G(P(x) -> X[2] Q(x))", tables, 5).axiom("N").evidence
    assert (found.violated, found.undecided, found.support, found.count) == (1, 1, 1, 5)
    assert (found.rate, found.active_share) == (1 / 4, 1 / 4)
    shown = found.as_dict()
    assert shown["undecided"] == shown["truncated"] == 1
    with pytest.warns(DeprecationWarning, match="truncated is now called undecided"):
        assert found.truncated == 1
    found = rule("forall x. G(P(x) -> F[<=2] Q(x))", tables, 5)
    assert said(found, "N", FindingKind.UNDECIDED) == (
        "N: 1 of 5 bindings and times on the labels is undecided, because the trace ends: "
        "a later witness could still come"
    )
    assert said(found, "N", FindingKind.CONTRADICTED) == (
        "N is contradicted by the labels: 1 violation at 1 bindings and times "
        "where its antecedent is true"
    )


# --- other semantics, traces, errors ---------------------------------------------------------


@pytest.mark.parametrize("semantics", [STABLE_PRODUCT, LTN, PRODUCT, LOG_PRODUCT, CRISP])
def test_several_traces_under_any_semantics(semantics):
    theory, model = check(parse_theory(TEXT)), small(2, lengths=(4, 2))
    found = View(model, semantics, learned=["P", "Q"], theory=theory).audit()
    crisp_model = two_valued(model, 0.5)
    for axiom in theory.axioms:
        if semantics.boolean:
            each = crisp.evaluate(axiom.formula, crisp_model).tensor[:, 0].double()
            expected = float(each.min())
        else:
            value = reference.evaluate(axiom.formula, model, semantics, dtype=torch.float64)
            each = value.tensor[:, 0].exp() if semantics.log_space else value.tensor[:, 0]
            folded = semantics in (PRODUCT, LOG_PRODUCT)
            expected = float(each.prod() if folded else 1 - ((1 - each) ** 4).mean() ** 0.25)
        assert found.axiom(axiom.name).value == pytest.approx(expected, abs=1e-9)
    assert found.axiom("N1").on_model.count == 3 * 4 + 3 * 2
    assert found.axiom("N1").on_labels is None
    assert found.knowledge_base.kb_sat.labels is None


def test_a_mean_antecedent_counts_each_cell_once():
    theory, model = check(parse_theory(TEXT)), small(2, lengths=(4, 2))
    found = View(model, STABLE_PRODUCT, learned=["P", "Q"], theory=theory).audit()
    degree = model.predicates["P"] * model.predicates["Q"]  # type: ignore[operator]
    inside = torch.cat([degree[0].flatten(), degree[1, :, :2].flatten()])
    assert found.axiom("N1").antecedent == pytest.approx(float(inside.mean()))


def test_labels_say_nothing_of_axioms_about_what_they_do_not_state():
    theory, model, labels = check(parse_theory(TEXT)), small(), small(3)
    every, some = (
        View(model, STABLE_PRODUCT, learned=["P", "Q"], theory=theory).audit(
            labels=without_labels(labels, *names)
        )
        for names in ((), ("Q",))
    )
    for name in ("N1", "N2"):  # they speak of Q
        row = some.axiom(name)
        assert (row.labels, row.on_labels, row.value) == (None, None, every.axiom(name).value)
        assert row.evidence == row.on_model
        assert FindingKind.CONTRADICTED not in kinds(some, name)
    for name in ("N3", "N4"):
        assert some.axiom(name) == every.axiom(name)
    known = [some.axiom(name).labels or 0.0 for name in ("N3", "N4")]
    assert some.knowledge_base.kb_sat.labels == pytest.approx(math.prod(known) ** 0.5)
    assert some.knowledge_base.kb_sat.value == every.knowledge_base.kb_sat.value
    told = json.loads(json.dumps(some.as_dict()))
    assert [a["labels"] for a in told["axioms"]] == [None, None, *known]


def test_labels_may_say_nothing_at_all():
    theory, model = check(parse_theory(TEXT)), small()
    found = View(model, STABLE_PRODUCT, learned=["P", "Q"], theory=theory).audit(
        labels=without_labels(model, "P", "Q")
    )
    assert all(row.labels is None and row.on_labels is None for row in found.axioms)
    assert found.knowledge_base.kb_sat.labels is None
    assert found.knowledge_base.satisfaction.labels is None


def test_without_entities_nothing_is_counted():
    text = "sort s\nsort u\npredicate P(s), D(u)\nrelation pairs(s, u)\n"
    text += "axiom N1: forall x: u. G(D(x) -> X D(x))\naxiom N2: forall (x, y) in pairs. G P(x)"
    theory = check(parse_theory(text))
    model = Tables(
        {"s": 2, "u": 0},
        torch.tensor([3]),
        3,
        {"P": torch.rand(1, 2, 3), "D": torch.rand(1, 0, 3)},
        relations={"pairs": torch.zeros(0, 2, dtype=torch.int64)},
        signature=theory.signature,
    )
    found = View(model, STABLE_PRODUCT, learned=["P"], theory=theory).audit()
    for row in found.axioms:
        assert (row.value, row.on_model.count, row.on_model.violated) == (1.0, 0, 0)
    assert (found.axiom("N1").on_model.support, found.axiom("N1").on_model.base_rate) == (0, None)
    for rule in View(model, theory=theory).rules(resamples=0):
        assert (rule.overall.support, rule.overall.confidence.value, rule.absent) == (0, None, 0)


def test_parts_give_the_same_as_the_whole(monkeypatch):
    scene, theory = carped(cars=6, horizon=15), carped_theory()
    whole = View(scene, STABLE_PRODUCT, learned=LEARNED, theory=theory).audit(labels=scene)
    monkeypatch.setattr(sweeping, "MAX_CELLS", 400)
    parts = View(scene, STABLE_PRODUCT, learned=LEARNED, theory=theory).audit(labels=scene)
    assert parts.warnings == whole.warnings
    for mine, theirs in zip(parts.axioms, whole.axioms, strict=True):
        assert mine.on_labels == theirs.on_labels
        assert mine.antecedent == pytest.approx(theirs.antecedent)


def test_dense_and_sparse_tables_give_the_same():
    scene, theory = carped(cars=6, horizon=15), carped_theory()
    dense = replace(scene, predicates={**scene.predicates, "Close": scene.predicate("Close")})
    mine, theirs = (
        View(model, STABLE_PRODUCT, learned=LEARNED, theory=theory).audit()
        for model in (scene, dense)
    )
    for a, b in zip(mine.axioms, theirs.axioms, strict=True):
        assert (a.value, a.all_half) == pytest.approx((b.value, b.all_half))
        assert a.on_model == b.on_model


def test_nothing_need_be_learned_even_if_tables_carry_gradients():
    theory, model = check(parse_theory(TEXT)), small()
    wanted = View(model, STABLE_PRODUCT, learned=(), theory=theory).audit()
    assert all(row.gradient_antecedent is None for row in wanted.axioms)
    tables = {
        n: t.clone().requires_grad_() if isinstance(t, torch.Tensor) else t
        for n, t in model.predicates.items()
    }
    found = View(
        replace(model, predicates=tables), STABLE_PRODUCT, learned=(), theory=theory
    ).audit()
    assert found == wanted


def test_what_cannot_be_audited():
    theory, model = check(parse_theory(TEXT)), small()
    with pytest.raises(DataError, match="no axiom 'N9'; available: 'N1', 'N2'"):
        View(model, STABLE_PRODUCT, learned=["P"], theory=theory).audit().axiom("N9")
    with pytest.raises(DataError, match="learned predicate 'Gven' is not declared; did you mean"):
        View(model, STABLE_PRODUCT, learned=["Gven"], theory=theory).audit()
    with pytest.raises(DataError, match="threshold must be above 0"):
        View(model, STABLE_PRODUCT, learned=["P"], threshold=0, theory=theory).audit()
    less = replace(model, predicates={"P": model.predicates["P"]})
    with pytest.raises(DataError, match="no table was given for the predicate"):
        View(less, STABLE_PRODUCT, learned=["P"], theory=theory).audit()
