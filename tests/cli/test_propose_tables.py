"""Projects that are proposed for several tables: what they share, and that they train."""

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest

import fotltn
from fotltn.errors import DataError
from fotltn.project.propose import Proposal, propose
from fotltn.project.proposed_files import project_text, theory_text
from fotltn.project.table_columns import Role
from tests.cli.test_propose import write


def plant(folder: Path, hours: int = 24) -> list[Path]:
    """Readings of pumps, the pumps, the pipes between them, and a log of what was done."""
    draw = random.Random(2)
    pumps = [f"p{i}" for i in range(8)]
    pipes = [[a, b] for a, b in pairwise(pumps)]  # every pump feeds one
    readings: list[list[object]] = []
    log: list[list[object]] = []
    failed = dict.fromkeys(pumps, False)
    for hour in range(hours):
        stamp = f"2024-03-01T{hour:02d}"
        for pump in pumps:
            label: object = "" if draw.random() < 0.3 else int(failed[pump])
            readings.append(
                [pump, f"{stamp}:00", round(draw.gauss(5, 1) - 3 * failed[pump], 2), label]
            )
            if failed[pump] and draw.random() < 0.4:
                log.append([f"{stamp}:{draw.randrange(60):02d}", pump, "repair"])
                failed[pump] = False
            elif draw.random() < 0.15:
                failed[pump] = True
            if draw.random() < 0.3:
                log += [[f"{stamp}:{draw.randrange(60):02d}", pump, "look at"]] * 2
    kinds: list[list[object]] = [
        [p, draw.choice(["old", "new"]), draw.randrange(30), int(p > "p3")] for p in pumps
    ]
    kinds.append(["p99", "new", 1, 0])
    return [
        write(folder / "readings.csv", ["pump", "hour", "pressure", "failed"], readings),
        write(folder / "pumps.csv", ["pump id", "kind", "age", "big"], kinds),
        write(folder / "pipes.csv", ["from", "to"], pipes),
        write(folder / "log.csv", ["when", "pump", "event"], log),
    ]  # fmt: skip


def shop(folder: Path) -> list[Path]:
    """A relation with labels, and the entities of both sides."""
    draw = random.Random(3)
    users, items = [f"u{i}" for i in range(9)], [f"i{i}" for i in range(7)]
    likes = [[u, i, draw.choice(["", 0, 1])] for u in users for i in items]
    return [
        write(folder / "likes.csv", ["user", "item", "likes"], likes),
        write(folder / "users.csv", ["user", "age"], [[u, draw.randrange(70)] for u in users]),
        write(folder / "items.csv", ["item", "price"], [[i, draw.randrange(70)] for i in items]),
    ]


def flights(folder: Path) -> list[Path]:
    """Flights that name planes and airports, and the weather there, with gaps."""
    draw = random.Random(4)
    planes, ports = [f"N{i}" for i in range(6)], ["EWR", "JFK", "ORD"]
    rows = [
        [f"2013-01-{day:02d}T{hour:02d}:00:00Z", plane, draw.choice(ports), draw.randrange(2)]
        for day in range(1, 6) for plane in planes for hour in draw.sample(range(24), 3)
    ]  # fmt: skip
    weather = [
        [port, f"2013-01-{day:02d}T{hour:02d}:00:00Z", draw.randrange(30)]
        for port in ports for day in range(1, 6) for hour in range(24) if draw.random() < 0.95
    ]  # fmt: skip
    return [
        write(folder / "flights.csv", ["time_hour", "tailnum", "origin", "late"], rows),
        write(folder / "planes.csv", ["tailnum", "seats"], [[p, len(p)] for p in planes]),
        write(folder / "airports.csv", ["name", "faa", "height"],
              [[f"{p} airport", p, draw.randrange(99)] for p in ports]),
        write(folder / "weather.csv", ["origin", "time_hour", "wind"], weather),
    ]  # fmt: skip


