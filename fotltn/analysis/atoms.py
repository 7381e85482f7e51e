"""Names and atoms at one binding and time: what people read of a violation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from fotltn.algebra.expr import free_axes
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.semantics.interpretation import Tables
from fotltn.semantics.reference import evaluate_term
from fotltn.semantics.sparse import SparseTable
from fotltn.tree import postorder

#: The name of an entity, from its sort, the trace and its number; None if the trace lacks it.
Names = Callable[[str, int, int], str | None]


@dataclass(frozen=True, slots=True)
class AtomValue:
    """The degree of an atom with its arguments named; `time` is None where it does not matter."""

    text: str
    time: int | None
    value: float

    def as_dict(self) -> dict[str, object]:
        """The atom for machines."""
        return {"atom": self.text, "time": self.time, "value": self.value}


def called(names: Names, sort: str, trace: int, number: int) -> str:
    """The name of an entity, or its sort and number where it has none."""
    found = names(sort, trace, number)
    return f"{sort}#{number}" if found is None else found


def binding(
    axes: Sequence[c.Axis],
    place: Sequence[int],
    trace: int,
    signature: Signature,
    tables: Tables,
    names: Names,
) -> dict[str, str]:
    """The names of entities by variable; a tuple of a relation binds several variables."""
    found = {}
    for axis, number in zip(axes, place, strict=True):
        if axis.relation is None:
            found[axis.name] = called(names, str(axis.sort), trace, number)
            continue
        entities = tables.relation(axis.relation)[number].tolist()
        sorts = signature.relations[axis.relation].sorts
        for variable, sort, entity in zip(axis.name.split(","), sorts, entities, strict=True):
            found[variable] = called(names, sort, trace, entity)
    return found


def atom_values(
    body: c.Formula,
    axes: Sequence[c.Axis],
    place: Sequence[int],
    signature: Signature,
    tables: Tables,
    names: Names,
) -> tuple[AtomValue, ...]:
    """The degrees of the atoms of a formula at a cell, in the order in which they are written.

    An atom under X or Y is read that many steps away. One under F, G, U and their like is read at
    the cell's own time. Atoms of variables that are bound inside are left out.

    Args:
        body: the formula.
        axes: those that the cell is a binding of.
        place: the cell: trace, time, and a number for each axis.
        signature: what the formula uses.
        tables: the tables.
        names: gives the name of an entity.
    """
    trace, time, *numbers = place
    cuts = {a: (n, n + 1) for a, n in zip(axes, numbers, strict=True)}
    seen = replace(tables, cuts=cuts)
    found = []
    for atom, steps in dict.fromkeys(_atoms(body)):
        when = time + steps
        if free_axes(atom) <= set(axes) and 0 <= when < int(tables.lengths[trace]):
            found.append(_value(atom, trace, when, signature, seen, names))
    return tuple(found)


def _atoms(body: c.Formula) -> Iterator[tuple[c.Atom, int]]:
    """Atoms, each with its number of steps away."""
    stack: list[tuple[c.Formula, int]] = [(body, 0)]
    while stack:
        node, steps = stack.pop()
        match node:
            case c.Atom():
                yield node, steps
            case c.Shift(arg, far, past):
                stack.append((arg, steps - far if past else steps + far))
            case c.Not(arg) | c.Aggregate(_, arg) | c.Quantifier(_, _, _, arg):
                stack.append((arg, steps))
            case c.And(a, b) | c.Or(a, b) | c.Implies(a, b) | c.Until(_, a, b):
                stack += [(b, steps), (a, steps)]


def _value(
    atom: c.Atom, trace: int, time: int, signature: Signature, tables: Tables, names: Names
) -> AtomValue:
    table = tables.table(atom.predicate)
    numbers = [_number(term, trace, time, tables) for term in atom.args]
    sorts = signature.predicates[atom.predicate].sorts
    shown = ", ".join(called(names, s, trace, n) for s, n in zip(sorts, numbers, strict=True))
    text = f"{atom.predicate}({shown})" if shown else atom.predicate
    wanted = [trace, *numbers, time]
    place = [i if size > 1 else 0 for i, size in zip(wanted, table.shape, strict=True)]
    return AtomValue(text, time if _moves(atom, tables) else None, _degree(table, place))


def _degree(table: torch.Tensor | SparseTable, place: Sequence[int]) -> float:
    if isinstance(table, torch.Tensor):
        return float(table[tuple(place)].item())
    wanted = torch.tensor(place, device=table.index.device).unsqueeze(-1)
    facts = (table.index == wanted).all(0).nonzero()
    return float(table.value[facts[0, 0]].item()) if facts.numel() else table.default


def _number(term: c.Term, trace: int, time: int, tables: Tables) -> int:
    """The entity that a term is, all of its variables being cut to one."""
    tensor = evaluate_term(term, tables, torch.float64).tensor
    traces, times = tensor.shape[0], tensor.shape[-1]
    at = tensor.reshape(traces, times)[trace if traces > 1 else 0, time if times > 1 else 0]
    return int(at)


def _moves(atom: c.Atom, tables: Tables) -> bool:
    """Whether an atom can have another degree at another time."""
    return tables.table(atom.predicate).shape[-1] > 1 or any(
        isinstance(node, c.Apply) and tables.function(node.function).shape[-1] > 1
        for node in postorder(atom)
    )
