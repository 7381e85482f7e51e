"""The input of sampling: a theory, given facts, labels and rates of wrong labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fotltn.analysis.truncation import End
from fotltn.grounding.labels import Labels
from fotltn.logic.check import CheckedTheory
from fotltn.logic.defined import Definition
from fotltn.posterior.evidence import EvidenceByPart, LabelEvidence, NoiseRates
from fotltn.posterior.sampler import Sampling
from fotltn.posterior.structure import Structure, statements
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables

#: The rates of wrong labels by default.
USUAL = NoiseRates(0.05, 0.05)

#: The rates from which learned rates start.
_START = NoiseRates(0.1, 0.1)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """The input of sampling.

    Args:
        theory: the theory. Hard axioms hold in every world; each cell that breaks a soft one makes
            a world less likely by the factor `exp(-weight)`.
        tables: the given facts: a table for each predicate that is not learned.
        labels: facts about learned predicates, some of which may be wrong.
        learned: the predicates that are not given.
        rates: the rates of wrong labels, by predicate; None for rates that are learned. The labels
            of a predicate without rates are wrong in 5 % of cases.
        sampling: how much is sampled.
        define: definitions of predicates, in addition to those of hard axioms.
        logits: further evidence about cells, as log-odds, by predicate.
        end: how an axiom is read that the end of a trace cuts off.
        parts: the number of parts that learn separately. Parts have equally many traces, and the
            traces of a part follow each other.
    """

    theory: CheckedTheory
    tables: Tables
    labels: Labels
    learned: Sequence[str]
    rates: Mapping[str, NoiseRates | None] = field(default_factory=dict)
    sampling: Sampling = field(default_factory=Sampling)
    define: Mapping[str, Definition] = field(default_factory=dict)
    logits: Mapping[str, Tensor] = field(default_factory=dict)
    end: End = "undecided"
    parts: int = 1

    def said(self) -> Structure:
        """The definitions and clauses of the theory, without kinds of tracks."""
        return statements(self.theory, self.tables, self.learned, define=self.define, end=self.end)

    def evidence(self) -> LabelEvidence:
        """The labels, with the rates from which sampling starts."""
        rates = {n: self.rates.get(n, USUAL) or _START for n in self.learned}
        names = [n for n, r in self.rates.items() if r is None and n in self.labels.truth]
        learned = frozenset(names)
        if self.parts == 1:
            return LabelEvidence(self.labels, rates, learned, self.logits)
        each, size = [], self.tables.batch // self.parts
        for start in range(0, self.tables.batch, size):
            logits = {n: table[start : start + size] for n, table in self.logits.items()}
            each.append(LabelEvidence(self._labels(start, size), dict(rates), learned, logits))
        return EvidenceByPart(self.labels, rates, learned, self.logits, each)

    def _labels(self, start: int, size: int) -> Labels:
        """The labels of `size` traces from `start` on, with traces counted from 0."""
        places = {n: index[0] - start for n, index in self.labels.index.items()}
        part = self.labels.take({n: (at >= 0) & (at < size) for n, at in places.items()})
        shifted = {n: torch.cat([i[:1] - start, i[1:]]) for n, i in part.index.items()}
        return replace(part, index=shifted)


def several(problem: Problem, labels: Sequence[Labels]) -> Problem:
    """Repeat a theory and its facts for each set of labels, as parts that learn separately."""
    number, batch = len(labels), problem.tables.batch
    names = dict.fromkeys(name for one in labels for name in one.index)
    index, truth = {}, {}
    for name in names:
        each = [(k, one) for k, one in enumerate(labels) if name in one.index]
        moved = [
            torch.cat([one.index[name][:1] + k * batch, one.index[name][1:]]) for k, one in each
        ]
        index[name] = torch.cat(moved, 1)
        truth[name] = torch.cat([one.truth[name] for _, one in each])
    return replace(
        problem, tables=repeated(problem.tables, number), parts=number,
        labels=replace(labels[0], index=index, truth=truth),
        logits={name: _again(table, batch, number) for name, table in problem.logits.items()},
    )  # fmt: skip


def repeated(tables: Tables, number: int) -> Tables:
    """Repeat the traces of tables; a table that holds for all traces is not repeated."""
    batch, names = tables.batch, tables.names

    def again(some: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: _again(table, batch, number) for name, table in some.items()}

    predicates: dict[str, Tensor | SparseTable] = {}
    for name, table in tables.predicates.items():
        if batch == 1:
            predicates[name] = table
        elif isinstance(table, Tensor):
            predicates[name] = _again(table, batch, number)
        elif table.shape[0] == batch:
            places = [
                torch.cat([table.index[:1] + k * batch, table.index[1:]]) for k in range(number)
            ]
            predicates[name] = replace(
                table, index=torch.cat(places, 1), value=table.value.repeat(number),
                shape=(number * batch, *table.shape[1:]),
            )  # fmt: skip
        else:
            predicates[name] = table
    local = {sort: each * number for sort, each in names.local.items()}
    return replace(
        tables, lengths=tables.lengths.repeat(number), predicates=predicates, single=False,
        functions=again(tables.functions), features=again(tables.features),
        present=again(tables.present),
        names=replace(names, traces=names.traces * number, local=local),
    )  # fmt: skip


def _again(table: Tensor, batch: int, number: int) -> Tensor:
    """Repeat the traces of a table, unless it holds for all traces."""
    return table.repeat(number, *[1] * (table.dim() - 1)) if len(table) == batch else table
