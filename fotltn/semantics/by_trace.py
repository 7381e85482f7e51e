"""Split tables and values by trace, and join them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Names, Tables, Value, align
from fotltn.sharing import by_blocks, ranges

T = TypeVar("T")
Table = TypeVar("Table", Tensor, SparseTable, Tensor | SparseTable)


def shared(what: str, tables: Tables, work: Callable[[Tables], T]) -> list[T] | None:
    """Return the results of the work on each block of traces in order, or None if it is not shared.

    Tensors with gradients are not shared, because gradients do not pass between processes.
    """
    every = (*tables.predicates.values(), *tables.functions.values())
    numbers = (t.value if isinstance(t, SparseTable) else t for t in every)
    if torch.is_grad_enabled() and any(n.requires_grad for n in numbers):
        return None
    if tables.decisions is not None and tables.decisions.exceptions:
        return None  # exceptions refer to cells by their numbers across all traces
    return by_blocks(what, tables.batch, lambda traces: work(of_traces(tables, traces)))


def of_traces(tables: Tables, traces: range) -> Tables:
    """Return a range of traces as tables, built on first use."""

    def made() -> Tables:
        names, part = tables.names, slice(traces.start, traces.stop)
        return replace(
            tables,
            lengths=tables.lengths[part],
            predicates=_each(tables.predicates, traces),
            possible=_each(tables.possible, traces),
            functions=_each(tables.functions, traces),
            features=_each(tables.features, traces),
            present=_each(tables.present, traces),
            names=Names(
                names.traces[part] or tuple(map(str, traces)), names.entities,
                {sort: by_trace[part] for sort, by_trace in names.local.items()}, names.clock,
            ),
        )  # fmt: skip

    return tables.derived(("traces", traces), made)


def _each(tables: Mapping[str, Table], traces: range) -> dict[str, Table]:
    return {name: _of(table, traces) for name, table in tables.items()}


def _of(table: Table, traces: range) -> Table:
    if table.shape[0] == 1:  # one row for all traces
        return table
    if isinstance(table, Tensor):
        return table[traces.start : traces.stop]
    inside = (table.index[0] >= traces.start) & (table.index[0] < traces.stop)
    index = table.index[:, inside]
    index[0] -= traces.start
    shape = (len(traces), *table.shape[1:])
    return SparseTable(index, table.value[inside], shape, table.default)


def joined_values(parts: Sequence[Mapping[str, Value]], tables: Tables) -> dict[str, Value]:
    """Join the values of all traces from those of their blocks."""
    values = {}
    for name in parts[0]:
        axes, tensors = align([part[name] for part in parts])
        tensor = joined(tensors, tables.batch).to(tables.lengths.device)
        values[name] = Value(axes, tensor)
    return values


def joined(tensors: Sequence[Tensor], total: int) -> Tensor:
    """Join blocks into one tensor of `total` traces; one row may stand for a whole block."""
    blocks = ranges(total, len(tensors))
    shape = torch.broadcast_shapes(*(t.shape[1:] for t in tensors))
    rows = [t.expand(len(b), *shape) for t, b in zip(tensors, blocks, strict=True)]
    return torch.cat(rows)


def joined_tables(parts: Sequence[Tensor | SparseTable], total: int) -> Tensor | SparseTable:
    """Join the tables of blocks into one table of `total` traces."""
    facts = [part for part in parts if isinstance(part, SparseTable)]
    if not facts:
        return joined([part for part in parts if isinstance(part, Tensor)], total)
    indices = []
    for one, traces in zip(facts, ranges(total, len(parts)), strict=True):
        index = one.index.clone()
        index[0] += traces.start
        indices.append(index)
    shape = (total, *facts[0].shape[1:])
    values = torch.cat([one.value for one in facts])
    return SparseTable(torch.cat(indices, 1), values, shape, facts[0].default)
