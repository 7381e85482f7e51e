"""What an audit warns of, in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from fotltn.algebra.expr import free_axes
from fotltn.analysis.audit_data import ROUNDING, AxiomAudit, Finding, FindingKind, KnowledgeBase
from fotltn.analysis.cells import Cells
from fotltn.analysis.error_shares import ErrorMeasure, Errors, erring
from fotltn.analysis.evaluate_cells import used_predicates
from fotltn.analysis.influence import WEAKNESS
from fotltn.analysis.prefix import Prefix
from fotltn.format import degree, share
from fotltn.logic import core as c
from fotltn.semantics.config import PMean
from fotltn.tree import postorder

DILUTED = 0.8  # a true ∃ or F whose mean value is below this is reported
MOSTLY = 0.9  # a share of the gradient above this is reported

#: What a warning is about, and what it says.
Warned = Iterator[tuple[FindingKind, str]]


def findings(
    axioms: Sequence[tuple[AxiomAudit, Cells]], together: KnowledgeBase, learned: Collection[str]
) -> tuple[Finding, ...]:
    """All warnings: about the axioms together, then axiom by axiom.

    Args:
        axioms: what was measured of each, and its cells on what it is judged by: the labels, or
            the model if there are none, with all degrees rounded to 0 and 1.
        together: what was measured of all.
        learned: the predicates that are learned.
    """
    warnings = []
    if axioms and not together.telling:
        warnings.append(Finding(None, FindingKind.VACUOUS, together.meaning))
    for axiom, cells in axioms:
        touched = bool(used_predicates(cells.formula) & set(learned))
        for part in (_vacuous(axiom, touched), _diluted(axiom, cells), _other(axiom)):
            warnings += [Finding(axiom.name, kind, message) for kind, message in part]
    return tuple(warnings)


def _vacuous(axiom: AxiomAudit, touched: bool) -> Warned:
    name, where = axiom.name, axiom.where
    if axiom.evidence.support == 0:
        yield (
            FindingKind.VACUOUS,
            (f"{name}: the antecedent is true nowhere on {where}, so the axiom says nothing"),
        )
    true = axiom.value if axiom.labels is None else axiom.labels
    if not touched or axiom.all_false < true - ROUNDING:
        return
    message = (
        f"{name} scores {degree(axiom.all_false)} if every learned predicate is false, no less "
        f"than on {where} ({degree(true)})"
    )
    if axiom.all_false >= 1 - ROUNDING:
        message = f"{name} is fully satisfied if every learned predicate is false"
    yield FindingKind.VACUOUS, f"{message}; a high value is no evidence"


def _other(axiom: AxiomAudit) -> Warned:
    """What the ends of traces, the labels, and the gradient say."""
    name, evidence, labels = axiom.name, axiom.evidence, axiom.on_labels
    if evidence.undecided:
        yield (
            FindingKind.UNDECIDED,
            (
                f"{name}: {evidence.undecided:,} of {evidence.cells:,} bindings and times on "
                f"{axiom.where} {'is' if evidence.undecided == 1 else 'are'} undecided, since the "
                "trace ends: a later witness could still come"
            ),
        )
    if labels is not None and labels.violations:
        yield (
            FindingKind.CONTRADICTED,
            (
                f"{name} is contradicted by the labels: {_violations(labels.violations)} at "
                f"{labels.cells if labels.support is None else labels.support:,} bindings and times"
                f"{'' if labels.support is None else ' where its antecedent is true'}"
            ),
        )
    if axiom.influence is not None and axiom.influence.weak:
        yield FindingKind.INFLUENCE, f"{name}: {WEAKNESS} (fotltn audit --suggest)"
    part = axiom.gradient_antecedent
    if part is not None and part > MOSTLY:
        yield (
            FindingKind.GRADIENT,
            (
                f"{name}: {share(part)} of the gradient goes to the antecedent; learning "
                "satisfies it by making that false"
            ),
        )


def _violations(count: int) -> str:
    return f"{count:,} violation{'' if count == 1 else 's'}"


# --- dilution --------------------------------------------------------------------------------


def _diluted(axiom: AxiomAudit, cells: Cells) -> Warned:
    """∃, F and U by means, whose value is low where they are true."""
    for node in postorder(cells.formula):
        if not isinstance(node, c.Formula) or (mean := _mean(node, cells)) is None:
            continue
        words, many, p = mean
        true, average = _average(node, cells)
        if true and average < DILUTED:
            yield (
                FindingKind.DILUTED,
                (
                    f"{axiom.name}: '{words}' is a mean. Where it is true on {axiom.where}, its "
                    f"value is {degree(average)} on average; one witness among {many:,} gives "
                    f"{many:,}^(-1/{p:g}) = {degree(many ** (-1 / p))}"
                ),
            )


def _mean(node: c.Formula, cells: Cells) -> tuple[str, int, float] | None:
    """How an existential operator is called, how many points its mean has at most, and its p."""
    tables, semantics = cells.tables, cells.semantics
    operator = c.closed(node)
    match operator:
        case c.Quantifier(False, axes):
            words = "exists " + ", ".join(a.name for a in axes)
            how, many = semantics.exists, math.prod(tables.size(a) for a in axes)
        case c.Aggregate(False, _, window, past) | c.Until(False, _, _, window, past):
            until = isinstance(operator, c.Until)
            words = ("S" if until else "O") if past else ("U" if until else "F")
            last = tables.horizon - 1 if window.high is None else window.high
            how = semantics.eventually
            many = min(last, tables.horizon - 1) - window.low + 1
        case (
            c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Not() | c.And() | c.Or()
            | c.Implies() | c.Shift() | c.Quantifier() | c.Aggregate() | c.Until()
        ):  # fmt: skip
            return None
        case _:
            assert_never(operator)
    if semantics.boolean or not isinstance(how, PMean) or math.isinf(how.p) or many < 2:
        return None
    return words, many, how.p


def _average(node: c.Formula, cells: Cells) -> tuple[int, float]:
    """At how many points a formula is true, and its mean value there."""
    free = tuple(sorted(free_axes(node), key=lambda a: a.name))
    always = c.Aggregate(True, node, c.Window(), past=False)
    apart = replace(cells, prefix=Prefix((always,), node), free=free)
    count, total = 0, 0.0
    for block in erring(apart, Errors(ErrorMeasure.MEAN)):
        true = block.values["truth"] & (block.weight > 0)  # inside the trace
        count += int(true.sum())
        total += float((block.values["degree"] * true).sum())
    return count, total / count if count else 0.0
