"""Exact Boolean truth, equal to `crisp`, at a cost that grows with the facts, not the cells."""

from __future__ import annotations

import math
from functools import partial
from typing import assert_never

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.logic.presence import relative, written_out
from fotltn.semantics import crisp
from fotltn.semantics.sparse import SparseTable, largest, numbered
from fotltn.semantics.tables import Tables, Value, align, gather, in_order, term_value, within
from fotltn.semantics.truth_rows import TruthRows, Truths
from fotltn.stop import doing
from fotltn.threads import threads_for
from fotltn.tree import fold


def truth(formula: c.Formula, truths: Truths, *, threshold: float | None = None) -> TruthRows:
    """Compute the truth of a formula; the arguments are those of `crisp.evaluate`.

    Raises:
        DataError: a degree is neither 0 nor 1, and there is no threshold.
        LimitError: a part of the formula is about more bindings than the budget has room for.
    """

    def visit(node: c.AnyTerm | c.AnyFormula, below: list[Value | TruthRows]) -> Value | TruthRows:
        return _visit(node, below, truths, threshold)

    with threads_for(largest(truths.tables.predicates.values()), step=False):
        result = fold(written_out(relative(formula, truths.tables.presence).value), visit)
    assert isinstance(result, TruthRows)
    return result


def _visit(
    node: c.AnyTerm | c.AnyFormula,
    below: list[Value | TruthRows],
    truths: Truths,
    threshold: float | None,
) -> Value | TruthRows:
    terms = [value for value in below if isinstance(value, Value)]
    parts = [value for value in below if isinstance(value, TruthRows)]
    tables = truths.tables
    match node:
        case c.Variable() | c.Constant() | c.Number() | c.Apply():
            return term_value(node, terms, tables)
        case c.Truth(value):
            return truths.dense(truths.constant(value))
        case c.Edge(past):
            return truths.dense(Value((), tables.edge(past)))
        case c.Atom(name, args):
            table = tables.table(name)
            if isinstance(table, SparseTable):
                return _facts(node, table, terms, truths, threshold)
            axes, degrees = crisp.looked_up(table, args, terms, tables)
            return truths.dense(Value(axes, crisp.true(name, degrees, threshold)))
        case c.Equal():
            axes, (a, b) = align(terms)
            return truths.dense(Value(axes, torch.eq(*crisp.alike(a, b))))
        case c.Compare(op):
            axes, (a, b) = align(terms)
            return truths.dense(Value(axes, crisp.compare(op, a, b)))
        case c.Not():
            return truths.negate(parts[0])
        case c.And():
            return truths.both(*parts)
        case c.Or():
            return truths.negate(truths.both(*map(truths.negate, parts)))
        case c.Implies():
            return truths.negate(truths.both(parts[0], truths.negate(parts[1])))
        case c.Quantifier(universal, bound):
            *guards, u = parts
            u = truths.negate(u) if universal else u
            for guard in guards:
                u = truths.both(guard, u)
            some = truths.some(u, bound)
            return truths.negate(some) if universal else some
        case c.Shift(_, steps, past, weak):
            return truths.over_time(
                lambda u, lengths: crisp.shift(u, steps, past, weak, lengths), *parts
            )
        case c.Aggregate(universal, _, window, past):
            once = partial(_some, window=window, past=past)
            return truths.over_time(
                lambda u, lengths: (
                    ~once(~u, lengths=lengths) if universal else once(u, lengths=lengths)
                ),
                *parts,
            )
        case c.Until(dual, _, _, window, past):
            until = partial(_until, window=window, past=past)
            return truths.over_time(
                lambda u, v, lengths: (
                    ~until(~u, ~v, lengths=lengths) if dual else until(u, v, lengths=lengths)
                ),
                *parts,
            )
        case _:
            assert_never(node)


def _some(u: Tensor, lengths: Tensor, window: c.Window, past: bool) -> Tensor:
    """Whether any time point of a window is true: over one point, two, four, and so on."""
    near = u & within(lengths, torch.arange(u.shape[-1], device=u.device), u.dim())
    points, wanted = 1, _points(window, u.shape[-1])
    if not wanted:
        return torch.zeros_like(u)
    while points < wanted:
        step = min(points, wanted - points)
        near = near | crisp.moved(near, step, past)
        points += step
    return crisp.moved(near, window.low, past) if window.low else near


def _points(window: c.Window, horizon: int) -> int:
    """Return the most time points of the tables that a window can contain."""
    last = horizon - 1 if window.high is None else min(window.high, horizon - 1)
    return max(0, last - window.low + 1)


