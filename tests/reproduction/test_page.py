"""The page of the reproduction, and all files of a report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from fotltn.errors import DataError
from reproduction.report.export import all_tables, write_report
from reproduction.report.page import page, tables_page
from reproduction.report.records import Record, record
from tests.reproduction.synthetic import STATISTICS, TRUTH, grid, values


def whole(runs: Sequence[Record], **changes: Any) -> str:
    known: dict[str, Any] = {"source": "runs.jsonl", "statistics": STATISTICS, "truth": TRUTH}
    return page(runs, **(known | changes))


def test_the_opening():
    text = whole(grid())
    assert text.startswith(
        "# The paper, reproduced\n\nA program writes this page from `runs.jsonl`: 640 runs of "
        "FOT-LTN+BK, FOT-LTN, HTGNN and Bayes limit on CarPed35K and CarPed180K, trained on 10 % "
        "to 80 % of the facts, with 10 runs in each cell, on NVIDIA H200, with version 0.1.0.\n"
    )


def test_sentences_follow_the_runs():
    good = whole(grid())
    assert "96 of 96 cells are within the tolerance" in good
    assert "These cells lie beyond it" not in good

    def shift(metric, _data, method, _fraction):
        return -0.2 if (metric, method) == ("pr_auc", "FOT-LTN+BK") else 0.0

    bad = whole(grid(shift=shift))
    assert "80 of 96 cells are within the tolerance" in bad
    assert "- PR-AUC of FOT-LTN+BK on CarPed180K: 10 % (−0.200), 20 % (−0.200)" in bad
    claim = "| FOT-LTN+BK beats HTGNN significantly at all fractions up to 30 % | yes | "
    assert f"{claim}no, in 0 of 6 cells | no |" in bad
    assert f"{claim}yes, in 6 of 6 cells | yes |" in good


def test_times_and_pictures_and_remarks():
    text = whole(
        grid(),
        wall={"The sweep on one GPU": 241.3, "One run on a CPU": 7.0},
        figures={"Results": "results.svg"},
        remarks="## What differs\n\nNothing.",
    )
    assert "All runs together took 8 min 40 s: FOT-LTN+BK 40 s, FOT-LTN 40 s, HTGNN" in text
    assert "- The sweep on one GPU: 4 min 1 s\n- One run on a CPU: 7 s\n" in text
    assert "![Results](results.svg)" in text
    assert text.index("## Within tolerance") < text.index("## What differs") < text.index("## Res")


def test_every_table_is_a_table_and_headings_are_unique():
    text = whole(grid()) + "\n" + tables_page(grid(), back="reproduction.md")
    headings = re.findall(r"^#+ .*$", text, re.MULTILINE)
    assert len(headings) == len(set(headings)) > 12
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1
    assert "\n\n\n" not in text
    assert "nan" not in text.lower()


def test_a_page_of_a_single_run_or_of_other_methods():
    one = page([record(values())], source="a.jsonl")
    assert "`a.jsonl`: 1 run of FOT-LTN+BK on CarPed35K, trained on 10 % of the facts" in one
    assert "with 1 run in each cell" in one
    assert "0.25 s" in one
    other = page([record(values(data="Mine", method="Other"))], source="a.jsonl")
    assert "These runs lack the methods" in other
    assert "The paper has none of these cells." in other
    with pytest.raises(DataError, match="there are no records to write a page about"):
        page([], source="a.jsonl")


def test_the_files_of_a_report(tmp_path):
    pytest.importorskip("matplotlib")
    runs = grid(repetitions=2)
    written = write_report(runs, tmp_path / "out", statistics=STATISTICS, truth=TRUTH)
    names = {path.name for path in written}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    assert len(names) == 12 * 3 + 2 * 2
    assert {"table1_statistics.tex", "table3_kb_sat.md", "table4_tests.txt"} <= names
    assert {"results.png", "results.svg", "predicates.png"} <= names
    assert "the truth" in (tmp_path / "out" / "table3_kb_sat.txt").read_text("utf-8")
    with pytest.raises(DataError, match="there are no records to report"):
        write_report([], tmp_path)
    with pytest.raises(DataError, match="cannot write to"):
        write_report(runs, tmp_path / "out" / "results.png")


def test_empty_tables_are_left_out():
    bare = record(values(violations={}, violation_rate=None, axioms={}, setting={}))
    assert set(all_tables([bare])) == {
        "tolerance", "table3_pr_auc", "table3_kb_sat", "predicates", "times",
    }  # fmt: skip
