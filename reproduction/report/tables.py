"""The paper's Tables 1, 3 and 4, with our figures next to the published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from fotltn.format import NONE
from reproduction.paper import published
from reproduction.report.compare import (
    Comparison,
    Contest,
    compare,
    contests,
    data_sets,
    fractions,
    methods,
)
from reproduction.report.records import Record
from reproduction.report.render import Cell, Table, number, p_value, percent, row, spread

#: The numbers of true facts and of all facts, by data set and predicate.
Counts = Mapping[str, Mapping[str, tuple[int, int]]]


def runs(counts: Sequence[int]) -> str:
    """Say how many runs are behind the cells of a table.

    >>> runs([10, 10]), runs([3, 10])
    ('10 runs', '3 to 10 runs')
    """
    low, high = min(counts, default=0), max(counts, default=0)
    return f"{high} run{'s' * (high != 1)}" if low == high else f"{low} to {high} runs"


def statistics_table(statistics: Counts) -> Table:
    """Return Table 1: the true facts of generated scenes next to the published counts."""
    groups = []
    for data, counts in statistics.items():
        theirs = published.STATISTICS.get(data, {})
        lines = []
        for predicate, (positive, total) in counts.items():
            paper = theirs.get(predicate)
            shares = (positive / total, paper[0] / paper[1]) if paper else None
            lines.append(
                row(
                    data,
                    predicate,
                    f"{positive:,}/{total:,}",
                    _points(positive / total),
                    f"{paper[0]:,}/{paper[1]:,}" if paper else NONE,
                    _points(shares[1]) if shares else NONE,
                    _points(shares[0] - shares[1], "+") if shares else NONE,
                )
            )
        groups.append(tuple(lines))
    head = ("Data", "Predicate", "True/all", "True %", "Paper", "Paper %", "Difference")
    return Table(
        "True facts of the data sets",
        head,
        tuple(groups),
        stubs=2,
        notes=("The difference is in percentage points.",),
    )


def _points(share: float, sign: str = "") -> str:
    """Format percentage points with a true minus sign, and no sign for zero."""
    return f"{round(100 * share, 1) + 0.0:{sign}.1f}".replace("-", "−")


def results_table(
    records: Sequence[Record],
    metric: str,
    *,
    truth: Mapping[str, float] | None = None,
    all_false: float | None = None,
) -> Table:
    """Return Table 3 for PR-AUC or KB-SAT: ours, the paper's, and the difference.

    Args:
        records: the runs.
        metric: `pr_auc` or `kb_sat`.
        truth: for KB-SAT, that of the true facts of each data set.
        all_false: for KB-SAT, that of predictions that are all false.
    """
    name = published.METRICS[metric]
    columns = fractions(records)
    compared = {(c.data, c.method, c.fraction): c for c in compare(records, metric)}
    groups = []
    for data in data_sets(records):
        lines = []
        for method in methods(records):
            line = [compared.get((data, method, fraction)) for fraction in columns]
            if not any(line):
                continue
            best = [c is not None and _best(compared, c) for c in line]
            ours = [Cell(spread(c.ours if c else None), b) for c, b in zip(line, best, strict=True)]
            lines.append(row(data, method, "ours", *ours))
            if any(c and c.paper for c in line):
                lines.append(row(data, method, "paper", *(_paper(c) for c in line)))
                lines.append(row(data, method, "difference", *(_difference(c) for c in line)))
        lines += _yardsticks(records, metric, data, columns, truth or {}, all_false)
        groups.append(tuple(lines))
    counts = runs([c.ours.count for c in compared.values()])
    limits = ", ".join(
        f"{number(published.tolerance(m), 2)} for {m}"
        for m in methods(records)
        if m in published.METHODS
    )
    return Table(
        f"{name} by share of facts used for training",
        ("Data", "Method", "", *map(percent, columns)),
        tuple(groups),
        stubs=3,
        notes=(
            f"Mean ± standard deviation (divisor n − 1) over {counts}; "
            "the paper's deviations have the divisor n.",
        ),
        best="our best mean among the methods of the paper",
        far=f"further from the paper than {limits}" if limits else None,
    )


def _best(compared: Mapping[tuple[str, str, float], Comparison], one: Comparison) -> bool:
    """Return whether a method of the paper is the best of the paper's methods."""
    rivals = [
        c.ours.mean
        for (data, method, fraction), c in compared.items()
        if (data, fraction) == (one.data, one.fraction) and method in published.METHODS
    ]
    return one.method in published.METHODS and len(rivals) > 1 and one.ours.mean == max(rivals)


def _paper(one: Comparison | None) -> str:
    if one is None or one.paper is None:
        return NONE
    return f"{number(one.paper.mean)}±{number(one.paper.std)}"


def _difference(one: Comparison | None) -> Cell:
    if one is None or one.paper is None:
        return Cell(NONE)
    return Cell(number(one.difference, sign=True), far=not one.within)


def _yardsticks(
    records: Sequence[Record],
    metric: str,
    data: str,
    columns: Sequence[float],
    truth: Mapping[str, float],
    all_false: float | None,
) -> list[tuple[Cell, ...]]:
    """Return reference rows, such as the KB-SAT of the truth."""
    if metric == "pr_auc":
        chances = {
            f: [r.chance for r in records if (r.data, r.fraction) == (data, f)] for f in columns
        }
        return [
            row(data, "chance", "", *(number(fmean(v)) if v else NONE for v in chances.values()))
        ]
    lines = []
    if data in truth:
        lines.append(row(data, "the truth", "", *[number(truth[data])] * len(columns)))
    if all_false is not None:
        lines.append(row(data, "all false", "", *[number(all_false)] * len(columns)))
    return lines


def welch_table(records: Sequence[Record], *, between: tuple[str, str] = published.TESTED) -> Table:
    """Return Table 4: Welch's t-tests on PR-AUC with corrected p-values, next to the paper's."""
    contested = contests(records, between=between)
    groups = [
        tuple(_contest(one) for one in contested if one.data == data) for data in data_sets(records)
    ]
    head = (
        "Data",
        "Fraction",
        "mean A",
        "mean B",
        "std A",
        "std B",
        "t",
        "p",
        "paper t",
        "paper p",
    )
    return Table(
        f"{between[0]} (A) against {between[1]} (B): Welch's t-test on PR-AUC",
        head,
        tuple(group for group in groups if group),
        stubs=2,
        notes=(
            "p is two-sided and corrected over all "
            f"{len(contested)} tests (Benjamini and Hochberg).",
        ),
        best=f"p below {number(published.ALPHA, 2)}",
    )


def _contest(one: Contest) -> tuple[Cell, ...]:
    paper = one.paper
    return row(
        one.data,
        percent(one.fraction),
        *(number(value) for value in (one.a.mean, one.b.mean, one.a.std, one.b.std)),
        number(one.test.t, 2),
        Cell(p_value(one.adjusted), best=one.won or one.lost),
        number(paper.t, 2) if paper else NONE,
        Cell(p_value(paper.p, below=paper.below), best=paper.significant) if paper else NONE,
    )
