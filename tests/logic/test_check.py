"""Checking: every diagnostic with its message, place and hint; sorts; scopes."""

from __future__ import annotations

import pytest

from fotltn import check, check_formula, evaluate, parse_formula
from fotltn.errors import CheckError, Diagnostic
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.syntax import formula as f
from fotltn.syntax import theory as th
from fotltn.syntax.load import parse_theory
from fotltn.tree import postorder

ONE = "sort s\npredicate P(s), Near(s, s), p\n"
TWO = (
    "sort s, t\npredicate P(s), Q(t), p\nfunction g(s): s\nfunction v(s): real\n"
    "constant ego: s\nrelation r(s, t)\n"
)
LINE = {ONE: 3, TWO: 7}
REAL = "'real' is the sort of numbers: functions may return it, but arguments cannot have it"

Finding = tuple[str, str, str | None]


def findings(text: str) -> list[Finding]:
    """`line:column`, message and hint of each error of a theory."""
    with pytest.raises(CheckError) as caught:
        check(parse_theory(text))
    return [_finding(d) for d in caught.value.diagnostics]


def _finding(found: Diagnostic) -> Finding:
    assert found.span is not None
    return f"{found.span.line}:{found.span.column}", found.message, found.hint


def warnings(text: str) -> list[Finding]:
    return [_finding(d) for d in check(parse_theory(text)).warnings]


# --- declarations ----------------------------------------------------------------------------

DECLARATIONS: list[tuple[str, Finding]] = [
    (
        "sort a\nsort b, a",
        ("2:9", "the sort 'a' is declared twice", "first declared at <theory>:1"),
    ),
    ("sort a, real", ("1:9", "the sort 'real' is built in and cannot be declared", None)),
    (
        "sort a\npredicate P(a)\npredicate Q(a), P",
        ("3:17", "the name 'P' is declared twice", "first declared at <theory>:2"),
    ),
    (
        "sort a\npredicate P(a)\nconstant P: a",
        ("3:10", "the name 'P' is declared twice", "first declared at <theory>:2"),
    ),
    ("sort agent\npredicate P(agnt)", ("2:11", "unknown sort 'agnt'", "did you mean 'agent'?")),
    (
        "sort a\nfunction g(a): zoo",
        ("2:10", "unknown sort 'zoo'", "declare it: sort zoo (declared: 'a')"),
    ),
    (
        "constant c: zoo",
        ("1:10", "unknown sort 'zoo'", "declare it: sort zoo (declared: none)"),
    ),
    (
        "sort a\nrelation r(a, zoo)",
        ("2:10", "unknown sort 'zoo'", "declare it: sort zoo (declared: 'a')"),
    ),
    ("predicate P(real)", ("1:11", REAL, None)),
    ("sort a\nfunction g(real): a", ("2:10", REAL, None)),
    ("constant c: real", ("1:10", REAL, None)),
    (
        "sort a\nfunction g: a",
        (
            "2:10",
            "function 'g' has no arguments",
            "without arguments it is a constant: constant g: a",
        ),
    ),
    (
        "sort a\nrelation r(a)",
        (
            "2:10",
            "relation 'r' needs more sorts",
            "a relation lists tuples of at least two entities",
        ),
    ),
    (
        "relation r",
        (
            "1:10",
            "relation 'r' needs more sorts",
            "a relation lists tuples of at least two entities",
        ),
    ),
    (
        "predicate p\naxiom A: p\naxiom B: p\naxiom A: p",
        ("4:7", "two axioms are named 'A'", "first at <theory>:2"),
    ),
]


@pytest.mark.parametrize(("text", "expected"), DECLARATIONS, ids=[t for t, _ in DECLARATIONS])
def test_errors_of_declarations(text, expected):
    assert findings(text) == [expected]


def test_order_of_declarations_does_not_matter():
    check(parse_theory("axiom A: forall x. P(x)\npredicate P(a)\nsort a"))


# --- formulas --------------------------------------------------------------------------------

