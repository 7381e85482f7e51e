"""Crisp first-order truth against brute force over small domains, empty ones included."""

from __future__ import annotations

import random

import pytest
import torch

from fotltn.syntax import formula as f
from tests.helpers import value_of as evaluate
from tests.semantics.textbook import World, holds
from tests.semantics.worlds import (
    SOFT,
    arguments,
    random_batch,
    random_first_order,
    random_quantified,
)


def crisp(formula: f.Formula, worlds: list[World]) -> list[list[bool]]:
    """The library's truth at every time of every world, as one ragged batch."""
    found = evaluate(formula, **arguments(worlds), semantics="crisp", at="all")
    assert found.dtype == torch.bool
    rows = found.tolist()
    for row, world in zip(rows, worlds, strict=True):
        assert not any(row[world.length :]), "beyond the end a trace says False"
    return [row[: w.length] for row, w in zip(rows, worlds, strict=True)]


def brute(formula: f.Formula, worlds: list[World]) -> list[list[bool]]:
    return [[holds(formula, w, t) for t in range(w.length)] for w in worlds]


def coin(rng: random.Random):
    return lambda: float(rng.random() < 0.5)


def compare(seed: int, count: int) -> None:
    rng = random.Random(seed)
    empty = short = true = total = 0
    for _ in range(count):
        worlds = random_batch(rng, coin(rng))
        formula = random_quantified(rng, {}, worlds[0].sizes, depth=2)
        found, expected = crisp(formula, worlds), brute(formula, worlds)
        assert found == expected, f"{formula}\n{worlds}"
        empty += 0 in worlds[0].sizes.values()
        short += any(w.length == 1 for w in worlds)
        true += sum(map(sum, found))
        total += sum(map(len, found))
    assert empty > count / 20, "empty domains were tried"
    assert short > count / 10, "traces of one point were tried"
    assert 0.1 < true / total < 0.9, "the formulas say something"


def test_brute_force():
    compare(seed=1, count=500)


@pytest.mark.slow
def test_brute_force_many():
    compare(seed=2, count=10_000)


def test_free_variables_are_axes_in_order_of_appearance():
    rng = random.Random(3)
    for _ in range(100):
        worlds = random_batch(rng, coin(rng), empty=rng.random() < 0.3)
        sizes = worlds[0].sizes
        named = {"fy": "b", "fx": "a"}
        mention = f.And(f.Atom("k", (f.Var("fy"),)), f.Atom("q", (f.Var("fx"),)))
        formula = f.Iff(mention, random_first_order(rng, named, sizes, depth=1))
        found = evaluate(formula, **arguments(worlds), semantics="crisp", at="all")
        assert found.shape == (3, sizes["b"], sizes["a"], max(w.length for w in worlds))
        for i, world in enumerate(worlds):
            for fy in range(sizes["b"]):
                for fx in range(sizes["a"]):
                    for t in range(world.length):
                        expected = holds(formula, world, t, {"fx": fx, "fy": fy})
                        assert bool(found[i, fy, fx, t]) is expected, f"{formula}"


def test_batches_equal_single_traces():
    rng = random.Random(4)
    for _ in range(100):
        worlds = random_batch(rng, coin(rng), traces=4)
        formula = random_quantified(rng, {}, worlds[0].sizes, depth=2)
        alone = [
            evaluate(formula, **arguments([w], lengths=False), semantics="crisp", at="all").tolist()
            for w in worlds
        ]
        assert crisp(formula, worlds) == alone, str(formula)


def test_one_trace_stands_for_all_of_a_batch():
    """A table with a single trace is shared by every trace of the batch."""
    table = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]).reshape(2, 1, 2)
    shared = torch.tensor([[[1.0, 1.0]]])
    found = evaluate(
        "exists x. q(x) & s(x)", {"q": table, "s": shared}, lengths=[2, 2], semantics="crisp",
        at="all",
    )  # fmt: skip
    assert found.tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("size", [0, 1])
def test_quantifiers_over_nothing(size, length):
    tables, nothing = {"q": torch.zeros(size, length)}, size == 0
    for text, expected in [
        ("forall x. q(x)", nothing),
        ("exists x. !q(x)", not nothing),
        ("forall x where q(x). q(x)", True),
        ("exists x where q(x). !q(x)", False),
        ("forall x. q(x) | exists x. q(x)", nothing),
    ]:
        found = evaluate(text, tables, semantics="crisp", at="all")
        assert found.tolist() == [expected] * length, text


def test_an_inner_variable_hides_an_outer_one_but_no_other():
    """Fresh names for hidden variables must not catch a variable that has such a name already."""
    r = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    tables = {"q": torch.ones(2), "r": r}
    plain = evaluate("forall x. q(x) & exists y. q(y) & r(y, x_1) & q(x_1)", tables)
    hidden = evaluate("forall x. q(x) & exists x. q(x) & r(x, x_1) & q(x_1)", tables)
    assert plain.tolist() == hidden.tolist()
    assert plain[0] < plain[1]


def test_soft_predicates_at_a_threshold():
    rng = random.Random(5)
    for _ in range(30):
        worlds = random_batch(rng, rng.random)
        formula = random_quantified(rng, {}, worlds[0].sizes, depth=1)
        given = arguments(worlds)
        found = evaluate(formula, **given, semantics="crisp", threshold=0.5, at="all")
        for name in SOFT:
            given["predicates"][name] = (given["predicates"][name] >= 0.5).double()
        assert found.equal(evaluate(formula, **given, semantics="crisp", at="all"))
