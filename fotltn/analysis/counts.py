"""Cells counted: how many there are, where an antecedent is true, and the consequent with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from fotltn.algebra.expr import free_axes
from fotltn.analysis.cells import Block, Cells
from fotltn.analysis.prefix import Layer, Prefix
from fotltn.analysis.truncation import if_longer
from fotltn.logic import core as c
from fotltn.logic.span import reach

#: A number for each trace.
ByTrace = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Counts by trace; under a semantics of degrees, sums of them.

    A rule that is no implication has an antecedent that is always true.

    Args:
        cells: those that count.
        absent: those that would count if all entities were present where they are used.
        support: those where the antecedent is true.
        held: those of them where the consequent is true, too.
        truncated: those where it is not, but could be if the trace went on.
        base_cells: cells of the consequent alone.
        base_true: those where it is true.
    """

    cells: ByTrace
    absent: ByTrace
    support: ByTrace
    held: ByTrace
    truncated: ByTrace
    base_cells: ByTrace
    base_true: ByTrace


def count(cells: Cells, *, crisp: bool = True) -> tuple[Counts, Counts | None]:
    """Count all cells; and those from which the consequent looks at points of the trace alone.

    The latter are None if it looks as far as the trace goes. The base rate of a consequent is
    over its own variables, and over what guards say of no others.

    Args:
        cells: of the rule.
        crisp: in two-valued logic; otherwise degrees are summed.
    """
    antecedent, consequent = cells.prefix.rule or (c.Truth(True), cells.body)
    formulas: dict[str, c.Formula] = {"if": antecedent, "both": c.And(antecedent, consequent)}
    later = if_longer(consequent)
    if later != consequent and (crisp or cells.semantics.boolean):
        formulas["later"] = c.And(antecedent, later)
    ahead = reach(consequent)
    free = free_axes(consequent)
    own = _about(cells.prefix, consequent, tuple(a for a in cells.axes if a in free))
    every, uncut = _Sums(cells), _Sums(cells, ahead or 0)
    for block in cells.blocks(formulas, crisp=crisp, count=True):
        for sums in (every, uncut):
            sums.add(block, ("cells", "absent"))
    apart = replace(cells, free=tuple(a for a in cells.free if a in free))
    for block in apart.blocks({"then": consequent}, crisp=crisp, count=True, prefix=own):
        for sums in (every, uncut):
            sums.add(block, ("base",))
    return every.counts(), None if ahead is None else uncut.counts()


class _Sums:
    """Sums of blocks by trace, over the cells with so many points ahead."""

    def __init__(self, cells: Cells, ahead: int = 0) -> None:
        tables = cells.tables
        names = ("cells", "absent", "if", "both", "base", "then")
        self.totals: dict[str, ByTrace] = {name: np.zeros(tables.batch) for name in names}
        times = torch.arange(tables.horizon, device=tables.lengths.device)
        self.inner = times + ahead < tables.lengths.unsqueeze(-1)

    def add(self, block: Block, marks: tuple[str, ...]) -> None:
        """Take in a block: the sums of its values, and of its cells by some names."""
        traces, horizon = self.inner.shape
        inner = self.inner.reshape(traces, *[1] * (len(block.shape) - 2), horizon)
        counts = block.counts & inner
        ones = torch.ones((), dtype=torch.bool, device=counts.device)
        for name, value in {**block.values, **dict.fromkeys(marks, ones)}.items():
            where = (block.weight > 0) & ~block.counts & inner if name == "absent" else counts
            chosen = value & where if value.dtype == torch.bool else torch.where(where, value, 0)
            total = chosen.expand(block.shape).flatten(1).sum(1, dtype=torch.float64)
            self.totals[name] = self.totals.get(name, 0.0) + total.cpu().numpy()

    def counts(self) -> Counts:
        """All sums so far."""
        t = self.totals
        truncated = t["later"] - t["both"] if "later" in t else np.zeros_like(t["both"])
        return Counts(t["cells"], t["absent"], t["if"], t["both"], truncated, t["base"], t["then"])


def _about(prefix: Prefix, body: c.Formula, own: tuple[c.Axis, ...]) -> Prefix:
    """The layers as far as they speak of some axes: others are not bound, nor named in guards."""
    layers: list[Layer] = []
    for layer in prefix.layers:
        if isinstance(layer, c.Quantifier):
            axes = tuple(a for a in layer.axes if a in own)
            guard = _joined([g for g in _conjuncts(layer.guard) if free_axes(g) <= set(own)])
            if not axes and guard is None:
                continue
            layer = replace(layer, axes=axes, guard=guard)
        layers.append(layer)
    return Prefix(tuple(layers), body)


def _conjuncts(guard: c.Formula | None) -> list[c.Formula]:
    conjuncts: list[c.Formula] = []
    waiting = [] if guard is None else [guard]
    while waiting:
        match waiting.pop():
            case c.And(left, right):
                waiting += [right, left]
            case other:
                conjuncts.append(other)
    return conjuncts


def _joined(parts: list[c.Formula]) -> c.Formula | None:
    if not parts:
        return None
    joined = parts[0]
    for part in parts[1:]:
        joined = c.And(joined, part)
    return joined
