"""What pages are made from: whoever is inspected, and what was computed about them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from fotltn.analysis.cells import Cells
from fotltn.analysis.changes import Change, with_changes
from fotltn.analysis.evaluate_cells import used_predicates
from fotltn.analysis.explain.explanation import Explanation, why
from fotltn.analysis.metrics import Report
from fotltn.analysis.over_time import TruthOverTime, truth_over_time
from fotltn.analysis.some_cells import some_cells
from fotltn.analysis.violations import first_violations
from fotltn.decisions import two_valued
from fotltn.errors import FotError, did_you_mean, listing
from fotltn.evaluation import evaluate_core, over_traces
from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom, CheckedFormula, check_formula
from fotltn.syntax import formula as f
from fotltn.syntax.parse import parse_formula
from fotltn.syntax.theory import PredicateDecl
from fotltn.web.budget import HEAVY, check_cost
from fotltn.web.inspected import Inspected
from fotltn.web.jobs import PATIENCE, Jobs, Lane
from fotltn.web.places import where
from fotltn.web.responses import RefusedError
from fotltn.web.rows import Predictions, difference, predictions

T = TypeVar("T")

#: Facts that would change a cell most, as many as are shown.
INFLUENCES = 8

#: The cells from which on only bindings with violations are shown, and as many of them.
MANY, SHOWN = 2**26, 256


@dataclass(frozen=True, slots=True)
class WorstCell:
    """The worst cell of a formula.

    Args:
        row: its row.
        time: its time.
        name: what it is called.
        place: the parameters of addresses that lead to it.
    """

    row: int
    time: int
    name: str
    place: dict[str, object]

    def as_dict(self) -> dict[str, object]:
        """The same for machines."""
        return {"row": self.row, "time": self.time, "where": self.name, "place": self.place}


@dataclass(frozen=True, slots=True)
class Standing:
    """How a formula stands.

    Args:
        value: its degree; None if it has free variables.
        count: the cells that count, the undecided ones left out.
        undecided: those that are false only since their trace ends.
        violated: those of them that are false in two-valued logic.
        worst: its worst cell; None if none is wrong.
    """

    value: float | None
    count: int
    undecided: int
    violated: int
    worst: WorstCell | None

    def as_dict(self) -> dict[str, float | None]:
        """The numbers for machines, with the share of decided cells that are violated."""
        return {
            "value": self.value, "count": self.count, "undecided": self.undecided,
            "violated": self.violated, "rate": self.violated / self.count if self.count else None,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The heat map of a formula, and how the formula stands.

    Args:
        heat: all bindings, or some of those with violations.
        standing: how it stands, by all bindings.
        every: where there are too many bindings, the cells of all.
    """

    heat: TruthOverTime
    standing: Standing
    every: Cells | None = None

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return sum(
            t.nbytes for t in (self.heat.values, self.heat.truth, self.heat.order, self.heat.errors)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Typed:
    """A formula that somebody typed about one side: its text, and what it was read as."""

    text: str
    side: int
    syntax: f.Formula
    checked: CheckedFormula


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
                self._ahead(self._see, side, axiom.name)
        for side, inspected in enumerate(self.sides):
            self._ahead(self._read, side, "true", lane=Lane.CHECKS)
            self._ahead(self._measure, side)
            for name in inspected.learned:
                self._ahead(self._lay_out, side, name)

    async def _get(
        self,
        job: Callable[..., T],
        *args: Hashable,
        lane: Lane = Lane.PAGES,
        patience: float = PATIENCE,
    ) -> T:
        """What a method gives for arguments, computed once."""
        key = (job.__name__, *args)
        return await self.jobs.get(key, partial(job, *args), lane=lane, patience=patience)

    def _ahead(self, job: Callable[..., object], *args: Hashable, lane: Lane = Lane.AHEAD) -> None:
        """The same before it is asked for."""
        self.jobs.ahead((job.__name__, *args), partial(job, *args), lane)

    @property
    def comparable(self) -> bool:
        """Whether there are two, about the same traces and entities."""
        return len(self.sides) == 2 and self.sides[0].same_world(self.sides[1])

    # --- names --------------------------------------------------------------------------------

    def axiom(self, side: int, name: str) -> CheckedAxiom:
        """An axiom by name."""
        return _called(name, {a.name: a for a in self.sides[side].theory.axioms}, "axiom")

    def predicate(self, side: int, name: str) -> PredicateDecl:
        """A predicate by name."""
        return _called(name, self.sides[side].theory.signature.predicates, "predicate")

    def shared(self, name: str) -> bool:
        """Whether two that can be compared have the same axiom of a name."""
        sources = [a.source for s in self.sides for a in s.theory.axioms if a.name == name]
        return self.comparable and len(sources) == 2 and sources[0] == sources[1]

    # --- axioms -------------------------------------------------------------------------------

    async def seen(
        self, side: int, name: str, *, lane: Lane = Lane.PAGES, patience: float = PATIENCE
    ) -> Seen:
        """The heat map of an axiom."""
        self.axiom(side, name)
        return await self._get(self._see, side, name, lane=lane, patience=patience)

    async def apart(self, name: str) -> Tensor:
        """The rows of an axiom by how far two differ."""
        one, other = await self.seen(0, name), await self.seen(1, name)
        return await self.jobs.get(("apart", name), lambda: difference(one.heat, other.heat))

    def _see(self, side: int, name: str) -> Seen:
        try:
            cells = self.sides[side].cells(self.axiom(side, name))
            seen = _of_many(cells) or _seen(cells, cells.value())
        except FotError as error:
            self.standings[side, name] = error.diagnostics[0].message
            raise
        self.standings[side, name] = seen.standing
        return seen

    async def row_of(self, side: int, seen: Seen, words: tuple[str, ...], row: int) -> Seen:
        """One binding of a formula that has too many to show."""
        assert seen.every is not None
        every = seen.every
        numbers = every.cell(row, 0).numbers
        return await self.jobs.get(
            ("row", side, words, row),
            lambda: replace(seen, heat=truth_over_time(some_cells(every, [numbers]))),
        )

    async def cell(
        self,
        side: int,
        seen: Seen,
        words: tuple[str, ...],
        row: int,
        time: int,
        *,
        fixed: bool,
        changes: tuple[Change, ...] = (),
    ) -> Explanation:
        """Why a cell has its value.

        Args:
            side: whoever is looked at.
            seen: the heat map that it is of.
            words: what tells this heat map from others: the name of an axiom and its text, or the
                text of a typed formula.
            row: the row of the cell.
            time: its time.
            fixed: whether only what is learned may be changed.
            changes: facts that have other degrees.
        """
        cells = seen.heat.cells
        unchanged = self.sides[side].unpredicted if fixed else ()
        return await self.jobs.get(
            ("cell", side, words, row, time, fixed, changes),
            lambda: why(
                cells, cells.cell(row, time), top=INFLUENCES, fixed=unchanged, changes=changes
            ),
            lane=Lane.TYPED if len(words) == 1 else Lane.PAGES,
        )

    def touched(self, side: int, changes: Sequence[Change]) -> list[str]:
        """The axioms that changes can reach."""
        inspected = self.sides[side]
        how = inspected.tables.decisions
        changed = {one.predicate for one in changes} | (set(how.definitions) if how else set())
        axioms = inspected.theory.axioms
        return [a.name for a in axioms if changed & set(used_predicates(a.formula))]

    async def then(
        self, side: int, name: str, changes: tuple[Change, ...], patience: float
    ) -> tuple[float, int]:
        """The value of an axiom, and its violations, if facts were others."""
        inspected, axiom = self.sides[side], self.axiom(side, name)

        def job() -> tuple[float, int]:
            changed = replace(inspected, tables=with_changes(inspected.tables, changes))
            cells = changed.cells(axiom)
            counts = cells.counts()
            return cells.value(), int((counts.support - counts.held).sum())

        key = ("then", side, name, changes)
        return await self.jobs.get(key, job, lane=Lane.MAPS, patience=patience)

    # --- typed formulas -----------------------------------------------------------------------

    async def check(self, side: int, text: str) -> Typed:
        """A typed formula, read and checked.

        Raises:
            FotError: with everything that is wrong with it.
        """
        return await self._get(self._read, side, text, lane=Lane.CHECKS)

    def _read(self, side: int, text: str) -> Typed:
        syntax = parse_formula(text, source="formula")
        return Typed(text, side, syntax, check_formula(syntax, self.sides[side].theory.signature))

    async def value(self, typed: Typed) -> float | None:
        """The value of a typed formula; None if it has free variables.

        Raises:
            LimitError: the formula, or its heat map, would take too much.
        """
        side, checked = self.sides[typed.side], typed.checked
        heavy = await self._heavy(typed)
        if checked.free:
            return None
        return await self.jobs.get(
            ("value", typed.side, typed.text),
            lambda: self._value(side, checked.formula),
            lane=Lane.HEAVY if heavy else Lane.TYPED,
        )

    async def _heavy(self, typed: Typed) -> bool:
        """Whether a formula takes long.

        Raises:
            LimitError: it would take too much.
        """
        cells = self.sides[typed.side].cells(typed.checked)
        operations = await self.jobs.get(
            ("cost", typed.side, typed.text), lambda: check_cost(cells, self.budget),
            lane=Lane.CHECKS,
        )  # fmt: skip
        return operations > HEAVY

    async def mapped(self, typed: Typed) -> Seen:
        """The heat map of a typed formula."""
        value = await self.value(typed)
        return await self.jobs.get(
            ("map", typed.side, typed.text),
            lambda: _seen(self.sides[typed.side].cells(typed.checked), value),
            lane=Lane.HEAVY if await self._heavy(typed) else Lane.MAPS,
        )

    def _value(self, side: Inspected, formula: c.Formula) -> float:
        tables = side.tables
        if side.semantics.boolean:
            tables = two_valued(tables, side.threshold, used_predicates(formula))
        value = evaluate_core(formula, tables, side.semantics, at=0, budget=self.budget)
        degrees = value.tensor[..., 0]
        return float(over_traces(degrees.expand(side.tables.batch), side.semantics))

    # --- predicates ---------------------------------------------------------------------------

    async def table(self, side: int, name: str) -> Predictions:
        """The predictions and labels of a predicate."""
        self.predicate(side, name)
        return await self._get(self._lay_out, side, name)

    def _lay_out(self, side: int, name: str) -> Predictions:
        decl, inspected = self.predicate(side, name), self.sides[side]
        signature = inspected.theory.signature
        arguments = tuple(f.Var(v) for v in _variables(decl, signature.constants))
        checked = check_formula(f.Atom(name, arguments), signature)
        return predictions(inspected.cells(checked), name, inspected.train, inspected.test)

    async def metrics(self, side: int) -> Report | None:
        """How good predictions are on facts that were held back; None without any."""
        return await self._get(self._measure, side)

    def _measure(self, side: int) -> Report | None:
        model = self.sides[side].model
        return None if model is None else model.metrics(threshold=self.sides[side].threshold)


def _called(name: str, known: Mapping[str, T], what: str) -> T:
    """What has a name, or a message with those that there are."""
    if name not in known:
        hint = did_you_mean(name[:80], known) or f"there are {listing(known)}"
        raise RefusedError(404, f"the theory has no {what} '{name[:80]}'", hint)
    return known[name]


def _variables(decl: PredicateDecl, taken: Collection[str]) -> list[str]:
    """A name for each argument of a predicate, which no constant has."""
    numbered = (f"x{i}" for i in itertools.count(1))
    free = (n for n in itertools.chain("xyz", numbered) if n not in taken)
    return list(itertools.islice(free, len(decl.sorts)))


def _seen(cells: Cells, value: float | None) -> Seen:
    heat = truth_over_time(cells)
    violated, undecided = heat.violated, heat.undecided
    numbers = (heat.count - undecided, undecided, violated)
    return Seen(heat, Standing(value, *numbers, _worst(heat, violated)))


def _of_many(cells: Cells) -> Seen | None:
    """The first bindings with violations, of a formula that has very many; None if it has not."""
    if cells.rows * cells.columns <= MANY:
        return None
    first = first_violations(cells, 4 * SHOWN)
    if first is None:
        return None
    bindings = dict.fromkeys(cell.numbers for cell in first.cells)
    heat = truth_over_time(some_cells(cells, list(bindings)[:SHOWN]))
    worst = _worst(heat, heat.violated) if first.violated else None
    standing = Standing(cells.value(), first.count, first.undecided, first.violated, worst)
    return Seen(heat, standing, cells)


def _worst(heat: TruthOverTime, violated: int) -> WorstCell | None:
    """The weakest violation; if there is none, the weakest cell that is not fully true."""
    cells = heat.cells
    degrees = heat.values.nan_to_num(nan=1.0)
    if violated:
        degrees = torch.where(heat.truth == 0, degrees, torch.inf)
    lowest = degrees.amin() if degrees.numel() else torch.tensor(1.0)
    if not violated and lowest >= 1:
        return None
    rows, times = (degrees == lowest).nonzero().T
    bindings = max(1, cells.bindings)
    first = ((rows // bindings * degrees.shape[1] + times) * bindings + rows % bindings).argmin()
    row, time = int(rows[first]), int(times[first])
    words = [f"{v} = {e}" for v, e in cells.binding(cells.cell(row, 0)).items()]
    words += [f"time {time}"] if len(heat.times) > 1 else []
    trace = cells.trace_of(row)
    words += [] if trace is None else [f"trace {trace}"]
    return WorstCell(row, time, ", ".join(words), where(cells, row, time))
