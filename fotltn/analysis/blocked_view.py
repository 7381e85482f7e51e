"""A theory over tables in blocks of traces; one block is in memory at a time.

A question is answered for each block, and the answers are joined to one for all traces. If
processes share the work, each has some of the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeVar

from fotltn.analysis.audit import AuditPart, audit_part, audited
from fotltn.analysis.audit_data import Audit
from fotltn.analysis.counts import Counts, joined_counts
from fotltn.analysis.influence import InfluencePart, influence_part
from fotltn.analysis.rules import (
    Draws,
    Rule,
    chosen_traces,
    counted_rule,
    rule_axioms,
    rule_counts,
)
from fotltn.analysis.view import View
from fotltn.decisions import DecisionRule, decision_rule, threshold_of
from fotltn.semantics.config import CRISP, Semantics
from fotltn.semantics.tables import Tables
from fotltn.sharing import one_by_one

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class BlockedView:
    """A theory over blocks of tables.

    Args:
        how: a view with the theory and all settings; its tables give only names, sizes and the
            rule of decisions.
        traces: the number of traces of each block.
        read: makes the view of a block, by its number, and the stated facts of its traces. The
            view that was made before is then no longer valid.
        stated: whether the data state facts of learned predicates.
        parts: the traces for "train", "validation" and "test", over all blocks.
        decides: whether predictions count as facts, true or false.
    """

    how: View
    traces: tuple[int, ...]
    read: Callable[[int], tuple[View, Tables]]
    stated: bool = True
    parts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    decides: bool = False

    def under(self, **other: Any) -> BlockedView:
        """Return this view with other settings, as `View.under` does."""
        return replace(self, how=self.how.under(**other))

    def decided(self) -> BlockedView:
        """Return this view with predictions as facts, true or false."""
        return replace(self, decides=True)

    @property
    def rule(self) -> DecisionRule:
        """How degrees are decided."""
        names = self.how.theory.signature.predicates
        return decision_rule(
            {name: threshold_of(self.how.tables, name, self.how.threshold) for name in names}
        )

    @property
    def total(self) -> int:
        """How many traces there are."""
        return sum(self.traces)

    def each(self, what: str, work: Callable[[View, Tables], T]) -> list[T]:
        """Return the result of work on each block and its stated facts, in order."""
        how = self.how

        def done(number: int) -> T:
            view, labels = self.read(number)
            view = replace(
                view, semantics=how.semantics, threshold=how.threshold, end=how.end,
                budget=how.budget,
            )  # fmt: skip
            return work(view.decided() if self.decides else view, labels)

        return one_by_one(f"{what} of {len(self.traces)} blocks", len(self.traces), done)

    def rules(
        self,
        formulas: Sequence[str] = (),
        *,
        part: str | None = None,
        semantics: str | Semantics = CRISP,
        resamples: int = 2000,
        seed: int = 0,
    ) -> Iterator[Rule]:
        """Count the axioms, or other formulas, as `View.rules` does.

        Raises:
            FotError: a formula is wrong, there is no such part, or a number is out of range.
            LimitError: with the rule that does not fit the budget.
        """
        axioms = rule_axioms(self.how, formulas)
        chosen = chosen_traces(self.total, None, self.parts, part)
        draws = Draws(len(chosen), resamples, seed)

        def counted(view: View, _: Tables) -> list[tuple[Counts, Counts | None]]:
            return [rule_counts(view, axiom) for axiom in axioms]

        blocks = self.under(semantics=semantics).each("counts", counted)
        every = zip(axioms, zip(*blocks, strict=True), strict=True)
        return (counted_rule(one, joined_counts(counts), chosen, draws) for one, counts in every)

    def audit(self) -> Audit:
        """Audit the axioms, as `audit` does.

        Raises:
            DataError: a learned predicate is not declared, or a table is missing.
        """

        def measured(view: View, labels: Tables) -> AuditPart:
            return audit_part(view, labels if self.stated else None)

        parts = self.each("audits", measured)
        crisp = reduce(frozenset.__and__, (part.influence.crisp for part in parts))
        if any(part.influence.crisp != crisp for part in parts):  # so guards may differ

            def moved(view: View, _: Tables) -> InfluencePart:
                return influence_part(view, crisp)

            again = self.each("influence", moved)
            parts = [replace(p, influence=one) for p, one in zip(parts, again, strict=True)]
        return audited(self.how, parts)
