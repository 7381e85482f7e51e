"""Ragged batches in blocks: traces of about the same size together, each block without padding.

A batch has room for its longest trace and for the most entities that a trace has. Where traces
differ, most of that room is padding. What is asked of each trace at its first point is the same in
a block of traces that are alike, whose tables end with the longest of them, and with the last
entity that a guard lets any quantifier see.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fotltn.algebra.expr import Expr, free_axes, free_axes_of_all
from fotltn.logic import core as c
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables, Value
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
    found: dict[str, Ints] = {}
    for node in nodes:
        if not isinstance(node, c.Quantifier):
            continue
        for axis in (a for a in node.axes if a.sort is not None and a.sort not in fixed):
            seen = [_last(atom, axis, tables) for atom in _atoms(node.guard, axis)]
            sort = str(axis.sort)
            most = np.full(tables.batch, tables.sizes[sort], dtype=np.int64)
            own = np.minimum.reduce([most, *seen])
            found[sort] = np.maximum(found.get(sort, 0), own)
    return {sort: counts for sort, counts in found.items() if counts.min() < tables.sizes[sort]}


def _fixed(nodes: Iterable[c.Core]) -> set[str]:
    """The sorts whose entities are named, listed in relations or given by functions."""
    found: set[str] = set()
    for node in nodes:
        match node:
            case c.Constant(_, sort) | c.Apply(_, _, sort):
                found.add(sort)
            case c.Variable(axis, sort) if axis.relation is not None:
                found.add(sort)
    return found


def _atoms(guard: c.Formula | None, axis: c.Axis) -> list[c.Atom]:
    """The atoms about a variable that must be true for a guard to be."""
    found: list[c.Atom] = []
    waiting = [] if guard is None else [guard]
    while waiting:
        match waiting.pop():
            case c.And(left, right):
                waiting += [left, right]
            case c.Atom(_, args) as atom if c.Variable(axis, str(axis.sort)) in args:
                found.append(atom)
    return found


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
        whole = list(roots)
        free = free_axes_of_all(*whole)
        for node in postorder(*whole):
            if isinstance(node, Expr):
                own, timed = node.axes, node.timed
            elif isinstance(node, c.Formula):
                own, timed = free[node], True
            else:
                continue
            self.kinds[tuple(sorted(str(a.sort) for a in own if a.sort is not None)), timed] += 1
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
        own = {sort: int(n[traces].max()) for sort, n in counts.items()}
        return TraceBlock(traces, int(lengths[traces].max()), {**sizes, **own})

    def cost(one: TraceBlock) -> int:
        return len(one.traces) * costs.cells(one.horizon, one.sizes)

    def halves(one: TraceBlock) -> tuple[int, list[TraceBlock]]:
        best: tuple[int, list[TraceBlock]] = (0, [])
        for key in (lengths, *counts.values()):
            own = key[one.traces]
            values = np.unique(own)[:-1]
            step = max(1, len(values) // _PLACES)
            for value in values[::step]:
                parts = [block(one.traces[own <= value]), block(one.traces[own > value])]
                gain = cost(one) - sum(map(cost, parts))
                best = max(best, (gain, parts), key=lambda way: way[0])
        return best

    found = [block(np.arange(len(lengths)))]
    ways = [halves(found[0])]
    while len(found) < _MOST:
        at = max(range(len(found)), key=lambda i: ways[i][0])
        gain, parts = ways[at]
        if gain <= costs.steps * STEP_CELLS:
            break
        found[at : at + 1] = parts
        ways[at : at + 1] = [halves(part) for part in parts]
    return found


# --- tables of blocks -----------------------------------------------------------------------------


def _version(table: Tensor) -> int | None:
    """A number that changes with a tensor, if it is one to keep parts of; None if it is not."""
    if table.requires_grad or torch._C._functorch.is_functorch_wrapped_tensor(table):
        return None
    return 0 if table.is_inference() else table._version


@dataclass(slots=True, eq=False)
class Cutter:
    """Cuts the tables of a model into those of blocks; what has not changed is cut once.

    Args:
        blocks: the blocks, which have each trace once.
        predicates: those that are used, with the sorts of their arguments.
        functions: the same of functions.
    """

    blocks: Sequence[TraceBlock]
    predicates: Mapping[str, tuple[str, ...]]
    functions: Mapping[str, tuple[str, ...]]
    _cells: dict[tuple[object, ...], tuple[Tensor, list[tuple[int, ...]]]] = field(
        default_factory=dict
    )
    _facts: dict[str, tuple[Tensor, list[tuple[Tensor, Tensor]]]] = field(default_factory=dict)
    _kept: dict[str, tuple[Tensor, int, list[Tensor]]] = field(default_factory=dict)
    _lengths: tuple[Tensor, list[Tensor]] | None = None

    def models(self, model: Tables) -> list[Tables]:
        """The model of each block."""
        tables = {n: self._table(n, model.table(n), s) for n, s in self.predicates.items()}
        functions = {
            n: self._dense(f"{n}()", model.function(n), s) for n, s in self.functions.items()
        }
        features = {s: self._vectors(s, t) for s, t in model.features.items()}
        if self._lengths is None or self._lengths[0] is not model.lengths:
            device = model.lengths.device
            numbers = [torch.from_numpy(b.traces).to(device) for b in self.blocks]
            self._lengths = (model.lengths, [model.lengths[n] for n in numbers])
        return [
            replace(
                model, sizes=block.sizes, horizon=block.horizon, lengths=self._lengths[1][i],
                predicates={n: t[i] for n, t in tables.items()},
                functions={n: t[i] for n, t in functions.items()},
                features={s: t[i] for s, t in features.items()},
            )
            for i, block in enumerate(self.blocks)
        ]  # fmt: skip

    def _table(
        self, name: str, table: Tensor | SparseTable, sorts: tuple[str, ...]
    ) -> list[Tensor] | list[SparseTable]:
        if isinstance(table, Tensor):
            return self._dense(name, table, sorts)
        return self._sparse(name, table, sorts)

    def _vectors(self, sort: str, table: Tensor) -> list[Tensor]:
        """Features, with axes (trace, entity, feature)."""
        found = self._dense(f"features of {sort}", table.movedim(-1, 0), (sort,), lead=1)
        return [one.movedim(0, -1) for one in found]

    def _dense(
        self, name: str, table: Tensor, sorts: tuple[str, ...], lead: int = 0
    ) -> list[Tensor]:
        """The parts of a table that blocks see, gathered at once."""
        version = _version(table)
        old = self._kept.get(name)
        if old is not None and old[0] is table and old[1] == version:
            return old[2]
        key = (table.shape[lead:], sorts, lead)
        if key not in self._cells:
            self._cells[key] = self._places(table, sorts, lead)
        cells, shapes = self._cells[key]
        flat = table.reshape(*table.shape[:lead], -1).index_select(lead, cells)
        parts = flat.split([math.prod(shape) for shape in shapes], dim=lead)
        found = [
            part.reshape(*table.shape[:lead], *shape)
            for part, shape in zip(parts, shapes, strict=True)
        ]
        if version is not None:
            self._kept[name] = (table, version, found)
        return found

    def _places(
        self, table: Tensor, sorts: tuple[str, ...], lead: int
    ) -> tuple[Tensor, list[tuple[int, ...]]]:
        """The flat numbers of the cells of all blocks, and the shapes of their tables."""
        traces, *sizes = table.shape[lead:]
        numbers = torch.arange(traces * math.prod(sizes)).reshape(traces, *sizes)
        cells, shapes = [], []
        for block in self.blocks:
            own = numbers if traces == 1 else numbers[torch.from_numpy(block.traces)]
            for dim, sort in enumerate(sorts, 1):
                own = own.narrow(dim, 0, min(own.shape[dim], block.sizes[sort]))
            if len(sizes) > len(sorts):
                own = own.narrow(-1, 0, min(own.shape[-1], block.horizon))
            cells.append(own.reshape(-1))
            shapes.append(tuple(own.shape))
        return torch.cat(cells).to(table.device), shapes

    def _sparse(self, name: str, table: SparseTable, sorts: tuple[str, ...]) -> list[SparseTable]:
        if name not in self._facts or self._facts[name][0] is not table.index:
            self._facts[name] = (table.index, [self._rows(b, table, sorts) for b in self.blocks])
            self._kept.pop(name, None)
        rows = self._facts[name][1]
        version = _version(table.value)
        old = self._kept.get(name)
        if old is not None and old[0] is table.value and old[1] == version:
            values = old[2]
        else:
            values = [table.value[kept] for kept, _ in rows]
            if version is not None:
                self._kept[name] = (table.value, version, values)
        found = []
        for block, (_, index), value in zip(self.blocks, rows, values, strict=True):
            traces = 1 if table.shape[0] == 1 else len(block.traces)
            sizes = [block.sizes[s] for s in sorts]
            shape = (traces, *sizes, min(table.shape[-1], block.horizon))
            found.append(SparseTable(index, value, shape, table.default))
        return found

    def _rows(
        self, block: TraceBlock, table: SparseTable, sorts: tuple[str, ...]
    ) -> tuple[Tensor, Tensor]:
        """The numbers of the facts that a block sees, and where they are there."""
        index = table.index
        seen = index[-1] < block.horizon
        for row, sort in zip(index[1:-1], sorts, strict=True):
            seen = seen & (row < block.sizes[sort])
        trace = index[0]
        if table.shape[0] > 1:
            places = torch.full((table.shape[0],), -1, dtype=index.dtype)
            places[torch.from_numpy(block.traces)] = torch.arange(
                len(block.traces), dtype=index.dtype
            )
            trace = places.to(index.device)[trace.long()]
            seen = seen & (trace >= 0)
        kept = seen.nonzero().squeeze(-1)
        return kept, torch.cat([trace.unsqueeze(0), index[1:]])[:, kept]


# --- a batch as blocks ----------------------------------------------------------------------------


class Layout:
    """The blocks of a batch: tables apart, values together again.

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
        self.cutter = Cutter(
            self.blocks,
            {n.predicate: tuple(map(_sort, n.args)) for n in nodes if isinstance(n, c.Atom)},
            {n.function: tuple(map(_sort, n.args)) for n in nodes if isinstance(n, c.Apply)},
        )
        guards = [n.guard for n in nodes if isinstance(n, c.Quantifier) and n.guard is not None]
        atoms = [n for n in postorder(*guards) if isinstance(n, c.Atom)]
        self.guards = {atom.predicate: tables.table(atom.predicate) for atom in atoms}

    def fits(self, tables: Tables) -> bool:
        """Whether the tables of guards are those that the blocks were chosen by."""
        return all(tables.table(name) is table for name, table in self.guards.items())

    def models(self, tables: Tables) -> list[Tables]:
        """The model of each block."""
        return self.cutter.models(tables)

    def joined(self, parts: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
        """Values of all traces, in their order, from those of the blocks."""
        found = {}
        for name in parts[0]:
            values = [
                part[name].tensor.expand(len(block.traces), 1)
                for part, block in zip(parts, self.blocks, strict=True)
            ]
            whole = torch.cat(values)
            found[name] = Value((), whole.index_select(0, self.order.to(whole.device)))
        return found


def layout(formulas: Sequence[c.Formula], costs: Costs, tables: Tables) -> Layout | None:
    """Blocks of a batch for closed formulas at the first point, if these save much padding."""
    if tables.batch < 2 or tables.cuts or any(free_axes(formula) for formula in formulas):
        return None
    if tables.lengths.device.type != "cpu":  # there a step takes longer than its padding
        return None
    found = Layout(formulas, costs, tables)
    return found if len(found.blocks) > 1 else None


def _sort(term: c.Term) -> str:
    assert isinstance(term, c.Variable | c.Constant | c.Apply)
    return term.sort
