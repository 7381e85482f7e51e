"""Values without time against LTNtorch: its connectives, aggregators, guards and diagonals."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ltn
import pytest
import torch
from ltn import fuzzy_ops as ops

from fotltn import Semantics, check_formula
from fotltn.semantics import aggregate, connectives
from fotltn.semantics.config import Implication, Negation, PMean, TConorm, TNorm
from fotltn.syntax import formula as f
from tests.helpers import evaluate

EPSILON = 1e-4  # LTNtorch's
SIZES = {"x": 3, "y": 4, "z": 2}
ARITY = {"P": "x", "Q": "y", "PQ": "xy", "QV": "yz", "V": "z"}

NEGATIONS = {Negation.STANDARD: ops.NotStandard, Negation.GODEL: ops.NotGodel}
CONJUNCTIONS = {
    TNorm.MINIMUM: ops.AndMin, TNorm.PRODUCT: ops.AndProd, TNorm.LUKASIEWICZ: ops.AndLuk,
}  # fmt: skip
DISJUNCTIONS = {
    TConorm.MAXIMUM: ops.OrMax, TConorm.PROBABILISTIC_SUM: ops.OrProbSum,
    TConorm.LUKASIEWICZ: ops.OrLuk,
}  # fmt: skip
IMPLICATIONS = {
    Implication.KLEENE_DIENES: ops.ImpliesKleeneDienes, Implication.GODEL: ops.ImpliesGodel,
    Implication.REICHENBACH: ops.ImpliesReichenbach, Implication.GOGUEN: ops.ImpliesGoguen,
    Implication.LUKASIEWICZ: ops.ImpliesLuk,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _double_precision(monkeypatch):
    """LTNtorch turns everything to single precision by `.float()`; here that means double."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    assert ops.eps == EPSILON


def made(kind: Any, stable: bool) -> Any:
    """An operator of LTNtorch; some have a stable form."""
    try:
        return kind(stable=stable)
    except TypeError:
        return kind()


def same(found: torch.Tensor, expected: torch.Tensor, what: str | None = None) -> None:
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=1e-6, msg=what)


# --- single operators, corners included ------------------------------------------------------

GRID = torch.tensor([0.0, 1e-3, 0.25, 0.5, 0.75, 0.999, 1.0], dtype=torch.float64)
PAIRS = torch.cartesian_prod(GRID, GRID).T


@pytest.mark.parametrize("kind", Negation)
def test_negations(kind):
    same(connectives.negate(GRID, kind), NEGATIONS[kind]()(GRID))


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize(
    ("ours", "kind", "theirs"),
    [
        *((connectives.conjoin, kind, made_) for kind, made_ in CONJUNCTIONS.items()),
        *((connectives.disjoin, kind, made_) for kind, made_ in DISJUNCTIONS.items()),
        *((connectives.imply, kind, made_) for kind, made_ in IMPLICATIONS.items()),
    ],
)
def test_binary_connectives(ours, kind, theirs, stable):
    u, v = PAIRS
    same(ours(u, v, kind, EPSILON if stable else 0.0), made(theirs, stable)(u, v))


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("tnorm", TNorm)
@pytest.mark.parametrize("kind", Implication)
def test_equivalence(kind, tnorm, stable):
    s = semantics(conjunction=tnorm, implication=kind, stable=stable)
    theirs = ops.Equiv(made(CONJUNCTIONS[tnorm], stable), made(IMPLICATIONS[kind], stable))
    u, v = PAIRS
    same(evaluate("p(x) <-> q(x)", {"p": u, "q": v}, semantics=s), theirs(u, v))


@pytest.mark.parametrize("p", [1, 2, 5])
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("masked", [False, True])
def test_aggregators(p, dims, masked):
    u = torch.rand(4, 5)
    mask = torch.rand(4, 5) > 0.3 if masked else None
    mean, error = ops.AggregPMean(p, stable=False), ops.AggregPMeanError(p, stable=False)
    same(aggregate.p_mean(u, p, dims, mask), mean(u, dim=dims, mask=mask))
    same(aggregate.p_mean_error(u, p, dims, mask), error(u, dim=dims, mask=mask))
    least = ops.AggregMin()(u, dim=dims, mask=mask)
    same(aggregate.p_mean_error(u, math.inf, dims, mask), least)
    average = ops.AggregMean()(u, dim=dims, mask=mask)
    same(aggregate.p_mean_error(u, 1, dims, mask), average)
    same(aggregate.p_mean(u, 1, dims, mask), average)


# --- random formulas -------------------------------------------------------------------------


def semantics(*, stable: bool, **choices: Any) -> Semantics:
    return Semantics("chosen", epsilon=EPSILON if stable else 0.0, **choices)


