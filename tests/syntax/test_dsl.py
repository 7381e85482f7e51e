"""Formulas from Python: equal to what text gives, and mistakes explained."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fotltn import dsl, parse_formula
from fotltn.errors import BuildError
from fotltn.syntax import formula as f
from fotltn.syntax.load import parse_theory
from fotltn.syntax.operators import STRICT, Temporal
from tests.helpers import parse_term

#: What a user's program would have in scope after `from fotltn.dsl import *`.
SCOPE = {name: getattr(dsl, name) for name in dsl.__all__}
SCOPE |= dict(zip("xyz", dsl.variables("x y z"), strict=True))
SCOPE |= dict(zip("abc", dsl.propositions("a, b c"), strict=True))
SCOPE |= dict(zip(("P", "Near"), dsl.predicates("P Near"), strict=True))
SCOPE |= dict(zip(("g", "speed"), dsl.functions("g speed"), strict=True))


def run(code: str) -> Any:
    """What an expression gives in a user's program."""
    return eval(code, dict(SCOPE))


PAIRS = [
    # connectives
    ("~a", "!a"),
    ("a & b", "a & b"),
    ("a | b", "a | b"),
    ("a >> b", "a -> b"),
    ("Not(a)", "!a"),
    ("And(a, b)", "a & b"),
    ("Or(a, b)", "a | b"),
    ("Implies(a, b)", "a -> b"),
    ("Iff(a, b)", "a <-> b"),
    ("a & b & c", "a & b & c"),
    ("a & (b & c)", "a & (b & c)"),
    ("a | b & c", "a | (b & c)"),
    ("~a & b", "!a & b"),
    ("(a & b) >> c", "a & b -> c"),
    ("a >> (b >> c)", "a -> b -> c"),
    ("Implies(a >> b, c)", "(a -> b) -> c"),
    ("And(a, b >> c)", "a & (b -> c)"),
    ("Or(a >> b, c)", "(a -> b) | c"),
    ("Iff(a, Iff(b, c))", "a <-> b <-> c"),
    ("~~a", "!!a"),
    ("a & a", "a & a"),
    ("true & ~false", "true & !false"),
    ("first | last", "first | last"),
    # atoms and terms
    ("P(x)", "P(x)"),
    ('P(x, "car 7", 3)', 'P(x, "car 7", 3)'),
    ("P()", "P"),
    ('P(g(x, "e"))', 'P(g(x, "e"))'),
    ("Equal(x, g(y))", "x = g(y)"),
    ("~Equal(x, y)", "x != y"),
    ('Equal(x, Const("ego"))', 'x = "ego"'),
    ("Equal(speed(x), Number(3))", "speed(x) = 3"),
    ("speed(x) < 3", "speed(x) < 3"),
    ("speed(x) <= speed(y)", "speed(x) <= speed(y)"),
    ("speed(x) > -0.5", "speed(x) > -0.5"),
    ("speed(x) >= 1e300", "speed(x) >= 1e300"),
    ("3 < speed(x)", "speed(x) > 3"),
    ("3.5 >= speed(x)", "speed(x) <= 3.5"),
    # quantifiers
    ("forall(x, P(x))", "forall x. P(x)"),
    ("exists(x, y, Near(x, y))", "exists x, y. Near(x, y)"),
    ('forall(x.of("car"), y, a)', "forall x: car, y. a"),
    ("forall(x, P(x), where=a & b)", "forall x where a & b. P(x)"),
    ("exists(x, P(x), where=speed(x) < 3)", "exists x where speed(x) < 3. P(x)"),
    ('forall(paired(x, y, relation="r"), a)', "forall (x, y) in r. a"),
    ('exists(z, paired(x.of("s"), y, relation="r"), a)', "exists z, (x: s, y) in r. a"),
    ("forall(x, exists(y, Near(x, y)))", "forall x. exists y. Near(x, y)"),
    # steps
    ("X(a)", "X a"),
    ("WX(a)", "WX a"),
    ("Y(a)", "Y a"),
    ("WY(a)", "WY a"),
    ("X(a, 3)", "X[3] a"),
    ("WX(a, 0)", "WX[0] a"),
    ("Y(a, steps=2)", "Y[2] a"),
    ("WY(a, 2)", "WY[2] a"),
    (
        "forall(x, y, G((P(x) & P(y) & Near(x, y)) >> WX(P(x))))",
        "forall x, y. G(P(x) & P(y) & Near(x, y) -> WX P(x))",
    ),
]


@pytest.mark.parametrize(("code", "text"), PAIRS, ids=[code for code, _ in PAIRS])
def test_python_builds_what_text_builds(code, text):
    built = run(code)
    assert built == parse_formula(text)
    assert hash(built) == hash(parse_formula(text))
    assert parse_formula(str(built)) == built


