"""Both evaluators at once, and random formulas: shared by the tests that compare with oracles."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import fotltn
from fotltn.evaluation import Evaluator
from fotltn.logic.check import check, check_formula
from fotltn.semantics.config import STABLE_PRODUCT, semantics_of
from fotltn.semantics.from_tensors import tables_of_tensors
from fotltn.semantics.tables import Names, Tables
from fotltn.syntax import formula as f
from fotltn.syntax.operators import STRICT, Temporal
from fotltn.syntax.parse import formula_of, parse, parse_formula

FUTURE = (Temporal.X, Temporal.WX, Temporal.F, Temporal.G, Temporal.U, Temporal.R)
PAST = (Temporal.Y, Temporal.WY, Temporal.O, Temporal.H, Temporal.S, Temporal.T)
EVERY = tuple(Temporal)


def seeds(quick: int, count: int) -> list[Any]:
    """Seeds of random cases as parameters of a test; those after the first few are slow."""
    return [pytest.param(n, marks=[pytest.mark.slow] if n >= quick else []) for n in range(count)]


#: What belongs to tables, not to their evaluation.
OF_TABLES = ("lengths", "functions", "relations", "constants", "features", "horizon")


def parse_term(text: str, *, source: str = "<term>") -> f.Term:
    """A term, read by the rule of the grammar for terms."""
    term = parse(text, "term", source=source)
    assert isinstance(term, f.Term)
    return term


def tables_for(
    formula: str | f.Formula, predicates: Any, theory: Any = None, **more: Any
) -> Tables:
    """Tables for a formula; where no theory declares its symbols, as the formula uses them."""
    parsed = parse_formula(formula) if isinstance(formula, str) else formula
    signature = None if theory is None else check(theory).signature
    constants = () if signature else tuple(more.get("constants") or ())
    checked = check_formula(parsed, signature, constants=constants)
    return tables_of_tensors(
        checked.signature, predicates, used=checked.formula, declared=theory is not None, **more
    )


def value_of(formula: str | f.Formula, predicates: Any, **options: Any) -> Tensor:
    """`fotltn.evaluate`, on tables made for the formula where it is not enough to name degrees."""
    return fotltn.evaluate(formula, _data(formula, predicates, options), **options)


def evaluate(formula: str | f.Formula, predicates: Any, **options: Any) -> Tensor:
    """What the reference says, for an oracle to judge; the engine must say the same."""
    data = _data(formula, predicates, options)
    expected = fotltn.evaluate(formula, data, engine=False, **options)
    found = fotltn.evaluate(formula, data, **options)
    torch.testing.assert_close(
        found, expected, rtol=1e-9, atol=1e-9, equal_nan=True, msg=lambda m: f"{formula}\n{m}"
    )
    return expected


def _data(formula: str | f.Formula, predicates: Any, options: dict[str, Any]) -> Any:
    """What to evaluate on; options that belong to tables are taken out."""
    more = {n: options.pop(n) for n in ("theory", *OF_TABLES) if n in options}
    return tables_for(formula, predicates, **more) if more else predicates


def planned(
    formulas: Sequence[str | f.Formula], *tables: Tensor, engine: bool = True, **options: Any
) -> Callable[..., Tensor]:
    """The values of formulas at all points of one trace, as a function of the tables `a`, `b`, ….

    It is planned once, for functions that are called again and again on tables of these shapes.
    """
    names = "abc"[: len(tables)]
    data = tables_for(" & ".join(names), dict(zip(names, tables, strict=True)))
    cores = {str(n): check_formula(formula_of(x), data.signature) for n, x in enumerate(formulas)}
    meaning = semantics_of(options.pop("semantics", STABLE_PRODUCT), options.pop("p", None))
    evaluator = Evaluator(
        {n: x.formula for n, x in cores.items()}, meaning, None, engine=engine, **options
    )

    def values(*tables: Tensor) -> Tensor:
        rows = {name: row[None] for name, row in zip(names, tables, strict=True)}
        degrees = evaluator(replace(data, predicates=rows)).values()
        tensor = torch.cat([value.tensor for value in degrees])
        return tensor.exp() if meaning.log_space else tensor

    return values


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
        if mark and bound is not None and bound.high == 0:
            bound = f.Bound(0, 1)  # without the present, there would be nothing
        if kind.value.arity == 1:
            return f.Unary(kind, again(size - 1), bound, mark)
        return f.Binary(kind, again(left), again(size - 1 - left), bound, mark)
    assert isinstance(kind, type)
    made = kind(again(left), again(size - 1 - left))
    assert isinstance(made, f.Formula)
    return made