@dataclass
class Peer:
    """The same choice of operators in LTNtorch, and the same tables."""

    semantics: Semantics
    forall: Any
    exists: Any
    tables: dict[str, torch.Tensor]
    keep: torch.Tensor  # which pairs (x, y) a guard keeps

    def __post_init__(self) -> None:
        s, stable = self.semantics, self.semantics.epsilon > 0
        self.no = ltn.Connective(NEGATIONS[s.negation]())
        both, either = made(CONJUNCTIONS[s.conjunction], stable), DISJUNCTIONS[s.disjunction]
        implies = made(IMPLICATIONS[s.implication], stable)
        self.binary = {
            f.And: ltn.Connective(both),
            f.Or: ltn.Connective(made(either, stable)),
            f.Implies: ltn.Connective(implies),
            f.Iff: ltn.Connective(ops.Equiv(both, implies)),
        }

    def variable(self, name: str) -> ltn.Variable:
        return ltn.Variable(name, torch.arange(SIZES[name]))

    def lookup(self, table: torch.Tensor) -> Callable[..., torch.Tensor]:
        return lambda *args: table[tuple(a.reshape(len(a)).long() for a in args)]

    def value(self, node: f.Formula) -> ltn.LTNObject:
        """Built anew at every use, since LTNtorch changes its operands."""
        match node:
            case f.Atom(name, args):
                predicate = ltn.Predicate(func=self.lookup(self.tables[name]))
                return predicate(*(self.variable(a.name) for a in args if isinstance(a, f.Var)))
            case f.Not(arg):
                return self.no(self.value(arg))
            case f.And(a, b) | f.Or(a, b) | f.Implies(a, b) | f.Iff(a, b):
                return self.binary[type(node)](self.value(a), self.value(b))
            case f.Forall(binders, guard, body) | f.Exists(binders, guard, body):
                universal = isinstance(node, f.Forall)
                operator = self.forall if universal else self.exists
                quantifier = ltn.Quantifier(operator, quantifier="f" if universal else "e")
                names = [b.name for b in binders if isinstance(b, f.Binder)]
                options: dict[str, Any] = {}
                if guard is not None:
                    options["cond_vars"] = [self.variable("x"), self.variable("y")]
                    options["cond_fn"] = lambda x, y: self.lookup(self.keep)(x.value, y.value)
                return quantifier([self.variable(n) for n in names], self.value(body), **options)
        raise AssertionError(node)


def random_formula(rng: random.Random, size: int) -> tuple[f.Formula, set[str]]:
    """A formula and its free variables; only variables that occur are quantified."""
    if size <= 0:
        name, args = rng.choice(list(ARITY.items()))
        return f.Atom(name, tuple(f.Var(a) for a in args)), set(args)
    kind = rng.choice([f.Not, f.And, f.Or, f.Implies, f.Iff, f.Forall, f.Exists, f.Forall])
    if kind is f.Not:
        arg, free = random_formula(rng, size - 1)
        return f.Not(arg), free
    if kind in (f.Forall, f.Exists):
        body, free = random_formula(rng, size - 1)
        if not free:
            return body, free
        bound = rng.sample(sorted(free), rng.randint(1, min(2, len(free))))
        guard = None
        if {"x", "y"} & set(bound) and rng.random() < 0.5:
            guard = f.Atom("K", (f.Var("x"), f.Var("y")))
            free = free | {"x", "y"}
        binders = tuple(f.Binder(n) for n in bound)
        return rng.choice([f.Forall, f.Exists])(binders, guard, body), free - set(bound)
    left, right = rng.randint(0, size - 1), 0
    right = size - 1 - left
    (a, free_a), (b, free_b) = random_formula(rng, left), random_formula(rng, right)
    return kind(a, b), free_a | free_b


def random_peer(rng: random.Random, stable: bool) -> Peer:
    """A choice of operators, and tables of multiples of 1/64.

    An operator with a jump makes much of the last digit, so where there is one, means are those
    that both libraries compute without rounding when they are over a single degree.
    """
    negation = rng.choice([*Negation, Negation.STANDARD])
    implication = rng.choice(list(Implication))
    jumps = negation is Negation.GODEL or implication is Implication.GODEL
    p, q = (1, 1) if jumps else (rng.choice([1, 2, 5]), rng.choice([1, 2, 5]))
    forall = [(PMean(p), ops.AggregPMeanError(p, stable)), (PMean(math.inf), ops.AggregMin())]
    exists = [(PMean(q), ops.AggregPMean(q, stable))]
    if not stable:  # the plain mean of LTNtorch has no stable form
        forall.append((PMean(1), ops.AggregMean()))
        exists.append((PMean(1), ops.AggregMean()))
    (ours_f, theirs_f), (ours_e, theirs_e) = rng.choice(forall), rng.choice(exists)
    chosen = semantics(
        stable=stable,
        negation=negation,
        conjunction=rng.choice(list(TNorm)),
        disjunction=rng.choice(list(TConorm)),
        implication=implication,
        forall=ours_f,
        exists=ours_e,
    )
    tables = {}
    for name, args in ARITY.items():
        shape = [SIZES[a] for a in args]
        degrees = [rng.randint(1, 63) / 64 for _ in range(math.prod(shape))]
        tables[name] = torch.tensor(degrees).reshape(shape)
    keep = torch.tensor([[rng.random() < 0.5 for _ in range(4)] for _ in range(3)])
    return Peer(chosen, theirs_f, theirs_e, tables, keep)


