"""The scene: entities with their facts at each time, and what they violate then."""

from fotltn.web.sides import side_of_facts
from tests.web.conftest import client_of, served
from tests.web.test_pages import HTML, get, text_of


def test_a_scene_has_the_facts_and_the_violations_of_each_time(client, facts):
    scene = get(client, "/scene", trace="one")
    assert scene["sorts"] == ["agent"]
    stop = facts.view.tables.predicate("Stop")[0]
    names = list(facts.view.tables.names.entities["agent"])
    for row, name in enumerate(scene["entities"]):
        degrees = stop[names.index(name), : scene["times"]]
        assert scene["predicates"]["Stop"][row] == [round(254 * float(u)) for u in degrees]
    sums = [sum(row) for row in scene["violations"]]
    assert sums == sorted(sums, reverse=True)
    wrong = {name: [0] * scene["times"] for name in names}
    listed = [0] * scene["times"]
    for axiom in ("Stops", "Guarded", "Paired"):
        heat = facts.view.cells(facts.view.theory.axiom(axiom)).over_time()
        for row, time in (heat.truth == 0).nonzero().tolist():
            if heat.cells.cell(row, 0).trace == 0:
                listed[time] += 1
                for entity in heat.cells.binding(heat.cells.cell(row, 0)).values():
                    wrong[entity][time] += 1
    assert scene["violations"] == [wrong[name] for name in scene["entities"]]
    assert [len(one) for one in scene["violated"]] == [min(4, count) for count in listed]
    for one in (v for now in scene["violated"] for v in now):
        assert client.get(one["address"]).json()["truth"] is False
    page = client.get("/scene", params={"trace": "one", "t": 1}, headers=HTML).text
    assert "time 1" in text_of(page)
    assert "<script>alert" not in page
    found = get(client, "/scene", trace="one", find="walker")
    assert found["entities"] == ["walker & co"]


def test_coordinates_make_a_plane(tmp_path):
    (tmp_path / "t.fot").write_text(
        "sort car\npredicate Stop(car)\ntemporal function x(car): real\n"
        "temporal function y(car): real\naxiom A: forall c. G Stop(c)\n".replace("\\\n", "\n")
    )
    rows = ["predicate,arg1,time,truth,value"]
    for time in range(3):
        rows += [f"Stop,a,{time},1,", f"x,a,{time},,{time}.5", f"y,a,{time},,{-time}"]
    (tmp_path / "f.csv").write_text("\n".join(rows).replace("\\\n", "\n") + "\n")
    for running in served(side_of_facts(tmp_path / "t.fot", [tmp_path / "f.csv"])):
        with client_of(running) as visitor:
            plane = get(visitor, "/scene")["plane"]
            assert plane == [[[0.5, 0.0]], [[1.5, -1.0]], [[2.5, -2.0]]]
            assert 'class="plane"' in visitor.get("/scene", headers=HTML).text


def test_without_facts_about_one_entity_there_is_none(tmp_path):
    (tmp_path / "t.fot").write_text("predicate rain\naxiom A: F rain\n")
    (tmp_path / "f.csv").write_text("predicate,time\nrain,1\n")
    for running in served(side_of_facts(tmp_path / "t.fot", [tmp_path / "f.csv"])):
        with client_of(running) as visitor:
            assert visitor.get("/scene").status_code == 404
            assert 'href="/scene' not in visitor.get("/", headers=HTML).text
