"""The state behind the pages: the sides, and what was computed about them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from torch import Tensor

from fotltn.analysis.after_changes import after_changes, outcome
from fotltn.analysis.cells import Cells
from fotltn.analysis.changes import Change, with_changes
from fotltn.analysis.explain.explanation import Explanation, why
from fotltn.analysis.metrics import Report
from fotltn.analysis.over_time import truth_over_time
from fotltn.analysis.overview import Overview, overview
from fotltn.analysis.prediction_rows import Predictions, predictions
from fotltn.analysis.some_cells import some_cells
from fotltn.analysis.tally import Standing
from fotltn.errors import FotError, did_you_mean, listing
from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom, CheckedFormula, check_formula
from fotltn.logic.parts import predicates_in
from fotltn.posterior.doubts import Doubts
from fotltn.posterior.objections import Objections
from fotltn.semantics.tables import Tables
from fotltn.syntax import formula as f
from fotltn.syntax.parse import parse_formula
from fotltn.syntax.theory import PredicateDecl
from fotltn.web.budget import HEAVY, check_cost
from fotltn.web.jobs import PATIENCE, Jobs, Lane
from fotltn.web.places import worst_place
from fotltn.web.responses import RefusedError
from fotltn.web.sides import Side

T = TypeVar("T")

#: How many of the facts that would change a cell most are shown.
INFLUENCES = 8

#: After changes of facts, an axiom of at most this many cells is evaluated completely.
FEW = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class Typed:
    """A typed formula about one side: its text, and the checked formula."""

    text: str
    side: int
    syntax: f.Formula
    checked: CheckedFormula


class WebState:
    """One or two sides, and the work about them.

    Args:
        sides: the models or facts to inspect.
        budget: the bytes that a typed formula may use.
        room: the size of the cache of results, in bytes.
    """

    def __init__(self, sides: Sequence[Side], *, budget: int, room: int = 2**30) -> None:
        """Start without results."""
        self.sides, self.budget = tuple(sides), budget
        self.jobs = Jobs(room)
        self.standings: dict[tuple[int, str], Standing | str] = {}
        self.worst: dict[tuple[int, str], dict[str, object] | None] = {}
        self._last: tuple[tuple[int, tuple[Change, ...]], Tables] | None = None

    def warm(self) -> None:
        """Evaluate something small, so that all modules for evaluation are loaded early."""
        for side in self.sides:
            side.view.degrees({"": c.Truth(True)})

    def start(self) -> None:
        """Start to compute what the first page needs."""
        for side, inspected in enumerate(self.sides):
            for axiom in inspected.view.theory.axioms:
                self._ahead(self._see, side, axiom.name)
        for side, inspected in enumerate(self.sides):
            self._ahead(self._read, side, "true", lane=Lane.CHECKS)
            self._ahead(self._measure, side)
            for name in inspected.view.learned:
                self._ahead(self._lay_out, side, name)

    async def _get(
        self,
        job: Callable[..., T],
        *args: Hashable,
        lane: Lane = Lane.PAGES,
        patience: float = PATIENCE,
    ) -> T:
        """Return the result of a method, computed once per arguments."""
        key = (job.__name__, *args)
        return await self.jobs.get(key, partial(job, *args), lane=lane, patience=patience)

    def _ahead(self, job: Callable[..., object], *args: Hashable, lane: Lane = Lane.AHEAD) -> None:
        """Compute the result of a method before it is requested."""
        self.jobs.ahead((job.__name__, *args), partial(job, *args), lane)

    @property
    def comparable(self) -> bool:
        """Whether there are two sides with the same traces and entities."""
        return len(self.sides) == 2 and self.sides[0].same_world(self.sides[1])

    # --- names --------------------------------------------------------------------------------

    def axiom(self, side: int, name: str) -> CheckedAxiom:
        """Return an axiom by name."""
        return _called(name, {a.name: a for a in self.sides[side].view.theory.axioms}, "axiom")

    def predicate(self, side: int, name: str) -> PredicateDecl:
        """Return a predicate by name."""
        return _called(name, self.sides[side].view.theory.signature.predicates, "predicate")

    def shared(self, name: str) -> bool:
        """Return whether two comparable sides have the same axiom under a name."""
        sources = [a.source for s in self.sides for a in s.view.theory.axioms if a.name == name]
        return self.comparable and len(sources) == 2 and sources[0] == sources[1]

    # --- axioms -------------------------------------------------------------------------------

    async def seen(
        self, side: int, name: str, *, lane: Lane = Lane.PAGES, patience: float = PATIENCE
    ) -> Overview:
        """Return the heat map of an axiom."""
        self.axiom(side, name)
        return await self._get(self._see, side, name, lane=lane, patience=patience)

    async def apart(self, name: str) -> Tensor:
        """Return the rows of an axiom, by how far the two sides differ."""
        one, other = await self.seen(0, name), await self.seen(1, name)
        return await self.jobs.get(("apart", name), lambda: one.heat.apart(other.heat))

    def _see(self, side: int, name: str) -> Overview:
        try:
            cells = self.sides[side].view.cells(self.axiom(side, name))
            seen = overview(cells, cells.value())
        except FotError as error:
            self.standings[side, name] = error.diagnostics[0].message
            raise
        self.standings[side, name] = seen.standing
        self.worst[side, name] = worst_place(seen)
        return seen

    async def row_of(self, side: int, seen: Overview, words: tuple[str, ...], row: int) -> Overview:
        """Return one binding of a formula that has too many to show."""
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
        seen: Overview,
        words: tuple[str, ...],
        row: int,
        time: int,
        *,
        fixed: bool,
        changes: tuple[Change, ...] = (),
    ) -> Explanation:
        """Explain the value of a cell.

        Args:
            side: the side.
            seen: the heat map of the cell.
            words: a key of the heat map: the name of an axiom and its text, or the text of a typed
                formula.
            row: the row of the cell.
            time: the time of the cell.
            fixed: whether only learned facts may change.
            changes: facts with other degrees.
        """
        cells = seen.heat.cells
        unchanged = self.sides[side].view.fixed if fixed else ()
        return await self.jobs.get(
            ("cell", side, words, row, time, fixed, changes),
            lambda: why(
                cells, cells.cell(row, time), top=INFLUENCES, fixed=unchanged, changes=changes
            ),
            lane=Lane.TYPED if len(words) == 1 else Lane.PAGES,
        )

    def touched(self, side: int, changes: Sequence[Change]) -> list[str]:
        """Return the axioms that changes can affect."""
        view = self.sides[side].view
        how = view.tables.decisions
        changed = {one.predicate for one in changes} | (set(how.definitions) if how else set())
        axioms = view.theory.axioms
        return [a.name for a in axioms if changed & set(predicates_in(a.formula))]

    async def then(
        self, side: int, name: str, changes: tuple[Change, ...], patience: float
    ) -> Standing:
        """Return the value of an axiom, and its violations, after changes of facts."""
        cells = self.sides[side].view.cells(self.axiom(side, name))
        now = self.standings.get((side, name))

        def job() -> Standing:
            then = None
            if isinstance(now, Standing) and cells.rows * cells.columns > FEW:
                then = after_changes(cells, changes, now)
            return then or outcome(cells.viewed(tables=self._changed(side, changes)))

        key = ("then", side, name, changes)
        return await self.jobs.get(key, job, lane=Lane.MAPS, patience=patience)

    def _changed(self, side: int, changes: tuple[Change, ...]) -> Tables:
        """Return tables with changes; cached, because several axioms need them."""
        if self._last is None or self._last[0] != (side, changes):
            self._last = ((side, changes), with_changes(self.sides[side].view.tables, changes))
        return self._last[1]

    # --- typed formulas -----------------------------------------------------------------------

    async def check(self, side: int, text: str) -> Typed:
        """Parse and check a typed formula.

        Raises:
            FotError: lists all errors of the formula.
        """
        return await self._get(self._read, side, text, lane=Lane.CHECKS)

    def _read(self, side: int, text: str) -> Typed:
        syntax = parse_formula(text, source="formula")
        return Typed(
            text, side, syntax, check_formula(syntax, self.sides[side].view.theory.signature)
        )

    async def value(self, typed: Typed) -> float | None:
        """Return the value of a typed formula; None if it has free variables.

        Raises:
            LimitError: the formula or its heat map would cost too much.
        """
        heavy = await self._heavy(typed)
        if typed.checked.free:
            return None
        return await self.jobs.get(
            ("value", typed.side, typed.text),
            self._cells(typed).value,
            lane=Lane.HEAVY if heavy else Lane.TYPED,
        )

    async def _heavy(self, typed: Typed) -> bool:
        """Return whether a formula takes long.

        Raises:
            LimitError: the formula would cost too much.
        """
        cells = self._cells(typed)
        operations = await self.jobs.get(
            ("cost", typed.side, typed.text), lambda: check_cost(cells),
            lane=Lane.CHECKS,
        )  # fmt: skip
        return operations > HEAVY

    async def mapped(self, typed: Typed) -> Overview:
        """Return the heat map of a typed formula."""
        value = await self.value(typed)
        return await self.jobs.get(
            ("map", typed.side, typed.text),
            lambda: overview(self._cells(typed), value),
            lane=Lane.HEAVY if await self._heavy(typed) else Lane.MAPS,
        )

    def _cells(self, typed: Typed) -> Cells:
        """Return the cells of a typed formula, within the budget."""
        return self.sides[typed.side].view.under(budget=self.budget).cells(typed.checked)

    # --- predicates ---------------------------------------------------------------------------

    async def table(self, side: int, name: str) -> Predictions:
        """Return the predictions and labels of a predicate."""
        self.predicate(side, name)
        return await self._get(self._lay_out, side, name)

    def _lay_out(self, side: int, name: str) -> Predictions:
        decl, inspected = self.predicate(side, name), self.sides[side]
        signature, model = inspected.view.theory.signature, inspected.model
        arguments = tuple(f.Var(v) for v in _variables(decl, signature.constants))
        checked = check_formula(f.Atom(name, arguments), signature)
        train, test = (None, None) if model is None else (model.world.labels, model.world.test)
        return predictions(inspected.view.cells(checked), name, train, test)

    async def doubts(self, side: int) -> Doubts:
        """Return the labels that worlds were sampled with, the most doubtful first."""
        return await self._get(self._doubt, side)

    def _doubt(self, side: int) -> Doubts:
        model = self.sides[side].model
        assert model is not None
        return model.doubts()

    async def against(self, side: int, places: tuple[int, ...]) -> list[Objections]:
        """Return the evidence against some of the doubtful labels, by their positions."""
        every = await self.doubts(side)
        return await self.jobs.get(
            ("against", side, places), lambda: every.all_against([every[n] for n in places])
        )

    async def metrics(self, side: int) -> Report | None:
        """Measure predictions on test facts; None if there are none."""
        return await self._get(self._measure, side)

    def _measure(self, side: int) -> Report | None:
        model = self.sides[side].model
        return None if model is None else model.metrics(threshold=self.sides[side].view.threshold)


def _called(name: str, known: Mapping[str, T], what: str) -> T:
    """Return the item with a name; raise an error that lists the known names."""
    if name not in known:
        hint = did_you_mean(name[:80], known) or f"there are {listing(known)}"
        raise RefusedError(404, f"the theory has no {what} '{name[:80]}'", hint)
    return known[name]


def _variables(decl: PredicateDecl, taken: Collection[str]) -> list[str]:
    """Return a variable name for each argument of a predicate, different from constants."""
    numbered = (f"x{i}" for i in itertools.count(1))
    free = (n for n in itertools.chain("xyz", numbered) if n not in taken)
    return list(itertools.islice(free, len(decl.sorts)))
