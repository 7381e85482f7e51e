"""What if: facts with other degrees, and tables with these changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fotltn.analysis.record import Record, look_up
from fotltn.errors import DataError
from fotltn.semantics.sparse import SparseTable, flat
from fotltn.semantics.tables import Decisions, Tables

_HALF = 0.5  # the threshold of derived facts


@dataclass(frozen=True, slots=True)
class Change(Record):
    """A fact, and its new degree.

    Args:
        predicate: its predicate.
        entities: the names of its arguments.
        time: its time; None if it is static.
        trace: the name of its trace; None if there is one trace, or the fact holds in all.
        degree: from 0 to 1.

    Raises:
        DataError: the degree is not a number from 0 to 1.
    """

    predicate: str
    entities: tuple[str, ...]
    time: int | None
    trace: str | None
    degree: float

    KEYS = ("fact=text", "predicate", "entities", "time", "trace", "degree")

    def __post_init__(self) -> None:
        """Raise an error for a value that is not a degree."""
        if not 0 <= self.degree <= 1:
            raise DataError(f"a degree must be from 0 to 1, not {self.degree:g}")

    @property
    def text(self) -> str:
        """The fact in words."""
        return f"{self.predicate}({', '.join(self.entities)})" if self.entities else self.predicate

    @property
    def of(self) -> tuple[object, ...]:
        """The identity of the fact."""
        return self.predicate, self.entities, self.time, self.trace


def change_at(tables: Tables, predicate: str, trace: int, place: int, degree: float) -> Change:
    """Return a change of the fact at a place in the table of a trace."""
    shape = tuple(tables.table(predicate).shape)
    *numbers, time = map(int, np.unravel_index(place, shape[1:]))
    sorts = tables.signature.predicates[predicate].sorts
    names = tuple(tables.names.called(s, trace, n) for s, n in zip(sorts, numbers, strict=True))
    alone = shape[0] == 1 or tables.batch == 1
    return Change(
        predicate, names, time if shape[-1] > 1 else None,
        None if alone else tables.names.trace(trace), degree,
    )  # fmt: skip


def placed(tables: Tables, change: Change) -> tuple[int, int]:
    """Return the trace of a changed fact, and its place in the table of that trace.

    Raises:
        DataError: there is no such fact.
    """
    name = change.predicate
    decl = look_up(tables.signature.predicates, name, f"no predicate is named '{name}'")
    shape = tuple(tables.table(name).shape)
    if len(change.entities) != len(decl.sorts):
        raise DataError(
            f"'{name}' has {len(decl.sorts)} arguments, not {len(change.entities)}: {change.text}"
        )
    trace = 0
    if change.trace is not None:
        known = {tables.names.trace(i): i for i in range(tables.batch)}
        trace = look_up(known, change.trace, f"no trace is named '{change.trace}'")
    elif tables.batch > 1 and shape[0] > 1:
        raise DataError(f"in which trace is {change.text}? There are {tables.batch} traces")
    numbers = []
    for sort, entity in zip(decl.sorts, change.entities, strict=True):
        problem = f"no entity of sort '{sort}' is named '{entity}'"
        numbers.append(look_up(tables.numbers(sort, trace), entity, problem))
    time = 0
    if shape[-1] > 1:
        if change.time is None:
            raise DataError(f"at which time is {change.text}? It changes over time")
        time, length = change.time, tables.length(trace)
        if not 0 <= time < length:
            raise DataError(f"the time point {time} does not exist: there are 0 to {length - 1}")
    elif change.time is not None:
        raise DataError(f"{change.text} is the same at all times")
    return trace, int(np.ravel_multi_index([*numbers, time], shape[1:]))


def overlay(tables: Tables, changes: Sequence[Change], trace: int) -> dict[str, dict[int, float]]:
    """Return the changed degrees of each predicate in a trace, by place.

    Raises:
        DataError: there is no such fact.
    """
    over: dict[str, dict[int, float]] = {}
    for change in changes:
        where, place = placed(tables, change)
        if where == trace or tables.table(change.predicate).shape[0] == 1:
            over.setdefault(change.predicate, {})[place] = change.degree
    return over


def with_changes(tables: Tables, changes: Sequence[Change]) -> Tables:
    """Return the tables with some facts changed.

    Predictions of networks stay as they are. Defined facts follow in two-valued logic, unless they
    are changed themselves.

    Raises:
        DataError: there is no such fact.
    """
    predicates, how = dict(tables.predicates), tables.decisions or Decisions()
    exceptions = {name: dict(places) for name, places in how.exceptions.items()}
    for change in changes:
        trace, place = placed(tables, change)
        table = predicates[change.predicate]
        key = place + (trace if table.shape[0] > 1 else 0) * math.prod(table.shape[1:])
        predicates[change.predicate] = put(table, key, change.degree)
        if change.predicate in how.definitions:
            exceptions.setdefault(change.predicate, {})[key] = change.degree >= _HALF
    decided = replace(how, exceptions=exceptions) if exceptions else tables.decisions
    return replace(tables, predicates=predicates, decisions=decided)


def put(table: Tensor | SparseTable, key: int, degree: float) -> Tensor | SparseTable:
    """Return a table with another degree at a place, numbered over all of its dimensions."""
    if isinstance(table, Tensor):
        copied = table.detach().clone(memory_format=torch.contiguous_format)
        copied.view(-1)[key] = degree
        return copied
    there = (flat(table.index, table.shape) == key).nonzero()
    if len(there):
        value = table.value.detach().clone()
        value[there] = degree
        return replace(table, value=value)
    index = torch.tensor(np.unravel_index(key, table.shape)).to(table.index)
    value = torch.cat([table.value.detach(), table.value.new_tensor([degree])])
    return replace(table, index=torch.cat([table.index, index.unsqueeze(-1)], 1), value=value)
