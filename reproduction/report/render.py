"""Render tables as plain text, Markdown and LaTeX."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from fotltn.format import NONE
from reproduction.report.stats import Summary

_FAR = "†"


@dataclass(frozen=True, slots=True)
class Cell:
    """Text that may be the best of its kind (bold) or far from the paper (a dagger)."""

    text: str
    best: bool = False
    far: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Args:
        title: what it shows.
        head: the names of the columns.
        groups: rows that stay together; a line separates groups.
        stubs: the number of columns that name the row. A name is not repeated below itself.
        notes: sentences below the table.
        best: what bold means (or a star, in plain text).
        far: what a dagger means.
    """

    title: str
    head: tuple[str, ...]
    groups: tuple[tuple[tuple[Cell, ...], ...], ...]
    stubs: int = 1
    notes: tuple[str, ...] = ()
    best: str | None = None
    far: str | None = None


def row(*cells: Cell | str) -> tuple[Cell, ...]:
    """Return a row of cells; some may be given as text."""
    return tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in cells)


# --- numbers ---------------------------------------------------------------------------------


def number(value: float | None, digits: int = 3, *, sign: bool = False) -> str:
    """Format a number with this many digits; a dash if there is none.

    >>> number(0.7271), number(1.0), number(-0.0312, sign=True), number(float("nan"))
    ('0.727', '1.000', '−0.031', '–')
    """
    if value is None or math.isnan(value):
        return NONE
    if math.isinf(value):
        return ("−" if value < 0 else "+" if sign else "") + "∞"
    value = round(value, digits) + 0.0  # avoids negative zero
    return ("−" if value < 0 else "+" if sign else "") + f"{abs(value):.{digits}f}"


def spread(values: Summary | None, digits: int = 3) -> str:
    """Format mean ± standard deviation; only the mean of a single value."""
    if values is None:
        return NONE
    mean = number(values.mean, digits)
    return mean if math.isnan(values.std) else f"{mean}±{number(values.std, digits)}"


def p_value(p: float, *, below: bool = False) -> str:
    """Format a p-value with three digits, or as a bound that it is below."""
    if below or p < 0.0005:
        return f"<{number(p if below else 0.001)}"
    return number(p)


def percent(share: float) -> str:
    """Format a share in percent, with as many digits as it needs.

    >>> percent(0.1), percent(0.125)
    ('10 %', '12.5 %')
    """
    return f"{round(100 * share, 4):g} %"


# --- formats ---------------------------------------------------------------------------------


def as_text(table: Table) -> str:
    """Render a table for a terminal, with aligned columns."""
    shown = [
        [_unrepeated(group, i, table.stubs) for i in range(len(group))] for group in table.groups
    ]
    lines = [
        [[cell.text + "*" * cell.best + _FAR * cell.far for cell in line] for line in group]
        for group in shown
    ]
    every = [list(table.head), *(line for group in lines for line in group)]
    widths = [max(len(line[i]) for line in every) for i in range(len(table.head))]

    def aligned(line: Sequence[str]) -> str:
        names = [text.ljust(widths[i]) for i, text in enumerate(line[: table.stubs])]
        values = [
            text.rjust(w)
            for text, w in zip(line[table.stubs :], widths[table.stubs :], strict=True)
        ]
        return "  ".join([*names, *values]).rstrip()

    rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
    parts = [table.title, rule, aligned(table.head)]
    for group in lines:
        parts += [rule, *map(aligned, group)]
    return "\n".join([*parts, rule, *_notes(table, "*")]) + "\n"


def as_markdown(table: Table, *, heading: str = "###") -> str:
    """Render a table in Markdown, under a heading unless the heading is empty."""

    def shown(cell: Cell) -> str:
        text = cell.text.replace("|", "\\|") + _FAR * cell.far
        return f"**{text}**" if cell.best else text

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    rules = [":--" if i < table.stubs else "--:" for i in range(len(table.head))]
    parts = [f"{heading} {table.title}\n"] if heading else []
    parts += [line([name.replace("|", "\\|") for name in table.head]), line(rules)]
    for group in table.groups:
        rows = (_unrepeated(group, i, table.stubs) for i in range(len(group)))
        parts += [line([shown(cell) for cell in cells]) for cells in rows]
    notes = "\n".join(_notes(table, "Bold:"))
    return "\n".join(parts) + "\n" + (f"\n{notes}\n" if notes else "")


def as_latex(table: Table, *, label: str | None = None) -> str:
    r"""Render a table as a LaTeX `table`; it needs `\usepackage{booktabs}`."""

    def shown(cell: Cell) -> str:
        text = escape(cell.text) + r"$^\dagger$" * cell.far
        return rf"\textbf{{{text}}}" if cell.best else text

    def line(cells: Sequence[str]) -> str:
        return " & ".join(cells) + r" \\"

    kinds = "l" * table.stubs + "r" * (len(table.head) - table.stubs)
    parts = [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{escape(' '.join((table.title + '.', *_notes(table, 'Bold:'))))}}}",
        *([rf"\label{{{label}}}"] if label else []),
        rf"\begin{{tabular}}{{@{{}}{kinds}@{{}}}}",
        r"\toprule",
        line([escape(name) for name in table.head]),
    ]
    for group in table.groups:
        rows = (_unrepeated(group, i, table.stubs) for i in range(len(group)))
        parts += [r"\midrule", *(line([shown(cell) for cell in cells]) for cells in rows)]
    return "\n".join([*parts, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "−": r"$-$", "<": r"$<$", ">": r"$>$", "∞": r"$\infty$",
    "–": "--", "†": r"$\dagger$", "μ": r"$\mu$", "Δ": r"$\Delta$", "×": r"$\times$",
    "∀": r"$\forall$", "∃": r"$\exists$",
}  # fmt: skip
_SPECIAL = re.compile("|".join(re.escape(c) for c in _LATEX))


def escape(text: str) -> str:
    r"""Escape text for LaTeX; spaces before percent signs do not break.

    >>> escape("+0.004 < 5 %")
    '+0.004 $<$ 5~\\%'
    """
    return _SPECIAL.sub(lambda m: _LATEX[m[0]], text).replace(r" \%", r"~\%")


#: The formats by file ending.
FORMATS: Mapping[str, Callable[[Table], str]] = MappingProxyType(
    {"txt": as_text, "md": as_markdown, "tex": as_latex}
)


def _notes(table: Table, best: str) -> list[str]:
    """Return all sentences below a table; `best` is how the best is marked."""
    marked = [f"{best} {table.best}."] if table.best else []
    return [*table.notes, *marked, *([f"{_FAR} {table.far}."] if table.far else [])]


def _unrepeated(group: Sequence[Sequence[Cell]], i: int, stubs: int) -> list[Cell]:
    """Return a row of a group without the names that it shares with the row above."""
    cells = list(group[i])
    for column in range(stubs - 1 if i else 0):
        if cells[column] != group[i - 1][column]:
            break
        cells[column] = Cell("")
    return cells
