"""The values of a body and of all of its parts at one cell, by the engine on small tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fotltn.analysis.explain.pattern import replaced
from fotltn.analysis.explain.site import Inner, Site
from fotltn.evaluation import evaluate_all, evaluate_core
from fotltn.logic import core as c
from fotltn.semantics.config import GODEL, Semantics
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables, Value, spread
from fotltn.tree import children, postorder

#: Up to so many formulas are planned together; planning more would take longer than running them.
_MANY = 60


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The value of each part of a body, as a degree and in two-valued logic."""

    site: Site
    fuzzy: Mapping[c.Formula, Value]
    crisp: Mapping[c.Formula, Value]
    guards: Mapping[c.Formula, Value]

    def value(self, node: c.Formula, inner: Inner, time: int) -> float:
        """The degree of a part."""
        return float(self._now(self.fuzzy[node], (), inner, time))

    def truth(self, node: c.Formula, inner: Inner, time: int) -> bool:
        """The truth of a part."""
        return float(self._now(self.crisp[node], (), inner, time)) > 0.5

    def instances(
        self, node: c.Quantifier, inner: Inner, time: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The degrees, truths and places of a quantifier's bodies where its guard is true.

        Places have axes (instance, axis of the quantifier).
        """
        sizes = [self.site.cells.tables.size(a) for a in node.axes]

        def every(value: Value) -> Tensor:
            return self._now(value, node.axes, inner, time).expand(sizes).reshape(-1)

        degrees, truths = every(self.fuzzy[node.body]), every(self.crisp[node.body]) > 0.5
        guarded = torch.ones_like(truths)
        if node in self.guards:
            guarded = every(self.guards[node]) > 0.5
        places = guarded.reshape(sizes or [1]).nonzero()
        return degrees[guarded], truths[guarded], places

    def points(self, node: c.Formula, inner: Inner, first: int, last: int) -> tuple[Tensor, Tensor]:
        """The degrees and truths of a part from one point to another."""
        start = self.site.first
        degrees, truths = (
            self.along(value, (), inner).expand(self.site.last - start + 1)
            for value in (self.fuzzy[node], self.crisp[node])
        )
        here = slice(first - start, last - start + 1)
        return degrees[here], truths[here] > 0.5

    def counting(self, node: c.Aggregate, inner: Inner, first: int, last: int) -> Tensor:
        """Where the guard of F or G is true, from one point to another."""
        start = self.site.first
        guard = self.along(self.guards[node], (), inner).expand(self.site.last - start + 1)
        return guard[first - start : last - start + 1] > 0.5

    def along(self, value: Value, axes: Sequence[c.Axis], inner: Inner) -> Tensor:
        """A value with axes (`axes` …, time), of size 1 where it lacks one; others are fixed."""
        in_body = {local: axis for axis, local in self.site.pattern.axes.items()}
        names = [in_body[a] for a in value.axes]
        index = [slice(None) if a in axes else inner[a] for a in names]
        open_axes = tuple(a for a in names if a in axes)
        return spread(Value(open_axes, value.tensor[(slice(1), *index)]), tuple(axes))[0]

    def _now(self, value: Value, axes: Sequence[c.Axis], inner: Inner, time: int) -> Tensor:
        point = time - self.site.first if value.tensor.shape[-1] > 1 else 0
        return self.along(value, axes, inner)[..., point]


@torch.no_grad()
def values_at(site: Site) -> Values:
    """The values of all parts of a body at a cell."""
    cells, parts, guards = site.cells, site.pattern.parts, site.pattern.guards
    truths = {leaf: table.truth.to(cells.tables.dtype) for leaf, table in site.leaves.items()}
    wanted = [*parts.values(), *guards.values()]
    crisp = fuzzy = _evaluated(wanted, site.variant(truths, truths), GODEL)
    if not cells.semantics.boolean:
        degrees = site.variant({leaf: table.value for leaf, table in site.leaves.items()})
        fuzzy = _evaluated(list(parts.values()), degrees, cells.semantics)
    return Values(
        site,
        {node: fuzzy[form] for node, form in parts.items()},
        {node: crisp[form] for node, form in parts.items()},
        {node: crisp[form] for node, form in guards.items()},
    )


def body_value(site: Site, tables: Tables, semantics: Semantics) -> Tensor:
    """The value of the body at the cell, one for each variant."""
    value = evaluate_core(site.pattern.parts[site.pattern.body], tables, semantics)
    point = site.cell.time - site.first if value.tensor.shape[-1] > 1 else 0
    return value.tensor[..., point].expand(tables.batch)


def _evaluated(
    formulas: Sequence[c.Formula], tables: Tables, semantics: Semantics
) -> dict[c.Formula, Value]:
    """The values of formulas that are parts of each other: at once, or if many, one by one."""
    if len(formulas) <= _MANY:
        named = {str(number): formula for number, formula in enumerate(formulas)}
        values = evaluate_all(named, tables, semantics)
        return {formula: values[str(number)] for number, formula in enumerate(formulas)}
    known: dict[c.Formula, Value] = {}
    predicates: dict[str, Tensor | SparseTable] = dict(tables.predicates)
    short: dict[c.Formula, c.Atom] = {}
    nodes = [n for n in postorder(*formulas) if isinstance(n, c.Quantifier | c.Aggregate)]
    in_guards = {*postorder(*(n.guard for n in nodes if n.guard is not None))}
    for number, node in enumerate(n for n in postorder(*formulas) if isinstance(n, c.Formula)):
        slow = isinstance(node, c.Aggregate | c.Until)  # by the equations
        one = replaced(node, [short[n] for n in children(node) if isinstance(n, c.Formula)])
        now = replace(tables, predicates=predicates)
        value = evaluate_core(one, now, GODEL if node in in_guards else semantics, engine=slow)
        name = f"part {number}"
        sizes = [tables.size(a) for a in value.axes]
        predicates[name] = value.tensor.expand(tables.batch, *sizes, value.tensor.shape[-1])
        known[node] = value
        short[node] = c.Atom(name, tuple(c.Variable(a, str(a.sort)) for a in value.axes))
    return known
