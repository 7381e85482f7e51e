"""What an audit of axioms finds, as plain data, and the sentences that go with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.format import degree

#: Values that differ by less are taken as equal.
ROUNDING = 1e-6


class Kind(StrEnum):
    """What a warning is about."""

    VACUOUS = "vacuous"  # satisfied without evidence
    DILUTED = "diluted"  # true, but a mean over many gives a low value
    TRUNCATED = "truncated"  # violated only because the trace ends
    CONTRADICTED = "contradicted"  # violated by the labels
    GRADIENT = "gradient"  # learning mostly makes the antecedent false


@dataclass(frozen=True, slots=True)
class Finding:
    """A warning about an axiom, or (without a name) about all of them together."""

    axiom: str | None
    kind: Kind
    message: str

    def as_dict(self) -> dict[str, object]:
        """The warning for machines."""
        return {"axiom": self.axiom, "kind": str(self.kind), "message": self.message}


@dataclass(frozen=True, slots=True)
class CrispAudit:
    """An axiom in two-valued logic, counted over its cells: traces, bindings and times.

    Args:
        cells: how many there are.
        violations: cells where the body of the axiom is false.
        truncated: those of them that could be true if the trace went on.
        absent: cells that do not count, since an entity is not present when it is used.
        support: cells where the antecedent is true; None if the axiom is no implication.
        confidence: the share of these cells where the consequent is true, too; None without any.
        base_rate: the share of true consequents, over what the consequent depends on.
    """

    cells: int
    violations: int
    truncated: int
    absent: int = 0
    support: int | None = None
    confidence: float | None = None
    base_rate: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the axiom is true."""
        return self.violations == 0

    @property
    def violation_rate(self) -> float:
        """The share of cells that are violations."""
        return self.violations / self.cells if self.cells else 0.0

    @property
    def active_share(self) -> float | None:
        """The share of cells where the antecedent is true: those that are not vacuous."""
        if self.support is None:
            return None
        return self.support / self.cells if self.cells else 0.0

    @property
    def lift(self) -> float | None:
        """How much likelier the consequent is where the antecedent is true."""
        if self.confidence is None or not self.base_rate:
            return None
        return self.confidence / self.base_rate

    def as_dict(self) -> dict[str, object]:
        """The counts for machines."""
        return {
            "cells": self.cells,
            "holds": self.holds,
            "violations": self.violations,
            "violation_rate": self.violation_rate,
            "truncated": self.truncated,
            "absent": self.absent,
            "support": self.support,
            "active_share": self.active_share,
            "confidence": self.confidence,
            "base_rate": self.base_rate,
            "lift": self.lift,
        }


@dataclass(frozen=True, slots=True)
class AxiomAudit:
    """One axiom: its values, what they rest on, and where its gradient goes.

    Args:
        name: the axiom's name.
        text: the axiom as it is written.
        weight: how much it counts among the others.
        implication: whether it is an implication under ∀ and G; if not, what speaks of
            antecedents is None.
        value: its degree on the model.
        labels: its degree on the labels, if there are any.
        all_false: its degree if every learned predicate is false everywhere.
        all_half: its degree if every learned predicate is 0.5 everywhere.
        antecedent: the mean degree of the antecedent on the model.
        on_model: its two-valued truth on the model.
        on_labels: its two-valued truth on the labels.
        gradient_antecedent: the share of the gradient that goes to learned predicates of the
            antecedent; None if nothing has a gradient.
        gradient_consequent: the share that goes to those of the consequent.
    """

    name: str
    text: str
    weight: float
    implication: bool
    value: float
    labels: float | None
    all_false: float
    all_half: float
    antecedent: float | None
    on_model: CrispAudit
    on_labels: CrispAudit | None
    gradient_antecedent: float | None
    gradient_consequent: float | None

    @property
    def evidence(self) -> CrispAudit:
        """What the labels say, or the model if there are none."""
        return self.on_model if self.on_labels is None else self.on_labels

    def as_dict(self) -> dict[str, object]:
        """The axiom for machines."""
        return {
            "axiom": self.name,
            "text": self.text,
            "weight": self.weight,
            "implication": self.implication,
            "value": self.value,
            "labels": self.labels,
            "all_false": self.all_false,
            "all_half": self.all_half,
            "antecedent": self.antecedent,
            "gradient_antecedent": self.gradient_antecedent,
            "gradient_consequent": self.gradient_consequent,
            "on_model": self.on_model.as_dict(),
            "on_labels": None if self.on_labels is None else self.on_labels.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class Worlds:
    """One number on the model, on the labels, and for predictions that know nothing."""

    value: float
    labels: float | None
    all_false: float
    all_half: float

    @property
    def line(self) -> str:
        """The numbers in one line, never the first without the others."""
        shown = [f"model {degree(self.value)}"]
        if self.labels is not None:
            shown.append(f"labels {degree(self.labels)}")
        shown += [f"all-false {degree(self.all_false)}", f"all-0.5 {degree(self.all_half)}"]
        return ", ".join(shown)

    def as_dict(self) -> dict[str, float | None]:
        """The numbers for machines."""
        return {
            "value": self.value,
            "labels": self.labels,
            "all_false": self.all_false,
            "all_half": self.all_half,
        }


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """All axioms together, next to what predictions that know nothing would score.

    Args:
        kb_sat: the geometric mean of the axioms' values, as the paper reports it.
        satisfaction: their p-mean error by weight, with the p of ∀, as it is trained.
    """

    kb_sat: Worlds
    satisfaction: Worlds

    @property
    def line(self) -> str:
        """KB-SAT with what it is worth."""
        return f"KB-SAT: {self.kb_sat.line}. {self.meaning}"

    @property
    def telling(self) -> bool:
        """Whether KB-SAT is higher on the labels (or else the model) than for all-false."""
        return self.kb_sat.all_false < self._best - ROUNDING

    @property
    def meaning(self) -> str:
        """What KB-SAT allows to conclude."""
        false = f"Predicting false for everything scores {degree(self.kb_sat.all_false)}"
        if self.telling:
            return f"{false}: only what is above that can be evidence."
        which = "the model" if self.kb_sat.labels is None else "the labels"
        return (
            f"{false}, no less than {which} ({degree(self._best)}): KB-SAT does not measure how "
            "good predictions are."
        )

    @property
    def _best(self) -> float:
        return self.kb_sat.value if self.kb_sat.labels is None else self.kb_sat.labels

    def as_dict(self) -> dict[str, object]:
        """The numbers for machines, with what they are worth."""
        return {
            "kb_sat": self.kb_sat.as_dict(),
            "satisfaction": self.satisfaction.as_dict(),
            "meaning": self.meaning,
        }


@dataclass(frozen=True, slots=True)
class Audit:
    """All axioms, the knowledge base as a whole, and the warnings."""

    axioms: tuple[AxiomAudit, ...]
    knowledge_base: KnowledgeBase
    warnings: tuple[Finding, ...]

    def axiom(self, name: str) -> AxiomAudit:
        """The axiom of that name."""
        for axiom in self.axioms:
            if axiom.name == name:
                return axiom
        names = [a.name for a in self.axioms]
        hint = did_you_mean(name, names) or f"there are {listing(names)}"
        raise DataError(f"the audit has no axiom '{name}'; {hint}")

    def as_dict(self) -> dict[str, object]:
        """The audit for machines."""
        return {
            "knowledge_base": self.knowledge_base.as_dict(),
            "axioms": [a.as_dict() for a in self.axioms],
            "warnings": [w.as_dict() for w in self.warnings],
        }
