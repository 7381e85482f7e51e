"""Random theories and traces, and what the library says of them offline."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from fotltn.logic.check import CheckedTheory, check
from fotltn.monitor.steps import TraceStep
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.syntax import formula as f
from fotltn.syntax.load import parse_theory
from fotltn.syntax.theory import Axiom, Theory
from tests.helpers import random_formula

DECLARED = """
sort a, b
predicate p, q(a), r(a, b), e(a, a), m(a)
static predicate k(a), h(b)
constant c: a
"""
SORTS = {"p": (), "q": ("a",), "r": ("a", "b"), "e": ("a", "a"), "m": ("a",)}
STATIC = {"k": ("a",), "h": ("b",)}
EVERY = {**SORTS, **STATIC}

Fact = tuple[Any, ...]
Names = Mapping[str, Sequence[str]]


def theory_of(*formulas: f.Formula | str, declared: str = DECLARED) -> CheckedTheory:
    """The declarations with axioms `A0`, `A1` and so on."""
    base = parse_theory(declared)
    texts = "\n".join(f"axiom A{i}: {g}" for i, g in enumerate(formulas))
    axioms: tuple[Axiom, ...] = parse_theory(f"{declared}\n{texts}").axioms
    return check(Theory(base.declarations, axioms))


def random_atom(rng: random.Random, scope: Mapping[str, str]) -> f.Formula:
    def term(sort: str) -> f.Term | None:
        found: list[f.Term] = [f.Var(n) for n, s in scope.items() if s == sort]
        if sort == "a" and (not found or rng.random() < 0.1):
            found = [f.Const("c")]
        return rng.choice(found) if found else None

    if len([s for s in scope.values() if s == "a"]) > 1 and rng.random() < 0.1:
        left, right = term("a"), term("a")
        assert left is not None
        assert right is not None
        return f.Equal(left, right)
    name = rng.choice(list(EVERY))
    args = [term(s) for s in EVERY[name]]
    return f.Atom("p", ()) if None in args else f.Atom(name, tuple(a for a in args if a))


def random_case(
    rng: random.Random, scope: Mapping[str, str], depth: int, size: int = 3
) -> f.Formula:
    """A formula with quantifiers anywhere, nested up to a depth."""
    atoms = [random_atom(rng, scope) for _ in range(3)]
    if depth > 0:
        atoms += [random_quantified(rng, scope, depth) for _ in range(2)]
        rng.shuffle(atoms)
    return random_formula(rng, rng.randint(0, size), atoms[:3])


def random_quantified(rng: random.Random, scope: Mapping[str, str], depth: int) -> f.Formula:
    names = rng.sample("xyz", rng.choice([1, 1, 2]))
    binders = tuple(f.Binder(n, rng.choice("aab")) for n in names)
    inner = {**scope, **{b.name: str(b.sort) for b in binders}}
    guard = random_atom(rng, inner) if rng.random() < 0.3 else None
    return rng.choice([f.Forall, f.Exists])(binders, guard, random_case(rng, inner, depth - 1))


def random_trace(
    rng: random.Random, length: int, *, late: bool = True, share: float = 0.4
) -> tuple[Names, list[TraceStep]]:
    """Names by sort, and steps; with `late`, entities are first mentioned at any time."""
    names = {"a": [f"a{i}" for i in range(rng.randint(0, 2))] + ["c"]}
    names["b"] = [f"b{i}" for i in range(rng.randint(0, 2))]
    here = {n: rng.randrange(length) if late else 0 for own in names.values() for n in own}
    here["c"] = 0
    steps = []
    for t in range(length):
        facts: list[Fact] = []
        for name, sorts in EVERY.items():
            for args in itertools.product(*(names[s] for s in sorts)):
                if not all(here[n] <= t for n in args):
                    continue
                if name in STATIC:
                    if all(here[n] == t for n in args) and rng.random() < 0.5:
                        facts.append((name, *args))
                elif rng.random() < share:
                    facts.append((name, *args))
        stated = {fact[:2] for fact in facts}
        for name in (n for own in names.values() for n in own if here[n] == t):
            # Somebody without facts is there, too.
            said = ("q", name, 0.0) if name in names["a"] else ("r", "c", name, 0.0)
            if said[:2] not in stated and not any(name in fact for fact in facts):
                facts.append(said)
        steps.append(TraceStep(facts))
    return names, steps


def seen_by(names: Names, steps: Sequence[TraceStep]) -> Names:
    """Those who are mentioned in some steps."""
    said = {n for step in steps for fact in step.facts for n in fact[1:]}
    return {sort: [n for n in own if n == "c" or n in said] for sort, own in names.items()}


def tables_of(steps: Sequence[TraceStep], names: Names, theory: CheckedTheory) -> Tables:
    """The steps as tables, with everybody there from the start."""
    length = len(steps)
    tables: dict[str, torch.Tensor | SparseTable] = {}
    numbers = {s: {n: i for i, n in enumerate(own)} for s, own in names.items()}
    for name, decl in theory.signature.predicates.items():
        shape = (1, *(len(names[s]) for s in decl.sorts), 1 if decl.static else length)
        table = torch.zeros(shape, dtype=torch.float64)
        for t, step in enumerate(steps):
            for fact in step.facts:
                if fact[0] == name:
                    count = len(decl.sorts)
                    place = [numbers[s][n] for s, n in zip(decl.sorts, fact[1:], strict=False)]
                    degree = fact[count + 1] if len(fact) > count + 1 else 1.0
                    table[(0, *place, 0 if decl.static else t)] = degree
        tables[name] = table
    sizes = {s: len(own) for s, own in names.items()}
    return Tables(sizes, torch.tensor([length]), length, tables, constants=numbers)