@pytest.mark.parametrize("op", [op for op in Temporal if op in STRICT], ids=lambda op: op.name)
@pytest.mark.parametrize("strict", [False, True], ids=["", "strict"])
@pytest.mark.parametrize(
    ("bound", "text"),
    [
        (None, ""),
        (3, "[<=3]"),
        (0, "[0]"),
        ((1, 4), "[1,4]"),
        ((2, 2), "[2]"),
        ((2, None), "[>=2]"),
    ],
)
def test_every_operator_with_every_mark(op, strict, bound, text):
    args, spelled = ("a, b", "a {} b") if op.value.arity == 2 else ("a", "{} a")
    built = run(f"{op.name}({args}, {bound}, strict={strict})")
    assert built == parse_formula(spelled.format(f"{op.name}{'+' if strict else ''}{text}"))


def test_terms_are_the_same_objects():
    assert run("x") == parse_term("x")
    assert run('g(x, "e", 1.5)') == parse_term('g(x, "e", 1.5)')
    assert run('Const("a b")') == parse_term('"a b"')
    assert run("Number(3)") == run("Number(3.0)") == parse_term("3")
    assert dsl.variables("x, y,z") == (f.Var("x"), f.Var("y"), f.Var("z"))


def test_the_star_import_offers_every_operator():
    assert {op.name for op in Temporal} <= set(dsl.__all__)
    assert all(hasattr(dsl, name) for name in dsl.__all__)
    assert {"Not", "And", "Or", "Implies", "Iff", "Equal", "Const", "Number"} <= set(dsl.__all__)


# --- Python's own reading --------------------------------------------------------------------


@pytest.mark.parametrize(("sign", "name"), [("&", "And"), ("|", "Or")])
@pytest.mark.parametrize("text", ["a {} b >> c", "a {} (b >> c)"])
def test_the_precedence_trap_is_taught(sign, name, text):
    with pytest.raises(BuildError, match=f"Python binds >> tighter than [{sign}]") as caught:
        run(text.format(sign))
    assert f"write (a {sign} b) >> c, or {name}(a, b >> c) if that is meant" in str(caught.value)


@pytest.mark.parametrize(("sign", "name"), [("&", "And"), ("|", "Or")])
@pytest.mark.parametrize("text", ["a >> b {} c", "(a >> b) {} c"])
def test_the_precedence_trap_on_the_left_is_taught_as_such(sign, name, text):
    """`a >> b & c` is `(a >> b) & c` in Python, and `a -> (b & c)` in logic."""
    with pytest.raises(BuildError, match=f"Python binds >> tighter than [{sign}]") as caught:
        run(text.format(sign))
    assert f"write a >> (b {sign} c), or {name}(a >> b, c)" in str(caught.value)


def test_chains_of_implications_are_taught():
    with pytest.raises(BuildError, match=r"Python reads a >> b >> c as \(a >> b\) >> c") as caught:
        run("a >> b >> c")
    assert "write a >> (b >> c), or Implies(Implies(a, b), c)" in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        "bool(a)",
        "a and b",
        "a or b",
        "not a",
        "1 if a else 2",
        "1 < speed(x) < 3",
    ],
)
def test_formulas_have_no_truth_value(wrong):
    with pytest.raises(BuildError, match="a formula is not true or false by itself") as caught:
        run(wrong)
    assert "combine formulas with ~ & | >>" in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        "a & (x == y)",
        "a | (x != y)",
        "a >> (x == y)",
        "forall(x, x == y)",
        "forall(x, a, where=x == y)",
        "G(x == y)",
        "U(a, x == y)",
    ],
)
def test_equality_of_python_is_no_formula(wrong):
    with pytest.raises(BuildError, match=r"not (True|False); write Equal\(s, t\)"):
        run(wrong)


@pytest.mark.parametrize("wrong", ["(x == y) & a", "(x == y) | a", "(x == y) >> a", "P(x == y)"])
def test_equality_of_python_is_no_formula_on_the_left_either(wrong):
    with pytest.raises(BuildError, match=r"Equal\(s, t\)"):
        run(wrong)


# --- wrong arguments -------------------------------------------------------------------------

