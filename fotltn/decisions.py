"""Decisions: the only way from degrees to truth.

A fact is true if its degree reaches a threshold. A predicate defined by a formula has no threshold:
it takes the truth of the formula, in two-valued logic, given the truth of the others. So an axiom
that states such a definition holds wherever truth is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fotltn.logic.parts import symbols
from fotltn.plan.build import BUDGET
from fotltn.plan.cost import called
from fotltn.semantics import crisp_rows
from fotltn.semantics.config import check_share
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Decisions, Tables, arranged

_HALF = 0.5


@dataclass(frozen=True, slots=True)
class DecisionRule:
    """How degrees become true or false, as text or as data.

    Attributes:
        threshold: the smallest degree that counts as true.
        thresholds: the thresholds of predicates that have another one.
        defined: the predicates that follow from others by definition.
    """

    threshold: float
    thresholds: Mapping[str, float]
    defined: tuple[str, ...]

    @property
    def plain(self) -> bool:
        """Whether all predicates have the same threshold."""
        return not self.thresholds and not self.defined

    def as_dict(self) -> dict[str, Any]:
        """Return the rule as a dictionary, for JSON."""
        other = {"thresholds": dict(self.thresholds), "defined": list(self.defined)}
        return {"threshold": self.threshold, **other}

    def __str__(self) -> str:
        """Return the rule in words."""
        others = "".join(f", for {name} at least {at:.3g}" for name, at in self.thresholds.items())
        verb = "follows" if len(self.defined) == 1 else "follow"
        rest = f"; {', '.join(self.defined)} {verb} by definition" if self.defined else ""
        return f"degrees of at least {self.threshold:g} are true{others}{rest}"


def decision_rule(limits: Mapping[str, float | None]) -> DecisionRule:
    """Return the rule for the thresholds of predicates; None marks a defined predicate."""
    numbers = {name: limit for name, limit in limits.items() if limit is not None}
    ((usual, _),) = Counter([*numbers.values(), _HALF]).most_common(1)
    others = {name: limit for name, limit in numbers.items() if limit != usual}
    return DecisionRule(usual, others, tuple(n for n, limit in limits.items() if limit is None))


def rule_of(tables: Tables, threshold: float | None = None) -> DecisionRule:
    """Return how the degrees of tables become true or false."""
    return decision_rule({n: threshold_of(tables, n, threshold) for n in tables.predicates})


def threshold_of(tables: Tables, name: str, threshold: float | None = None) -> float | None:
    """Return the smallest degree that makes a predicate true; None if it is defined by others.

    Args:
        tables: the tables with their decisions.
        name: the predicate.
        threshold: a threshold for all predicates without a definition, which replaces their own.
    """
    how = tables.decisions or Decisions()
    if name in how.definitions:
        return None
    return how.thresholds.get(name, _HALF) if threshold is None else threshold


def two_valued(
    tables: Tables, threshold: float | None = None, names: Iterable[str] | None = None,
    *, budget: int = BUDGET,
) -> Tables:  # fmt: skip
    """Return the tables with Booleans in place of degrees; cached.

    Args:
        tables: the tables.
        threshold: the smallest degree that counts as true; by default, that of each predicate.
        names: the predicates that are needed; by default, all.
        budget: bytes that intermediate results of a definition may take.

    Raises:
        DataError: the threshold is out of range.
        LimitError: a definition does not fit into memory.
    """
    check_share(threshold)
    chosen = frozenset(tables.predicates if names is None else names)

    def made() -> Tables:
        true: dict[str, Tensor | SparseTable] = {}
        for name in _in_order(tables, chosen):
            read = partial(_truth, tables, name, threshold, true, budget)
            true[name] = tables.derived(("true", name, threshold), read)
        # in the order of the tables, and without predicates that only definitions need
        there = {n: true[n] for n in tables.predicates if n in chosen}
        return replace(tables, predicates=there, decisions=None)

    return tables.derived(("two-valued", threshold, chosen), made)


def rounded(tables: Tables, threshold: float | None = None) -> Tables:
    """Return the tables with degrees 1 and 0; facts stay facts."""
    dtype, truth = tables.dtype, two_valued(tables, threshold)

    def ends(table: Tensor | SparseTable) -> Tensor | SparseTable:
        if isinstance(table, Tensor):
            return table.to(dtype)
        return replace(table, value=table.value.to(dtype))

    return replace(truth, predicates={n: ends(t) for n, t in truth.predicates.items()})


def _in_order(tables: Tables, names: Collection[str]) -> Iterator[str]:
    """Yield the predicates and those that their definitions use, defined ones last."""
    definitions = {} if tables.decisions is None else tables.decisions.definitions
    needed = set(names)
    for name in reversed([*definitions]):  # each definition comes after those it uses
        if name in needed:
            needed.update(symbols(definitions[name].formula))
    yield from (n for n in tables.predicates if n in needed and n not in definitions)
    yield from (n for n in definitions if n in needed and n in tables.predicates)


@torch.no_grad()
def _truth(
    tables: Tables,
    name: str,
    threshold: float | None,
    true: dict[str, Tensor | SparseTable],
    budget: int,
) -> Tensor | SparseTable:
    """Return the truth of a predicate; for a defined one, from the truth of the others."""
    table = tables.table(name)
    if (limit := threshold_of(tables, name, threshold)) is not None:
        if isinstance(table, Tensor):
            return table >= limit if table.dtype != torch.bool else table
        return replace(table, value=table.value >= limit, default=float(table.default >= limit))
    assert tables.decisions is not None
    checked = tables.decisions.definitions[name]
    world = replace(tables, predicates=true, decisions=None)
    value = crisp_rows.everywhere(
        checked.formula, world, threshold=None, budget=budget, what=called(name)
    )
    truth = tables.everywhere(arranged(value, checked.free, tables, static=False))
    # A single trace or time still stands for all; for a static predicate, the first counts.
    truth = truth[:1] if table.shape[0] == 1 else truth
    truth = truth[..., :1] if table.shape[-1] == 1 else truth
    for place, holds in tables.decisions.exceptions.get(name, {}).items():
        truth = truth.clone(memory_format=torch.contiguous_format)
        truth.view(-1)[place] = holds
    return truth
