"""The report of a sweep: comparison tables and plots, as data and as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fotltn.format import duration
from fotltn.reporting.html import Picture, picture, render
from fotltn.reporting.theme import legend_over_all, line_across, look, new_figure
from reproduction.paper import published
from reproduction.report import tables
from reproduction.report.compare import cells, data_sets, fractions, methods
from reproduction.report.export import all_tables
from reproduction.report.records import Record
from reproduction.report.render import Table, number, percent
from reproduction.report.sweeps import sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAGES = Path(__file__).parent / "pages"

#: The metrics with a plot for each data set, and their printed names.
_PLOTTED = {**published.METRICS, "violation_rate": "Crisp violation rate"}
_ONE_PAIR = "The correction does not account for the other pairs of methods that are tested."
_MAIN = ("claims", "tolerance", "table3_pr_auc", "table3_kb_sat", "table4_tests", "violations")


@dataclass(frozen=True, slots=True, eq=False)
class SweepContent:
    """The contents of a sweep's report.

    Args:
        name: the name of the sweep.
        records: the runs.
        tables: the tables by name.
        truth: the KB-SAT of the true facts of each data set, if known.
        all_false: the KB-SAT of predictions that are all false, if known.
        version: the version of the program that writes the report.
    """

    name: str
    records: tuple[Record, ...]
    tables: Mapping[str, Table]
    truth: Mapping[str, float]
    all_false: float | None
    version: str

    @property
    def told(self) -> str:
        """A summary in a few words."""
        return f"{len(self.records):,} runs, {len(self.tables)} tables"

    def as_dict(self) -> dict[str, Any]:
        """Return the contents as plain data: heads and rows of tables, and means by cell."""
        return {
            "records": self.name,
            "runs": len(self.records),
            "data": list(data_sets(self.records)),
            "methods": list(methods(self.records)),
            "fractions": list(fractions(self.records)),
            "truth": dict(self.truth),
            "all_false": self.all_false,
            "tables": {name: _table_dict(table) for name, table in self.tables.items()},
            "cells": [
                {
                    "metric": metric, "data": data, "method": method, "fraction": fraction,
                    "mean": cell.mean, "std": cell.std, "runs": cell.count,
                }
                for metric in _PLOTTED
                for (data, method, fraction), cell in cells(self.records, metric).items()
            ],
        }  # fmt: skip


def sweep_content(
    records: Sequence[Record],
    name: str,
    *,
    version: str,
    statistics: tables.Counts | None = None,
    truth: Mapping[str, float] | None = None,
    all_false: float | None = None,
) -> SweepContent:
    """Gather the contents of a sweep's report.

    If the two methods that the paper tests are not both present, the first method is tested against
    every other.

    Args:
        records: the runs.
        name: the name of the sweep.
        version: the version of this program.
        statistics: the numbers of true and all facts of each predicate, by data set.
        truth: the KB-SAT of the true facts of each data set.
        all_false: the KB-SAT of predictions that are all false.
    """
    every = all_tables(records, statistics=statistics, truth=truth, all_false=all_false)
    first, *others = methods(records)
    if not set(published.TESTED) <= {first, *others}:
        for i, other in enumerate(others):
            table = tables.welch_table(records, between=(first, other))
            if table.groups:
                every[f"tests_{i + 1}"] = replace(table, notes=(*table.notes, _ONE_PAIR))
    return SweepContent(name, tuple(records), every, dict(truth or {}), all_false, version)


def sweep_page(content: SweepContent) -> str:
    """Return the report of a sweep as one HTML document.

    Raises:
        DataError: jinja2 or matplotlib is missing.
    """
    records = content.records
    repetitions = Counter((one.data, one.method, one.fraction) for one in records)
    main = {name: content.tables[name] for name in _MAIN if name in content.tables}
    return render(
        "sweep.html.j2",
        {
            "title": f"Report of {content.name}",
            "version": content.version,
            "content": content,
            "data": data_sets(records),
            "methods": methods(records),
            "each": tables.runs(list(repetitions.values())),
            "seconds": duration(sum(one.seconds for one in records)),
            "shares": [percent(f) for f in fractions(records)],
            "devices": list(dict.fromkeys(r.device for r in records if r.device)),
            "versions": list(dict.fromkeys(r.version for r in records if r.version)),
            "pictures": _pictures(content),
            "predicates": _predicates(content),
            "main": main,
            "others": {n: t for n, t in content.tables.items() if n not in main},
        },
        PAGES,
    )


# --- figures ---------------------------------------------------------------------------------


def _pictures(content: SweepContent) -> list[Picture]:
    """Draw every metric that runs have, for each data set."""
    pictures = []
    for metric, name in _PLOTTED.items():
        for i, data in enumerate(data_sets(content.records)):
            if not any(d == data for d, _, _ in cells(content.records, metric)):
                continue
            with look():
                figure = new_figure(4.8, 3.5)
                ax = figure.add_subplot()
                sweep(content.records, metric, data=data, paper=True, legend=False, ax=ax)
                ax.set_ylabel(name)
                rows = legend_over_all(figure, ax.get_legend_handles_labels()[0])
                figure.set_figheight(3.3 + 0.2 * rows)
                _yardsticks(ax, content, metric, data)
            where = f"{metric.replace('_', '-')}-{i + 1}"
            caption = f"{name} on {data}, by share of facts used for training."
            label = f"{caption} {_ends(content.records, metric, data)}"
            pictures.append(picture(figure, where, label, caption))
    return pictures


def _predicates(content: SweepContent) -> list[Picture]:
    """Draw the PR-AUC of each predicate, for each data set."""
    records = content.records
    pictures = []
    for i, data in enumerate(data_sets(records)):
        names = dict.fromkeys(n for r in records if r.data == data for n in r.pr_auc_by)
        for j, name in enumerate(names):
            metric = f"pr_auc_by.{name}"
            with look():
                figure = new_figure(3.2, 2.3)
                ax = figure.add_subplot()
                sweep(records, metric, data=data, legend=False, ax=ax)
                ax.set_title(f"{name}, {data}")
                ax.set_ylabel("PR-AUC")
            caption = f"PR-AUC of {name} on {data}."
            label = f"{caption} {_ends(records, metric, data)}"
            pictures.append(picture(figure, f"predicate-{i + 1}-{j + 1}", label, caption))
    return pictures


def _yardsticks(ax: Axes, content: SweepContent, metric: str, data: str) -> None:
    """Draw reference lines, such as the KB-SAT of the truth."""
    if metric == "pr_auc":
        line_across(ax, fmean(r.chance for r in content.records if r.data == data), "chance")
    elif metric == "kb_sat":
        if data in content.truth:
            line_across(ax, content.truth[data], "the truth")
        if content.all_false is not None:
            line_across(ax, content.all_false, "all false")


def _ends(records: Sequence[Record], metric: str, data: str) -> str:
    """Return the first and the last mean of each method, in words."""
    parts = []
    for method in methods(records):
        points = sorted(
            (f, s.mean)
            for (d, m, f), s in cells(records, metric).items()
            if (d, m) == (data, method)
        )
        if points:
            (low, first), (high, last) = points[0], points[-1]
            parts.append(
                f"{method}: {number(first)} at {percent(low)}, {number(last)} at {percent(high)}"
            )
    return "; ".join(parts) + "."


def _table_dict(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "head": list(table.head),
        "rows": [[cell.text for cell in row] for group in table.groups for row in group],
        "notes": list(table.notes),
    }
