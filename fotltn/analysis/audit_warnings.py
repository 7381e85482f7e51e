"""What an audit warns of, in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from fotltn.algebra.expr import free_axes
from fotltn.analysis.audit_data import ROUNDING, AxiomAudit, Finding, Kind, KnowledgeBase
from fotltn.analysis.evaluate_cells import rounded, sweep, two_valued
from fotltn.format import degree, share
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.semantics.config import CRISP, PMean, Semantics
from fotltn.semantics.interpretation import Tables
from fotltn.tree import postorder

DILUTED = 0.8  # a true ∃ or F whose mean value is below this is reported
MOSTLY = 0.9  # a share of the gradient above this is reported


def findings(
    theory: CheckedTheory,
    axioms: Sequence[AxiomAudit],
    together: KnowledgeBase,
    evidence: Tables,
    semantics: Semantics,
    learned: frozenset[str],
    threshold: float,
) -> tuple[Finding, ...]:
    """All warnings: about the axioms together, then axiom by axiom.

    Args:
        theory: the axioms.
        axioms: what was measured of each.
        together: what was measured of all.
        evidence: the labels, or the model if there are none.
        semantics: what gives axioms their values.
        learned: the predicates that are learned.
        threshold: the degree from which on a fact is true.
    """
    found = []
    if axioms and not together.telling:
        found.append(Finding(None, Kind.VACUOUS, together.meaning))
    shaded = _Evidence(evidence, semantics, threshold)
    for axiom, checked in zip(axioms, theory.axioms, strict=True):
        nodes = list(postorder(checked.formula))
        touched = any(isinstance(n, c.Atom) and n.predicate in learned for n in nodes)
        found += [
            *_vacuous(axiom, touched),
            *_diluted(axiom, nodes, shaded),
            *_truncated(axiom),
            *_contradicted(axiom),
            *_gradient(axiom),
        ]
    return tuple(found)


def _where(axiom: AxiomAudit) -> str:
    return "the model" if axiom.on_labels is None else "the labels"


def _vacuous(axiom: AxiomAudit, touched: bool) -> Iterator[Finding]:
    name = axiom.name
    if axiom.evidence.support == 0:
        yield Finding(
            name,
            Kind.VACUOUS,
            f"{name}: the antecedent is true nowhere on {_where(axiom)}, so the axiom says nothing",
        )
    true = axiom.value if axiom.labels is None else axiom.labels
    if not touched or axiom.all_false < true - ROUNDING:
        return
    if axiom.all_false >= 1 - ROUNDING:
        message = (
            f"{name} is fully satisfied if every learned predicate is false; "
            "a high value is no evidence"
        )
    else:
        message = (
            f"{name} scores {degree(axiom.all_false)} if every learned predicate is false, no less "
            f"than on {_where(axiom)} ({degree(true)}); a high value is no evidence"
        )
    yield Finding(name, Kind.VACUOUS, message)


def _truncated(axiom: AxiomAudit) -> Iterator[Finding]:
    found = axiom.evidence
    if found.truncated:
        yield Finding(
            axiom.name,
            Kind.TRUNCATED,
            f"{axiom.name}: {found.truncated:,} of {_violations(found.violations)} on "
            f"{_where(axiom)} {'is' if found.truncated == 1 else 'are'} due to the end of the "
            "trace: a later witness could still come",
        )


def _contradicted(axiom: AxiomAudit) -> Iterator[Finding]:
    found = axiom.on_labels
    if found is not None and found.violations:
        yield Finding(
            axiom.name,
            Kind.CONTRADICTED,
            f"{axiom.name} is contradicted by the labels: {_violations(found.violations)} at "
            f"{found.cells if found.support is None else found.support:,} bindings and times"
            f"{'' if found.support is None else ' where its antecedent is true'}",
        )


def _violations(count: int) -> str:
    return f"{count:,} violation{'' if count == 1 else 's'}"


def _gradient(axiom: AxiomAudit) -> Iterator[Finding]:
    part = axiom.gradient_antecedent
    if part is not None and part > MOSTLY:
        yield Finding(
            axiom.name,
            Kind.GRADIENT,
            f"{axiom.name}: {share(part)} of the gradient goes to the antecedent; learning "
            "satisfies it by making that false",
        )


# --- dilution --------------------------------------------------------------------------------


class _Evidence(NamedTuple):
    tables: Tables
    semantics: Semantics
    threshold: float


def _diluted(axiom: AxiomAudit, nodes: Sequence[c.Core], given: _Evidence) -> Iterator[Finding]:
    """∃, F and U by means, whose value is low where they are true."""
    for node in nodes:
        shape = _mean(node, given)
        if shape is None:
            continue
        words, many, p = shape
        assert isinstance(node, c.Formula)
        true, average = _average(node, given)
        if true and average < DILUTED:
            least = many ** (-1 / p)
            yield Finding(
                axiom.name,
                Kind.DILUTED,
                f"{axiom.name}: '{words}' is a mean. Where it is true on {_where(axiom)}, its "
                f"value is {degree(average, 2)} on average; one witness among {many:,} gives "
                f"{many:,}^(-1/{p:g}) = {degree(least)}",
            )


def _mean(node: c.Core, given: _Evidence) -> tuple[str, int, float] | None:
    """How an existential operator is called, how many points its mean has at most, and its p."""
    tables, semantics = given.tables, given.semantics
    match node:
        case c.Quantifier(False, axes):
            words = "exists " + ", ".join(a.name for a in axes)
            how, many = semantics.exists, math.prod(tables.size(a) for a in axes)
        case c.Aggregate(False, _, window, past):
            words, how = "O" if past else "F", semantics.eventually
            many = _length(window, tables.horizon)
        case c.Until(False, _, _, window, past):
            words, how = "S" if past else "U", semantics.eventually
            many = _length(window, tables.horizon)
        case _:
            return None
    if semantics.boolean or not isinstance(how, PMean) or math.isinf(how.p) or many < 2:
        return None
    return words, many, how.p


def _length(window: c.Window, horizon: int) -> int:
    last = horizon - 1 if window.high is None else min(window.high, horizon - 1)
    return max(0, last - window.low + 1)


def _average(node: c.Formula, given: _Evidence) -> tuple[int, float]:
    """At how many points a formula is true, and its mean value there."""
    axes = tuple(sorted(free_axes(node), key=lambda a: a.name))
    inside = given.tables.inside.reshape(given.tables.batch, *[1] * len(axes), given.tables.horizon)
    boolean = two_valued(given.tables, given.threshold)
    whole = rounded(given.tables, given.threshold)
    truths = sweep({"u": node}, axes, boolean, CRISP)
    degrees = sweep({"u": node}, axes, whole, given.semantics)
    count, total = 0, 0.0
    for truth, values in zip(truths, degrees, strict=True):
        shape = truth.shape(axes, given.tables)
        true = (truth.values["u"] & inside).expand(shape)
        count += int(true.sum())
        total += float((values.values["u"] * true).sum(dtype=torch.float64))
    return count, total / count if count else 0.0
