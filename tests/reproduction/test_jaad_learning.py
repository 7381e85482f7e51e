"""The learning experiment on real clips: it repeats itself, and its page is that of its runs."""

from pathlib import Path

import pytest
import torch

from reproduction.jaad import learn

ROOT = Path(__file__).resolve().parents[2]
TABLES = ROOT / "examples" / "jaad" / "data"


@pytest.mark.parametrize("method", ["networks", "paper's rules, trust learned"])
def test_a_run_repeats_itself_and_says_what_it_did(method):
    one = learn.Run("pedestrians", method, 0.5, 1)
    first, again = learn.run(TABLES, one), learn.run(TABLES, one)
    assert {**first, "seconds": 0} == {**again, "seconds": 0}
    assert first["clips"] == 4
    assert set(first["pr_auc"]) == {"Crossing", "Stop"}
    assert all(0 < v <= 1 for v in first["pr_auc"].values())
    assert (first["trust"] is None) == (method == "networks")


def test_runs_differ_by_repetition_and_are_judged_on_other_clips_when_choosing():
    one = learn.Run("scene", "networks", 0.5, 0)
    other = learn.Run("scene", "networks", 0.5, 3)
    chosen = learn.Run("scene", "networks", 0.5, 0, validate=True)
    found = [learn.run(TABLES, run) for run in (one, other, chosen)]
    assert found[0]["pr_auc"] != found[1]["pr_auc"]
    assert found[0]["chance"] == found[1]["chance"] != found[2]["chance"]


def test_the_nearest_pedestrian_is_the_one_with_the_highest_box_in_view():
    boxes = torch.rand(2, 3, 4, 2, generator=torch.Generator().manual_seed(0))
    there = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(1)) < 0.6
    found = learn.nearest(boxes, there)
    for trace in range(2):
        for time in range(4):
            seen = [boxes[trace, p, time].tolist() for p in range(3) if there[trace, p, time]]
            expected = max(seen, default=[0.0, 0.0])
            assert found[trace, 0, time].tolist() == pytest.approx([*expected, len(seen)])


def test_the_page_is_that_of_the_runs():
    runs = learn.rows(ROOT / "docs" / "jaad")
    page = (ROOT / "docs" / "jaad.md").read_text("utf-8")
    assert learn.table(runs) in page
    assert learn.trust(runs) in page
    assert not any(r["validate"] for r in runs)
