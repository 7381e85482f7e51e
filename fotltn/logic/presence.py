"""Where an entity is absent, it has no time points: a rewriting of formulas.

A formula is defined where all entities are present that it needs, and only there does it have a
value. So operators of time range over the points at which their body is defined, and quantifiers
over the entities for which theirs is. The rewriting says both in formulas without presence: where
the formula is defined, and its value there. docs/decisions/0028-absent-is-no-point.md has the
definition as a table.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import NamedTuple, assert_never

from fotltn.logic import core as c
from fotltn.logic.parts import conjuncts, free_axes, predicates_in
from fotltn.logic.signature import Signature
from fotltn.syntax.theory import PredicateDecl
from fotltn.tree import fold, rebuilt, transform

#: Formulas that must all be true where another one is defined; none if it is defined everywhere.
_Needs = tuple[c.Formula, ...]

_NOW = c.Window(0, 0)


@dataclass(frozen=True, slots=True)
class Presence:
    """Which entities come and go, and which predicates say so.

    Args:
        here: a predicate for each sort whose entities come and go: it is true where one is present.
        known: a static predicate for each sort of which some traces lack entities: it is true of
            those that a trace has.
        everywhere: the symbols that have a value even where an entity is absent: static ones, and
            those that state presence.
    """

    here: tuple[tuple[str, str], ...] = ()
    known: tuple[tuple[str, str], ...] = ()
    everywhere: frozenset[str] = frozenset()

    @property
    def added(self) -> frozenset[str]:
        """The predicates that the rewriting names."""
        return frozenset(name for _, name in (*self.here, *self.known))

    def __bool__(self) -> bool:
        """Whether any entity may be absent."""
        return bool(self.here or self.known)


#: Nobody comes or goes.
EVERYONE = Presence()


class Relative(NamedTuple):
    """A formula about entities that come and go, in formulas about entities that do not."""

    defined: c.Formula
    value: c.Formula


def presence_of(
    here: Mapping[str, str],
    signature: Signature,
    stated: Iterable[str] = (),
    known: Mapping[str, str] | None = None,
) -> Presence:
    """Return the presence in a theory.

    Args:
        here: the predicate of presence, for each sort whose entities come and go.
        signature: the declarations of the theory.
        stated: further predicates that state presence.
        known: the predicate of entities that a trace has, for sorts of which some lack entities.
    """
    static = {name for name, declared in signature.predicates.items() if declared.static}
    static |= {name for name, declared in signature.functions.items() if declared.static}
    known = known or {}
    everywhere = static.union(here.values(), stated, known.values())
    return Presence(
        tuple(sorted(here.items())), tuple(sorted(known.items())), frozenset(everywhere)
    )


@lru_cache(maxsize=1024)
def relative(formula: c.Formula, presence: Presence) -> Relative:
    """Return where a formula is defined, and its value there.

    The former is made of presence, ∧, X and F alone. In the latter, F and G have guards, which
    select the points that count; `written_out` writes them without.

    >>> x = c.Axis("x", "p")
    >>> sick = c.Atom("Sick", (c.Variable(x, "p"),))
    >>> some = c.Aggregate(False, sick, c.Window(), past=False)
    >>> relative(some, Presence((("p", "Here"),))).value.guard
    <Atom of 2 nodes>
    """
    if not presence:
        return Relative(c.Truth(True), formula)
    here = dict(presence.here)

    def visit(node: c.AnyNode, below: list[tuple[_Needs, c.Core]]) -> tuple[_Needs, c.Core]:
        needs, parts = _joined(*(n for n, _ in below)), [part for _, part in below]
        match node:
            case c.Atom(name, args) | c.Apply(name, args):
                if name in presence.everywhere:
                    return needs, rebuilt(node, parts)
                who = [a for a in args if isinstance(a, c.Variable | c.Constant | c.Apply)]
                there = tuple(c.Atom(here[a.sort], (a,)) for a in who if a.sort in here)
                return _joined(needs, there), rebuilt(node, parts)
            case c.Quantifier(_, axes):
                bound = frozenset(axes)
                exist = present_in(axes, presence)
                asked = tuple(need for need in needs if free_axes(need) & bound)
                *said, body = map(_formula, parts)
                guards = [*exist, *asked, *said]
                guard = written_out(_all(guards)) if guards else None
                return without(needs, bound), replace(node, guard=guard, body=body)
            case c.Shift(_, steps, past):
                moved = tuple(c.Shift(need, steps, past, weak=False) for need in needs)
                return moved, rebuilt(node, parts)
            case c.Aggregate(_, _, window, past):
                arg, *said = map(_formula, parts)
                counts = _joined(needs, tuple(said))
                guard = _all(counts) if counts else None
                return _sometime(needs, window, past), replace(node, arg=arg, guard=guard)
            case c.Until(dual, _, _, window, past):
                (first, left), (second, right) = below
                return _sometime(second, window, past), replace(
                    node, left=_unless(not dual, first, left), right=_unless(dual, second, right)
                )
            case (
                c.Truth() | c.Edge() | c.Equal() | c.Compare() | c.Not() | c.And() | c.Or()
                | c.Implies() | c.Variable() | c.Constant() | c.Number()
            ):  # fmt: skip
                return needs, rebuilt(node, parts)
            case never:
                assert_never(never)

    needs, value = fold(formula, visit)
    return Relative(_all(needs), _formula(value))


def declared(signature: Signature, presence: Presence) -> Signature:
    """Return a signature with the predicates that the rewriting names."""
    added = {n: PredicateDecl(n, (sort,)) for sort, n in presence.here}
    added |= {n: PredicateDecl(n, (sort,), static=True) for sort, n in presence.known}
    return replace(signature, predicates={**signature.predicates, **added})


def defined_where(formula: c.Formula, presence: Presence) -> list[c.Formula]:
    """Return what must be true where a formula is defined, each part apart."""
    needs = conjuncts(relative(formula, presence).defined)
    return [need for need in needs if need != c.Truth(True)]


def present_in(axes: Iterable[c.Axis], presence: Presence) -> list[c.Formula]:
    """Return what is true of the entities that a trace has, for axes over sorts."""
    known = dict(presence.known)
    return [c.Atom(known[a.sort], (c.Variable(a, a.sort),)) for a in axes if a.sort in known]


def at_once(formula: c.Formula, guard: c.Formula, neutral: bool) -> c.Formula:
    """Return a formula where a guard is true, and elsewhere a truth value, also for degrees."""
    return c.Aggregate(neutral, formula, _NOW, False, guard)


@lru_cache(maxsize=1024)
def written_out(formula: c.Formula) -> c.Formula:
    """Write F and G without guards: `F(D & a)` and `G(D -> a)`. This is for two-valued logic only.

    Points that do not count would still be counted in a mean.
    """

    def rule(node: c.Core) -> c.Core:
        if isinstance(node, c.Aggregate) and node.guard is not None:
            arg = (c.Implies if node.universal else c.And)(node.guard, node.arg)
            return arg if node.window == _NOW else replace(node, arg=arg, guard=None)
        return node

    return transform(formula, rule)


def is_at_once(node: c.Formula) -> bool:
    """Whether a formula is one of `at_once`."""
    return isinstance(node, c.Aggregate) and node.guard is not None and node.window == _NOW


def as_written(formula: c.Formula, presence: Presence) -> c.Formula:
    """Return a formula without what `relative` and `written_out` added."""

    def asks(node: c.Formula | None) -> bool:
        names = set() if node is None else predicates_in(node)
        return bool(names) and names <= presence.added

    def rule(node: c.Core) -> c.Core:
        if isinstance(node, c.Connective) and asks(node.left):
            return node.right
        if isinstance(node, c.Quantifier) and node.guard is not None:
            guards = [part for part in conjuncts(node.guard) if not asks(part)]
            return replace(node, guard=_all(guards) if guards else None)
        if isinstance(node, c.Aggregate) and node.guard is not None:
            return node.arg if is_at_once(node) else replace(node, guard=None)
        return node

    return transform(formula, rule)


def without(needs: Iterable[c.Formula], axes: frozenset[c.Axis]) -> _Needs:
    """Return what is left to need if the entities of some axes were always there."""
    left: _Needs = ()
    for need in needs:
        if not free_axes(need) & axes:
            left = _joined(left, (need,))
        elif isinstance(need, c.Shift | c.Aggregate):
            inner = without(tuple(conjuncts(need.arg)), axes)
            left = _joined(left, (replace(need, arg=_all(inner)),) if inner else ())
    return left


def _sometime(needs: _Needs, window: c.Window, past: bool) -> _Needs:
    return (c.Aggregate(False, _all(needs), window, past),) if needs else ()


def _unless(neutral: bool, needs: _Needs, formula: c.Core) -> c.Formula:
    """Return a formula that is `neutral` where it is undefined, to be passed over there."""
    return at_once(_formula(formula), _all(needs), neutral) if needs else _formula(formula)


def _formula(node: c.Core) -> c.Formula:
    assert isinstance(node, c.Formula)
    return node


def _joined(*needs: _Needs) -> _Needs:
    return tuple(dict.fromkeys(itertools.chain(*needs)))


def _all(needs: Iterable[c.Formula]) -> c.Formula:
    every = [*needs]
    return reduce(c.And, every) if every else c.Truth(True)
