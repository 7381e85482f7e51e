"""The state of an axiom in a watch: its leaves, reported cells, and counts of violations."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from fotltn.monitor.leaves import WatchedAxiom
from fotltn.monitor.open_cells import LeafWatch
from fotltn.monitor.roster import Key

#: The least number of reported cells to remember.
TOLD = 1000


@dataclass(slots=True)
class AxiomWatch:
    """An axiom with its leaves, and how often it was violated.

    Args:
        shape: the axiom by its cells.
        leaves: what it says of them.
        pairs: two of these at once, where they contradict each other before either is wrong.
        told: cells that were told, by binding and time; only where a cell may be violated in
            several ways, and some are open.
        room: how many of these there may be before it is looked which can be let go.
        violations: how many there were.
        recent: the steps of the last ones, with how many there were.
        last: the step of the last one.
        many: whether a cell may be violated in several ways.
    """

    shape: WatchedAxiom
    leaves: list[LeafWatch]
    pairs: list[LeafWatch] = field(default_factory=list)
    told: set[tuple[Key, int]] = field(default_factory=set)
    room: int = TOLD
    violations: int = 0
    recent: deque[tuple[int, int]] = field(default_factory=deque)
    last: int | None = None
    many: bool = field(init=False)

    @property
    def all(self) -> list[LeafWatch]:
        """Leaves and pairs."""
        return [*self.leaves, *self.pairs]

    def __post_init__(self) -> None:
        """Whether a cell may be violated in several ways does not change."""
        self.many = len(self.leaves) > 1 or self.leaves[0].leaf.axes != self.shape.axes
