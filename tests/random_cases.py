"""Random theories, groundings and semantics: what the engine is compared with the reference on."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fotltn.logic.check import CheckedFormula, check_formula
from fotltn.logic.signature import Signature, build_signature
from fotltn.semantics.config import (
    GODEL,
    GODEL_RESIDUAL,
    GOGUEN,
    LTN,
    LUKASIEWICZ,
    PRODUCT,
    STABLE_PRODUCT,
    Fold,
    Implication,
    PMean,
    Semantics,
    TNorm,
)
from fotltn.semantics.sparse import SparseTable, sparse_table
from fotltn.semantics.tables import Tables
from fotltn.syntax import formula as f
from fotltn.syntax import theory as th
from fotltn.syntax.operators import STRICT, Temporal
from fotltn.tree import Node, transform
from tests.helpers import numbered

DECLARATIONS: tuple[th.Declaration, ...] = (
    th.SortDecl("s"),
    th.SortDecl("u"),
    th.PredicateDecl("rain"),
    th.PredicateDecl("A", ("s",), static=True),
    th.PredicateDecl("B", ("s",)),
    th.PredicateDecl("D", ("u",)),
    th.PredicateDecl("P", ("s", "s")),
    th.PredicateDecl("Q", ("s", "u")),
    th.PredicateDecl("N", ("s", "s"), static=True),
    th.PredicateDecl("K", ("s",)),
    th.PredicateDecl("E", ("s", "s")),  # crisp, for guards
    th.FunctionDecl("next", ("s",), "s"),
    th.FunctionDecl("size", ("s",), "real"),
    th.RelationDecl("pairs", ("s", "u")),
)
SIGNATURE: Signature = build_signature(DECLARATIONS)[0]
SEMANTICS: tuple[Semantics, ...] = (
    STABLE_PRODUCT,
    STABLE_PRODUCT,
    STABLE_PRODUCT.with_p(2),
    STABLE_PRODUCT.with_p(1),
    STABLE_PRODUCT.with_p(3.5),
    STABLE_PRODUCT.with_p(math.inf),
    replace(STABLE_PRODUCT, always=PMean(2), exists=PMean(6)),
    replace(STABLE_PRODUCT, exists=Fold()),
    replace(STABLE_PRODUCT, implication=Implication.GOGUEN),
    LTN,
    replace(LTN, epsilon=0.05),
    PRODUCT,
    GODEL,
    GODEL.with_p(2),
    GODEL_RESIDUAL,
    LUKASIEWICZ,
    LUKASIEWICZ.with_p(2),
    replace(LUKASIEWICZ, exists=Fold(), forall=Fold(), eventually=Fold(), always=Fold()),
    GOGUEN,
)


@dataclass(frozen=True)
class Case:
    """A formula, data for it, and what it means."""

    text: str
    checked: CheckedFormula
    model: Tables
    semantics: Semantics
    at: int | None
    inputs: tuple[Tensor, ...]


def random_case(seed: int, *, presence: bool = False) -> Case:
    """The case of a seed; with presence, quantifiers count who is there at a point in time."""
    rng = random.Random(seed)
    torch.default_generator.manual_seed(seed)
    free = [f.Binder("x", "s")] if rng.random() < 0.3 else []
    formula = _formula(rng, rng.randint(1, 9), list(free))
    if free:
        formula = f.And(formula, f.Atom("A", (f.Var("x"),)))
    if presence:
        formula = transform(formula, _who_is_there)
    semantics = rng.choice(SEMANTICS)
    model, inputs = random_model(rng, ties=smooth(semantics))
    at = rng.choice([0, 0, 0, None, min(1, model.horizon - 1)])
    checked = check_formula(formula, SIGNATURE)
    return Case(str(formula), checked, model, semantics, at, inputs)


def _who_is_there(node: Node) -> Node:
    """Guard a quantifier by a fact about each entity at each point, as presence predicates do."""
    if not isinstance(node, f.Forall | f.Exists):
        return node
    guard = node.guard
    for binder in node.binders:
        if isinstance(binder, f.Binder) and binder.sort == "s":
            there = f.Atom("E", (f.Var(binder.name), f.Var(binder.name)))
            guard = there if guard is None else f.And(there, guard)
    return replace(node, guard=guard)


def smooth(semantics: Semantics) -> bool:
    """Whether equal degrees cannot make the gradient a matter of choice."""
    means = all(isinstance(a, PMean) and a.p < math.inf for a in semantics.aggregations)
    return (
        means
        and semantics.conjunction is TNorm.PRODUCT
        and semantics.implication
        not in (
            Implication.GOGUEN,
            Implication.GODEL,
        )
    )


def random_model(rng: random.Random, *, ties: bool = True) -> tuple[Tables, tuple[Tensor, ...]]:
    """Random tables; binary ones are facts half of the time, and traces differ in length."""
    sizes = {"s": rng.choice([1, 2, 3, 4]), "u": rng.choice([0, 1, 2, 3])}
    horizon = rng.choice([1, 2, 4, 5])
    batch = rng.choice([1, 1, 2, 3])
    lengths = torch.tensor(
        [horizon] if batch == 1 else [rng.randint(1, horizon) for _ in range(batch)]
    )
    predicates: dict[str, Tensor | SparseTable] = {}
    inputs: list[Tensor] = []
    for name, decl in SIGNATURE.predicates.items():
        traces = batch if rng.random() < 0.7 else 1
        shape = (traces, *(sizes[s] for s in decl.sorts), 1 if decl.static else horizon)
        if name == "E":
            predicates[name] = _guards(rng, shape)
        elif name in ("P", "Q", "N", "K") and rng.random() < 0.6 and math.prod(shape) > 0:
            table = _facts(rng, shape, ties)
            predicates[name] = table
            inputs.append(table.value)
        else:
            dense = torch.rand(shape)
            if ties and rng.random() < 0.15:
                dense = dense.round()
            predicates[name] = dense.requires_grad_()
            inputs.append(dense)
    functions = {
        "next": torch.randint(0, sizes["s"], (1, sizes["s"], 1)),
        "size": torch.rand(1, sizes["s"], 1),
    }
    count = rng.randint(0, 4) if sizes["u"] else 0
    relations = {
        "pairs": torch.stack(
            [
                torch.randint(0, sizes["s"], (count,)),
                torch.randint(0, max(1, sizes["u"]), (count,)),
            ],
            1,
        )
    }
    constants = {s: {f"{s}{i}": i for i in range(n)} for s, n in sizes.items()}
    model = Tables(
        sizes, lengths, horizon, predicates, functions, constants, relations,
        signature=SIGNATURE, names=numbered(sizes),
    )  # fmt: skip
    return model, tuple(inputs)


def _facts(rng: random.Random, shape: tuple[int, ...], ties: bool) -> SparseTable:
    cells = math.prod(shape)
    chosen = torch.randperm(cells)[: rng.randint(0, max(1, cells // 2))]
    index = torch.stack(torch.unravel_index(chosen, shape))
    crisp = ties and rng.random() < 0.5
    value = torch.ones(len(chosen)) if crisp else 0.05 + 0.9 * torch.rand(len(chosen))
    default = 0.0 if rng.random() < 0.8 else 0.3
    return sparse_table(index, value.requires_grad_(not crisp), shape, default=default)


def _guards(rng: random.Random, shape: tuple[int, ...]) -> Tensor | SparseTable:
    dense = (torch.rand(shape) < 0.4).double()
    if rng.random() < 0.3:
        return dense
    return sparse_table(dense.nonzero().T, None, shape)


def _formula(rng: random.Random, size: int, scope: list[f.Binder]) -> f.Formula:
    if size <= 0:
        return _atom(rng, scope)
    kind = rng.choice(
        ["not", "and", "and", "or", "implies", "implies", "iff", "forall", "forall", "exists",
         "unary", "unary", "binary"]
    )  # fmt: skip
    left = rng.randint(0, size - 1)
    if kind == "not":
        return f.Not(_formula(rng, size - 1, scope))
    if kind in ("and", "or", "implies", "iff"):
        node = {"and": f.And, "or": f.Or, "implies": f.Implies, "iff": f.Iff}[kind]
        return node(_formula(rng, left, scope), _formula(rng, size - 1 - left, scope))
    if kind in ("forall", "exists"):
        return _quantified(rng, kind, size, scope)
    op = rng.choice([o for o in Temporal if o.value.arity == (1 if kind == "unary" else 2)])
    bound = None
    if rng.random() < 0.4:
        low = rng.randint(0, 2)
        bound = f.Bound(low, low if op.steps else rng.choice([low, low + 1, low + 2, None]))
    strict = op in STRICT and rng.random() < 0.15
    if strict and bound is not None and bound.high == 0:
        bound = f.Bound(0, 1)  # without the present, there would be nothing
    if kind == "unary":
        return f.Unary(op, _formula(rng, size - 1, scope), bound, strict)
    return f.Binary(
        op, _formula(rng, left, scope), _formula(rng, size - 1 - left, scope), bound, strict
    )


def _quantified(rng: random.Random, kind: str, size: int, scope: list[f.Binder]) -> f.Formula:
    names = [n for n in ("x", "y", "z", "w", "v") if all(b.name != n for b in scope)]
    if not names:
        return _atom(rng, scope)
    bound: list[f.Binder | f.Paired] = []
    inner = list(scope)
    if len(names) > 1 and rng.random() < 0.1:
        pair = (f.Binder(names[0], "s"), f.Binder(names[1], "u"))
        bound.append(f.Paired(pair, "pairs"))
        inner += pair
    else:
        for name in names[: rng.choice([1, 1, 2])]:
            binder = f.Binder(name, rng.choice(["s", "s", "s", "u"]))
            bound.append(binder)
            inner.append(binder)
    guard = _guard(rng, inner) if rng.random() < 0.25 else None
    node = f.Forall if kind == "forall" else f.Exists
    return node(tuple(bound), guard, _formula(rng, size - 1, inner))


def _guard(rng: random.Random, scope: list[f.Binder]) -> f.Formula | None:
    terms = [f.Var(b.name) for b in scope if b.sort == "s"]
    if not terms:
        return None
    if len(terms) > 1 and rng.random() < 0.5:
        pair = (terms[-1], terms[-2])
        return f.Not(f.Equal(*pair)) if rng.random() < 0.5 else f.Atom("E", pair)
    return f.Compare(
        rng.choice(["<", ">="]),
        f.Apply("size", (terms[-1],)),
        f.Number(rng.choice([0.3, 0.5, 2.0])),
    )


def _atom(rng: random.Random, scope: list[f.Binder]) -> f.Formula:
    def pick(sort: str) -> f.Term:
        names = [f.Var(b.name) for b in scope if b.sort == sort]
        if not names or rng.random() < 0.05:
            return f.Const(f"{sort}0")
        term: f.Term = rng.choice(names)
        return f.Apply("next", (term,)) if sort == "s" and rng.random() < 0.08 else term

    sorts = {b.sort for b in scope}
    kinds = ["rain", "edge", *(["A", "B", "P", "P", "N", "K", "equal"] if "s" in sorts else [])]
    kinds += ["D"] if "u" in sorts else []
    kinds += ["Q", "Q"] if sorts >= {"s", "u"} else []
    kind = rng.choice(kinds)
    if kind == "edge":
        return rng.choice([f.Edge("last"), f.Truth(True), f.Truth(False), f.Edge("first")])
    if kind == "equal":
        return f.Equal(f.Var(next(b.name for b in scope if b.sort == "s")), pick("s"))
    return f.Atom(kind, tuple(pick(s) for s in SIGNATURE.predicates[kind].sorts))
