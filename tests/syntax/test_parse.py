"""Parsing: precedence, spellings, options. What must be refused is in test_slips.py."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from fotltn import parse_formula
from fotltn.errors import LimitError, ParseError
from fotltn.syntax import formula as f
from fotltn.syntax.hints import KEYWORDS
from fotltn.syntax.operators import STRICT, Temporal
from fotltn.syntax.parse import MAX_CHARACTERS
from fotltn.tree import postorder
from tests.helpers import parse_term

a, b, c = f.Atom("a"), f.Atom("b"), f.Atom("c")
x, y, z = f.Var("x"), f.Var("y"), f.Var("z")

# --- precedence ------------------------------------------------------------------------------

#: Loosest first, with the side to which each groups.
LEVELS = [("<->", "right"), ("->", "right"), ("|", "left"), ("&", "left")]
BINARY = [op.ascii for op in Temporal if op.value.arity == 2]
PREFIX = ["!", *(op.ascii for op in Temporal if op.value.arity == 1)]
RANK = {sign: (rank, side) for rank, (sign, side) in enumerate(LEVELS)} | {
    sign: (len(LEVELS), "right") for sign in BINARY
}
KINDS = {"<->": f.Iff, "->": f.Implies, "|": f.Or, "&": f.And}


def join(sign: str, left: f.Formula, right: f.Formula) -> f.Formula:
    if sign in KINDS:
        made = KINDS[sign](left, right)
        assert isinstance(made, f.Formula)
        return made
    return f.Binary(Temporal[sign], left, right)


@pytest.mark.parametrize(("one", "two"), [*itertools.product(RANK, RANK)])
def test_infix_operators_bind_and_group_as_documented(one, two):
    (first, side), (second, _) = RANK[one], RANK[two]
    to_the_left = first > second or (first == second and side == "left")
    if to_the_left:
        expected, text = join(two, join(one, a, b), c), f"(a {one} b) {two} c"
    else:
        expected, text = join(one, a, join(two, b, c)), f"a {one} (b {two} c)"
    assert parse_formula(f"a {one} b {two} c") == expected == parse_formula(text)


@pytest.mark.parametrize(("prefix", "infix"), [*itertools.product(PREFIX, RANK)])
def test_prefix_operators_bind_tighter_than_infix(prefix, infix):
    marked = f.Not(a) if prefix == "!" else f.Unary(Temporal[prefix], a)
    assert parse_formula(f"{prefix} a {infix} b") == join(infix, marked, b)
    assert parse_formula(f"b {infix} {prefix} a") == join(infix, b, marked)


SAME = [
    ("!X a", "!(X a)"),
    ("X !a", "X(!a)"),
    ("G F a", "G(F a)"),
    ("F[<=3] a -> b", "(F[<=3] a) -> b"),
    ("!x = y", "!(x = y)"),
    ("X x = y", "X(x = y)"),
    ("x != y", "!(x = y)"),
    ("!x != y", "!(!(x = y))"),
    ("x ≠ y", "x != y"),
    ("x < y & y < z", "(x < y) & (y < z)"),
    ("x < y U y <= z", "(x < y) U (y <= z)"),
    # a quantifier reaches as far to the right as it can
    ("forall x. a & b", "forall x. (a & b)"),
    ("forall x. a <-> b", "forall x. (a <-> b)"),
    ("a & forall x. b -> c", "a & (forall x. (b -> c))"),
    ("a | exists x. b | c", "a | (exists x. (b | c))"),
    ("a -> forall x. b <-> c", "a -> (forall x. (b <-> c))"),
    ("a <-> forall x. b <-> c", "a <-> (forall x. (b <-> c))"),
    ("a U forall x. b U c", "a U (forall x. (b U c))"),
    ("a U b & forall x. c | a", "(a U b) & (forall x. (c | a))"),
    ("! forall x. a & b", "!(forall x. (a & b))"),
    ("X exists x. a U b", "X(exists x. (a U b))"),
    ("forall x. exists y. a -> b", "forall x. (exists y. (a -> b))"),
    ("a & forall x. b & exists y. c | a", "a & (forall x. (b & (exists y. (c | a))))"),
    ("(forall x. a) & b", "((forall x. a)) & (b)"),
    ("forall x where a & b. c & a", "forall x where (a & b). (c & a)"),
    ("forall x where a -> b. c -> a", "forall x where (a -> b). (c -> a)"),
    ("forall x where exists y. a. b", "forall x where (exists y. a). b"),
    ("forall x, y. a", "forall x,y.a"),
]


@pytest.mark.parametrize(("bare", "explicit"), SAME)
def test_bare_text_means_the_explicit_text(bare, explicit):
    assert parse_formula(bare) == parse_formula(explicit)


DIFFERENT = [
    ("a & (b & c)", "a & b & c"),
    ("a | (b | c)", "a | b | c"),
    ("(a -> b) -> c", "a -> b -> c"),
    ("(a <-> b) <-> c", "a <-> b <-> c"),
    ("(a U b) U c", "a U b U c"),
    ("!(a U b)", "!a U b"),
    ("(forall x. a) & b", "forall x. a & b"),
    ("forall x, y. a", "forall x. forall y. a"),
    ("(x, y) in r", "x, y"),
    ("a U b", "b U a"),
    ("a", "b"),
    ("x = y", "y = x"),
    ("x < y", "y > x"),
    ('P("x")', "P(x)"),
    ("P(1)", "P(x)"),
    ("p", "p(x)"),
    ("F a", "F+ a"),
    ("F[<=3] a", "F[3] a"),
]


@pytest.mark.parametrize(("one", "two"), DIFFERENT)
def test_different_texts_are_different_objects(one, two):
    wrap = "forall {}. a" if "(x, y) in" in one else "{}"
    assert parse_formula(wrap.format(one)) != parse_formula(wrap.format(two))


def test_parentheses_spaces_and_comments_leave_no_trace():
    plain = parse_formula("forall x. a & b")
    assert parse_formula("((forall x.(((a))&(b))))") == plain
    assert parse_formula("  forall\tx\n.\u00a0a # and not c\n & b #") == plain
    assert parse_formula('P("# no comment")') == f.Atom("P", (f.Const("# no comment"),))


# --- spellings -------------------------------------------------------------------------------

SPELLINGS = [
    ("!a", "¬a", f.Not(a)),
    ("a & b", "a ∧ b", f.And(a, b)),
    ("a | b", "a ∨ b", f.Or(a, b)),
    ("a -> b", "a → b", f.Implies(a, b)),
    ("a <-> b", "a ↔ b", f.Iff(a, b)),
    ("true", "⊤", f.Truth(True)),
    ("false", "⊥", f.Truth(False)),
    ("x != y", "x ≠ y", f.Not(f.Equal(x, y))),
    ("x <= y", "x ≤ y", f.Compare("<=", x, y)),
    ("x >= y", "x ≥ y", f.Compare(">=", x, y)),
    ("F+[<=3] a", "◇⁺[≤3] a", f.Unary(Temporal.F, a, f.Bound(0, 3), True)),
    ("F[>=3] a", "◇[≥3] a", f.Unary(Temporal.F, a, f.Bound(3, None))),
    ("forall x. a", "∀x. a", f.Forall((f.Binder("x"),), None, a)),
    ("exists x. a", "∃x. a", f.Exists((f.Binder("x"),), None, a)),
]


@pytest.mark.parametrize(("ascii_", "unicode", "expected"), SPELLINGS)
def test_both_spellings_of_signs(ascii_, unicode, expected):
    assert parse_formula(ascii_) == expected
    assert parse_formula(unicode) == expected
    assert parse_formula(unicode.replace(" ", "  ")) == expected


@pytest.mark.parametrize("op", Temporal, ids=lambda op: op.ascii)
@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("", None),
        ("[3]", f.Bound(3, 3)),
        ("[0]", f.Bound(0, 0)),
        ("[<=3]", f.Bound(0, 3)),
        ("[>=3]", f.Bound(3, None)),
        ("[1,4]", f.Bound(1, 4)),
        ("[4,1]", f.Bound(4, 1)),  # empty, as the checker will say
        ("[ 1 , 4 ]", f.Bound(1, 4)),
        ("[2147483647]", f.Bound(2147483647, 2147483647)),
    ],
)
def test_every_temporal_operator_with_its_marks(op, strict, text, bound):
    for sign, mark in ((op.value.ascii, "+"), (op.value.unicode, "⁺")):
        for gap in ("", " "):
            spelled = f"{sign}{gap}{mark if strict else ''}{gap}{text}"
            whole = f"{spelled} b" if op.value.arity == 1 else f"a {spelled} b"
            refused = (strict and op not in STRICT) or (
                op.steps and bound is not None and bound.low != bound.high
            )
            if refused:
                with pytest.raises(ParseError, match=r"has no strict form|looks at one time point"):
                    parse_formula(whole)
            elif op.value.arity == 1:
                assert parse_formula(whole) == f.Unary(op, b, bound, strict)
            else:
                assert parse_formula(whole) == f.Binary(op, a, b, bound, strict)


@pytest.mark.parametrize("word", sorted(KEYWORDS))
def test_names_may_begin_or_end_with_words_of_the_language(word):
    if word.isascii():
        for name in (f"{word}a", f"{word}_", f"{word}1", f"a{word}", f"_{word}"):
            assert parse_formula(name) == f.Atom(name)
            assert parse_formula(f"b & {name}({name})") == f.And(b, f.Atom(name, (f.Var(name),)))
            assert parse_formula(f"b U {name}") == f.Binary(Temporal.U, b, f.Atom(name))


@pytest.mark.parametrize("name", ["é", "名前", "_", "__x1", "λ", "Ω2", "x²"])
def test_names_in_any_script(name):
    assert parse_formula(f"{name}({name})") == f.Atom(name, (f.Var(name),))


# --- atoms, terms, quantifiers ---------------------------------------------------------------

FORMULAS = [
    ("p", f.Atom("p")),
    ("p()", f.Atom("p")),
    ("first", f.Edge("first")),
    ("last", f.Edge("last")),
    ("P(x, y)", f.Atom("P", (x, y))),
    ('P("car 7", g(x), -2)', f.Atom("P", (f.Const("car 7"), f.Apply("g", (x,)), f.Number(-2.0)))),
    ("g(x) = h(y, z)", f.Equal(f.Apply("g", (x,)), f.Apply("h", (y, z)))),
    ("x < 3", f.Compare("<", x, f.Number(3.0))),
    ("x<-3", f.Compare("<", x, f.Number(-3.0))),
    ("3 > x", f.Compare(">", f.Number(3.0), x)),
    ("speed(x) >= 2.5e1", f.Compare(">=", f.Apply("speed", (x,)), f.Number(25.0))),
    ("P(x) = Q(x)", f.Equal(f.Apply("P", (x,)), f.Apply("Q", (x,)))),
    (
        "forall x: agent, y. a",
        f.Forall((f.Binder("x", "agent"), f.Binder("y")), None, a),
    ),
    ("exists x where a. b", f.Exists((f.Binder("x"),), a, b)),
    ("forall x where x < 3. b", f.Forall((f.Binder("x"),), f.Compare("<", x, f.Number(3)), b)),
    (
        "forall (x, y: s) in pairs. a",
        f.Forall((f.Paired((f.Binder("x"), f.Binder("y", "s")), "pairs"),), None, a),
    ),
    (
        "exists z, (x, y) in r where a. b",
        f.Exists((f.Binder("z"), f.Paired((f.Binder("x"), f.Binder("y")), "r")), a, b),
    ),
]


@pytest.mark.parametrize(("text", "expected"), FORMULAS, ids=[t for t, _ in FORMULAS])
def test_formulas_and_their_objects(text, expected):
    assert parse_formula(text) == expected


TERMS = [
    ("x", x),
    ('""', f.Const("")),
    (r'"a \"b\" \\ \n \t"', f.Const('a "b" \\ \n \t')),
    ('"it\'s é 名 😀"', f.Const("it's é 名 😀")),
    ("0", f.Number(0.0)),
    ("-0", f.Number(0.0)),
    ("-0.5", f.Number(-0.5)),
    ("1e300", f.Number(1e300)),
    ("1E-7", f.Number(1e-7)),
    ("00012", f.Number(12.0)),
    ("g(x)", f.Apply("g", (x,))),
    ("g(h(x), 1)", f.Apply("g", (f.Apply("h", (x,)), f.Number(1.0)))),
]


@pytest.mark.parametrize(("text", "expected"), TERMS, ids=[t for t, _ in TERMS])
def test_terms_and_their_objects(text, expected):
    assert parse_term(text) == expected
    assert parse_formula(f"P({text})") == f.Atom("P", (expected,))


# --- places ----------------------------------------------------------------------------------


def _text(node: object) -> str:
    span = getattr(node, "span", None)
    assert span is not None
    return str(span.source.text[span.start : span.end])


def test_every_node_knows_its_place():
    text = 'forall x: s where Q(x). a & !b  U[1,2] X g(x) = "c" -> 1 <= h(x)'
    formula = parse_formula(text, source="here.fot")
    places = {type(node).__name__: _text(node) for node in postorder(formula)}
    assert places == {
        "Forall": text,
        "Implies": 'a & !b  U[1,2] X g(x) = "c" -> 1 <= h(x)',
        "And": 'a & !b  U[1,2] X g(x) = "c"',
        "Binary": '!b  U[1,2] X g(x) = "c"',
        "Unary": 'X g(x) = "c"',
        "Equal": 'g(x) = "c"',
        "Compare": "1 <= h(x)",
        "Not": "!b",
        "Atom": places["Atom"],
        "Apply": "h(x)",
        "Const": '"c"',
        "Number": "1",
        "Var": "x",
    }
    assert {_text(node) for node in postorder(formula) if isinstance(node, f.Atom)} == {
        "Q(x)", "a", "b",
    }  # fmt: skip
    assert isinstance(formula, f.Forall)
    assert [_text(binder) for binder in formula.binders] == ["x: s"]
    nodes: list[f.Syntax] = [*postorder(formula)]
    assert [_text(node.bound) for node in nodes if isinstance(node, f.Binary)] == ["[1,2]"]
    assert formula.span is not None
    assert formula.span.source.name == "here.fot"


@pytest.mark.parametrize(
    "text", ["(a & b) U c", "a U (b & c)", "!(a)", "((a) & (b))", "X (a U (b))"]
)
def test_the_place_of_a_formula_has_balanced_parentheses(text):
    for node in postorder(parse_formula(text)):
        assert _text(node).count("(") == _text(node).count(")"), _text(node)


def test_places_are_no_part_of_the_structure():
    one, two = parse_formula("P(x) & q"), parse_formula("  P( x )\n& q")
    assert one == two
    assert hash(one) == hash(two)


def test_a_text_too_long_is_refused():
    parse_formula("a" + " " * (MAX_CHARACTERS - 1))
    with pytest.raises(LimitError, match=r"<formula> has 2,097,153 characters; at most 2,097,152"):
        parse_formula("a" + " " * MAX_CHARACTERS)


def test_threads_do_not_mix_their_sources():
    def one(number: int) -> tuple[bool, bool]:
        text = f"p{number} & " * 50 + "q"
        formula = parse_formula(text, source=str(number))
        nodes = list(postorder(formula))
        right = all(n.span is not None and n.span.source.text == text for n in nodes)
        try:
            parse_formula(f"p{number} &", source=str(number))
        except ParseError as error:
            span = error.diagnostics[0].span
            return right, span is not None and span.source.name == str(number)
        return right, False

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(one, range(64))) == {(True, True)}
