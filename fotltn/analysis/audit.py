"""Audit a theory: find what the values of its axioms depend on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fotltn.analysis.audit_data import Audit, AxiomAudit, CrispAudit, InFourWorlds, KnowledgeBase
from fotltn.analysis.audit_warnings import Dilutions, all_dilutions, dilutions, findings
from fotltn.analysis.cell_rows import cell_rows
from fotltn.analysis.cells import Cells
from fotltn.analysis.counts import Counts, all_counts, measures
from fotltn.analysis.influence import InfluencePart, influence_part, influences_of
from fotltn.analysis.metrics import kb_sat, satisfaction
from fotltn.analysis.record import look_up
from fotltn.analysis.slopes import learnable, over_all_traces, trace_slopes
from fotltn.analysis.unlabelled import labelled, opened, without_label
from fotltn.analysis.view import View
from fotltn.decisions import DecisionRule, rounded
from fotltn.evaluation import over_traces, trace_values
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.logic.parts import predicates_in
from fotltn.logic.prefix import prefix, rebuild
from fotltn.semantics.by_trace import shared
from fotltn.semantics.config import PMean, Semantics
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.sharing import WHOLE, BindingPart, by_parts
from fotltn.tree import transform

_MARK = " (antecedent)"  # no predicate's name has a blank


@dataclass(frozen=True, slots=True, eq=False)
class AuditPart:
    """The audit of some traces; `audited` combines it with others.

    Args:
        values: the degree on each trace, by world and axiom.
        counts: the counts of cells on the model, by axiom.
        labelled: the counts of cells on the labels, by axiom, if there are labels.
        antecedents: the sum of the antecedent's degrees and the number of cells, by axiom.
        gradients: for each axiom and trace, the slopes of the antecedent and of the consequent.
        influence: how far axioms move learned predicates.
        means: the operators that are means, where they are true, by axiom.
        rule: how degrees are decided.
    """

    values: Mapping[str, Mapping[str, Tensor]]
    counts: Mapping[str, Counts]
    labelled: Mapping[str, Counts]
    antecedents: Mapping[str, tuple[float, int]]
    gradients: Mapping[str, tuple[Tensor, Tensor]]
    influence: InfluencePart
    means: Mapping[str, Dilutions]
    rule: DecisionRule


def audit(view: View, labels: Tables | None = None) -> Audit:
    """Measure how far each axiom holds, and what that is worth as evidence.

    Args:
        view: the axioms, and the tables to audit: given ones, and the degrees of learned
            predicates. Several traces are aggregated as by ∀.
        labels: the tables as the data state them. Facts without a label are not held against an
            axiom: its degree on the labels is the best that they leave possible.

    Raises:
        DataError: a learned predicate is not declared, or a table is missing.
    """
    return audited(view, [audit_part(view, labels)])


def audit_part(view: View, labels: Tables | None = None) -> AuditPart:
    """Audit some traces; arguments and errors are those of `audit`."""
    theory, tables, learned = view.theory, view.tables, view.learned
    for name in learned:
        problem = f"the learned predicate '{name}' is not declared"
        look_up(theory.signature.predicates, name, problem)
    formulas = {a.name: a.formula for a in theory.axioms}
    worlds = {
        "value": tables, "all_false": _constant(view, 0.0), "all_half": _constant(view, 0.5)
    }  # fmt: skip
    if labels is not None:
        worlds["labels"] = labels
    values = {
        world: {n: v.cpu() for n, v in _degrees(replace(view, tables=on), formulas).items()}
        for world, on in worlds.items()
    }
    evidence = rounded(opened(tables if labels is None else labels), view.threshold)
    cells = {axiom.name: view.cells(axiom) for axiom in theory.axioms}
    return AuditPart(
        values,
        {name: one.counts() for name, one in cells.items()},
        {} if labels is None else {n: u.viewed(tables=labels).counts() for n, u in cells.items()},
        {name: _antecedents(one) for name, one in cells.items() if one.prefix.rule is not None},
        _gradients(view),
        influence_part(view),
        {name: _dilutions(one.viewed(tables=evidence)) for name, one in cells.items()},
        view.rule,
    )


def _degrees(view: View, formulas: Mapping[str, c.Formula]) -> dict[str, Tensor]:
    """The degrees on each trace, the best that facts without a label leave possible."""
    tables = opened(view.tables)
    best = {n: labelled(f, without_label(f, tables)).high for n, f in formulas.items()}
    return replace(view, tables=tables).trace_degrees(best)


def _dilutions(cells: Cells) -> Dilutions:
    """The operators that are means, where labels make them true."""
    sure = labelled(cells.formula, without_label(cells.formula, cells.tables)).low
    return dilutions(replace(cells, prefix=prefix(sure)))


def audited(view: View, parts: Sequence[AuditPart]) -> Audit:
    """Combine the audits of groups of traces, in order.

    Args:
        view: the axioms, and how they are read; its tables are not used.
        parts: the audits of groups of traces.
    """
    theory, semantics, first = view.theory, view.semantics, parts[0]
    by_trace = {
        world: {name: torch.cat([p.values[world][name] for p in parts]) for name in axioms}
        for world, axioms in first.values.items()
    }
    values = {
        world: {name: float(over_traces(value, semantics)) for name, value in axioms.items()}
        for world, axioms in by_trace.items()
    }
    implies = {axiom.name: prefix(axiom.formula).rule is not None for axiom in theory.axioms}
    on_labels = {n: _counted([p.labelled[n] for p in parts], implies[n]) for n in first.labelled}
    on_labels = {name: one for name, one in on_labels.items() if one.telling}
    if "labels" in values:
        values["labels"] = {n: values["labels"][n] for n in on_labels}
    moved = influences_of(theory, [part.influence for part in parts], semantics)
    influence = {one.axiom: one for one in moved}
    axioms = []
    for axiom in theory.axioms:
        name = axiom.name
        to_antecedent, to_consequent = _gradient_shares(
            [part.gradients[name] for part in parts if name in part.gradients],
            by_trace["value"][name], semantics,
        )  # fmt: skip
        row = AxiomAudit(
            value=values["value"][name],
            labels=values["labels"][name] if name in on_labels else None,
            all_false=values["all_false"][name],
            all_half=values["all_half"][name],
            name=name,
            text=str(axiom.source),
            weight=axiom.weight,
            hard=axiom.hard,
            implication=implies[name],
            antecedent=_mean_antecedent([p.antecedents[name] for p in parts])
            if implies[name]
            else None,
            on_model=_counted([part.counts[name] for part in parts], implies[name]),
            on_labels=on_labels.get(name),
            gradient_antecedent=to_antecedent,
            gradient_consequent=to_consequent,
            influence=influence.get(name),
        )
        touched = bool(predicates_in(axiom.formula) & set(view.learned))
        axioms.append((row, all_dilutions([part.means[name] for part in parts]), touched))
    together = _together(theory, values, semantics)
    warnings = findings(axioms, together)
    return Audit(tuple(row for row, _, _ in axioms), together, warnings, first.rule)


def _counted(parts: Sequence[Counts], implication: bool) -> CrispAudit:
    """Count the cells of an axiom in two-valued logic."""
    counts = all_counts(parts)
    tally = counts.tally
    every = CrispAudit(*tally.numbers, unlabelled=tally.unlabelled)
    if not implication:
        return every
    numbers = counts.support, counts.held, counts.base_cells, counts.base_true
    sums = [np.asarray(u.sum()) for u in numbers]
    ratios = [None if np.isnan(u) else float(u) for u in measures(*sums)]
    return replace(
        every, support=int(sums[0]), confidence=ratios[0], base_rate=ratios[1], lift=ratios[2]
    )


def _constant(view: View, degree: float) -> Tables:
    """Return the tables with one degree for all learned predicates."""
    tables, device = view.tables, view.tables.lengths.device
    predicates: dict[str, Tensor | SparseTable] = dict(tables.predicates)
    for name in view.learned:
        sorts = view.theory.signature.predicates[name].sorts
        shape = (1, *(tables.sizes[s] for s in sorts), 1)
        index = torch.zeros(len(shape), 0, dtype=torch.int64, device=device)
        value = torch.zeros(0, dtype=tables.dtype, device=device)
        predicates[name] = SparseTable(index, value, shape, degree)
    return replace(tables, predicates=predicates, decisions=None, possible={})


def _together(
    theory: CheckedTheory, values: Mapping[str, Mapping[str, float]], semantics: Semantics
) -> KnowledgeBase:
    """Combine all axioms; if ∀ is not a mean, satisfaction is the value of the worst axiom."""
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


def _mean_antecedent(parts: Sequence[tuple[float, int]]) -> float:
    """Return the mean degree of the antecedent over the cells that count."""
    total, number = (sum(column) for column in zip(*parts, strict=True))
    return total / number if number else 0.0


def _antecedents(cells: Cells) -> tuple[float, int]:
    """Return the sum of the antecedent's degrees over the cells that count, and their number."""
    assert cells.prefix.rule is not None
    antecedent = cells.prefix.rule[0]
    blocks = by_parts(
        "antecedents", cells.tables.batch, lambda part: _antecedent_sum(cells, antecedent, part),
        exact=cells.semantics.boolean,
    ) or shared(
        "antecedents", cells.tables, lambda t: _antecedent_sum(cells.viewed(tables=t), antecedent)
    )  # fmt: skip
    if blocks is None:
        return _antecedent_sum(cells, antecedent)
    return sum(total for total, _ in blocks), sum(number for _, number in blocks)


