"""What pages say, compared with what the library says."""

import json
import re
import struct
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from fotltn.analysis import overview as looking
from fotltn.analysis.counts import count
from fotltn.errors import LimitError
from fotltn.evaluation import axiom_values
from fotltn.logic.check import check_formula
from fotltn.project.config import read_config
from fotltn.project.train import train
from fotltn.syntax.parse import parse_formula
from fotltn.web import budget
from fotltn.web.budget import check_cost
from fotltn.web.sides import side_of
from tests.project.robots import project
from tests.web.conftest import client_of, served

HTML = {"accept": "text/html"}
VOID = {"meta", "link", "input", "br"}


class Balanced(HTMLParser):
    """Refuses a page whose tags do not match, or whose ids are not unique."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.ids += [v for k, v in attrs if k == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def text_of(page: str) -> str:
    parser = Balanced()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids))
    return " ".join(parser.text.split())


def get(client, path: str, **params):
    found = client.get(path, params=params)
    assert found.status_code == 200, found.text
    return found.json()


def unpacked(content: bytes) -> tuple[Any, Any]:
    (length,) = struct.unpack("<I", content[:4])
    head = json.loads(content[4 : 4 + length])
    cells = np.frombuffer(content[4 + length :], np.uint8)
    return head, cells.reshape(len(head["labels"]), -1)


# --- axioms -----------------------------------------------------------------------------------


def test_the_theory_says_what_the_library_says(client, facts):
    found = get(client, "/")
    while not found["complete"]:
        found = get(client, "/")
    assert [a["axiom"] for a in found["axioms"]] == [a.name for a in facts.view.theory.axioms]
    for one, axiom in zip(found["axioms"], facts.view.theory.axioms, strict=True):
        (value,) = one["values"]
        wanted = axiom_values({"": axiom.formula}, facts.view.tables, facts.view.semantics)[""]
        counts, _ = count(facts.view.cells(axiom))
        violated = (counts.support - counts.held).sum()
        assert one["text"] == str(axiom.source)
        assert value["value"] == pytest.approx(float(wanted), abs=1e-9)
        assert (value["count"], value["violated"]) == (counts.cells.sum(), violated)
    assert found["inspected"][0]["entities"] == {"agent": 3, "place": 1}


def test_hard_axioms_are_marked(client, pair):
    hard = {one["axiom"]: one["hard"] for one in get(client, "/")["axioms"]}
    assert [name for name, is_hard in hard.items() if is_hard] == ["Fine"]
    assert not any(one["hard"] for one in get(pair, "/compare")["axioms"])
    for path, marks in (("/", 1), ("/axiom/Fine", 1), ("/axiom/Ever", 0)):
        page = client.get(path, headers=HTML).text
        assert page.count('<span class="soft">hard</span>') == marks


def test_the_end_of_a_trace_is_a_choice(facts):
    text = "forall x. G(rain -> F[1,2] Stop(x))"
    standings = []
    for end in ("undecided", "final"):
        for running in served(facts.under(end=end)):
            with client_of(running) as visitor:
                assert get(visitor, "/")["inspected"][0]["end"] == end
                said = "A cell that fails only because its trace ends is undecided"
                assert (said in visitor.get("/", headers=HTML).text) is (end == "undecided")
                standings.append(get(visitor, "/formula", text=text))
    first, second = standings
    assert first["undecided"] == 6  # three agents, where it rains at the last point of a trace
    assert second["undecided"] == 0
    assert second["violated"] == first["violated"] + 6
    assert second["decided"] == first["decided"] + 6
    assert second["count"] == first["count"]


def test_the_worst_cell_is_the_worst_violation(client, pair, facts, models):
    for visitor, inspected in ((client, facts), (pair, models[0])):
        for one in get(visitor, "/")["axioms"]:
            get(visitor, f"/axiom/{one['axiom']}")  # now it is computed
        for one in get(visitor, "/")["axioms"]:
            worst = one["values"][0]["worst"]
            found = inspected.view.cells(one["axiom"]).worst(1)
            if not len(found) or found[0].value >= 1 - 1e-6:
                continue
            assert worst is not None, one["axiom"]
            where = {"row": worst["row"], "time": worst["time"]}
            cell = get(visitor, f"/axiom/{one['axiom']}/cell", **where)
            assert cell["value"] == pytest.approx(found[0].value, abs=1e-6), one["axiom"]


def test_the_worst_row_holds_the_worst_violation(client, facts):
    wanted = facts.view.cells("Stops").worst(1)[0]
    found = get(client, "/axiom/Stops")
    worst = found["rows"][0]
    assert (worst["binding"], worst["at"]) == (wanted.binding, wanted.time)
    assert worst["trace"] == facts.view.tables.names.trace(wanted.trace)
    assert worst["lowest"] == pytest.approx(wanted.value, abs=1e-6)
    assert found["total"] == 6  # 3 agents in 2 traces


def test_rows_travel_as_bytes(client):
    shown = get(client, "/axiom/Stops", count=1000)
    head, cells = unpacked(client.get("/axiom/Stops?format=bytes").content)
    assert (head["start"], head["rows"]) == (0, 6)
    assert [one["row"] for one in head["labels"]] == [row["row"] for row in shown["rows"]]
    for row, own in zip(shown["rows"], cells.tolist(), strict=True):
        wanted = [255 if v is None else round(v * 254) for v in row["values"]]
        assert own == pytest.approx(wanted, abs=1)
    second, part = unpacked(client.get("/axiom/Stops?format=bytes&from=2&count=3").content)
    assert second["labels"] == head["labels"][2:5]
    assert part.tolist() == cells[2:5].tolist()


def test_a_trace_an_entity_and_an_order_can_be_chosen(client):
    whole = get(client, "/axiom/Stops")
    one = get(client, "/axiom/Stops", trace="two <b>")
    assert one["trace"] == "two <b>"
    assert [r for r in whole["rows"] if r["trace"] == "two <b>"] == one["rows"]
    assert 0 < one["total"] < whole["total"]
    found = get(client, "/axiom/Stops", find="WALKER")
    assert [r["binding"] for r in found["rows"]] == [{"x": "walker & co"}] * 2
    named = get(client, "/axiom/Stops", sort="name")
    assert [r["row"] for r in named["rows"]] == sorted(r["row"] for r in whole["rows"])
    assert get(client, "/axiom/Stops", find="nobody")["rows"] == []
    assert get(client, "/axiom/Paired", find="walker ego")["total"] == 2  # both words
    assert get(client, "/axiom/Paired", find="walker nobody")["total"] == 0
    paired = get(client, "/axiom/Paired", find="walker")
    assert [r["binding"] for r in paired["rows"]] == [{"x": "walker & co", "y": "ego"}] * 2


def test_a_cell_is_explained(client):
    row = get(client, "/axiom/Stops")["rows"][0]
    found = get(client, "/axiom/Stops/cell", row=row["row"], time=row["at"])
    assert found["binding"] == row["binding"]
    assert found["value"] == pytest.approx(row["lowest"], abs=1e-6)
    assert found["tree"]["value"] == pytest.approx(found["value"], abs=1e-6)
    assert found["truth"] is False
    assert len(found["repair"]["flips"]) == 1
    assert found["influence"]
    assert {"rain", "Car(ego)"} <= {line["atom"] for line in found["timelines"]}
    missing = client.get("/axiom/Guarded/cell", params={"row": 0, "time": 3})
    assert missing.status_code == 404
    assert "does not count" in missing.json()["diagnostics"][0]["message"]


def test_cells_and_rows_are_addressed_by_names(client):
    for name in ("Stops", "Paired"):
        for row in get(client, f"/axiom/{name}")["rows"]:
            assert row["place"] == {**row["binding"], "trace": row["trace"], "t": row["at"]}
            place = {k: v for k, v in row["place"].items() if v is not None}
            by_name = get(client, f"/axiom/{name}/cell", **place)
            by_row = get(client, f"/axiom/{name}/cell", row=row["row"], time=row["at"])
            assert by_name == by_row
    page = client.get("/axiom/Stops", headers=HTML).text
    assert "/axiom/Stops/cell?x=walker+%26+co&amp;trace=one&amp;t=" in page
    head, _ = unpacked(client.get("/axiom/Stops?format=bytes").content)
    assert head["labels"][0]["at"].startswith("x=")
    one = get(client, "/predicate/At/row", x="ego", y="north", trace="one", t=0)
    assert one["values"][0] == 1.0
    timed = get(client, "/formula/cell", text="Stop(t) & rain", row=0, t=1)  # a variable named t
    assert timed["place"] == {"row": 0, "t": 1}


def test_of_very_many_bindings_those_with_violations_are_shown(facts, client, monkeypatch):
    """With a lower limit: value and counts stay, and every cell still opens."""
    names = ("Stops", "Paired", "Now")
    plain = {name: get(client, f"/axiom/{name}", count=100) for name in names}
    monkeypatch.setattr(looking, "MANY", 1)
    for running in served(facts):
        with client_of(running) as visitor:
            for name, every in plain.items():
                some = get(visitor, f"/axiom/{name}", count=100)
                assert (some["every"], every["every"]) == (False, True)
                for key in ("value", "count", "decided", "violated", "undecided"):
                    assert some[key] == pytest.approx(every[key]), (name, key)
                wrong = [(r["binding"], r["trace"]) for r in every["rows"] if r["violated"]]
                shown = [(r["binding"], r["trace"]) for r in some["rows"] if r["violated"]]
                assert sorted(map(str, shown)) == sorted(map(str, wrong))
                for row in every["rows"]:  # any binding, whether it is shown or not
                    place = {k: v for k, v in row["place"].items() if v is not None}
                    here, there = (
                        get(one, f"/axiom/{name}/cell", **place) for one in (visitor, client)
                    )
                    assert here["binding"] == there["binding"]
                    assert here["value"] == pytest.approx(there["value"], abs=1e-6)
                    assert here["repair"] == there["repair"]
                page = visitor.get(f"/axiom/{name}", headers=HTML).text
                assert "too many bindings to show" in text_of(page)
            excluded = visitor.get("/axiom/Guarded/cell", params={"x": "walker & co", "t": 0})
            assert excluded.status_code == 404


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"x": "eggo"}, "no entity of sort 'agent' is named 'eggo'"),
        ({"z": "ego"}, "unknown parameter 'z'"),
        ({"x": "ego", "row": 1}, "by its row or by its entities"),
        ({"x": "ego", "t": 1, "time": 1}, "the time is given twice"),
        ({"x": "ego", "t": 9}, "'t' must be a whole number from 0 to 3"),
        ({"x": "ego", "trace": "three"}, "there is no trace 'three'"),
    ],
)
def test_wrong_names_are_told(client, asked, told):
    answer = client.get("/axiom/Stops/cell", params=asked)
    assert answer.status_code in (400, 404)
    assert told in answer.json()["diagnostics"][0]["message"]
    paired = client.get("/axiom/Paired/cell", params={"x": "ego", "y": "ego"})
    assert "is not a tuple of the relation 'pairs'" in paired.json()["diagnostics"][0]["message"]


def test_what_needs_attention_comes_first_and_is_marked(client):
    listed = get(client, "/")
    while not listed["complete"]:
        listed = get(client, "/")
    wrong = [a["axiom"] for a in listed["axioms"] if a["wrong"]]
    assert 0 < len(wrong) < len(listed["axioms"])
    page = client.get("/", headers=HTML).text
    assert f"{len(wrong)} of {len(listed['axioms'])} axioms are violated" in text_of(page)
    order = re.findall(r'class="axiom-name" href="/axiom/(\w+)"', page)
    assert set(order[: len(wrong)]) == set(wrong)
    rates = {a["axiom"]: a["values"][0]["rate"] for a in listed["axioms"]}
    assert [rates[n] for n in order[: len(wrong)]] == sorted(
        (rates[n] for n in wrong), reverse=True
    )
    assert page.count('<span class="badge bad">violated</span>') == len(wrong)
    head, _ = unpacked(client.get("/axiom/Stops?format=bytes").content)
    rows = get(client, "/axiom/Stops", count=100)["rows"]
    assert [one["wrong"] for one in head["labels"]] == [row["violated"] > 0 for row in rows]
    assert {one["wrong"] for one in head["labels"]} == {True, False}


@pytest.mark.parametrize("name", ["Stops", "Guarded", "Paired", "Now", "Ever", "Fine"])
def test_every_axiom_opens_to_a_page_and_its_worst_cell(client, name):
    text = text_of(client.get(f"/axiom/{name}", headers=HTML).text)
    assert name in text
    row = get(client, f"/axiom/{name}")["rows"][0]
    where = {"row": row["row"], "time": row["at"]}
    page = client.get(f"/axiom/{name}/cell", params=where, headers=HTML)
    assert page.status_code == 200
    assert "Why: every part with its value" in text_of(page.text)


def test_names_are_escaped(client):
    for path in ("/", "/axiom/Stops", "/predicate/Car", "/formula?text=Stop(x)"):
        page = client.get(path, headers=HTML).text
        assert "<script>alert" not in page
        assert "two <b>" not in page
    assert "<script>alert(1)</script>" in text_of(client.get("/axiom/Stops", headers=HTML).text)


# --- formulas ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["forall x. G(Stop(x) -> rain)", "F rain", "exists x. Stop(x)", "∀x. □ Car(x)"]
)
def test_a_closed_formula_has_the_librarys_value(client, facts, text):
    checked = check_formula(parse_formula(text), facts.view.theory.signature)
    wanted = axiom_values({"": checked.formula}, facts.view.tables, facts.view.semantics)[""]
    found = get(client, "/formula", text=text)
    assert found["value"] == pytest.approx(float(wanted), abs=1e-9)


def test_free_variables_become_rows(client):
    found = get(client, "/formula", text="Stop(x) & At(x, y)", count=100)
    assert found["value"] is None
    assert found["variables"] == ["x", "y"]
    ego = next(r for r in found["rows"] if r["binding"]["x"] == "ego" and r["trace"] == "one")
    assert ego["values"] == [1.0, 0.0, 0.0, 0.0]
    other = next(r for r in found["rows"] if r["trace"] == "two <b>")
    assert other["values"][2:] == [None, None]  # that trace has two points
    cell = get(client, "/formula/cell", text="Stop(x) & At(x, y)", row=ego["row"], time=0)
    assert cell["tree"]["kind"] == "and"


@pytest.mark.parametrize("text", ["Stop(x", "Stopp(x)", "Stop(x, y) & Nope", "forall x. rain"])
def test_messages_are_those_of_the_command_line(client, facts, text):
    try:
        check_formula(parse_formula(text, source="formula"), facts.view.theory.signature)
        wanted = None
    except ValueError as error:
        wanted = str(error)
    found = client.get("/formula", params={"text": text})
    page = client.get("/formula", params={"text": text}, headers=HTML)
    assert page.status_code == 200  # a page that shows messages is a page
    if wanted is None:
        assert found.status_code == 200
        return
    assert found.status_code == 400
    messages = [d["message"] for d in found.json()["diagnostics"]]
    assert messages
    assert all(message in wanted for message in messages)
    for line in wanted.splitlines():
        assert " ".join(line.split()) in text_of(page.text)


def test_a_formula_that_is_too_large_is_refused_with_what_it_needs(facts):
    for running in served(facts, budget=1900):
        with client_of(running) as client:
            found = client.get("/formula", params={"text": "Stop(x) & Stop(y) & Stop(z)"})
            assert found.status_code == 413
            message = found.json()["diagnostics"][0]["message"]
            assert "need 1,944 bytes" in message  # 3³ bindings, 4 times, 2 traces, 9 bytes
            assert "budget of 1,900" in message
            assert client.get("/formula", params={"text": "rain"}).status_code == 200


def test_a_formula_that_would_take_too_long_is_refused(facts, monkeypatch):
    parsed = parse_formula("exists y, z. Stop(y) & Stop(z) & Stop(x)")
    cells = facts.view.cells(check_formula(parsed, facts.view.theory.signature))
    check_cost(cells)
    monkeypatch.setattr(budget, "MAX_OPERATIONS", 100)
    with pytest.raises(LimitError, match=r"needs about [\d,]+ operations; at most 100 are allowed"):
        check_cost(cells)
    with pytest.raises(LimitError, match=r"7 steps need 640 bytes together, .* budget of 300"):
        check_cost(cells.viewed(budget=300))


# --- predicates and two models ----------------------------------------------------------------


def test_predictions_stand_beside_labels(pair, models):
    found = get(pair, "/predicate/Crossing", count=100)
    model = models[0].model
    assert model is not None
    table = model.tables.predicate("Crossing")[0]
    for row in found["rows"]:
        assert row["values"] == pytest.approx(table[row["row"]].tolist(), abs=1e-6)
    stated = model.world.test
    assert stated is not None
    assert found["tested"] == len(stated.truth["Crossing"])
    assert found["labelled"] == found["tested"] + len(model.world.labels.truth["Crossing"])
    errors = [r["error"] for r in found["rows"] if r["error"] is not None]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0
    first = found["rows"][0]
    one = get(pair, "/predicate/Crossing/row", row=first["row"])
    assert one["labels"] == first["labels"]
    assert len(one["other"]) == len(one["values"])
    _, labels = unpacked(pair.get("/predicate/Crossing?format=bytes&show=labels").content)
    assert set(np.unique(labels)) <= {0, 254, 255}
    assert (labels != 255).sum() == found["labelled"]


def test_a_predicate_shows_how_reliable_its_degrees_are(pair, models):
    model = models[0].model
    assert model is not None
    report = model.metrics(threshold=models[0].view.threshold)
    assert report is not None
    measured = report.predicates["Crossing"].calibration
    calibration = get(pair, "/predicate/Crossing")["calibration"]
    assert calibration["error"]["value"] == pytest.approx(measured.error.value)
    page = pair.get("/predicate/Crossing", headers=HTML).text
    assert text_of(page).count("Reliability") == 1
    assert page.count('<circle class="point"') == sum(b.count > 0 for b in measured.bins)
    assert page.count('<text class="tick"') == 8  # numbers on both axes, and what they are
    assert get(pair, "/predicate/Close")["calibration"] is None
    assert "Reliability" not in pair.get("/predicate/Close", headers=HTML).text


def test_sampled_models_are_inspected_as_others(tmp_path):
    model = train(read_config(project(tmp_path)))
    for server in served(side_of(model)):
        with client_of(server) as client:
            shares = get(client, "/predicate/Slow", count=10)
            assert shares["learned"] is True
            table = model.tables.predicate("Slow")[0]
            for row in shares["rows"]:
                assert row["values"] == pytest.approx(table[row["row"]].tolist(), abs=1e-6)
            for path in ("/", "/axiom/Signs", "/predicate/Slow", "/predicates"):
                assert text_of(client.get(path, headers=HTML).text)


def test_two_models_are_compared(pair, models):
    found = get(pair, "/compare")
    assert found["comparable"] is True
    for one in found["axioms"]:
        values = [
            axiom_values({"": a.formula}, m.view.tables, m.view.semantics)[""].item()
            for m in models
            for a in m.view.theory.axioms
            if a.name == one["axiom"]
        ]
        assert one["values"] == pytest.approx(values, abs=1e-6)
        assert one["difference"] == pytest.approx(values[1] - values[0], abs=1e-6)
    tables = [m.view.tables.predicate("Stop") for m in models]
    stop = next(p for p in found["predicates"] if p["predicate"] == "Stop")
    assert stop["distance"] == pytest.approx(float((tables[0] - tables[1]).abs().mean()), abs=1e-6)
    reports = [m.model.metrics().predicates["Stop"].pr_auc.value for m in models]
    assert stop["pr_auc"] == pytest.approx(reports)
    apart = get(pair, "/axiom/A3", sort="difference", count=1000)["rows"]
    other = {r["row"]: r for r in get(pair, "/axiom/A3", model=2, count=1000)["rows"]}
    means = [
        np.mean([abs(a - b) for a, b in zip(r["values"], other[r["row"]]["values"], strict=True)])
        for r in apart
    ]
    assert means == sorted(means, reverse=True)
    mine = unpacked(pair.get("/axiom/A3?format=bytes&by=1").content)[0]
    theirs = unpacked(pair.get("/axiom/A3?format=bytes&model=2&by=1").content)[0]
    assert mine == theirs  # side by side, rows are in one order


def test_what_makes_numbers_of_two_unlike_is_told(models, pair):
    assert get(pair, "/compare")["warnings"] == []
    page = pair.get("/compare", headers=HTML).text
    assert page.index("Scores on test facts") < page.index('id="axioms"')
    stop = next(p for p in get(pair, "/compare")["predicates"] if p["predicate"] == "Stop")
    assert stop["gain"] == pytest.approx(stop["pr_auc"][1] - stop["pr_auc"][0])
    assert all(0 < share < 1 for share in stop["chance"])
    one, other = models
    assert other.model is not None
    untested = replace(other.model, world=replace(other.model.world, test=None))
    unlike = other.under(p=9.0, threshold=0.9)._replace(model=untested)
    for running in served(one, unlike):
        with client_of(running) as visitor:
            told = get(visitor, "/compare")["warnings"]
            for words in ("different semantics", "different thresholds", "on different facts"):
                assert any(words in text for text in told)
            shown = text_of(visitor.get("/compare", headers=HTML).text)
            assert shown.count("are not comparable") == 3


def test_a_repair_changes_only_what_is_learned_unless_asked(pair, models):
    row = get(pair, "/axiom/A1", model=2)["rows"][0]
    where = {"model": 2, "row": row["row"], "time": row["at"]}
    for change, fixed in (("learned", True), ("all", False)):
        found = get(pair, "/axiom/A1/cell", change=change, **where)
        flips = found["repair"]["flips"] or []
        facts = [f["predicate"] for f in found["influence"]] + [f["predicate"] for f in flips]
        assert found["change"] == change
        if fixed:
            assert set(facts) <= set(models[1].view.learned)


@pytest.mark.parametrize(
    "path",
    ["/", "/axiom/A1", "/axiom/A1?model=2&sort=difference", "/axiom/A1/cell?row=3&time=2",
     "/formula", "/formula?text=Stop(x)", "/formula?text=Stop(", "/formula/cell?text=Stop(x)",
     "/predicates", "/predicate/Stop", "/predicate/Car", "/predicate/Close",
     "/predicate/Stop/row?row=1", "/predicate/Car/row?row=1", "/compare"],
)  # fmt: skip
def test_every_page_is_html_and_json(pair, path):
    page = pair.get(path, headers=HTML)
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "as JSON" in text_of(page.text)
    joined = f"{path}{'&' if '?' in path else '?'}format=json"
    asked = [pair.get(path), pair.get(joined, headers=HTML)]
    assert asked[0].json() == asked[1].json()
    wrong = path in ("/formula", "/formula?text=Stop(")
    assert {a.status_code for a in asked} == ({400} if wrong else {200})
    assert asked[0].json()["ok"] is not wrong
