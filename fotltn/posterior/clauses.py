"""Axioms as clauses: `forall axes. G body`, hard or with a weight.

Bodies are in negation normal form (`fotltn.logic.nnf`): negation at atoms, quantifiers without
guards, shifts and untils.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, assert_never

from fotltn.analysis.truncation import End, if_longer
from fotltn.errors import LimitError
from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom
from fotltn.logic.defined import Definition
from fotltn.logic.desugar import iff
from fotltn.logic.nnf import both, either, nnf
from fotltn.logic.parts import changes, free_axes, operands, predicates_in
from fotltn.logic.prefix import at_first, is_always, prefix, rebuild, said_at_once
from fotltn.logic.presence import EVERYONE, Presence, defined_where, present_in, relative
from fotltn.logic.presence import written_out as rewritten
from fotltn.logic.signature import Signature
from fotltn.semantics.tables import Tables
from fotltn.tree import children, fold, rebuilt, transform, written_out

_FIRST = c.Edge(past=True)

#: The most operators that may nest.
MOST_NESTED = 100

#: A formula with so many nodes may have chains of connectives too long for a recursion.
_LONG = 200


@dataclass(frozen=True, slots=True)
class Clause:
    """A formula that should hold for each binding at each time point.

    Args:
        axiom: the name of its axiom.
        axes: the variables, each over all entities of a sort.
        body: the formula, in normal form.
        weight: the cost of a cell in which the formula is false; None for a hard clause.
        cells: the number of cells of one binding, because of variables that the body does not use.
    """

    axiom: str
    axes: tuple[c.Axis, ...]
    body: c.Formula
    weight: float | None
    cells: int = 1

    @property
    def cost(self) -> float | None:
        """The cost of a binding at which the body is false; None for a hard clause."""
        return None if self.weight is None else self.weight * self.cells


def clauses(
    axiom: CheckedAxiom, end: End, signature: Signature, presence: Presence = EVERYONE
) -> list[Clause]:
    """The clauses of an axiom: a hard axiom is split into conjuncts, a soft one has its cells.

    An axiom without `G` is about the first time point. A cell that only the end of a trace makes
    false is not a violation, unless the end is final. Where an axiom is undefined, because an
    entity is absent, its clauses ask for nothing.
    """
    if not axiom.hard:
        return _soft_clauses(axiom, end, signature, presence)
    result = []
    for one in said_at_once(axiom.formula, signature, presence):
        body = _if_decided(one.body, end, presence)
        for guard in one.guards:
            body = either(nnf(c.Not(without_presence(guard, presence))), body)
        if not one.always:
            body = either(c.Not(_FIRST), body)
        result.append(Clause(axiom.name, one.axes, body, None))
    return result


def _soft_clauses(
    axiom: CheckedAxiom, end: End, signature: Signature, presence: Presence
) -> list[Clause]:
    """The clauses of a soft axiom, in which each cell costs the weight once.

    An axiom has one clause, so that a cell counts once, even if several parts of a conjunction are
    false. An axiom with `<->` has two, because at most one of its directions is false.
    """
    start = prefix(axiom.formula)
    body = start.body
    axes: tuple[c.Axis, ...] = ()
    guards: list[c.Formula] = []
    when: c.Window | None = None
    for number, layer in enumerate(start.layers):
        if isinstance(layer, c.Quantifier):
            axes += layer.axes
            guards += present_in(layer.axes, presence)
            if layer.guard is not None:
                guards += [*defined_where(layer.guard, presence), layer.guard]
        elif when is None and not layer.past:
            when, guards = layer.window, [at_first(guard, signature) for guard in guards]
        elif not (is_always(layer) and when == c.Window() and not changes(signature, *guards)):
            body = rebuild(start.layers[number:], body)  # their windows may share a cell
            break
    guards += defined_where(body, presence)
    result = []
    for part in _one_false_at_most(body):
        said = _if_decided(part, end, presence)
        for guard in guards:
            said = either(nnf(c.Not(without_presence(guard, presence))), said)
        if when is None:
            said = either(c.Not(_FIRST), said)
        elif when != c.Window():
            there = c.Aggregate(False, _FIRST, when, past=True)
            said = either(nnf(c.Not(there)), said)
        result.append(Clause(axiom.name, axes, said, axiom.weight))
    return result


def _if_decided(body: c.Formula, end: End, presence: Presence) -> c.Formula:
    """The normal form of a body, which a cut at the end of a trace does not make false."""
    return nnf(without_presence(if_longer(body) if end == "undecided" else body, presence))


def without_presence(formula: c.Formula, presence: Presence) -> c.Formula:
    """A formula's truth where it is defined, without presence."""
    return rewritten(relative(formula, presence).value)