WRONG = [
    ("a & 3", "expected a formula, not 3"),
    ('a | "b"', "expected a formula, not 'b'"),
    ("a >> None", "expected a formula, not None"),
    ("a & x", "expected a formula, not <Var x>"),
    ('F("a")', "expected a formula, not 'a'"),
    ("U(a, 3)", "expected a formula, not 3"),
    ("G(P)", "expected a formula, not PredicateSymbol"),
    ("P(a)", "expected a term, a name or a number, not <Atom a>"),
    ("P(None)", "expected a term, a name or a number, not None"),
    ('P(float("nan"))', "a number in a formula must be finite, not nan"),
    ("g()", "the function 'g' needs an argument"),
    ("speed(x) < a", "expected a term, a name or a number, not <Atom a>"),
    ("speed(x) < True", "expected a term, a name or a number, not True"),
    ("forall(x)", "forall needs at least a variable and a formula: forall(x, G(Stop(x)))"),
    ("exists()", "exists needs at least a variable and a formula"),
    ("forall(P(x), x)", "a quantifier must bind variables, not <Atom P(x)>"),
    ('forall("x", P(x))', "a quantifier must bind variables, not 'x'"),
    ("forall([x, y], P(x))", "a quantifier must bind variables, not [<Var x>, <Var y>]"),
    ("forall(x, y)", "expected a formula, not <Var y>"),
    ('paired(x, relation="r")', "paired needs at least two variables"),
    ('paired(x, "y", relation="r")', "a quantifier must bind variables, not 'y'"),
    ("X(a, -1)", "a bound must be a number of steps"),
    ("F(a, -1)", "a bound must be a number of steps, or a pair from low to high, not -1"),
    (
        "F(a, (3, 1))",
        "a bound must be a number of steps, or a pair from low to high, not (3, 1)",
    ),
    ('variables("forall")', "'forall' cannot be a name"),
    ('predicates("P Q F")', "'F' cannot be a name"),
    ('functions("a-b")', "'a-b' cannot be a name"),
    ('propositions("1a")', "'1a' cannot be a name"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[m for _, m in WRONG])
def test_wrong_arguments_are_explained(wrong, message):
    with pytest.raises(BuildError) as caught:
        run(wrong)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "bound",
    ["'3'", "2.5", "(1, 2, 3)", "(None, 1)", "True", "(1.0, 2)", "(1, '2')", "2**31", "[]"],
)
def test_bounds_without_a_text_are_refused(bound):
    for op in STRICT:
        args = "a, b" if op.value.arity == 2 else "a"
        with pytest.raises(BuildError, match="bound"):
            run(f"{op.name}({args}, {bound})")


@pytest.mark.parametrize("steps", ["1.5", "'1'", "True", "2**31"])
def test_steps_without_a_text_are_refused(steps):
    for op in Temporal:
        if op.steps:
            with pytest.raises(BuildError, match=r"bound|steps"):
                run(f"{op.name}(a, {steps})")


@pytest.mark.parametrize("name", ["x·y", "e\u0301", "℘x"], ids=ascii)
def test_names_that_text_cannot_write_are_refused(name):
    """What Python calls an identifier is not always a name of the language."""
    with pytest.raises(BuildError, match="cannot be a name"):
        dsl.variables(name)


@pytest.mark.parametrize("name", ["", "my sort", "forall", "1a"])
def test_sorts_and_relations_are_names(name):
    with pytest.raises(BuildError, match="cannot be a name"):
        run(f"x.of({name!r})")
    with pytest.raises(BuildError, match="cannot be a name"):
        run(f"paired(x, y, relation={name!r})")


@pytest.mark.parametrize(
    "wrong",
    [
        "Not(3)",
        "And(a, True)",
        "Or(x, a)",
        "Implies(a, P)",
        "Iff(a, x == y)",
        "Equal(a, x)",
        "Number('3')",
        "Number(True)",
        "Number(10**400)",
        "Const(3)",
    ],
)
def test_constructors_take_only_what_they_can_hold(wrong):
    with pytest.raises(BuildError):
        run(wrong)


def test_equal_takes_names_and_numbers_as_predicates_do():
    assert run("Equal(x, 'ego')") == parse_formula('x = "ego"')
    assert run("Equal(speed(x), 3)") == parse_formula("speed(x) = 3")


# --- notebooks -------------------------------------------------------------------------------


def test_a_formula_typesets_itself():
    assert run("forall(x, G(P(x)))")._repr_latex_() == (
        r"$\displaystyle \forall x\;.\; \mathbf{G}\,\mathsf{P}(x)$"
    )


def test_a_theory_typesets_itself():
    theory = parse_theory('sort s\nconstant "<b>": s\naxiom A weight 2: speed("<b>") < 3 & p')
    shown = theory._repr_html_()
    assert "<pre>sort s\nconstant &quot;&lt;b&gt;&quot;: s</pre>" in shown
    assert re.findall("<td[^>]*>(.*?)</td>", shown)[:2] == ["A", "2"]
    assert "<code>speed(&quot;&lt;b&gt;&quot;) &lt; 3 ∧ p</code>" in shown, "no TeX in tables"
    assert "<b>" not in shown, "names of entities must not become markup"
    assert parse_theory("axiom A: p")._repr_html_().count("<tr") == 2
