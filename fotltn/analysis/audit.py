"""The audit of a theory: what the values of its axioms rest on, and what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import fields, replace

import torch
from torch import Tensor

from fotltn.analysis.audit_data import Audit, AxiomAudit, CrispAudit, KnowledgeBase, Worlds
from fotltn.analysis.audit_warnings import findings
from fotltn.analysis.cells import Cells, cells_of
from fotltn.analysis.counts import count
from fotltn.analysis.evaluate_cells import two_valued
from fotltn.analysis.metrics import kb_sat, satisfaction
from fotltn.analysis.prefix import prefix, rebuild
from fotltn.analysis.presence import used_predicates
from fotltn.errors import DataError, did_you_mean, listing
from fotltn.evaluation import axiom_values
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.logic.signature import Signature
from fotltn.semantics.config import PMean, Semantics, check_share
from fotltn.semantics.interpretation import Tables
from fotltn.semantics.sparse import SparseTable
from fotltn.tree import transform

_MARK = " (antecedent)"  # no predicate's name has a blank


def audit(
    theory: CheckedTheory,
    tables: Tables,
    semantics: Semantics,
    *,
    learned: Collection[str],
    labels: Tables | None = None,
    unknown: Collection[str] = (),
    threshold: float = 0.5,
) -> Audit:
    """Say for each axiom how far it holds, and how far that is evidence of anything.

    Args:
        theory: the axioms.
        tables: the tables to audit: given ones, and the degrees of learned predicates.
        semantics: what gives axioms their values. Several traces are aggregated as ∀ aggregates.
        learned: the predicates that are learned.
        labels: the same tables as the data state them.
        unknown: predicates of which the labels state nothing; of axioms about them, they say
            nothing either.
        threshold: the degree from which on a fact is true in two-valued logic.

    Raises:
        DataError: a learned predicate is not declared, or a table is missing.
    """
    check_share(threshold)
    _check(learned, theory.signature)
    formulas = {a.name: a.formula for a in theory.axioms}
    worlds: dict[str, Tables] = {
        "value": tables,
        "all_false": _constant(tables, theory.signature, learned, 0.0),
        "all_half": _constant(tables, theory.signature, learned, 0.5),
    }
    known = {n for n, f in formulas.items() if not used_predicates(f) & set(unknown)}
    if labels is None:
        known = set()
    else:
        worlds["labels"] = labels
    values = {
        name: _values(
            {n: f for n, f in formulas.items() if name != "labels" or n in known},
            world, semantics, threshold,
        )
        for name, world in worlds.items()
    }  # fmt: skip
    shares = _gradients(theory, tables, semantics, frozenset(learned))
    axioms = []
    for axiom in theory.axioms:
        cells = cells_of(axiom, tables, semantics, threshold)
        on_labels = None
        if labels is not None and axiom.name in known:
            on_labels = _counted(replace(cells, tables=labels))
        gradient = shares.get(axiom.name, (None, None))
        axioms.append(
            AxiomAudit(
                name=axiom.name,
                text=cells.text,
                weight=axiom.weight,
                implication=cells.prefix.rule is not None,
                value=values["value"][axiom.name],
                labels=values["labels"][axiom.name] if on_labels is not None else None,
                all_false=values["all_false"][axiom.name],
                all_half=values["all_half"][axiom.name],
                antecedent=_mean_antecedent(cells),
                on_model=_counted(cells),
                on_labels=on_labels,
                gradient_antecedent=gradient[0],
                gradient_consequent=gradient[1],
            )
        )
    together = _together(theory, values, semantics)
    evidence = tables if labels is None else labels
    warnings = findings(
        theory, axioms, together, evidence, semantics, frozenset(learned), threshold
    )
    return Audit(tuple(axioms), together, warnings)


def _counted(cells: Cells) -> CrispAudit:
    """An axiom in two-valued logic, counted over its cells."""
    counts, _ = count(cells)
    total, absent, support, held, truncated, base_cells, base_true = (
        int(getattr(counts, field.name).sum()) for field in fields(counts)
    )
    if cells.prefix.rule is None:
        return CrispAudit(total, support - held, truncated, absent)
    return CrispAudit(
        total,
        support - held,
        truncated,
        absent,
        support,
        held / support if support else None,
        base_true / base_cells if base_cells else None,
    )


def _check(learned: Collection[str], signature: Signature) -> None:
    for name in learned:
        if name not in signature.predicates:
            known = signature.predicates
            hint = did_you_mean(name, known) or f"there are {listing(known)}"
            raise DataError(f"the learned predicate '{name}' is not declared; {hint}")


def _constant(
    model: Tables,
    signature: Signature,
    learned: Collection[str],
    degree: float,
) -> Tables:
    """The same with one degree for all that is learned, as a table without facts."""
    device = model.lengths.device
    tables: dict[str, Tensor | SparseTable] = dict(model.predicates)
    for name in learned:
        shape = (1, *(model.sizes[s] for s in signature.predicates[name].sorts), 1)
        index = torch.zeros(len(shape), 0, dtype=torch.int64, device=device)
        value = torch.zeros(0, dtype=model.dtype, device=device)
        tables[name] = SparseTable(index, value, shape, degree)
    return replace(model, predicates=tables)


@torch.no_grad()
def _values(
    formulas: Mapping[str, c.Formula], tables: Tables, semantics: Semantics, threshold: float
) -> dict[str, float]:
    if semantics.boolean:
        tables = two_valued(tables, threshold)
    values = axiom_values(formulas, tables, semantics)
    return {name: float(value) for name, value in values.items()}


def _together(
    theory: CheckedTheory, values: Mapping[str, Mapping[str, float]], semantics: Semantics
) -> KnowledgeBase:
    """All axioms together; where ∀ is no mean, satisfaction is the value of the worst one."""
    how = semantics.forall
    p = how.p if isinstance(how, PMean) and not semantics.boolean else math.inf
    weight = {a.name: a.weight for a in theory.axioms}
    told = {n: v for n, v in values.items() if v or not weight}  # labels may say nothing of any
    means = {n: kb_sat(v).value for n, v in told.items()}
    errors = {
        n: satisfaction(v, p=p, weights={name: weight[name] for name in v}).value
        for n, v in told.items()
    }
    return KnowledgeBase(*(
        Worlds(found["value"], found.get("labels"), found["all_false"], found["all_half"])
        for found in (means, errors)
    ))  # fmt: skip


def _mean_antecedent(cells: Cells) -> float | None:
    """The mean degree of the antecedent over the cells that count."""
    if cells.prefix.rule is None:
        return None
    total, number = 0.0, 0
    for block in cells.blocks({"antecedent": cells.prefix.rule[0]}):
        degree = torch.where(block.counts, block.values["antecedent"], 0)
        total += float(degree.expand(block.shape).sum(dtype=torch.float64))
        number += int(block.counts.expand(block.shape).sum())
    return total / number if number else 0.0


def _gradients(
    theory: CheckedTheory,
    model: Tables,
    semantics: Semantics,
    learned: frozenset[str],
) -> dict[str, tuple[float, float]]:
    """For each implication the shares of its gradient that go to antecedent and consequent.

    Predicates of the antecedent get names of their own, with the same tables.
    """
    if semantics.boolean:
        return {}
    known = theory.signature.predicates
    marked = {name + _MARK: replace(known[name], name=name + _MARK) for name in learned}
    formulas = {}
    for axiom in theory.axioms:
        whole = prefix(axiom.formula)
        if whole.rule is not None:
            antecedent, consequent = whole.rule
            body = c.Implies(transform(antecedent, lambda n: _marked(n, learned)), consequent)
            formulas[axiom.name] = rebuild(whole.layers, body)
    tables: dict[str, Tensor | SparseTable] = dict(model.predicates)
    inputs: dict[str, Tensor] = {}
    for name in (*learned, *marked):
        table, inputs[name] = _fresh(model.table(name.removesuffix(_MARK)), model.dtype)
        tables[name] = table
    with torch.enable_grad():
        values = axiom_values(formulas, replace(model, predicates=tables), semantics)
        return {
            name: shares
            for name, value in values.items()
            if (shares := _shares(value, inputs)) is not None
        }


def _marked(node: c.Core, learned: frozenset[str]) -> c.Core:
    if isinstance(node, c.Atom) and node.predicate in learned:
        return c.Atom(node.predicate + _MARK, node.args)
    return node


def _fresh(table: Tensor | SparseTable, dtype: torch.dtype) -> tuple[Tensor | SparseTable, Tensor]:
    """A copy of a table, and its degrees, which carry gradients."""
    if isinstance(table, SparseTable):
        value = table.value.detach().to(dtype, copy=True).requires_grad_()
        return replace(table, value=value), value
    degrees = table.detach().to(dtype, copy=True).requires_grad_()
    return degrees, degrees


def _shares(value: Tensor, inputs: Mapping[str, Tensor]) -> tuple[float, float] | None:
    if not value.requires_grad:
        return None
    found = torch.autograd.grad(value, list(inputs.values()), allow_unused=True, retain_graph=True)
    sums = {True: 0.0, False: 0.0}
    for name, gradient in zip(inputs, found, strict=True):
        if gradient is not None:
            sums[name.endswith(_MARK)] += float(gradient.abs().sum(dtype=torch.float64))
    total = sums[True] + sums[False]
    return (sums[True] / total, sums[False] / total) if total > 0 else None
