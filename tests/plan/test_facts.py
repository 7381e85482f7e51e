"""Facts that a plan was prepared for: elsewhere they are refused, other degrees are used."""

import gc
import weakref
from dataclasses import replace

import pytest
import torch
from torch.func import grad, vmap

from fotltn.engine import compile_formulas
from fotltn.errors import DataError
from fotltn.logic.check import check
from fotltn.semantics import reference
from fotltn.semantics.config import GODEL, LTN, PRODUCT, STABLE_PRODUCT
from fotltn.semantics.sparse import SparseTable, sparse_table
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory

TEXT = """
sort s
predicate B(s), P(s, s), E(s, s)
axiom A: forall x, y. G(B(x) & P(x, y) -> WX B(y))
axiom C: G(forall x, y. P(x, y) -> P(y, x))
axiom D: forall x. exists y. B(y) & P(x, y)
"""
THEORY = check(parse_theory(TEXT, source="facts"))
AXIOMS = {a.name: a.formula for a in THEORY.axioms}
SIZE, HORIZON = 4, 5
SHAPE = (1, SIZE, SIZE, HORIZON)


def scene(count=20):
    index = torch.stack(torch.unravel_index(torch.randperm(80)[:count], SHAPE))
    tables: dict[str, torch.Tensor | SparseTable] = {
        "B": torch.rand(1, SIZE, HORIZON, requires_grad=True),
        "P": sparse_table(index, torch.rand(count), SHAPE),
        "E": sparse_table(index, None, SHAPE),
    }
    return Tables({"s": SIZE}, torch.tensor([HORIZON]), HORIZON, tables)


def with_degrees(model, name, value):
    return replace(
        model, predicates={**model.predicates, name: replace(model.predicates[name], value=value)}
    )


def prepared(model, semantics=STABLE_PRODUCT, formulas=AXIOMS):
    program = compile_formulas(formulas, THEORY.signature, semantics)
    return program.prepare(model, dtype=torch.float64)


def check_same(run, model, semantics, formulas=AXIOMS):
    for name, value in run(model).items():
        expected = reference.evaluate(formulas[name], model, semantics, dtype=torch.float64)
        torch.testing.assert_close(
            value.tensor[..., 0], expected.tensor[..., 0], rtol=1e-9, atol=1e-12
        )


@pytest.mark.parametrize("semantics", [STABLE_PRODUCT, LTN, GODEL])
def test_new_degrees_at_the_same_places_are_used(semantics):
    model = scene()
    run = prepared(model, semantics)
    check_same(run, model, semantics)
    for _ in range(3):
        model = with_degrees(model, "P", torch.rand(20))
        check_same(run, model, semantics)
    with torch.no_grad():  # in place, and without gradients: nothing old is kept
        model.predicates["P"].value.mul_(0.5)
    check_same(run, model, semantics)


@pytest.mark.parametrize("semantics", [STABLE_PRODUCT, LTN, GODEL])
def test_new_degrees_have_gradients(semantics):
    start = scene()
    run = prepared(start, semantics)
    run(start)
    for _ in range(2):
        logits = torch.randn(20, requires_grad=True)
        model = with_degrees(start, "P", logits.sigmoid())
        found = torch.stack([v.tensor.sum() for v in run(model).values()]).sum()
        values = [
            reference.evaluate(f, model, semantics, dtype=torch.float64).tensor[..., 0].sum()
            for f in AXIOMS.values()
        ]
        expected = torch.stack(values).sum()
        mine = torch.autograd.grad(found, logits, retain_graph=True)
        theirs = torch.autograd.grad(expected, logits)
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def test_learned_degrees_are_read_anew_without_gradients():
    degrees = torch.rand(20, requires_grad=True)
    model = with_degrees(scene(), "P", degrees)
    run = prepared(model)
    with torch.no_grad():
        for _ in range(3):
            check_same(run, model, STABLE_PRODUCT)
            degrees.mul_(0.7)


def test_facts_elsewhere_are_refused():
    model = scene()
    run = prepared(model)
    run(model)
    table = model.predicates["P"]
    assert isinstance(table, SparseTable)
    moved = replace(table, index=table.index.flip(1))
    for other in (moved, replace(table, default=0.5), table.dense(torch.float64)):
        with pytest.raises(DataError, match="the facts of 'P' are not those that the plan"):
            run(replace(model, predicates={**model.predicates, "P": other}))
    check_same(run, model, STABLE_PRODUCT)


