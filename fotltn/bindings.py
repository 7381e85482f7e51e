"""Formulas in blocks of bindings: their first variable ranges over some of its entities at a time.

In a block of `forall x. …`, x ranges over some of its entities. Everything inside sees all data:
other variables, `exists`, `until`. So a block is a formula like any other, on tables with fewer
rows for x. Its result is one number for each trace, such as a sum, and the numbers of all blocks
give the value of the formula. A formula that does not begin with a quantifier, or whose aggregation
has no such numbers, is computed as a whole, in one of the blocks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, assert_never

import torch
from torch import Tensor

from fotltn.algebra import expr as e
from fotltn.algebra.lower import lower
from fotltn.algebra.passes import optimize
from fotltn.algebra.passes.share import share
from fotltn.engine import (
    Compiled,
    Prepared,
    Program,
    as_given,
    compiled,
    sizes_of,
    within_rounding,
)
from fotltn.evaluation import Evaluator, statement
from fotltn.logic import core as c
from fotltn.logic.parts import predicates_in, symbols
from fotltn.logic.signature import Signature
from fotltn.plan.build import BUDGET, guard_factor
from fotltn.plan.context import pointwise
from fotltn.semantics.config import Semantics
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.sharing import ranges
from fotltn.syntax.theory import FunctionDecl, PredicateDecl
from fotltn.tree import postorder, transform


class _BlockTable(NamedTuple):
    """A table in which some arguments range over a block: its symbol, and their places."""

    symbol: str
    places: tuple[int, ...]

    @property
    def name(self) -> str:
        """A name that no symbol of a theory has."""
        return f"{self.symbol}[{','.join(map(str, self.places))}]"


@dataclass(frozen=True, slots=True)
class Ranged:
    """A formula in which one variable ranges over a block of its entities or tuples.

    Args:
        formula: the formula, with another axis for the variable.
        variable: the axis that the variable had.
        axis: the axis that it has.
        predicates: the tables of predicates that have fewer rows.
        functions: the tables of functions that have fewer rows.
    """

    formula: c.Formula
    variable: c.Axis
    axis: c.Axis
    predicates: frozenset[_BlockTable]
    functions: frozenset[_BlockTable]

    def tables(self, tables: Tables, rows: range, fixed: Tables) -> Tables:
        """Return the tables of a block.

        Args:
            tables: all tables.
            rows: the numbers of the entities, or tuples, that the variable ranges over.
            fixed: tables that stay the same; their rows are taken only once.
        """
        used = predicates_in(self.formula)
        predicates: dict[str, Tensor | SparseTable] = {
            name: table
            for name, table in tables.predicates.items()
            if name in used or isinstance(table, Tensor)
        }
        for one in self.predicates:
            table = tables.table(one.symbol)
            if fixed.predicates.get(one.symbol) is table:
                made = functools.partial(_rows, table, one, rows)
                predicates[one.name] = fixed.derived(("rows", one, rows), made)
            else:
                predicates[one.name] = _rows(table, one, rows)
        functions = dict(tables.functions)
        for one in self.functions:
            functions[one.name] = _dense_rows(tables.function(one.symbol), one.places, rows)
        sizes, relations = dict(tables.sizes), dict(tables.relations)
        if self.axis.relation is not None:
            every = tables.relation(str(self.variable.relation))
            relations[self.axis.relation] = fixed.derived(
                ("tuples", self.axis, rows), lambda: every[rows.start : rows.stop]
            )
        else:
            sizes[str(self.axis.sort)] = len(rows)
            numbers = torch.arange(rows.start, rows.stop, device=tables.lengths.device)
            functions[_entity(self.variable)] = numbers.reshape(1, -1, 1)
        return replace(
            tables, predicates=predicates, functions=functions, sizes=sizes, relations=relations
        )


def ranged(formula: c.Formula, variable: c.Axis) -> Ranged | None:
    """Return a formula with a variable for blocks; None if the variable is bound twice."""
    bound = [n for n in postorder(formula) if isinstance(n, c.Quantifier) and variable in n.axes]
    if len(bound) > 1 or (bound and bound[0] is not formula):
        return None
    axis = replace(
        variable,
        sort=None if variable.sort is None else f"{variable.sort}[some]",
        relation=None if variable.relation is None else f"{variable.relation}[some]",
    )
    predicates, functions = set[_BlockTable](), set[_BlockTable]()

    def is_it(term: c.Core) -> bool:
        return isinstance(term, c.Variable) and term.axis == variable

    def moved(args: tuple[c.Term, ...]) -> tuple[tuple[int, ...], tuple[c.Term, ...]]:
        places = tuple(place for place, arg in enumerate(args) if is_it(arg))
        return places, tuple(
            c.Variable(axis, str(axis.sort)) if place in places else arg
            for place, arg in enumerate(args)
        )

    def number(term: c.Term) -> c.Term:
        if not is_it(term):
            return term
        some = c.Variable(axis, str(axis.sort))
        return c.Apply(_entity(variable), (some,), str(variable.sort))

    def rule(node: c.Core) -> c.Core:
        if isinstance(node, c.Quantifier):
            axes = tuple(axis if a == variable else a for a in node.axes)
            return c.Quantifier(node.universal, axes, node.guard, node.body)
        if variable.relation is not None:  # its variables read columns, which hold the entities
            moves = isinstance(node, c.Variable) and is_it(node)
            return c.Variable(axis, node.sort, node.column) if moves else node  # type: ignore[attr-defined]
        if isinstance(node, c.Equal):
            return c.Equal(number(node.left), number(node.right))
        if isinstance(node, c.Atom | c.Apply):
            places, args = moved(node.args)
            if not places:
                return node
            if isinstance(node, c.Atom):
                one = _BlockTable(node.predicate, places)
                predicates.add(one)
                return c.Atom(one.name, args)
            one = _BlockTable(node.function, places)
            functions.add(one)
            return c.Apply(one.name, args, node.sort)
        return node

    some = transform(formula, rule)
    return Ranged(some, variable, axis, frozenset(predicates), frozenset(functions))


def _entity(variable: c.Axis) -> str:
    """The name of the function from places in a block to entities."""
    return f"{variable.sort}[number]"


def _rows(table: Tensor | SparseTable, one: _BlockTable, rows: range) -> Tensor | SparseTable:
    if isinstance(table, Tensor):
        return _dense_rows(table, one.places, rows)
    inside = torch.ones_like(table.index[0], dtype=torch.bool)
    for place in one.places:
        row = table.index[1 + place]
        inside &= (row >= rows.start) & (row < rows.stop)
    where = inside.nonzero().squeeze(-1)  # looked for once: a mask would be searched for each row
    index, shape = table.index[:, where], list(table.shape)
    for place in one.places:
        index[1 + place] -= rows.start
        shape[1 + place] = len(rows)
    return SparseTable(index, table.value[where], tuple(shape), table.default)


def _dense_rows(table: Tensor, places: Sequence[int], rows: range) -> Tensor:
    for place in places:
        table = table.narrow(1 + place, rows.start, len(rows))
    return table


# --- results of blocks -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Outermost:
    """The aggregation that a formula begins with.

    Args:
        ranged: the formula.
        reduce: the aggregation as a reduction.
        above: the operations on its value, in order.
    """

    ranged: Ranged
    reduce: e.Reduce
    above: tuple[e.PointwiseExpr, ...]

    def together(self, numbers: Tensor, counts: Tensor) -> Tensor:
        """Return the value of the formula on each trace, from numbers of shape (block, trace).

        Args:
            numbers: the results of blocks.
            counts: the number of bindings of each; for extremes, of those with the extreme.
        """
        match self.reduce.kind:
            case e.Reduction.MEAN:
                value = numbers.sum(0) / counts.sum(0).clamp(min=1)
            case e.Reduction.SUM:
                value = numbers.sum(0)
            case e.Reduction.PRODUCT:
                value = numbers.prod(0)
            case e.Reduction.MINIMUM:
                value = _extreme(numbers, counts, numbers.detach().amin(0))
            case e.Reduction.MAXIMUM:
                value = _extreme(numbers, counts, numbers.detach().amax(0))
            case never:
                assert_never(never)
        for node in self.above:
            operands = [
                value.new_full((), part.value) if isinstance(part, e.Scalar) else value
                for part in e.pointwise_parts(node) or ()
            ]
            value = pointwise(node, operands)
        return value


#: The result of a block without bindings.
_NOTHING = {
    e.Reduction.MEAN: 0.0, e.Reduction.SUM: 0.0, e.Reduction.PRODUCT: 1.0,
    e.Reduction.MINIMUM: 1.0, e.Reduction.MAXIMUM: 0.0,
}  # fmt: skip


def _extreme(numbers: Tensor, counts: Tensor, value: Tensor) -> Tensor:
    """Return the extreme of blocks, whose slope goes to all that have it."""
    shares = torch.where(numbers.detach() == value, counts, 0.0)
    shares = shares / shares.sum(0).clamp(min=1)
    return value + (shares * (numbers - numbers.detach())).sum(0)


@lru_cache(maxsize=256)
def _outermost(
    some: Ranged,
    predicates: tuple[PredicateDecl, ...],
    functions: tuple[FunctionDecl, ...],
    semantics: Semantics,
) -> _Outermost | None:
    """Return the aggregation over the variable that ranges over blocks, if it is the outermost."""
    signature = Signature(
        predicates={decl.name: decl for decl in predicates},
        functions={decl.name: decl for decl in functions},
    )
    node, above = lower(some.formula, signature, semantics), list[e.PointwiseExpr]()
    while isinstance(node, e.PointwiseExpr):
        moving = [p for p in e.pointwise_parts(node) or () if not isinstance(p, e.Scalar)]
        if len(moving) != 1:
            return None
        above.append(node)
        node = moving[0]
    if not isinstance(node, e.Reduce) or some.axis not in node.over:
        return None
    return _Outermost(some, node, tuple(reversed(above)))


@lru_cache(maxsize=256)
def _program(formulas: tuple[tuple[str, _Outermost], ...], semantics: Semantics) -> Program:
    """Return the reductions of formulas at the first time point, ready to be planned."""
    expressions = {name: optimize(e.At(one.reduce, 0)) for name, one in formulas}
    return Program(
        {name: one.ranged.formula for name, one in formulas}, share(expressions), semantics, 0
    )


@dataclass(slots=True, eq=False)
class BlockedFormulas:
    """Closed formulas at the first time point, in blocks of bindings.

    Args:
        formulas: the formulas by name.
        semantics: their semantics.
        blocks: the number of blocks.
        fixed: tables that stay the same; guards must be among these.
        budget: the memory that intermediate results of a block may take.
        backend: the backend of PyTorch's compiler that fuses plans; None for none.
    """

    formulas: Mapping[str, c.Formula]
    semantics: Semantics
    blocks: int
    fixed: Tables
    budget: int = BUDGET
    backend: str | None = None
    _shared: dict[str, _Outermost] | None = None
    _plans: dict[int, tuple[Prepared | Compiled, Tensor]] = field(default_factory=dict)
    _others: dict[int, Evaluator] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write the formulas for entities that come and go."""
        presence = self.fixed.presence
        if presence:
            self.formulas = {n: statement(f, presence) for n, f in self.formulas.items()}

    def of(self, number: int, tables: Tables) -> tuple[Tensor, Tensor]:
        """Return the results of a block, and its counts, each of shape (formula, trace)."""
        device = tables.lengths.device
        shared, names = self._of_blocks(tables), [*self.formulas]
        shape = (len(names), tables.batch)
        counts = torch.zeros(shape, dtype=torch.float64, device=device)
        rows = {
            name: torch.full(shape[1:], _NOTHING[one.reduce.kind], dtype=torch.float64).to(device)
            for name, one in shared.items()
        }
        here = {n: o for n, o in shared.items() if len(self._rows(o.ranged, number, tables))}
        if here:
            some = self._tables(here, number, tables)
            plan, counted = self._plan(here, number, some)
            counts[[names.index(name) for name in here]] = counted
            for place, (name, value) in enumerate(plan(some).items()):
                numbers = value.tensor[..., 0].expand(tables.batch).double()
                mean = here[name].reduce.kind is e.Reduction.MEAN
                rows[name] = numbers * counted[place] if mean else numbers
        others = [name for name in names if name not in shared]
        mine = [n for place, n in enumerate(others) if place * self.blocks // len(others) == number]
        if mine:
            if number not in self._others:
                alone = {name: self.formulas[name] for name in mine}
                self._others[number] = Evaluator(
                    alone, self.semantics, 0, self.budget, self.backend
                )
            log = self.semantics.log_space
            values = self._others[number].by_trace(tables, 0, log=log)
            rows |= dict(zip(mine, values.double(), strict=True))
        nothing = torch.zeros(shape[1:], dtype=torch.float64, device=device)
        return torch.stack([rows.get(name, nothing) for name in names]), counts

    def together(self, numbers: Tensor, counts: Tensor, tables: Tables) -> Tensor:
        """Return the values of formulas, shape (formula, trace).

        In log space, these are logarithms.

        Args:
            numbers: the results of all blocks, shape (block, formula, trace).
            counts: their counts, of the same shape.
            tables: the tables.
        """
        shared = self._of_blocks(tables)
        return torch.stack(
            [
                shared[name].together(numbers[:, place], counts[:, place])
                if name in shared
                else numbers[:, place].sum(0)
                for place, name in enumerate(self.formulas)
            ]
        )

    def _rows(self, some: Ranged, number: int, tables: Tables) -> range:
        return ranges(tables.full_size(some.variable), self.blocks)[number]

    def _of_blocks(self, tables: Tables) -> dict[str, _Outermost]:
        """Return the formulas that blocks share, and how; the same in all processes."""
        if self._shared is None:
            ways = {n: self._way(formula, tables) for n, formula in self.formulas.items()}
            self._shared = {name: way for name, way in ways.items() if way is not None}
        return self._shared

    def _way(self, formula: c.Formula, tables: Tables) -> _Outermost | None:
        if self.semantics.log_space or not within_rounding(self.semantics, tables.dtype):
            return None
        if not isinstance(formula, c.Quantifier):
            return None
        if formula.guard is not None:
            known = {*self.fixed.predicates, *self.fixed.functions, *self.fixed.presence.added}
            if not {*symbols(formula.guard)} <= known:
                return None
        some = ranged(formula, max(formula.axes, key=tables.full_size))
        if some is None:
            return None
        signature = as_given({"": some.formula}, some.tables(tables, range(0), tables))
        predicates, functions = signature.predicates.values(), signature.functions.values()
        return _outermost(some, tuple(predicates), tuple(functions), self.semantics)

    def _tables(self, here: Mapping[str, _Outermost], number: int, tables: Tables) -> Tables:
        """Return the tables of a block, for all formulas."""
        parts = [
            one.ranged.tables(tables, self._rows(one.ranged, number, tables), self.fixed)
            for one in here.values()
        ]
        return replace(
            tables,
            predicates={n: t for part in parts for n, t in part.predicates.items()},
            functions={n: t for part in parts for n, t in part.functions.items()},
            sizes={n: size for part in parts for n, size in part.sizes.items()},
            relations={n: t for part in parts for n, t in part.relations.items()},
        )

    def _plan(
        self, here: Mapping[str, _Outermost], number: int, some: Tables
    ) -> tuple[Prepared | Compiled, Tensor]:
        plan = self._plans.get(number)
        if plan is None:
            program = _program(tuple(here.items()), self.semantics)
            prepared = program.prepare(some, dtype=some.dtype, budget=self.budget)
            made: Prepared | Compiled = prepared
            if self.backend:
                made = compiled(prepared, some, backend=self.backend)
            counted = [self._count(one.reduce, some) for one in here.values()]
            plan = self._plans[number] = (made, torch.stack(counted))
        return plan

    def _count(self, node: e.Reduce, some: Tables) -> Tensor:
        """Count the bindings of a block in each trace; for extremes, a block counts as one."""
        one = torch.ones(some.batch, dtype=torch.float64, device=some.lengths.device)
        if node.kind is not e.Reduction.MEAN:
            return one
        every = math.prod(some.size(axis) for axis in node.over)
        if node.guard is None:
            return one * every
        sizes = sizes_of(some, torch.float64)
        share_of = e.Reduce(e.Reduction.MEAN, node.over, False, guard_factor(node, sizes))
        program = Program({"": node.guard}, {"": optimize(e.At(share_of, 0))}, self.semantics, 0)
        prepared = program.prepare(some, dtype=torch.float64, budget=self.budget)
        value = prepared(some)[""].tensor[..., 0].expand(some.batch)
        return (value.double() * every).round()
