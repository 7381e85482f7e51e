"""Crisp truth of propositional formulas against flloat, its mirror image, and the definitions."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

import pytest
import torch
from flloat import ltlf

from fotltn import parse_formula
from fotltn.syntax import formula as f
from fotltn.syntax.operators import Temporal as Op
from tests.helpers import EVERY, FUTURE, PAST, random_formula
from tests.helpers import value_of as evaluate
from tests.semantics.textbook import holds, propositional

NAMES = ("a", "b", "c")
ATOMS = [f.Atom(name) for name in NAMES]
TRIPLES = int(os.environ.get("FOTLTN_TRIPLES", "3000"))
BATCH = 4

Trace = list[dict[str, bool]]
Oracle = Callable[[f.Formula, Trace, int], bool]

UNARY = {
    Op.X: ltlf.LTLfNext, Op.WX: ltlf.LTLfWeakNext, Op.F: ltlf.LTLfEventually,
    Op.G: ltlf.LTLfAlways,
}  # fmt: skip
BINARY = {Op.U: ltlf.LTLfUntil, Op.R: ltlf.LTLfRelease}
CONNECTIVES = {
    f.And: ltlf.LTLfAnd, f.Or: ltlf.LTLfOr, f.Implies: ltlf.LTLfImplies,
    f.Iff: ltlf.LTLfEquivalence,
}  # fmt: skip
MIRROR = {Op.Y: Op.X, Op.WY: Op.WX, Op.O: Op.F, Op.H: Op.G, Op.S: Op.U, Op.T: Op.R}


def to_flloat(node: f.Formula) -> ltlf.LTLfFormula:
    match node:
        case f.Truth(value):
            return ltlf.LTLfTrue() if value else ltlf.LTLfFalse()
        case f.Edge("last"):
            return ltlf.LTLfLast()
        case f.Atom(name):
            return ltlf.LTLfAtomic(name)
        case f.Not(arg):
            return ltlf.LTLfNot(to_flloat(arg))
        case f.And(left, right) | f.Or(left, right) | f.Implies(left, right) | f.Iff(left, right):
            return CONNECTIVES[type(node)]([to_flloat(left), to_flloat(right)])
        case f.Unary(op, arg):
            return UNARY[op](to_flloat(arg))
        case f.Binary(op, left, right):
            return BINARY[op]([to_flloat(left), to_flloat(right)])
    raise AssertionError(node)


def mirrored(node: f.Formula) -> f.Formula:
    """A formula about the past as one about the future of the reversed trace."""
    match node:
        case f.Edge(end):
            return f.Edge("last" if end == "first" else "first")
        case f.Not(arg):
            return f.Not(mirrored(arg))
        case f.And(left, right) | f.Or(left, right) | f.Implies(left, right) | f.Iff(left, right):
            return type(node)(mirrored(left), mirrored(right))
        case f.Unary(op, arg):
            return f.Unary(MIRROR[op], mirrored(arg))
        case f.Binary(op, left, right):
            return f.Binary(MIRROR[op], mirrored(left), mirrored(right))
    return node


def random_traces(rng: random.Random, longest: int = 6) -> list[Trace]:
    return [
        [{n: rng.random() < 0.5 for n in NAMES} for _ in range(rng.randint(1, longest))]
        for _ in range(BATCH)
    ]


def crisp(formula: f.Formula, traces: list[Trace]) -> list[list[bool]]:
    """The library's truth at every position, evaluated as one ragged batch."""
    horizon = max(map(len, traces))
    padded = [trace + [dict.fromkeys(NAMES, True)] * (horizon - len(trace)) for trace in traces]
    tables = {n: torch.tensor([[float(s[n]) for s in trace] for trace in padded]) for n in NAMES}
    lengths = [len(t) for t in traces]
    found = evaluate(formula, tables, semantics="crisp", at="all", lengths=lengths)
    return [row[:n] for row, n in zip(found.tolist(), lengths, strict=True)]


