"""What pages are made from: whoever is inspected, and what was computed about them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from fotltn.analysis.cells import Cells
from fotltn.analysis.explain.explanation import Explanation, why
from fotltn.analysis.metrics import Report
from fotltn.analysis.over_time import TruthOverTime, truth_over_time
from fotltn.errors import FotError, did_you_mean, listing
from fotltn.evaluation import evaluate_core, over_traces
from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom, CheckedFormula, check_formula
from fotltn.syntax import formula as f
from fotltn.syntax.parse import parse_formula
from fotltn.syntax.theory import PredicateDecl
from fotltn.web.budget import check_cost
from fotltn.web.inspected import Inspected
from fotltn.web.jobs import PATIENCE, Jobs, Lane
from fotltn.web.responses import RefusedError
from fotltn.web.rows import Table, difference, predictions

#: Facts that would change a cell most, as many as are shown.
INFLUENCES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The heat map of a formula, with its value and the names of its rows.

    Args:
        heat: truth over bindings and time.
        value: the degree of the whole formula; None if it has free variables.
        count: the cells that count.
        violated: those of them that are false in two-valued logic.
    """

    heat: TruthOverTime
    value: float | None
    count: int
    violated: int

    @property
    def rate(self) -> float | None:
        """The share of cells that are violated."""
        return self.violated / self.count if self.count else None

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        held = (self.heat.values, self.heat.truth, self.heat.order, self.heat.errors)
        return sum(t.numel() * t.element_size() for t in held)


@dataclass(frozen=True, slots=True)
class Standing:
    """How an axiom stands.

    Args:
        value: its degree.
        count: the cells that count.
        violated: those of them that are false in two-valued logic.
        rate: the share of these.
        worst: the row of its worst cell, its time, and what it is called; None if none is wrong.
    """

    value: float
    count: int
    violated: int
    rate: float | None
    worst: tuple[int, int, str] | None


@dataclass(frozen=True, slots=True, eq=False)
class Typed:
    """A formula that somebody typed about one side: its text, and what it was read as."""

    text: str
    side: int
    syntax: f.Formula
    checked: CheckedFormula


@dataclass(frozen=True, slots=True)
class Place:
    """A cell of a heat map, by the number of its row and its time."""

    row: int
    time: int


