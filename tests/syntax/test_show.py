"""Printing: what is shown reads back as the same object, and nothing is simplified."""

from __future__ import annotations

import copy
import math
import pickle
import re
from collections.abc import Iterator
from typing import get_args

import pytest
from hypothesis import given, settings

from fotltn import parse_formula, show, show_theory
from fotltn.errors import BuildError, DataError
from fotltn.syntax import formula as f
from fotltn.syntax import theory as th
from fotltn.syntax.load import parse_theory
from fotltn.syntax.operators import STRICT, Temporal
from fotltn.syntax.parse import parse
from fotltn.syntax.show import Style, quote
from fotltn.tree import postorder
from tests.helpers import parse_term
from tests.syntax import strategies as some

TEXT_STYLES: tuple[Style, ...] = ("ascii", "unicode")
P, Q = f.Atom("P"), f.Atom("Q")
fixed = settings(derandomize=True, database=None)


# --- reading back ----------------------------------------------------------------------------


def test_formulas_read_back_as_the_same_object():
    seen: set[object] = set()

    @settings(fixed, max_examples=700)
    @given(some.formulas)
    def reads_back(formula):
        for style in TEXT_STYLES:
            assert parse_formula(show(formula, style)) == formula, show(formula, style)
        seen.update(option for node in postorder(formula) for option in _options(node))

    reads_back()
    missing = _every_option() - seen
    assert not missing, f"the strategy never made {missing}"


def _options(node: f.Syntax) -> Iterator[object]:
    yield type(node).__name__
    match node:
        case f.Unary(op, _, bound, strict) | f.Binary(op, _, _, bound, strict):
            yield from (("bounded", op, bound is not None), ("strict", op, strict))
        case f.Forall(binders, guard) | f.Exists(binders, guard):
            yield type(node), "guarded", guard is not None
            yield from ((type(node), type(b)) for b in binders)


def _every_option() -> set[object]:
    expected: set[object] = {kind.__name__ for kind in get_args(f.AnySyntax)}
    expected |= {("bounded", op, flag) for op in Temporal for flag in (True, False)}
    expected |= {("strict", op, flag) for op in STRICT for flag in (True, False)}
    for kind in (f.Forall, f.Exists):
        expected |= {(kind, "guarded", flag) for flag in (True, False)}
        expected |= {(kind, f.Binder), (kind, f.Paired)}
    return expected


@settings(fixed, max_examples=100)
@given(some.terms)
def test_terms_read_back_as_the_same_object(term):
    for style in TEXT_STYLES:
        assert parse_term(show(term, style)) == term, show(term, style)


@settings(fixed, max_examples=60)
@given(some.theories)
def test_theories_read_back_as_the_same_object(theory):
    for style in TEXT_STYLES:
        assert parse_theory(show_theory(theory, style)) == theory
    assert str(theory) == show_theory(theory)


def test_an_empty_theory_reads_back():
    assert show_theory(th.Theory()) == ""
    assert parse_theory("") == th.Theory()


@pytest.mark.parametrize("name", some.ODD_STRINGS, ids=ascii)
def test_odd_names_of_entities_read_back(name):
    assert parse_term(quote(name)) == f.Const(name)
    theory = th.Theory((th.ConstantDecl(name, "s"),))
    assert parse_theory(show_theory(theory)) == theory


@pytest.mark.parametrize("value", some.ODD_NUMBERS, ids=repr)
def test_odd_numbers_read_back(value):
    assert parse_term(show(f.Number(value))) == f.Number(value)
    assert show(f.Number(value)).startswith("-") == (value < 0)
    assert math.copysign(1, f.Number(value).value) == (-1 if value < 0 else 1), "no negative zero"


@settings(fixed, max_examples=60)
@given(some.formulas)
def test_pickle_and_copies_are_the_same_object(formula):
    assert pickle.loads(pickle.dumps(formula)) == formula
    assert copy.deepcopy(formula) is formula
    assert copy.copy(formula) is formula


def test_pickle_keeps_terms_and_theories():
    theory = parse_theory('sort s\nconstant "a b": s\npredicate P(s)\naxiom A weight 2: P("a b")')
    assert pickle.loads(pickle.dumps(theory)) == theory
    assert copy.deepcopy(theory) == theory
    for text in ("x", '"a b"', "-0.5", "f(x, g(y))"):
        assert pickle.loads(pickle.dumps(parse_term(text))) == parse_term(text)


# --- the text itself -------------------------------------------------------------------------

