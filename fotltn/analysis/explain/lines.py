"""The atoms under a cell over time: what a small chart beside an explanation shows."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.explain.ground import Fact
from fotltn.analysis.explain.node import Node
from fotltn.analysis.explain.tree import tree_of
from fotltn.analysis.explain.values import Site, site, values_at


@dataclass(frozen=True, slots=True)
class Timeline:
    """The degrees of an atom at all points of a trace.

    Args:
        text: the atom.
        predicate: its predicate.
        values: its degrees, one a point; one only if it is static.
        static: whether time does not matter.
        read: the times at which the explanation reads it.
    """

    text: str
    predicate: str
    values: tuple[float, ...]
    static: bool
    read: tuple[int, ...]

    def as_dict(self) -> dict[str, object]:
        """The timeline for machines."""
        return {
            "atom": self.text,
            "predicate": self.predicate,
            "values": list(self.values),
            "static": self.static,
            "read": list(self.read),
        }


def timelines(cells: Cells, cell: Cell, *, limit: int = 12) -> tuple[Timeline, ...]:
    """The atoms that the explanation of a cell shows, over all of its trace.

    Args:
        cells: of the rule.
        cell: where.
        limit: how many atoms at most, those nearest to the root first.

    Raises:
        DataError: there is no such cell, or a table is missing.
    """
    found = site(cells, cell)
    return timelines_of(found, tree_of(values_at(found)), limit=limit)


@torch.no_grad()
def timelines_of(found: Site, tree: Node, *, limit: int = 12) -> tuple[Timeline, ...]:
    """The atoms of a tree over time, in the order in which they are read."""
    read: dict[str, list[int]] = {}
    facts: dict[str, Fact] = {}
    depth: dict[str, int] = {}
    for node, level in tree.levels():
        if node.fact is None or node.ground is None:
            continue
        facts.setdefault(node.ground, node.fact)
        depth[node.ground] = min(level, depth.get(node.ground, level))
        if node.time is not None:
            read.setdefault(node.ground, []).append(node.time)
    nearest = set(sorted(facts, key=lambda text: depth[text])[:limit])
    lines = []
    for text, fact in facts.items():
        if text in nearest:
            values = tuple(found.view.over_time(fact).tolist())
            static = found.view.name(fact)[1] is None
            times = () if static else tuple(sorted(set(read.get(text, ()))))
            lines.append(Timeline(text, fact.predicate, values, static, times))
    return tuple(lines)
