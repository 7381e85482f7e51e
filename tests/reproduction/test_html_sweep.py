"""The report of a sweep: its tables and plots, of the paper's data sets and of others."""

from __future__ import annotations

import json

import pytest

from reproduction.report.compare import cells
from reproduction.report.html import sweep_content, sweep_page
from reproduction.report.records import find_records, record, write
from tests.report.pages import checked
from tests.reproduction.synthetic import STATISTICS, TRUTH, grid, values

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


def test_the_reproduction():
    runs = [r for r in grid(repetitions=2) if r.data == "CarPed35K"]
    content = sweep_content(
        runs, "runs", version="0.1.0", statistics=STATISTICS, truth=TRUTH, all_false=1.0
    )
    page = checked(sweep_page(content))
    for name, table in content.tables.items():
        rows = page.cells(f"Table: {table.title}")
        own = [[cell.text for cell in row] for group in table.groups for row in group]
        assert [[c.rstrip("†") for c in row] for row in rows] == own, name
    figures = [e.attributes["aria-label"] for e in page.all("svg", class_="plot")]
    for metric in ("PR-AUC", "KB-SAT", "Crisp violation rate"):
        assert sum(f.startswith(f"{metric} on CarPed35K,") for f in figures) == 1
    assert sum(f.startswith("PR-AUC of") for f in figures) == 6
    assert len(figures) == 9
    summary = page.by_id("summary").text
    assert "the truth of CarPed35K 0.932, of CarPed180K 0.917" in summary
    assert f"{len(runs):,}" in summary


def test_other_data_and_hostile_names():
    names = ("with <b>rules</b>", "without $x$")
    runs = [
        record(values(
            data="mine <i>", method=name, fraction=f, repetition=i, pr_auc=0.5 + 0.1 * i + f / 5,
            pr_auc_by={}, kb_sat=None, axioms={}, violations={}, violation_rate=None,
        ))
        for name in names for f in (0.1, 0.5) for i in range(3)
    ]  # fmt: skip
    content = sweep_content(runs, "mine", version="0.1.0")
    text = sweep_page(content)
    page = checked(text)
    assert "<b>rules" not in text
    assert "<i>" not in text
    assert "does not account for the other pairs" in content.tables["tests_1"].notes[-1]
    assert page.cells(f"Table: {content.tables['tests_1'].title}")
    assert len(page.all("svg", class_="plot")) == 1
    assert "all false" not in page.by_id("summary").text


def test_one_run():
    page = checked(sweep_page(sweep_content([record(values())], "one", version="0.1.0")))
    assert "1 run in each cell" in page.by_id("summary").text


def test_content_for_machines():
    runs = grid(repetitions=2)
    found = json.loads(json.dumps(sweep_content(runs, "runs", version="0.1.0").as_dict()))
    assert found["runs"] == len(runs)
    own = cells(runs, "pr_auc")
    for cell in found["cells"]:
        if cell["metric"] == "pr_auc":
            key = (cell["data"], cell["method"], cell["fraction"])
            assert cell["mean"] == own[key].mean
    head = found["tables"]["table3_pr_auc"]["head"]
    assert head == ["Data", "Method", "", *(f"{10 * i} %" for i in range(1, 9))]


def test_records_of_a_folder(tmp_path):
    assert find_records(tmp_path) == find_records(tmp_path / "none") == ()
    one = [record(values())]
    write(one, tmp_path / "b.jsonl")
    write(one, tmp_path / "a.parquet")
    (tmp_path / "notes.txt").touch()
    assert [p.name for p in find_records(tmp_path)] == ["a.parquet", "b.jsonl"]
    for name in ("runs.jsonl", "records.parquet"):
        write(one, tmp_path / name)
    assert [p.name for p in find_records(tmp_path)] == ["records.parquet", "runs.jsonl"]
