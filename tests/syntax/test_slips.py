"""Near misses: each must be refused with the right message, at the right place, with a hint."""

from __future__ import annotations

import pickle
import re

import pytest

from fotltn import parse_formula
from fotltn.errors import BuildError, Diagnostic, ParseError
from fotltn.syntax.hints import KEYWORDS
from tests.helpers import parse_term

OPERATOR = "expected an operator, '(' or the end"
DOT = "a quantifier needs a dot after its variables: forall x. G(Stop(x))"
BRACKETS = "bounds go in square brackets: F[<=3], G[1,4]"
RANGE = "write {} for three steps, or F, G, O, H for a range"


def reserved(word: str) -> str:
    return f"'{word}' is a keyword of the language; choose another name, such as {word}1"


#: text, the place of the caret, what the caret stands under, message, hint
SLIPS: list[tuple[str, str, str, str, str | None]] = [
    # signs and words of other languages
    ("a && b", "1:4", "&", "found '&', expected a formula", "conjunction is a single &"),
    ("a || b", "1:4", "|", "found '|', expected a formula", "disjunction is a single |"),
    ("a => b", "1:4", ">", "found '>', expected a term", "implication is ->"),
    ("a ==> b", "1:4", "=", "found '=', expected a term", "implication is ->"),
    ("a <=> b", "1:5", ">", "found '>', expected a term", "equivalence is <->"),
    ("x == y", "1:4", "=", "found '=', expected a term", "equality is a single ="),
    ("~a", "1:1", "~", "found the character '~', expected a formula", "negation is !"),
    ("not a", "1:5", "a", f"found 'a', {OPERATOR}", "negation is !"),
    ("NOT a", "1:5", "a", f"found 'a', {OPERATOR}", "negation is !"),
    ("a and b", "1:3", "and", f"found 'and', {OPERATOR}", "conjunction is &"),
    ("a AND b", "1:3", "AND", f"found 'AND', {OPERATOR}", "conjunction is &"),
    ("a or b", "1:3", "or", f"found 'or', {OPERATOR}", "disjunction is |"),
    ("a OR b", "1:3", "OR", f"found 'OR', {OPERATOR}", "disjunction is |"),
    ("a implies b", "1:3", "implies", f"found 'implies', {OPERATOR}", "implication is ->"),
    ("a iff b", "1:3", "iff", f"found 'iff', {OPERATOR}", "equivalence is <->"),
    ("next a", "1:6", "a", f"found 'a', {OPERATOR}", "next is X, weak next is WX"),
    ("P a", "1:3", "a", f"found 'a', {OPERATOR}", "P is no operator: 'once before' is O"),
    ("a /\\ b", "1:3", "/", "found the character '/', expected", "conjunction is &"),
    ("a \\/ b", "1:3", "\\", "found the character '\\\\', expected", "disjunction is |"),
    # quantifiers
    ("forall x P(x)", "1:10", "P", "found 'P', expected ',', '.', ':' or 'where'", DOT),
    ("∀x P(x)", "1:4", "P", "found 'P', expected ',', '.', ':' or 'where'", DOT),
    ("forall x: s P(x)", "1:13", "P", "found 'P', expected ',', '.' or 'where'", DOT),
    ("forall x, P(x)", "1:12", "(", "found '(', expected ',', '.', ':' or 'where'", DOT),
    ("forall x", "1:9", "", "found the end, expected ',', '.', ':' or 'where'", DOT),
    ("forall. a", "1:7", ".", "found '.', expected '(' or a name", None),
    ("forall x. ", "1:10", " ", "found the end, expected a formula", None),
    ("forall x: . a", "1:11", ".", "found '.', expected a name", None),
    ("forall x where. a", "1:15", ".", "found '.', expected a formula", None),
    ("forall (x) in r. a", "1:10", ")", "found ')', expected ','", None),
    ("forall (x, y). a", "1:14", ".", "found '.', expected 'in'", None),
    ("forall (x, y) in. a", "1:17", ".", "found '.', expected a name", None),
    ("forall (x, y) in r a", "1:20", "a", "found 'a', expected ',', '.' or 'where'", DOT),
    # parentheses and missing parts
    ("", "1:1", "", "found the end, expected a formula", None),
    ("# nothing", "1:10", "", "found the end, expected a formula", None),
    ("(a & b", "1:7", "", "found the end, expected ')'", None),
    ("P(x", "1:4", "", "found the end, expected ')' or ','", None),
    ("P(x,)", "1:5", ")", "found ')', expected a term", None),
    ("P(,x)", "1:3", ",", "found ',', expected a term or ')'", None),
    ("P((x))", "1:3", "(", "found '(', expected a term or ')'", None),
    ("P(x & y)", "1:5", "&", "found '&', expected ')' or ','", None),
    ("P(!x)", "1:3", "!", "found '!', expected a term or ')'", None),
    ("P(x)(y)", "1:5", "(", "found '(', expected an operator or the end", None),
    ("a &", "1:4", "", "found the end, expected a formula", None),
    ("a &\n", "1:4", "\n", "found the end, expected a formula", None),
    ("& a", "1:1", "&", "found '&', expected a formula", None),
    ("a U", "1:4", "", "found the end, expected a formula, '+' or '['", None),
    ("a -> -> b", "1:6", "->", "found '->', expected a formula", None),
    ("a b", "1:3", "b", f"found 'b', {OPERATOR}", None),
    ("P(x) Q(x)", "1:6", "Q", "found 'Q', expected an operator or the end", None),
    ("true false", "1:6", "false", "found 'false', expected an operator or the end", None),
    ("first(x)", "1:6", "(", "found '(', expected an operator or the end", None),
    ("x < y < z", "1:7", "<", "found '<', expected an operator or the end", None),
    ("a @ b", "1:3", "@", "found the character '@', expected an operator", None),
    ("a\n  & b\n  &&c", "3:4", "&", "found '&', expected a formula", "conjunction is a single &"),
    # words of the language as names
    ("P(F)", "1:3", "F", "found 'F', expected a term or ')'", reserved("F")),
    ("P(forall)", "1:3", "forall", "found 'forall', expected a term or ')'", reserved("forall")),
    ("forall X. a", "1:8", "X", "found 'X', expected '(' or a name", reserved("X")),
    ("forall x: S. a", "1:11", "S", "found 'S', expected a name", reserved("S")),
    ("where", "1:1", "where", "found 'where', expected a formula", reserved("where")),
    (
        "U(a, b)", "1:1", "U", "found 'U', expected a formula",
        "U is the operator 'until'; choose another name, such as U1",
    ),
    # bounds and strict forms
    ("X[1,3] a", "1:2", "[1,3]", "X looks at one time point, not at a range", RANGE.format("X[3]")),
    (
        "WX[<=3] a", "1:3", "[<=3]", "WX looks at one time point, not at a range",
        RANGE.format("WX[3]"),
    ),
    ("Y[>=1] a", "1:2", "[>=1]", "Y looks at one time point, not at a range", RANGE.format("Y[3]")),
    ("X+ a", "1:2", "+", "X has no strict form", "it already leaves out the present"),
    ("WY⁺ a", "1:3", "⁺", "WY has no strict form", "it already leaves out the present"),
    ("F<=3 a", "1:2", "<=", "found '<=', expected a formula, '+' or '['", BRACKETS),
    ("G+ >= 3 a", "1:4", ">=", "found '>=', expected a formula or '['", None),
    ("F{3} a", "1:2", "{", "found the character '{', expected a formula, '+' or '['", BRACKETS),
    ("F[<3] a", "1:3", "<", "a bound must be written with <= or >=, not <", None),
    ("a U[>3] b", "1:5", ">", "a bound must be written with <= or >=, not >", None),
    ("F[3.5] a", "1:3", "3.5", "a bound must be a whole number of steps, not 3.5", None),
    ("F[-1] a", "1:3", "-1", "a bound must be a whole number of steps, not -1", None),
    ("F[1,2e1] a", "1:5", "2e1", "a bound must be a whole number of steps, not 2e1", None),
    ("F[] a", "1:3", "]", "found ']', expected a comparison or a number", None),
    ("F[1,] a", "1:5", "]", "found ']', expected a number", None),
    ("F[<= 3 a", "1:8", "a", "found 'a', expected ']'", None),
    ("F[1..3] a", "1:4", ".", "found '.', expected ',' or ']'", "a range has a comma: F[0,3]"),
    (
        "F[2147483648] a", "1:3", "2147483648", "a bound must be at most 2147483647",
        "leave it out, or write [>=a]",
    ),
    (
        "F[1,99999999999999999999] a", "1:5", "99999999999999999999",
        "a bound must be at most 2147483647", "leave it out, or write [>=a]",
    ),
    # terms
    (
        "P('x')", "1:3", "'", "found the character \"'\", expected a term or ')'",
        'names of entities go in double quotes: "car 7"',
    ),
    ("speed(x) < 1e999", "1:12", "1e999", "the number 1e999 is too large", None),
    (
        "P(f())", "1:3", "f()", "the function 'f' needs an argument",
        "write f for a variable or constant",
    ),
    (
        "g( ) < 3", "1:1", "g( )", "the function 'g' needs an argument",
        "write g for a variable or constant",
    ),
    ("x =", "1:4", "", "found the end, expected a term", None),
    ("- 1 < x", "1:1", "-", "found the character '-', expected a formula", None),
]  # fmt: skip


