"""What worlds are sampled from: a theory, what is given, labels and how far they are trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from fotltn.analysis.truncation import End
from fotltn.grounding.labels import Labels
from fotltn.logic.check import CheckedTheory
from fotltn.logic.defined import Definition
from fotltn.posterior.evidence import LabelEvidence, NoiseRates
from fotltn.posterior.sampler import Sampling
from fotltn.posterior.structure import Structure, statements
from fotltn.semantics.tables import Tables

#: What labels are taken to be like if nothing is said: seldom wrong.
USUAL = NoiseRates(0.05, 0.05)

#: Where rates begin that are learned.
_START = NoiseRates(0.1, 0.1)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What worlds are sampled from.

    Args:
        theory: the theory. Hard axioms hold in every world; each cell that breaks a soft one makes
            a world less likely by the factor `exp(-weight)`.
        tables: what is given: a table for each predicate that is not learned.
        labels: what was observed of the others, perhaps wrongly.
        learned: the predicates that are not given.
        rates: how often labels of a predicate are wrong; None for rates that are learned. Without
            a word about a predicate, 5 % of its labels are.
        sampling: how much is sampled.
        define: what predicates are, beside what hard axioms define.
        logits: what is known of single cells beside labels, as logarithms of odds.
        end: what the end of a trace makes of an axiom that it cuts off.
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

    def said(self) -> Structure:
        """What the theory says, without what moves together."""
        return statements(self.theory, self.tables, self.learned, define=self.define, end=self.end)

    def evidence(self) -> LabelEvidence:
        """Labels with the rates that sampling begins with."""
        rates = {n: self.rates.get(n, USUAL) or _START for n in self.learned}
        learned = [n for n, r in self.rates.items() if r is None and n in self.labels.truth]
        return LabelEvidence(self.labels, rates, frozenset(learned), self.logits)