FORMULAS: list[tuple[str, str, Finding]] = [
    # names
    (ONE, "Pp", ("10", "unknown predicate 'Pp'", "did you mean 'p'?")),
    (
        ONE,
        "p & zzz",
        ("14", "unknown predicate 'zzz'", "declared predicates: 'P', 'Near', 'p'"),
    ),
    (ONE, "P(h(ego))", ("12", "unknown function 'h'", "declared functions: none")),
    (TWO, "P(gg(ego))", ("12", "unknown function 'gg'", "did you mean 'g'?")),
    (TWO, "g(ego)", ("10", "'g' is a function, not a predicate", None)),
    (TWO, "ego", ("10", "'ego' is a constant, not a predicate", None)),
    (TWO, "r(ego, ego)", ("10", "'r' is a relation, not a predicate", None)),
    (TWO, "P(P(ego))", ("12", "'P' is a predicate, not a function", None)),
    (
        ONE,
        "P(x)",
        (
            "12",
            "'x' is neither bound nor a constant",
            'bind it (forall x. …), declare it (constant x: sort), or write "x" for an entity',
        ),
    ),
    (TWO, "P(eego)", ("12", "'eego' is neither bound nor a constant", "did you mean 'ego'?")),
    (
        ONE,
        "forall xs. P(xs) & P(xx)",
        ("31", "'xx' is neither bound nor a constant", None),
    ),
    (
        TWO,
        "forall (x, y) in rel. P(x) & Q(y)",
        ("17", "unknown relation 'rel'", "declare it: relation rel(sort, sort)"),
    ),
    (
        TWO,
        "forall (x, y) in rr. P(x) & Q(y)",
        ("17", "unknown relation 'rr'", "did you mean 'r'?"),
    ),
    # arities
    (ONE, "forall x. P(x, x)", ("20", "predicate 'P' takes 1 argument, not 2", "it is P(s)")),
    (
        ONE,
        "forall x. Near(x)",
        ("20", "predicate 'Near' takes 2 arguments, not 1", "it is Near(s, s)"),
    ),
    (ONE, "forall x. p(x)", ("20", "predicate 'p' takes no arguments, not 1", "it is p")),
    (TWO, "P(g(ego, ego))", ("12", "function 'g' takes 1 argument, not 2", "it is g(s)")),
    (
        TWO,
        "forall (x, y, z) in r. P(x) & Q(y) & P(z)",
        ("17", "'r' lists tuples of 2, not of 3", None),
    ),
    # sorts
    (ONE, "forall x: ss. P(x)", ("17", "unknown sort 'ss'", "did you mean 's'?")),
    (TWO, "exists x: zoo. P(x)", ("17", "unknown sort 'zoo'", "declared sorts: 's', 't'")),
    (
        TWO,
        "forall x: t. P(x)",
        ("25", "argument 1 of 'P' is of sort s, but 'x' is of sort t", None),
    ),
    (
        TWO,
        "forall x. P(x) & Q(x)",
        ("29", "argument 1 of 'Q' is of sort t, but 'x' is of sort s", None),
    ),
    (TWO, "Q(g(ego))", ("12", "argument 1 of 'Q' is of sort t, but 'g(ego)' is of sort s", None)),
    (
        TWO,
        "P(v(ego))",
        ("12", "argument 1 of 'P' is of sort s, but 'v(ego)' is of sort real", None),
    ),
    (ONE, "P(3)", ("12", "argument 1 of 'P' is of sort s, but '3' is of sort real", None)),
    (
        TWO,
        "forall (x: t, y) in r. Q(y) & Q(x)",
        ("18", "place 1 of relation 'r' is of sort s, not t", None),
    ),
    (
        TWO,
        "forall x: s, y: t. x = y",
        ("29", "'x' is of sort s and 'y' of sort t", "only terms of one sort can be equal"),
    ),
    (
        TWO,
        "v(ego) < ego",
        (
            "19",
            "'ego' is of sort s, not a number",
            "comparisons are between numbers: function speed(car): real",
        ),
    ),
    (ONE, "forall x. x < 3", ("17", "'x' would range over numbers, which cannot be listed", None)),
    (TWO, "forall x. p", ("17", "cannot tell the sort of 'x'", "write it: forall x: sort. …")),
    (
        TWO,
        'exists x: s. P(x) & "e" = "d"',
        ("30", 'cannot tell the sort of "e"', 'declare it: constant "e": sort'),
    ),
    # scopes and bounds
    (ONE, "forall x, x. P(x)", ("20", "the variable 'x' is bound twice", None)),
    (ONE, "F[5,2] p", ("11", "the bound [5,2] is empty", "write [2,5]")),
    (ONE, "p U+[1,0] p", ("14", "the bound [1,0] is empty", "write [0,1]")),
]


