"""How far the axioms of a theory hold, on tables from anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fotltn.analysis.cells import Subject
from fotltn.analysis.evaluate_cells import axiom_values, two_valued
from fotltn.errors import DataError, did_you_mean, listing
from fotltn.logic.check import CheckedTheory, check
from fotltn.semantics.config import STABLE_PRODUCT, Semantics, named
from fotltn.semantics.tables import interpret
from fotltn.syntax.formula import Formula
from fotltn.syntax.notebook import bar, table, text
from fotltn.syntax.theory import Theory


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
        for axiom in self.axioms:
            if axiom.name == name:
                return axiom.value
        names = [axiom.name for axiom in self.axioms]
        hint = did_you_mean(name, names) or f"there are {listing(names)}"
        raise DataError(f"the theory has no axiom '{name}'; {hint}")

    def as_dict(self) -> dict[str, object]:
        """The degrees for machines."""
        return {axiom.name: axiom.value for axiom in self.axioms}

    def _repr_html_(self) -> str:
        heads = ["axiom", "weight", "value", "formula"]
        rows = [(a.name, f"{a.weight:g}", bar(a.value), a.formula._repr_latex_()) for a in self]
        left = ["axiom", "value", "formula"]
        return table(heads, rows, left=left) if rows else text("There are no axioms.")


@torch.no_grad()
def satisfaction(theory: CheckedTheory, subject: Subject) -> Satisfaction:
    """The degrees of all axioms of a theory; several traces are aggregated as ∀ aggregates.

    Raises:
        DataError: a table is missing.
    """
    semantics, tables = subject.semantics, subject.tables
    if semantics.boolean:
        tables = two_valued(tables, subject.threshold)
    formulas = {a.name: a.formula for a in theory.axioms}
    found = axiom_values(formulas, theory.signature, tables, semantics, dtype=subject.dtype)
    return Satisfaction(
        tuple(Degree(a.name, a.source, a.weight, float(found[a.name])) for a in theory.axioms)
    )


def subject_of(
    theory: Theory | CheckedTheory,
    predicates: Mapping[str, Any],
    *,
    entities: Mapping[str, Sequence[str]] | None = None,
    traces: Sequence[str] = (),
    semantics: str | Semantics = STABLE_PRODUCT,
    p: float | None = None,
    threshold: float = 0.5,
    lengths: Sequence[int] | Tensor | None = None,
    functions: Mapping[str, Any] | None = None,
    relations: Mapping[str, Any] | None = None,
    features: Mapping[str, Any] | None = None,
    horizon: int | None = None,
) -> Subject:
    """A subject from tables as `evaluate` takes them.

    Args:
        theory: what the tables are of.
        predicates: a tensor (or array, or nested list) of degrees for each predicate.
        entities: the names of the entities of each sort; without, they are numbered.
        traces: the names of traces; without, they are numbered.
        semantics: a `Semantics` or the name of one.
        p: another exponent for its means.
        threshold: the degree from which on a fact is true in two-valued logic.
        lengths: the number of time points of each trace of a batch.
        functions: results of functions.
        relations: tuples of entity numbers for paired variables.
        features: vectors for graded equality by sort.
        horizon: the number of time points, if no table says.

    Raises:
        DataError: a table is missing, or does not fit the theory or the names.
    """
    checked = check(theory) if isinstance(theory, Theory) else theory
    meaning = named(semantics) if isinstance(semantics, str) else semantics
    known = {sort: tuple(names) for sort, names in (entities or {}).items()}
    tables, dtype = interpret(
        checked.signature, predicates, lengths=lengths, functions=functions, relations=relations,
        features=features, horizon=horizon,
    )  # fmt: skip
    for sort, names in known.items():
        size = tables.sizes.get(sort)
        if size is not None and size != len(names):
            raise DataError(f"the sort '{sort}' has {size} entities, but {len(names)} names")

    numbers = {sort: {n: i for i, n in enumerate(names)} for sort, names in known.items()}

    def name(sort: str, _: int, number: int) -> str | None:
        names = known.get(sort, ())
        return names[number] if number < len(names) else None

    return Subject(
        checked.signature,
        replace(tables, constants=numbers),
        meaning if p is None else meaning.with_p(p),
        name,
        tuple(traces),
        dtype,
        threshold,
    )
