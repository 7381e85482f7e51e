"""Steps that iterate over the facts of one table."""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass
from typing import assert_never

import torch
from torch import Tensor

from fotltn.algebra import expr as e
from fotltn.kernels.matrix import multiply
from fotltn.kernels.sparse import extreme, gather_sum, product, taken
from fotltn.kernels.tracing import is_learned
from fotltn.kernels.windows import NEUTRAL
from fotltn.logic import core as c
from fotltn.plan.context import Run, count_points, pointwise
from fotltn.plan.facts import LeafFacts
from fotltn.plan.plan import Step
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Value, align, in_order
from fotltn.tree import postorder


@dataclass(slots=True, eq=False)
class _Walk:
    """A reduction over the facts of a leaf, with the shape of its result."""

    step: Step
    node: e.Reduce
    leaf: e.TableLeaf
    facts: LeafFacts
    axes: tuple[c.Axis, ...]
    times: int
    shape: tuple[int, ...]  # of the result: (trace, time, *axes)
    run: Run

    def keys(self) -> Tensor:
        """Return the cell of each fact in the flat result."""
        return self.facts.cells(self.axes, self.shape[0], self.times)

    def counts(self) -> Tensor:
        """Count the facts of each cell of the flat result."""
        return self.facts.counts(self.axes, self.shape[0], self.times, math.prod(self.shape))

    def value(self, flat: Tensor) -> Tensor:
        """Reshape flat cells (trace, time, *axes) to a tensor (trace, *axes, time)."""
        return flat.reshape(self.shape).movedim(1, -1)


def _walk(step: Step, run: Run) -> _Walk:
    node, leaf = step.node, step.leaf
    assert isinstance(node, e.Reduce)
    assert leaf is not None
    axes = in_order(node.axes)
    times = 1 if node.time or not leaf.temporal else run.tables.horizon
    shape = (run.tables.batch, times, *(run.tables.size(a) for a in axes))
    return _Walk(step, node, leaf, run.facts(leaf), axes, times, shape, run)


def sparse_step(step: Step, run: Run) -> Value:
    """Compute a mean of products as a sum over facts."""
    walk = _walk(step, run)
    facts, node = walk.facts, walk.node
    assert step.driver is not None
    parts = (step.driver, *(f for f in step.factors if f not in run.done))
    learned = any(_learned(part, run) for part in parts)

    def product_of_facts() -> Tensor:
        value = torch.ones(1, dtype=run.dtype, device=facts.some.device)
        for part in parts:
            value = value * along(part, walk)
        return value.expand(facts.some.shape)

    total: Tensor | None = None
    if learned:
        value = product_of_facts()
    else:
        value = facts.constant((parts, run.dtype), product_of_facts)
        if len(parts) > len(step.factors):  # no other factor is looked up
            total = facts.constant((node, run.dtype), lambda: _by_gather(walk, value))
        else:
            total = _by_matrix(walk, parts, value)
    if total is None:
        total = _by_gather(walk, value)
    return Value(walk.axes, total / _count(walk))


def _learned(part: e.Expr, run: Run) -> bool:
    """Whether a function of tables of facts has gradients or is batched by a transform."""
    tables = [run.tables.table(n.predicate) for n in postorder(part) if isinstance(n, e.TableLeaf)]
    return any(is_learned(t.value) for t in tables if isinstance(t, SparseTable))


def _looked_up(value: Value, facts: LeafFacts) -> tuple[Tensor, Tensor]:
    """Return a factor as a flat table (trace, time, *axes), and the index that each fact reads."""
    axes = in_order(value.axes)
    order = [0, value.tensor.dim() - 1, *(1 + value.axes.index(a) for a in axes)]
    moved = value.tensor.permute(order)
    return moved.reshape(-1), facts.cells(axes, moved.shape[0], moved.shape[1])


def _by_gather(walk: _Walk, value: Tensor) -> Tensor:
    done = walk.run.done
    looked = [_looked_up(done[f], walk.facts) for f in walk.step.factors if f in done]
    size = math.prod(walk.shape)
    key = walk.keys() if size > 1 else None
    tables, places = [table for table, _ in looked], [place for _, place in looked]
    return walk.value(gather_sum(key, size, places, value, tables))


def _by_matrix(walk: _Walk, parts: tuple[e.Expr, ...], value: Tensor) -> Tensor | None:
    """Do the same by a matrix-vector product, if the factors split into rows and columns."""
    run, axes = walk.run, walk.axes
    pair = tuple(walk.facts.coordinates)
    if len(pair) != 2:
        return None
    dense = [run.done[f] for f in walk.step.factors if f in run.done]
    if any(len(factor.axes) > 1 for factor in dense) or len(axes) > 1:
        return None
    row = axes[0] if axes else pair[0]
    column = pair[1] if row == pair[0] else pair[0]
    points = run.tables.horizon if walk.leaf.temporal else 1
    inner = [factor.tensor for factor in dense if factor.axes == (column,)]
    outer = [factor for factor in dense if factor.axes != (column,)]
    matrix = walk.facts.matrix(row, column, value, parts, run.tables.batch, points)
    one = torch.ones((), dtype=run.dtype, device=value.device)
    table = functools.reduce(operator.mul, inner) if inner else one
    total = multiply(matrix, table.expand(run.tables.batch, run.tables.size(column), points))
    for factor in outer:
        total = total * (factor.tensor if factor.axes else factor.tensor.unsqueeze(1))
    if walk.times == 1 and points > 1:
        total = total.sum(-1, keepdim=True)
    return total if axes else total.sum(1)


