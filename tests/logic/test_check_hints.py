"""Bounds that leave nothing, hints that help, and names that something else uses."""

import pytest

from fotltn import check, check_formula, parse_formula
from fotltn.errors import CheckError, DataError
from fotltn.syntax.load import parse_theory
from fotltn.syntax.operators import STRICT, Temporal
from tests.logic.test_check import ONE, TWO


@pytest.mark.reliability
@pytest.mark.parametrize("bound", ["[0]", "[<=0]", "[0,0]"])
@pytest.mark.parametrize("op", [op for op in Temporal if op in STRICT], ids=lambda op: op.name)
def test_a_bound_that_leaves_nothing_is_an_error(op, bound):
    """Of the present alone, a strict operator leaves nothing, as `[1,0]` does."""
    left = "p " if op.value.arity == 2 else ""
    with pytest.raises(CheckError) as caught:
        check_formula(parse_formula(f"{left}{op.ascii}+{bound} p"))
    (error,) = caught.value.diagnostics
    assert error.message == "the bound is the present, which a strict operator leaves out"
    assert error.hint == "write [1], or leave out the '+'"
    check_formula(parse_formula(f"{left}{op.ascii}+[1] p"))
    check_formula(parse_formula(f"{left}{op.ascii}{bound} p"))
    with pytest.raises(CheckError, match=r"the bound \[1,0\] is empty"):
        check_formula(parse_formula(f"{left}{op.ascii}[1,0] p"))


@pytest.mark.reliability
def test_what_the_hint_on_sorts_says_helps():
    signature = check(parse_theory(TWO)).signature
    with pytest.raises(CheckError) as caught:
        check_formula(parse_formula("x = y"), signature)
    said = [(d.message, d.hint) for d in caught.value.diagnostics]
    assert said == [
        (f"cannot tell the sort of '{n}'", f"'{n}' must also occur in a predicate or function")
        for n in "xy"
    ]
    for text in ("x = y & P(x)", "x = y & g(x) = g(x)"):
        free = check_formula(parse_formula(text), signature).free
        assert [(axis.name, axis.sort) for axis in free] == [("x", "s"), ("y", "s")]
    with pytest.raises(CheckError, match=r"write it: forall x: sort\. …"):
        check_formula(parse_formula("forall x. x = x"), signature)
    check_formula(parse_formula("forall x: s. x = x"), signature)


@pytest.mark.reliability
def test_what_something_else_uses_is_used():
    theory = parse_theory(f"{ONE}axiom A: p")
    assert [w.message for w in check(theory, used=["P"]).warnings] == [
        "the predicate 'Near' is declared but not used"
    ]
    assert check(theory, used=["P", "Near"]).warnings == ()


def test_a_checked_theory_knows_its_source():
    theory = parse_theory(f"{TWO}axiom A weight 2: forall (x, y) in r. P(x) & Q(y)")
    assert check(theory).source == theory


@pytest.mark.reliability
def test_a_message_is_not_endless():
    """However long a name in the input is."""
    shown = str(DataError(f"no such entity '{'x' * 10**6}'; there is 'ego'"))
    assert len(shown) < 3000
    assert shown.startswith("error: no such entity 'xxx")
    assert shown.endswith("xxx'; there is 'ego'")
