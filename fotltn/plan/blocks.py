"""Ragged batches in blocks: traces of about the same size together, each block without padding.

A batch has room for its longest trace and for the most entities that a trace has. Where traces
differ, most of that room is padding. What is asked of each trace at its first point is the same in
a block of traces that are alike, whose tables end with the longest of them, and with the last
entity that a guard lets any quantifier see.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np
import torch
from torch import Tensor

from fotltn.algebra.expr import Expr, free_axes, free_axes_of_all
from fotltn.kernels.tracing import is_learned
from fotltn.logic import core as c
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables, Value, sort_of
from fotltn.tree import postorder

Ints = np.ndarray[Any, np.dtype[np.int64]]

#: Cells that one more step of a plan is worth, on a CPU: its own time without any data.
STEP_CELLS = 2**14

_MOST = 64  # blocks
_PLACES = 64  # where a block may be cut along a size


@dataclass(frozen=True, slots=True)
class TraceBlock:
    """Some traces, and the room that the largest of them needs."""

    traces: Ints
    horizon: int
    sizes: Mapping[str, int]

    def __str__(self) -> str:
        rooms = [f"{self.horizon} time points", *(f"{n} of {s}" for s, n in self.sizes.items())]
        return f"{len(self.traces)} traces with room for {', '.join(rooms)}"


# --- how large traces are -------------------------------------------------------------------------


def counted(formulas: Sequence[c.Formula], tables: Tables) -> dict[str, Ints]:
    """By sort, how many entities of each trace can count, if guards of all quantifiers say so.

    Entities after these are never seen: each quantifier over the sort has a guard with a given
    predicate that is false of them. Sorts with entities that are named, listed in relations or
    given by functions are left out, since their numbers must stay.
    """
    nodes = list(postorder(*formulas))
    fixed = _fixed(nodes)
    counts: dict[str, Ints] = {}
    for node in (n for n in nodes if isinstance(n, c.Quantifier)):
        for axis in (a for a in node.axes if a.sort is not None and a.sort not in fixed):
            sort = str(axis.sort)
            every = np.full(tables.batch, tables.sizes[sort], dtype=np.int64)
            seen = [_last(atom, axis, tables) for atom in _atoms(node.guard, axis)]
            counts[sort] = np.maximum(counts.get(sort, 0), np.minimum.reduce([every, *seen]))
    return {sort: n for sort, n in counts.items() if n.min() < tables.sizes[sort]}


def _fixed(nodes: Sequence[c.Core]) -> set[str]:
    """The sorts whose entities are named, listed in relations or given by functions."""
    named = {n.sort for n in nodes if isinstance(n, c.Constant | c.Apply)}
    variables = (n for n in nodes if isinstance(n, c.Variable))
    return named | {n.sort for n in variables if n.axis.relation is not None}


def _atoms(guard: c.Formula | None, axis: c.Axis) -> list[c.Atom]:
    """The atoms about a variable that must be true for a guard to be."""
    atoms: list[c.Atom] = []
    waiting = [] if guard is None else [guard]
    while waiting:
        match c.closed(waiting.pop()):
            case c.And(left, right):
                waiting += [left, right]
            case c.Atom(_, args) as atom if c.Variable(axis, str(axis.sort)) in args:
                atoms.append(atom)
            case (
                c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Not() | c.Or()
                | c.Implies() | c.Quantifier() | c.Shift() | c.Aggregate() | c.Until()
            ):  # fmt: skip
                pass
            case never:
                assert_never(never)
    return atoms


def _last(atom: c.Atom, axis: c.Axis, tables: Tables) -> Ints:
    """For each trace, how many entities there are up to the last that an atom is true of."""
    place = 1 + atom.args.index(c.Variable(axis, str(axis.sort)))
    table = tables.table(atom.predicate)
    if isinstance(table, SparseTable):
        if table.default != 0:
            return np.full(tables.batch, table.shape[place], dtype=np.int64)
        true = table.index[:, table.value > 0].cpu()
        last = torch.zeros(table.shape[0], dtype=torch.int64)
        last.scatter_reduce_(0, true[0].long(), true[place].long() + 1, "amax")
    else:
        others = [d for d in range(1, table.dim()) if d != place]
        true = (table.detach() > 0).any(others) if others else table.detach() > 0
        places = torch.arange(1, table.shape[place] + 1, device=true.device)
        last = (true * places).amax(1) if table.shape[place] else true.sum(1)
    return last.expand(tables.batch).cpu().numpy()


# --- which traces go together ---------------------------------------------------------------------


class Costs:
    """About how many cells the parts of expressions, or of formulas, have, by sizes."""

    def __init__(self, roots: Iterable[Expr | c.Formula]) -> None:
        """Count the parts by what they depend on; what formulas say is computed at all times."""
        self.kinds: Counter[tuple[tuple[str, ...], bool]] = Counter()
        listed = list(roots)
        free = free_axes_of_all(*listed)
        for node in postorder(*listed):
            if isinstance(node, Expr):
                axes, timed = node.axes, node.timed
            elif isinstance(node, c.Formula):
                axes, timed = free[node], True
            else:
                continue
            self.kinds[tuple(sorted(str(a.sort) for a in axes if a.sort is not None)), timed] += 1
        self.steps = self.kinds.total()

    def cells(self, horizon: int, sizes: Mapping[str, int]) -> int:
        """The cells of one trace."""
        return sum(
            count * math.prod(sizes[s] for s in sorts) * (horizon if timed else 1)
            for (sorts, timed), count in self.kinds.items()
        )


def divided(
    costs: Costs, lengths: Ints, counts: Mapping[str, Ints], sizes: Mapping[str, int]
) -> list[TraceBlock]:
    """Blocks of traces, cut in two again and again where that saves most, while it is worth it."""

    def block(traces: Ints) -> TraceBlock:
        most = {sort: int(n[traces].max()) for sort, n in counts.items()}
        return TraceBlock(traces, int(lengths[traces].max()), {**sizes, **most})

    def cost(one: TraceBlock) -> int:
        return len(one.traces) * costs.cells(one.horizon, one.sizes)

    def halves(one: TraceBlock) -> tuple[int, list[TraceBlock]]:
        best: tuple[int, list[TraceBlock]] = (0, [])
        for key in (lengths, *counts.values()):
            numbers = key[one.traces]
            values = np.unique(numbers)[:-1]
            step = max(1, len(values) // _PLACES)
            for value in values[::step]:
                parts = [block(one.traces[numbers <= value]), block(one.traces[numbers > value])]
                gain = cost(one) - sum(map(cost, parts))
                best = max(best, (gain, parts), key=lambda way: way[0])
        return best

    blocks = [block(np.arange(len(lengths)))]
    ways = [halves(blocks[0])]
    while len(blocks) < _MOST:
        at = max(range(len(blocks)), key=lambda i: ways[i][0])
        gain, parts = ways[at]
        if gain <= costs.steps * STEP_CELLS:
            break
        blocks[at : at + 1] = parts
        ways[at : at + 1] = [halves(part) for part in parts]
    return blocks


# --- a batch as blocks ----------------------------------------------------------------------------


class Layout:
    """The blocks of a batch: tables apart, values together again. What has not changed is cut once.

    Args:
        formulas: closed ones, whose values at the first point are asked for.
        costs: of what computes them.
        tables: the batch.
    """

    def __init__(self, formulas: Sequence[c.Formula], costs: Costs, tables: Tables) -> None:
        """Choose blocks."""
        nodes = list(postorder(*formulas))
        counts = counted(formulas, tables)
        self.blocks = divided(costs, tables.lengths.cpu().numpy(), counts, tables.sizes)
        self.order = torch.from_numpy(np.concatenate([b.traces for b in self.blocks]).argsort())
        atoms = [n for n in nodes if isinstance(n, c.Atom)]
        applied = [n for n in nodes if isinstance(n, c.Apply)]
        self.predicates = {n.predicate: tuple(map(sort_of, n.args)) for n in atoms}
        self.functions = {n.function: tuple(map(sort_of, n.args)) for n in applied}
        guards = [n.guard for n in nodes if isinstance(n, c.Quantifier) and n.guard is not None]
        deciding = {n.predicate for n in postorder(*guards) if isinstance(n, c.Atom)}
        self.guards = {name: tables.table(name) for name in deciding}
        self._cells: dict[tuple[object, ...], tuple[Tensor, list[tuple[int, ...]]]] = {}
        self._facts: dict[str, tuple[Tensor, list[tuple[Tensor, Tensor]]]] = {}
        self._cut: dict[str, tuple[Tensor, int, list[Tensor]]] = {}
        self._lengths: tuple[Tensor, list[Tensor]] | None = None

    def fits(self, tables: Tables) -> bool:
        """Whether the tables of guards are those that the blocks were chosen by."""
        return all(tables.table(name) is table for name, table in self.guards.items())

    def joined(self, parts: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
        """Values of all traces, in their order, from those of the blocks."""
        values = {}
        for name in parts[0]:
            tensors = [
                part[name].tensor.expand(len(block.traces), 1)
                for part, block in zip(parts, self.blocks, strict=True)
            ]
            all_traces = torch.cat(tensors)
            values[name] = Value((), all_traces.index_select(0, self.order.to(all_traces.device)))
        return values

    def models(self, model: Tables) -> list[Tables]:
        """The tables of each block."""
        predicates = {n: self._table(n, model.table(n), s) for n, s in self.predicates.items()}
        functions = {
            n: self._dense(f"{n}()", model.function(n), s) for n, s in self.functions.items()
        }
        features = {
            s: self._dense(f"features of {s}", t, (s,), vectors=True)
            for s, t in model.features.items()
        }
        if self._lengths is None or self._lengths[0] is not model.lengths:
            device = model.lengths.device
            numbers = [torch.from_numpy(b.traces).to(device) for b in self.blocks]
            self._lengths = (model.lengths, [model.lengths[n] for n in numbers])
        return [
            replace(
                model, sizes=block.sizes, horizon=block.horizon, lengths=self._lengths[1][i],
                predicates={n: t[i] for n, t in predicates.items()},
                functions={n: t[i] for n, t in functions.items()},
                features={s: t[i] for s, t in features.items()},
            )
            for i, block in enumerate(self.blocks)
        ]  # fmt: skip

    def _table(
        self, name: str, table: Tensor | SparseTable, sorts: tuple[str, ...]
    ) -> Sequence[Tensor | SparseTable]:
        if isinstance(table, Tensor):
            return self._dense(name, table, sorts)
        return self._sparse(name, table, sorts)

    def _unless_cut(
        self, name: str, tensor: Tensor, cut: Callable[[], list[Tensor]]
    ) -> list[Tensor]:
        """Parts of a tensor, made again only if it is another one or was written to."""
        version = _version(tensor)
        old = self._cut.get(name)
        if old is not None and old[0] is tensor and old[1] == version:
            return old[2]
        parts = cut()
        if version is not None:
            self._cut[name] = (tensor, version, parts)
        return parts

    def _dense(
        self, name: str, table: Tensor, sorts: tuple[str, ...], *, vectors: bool = False
    ) -> list[Tensor]:
        """The parts of a table that blocks see, gathered at once; its cells may be vectors."""
        shape = table.shape[:-1] if vectors else table.shape
        each = table.shape[len(shape) :]

        def cut() -> list[Tensor]:
            key = (shape, sorts, vectors)
            if key not in self._cells:
                self._cells[key] = self._places(shape, sorts, table.device)
            cells, shapes = self._cells[key]
            parts = table.reshape(-1, *each).index_select(0, cells).split([*map(math.prod, shapes)])
            return [part.reshape(*to, *each) for part, to in zip(parts, shapes, strict=True)]

        return self._unless_cut(name, table, cut)

    def _places(
        self, shape: Sequence[int], sorts: tuple[str, ...], device: torch.device
    ) -> tuple[Tensor, list[tuple[int, ...]]]:
        """The flat numbers of the cells of all blocks, and the shapes of their tables."""
        traces, *sizes = shape
        numbers = torch.arange(math.prod(shape)).reshape(*shape)
        cells, shapes = [], []
        for block in self.blocks:
            seen = numbers if traces == 1 else numbers[torch.from_numpy(block.traces)]
            for dim, sort in enumerate(sorts, 1):
                seen = seen.narrow(dim, 0, min(seen.shape[dim], block.sizes[sort]))
            if len(sizes) > len(sorts):
                seen = seen.narrow(-1, 0, min(seen.shape[-1], block.horizon))
            cells.append(seen.reshape(-1))
            shapes.append(tuple(seen.shape))
        return torch.cat(cells).to(device), shapes

    def _sparse(self, name: str, table: SparseTable, sorts: tuple[str, ...]) -> list[SparseTable]:
        if name not in self._facts or self._facts[name][0] is not table.index:
            self._facts[name] = (table.index, [_rows(b, table, sorts) for b in self.blocks])
            self._cut.pop(name, None)
        rows = self._facts[name][1]
        values = self._unless_cut(name, table.value, lambda: [table.value[n] for n, _ in rows])
        parts = []
        for block, (_, index), value in zip(self.blocks, rows, values, strict=True):
            traces = 1 if table.shape[0] == 1 else len(block.traces)
            sizes = [block.sizes[s] for s in sorts]
            shape = (traces, *sizes, min(table.shape[-1], block.horizon))
            parts.append(SparseTable(index, value, shape, table.default))
        return parts


def layout(formulas: Sequence[c.Formula], costs: Costs, tables: Tables) -> Layout | None:
    """Blocks of a batch for closed formulas at the first point, if these save much padding."""
    if any(free_axes(formula) for formula in formulas):
        return None
    if tables.lengths.device.type != "cpu":  # there a step takes longer than its padding
        return None
    blocks = Layout(formulas, costs, tables)
    return blocks if len(blocks.blocks) > 1 else None


def _version(table: Tensor) -> int | None:
    """A number that changes with a tensor, if it is one to keep parts of; None if it is not."""
    if is_learned(table):
        return None
    return 0 if table.is_inference() else table._version


def _rows(block: TraceBlock, table: SparseTable, sorts: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    """The numbers of the facts that a block sees, and where they are there."""
    index = table.index
    seen = index[-1] < block.horizon
    for row, sort in zip(index[1:-1], sorts, strict=True):
        seen = seen & (row < block.sizes[sort])
    trace = index[0]
    if table.shape[0] > 1:
        places = torch.full((table.shape[0],), -1, dtype=index.dtype)
        places[torch.from_numpy(block.traces)] = torch.arange(len(block.traces), dtype=index.dtype)
        trace = places.to(index.device)[trace.long()]
        seen = seen & (trace >= 0)
    numbers = seen.nonzero().squeeze(-1)
    return numbers, torch.cat([trace.unsqueeze(0), index[1:]])[:, numbers]
