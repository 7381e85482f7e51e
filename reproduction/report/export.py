"""Write all tables and figures of a set of runs as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fotltn.errors import DataError
from fotltn.files import Content, write_files
from fotltn.reporting.theme import drawn
from reproduction.report import claims, extra_tables, tables
from reproduction.report.records import Record
from reproduction.report.render import FORMATS, Table
from reproduction.report.sweeps import predicates_figure, results_figure


def all_tables(
    records: Sequence[Record],
    *,
    statistics: tables.Counts | None = None,
    truth: Mapping[str, float] | None = None,
    all_false: float | None = 1.0,
) -> dict[str, Table]:
    """Return every non-empty table by the name of its file."""
    every = {
        "claims": claims.claims_table(records),
        "tolerance": claims.tolerance_table(records),
        "table1_statistics": tables.statistics_table(statistics or {}),
        "table3_pr_auc": tables.results_table(records, "pr_auc"),
        "table3_kb_sat": tables.results_table(records, "kb_sat", truth=truth, all_false=all_false),
        "table4_tests": tables.welch_table(records),
        "predicates": extra_tables.predicates_table(records),
        "violations": extra_tables.violations_table(records),
        "violations_by_axiom": extra_tables.axioms_table(records, "violations"),
        "satisfaction_by_axiom": extra_tables.axioms_table(records, "axioms"),
        "times": extra_tables.times_table(records),
        "settings": extra_tables.settings_table(records),
    }
    return {name: table for name, table in every.items() if table.groups}


def write_report(
    records: Sequence[Record],
    folder: Path | str,
    *,
    statistics: tables.Counts | None = None,
    truth: Mapping[str, float] | None = None,
    all_false: float | None = 1.0,
) -> tuple[Path, ...]:
    """Write every table as text, Markdown and LaTeX, and every figure as PNG and SVG; all or none.

    Raises:
        DataError: there are no records, a file cannot be written, or matplotlib is missing.
    """
    if not records:
        raise DataError("there are no records to report")
    folder = Path(folder)
    figures = {
        "results": results_figure(records, truth=truth, all_false=all_false),
        "predicates": predicates_figure(records),
    }
    every = all_tables(records, statistics=statistics, truth=truth, all_false=all_false)
    files: dict[Path, Content] = {
        folder / f"{name}.{kind}": shown(table).encode()
        for name, table in every.items()
        for kind, shown in FORMATS.items()
    }
    for name, figure in figures.items():
        files |= drawn(figure, folder / name)
    write_files(files, parents=True, what=f"to {folder}")
    return tuple(files)