def _antecedent_sum(
    cells: Cells, antecedent: c.Formula, part: BindingPart = WHOLE
) -> tuple[float, int]:
    """Return the sum of degrees over the cells that count, and their number."""
    total, number = 0.0, 0
    if cells.semantics.boolean and (rows := cell_rows(cells, part=part)) is not None:
        true = rows.count(rows.where(antecedent)).sum()
        return int(true), int(rows.count(rows.counted).sum())
    for block in cells.blocks({"antecedent": antecedent}, part=part):
        degree = torch.where(block.counts, block.values["antecedent"], 0)
        total += float(degree.expand(block.shape).sum(dtype=torch.float64))
        number += int(block.counts.expand(block.shape).sum())
    return total, number


# --- where the gradient goes -----------------------------------------------------------------


def _gradients(view: View) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the slopes of antecedent and consequent, for each implication and trace.

    Predicates of the antecedent get separate names, with the same tables.
    """
    tables, learned = view.tables, view.learned
    if view.semantics.boolean or not learned:
        return {}

    def marked(node: c.Core) -> c.Core:
        if isinstance(node, c.Atom) and node.predicate in learned:
            return c.Atom(node.predicate + _MARK, node.args)
        return node

    formulas = {}
    for axiom in view.theory.axioms:
        start = prefix(axiom.formula)
        if start.rule is not None:
            antecedent, consequent = start.rule
            body = c.Implies(transform(antecedent, marked), consequent)
            formulas[axiom.name] = rebuild(start.layers, body)
    inputs = {
        name: learnable(tables.table(name.removesuffix(_MARK)), tables.batch, tables.dtype)
        for name in (*learned, *(name + _MARK for name in learned))
    }
    degrees = {name: table for name, (_, table) in inputs.items()}
    world = replace(tables, predicates={**tables.predicates, **degrees})
    with torch.enable_grad():
        values = trace_values(formulas, world, view.semantics, view.budget)
        slopes = {name: trace_slopes(value, inputs) for name, value in values.items()}
    nothing = torch.zeros(tables.batch, dtype=torch.float64)

    def summed(by_input: Mapping[str, Tensor], *, antecedent: bool) -> Tensor:
        some = [t.cpu() for name, t in by_input.items() if name.endswith(_MARK) == antecedent]
        return sum(some, nothing)

    return {
        name: (summed(by_input, antecedent=True), summed(by_input, antecedent=False))
        for name, by_input in slopes.items()
        if by_input
    }


def _gradient_shares(
    parts: Sequence[tuple[Tensor, Tensor]], values: Tensor, semantics: Semantics
) -> tuple[float, float] | tuple[None, None]:
    """Return the shares of an axiom's gradient that go to antecedent and consequent."""
    if not parts:
        return None, None
    sums = [over_all_traces(torch.cat(one), values, semantics) for one in zip(*parts, strict=True)]
    total = sum(sums)
    return (sums[0] / total, sums[1] / total) if total > 0 else (None, None)
