"""Steps that walk the facts of one table."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fotltn.algebra import expr as e
from fotltn.kernels.matrix import multiply, swap
from fotltn.kernels.powers import power, root
from fotltn.kernels.sparse import extreme, gather_sum, product
from fotltn.logic import core as c
from fotltn.plan.context import Run, affine, combine
from fotltn.plan.facts import LeafFacts, lookup
from fotltn.plan.plan import Step
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Value
from fotltn.tree import postorder


def sparse_step(step: Step, run: Run) -> Value:
    """A mean of products as a sum over facts."""
    node, leaf = step.node, step.leaf
    assert isinstance(node, e.Reduce)
    assert leaf is not None
    assert step.driver is not None
    facts = run.facts(leaf)
    axes = tuple(sorted(node.axes, key=lambda a: a.name))
    times = 1 if node.time or not leaf.temporal else run.tables.horizon
    learned = any(_learned(part, run) for part in _tables(step, run))
    value = _driven(step, leaf, facts, learned, run)
    total: Tensor | None = None
    if not learned and all(f not in run.done for f in step.factors):
        total = facts.constant(
            (node, run.dtype), lambda: _by_gather(step, facts, axes, times, value, run)
        )
    elif not learned:
        total = _by_matrix(step, facts, axes, times, value, run)
    if total is None:
        total = _by_gather(step, facts, axes, times, value, run)
    return Value(axes, total / _count(node, facts, axes, times, run))


def _tables(step: Step, run: Run) -> tuple[e.Expr, ...]:
    """The factors that are functions of tables of facts."""
    assert step.driver is not None
    return (step.driver, *(f for f in step.factors if f not in run.done))


def _driven(step: Step, leaf: e.TableLeaf, facts: LeafFacts, learned: bool, run: Run) -> Tensor:
    """The product of the tables of facts at each fact; computed once, unless one is learned."""
    parts = _tables(step, run)

    def find() -> Tensor:
        value = torch.ones(1, dtype=run.dtype, device=facts.some.device)
        for part in parts:
            value = value * along(part, {leaf: facts.values(run.dtype)}, facts, run)
        return value.expand(facts.some.shape)

    return find() if learned else facts.constant((parts, run.dtype), find)


def _learned(part: e.Expr, run: Run) -> bool:
    """Whether a function of tables of facts has gradients, or is one of many of a transform."""
    tables = [run.tables.table(n.predicate) for n in postorder(part) if isinstance(n, e.TableLeaf)]
    values = [t.value for t in tables if isinstance(t, SparseTable)]
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return any(v.requires_grad or wrapped(v) for v in values)


def _shape(axes: tuple[c.Axis, ...], times: int, run: Run) -> tuple[int, ...]:
    return (run.tables.batch, times, *(run.tables.size(a) for a in axes))


def _as_value(flat: Tensor, axes: tuple[c.Axis, ...], times: int, run: Run) -> Tensor:
    """From cells (trace, time, axes …) to axes (trace, axes …, time)."""
    return flat.reshape(_shape(axes, times, run)).movedim(1, -1)


def _flat(value: Value, axes: tuple[c.Axis, ...]) -> tuple[Tensor, int, int]:
    """A factor as a flat table with axes (trace, time, axes …), and its traces and times."""
    order = [0, value.tensor.dim() - 1, *(1 + value.axes.index(a) for a in axes)]
    moved = value.tensor.permute(order)
    return moved.reshape(-1), moved.shape[0], moved.shape[1]


def _by_gather(
    step: Step,
    facts: LeafFacts,
    axes: tuple[c.Axis, ...],
    times: int,
    value: Tensor,
    run: Run,
) -> Tensor:
    places, tables = [], []
    for factor in step.factors:
        if factor in run.done:
            own = tuple(sorted(run.done[factor].axes, key=lambda a: a.name))
            table, traces, points = _flat(run.done[factor], own)
            places.append(facts.cells(own, traces, points))
            tables.append(table)
    shape = _shape(axes, times, run)
    size = math.prod(shape)
    key = facts.cells(axes, shape[0], times) if size > 1 else None
    return _as_value(gather_sum(key, size, places, value, tables), axes, times, run)


def _by_matrix(
    step: Step,
    facts: LeafFacts,
    axes: tuple[c.Axis, ...],
    times: int,
    value: Tensor,
    run: Run,
) -> Tensor | None:
    """The same by a matrix-vector product, if the factors fall into rows and columns."""
    leaf = facts.leaf
    pair = tuple(facts.coordinates)
    if len(pair) != 2:
        return None
    dense = [f for f in step.factors if f in run.done]
    if any(len(run.done[f].axes) > 1 for f in dense) or len(axes) > 1:
        return None
    row = axes[0] if axes else pair[0]
    column = pair[1] if row == pair[0] else pair[0]
    points = run.tables.horizon if leaf.temporal else 1
    inner = [run.done[f].tensor for f in dense if run.done[f].axes == (column,)]
    outer = [run.done[f] for f in dense if run.done[f].axes != (column,)]
    name = _tables(step, run)
    matrix = facts.matrix((row,), (column,), value, name, run.tables.batch, points)
    total = multiply(matrix, _vector(inner, run.tables.size(column), points, value, run))
    total = swap(total.reshape(run.tables.batch, points, -1))
    for factor in outer:
        total = total * (factor.tensor if factor.axes else factor.tensor.unsqueeze(1))
    if times == 1 and points > 1:
        total = total.sum(-1, keepdim=True)
    return total if axes else total.sum(1)


def _vector(factors: list[Tensor], size: int, points: int, like: Tensor, run: Run) -> Tensor:
    """The product of factors with axes (trace, entity, time) as cells (trace, time, entity)."""
    shape = (run.tables.batch, size, points)
    if not factors:
        return torch.ones(math.prod(shape), dtype=run.dtype, device=like.device)
    found = factors[0]
    for factor in factors[1:]:
        found = found * factor
    return swap(found.expand(shape)).reshape(-1)


def _count(
    node: e.Reduce, facts: LeafFacts, axes: tuple[c.Axis, ...], times: int, run: Run
) -> Tensor | float:
    """The number of points of each mean."""
    tables = run.tables
    if any(tables.size(a) == 0 for a in node.over):
        return math.inf
    if node.guard is not None:
        shape = _shape(axes, times, run)
        counts = facts.counts(axes, shape[0], times, math.prod(shape))
        return _as_value(counts.clamp(min=1).to(run.dtype), axes, times, run)
    size = float(math.prod(tables.size(a) for a in node.over if a in facts.coordinates))
    if node.time and facts.leaf.temporal:
        if not run.ragged:
            return size * tables.horizon
        return (tables.lengths.to(run.dtype) * size).reshape(-1, *[1] * (1 + len(axes)))
    return size


def support_step(step: Step, run: Run) -> Value:
    """A reduction over facts, and a counted constant everywhere else."""
    node, leaf = step.node, step.leaf
    assert isinstance(node, e.Reduce)
    assert leaf is not None
    facts = run.facts(leaf)
    axes = tuple(sorted(node.axes, key=lambda a: a.name))
    times = 1 if node.time or not leaf.temporal else run.tables.horizon
    shape = _shape(axes, times, run)
    size = math.prod(shape)
    value = along(node.x, {leaf: facts.values(run.dtype)}, facts, run)
    value = value.expand(facts.some.shape)
    key = facts.cells(axes, shape[0], times).long()
    counts = facts.counts(axes, shape[0], times, size)
    whole = math.prod(run.tables.size(a) for a in node.over)
    points = run.tables.lengths if node.time else torch.ones_like(run.tables.lengths)
    each = (points * whole).reshape(-1, *[1] * (1 + len(axes))).expand(shape).reshape(-1)
    rest = each - counts
    match node.kind:
        case e.Reduction.MEAN | e.Reduction.SUM:
            total = torch.zeros(size, dtype=run.dtype, device=value.device).index_add(0, key, value)
            total = total + rest.to(run.dtype) * step.constant
            if node.kind is e.Reduction.MEAN:
                total = total / each.clamp(min=1).to(run.dtype)
        case e.Reduction.PRODUCT:
            total = product(value, facts.halvings(axes, shape[0], times), size)
            if step.constant != 1:
                total = total * torch.full_like(total, step.constant) ** rest.to(run.dtype)
        case e.Reduction.MINIMUM:
            total = extreme(value, key, rest, step.constant, 1.0, least=True)
        case e.Reduction.MAXIMUM:
            total = extreme(value, key, rest, step.constant, 0.0, least=False)
    return Value(axes, _as_value(total, axes, times, run))


def along(root_: e.Expr, given: dict[e.Expr, Tensor], facts: LeafFacts, run: Run) -> Tensor:
    """An expression at every fact: pointwise operations there, everything else looked up."""
    found: dict[e.Expr, Tensor] = dict(given)
    stack = [root_]
    while stack:
        node = stack[-1]
        if node in found:
            stack.pop()
            continue
        parts = () if node in run.done else e.pointwise_parts(node) or ()
        missing = [p for p in parts if p not in found]
        if missing:
            stack.extend(missing)
            continue
        match node:
            case _ if node in run.done:
                own = tuple(sorted(run.done[node].axes, key=lambda a: a.name))
                table, traces, points = _flat(run.done[node], own)
                found[node] = (
                    table.index_select(0, facts.cells(own, traces, points))
                    if table.numel() > 1
                    else table
                )
            case e.Scalar(value):
                found[node] = torch.full((1,), value, dtype=run.dtype, device=facts.some.device)
            case e.TableLeaf():
                found[node] = _other(node, facts, run)
            case e.Affine(x, scale, offset):
                found[node] = affine(found[x], scale, offset)
            case e.Power(x, p):
                found[node] = power(found[x], p)
            case e.Root(x, p):
                found[node] = root(found[x], p)
            case e.Product(inner) | e.Pointwise(_, inner):
                found[node] = combine(node, [found[p] for p in inner])
        stack.pop()
    return found[root_]


def _other(leaf: e.TableLeaf, facts: LeafFacts, run: Run) -> Tensor:
    """Another table of facts, at the places of these facts."""
    table = run.tables.table(leaf.predicate)
    assert isinstance(table, SparseTable)
    place = facts.places(leaf, lambda: lookup(facts, table, leaf))
    here = torch.full_like(place, table.default, dtype=run.dtype)
    if table.facts == 0:
        return here
    return torch.where(place >= 0, table.value.to(run.dtype)[place.clamp(min=0)], here)
