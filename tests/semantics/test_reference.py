"""The reference evaluator against the paper's equations, its limits, and wrong input."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor

from fotltn import SEMANTICS, DataError, Semantics
from fotltn.semantics.config import (
    GODEL,
    Fold,
    Implication,
    Negation,
    PMean,
    TConorm,
    TNorm,
)
from fotltn.semantics.tables import Tables
from fotltn.syntax import formula as f
from fotltn.syntax.load import parse_theory
from fotltn.tree import depth
from tests.helpers import evaluate
from tests.semantics.scalar import degree
from tests.semantics.textbook import World
from tests.semantics.worlds import arguments, random_batch, random_quantified, tables_of

FUZZY = {name: s for name, s in SEMANTICS.items() if not s.boolean}
MIXED = Semantics(
    "mixed", conjunction=TNorm.MINIMUM, disjunction=TConorm.LUKASIEWICZ, exists=PMean(2),
    forall=Fold(), eventually=PMean(5), always=PMean(3), equality_scale=0.5,
)  # fmt: skip
MIXED_FOLDS = Semantics(
    "mixed-folds", conjunction=TNorm.LUKASIEWICZ, implication=Implication.KLEENE_DIENES,
    exists=Fold(), forall=PMean(1), eventually=Fold(), always=Fold(),
)  # fmt: skip


def has_p(s: Semantics) -> bool:
    return any(isinstance(a, PMean) for a in s.aggregations)


def jumps(s: Semantics) -> bool:
    """Whether a rounding error may change a value much: operators with a jump."""
    residual = s.implication in (Implication.GODEL, Implication.GOGUEN)
    return residual or s.negation is Negation.GODEL


def folded(s: Semantics) -> Semantics:
    return replace(s, exists=Fold(), forall=Fold(), eventually=Fold(), always=Fold())


CASES = [
    *(s for s in FUZZY.values()),
    *(s.with_p(p) for s in FUZZY.values() if has_p(s) and not jumps(s) for p in (1, 2, 4, math.inf)
      if s.always != PMean(p)),
    folded(FUZZY["lukasiewicz"]),
    folded(GODEL),
    MIXED,
    MIXED_FOLDS,
]  # fmt: skip


def label(value: object) -> str | None:
    return f"{value.name}-{value.exists}-{value.always}" if isinstance(value, Semantics) else None


def draw(rng: random.Random, rounded: bool):
    """Degrees with 0 and 1 among them; multiples of 1/16 where rounding must not happen."""
    if rounded:
        return lambda: rng.randint(0, 16) / 16
    return lambda: rng.choice([0.0, 1.0, *[rng.random()] * 6])


Case = tuple[f.Formula, list[World], Tables]


@lru_cache(maxsize=2)  # the same for every semantics
def random_cases(rounded: bool, seed: int, count: int) -> list[Case]:
    rng, cases = random.Random(seed), []
    for _ in range(count):
        worlds = random_batch(rng, draw(rng, rounded), features=rng.random() < 0.3)
        formula = random_quantified(rng, {}, worlds[0].sizes, depth=2)
        cases.append((formula, worlds, tables_of(formula, worlds)))
    return cases


def compare(s: Semantics, seed: int, count: int) -> None:
    for formula, worlds, tables in random_cases(jumps(s), seed, count):
        found = evaluate(formula, tables, semantics=s, at="all")
        for world, row in zip(worlds, found.tolist(), strict=True):
            expected = [degree(formula, world, t, s) for t in range(world.length)]
            assert row[: world.length] == pytest.approx(expected, abs=1e-9), f"{formula}\n{world}"
            assert all(math.isnan(u) for u in row[world.length :]), "no degree beyond the end"


# --- (a) the paper's equations ---------------------------------------------------------------


@pytest.mark.parametrize("s", CASES, ids=label)
def test_equations(s):
    compare(s, seed=1, count=20)


@pytest.mark.slow
@pytest.mark.parametrize("s", CASES, ids=label)
def test_equations_many(s):
    compare(s, seed=2, count=500)


@pytest.mark.parametrize("s", FUZZY.values(), ids=label)
def test_batches_equal_single_traces(s):
    rng = random.Random(3)
    for _ in range(10):
        worlds = random_batch(rng, draw(rng, jumps(s)), features=True)
        formula = random_quantified(rng, {}, worlds[0].sizes, depth=1)
        together = evaluate(formula, **arguments(worlds), semantics=s, at="all")
        for world, row in zip(worlds, together, strict=True):
            alone = evaluate(formula, **arguments([world], lengths=False), semantics=s, at="all")
            torch.testing.assert_close(row[: world.length], alone, rtol=0, atol=1e-12)


# --- (b) the limit of large p ----------------------------------------------------------------


def test_means_tend_to_the_extremes():
    """A p-mean of n degrees is off by at most ln(n)/p, and no operator here makes errors grow."""
    rng = random.Random(4)
    for _ in range(40):
        worlds = random_batch(rng, rng.random, empty=False)
        formula = random_quantified(rng, {}, worlds[0].sizes, depth=2)
        tables = tables_of(formula, worlds)
        exact = evaluate(formula, tables, semantics=GODEL, at="all").nan_to_num()
        levels, largest = 2 * depth(formula), 3 * 3 * 3
        for p in (1, 8, 64, 1024, 1e6):
            near = evaluate(formula, tables, semantics=GODEL, p=p, at="all").nan_to_num()
            assert (near - exact).abs().max() <= levels * math.log(largest) / p + 1e-9, formula


@pytest.mark.parametrize(("text", "sign"), [("F p", 1), ("G p", -1)])
def test_means_are_stricter_with_larger_p(text, sign):
    table = torch.rand(20)
    values = [evaluate(text, {"p": table}, p=p).item() for p in (1, 4, 16, 64, 256, 1024)]
    assert sorted(values, reverse=sign < 0) == values
    assert values[0] == pytest.approx(table.mean().item())
    extreme = table.max() if sign > 0 else table.min()
    assert values[-1] == pytest.approx(extreme.item(), abs=0.005)
    assert evaluate(text, {"p": table}, p=math.inf).item() == pytest.approx(extreme.item())


# --- (c) Boolean input -----------------------------------------------------------------------

#: Families that stay in {0, 1}: exact extremes or folds, and no epsilon.
EXACT = [
    *(replace(s, epsilon=0.0).with_p(math.inf) if has_p(s) else s for s in FUZZY.values()),
    *(folded(s) for s in FUZZY.values() if has_p(s) and s.epsilon == 0),
]


@lru_cache(maxsize=1)  # the same for every semantics
def crisp_cases() -> list[tuple[f.Formula, Tables, Tensor]]:
    rng, cases = random.Random(5), []
    for _ in range(25):
        worlds = random_batch(rng, lambda: float(rng.randint(0, 1)))
        # equality of numbers is graded, so it is left out
        formula = random_quantified(rng, {}, worlds[0].sizes, depth=2, graded=False)
        tables = tables_of(formula, worlds)
        truth = evaluate(formula, tables, semantics="crisp", at="all").double()
        cases.append((formula, tables, truth))
    return cases


@pytest.mark.parametrize("s", EXACT, ids=label)
def test_boolean_on_crisp_input(s):
    for formula, tables, truth in crisp_cases():
        found = evaluate(formula, tables, semantics=s, at="all").nan_to_num()
        torch.testing.assert_close(found, truth, rtol=0, atol=1e-12, msg=str(formula))


def test_extremes_are_exact():
    """With p = ∞ no rounding: else a residual implication from a degree to itself is not 1."""
    table = {"p": [0.1, 0.7]}
    for s in ("godel", "godel-residual", "lukasiewicz", "goguen"):
        assert evaluate("G p", table, semantics=s).item() == 0.1, s
        assert evaluate("F p", table, semantics=s).item() == 0.7, s
        assert evaluate("forall x. q(x)", {"q": [0.1, 0.7]}, semantics=s).item() == 0.1, s
    for text in ("last -> (p -> G p)", "last -> (F p -> p)", "G p -> p", "p -> F p"):
        found = evaluate(text, table, semantics="godel-residual", at="all").tolist()
        assert found == [1.0, 1.0], text


@pytest.mark.parametrize("u", [0.1, 0.3, 0.9, 1e-9, 1e-20])
def test_a_fold_of_one_degree_is_that_degree(u):
    for text in ("F p", "G p"):
        assert evaluate(text, {"p": [u]}, semantics=folded(GODEL)).item() == u, text


# --- (d) nothing to aggregate ----------------------------------------------------------------

NOTHING = [
    ("forall x. q(x)", 1), ("exists x. q(x)", 0), ("forall x, y. e(x, y)", 1),
    ("exists x, y. e(x, y)", 0), ("forall y. exists x. e(x, y)", 0),
    ("forall y where !s(y). s(y)", 1), ("exists y where !s(y). s(y)", 0),
    ("forall (y, z) in none. s(y) & s(z)", 1), ("exists (y, z) in none. s(y) & s(z)", 0),
    ("G[5,7] p", 1), ("F[5,7] p", 0), ("G+ p", 1), ("F+ p", 0), ("H+ p", 1), ("O+ p", 0),
    ("p U[5,7] p", 0), ("p R[5,7] p", 1), ("p S+ p", 0), ("p T+ p", 1), ("X p", 0), ("WX p", 1),
    ("Y p", 0), ("WY p", 1), ("X[9] p", 0), ("WX[9] p", 1),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), NOTHING)
@pytest.mark.parametrize("name", SEMANTICS)
def test_over_nothing(name, text, expected):
    """No entity, no point, nothing that the guard keeps, on a trace of one point."""
    tables = {
        "p": torch.ones(1, requires_grad=True),
        "q": torch.zeros(0, 1, requires_grad=True),
        "e": torch.zeros(0, 2, 1, requires_grad=True),
        "s": torch.ones(2, 1, requires_grad=True),
    }
    value = evaluate(text, tables, relations={"none": []}, semantics=name)
    assert value.item() == pytest.approx(expected, abs=1e-12)
    if value.requires_grad:
        value.backward()
        assert all(t.grad is None or t.grad.isfinite().all() for t in tables.values())


@pytest.mark.parametrize("name", ["stable-product", "ltn", "product", "godel"])
def test_means_count_only_what_exists(name):
    """The same value with padding, with entities that the guard drops, and without either."""
    short = torch.tensor([0.2, 0.9])
    padded = torch.stack([torch.cat([short, torch.rand(3)]), torch.rand(5)])
    for text in ("F p", "G p", "F[0,3] p", "p U p", "F G p"):
        alone = evaluate(text, {"p": short}, semantics=name)
        batch = evaluate(text, {"p": padded}, lengths=[2, 5], semantics=name)
        assert batch[0].item() == pytest.approx(alone.item(), abs=1e-12), text
    keep = torch.tensor([1.0, 0.0, 1.0])
    tables = {"q": torch.tensor([0.2, 0.5, 0.9]), "keep": keep}
    for quantifier in ("forall", "exists"):
        guarded = evaluate(f"{quantifier} x where keep(x). q(x)", tables, semantics=name)
        fewer = evaluate(f"{quantifier} x. q(x)", {"q": short}, semantics=name)
        assert guarded.item() == pytest.approx(fewer.item(), abs=1e-12)


def test_quantifiers_count_each_binding():
    """A variable that the body does not mention still multiplies the bindings of a fold."""
    theory = parse_theory("sort s\npredicate q(s), p")
    tables = {"q": torch.zeros(3, 1), "p": [0.5]}
    assert evaluate("forall x. p", tables, theory=theory, semantics="product").item() == 0.125
    assert evaluate("exists x. p", tables, theory=theory, semantics="product").item() == 0.875
    assert evaluate("forall x, y. p", tables, theory=theory, p=2).item() == 0.5


@pytest.mark.parametrize("padding", [math.nan, -1.0, 0.5, 7.0])
@pytest.mark.parametrize("name", ["stable-product", "crisp"])
def test_padding_means_nothing(padding, name):
    """Points beyond the length of a trace are no points: whatever fills them is never looked at."""
    table = torch.tensor([[1.0, 0.0, 1.0], [1.0, padding, padding]], requires_grad=True)
    found = evaluate("F(p & WX p)", {"p": table}, lengths=[3, 1], semantics=name)
    assert found[1].item() == 1
    if found.requires_grad:
        found.sum().backward()
        assert table.grad is not None
        assert table.grad.isfinite().all()
        assert table.grad[1, 1:].tolist() == [0, 0]


@pytest.mark.reliability
@pytest.mark.parametrize("name", [*SEMANTICS])
@pytest.mark.parametrize("odd", [7.0, -1.0, 0.5, float("nan"), float("inf")])
def test_whatever_stands_beyond_the_end_is_not_looked_at(name, odd):
    """Neither in predicates, nor in guards, nor in functions."""
    table = torch.tensor([[[1.0, 0.0, 1.0]], [[1.0, odd, odd]]])
    results = torch.tensor([[[0.0, 1.0, 2.0]], [[3.0, odd, odd]]])
    text = "forall x where g(x). G(q(x) & n(x) < 9)"
    both = evaluate(
        text, {"g": table, "q": table}, lengths=[3, 1], semantics=name, functions={"n": results}
    )
    first = {"g": table[1, :, :1], "q": table[1, :, :1]}
    alone = evaluate(text, first, semantics=name, functions={"n": results[1, :, :1]})
    assert both[1].item() == pytest.approx(alone.item())


def test_padding_of_functions_means_nothing():
    table = torch.ones(2, 1, 2)
    for text, results in [
        ("forall x. n(x) > 0 & q(x)", [[[1.0, 2.0]], [[1.0, math.nan]]]),
        ("forall x. q(n(x))", [[[0, 0]], [[0, -1]]]),
    ]:
        found = evaluate(text, {"q": table}, functions={"n": results}, lengths=[2, 1])
        assert found.tolist() == [1, 1], text


def test_equality_is_graded_by_distance():
    theory = parse_theory("sort s\nfunction n(s): real")
    features = {"s": torch.tensor([[0.0, 0.0], [3.0, 4.0]])}
    given: dict[str, Any] = {"theory": theory, "semantics": Semantics("scaled", equality_scale=0.1)}
    far = pytest.approx(math.exp(-0.5))
    assert evaluate("x = y", {}, features=features, **given).tolist() == [[1, far], [far, 1]]
    numbers = evaluate("n(x) = 2", {}, functions={"n": [2.0, 5.0]}, **given)
    assert numbers.tolist() == [1, pytest.approx(math.exp(-0.3))]


def test_numbers_are_told_from_entities():
    """`n(x) = n(y)` does not say which of the two n gives; only a theory makes them numbers."""
    functions, far = {"n": [1.0, 1.5]}, pytest.approx(math.exp(-0.5))
    theory = parse_theory("sort s\nfunction n(s): real")
    found = evaluate("n(x) = n(y)", {}, functions=functions, theory=theory)
    assert found.tolist() == [[1, far], [far, 1]]
    message = refused("n(x) = n(y)", {}, {"functions": functions})
    assert "function 'n'" in message
    assert "real" in message


@pytest.mark.parametrize("table", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("degrees", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["crisp", "stable-product"])
def test_numbers_compare_alike_in_every_precision(name, degrees, table):
    """`n = 0.1` holds for a table that was given 0.1, single or double."""
    functions = {"n": torch.tensor([0.1], dtype=table)}
    given: dict[str, Any] = {"functions": functions, "semantics": name}
    tables = {"q": torch.ones(1, dtype=degrees)}
    for op in ("<=", ">=", "="):
        found = evaluate(f"forall x where q(x). n(x) {op} 0.1", tables, **given)
        assert found.item() == pytest.approx(1, abs=1e-6), op
        guarded = evaluate(f"exists x where n(x) {op} 0.1. q(x)", tables, **given)
        assert guarded.item() == 1, op


# --- (e) wrong input -------------------------------------------------------------------------

WRONG = [
    # degrees
    ("p", {"p": [math.nan]}, {}, ["predicate 'p'", "nan"]),
    ("p", {"p": [0.0, 1.5]}, {}, ["predicate 'p'", "1.5", "[1]"]),
    ("p", {"p": [-0.1]}, {}, ["predicate 'p'", "-0.1"]),
    ("p", {"p": [math.inf]}, {}, ["predicate 'p'", "inf"]),
    ("p", {"p": [2]}, {}, ["predicate 'p'", "2"]),
    ("p", {"p": [1j]}, {}, ["predicate 'p'", "complex"]),
    ("p", {"p": [0.5]}, {"semantics": "crisp"}, ["'p'", "0.5"]),
    ("forall x where q(x). q(x)", {"q": [0.5]}, {}, ["'q'", "0.5", "guard"]),
    # shapes and sizes
    ("p", {"p": ["yes"]}, {}, ["predicate 'p'", "not a tensor"]),
    ("q(x)", {"q": [[1, 0], [1]]}, {}, ["predicate 'q'", "not a tensor"]),
    ("p", {"p": None}, {}, ["predicate 'p'", "not a tensor"]),
    ("q(x)", {"q": torch.ones(2, 2, 2)}, {}, ["predicate 'q'", "(2, 2, 2)", "time"]),
    ("q(x)", {"q": torch.tensor(1.0)}, {}, ["predicate 'q'", "()"]),
    ("p & q", {"p": [1, 1], "q": [1]}, {}, ["'p'", "'q'", "2 time points"]),
    ("q(x) & s(x)", {"q": [1, 1], "s": [1]}, {}, ["'q'", "'s'", "2", "1"]),
    ("p", {"p": []}, {}, ["at least one time point"]),
    ("p", {"p": [1.0]}, {"horizon": 3}, ["horizon is 3"]),
    ("true", {}, {"horizon": 0}, ["at least one time point"]),
    # names
    ("Stop(x)", {"Stpo": [1.0]}, {}, ["predicate 'Stop'", "'Stpo'"]),
    ("n(x) > 0 & q(x)", {"q": [1.0]}, {}, ["function 'n'"]),
    ("n(x) > 0", {}, {}, ["function 'n'"]),
    ("forall (x, y) in rel. q(x)", {"q": [1.0]}, {}, ["relation 'rel'"]),
    ('q("eve")', {"q": [1.0]}, {"constants": {"eva": 0}}, ["'eve'", "'eva'"]),
    # entities
    ('q("eve")', {"q": [1.0]}, {"constants": {"eve": 1}}, ["'eve'", "entity 1"]),
    ('q("eve")', {"q": [1.0]}, {"constants": {"eve": -1}}, ["'eve'", "entity -1"]),
    ('q("eve")', {"q": [1.0]}, {"constants": {"eve": 0.5}}, ["'eve'", "0.5"]),
    ('q("eve")', {"q": [1.0]}, {"constants": {"eve": True}}, ["'eve'", "True"]),
    ('q("eve")', {"q": [1.0]}, {"constants": {"eve": "adam"}}, ["'eve'", "adam"]),
    ("q(n(x))", {"q": [1, 1]}, {"functions": {"n": [0, 2]}}, ["function 'n'", "entity 2"]),
    ("q(n(x))", {"q": [1, 1]}, {"functions": {"n": [0, -1]}}, ["function 'n'", "entity -1"]),
    ("q(n(x))", {"q": [1, 1]}, {"functions": {"n": [0, 0.5]}}, ["function 'n'", "whole numbers"]),
    ("n(x) > 0", {}, {"functions": {"n": [0, math.nan]}}, ["function 'n'", "finite"]),
    ("n(x) > 0", {}, {"functions": {"n": [[[1.0]]]}}, ["function 'n'", "(1, 1, 1)"]),
    ("n(x) > 0", {}, {"functions": {"n": "many"}}, ["function 'n'", "not a tensor"]),
    *(
        ("forall (x, y) in rel. r(x, y)", {"r": torch.ones(3, 3)}, {"relations": {"rel": r}}, w)
        for r, w in [
            ([[0, 3]], ["relation 'rel'", "entity 3"]),
            ([[-1, 0]], ["relation 'rel'", "entity -1"]),
            ([[0, 1, 2], [0, 1, 2]], ["relation 'rel'", "(2, 3)"]),
            ([0, 1, 2], ["relation 'rel'", "(3,)"]),
            ([[0.5, 1.7]], ["relation 'rel'", "float"]),
            ("all", ["relation 'rel'", "not a tensor"]),
        ]
    ),
    # lengths and time points
    ("p", {"p": [[1.0]]}, {"lengths": [0]}, ["trace 0", "length 0"]),
    ("p", {"p": [[1.0], [1.0]]}, {"lengths": [1, 2]}, ["trace 1", "length 2"]),
    ("p", {"p": [[1.0]]}, {"lengths": [1.0]}, ["lengths must be whole numbers"]),
    ("p", {"p": [[1.0]]}, {"lengths": [[1]]}, ["lengths must be whole numbers"]),
    ("p", {"p": [[1.0]]}, {"lengths": 1}, ["lengths must be whole numbers"]),
    ("true", {}, {"lengths": 1}, ["lengths must be whole numbers"]),
    ("p", {"p": [[1.0]]}, {"lengths": "one"}, ["lengths must be whole numbers"]),
    ("p", {"p": torch.ones(2, 1)}, {"lengths": [1, 1, 1]}, ["predicate 'p'", "2 traces", "3"]),
    *(("p", {"p": [1, 1]}, {"at": at}, [repr(at), "0 to 1"]) for at in (2, -1)),
    *(("p", {"p": [1, 1]}, {"at": at}, ["a whole number or 'all'"]) for at in ("every", 0.0, True)),
]  # fmt: skip


def refused(formula: str, predicates: dict[str, Any], options: dict[str, Any]) -> str:
    with pytest.raises(DataError) as caught:
        evaluate(formula, predicates, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("formula", "predicates", "options", "words"), WRONG, ids=[" ".join(case[-1]) for case in WRONG]
)
def test_wrong_input_is_named(formula, predicates, options, words):
    message = refused(formula, predicates, options)
    assert all(word in message for word in words), message


DECLARED = parse_theory("""
    sort s
    static predicate still(s)
    predicate q(s)
    function n(s): real
    relation rel(s, s)
    constant eve: s