def _one_false_at_most(body: c.Formula) -> list[c.Formula]:
    """The two directions of `<->`; otherwise the formula itself."""
    one = body.left if isinstance(body, c.And) else None
    if isinstance(body, c.And) and isinstance(one, c.Implies) and body == iff(one.left, one.right):
        return [body.left, body.right]
    return [body]


def counted(clause: Clause, tables: Tables) -> Clause:
    """Remove unused variables and quantifiers over empty sorts from a clause; count its cells."""
    if not all(map(tables.full_size, clause.axes)):
        return replace(clause, axes=(), body=c.Truth(True))
    body = inhabited(clause.body, tables)
    used = free_axes(body)
    times = math.prod(tables.full_size(axis) for axis in clause.axes if axis not in used)
    axes = tuple(a for a in clause.axes if a in used)
    return replace(clause, axes=axes, body=body, cells=clause.cells * times)


def atom_of(name: str, axes: tuple[c.Axis, ...]) -> c.Atom:
    """An atom of a predicate with variables as arguments, each over a sort."""
    return c.Atom(name, tuple(c.Variable(axis, axis.sort or "") for axis in axes))


def stated(definition: Definition, static: bool) -> Clause:
    """A definition as a hard clause; for a static predicate, at the first time point."""
    atom = atom_of(definition.name, definition.axes)
    says = nnf(c.And(c.Implies(atom, definition.formula), c.Implies(definition.formula, atom)))
    body = either(c.Not(_FIRST), says) if static else says
    return Clause(definition.name, definition.axes, body, None)


def written_in(
    formula: c.Formula, definitions: Mapping[str, Definition], is_static: Callable[[str], bool]
) -> c.Formula:
    """Replace atoms by their definitions; the result is in normal form."""
    if not predicates_in(formula) & set(definitions):
        return formula
    fresh = 0

    def rule(node: c.Core) -> c.Core:
        nonlocal fresh
        if not isinstance(node, c.Atom) or node.predicate not in definitions:
            return node
        definition = definitions[node.predicate]
        fresh += 1
        body = _bound(definition.formula, definition.axes, node.args, str(fresh))
        if is_static(node.predicate):
            body = c.Aggregate(False, c.And(_FIRST, body), c.Window(), past=True)
        return body

    return nnf(transform(formula, rule))


def _bound(
    formula: c.Formula, axes: tuple[c.Axis, ...], terms: tuple[c.Term, ...], suffix: str
) -> c.Formula:
    """Replace free variables by terms, and rename bound variables, so that no name clashes."""
    values = dict(zip(axes, terms, strict=True))

    def visit(node: c.Core, below: list[c.Core]) -> Any:
        if isinstance(node, c.Variable):
            if node.axis in values:
                return values[node.axis]
            return c.Variable(_renamed(node.axis, suffix), node.sort, node.column)
        result = rebuilt(node, below)
        if isinstance(result, c.Quantifier):
            return c.Quantifier(
                result.universal,
                tuple(_renamed(a, suffix) for a in result.axes),
                result.guard,
                result.body,
            )
        return result

    value: c.Formula = fold(formula, visit)
    return value


def _renamed(axis: c.Axis, suffix: str) -> c.Axis:
    return c.Axis(f"{axis.name}'{suffix}", axis.sort, axis.relation)


class NumberedEntity(c.Constant):
    """An entity by its number, in place of a variable or a name."""

    __slots__ = ()


def number_of(term: c.Constant) -> int | None:
    """The number of a numbered entity; None for a named one."""
    return int(term.name[1:]) if isinstance(term, NumberedEntity) else None


def entity(number: int, sort: str) -> NumberedEntity:
    """The entity with a number."""
    return NumberedEntity(f"#{number}", sort)


def numbered(formula: c.Formula, names: Collection[str], tables: Tables) -> c.Formula:
    """Replace named entities by numbers in the atoms of some predicates."""

    def by_number(term: c.Term) -> c.Term:
        if isinstance(term, c.Constant) and number_of(term) is None:
            return entity(tables.constant(term), term.sort)
        return term

    def rule(node: c.Core) -> c.Core:
        if isinstance(node, c.Atom) and node.predicate in names:
            return c.Atom(node.predicate, tuple(map(by_number, node.args)))
        return node

    return transform(formula, rule)


def with_place(formula: c.Formula, axis: c.Axis, place: int, tables: Tables) -> c.Formula:
    """Replace the variables of an axis by the entities at one place of the axis."""
    row = None if axis.relation is None else tables.relation(axis.relation)[place].tolist()

    def rule(node: c.Core) -> c.Core:
        if isinstance(node, c.Variable) and node.axis == axis:
            return entity(place if row is None else row[node.column or 0], node.sort)
        return node

    return transform(formula, rule)


