"""The drawing of a scene: what lines and axes hold."""

import math

import pytest
import torch

from fotltn.web.sides import side_of_facts
from fotltn.web.timeline import MAX_COLUMNS, plane_axes, ticks, timeline
from tests.web.conftest import client_of, served
from tests.web.test_pages import HTML, get, text_of


def test_a_line_has_a_shade_for_each_degree_and_marks_violations():
    degrees = torch.tensor([[0.0, 1.0, 1.0, 0.5, math.nan], [0.0, 0.0, 0.0, 0.0, 0.0]])
    drawn = timeline(degrees, [[0, 0, 2, 1, 0], [0] * 5])
    assert (drawn["width"], drawn["columns"]) == (1, 5)
    first, second = drawn["lines"]
    assert first["shades"] == {0.66: "M3 0h1v1h-1z", 1.0: "M1 0h2v1h-2z"}
    assert (first["absent"], first["wrong"]) == ("M4 0h1v1h-1z", "M2 0h2v1h-2z")
    assert (first["mean"], first["violations"]) == (0.625, 2)
    assert (second["shades"], second["wrong"], second["violations"]) == ({}, "", 0)
    assert [t for t, _ in drawn["ticks"]] == [0, 1, 2, 3, 4]
    assert [place for _, place in drawn["ticks"]] == [10, 30, 50, 70, 90]


def test_many_time_points_share_columns():
    degrees = torch.zeros(1, 2000)
    degrees[0, 7:14] = 1
    wrong = [0] * 2000
    wrong[1999] = 1
    drawn = timeline(degrees, [wrong])
    assert drawn["width"] == 7
    assert drawn["columns"] == 286 <= MAX_COLUMNS
    (line,) = drawn["lines"]
    assert line["shades"] == {1.0: "M1 0h1v1h-1z"}
    assert line["wrong"] == "M285 0h1v1h-1z"


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3.2, 1e6), (5, 5), (-1e308, 1e308)])
def test_ticks_are_few_and_inside(low, high):
    marks = ticks(low, high)
    assert 1 <= len(marks) <= 9
    assert all(low <= mark <= high for mark in marks)


def test_axes_hold_all_places_that_are_known():
    x, y = plane_axes(("lon", "lat"), [[[1.0, 2.0], [3.0, 2.0]], [[math.nan, 2.0], [2.0, 2.0]]])
    assert (x["name"], x["low"], x["high"]) == ("lon", 1.0, 3.0)
    assert (y["low"], y["high"], y["ticks"][0]) == (1.5, 2.5, 1.6)
    assert plane_axes((), ()) == []


def test_entities_that_do_not_fit_are_counted_and_found_by_name(tmp_path):
    (tmp_path / "t.fot").write_text(
        "sort car\nstatic predicate Red(car)\npredicate Stop(car)\n"
        "axiom A: forall c. G(Red(c) -> Stop(c))\n"
    )
    rows = ["predicate,arg1,time", *(f"Stop,c{i},{t}" for i in range(62) for t in range(3))]
    (tmp_path / "f.csv").write_text("\n".join(rows) + "\n")
    for running in served(side_of_facts(tmp_path / "t.fot", [tmp_path / "f.csv"])):
        with client_of(running) as visitor:
            assert get(visitor, "/scene")["predicate"] == "Stop"  # the first that changes
            page = visitor.get("/scene", headers=HTML).text
            assert page.count('class="now"') == 60 + 1  # and that of the legend
            assert "2 more entities" in text_of(page)
            page = visitor.get("/scene?find=c61&predicate=Red", headers=HTML).text
            assert page.count('class="now"') == 1 + 1
            assert "Red over time" in text_of(page)
            assert "more entities" not in page
            assert "No entity fits." in visitor.get("/scene?find=zzz", headers=HTML).text
            assert visitor.get("/scene?predicate=Rd").status_code == 400
