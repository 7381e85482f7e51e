"""Split ragged batches into blocks of traces of similar size, each with little padding.

The tables of a batch are as large as its longest trace and its most crowded trace require. Where
traces differ, most of that space is padding. The value of each trace at its first time point does
not change if traces are evaluated in blocks of similar ones. The tables of a block end with its
longest trace, and with the last entity that the guards let any quantifier see.
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

from fotltn.algebra.expr import Expr
from fotltn.kernels.tracing import is_learned
from fotltn.logic import core as c
from fotltn.logic.parts import free_axes, free_axes_of_all, predicates_in
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Names, Tables, Value, sort_of
from fotltn.tree import postorder

Ints = np.ndarray[Any, np.dtype[np.int64]]

#: The number of cells that cost as much, on a CPU, as the overhead of one more step of a plan.
STEP_CELLS = 2**14

_MOST = 64  # the maximum number of blocks
_PLACES = 64  # the number of places where a block may be cut along a size


@dataclass(frozen=True, slots=True)
class TraceBlock:
    """Some traces, and the table size that the largest of them needs."""

    traces: Ints
    horizon: int
    sizes: Mapping[str, int]

    def __str__(self) -> str:
        rooms = [f"{self.horizon} time points", *(f"{n} of {s}" for s, n in self.sizes.items())]
        return f"{len(self.traces)} traces with room for {', '.join(rooms)}"


# --- how large traces are -------------------------------------------------------------------------


def counted(formulas: Sequence[c.Formula], tables: Tables) -> dict[str, Ints]:
    """Return, by sort, how many entities of each trace can count, if all quantifiers are guarded.

    Entities after these are never seen: each quantifier over the sort has a guard with a given
    predicate that is false for them. Sorts whose entities are named, listed in relations or
    returned by functions are left out, because their numbers must not change.
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
    """Return the sorts whose entities are named, listed in relations or returned by functions."""
    named = {n.sort for n in nodes if isinstance(n, c.Constant | c.Apply)}
    variables = (n for n in nodes if isinstance(n, c.Variable))
    return named | {n.sort for n in variables if n.axis.relation is not None}


def _atoms(guard: c.Formula | None, axis: c.Axis) -> list[c.Atom]:
    """Return the atoms about a variable that must be true for a guard to be true."""
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
    """Return, for each trace, the number of entities up to the last one an atom is true of."""
    place = 1 + atom.args.index(c.Variable(axis, str(axis.sort)))
    table = tables.table(atom.predicate)
    if isinstance(table, SparseTable):
        if table.default != 0:
            return np.full(tables.batch, table.shape[place], dtype=np.int64)
        traces, entities = table.index[0], table.index[place]
        if not bool((true := table.value > 0).all()):
            traces, entities = traces[true], entities[true]
        last = torch.zeros(table.shape[0], dtype=torch.int64)
        last.scatter_reduce_(0, traces.cpu().long(), entities.cpu().long() + 1, "amax")
    else:
        others = [d for d in range(1, table.dim()) if d != place]
        true = (table.detach() > 0).any(others) if others else table.detach() > 0
        places = torch.arange(1, table.shape[place] + 1, device=true.device)
        last = (true * places).amax(1) if table.shape[place] else true.sum(1)
    return last.expand(tables.batch).cpu().numpy()


# --- which traces go together ---------------------------------------------------------------------


class Costs:
    """Estimates the number of cells of all parts of expressions or formulas, given sizes."""

    def __init__(self, roots: Iterable[Expr | c.Formula]) -> None:
        """Count the parts by the axes they depend on; formulas are computed at all time points."""
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
        """Return the number of cells for one trace."""
        return sum(
            count * math.prod(sizes[s] for s in sorts) * (horizon if timed else 1)
            for (sorts, timed), count in self.kinds.items()
        )


def divided(
    costs: Costs, lengths: Ints, counts: Mapping[str, Ints], sizes: Mapping[str, int]
) -> list[TraceBlock]:
    """Divide traces into blocks: cut in two where that saves most, as long as it pays off."""

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
    """The blocks of a batch: splits tables, and joins values. Unchanged tables are split once.

    Args:
        formulas: closed formulas whose values at the first time point are needed.
        costs: the cost of the parts that compute them.
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
        deciding = predicates_in(*guards)
        self.guards = {n: tables.table(n) for n in deciding if n in tables.predicates}
        self.present = tables.present
        self._cells: dict[tuple[object, ...], tuple[Tensor, list[tuple[int, ...]]]] = {}
        self._facts: dict[str, tuple[Tensor, list[tuple[Tensor, Tensor]]]] = {}
        self._cut: dict[str, tuple[Tensor, int, list[Tensor]]] = {}
        self._lengths: tuple[Tensor, list[Tensor]] | None = None

    def fits(self, tables: Tables) -> bool:
        """Whether the tables of guards are still those that the blocks were chosen by."""
        same = tables.present is self.present
        return same and all(tables.table(name) is table for name, table in self.guards.items())

    def joined(self, parts: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
        """Join the values of the blocks into those of all traces, in order."""
        values = {}
        for name in parts[0]:
            tensors = [
                part[name].tensor.expand(len(block.traces), 1)
                for part, block in zip(parts, self.blocks, strict=True)
            ]
            all_traces = torch.cat(tensors)
            values[name] = Value((), all_traces.index_select(0, self.order.to(all_traces.device)))
        return values

    def parts(self, tables: Tables) -> list[Tables]:
        """Return the tables of each block."""
        predicates = {n: self._table(n, tables.table(n), s) for n, s in self.predicates.items()}
        functions = {
            n: self._dense(f"{n}()", tables.function(n), s) for n, s in self.functions.items()
        }
        features = {
            s: self._dense(f"features of {s}", t, (s,), vectors=True)
            for s, t in tables.features.items()
        }
        if self._lengths is None or self._lengths[0] is not tables.lengths:
            device = tables.lengths.device
            numbers = [torch.from_numpy(b.traces).to(device) for b in self.blocks]
            self._lengths = (tables.lengths, [tables.lengths[n] for n in numbers])
        return [
            replace(
                tables, sizes=block.sizes, horizon=block.horizon, lengths=self._lengths[1][i],
                predicates={n: t[i] for n, t in predicates.items()},
                functions={n: t[i] for n, t in functions.items()},
                features={s: t[i] for s, t in features.items()},
                present={}, names=Names(),  # formulas name what they need of presence
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
        """Return the parts of a tensor, cut again only if the tensor was replaced or written to."""
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
        """Return the parts of a table that blocks see, gathered at once; cells may be vectors."""
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
        """Return the flat numbers of the cells of all blocks, and the shapes of their tables."""
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
    """Choose blocks for closed formulas at the first time point, if they save much padding."""
    if any(free_axes(formula) for formula in formulas):
        return None
    if tables.lengths.device.type != "cpu":  # a step on a GPU costs more than the padding
        return None
    blocks = Layout(formulas, costs, tables)
    return blocks if len(blocks.blocks) > 1 else None


def _version(table: Tensor) -> int | None:
    """Return a number that changes when a tensor is written to; None if parts cannot be cached."""
    if is_learned(table):
        return None
    return 0 if table.is_inference() else table._version


def _rows(block: TraceBlock, table: SparseTable, sorts: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    """Return the numbers of the facts that a block sees, and their places in the block."""
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
