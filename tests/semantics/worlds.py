"""Random first-order worlds and formulas over one small signature, for the oracle tests."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fotltn import check
from fotltn.semantics.tables import Tables
from fotltn.syntax import formula as f
from fotltn.syntax.load import parse_theory
from fotltn.syntax.operators import Temporal
from tests.helpers import EVERY, random_formula, tables_for
from tests.semantics.textbook import Table, World

#: `p`, `q`, `r` may have any degree; `k`, `m` are always 0 or 1, so that guards may use them.
DECLARED = """
sort a, b
predicate p, q(a), r(a, b), m(a)
static predicate k(b)
function f(a): b
temporal function g(a): a
temporal function v(a): real
function w(b): real
constant c: a
constant d: b
relation rel(a, b)
"""
THEORY = check(parse_theory(DECLARED))
SOFT = {"p": (), "q": ("a",), "r": ("a", "b")}
HARD = {"m": ("a",), "k": ("b",)}
STATIC = {"k", "f", "w"}
PREDICATES: dict[str, tuple[str, ...]] = {**SOFT, **HARD}
FUNCTIONS = {"f": ("a", "b"), "g": ("a", "a"), "v": ("a", "real"), "w": ("b", "real")}
REALS = (-1.0, 0.0, 0.5, 2.0)

Scope = Mapping[str, str]  # the sort of each variable that may be used


# --- worlds ----------------------------------------------------------------------------------


def _table(
    sorts: Sequence[str], sizes: Mapping[str, int], length: int | None, draw: Callable[[], float]
) -> Table:
    axes = [range(sizes[s]) for s in sorts] + ([] if length is None else [range(length)])
    return {place: draw() for place in itertools.product(*axes)}


def random_world(
    rng: random.Random,
    sizes: Mapping[str, int],
    length: int,
    degree: Callable[[], float],
    *,
    features: bool = False,
    shared: World | None = None,
) -> World:
    """Tables for the signature; entities of `shared` keep their names and tuples."""
    predicates, functions = {}, {}
    for name, sorts in PREDICATES.items():
        draw = degree if name in SOFT else lambda: float(rng.randint(0, 1))
        predicates[name] = _table(sorts, sizes, None if name in STATIC else length, draw)
    for name, (sort, result) in FUNCTIONS.items():

        def value(result: str = result) -> float:
            return rng.choice(REALS) if result == "real" else float(rng.randrange(sizes[result]))

        functions[name] = _table([sort], sizes, None if name in STATIC else length, value)
    pairs = list(itertools.product(range(sizes["a"]), range(sizes["b"])))
    return World(
        length,
        dict(sizes),
        predicates,
        functions,
        shared.constants if shared else {s: rng.randrange(max(sizes[t], 1)) for s, t in _NAMED},
        shared.relations if shared else {"rel": rng.choices(pairs, k=3) if pairs else []},
        {"a": [[rng.gauss(0, 1), rng.gauss(0, 1)] for _ in range(sizes["a"])]} if features else {},
    )


_NAMED = (("c", "a"), ("d", "b"))


def random_batch(
    rng: random.Random,
    degree: Callable[[], float],
    *,
    empty: bool = True,
    largest: int = 3,
    features: bool = False,
    traces: int = 3,
    longest: int = 4,
) -> list[World]:
    """Worlds of different lengths over the same entities; of a sort there may be none."""
    sizes = {"a": rng.randint(0 if empty else 1, largest), "b": rng.randint(1, largest)}
    if empty and sizes["a"] == 0 and rng.random() < 0.5:
        sizes["b"] = 0  # only then, since the function f gives each a some b
    worlds: list[World] = []
    for _ in range(traces):
        length = rng.randint(1, longest)
        shared = worlds[0] if worlds else None
        worlds.append(random_world(rng, sizes, length, degree, features=features, shared=shared))
    return worlds


def arguments(worlds: Sequence[World], *, lengths: bool = True) -> dict[str, Any]:
    """What `evaluate` takes for a batch of worlds (or, without lengths, for one)."""
    horizon = max(w.length for w in worlds)
    noise = random.Random(horizon)  # for points beyond the end of a trace
    tables = {}
    for name, sorts in PREDICATES.items():
        tables[name] = _tensor(worlds, "predicates", name, sorts, horizon, noise)
    results = {}
    for name, (sort, result) in FUNCTIONS.items():
        found = _tensor(worlds, "functions", name, (sort,), horizon, noise)
        results[name] = found if result == "real" else found.long()
    first = worlds[0]
    features = {
        s: torch.tensor([w.features[s] for w in worlds]).reshape(len(worlds), first.sizes[s], 2)
        for s in first.features
    }
    made: dict[str, Any] = {
        "predicates": tables,
        "functions": results,
        "relations": {n: torch.tensor(r).reshape(-1, 2) for n, r in first.relations.items()},
        "constants": first.constants,
        "features": features,
        "theory": THEORY,
        "lengths": [w.length for w in worlds],
    }
    if not lengths:
        assert len(worlds) == 1
        for group in ("predicates", "functions", "features"):
            made[group] = {n: t[0] for n, t in made[group].items()}
        made["lengths"] = None
    return made


def tables_of(formula: f.Formula, worlds: Sequence[World]) -> Tables:
    """Tables of a batch of worlds, for a formula that is evaluated on them more than once."""
    return tables_for(formula, **arguments(worlds))


def _tensor(
    worlds: Sequence[World],
    group: str,
    name: str,
    sorts: Sequence[str],
    horizon: int,
    noise: random.Random,
) -> Tensor:
    """Axes (trace, arguments …, time), with noise where a trace has ended."""
    high = 0 if group == "functions" else 1
    shape = [worlds[0].sizes[s] for s in sorts] + ([] if name in STATIC else [horizon])
    places = list(itertools.product(*map(range, shape)))
    values = []
    for world in worlds:
        table: Table = getattr(world, group)[name]
        values.append(
            [table[place] if place in table else noise.randint(0, high) for place in places]
        )
    return torch.tensor(values, dtype=torch.float64).reshape(len(worlds), *shape)


# --- formulas --------------------------------------------------------------------------------


def random_term(rng: random.Random, sort: str, scope: Scope, sizes: Mapping[str, int]) -> Any:
    """A term of a sort, or None if the sort is empty and no variable stands for its members."""
    found: list[f.Term] = []
    for name, own in scope.items():
        found += [f.Var(name)] * 2 if own == sort else []
    if sizes[sort]:
        found.append(f.Const("c" if sort == "a" else "d"))
    if rng.random() < 0.3:
        inner = random_term(rng, "a", scope, sizes)
        if inner is not None:
            found = [f.Apply("g" if sort == "a" else "f", (inner,))]
    return rng.choice(found) if found else None


def random_number(rng: random.Random, scope: Scope, sizes: Mapping[str, int]) -> f.Term:
    name, sort = rng.choice([("v", "a"), ("w", "b")])
    inner = random_term(rng, sort, scope, sizes)
    if inner is None or rng.random() < 0.3:
        return f.Number(rng.choice(REALS))
    return f.Apply(name, (inner,))


def random_atom(
    rng: random.Random, scope: Scope, sizes: Mapping[str, int], *, hard: bool, graded: bool
) -> f.Formula:
    """An atom; `hard`: one that is always 0 or 1; `graded`: equality of numbers may occur."""
    kind = rng.choice(["predicate", "predicate", "predicate", "equal", "compare", "number"])
    if kind == "compare" or (kind == "number" and not graded):
        left, right = random_number(rng, scope, sizes), random_number(rng, scope, sizes)
        return f.Compare(rng.choice(["<", "<=", ">", ">="]), left, right)
    if kind == "number":
        return f.Equal(random_number(rng, scope, sizes), random_number(rng, scope, sizes))
    if kind == "equal":
        sort = rng.choice(["a", "b"])
        sides = [random_term(rng, sort, scope, sizes) for _ in range(2)]
        return f.Truth(True) if None in sides else f.Equal(*sides)
    name, sorts = rng.choice(list((HARD if hard else PREDICATES).items()))
    args = [random_term(rng, s, scope, sizes) for s in sorts]
    return f.Truth(False) if None in args else f.Atom(name, tuple(args))


def random_quantified(
    rng: random.Random, scope: Scope, sizes: Mapping[str, int], depth: int, **options: Any
) -> f.Formula:
    """A quantifier over one, two or paired variables, which may hide outer ones of that name."""
    names = rng.sample("xyz", 3)
    binders: list[f.Binder | f.Paired] = []
    inner = dict(scope)
    if rng.random() < 0.25:
        binders.append(f.Paired((f.Binder(names[0]), f.Binder(names[1])), "rel"))
        inner |= {names[0]: "a", names[1]: "b"}
    if not binders or rng.random() < 0.3:
        sort = rng.choice(["a", "b"])
        binders.append(f.Binder(names[2], sort))
        inner |= {names[2]: sort}
    guard = None
    if rng.random() < 0.4:
        atoms = [random_atom(rng, inner, sizes, hard=True, graded=True) for _ in range(2)]
        guard = random_formula(rng, rng.randint(0, 1), atoms)
    body = random_first_order(rng, inner, sizes, depth - 1, **options)
    return rng.choice([f.Forall, f.Exists])(tuple(binders), guard, body)


def random_first_order(
    rng: random.Random,
    scope: Scope,
    sizes: Mapping[str, int],
    depth: int,
    *,
    size: int = 2,
    graded: bool = True,
    temporal: Sequence[Temporal] = EVERY,
) -> f.Formula:
    """A formula with quantifiers nested up to `depth`, and about `size` operators at each level."""
    options: dict[str, Any] = {"size": size, "graded": graded, "temporal": temporal}
    atoms = [random_atom(rng, scope, sizes, hard=False, graded=graded) for _ in range(2)]
    if depth > 0:
        atoms += [random_quantified(rng, scope, sizes, depth, **options) for _ in range(2)]
        rng.shuffle(atoms)
    return random_formula(rng, rng.randint(0, size), atoms, temporal=temporal)
