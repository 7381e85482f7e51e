"""Violations and their shares against brute force over all cells."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
import torch

from fotltn.analysis import evaluate_cells as sweeping
from fotltn.analysis.axes import product
from fotltn.analysis.cell_weights import weights
from fotltn.analysis.over_time import truth_over_time
from fotltn.analysis.truncation import if_longer
from fotltn.analysis.view import View
from fotltn.decisions import two_valued
from fotltn.errors import DataError
from fotltn.logic.check import CheckedAxiom, CheckedFormula, check, check_formula
from fotltn.logic.prefix import Prefix, outer, prefix
from fotltn.semantics import crisp, reference
from fotltn.semantics.config import (
    CRISP,
    GODEL,
    LOG_PRODUCT,
    LTN,
    LUKASIEWICZ,
    PRODUCT,
    STABLE_PRODUCT,
    Fold,
    PMean,
)
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula
from tests.analysis.scenes import (
    LEARNED,
    carped,
    carped_theory,
    cell_weights,
    counterexample,
    violations,
)
from tests.helpers import numbered, seeds
from tests.random_cases import SIGNATURE, random_model

PREFIXES = (
    "forall x:s, y:s. G({})",
    "forall x:s. G(forall y:s. {})",
    "G(forall x:s, y:s where E(x, y). {})",
    "forall x:s where size(x) < 0.6. G[1,2](forall y:s where E(x, y). {})",
    "forall x:s, y:s where E(x, y). G({})",
    "G(forall x:s where E(x, x). G[<=1](forall y:s. {}))",
    "G(forall x:s. G[1,3] H[<=1](forall y:s. {}))",
    "forall x:s, y:s. {}",
    "forall (x, z) in pairs. G(forall y:s. {})",
    "forall x:s, y:s where E(x, x) & E(x, y). G({})",
)
BODIES = (
    "P(x, y) -> WX B(x)",
    "B(x) & P(y, x) -> F[<=2] B(y)",
    "(exists v:s. P(x, v)) -> B(next(y)) | K(y)",
    "P(x, y) U B(y)",
)


def case(seed: int) -> tuple[str, CheckedFormula, Tables]:
    rng = random.Random(seed)
    torch.default_generator.manual_seed(seed)
    model, _ = random_model(rng)
    tuples = model.relations["pairs"].unique(dim=0)  # so that each has a name of its own
    model = replace(model, relations={"pairs": tuples})
    text = rng.choice(PREFIXES).format(rng.choice(BODIES))
    return text, check_formula(parse_formula(text), SIGNATURE), model


def body_values(part, model, semantics):
    """The body at each cell (trace, time, numbers …), by the reference."""
    axes, tensor = reference.evaluate(part.body, model, semantics, dtype=torch.float64)
    tensor = tensor.detach()

    def at(cell):
        trace, time, *place = cell
        by = dict(zip(part.axes, place, strict=True))
        return float(tensor[(trace, *(by[a] for a in axes), time)])

    return at


def crisp_values(part, boolean):
    """Whether the body is true at each cell, by the two-valued evaluator."""
    axes, tensor = crisp.evaluate(part.body, boolean)

    def at(cell):
        trace, time, *place = cell
        by = dict(zip(part.axes, place, strict=True))
        return bool(tensor[(trace, *(by[a] for a in axes), time)])

    return at


def found_cells(found, part, model):
    """Cells of violations, from the names back to numbers."""
    numbers: dict[tuple[int, ...], float] = {}
    for violation in found:
        place = []
        for axis in part.axes:
            bound = [int(violation.binding[v][1:]) for v in axis.name.split(",")]
            if axis.relation is None:
                place.append(bound[0])
            else:
                tuples = model.relation(axis.relation).tolist()
                place.append(tuples.index(bound))
        cell = (violation.trace, violation.time or 0, *place)
        numbers[cell] = numbers.get(cell, 0) + violation.share
    return numbers


@pytest.mark.parametrize("seed", range(120))
def test_weights_are_those_of_nested_means(seed):
    text, checked, model = case(seed)
    part = prefix(checked.formula)
    found = product(weights(part, model), part.axes)
    shape = (model.batch, *(model.size(a) for a in part.axes), model.horizon)
    expected = torch.zeros(shape)
    for (trace, time, *place), weight in cell_weights(part.layers, model).items():
        expected[(trace, *place, time)] = weight
    torch.testing.assert_close(found.expand(shape), expected, msg=lambda m: f"{text}\n{m}")


@pytest.mark.parametrize("end", ["final", "undecided"])
@pytest.mark.parametrize("p", [1, 2, 4])
@pytest.mark.parametrize("seed", seeds(20, 40))
def test_shares_are_exact_under_one_p(seed, p, end):
    text, checked, model = case(seed)
    semantics = STABLE_PRODUCT.with_p(p)
    found = violations(checked, model, semantics, top=10**6, end=end)
    part = prefix(checked.formula)
    weight = cell_weights(part.layers, model)
    at = body_values(part, model, semantics)
    errors = {cell: w * (1 - at(cell)) ** p for cell, w in weight.items()}
    total = sum(errors.values())
    whole = reference.evaluate(checked.formula, model, semantics, dtype=torch.float64).tensor
    whole = whole.detach()[:, 0]
    assert math.isclose(total, float(((1 - whole) ** p).mean()), rel_tol=1e-9, abs_tol=1e-12)
    assert math.isclose(1 - found.value, total ** (1 / p), rel_tol=1e-7, abs_tol=1e-7), text
    assert found.count == sum(w > 0 for w in weight.values())
    shares = found_cells(found, part, model)
    expected = {cell: e / total for cell, e in errors.items() if 1 - at(cell) > 1e-14}
    assert set(shares) == set(expected), text
    for cell, share in expected.items():
        assert math.isclose(shares[cell], share, rel_tol=1e-6, abs_tol=1e-9), (text, cell)
    if shares:
        assert math.isclose(sum(shares.values()), 1.0, rel_tol=1e-9)
    assert found.weak == len(expected)
    boolean = two_valued(model, 0.5)
    truth = crisp_values(part, boolean)
    false = {cell for cell in cell_weights(part.layers, boolean) if not truth(cell)}
    counted = {cell for cell, w in weight.items() if w > 0}
    if end == "undecided":
        later = crisp_values(Prefix(part.layers, if_longer(part.body)), boolean)
        cut = {cell for cell in false if later(cell)}
        false -= cut
        assert found.undecided == len(cut & counted)
        assert set(found_cells([v for v in found if v.undecided], part, model)) == cut & counted
    assert found.violated == len(false & counted)
    for violated in (True, False):
        listed = [v for v in found if v.violated is violated]
        assert set(found_cells(listed, part, model)) == {
            c for c in expected if (c in false) is violated
        }
        assert [v.share for v in listed] == sorted((v.share for v in listed), reverse=True)
    assert [v.violated for v in found] == sorted((v.violated for v in found), reverse=True)


def test_the_cases_are_not_trivial():
    counts = []
    for seed in range(40):
        _, checked, model = case(seed)
        found = violations(checked, model, STABLE_PRODUCT, top=10**6, end="final")
        counts.append((found.violated, found.weak - found.violated))
    assert sum(sum(pair) > 3 for pair in counts) > 20
    assert sum(min(pair) > 0 for pair in counts) > 10


def one(text: str, tables, horizon: int, sizes=None, lengths=None) -> tuple[CheckedAxiom, Tables]:
    """The first axiom of a theory, and its tables."""
    theory = check(parse_theory(text))
    model = Tables(
        sizes or {"s": 2},
        torch.tensor(lengths or [horizon]),
        horizon,
        {n: torch.tensor(t) for n, t in tables.items()},
        constants={"s": {"s0": 0, "s1": 1}},
        signature=theory.signature,
        names=numbered(sizes or {"s": 2}),
    )
    return theory.axioms[0], model


RULE = "sort s\npredicate P(s)\npredicate Q(s)\naxiom N1: forall x. G(P(x) -> X Q(x))"


def test_what_a_violation_says():
    axiom, model = one(
        RULE,
        {"P": [[[1.0, 0.0, 0.5], [1.0, 1.0, 0.0]]], "Q": [[[0.0, 0.75, 0.0], [0.0, 1.0, 0.0]]]},
        3,
    )
    found = violations(axiom, model, STABLE_PRODUCT.with_p(2), end="final")
    assert found.axiom == "N1"
    assert (
        found.cells
        == "one row per binding of x and time; share is the row's part of the sum of (1 - value)^2"
    )
    assert (found.count, found.violated, found.weak, found.absent) == (6, 2, 3, 0)
    assert [v.violated for v in found] == [
        True,
        True,
        False,
    ]  # 1 → 0.75 is true in two-valued logic
    worst, second, third = found
    total = 1.0 + 0.25**2 + 0.5**2
    assert found.value == pytest.approx(1 - (total / 6) ** 0.5)
    assert (worst.binding, worst.trace, worst.time) == ({"x": "s1"}, 0, 1)
    assert (worst.value, worst.antecedent, worst.consequent) == (0, 1, 0)
    assert worst.share == pytest.approx(1 / total)
    assert [(a.text, a.time, a.value) for a in worst.atoms] == [
        ("P(s1)", 1, 1.0),
        ("Q(s1)", 2, 0.0),
    ]
    assert (second.binding, second.time) == ({"x": "s0"}, 2)
    assert second.share == pytest.approx(0.25 / total)
    assert [a.text for a in second.atoms] == ["P(s0)"]  # the next point is beyond the trace
    assert (third.binding, third.time) == ({"x": "s0"}, 0)
    assert worst.as_dict()["atoms"] == [
        {"atom": "P(s1)", "time": 1, "value": 1.0},
        {"atom": "Q(s1)", "time": 2, "value": 0.0},
    ]
    assert found.as_dict()["violations"] == [v.as_dict() for v in found]
    open_ended = violations(axiom, model, STABLE_PRODUCT.with_p(2))
    assert (open_ended.violated, open_ended.undecided, open_ended.weak) == (1, 1, 3)
    assert [v.standing for v in open_ended] == ["yes", "undecided", "no"]
    assert [v.share for v in open_ended] == [v.share for v in found]
    assert open_ended.summary == "1 of 5 cells is violated, 1 undecided, 3 not fully true"


def test_violations_come_before_weak_cells_with_larger_errors():
    """0.6 & 0.6 is 0.36 but true in two-valued logic; 1 & 0.45 is 0.45 and false."""
    axiom, model = one(
        "sort s\npredicate P(s), Q(s)\naxiom N1: forall x. G(P(x) & Q(x))",
        {"P": [[[0.6, 1.0], [1.0, 1.0]]], "Q": [[[0.6, 0.8], [0.45, 1.0]]]},
        2,
    )
    semantics = STABLE_PRODUCT.with_p(1)
    found = violations(axiom, model, semantics)
    listed = [(v.binding["x"], v.time, round(v.value, 6), v.violated) for v in found]
    assert listed == [("s1", 0, 0.45, True), ("s0", 0, 0.36, False), ("s0", 1, 0.8, False)]
    total = 0.55 + 0.64 + 0.2
    assert [v.share for v in found] == pytest.approx([0.55 / total, 0.64 / total, 0.2 / total])
    assert (found.count, found.violated, found.weak) == (4, 1, 3)
    assert [v.violated for v in violations(axiom, model, semantics, top=1)] == [True]
    said = found.as_dict()
    assert (said["violated"], said["weak"], said["absent"]) == (1, 3, 0)
    assert [v["violated"] for v in said["violations"]] == [True, False, False]  # type: ignore[attr-defined]
    first = counterexample(axiom, model)
    assert first is not None
    assert (first.binding, first.time) == ({"x": "s1"}, 0)
    heat = truth_over_time(View(model, semantics).cells(axiom))
    rows = heat.worst(2)
    assert [(row.binding["x"], row.violated) for row in rows] == [("s1", 1), ("s0", 0)]
    assert [row.error for row in rows] == pytest.approx([0.55 / total, 0.84 / total])
    strict = violations(axiom, model, semantics, threshold=0.9)
    assert [(v.value < 1, v.violated) for v in strict] == [(True, True)] * 3
    assert [v.share for v in strict] == sorted((v.share for v in strict), reverse=True)


def test_what_is_fully_true_by_degree_may_be_false():
    """Under Łukasiewicz 0.4 | 0.6 is 1; with a threshold of 0.7, neither side is true."""
    axiom, model = one(
        "sort s\npredicate P(s), Q(s)\naxiom N1: forall x. G(P(x) | Q(x))",
        {"P": [[[0.4], [1.0]]], "Q": [[[0.6], [0.0]]]},
        1,
    )
    found = violations(axiom, model, LUKASIEWICZ, threshold=0.7)
    (only,) = found
    assert (only.binding, only.value, only.violated, only.share) == ({"x": "s0"}, 1.0, True, 0.0)
    assert (found.value, found.violated, found.weak) == (1.0, 1, 1)


def test_without_always_there_is_no_time():
    axiom, model = one(
        "sort s\npredicate P(s)\naxiom N1: forall x. P(x)", {"P": [[[0.5, 0.0], [1.0, 0.0]]]}, 2
    )
    (only,) = violations(axiom, model, STABLE_PRODUCT)
    assert (only.binding, only.time, only.value, only.share) == ({"x": "s0"}, None, 0.5, 1.0)
    assert only.antecedent is None
    assert only.atoms[0].time == 0


def test_an_axiom_without_forall_is_one_cell():
    axiom, model = one(
        "sort s\npredicate P(s)\naxiom N1: exists x. P(x)", {"P": [[[0.5], [0.5]]]}, 1
    )
    found = violations(axiom, model, STABLE_PRODUCT)
    assert found.cells.startswith("the axiom as a whole")
    (only,) = found
    assert (only.binding, only.time, only.share) == ({}, None, 1.0)
    assert only.value == pytest.approx(0.5)


def test_a_satisfied_axiom_has_no_violations():
    axiom, model = one(RULE, {"P": [[[0.0] * 3] * 2], "Q": [[[0.3] * 3] * 2]}, 3)
    found = violations(axiom, model, STABLE_PRODUCT)
    assert (len(found), found.violated, found.weak, found.value) == (0, 0, 0, 1.0)


def mixed():
    return one(
        "sort s\npredicate P(s)\naxiom N1: forall x. G P(x)",
        {"P": [[[0.9, 0.2, 0.7], [0.5, 0.4, 0.6]]]},
        3,
    )


def test_where_p_differs_the_outer_mean_is_split():
    axiom, model = mixed()
    semantics = replace(STABLE_PRODUCT, forall=PMean(2), always=PMean(6))
    found = violations(axiom, model, semantics)
    assert found.cells == (
        "one row per binding of x; share is the row's part of the sum of (1 - value)^2; "
        "the forall and G inside are taken as a whole"
    )
    inner = [
        (sum((1 - u) ** 6 for u in row) / 3) ** (1 / 6)
        for row in ([0.9, 0.2, 0.7], [0.5, 0.4, 0.6])
    ]
    total = sum(e**2 for e in inner)
    assert [v.binding["x"] for v in found] == ["s0", "s1"]
    assert [v.share for v in found] == pytest.approx([e**2 / total for e in inner])
    assert all(v.time is None for v in found)
    assert found.value == pytest.approx(1 - (total / 2) ** 0.5)


def test_an_epsilon_keeps_means_apart():
    axiom, model = mixed()
    semantics = replace(LTN, epsilon=0.1)
    found = violations(axiom, model, semantics)
    always = [
        1 - (sum((1 - 0.9 * u) ** 4 for u in row) / 3) ** 0.25
        for row in ([0.9, 0.2, 0.7], [0.5, 0.4, 0.6])
    ]
    errors = [(1 - 0.9 * g) ** 4 for g in always]
    assert found.value == pytest.approx(1 - (sum(errors) / 2) ** 0.25)
    assert [v.share for v in found] == pytest.approx([e / sum(errors) for e in errors])


def test_an_epsilon_and_several_traces():
    axiom, model = mixed()
    rows = [[[0.9, 0.2], [0.5, 0.4]], [[0.3, 0.8], [1.0, 1.0]]]
    model = replace(
        model, predicates={"P": torch.tensor(rows)}, lengths=torch.tensor([2, 2]), horizon=2
    )
    semantics = replace(LTN, epsilon=0.1)
    found = violations(axiom, model, semantics)
    always = [[1 - (sum((1 - 0.9 * u) ** 4 for u in g) / 2) ** 0.25 for g in t] for t in rows]
    errors = sorted(((1 - 0.9 * g) ** 4 for t in always for g in t), reverse=True)
    assert [v.share for v in found] == pytest.approx([e / sum(errors) for e in errors])
    assert found.value == pytest.approx(1 - (sum(errors) / 4) ** 0.25)


def test_under_a_minimum_the_worst_have_it_all():
    axiom, model = mixed()
    for semantics in (GODEL, LUKASIEWICZ, STABLE_PRODUCT.with_p(math.inf)):
        found = violations(axiom, model, semantics)
        assert [v.share for v in found] == [1.0, 0, 0, 0, 0, 0]
        assert (found[0].binding, found[0].time) == ({"x": "s0"}, 1)
        assert found.value == pytest.approx(0.2)
    tied = replace(model, predicates={"P": torch.tensor([[[0.9, 0.2, 0.7], [0.2, 0.4, 0.6]]])})
    found = violations(axiom, tied, GODEL)
    assert [v.share for v in found][:3] == [0.5, 0.5, 0]


@pytest.mark.parametrize("semantics", [PRODUCT, LOG_PRODUCT])
def test_under_a_product_logarithms_add_up(semantics):
    axiom, model = mixed()
    found = violations(axiom, model, semantics)
    degrees = sorted([0.9, 0.2, 0.7, 0.5, 0.4, 0.6])
    total = sum(-math.log(u) for u in degrees)
    assert [v.value for v in found] == pytest.approx(degrees)
    assert [v.share for v in found] == pytest.approx([-math.log(u) / total for u in degrees])
    assert -math.log(found.value) == pytest.approx(total)


def test_a_product_with_a_zero_is_due_to_the_zeros():
    axiom, model = mixed()
    zero = replace(model, predicates={"P": torch.tensor([[[0.9, 0.0, 0.7], [0.5, 0.0, 0.6]]])})
    found = violations(axiom, zero, PRODUCT)
    assert [v.share for v in found] == [0.5, 0.5, 0, 0, 0, 0]


def test_under_lukasiewicz_sums_one_layer_is_split():
    axiom, model = mixed()
    semantics = replace(LUKASIEWICZ, forall=Fold(), always=Fold())
    found = violations(axiom, model, semantics)
    assert "1 - value" in found.cells
    assert [v.share for v in found] == pytest.approx([0.5, 0.5])  # both inner values are 0


def test_several_traces_share_the_error():
    axiom, model = one(
        "sort s\npredicate P(s)\naxiom N1: forall x. G P(x)",
        {"P": [[[0.5, 0.0], [1.0, 0.0]], [[0.8, 0.6], [1.0, 1.0]]]},
        2,
        lengths=[1, 2],
    )
    found = violations(axiom, model, STABLE_PRODUCT.with_p(1))
    weight = {0: 1 / 2 / 2 / 1, 1: 1 / 2 / 2 / 2}
    total = weight[0] * 0.5 + weight[1] * 0.2 + weight[1] * 0.4
    assert [(v.trace, v.time) for v in found] == [(0, 0), (1, 1), (1, 0)]
    assert [v.share for v in found] == pytest.approx(
        [weight[0] * 0.5 / total, weight[1] * 0.4 / total, weight[1] * 0.2 / total]
    )
    assert found.value == pytest.approx(1 - total)
    assert "trace" in found.cells


def test_under_crisp_every_violation_counts_the_same():
    axiom, model = mixed()
    found = violations(axiom, model, CRISP, threshold=0.55)
    assert found.value == 0
    assert [(v.binding["x"], v.time) for v in found] == [("s1", 0), ("s0", 1), ("s1", 1)]
    assert [v.share for v in found] == pytest.approx([1 / 3] * 3)


def test_parts_give_the_same_as_the_whole(monkeypatch):
    model, theory = carped(cars=6, horizon=15), carped_theory()
    tables = {n: model.predicate(n) * 0.8 + 0.1 for n in LEARNED}
    model = replace(model, predicates={**model.predicates, **tables})
    for axiom in map(theory.axiom, ("A1", "A3", "A5", "A13")):
        whole = violations(axiom, model, STABLE_PRODUCT, top=7)
        with monkeypatch.context() as patch:
            patch.setattr(sweeping, "MAX_CELLS", 400)
            parts = violations(axiom, model, STABLE_PRODUCT, top=7)
        assert (parts.count, parts.violated, parts.weak) == (
            whole.count, whole.violated, whole.weak,
        )  # fmt: skip
        assert [(v.binding, v.time) for v in parts] == [(v.binding, v.time) for v in whole]
        assert [v.share for v in parts] == pytest.approx([v.share for v in whole])


@pytest.mark.parametrize("semantics", [STABLE_PRODUCT, LTN, PRODUCT, LOG_PRODUCT, GODEL, CRISP])
def test_parts_give_the_same_under_any_semantics(semantics, monkeypatch):
    for seed in range(25):
        text, checked, model = case(seed)
        whole = violations(checked, model, semantics, top=9)
        with monkeypatch.context() as patch:
            patch.setattr(sweeping, "MAX_CELLS", 1)
            parts = violations(checked, model, semantics, top=9)
        assert (parts.count, parts.violated) == (whole.count, whole.violated), text
        assert (parts.weak, parts.absent) == (whole.weak, whole.absent), text
        assert [v.share for v in parts] == pytest.approx([v.share for v in whole]), text
        assert [v.value for v in parts] == pytest.approx([v.value for v in whole]), text


def test_the_worst_are_the_worst_of_all():
    model, theory = carped(cars=6, horizon=15), carped_theory()
    torch.manual_seed(3)
    tables = {n: torch.rand(model.predicates[n].shape) for n in ("Car", "Stop", "Crossing", "Ped")}
    model = replace(model, predicates={**model.predicates, **tables})
    every = violations(theory.axiom("A1"), model, STABLE_PRODUCT, top=10**6)
    some = violations(theory.axiom("A1"), model, STABLE_PRODUCT, top=4)
    assert len(every) > 20
    assert list(some) == list(every)[:4]


def test_what_cannot_be_asked():
    axiom, model = mixed()
    with pytest.raises(DataError, match="at least 0"):
        violations(axiom, model, STABLE_PRODUCT, top=-1)
    free = check_formula(parse_formula("P(x)"), model.signature)
    with pytest.raises(DataError, match="no free variables, but there are 'x'"):
        violations(free, model, STABLE_PRODUCT)
    with pytest.raises(DataError, match="no free variables, but there are 'x'"):
        counterexample(free, model)


def test_layers_can_be_split_off():
    formula = check_formula(parse_formula("forall x:s. G(forall y:s. P(x, y))"), SIGNATURE).formula
    whole = prefix(formula)
    assert [a.name for a in whole.axes] == ["x", "y"]
    for count in range(5):
        part = outer(whole, count)
        assert prefix(part.body).body == whole.body
        assert len(part.layers) == min(count, 3)
