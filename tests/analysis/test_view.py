"""A view: what stays when it is read otherwise, and what it refuses."""

import pytest

import fotltn as fot
from fotltn.analysis.view import View
from fotltn.errors import DataError, Diagnostic
from fotltn.logic.check import check
from fotltn.semantics.config import CRISP, GODEL, STABLE_PRODUCT

THEORY = check(fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)"))
TABLES = fot.tables(THEORY, Near=[1.0, 0.7, 0.0], Stop=[0.0, 1.0, 0.6])


def view(**fields) -> View:
    return View(TABLES, theory=THEORY, **fields)


def test_what_is_none_stays_as_it_is():
    first = view(threshold=0.3, end="final", budget=1000)
    same = first.under(semantics=None, p=None, threshold=None, end=None, budget=None)
    for name in View.__slots__:
        assert getattr(same, name) is getattr(first, name)
    other = first.under(semantics="godel", threshold=0.4, end="undecided", budget=2000)
    assert (other.semantics, other.threshold, other.end, other.budget) == (
        GODEL, 0.4, "undecided", 2000,
    )  # fmt: skip
    assert first.under(p=5).semantics == STABLE_PRODUCT.with_p(5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"threshold": 0.0}, "a threshold must be above 0"),
        ({"threshold": 1.5}, "a threshold must be above 0"),
        ({"end": "finale"}, "the end of a trace is not 'finale'; did you mean 'final'"),
    ],
)
def test_what_makes_no_sense_is_refused(fields, message):
    with pytest.raises(DataError, match=message):
        view(**fields)
    with pytest.raises(DataError, match=message):
        view().under(**fields)


def test_axioms_go_by_name():
    assert view().cells("Obey").text == view().cells(THEORY.axiom("Obey")).text
    with pytest.raises(DataError, match="no axiom 'Obay'; did you mean 'Obey'"):
        view().cells("Obay")


def test_predictions_can_count_as_facts():
    first = view(threshold=0.65)
    decided = first.decided()
    assert decided.tables.predicate("Near").tolist() == [[1, 1, 0]]
    assert decided.tables.predicate("Stop").tolist() == [[0, 1, 0]]
    rules = [list(one.rules(resamples=0)) for one in (first, decided)]
    assert rules[0] == rules[1]
    assert rules[0] == list(first.under(semantics=CRISP).rules(resamples=0))


def test_only_predictions_have_facts_beside_them():
    assert view().fixed == ()
    assert view(learned=["Stop"]).fixed == ("Near",)


def test_the_old_name_of_warnings_warns():
    odd = (Diagnostic("odd"),)
    with pytest.warns(DeprecationWarning, match="fact_warnings is now called warnings"):
        assert view(warnings=odd).fact_warnings == odd


def test_a_view_prints_as_a_line():
    assert repr(view()).startswith("1 axiom over")
    assert "\n" not in repr(view())