def wards(folder: Path) -> list[Path]:
    """An event log, and a table of cases with what came of them."""
    draw = random.Random(5)
    cases: list[list[object]] = []
    events: list[list[object]] = []
    for number in range(30):
        case, treated, hour = f"case {number}", draw.random() < 0.5, 0
        for activity in ["Triage", "Blood test", *(["Treatment"] if treated else [])]:
            hour += draw.randrange(3)
            events.append([case, activity, hour])
        cases.append([case, draw.randrange(90), "" if number % 5 == 0 else int(not treated)])
    return [
        write(folder / "events.csv", ["case", "activity", "hour"], events),
        write(folder / "cases.csv", ["case", "age", "returned"], cases),
    ]


def clips(folder: Path) -> list[Path]:
    """People in clips, who are numbered in each; the car of each clip; and what clips are for."""
    draw = random.Random(6)
    people = [
        [f"v{clip}", person, frame, draw.random(), draw.randrange(2)]
        for clip in range(6) for person in range(3) for frame in range(8)
    ]  # fmt: skip
    cars = [[f"v{clip}", frame, draw.randrange(2)] for clip in range(6) for frame in range(8)]
    parts = [[f"v{c}", ["train", "train", "val", "test"][c % 4], "sunny"] for c in range(6)]
    return [
        write(folder / "people.csv", ["clip", "person", "frame", "size", "crossing"],
              [[c, f"n{p}", *rest] for c, p, *rest in people]),
        write(folder / "cars.csv", ["clip", "frame", "stop"], cars),
        write(folder / "videos.csv", ["video", "split", "weather"], parts),
    ]  # fmt: skip


def roles(proposal: Proposal) -> dict[str, dict[str, Role]]:
    return {t.path.stem: {c.name: c.role for c in t.columns} for t in proposal.tables}


def trained(folder: Path, tables: list[Path], call, *options: str) -> fotltn.Model:
    """The model of the project that the command makes."""
    status, _, err = call("new", folder / "p", "--from", *tables, *options)
    assert (status, err) == (0, "")
    status, _, err = call("train", folder / "p", "--epochs", "3")
    assert status == 0, err
    return fotltn.load_model(folder / "p" / "model")


def test_readings_entities_relations_and_events(tmp_path, call):
    tables = plant(tmp_path)
    proposal = propose(tables)
    assert roles(proposal) == {
        "readings": {"pump": Role.ENTITY, "hour": Role.TIME, "pressure": Role.FEATURE,
                     "failed": Role.LEARNED},
        "pumps": {"pump id": Role.ENTITY, "kind": Role.CATEGORY, "age": Role.FEATURE,
                  "big": Role.GIVEN},
        "pipes": {"from": Role.LINK, "to": Role.LINK},
        "log": {"when": Role.TIME, "pump": Role.ENTITY, "event": Role.EVENTS},
    }  # fmt: skip
    assert proposal.sorts == ["pump"]
    assert "RepairEndsFailed" in [rule.name for rule in proposal.rules]
    model = trained(tmp_path, tables, call)
    assert model.facts.entities["pump"][-1] == "p99"  # of which there is no reading
    known = model.theory.signature.predicates
    assert known["Pipes"].sorts == ("pump", "pump")
    assert known["Pipes"].static
    assert not known["LookAt"].static
    assert int(model.tables.predicate("Pipes").sum()) == 7
    repairs = sum("repair" in line for line in tables[3].read_text().splitlines())
    assert int(model.tables.predicate("Repair").sum()) == repairs
    assert model.config.inputs["pump"].neighbours == ("Pipes",)
    moved = model.apply(tmp_path / "p")
    assert moved.predictions().num_rows == model.predictions().num_rows


def test_the_order_of_tables_does_not_matter(tmp_path):
    tables = plant(tmp_path)
    texts = {
        (theory_text(proposal).split("\n\n# Rules")[1], tuple(sorted(roles(proposal))))
        for proposal in (propose(tables), propose(tables[::-1]))
    }
    assert len(texts) == 1
    assert propose(tables[::-1]).main.path.stem == "readings"


def test_a_relation_is_learned(tmp_path, call):
    model = trained(tmp_path, shop(tmp_path), call)
    assert model.theory.signature.predicates["Likes"].sorts == ("user", "item")
    assert model.grounding.open == ("Likes",)
    assert model.tables.predicate("Likes").shape == (1, 9, 7, 1)
    assert {s: f.names for s, f in model.world.fixed.inputs.items()} == {
        "user": ("age",), "item": ("price",),
    }  # fmt: skip


