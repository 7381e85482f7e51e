"""The values of a body and of all of its parts at one cell, by the engine on small tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.explain.ground import Degrees, View, view
from fotltn.analysis.explain.pattern import Leaf, Pattern, needed, pattern, replaced
from fotltn.evaluation import evaluate_all, evaluate_core
from fotltn.logic import core as c
from fotltn.semantics.config import GODEL, Semantics
from fotltn.semantics.interpretation import Tables, Value
from fotltn.semantics.sparse import SparseTable
from fotltn.tree import children, postorder

#: Up to so many formulas are planned together; planning more would take longer than running them.
_MANY = 60

#: Places on the axes that are bound inside a body.
Inner = Mapping[c.Axis, int]


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """All that one cell needs: its leaves as tables, from the first to the last point read.

    Args:
        pattern: the body over tables.
        view: the data as the cell sees them.
        time: the cell's own.
        spans: the first and last point at which each part is read.
        first: the first point of all tables.
        last: their last point.
        degrees: the tables of the leaves.
    """

    pattern: Pattern
    view: View
    time: int
    spans: Mapping[c.Formula, tuple[int, int]]
    first: int
    last: int
    degrees: Mapping[Leaf, Degrees]

    @property
    def cells(self) -> Cells:
        """Those that the cell is one of."""
        return self.view.cells

    def tables(self, tables: Mapping[Leaf, Tensor], guards: Mapping[Leaf, Tensor]) -> Tables:
        """An interpretation of the pattern.

        Args:
            tables: what its leaves are, with axes (axes bound inside …, time). With an axis of
                traces before them, the interpretation is a batch of variants of the same cell.
            guards: what they are in guards.
        """
        predicates: dict[str, Tensor] = {}
        for leaf in self.degrees:
            for name, table in ((leaf.name, tables[leaf]), (leaf.guard, guards[leaf])):
                variants = table.dim() > len(leaf.axes) + 1
                predicates[name] = table if variants else table.unsqueeze(0)
        points = self.last - self.first + 1
        sizes = {str(own.sort): self.cells.tables.size(a) for a, own in self.pattern.axes.items()}
        batch = max((table.shape[0] for table in predicates.values()), default=1)
        lengths = torch.full((batch,), points, device=self.cells.tables.lengths.device)
        return Tables(sizes, lengths, points, predicates)

    def graded(self, tables: Mapping[Leaf, Tensor]) -> Tables:
        """An interpretation with these degrees; guards are what they are."""
        guards = {
            leaf: own.value if isinstance(leaf.node, c.Atom) else own.truth
            for leaf, own in self.degrees.items()
        }
        return self.tables(tables, guards)


def site(cells: Cells, cell: Cell) -> Site:
    """The tables of a cell.

    Raises:
        DataError: there is no such cell, or a table is missing.
    """
    cells.check(cell)
    found = cells.tables.derived(
        ("pattern", cells.body, cells.axes), lambda: pattern(cells.body, cells.axes)
    )
    seen = view(cells, cell)
    spans = needed(cells.body, cell.time, cells.tables.length(cell.trace))
    first = min(low for low, _ in spans.values())
    last = max(high for _, high in spans.values())
    degrees = {leaf: seen.leaf(leaf, first, last) for leaf in found.leaves}
    return Site(found, seen, cell.time, spans, first, last, degrees)


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The value of each part of a body, as a degree and in two-valued logic."""

    site: Site
    fuzzy: Mapping[c.Formula, Value]
    crisp: Mapping[c.Formula, Value]
    guards: Mapping[c.Formula, Value]

    def value(self, node: c.Formula, inner: Inner, time: int) -> float:
        """The degree of a part."""
        return float(self.along(self.fuzzy[node], (), inner)[self._point(self.fuzzy[node], time)])

    def truth(self, node: c.Formula, inner: Inner, time: int) -> bool:
        """The truth of a part."""
        found = self.crisp[node]
        return float(self.along(found, (), inner)[self._point(found, time)]) > 0.5

    def instances(
        self, node: c.Quantifier, inner: Inner, time: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Bodies of a quantifier where its guard is true: degrees, truths, and which these are.

        The last has axes (instance, axis of the quantifier).
        """
        sizes = [self.site.cells.tables.size(a) for a in node.axes]
        shown = []
        found = [self.fuzzy[node.body], self.crisp[node.body]]
        for value in [*found, *([self.guards[node]] if node in self.guards else [])]:
            table = self.along(value, node.axes, inner)[..., self._point(value, time)]
            shown.append(table.expand(sizes).reshape(-1))
        every = torch.arange(math.prod(sizes), device=shown[0].device)
        kept = every if len(shown) == 2 else every[shown[2] > 0.5]
        places = torch.stack(torch.unravel_index(kept, sizes), -1) if sizes else kept[:, None]
        return shown[0][kept], shown[1][kept] > 0.5, places

    def points(self, node: c.Formula, inner: Inner, first: int, last: int) -> tuple[Tensor, Tensor]:
        """The degrees and truths of a part from one point to another."""
        found = []
        for value in (self.fuzzy[node], self.crisp[node]):
            line = self.along(value, (), inner)
            line = line.expand(self.site.last - self.site.first + 1)
            found.append(line[first - self.site.first : last - self.site.first + 1])
        return found[0], found[1] > 0.5

    def along(self, value: Value, axes: Sequence[c.Axis], inner: Inner) -> Tensor:
        """A value with axes (`axes` …, time), of size 1 where it lacks one; others are fixed."""
        tensor = value.tensor[0]
        local = {own: axis for axis, own in self.site.pattern.axes.items()}
        names = [local[a] for a in value.axes]
        index = [slice(None) if a in axes else inner[a] for a in names]
        tensor = tensor[(*index, slice(None))]
        kept = [a for a in names if a in axes]
        order = [kept.index(a) for a in axes if a in kept]
        tensor = tensor.permute(*order, tensor.dim() - 1)
        for place, axis in enumerate(axes):
            if axis not in kept:
                tensor = tensor.unsqueeze(place)
        return tensor

    def _point(self, value: Value, time: int) -> int:
        return time - self.site.first if value.tensor.shape[-1] > 1 else 0


@torch.no_grad()
def values_at(found: Site) -> Values:
    """The values of all parts of a body at a cell."""
    cells, parts, tests = found.cells, found.pattern.parts, found.pattern.guards
    truths = {leaf: own.truth.to(cells.tables.dtype) for leaf, own in found.degrees.items()}
    wanted = [*parts.values(), *tests.values()]
    crisp = _evaluated(wanted, found.tables(truths, truths), GODEL)
    fuzzy = crisp
    if not cells.semantics.boolean:
        degrees = found.graded({leaf: own.value for leaf, own in found.degrees.items()})
        fuzzy = _evaluated(list(parts.values()), degrees, cells.semantics)
    return Values(
        found,
        {node: fuzzy[form] for node, form in parts.items()},
        {node: crisp[form] for node, form in parts.items()},
        {node: crisp[form] for node, form in tests.items()},
    )


def _evaluated(
    formulas: Sequence[c.Formula], model: Tables, semantics: Semantics
) -> dict[c.Formula, Value]:
    """The values of formulas that are parts of each other: at once, or if many, one by one."""
    if len(formulas) <= _MANY:
        named = {str(number): formula for number, formula in enumerate(formulas)}
        values = evaluate_all(named, model, semantics)
        return {formula: values[str(number)] for number, formula in enumerate(formulas)}
    known: dict[c.Formula, Value] = {}
    tables: dict[str, Tensor | SparseTable] = dict(model.predicates)
    short: dict[c.Formula, c.Atom] = {}
    for number, node in enumerate(n for n in postorder(*formulas) if isinstance(n, c.Formula)):
        slow = isinstance(node, c.Aggregate | c.Until)  # by the equations
        one = replaced(node, [short[n] for n in children(node) if isinstance(n, c.Formula)])
        now = replace(model, predicates=tables)
        value = evaluate_core(one, now, semantics, engine=slow)
        name = f"part {number}"
        sizes = [model.size(a) for a in value.axes]
        tables[name] = value.tensor.expand(model.batch, *sizes, value.tensor.shape[-1])
        known[node] = value
        short[node] = c.Atom(name, tuple(c.Variable(a, str(a.sort)) for a in value.axes))
    return known
