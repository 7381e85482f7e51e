"""Summarise runs as cells, compare them with the published ones, and test the paper's claims."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fotltn.errors import DataError, Diagnostic, did_you_mean
from reproduction.paper import published
from reproduction.paper.published import Entry, Tested
from reproduction.report.records import Record
from reproduction.report.stats import (
    Alternative,
    Summary,
    Welch,
    benjamini_hochberg,
    summary,
    welch,
)

#: A cell of a table: data set, method, fraction.
Key = tuple[str, str, float]

_METRICS = ("pr_auc", "kb_sat", "chance", "violation_rate", "seconds", "epochs", "best_epoch")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A cell of Table 3: ours, the paper's if there is one, and the tolerance between them."""

    metric: str
    data: str
    method: str
    fraction: float
    ours: Summary
    paper: Entry | None
    tolerance: float

    @property
    def difference(self) -> float:
        """Our mean minus the paper's; NaN if the paper has none."""
        return math.nan if self.paper is None else self.ours.mean - self.paper.mean

    @property
    def within(self) -> bool:
        """Whether the means, as printed with three digits, are within the tolerance."""
        return self.paper is None or round(abs(self.difference), 3) <= self.tolerance


@dataclass(frozen=True, slots=True)
class Contest:
    """A row of Table 4: two methods, tested against each other, with the paper's figures."""

    data: str
    fraction: float
    a: Summary
    b: Summary
    test: Welch
    adjusted: float
    paper: Tested | None

    @property
    def won(self) -> bool:
        """Whether the first method is significantly better."""
        return self.adjusted < published.ALPHA and self.a.mean > self.b.mean

    @property
    def lost(self) -> bool:
        """Whether the second method is significantly better."""
        return self.adjusted < published.ALPHA and self.a.mean < self.b.mean


# --- order -----------------------------------------------------------------------------------


def data_sets(records: Iterable[Record]) -> tuple[str, ...]:
    """Return the data sets, those of the paper first."""
    return _ordered((one.data for one in records), published.DATA)


def methods(records: Iterable[Record]) -> tuple[str, ...]:
    """Return the methods, those of the paper first."""
    return _ordered((one.method for one in records), published.METHODS)


def fractions(records: Iterable[Record]) -> tuple[float, ...]:
    """Return the fractions in ascending order."""
    return tuple(sorted({one.fraction for one in records}))


def _ordered(names: Iterable[str], first: Sequence[str]) -> tuple[str, ...]:
    present = dict.fromkeys(names)
    return (*(n for n in first if n in present), *(n for n in present if n not in first))


# --- cells -----------------------------------------------------------------------------------


def cells(records: Iterable[Record], metric: str) -> dict[Key, Summary]:
    """Summarise a metric by data set, method and fraction, over the runs that have it.

    Args:
        records: the runs.
        metric: a numeric field of a record, or an entry of a field, such as `pr_auc_by.Car`,
            `axioms.A1` or `violations.A1`.

    Raises:
        DataError: there is no such metric.
    """
    group, _, name = metric.partition(".")
    if not (group in ("pr_auc_by", "axioms", "violations") if name else metric in _METRICS):
        hint = did_you_mean(metric, _METRICS)
        raise DataError(Diagnostic(f"records have no metric '{metric}'", hint=hint))
    values: dict[Key, list[float]] = {}
    for one in records:
        value = getattr(one, group)
        value = value.get(name) if name else value
        if value is not None:
            values.setdefault((one.data, one.method, one.fraction), []).append(value)
    return {key: summary(numbers) for key, numbers in values.items()}


def compare(records: Sequence[Record], metric: str) -> tuple[Comparison, ...]:
    """Compare all cells of a metric with Table 3, in the order of the paper."""
    summaries = cells(records, metric)
    return tuple(
        Comparison(
            metric,
            *key,
            summaries[key],
            published.RESULTS.get((metric, *key)),
            published.tolerance(key[1]),
        )
        for data in data_sets(records)
        for method in methods(records)
        for fraction in fractions(records)
        if (key := (data, method, fraction)) in summaries
    )