@pytest.mark.parametrize(
    ("theory", "formula", "expected"), FORMULAS, ids=[formula for _, formula, _ in FORMULAS]
)
def test_errors_of_formulas(theory, formula, expected):
    column, message, hint = expected
    first, *_ = findings(f"{theory}axiom A: {formula}")
    assert first[:2] == (f"{LINE[theory]}:{column}", message)
    if hint is not None:
        assert first[2] == hint


def test_all_errors_of_a_theory_at_once():
    text = """sort s
predicate P(zoo), P(s)
axiom A: P(x)
axiom A: forall x: s. Z(x) & F[2,1] P(x, x)
axiom B: true
"""
    assert [found[:2] for found in findings(text)] == [
        ("2:11", "unknown sort 'zoo'"),
        ("2:19", "the name 'P' is declared twice"),
        ("3:12", "'x' is neither bound nor a constant"),
        ("4:7", "two axioms are named 'A'"),
        ("4:23", "unknown predicate 'Z'"),
        ("4:31", "the bound [2,1] is empty"),
        ("4:37", "predicate 'P' takes 1 argument, not 2"),
    ]


def test_a_mistake_is_reported_once():
    """One unbound variable is one mistake, whatever else cannot be told about it."""
    for axiom in ("z = z", "forall x: s. P(x) -> z = w"):
        found = [message for _, message, _ in findings(f"{TWO}axiom A: {axiom}")]
        assert found == [f"'{n}' is neither bound nor a constant" for n in "zw" if n in axiom]
    found = [message for _, message, _ in findings(f"{TWO}axiom A: forall (x, y) in rel. P(x)")]
    assert found == ["unknown relation 'rel'"]


def test_hints_name_only_what_helps():
    for axiom in ("Near(xs1, xs2)", "Near(first_car, first_cat)"):
        hints = [hint for _, _, hint in findings(f"{ONE}axiom A: {axiom}")]
        assert all(hint is not None and hint.startswith("bind it") for hint in hints), hints


@pytest.mark.parametrize(
    ("formula", "word"),
    [
        ("forall x: real. P(x)", "number"),  # not an unknown sort: a sort that cannot be listed
        ("forall x: s. x", "variable"),  # not an unknown predicate
        ("P(p)", "predicate"),  # nobody wants to bind p
    ],
)
def test_errors_that_should_name_the_mistake(formula, word):
    _, message, hint = findings(f"{TWO}axiom A: {formula}")[0]
    assert word in f"{message} {hint}"


@pytest.mark.parametrize("formula", ['"a" < 3', 'v(ego) = "a"', '"a" = 3'])
def test_an_entity_is_no_number(formula):
    (found,) = findings(f"{TWO}axiom A: {formula}")
    assert "number" in found[1]


# --- warnings --------------------------------------------------------------------------------


def test_unused_declarations_are_warned_of():
    text = f"{TWO}predicate unused(s)\nsort lonely\naxiom A: P(ego) & Q(y) & v(g(ego)) < 3"
    text = text.replace("Q(y)", "exists y. Q(y)")
    assert warnings(text) == [
        ("2:23", "the predicate 'p' is declared but not used", None),
        ("6:10", "the relation 'r' is declared but not used", None),
        ("7:11", "the predicate 'unused' is declared but not used", None),
        ("8:6", "the sort 'lonely' is declared but not used", None),
    ]
    unused = warnings("sort s\npredicate p\nfunction g(s): s\nconstant c: s\naxiom A: p")
    assert [message for _, message, _ in unused] == [
        "the function 'g' is declared but not used",
        "the constant 'c' is declared but not used",
    ]


def test_a_signature_alone_has_no_warnings():
    assert warnings(TWO) == []


def test_unused_variables_are_warned_of():
    assert warnings(f"{ONE}axiom A: (forall x, y. P(x) & Near(x, x)) & p") == [
        ("3:21", "the variable 'y' is bound but not used", None)
    ]
    guard_only = "axiom A: (exists x where P(x). p) & forall y, z. Near(y, z)"
    assert warnings(ONE + guard_only) == []
    shadowed = "axiom A: (forall x. exists x. P(x) & Near(x, x)) & p"
    assert [place for place, _, _ in warnings(ONE + shadowed)] == ["3:18"]


