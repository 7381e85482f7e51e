"""Clauses at single bindings, with names of entities, for objections and contradictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from fotltn.analysis.cells import Cells
from fotltn.analysis.view import View
from fotltn.format import degree
from fotltn.logic import core as c
from fotltn.logic.defined import Definition
from fotltn.logic.nnf import nnf
from fotltn.logic.prefix import Prefix
from fotltn.posterior.clauses import Clause, stated
from fotltn.posterior.rows import RowTruth, all_rows
from fotltn.posterior.structure import Structure
from fotltn.semantics.config import CRISP
from fotltn.semantics.tables import Tables


def definition_clauses(plan: Structure, tables: Tables) -> dict[str, Clause]:
    """Definitions as hard clauses, named after the axioms that state them."""
    clauses = {}
    for name, definition in plan.definitions.items():
        clause = stated(definition, tables.signature.predicates[name].static)
        axiom = " and ".join(definition.axioms) or f"the definition of {name}"
        clauses[name] = replace(clause, axiom=axiom)
    return clauses


def defined(definition: Definition, row_truth: RowTruth, worlds: Mapping[str, Tensor]) -> Tensor:
    """Compute the table of a defined predicate in some worlds from their other tables."""
    rows, shape = all_rows(row_truth.tables, definition.axes), worlds[definition.name].shape
    truth = row_truth.truth(nnf(definition.formula), rows, worlds)
    full = truth.expand(shape[0], len(rows), row_truth.tables.horizon)
    return full[..., : shape[-1]].reshape(shape).clone()


def clause_cells(clause: Clause, body: c.Formula, tables: Tables) -> Cells:
    """The cells of a clause, with an equivalent body."""
    always = c.Aggregate(True, body, c.Window(), past=False)
    layers: tuple[c.Quantifier | c.Aggregate, ...] = (always,)
    if clause.axes:
        layers = (c.Quantifier(True, clause.axes, None, always), always)
    return Cells(clause.axiom, "", Prefix(layers, body), View(tables, CRISP))


def atom_text(tables: Tables, name: str, trace: int, arguments: Sequence[int]) -> str:
    """An atom with the names of its entities."""
    sorts = tables.signature.predicates[name].sorts
    names = [tables.names.called(s, trace, n) for s, n in zip(sorts, arguments, strict=True)]
    return f"{name}({', '.join(names)})" if names else name


def told(text: str, time: int | None, truth: bool) -> str:
    """A fact with its time and truth.

    >>> told("Near(ann)", 3, True)
    'Near(ann)@3 = true'
    """
    return f"{text}{'' if time is None else f'@{time}'} = {degree(truth)}"
