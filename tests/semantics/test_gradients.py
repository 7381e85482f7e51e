"""Gradients: right in the interior, finite at the corners, in double and single precision."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from fotltn import SEMANTICS, Semantics
from fotltn.semantics import aggregate, connectives, logspace
from fotltn.semantics.config import Implication, Negation, TConorm, TNorm
from fotltn.syntax import formula as f
from fotltn.syntax.load import parse_theory
from tests.helpers import EVERY, planned, random_formula, value_of
from tests.semantics.textbook import World
from tests.semantics.worlds import arguments, random_batch, random_quantified, random_world

FUZZY = {name: s for name, s in SEMANTICS.items() if not s.boolean}
LOG_MEANS = Semantics("log-means", log_space=True)
P = [1.0, 2.0, 2.5, 4.0, 40.0, math.inf]


@pytest.fixture(params=["engine", "reference"])
def evaluate(request):
    """Each evaluator in turn."""
    return partial(value_of, engine=request.param == "engine")


def interior(*shape: int) -> Tensor:
    """Degrees away from 0 and 1, with no two closer than gradcheck's steps, nor adding up to 1."""
    count = math.prod(shape)
    spread = 0.1 + 0.8 * (torch.randperm(count) + 0.1 + 0.2 * torch.rand(count)) / count
    return spread.reshape(shape).requires_grad_()


def checked(function: Callable[..., Tensor], *inputs: Tensor, fast: bool = False) -> bool:
    """Compare with differences, entry by entry or (fast) along random directions."""
    return torch.autograd.gradcheck(
        function, inputs, eps=1e-6, atol=1e-6, rtol=1e-6, fast_mode=fast
    )


# --- single operators ------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.0, 1e-4])
@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        *((connectives.conjoin, kind) for kind in TNorm),
        *((connectives.disjoin, kind) for kind in TConorm),
        *((connectives.imply, kind) for kind in Implication),
    ],
)
def test_connectives(operator, kind, epsilon):
    u, v = interior(2, 20)
    assert checked(lambda a, b: operator(a, b, kind, epsilon), u, v)


def test_negation():
    assert checked(lambda u: connectives.negate(u, Negation.STANDARD), interior(5))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dims", [(1,), (0, 2)])
@pytest.mark.parametrize("p", P)
def test_means(p, dims, masked):
    u = interior(2, 3, 4)
    mask = torch.rand(2, 3, 4) > 0.3 if masked else None
    assert checked(lambda x: aggregate.p_mean(x, p, dims, mask), u)
    assert checked(lambda x: aggregate.p_mean_error(x, p, dims, mask), u)
    assert checked(lambda x: logspace.log_p_mean(x.log(), p, dims, mask), u)
    assert checked(lambda x: logspace.log_p_mean_error(x.log(), p, dims, mask), u)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", TNorm)
def test_folds(kind, masked):
    u = interior(2, 3, 4)
    dual = {
        TNorm.PRODUCT: TConorm.PROBABILISTIC_SUM,
        TNorm.MINIMUM: TConorm.MAXIMUM,
        TNorm.LUKASIEWICZ: TConorm.LUKASIEWICZ,
    }[kind]
    mask = torch.rand(2, 3, 4) > 0.3 if masked else None
    assert checked(lambda x: aggregate.fold_conjunction(x, kind, (0, 2), mask), u)
    assert checked(lambda x: aggregate.fold_disjunction(x, dual, (0, 2), mask), u)


def test_log_connectives():
    u, v = interior(2, 6)
    assert checked(lambda a: logspace.log_not(a.log()), u)
    for operator in (logspace.log_and, logspace.log_or, logspace.log_imply):
        assert checked(lambda a, b, op=operator: op(a.log(), b.log()), u, v)
    for fold in (logspace.log_fold_conjunction, logspace.log_fold_disjunction):
        assert checked(lambda a, op=fold: op(a.log(), (0,)), u)


