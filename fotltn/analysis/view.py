"""A view: a theory over tables, and how both are read.

Cells, audits, rules, answers and pages are made from a view, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fotltn.analysis.shared_values import shared_values
from fotltn.analysis.truncation import End, end_of
from fotltn.decisions import DecisionRule, rounded, rule_of, two_valued
from fotltn.errors import Diagnostic, renamed
from fotltn.evaluation import Time, over_traces
from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom, CheckedFormula, CheckedTheory
from fotltn.logic.parts import predicates_in
from fotltn.logic.signature import Signature
from fotltn.plan.build import BUDGET
from fotltn.semantics.config import CRISP, STABLE_PRODUCT, Semantics, check_share, semantics_of
from fotltn.semantics.tables import Tables
from fotltn.syntax.formula import Formula

if TYPE_CHECKING:
    from fotltn.analysis.ask import Answer
    from fotltn.analysis.audit_data import Audit
    from fotltn.analysis.cells import Cells
    from fotltn.analysis.rules import Rule
    from fotltn.analysis.satisfaction import Satisfaction
    from fotltn.grounding.clock import Clock
    from fotltn.grounding.frames import Source


_NO_AXIOMS = CheckedTheory(Signature(), (), ())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class View:
    """A theory over tables, with the semantics, the threshold and the treatment of ends.

    Args:
        tables: the tables that formulas are evaluated on.
        semantics: the semantics of formulas.
        threshold: the smallest degree that counts as true in two-valued logic; by default, by the
            decisions of the tables, or 0.5.
        end: whether cells that fail only because their trace ends are undecided, or false.
        budget: bytes that intermediate results may take.
        theory: the axioms; by default, none.
        learned: the predicates whose degrees are predictions; all others are facts.
        warnings: warnings about the data and the predictions.
        parts: the traces for "train", "validation" and "test", if a project says which.

    Raises:
        DataError: the threshold or the end is not valid.
    """

    tables: Tables
    semantics: Semantics = STABLE_PRODUCT
    threshold: float | None = None
    end: End = "undecided"
    budget: int = BUDGET
    theory: CheckedTheory = _NO_AXIOMS
    learned: Sequence[str] = ()
    warnings: tuple[Diagnostic, ...] = ()
    parts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise an error for a threshold out of range, or an unknown treatment of ends."""
        check_share(self.threshold)
        end_of(self.end)

    def __getattr__(self, name: str) -> Any:
        """Return the warnings of a project under their name in version 0.1.0."""
        return renamed(self, name, {"fact_warnings": "warnings"})

    def __repr__(self) -> str:
        number = len(self.theory.axioms)
        return f"{number} axiom{'s' * (number != 1)} over {self.tables!r}"

    def under(
        self,
        *,
        semantics: str | Semantics | None = None,
        p: float | None = None,
        threshold: float | None = None,
        end: End | None = None,
        budget: int | None = None,
    ) -> View:
        """Return the view with other settings; None keeps a setting."""
        return replace(
            self,
            semantics=semantics_of(semantics or self.semantics, p),
            threshold=self.threshold if threshold is None else threshold,
            end=end or self.end,
            budget=self.budget if budget is None else budget,
        )

    @property
    def rule(self) -> DecisionRule:
        """How degrees are decided."""
        return rule_of(self.tables, self.threshold)

    @property
    def fixed(self) -> tuple[str, ...]:
        """The predicates that are facts beside predictions; none where nothing is predicted."""
        if not self.learned:
            return ()
        return tuple(n for n in self.tables.signature.predicates if n not in self.learned)

    def decided(self) -> View:
        """Return the view over decisions, as degrees of 1 and 0: predictions count as facts."""
        return replace(self, tables=rounded(self.tables, self.threshold), threshold=None)

    # --- results ------------------------------------------------------------------------------

    def cells(self, formula: str | CheckedAxiom | CheckedFormula) -> Cells:
        """Return the cells of an axiom, which may be given by name, or of a formula.

        Raises:
            DataError: no axiom has that name.
        """
        from fotltn.analysis.cells import cells_of

        known = self.theory.axiom(formula) if isinstance(formula, str) else formula
        return cells_of(known, self)

    def degrees(self, formulas: Mapping[str, c.Formula]) -> dict[str, float]:
        """Return the degrees of closed formulas; several traces are aggregated as by ∀.

        Raises:
            DataError: a table is missing.
            LimitError: with the name of a formula that does not fit the budget.
        """
        values = self.trace_degrees(formulas)
        return {name: float(over_traces(value, self.semantics)) for name, value in values.items()}

    @torch.no_grad()
    def trace_degrees(self, formulas: Mapping[str, c.Formula]) -> dict[str, Tensor]:
        """Return the degrees of closed formulas on each trace; errors are those of `degrees`."""
        tables = self.tables
        if self.semantics.boolean:
            used = predicates_in(*formulas.values())
            tables = two_valued(tables, self.threshold, used, budget=self.budget)
        values = shared_values(formulas, tables, self.semantics, at=0, budget=self.budget)
        return {
            name: value.tensor[..., 0].expand(tables.batch).to(tables.dtype)
            for name, value in values.items()
        }

    def ask(self, formula: str | Formula, *, at: Time = 0) -> Answer:
        """Return the value of a formula at a time point or "all", for each binding."""
        from fotltn.analysis.ask import ask

        return ask(self, formula, at=at)

    def satisfaction(self) -> Satisfaction:
        """Return the degrees of all axioms."""
        from fotltn.analysis.satisfaction import satisfaction

        return satisfaction(self)

    def audit(self, labels: Tables | None = None) -> Audit:
        """Audit the axioms; arguments as in `fotltn.analysis.audit`."""
        from fotltn.analysis.audit import audit

        return audit(self, labels)

    def rules(
        self,
        formulas: Sequence[str] = (),
        *,
        part: str | None = None,
        traces: Sequence[int] | None = None,
        semantics: str | Semantics = CRISP,
        resamples: int = 2000,
        seed: int = 0,
        **other: Any,
    ) -> Iterator[Rule]:
        """Count the axioms, or formulas in their place, one after the other.

        Args:
            formulas: closed formulas over the symbols of the theory.
            part: the part of the traces, by name; None for all.
            traces: the numbers of the traces to count, in place of a part.
            semantics: "crisp" counts cells, whatever the view's semantics; others sum degrees.
            resamples: how often to resample traces for the intervals; 0 for no intervals.
            seed: the seed of the resampling.
            other: further settings to change, as in `under`.

        Raises:
            FotError: a formula is wrong, or there is no such part.
        """
        from fotltn.analysis.rules import rules

        view = self.under(semantics=semantics, **other)
        return rules(view, formulas, part=part, traces=traces, resamples=resamples, seed=seed)


def stated_view(
    theory: CheckedTheory,
    facts: Iterable[Source],
    *,
    horizon: int | None = None,
    presence: Sequence[str] = (),
    clock: Clock | None = None,
) -> View:
    """Return the view of a theory over stated facts; facts that are not stated are false.

    Args:
        theory: the axioms, and what facts may be about.
        facts: the tables.
        horizon: the number of time points of every trace.
        presence: predicates of one entity that say where it is present.
        clock: how times map to steps; by default, times are whole numbers from 0.

    Raises:
        FotError: a file is missing or wrong, or a predicate of presence does not take one entity.
    """
    from fotltn.data import stated

    read, tables = stated(theory, facts, horizon=horizon, presence=presence, clock=clock)
    return View(tables, theory=theory, warnings=read.warnings)
