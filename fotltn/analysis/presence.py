"""Where cells count when entities come and go: present at the times at which they are used.

In `Late(x) -> X Arrived(x)`, the entity x is used at a point and at the next one. A cell counts
where x is present at both. A window, such as that of `F[<=3] Arrived(x)`, is cut to the presence
of x as it is cut to the trace: x must be present at one of its points. What lies beyond the end of
the trace asks for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from fotltn.analysis.axes import columns
from fotltn.logic import core as c
from fotltn.logic.span import HERE, TimeSpan, times_of_use
from fotltn.semantics.tables import Tables, Value, spread

#: All time points of a trace.
ANY_TIME = TimeSpan(None, None)


def present_where_used(
    axes: tuple[c.Axis, ...], body: c.Formula, tables: Tables, *, static: TimeSpan = HERE
) -> tuple[Value, ...]:
    """Where entities are present when the body of a formula uses them, a mask for each use.

    Masks have the visible places of an axis.

    Args:
        axes: the axes of the entities.
        body: the formula.
        tables: the tables, with the presence of entities.
        static: when an entity must be present of which only static facts are used.
    """
    seen = {axis: slice(*tables.cuts.get(axis, (None, None))) for axis in axes}
    used = times_of_use(body, _moves(tables)) if tables.present else {}
    return tuple(
        Value((axis,), _within(present, span, tables)[:, seen[axis]])
        for axis in axes
        for present, column in _presence(axis, tables)
        for span in used.get((axis, column), {static})
    )


def absent_where_used(
    free: tuple[c.Axis, ...], formula: c.Formula, tables: Tables
) -> Tensor | None:
    """Where an entity is not present when a formula uses it, shape `(trace, *free, time)`.

    Static facts are about entities that are present at any time. None if no entity comes or goes.
    """
    masks = present_where_used(free, formula, tables, static=ANY_TIME)
    if not masks:
        return None
    shape = (tables.batch, *map(tables.size, free), tables.horizon)
    absent = torch.zeros(shape, dtype=torch.bool, device=tables.lengths.device)
    for mask in masks:
        absent |= ~spread(mask, free)
    return absent


def _moves(tables: Tables) -> Callable[[c.Core], bool]:
    """Whether what an atom or a term looks up changes over time."""

    def moves(node: c.Core) -> bool:
        if isinstance(node, c.Atom):
            if node.predicate not in tables.predicates:  # in sampled worlds, what is learned
                return not tables.signature.predicates[node.predicate].static
            return tables.table(node.predicate).shape[-1] > 1
        return isinstance(node, c.Apply) and tables.function(node.function).shape[-1] > 1

    return moves


def _presence(axis: c.Axis, tables: Tables) -> Iterator[tuple[Tensor, int | None]]:
    """The masks of an axis, each with the column of its variable."""
    for place, (_, sort, entities) in enumerate(columns(axis, tables)):
        if sort in tables.present:
            mask = tables.present[sort]
            yield (mask, None) if axis.relation is None else (mask[:, entities], place)


def _within(present: Tensor, span: TimeSpan, tables: Tables) -> Tensor:
    """Where an entity is present at a point of a span, or the span lies outside the trace."""
    times = torch.arange(tables.horizon, device=present.device)
    last = tables.lengths.to(present.device).reshape(-1, 1, 1) - 1
    low = torch.zeros_like(times) if span.low is None else times + span.low
    high = last.expand(-1, 1, tables.horizon) if span.high is None else times + span.high
    low, high = low.clamp(min=0).expand_as(high), torch.minimum(high, last)
    total = torch.nn.functional.pad(present.long().cumsum(-1), (1, 0))
    shape = (*present.shape[:2], tables.horizon)
    first = low.clamp(max=tables.horizon).expand(shape)
    after = (high + 1).clamp(min=0, max=tables.horizon).expand(shape)
    total = total.expand(*shape[:2], tables.horizon + 1)
    return (total.gather(-1, after) > total.gather(-1, first)) | (low > high).expand(shape)
