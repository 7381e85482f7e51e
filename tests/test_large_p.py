"""Where powers would underflow, every way to a value goes by the equations."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import fotltn
from fotltn import check
from fotltn.analysis.evaluate_cells import sweep
from fotltn.engine import compile_formulas, compiled
from fotltn.errors import SemanticsError
from fotltn.evaluation import Evaluator, axiom_values, evaluate_all
from fotltn.learn.satisfaction import Axioms
from fotltn.semantics import reference
from fotltn.semantics.config import STABLE_PRODUCT
from fotltn.semantics.sparse import sparse_table
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory

pytestmark = pytest.mark.reliability

THEORY = check(
    parse_theory("""
sort s
predicate A(s)
predicate P(s, s)
axiom All: forall x. G A(x)
axiom Pairs: forall x, y. G(P(x, y) -> A(y))
""")
)
FORMULAS = {a.name: a.formula for a in THEORY.axioms}


def scene(kind: torch.dtype, *, facts: bool, ragged: bool) -> Tables:
    """Small errors: their powers are 0 in single precision, and the axioms would be true."""
    draw = torch.Generator().manual_seed(2)
    a = 1 - 1e-3 * torch.rand(2, 5, 6, generator=draw, dtype=torch.float64).to(kind)
    p = torch.rand(2, 5, 5, 6, generator=draw, dtype=torch.float64).to(kind)
    where = (p > 0.5).nonzero().T
    close = sparse_table(where, p[p > 0.5], p.shape) if facts else p
    lengths = torch.tensor([6, 2] if ragged else [6, 6])
    return Tables({"s": 5}, lengths, 6, {"A": a, "P": close})


def expected(model: Tables, semantics: fotltn.Semantics) -> dict[str, torch.Tensor]:
    """By the equations, in double precision."""
    return {
        name: reference.evaluate(f, model, semantics, dtype=torch.float64).tensor[:, 0]
        for name, f in FORMULAS.items()
    }


@pytest.mark.parametrize(("kind", "p"), [(torch.float32, 20), (torch.float32, 6)])
@pytest.mark.parametrize("facts", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
def test_all_ways_give_the_same(kind, p, facts, ragged):
    model = scene(kind, facts=facts, ragged=ragged)
    semantics = STABLE_PRODUCT.with_p(p)
    program = compile_formulas(FORMULAS, THEORY.signature, semantics)
    ways = {
        "prepare": program.prepare(model, dtype=kind)(model),
        "ready": program.ready(model, dtype=kind)(model),
        "all": evaluate_all(FORMULAS, model, semantics, at=0),
        "kept": Evaluator(FORMULAS, semantics, 0)(model),
    }
    wanted = expected(model, semantics)
    for way, found in ways.items():
        for name, value in found.items():
            error = (value.tensor[:, 0] - wanted[name]).abs().max()
            assert error < 1e-6, (way, name)
    trained = Axioms(THEORY, semantics).values(model)
    assert (trained - torch.stack(list(wanted.values()))).abs().max() < 1e-6


def test_cells_and_one_value_for_all_traces():
    model = scene(torch.float32, facts=False, ragged=False)
    semantics = STABLE_PRODUCT.with_p(20)
    found = axiom_values(FORMULAS, model, semantics)
    double = {n: t.double() for n, t in model.predicates.items() if isinstance(t, torch.Tensor)}
    exact = axiom_values(FORMULAS, replace(model, predicates=double), semantics)
    for name, value in found.items():
        assert abs(float(value) - float(exact[name])) < 1e-6
    body = {"All": FORMULAS["All"].body}  # type: ignore[attr-defined]
    axes = FORMULAS["All"].axes  # type: ignore[attr-defined]
    (part,) = sweep(body, axes, model, semantics)
    wanted = reference.evaluate(body["All"], model, semantics, dtype=torch.float64)
    assert (part.values["All"] - wanted.tensor).abs().max() < 1e-6


def test_gradients_are_those_of_the_equations():
    model = scene(torch.float32, facts=False, ragged=False)
    a = model.predicates["A"].clone().requires_grad_()  # type: ignore[union-attr]
    model = replace(model, predicates={**model.predicates, "A": a})
    semantics = STABLE_PRODUCT.with_p(20)
    run = compile_formulas(FORMULAS, THEORY.signature, semantics).prepare(
        model, dtype=torch.float32
    )
    (found,) = torch.autograd.grad(run(model)["All"].tensor.sum(), a)
    assert found.abs().max() > 0.1
    value = reference.evaluate(FORMULAS["All"], model, semantics, dtype=torch.float32)
    (wanted,) = torch.autograd.grad(value.tensor[:, 0].sum(), a)
    torch.testing.assert_close(found, wanted)


def test_the_equations_are_not_compiled():
    model = scene(torch.float32, facts=False, ragged=False)
    program = compile_formulas(FORMULAS, THEORY.signature, STABLE_PRODUCT.with_p(20))
    with pytest.raises(SemanticsError, match="computed by the equations"):
        compiled(program.prepare(model, dtype=torch.float32), model, backend="aot_eager")
