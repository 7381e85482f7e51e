"""Find the quantifiers that notice an entity that has not come yet.

Under a quantifier inside of time, an entity that comes late changes the past: `G exists x. !P(x)`
is true from the start if an entity without facts comes at the end. Most formulas do not care,
because `exists y. Crossing(y) & …` is false, and a guard false, of somebody without facts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.domain import Stranger
from fotltn.tree import fold, postorder


def noticed(formula: c.Formula, kinds: Iterable[Stranger], signature: Signature) -> set[Stranger]:
    """The kinds of strangers that change the value of some quantifier of a formula.

    The formula is in normal form. A kind that is not among them changes no value; the converse
    need not hold.
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
    """The truth of a body for a stranger, if the kind alone tells it."""

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
                # Over nobody, ∀ is true and ∃ is false, whatever the body.
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
    """Whether a formula has an equation between two variables of a sort."""
    for node in postorder(formula):
        if isinstance(node, c.Equal) and isinstance(node.right, c.Variable):
            left = node.left
            if isinstance(left, c.Variable) and left.sort == sort and left != node.right:
                return True
    return False


def count_variables(formula: c.Formula, sort: str) -> int:
    """How many variables of a sort a formula has."""
    variables = (n for n in postorder(formula) if isinstance(n, c.Variable))
    return len({variable.axis for variable in variables if variable.sort == sort})