def test_warnings_do_not_come_with_errors():
    assert findings(f"{ONE}axiom A: forall x: s. zzz") == [
        ("3:23", "unknown predicate 'zzz'", "declared predicates: 'P', 'Near', 'p'")
    ]


def test_a_sort_that_only_an_axiom_mentions_is_used():
    assert warnings("sort s, t\npredicate P(s)\naxiom A: forall x: t. x = x & exists y. P(y)") == []


def test_an_entity_does_not_use_a_predicate_of_its_name():
    found = warnings('sort s\npredicate P(s), p\naxiom A: P("p")')
    assert [message for _, message, _ in found] == ["the predicate 'p' is declared but not used"]


# --- sorts that are not written --------------------------------------------------------------


def core(text: str, theory: str | None = None) -> c.Formula:
    signature = None if theory is None else check(parse_theory(theory)).signature
    return check_formula(parse_formula(text), signature).formula


def sorts(formula: c.Formula) -> dict[str, str]:
    nodes: list[c.Core] = [*postorder(formula)]
    return {n.axis.name: n.sort for n in nodes if isinstance(n, c.Variable)}


def test_sorts_are_inferred_from_use():
    assert sorts(core("forall x, y. P(x) & Q(y)", TWO)) == {"x": "s", "y": "t"}
    assert sorts(core("forall x, y. x = y & P(y)", TWO)) == {"x": "s", "y": "s"}
    assert sorts(core("forall x. P(g(x))", TWO)) == {"x": "s"}
    assert sorts(core("forall x. v(x) < 3", TWO)) == {"x": "s"}
    assert sorts(core("forall x. x = ego", TWO)) == {"x": "s"}
    assert sorts(core("forall (x, y) in r. true & x = ego", TWO)) == {"x,y": "s"}


def test_a_single_sort_needs_no_inference():
    assert sorts(core("forall x, y. x = y", "sort s")) == {"x": "s", "y": "s"}
    assert core('"a" = "b"', "sort s") == c.Equal(c.Constant("a", "s"), c.Constant("b", "s"))


def test_written_sorts_are_the_inferred_ones():
    assert core("forall x. P(x)", TWO) == core("forall x: s. P(x)", TWO)


def test_sorts_without_a_signature():
    checked = check_formula(parse_formula('forall x. P(x, y) & Q(y) & P("e", y) & v(x) < 3'))
    signature = checked.signature
    x_sort, y_sort = signature.predicates["P"].sorts
    assert signature.predicates["Q"].sorts == (y_sort,)
    assert signature.functions["v"] == th.FunctionDecl("v", (x_sort,), c.REAL)
    assert x_sort != y_sort
    assert set(signature.sorts) == {x_sort, y_sort}
    assert checked.free == (c.Axis("y", sort=y_sort),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("P(x) & P(x, y)", "1:8: error: predicate 'P' takes 1 argument, not 2"),
        ("P(g(x)) & P(g(x, y))", "1:13: error: function 'g' takes 1 argument, not 2"),
        (
            "(forall x: s. Q(x)) & forall y: t. Q(y)",
            "1:38: error: argument 1 of 'Q' is of sort s, but 'y' is of sort t",
        ),
        (
            "forall (x, y) in r. forall (u, v, w) in r. P(x, y, u, v, w)",
            "1:28: error: 'r' lists tuples of 2, not of 3",
        ),
        ("P(x) & x < 3", "1:3: error: 'x' would range over numbers"),
        ("forall x: real. P(x)", "1:8: error: 'x' would range over numbers"),
    ],
)
def test_a_formula_alone_must_fit_itself(text, message):
    with pytest.raises(CheckError) as caught:
        check_formula(parse_formula(text))
    assert message in str(caught.value)


# --- names -----------------------------------------------------------------------------------


def test_constants_quoted_or_not_are_the_same():
    assert core('P("ego")', TWO) == core("P(ego)", TWO) == c.Atom("P", (c.Constant("ego", "s"),))
    assert core("forall ego. P(ego)", TWO) != core('forall ego: s. P("ego")', TWO)
    assert core('P("anyone")', TWO) == c.Atom("P", (c.Constant("anyone", "s"),))
    alone = check_formula(parse_formula("P(ego) & P(x)"), constants=["ego"])
    assert [axis.name for axis in alone.free] == ["x"]


