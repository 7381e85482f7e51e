"""Cells beside the published ones, tests between methods, and claims."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from fotltn.errors import DataError
from reproduction.paper import published
from reproduction.report.claims import above_truth, claims, claims_table, missed, tolerance_table
from reproduction.report.compare import (
    beats_up_to,
    cells,
    compare,
    contests,
    data_sets,
    dominates,
    fractions,
    means,
    methods,
    published_up_to,
)
from reproduction.report.records import record
from tests.reproduction.synthetic import TRUTH, grid, values


def moved(metric="pr_auc", method="FOT-LTN+BK", by=0.0, data=None, fraction=None):
    """A shift of one metric of one method, at one data set or fraction, or all."""

    def shift(m, d, n, f):
        there = (m, n) == (metric, method) and data in (None, d) and fraction in (None, f)
        return by if there else 0.0

    return shift


def test_order_is_the_papers():
    runs = [
        record(values(data=d, method=m, fraction=f))
        for d, m, f in (
            ("Mine", "Bayes limit", 0.5), ("CarPed180K", "HTGNN", 0.2),
            ("CarPed35K", "FOT-LTN+BK", 0.8), ("CarPed35K", "Another", 0.2),
        )
    ]  # fmt: skip
    assert data_sets(runs) == ("CarPed35K", "CarPed180K", "Mine")
    assert methods(runs) == ("FOT-LTN+BK", "HTGNN", "Bayes limit", "Another")
    assert fractions(runs) == (0.2, 0.5, 0.8)


def test_cells():
    runs = [
        record(values(repetition=i, kb_sat=k, pr_auc=p, pr_auc_by={"Car": p}))
        for i, (k, p) in enumerate([(None, 0.6), (0.9, 0.8), (0.7, 0.7)])
    ]
    key = ("CarPed35K", "FOT-LTN+BK", 0.1)
    assert cells(runs, "kb_sat")[key].mean == pytest.approx(0.8)
    assert cells(runs, "kb_sat")[key].count == 2
    assert cells(runs, "pr_auc_by.Car")[key].mean == pytest.approx(0.7)
    assert cells(runs, "axioms.A1")[key].mean == pytest.approx(0.9)
    assert cells(runs, "axioms.A7") == {}
    for metric in ("data", "kbsat", "pr_auc.Car", "setting.p"):
        with pytest.raises(DataError, match="records have no metric"):
            cells(runs, metric)


def test_compare_marks_what_is_far():
    runs = grid(shift=moved(by=-0.031, data="CarPed35K", fraction=0.1))
    found = compare(runs, "pr_auc")
    assert len(found) == 2 * 4 * 8
    far = [c for c in found if not c.within]
    assert [(c.data, c.method, c.fraction) for c in far] == [("CarPed35K", "FOT-LTN+BK", 0.1)]
    assert far[0].difference == pytest.approx(-0.031)
    limit = next(c for c in found if c.method == "Bayes limit")
    assert limit.paper is None
    assert math.isnan(limit.difference)


@pytest.mark.parametrize(
    ("method", "by", "within"),
    [("FOT-LTN+BK", 0.0304, True), ("FOT-LTN+BK", 0.0306, False),
     ("HTGNN", 0.05, True), ("HTGNN", -0.051, False), ("FOT-LTN", 0.045, True)],
)  # fmt: skip
def test_tolerance(method, by, within):
    runs = grid(shift=moved("kb_sat", method, by), limit=False)
    assert {c.within for c in compare(runs, "kb_sat") if c.method == method} == {within}


def test_contests_agree_with_tests_on_the_values():
    runs = grid(seed=3)
    found = contests(runs)
    assert len(found) == 16
    ps = []
    for one in found:
        a, b = (
            [
                r.pr_auc
                for r in runs
                if (r.data, r.method, r.fraction) == (one.data, m, one.fraction)
            ]
            for m in published.TESTED
        )
        expected = stats.ttest_ind(a, b, equal_var=False)
        assert (one.test.t, one.test.df, one.test.p) == pytest.approx(
            (expected.statistic, expected.df, expected.pvalue)
        )
        ps.append(expected.pvalue)
    assert [one.adjusted for one in found] == pytest.approx(
        list(stats.false_discovery_control(np.array(ps)))
    )
    assert found[0].paper == published.TESTS["CarPed35K", 0.1]
    one_sided = contests(runs, alternative="greater")
    assert one_sided[0].paper is None
    assert one_sided[0].test.p == pytest.approx(found[0].test.p / 2)
    assert contests(runs, between=("FOT-LTN", "HTGNN"))[0].paper is None


def test_up_to():
    assert {d: u.fraction for d, u in published_up_to().items()} == {
        "CarPed35K": 0.4,
        "CarPed180K": 0.3,
    }
    far = beats_up_to(contests(grid(shift=moved(by=0.1))))
    assert {u.fraction for u in far.values()} == {0.8}
    lost = beats_up_to(contests(grid(shift=moved(by=-0.2))))
    assert {u.fraction for u in lost.values()} == {None}
    assert lost["CarPed35K"].lost == published.FRACTIONS
    gap = beats_up_to(contests(grid(shift=moved(by=-0.09, data="CarPed35K", fraction=0.2))))
    assert gap["CarPed35K"].fraction == 0.1
    assert 0.3 in gap["CarPed35K"].won


def test_one_repetition_proves_nothing():
    found = contests(grid(repetitions=1))
    assert all(math.isnan(one.adjusted) and not one.won and not one.lost for one in found)


def test_dominates():
    ours = dominates(means(grid(), "kb_sat"), "FOT-LTN+BK")
    assert (ours.cells, ours.beaten, ours.everywhere) == (16, (), True)
    worse = grid(shift=moved("kb_sat", "HTGNN", 0.4, "CarPed180K", 0.7))
    found = dominates(means(worse, "kb_sat"), "FOT-LTN+BK")
    assert found.beaten == (("CarPed180K", "HTGNN", 0.7),)
    assert not found.everywhere
    alone = [r for r in grid() if r.method == "FOT-LTN+BK"]
    assert not dominates(means(alone, "kb_sat"), "FOT-LTN+BK").everywhere


def said(runs):
    return {c.text: (c.here, c.agrees) for c in claims(runs)}


def test_claims_of_runs_like_the_papers():
    found = said(grid())
    assert found["On CarPed35K, FOT-LTN+BK beats HTGNN significantly"] == ("up to 40 %", True)
    assert found["On CarPed180K, FOT-LTN+BK beats HTGNN significantly"] == ("up to 30 %", True)
    assert found["FOT-LTN+BK beats HTGNN significantly at all fractions up to 30 %"] == (
        "yes, in 6 of 6 cells",
        True,
    )
    assert found["FOT-LTN+BK has the largest mean KB-SAT everywhere"] == (
        "yes, in 16 of 16 cells",
        True,
    )
    assert found["FOT-LTN+BK has the largest mean PR-AUC at all fractions up to 40 %"][1]
    assert found["HTGNN's parameters on CarPed35K, as a multiple of FOT-LTN's"] == ("1.81", True)
    assert found["HTGNN's parameters on CarPed180K, as a multiple of FOT-LTN's"] == ("1.81", False)


def test_claims_that_fail():
    found = said(grid(shift=moved(by=-0.2), limit=False))
    assert found["FOT-LTN+BK beats HTGNN significantly at all fractions up to 30 %"] == (
        "no, in 0 of 6 cells",
        False,
    )
    here, agrees = found["On CarPed35K, FOT-LTN+BK beats HTGNN significantly"]
    assert here == (
        "not from the start; HTGNN wins at 10 %, 20 %, 30 %, 40 %, 50 %, 60 %, 70 % and 80 %"
    )
    assert not agrees
    assert not found["FOT-LTN+BK has the largest mean PR-AUC at all fractions up to 40 %"][1]
    wins = said(grid(shift=moved(by=0.1)))
    assert wins["On CarPed180K, FOT-LTN+BK beats HTGNN significantly"] == (
        "at every fraction, up to 80 %",
        False,
    )


def test_claims_of_a_part_of_the_grid():
    """A small grid is held to the claims that it can speak of, at the fractions that it has."""
    runs = [r for r in grid() if r.data == "CarPed35K" and r.fraction in (0.1, 0.8)]
    found = said(runs)
    assert found["On CarPed35K, FOT-LTN+BK beats HTGNN significantly"] == ("up to 10 %", True)
    assert found["FOT-LTN+BK has the largest mean KB-SAT everywhere"][0] == "yes, in 2 of 2 cells"
    assert not any("180K" in text for text in found)
    assert claims([r for r in runs if r.method == "Bayes limit"]) == ()
    assert claims_table([r for r in runs if r.method == "Bayes limit"]).groups == ()


def test_distance_from_the_paper():
    runs = grid(shift=moved("kb_sat", "HTGNN", 0.06, "CarPed180K", 0.2))
    table = tolerance_table(runs)
    rows = {(r[0].text, r[1].text): [c.text for c in r[2:]] for g in table.groups for r in g}
    assert rows["KB-SAT", "HTGNN"] == ["0.05", "15 of 16", "0.004", "+0.060 (CarPed180K, 20 %)"]
    assert rows["KB-SAT", "FOT-LTN+BK"][:3] == ["0.03", "16 of 16", "0.000"]
    assert ("KB-SAT", "Bayes limit") not in rows
    assert missed(runs) == ("KB-SAT of HTGNN on CarPed180K: 20 % (+0.060).",)
    assert missed(grid()) == ()


def test_above_the_truth():
    assert above_truth(grid(), TRUTH) == (
        "On CarPed35K, the mean KB-SAT of FOT-LTN+BK is above the KB-SAT of the truth, 0.932, "
        "at 10 %.",
        "On CarPed180K, the mean KB-SAT of FOT-LTN+BK is above the KB-SAT of the truth, 0.917, "
        "at 10 % and 20 %.",
    )
    assert above_truth(grid(), {}) == ()
