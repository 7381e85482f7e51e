"""Where cells count when entities come and go: present at the times at which they are used.

In `Late(x) -> X Arrived(x)`, the entity x is used at a point and at the next one. A cell counts
where x is present at both. A window, as that of `F[<=3] Arrived(x)`, is cut to the presence of x
as it is cut to the trace: x must be present at one of its points. What lies beyond the end of
the trace asks for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.analysis.prefix import spread
from fotltn.logic import core as c
from fotltn.logic.span import HERE, Span, spans
from fotltn.semantics.interpretation import Tables, Value
from fotltn.tree import Node, children, postorder


@dataclass(frozen=True, slots=True)
class Presence:
    """Masks of cells, one for each axis whose entities come and go: (trace, place, time)."""

    masks: tuple[Value, ...]

    def at(self, axes: tuple[c.Axis, ...], cut: tuple[int, int]) -> Tensor | bool:
        """Where all entities of a binding are present, with axes (trace, `axes` …, time).

        Args:
            axes: of the cells.
            cut: the part of the first axis that is wanted.
        """
        everywhere: Tensor | bool = True
        for mask in self.masks:
            tensor = spread(mask, axes)
            if axes and tensor.shape[1] > 1:
                tensor = tensor[:, cut[0] : cut[1]]
            everywhere = tensor & everywhere
        return everywhere


def present_where_used(axes: tuple[c.Axis, ...], body: c.Formula, tables: Tables) -> Presence:
    """Where the entities of each axis are present when the body of a formula uses them."""
    masks: list[Value] = []
    used = times_of_use(body, tables) if tables.present else {}
    for axis in axes:
        for present, column in _presence(axis, tables):
            spans_of_use = used.get((axis, column), {HERE})
            masks += [Value((axis,), _within(present, span, tables)) for span in spans_of_use]
    return Presence(tuple(masks))


def times_of_use(body: c.Formula, tables: Tables) -> dict[tuple[c.Axis, int | None], set[Span]]:
    """For each variable, by axis and column, when what changes over time is asked about it."""
    used: dict[tuple[c.Axis, int | None], set[Span]] = {}
    for node, read in spans(body).items():
        if not isinstance(node, c.Atom | c.Equal | c.Compare):
            continue
        waiting: list[tuple[Node, bool]] = [(node, False)]
        while waiting:
            part, moves = waiting.pop()
            match part:
                case c.Atom(name):
                    moves = tables.table(name).shape[-1] > 1
                case c.Apply(name):
                    moves = moves or tables.function(name).shape[-1] > 1
                case c.Variable(axis, _, column) if moves:
                    used.setdefault((axis, column), set()).update(read)
            waiting += [(child, moves) for child in children(part)]
    return used


def _presence(axis: c.Axis, tables: Tables) -> list[tuple[Tensor, int | None]]:
    """The masks of an axis, each with the column of its variable."""
    if axis.relation is None:
        mask = tables.present.get(str(axis.sort))
        return [] if mask is None else [(mask, None)]
    tuples = tables.relation(axis.relation)
    sorts = tables.signature.relations[axis.relation].sorts
    return [
        (tables.present[sort][:, tuples[:, place]], place)
        for place, sort in enumerate(sorts)
        if sort in tables.present
    ]


def _within(present: Tensor, span: Span, tables: Tables) -> Tensor:
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


def used_predicates(formula: c.Formula) -> set[str]:
    """The predicates that a formula speaks of."""
    return {n.predicate for n in postorder(formula) if isinstance(n, c.Atom)}
