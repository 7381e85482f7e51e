"""Count the cells of a formula: how many count, are violated, or are undecided.

A *violation* is a cell that is false in two-valued logic. A cell is *undecided* if it is false only
because its trace ends, *unlabelled* if its truth depends on facts without a label, and *decided*
otherwise. Shares of violations are of decided cells.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fotltn.analysis.cells import Cell
from fotltn.analysis.record import Record
from fotltn.format import count


@dataclass(frozen=True, slots=True)
class CellTally(Record):
    """The cells of a formula, counted.

    Args:
        count: how many cells count.
        violated: how many of them are false in two-valued logic.
        undecided: how many of them are false only because their trace ends.
        absent: cells that do not count, because an entity is not present when it is used.
        unlabelled: how many of those that count could be true or false, because facts have no
            label; on predictions, none.
    """

    count: int
    violated: int
    undecided: int
    absent: int
    unlabelled: int = field(default=0, kw_only=True)

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        """The numbers of cells of all kinds that predictions can have."""
        return self.count, self.violated, self.undecided, self.absent

    @property
    def decided(self) -> int:
        """How many cells are true or false, whatever ends of traces and labels leave open."""
        return self.count - self.undecided - self.unlabelled

    @property
    def holds(self) -> bool:
        """Whether no cell is violated."""
        return self.violated == 0

    @property
    def rate(self) -> float | None:
        """The share of decided cells that are violated; None if none is decided."""
        return self.violated / self.decided if self.decided else None

    def words(self, *more: str) -> str:
        """Return the numbers in words; `more` comes before the cells that do not count."""
        verb = "is" if self.violated == 1 else "are"
        parts = [f"{count(self.violated)} of {count(self.decided)} cells {verb} violated"]
        parts += [f"{count(self.undecided)} undecided"] if self.undecided else []
        parts += [f"{count(self.unlabelled)} unlabelled"] if self.unlabelled else []
        text = ", ".join([*parts, *more])
        if self.absent:
            verb = "does" if self.absent == 1 else "do"
            text += f". {count(self.absent)} more {verb} not count: an entity is not present"
        return text


@dataclass(frozen=True, slots=True)
class Standing(CellTally):
    """The cells of a formula, counted, with its degree and its worst cell.

    Args:
        value: its degree; None if it has free variables.
        worst: the cell that lists put first: a violation, if there is one, with the largest error.
            None if all cells are fully true, or if it was not looked for.
    """

    value: float | None
    worst: Cell | None = None

    KEYS = ("value", "count", "decided", "undecided", "violated", "rate")
