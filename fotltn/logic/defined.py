"""Find definitions: hard axioms that determine a predicate in terms of others.

A soft axiom may be broken, so it defines nothing. A hard axiom is a conjunction of clauses `forall
x…. G(a -> b)`; `<->` gives two of them. A clause with a learned predicate on one side states a
necessary or a sufficient condition for it: `forall x, y. G(a(x, y) -> p(y))` says that `exists x.
a(x, y)` is sufficient. A necessary condition defines the predicate if each of its alternatives is
sufficient, and a sufficient one does if each of its parts is necessary. Formulas are compared by
their truth in two-valued logic, up to the names of variables, negation, and the order of parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from typing import assert_never

from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.logic.nnf import nnf
from fotltn.logic.parts import changes, symbols
from fotltn.logic.prefix import said_at_once
from fotltn.logic.signature import Signature
from fotltn.tree import Node, children, fold, parts, transform


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition: `name(axes…)` is `formula`; for a static predicate, at the first time point.

    Attributes:
        name: the predicate.
        axes: the variables of its arguments, in order; no others are free in the formula.
        formula: the formula that defines it.
        axioms: the names of the axioms that state the definition.
    """

    name: str
    axes: tuple[c.Axis, ...]
    formula: c.Formula
    axioms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Definitions:
    """The definitions of a theory.

    Attributes:
        by_name: the definitions, each after the ones that it uses.
        axioms: the names of the axioms that only state definitions, and so always hold.
    """

    by_name: Mapping[str, Definition]
    axioms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _SidedClause:
    """`forall axes. guards -> (left -> right)`, at the first point or at all.

    Without sides, the clause has another form.
    """

    axiom: str
    number: int
    axes: tuple[c.Axis, ...]
    always: bool
    guards: tuple[c.Formula, ...]
    sides: tuple[c.Formula, c.Formula] | None


#: A part of a formula: its number, and the places of its free variables in a head.
_SidedPart = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class _OneWay:
    """A necessary or sufficient condition for a predicate, from a clause.

    Attributes:
        clause: the clause.
        atom: the predicate, with variables.
        formula: the condition.
        needed: whether the condition is necessary; otherwise it is sufficient.
        some: the parts of which at least one must be true.
        all: the parts that must all be true.
    """

    clause: _SidedClause
    atom: c.Atom
    formula: c.Formula
    needed: bool
    some: frozenset[_SidedPart]
    all: frozenset[_SidedPart]

    def said_with(self, others: Iterable[_OneWay]) -> list[_SidedClause] | None:
        """Return the clauses by which the formula defines the predicate; None if it does not."""
        same = [one for one in others if one.needed is self.needed]
        opposite = [one for one in others if one.needed is not self.needed]
        # A necessary condition is sufficient if each alternative is; a sufficient one is necessary
        # if each part is.
        mine = self.some if self.needed else self.all
        theirs = [one.some if self.needed else one.all for one in opposite]
        if not mine <= frozenset().union(*theirs):
            return None
        clauses = [one.clause for one, parts in zip(opposite, theirs, strict=True) if parts <= mine]
        clauses += [
            one.clause for one in same if (one.some if self.needed else one.all) == mine
        ]  # fmt: skip
        return sorted({*clauses}, key=lambda clause: clause.number)


def definitions_in(
    theory: CheckedTheory,
    learned: Collection[str],
    others: Mapping[str, Collection[str]] | None = None,
) -> Definitions:
    """Return the definitions in the hard axioms of a theory.

    The first of several definitions of a predicate counts. A definition that would depend on itself
    through earlier ones does not count. Axioms whose definition does not count stay axioms.

    Args:
        theory: the theory.
        learned: the predicates that may be defined.
        others: the predicates that definitions outside the theory use, by predicate.
    """
    signature, forms = theory.signature, _Forms()
    axioms = [axiom for axiom in theory.axioms if axiom.hard]
    clauses: list[_SidedClause] = []
    for axiom in axioms:
        clauses += _clauses(axiom.name, axiom.formula, len(clauses), signature)
    readings: dict[str, list[_OneWay]] = {}
    for clause in clauses:
        for one in _readings(clause, learned, signature, forms):
            readings.setdefault(one.atom.predicate, []).append(one)
    chosen: dict[str, tuple[_OneWay, list[_SidedClause]]] = {}
    uses = {name: {*names} for name, names in (others or {}).items()}
    every = sorted(itertools.chain(*readings.values()), key=lambda one: one.clause.number)
    for one in every:
        name, below = one.atom.predicate, {*symbols(one.formula)}
        if name in chosen or _reaches(below, name, uses):
            continue
        said = one.said_with(readings[name])
        if said is not None:
            chosen[name], uses[name] = (one, said), below
    order = {name: [n for n in chosen if n in uses[name]] for name in chosen}
    by_name = {}
    for name in TopologicalSorter(order).static_order():
        one, said = chosen[name]
        names = tuple(dict.fromkeys(clause.axiom for clause in said))
        by_name[name] = Definition(name, _axes(one.atom), one.formula, names)
    consumed = {clause.number for _, said in chosen.values() for clause in said}
    open_axioms = {clause.axiom for clause in clauses if clause.number not in consumed}
    return Definitions(by_name, tuple(a.name for a in axioms if a.name not in open_axioms))