def slip(text: str) -> Diagnostic:
    with pytest.raises(ParseError) as caught:
        parse_formula(text)
    (found,) = caught.value.diagnostics
    return found


@pytest.mark.parametrize(
    ("text", "place", "under", "message", "hint"), SLIPS, ids=[s[0] for s in SLIPS]
)
def test_slips_are_explained(text, place, under, message, hint):
    found = slip(text)
    assert found.span is not None
    assert f"{found.span.line}:{found.span.column}" == place
    assert text[found.span.start : found.span.end] == under
    assert message in found.message
    assert found.hint == hint
    rendered = found.render().split("\n")
    assert rendered[0] == f"<formula>:{place}: error: {found.message}"
    assert rendered[1].endswith(text.split("\n")[found.span.line - 1])
    column = rendered[2].index("^")
    assert rendered[2].count("^") == max(1, len(under.strip("\n")))
    assert rendered[1][column : column + len(under.strip("\n"))] == under.strip("\n")
    assert (rendered[3:] == [f"      = {hint}"]) if hint else not rendered[3:]


@pytest.mark.parametrize("word", sorted(KEYWORDS))
def test_no_word_of_the_language_is_a_name(word):
    for text in (f"P({word})", f"{word} = x", f"forall {word}. a", f"forall x: {word}. a"):
        assert slip(text).message.startswith("found ")