def _until(u: Tensor, v: Tensor, lengths: Tensor, window: c.Window, past: bool) -> Tensor:
    """Compute until over one point, two, four, …: `b` holds, or `a` until the next stretch."""
    near = v & within(lengths, torch.arange(u.shape[-1], device=u.device), u.dim())
    points, wanted, so_far = 1, _points(window, u.shape[-1]), u
    if not wanted:
        return torch.zeros_like(u)
    while points < wanted:
        step = min(points, wanted - points)
        held = so_far if step == points else _throughout(u, step, past)
        near = near | (held & crisp.moved(near, step, past))
        if 2 * points < wanted:
            so_far = so_far & crisp.moved(so_far, points, past)
        points += step
    if not window.low:
        return near
    return _throughout(u, window.low, past) & crisp.moved(near, window.low, past)


def _throughout(u: Tensor, points: int, past: bool) -> Tensor:
    """Whether it is true at this time point and the following ones, `points` in total."""
    known = 1
    so_far = u
    while known < points:
        step = min(known, points - known)
        so_far = so_far & crisp.moved(so_far, step, past)
        known += step
    return so_far


def _facts(
    atom: c.Atom, table: SparseTable, terms: list[Value], truths: Truths, threshold: float | None
) -> TruthRows:
    """Compute the truth of an atom from the facts of its predicate."""
    tables, name = truths.tables, atom.predicate
    axes = [a.axis for a in atom.args if isinstance(a, c.Variable) and a.column is None]
    if not len(axes) == len(atom.args) == len(set(axes)):
        return _looked_up(atom, table, terms, truths, threshold)
    default, true = _read(name, table, threshold)
    index = table.index[:, true != default].long()
    for place, axis in enumerate(axes, 1):
        if axis in tables.cuts:
            start, stop = tables.cuts[axis]
            index = index[:, (index[place] >= start) & (index[place] < stop)].clone()
            index[place] -= start
    trace, *places, time = index
    if table.shape[0] == 1 < tables.batch:
        trace = torch.arange(tables.batch, device=time.device).repeat_interleave(len(time))
        places, time = [row.repeat(tables.batch) for row in places], time.repeat(tables.batch)
    names, at = in_order(axes), dict(zip(axes, places, strict=True))
    keys, row = truths.keys(trace, at, names).unique(return_inverse=True)
    truths.room(len(keys) * tables.horizon)
    bits = torch.full((len(keys), tables.horizon), default, device=time.device)
    if table.shape[-1] == 1 < tables.horizon:
        bits[row] = not default
    else:
        bits[row, time] = not default
    return truths.made(truths.truth(names, (truths.constant(default),), False, keys, bits))


def _read(name: str, table: SparseTable, threshold: float | None) -> tuple[bool, Tensor]:
    """Return whether unlisted facts are true, and which listed facts are."""
    rest = torch.tensor([table.default], dtype=torch.float64)
    return bool(crisp.true(name, rest, threshold)), crisp.true(name, table.value, threshold)


def _looked_up(
    atom: c.Atom, table: SparseTable, terms: list[Value], truths: Truths, threshold: float | None
) -> TruthRows:
    """Do the same for arguments that are constants, members of tuples or functions."""
    tables = truths.tables
    if any(t.tensor.shape[-1] > 1 or t.tensor.shape[0] > 1 for t in terms):  # changes over time
        truths.room(4 * math.prod(table.shape))
        dense = tables.predicate(atom.predicate)
        axes, degrees = gather(dense, terms)
        return truths.dense(Value(axes, crisp.true(atom.predicate, degrees, threshold)))
    axes, numbers = align(terms)
    default, true = _read(atom.predicate, table, threshold)
    full = torch.broadcast_tensors(*numbers)
    shape, sizes = full[0].shape[1:-1], table.shape[1:-1]
    wanted = numbered([row.reshape(-1) for row in full], sizes)
    index = table.index[:, true != default].long()
    known = numbered(list(index[1:-1]), sizes)
    cells, place = wanted.unique(return_inverse=True)
    at = torch.searchsorted(cells, known).clamp(max=max(0, len(cells) - 1))
    asked = cells[at] == known if len(cells) else torch.zeros_like(known, dtype=torch.bool)
    truths.room(table.shape[0] * len(wanted) * table.shape[-1])
    bits = torch.full((table.shape[0], len(cells), table.shape[-1]), default, device=truths.device)
    bits[index[0][asked], at[asked], index[-1][asked]] = not default
    laid_out = bits[:, place].reshape(table.shape[0], *shape, table.shape[-1])
    return truths.dense(Value(axes, laid_out))


def everywhere(
    formula: c.Formula, tables: Tables, *, threshold: float | None, budget: int, what: str
) -> Value:
    """Compute the truth for every binding of the free variables, as `crisp.evaluate` does."""
    doing(what)
    truths = Truths(tables, budget, what)
    return truths.laid_out(truth(formula, truths, threshold=threshold))