def agree(formulas: Iterator[f.Formula], oracle: Oracle, triples: int, seed: int) -> None:
    """Compare on random traces until that many (formula, trace, position) triples are seen."""
    rng, seen, wrong = random.Random(seed), 0, []
    for formula in formulas:
        traces = random_traces(rng)
        for trace, row in zip(traces, crisp(formula, traces), strict=True):
            for position, found in enumerate(row):
                seen += 1
                if found is not oracle(formula, trace, position):
                    wrong.append((str(formula), trace, position, found))
        if seen >= triples:
            break
    assert seen >= triples
    assert not wrong, f"{len(wrong)} of {seen} disagree; the first: {wrong[0]}"


def by_flloat(formula: f.Formula, trace: Trace, position: int) -> bool:
    return bool(to_flloat(formula).truth(trace, position))


def by_flloat_reversed(formula: f.Formula, trace: Trace, position: int) -> bool:
    return by_flloat(mirrored(formula), trace[::-1], len(trace) - 1 - position)


def by_definition(formula: f.Formula, trace: Trace, position: int) -> bool:
    world = propositional({n: [float(state[n]) for state in trace] for n in NAMES})
    return holds(formula, world, position)


def plain(seed: int, temporal: tuple[Op, ...], end: str) -> Iterator[f.Formula]:
    """Formulas that flloat can express, or their mirror images; `end` is the edge among them."""
    rng = random.Random(seed)
    while True:
        yield random_formula(
            rng, rng.randint(1, 7), [*ATOMS, f.Edge(end)], temporal=temporal, bounds=False,
            strict=False, edges=False,
        )  # fmt: skip


def everything(seed: int) -> Iterator[f.Formula]:
    rng = random.Random(seed)
    while True:
        yield random_formula(rng, rng.randint(1, 7), ATOMS, temporal=EVERY)


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("X true", 1, False), ("WX false", 1, True), ("X true", 0, True), ("WX false", 0, False),
        ("last", 1, True), ("last", 0, False), ("false R a", 0, False), ("b R a", 0, False),
        ("a U b", 0, True), ("a R b", 1, True), ("F b", 0, True), ("G a", 0, False),
        ("G b", 1, True),
    ],
)  # fmt: skip
def test_flloat_reads_finite_traces_as_we_expect(text, position, expected):
    """What flloat says at the ends of a trace; an oracle with other conventions would be none."""
    trace = [{"a": True, "b": False}, {"a": False, "b": True}]
    assert by_flloat(parse_formula(text), trace, position) is expected


def test_flloat_future():
    agree(plain(1, FUTURE, "last"), by_flloat, TRIPLES, seed=11)


def test_flloat_past_by_mirror():
    agree(plain(2, PAST, "first"), by_flloat_reversed, TRIPLES // 3, seed=12)


def test_definitions():
    agree(everything(3), by_definition, TRIPLES, seed=13)


@pytest.mark.slow
def test_flloat_future_many():
    agree(plain(4, FUTURE, "last"), by_flloat, max(TRIPLES, 100_000), seed=14)


@pytest.mark.slow
def test_flloat_past_by_mirror_many():
    agree(plain(5, PAST, "first"), by_flloat_reversed, max(TRIPLES, 50_000), seed=15)


@pytest.mark.slow
def test_definitions_many():
    agree(everything(6), by_definition, max(TRIPLES, 100_000), seed=16)


BOUNDS = [None, (0, 0), (1, 1), (0, 2), (1, 3), (2, None), (7, 9)]
OPERATORS = [
    (op, None if bound is None else f.Bound(*bound), strict)
    for op in EVERY
    for bound in (BOUNDS[:3] if op.steps else BOUNDS)
    for strict in ((False,) if op.steps or bound == (0, 0) else (False, True))
]


@pytest.mark.parametrize(("op", "bound", "strict"), OPERATORS)
def test_each_operator_on_every_short_trace(op, bound, strict):
    """Not random: all traces of two propositions up to length 3, one operator at a time."""
    left, right = ATOMS[:2]
    formula = (
        f.Unary(op, left, bound, strict)
        if op.value.arity == 1
        else f.Binary(op, left, right, bound, strict)
    )
    every = [
        [{"a": bool(bits >> 2 * t & 1), "b": bool(bits >> 2 * t & 2), "c": False} for t in range(n)]
        for n in (1, 2, 3)
        for bits in range(4**n)
    ]
    found = crisp(formula, every)
    for trace, row in zip(every, found, strict=True):
        assert row == [by_definition(formula, trace, t) for t in range(len(trace))], trace
