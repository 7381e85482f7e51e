"""The paper's two data sets: their sizes, and their facts counted as its Table 1 counts them."""

from __future__ import annotations

from typing import NamedTuple

from fotltn.project.scene import Scene, Size

CARPED35K = Size(50, 50, 100)
CARPED180K = Size(100, 100, 150)


class Count(NamedTuple):
    """How many facts of a predicate are true, of how many."""

    positive: int
    total: int

    @property
    def share(self) -> float:
        """The share that is true."""
        return self.positive / self.total


def statistics(scene: Scene) -> dict[str, Count]:
    """True facts and all facts of each predicate, as the paper's Table 1 counts them."""
    stated = scene.stated()
    return {
        name: Count(int((table & stated[name]).sum()), int(stated[name].sum()))
        for name, table in scene.tables().items()
    }
