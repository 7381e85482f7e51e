"""The paper's two data sets: their sizes, and their facts counted as in its Table 1."""

from __future__ import annotations

from typing import NamedTuple

from fotltn.project.scene import Scene, Size

CARPED35K = Size(50, 50, 100)
CARPED180K = Size(100, 100, 150)


class Count(NamedTuple):
    """The number of true facts of a predicate, and of all its facts."""

    positive: int
    total: int

    @property
    def share(self) -> float:
        """The share of facts that are true."""
        return self.positive / self.total


def statistics(scene: Scene) -> dict[str, Count]:
    """Count the true facts and all facts of each predicate, as in the paper's Table 1."""
    stated = scene.stated()
    return {
        name: Count(int((table & stated[name]).sum()), int(stated[name].sum()))
        for name, table in scene.tables().items()
    }