def _clauses(
    axiom: str, formula: c.Formula, number: int, signature: Signature
) -> list[_SidedClause]:
    """Yield the clauses of an axiom, numbered from `number`."""
    clauses: list[_SidedClause] = []
    for one in said_at_once(formula, signature):
        sides = (one.body.left, one.body.right) if isinstance(one.body, c.Implies) else None
        at = number + len(clauses)
        clauses.append(_SidedClause(axiom, at, one.axes, one.always, one.guards, sides))
    return clauses


def _readings(
    clause: _SidedClause, learned: Collection[str], signature: Signature, forms: _Forms
) -> Iterator[_OneWay]:
    """Yield the conditions that a clause states for learned predicates."""
    if clause.sides is None:
        return
    for side, other in (clause.sides, clause.sides[::-1]):
        positive, atom = True, side
        while isinstance(atom, c.Not):
            positive, atom = not positive, atom.arg
        if not isinstance(atom, c.Atom) or atom.predicate not in learned:
            continue
        needed = positive is (side is clause.sides[0])
        formula = other if positive else _negated(other)
        for guard in clause.guards:
            formula = c.Implies(guard, formula) if needed else c.And(guard, formula)
        if not _is_head(atom, clause.axes) or atom.predicate in symbols(formula):
            continue
        if rest := tuple(axis for axis in clause.axes if axis not in _axes(atom)):
            formula = c.Quantifier(needed, rest, None, formula)
        if signature.predicates[atom.predicate].static:
            if clause.always and changes(signature, formula):
                # A static p: G(p -> a) is p -> G a, and G(a -> p) is F a -> p.
                formula = c.Aggregate(needed, formula, c.Window(), past=False)
        elif not clause.always:
            continue
        normal, head = transform(nnf(formula), _merged), _axes(atom)
        some, every = (
            frozenset(forms.of(part, head) for part in _parts(normal, universal))
            for universal in (False, True)
        )
        yield _OneWay(clause, atom, formula, needed, some, every)


def _is_head(atom: c.Atom, axes: tuple[c.Axis, ...]) -> bool:
    """Return whether the arguments are distinct quantified variables, each over a sort."""
    if not all(isinstance(a, c.Variable) and a.column is None for a in atom.args):
        return False
    names = _axes(atom)
    return len({*names}) == len(atom.args) and {*names} <= {*axes} and len({*axes}) == len(axes)


def _merged(node: c.Core) -> c.Core:
    """Merge two quantifiers of the same kind."""
    if isinstance(node, c.Quantifier):
        inner = node.body
        if isinstance(inner, c.Quantifier) and inner.universal is node.universal:
            axes = tuple(dict.fromkeys((*node.axes, *inner.axes)))
            return c.Quantifier(node.universal, axes, None, inner.body)
    return node


#: A formula with more parts than this is not taken apart.
_MOST_PARTS = 64


