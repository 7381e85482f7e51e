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
    """An axiom with its leaves and its counts of violations.

    Args:
        shape: the cells of the axiom.
        leaves: its leaves.
        pairs: pairs of leaves that can contradict each other before either is violated.
        told: reported violations, by binding and time; kept if a cell may be violated in several
            ways.
        room: the size of `told` above which old violations are removed.
        violations: the number of violations.
        recent: the last steps with violations, each with their number.
        last: the step of the last violation.
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
        """All leaves and pairs."""
        return [*self.leaves, *self.pairs]

    def __post_init__(self) -> None:
        """Find whether a cell may be violated in several ways."""
        self.many = len(self.leaves) > 1 or self.leaves[0].leaf.axes != self.shape.axes
