"""Cells: a formula over tables, binding by binding and point by point.

`forall x. G(body)` has a cell for each trace, each entity x and each time. Audits, rules,
violations, explanations and heat maps all look at cells, and at nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fotltn.analysis.axes import binding, columns
from fotltn.analysis.cell_weights import weights
from fotltn.analysis.evaluate_cells import CellBlock, sweep
from fotltn.analysis.presence import guarded, present_where_used
from fotltn.analysis.record import look_up
from fotltn.analysis.truncation import undecided
from fotltn.analysis.unlabelled import tables_of
from fotltn.analysis.view import View
from fotltn.arguments import public
from fotltn.decisions import threshold_of, two_valued
from fotltn.errors import DataError, listing
from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom, CheckedFormula
from fotltn.logic.prefix import Prefix, outer, prefix, rebuild
from fotltn.logic.presence import relative
from fotltn.logic.text import text_of, written
from fotltn.semantics.config import CRISP, Semantics
from fotltn.semantics.tables import Tables, Value, spread
from fotltn.sharing import WHOLE, BindingPart
from fotltn.syntax.formula import Formula
from fotltn.threads import entries

if TYPE_CHECKING:
    from fotltn.analysis.counts import Counts
    from fotltn.analysis.explain.explanation import Explanation
    from fotltn.analysis.explain.repairs import Repair
    from fotltn.analysis.over_time import TruthOverTime
    from fotltn.analysis.violations import WorstCells


@dataclass(frozen=True, slots=True)
class Cell:
    """A trace, a place on each axis, and a time."""

    trace: int
    numbers: tuple[int, ...]
    time: int


@entries
@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    r"""The cells of a formula: the ∀ and G that it begins with, laid out.

    `fotltn.cells` returns them. Use them to see where a formula fails: its worst cells, their
    values, and what explains them.

    Args:
        name: the name of the axiom, or `formula`.
        text: the whole formula.
        prefix: the ∀ and G, and the body that has a value at each cell.
        view: the tables, and how they are read.
        free: the free variables. A formula with free variables is read at all times.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> data = fot.tables(theory, Near=[1.0, 1.0, 0.0], Stop=[0.0, 1.0, 0.5])
    >>> cells = fot.cells(theory["Obey"], data)
    >>> isinstance(cells, fot.Cells), cells.name
    (True, 'Obey')
    >>> [(cell.time, round(cell.value, 2)) for cell in cells.worst(2)]
    [(1, 0.5)]
    """

    name: str
    text: str
    prefix: Prefix
    view: View
    free: tuple[c.Axis, ...] = ()

    # --- what they are ------------------------------------------------------------------------

    @property
    def tables(self) -> Tables:
        """The tables that the formula is evaluated on."""
        return self.view.tables

    @property
    def semantics(self) -> Semantics:
        """The semantics of the formula."""
        return self.view.semantics

    def viewed(self, **other: Any) -> Cells:
        """Return the same cells on other `tables`, or under another `semantics`."""
        return replace(self, view=replace(self.view, **other))

    @property
    def axes(self) -> tuple[c.Axis, ...]:
        """The axes of a binding."""
        return self.free + self.prefix.axes

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of a binding."""
        return tuple(v for a in self.axes for v in a.name.split(","))

    @property
    def body(self) -> c.Formula:
        """The formula that has a value at each cell."""
        return self.prefix.body

    @property
    def undecided(self) -> c.Formula | None:
        """A formula that is true at cells that fail only because their trace ends, if any can."""
        return undecided(self.body, self.view.end)

    @property
    def formula(self) -> c.Formula:
        """The whole formula."""
        return rebuild(self.prefix.layers, self.body)

    @property
    def source(self) -> Formula:
        """The whole formula, in the language."""
        return written(self.formula)

    @property
    def timed(self) -> bool:
        """Whether there are cells at more time points than the first."""
        return self.prefix.timed

    @property
    def boolean(self) -> Tables:
        """The tables that the formula uses, in two-valued logic."""
        used = tables_of(self.formula, self.tables)
        return two_valued(self.tables, self.view.threshold, used, budget=self.view.budget)

    def threshold_of(self, predicate: str) -> float | None:
        """Return the smallest degree that makes a predicate true; None if it is defined."""
        return threshold_of(self.tables, predicate, self.view.threshold)

    def value(self) -> float:
        """The degree of the whole formula; several traces are aggregated as by ∀."""
        return self.view.degrees({self.name: self.formula})[self.name]

    # --- what people ask of them --------------------------------------------------------------

    @public
    def worst(self, top: int = 10) -> WorstCells:
        """Return the cells that the error comes from: violations first, then weak cells.

        Within each kind, the largest errors come first; ties are in the order of trace, time and
        binding. Shares refer to the error of all cells. If ∀ and G differ in p, or if there is an
        epsilon, cells are those of the outermost means with one p; `cells` says which.

        Args:
            top: the maximum number of cells.

        Raises:
            DataError: a table is missing, or the formula has free variables.
        """
        from fotltn.analysis.violations import violations

        return violations(self, top)

    def counts(self) -> Counts:
        """Count the cells, and those where the antecedent, or also the consequent, is true."""
        from fotltn.analysis.counts import count

        return count(self)[0]

    def over_time(self) -> TruthOverTime:
        """Return the degree and the truth of every cell, with one row per binding."""
        from fotltn.analysis.over_time import truth_over_time

        return truth_over_time(self)

    @public
    def explain(
        self, *, time: int = 0, trace: str | int = 0, fixed: Collection[str] = (), **binding: str
    ) -> Explanation:
        """Explain why a cell has its value, and what would change it.

        Args:
            time: the time point.
            trace: the name of the trace, or its number.
            fixed: predicates whose facts must not change.
            binding: the name of an entity for each variable.

        Raises:
            DataError: there is no such cell.
        """
        from fotltn.analysis.explain.explanation import why

        return why(self, self.find(binding, time, trace), fixed=fixed)

    @public
    def repair(
        self, *, time: int = 0, trace: str | int = 0, fixed: Collection[str] = (), **binding: str
    ) -> Repair:
        """Find the fewest facts to flip so that a cell is true; arguments as in `explain`.

        Raises:
            DataError: there is no such cell.
        """
        from fotltn.analysis.explain.repairs import repair
        from fotltn.analysis.explain.site import Site

        return repair(Site(self, self.find(binding, time, trace)), fixed=fixed)

    # --- a part at a time ---------------------------------------------------------------------

    def blocks(
        self,
        formulas: Mapping[str, c.Formula],
        *,
        truths: Mapping[str, c.Formula] | None = None,
        crisp: bool = False,
        count: bool = False,
        prefix: Prefix | None = None,
        part: BindingPart = WHOLE,
    ) -> Iterator[CellBlock]:
        """Yield the values of formulas at all cells, in blocks.

        Args:
            formulas: the formulas by name; their free variables are variables of the cells.
            truths: further formulas that are always evaluated in two-valued logic.
            crisp: evaluate all formulas in two-valued logic.
            count: weight each cell by how often it occurs, instead of by its share of the mean.
            prefix: other ∀ and G, instead of those of the formula.
            part: a part of the places of the largest axis, which then comes first; all by default.
        """
        layers = self.prefix if prefix is None else prefix
        axes = self.free + layers.axes
        if part.parts > 1:
            axes = tuple(sorted(axes, key=self.tables.size, reverse=True))
        two = crisp or self.semantics.boolean
        there = Prefix(guarded(layers.layers, self.boolean), layers.body)
        count_all = weights(there, self.boolean, count=True)
        shares = None if count else weights(self.counting(layers), self.boolean)
        tables, semantics = (self.boolean, CRISP) if two else (self.tables, self.semantics)
        yield from sweep(
            formulas,
            axes,
            tables,
            semantics,
            truths=truths,
            boolean=self.boolean if truths else None,
            there=count_all,
            shares=shares,
            present=present_where_used(axes, layers.body, self.boolean),
            budget=self.view.budget,
            part=part,
        )

    def counting(self, layers: Prefix) -> Prefix:
        """The same layers with guards that select what counts where entities come and go."""
        formula = relative(rebuild(layers.layers, layers.body), self.boolean.presence).value
        return outer(prefix(formula), len(layers.layers))

    # --- rows: bindings in a trace ------------------------------------------------------------

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of places of each axis."""
        return tuple(self.tables.size(a) for a in self.axes)

    @property
    def bindings(self) -> int:
        """The number of rows of a trace."""
        return math.prod(self.sizes)

    @property
    def rows(self) -> int:
        """The number of all rows: by trace, then by place, with the last axis varying fastest."""
        return self.tables.batch * self.bindings

    @property
    def columns(self) -> int:
        """The number of times."""
        return self.tables.horizon if self.timed else 1

    def cell(self, row: int, time: int) -> Cell:
        """Return the cell of a row at a time.

        Raises:
            DataError: there is no such row or time.
        """
        if not 0 <= row < self.rows:
            raise DataError(f"there is no row {row}: there are 0 to {self.rows - 1}")
        if not 0 <= time < self.columns:
            raise DataError(f"there is no column {time}: there are 0 to {self.columns - 1}")
        trace, place = divmod(row, self.bindings)
        numbers = np.unravel_index(place, self.sizes) if self.sizes else ()
        return Cell(trace, tuple(map(int, numbers)), time)

    def row(self, cell: Cell) -> int:
        """Return the row of a cell."""
        place = np.ravel_multi_index(cell.numbers, self.sizes) if self.sizes else 0
        return cell.trace * self.bindings + int(place)

    def trace_of(self, row: int) -> str | None:
        """Return the name of a row's trace, if there are several traces."""
        return None if self.tables.batch == 1 else self.tables.names.trace(row // self.bindings)

    def label(self, row: int) -> str:
        """Return the label of a row."""
        trace = self.trace_of(row)
        where = [] if trace is None else [f"{trace}:"]
        return " ".join([*where, ", ".join(self.binding(self.cell(row, 0)).values())]).strip()

    @public
    def containing(self, text: str) -> Tensor:
        """Return which rows bind an entity whose name contains a text, shape `(row,)`."""
        tables, wanted = self.tables, text.casefold()
        rows = torch.zeros(tables.batch, *self.sizes, 1, dtype=torch.bool)
        for axis in self.axes:
            for _, sort, entities in columns(axis, tables):
                named = [
                    [[wanted in tables.names.called(sort, t, i).casefold()] for i in entities]
                    for t in range(tables.batch)
                ]
                hits = torch.tensor(named, dtype=torch.bool).reshape(tables.batch, -1, 1)
                rows |= spread(Value((axis,), hits), self.axes)
        return rows.reshape(-1)

    def binding(self, cell: Cell) -> dict[str, str]:
        """Return the names of a cell's entities, by variable."""
        return binding(self.axes, cell.numbers, cell.trace, self.tables)

    # --- cells by name ------------------------------------------------------------------------

    @public
    def find(self, entities: Mapping[str, str], time: int = 0, trace: str | int = 0) -> Cell:
        """Return the cell of a binding and a time.

        Args:
            entities: the name of an entity for each variable.
            time: the time point.
            trace: the name of the trace, or its number.

        Raises:
            DataError: there is no such cell.
        """
        number = self._trace(trace)
        if odd := sorted(set(entities) ^ set(self.variables)):
            wrong = "is not bound" if odd[0] in self.variables else "is not a variable of the rule"
            raise DataError(f"'{odd[0]}' {wrong}; its variables are {listing(self.variables)}")
        cell = Cell(number, tuple(self._number(a, entities, number) for a in self.axes), time)
        self.check(cell)
        return cell

    def check(self, cell: Cell) -> None:
        """Raise an error for a cell that does not exist.

        Raises:
            DataError: the cell does not exist.
        """
        self._trace(cell.trace)
        if len(cell.numbers) != len(self.axes):
            variables = listing(self.variables)
            raise DataError(
                f"a cell of this rule binds {variables}, not {len(cell.numbers)} numbers"
            )
        for axis, number, size in zip(self.axes, cell.numbers, self.sizes, strict=True):
            if not 0 <= number < size:
                raise DataError(f"'{axis.name}' has {size} places, and none is {number}")
        length = self.tables.length(cell.trace)
        if isinstance(cell.time, bool) or not 0 <= cell.time < length:
            raise DataError(
                f"the time point {cell.time} does not exist: there are 0 to {length - 1}"
            )

    def check_predicates(self, names: Collection[str]) -> None:
        """Raise an error for predicates that do not exist.

        Raises:
            DataError: a predicate does not exist.
        """
        for name in names:
            look_up(self.tables.signature.predicates, name, f"no predicate is named '{name}'")

    def _trace(self, trace: str | int) -> int:
        batch = self.tables.batch
        if isinstance(trace, str):
            known = {self.tables.names.trace(i): i for i in range(batch)}
            return look_up(known, trace, f"no trace is named '{trace}'")
        if not 0 <= trace < batch:
            raise DataError(f"there is no trace {trace}: there are 0 to {batch - 1}")
        return trace

    def _number(self, axis: c.Axis, entities: Mapping[str, str], trace: int) -> int:
        """The place on an axis at which variables are bound to entities of these names."""
        wanted = tuple(entities[v] for v in axis.name.split(","))
        if axis.relation is None:
            known = self.tables.numbers(str(axis.sort), trace)
            problem = f"no entity of sort '{axis.sort}' is named '{wanted[0]}'"
            return look_up(known, wanted[0], problem)
        sorts = self.tables.signature.relations[axis.relation].sorts
        numbers = [
            self.tables.numbers(sort, trace).get(name, -1)
            for sort, name in zip(sorts, wanted, strict=True)
        ]
        tuples = self.tables.relation(axis.relation)
        hits = (tuples == torch.tensor(numbers, device=tuples.device)).all(-1).nonzero()
        if not len(hits):
            raise DataError(
                f"({', '.join(wanted)}) is not a tuple of the relation '{axis.relation}'"
            )
        return int(hits[0])


def cells_of(formula: CheckedAxiom | CheckedFormula, view: View) -> Cells:
    """The cells of an axiom, or of a formula that may have free variables."""
    layers = prefix(formula.formula)
    if isinstance(formula, CheckedAxiom):
        return Cells(formula.name, str(formula.source), layers, view)
    if formula.free and not layers.timed:
        layers = prefix(c.Aggregate(True, formula.formula, c.Window(), past=False))
    return Cells("formula", text_of(formula.formula), layers, view, formula.free)