def _parts(formula: c.Formula, universal: bool) -> list[c.Formula]:
    """Return the parts of a formula in normal form: all are necessary, or one is sufficient.

    Quantifiers move into temporal operators, because `F exists x. a` is `exists x. F a`.
    """
    join = c.And if universal else c.Or
    result: list[c.Formula] = []
    waiting: list[tuple[c.Formula, tuple[c.Until | c.Shift, ...], tuple[c.Axis, ...]]]
    waiting = [(formula, (), ())]
    while waiting:
        if len(waiting) + len(result) > _MOST_PARTS:
            return [formula]
        part, times, axes = waiting.pop()
        match c.closed(part):
            case c.And(left, right) | c.Or(left, right) if isinstance(part, join):
                waiting += [(right, times, axes), (left, times, axes)]
            case c.Quantifier(same, more, _, body) if same is universal:
                waiting.append((body, times, (*axes, *more)))
            case c.Until(dual, c.Truth(value), right) as node if (
                dual is universal and value is not universal
            ):
                waiting.append((right, (*times, node), axes))
            case c.Shift(arg, _, _, weak) as node if weak is universal or not axes:
                waiting.append((arg, (*times, node), axes))
            case (
                c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Not() | c.And()
                | c.Or() | c.Implies() | c.Quantifier() | c.Shift() | c.Aggregate() | c.Until()
            ):  # fmt: skip
                one = c.Quantifier(universal, axes, None, part) if axes else part
                for time in reversed(times):
                    one = (
                        replace(time, arg=one)
                        if isinstance(time, c.Shift)
                        else replace(time, right=one)
                    )
                result.append(one)
            case never:
                assert_never(never)
    return result


def _axes(atom: c.Atom) -> tuple[c.Axis, ...]:
    return tuple(term.axis for term in atom.args if isinstance(term, c.Variable))


def _negated(formula: c.Formula) -> c.Formula:
    return formula.arg if isinstance(formula, c.Not) else c.Not(formula)


def _reaches(names: set[str], goal: str, uses: Mapping[str, set[str]]) -> bool:
    """Return whether definitions lead from some names to a goal."""
    stack, seen = [*names], {*names}
    while stack:
        following = uses.get(stack.pop(), set()) - seen
        seen |= following
        stack += following
    return goal in seen


_Form = tuple[int, tuple[c.Axis, ...]]


class _Forms:
    """Numbers for formulas: equal for formulas that differ only in the names of variables.

    A node has the number of its kind, its fields and its parts, and its free axes in the order in
    which they occur; the places of a part's axes are counted in that order. So shared parts are
    numbered once, wherever they occur. The operands of `&`, `|` and quantifiers have no order.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}

    def of(self, formula: c.Formula, head: tuple[c.Axis, ...]) -> _SidedPart:
        """Return the number of a formula, and the places of its free variables in a head."""
        number, free, _ = fold(formula, self._visit)
        return number, tuple(head.index(axis) for axis in free)

    def _visit(
        self, node: c.AnyNode, below: list[tuple[int, tuple[c.Axis, ...], tuple[_Form, ...]]]
    ) -> tuple[int, tuple[c.Axis, ...], tuple[_Form, ...]]:
        """Return the number of a node, its free axes, and the forms that it joins."""
        bound: tuple[c.Axis, ...] = ()
        fields: tuple[object, ...] = tuple(p for p in parts(node) if not _is_nodes(p))
        forms: list[_Form] = [(number, axes) for number, axes, _ in below]
        joined: tuple[_Form, ...] = ()
        match node:
            case c.And() | c.Or():
                forms = []
                for child, (number, axes, inner) in zip(children(node), below, strict=True):
                    forms += inner if type(child) is type(node) else [(number, axes)]
                forms = sorted(dict.fromkeys(forms), key=lambda form: form[0])
                joined = tuple(forms)
                free = _free(forms)
            case c.Quantifier(universal, axes, guard):
                used = {axis: place for place, axis in enumerate(_free(forms))}
                bound = tuple(sorted(axes, key=lambda axis: used.get(axis, len(used))))
                fields = (universal, guard is None, *((a.sort, a.relation) for a in bound))
                free = tuple(axis for axis in used if axis not in bound)
            case c.Variable(axis, sort, column):
                fields = (axis.sort, axis.relation, sort, column)
                free = (axis,)
            case (
                c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Not() | c.Implies()
                | c.Shift() | c.Aggregate() | c.Until() | c.Constant() | c.Number() | c.Apply()
            ):  # fmt: skip
                free = _free(forms)
            case never:
                assert_never(never)
        places = (*free, *bound)
        shape = tuple((number, *map(places.index, axes)) for number, axes in forms)
        key = (type(node), fields, len(free), shape)
        return self._numbers.setdefault(key, len(self._numbers)), free, joined


def _free(forms: Sequence[_Form]) -> tuple[c.Axis, ...]:
    """Return the free axes of forms, in order of occurrence."""
    return tuple(dict.fromkeys(axis for _, axes in forms for axis in axes))


def _is_nodes(part: object) -> bool:
    return isinstance(part, Node | tuple)  # tuples contain nodes or axes
