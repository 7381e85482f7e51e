"""The audit of a theory: what the values of its axioms rest on, and what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import fields, replace

import numpy as np
import torch
from torch import Tensor

from fotltn.analysis.audit_data import Audit, AxiomAudit, CrispAudit, InFourWorlds, KnowledgeBase
from fotltn.analysis.audit_warnings import findings
from fotltn.analysis.cell_rows import cell_rows
from fotltn.analysis.cells import Cells, cells_of
from fotltn.analysis.counts import count, measures
from fotltn.analysis.evaluate_cells import degrees_of, used_predicates
from fotltn.analysis.influence import influences
from fotltn.analysis.metrics import kb_sat, satisfaction
from fotltn.analysis.prefix import prefix, rebuild
from fotltn.analysis.record import look_up
from fotltn.analysis.truncation import End
from fotltn.decisions import rounded, rule_of
from fotltn.evaluation import axiom_values
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.semantics.config import PMean, Semantics, check_share
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
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
    threshold: float | None = None,
    end: End = "undecided",
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
        threshold: the degree from which on a fact is true in two-valued logic; without, what the
            tables' decisions say.
        end: whether cells that fail only since their trace ends are undecided, or violations.

    Raises:
        DataError: a learned predicate is not declared, or a table is missing.
    """
    check_share(threshold)
    for name in learned:
        problem = f"the learned predicate '{name}' is not declared"
        look_up(theory.signature.predicates, name, problem)
    formulas = {a.name: a.formula for a in theory.axioms}
    worlds = {
        "value": (formulas, tables),
        "all_false": (formulas, _constant(theory, tables, learned, 0.0)),
        "all_half": (formulas, _constant(theory, tables, learned, 0.5)),
    }
    known: dict[str, c.Formula] = {}
    if labels is not None:
        known = {n: f for n, f in formulas.items() if not used_predicates(f) & set(unknown)}
        worlds["labels"] = (known, labels)
    values = {
        name: degrees_of(some, world, semantics, threshold)
        for name, (some, world) in worlds.items()
    }
    shares = _gradients(theory, tables, semantics, learned)
    influence = {one.axiom: one for one in influences(theory, tables, semantics, learned)}
    evidence = rounded(tables if labels is None else labels, threshold)
    axioms = []
    for axiom in theory.axioms:
        name, cells = axiom.name, cells_of(axiom, tables, semantics, threshold, end=end)
        on_labels = None
        if labels is not None and name in known:
            on_labels = _counted(replace(cells, tables=labels))
        gradient = shares.get(name, (None, None))
        row = AxiomAudit(
            value=values["value"][name],
            labels=values["labels"][name] if on_labels is not None else None,
            all_false=values["all_false"][name],
            all_half=values["all_half"][name],
            name=name,
            text=cells.text,
            weight=axiom.weight,
            hard=axiom.hard,
            implication=cells.prefix.rule is not None,
            antecedent=_mean_antecedent(cells),
            on_model=_counted(cells),
            on_labels=on_labels,
            gradient_antecedent=gradient[0],
            gradient_consequent=gradient[1],
            influence=influence.get(name),
        )
        axioms.append((row, replace(cells, tables=evidence)))
    together = _together(theory, values, semantics)
    warnings = findings(axioms, together, learned)
    rule = rule_of(tables, threshold)
    return Audit(tuple(row for row, _ in axioms), together, warnings, rule)


def _counted(cells: Cells) -> CrispAudit:
    """An axiom in two-valued logic, counted over its cells."""
    counts, _ = count(cells)
    total, absent, support, held, undecided, *base = (
        getattr(counts, field.name).sum() for field in fields(counts)
    )
    every = CrispAudit(int(total), int(support - held), int(undecided), int(absent))
    if cells.prefix.rule is None:
        return every
    ratios = [None if np.isnan(u) else float(u) for u in measures(support, held, *base)]
    return replace(
        every, support=int(support), confidence=ratios[0], base_rate=ratios[1], lift=ratios[2]
    )


