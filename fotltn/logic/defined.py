"""Definitions in a theory: hard axioms that say what a predicate is, in terms of the others.

A soft axiom may be broken, so that it defines nothing. A hard one is a conjunction of clauses
`forall x…. G(a -> b)`, of which `<->` is two. A clause with a learned predicate on one side says
what that predicate needs, or what is enough for it. Where both are the same formula, up to the
names of variables, they define the predicate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import assert_never

from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.logic.signature import Signature
from fotltn.tree import Node, fold, parts, postorder


@dataclass(frozen=True, slots=True)
class Definition:
    """What a predicate is: `name(axes…)` is `formula`; if it is static, at the first point.

    Attributes:
        name: the predicate.
        axes: the variables of its arguments, in order; no others are free in the formula.
        formula: what it is.
        axioms: the names of the axioms that say so.
    """

    name: str
    axes: tuple[c.Axis, ...]
    formula: c.Formula
    axioms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Definitions:
    """What a theory defines.

    Attributes:
        by_name: the definitions, each after those that it uses.
        axioms: the names of the axioms that hold by definition, as they say nothing else.
    """

    by_name: Mapping[str, Definition]
    axioms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Clause:
    """`forall axes. left -> right`, at the first point or at all; without sides, anything else."""

    axiom: str
    number: int
    axes: tuple[c.Axis, ...]
    always: bool
    sides: tuple[c.Formula, c.Formula] | None


@dataclass(slots=True)
class _Candidate:
    """A formula for a predicate, and the clauses that say it: needed, and enough."""

    atom: c.Atom
    formula: c.Formula
    needed: list[_Clause] = field(default_factory=list)
    enough: list[_Clause] = field(default_factory=list)

    @property
    def clauses(self) -> list[_Clause]:
        return sorted([*self.needed, *self.enough], key=lambda clause: clause.number)


def definitions_in(
    theory: CheckedTheory,
    learned: Collection[str],
    others: Mapping[str, Collection[str]] | None = None,
) -> Definitions:
    """What the hard axioms of a theory define.

    Of several definitions of a predicate the first counts; one that would depend on itself
    through those before it does not. What does not count stays an axiom.

    Args:
        theory: the theory.
        learned: the predicates that may be defined.
        others: what definitions that the theory does not state use, by predicate.
    """
    signature, forms = theory.signature, _Forms()
    axioms = [axiom for axiom in theory.axioms if axiom.hard]
    clauses: list[_Clause] = []
    for axiom in axioms:
        clauses += _clauses(axiom.name, axiom.formula, len(clauses))
    candidates: dict[tuple[object, ...], _Candidate] = {}
    for clause in clauses:
        for atom, formula, needed in _readings(clause, learned, signature):
            key = (atom.predicate, *forms.of(formula, _axes(atom)))
            candidate = candidates.setdefault(key, _Candidate(atom, formula))
            (candidate.needed if needed else candidate.enough).append(clause)
    chosen: dict[str, _Candidate] = {}
    uses = {name: {*names} for name, names in (others or {}).items()}
    for candidate in candidates.values():
        name, below = candidate.atom.predicate, {*symbols(candidate.formula)}
        if not (candidate.needed and candidate.enough) or name in chosen:
            continue
        if not _reaches(below, name, uses):
            chosen[name], uses[name] = candidate, below
    order = {name: [n for n in chosen if n in uses[name]] for name in chosen}
    by_name = {}
    for name in TopologicalSorter(order).static_order():
        said = chosen[name]
        names = tuple(dict.fromkeys(clause.axiom for clause in said.clauses))
        by_name[name] = Definition(name, _axes(said.atom), said.formula, names)
    consumed = {clause.number for one in chosen.values() for clause in one.clauses}
    open_axioms = {clause.axiom for clause in clauses if clause.number not in consumed}
    return Definitions(by_name, tuple(a.name for a in axioms if a.name not in open_axioms))


def symbols(formula: c.Formula) -> list[str]:
    """The predicates and functions of a formula, which share one space of names."""
    return [
        node.predicate if isinstance(node, c.Atom) else node.function
        for node in postorder(formula)
        if isinstance(node, c.Atom | c.Apply)
    ]


def changes(formula: c.Formula, signature: Signature) -> bool:
    """Whether the truth of a formula may depend on the time point."""
    nodes: list[c.Core] = list(postorder(formula))
    for node in nodes:
        if isinstance(node, c.Apply) and not signature.functions[node.function].static:
            return True
        if not isinstance(node, c.Formula):
            continue
        match c.closed(node):
            case c.Atom(name):
                if not signature.predicates[name].static:
                    return True
            case c.Edge() | c.Shift() | c.Aggregate() | c.Until():
                return True
            case (
                c.Truth() | c.Equal() | c.Compare() | c.Not() | c.And() | c.Or() | c.Implies()
                | c.Quantifier()
            ):  # fmt: skip
                pass
            case never:
                assert_never(never)
    return False


def _clauses(axiom: str, formula: c.Formula, number: int) -> list[_Clause]:
    """The clauses of an axiom, numbered from `number` on."""
    clauses: list[_Clause] = []
    stack: list[tuple[c.Formula, tuple[c.Axis, ...], bool]] = [(formula, (), False)]
    while stack:
        node, axes, always = stack.pop()
        if isinstance(node, c.And):
            stack += [(node.right, axes, always), (node.left, axes, always)]
        elif isinstance(node, c.Quantifier) and node.universal and node.guard is None:
            stack.append((node.body, (*axes, *node.axes), always))
        elif isinstance(node, c.Aggregate) and _is_always(node):
            stack.append((node.arg, axes, True))
        else:
            sides = (node.left, node.right) if isinstance(node, c.Implies) else None
            clauses.append(_Clause(axiom, number + len(clauses), axes, always, sides))
    return clauses


def _is_always(node: c.Aggregate) -> bool:
    """Whether it is a G without bounds."""
    return node.universal and node.window == c.Window() and not node.past


def _readings(
    clause: _Clause, learned: Collection[str], signature: Signature
) -> Iterator[tuple[c.Atom, c.Formula, bool]]:
    """What a clause says of learned predicates: the atom, a formula, and whether it is needed."""
    if clause.sides is None:
        return
    for side, other in (clause.sides, clause.sides[::-1]):
        positive, atom = True, side
        while isinstance(atom, c.Not):
            positive, atom = not positive, atom.arg
        if not isinstance(atom, c.Atom) or atom.predicate not in learned:
            continue
        if not _is_head(atom, clause.axes) or atom.predicate in symbols(other):
            continue
        formula = other if positive else _negated(other)
        needed = positive is (side is clause.sides[0])
        if signature.predicates[atom.predicate].static:
            if clause.always and changes(formula, signature):
                # A static p: G(p -> a) is p -> G a, and G(a -> p) is F a -> p.
                formula = c.Aggregate(needed, formula, c.Window(), past=False)
        elif not clause.always:
            continue
        yield atom, formula, needed


def _is_head(atom: c.Atom, axes: tuple[c.Axis, ...]) -> bool:
    """Whether the arguments are the variables of the quantifiers, each once, over a sort each."""
    if not all(isinstance(a, c.Variable) and a.column is None for a in atom.args):
        return False
    return len(atom.args) == len(axes) and {*_axes(atom)} == {*axes}


def _axes(atom: c.Atom) -> tuple[c.Axis, ...]:
    return tuple(term.axis for term in atom.args if isinstance(term, c.Variable))


def _negated(formula: c.Formula) -> c.Formula:
    return formula.arg if isinstance(formula, c.Not) else c.Not(formula)


def _reaches(names: set[str], goal: str, uses: Mapping[str, set[str]]) -> bool:
    """Whether definitions lead from names to a goal."""
    stack, seen = [*names], {*names}
    while stack:
        following = uses.get(stack.pop(), set()) - seen
        seen |= following
        stack += following
    return goal in seen


class _Forms:
    """Numbers for formulas: the same for those that differ in the names of variables alone.

    A node has the number of its kind, its fields and its parts, and its free axes in the order in
    which they occur; where a part has them is counted in that order. So parts that are shared are
    numbered once, wherever they stand.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}

    def of(self, formula: c.Formula, head: tuple[c.Axis, ...]) -> tuple[int, tuple[int, ...]]:
        """The number of a formula, and where its free variables are in a head."""
        number, free = fold(formula, self._visit)
        return number, tuple(head.index(axis) for axis in free)

    def _visit(
        self, node: c.Core, below: list[tuple[int, tuple[c.Axis, ...]]]
    ) -> tuple[int, tuple[c.Axis, ...]]:
        bound: tuple[c.Axis, ...] = ()
        fields: tuple[object, ...] = tuple(p for p in parts(node) if not _is_nodes(p))
        free = tuple(dict.fromkeys(axis for _, axes in below for axis in axes))
        if isinstance(node, c.Quantifier):
            bound = node.axes
            fields = (node.universal, node.guard is None, *((a.sort, a.relation) for a in bound))
            free = tuple(axis for axis in free if axis not in bound)
        elif isinstance(node, c.Variable):
            fields = (node.axis.sort, node.axis.relation, node.sort, node.column)
            free = (node.axis,)
        places = (*free, *bound)
        shape = tuple((number, *map(places.index, axes)) for number, axes in below)
        key = (type(node), fields, len(free), shape)
        return self._numbers.setdefault(key, len(self._numbers)), free


def _is_nodes(part: object) -> bool:
    return isinstance(part, Node | tuple)  # tuples are of nodes, or of axes
