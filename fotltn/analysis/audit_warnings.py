"""The warnings of an audit, in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, assert_never

from fotltn.analysis.audit_data import ROUNDING, AxiomAudit, Finding, FindingKind, KnowledgeBase
from fotltn.analysis.cells import Cells
from fotltn.analysis.error_shares import ErrorMeasure, Errors, erring
from fotltn.format import degree, share
from fotltn.logic import core as c
from fotltn.logic.parts import free_axes
from fotltn.logic.prefix import Prefix
from fotltn.semantics.by_trace import shared
from fotltn.semantics.config import PMean
from fotltn.sharing import WHOLE, BindingPart, by_parts
from fotltn.tree import postorder

DILUTED = 0.8  # a true ∃ or F whose mean value is below this is reported
MOSTLY = 0.9  # a share of the gradient above this is reported

#: The subject of a warning, and its text.
Warned = Iterator[tuple[FindingKind, str]]


class Dilution(NamedTuple):
    """An existential operator that is a mean, where it is true.

    Args:
        words: the operator in words.
        many: the most points of its mean.
        p: its exponent.
        points: the number of points at which it is true.
        total: the sum of its values there.
    """

    words: str
    many: int
    p: float
    points: int
    total: float


#: The dilutions of an axiom, by the place of the operator.
Dilutions = Mapping[int, Dilution]


def findings(
    axioms: Sequence[tuple[AxiomAudit, Dilutions, bool]], together: KnowledgeBase
) -> tuple[Finding, ...]:
    """Return all warnings: about the axioms together, then axiom by axiom.

    Args:
        axioms: for each axiom, its measurements; its operators that are means, on the labels or
            the model; and whether it mentions learned predicates.
        together: the measurements of all axioms together.
    """
    warnings = []
    if axioms and not together.telling:
        warnings.append(Finding(None, FindingKind.VACUOUS, together.meaning))
    for axiom, means, touched in axioms:
        for part in (_vacuous(axiom, touched), _diluted(axiom, means), _other(axiom)):
            warnings += [Finding(axiom.name, kind, message) for kind, message in part]
    return tuple(warnings)


def _vacuous(axiom: AxiomAudit, touched: bool) -> Warned:
    name, where = axiom.name, axiom.where
    if axiom.evidence.support == 0:
        says = f"the antecedent is true nowhere on {where}, so the axiom says nothing"
        if axiom.evidence.unlabelled:  # the project before training
            says = "labels decide no cell in which the antecedent is true, so they say nothing"
        yield FindingKind.VACUOUS, f"{name}: {says}"
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
    """Yield warnings about ends of traces, labels and gradients."""
    name, evidence, labels = axiom.name, axiom.evidence, axiom.on_labels
    if evidence.undecided:
        yield (
            FindingKind.UNDECIDED,
            (
                f"{name}: {evidence.undecided:,} of {evidence.count:,} bindings and times on "
                f"{axiom.where} {'is' if evidence.undecided == 1 else 'are'} undecided, because "
                "the trace ends: a later witness could still come"
            ),
        )
    if labels is not None and labels.violated:
        yield (
            FindingKind.CONTRADICTED,
            (
                f"{name} is contradicted by the labels: {_violations(labels.violated)} at "
                f"{labels.decided if labels.support is None else labels.support:,} bindings and "
                f"times{'' if labels.support is None else ' where its antecedent is true'}"
            ),
        )
    if axiom.influence is not None and axiom.influence.weakness is not None:
        yield FindingKind.INFLUENCE, f"{name}: {axiom.influence.weakness.meaning}"
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


def dilutions(cells: Cells) -> Dilutions:
    """Return the ∃, F and U that are means, where they are true.

    Args:
        cells: the cells of the axiom on the labels or, without labels, on the model, with all
            degrees rounded to 0 and 1.
    """
    means = {}
    for place, node in enumerate(postorder(cells.formula)):
        if isinstance(node, c.Formula) and (mean := _mean(node, cells)) is not None:
            means[place] = Dilution(*mean, *_sum(node, cells))
    return means


def all_dilutions(parts: Sequence[Dilutions]) -> Dilutions:
    """Combine the dilutions of groups of traces."""
    together: dict[int, Dilution] = {}
    for place, one in (item for part in parts for item in part.items()):
        other = together.get(place, one._replace(points=0, total=0.0))
        together[place] = Dilution(
            one.words, max(one.many, other.many), one.p, one.points + other.points,
            one.total + other.total,
        )  # fmt: skip
    return dict(sorted(together.items()))


def _diluted(axiom: AxiomAudit, means: Dilutions) -> Warned:
    """Yield warnings about ∃, F and U whose value is low where they are true."""
    for words, many, p, true, total in means.values():
        if true and total / true < DILUTED:
            yield (
                FindingKind.DILUTED,
                (
                    f"{axiom.name}: '{words}' is a mean. Where it is true on {axiom.where}, its "
                    f"value is {degree(total / true)} on average; one witness among {many:,} gives "
                    f"{many:,}^(-1/{p:g}) = {degree(many ** (-1 / p))}"
                ),
            )


def _mean(node: c.Formula, cells: Cells) -> tuple[str, int, float] | None:
    """Return an existential operator in words, the most points of its mean, and its p."""
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


def _sum(node: c.Formula, cells: Cells) -> tuple[int, float]:
    """Return the number of points at which a formula is true, and the sum of its values there."""
    free = tuple(sorted(free_axes(node), key=lambda a: a.name))
    always = c.Aggregate(True, node, c.Window(), past=False)
    apart = replace(cells, prefix=Prefix((always,), node), free=free)
    sums = (
        by_parts("means", apart.tables.batch, lambda part: _part_sum(apart, part))
        or shared("means", apart.tables, lambda tables: _part_sum(apart.viewed(tables=tables)))
        or [_part_sum(apart)]
    )
    counts, totals = zip(*sums, strict=True)
    return sum(counts), sum(totals)


def _part_sum(cells: Cells, part: BindingPart = WHOLE) -> tuple[int, float]:
    count, total = 0, 0.0
    for block in erring(cells, Errors(ErrorMeasure.MEAN), part=part):
        true = block.values["truth"] & block.counts
        count += int(true.sum())
        total += float((block.values["degree"] * true).sum())
    return count, total