class WebState:
    """One or two that are inspected, and the work about them.

    Args:
        sides: whoever is inspected.
        budget: bytes that a typed formula may take.
        room: bytes of results that are kept.
    """

    def __init__(self, sides: Sequence[Inspected], *, budget: int, room: int = 2**30) -> None:
        """Nothing is computed yet."""
        self.sides, self.budget = tuple(sides), budget
        self.jobs = Jobs(room)
        self.standings: dict[tuple[int, str], Standing | str] = {}

    def warm(self) -> None:
        """Evaluate something small, so that what evaluation needs is loaded before it is needed."""
        for side in self.sides:
            self._value(side, c.Truth(True))

    def start(self) -> None:
        """Begin with what the first page needs."""
        for side, inspected in enumerate(self.sides):
            for axiom in inspected.theory.axioms:
                self.jobs.ahead(("axiom", side, axiom.name), partial(self._see, side, axiom))
        for side, inspected in enumerate(self.sides):
            self.jobs.ahead(("typed", side, "true"), partial(self._read, side, "true"), Lane.CHECKS)
            self.jobs.ahead(("metrics", side), partial(self._measure, side))
            for name in inspected.learned:
                self.jobs.ahead(("predicate", side, name), partial(self._lay_out, side, name))

    @property
    def comparable(self) -> bool:
        """Whether there are two, about the same traces and entities."""
        return len(self.sides) == 2 and self.sides[0].same_world(self.sides[1])

    # --- names --------------------------------------------------------------------------------

    def axiom(self, side: int, name: str) -> CheckedAxiom:
        """An axiom by name."""
        for known in self.sides[side].theory.axioms:
            if known.name == name:
                return known
        names = [a.name for a in self.sides[side].theory.axioms]
        hint = did_you_mean(name[:80], names) or f"there are {listing(names)}"
        raise RefusedError(404, f"the theory has no axiom '{name[:80]}'", hint)

    def predicate(self, side: int, name: str) -> PredicateDecl:
        """A predicate by name."""
        known = self.sides[side].theory.signature.predicates
        if name not in known:
            hint = did_you_mean(name[:80], known) or f"there are {listing(known)}"
            raise RefusedError(404, f"the theory has no predicate '{name[:80]}'", hint)
        return known[name]

    def shared(self, name: str) -> bool:
        """Whether two that can be compared have the same axiom of a name."""
        found = [a.source for s in self.sides for a in s.theory.axioms if a.name == name]
        return self.comparable and len(found) == 2 and found[0] == found[1]

    # --- axioms -------------------------------------------------------------------------------

    async def seen(
        self, side: int, name: str, *, lane: Lane = Lane.PAGES, patience: float = PATIENCE
    ) -> Seen:
        """The heat map of an axiom."""
        axiom = self.axiom(side, name)
        return await self.jobs.get(
            ("axiom", side, name), lambda: self._see(side, axiom), lane=lane, patience=patience
        )

    async def apart(self, name: str) -> Tensor:
        """The rows of an axiom by how far two differ."""
        one, other = await self.seen(0, name), await self.seen(1, name)
        return await self.jobs.get(("apart", name), lambda: difference(one.heat, other.heat))

    def _see(self, side: int, axiom: CheckedAxiom) -> Seen:
        try:
            cells = self.sides[side].cells(axiom)
            found = _seen(cells, cells.value())
        except FotError as error:
            self.standings[side, axiom.name] = error.diagnostics[0].message
            raise
        self.standings[side, axiom.name] = _standing(found)
        return found

    # --- cells --------------------------------------------------------------------------------

    async def cell(
        self, seen: Seen, key: tuple[object, ...], side: int, place: Place, *, fixed: bool
    ) -> Explanation:
        """Why a cell has its value.

        Args:
            seen: the heat map that it is of.
            key: what tells this heat map from others.
            side: whoever is looked at.
            place: where the cell is.
            fixed: whether only what is learned may be changed.
        """
        given = self.sides[side].given if fixed else ()
        cells = seen.heat.cells
        return await self.jobs.get(
            ("cell", key, side, place, fixed),
            lambda: why(
                cells, cells.cell(place.row, place.time), top=INFLUENCES,
                fixed=given,
            ),
            lane=Lane.TYPED if key[0] == "typed" else Lane.PAGES,
        )  # fmt: skip

    # --- typed formulas -----------------------------------------------------------------------

    async def check(self, side: int, text: str) -> Typed:
        """A typed formula, read and checked.

        Raises:
            FotError: with everything that is wrong with it.
        """
        return await self.jobs.get(
            ("typed", side, text), partial(self._read, side, text), lane=Lane.CHECKS
        )

    def _read(self, side: int, text: str) -> Typed:
        syntax = parse_formula(text, source="formula")
        return Typed(text, side, syntax, check_formula(syntax, self.sides[side].theory.signature))

    async def value(self, typed: Typed) -> float | None:
        """The value of a typed formula; None if it has free variables.

        Raises:
            LimitError: the formula, or its heat map, would take too much.
        """
        side, checked = self.sides[typed.side], typed.checked

        def job() -> float | None:
            check_cost(side.cells(checked), self.budget)
            return None if checked.free else self._value(side, checked.formula)

        return await self.jobs.get(("value", typed.side, typed.text), job, lane=Lane.TYPED)

    async def mapped(self, typed: Typed) -> Seen:
        """The heat map of a typed formula."""
        value = await self.value(typed)
        return await self.jobs.get(
            ("map", typed.side, typed.text),
            lambda: _seen(self.sides[typed.side].cells(typed.checked), value),
            lane=Lane.MAPS,
        )

    def _value(self, side: Inspected, formula: c.Formula) -> float:
        found = evaluate_core(
            formula, side.tables, side.semantics, at=0, budget=self.budget,
            threshold=side.threshold if side.semantics.boolean else None,
        ).tensor[..., 0]  # fmt: skip
        return float(over_traces(found.expand(side.tables.batch), side.semantics))

    # --- predicates ---------------------------------------------------------------------------

    async def table(self, side: int, name: str) -> Table:
        """The predictions and labels of a predicate."""
        self.predicate(side, name)
        return await self.jobs.get(("predicate", side, name), partial(self._lay_out, side, name))

    def _lay_out(self, side: int, name: str) -> Table:
        decl, inspected = self.predicate(side, name), self.sides[side]
        signature = inspected.theory.signature
        arguments = tuple(f.Var(v) for v in _variables(decl, signature.constants))
        checked = check_formula(f.Atom(name, arguments), signature)
        return predictions(inspected.cells(checked), name, inspected.train, inspected.test)

    async def metrics(self, side: int) -> Report | None:
        """How good predictions are on facts that were held back; None without any."""
        return await self.jobs.get(("metrics", side), partial(self._measure, side))

    def _measure(self, side: int) -> Report | None:
        model = self.sides[side].model
        if model is None:
            return None
        return model.metrics(threshold=self.sides[side].threshold)


def _variables(decl: PredicateDecl, taken: Collection[str]) -> list[str]:
    """A name for each argument of a predicate, which no constant has."""
    numbered = (f"x{i}" for i in itertools.count(1))
    free = (n for n in itertools.chain("xyz", numbered) if n not in taken)
    return list(itertools.islice(free, len(decl.sorts)))


def _seen(cells: Cells, value: float | None) -> Seen:
    heat = truth_over_time(cells)
    return Seen(heat, value, heat.count, heat.violated)


def _standing(seen: Seen) -> Standing:
    assert seen.value is not None
    return Standing(seen.value, seen.count, seen.violated, seen.rate, _worst(seen))


def _worst(seen: Seen) -> tuple[int, int, str] | None:
    """The weakest violation; if there is none, the weakest cell that is not fully true."""
    heat, cells = seen.heat, seen.heat.cells
    degrees = heat.values.nan_to_num(nan=1.0)
    if seen.violated:
        degrees = torch.where(heat.truth == 0, degrees, torch.inf)
    lowest = degrees.amin() if degrees.numel() else torch.tensor(1.0)
    if not seen.violated and lowest >= 1:
        return None
    rows, times = (degrees == lowest).nonzero().T
    bindings = max(1, cells.bindings)
    first = ((rows // bindings * degrees.shape[1] + times) * bindings + rows % bindings).argmin()
    row, time = int(rows[first]), int(times[first])
    where = [f"{v} = {e}" for v, e in cells.binding(cells.cell(row, 0)).items()]
    where += [f"time {time}"] if len(heat.times) > 1 else []
    trace = cells.trace_of(row)
    where += [] if trace is None else [f"trace {trace}"]
    return row, time, ", ".join(where)
