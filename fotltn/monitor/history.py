"""The whole trace, for axioms whose value cannot be kept up to date in constant memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from fotltn.evaluation import evaluate_all
from fotltn.grounding.collect import Rows
from fotltn.grounding.dense import interpretation
from fotltn.grounding.facts import Facts
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.cells import Columns
from fotltn.monitor.domain import Array, Domain
from fotltn.monitor.intake import Intake
from fotltn.semantics.config import CRISP, Semantics
from fotltn.semantics.interpretation import Tables
from fotltn.tree import postorder


class History:
    """The facts of all steps that some formulas need, and the values of these formulas."""

    def __init__(self, signature: Signature, columns: Columns, intake: Intake) -> None:
        """Nothing is kept for no formulas."""
        self.signature, self.columns, self.intake = signature, columns, intake
        self.formulas: dict[str, c.Formula] = {}
        self.count = 0
        self.facts: dict[str, list[tuple[Array, Array]]] = {}
        self.results: dict[str, list[Array]] = {}

    def add(self, name: str, formula: c.Formula) -> None:
        """Keep what a formula needs."""
        self.formulas[name] = formula
        for node in postorder(formula):
            if isinstance(node, c.Atom) and not self.signature.predicates[node.predicate].static:
                self.facts.setdefault(node.predicate, [])
            if isinstance(node, c.Apply) and not self.signature.functions[node.function].static:
                self.results.setdefault(node.function, [])

    def run(self, degrees: Array, results: Mapping[str, Array]) -> None:
        """Keep some steps: degrees with axes (step, column), and tables of functions."""
        for name, kept in self.facts.items():
            first, shape = self.columns.first[name], self.columns.shapes[name]
            own = degrees[:, first : first + math.prod(shape)]
            steps, cells = own.nonzero()
            if len(steps):
                strangers = [self.domain.strangers(s) for s in self.columns.sorts[name]]
                numbers = np.unravel_index(cells, shape) if shape else ()
                args = [n - first for n, first in zip(numbers, strangers, strict=True)]
                kept.append((np.column_stack([steps + self.count, *args]), own[steps, cells]))
        for name, tables in self.results.items():
            tables.append(self._present(name, results[name]))
        self.count += len(degrees)

    @property
    def domain(self) -> Domain:
        """The entities."""
        return self.columns.domain

    def values(
        self, names: Iterable[str], semantics: Semantics, *, threshold: float
    ) -> dict[str, float]:
        """The values of formulas if the trace ended now; under `crisp`, 0 or 1."""
        chosen = {n: self.formulas[n] for n in names}
        if not chosen:
            return {}
        model = self._model()
        limit = threshold if semantics.boolean else None
        found = evaluate_all(chosen, model, semantics, at=0, threshold=limit)
        return {n: float(v.tensor[0, 0]) for n, v in found.items()}

    def truth(self, names: Iterable[str], *, threshold: float) -> dict[str, bool]:
        """The truth of formulas if the trace ended now."""
        return {n: v == 1 for n, v in self.values(names, CRISP, threshold=threshold).items()}

    def _model(self) -> Tables:
        """The trace as tables, without those who have not come."""
        signature, domain = self.signature, self.domain
        rows: dict[str, Rows] = {}
        for name, kept in self.facts.items():
            if kept:
                places = np.concatenate([p for p, _ in kept])
                rows[name] = _rows(places, np.concatenate([v for _, v in kept]))
        for name, decl in signature.predicates.items():
            if decl.static:
                here: list[Any] = [slice(domain.strangers(s), None) for s in decl.sorts]
                table = self.intake.static[name][(0, *here)]
                args = np.argwhere(table)
                time = np.full((len(args), 1), -1)
                rows[name] = _rows(np.hstack([time, args]), table[tuple(args.T)])
        facts = Facts(("",), {s: tuple(n) for s, n in domain.names.items()}, rows, (self.count,))
        known = replace(signature, functions={}, relations={})
        model = interpretation(facts, known, sparse=True)
        fixed = {n: self._present(n, t) for n, t in self.intake.functions.items()}
        moving = {n: np.concatenate(list(map(self._padded(n), t))) for n, t in self.results.items()}
        moved = {n: _moved(t, signature, n, domain) for n, t in {**fixed, **moving}.items()}
        relations = {
            n: torch.from_numpy(t - [domain.strangers(s) for s in signature.relations[n].sorts])
            for n, t in self.intake.relations.items()
        }
        return replace(model, functions=moved, relations=relations)

    def _present(self, name: str, table: Array) -> Array:
        """The table of a function without those who have not come."""
        sorts = self.signature.functions[name].sorts
        here: list[Any] = [slice(self.domain.strangers(s), None) for s in sorts]
        found: Array = table[(slice(None), *here)]
        return found

    def _padded(self, name: str) -> Callable[[Array], Array]:
        """Makes tables as large as they are now: who came later had the default."""
        sizes = [len(self.domain.names[s]) for s in self.signature.functions[name].sorts]

        def padded(table: Array) -> Array:
            more = [(0, size - old) for size, old in zip(sizes, table.shape[1:], strict=True)]
            return np.pad(table, [(0, 0), *more], constant_values=self.intake.default or 0)

        return padded


def _rows(places: Array, value: Array) -> Rows:
    """Rows from times and arguments, side by side."""
    trace = np.zeros(len(places), dtype=np.int64)
    return Rows(trace, places[:, 1:].astype(np.int64), places[:, 0].astype(np.int64), value)


def _moved(table: Array, signature: Signature, name: str, domain: Domain) -> torch.Tensor:
    """A table with axes (step, arguments …) as one with axes (trace, arguments …, time)."""
    decl = signature.functions[name]
    found = torch.from_numpy(np.moveaxis(table, 0, -1).copy()).unsqueeze(0)
    return found if decl.result == c.REAL else found - domain.strangers(decl.result)
