"""Depth and length: nothing recurses, and what is too long is refused at once."""

from __future__ import annotations

import copy
import pickle
import sys

import pytest
import torch

from fotltn import check, check_formula, evaluate, parse_formula, show, tables
from fotltn.errors import DataError, LimitError, ParseError
from fotltn.logic import core as c
from fotltn.syntax import formula as f
from fotltn.syntax.load import load_theory, parse_theory
from fotltn.syntax.parse import MAX_CHARACTERS
from fotltn.tree import depth, postorder

N = 5_000

#: name, text, depth of the tree, value at the two points of the trace p = 1 0
DEEP = {
    "parentheses": ("(" * N + "p" + ")" * N, 1, [1, 0]),
    "next": ("X " * N + "p", N + 1, [0, 0]),
    "negations": ("!" * N + "p", N + 1, [1, 0]),
    "conjunctions to the left": (" & ".join(["p"] * N), N, [1, 0]),
    "conjunctions to the right": ("p & (" * (N - 1) + "p" + ")" * (N - 1), N, [1, 0]),
    "until": (" U ".join(["p"] * (N // 4)), N // 4, [1, 0]),
    "quantifiers": ("forall x: s. " * 2000 + "Q(x)", 2002, [1, 0]),
    "variables": ("".join(f"exists x{i}: s. " for i in range(2000)) + "Q(x0)", 2002, [1, 0]),
    "guards": ("forall x: s where Q(x). " * 1000 + "Q(x)", 1002, [1, 1]),
    "functions": ("Q(" + "g(" * N + "y" + ")" * (N + 1), N + 2, [1, 0]),
}  # fmt: skip
THEORY = check(parse_theory("sort s\nconstant y: s\npredicate p, Q(s)\nfunction g(s): s"))
TABLES = tables(THEORY, p=[1.0, 0.0], Q=[[1.0, 0.0]], g=[0], constants={"y": 0})


@pytest.fixture(autouse=True)
def _limit_of_the_interpreter():
    before = sys.getrecursionlimit()
    yield
    assert sys.getrecursionlimit() == before <= 3000, "raising the limit is no solution"


@pytest.mark.parametrize("name", DEEP)
def test_deep_formulas_go_all_the_way(name):
    text, levels, expected = DEEP[name]
    formula = parse_formula(text)
    again = pickle.loads(pickle.dumps(formula))
    assert depth(formula) == levels
    assert formula == again
    assert hash(formula) == hash(again)
    assert formula != f.Not(again)
    assert all(show(formula, style) for style in ("unicode", "latex"))
    assert repr(formula).startswith("<")
    assert copy.deepcopy(formula) is formula

    checked = check_formula(formula, THEORY.signature)
    assert checked.free == ()
    assert isinstance(checked.formula, c.Formula)
    value = evaluate(formula, TABLES, semantics="crisp", at="all")
    assert value.int().tolist() == expected


def test_deep_formulas_have_degrees_and_gradients():
    text, _, expected = DEEP["negations"]
    table = torch.tensor([1.0, 0.0], requires_grad=True)
    value = evaluate(text, {"p": table}, semantics="product", at="all")
    assert value.tolist() == expected
    value.sum().backward()
    assert table.grad is not None
    assert bool(table.grad.isfinite().all())


def test_a_deep_core_formula_prints_and_travels():
    core = check_formula(parse_formula("!" * 2000 + "p")).formula
    assert repr(core)
    again = pickle.loads(pickle.dumps(core))
    assert again == core


def test_a_checked_formula_survives_pickling():
    core = check_formula(parse_formula("forall x. Q(x) & F p")).formula
    again = pickle.loads(pickle.dumps(core))
    assert hash(again) == hash(core)
    assert again == core


def test_deep_slips_are_reported_at_their_place():
    for text, column in (
        ("(" * N, N + 1),
        ("(" * N + "p" + ")" * (N - 1), 2 * N + 1),
        ("!" * N, N + 1),
    ):
        with pytest.raises(ParseError) as caught:
            parse_formula(text)
        span = caught.value.diagnostics[0].span
        assert span is not None
        assert span.column == column
        assert len(str(caught.value)) < 1000


def test_shared_parts_are_walked_once():
    """200 levels of sharing are 2^200 nodes as a tree."""
    one: f.Formula = f.Atom("p")
    two: f.Formula = f.Atom("p")
    for _ in range(200):
        one, two = f.And(one, one), f.And(two, two)
    assert one == two
    assert hash(one) == hash(two)
    assert depth(one) == 201
    assert len(list(postorder(one, two))) == 201


def test_a_formula_too_large_when_written_out_is_refused():
    formula: f.Formula = f.Atom("p")
    for _ in range(40):
        formula = f.And(formula, formula)
    with pytest.raises(LimitError, match=r"2,199,023,255,551 parts when written out; at most"):
        check_formula(formula)


# --- length ----------------------------------------------------------------------------------


def test_a_theory_of_ten_megabytes_is_refused(tmp_path):
    wanted = f"at most {MAX_CHARACTERS:,}"
    file = tmp_path / "big.fot"
    file.write_text("sort s\n" * 1_500_000)
    with pytest.raises(DataError, match=r"big.fot: it has 10,500,000 bytes; at most 8,388,611"):
        load_theory(file)
    file.write_text("sort s\n" * 300_000)
    with pytest.raises(LimitError, match=f"big.fot has 2,100,000 characters; {wanted}"):
        load_theory(file)
    with pytest.raises(LimitError, match=f"<theory> has 2,097,159 characters; {wanted}"):
        parse_theory("sort s\n" + "#" * MAX_CHARACTERS)


def test_a_theory_of_many_statements_works():
    count = 3500
    text = "sort s\npredicate P(s), Q(s)\n" + "".join(
        f"axiom A{i}: forall x. G(P(x) -> F[<={i}] Q(x))\n" for i in range(count)
    )
    assert len(text) > 150_000
    theory = parse_theory(text)
    assert len(theory.axioms) == count
    last = theory.axioms[-1].span
    assert last is not None
    assert last.line == count + 2
    checked = check(theory)
    assert len(checked.axioms) == count
    assert not checked.warnings