# --- words run together ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Car(x) Stop(x)",
        "a Stop",
        "a Ub",
        "a Until b",
        "a Won",
        "a Mb & c",
        "forall x wherea. b",
        "forall (x, y) inr. a",
    ],
)
def test_a_word_is_read_whole(text):
    """`Car(x) Stop(x)` lacks an operator; it is not `Car(x) S top(x)`."""
    assert slip(text).message.startswith("found ")


# --- messages that help ----------------------------------------------------------------------


@pytest.mark.parametrize("text", ["3", '"a"', "a & 3", "1e < 2", "(3) < 4"])
def test_a_lone_term_names_the_comparisons(text):
    message = slip(text).message
    assert "'!='" in message
    assert "unequal" not in message, "no name of a grammar rule in a message"


@pytest.mark.parametrize("text", ["a)", "a & b)", "(a))", "a . b", "x.y = 3"])
def test_a_stray_sign_after_a_whole_formula(text):
    assert re.search("expected .*the end", slip(text).message), slip(text).message


@pytest.mark.parametrize("text", ['P("x)', '"unclosed = x', 'P("x\ny")'])
def test_an_open_string_is_called_so(text):
    found = slip(text)
    assert re.search("clos|never ends|quote", f"{found.message} {found.hint}"), found.render()


@pytest.mark.parametrize("text", [r'P("x\q")', r'P("C:\dir")'])
def test_an_unknown_escape_is_called_so(text):
    found = slip(text)
    assert re.search(r"escape|backslash|\\\\", f"{found.message} {found.hint}"), found.render()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('P("it\'s") Q(x)', "double quotes"),  # they are double
        ('P("a && b") Q(x)', "single &"),  # it is inside a string
        ("U b", "choose another name"),  # nobody wanted a name
        ("a U U b", "choose another name"),
        ("forall x y. P(x, y)", "needs a dot after"),  # there is a dot; a comma is missing
        ("forall x in r. P(x)", "needs a dot after"),
        ("axiom A: p", "choose another name"),  # a statement, for parse_theory
    ],
)
def test_hints_do_not_mislead(text, wrong):
    assert wrong not in (slip(text).hint or "")


def test_a_long_token_does_not_fill_the_screen():
    for text in ("a " + "b" * 100_000, "F[" + "1" * 100_000 + "] a", "x < " + "9" * 100_000):
        assert len(slip(text).render()) < 1000


def test_a_long_line_is_cropped_around_the_caret():
    found = slip("a & " * 1000 + "&& b" + " & c" * 1000)
    assert found.span is not None
    assert found.span.column == 4001
    _, line, carets, *_ = found.render().split("\n")
    assert line[carets.index("^")] == "&"
    assert line.startswith("    1 | …")
    assert line.endswith("…")
    assert len(line) < 120


def test_terms_have_their_own_messages():
    with pytest.raises(ParseError, match="found the end, expected a term") as caught:
        parse_term("f(x,", source="my term")
    assert str(caught.value).startswith("my term:1:5: error: ")
    with pytest.raises(ParseError, match=r"found '&', expected .*the end"):
        parse_term("x & y")


def test_errors_travel_between_processes():
    with pytest.raises(ParseError) as caught:
        parse_formula("a && b")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is ParseError
    assert again.diagnostics == caught.value.diagnostics
    assert str(again) == str(caught.value)
    assert isinstance(again, ValueError)
    assert issubclass(BuildError, TypeError)


def test_findings_for_machines():
    assert slip("a && b").as_dict() == {
        "severity": "error",
        "message": "found '&', expected a formula",
        "hint": "conjunction is a single &",
        "source": "<formula>",
        "line": 1,
        "column": 4,
    }
    assert Diagnostic("no place").as_dict()["line"] is None
    assert Diagnostic("no place", hint="a hint").render() == "error: no place\n      = a hint"
