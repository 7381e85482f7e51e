"""Run a plan on data: the only code, with the kernels, in which axes have numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

import torch
from torch import Tensor

from fotltn.algebra import expr as e
from fotltn.kernels import equations
from fotltn.kernels.contract import contract
from fotltn.kernels.recompute import recompute
from fotltn.kernels.until import until
from fotltn.kernels.windows import NEUTRAL, scan
from fotltn.logic import core as c
from fotltn.plan.context import Run, count_points, pointwise
from fotltn.plan.facts import fewer_than_dense, gather_facts
from fotltn.plan.plan import Plan, Route, Step, Tail
from fotltn.plan.sparse_steps import sparse_step, support_step
from fotltn.semantics import crisp, reference
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Value, align, evaluate_term, every_entity, gather, in_order
from fotltn.semantics.temporal import shift
from fotltn.stop import may_go_on

Axes = tuple[c.Axis, ...]


def execute(plan: Plan, run: Run) -> dict[str, Value]:
    """Run the steps of a plan in order."""
    later = frozenset[e.Expr]().union(*(tail.covers for tail in plan.tails))
    for step in plan.steps:
        if step.node not in later:
            may_go_on()
            run.done[step.node] = _step(step, run)
    for tail in plan.tails:
        may_go_on()
        _tail(tail, run)
    return {name: run.done[node] for name, node in plan.roots}


def _step(step: Step, run: Run) -> Value:
    node, route = step.node, step.route
    match route:
        case Route.POINTWISE | Route.POINT | Route.SHIFT | Route.SCAN | Route.PAIRS:
            return _operation(node, [run.done[i] for i in step.inputs], run)
        case Route.TABLE:
            assert isinstance(node, e.TableLeaf)
            return _table(node, run)
        case Route.GIVEN:
            assert isinstance(node, e.Data)
            return _data(node, run)
        case Route.CONTRACTION:
            assert isinstance(node, e.Reduce)
            return _contraction(node, step.factors, run)
        case Route.SPARSE:
            return sparse_step(step, run)
        case Route.SUPPORT:
            return support_step(step, run)
        case Route.DENSE:
            assert isinstance(node, e.Reduce)
            return _dense(node, [run.done[i] for i in step.inputs], run)
        case Route.CHUNKED:
            return _chunked(step, run)
        case Route.EXPANDED:
            return run.done[step.inputs[0]]
        case Route.RENAMED:
            return Value(tuple(node.axes), run.done[step.inputs[0]].tensor)
        case _:
            assert_never(route)


def _tail(tail: Tail, run: Run) -> None:
    """Compute the common end of several roots on stacked values, and split the result."""
    inputs = [run.done[i].tensor for i in tail.inputs]
    values = Value((), torch.cat(inputs))
    for node in tail.chain:
        values = _operation(node, [values], run)
    parts = values.tensor.split([i.shape[0] for i in inputs])
    for root_, part in zip(tail.roots, parts, strict=True):
        run.done[root_] = Value((), part)


# --- leaves ---------------------------------------------------------------------------------------


def _table(leaf: e.TableLeaf, run: Run) -> Value:
    table, axes = run.tables.table(leaf.predicate), e.argument_axes(leaf)
    if isinstance(table, SparseTable):
        if axes is None:
            terms = [evaluate_term(a, run.tables) for a in leaf.args]
            if fewer_than_dense(table, terms):
                looked_up, degrees = gather_facts(table, terms)
                return Value(looked_up, degrees.to(run.dtype))
        table = _laid_out(leaf, table, run)
    if axes is not None:
        for place, axis in enumerate(axes):
            if axis in run.tables.cuts and table.shape[1 + place] != run.tables.size(axis):
                start, stop = run.tables.cuts[axis]
                table = table.narrow(1 + place, start, stop - start)
        return Value(axes, table.to(run.dtype))
    terms = [evaluate_term(a, run.tables) for a in leaf.args]
    looked_up, degrees = gather(table, terms)
    return Value(looked_up, degrees.to(run.dtype))


def _laid_out(leaf: e.TableLeaf, table: SparseTable, run: Run) -> Tensor:
    """Return facts as a dense table; for a cut axis, only its visible part."""
    axes = e.argument_axes(leaf) or ()
    cut = next((i for i, a in enumerate(axes) if a in run.tables.cuts), None)
    if cut is None:
        return table.dense(run.dtype)
    start, stop = run.tables.cuts[axes[cut]]
    row = table.index[1 + cut]
    seen = ((row >= start) & (row < stop)).nonzero().squeeze(-1)
    index = table.index[:, seen].clone()
    index[1 + cut] -= start
    shape = (*table.shape[: 1 + cut], stop - start, *table.shape[2 + cut :])
    return SparseTable(index, table.value[seen], shape, table.default).dense(run.dtype)


def _data(node: e.Data, run: Run) -> Value:
    if node.crisp:
        axes, u = crisp.evaluate(node.formula, run.tables)
    else:
        axes, u = reference.evaluate(
            node.formula, run.tables, run.semantics, dtype=run.dtype, over_time=equations
        )
    return Value(axes, (u if node.timed else u[..., :1]).to(run.dtype))


# --- pointwise and time ---------------------------------------------------------------------------


def _operation(node: e.Expr, below: list[Value], run: Run) -> Value:
    node = e.closed(node)
    match node:
        case e.Affine() | e.Power() | e.Root():
            ((axes, u),) = below
            return Value(axes, pointwise(node, (u,)))
        case e.Product() | e.Pointwise():
            axes, tensors = align(below)
            return Value(axes, pointwise(node, tensors))
        case e.At(e.Pairs() as pairs, time):
            return _until(pairs, below, run, time)
        case e.At(_, t):
            ((axes, u),) = below
            return Value(axes, u[..., t : t + 1] if u.shape[-1] > 1 else u)
        case e.TimeShift(_, steps, past, outside):
            axes, u = _timed(below[0], run)
            return Value(axes, _shift(u, steps, past, outside, run))
        case e.Scan(kind, _, window, past):
            axes, u = _timed(below[0], run)
            return Value(axes, scan(kind, u, window, past, run.inside(len(axes))))
        case e.Pairs():
            return _until(node, below, run)
        case e.Scalar(value):
            device = run.tables.lengths.device
            return Value((), torch.full((1, 1), value, dtype=run.dtype, device=device))
        case e.TableLeaf() | e.Data() | e.Reduce():
            raise AssertionError(node)  # other routes compute these nodes
        case _:
            assert_never(node)


def _until(node: e.Pairs, below: list[Value], run: Run, time: int | None = None) -> Value:
    axes, (u, v) = align([_timed(b, run) for b in below])
    inside = run.inside(len(axes))
    reached = until(u, v, node.window, node.past, inside, node.semantics, at=time)
    return Value(axes, reached if time is None else reached.unsqueeze(-1))


def _timed(value: Value, run: Run) -> Value:
    """Expand a value to all time points, and so to all traces."""
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
    """Return a tensor with a name for each dimension; trace and time only where they vary."""
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
        timed, rank = node.x.timed, total.tensor.dim()
        return Value(total.axes, total.tensor / count_points(node, node.x.axes, timed, rank, run))
    if any(run.tables.size(a) == 0 for a in node.over):
        return Value(total.axes, total.tensor * 0)
    # axes that were summed over but that the guard lacks are counted in full
    *others, guard = named
    summed = {n for names, _ in others for n in names} - set(guard[0])
    times = math.prod(run.tables.size(a) for a in node.over if a in summed)
    axes, (u, n) = align([total, _sum(node, [guard], run)])
    return Value(axes, u / (n * times).clamp(min=1))


def _sum(node: e.Reduce, named: Sequence[tuple[tuple[object, ...], Tensor]], run: Run) -> Value:
    """Sum products over the reduced axes that occur; the others cancel."""
    present = {n for names, _ in named for n in names}
    factors = list(named)
    inside = run.inside(0) if node.time and "time" in present else None
    if inside is not None:
        factors.append((("trace", "time"), inside.to(run.dtype)))
        present.add("trace")
    axes = in_order(a for a in node.axes if a in present)
    names: list[object] = [*(["trace"] if "trace" in present else []), *axes]
    if not node.time and "time" in present:
        names.append("time")
    total = contract(factors, names)
    if "trace" not in present:
        total = total.unsqueeze(0)
    return Value(axes, total if "time" in names else total.unsqueeze(-1))


def _plain(node: e.Reduce, axes: Axes, u: Tensor, run: Run) -> bool:
    """Whether every reduced axis is present and every point counts, the common case."""
    if node.guard is not None or not set(node.over) <= set(axes):
        return False
    return not (node.time and (run.ragged or u.shape[-1] != run.tables.horizon))


def _dims(node: e.Reduce, axes: Axes, u: Tensor) -> list[int]:
    return [1 + axes.index(a) for a in node.over] + ([u.dim() - 1] if node.time else [])


def _dense(node: e.Reduce, values: list[Value], run: Run) -> Value:
    axes, u = values[0]
    if node.kind is e.Reduction.MEAN and _plain(node, axes, u, run):
        dims = _dims(node, axes, u)
        if dims and u.numel():
            mean = u.mean(dims)
            free = tuple(a for a in axes if a not in node.over)
            return Value(free, mean.unsqueeze(-1) if node.time else mean)
    return _finish(node, *_partial(node, values, run))


def _partial(node: e.Reduce, values: list[Value], run: Run) -> tuple[Axes, Tensor, Tensor | None]:
    """Reduce over the visible part: sums and counts for means, so that parts add up."""
    axes, u = values[0]
    mask = None
    if not _plain(node, axes, u, run):
        axes, u, mask = _every_point(node, values, run)
    reduced, counted = _reduce(node.kind, u, mask, _dims(node, axes, u))
    if node.time:
        reduced = reduced.unsqueeze(-1)
        counted = counted.unsqueeze(-1) if counted is not None and counted.dim() else counted
    return tuple(a for a in axes if a not in node.over), reduced, counted


def _every_point(
    node: e.Reduce, values: list[Value], run: Run
) -> tuple[Axes, Tensor, Tensor | None]:
    """Return a body with all reduced axes expanded, and a mask of the points that count."""
    axes, (u, *rest) = align([*values, *every_entity(node.over, run.tables, run.dtype)])
    mask = rest[0] > 0 if node.guard is not None else None
    inside = run.inside(len(axes)) if node.time else None
    if inside is not None:
        mask = inside if mask is None else mask & inside
        rest.append(inside)
    u = torch.broadcast_tensors(u, *rest)[0]
    if node.time:
        u = u.expand(*u.shape[:-1], run.tables.horizon)
    return axes, u, None if mask is None else mask.expand(u.shape)


def _reduce(
    kind: e.Reduction, u: Tensor, mask: Tensor | None, dims: list[int]
) -> tuple[Tensor, Tensor | None]:
    neutral = NEUTRAL[kind]
    if mask is not None:
        u = torch.where(mask, u, torch.full((), neutral, dtype=u.dtype, device=u.device))
    if kind in (e.Reduction.MEAN, e.Reduction.SUM):
        if mask is None:
            number = float(math.prod(u.shape[d] for d in dims))
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


def _finish(node: e.Reduce, axes: Axes, u: Tensor, count: Tensor | None) -> Value:
    if node.kind is e.Reduction.MEAN:
        assert count is not None
        u = u / count.clamp(min=1)
    return Value(axes, u)


def _narrow(value: Value, axis: c.Axis, start: int, stop: int) -> Value:
    """Return the part of a value that a chunk sees."""
    if axis not in value.axes:
        return value
    return Value(value.axes, value.tensor.narrow(1 + value.axes.index(axis), start, stop - start))


def _chunked(step: Step, run: Run) -> Value:
    """Compute one part of an axis at a time, and again for gradients."""
    node, axis, plan = step.node, step.axis, step.region
    assert isinstance(node, e.Reduce)
    assert axis is not None
    assert plan is not None
    size = run.tables.full_size(axis)
    width = math.ceil(size / step.chunks)
    chunks: list[tuple[Tensor, Tensor | None]] = []
    free = in_order(node.axes)
    # A part keeps its inputs, not the run: the run holds the results of the parts, so the two
    # would keep each other alive.
    tables, semantics, dtype, ragged = run.tables, run.semantics, run.dtype, run.ragged
    inputs = {n: run.done[n] for n in step.inputs}
    for start in range(0, size, width):
        stop = min(size, start + width)

        def part(start: int = start, stop: int = stop) -> tuple[Tensor, Tensor | None]:
            cut = replace(tables, cuts={**tables.cuts, axis: (start, stop)})
            seen = {n: _narrow(value, axis, start, stop) for n, value in inputs.items()}
            inner = Run(cut, semantics, dtype, {}, seen, ragged=ragged)
            values = list(execute(plan, inner).values())
            axes, reduced, counted = _partial(node, values, inner)
            order = [0, *(1 + axes.index(a) for a in free), reduced.dim() - 1]
            if counted is not None and counted.dim():
                counted = counted.permute(order)
            return reduced.permute(order), counted

        chunks.append(recompute(part))
    parts = torch.stack(torch.broadcast_tensors(*(reduced for reduced, _ in chunks)))
    counts = [counted for _, counted in chunks if counted is not None]
    match node.kind:
        case e.Reduction.MEAN | e.Reduction.SUM:
            total = sum(counts[1:], counts[0])
            return _finish(node, free, parts.sum(0), total)
        case e.Reduction.PRODUCT:
            return Value(free, parts.prod(0))
        case e.Reduction.MINIMUM:
            return Value(free, parts.amin(0))
        case e.Reduction.MAXIMUM:
            return Value(free, parts.amax(0))
        case _:
            assert_never(node.kind)
