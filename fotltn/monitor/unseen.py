"""Find the quantifiers that notice entities that have not come yet.

If a quantifier is inside a temporal operator, a late entity may change the past: `G exists x.
!P(x)` is true from the start if an entity without facts comes at the end. Most formulas do not
notice it, because `Crossing(y) & …` and guards are false for an entity without facts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.domain import Stranger
from fotltn.tree import fold, postorder


def noticed(formula: c.Formula, kinds: Iterable[Stranger], signature: Signature) -> set[Stranger]:
    """Return the kinds of strangers that may change the value of a quantifier.

    The formula is in normal form. Kinds that are not returned change no value; a kind that is
    returned need not change one.
    """
    quantifiers = [n for n in postorder(formula) if isinstance(n, c.Quantifier)]
    return {
        kind
        for kind in kinds
        for node in quantifiers
        for axis in node.axes
        if axis.sort == kind.sort and _body(node, axis, kind, signature) != node.universal
    }


def _body(node: c.Quantifier, axis: c.Axis, kind: Stranger, signature: Signature) -> bool | None:
    """Return the truth of a body for a stranger, if its kind alone decides it."""

    def visit(part: c.AnyNode, below: list[bool | None]) -> bool | None:
        match part:
            case c.Truth(value):
                return value
            case c.Atom(name, args):
                if not any(isinstance(arg, c.Variable) and arg.axis == axis for arg in args):
                    return None
                if len(args) == 1 and signature.predicates[name].static:
                    return name in kind.marks
                return False
            case c.Equal(left, right):
                return True if left == right else None
            case c.Not():
                return None if below[0] is None else not below[0]
            case c.And():
                return False if False in below else None if None in below else True
            case c.Or():
                return True if True in below else None if None in below else False
            case c.Quantifier(universal):
                # Without entities, ∀ is true and ∃ is false, whatever the body.
                return below[-1] if below[-1] is universal else None
            case c.Shift(_, _, _, weak):
                return below[0] if below[0] is weak else None
            case c.Until(dual):
                return below[1] if below[1] is dual else None
            case c.Edge() | c.Compare() | c.Implies() | c.Aggregate():
                return None
            case c.Variable() | c.Constant() | c.Number() | c.Apply():
                return None
            case never:
                assert_never(never)

    return fold(node.body, visit)


def tells_apart(formula: c.Formula, sort: str) -> bool:
    """Return whether a formula has an equation between two variables of a sort."""
    for node in postorder(formula):
        if isinstance(node, c.Equal) and isinstance(node.right, c.Variable):
            left = node.left
            if isinstance(left, c.Variable) and left.sort == sort and left != node.right:
                return True
    return False


def count_variables(formula: c.Formula, sort: str) -> int:
    """Return the number of variables of a sort in a formula."""
    variables = (n for n in postorder(formula) if isinstance(n, c.Variable))
    return len({variable.axis for variable in variables if variable.sort == sort})