def spelled_out(
    formula: c.Formula, small: Callable[[c.Axis, c.Formula], bool], tables: Tables
) -> c.Formula:
    """Replace quantifiers over few places by conjunctions or disjunctions.

    Args:
        formula: a formula in normal form.
        small: whether to spell out an axis of a quantifier, given the axis and the body.
        tables: the entities of each sort, and the tuples of each relation.
    """

    def visit(node: c.Core, below: list[c.Core]) -> Any:
        result = rebuilt(node, below)
        if not isinstance(result, c.Quantifier):
            return result
        body, axes = result.body, list(result.axes)
        for axis in result.axes:
            if small(axis, body):
                axes.remove(axis)
                join = both if result.universal else either
                total: c.Formula = c.Truth(result.universal)
                for place in range(tables.full_size(axis)):
                    total = join(total, with_place(body, axis, place, tables))
                body = total
        return c.Quantifier(result.universal, tuple(axes), None, body) if axes else body

    value: c.Formula = fold(formula, visit)
    return value


def inhabited(formula: c.Formula, tables: Tables) -> c.Formula:
    """Remove quantifiers over empty sorts; the result is in normal form.

    After that, a quantifier whose variables do not occur has no effect.
    """

    def rule(node: c.Core) -> c.Core:
        if isinstance(node, c.Quantifier) and not all(map(tables.full_size, node.axes)):
            return c.Truth(node.universal)
        return node

    return nnf(transform(formula, rule))


def pieces(node: c.Connective, kind: type[c.Connective]) -> list[c.Formula]:
    """The two operands of a connective; in a long formula, all operands of its chain."""
    if written_out(node) < _LONG:
        return [node.left, node.right]
    return operands(node, kind)


def not_too_deep(formula: c.Formula, what: str) -> c.Formula:
    """Return a formula if its operators do not nest too deep; a chain of & or | counts as one.

    Raises:
        LimitError: operators nest too deep.
    """

    def visit(node: c.Core, below: list[int]) -> int:
        within = (
            depth - (isinstance(node, c.And | c.Or) and type(child) is type(node))
            for child, depth in zip(children(node), below, strict=True)
        )
        return 1 + max(within, default=0)

    depth = fold(formula, visit)
    if depth > MOST_NESTED:
        raise LimitError(f"{what} nests {depth} operators; at most {MOST_NESTED} are followed")
    return formula


def decisive(node: c.Formula, universal: bool) -> list[c.Formula]:
    """The parts that are all true for a witness, or all false for a counterexample."""
    return operands(node, c.Or if universal else c.And)


def is_node(node: c.Formula) -> c.AnyFormula:
    """Return a node of the normal form, with a type for `match`."""
    match c.closed(node):
        case c.Implies() | c.Aggregate():
            raise AssertionError(node)
        case (
            c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Not() | c.And() | c.Or()
            | c.Quantifier() | c.Shift() | c.Until()
        ) as plain:  # fmt: skip
            return plain
        case never:
            assert_never(never)


def settled(formula: c.Formula) -> c.Formula:
    """Decide equations of numbered entities; the result is in normal form."""
    if isinstance(formula, c.And):  # an atom and its definition must stay two parts
        return c.And(*(nnf(transform(p, _decided)) for p in (formula.left, formula.right)))
    return nnf(transform(formula, _decided))


def _decided(node: c.Core) -> c.Core:
    """Replace an equation of two numbered entities by its truth."""
    if isinstance(node, c.Equal):
        sides = [number_of(t) for t in (node.left, node.right) if isinstance(t, c.Constant)]
        if len(sides) == 2 and None not in sides:
            return c.Truth(sides[0] == sides[1])
    return node


def replaced_in(formula: c.Formula, parts: Mapping[c.Core, c.Formula]) -> c.Formula:
    """Replace parts of a formula, the outermost first."""
    if formula in parts:
        return parts[formula]
    below = children(formula)
    return rebuilt(
        formula, [replaced_in(p, parts) if isinstance(p, c.Formula) else p for p in below]
    )


def interchangeable(formula: c.Formula, one: c.Axis, other: c.Axis) -> bool:
    """Whether a formula has the same meaning with two of its variables exchanged."""
    turned = {one: other, other: one}

    def turn(node: c.Core) -> c.Core:
        if isinstance(node, c.Variable) and node.axis in turned:
            return replace(node, axis=turned[node.axis])
        return node

    alike = (one.sort, one.relation) == (other.sort, other.relation)
    return alike and transform(transform(formula, turn), _sorted) == transform(formula, _sorted)


def _sorted(node: c.Core) -> c.Core:
    """Sort the operands of a node, so that the written order does not matter."""
    if isinstance(node, c.And | c.Or):
        return reduce(type(node), sorted(operands(node, type(node)), key=hash))
    if isinstance(node, c.Equal):
        return c.Equal(*sorted((node.left, node.right), key=hash))
    return node


def is_edge(node: c.Formula) -> bool:
    """Whether a formula is `first`, `last`, a truth value, or the negation of one of these."""
    inner = node.arg if isinstance(node, c.Not) else node
    return isinstance(inner, c.Edge | c.Truth)