def _count(walk: _Walk) -> Tensor | float:
    """Count the points of each mean; a guarded mean is counted by its facts."""
    node, run = walk.node, walk.run
    if node.guard is not None and all(run.tables.size(a) for a in node.over):
        return walk.value(walk.counts().clamp(min=1).to(run.dtype))
    rank = 2 + len(walk.axes)
    return count_points(node, walk.facts.coordinates.keys(), walk.leaf.temporal, rank, run)


def support_step(step: Step, run: Run) -> Value:
    """Reduce over facts, with a constant for all other cells."""
    walk = _walk(step, run)
    facts, node, shape = walk.facts, walk.node, walk.shape
    size = math.prod(shape)
    value = along(node.x, walk).expand(facts.some.shape)
    key = facts.indices(walk.axes, shape[0], walk.times)
    every = math.prod(run.tables.size(a) for a in node.over)
    points = run.tables.lengths if node.time else torch.ones_like(run.tables.lengths)
    each = (points * every).reshape(-1, *[1] * (1 + len(walk.axes))).expand(shape).reshape(-1)
    rest = each - walk.counts()
    match node.kind:
        case e.Reduction.MEAN | e.Reduction.SUM:
            total = torch.zeros(size, dtype=run.dtype, device=value.device).index_add(0, key, value)
            total = total + rest.to(run.dtype) * step.constant
            if node.kind is e.Reduction.MEAN:
                total = total / each.clamp(min=1).to(run.dtype)
        case e.Reduction.PRODUCT:
            # The backward pass must not keep anything of this run, or it would never be freed.
            by = functools.partial(facts.halvings, walk.axes, shape[0], walk.times)
            total = product(value, key, size, by)
            if step.constant != 1:
                total = total * torch.full_like(total, step.constant) ** rest.to(run.dtype)
        case e.Reduction.MINIMUM | e.Reduction.MAXIMUM:
            least = node.kind is e.Reduction.MINIMUM
            total = extreme(value, key, rest, step.constant, NEUTRAL[node.kind], least=least)
        case _:
            assert_never(node.kind)
    return Value(walk.axes, walk.value(total))


def along(root: e.Expr, walk: _Walk) -> Tensor:
    """Evaluate an expression at every fact: pointwise there, with everything else looked up."""
    facts, run = walk.facts, walk.run
    at_facts: dict[e.Expr, Tensor] = {walk.leaf: facts.values(run.dtype)}
    stack = [root]
    while stack:
        node = stack[-1]
        if node in at_facts:
            stack.pop()
            continue
        parts = () if node in run.done else e.pointwise_parts(node) or ()
        dense: list[Value] = []
        if isinstance(node, e.Product) and parts:
            dense = [run.done[p] for p in parts if p in run.done]
            parts = tuple(p for p in parts if p not in run.done)
            if facts.all_one() and len(dense) + len(parts) > 1:
                parts = tuple(p for p in parts if p != walk.leaf)
        missing = [p for p in parts if p not in at_facts]
        if missing:
            stack.extend(missing)
            continue
        kind = e.closed(node)
        match kind:
            case _ if node in run.done:
                at_facts[node] = _at_facts(run.done[node], facts)
            case e.Scalar(number):
                at_facts[node] = torch.full((1,), number, dtype=run.dtype, device=facts.some.device)
            case e.TableLeaf():
                at_facts[node] = _other(kind, facts, run)
            case e.Product():
                looked = [_at_facts(value, facts) for value in _multiplied(dense, facts)]
                at_facts[node] = pointwise(kind, [*(at_facts[p] for p in parts), *looked])
            case e.Affine() | e.Power() | e.Root() | e.Pointwise():
                at_facts[node] = pointwise(kind, [at_facts[p] for p in parts])
            case e.Data() | e.Reduce() | e.At() | e.TimeShift() | e.Scan() | e.Pairs():
                raise AssertionError(node)  # computed before this step
            case _:
                assert_never(kind)
        stack.pop()
    return at_facts[root]


def _at_facts(value: Value, facts: LeafFacts) -> Tensor:
    """Look up an already computed value at each fact."""
    if value.tensor.numel() == 1:
        return value.tensor.reshape(-1)
    table, places = _looked_up(value, facts)
    return taken(table, places)


def _multiplied(factors: list[Value], facts: LeafFacts) -> list[Value]:
    """Multiply factors before the lookup, as long as there are fewer cells than facts."""
    products: list[Value] = []
    for factor in factors:
        if products:
            axes, pair = align([products[-1], factor])
            shape = [max(sizes) for sizes in zip(*(t.shape for t in pair), strict=True)]
            if math.prod(shape) < facts.some.numel():
                products[-1] = Value(axes, pair[0] * pair[1])
                continue
        products.append(factor)
    return products


def _other(leaf: e.TableLeaf, facts: LeafFacts, run: Run) -> Tensor:
    """Look up another table of facts at the places of these facts."""
    table = run.tables.table(leaf.predicate)
    assert isinstance(table, SparseTable)
    place = facts.places(leaf, table)
    here = torch.full_like(place, table.default, dtype=run.dtype)
    if table.facts == 0:
        return here
    return torch.where(place >= 0, table.value.to(run.dtype)[place.clamp(min=0)], here)
