"""The published figures: entries by hand, and what must follow from one another."""

from __future__ import annotations

import math

import pytest

from reproduction.paper import published
from reproduction.paper.published import RESULTS, STATISTICS, TESTS
from reproduction.report.stats import Summary, benjamini_hochberg, welch


@pytest.mark.parametrize(
    ("key", "entry"),
    [
        (("pr_auc", "CarPed35K", "FOT-LTN+BK", 0.1), (0.727, 0.010)),
        (("pr_auc", "CarPed35K", "FOT-LTN", 0.2), (0.617, 0.041)),
        (("pr_auc", "CarPed35K", "HTGNN", 0.7), (0.807, 0.034)),
        (("pr_auc", "CarPed180K", "FOT-LTN+BK", 0.5), (0.744, 0.010)),
        (("pr_auc", "CarPed180K", "FOT-LTN", 0.8), (0.795, 0.029)),
        (("pr_auc", "CarPed180K", "HTGNN", 0.3), (0.679, 0.033)),
        (("kb_sat", "CarPed35K", "FOT-LTN+BK", 0.8), (0.868, 0.003)),
        (("kb_sat", "CarPed35K", "FOT-LTN", 0.3), (0.534, 0.021)),
        (("kb_sat", "CarPed35K", "HTGNN", 0.6), (0.547, 0.025)),
        (("kb_sat", "CarPed180K", "FOT-LTN+BK", 0.2), (0.918, 0.007)),
        (("kb_sat", "CarPed180K", "FOT-LTN", 0.7), (0.517, 0.012)),
        (("kb_sat", "CarPed180K", "HTGNN", 0.4), (0.561, 0.028)),
    ],
)
def test_table_3(key, entry):
    assert RESULTS[key] == pytest.approx(entry)


def test_table_3_is_complete():
    assert len(RESULTS) == 2 * 2 * 3 * 8
    assert {key[3] for key in RESULTS} == set(published.FRACTIONS)


def test_table_4():
    assert TESTS["CarPed35K", 0.1] == (12.38, 0.001, True)
    assert TESTS["CarPed35K", 0.4] == (2.65, 0.047, False)
    assert TESTS["CarPed180K", 0.6] == (-2.39, 0.069, False)
    assert TESTS["CarPed180K", 0.8] == (-1.72, 0.185, False)
    assert len(TESTS) == 16
    assert [f for (data, f), t in TESTS.items() if t.significant and data == "CarPed35K"] == [
        0.1, 0.2, 0.3, 0.4,
    ]  # fmt: skip


def test_table_1():
    assert sum(positive for positive, _ in STATISTICS["CarPed35K"].values()) == 35_090
    assert sum(positive for positive, _ in STATISTICS["CarPed180K"].values()) == 179_332
    for counts in STATISTICS.values():
        assert counts["Run"][0] + counts["Stop"][0] == counts["Run"][1]
        assert counts["Crossing"][0] + counts["OnSidewalk"][0] == counts["Stop"][1]


def sides(data: str, fraction: float, widen: float) -> tuple[Summary, Summary]:
    a, b = (RESULTS["pr_auc", data, method, fraction] for method in published.TESTED)
    return Summary(10, a.mean, a.std * widen), Summary(10, b.mean, b.std * widen)


def extremes(data: str, fraction: float, widen: float) -> tuple[float, float]:
    """The t-statistics that rounding to three digits allows."""
    a, b = sides(data, fraction, 1)
    half = 0.0005
    found = []
    for gap in (a.mean - b.mean - 2 * half, a.mean - b.mean + 2 * half):
        for step in (-half, half):
            spread = math.hypot(a.std + step, b.std + step) * widen / math.sqrt(10)
            found.append(gap / spread)
    return min(found), max(found)


def test_the_paper_divides_deviations_by_n():
    """Its t-statistics follow from its means and deviations only if these are widened."""

    def possible(widen: float) -> int:
        found = 0
        for (data, fraction), test in TESTS.items():
            low, high = extremes(data, fraction, widen)
            found += low - 0.005 <= test.t <= high + 0.005
        return found

    assert possible(math.sqrt(10 / 9)) == 16
    assert possible(1.0) < 16


def test_the_paper_corrects_over_both_data_sets_with_two_sides():
    def adjusted(together: bool, two_sides: bool) -> list[float]:
        ps = []
        for (data, fraction), test in TESTS.items():
            a, b = sides(data, fraction, 1)
            # the published t-statistic, with degrees of freedom that no common factor changes
            scale = (a.mean - b.mean) / test.t / math.hypot(a.std, b.std) * math.sqrt(10)
            one, two = (Summary(10, s.mean, s.std * scale) for s in (a, b))
            ps.append(welch(one, two, alternative="two-sided" if two_sides else "greater").p)
        parts = [ps] if together else [ps[:8], ps[8:]]
        return [p for part in parts for p in benjamini_hochberg(part)]

    def misses(found: list[float]) -> int:
        pairs = zip(found, TESTS.values(), strict=True)
        return sum(p >= 0.001 if test.below else abs(p - test.p) > 0.004 for p, test in pairs)

    assert misses(adjusted(together=True, two_sides=True)) == 0
    assert misses(adjusted(together=False, two_sides=True)) > 3
    assert misses(adjusted(together=True, two_sides=False)) > 8


def test_tolerance():
    assert published.tolerance("FOT-LTN+BK") == 0.03
    assert published.tolerance("FOT-LTN") == published.tolerance("HTGNN") == 0.05
