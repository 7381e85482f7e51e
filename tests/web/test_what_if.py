"""What if: an address with changed facts, and what follows, compared with changed facts."""

from dataclasses import replace

import pytest
import torch

from fotltn.analysis.after_changes import outcome
from fotltn.analysis.cells import Cells
from fotltn.analysis.changes import Change, with_changes
from fotltn.analysis.tally import Standing
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.facts import read_facts
from fotltn.web import state
from fotltn.web.sides import Side
from fotltn.web.what_if import MAX_CHANGES, read_change, written
from tests.web.conftest import client_of, served
from tests.web.test_pages import HTML, get, text_of


@pytest.mark.parametrize(
    "change",
    [
        Change("rain", (), 3, None, 0.5),
        Change("Car", ("walker & co",), None, None, 1.0),
        Change("At", ("a, b(c)=d@e~f%20", "<script>alert(1)</script>"), 0, "two <b>", 0.25),
        Change("Stop", ("",), 0, "", 1e-06),
    ],
)
def test_an_address_says_what_is_changed(change):
    assert read_change(written(change)) == change


def changed_cells(facts: Side, name: str, *changes: Change) -> Cells:
    tables = with_changes(facts.view.tables, changes)
    return replace(facts.view, tables=tables).cells(facts.view.theory.axiom(name))


def test_a_cell_follows_its_facts(client, facts):
    plain = get(client, "/axiom/Stops/cell", x="ego", trace="one", t=1)
    assert "changes" not in plain
    change = Change("rain", (), 1, "one", 1.0)
    found = get(client, "/axiom/Stops/cell", x="ego", trace="one", t=1, set=written(change))
    cells = changed_cells(facts, "Stops", change)
    heat = cells.over_time()
    assert found["value"] == pytest.approx(float(heat.values[found["row"], 1]), abs=1e-6)
    assert found["before"]["value"] == pytest.approx(plain["value"])
    assert found["value"] != pytest.approx(plain["value"], abs=1e-3)
    assert found["tree"]["value"] == pytest.approx(found["value"])
    assert found["changes"] == [change.as_dict()]
    while not found["complete"]:
        found = get(client, "/axiom/Stops/cell", x="ego", trace="one", t=1, set=written(change))
    (only,) = found["axioms"]  # no other axiom speaks of rain
    assert only["axiom"] == "Stops"
    assert only["then"] == pytest.approx(cells.value(), abs=1e-9)
    assert only["then_violated"] == heat.violated
    form = get(client, "/axiom/Stops/cell", x="ego", trace="one", t=1,
               fact=written(change, degree=False), degree="1")  # fmt: skip
    assert form["value"] == found["value"]


def test_a_repair_can_be_tried_and_undone(client):
    plain = get(client, "/axiom/Stops/cell", x="<script>alert(1)</script>", trace="one", t=0)
    assert plain["truth"] is False
    where = {"x": "<script>alert(1)</script>", "trace": "one", "t": 0}
    page = client.get("/axiom/Stops/cell", headers=HTML, params=where).text
    assert "<script>alert" not in page
    (link,) = [part.split('"')[0] for part in page.split('href="')[1:] if ">Try it<" in part[:900]]
    address = link.replace("&amp;", "&").split("#")[0]
    fixed = client.get(address).json()
    assert fixed["truth"] is True
    assert fixed["repair"]["needed"] is False
    tried = client.get(address, headers=HTML).text
    assert "Undo all" in text_of(tried)
    assert "Axioms then" in text_of(tried)


def test_changes_are_saved_as_facts(client, facts, tmp_path):
    changes = [Change("rain", (), 3, "one", 0.0), Change("Stop", ("ego",), 2, "one", 0.125)]
    answer = client.get("/facts.csv", params={"set": [written(one) for one in changes]})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="facts.csv"'
    (tmp_path / "facts.csv").write_bytes(answer.content)
    signature = facts.view.theory.signature
    again = tables_of_facts(read_facts([tmp_path / "facts.csv"], signature), signature, sparse=True)
    wanted = with_changes(facts.view.tables, changes)
    assert again.lengths.tolist() == wanted.lengths.tolist()
    for name in signature.predicates:
        assert torch.allclose(again.predicate(name), wanted.predicate(name)), name


def test_of_a_model_only_what_is_changed_is_saved(pair):
    answer = pair.get("/facts.csv", params={"set": ["Stop(c1)@2=1", "Car(c1)=0"]})
    assert answer.text.splitlines() == [
        '"predicate","arg1","time","truth"', '"Stop","c1",2,1', '"Car","c1",,0',
    ]  # fmt: skip
    page = pair.get("/axiom/A3/cell", params={"row": 0, "t": 1}, headers=HTML).text
    assert "the model does not predict again" in text_of(page)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"set": "nonsense"}, "'set' must be a change of a fact, not 'nonsense'"),
        ({"set": "Stop(ego)@1~one=1.5"}, "a degree must be from 0 to 1, not 1.5"),
        ({"set": "Stop(ego)@1~one=--"}, "'--' is not a degree"),
        ({"set": "Stop(nobody)@1~one=1"}, "no entity of sort 'agent' is named 'nobody'"),
        ({"set": "Stop(ego)@99~one=1"}, "the time point 99 does not exist"),
        ({"set": ["rain@1~one=1"] * (MAX_CHANGES + 1)}, "at most 40 facts"),
        ({"fact": "rain@1~one"}, "'fact' and 'degree' belong together"),
    ],
)
def test_what_cannot_be_changed_is_told(client, asked, told):
    for path in ("/axiom/Stops/cell", "/facts.csv"):
        if path == "/facts.csv" and "fact" in asked:
            continue
        answer = client.get(path, params=asked)
        assert answer.status_code in (400, 413)
        assert told in answer.json()["diagnostics"][0]["message"]


def test_an_axiom_that_is_not_there_yet_is_waited_for(facts):
    """The page comes without what takes long, and says so."""
    for running in served(facts):
        with client_of(running) as visitor:
            cell = get(visitor, "/axiom/Stops/cell", x="ego", trace="one", t=1, set="rain@1~one=1")
            while not cell["complete"]:
                assert any(one["pending"] for one in cell["axioms"])
                cell = get(visitor, "/axiom/Stops/cell", x="ego", trace="one", t=1,
                           set="rain@1~one=1")  # fmt: skip
            assert cell["axioms"][0]["then"] is not None


def test_where_there_is_much_only_what_is_reached_is_evaluated(client, facts, monkeypatch):
    change = Change("Stop", ("ego",), 1, "one", 0.125)
    asked = {"x": "ego", "trace": "one", "t": 0, "set": written(change)}
    monkeypatch.setattr(state, "FEW", 0)
    looked_at: list[str] = []

    def recorded(cells: Cells) -> Standing:
        looked_at.append(cells.name)
        return outcome(cells)

    monkeypatch.setattr(state, "outcome", recorded)
    found = get(client, "/axiom/Stops/cell", **asked)
    while not found["complete"]:
        found = get(client, "/axiom/Stops/cell", **asked)
    assert sorted(looked_at) == ["Ever", "Guarded"]
    reached = {one["axiom"]: one for one in found["axioms"]}
    cells = changed_cells(facts, "Stops", change)
    assert reached["Stops"]["then"] == pytest.approx(cells.value(), abs=1e-6)
    assert reached["Stops"]["then_violated"] == cells.over_time().violated
