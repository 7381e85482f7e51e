"""Quantifiers that range over the empty places of sorts whose entities belong to one trace each."""

from __future__ import annotations

from collections.abc import Iterator

from fotltn.errors import Diagnostic, Severity, listing
from fotltn.grounding.facts import Facts
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.tree import postorder


def unguarded(theory: CheckedTheory, facts: Facts) -> tuple[Diagnostic, ...]:
    """A warning for each local sort whose empty places count in axioms.

    A trace with fewer entities than another has empty places, where every given fact is false. A
    quantifier counts them, unless it has a guard that speaks of its variable.
    """
    found = []
    for sort, names in facts.local.items():
        counts = {len(own) for own in names}
        axioms = [a.name for a in theory.axioms if any(_open(a.formula, sort))]
        if len(counts) < 2 or not axioms:
            continue
        text = (
            f"{listing(axioms, 20)}: a quantifier over '{sort}' also counts empty places, since "
            f"traces have {min(counts)} to {max(counts)} of these"
        )
        hint = "add a guard that is true of those that exist: forall x where Present(x). …"
        found.append(Diagnostic(text, hint=hint, severity=Severity.WARNING))
    return tuple(found)


def _open(formula: c.Formula, sort: str) -> Iterator[c.Axis]:
    """The axes of a sort that no guard speaks of."""
    for node in postorder(formula):
        if not isinstance(node, c.Quantifier):
            continue
        guard = () if node.guard is None else postorder(node.guard)
        seen = {n.axis for n in guard if isinstance(n, c.Variable)}
        yield from (axis for axis in node.axes if axis.sort == sort and axis not in seen)
