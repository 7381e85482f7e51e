"""Both evaluators at once, and random formulas: shared by the tests that compare with oracles."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

import fotltn
from fotltn.semantics.interpretation import Names
from fotltn.syntax import formula as f
from fotltn.syntax.operators import STRICT, Temporal

FUTURE = (Temporal.X, Temporal.WX, Temporal.F, Temporal.G, Temporal.U, Temporal.R)
PAST = (Temporal.Y, Temporal.WY, Temporal.O, Temporal.H, Temporal.S, Temporal.T)
EVERY = tuple(Temporal)


def evaluate(formula: str | f.Formula, predicates: Any, **options: Any) -> Tensor:
    """What the reference says, for an oracle to judge; the engine must say the same."""
    expected = fotltn.evaluate(formula, predicates, engine=False, **options)
    found = fotltn.evaluate(formula, predicates, **options)
    torch.testing.assert_close(
        found, expected, rtol=1e-9, atol=1e-9, equal_nan=True, msg=lambda m: f"{formula}\n{m}"
    )
    return expected


def numbered(sizes: Mapping[str, int]) -> Names:
    """Entities that are called by their sort and number, as `agent0`."""
    return Names(entities={s: tuple(f"{s}{i}" for i in range(n)) for s, n in sizes.items()})


def random_formula(
    rng: random.Random,
    size: int,
    atoms: Sequence[f.Formula],
    *,
    temporal: Sequence[Temporal] = EVERY,
    bounds: bool = True,
    strict: bool = True,
    edges: bool = True,
    connectives: Sequence[type] = (f.Not, f.And, f.Or, f.Implies, f.Iff),
) -> f.Formula:
    """A formula with about `size` operators over the given atoms."""
    if size <= 0:
        extra: list[f.Formula] = [f.Truth(True), f.Truth(False)]
        if edges:
            extra += [f.Edge("first"), f.Edge("last")]
        return rng.choice(list(atoms) * 3 + extra)

    def again(n: int) -> f.Formula:
        return random_formula(
            rng, n, atoms, temporal=temporal, bounds=bounds, strict=strict, edges=edges,
            connectives=connectives,
        )  # fmt: skip

    kind = rng.choice([*connectives, *temporal])
    left = rng.randint(0, size - 1)
    if kind is f.Not:
        return f.Not(again(size - 1))
    if isinstance(kind, Temporal):
        bound = None
        if bounds and rng.random() < 0.4:
            low = rng.randint(0, 3)
            high = low if kind.steps else rng.choice([low, low + 1, low + 3, None])
            bound = f.Bound(low, high)
        mark = strict and kind in STRICT and rng.random() < 0.3
        if kind.value.arity == 1:
            return f.Unary(kind, again(size - 1), bound, mark)
        return f.Binary(kind, again(left), again(size - 1 - left), bound, mark)
    assert isinstance(kind, type)
    made = kind(again(left), again(size - 1 - left))
    assert isinstance(made, f.Formula)
    return made