""")


UNFIT = [
    ({"still": [[1.0]]}, {}, ["predicate 'still'", "(1, 1)"]),
    ({"q": [1.0]}, {}, ["predicate 'q'", "time"]),
    ({}, {"functions": {"n": [[1.0]]}}, ["function 'n'", "(1, 1)"]),
    ({}, {"features": {"t": [[1.0]]}}, ["unknown sort 't'", "'s'"]),
    ({}, {"features": {"s": [1.0]}}, ["features of 's'", "(1,)"]),
    ({}, {"features": {"s": [[1.0]] * 2}}, ["features of 's'", "2"]),
    ({}, {"features": {"s": [[math.nan]]}}, ["features of 's'", "finite"]),
    ({}, {"features": {"s": [[math.inf]]}}, ["features of 's'", "finite"]),
]


@pytest.mark.parametrize(
    ("predicates", "options", "words"), UNFIT, ids=[" ".join(case[-1]) for case in UNFIT]
)
def test_tables_must_fit_the_theory(predicates, options, words):
    """Also those that the formula does not use."""
    given = {"still": [1.0], "q": [[1.0]], **predicates}
    message = refused("exists x. still(x) & x = x", given, {"theory": DECLARED, **options})
    assert all(word in message for word in words), message


def test_tables_that_nobody_knows_are_left_alone():
    """One set of tables may serve many formulas."""
    given = {"other": [1, 2, 3]}
    options: dict[str, Any] = {"functions": given, "relations": given, "constants": {"adam": 7}}
    for theory in (None, DECLARED):
        tables = {"q": [[0.7]], **given}
        value = evaluate("exists x. q(x)", tables, theory=theory, p=1, **options)
        assert value.item() == pytest.approx(0.7)


def test_features_of_a_batch_have_its_traces():
    given = {"theory": DECLARED, "lengths": [1, 1, 1], "features": {"s": torch.ones(2, 1, 1)}}
    message = refused("exists x. q(x) & x = x", {"q": torch.ones(3, 1, 1)}, given)
    assert "features of 's'" in message
    assert "2" in message
