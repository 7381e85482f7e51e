"""Sugar: its equations hold in every semantics, and mean in crisp what the paper says."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch

from fotltn import SEMANTICS, check_formula, parse_formula
from fotltn.logic import core as c
from fotltn.syntax.operators import STRICT, Temporal
from tests.helpers import value_of as evaluate

#: Each equation of desugar's docstring with its past mirror, and with bounds.
EQUATIONS = [
    ("F+ a", "F[>=1] a"),
    ("G+ a", "G[>=1] a"),
    ("O+ a", "O[>=1] a"),
    ("H+ a", "H[>=1] a"),
    ("a U+ b", "X(a U b)"),
    ("a R+ b", "WX(a R b)"),
    ("a S+ b", "Y(a S b)"),
    ("a T+ b", "WY(a T b)"),
    ("a W b", "(a U b) | G a"),
    ("a M b", "(a R b) & F a"),
    ("a W+ b", "(a U+ b) | G+ a"),
    ("a M+ b", "(a R+ b) & F+ a"),
    ("a <-> b", "(a -> b) & (b -> a)"),
    # bounds count from the present, also in strict forms
    ("F+[<=3] a", "F[1,3] a"),
    ("G+[2,4] a", "G[2,4] a"),
    ("O+[0,2] a", "O[1,2] a"),
    ("H+[>=0] a", "H[>=1] a"),
    ("a U+[<=3] b", "X(a U[<=2] b)"),
    ("a U+[2,4] b", "X(a U[1,3] b)"),
    ("a U+[>=2] b", "X(a U[>=1] b)"),
    ("a R+[1,3] b", "WX(a R[0,2] b)"),
    ("a S+[<=2] b", "Y(a S[<=1] b)"),
    ("a T+[2,3] b", "WY(a T[1,2] b)"),
    # the second part of W and M runs from the present to the upper bound
    ("a W[1,3] b", "(a U[1,3] b) | G[<=3] a"),
    ("a W[>=2] b", "(a U[>=2] b) | G[>=0] a"),
    ("a M[1,3] b", "(a R[1,3] b) & F[<=3] a"),
    ("a W+[<=2] b", "(a U+[<=2] b) | G+[<=2] a"),
    ("a M+[2] b", "(a R+[2] b) & F+[<=2] a"),
    # one step, and none
    ("X[1] a", "X a"),
    ("WX[1] a", "WX a"),
    ("Y[2] a", "Y Y a"),
    ("WY[2] a", "WY WY a"),
    ("X[0] a", "a"),
]
LENGTHS = [1, 2, 3, 5, 7, 7]


def tables(boolean: bool) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    found = {n: torch.rand(len(LENGTHS), 7, generator=generator) for n in ("a", "b")}
    return {n: (t > 0.5) if boolean else t for n, t in found.items()}


@pytest.mark.parametrize("semantics", list(SEMANTICS.values()), ids=list(SEMANTICS))
def test_equations_hold_in_every_semantics(semantics):
    given = tables(semantics.boolean)
    for pair in EQUATIONS:
        left, right = (
            evaluate(text, given, semantics=semantics, lengths=LENGTHS, at="all") for text in pair
        )
        assert bool(left.isnan().any()) != semantics.boolean, "points beyond the end of a trace"
        torch.testing.assert_close(
            left, right, equal_nan=True, rtol=1e-12, atol=1e-12, msg=str(pair)
        )


STRUCTURE = [pair for pair in EQUATIONS if pair[0] not in ("Y[2] a", "WY[2] a", "X[0] a")]


@pytest.mark.parametrize(
    ("sugar", "meaning"), [*STRUCTURE, ("P(x, y) & x != y", "P(x, y) & !(x = y)")]
)
def test_sugar_and_meaning_are_one_core_formula(sugar, meaning):
    assert _core(sugar) == _core(meaning)


def _core(text: str) -> c.Formula:
    return check_formula(parse_formula(text)).formula


def test_nothing_else_is_rewritten():
    a, b = c.Atom("a", ()), c.Atom("b", ())
    assert _core("a & a") == c.And(a, a)
    assert _core("!!a") == c.Not(c.Not(a))
    assert _core("F a") == c.Aggregate(False, a, c.Window(), past=False)
    assert _core("H[1,2] a") == c.Aggregate(True, a, c.Window(1, 2), past=True)
    assert _core("a U b") == c.Until(False, a, b, c.Window(), past=False)
    assert _core("a T[>=2] b") == c.Until(True, a, b, c.Window(2), past=True)
    assert _core("WY[3] a") == c.Shift(a, 3, past=True, weak=True)
    assert _core("first | last") == c.Or(c.Edge(past=True), c.Edge(past=False))


# --- section 2.2 of the paper, in plain Python -----------------------------------------------

Trace = tuple[bool, ...]
Meaning = Callable[[Trace, Trace, int, int, int], bool]


def strict_until(a: Trace, b: Trace, n: int, low: int = 1, high: int = 99) -> bool:
    """There is m > n with b at m, and a at all i in (n, m)."""
    return any(
        b[m] and all(a[i] for i in range(n + 1, m))
        for m in range(n + 1, len(a))
        if low <= m - n <= high
    )


def until(a: Trace, b: Trace, n: int, low: int = 0, high: int = 99) -> bool:
    """b or (a and the strict until), which is the reflexive until of the paper."""
    return (low <= 0 and b[n]) or (a[n] and strict_until(a, b, n, low, high))


def no(a: Trace) -> Trace:
    return tuple(not value for value in a)


def dual(operator: Meaning) -> Meaning:
    return lambda a, b, n, low, high: not operator(no(a), no(b), n, low, high)


def mirrored(operator: Meaning) -> Meaning:
    return lambda a, b, n, low, high: operator(a[::-1], b[::-1], len(a) - 1 - n, low, high)


def some(operator: Meaning) -> Meaning:
    """`F a` is `true U a`."""
    return lambda a, _, n, low, high: operator((True,) * len(a), a, n, low, high)


def step(a: Trace, _: Trace, n: int, low: int, high: int) -> bool:
    """Next: false strict-until a, for one step; more steps are steps of steps."""
    return n + low < len(a) and a[n + low] if low == high else False


def throughout(a: Trace, n: int, low: int, high: int) -> bool:
    return all(a[m] for m in range(n, len(a)) if low <= m - n <= high)


def weak_until(a: Trace, b: Trace, n: int, low: int, high: int) -> bool:
    return until(a, b, n, low, high) or throughout(a, n, 0, high)


def strict_weak_until(a: Trace, b: Trace, n: int, low: int, high: int) -> bool:
    return strict_until(a, b, n, low, high) or throughout(a, n, 1, high)


T = Temporal
REFLEXIVE: dict[Temporal, Meaning] = {
    T.X: step, T.WX: dual(step), T.Y: mirrored(step), T.WY: mirrored(dual(step)),
    T.F: some(until), T.G: dual(some(until)),
    T.O: mirrored(some(until)), T.H: mirrored(dual(some(until))),
    T.U: until, T.R: dual(until), T.S: mirrored(until), T.T: mirrored(dual(until)),
    T.W: weak_until, T.M: dual(weak_until),
}  # fmt: skip
STRICTLY: dict[Temporal, Meaning] = {
    T.F: some(strict_until), T.G: dual(some(strict_until)),
    T.O: mirrored(some(strict_until)), T.H: mirrored(dual(some(strict_until))),
    T.U: strict_until, T.R: dual(strict_until),
    T.S: mirrored(strict_until), T.T: mirrored(dual(strict_until)),
    T.W: strict_weak_until, T.M: dual(strict_weak_until),
}  # fmt: skip
STEPS = [("", 1, 1), ("[0]", 0, 0), ("[1]", 1, 1), ("[3]", 3, 3)]
BOUNDS = [
    ("", 0, 99),
    ("[0]", 0, 0),
    ("[2]", 2, 2),
    ("[<=2]", 0, 2),
    ("[>=2]", 2, 99),
    ("[1,3]", 1, 3),
]
CASES = [(op, strict) for op in Temporal for strict in (False, True) if not strict or op in STRICT]


@pytest.mark.parametrize(("op", "strict"), CASES, ids=[f"{o.name}{'+' * s}" for o, s in CASES])
def test_crisp_truth_is_the_definition_of_the_paper(op, strict):
    """Over all traces of length 1 to 4 of two propositions, at every point."""
    meaning = (STRICTLY if strict else REFLEXIVE)[op]
    bounds = STEPS if op.steps else BOUNDS
    if strict:
        bounds = [bound for bound in bounds if bound[2] > 0]  # [0] leaves nothing, and is an error
    for length, (text, low, high) in itertools.product(range(1, 5), bounds):
        mark = f"{op.ascii}{'+' if strict else ''}{text}"
        formula = f"a {mark} b" if op.value.arity == 2 else f"{mark} a"
        pairs = [*itertools.product(traces(length), repeat=2)]
        found = evaluate(
            formula, batch(pairs), semantics="crisp", lengths=[length] * len(pairs), at="all"
        )
        expected = [[meaning(a, b, n, low, high) for n in range(length)] for a, b in pairs]
        assert found.tolist() == expected, formula


def traces(length: int) -> list[Trace]:
    return [*itertools.product([False, True], repeat=length)]


def batch(pairs: list[tuple[Trace, ...]]) -> dict[str, torch.Tensor]:
    return {name: torch.tensor([pair[i] for pair in pairs]) for i, name in enumerate("ab")}


PAPER = [
    ("F+ a", "true U+ a"),
    ("G+ a", "!F+ !a"),
    ("a R+ b", "!(!a U+ !b)"),
    ("a U b", "b | (a & a U+ b)"),
    ("a R b", "b & (a | a R+ b)"),
    ("F a", "true U a"),
    ("G a", "!F !a"),
    ("X a", "false U+ a"),
    ("last", "!X true"),
    ("WX a", "last | X a"),
    ("a S b", "b | (a & a S+ b)"),
    ("first", "!Y true"),
    ("WY a", "first | Y a"),
    ("O a", "true S a"),
    ("a T b", "!(!a S !b)"),
]


@pytest.mark.parametrize(("left", "right"), PAPER, ids=[left for left, _ in PAPER])
def test_crisp_equivalences_of_the_paper(left, right):
    pairs = [*itertools.product(traces(4), repeat=2)]
    lengths = [1 + number % 4 for number in range(len(pairs))]
    one, two = (
        evaluate(text, batch(pairs), semantics="crisp", lengths=lengths, at="all", horizon=4)
        for text in (left, right)
    )
    assert one.shape == (len(pairs), 4)
    assert bool(one.any())
    assert torch.equal(one, two)
