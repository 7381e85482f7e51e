"""Statistics against formulas that are written out here."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fotltn.errors import DataError
from reproduction.report.stats import Summary, benjamini_hochberg, summary, welch


def tail(t: float, df: float) -> float:
    """The probability beyond t, by integrating the density of Student's t."""
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    angle = np.linspace(math.atan(t), math.pi / 2, 400_001)  # x = tan(angle)
    density = scale * (1 + np.tan(angle) ** 2 / df) ** (-(df + 1) / 2) / np.cos(angle) ** 2
    density[-1] = 0.0 if df > 1 else density[-2]
    return float(np.trapezoid(density, angle))


def test_summary():
    values = [0.2, 0.5, 0.9, 0.4]
    found = summary(values)
    assert found.count == 4
    assert found.mean == pytest.approx(0.5)
    assert found.std == pytest.approx(math.sqrt(sum((v - 0.5) ** 2 for v in values) / 3))
    assert math.isnan(summary([1.0]).std)
    with pytest.raises(DataError, match="there are no values"):
        summary([])
    with pytest.raises(DataError, match="not a finite number"):
        summary([1.0, math.inf])


@pytest.mark.parametrize("seed", range(4))
def test_welch(seed):
    generator = np.random.default_rng(seed)
    a = generator.normal(0.7, 0.01, 10)
    b = generator.normal(0.69 + 0.01 * seed, 0.03, 7)
    u, v = a.var(ddof=1) / 10, b.var(ddof=1) / 7
    t = (a.mean() - b.mean()) / math.sqrt(u + v)
    df = (u + v) ** 2 / (u**2 / 9 + v**2 / 6)
    found = welch(summary(a), summary(b))
    assert found.t == pytest.approx(t)
    assert found.df == pytest.approx(df)
    assert found.p == pytest.approx(2 * tail(abs(t), df), rel=1e-4)
    assert welch(summary(a), summary(b), alternative="greater").p == pytest.approx(
        tail(t, df), rel=1e-4
    )
    assert welch(summary(a), summary(b), alternative="less").p == pytest.approx(
        tail(-t, df), rel=1e-4
    )
    assert welch(summary(b), summary(a)).t == pytest.approx(-t)


def test_welch_without_spread():
    low, high = Summary(5, 0.4, 0.0), Summary(5, 0.6, 0.0)
    assert welch(low, high) == welch(low, high, alternative="less")
    assert (welch(low, high).t, welch(low, high).p) == (-math.inf, 0.0)
    assert welch(low, high, alternative="greater").p == 1.0
    assert (welch(low, low).t, welch(low, low).p) == (0.0, 1.0)


def test_welch_needs_two_values():
    found = welch(summary([0.1]), summary([0.2, 0.3]))
    assert all(math.isnan(x) for x in (found.t, found.df, found.p))


def test_welch_knows_its_alternatives():
    wrong: str = "both"
    with pytest.raises(DataError, match=r"the alternative must be one of .* not 'both'"):
        welch(summary([1, 2]), summary([1, 3]), alternative=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
def test_benjamini_hochberg(seed):
    ps = np.random.default_rng(seed).random(12).round(2).tolist()
    ordered = sorted(ps)
    expected = [min(1.0, *(q * 12 / (k + 1) for k, q in enumerate(ordered) if q >= p)) for p in ps]
    assert benjamini_hochberg(ps) == pytest.approx(expected)


def test_benjamini_hochberg_leaves_out_what_is_unknown():
    found = benjamini_hochberg([0.01, math.nan, 0.04])
    assert found[0] == pytest.approx(0.02)
    assert math.isnan(found[1])
    assert found[2] == pytest.approx(0.04)
    assert benjamini_hochberg([]) == ()
    assert all(map(math.isnan, benjamini_hochberg([math.nan])))
    with pytest.raises(DataError, match="from 0 to 1"):
        benjamini_hochberg([0.1, 1.2])