def _constant(
    theory: CheckedTheory, tables: Tables, learned: Collection[str], degree: float
) -> Tables:
    """The same with one degree for all that is learned, as a table without facts."""
    device = tables.lengths.device
    predicates: dict[str, Tensor | SparseTable] = dict(tables.predicates)
    for name in learned:
        sorts = theory.signature.predicates[name].sorts
        shape = (1, *(tables.sizes[s] for s in sorts), 1)
        index = torch.zeros(len(shape), 0, dtype=torch.int64, device=device)
        value = torch.zeros(0, dtype=tables.dtype, device=device)
        predicates[name] = SparseTable(index, value, shape, degree)
    return replace(tables, predicates=predicates, decisions=None)


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
        InFourWorlds(by["value"], by.get("labels"), by["all_false"], by["all_half"])
        for by in (means, errors)
    ))  # fmt: skip


def _mean_antecedent(cells: Cells) -> float | None:
    """The mean degree of the antecedent over the cells that count."""
    if cells.prefix.rule is None:
        return None
    total, number = 0.0, 0
    if cells.semantics.boolean and (rows := cell_rows(cells)) is not None:
        number = int(rows.count(rows.counted).sum())
        return int(rows.count(rows.where(cells.prefix.rule[0])).sum()) / number if number else 0.0
    for block in cells.blocks({"antecedent": cells.prefix.rule[0]}):
        degree = torch.where(block.counts, block.values["antecedent"], 0)
        total += float(degree.expand(block.shape).sum(dtype=torch.float64))
        number += int(block.counts.expand(block.shape).sum())
    return total / number if number else 0.0


# --- where the gradient goes -----------------------------------------------------------------


def _gradients(
    theory: CheckedTheory, tables: Tables, semantics: Semantics, learned: Collection[str]
) -> dict[str, tuple[float, float]]:
    """For each implication the shares of its gradient that go to antecedent and consequent.

    Predicates of the antecedent get names of their own, with the same tables.
    """
    if semantics.boolean or not learned:
        return {}

    def marked(node: c.Core) -> c.Core:
        if isinstance(node, c.Atom) and node.predicate in learned:
            return c.Atom(node.predicate + _MARK, node.args)
        return node

    formulas = {}
    for axiom in theory.axioms:
        start = prefix(axiom.formula)
        if start.rule is not None:
            antecedent, consequent = start.rule
            body = c.Implies(transform(antecedent, marked), consequent)
            formulas[axiom.name] = rebuild(start.layers, body)
    predicates: dict[str, Tensor | SparseTable] = dict(tables.predicates)
    inputs: dict[str, Tensor] = {}
    for name in (*learned, *(name + _MARK for name in learned)):
        table = tables.table(name.removesuffix(_MARK))
        degrees = table.value if isinstance(table, SparseTable) else table
        degrees = degrees.detach().to(tables.dtype, copy=True).requires_grad_()
        facts = replace(table, value=degrees) if isinstance(table, SparseTable) else degrees
        inputs[name], predicates[name] = degrees, facts
    with torch.enable_grad():
        values = axiom_values(formulas, replace(tables, predicates=predicates), semantics)
        shares = {name: _shares(value, inputs) for name, value in values.items()}
    return {name: share for name, share in shares.items() if share is not None}


def _shares(value: Tensor, inputs: Mapping[str, Tensor]) -> tuple[float, float] | None:
    if not value.requires_grad:
        return None
    slopes = torch.autograd.grad(value, list(inputs.values()), allow_unused=True, retain_graph=True)
    sums = {True: 0.0, False: 0.0}
    for name, slope in zip(inputs, slopes, strict=True):
        if slope is not None:
            sums[name.endswith(_MARK)] += float(slope.abs().sum(dtype=torch.float64))
    total = sums[True] + sums[False]
    return (sums[True] / total, sums[False] / total) if total > 0 else None
