"""What is near: features of the entities that a given relation ties an entity to, pooled."""

from __future__ import annotations

import torch
from torch import Tensor

from fotltn.errors import DataError, name_hint
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables


def pooled(tables: Tables, relation: str, sort: str) -> Tensor:
    """How many neighbours each entity has, and the mean of their features.

    A network of the entity alone can then depend on what is near it.

    Args:
        tables: given tables, with the features of all sorts as their inputs.
        relation: a given predicate of two entities, one of which is of the sort. If both are, the
            second are the neighbours of the first.
        sort: of the entities.

    Returns:
        Numbers with axes (trace, entity, time or 1, feature). The first is the number of
        neighbours; the others are 0 where there are none.

    Raises:
        DataError: there is no such predicate, or it is not given.
    """
    known = tables.signature.predicates
    if relation not in known:
        hint = name_hint(relation, known, "declared:")
        raise DataError(f"inputs.{sort}: unknown predicate '{relation}' of neighbours; {hint}")
    sorts = known[relation].sorts
    if len(sorts) != 2 or sort not in sorts:
        raise DataError(
            f"inputs.{sort}: neighbours are told by a predicate of a '{sort}' and another entity, "
            f"not by '{relation}({', '.join(sorts)})'"
        )
    if relation not in tables.predicates:
        raise DataError(
            f"inputs.{sort}: '{relation}' is computed, but neighbours are told by given facts"
        )
    table = tables.table(relation)
    if not isinstance(table, SparseTable):
        index = (table >= 0.5).nonzero().T
    elif table.default >= 0.5:
        index = (table.dense(torch.float64) >= 0.5).nonzero().T
    else:
        index = table.index[:, table.value >= 0.5].long()
    place = sorts.index(sort)
    other = sorts[1 - place]
    if other in tables.inputs:  # which may be elsewhere
        index = index.to(tables.inputs[other].values.device)
    trace, entity, neighbour, time = index[0], index[1 + place], index[2 - place], index[3]
    steady = table.shape[-1] == 1
    if other not in tables.inputs:
        values = torch.zeros(1, tables.sizes[other], 1, 0, device=index.device)
    else:
        values = tables.inputs[other].values
    batch = tables.batch if table.shape[0] > 1 else values.shape[0]
    horizon = values.shape[2] if steady else table.shape[3]
    if table.shape[0] == 1 < batch:
        trace = torch.arange(batch, device=index.device).repeat_interleave(trace.numel())
        entity, neighbour, time = (part.repeat(batch) for part in (entity, neighbour, time))
    there = (~values.isnan()).to(values.dtype)  # what is missing does not count
    ones = values.new_ones(*values.shape[:-1], 1)
    told = torch.cat([ones, values.nan_to_num(nan=0.0), there], dim=-1)
    told = told.expand(batch, -1, horizon, -1)
    total = told.new_zeros(batch, tables.sizes[sort], horizon, told.shape[-1])
    if steady:
        total.index_put_((trace, entity), told[trace, neighbour], accumulate=True)
    else:
        total.index_put_((trace, entity, time), told[trace, neighbour, time], accumulate=True)
    number, sums, counts = total.split([1, values.shape[-1], values.shape[-1]], dim=-1)
    return torch.cat([number, sums / counts.clamp(min=1)], dim=-1)