SHOWN = [
    # text, unicode, latex
    ("a & b | c -> !d", "a ∧ b ∨ c → ¬d", None),
    ("(a | b) & c", "(a ∨ b) ∧ c", r"\left(\mathsf{a} \lor \mathsf{b}\right) \land \mathsf{c}"),
    ("a & (b & c)", "a ∧ (b ∧ c)", None),
    ("(a -> b) -> c", "(a → b) → c", None),
    ("a U (b & c)", "a 𝒰 (b ∧ c)", None),
    ("!(a & b)", "¬(a ∧ b)", r"\neg \left(\mathsf{a} \land \mathsf{b}\right)"),
    ("!(x = y)", "¬(x = y)", r"\neg \left(x = y\right)"),
    ("G(a -> F[<=3] b)", "□(a → ◇[≤3] b)", None),
    ("F+[1,4] a", "◇⁺[1,4] a", r"\mathbf{F}^{+}_{[1,4]}\,\mathsf{a}"),
    ("G[>=2] a", "□[≥2] a", r"\mathbf{G}_{\ge 2}\,\mathsf{a}"),
    ("G[0] a", "□[0] a", r"\mathbf{G}_{0}\,\mathsf{a}"),
    ("X[3] a", "○[3] a", r"\mathbf{X}_{3}\,\mathsf{a}"),
    ("a S+ b", "a 𝒮⁺ b", r"\mathsf{a} \mathbin{\mathbf{S}}^{+} \mathsf{b}"),
    ("true & false", "⊤ ∧ ⊥", r"\top \land \bot"),
    ("first <-> last", "first ↔ last", r"\mathsf{first} \leftrightarrow \mathsf{last}"),
    (
        "forall x: s, (y, z: t) in r where a. b",
        "∀x: s, (y, z: t) in r where a. b",
        r"\forall x{:}\,\mathsf{s}, (y, z{:}\,\mathsf{t}) \in \mathit{r} \mid \mathsf{a}"
        r"\;.\; \mathsf{b}",
    ),
    (
        "(exists x. a) & b",
        "(∃x. a) ∧ b",
        r"\left(\exists x\;.\; \mathsf{a}\right) \land \mathsf{b}",
    ),
    ("a & exists x. b", "a ∧ (∃x. b)", None),
    ('P("car_7")', 'P("car_7")', r"\mathsf{P}(\text{``car\_7''})"),
    ("x1 < x_12", "x1 < x_12", r"x_{1} < x_{12}"),
    ("speed(x) >= -0.5", "speed(x) ≥ -0.5", r"\mathsf{speed}(x) \ge -0.5"),
    ("max_speed(x) <= 1", "max_speed(x) ≤ 1", r"\mathsf{max\_speed}(x) \le 1"),
]


@pytest.mark.parametrize(("text", "unicode", "latex"), SHOWN, ids=[s[0] for s in SHOWN])
def test_text_in_each_style(text, unicode, latex):
    formula = parse_formula(text)
    assert show(formula, "unicode") == unicode
    assert parse_formula(unicode) == formula
    if latex is not None:
        assert show(formula, "latex") == latex.replace(r"\mathit{r}", "r")
    if "exists x. b" not in text:  # the printer wraps a trailing quantifier, which may be bare
        assert show(formula) == str(formula) == text


def test_repr_names_the_class_and_the_text():
    assert repr(parse_formula("a  &  b")) == "<And a & b>"
    assert repr(parse_term("f( x )")) == "<Apply f(x)>"


def test_an_unknown_style_is_refused():
    with pytest.raises(DataError, match="style: expected one of 'ascii', 'unicode', 'latex', not"):
        show(P, "html")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["a & a", "a | a", "!!a", "a & true", "F F a", "a -> a", "X[1] a", "F[>=0] a", "x = x"]
)
def test_nothing_is_simplified(text):
    formula = parse_formula(text)
    assert str(formula) == text.replace("!!a", "!!a")
    assert {show(formula, s) for s in get_args(Style)}.isdisjoint({"a", "true", "⊤"})
    assert parse_formula("a") != formula


def test_bounds_that_mean_the_same_stay_apart():
    assert parse_formula("F[>=0] a") != parse_formula("F a")
    assert parse_formula("X[1] a") != parse_formula("X a")
    assert parse_formula("F[0,3] a") == parse_formula("F[<=3] a")
    assert parse_formula("F[2,2] a") == parse_formula("F[2] a")


# --- LaTeX -----------------------------------------------------------------------------------


def _well_formed(latex: str) -> None:
    assert latex.strip(), "empty"
    plain = re.sub(r"\\[\\{}$&#%_]", "", latex)  # escaped signs do not group
    depth = 0
    for sign in plain:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0, latex
    assert depth == 0, latex
    assert latex.count(r"\left(") == latex.count(r"\right)"), latex
    assert not re.search(r"[$#%&]", plain), latex
    assert not re.search(r"_(?!\{)", plain), f"a bare subscript: {latex}"
    assert not re.search(r"\n\s*\n", latex), "a blank line ends a paragraph, and so the formula"


@settings(fixed, max_examples=100)
@given(some.formulas)
def test_latex_is_well_formed(formula):
    _well_formed(show(formula, "latex"))


@settings(fixed, max_examples=30)
@given(some.theories)
def test_latex_of_a_theory_is_well_formed(theory):
    text = show_theory(theory, "latex")
    assert text.startswith("\\begin{array}{ll}\n")
    assert text.endswith("\\end{array}\n")
    for axiom in theory.axioms:
        _well_formed(show(axiom.formula, "latex"))


def test_latex_of_a_lone_underscore_is_escaped():
    _well_formed(show(f.Var("_"), "latex"))


def test_latex_of_a_name_with_a_blank_line_stays_in_its_formula():
    _well_formed(show(f.Const("a\n\nb"), "latex"))


def test_latex_writes_powers_of_ten_as_such():
    shown = show(f.Number(1e-7), "latex")
    assert "e" not in shown.replace(r"\times", ""), f"reads as 1 times e minus 7: {shown}"


# --- what has no text ------------------------------------------------------------------------


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_numbers_without_a_spelling_are_refused(value):
    with pytest.raises(BuildError, match="a number in a formula must be finite"):
        f.Number(value)


def test_parse_takes_the_rule_that_a_node_names():
    for node in (P, f.Var("x"), f.Const("x"), f.Number(3), f.Apply("g", (f.Var("x"),))):
        assert parse(str(node), node.start) == node
