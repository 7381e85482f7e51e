"""Tables that the paper lacks: by predicate, by axiom, crisp violations, times, settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean, median

from fotltn.format import NONE, duration
from reproduction.report.compare import cells, data_sets, fractions, methods
from reproduction.report.records import Record
from reproduction.report.render import Table, number, percent, row, spread
from reproduction.report.stats import Summary, summary
from reproduction.report.tables import runs


def predicates_table(records: Sequence[Record], *, data: str | None = None) -> Table:
    """Return PR-AUC by predicate, for one data set or all."""
    chosen = [one for one in records if data in (None, one.data)]
    columns = fractions(chosen)
    predicates = tuple(dict.fromkeys(name for one in chosen for name in one.pr_auc_by))
    by_predicate = {name: cells(chosen, f"pr_auc_by.{name}") for name in predicates}
    groups = [
        tuple(
            row(
                source,
                method,
                name,
                *(spread(by_predicate[name].get((source, method, f))) for f in columns),
            )
            for name in predicates
            if any((source, method, f) in by_predicate[name] for f in columns)
        )
        for source in data_sets(chosen)
        for method in methods(chosen)
    ]
    counts = [one.count for table in by_predicate.values() for one in table.values()]
    return Table(
        "PR-AUC by predicate" + (f", {data}" if data else ""),
        ("Data", "Method", "Predicate", *map(percent, columns)),
        tuple(group for group in groups if group),
        stubs=3,
        notes=(f"Mean ± standard deviation over {runs(counts)}.",),
    )


def violations_table(records: Sequence[Record]) -> Table:
    """Return the rate at which crisp predictions violate axioms, averaged over axioms."""
    columns = fractions(records)
    rates = cells(records, "violation_rate")
    groups = [
        tuple(
            row(data, method, *(_in_percent(rates.get((data, method, f))) for f in columns))
            for method in methods(records)
            if any((data, method, f) in rates for f in columns)
        )
        for data in data_sets(records)
    ]
    return Table(
        "Crisp violations of axioms by share of facts used for training",
        ("Data", "Method", *map(percent, columns)),
        tuple(group for group in groups if group),
        stubs=2,
        notes=(
            "The share, in percent, of bindings and times at which predictions, cut at 0.5, "
            "violate an axiom, averaged over the axioms.",
        ),
    )


def axioms_table(records: Sequence[Record], field: str = "axioms") -> Table:
    """Return each axiom's satisfaction or crisp violations by method, over all fractions.

    Args:
        records: the runs.
        field: `axioms` for the satisfaction, `violations` for the rate of crisp violations.
    """
    columns = methods(records)
    shown = spread if field == "axioms" else _in_percent
    groups = []
    for data in data_sets(records):
        values: dict[str, dict[str, list[float]]] = {}
        for one in records:
            if one.data == data:
                for name, value in getattr(one, field).items():
                    values.setdefault(name, {}).setdefault(one.method, []).append(value)
        groups.append(
            tuple(
                row(data, name, *(shown(summary(v[m])) if m in v else NONE for m in columns))
                for name, v in values.items()
            )
        )
    title = "Satisfaction of each axiom"
    if field == "violations":
        title = "Crisp violations of each axiom, in percent"
    return Table(
        title,
        ("Data", "Axiom", *columns),
        tuple(group for group in groups if group),
        stubs=2,
        notes=("Mean ± standard deviation over all fractions and runs.",),
    )


def times_table(records: Sequence[Record]) -> Table:
    """Return the time of a run and of all runs, with epochs, parameters and device."""
    groups = []
    for data in data_sets(records):
        lines = []
        for method in methods(records):
            chosen = [r for r in records if (r.data, r.method) == (data, method)]
            if not chosen:
                continue
            seconds = [r.seconds for r in chosen]
            epochs = [r.epochs for r in chosen if r.epochs is not None]
            batches = [r.batch for r in chosen if r.batch is not None]
            lines.append(
                row(
                    data,
                    method,
                    str(len(chosen)),
                    duration(fmean(seconds)),
                    duration(max(seconds)),
                    duration(sum(seconds)),
                    number(fmean(epochs), 0) if epochs else NONE,
                    f"{median(batches):g}" if batches else NONE,
                    _one_of([f"{r.parameters:,}" for r in chosen if r.parameters is not None]),
                    _one_of([r.device for r in chosen if r.device]),
                )
            )
        groups.append(tuple(lines))
    head = ("Data", "Method", "Runs", "A run", "Longest", "All", "Epochs", "Batch", "Parameters")
    return Table(
        "Time",
        (*head, "Device"),
        tuple(groups),
        stubs=2,
        notes=(
            "The time of a run is the time of its batch divided by the number of its runs. "
            "Epochs are means, batches medians.",
        ),
    )


def settings_table(records: Sequence[Record]) -> Table:
    """Return the settings of each method; several values are listed."""
    columns = methods(records)
    names = dict.fromkeys(name for one in records for name in one.setting)
    values = {
        (name, method): _one_of(
            [
                json.dumps(one.setting[name], ensure_ascii=False).strip('"')
                for one in records
                if one.method == method and name in one.setting
            ]
        )
        for name in names
        for method in columns
    }
    lines = tuple(row(name, *(values[name, method] for method in columns)) for name in names)
    return Table("Settings", ("Setting", *columns), (lines,) if lines else ())


def _one_of(values: Sequence[str]) -> str:
    """Return the value, or the first few of several."""
    distinct = list(dict.fromkeys(values))
    if len(distinct) > 3:
        return ", ".join([*distinct[:3], f"… {len(distinct) - 3} more"])
    return ", ".join(distinct) or NONE


def _in_percent(rate: Summary | None) -> str:
    """Return a rate in percent: mean ± standard deviation."""
    if rate is None:
        return NONE
    mean = f"{100 * rate.mean:.2f}"
    return mean if rate.count == 1 else f"{mean}±{100 * rate.std:.2f}"
