"""Tables and sentences for people: fitted to a terminal; in a pipe, one line per row."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.measure import Measurement
from rich.styled import Styled
from rich.table import Table

from fotltn.errors import visible
from fotltn.format import count, degree, number

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from fotltn.analysis.audit_data import KnowledgeBase
    from fotltn.analysis.metrics import Report

#: The least widths of a column of names, and of a column whose cells may take several lines.
_NAME, _LINES = 12, 20
#: How many columns that step aside are listed; of more, the first and the last are named.
_LISTED = 8

CellText = str | Styled


class Grid(Table):
    """A table that fits any terminal, and says what it leaves out.

    Words give way first: cells take several lines, and names are shortened in the middle, both down
    to a least width; heads and intervals take a second line. Then columns step aside, and a line
    below the table names them. Numbers and truth values are never cut.
    """

    def __init__(self, names: Iterable[str], lines: Iterable[str], aside: Sequence[str]) -> None:
        """Make a table without columns; `grid` adds them."""
        super().__init__(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        self.names, self.lines, self.aside = set(names), set(lines), aside

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return the least and the greatest width, as the library asks for it."""
        return Measurement(min(_NAME, options.max_width), options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the columns that fit, and name the others."""
        gap = (self.box is not None) + (1 if self.collapse_padding else 2)
        columns = [
            _Fitting(
                str(column.header) if self.show_header else "", list(column.cells),
                names=column.header in self.names, lines=column.header in self.lines,
            )
            for column in self.columns
        ]  # fmt: skip
        chosen = list(range(len(columns)))
        last = [n for name in self.aside for n in chosen if self.columns[n].header == name]
        leaving = [*last, *(n for n in reversed(chosen[1:]) if n not in last)]
        room = options.max_width - sum(one.least for one in columns) - gap * (len(columns) - 1)
        while room < 0 and leaving:
            gone = leaving.pop(0)
            chosen.remove(gone)
            room += columns[gone].least + gap
        for place, n in enumerate(sorted(chosen, key=lambda n: columns[n].full - columns[n].least)):
            one = columns[n]
            one.width = one.least + min(one.full - one.least, max(0, room) // (len(chosen) - place))
            room -= one.width - one.least
        shown = Table(
            box=self.box, show_edge=False, pad_edge=False, show_header=self.show_header,
            collapse_padding=self.collapse_padding,
        )  # fmt: skip
        for n in chosen:
            how = self.columns[n]
            head = columns[n].fit()
            shown.add_column(head, justify=how.justify, style=how.style, overflow="fold")
        for place, row in enumerate(self.rows):
            cells = (columns[n].cells[place] for n in chosen)
            shown.add_row(*cells, style=row.style, end_section=row.end_section)
        yield shown
        if len(chosen) < len(columns):
            heads = [str(c.header) for n, c in enumerate(self.columns) if n not in chosen]
            listed = f"{heads[0]} to {heads[-1]} ({count(len(heads))} columns)"
            listed = ", ".join(heads) if len(heads) <= _LISTED else listed
            wider = f"Not shown in {options.max_width} columns: {listed}. A wider terminal, a pipe"
            yield console.render_str(f"{wider} or --json shows them.", style="dim")


@dataclass
class _Fitting:
    """A column that is fitted: its head and cells, and its least, full and chosen width."""

    head: str
    cells: list[Any]
    names: bool
    lines: bool
    width: int = 0

    def __post_init__(self) -> None:
        self.cells = [visible(one) if isinstance(one, str) else one for one in self.cells]
        self.full = max(map(_width, [self.head, *self.cells]))
        words = max(map(len, self.head.split(" ")))
        if self.lines or self.names:
            self.least = min(self.full, max(words, _LINES if self.lines else _NAME))
        else:
            narrow = (_broken(one) if isinstance(one, str) else one for one in self.cells)
            self.least = max([words, *map(_width, narrow)])

    def fit(self) -> str:
        """Fit the cells to the width, and return the head."""
        if self.width >= self.full:
            return self.head
        words = [one for one in self.cells if isinstance(one, str)]
        if self.names or self.lines:
            short = {one: middle(one, self.width) for one in words}
            # Names that would read alike stay whole.
            alike = len(set(short.values())) < len(short)
            wraps = self.lines or alike
            fitted = {one: _wrapped(one, self.width) for one in words} if wraps else short
        else:
            fitted = {one: _broken(one) for one in words if _width(one) > self.width}
        self.cells = [fitted.get(one, one) for one in self.cells]
        return textwrap.fill(self.head, self.width)


def _width(cell: CellText) -> int:
    text = cell.renderable if isinstance(cell, Styled) else cell
    return max(map(cell_len, str(text).split("\n")))


def _broken(text: str) -> str:
    """Put an interval below its value."""
    return text.replace(" [", "\n[")


def _wrapped(text: str, width: int) -> str:
    """Break text between words; a word that is too long has lines of its own, of its parts."""
    lines = [""]
    for word in re.findall(r"\S+\s*", text):
        parts = [word]
        if cell_len(word.rstrip()) > width:
            parts = re.findall(r"[^_,(]+[_,(]*|[_,(]+", word)
            lines += [""] * bool(lines[-1])
        for part in parts:
            if lines[-1] and cell_len(lines[-1] + part.rstrip()) > width:
                lines.append("")
            lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def middle(text: str, width: int) -> str:
    """Shorten a name in the middle, because names that go together differ at their ends.

    >>> middle("Stopped_at_the_crossing", 12), middle("Stop", 12), middle("停" * 9, 8)
    ('Stoppe…ssing', 'Stop', '停停…停')
    """
    if cell_len(text) <= width:
        return text
    start, end = set_cell_size(text, width // 2).rstrip(), ""
    for character in reversed(text):
        if cell_len(f"{start}…{character}{end}") > width:
            break
        end = character + end
    return f"{start}…{end}"


def grid(
    *columns: str,
    left: Iterable[str] = (),
    fold: Iterable[str] = (),
    aside: Sequence[str] = (),
    tight: bool = False,
    plain: bool = False,
) -> Grid:
    """Return a table without rows; columns are aligned right unless named.

    Args:
        columns: the heads of the columns.
        left: the columns to align left, because they hold words.
        fold: the columns whose cells may take several lines.
        aside: the columns that step aside first if there is too little room, and then those on
            the right; the first column never does.
        tight: leave little space between columns, where there are many.
        plain: show neither heads nor lines.
    """
    long = set(fold)
    table = Grid(set(left) - long, long, aside)
    table.collapse_padding = tight
    if plain:
        table.box, table.show_header = None, False
    for name in columns:
        table.add_column(name, justify="left" if name in left or name in long else "right")
    return table


def add(table: Table, *cells: object, style: str | None = None) -> None:
    """Add a row to a table."""
    table.add_row(*(one if isinstance(one, Styled) else str(one) for one in cells), style=style)


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