def test_columns_that_name_entities_of_other_tables(tmp_path, call):
    tables = flights(tmp_path)
    proposal = propose(tables)
    assert proposal.sorts == ["plane", "airport"]
    assert roles(proposal)["flights"]["origin"] is Role.LINK
    assert roles(proposal)["airports"] == {"name": Role.UNUSED, "faa": Role.ENTITY,
                                           "height": Role.FEATURE}  # fmt: skip
    model = trained(tmp_path, tables, call)
    assert model.config.inputs["plane"].neighbours == ("Origin",)
    assert (
        int(model.tables.predicate("Origin").sum()) == len(tables[0].read_text().splitlines()) - 1
    )
    assert model.config.data.step == "1h"
    (wind,) = (w for w in model.config.data.wide if w.file == "weather.csv")
    assert wind.missing == {"wind": "last"}


def test_events_of_cases_whose_outcome_is_learned(tmp_path, call):
    tables = wards(tmp_path)
    proposal = propose(tables)
    assert proposal.main.path.stem == "cases"
    rules = {rule.name: rule.axiom for rule in proposal.rules}
    assert rules["EverTreatmentExcludesReturned"] == "forall x. F Treatment(x) -> !Returned(x)"
    model = trained(tmp_path, tables, call)
    assert model.theory.signature.predicates["Returned"].static
    assert not model.theory.signature.predicates["BloodTest"].static


def test_traces_and_what_they_are_for(tmp_path, call):
    tables = clips(tmp_path)
    proposal = propose(tables, ["crossing"])
    assert roles(proposal)["people"]["clip"] is roles(proposal)["cars"]["clip"] is Role.TRACE
    assert roles(proposal)["videos"]["split"] is Role.SPLIT
    model = trained(tmp_path, tables, call, "--learn", "crossing")
    assert model.theory.signature.predicates["Stop"].sorts == ("cars",)
    split = model.config.data.split
    assert split is not None
    assert (split.trace, split.train, split.validation) == ("video", ("train",), ("val",))
    assert model.world.labels.total == 4 * 3 * 8
    assert "not used: videos.csv" in project_text(proposal, None)


def test_what_fits_nowhere_is_said(tmp_path):
    odd = write(tmp_path / "notes.csv", ["text"], [["hello"], ["you"], ["hello"]])
    years = write(tmp_path / "years.csv", ["year", "rain"], [[1990, 3], [1991, 4]])
    proposal = propose([*plant(tmp_path)[:2], odd, years])
    notes = {t.path.stem: t.note for t in proposal.tables if t.note}
    assert notes["notes"] == ("no column links to another table or adds information")
    assert "times do not match those" in notes["years"]
    assert "# not used: notes.csv" in project_text(proposal, None)


def test_wrong_calls(tmp_path, call):
    tables = plant(tmp_path)
    cases = [
        ([tables[1], "--from", tables[0]], "the folder of the project comes before --from"),
        ([tmp_path / "new", tables[0]], "tables come after --from"),
        ([tmp_path / "new", "--from", tables[1], tables[2], "--learn", "faild"], "no table has a"),
        ([tmp_path / "new", "--from", tables[2], tables[3]], "no column of any table is true"),
    ]
    for options, expected in cases:
        status, _, err = call("new", *options)
        assert (status, expected in err) == (1, True), err
    assert not (tmp_path / "new").exists()
    with pytest.raises(DataError, match=r"two tables are named 'readings\.csv'"):
        propose([tables[0], tables[0]])


def test_machines_are_told_of_all_tables(tmp_path, call):
    told = json.loads(call("new", tmp_path / "p", "--from", *plant(tmp_path), "--json").out)
    proposal = told["proposal"]
    assert (proposal["file"], [t["file"] for t in proposal["tables"]]) == (
        "readings.csv", ["pumps.csv", "pipes.csv", "log.csv"],
    )  # fmt: skip
    assert proposal["tables"][1]["columns"]["from"] == {"role": "relation", "why": "of sort pump"}
