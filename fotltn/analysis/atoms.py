"""The atoms of a body at one cell: what people read of a violation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from fotltn.algebra.expr import free_axes
from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.explain.ground import view
from fotltn.logic import core as c
from fotltn.logic.span import HERE, inside
from fotltn.semantics.interpretation import Tables
from fotltn.tree import children, postorder


@dataclass(frozen=True, slots=True)
class AtomValue:
    """The degree of an atom with its arguments named; `time` is None where it does not matter."""

    text: str
    time: int | None
    value: float

    def as_dict(self) -> dict[str, object]:
        """The atom for machines."""
        return {"atom": self.text, "time": self.time, "value": self.value}


def atoms_at(cells: Cells, cell: Cell, *, crisp: bool = False) -> tuple[AtomValue, ...]:
    """The degrees of the atoms of a body at a cell, in the order in which they are written.

    An atom under X or Y is read that many steps away. One under F, G, U and their like is read at
    the cell's own time. Atoms of variables that are bound inside are left out.

    Args:
        cells: of the formula.
        cell: where.
        crisp: in two-valued logic, as 1 and 0.
    """
    seen = view(cells, cell)
    atoms = []
    for atom, steps in dict.fromkeys(_atoms(cells.body)):
        time = cell.time + steps
        if not free_axes(atom) <= set(cells.axes) or not 0 <= time < cells.tables.length(
            cell.trace
        ):
            continue
        fact = seen.fact(atom, {}, time)
        place = torch.tensor(fact.place, device=cells.tables.lengths.device)
        degree = float(seen.degrees(fact.predicate, place))
        value = float(degree >= cells.threshold) if crisp else degree
        atoms.append(
            AtomValue(seen.name(fact)[0], time if _moves(atom, cells.tables) else None, value)
        )
    return tuple(atoms)


def _atoms(body: c.Formula) -> Iterator[tuple[c.Atom, int]]:
    """Atoms outside guards, each with its number of steps away."""
    stack: list[tuple[c.Formula, int]] = [(body, 0)]
    while stack:
        node, steps = stack.pop()
        if isinstance(node, c.Atom):
            yield node, steps
        far = inside(node, HERE).low if isinstance(node, c.Shift) else 0
        below = [node.body] if isinstance(node, c.Quantifier) else children(node)
        stack += [
            (child, steps + (far or 0)) for child in reversed(below) if isinstance(child, c.Formula)
        ]


def _moves(atom: c.Atom, tables: Tables) -> bool:
    """Whether an atom can have another degree at another time."""
    return tables.table(atom.predicate).shape[-1] > 1 or any(
        isinstance(node, c.Apply) and tables.function(node.function).shape[-1] > 1
        for node in postorder(atom)
    )
