"""The whole trace, for axioms that cannot be followed in constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from fotltn.evaluation import evaluate_all
from fotltn.logic import core as c
from fotltn.logic.parts import moves
from fotltn.logic.signature import Signature
from fotltn.monitor.cells import Columns
from fotltn.monitor.domain import Array
from fotltn.monitor.numbering import Numbering
from fotltn.semantics.config import CRISP, Semantics
from fotltn.semantics.tables import Tables
from fotltn.tree import postorder

if TYPE_CHECKING:  # most axioms need no history, and reading tables loads pyarrow
    from fotltn.grounding.collect import Rows


class History:
    """The facts of all steps that some formulas need, to evaluate these formulas."""

    def __init__(self, signature: Signature, columns: Columns, intake: Numbering) -> None:
        """Start without formulas; nothing is kept for them."""
        self.signature, self.columns, self.intake = signature, columns, intake
        self.domain = columns.domain
        self.formulas: dict[str, c.Formula] = {}
        self.count = 0
        self.facts: dict[str, list[tuple[Array, Array]]] = {}
        self.results: dict[str, list[Array]] = {}

    def add(self, name: str, formula: c.Formula) -> None:
        """Keep the predicates and functions of a formula."""
        self.formulas[name] = formula
        for node in postorder(formula):
            if isinstance(node, c.Atom) and moves(node, self.signature):
                self.facts.setdefault(node.predicate, [])
            if isinstance(node, c.Apply) and moves(node, self.signature):
                self.results.setdefault(node.function, [])

    def run(self, count: int, degrees: Array, results: Mapping[str, Array]) -> None:
        """Keep steps.

        Args:
            count: the number of steps.
            degrees: degrees with axes (column, step).
            results: the values of functions, with axes (step, arguments …).
        """
        tables = self.columns.tables(degrees) if self.facts else {}
        for name, chunks in self.facts.items():
            table = tables[name][(slice(None), *self.domain.named(self.columns.sorts[name]))]
            if len(places := np.argwhere(table)):
                places[:, 0] += self.count
                chunks.append((places, table[table != 0]))
        for name, series in self.results.items():
            series.append(self._named(name, results[name]))
        self.count += count

    def values(
        self, names: Iterable[str], semantics: Semantics, *, threshold: float
    ) -> dict[str, float]:
        """Return the values of formulas if the trace ended now; under `crisp`, 0 or 1."""
        chosen = {n: self.formulas[n] for n in names}
        if not chosen:
            return {}
        limit = threshold if semantics.boolean else None
        values = evaluate_all(chosen, self._tables(), semantics, at=0, threshold=limit)
        return {n: float(v.tensor[0, 0]) for n, v in values.items()}

    def truth(self, names: Iterable[str], *, threshold: float) -> dict[str, bool]:
        """Return the truth of formulas if the trace ended now."""
        return {n: v == 1 for n, v in self.values(names, CRISP, threshold=threshold).items()}

    def _tables(self) -> Tables:
        """Return the trace as tables, without strangers."""
        from fotltn.grounding.dense import tables_of_facts
        from fotltn.grounding.facts import Facts

        signature, domain = self.signature, self.domain
        rows: dict[str, Rows] = {}
        for name, chunks in self.facts.items():
            if chunks:
                places, degrees = (np.concatenate(arrays) for arrays in zip(*chunks, strict=True))
                rows[name] = _rows(places, degrees)
        for name, decl in signature.predicates.items():
            if decl.static:
                table = self.intake.static[name][(slice(None), *domain.named(decl.sorts))]
                places = np.argwhere(table)
                places[:, 0] = -1  # at all times
                rows[name] = _rows(places, table[table != 0])
        facts = Facts(("",), {s: tuple(n) for s, n in domain.names.items()}, rows, (self.count,))
        declared = replace(signature, functions={}, relations={})
        functions = {n: self._named(n, t) for n, t in self.intake.functions.items()}
        for name, series in self.results.items():
            functions[name] = np.concatenate([self._padded(name, table) for table in series])
        return replace(
            tables_of_facts(facts, declared, sparse=True),
            functions={n: self._numbered(n, t) for n, t in functions.items()},
            relations={
                n: torch.from_numpy(t - [domain.strangers(s) for s in signature.relations[n].sorts])
                for n, t in domain.relations.items()
            },
        )

    def _named(self, name: str, table: Array) -> Array:
        """Return the table of a function without strangers."""
        here = self.domain.named(self.signature.functions[name].sorts)
        return table[(slice(None), *here)]

    def _padded(self, name: str, table: Array) -> Array:
        """Return a table for all present entities; those that came later have the default."""
        sizes = [len(self.domain.names[s]) for s in self.signature.functions[name].sorts]
        more = [(0, size - old) for size, old in zip(sizes, table.shape[1:], strict=True)]
        return np.pad(table, [(0, 0), *more], constant_values=self.intake.default or 0)

    def _numbered(self, name: str, table: Array) -> torch.Tensor:
        """Return a function's table with axes (trace, arguments …, time), entities by number."""
        result = self.signature.functions[name].result
        moved = torch.from_numpy(np.moveaxis(table, 0, -1).copy()).unsqueeze(0)
        return moved if result == c.REAL else moved - self.domain.strangers(result)


def _rows(places: Array, degrees: Array) -> Rows:
    """Return rows from an array whose columns are the time and the arguments."""
    from fotltn.grounding.collect import Rows

    trace = np.zeros(len(places), dtype=np.int64)
    return Rows(trace, places[:, 1:].astype(np.int64), places[:, 0].astype(np.int64), degrees)
