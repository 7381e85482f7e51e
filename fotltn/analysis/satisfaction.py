"""Measure how far the axioms of a theory hold on tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fotltn.analysis.record import look_up
from fotltn.analysis.view import View
from fotltn.syntax.formula import Formula
from fotltn.syntax.notebook import bar, code, table, text
from fotltn.syntax.show import show


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
        """Return the degree of the axiom with a name.

        Raises:
            DataError: there is no such axiom.
        """
        degrees = {axiom.name: axiom.value for axiom in self.axioms}
        return look_up(degrees, name, f"the theory has no axiom '{name}'")

    def as_dict(self) -> dict[str, object]:
        """Return the degrees as data."""
        return {axiom.name: axiom.value for axiom in self.axioms}

    def _repr_html_(self) -> str:
        heads = ["axiom", "weight", "value", "formula"]
        rows = [
            (a.name, f"{a.weight:g}", bar(a.value), code(show(a.formula, "unicode"))) for a in self
        ]
        left = ["axiom", "value", "formula"]
        return table(heads, rows, left=left) if rows else text("There are no axioms.")


def satisfaction(view: View) -> Satisfaction:
    """Return the degrees of all axioms of a view; several traces are aggregated as by ∀.

    Raises:
        DataError: a table is missing.
    """
    axioms = view.theory.axioms
    values = view.degrees({a.name: a.formula for a in axioms})
    return Satisfaction(tuple(Degree(a.name, a.source, a.weight, values[a.name]) for a in axioms))
