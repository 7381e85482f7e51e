"""A plan and data to tensors: the only place, with the kernels, where axes have numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fotltn.algebra import expr as e
from fotltn.kernels.contract import contract
from fotltn.kernels.powers import power, root
from fotltn.kernels.recompute import recompute
from fotltn.kernels.until import until
from fotltn.kernels.windows import scan
from fotltn.logic import core as c
from fotltn.plan.context import Run, affine, combine
from fotltn.plan.plan import Plan, Route, Step, Tail
from fotltn.plan.sparse_steps import sparse_step, support_step
from fotltn.semantics import crisp, reference
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Value, align, gather
from fotltn.semantics.temporal import shift


def execute(plan: Plan, run: Run) -> dict[str, Value]:
    """Carry out the steps of a plan in order."""
    later = frozenset[e.Expr]().union(*(tail.covers for tail in plan.tails))
    for step in plan.steps:
        if step.node not in later:
            run.done[step.node] = _step(step, run)
    for tail in plan.tails:
        _tail(tail, run)
    return {name: run.done[node] for name, node in plan.roots}


def _step(step: Step, run: Run) -> Value:
    match step.route:
        case Route.TABLE:
            assert isinstance(step.node, e.TableLeaf)
            return _table(step.node, run)
        case Route.GIVEN:
            assert isinstance(step.node, e.Data)
            return _given(step.node, run)
        case Route.CONTRACTION:
            assert isinstance(step.node, e.Reduce)
            return _contraction(step.node, step.factors, run)
        case Route.SPARSE:
            return sparse_step(step, run)
        case Route.SUPPORT:
            return support_step(step, run)
        case Route.DENSE:
            assert isinstance(step.node, e.Reduce)
            values = [run.done[i] for i in step.inputs]
            return _mean(step.node, values, run) or _finish(
                step.node, _partial(step.node, values, run)
            )
        case Route.CHUNKED:
            return _chunked(step, run)
        case Route.EXPANDED:
            return run.done[step.inputs[0]]
        case Route.RENAMED:
            (other,) = step.inputs
            return Value(tuple(step.node.axes), run.done[other].tensor)
    return _pointwise(step.node, [run.done[i] for i in step.inputs], run)


def _tail(tail: Tail, run: Run) -> None:
    """The ends of several roots, stacked; each is then a part of the result."""
    inputs = [run.done[i].tensor for i in tail.inputs]
    values = Value((), torch.cat(inputs))
    for node in tail.chain:
        values = _pointwise(node, [values], run)
    parts = values.tensor.split([i.shape[0] for i in inputs])
    for root_, part in zip(tail.roots, parts, strict=True):
        run.done[root_] = Value((), part)


# --- leaves ---------------------------------------------------------------------------------------


def _table(leaf: e.TableLeaf, run: Run) -> Value:
    table = run.tables.table(leaf.predicate)
    if isinstance(table, SparseTable):
        table = _laid_out(leaf, table, run)
    axes = e.own_axes(leaf)
    if axes is not None:
        for place, axis in enumerate(axes):
            if axis in run.tables.cuts and table.shape[1 + place] != run.tables.size(axis):
                start, stop = run.tables.cuts[axis]
                table = table.narrow(1 + place, start, stop - start)
        return Value(axes, table.to(run.dtype))
    terms = [reference.evaluate_term(a, run.tables, run.dtype) for a in leaf.args]
    found = gather(table, terms)
    return Value(found.axes, found.tensor.to(run.dtype))


def _laid_out(leaf: e.TableLeaf, table: SparseTable, run: Run) -> Tensor:
    """Facts as a dense table; of a cut axis, only the part that is seen."""
    axes = e.own_axes(leaf) or ()
    cut = next((i for i, a in enumerate(axes) if a in run.tables.cuts), None)
    if cut is None:
        return table.dense(run.dtype)
    start, stop = run.tables.cuts[axes[cut]]
    row = table.index[1 + cut]
    kept = ((row >= start) & (row < stop)).nonzero().squeeze(-1)
    index = table.index[:, kept].clone()
    index[1 + cut] -= start
    shape = (*table.shape[: 1 + cut], stop - start, *table.shape[2 + cut :])
    return SparseTable(index, table.value[kept], shape, table.default).dense(run.dtype)


def _given(node: e.Data, run: Run) -> Value:
    if node.crisp:
        axes, found = crisp.evaluate(node.formula, run.tables)
        return Value(axes, (found if node.timed else found[..., :1]).to(run.dtype))
    value = reference.evaluate(node.formula, run.tables, run.semantics, dtype=run.dtype)
    return value if node.timed else Value(value.axes, value.tensor[..., :1])


# --- pointwise and time ---------------------------------------------------------------------------


def _pointwise(node: e.Expr, below: list[Value], run: Run) -> Value:
    match node:
        case e.Scalar(value):
            return Value(
                (), torch.full((1, 1), value, dtype=run.dtype, device=run.tables.lengths.device)
            )
        case e.Affine(_, scale, offset):
            ((axes, u),) = below
            return Value(axes, affine(u, scale, offset))
        case e.Power(_, p):
            ((axes, u),) = below
            return Value(axes, power(u, p))
        case e.Root(_, p):
            ((axes, u),) = below
            return Value(axes, root(u, p))
        case e.Product() | e.Pointwise():
            axes, tensors = align(below)
            return Value(axes, combine(node, tensors))
        case e.At(e.Pairs(_, _, window, past, semantics), t):
            axes, (u, v) = align([_timed(b, run) for b in below])
            inside = run.inside(len(axes))
            return Value(axes, until(u, v, window, past, inside, semantics, at=t).unsqueeze(-1))
        case e.At(_, t):
            ((axes, u),) = below
            return Value(axes, u[..., t : t + 1] if u.shape[-1] > 1 else u)
        case e.TimeShift(_, steps, past, outside):
            axes, u = _timed(below[0], run)
            return Value(axes, _shift(u, steps, past, outside, run))
        case e.Scan(kind, _, window, past):
            axes, u = _timed(below[0], run)
            return Value(axes, scan(kind, u, window, past, run.inside(len(axes))))
        case e.Pairs(_, _, window, past, semantics):
            axes, (u, v) = align([_timed(b, run) for b in below])
            return Value(axes, until(u, v, window, past, run.inside(len(axes)), semantics))
    raise AssertionError(node)


def _timed(value: Value, run: Run) -> Value:
    """Time, and with it the traces, in full."""
    axes, u = value
    batch = run.tables.batch if run.ragged else u.shape[0]
    return Value(axes, u.expand(batch, *u.shape[1:-1], run.tables.horizon))


def _shift(u: Tensor, steps: int, past: bool, outside: float, run: Run) -> Tensor:
    if run.ragged and not past:
        return shift(u, steps, past, outside, run.tables.lengths)
    horizon = u.shape[-1]
    steps = min(steps, horizon)
    fill = torch.full((*u.shape[:-1], steps), outside, dtype=u.dtype, device=u.device)
    if past:
        return torch.cat([fill, u[..., : horizon - steps]], dim=-1)
    return torch.cat([u[..., steps:], fill], dim=-1)


# --- reductions -----------------------------------------------------------------------------------


def _names(value: Value) -> tuple[tuple[object, ...], Tensor]:
    """A value as a tensor with a name for each dimension; trace and time only where they vary."""
    axes, u = value
    names: list[object] = list(axes)
    if u.shape[-1] > 1:
        names.append("time")
    else:
        u = u.squeeze(-1)
    if u.shape[0] > 1:
        return ("trace", *names), u
    return tuple(names), u.squeeze(0)


def _contraction(node: e.Reduce, factors: tuple[e.Expr, ...], run: Run) -> Value:
    named = [_names(run.done[f]) for f in factors]
    total = _sum(node, named, run)
    if node.guard is None:
        return Value(total.axes, total.tensor / _count(node, run, total))
    guard = _names(run.done[factors[-1]])
    return _ratio(total, _sum(node, [guard], run), node, named, run)


def _sum(node: e.Reduce, named: Sequence[tuple[tuple[object, ...], Tensor]], run: Run) -> Value:
    """The sum of products over the reduced axes that occur; the others cancel."""
    present = {n for names, _ in named for n in names}
    factors = list(named)
    if node.time and run.ragged and "time" in present:
        inside = run.tables.inside.to(run.dtype)
        factors.append((("trace", "time"), inside))
        present.add("trace")
    axes = tuple(a for a in sorted(node.axes, key=lambda a: a.name) if a in present)
    kept: list[object] = [*(["trace"] if "trace" in present else []), *axes]
    if not node.time and "time" in present:
        kept.append("time")
    found = contract(factors, kept)
    if "trace" not in present:
        found = found.unsqueeze(0)
    if "time" not in kept:
        found = found.unsqueeze(-1)
    return Value(axes, found)


def _ratio(
    total: Value,
    count: Value,
    node: e.Reduce,
    named: Sequence[tuple[tuple[object, ...], Tensor]],
    run: Run,
) -> Value:
    """A guarded mean; axes that the sum went over but the guard lacks are counted in full."""
    *factors, guard = named
    summed = {n for names, _ in factors for n in names} - set(guard[0])
    times = math.prod(run.tables.size(a) for a in node.over if a in summed)
    if any(run.tables.size(a) == 0 for a in node.over):
        return Value(total.axes, total.tensor * 0)
    axes, (u, n) = align([total, count])
    return Value(axes, u / (n * times).clamp(min=1))


def _count(node: e.Reduce, run: Run, total: Value) -> Tensor | float:
    """The number of points of each mean, for axes that the sum went over; others cancel."""
    tables = run.tables
    size = float(math.prod(tables.size(a) for a in node.over if a in node.x.axes))
    if any(tables.size(a) == 0 for a in node.over):
        return math.inf
    if not (node.time and node.x.timed):
        return size
    if not run.ragged:
        return size * tables.horizon
    lengths = tables.lengths.to(run.dtype) * size
    return lengths.reshape(-1, *[1] * (total.tensor.dim() - 1))


def _mean(node: e.Reduce, values: list[Value], run: Run) -> Value | None:
    """A mean in the common case, that every reduced axis is there and every point counts."""
    ((own, u), *mask) = values
    if node.kind is not e.Reduction.MEAN or mask or not set(node.over) <= set(own):
        return None
    if node.time and (run.ragged or u.shape[-1] != run.tables.horizon):
        return None
    dims = [1 + own.index(a) for a in node.over] + ([u.dim() - 1] if node.time else [])
    if not dims or any(u.shape[d] == 0 for d in dims):
        return None
    found = u.mean(dims)
    kept = tuple(a for a in own if a not in node.over)
    return Value(kept, found.unsqueeze(-1) if node.time else found)


def _partial(
    node: e.Reduce, values: list[Value], run: Run
) -> tuple[tuple[c.Axis, ...], Tensor, Tensor | None]:
    """A reduction over what is seen: sums and counts for means, so that parts add up."""
    (own, u), *_ = values
    whole = not (node.time and u.shape[-1] != run.tables.horizon)
    plain = node.guard is None and whole and not (node.time and run.ragged)
    if plain and set(node.over) <= set(own):
        return _plain(node, own, u)
    tables, device = run.tables, run.tables.lengths.device
    every = [
        Value((a,), torch.ones(1, tables.size(a), 1, dtype=run.dtype, device=device))
        for a in node.over
    ]
    axes, (u, *rest) = align([*values, *every])
    mask = rest[0] > 0 if node.guard is not None else None
    shape = torch.broadcast_shapes(u.shape, *(r.shape for r in rest))
    if node.time and run.ragged:
        inside = run.inside(len(axes))
        assert inside is not None
        mask = inside if mask is None else mask & inside
        shape = torch.broadcast_shapes(shape, inside.shape)
    if node.time:
        shape = (*shape[:-1], tables.horizon)
    u = u.expand(shape)
    mask = None if mask is None else mask.expand(shape)
    dims = [1 + axes.index(a) for a in node.over] + ([u.dim() - 1] if node.time else [])
    kept = tuple(a for a in axes if a not in node.over)
    reduced, counted = _reduce(node.kind, u, mask, dims)
    if node.time:
        reduced = reduced.unsqueeze(-1)
        counted = counted.unsqueeze(-1) if counted is not None and counted.dim() else counted
    return kept, reduced, counted


def _plain(
    node: e.Reduce, own: tuple[c.Axis, ...], u: Tensor
) -> tuple[tuple[c.Axis, ...], Tensor, Tensor | None]:
    """The common case: every reduced axis is there, and every point counts."""
    dims = [1 + own.index(a) for a in node.over] + ([u.dim() - 1] if node.time else [])
    reduced, counted = _reduce(node.kind, u, None, dims)
    kept = tuple(a for a in own if a not in node.over)
    return kept, reduced.unsqueeze(-1) if node.time else reduced, counted


def _reduce(
    kind: e.Reduction, u: Tensor, mask: Tensor | None, dims: list[int]
) -> tuple[Tensor, Tensor | None]:
    neutral = {e.Reduction.PRODUCT: 1.0, e.Reduction.MINIMUM: 1.0}.get(kind, 0.0)
    if mask is not None:
        u = torch.where(mask, u, torch.full((), neutral, dtype=u.dtype, device=u.device))
    if kind in (e.Reduction.MEAN, e.Reduction.SUM):
        number = float(math.prod(u.shape[d] for d in dims))
        if mask is None:
            count = torch.full((), number, dtype=u.dtype, device=u.device)
        else:
            count = mask.sum(dims).to(u.dtype)
        return (u.sum(dims) if dims else u), count
    if any(u.shape[d] == 0 for d in dims):
        return u.sum(dims) * 0 + neutral, None
    if kind is e.Reduction.PRODUCT:
        for dim in sorted(dims, reverse=True):
            u = u.prod(dim)
        return u, None
    if not dims:
        return u, None
    return (u.amin(dims) if kind is e.Reduction.MINIMUM else u.amax(dims)), None


def _finish(node: e.Reduce, partial: tuple[tuple[c.Axis, ...], Tensor, Tensor | None]) -> Value:
    kept, u, count = partial
    if node.kind is e.Reduction.MEAN:
        assert count is not None
        u = u / count.clamp(min=1)
    return Value(kept, u)


def _narrow(value: Value, axis: c.Axis, start: int, stop: int) -> Value:
    """The part of a value that a chunk sees."""
    if axis not in value.axes:
        return value
    return Value(value.axes, value.tensor.narrow(1 + value.axes.index(axis), start, stop - start))


def _chunked(step: Step, run: Run) -> Value:
    """A part of one axis at a time; each is computed anew when gradients are asked for."""
    node, axis, plan = step.node, step.axis, step.region
    assert isinstance(node, e.Reduce)
    assert axis is not None
    assert plan is not None
    size = run.tables.whole(axis)
    width = math.ceil(size / step.chunks)
    found: list[tuple[Tensor, Tensor | None]] = []
    kept = tuple(sorted(node.axes, key=lambda a: a.name))
    for start in range(0, size, width):
        stop = min(size, start + width)

        def part(start: int = start, stop: int = stop) -> tuple[Tensor, Tensor | None]:
            tables = replace(run.tables, cuts={**run.tables.cuts, axis: (start, stop)})
            seen = {n: _narrow(run.done[n], axis, start, stop) for n in step.inputs}
            inner = Run(tables, run.semantics, run.dtype, {}, seen, ragged=run.ragged)
            values = list(execute(plan, inner).values())
            axes, reduced, counted = _partial(node, values, inner)
            order = [0, *(1 + axes.index(a) for a in kept), reduced.dim() - 1]
            if counted is not None and counted.dim():
                counted = counted.permute(order)
            return reduced.permute(order), counted

        found.append(recompute(part))
    parts = torch.stack(torch.broadcast_tensors(*(f[0] for f in found)))
    counts = [f[1] for f in found if f[1] is not None]
    match node.kind:
        case e.Reduction.MEAN | e.Reduction.SUM:
            total = sum(counts[1:], counts[0])
            return _finish(node, (kept, parts.sum(0), total))
        case e.Reduction.PRODUCT:
            return Value(kept, parts.prod(0))
        case e.Reduction.MINIMUM:
            return Value(kept, parts.amin(0))
        case e.Reduction.MAXIMUM:
            return Value(kept, parts.amax(0))