@pytest.mark.parametrize("op", EVERY, ids=lambda op: op.ascii)
@pytest.mark.parametrize("s", [*FUZZY.values(), LOG_MEANS], ids=lambda s: s.name)
@pytest.mark.parametrize("engine", [True, False], ids=["engine", "reference"])
def test_temporal_operators(s, op, engine):
    """Plain, within a window and strict."""
    if s.negation is Negation.GODEL and op.ascii in "RTM":
        s = FUZZY["godel"]  # a step function has no gradient to compare; see below for it
    a, b = f.Atom("a"), f.Atom("b")
    window = f.Bound(2, 2) if op.steps else f.Bound(1, 2)
    formulas: list[f.Formula] = [
        f.Unary(op, a, bound, strict) if op.value.arity == 1 else f.Binary(op, a, b, bound, strict)
        for bound, strict in ((None, False), (window, False), (None, not op.steps))
    ]
    tables = interior(2, 4)[: op.value.arity]
    assert checked(planned(formulas, *tables, semantics=s, engine=engine), *tables, fast=True)


def test_quantifiers_and_equality(evaluate):
    theory = parse_theory("sort s\npredicate q(s)\nrelation rel(s, s)")
    pairs = torch.tensor([[0, 1], [2, 2]])

    def value(q: Tensor, vectors: Tensor) -> Tensor:
        text = (
            "forall x. exists y where y != x. (x = y -> q(y)) & forall (u, v) in rel. q(u) | u = v"
        )
        result: Tensor = evaluate(
            text, {"q": q}, theory=theory, relations={"rel": pairs}, features={"s": vectors},
            at="all",
        )  # fmt: skip
        return result

    assert checked(value, interior(3, 2), torch.randn(3, 2, requires_grad=True))


# --- corners ---------------------------------------------------------------------------------


def corners(rng: random.Random) -> list[Callable[[], float]]:
    """Where gradients like to be NaN: all 0, all 1, both, ties, and next to the ends."""
    return [
        lambda: 0.0,
        lambda: 1.0,
        lambda: float(rng.randint(0, 1)),
        lambda: 0.5,
        lambda: rng.choice([0.0, 0.5, 1.0]),
        lambda: rng.choice([0.0, 1e-12, 1e-300, 1 - 1e-16, 1.0]),
    ]


def random_corners(rng: random.Random) -> list[World]:
    """Two traces for each corner, over the same entities."""
    worlds: list[World] = []
    for degree in corners(rng) * 2:
        if worlds:
            sizes, length = worlds[0].sizes, rng.randint(1, 4)
            worlds.append(random_world(rng, sizes, length, degree, shared=worlds[0]))
        else:
            worlds += random_batch(rng, degree, traces=1)
    return worlds


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("s", [*FUZZY.values(), LOG_MEANS], ids=lambda s: s.name)
def test_finite_at_corners(s, dtype, evaluate):
    """Values are degrees and gradients finite, for whole random formulas."""
    rng = random.Random(f"{s.name} {dtype}")
    for _ in range(16):
        worlds = random_corners(rng)
        formula = random_quantified(rng, {}, worlds[0].sizes, depth=2)
        given = arguments(worlds)
        tables = {n: t.to(dtype) for n, t in given["predicates"].items()}
        given["predicates"] = {n: t.requires_grad_() for n, t in tables.items()}
        found = evaluate(formula, **given, semantics=s, at="all")
        inside = found[~found.isnan()]
        assert found.dtype == dtype
        assert len(inside) == sum(w.length for w in worlds), formula
        assert inside.min() >= -1e-6, formula
        assert inside.max() <= 1 + 1e-6, formula
        if found.requires_grad:
            inside.sum().backward()
        for name, table in tables.items():
            assert table.grad is None or table.grad.isfinite().all(), (name, str(formula))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("p", [*P, 1000.0, 1e6])
