"""Tables and sentences for people: fitted to a terminal; in a pipe, one line per row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fotltn.format import count, degree, number

if TYPE_CHECKING:
    from rich.table import Table

    from fotltn.analysis.audit_data import KnowledgeBase
    from fotltn.analysis.metrics import Report


def grid(
    *columns: str, left: Iterable[str] = (), fold: Iterable[str] = (), tight: bool = False
) -> Table:
    """Return a table without rows; columns are aligned right unless named.

    Args:
        columns: the heads of the columns.
        left: the columns to align left, because they hold words.
        fold: the columns whose cells may take several lines.
        tight: leave little space between columns, where there are many.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=tight)
    words, long = set(left), set(fold)
    for name in columns:
        table.add_column(
            name,
            justify="left" if name in words | long else "right",
            overflow="fold",
            no_wrap=name not in long,
        )
    return table


def add(table: Table, *cells: object, style: str | None = None) -> None:
    """Add a row to a table."""
    table.add_row(*map(str, cells), style=style)


def show(table: Table) -> None:
    """Print a table."""
    from fotltn.cli.terminal import wide_console

    wide_console().print(table)


def say(*sentences: str, style: str | None = None) -> None:
    """Print sentences, each on its own lines."""
    from fotltn.cli.terminal import wide_console

    console = wide_console()
    for sentence in sentences:
        console.print(sentence, style=style)


def metrics_table(
    report: Report, kind: str = "test facts", *, probabilities: bool = False
) -> Table:
    """Return metrics by predicate and on average; for probabilities, with calibration."""
    shown = {"pr_auc": "PR-AUC", "chance": "chance", "roc_auc": "ROC-AUC", "accuracy": "accuracy"}
    shown |= {"log_loss": "log-loss", "ece": "ECE"} if probabilities else {}
    table = grid("predicate", kind, "true", *shown.values(), left=["predicate"])
    for name, one in report.predicates.items():
        values = (number(getattr(one, metric).value) for metric in shown)
        add(table, name, count(one.facts), count(one.positive), *values)
    table.add_section()
    add(table, "mean", "", "", *(number(report.mean[m].value) for m in shown), style="bold")
    return table


def say_knowledge_base(base: KnowledgeBase, *, trained: bool = True) -> None:
    """Print KB-SAT, always beside that of predictions that know nothing.

    Before training, the labels stand in for the model.
    """
    line = base.line
    if not trained:
        line = line.replace(f"model {degree(base.kb_sat.value)}, ", "", 1)
    say(line, style="bold" if base.telling else "bold red")
