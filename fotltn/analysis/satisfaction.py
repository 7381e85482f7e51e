"""How far the axioms of a theory hold, on tables from anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fotltn.analysis.evaluate_cells import degrees_of
from fotltn.analysis.record import look_up
from fotltn.logic.check import CheckedTheory
from fotltn.semantics.config import Semantics
from fotltn.semantics.tables import Tables
from fotltn.syntax.formula import Formula
from fotltn.syntax.notebook import bar, table, text


@dataclass(frozen=True, slots=True)
class Degree:
    """The degree of an axiom."""

    name: str
    formula: Formula
    weight: float
    value: float


@dataclass(frozen=True, slots=True)
class Satisfaction:
    """The degrees of all axioms of a theory."""

    axioms: tuple[Degree, ...]

    def __iter__(self) -> Iterator[Degree]:
        return iter(self.axioms)

    def __len__(self) -> int:
        return len(self.axioms)

    def __getitem__(self, name: str) -> float:
        """The degree of the axiom of that name.

        Raises:
            DataError: there is none.
        """
        degrees = {axiom.name: axiom.value for axiom in self.axioms}
        return look_up(degrees, name, f"the theory has no axiom '{name}'")

    def as_dict(self) -> dict[str, object]:
        """The degrees for machines."""
        return {axiom.name: axiom.value for axiom in self.axioms}

    def _repr_html_(self) -> str:
        heads = ["axiom", "weight", "value", "formula"]
        rows = [(a.name, f"{a.weight:g}", bar(a.value), a.formula._repr_latex_()) for a in self]
        left = ["axiom", "value", "formula"]
        return table(heads, rows, left=left) if rows else text("There are no axioms.")


def satisfaction(
    theory: CheckedTheory, tables: Tables, semantics: Semantics, threshold: float | None = None
) -> Satisfaction:
    """The degrees of all axioms of a theory; several traces are aggregated as ∀ aggregates.

    Raises:
        DataError: a table is missing.
    """
    formulas = {a.name: a.formula for a in theory.axioms}
    values = degrees_of(formulas, tables, semantics, threshold)
    return Satisfaction(
        tuple(Degree(a.name, a.source, a.weight, values[a.name]) for a in theory.axioms)
    )
