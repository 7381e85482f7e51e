"""Which quantifiers notice an entity that has not come yet.

Under a quantifier inside of time, an entity that comes late changes the past: `G exists x. !P(x)`
is true from the start if somebody without facts comes at the end. Most formulas do not care, since
`exists y. Crossing(y) & …` is false, and a guard false, of somebody without facts.
"""

from __future__ import annotations

from collections.abc import Iterable

from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.domain import Kind
from fotltn.tree import fold, postorder


def noticed(formula: c.Formula, kinds: Iterable[Kind], signature: Signature) -> set[Kind]:
    """The kinds of strangers that change the value of some quantifier of a formula.

    The formula is in normal form. A kind that is not among them changes no value; the converse
    need not hold.
    """
    quantifiers = [n for n in postorder(formula) if isinstance(n, c.Quantifier)]
    found = set()
    for kind in kinds:
        for node in quantifiers:
            for axis in node.axes:
                if axis.sort == kind.sort and _body(node, axis, kind, signature) != node.universal:
                    found.add(kind)
    return found


def _body(node: c.Quantifier, axis: c.Axis, kind: Kind, signature: Signature) -> bool | None:
    """The truth of a body for a stranger, if the kind alone tells it."""

    def visit(part: c.Core, below: list[bool | None]) -> bool | None:
        match part:
            case c.Truth(value):
                return value
            case c.Atom(name, args):
                if not any(_is(arg, axis) for arg in args):
                    return None
                if len(args) == 1 and signature.predicates[name].static:
                    return name in kind.marks
                return False
            case c.Equal(left, right):
                return True if left == right else None
            case c.Not():
                return None if below[0] is None else not below[0]
            case c.And():
                return _all(below)
            case c.Or():
                return _any(below)
            case c.Quantifier(universal):
                # Over nobody, ∀ is true and ∃ is false, whatever the body.
                return below[-1] if below[-1] is universal else None
            case c.Shift(_, _, _, weak):
                return below[0] if below[0] is weak else None
            case c.Until(dual):
                return below[1] if below[1] is dual else None
        return None

    return fold(node.body, visit)


def _is(term: c.Term, axis: c.Axis) -> bool:
    return isinstance(term, c.Variable) and term.axis == axis


def _all(values: list[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def _any(values: list[bool | None]) -> bool | None:
    return True if True in values else None if None in values else False


def tells_apart(formula: c.Formula, sort: str) -> bool:
    """Whether a formula has an equation between two variables of a sort."""
    for node in postorder(formula):
        match node:
            case c.Equal(c.Variable(_, own), c.Variable()) if own == sort:
                if node.left != node.right:
                    return True
    return False


def axes_of(formula: c.Formula, sort: str) -> int:
    """How many variables of a sort a formula has."""
    found = {n.axis for n in postorder(formula) if isinstance(n, c.Variable) and n.sort == sort}
    return len(found)
