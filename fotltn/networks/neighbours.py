"""Pool the features of an entity's neighbours, as a given relation defines them."""

from __future__ import annotations

import torch
from torch import Tensor

from fotltn.errors import DataError, name_hint
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables


def pooled(tables: Tables, relation: str, sort: str) -> Tensor:
    """Return the number of neighbours of each entity, and the mean of their features.

    With these, a network about a single entity can depend on its surroundings.

    Args:
        tables: given tables, with the features of all sorts as their inputs.
        relation: a given predicate of two entities, at least one of them of the sort. If both are,
            the neighbours are the second ones.
        sort: the sort of the entities.

    Returns:
        Numbers of shape (trace, entity, time or 1, feature). The first is the number of neighbours;
        the others are 0 for an entity without neighbours.

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
            f"inputs.{sort}: neighbours need a predicate of a '{sort}' and another entity, "
            f"not '{relation}({', '.join(sorts)})'"
        )
    if relation not in tables.predicates:
        raise DataError(f"inputs.{sort}: '{relation}' is computed, but neighbours need given facts")
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
    there = (~values.isnan()).to(values.dtype)  # missing values do not count
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
