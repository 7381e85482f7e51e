"""How a formula stands: the same numbers, in the same words, for all who ask."""

import pytest

import fotltn as fot
from fotltn.analysis.after_changes import outcome
from fotltn.analysis.audit_data import CrispAudit
from fotltn.analysis.overview import overview
from fotltn.analysis.tally import CellTally
from fotltn.analysis.view import View
from fotltn.analysis.violations import ranked
from fotltn.logic.check import check
from tests.report.pages import checked

THEORY = """\
sort car
predicate Near(car), Stop(car)
axiom Obey: forall x. G(Near(x) -> F[1,2] Stop(x))
"""
#: At the last points of `late` it may still stop; `rash` has not stopped in time.
FACTS = {
    "predicate": ["Near", "Near", "Near", "Stop"],
    "arg1": ["late", "late", "rash", "calm"],
    "time": [3, 4, 0, 2],
}


@pytest.fixture(scope="module")
def view() -> View:
    theory = check(fot.parse(THEORY))
    return View(fot.read(theory, FACTS), theory=theory)


def test_all_who_ask_are_told_the_same(view):
    cells = view.cells("Obey")
    wanted = (15, 1, 2, 0)  # three cars and five times; one violation, two undecided
    worst, heat, seen = cells.worst(), cells.over_time(), overview(cells, cells.value())
    audited = view.audit().axiom("Obey").on_model
    for tally in (worst, heat.tally, seen.standing, outcome(cells), audited, cells.counts().tally):
        assert tally.numbers == wanted
        assert (tally.decided, tally.rate, tally.holds) == (13, 1 / 13, False)
        assert tally.words() == "1 of 13 cells is violated, 2 undecided"
    first = cells.find(worst[0].binding, worst[0].time or 0, worst[0].trace)
    assert (worst[0].binding, worst[0].time, worst[0].standing) == ({"x": "rash"}, 0, "yes")
    assert heat.first == seen.standing.worst == first


def test_a_violation_is_worse_than_what_is_weaker():
    theory = check(fot.parse("predicate A\naxiom N: G A"))
    data = fot.tables(theory, A=[0.45, 0.3, 0.9])
    cells = View(data, threshold=0.2, theory=theory).cells("N")
    assert cells.over_time().first == cells.find({}, 1)  # no violation: the weakest
    cells = View(data, threshold=0.5, theory=theory).cells("N")
    assert cells.worst(1)[0].time == 1
    final = check(fot.parse("predicate A, B\naxiom N: G(A -> X B)"))
    data = fot.tables(final, A=[0.6, 0.0, 1.0], B=[0.0, 0.45, 0.0])
    cells = View(data, theory=final).cells("N")
    assert [(one.time, one.standing) for one in cells.worst()] == [(0, "yes"), (2, "undecided")]
    assert cells.worst(2)[0].value > cells.worst(2)[1].value
    assert cells.over_time().first == cells.find({}, 0)


def test_what_nothing_is_decided_of_has_no_rate():
    nothing = CellTally(2, 0, 2, 5)
    assert (nothing.rate, nothing.holds) == (None, True)
    assert nothing.words("1 weak") == (
        "0 of 0 cells are violated, 2 undecided, 1 weak. 5 more do not count: an entity is not "
        "present"
    )


def test_old_names_warn(view):
    audited = CrispAudit(4, 1, 2, 0)
    for old, now in (("violations", 1), ("violation_rate", 0.5), ("cells", 4), ("truncated", 2)):
        with pytest.warns(DeprecationWarning, match=f"CrispAudit.{old} is now called"):
            assert getattr(audited, old) == now
    (one,) = ranked([view.cells("Obey").worst(1)], {"Obey": 1.0}, 2)
    with pytest.warns(DeprecationWarning, match=r"Ranked\.violation is now called cell"):
        assert one.violation is one.cell


def test_machines_are_told_of_worst_cells_and_the_old_key_stays(view):
    said = view.cells("Obey").worst(3).as_dict()
    assert [cell["violated"] for cell in said["worst"]] == [True, False, False]
    assert said["violations"] == said["worst"]
    assert (said["count"], said["decided"]) == (15, 13)


def test_the_report_says_undecided_and_counts_the_same():
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    from fotltn.reporting.model_report import model_content, model_page

    model = fot.train(THEORY, facts=FACTS, learn=["Stop"], training={"epochs": 1, "seed": 1})
    page = checked(model_page(model_content(model, "m", threshold=0.99)))
    worst = model.violations("Obey", threshold=0.99)
    rows = page.cells("Table: Worst bindings of Obey")
    assert [row[2] for row in rows] == [cell.standing for cell in worst][: len(rows)]
    assert "undecided" in [row[2] for row in rows]
    (axiom,) = page.cells("Table: All axioms")
    assert axiom[5] == f"{worst.violated} of {worst.decided}"
    assert f"{worst.summary}. " in page.by_id("axiom-1").text