def contests(
    records: Sequence[Record],
    *,
    metric: str = "pr_auc",
    between: tuple[str, str] = published.TESTED,
    alternative: Alternative = "two-sided",
) -> tuple[Contest, ...]:
    """Test one method against another in every cell, corrected over all cells.

    The paper's figures are included only for its own test: PR-AUC, its two methods, two-sided.
    """
    summaries = cells(records, metric)
    sides = [
        (
            data,
            fraction,
            summaries[data, between[0], fraction],
            summaries[data, between[1], fraction],
        )
        for data in data_sets(records)
        for fraction in fractions(records)
        if all((data, method, fraction) in summaries for method in between)
    ]
    results = [welch(a, b, alternative=alternative) for _, _, a, b in sides]
    adjusted = benjamini_hochberg([result.p for result in results])
    as_paper = (metric, between, alternative) == ("pr_auc", published.TESTED, "two-sided")
    return tuple(
        Contest(*side, test, p, published.TESTS.get(side[:2]) if as_paper else None)
        for side, test, p in zip(sides, results, adjusted, strict=True)
    )


# --- claims ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UpTo:
    """Where one method beats another on one data set.

    Args:
        fraction: the largest fraction such that it wins there and at all smaller ones, if any.
        won: all fractions at which it wins.
        lost: all fractions at which the other one wins.
        tested: all fractions at which both were run.
    """

    fraction: float | None
    won: tuple[float, ...]
    lost: tuple[float, ...]
    tested: tuple[float, ...]


def beats_up_to(contested: Iterable[Contest]) -> dict[str, UpTo]:
    """Return for each data set up to which fraction the first method is significantly better."""
    rows: dict[str, list[tuple[float, bool, bool]]] = {}
    for one in contested:
        rows.setdefault(one.data, []).append((one.fraction, one.won, one.lost))
    return {data: _up_to(sorted(cells)) for data, cells in rows.items()}


def published_up_to() -> dict[str, UpTo]:
    """Return the same for the paper's Table 4."""
    rows: dict[str, list[tuple[float, bool, bool]]] = {}
    for (data, fraction), test in published.TESTS.items():
        won, lost = test.significant and test.t > 0, test.significant and test.t < 0
        rows.setdefault(data, []).append((fraction, won, lost))
    return {data: _up_to(cells) for data, cells in rows.items()}


def _up_to(rows: Sequence[tuple[float, bool, bool]]) -> UpTo:
    last = None
    for fraction, won, _ in rows:
        if not won:
            break
        last = fraction
    return UpTo(
        last,
        tuple(f for f, won, _ in rows if won),
        tuple(f for f, _, lost in rows if lost),
        tuple(f for f, _, _ in rows),
    )


@dataclass(frozen=True, slots=True)
class Domination:
    """The number of cells compared, and the cells in which a method's mean is not the largest."""

    cells: int
    beaten: tuple[Key, ...]

    @property
    def everywhere(self) -> bool:
        """Whether the mean is the largest in all cells, and there are any."""
        return self.cells > 0 and not self.beaten


def dominates(
    values: Mapping[Key, float], method: str, others: Sequence[str] = published.METHODS
) -> Domination:
    """Compare the means of a method with those of others, in cells where both were run."""
    count, beaten = 0, []
    for (data, name, fraction), mean in values.items():
        rivals = [(data, other, fraction) for other in others if other != method]
        means = {key: values[key] for key in rivals if key in values}
        if name != method or not means:
            continue
        count += 1
        best = max(means, key=means.__getitem__)
        if means[best] >= mean:
            beaten.append(best)
    return Domination(count, tuple(beaten))


def means(records: Sequence[Record], metric: str) -> dict[Key, float]:
    """Return the means of a metric's cells."""
    return {key: cell.mean for key, cell in cells(records, metric).items()}