def test_the_facts_of_a_guard_stay_true():
    text = f"{TEXT}axiom H1: forall x, y where E(x, y). B(x)"
    guarded = {a.name: a.formula for a in check(parse_theory(text, source="guard")).axioms}
    model = scene()
    run = prepared(model, formulas=guarded)
    check_same(run, model, STABLE_PRODUCT, guarded)
    with pytest.raises(DataError, match="'E' is a guard: the degrees of its facts must all be 1"):
        run(with_degrees(model, "E", torch.full((20,), 0.5)))


def test_degrees_under_function_transforms():
    model = scene()
    run = prepared(model)
    run(model)

    def truth(degrees):
        values = run(with_degrees(model, "P", degrees)).values()
        return torch.stack([v.tensor.sum() for v in values]).sum()

    many = torch.rand(3, 20)
    slopes = vmap(grad(truth))(many)
    values = vmap(truth)(many)
    for degrees, value, slope in zip(many, values, slopes, strict=True):
        own = degrees.clone().requires_grad_()
        expected = truth(own)
        torch.testing.assert_close(value, expected.detach(), rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(
            slope, torch.autograd.grad(expected, own)[0], rtol=1e-9, atol=1e-12
        )
    check_same(run, model, STABLE_PRODUCT)


@pytest.mark.parametrize("semantics", [STABLE_PRODUCT, LTN, GODEL, PRODUCT])
def test_nothing_of_a_run_is_kept_after_it(semantics):
    """What a backward pass holds would otherwise stay for good, since no collector sees it."""
    model = scene()
    run = prepared(model, semantics)
    weight = torch.rand(1, SIZE, HORIZON, requires_grad=True)

    def step():
        table = weight * 1
        tables = replace(model, predicates={**model.predicates, "B": table})
        torch.stack([value.tensor.sum() for value in run(tables).values()]).sum().backward()
        return weakref.ref(table)

    first = step()
    gc.collect()
    assert first() is None


# --- plans that share facts -----------------------------------------------------------------------


def test_plans_share_the_places_of_facts_and_not_their_degrees():
    model = scene()
    first, second = prepared(model), prepared(model, PRODUCT)
    check_same(first, model, STABLE_PRODUCT)
    other = with_degrees(model, "P", torch.rand(20))
    check_same(second, other, PRODUCT)
    check_same(first, model, STABLE_PRODUCT)
    shared = [
        run.bound[leaf] for run in (first, second) for leaf in run.bound if leaf in first.bound
    ]
    assert len({id(facts._by_place) for facts in shared}) < len(shared)
    assert len({id(facts._by_degree) for facts in shared}) == len(shared)


def test_facts_of_another_predicate_may_be_elsewhere():
    text = TEXT + "axiom Back: G(forall x, y. P(x, y) -> E(y, x))\n"
    theory = check(parse_theory(text, source="facts"))
    formulas = {a.name: a.formula for a in theory.axioms if a.name == "Back"}
    model = scene()
    moved = replace(model, predicates={**model.predicates, "E": scene(30).predicates["E"]})
    first, second = prepared(model, formulas=formulas), prepared(moved, formulas=formulas)
    for _ in range(2):
        check_same(first, model, STABLE_PRODUCT, formulas)
        check_same(second, moved, STABLE_PRODUCT, formulas)


def test_traces_of_other_lengths_have_facts_of_their_own():
    model = scene()
    shorter = replace(model, lengths=torch.tensor([HORIZON - 2]))
    first, second = prepared(model), prepared(shorter)
    check_same(first, model, STABLE_PRODUCT)
    check_same(second, shorter, STABLE_PRODUCT)
    check_same(first, model, STABLE_PRODUCT)


def test_facts_are_forgotten_with_the_last_plan():
    model = scene()
    run = prepared(model)
    run(model)
    kept = [weakref.ref(facts) for facts in run.bound.values()]
    assert kept
    del run
    gc.collect()
    assert [ref() for ref in kept] == [None] * len(kept)
