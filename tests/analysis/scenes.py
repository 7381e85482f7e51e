"""Data for tests of audits and violations: the paper's scene, and brute force over cells."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection
from dataclasses import replace

import torch

from fotltn.analysis.truncation import End
from fotltn.analysis.view import View
from fotltn.analysis.violations import Counterexample, WorstCells
from fotltn.analysis.violations import counterexample as counterexample_of
from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom, CheckedFormula, CheckedTheory, check
from fotltn.logic.prefix import Layer
from fotltn.project.scene import LEARNED as LEARNED
from fotltn.project.scene import THEORY
from fotltn.semantics import crisp
from fotltn.semantics.config import STABLE_PRODUCT, Semantics
from fotltn.semantics.sparse import sparse_table
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import load_theory
from fotltn.tree import postorder
from tests.helpers import numbered


def carped_theory() -> CheckedTheory:
    return check(load_theory(THEORY))


def violations(
    axiom: CheckedAxiom | CheckedFormula,
    tables: Tables,
    semantics: Semantics,
    *,
    top: int = 10,
    threshold: float = 0.5,
    end: End = "undecided",
) -> WorstCells:
    return View(tables, semantics, threshold, end=end).cells(axiom).worst(top)


def counterexample(
    axiom: CheckedAxiom | CheckedFormula,
    tables: Tables,
    *,
    threshold: float = 0.5,
    end: End = "undecided",
) -> Counterexample | None:
    return counterexample_of(View(tables, STABLE_PRODUCT, threshold, end=end).cells(axiom))


def carped(cars: int = 50, horizon: int = 100, seed: int = 0) -> Tables:
    """As many pedestrians as cars, as the paper generates them; `Close` is a table of facts."""
    rng = torch.Generator().manual_seed(seed)
    agents = 2 * cars

    def pick(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=rng))

    crossing = torch.zeros(agents, horizon)
    for walker in range(cars, agents):
        for _ in range(pick(1, 3)):
            start = pick(0, horizon)
            crossing[walker, start : start + pick(1, horizon // 5)] = 1
    close = torch.zeros(agents, agents, horizon)
    close[:cars, cars:] = (torch.rand(cars, cars, horizon, generator=rng) < 0.05).double()
    close = close + close.transpose(0, 1)
    stop = torch.zeros(agents, horizon)
    stop[:cars, 1:] = (torch.einsum("xyt,yt->xt", close, crossing)[:cars, :-1] > 0).double()
    car = (torch.arange(agents) < cars).double().unsqueeze(-1)
    tables = {
        "Car": car,
        "Ped": 1 - car,
        "Run": car * (1 - stop),
        "Stop": stop,
        "Crossing": crossing,
        "OnSidewalk": (1 - car) * (1 - crossing),
    }
    facts = sparse_table(close.unsqueeze(0).nonzero().T, None, (1, agents, agents, horizon))
    return Tables(
        {"agent": agents},
        torch.tensor([horizon]),
        horizon,
        {**{name: table.unsqueeze(0) for name, table in tables.items()}, "Close": facts},
        signature=carped_theory().signature,
        names=numbered({"agent": agents}),
    )


def cell_weights(layers: tuple[Layer, ...], model: Tables) -> Counter[tuple[int, ...]]:
    """The weight of each cell (trace, time, numbers …) in nested means, by plain loops."""
    cells: Counter[tuple[int, ...]] = Counter()
    for trace in range(model.batch):
        cells[(trace, 0)] = 1 / model.batch  # type: ignore[assignment]
    axes: list[c.Axis] = []
    for layer in layers:
        after: Counter[tuple[int, ...]] = Counter()
        guard = None
        if isinstance(layer, c.Quantifier):
            axes += layer.axes
            if layer.guard is not None:
                guard = crisp.evaluate(layer.guard, model)
        for (trace, time, *place), weight in cells.items():
            if isinstance(layer, c.Aggregate):
                low, high = layer.window.low, layer.window.high
                length = int(model.lengths[trace])
                steps = [(time - k if layer.past else k - time) for k in range(length)]
                points = [
                    k for k, s in enumerate(steps) if s >= low and (high is None or s <= high)
                ]
                for point in points:
                    after[(trace, point, *place)] += weight / len(points)  # type: ignore[assignment]
                continue
            bindings = []
            for numbers in itertools.product(*(range(model.size(a)) for a in layer.axes)):
                at = dict(zip(axes, (*place, *numbers), strict=True))
                if guard is None or bool(guard.tensor[(trace, *(at[a] for a in guard.axes), time)]):
                    bindings.append(numbers)
            for numbers in bindings:
                after[(trace, time, *place, *numbers)] += weight / len(bindings)  # type: ignore[assignment]
        cells = after
    return cells


def about(layers: tuple[Layer, ...], axes: Collection[c.Axis]) -> tuple[Layer, ...]:
    """The layers without other axes than these, and without what guards say of others."""
    changed: list[Layer] = []
    for layer in layers:
        if isinstance(layer, c.Quantifier):
            guard: c.Formula | None = None
            for one in conjuncts(layer.guard):
                named = {n.axis for n in postorder(one) if isinstance(n, c.Variable)}
                if named <= set(axes):
                    guard = one if guard is None else c.And(guard, one)
            bound = tuple(a for a in layer.axes if a in axes)
            layer = replace(layer, axes=bound, guard=guard)
        changed.append(layer)
    return tuple(changed)


def conjuncts(guard: c.Formula | None) -> list[c.Formula]:
    if isinstance(guard, c.And):
        return conjuncts(guard.left) + conjuncts(guard.right)
    return [] if guard is None else [guard]
