"""What is inspected: a model's predictions, or facts as they are stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fotltn.analysis.cells import Cells, cells_of
from fotltn.analysis.truncation import End
from fotltn.data import stated
from fotltn.decisions import DecisionRule, rule_of
from fotltn.errors import Diagnostic, Severity
from fotltn.grounding.clock import Clock
from fotltn.grounding.facts import Facts
from fotltn.grounding.labels import Labels
from fotltn.logic.check import CheckedAxiom, CheckedFormula, CheckedTheory, check
from fotltn.project.find import find_model
from fotltn.project.model import Model
from fotltn.semantics.config import STABLE_PRODUCT, Semantics, semantics_of
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import load_theory


@dataclass(frozen=True, slots=True, eq=False)
class Inspected:
    """A theory, and the tables that it is looked at on.

    Args:
        name: what pages call it.
        theory: declarations and axioms.
        tables: what is looked at.
        semantics: what gives formulas their degrees.
        threshold: the degree from which on a fact is true in two-valued logic; without, what the
            tables' decisions say.
        end: whether cells that fail only since their trace ends are undecided, or false.
        facts: the names of traces and entities.
        learned: the predicates whose degrees are predictions; none if all are facts.
        train: labels that were learned from, if any.
        test: labels that were held back, if any.
        model: the model that the tables are of, if they are.
    """

    name: str
    theory: CheckedTheory
    tables: Tables
    semantics: Semantics
    threshold: float | None
    end: End
    facts: Facts
    learned: tuple[str, ...] = ()
    train: Labels | None = None
    test: Labels | None = None
    model: Model | None = None

    @property
    def unpredicted(self) -> tuple[str, ...]:
        """The predicates that a model does not predict; none if all are facts."""
        if not self.learned:
            return ()
        return tuple(n for n in self.theory.signature.predicates if n not in self.learned)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What is odd in the theory, in the facts, and in how worlds were sampled."""
        posterior = None if self.model is None else self.model.posterior
        sampled = () if posterior is None else posterior.warnings
        return (*self.theory.warnings, *self.facts.warnings,
                *(Diagnostic(text, severity=Severity.WARNING) for text in sampled))  # fmt: skip

    @property
    def rule(self) -> DecisionRule:
        """How degrees are decided."""
        return rule_of(self.tables, self.threshold)

    def cells(self, formula: CheckedAxiom | CheckedFormula) -> Cells:
        """The cells of an axiom or a formula."""
        return cells_of(formula, self.tables, self.semantics, self.threshold, end=self.end)

    def same_world(self, other: Inspected) -> bool:
        """Whether both are about the same traces, entities and times, in the same order."""
        mine, theirs = self.facts, other.facts
        return mine.names == theirs.names and mine.lengths == theirs.lengths


def of_model(
    model: Model | Path,
    *,
    data: Sequence[Path] = (),
    semantics: Semantics | None = None,
    p: float | None = None,
    threshold: float | None = None,
    end: End | None = None,
) -> Inspected:
    """The predictions of a model, or of the model of a folder or a project, over new data if any.

    Raises:
        FotError: there is no model, it cannot be read, or the data do not fit.
    """
    name = "model" if isinstance(model, Model) else model.resolve().name
    model = model if isinstance(model, Model) else find_model(model, data)
    return Inspected(
        name, model.theory, model.tables, semantics_of(semantics or model.semantics, p), threshold,
        end or model.config.end, model.facts, model.grounding.open, model.world.labels,
        model.world.test, model,
    )  # fmt: skip


def of_facts(
    theory: Path,
    facts: Sequence[Path],
    *,
    semantics: Semantics | None = None,
    p: float | None = None,
    horizon: int | None = None,
    clock: Clock | None = None,
    threshold: float | None = None,
    end: End = "undecided",
) -> Inspected:
    """Facts as they are stated; what no fact states is false.

    Raises:
        FotError: the theory or a file has errors.
    """
    checked = check(load_theory(theory))
    read, tables = stated(checked, facts, horizon=horizon, clock=clock)
    meaning = semantics_of(semantics or STABLE_PRODUCT, p)
    name = facts[0].name if len(facts) == 1 else f"{len(facts)} files of facts"
    return Inspected(name, checked, tables, meaning, threshold, end, read)