def test_free_variables_keep_their_order():
    checked = check_formula(parse_formula("Near(y, x) & (forall z. Near(z, y)) & P(u)"))
    assert [axis.name for axis in checked.free] == ["y", "x", "u"]


def test_inner_variables_of_the_same_name_are_renamed():
    inner = core("forall x. P(x) & exists x. Near(x, x)", ONE)
    assert inner == core("forall x. P(x) & exists x_1. Near(x_1, x_1)", ONE)
    assert inner != core("forall x. P(x) & exists y. Near(x, y)", ONE)
    thrice = core("forall x. P(x) & exists x. P(x) & exists x. P(x)", ONE)
    assert set(sorts(thrice)) == {"x", "x_1", "x_2"}
    apart = core("(forall x. P(x)) & (exists x. P(x))", ONE)
    assert set(sorts(apart)) == {"x"}


def test_a_renamed_variable_does_not_capture_a_bound_one():
    taken = core("forall x_1. forall x. P(x) & Near(x_1, x) & exists x. Near(x, x_1)", ONE)
    assert set(sorts(taken)) == {"x", "x_1", "x_2"}


def test_a_renamed_variable_does_not_capture_a_free_one():
    table = {"Near": [[0.1, 0.9], [0.3, 0.5]]}
    text = "forall x. Near(x, x) -> exists x. Near(x, {})"
    plain = evaluate(text.format("z"), table, semantics="godel")
    assert evaluate(text.format("x_1"), table, semantics="godel").tolist() == plain.tolist()


def test_equal_formulas_of_a_theory_are_one_object():
    checked = check(parse_theory(f"{ONE}axiom A: G(p & p)\naxiom B: F G(p & p)"))
    first, second = (axiom.formula for axiom in checked.axioms)
    assert isinstance(second, c.Aggregate)
    assert second.arg is first


def test_what_a_checked_theory_holds():
    theory = parse_theory(f"{ONE}axiom A weight 3: forall x. P(x)")
    checked = check(theory)
    assert isinstance(checked, CheckedTheory)
    (axiom,) = checked.axioms
    assert (axiom.name, axiom.weight, axiom.source) == ("A", 3.0, theory.axiom("A").formula)
    assert not axiom.hard
    assert set(checked.signature.predicates) == {"P", "Near", "p"}


def test_a_checked_theory_knows_which_axioms_are_hard():
    theory = parse_theory(f"{ONE}hard axiom A: forall x. P(x)\naxiom B: forall x. P(x)")
    checked = check(theory)
    assert [axiom.hard for axiom in checked.axioms] == [True, False]
    assert checked.source.axioms == theory.axioms
    assert "hard axiom A: forall x. P(x)\naxiom B:" in str(checked.source)
    assert "hard" in checked._repr_html_()
    assert "hard" not in check(parse_theory(f"{ONE}axiom A: p"))._repr_html_()


def test_formulas_from_python_are_checked_too():
    """There is no place to point at, but the message is the same."""
    theory = th.Theory(
        (th.SortDecl("s"), th.SortDecl("s"), th.PredicateDecl("P", ("s",))),
        (th.Axiom("A", f.Atom("P", (f.Var("x"),))), th.Axiom("A", f.Atom("Z"))),
    )
    with pytest.raises(CheckError) as caught:
        check(theory)
    assert [d.message for d in caught.value.diagnostics] == [
        "the sort 's' is declared twice",
        "'x' is neither bound nor a constant",
        "two axioms are named 'A'",
        "unknown predicate 'Z'",
    ]
    assert all(d.span is None for d in caught.value.diagnostics)


def test_a_formula_as_text_is_checked_against_a_theory():
    theory = parse_theory("sort car\npredicate Stop(car)\naxiom A: forall x. F Stop(x)")
    for declared in (theory, check(theory), check(theory).signature):
        (free,) = check_formula("G Stop(x)", declared).free
        assert (free.name, free.sort) == ("x", "car")
        with pytest.raises(CheckError, match="Run"):
            check_formula("G Run(x)", declared)
    assert check(theory)["A"].name == "A"
    assert [axiom.name for axiom in check(theory)] == ["A"]