def compare(seed: int, count: int, stable: bool) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        peer = random_peer(rng, stable)
        formula, _ = random_formula(rng, rng.randint(1, 6))
        theirs = peer.value(formula)
        ours = evaluate(formula, {**peer.tables, "K": peer.keep.double()}, semantics=peer.semantics)
        order = [axis.name for axis in check_formula(formula).free]
        assert set(order) == set(theirs.free_vars)
        same(ours, theirs.value.permute([theirs.free_vars.index(n) for n in order]), str(formula))


@pytest.mark.parametrize("stable", [False, True])
def test_random_formulas(stable):
    compare(1, 200, stable)


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True])
def test_random_formulas_many(stable):
    compare(2, 10_000, stable)


def test_the_ltn_semantics_is_ltntorch_with_its_defaults():
    """The named semantics, p aside: product operators with `stable=True`."""
    rng = random.Random(3)
    for _ in range(50):
        peer = random_peer(rng, stable=True)
        chosen = Semantics("ltn", epsilon=EPSILON)
        mean, error = ops.AggregPMean(p=4), ops.AggregPMeanError(p=4)
        peer = Peer(chosen, error, mean, peer.tables, peer.keep)
        formula, free = random_formula(rng, 5)
        for name in sorted(free):
            formula = f.Forall((f.Binder(name),), None, formula)
        tables = {**peer.tables, "K": peer.keep.double()}
        same(evaluate(formula, tables, semantics="ltn"), peer.value(formula).value)


# --- pairs -----------------------------------------------------------------------------------


def test_diagonal_quantification_is_pairing():
    """`ltn.diag(x, y)` runs through individuals side by side, as variables of a relation do."""
    table, pairs = torch.rand(3, 4), torch.tensor([[0, 1], [2, 3], [2, 0], [1, 1]])
    lookup = ltn.Predicate(func=lambda x, y: table[x[:, 0].long(), y[:, 0].long()])
    for op, name, text in [
        (ops.AggregPMeanError(2, stable=False), "f", "forall"),
        (ops.AggregPMean(2, stable=False), "e", "exists"),
    ]:
        x, y = ltn.diag(ltn.Variable("x", pairs[:, 0]), ltn.Variable("y", pairs[:, 1]))
        theirs = ltn.Quantifier(op, name)([x, y], lookup(x, y))
        ours = evaluate(
            f"{text} (x, y) in rel. PQ(x, y)", {"PQ": table}, relations={"rel": pairs}, p=2
        )
        same(ours, theirs.value)


def test_several_variables_at_once_or_one_by_one():
    """`∀x,y` is one mean over all pairs in both libraries; nested quantifiers are nested means."""
    table = torch.rand(3, 4)
    lookup = ltn.Predicate(func=lambda x, y: table[x[:, 0].long(), y[:, 0].long()])
    forall = ltn.Quantifier(ops.AggregPMeanError(3, stable=False), "f")
    exists = ltn.Quantifier(ops.AggregPMean(2, stable=False), "e")
    x, y = (ltn.Variable(n, torch.arange(k)) for n, k in (("x", 3), ("y", 4)))
    s = semantics(stable=False, forall=PMean(3), exists=PMean(2))
    for theirs, text in [
        (forall([x, y], lookup(x, y)), "forall x, y. PQ(x, y)"),
        (forall(x, exists(y, lookup(x, y))), "forall x. exists y. PQ(x, y)"),
        (exists(y, forall(x, lookup(x, y))), "exists y. forall x. PQ(x, y)"),
    ]:
        same(evaluate(text, {"PQ": table}, semantics=s), theirs.value)


def test_every_operator_of_ltntorch_is_covered():
    """What LTNtorch offers, by name: a new operator there should get a counterpart here."""
    bases = (ops.UnaryConnectiveOperator, ops.BinaryConnectiveOperator, ops.AggregationOperator)
    offered = {c for base in bases for c in base.__subclasses__()}
    tables = (NEGATIONS, CONJUNCTIONS, DISJUNCTIONS, IMPLICATIONS)
    used = set(itertools.chain.from_iterable(t.values() for t in tables))
    used |= {ops.Equiv, ops.AggregMin, ops.AggregMean, ops.AggregPMean, ops.AggregPMeanError}
    assert offered == used
