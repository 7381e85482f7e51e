"""The results of an audit as plain data, with the sentences for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

from fotltn.analysis.influence import AxiomInfluence
from fotltn.analysis.record import Record, look_up
from fotltn.analysis.tally import CellTally
from fotltn.decisions import DecisionRule
from fotltn.errors import renamed
from fotltn.format import degree

#: Values that differ by less are taken as equal.
ROUNDING = 1e-6


class FindingKind(StrEnum):
    """What a warning is about."""

    VACUOUS = "vacuous"  # satisfied without evidence
    DILUTED = "diluted"  # true, but a mean over many gives a low value
    UNDECIDED = "undecided"  # neither true nor violated, because the trace ends
    CONTRADICTED = "contradicted"  # violated by the labels
    GRADIENT = "gradient"  # learning mostly makes the antecedent false
    INFLUENCE = "influence"  # it hardly moves learned predicates, or not at all

    @property
    def meaning(self) -> str:
        """The meaning of the warning for several axioms, in a sentence."""
        match self:
            case FindingKind.VACUOUS:
                return "they hold without evidence, so a high value says nothing"
            case FindingKind.DILUTED:
                return "an exists or F in them is a mean over many, and low even where it is true"
            case FindingKind.UNDECIDED:
                return "some cells fail only because the trace ends; a witness could still come"
            case FindingKind.CONTRADICTED:
                return "the labels violate them"
            case FindingKind.GRADIENT:
                return "learning satisfies them mostly by making their antecedents false"
            case FindingKind.INFLUENCE:
                return "they hardly move what is learned; fotltn audit --suggest says why"
            case _:
                assert_never(self)


@dataclass(frozen=True, slots=True)
class Finding(Record):
    """A warning about an axiom, or (without a name) about all of them together."""

    axiom: str | None
    kind: FindingKind
    message: str


@dataclass(frozen=True, slots=True)
class CrispAudit(CellTally):
    """An axiom in two-valued logic, counted over its cells: traces, bindings and times.

    Args:
        support: the cells where the antecedent is true; None if the axiom is not an implication.
        confidence: the share of these cells where the consequent is true, too; None without any.
        base_rate: the share of true consequents, over what the consequent depends on.
        lift: how much likelier the consequent is where the antecedent is true.
    """

    support: int | None = None
    confidence: float | None = None
    base_rate: float | None = None
    lift: float | None = None

    KEYS = (
        "cells=count", "decided", "holds", "violations=violated", "violation_rate=rate",
        "undecided", "unlabelled", "absent", "support", "active_share", "confidence", "base_rate",
        "lift", "truncated=undecided",
    )  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        """Return numbers under their names in version 0.1.0."""
        now = {"violations": "violated", "violation_rate": "rate", "cells": "count"}
        return renamed(self, name, {**now, "truncated": "undecided"})

    @property
    def telling(self) -> bool:
        """Whether anything follows: a cell is decided, and not just by a false antecedent.

        Counts of data in which every fact has a label are telling in any case.
        """
        return not self.unlabelled or bool(self.decided if self.support is None else self.support)

    @property
    def active_share(self) -> float | None:
        """The share of decided cells where the antecedent is true: those that are not vacuous."""
        if self.support is None:
            return None
        return self.support / self.decided if self.decided else 0.0


@dataclass(frozen=True, slots=True)
class InFourWorlds(Record):
    """One number on the model, on the labels, and for predictions that know nothing.

    Args:
        value: the number on the model.
        labels: on the labels, if there are any.
        all_false: if every learned predicate is false everywhere.
        all_half: if every learned predicate is 0.5 everywhere.
    """

    value: float
    labels: float | None
    all_false: float
    all_half: float

    @property
    def line(self) -> str:
        """The numbers in one line, always all together."""
        shown = [f"model {degree(self.value)}"]
        if self.labels is not None:
            shown.append(f"labels {degree(self.labels)}")
        shown += [f"all-false {degree(self.all_false)}", f"all-0.5 {degree(self.all_half)}"]
        return ", ".join(shown)


@dataclass(frozen=True, slots=True)
class AxiomAudit(InFourWorlds):
    """One axiom: its degrees, what they rest on, and where its gradient goes.

    Args:
        name: the axiom's name.
        text: the axiom as written.
        weight: how much it counts among the others.
        hard: whether it holds in every world.
        implication: whether it is an implication under ∀ and G; if not, numbers about antecedents
            are None.
        antecedent: the mean degree of the antecedent on the model.
        on_model: its two-valued truth on the model.
        on_labels: its two-valued truth on the labels.
        gradient_antecedent: the share of the gradient that goes to learned predicates of the
            antecedent; None if nothing has a gradient.
        gradient_consequent: the share that goes to those of the consequent.
        influence: how much it can move learned predicates; None if there are none.
    """

    name: str
    text: str
    weight: float
    hard: bool
    implication: bool
    antecedent: float | None
    on_model: CrispAudit
    on_labels: CrispAudit | None
    gradient_antecedent: float | None
    gradient_consequent: float | None
    influence: AxiomInfluence | None = None

    KEYS = (
        "axiom=name", "text", "weight", "hard", "implication", "value", "labels", "all_false",
        "all_half", "antecedent", "gradient_antecedent", "gradient_consequent", "influence",
        "on_model", "on_labels",
    )  # fmt: skip

    @property
    def evidence(self) -> CrispAudit:
        """The counts on the labels or, without labels, on the model."""
        return self.on_model if self.on_labels is None else self.on_labels

    @property
    def where(self) -> str:
        """The source of the evidence, in words."""
        return "the model" if self.on_labels is None else "the labels"


@dataclass(frozen=True, slots=True)
class KnowledgeBase(Record):
    """All axioms together, beside the scores of predictions that know nothing.

    Args:
        kb_sat: the geometric mean of the axioms' values, as the paper reports it.
        satisfaction: their weighted p-mean error, with the p of ∀, as in training.
    """

    kb_sat: InFourWorlds
    satisfaction: InFourWorlds

    KEYS = ("kb_sat", "satisfaction", "meaning")

    @property
    def line(self) -> str:
        """KB-SAT with its meaning."""
        return f"KB-SAT: {self.kb_sat.line}. {self.meaning}"

    @property
    def telling(self) -> bool:
        """Whether KB-SAT is higher on the labels (or else the model) than for all-false."""
        return self.kb_sat.all_false < self._best - ROUNDING

    @property
    def meaning(self) -> str:
        """The conclusion that KB-SAT allows."""
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


@dataclass(frozen=True, slots=True)
class Audit(Record):
    """All axioms, the knowledge base as a whole, the warnings, and how degrees were decided."""

    axioms: tuple[AxiomAudit, ...]
    knowledge_base: KnowledgeBase
    warnings: tuple[Finding, ...]
    rule: DecisionRule

    KEYS = ("knowledge_base", "axioms", "warnings")

    def axiom(self, name: str) -> AxiomAudit:
        """Return the audit of the axiom with a name."""
        axioms = {axiom.name: axiom for axiom in self.axioms}
        return look_up(axioms, name, f"the audit has no axiom '{name}'")