def test_means_at_corners(p, dtype, evaluate):
    """Every p, also where powers underflow or are of negative numbers that rounding made."""
    rng = random.Random(2)
    for degree in corners(rng):
        table = torch.tensor([[degree() for _ in range(3)] for _ in range(2)], dtype=dtype)
        table.requires_grad_()
        text = "forall x. G(q(x) | q(x)) -> exists x. F(q(x) & !q(x)) U q(x)"
        for name in ("stable-product", "ltn"):
            value = evaluate(text, {"q": table}, semantics=name, p=p)
            (grad,) = torch.autograd.grad(value, table)
            assert value.isfinite()
            assert grad.isfinite().all(), (name, table)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("s", [*FUZZY.values(), LOG_MEANS], ids=lambda s: s.name)
def test_deep_formulas_at_corners(s, dtype, evaluate):
    """Chains of propositional and temporal operators: errors pile up, gradients multiply."""
    rng = random.Random(3)
    for _ in range(8):
        formula = random_formula(rng, 20, [f.Atom("p"), f.Atom("q")])
        tables = {  # a trace for each corner
            n: torch.tensor([[degree() for _ in range(3)] for degree in corners(rng)], dtype=dtype)
            for n in ("p", "q")
        }
        for table in tables.values():
            table.requires_grad_()
        values = evaluate(formula, tables, semantics=s, lengths=[3] * len(corners(rng)))
        assert values.min() >= -1e-5
        assert values.max() <= 1 + 1e-5
        if values.requires_grad:
            values.sum().backward()
        for table in tables.values():
            assert table.grad is None or table.grad.isfinite().all(), str(formula)


def test_gradients_of_ties_are_shared(evaluate):
    for text in ("F p", "G p"):
        for p in P:
            table = torch.full((4,), 0.5, requires_grad=True)
            evaluate(text, {"p": table}, p=p).backward()
            assert table.grad is not None
            torch.testing.assert_close(table.grad, torch.full((4,), 0.25))


@pytest.mark.parametrize("text", ["!p", "p R q", "p T q", "p M q", "G p", "p -> q", "p <-> q"])
@pytest.mark.parametrize("s", FUZZY.values(), ids=lambda s: s.name)
def test_every_value_can_be_differentiated(s, text, evaluate):
    """A flat operator has the gradient 0, and not no gradient: a training loop must not stop."""
    tables = {n: torch.tensor([0.3, 0.6], requires_grad=True) for n in ("p", "q")}
    evaluate(text, tables, semantics=s).backward()
    grads = [t.grad for t in tables.values() if t.grad is not None]
    assert grads
    assert all(g.isfinite().all() for g in grads)


def test_padding_gets_no_gradient(evaluate):
    table = torch.rand(2, 4, requires_grad=True)
    text = "G(p -> F[1,2] p) & (p U p) & O p"
    evaluate(text, {"p": table}, lengths=[2, 4]).sum().backward()
    assert table.grad is not None
    assert table.grad[0, 2:].tolist() == [0, 0]
    assert table.grad[1].abs().min() > 0


def test_guards_drop_gradients(evaluate):
    table = torch.tensor([0.2, 0.5, 0.9], requires_grad=True)
    tables = {"q": table, "keep": torch.tensor([1.0, 0.0, 1.0])}
    evaluate("forall x where keep(x). q(x)", tables).backward()
    assert table.grad is not None
    assert table.grad[1] == 0
    assert table.grad[[0, 2]].min() > 0


def test_equal_vectors_have_finite_gradients(evaluate):
    """The distance of a vector to itself is a kink."""
    theory = parse_theory("sort s")
    vectors = torch.ones(2, 3, requires_grad=True)
    evaluate("forall x: s, y: s. x = y", {}, theory=theory, features={"s": vectors}).backward()
    assert vectors.grad is not None
    assert vectors.grad.isfinite().all()
