"""A monitor: follows a theory on a trace that arrives step by step."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from fotltn.arguments import public
from fotltn.errors import DataError, Diagnostic, LimitError
from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom, CheckedTheory
from fotltn.logic.check import check as check_theory
from fotltn.logic.nnf import nnf
from fotltn.logic.parts import predicates_in
from fotltn.monitor.cells import Columns
from fotltn.monitor.checks import Checked, constants_of
from fotltn.monitor.crisp import Crisp
from fotltn.monitor.domain import MOST_MARKS, Array, Domain
from fotltn.monitor.graded import Graded
from fotltn.monitor.history import History
from fotltn.monitor.intake import fixed_sorts
from fotltn.monitor.judge import FALSE_NOW, LOST, SURE, TRUE_NOW, Judge
from fotltn.monitor.limits import Limits
from fotltn.monitor.loop import MOST_STEPS, StepLoop, learn_texts
from fotltn.monitor.numbering import Arrival, Numbering
from fotltn.monitor.outer import STUCK, outer
from fotltn.monitor.reader import Stretch
from fotltn.monitor.series import GrowingError
from fotltn.monitor.steps import Fact, Header, StepInput, TraceStep, header_of
from fotltn.monitor.unseen import count_variables, tells_apart
from fotltn.monitor.verdicts import State, States, ValueBounds, Verdict
from fotltn.semantics.config import STABLE_PRODUCT, Semantics, check_share, named
from fotltn.syntax.load import AnyTheory
from fotltn.threads import entries
from fotltn.tree import postorder

#: Which values of axioms to compute: all, those that need constant memory, or none.
Keep = Literal["all", "constant", "none"]

_CELLS = 1 << 23  # size of the tables of steps that are processed together

#: The most cells of predicates and bindings of axioms that a monitor follows: about a gigabyte.
MOST_CELLS = 1 << 24


@entries
class Monitor(StepLoop[States]):
    r"""Follows the axioms of a theory on one trace, step by step.

    Use it for early verdicts on whole axioms, and for their values so far; `Watch` reports every
    single violation.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> monitor = fot.Monitor(theory)
    >>> states = monitor.steps([{"facts": [["Near"]]}, {"facts": []}])
    >>> [str(state["Obey"].verdict) for state in states]
    ['open', 'violated']
    """

    @public
    def __init__(
        self,
        theory: AnyTheory,
        *,
        entities: Mapping[str, Sequence[str]] | None = None,
        header: Header | Mapping[str, Any] | str | None = None,
        horizon: int | None = None,
        semantics: str | Semantics = STABLE_PRODUCT,
        threshold: float = 0.5,
        values: Keep = "constant",
        values_every: int | None = None,
        like: Monitor | None = None,
    ) -> None:
        """Begin before the first step.

        Args:
            theory: the axioms to follow: a theory, its file or its text.
            entities: the names, by sort, of entities known from the start. Others may come.
            header: entities with static facts and values, in place of `entities`: an object with
                the keys of a first line, or that line itself.
            horizon: the number of steps of the trace, if it is known.
            semantics: the semantics of the axioms' values.
            threshold: for verdicts, the smallest degree that counts as true.
            values: which values of axioms to keep: those that need constant memory, all, or none.
            values_every: give values with the states after every so many steps. With `steps`, this
                is much faster than calling `values` after each step.
            like: another monitor of the same theory, to share its automata. Use it for many traces.

        Raises:
            DataError: the header does not fit the theory.
        """
        super().__init__(header, horizon)
        checked = check_theory(theory)
        check_share(threshold)
        if values_every is not None and values_every < 1:
            raise DataError(f"values come every step or less often, not every {values_every} steps")
        self.values_every = values_every
        self.theory, self.signature = checked, checked.signature
        self.semantics = named(semantics) if isinstance(semantics, str) else semantics
        self.threshold = threshold
        header = Header(entities=entities or {}) if header is None else header_of(header)
        formulas = [a.formula for a in checked.axioms]
        used = predicates_in(*formulas)
        self.domain = _domain(checked, fixed_sorts(checked.signature, header), used)
        self.columns = Columns(self.domain, self.signature, sorted(used))
        graded = values != "none" and not self.semantics.boolean
        layers = [n for n in postorder(*formulas) if isinstance(n, c.Quantifier)]
        guards = [n.guard for n in layers if n.guard is not None]
        hard = predicates_in(*guards) if graded else set()
        self.intake = Numbering(self.signature, self.domain, self.columns, used, hard)
        self.history = History(self.signature, self.columns, self.intake)
        table = None if like is None else like.crisp.table
        self.crisp: Crisp = Crisp(self.signature, self.columns, table)
        self.judge = Judge(self.crisp, self.signature)
        self.graded = Graded(self.signature, self.semantics, self.domain, self.intake)
        self.limits = Limits(self.graded)
        self.growing: dict[str, str] = {}
        self.valueless: dict[str, str] = {}
        self._rows: Array = np.zeros(0, dtype=np.intp)
        self._arrived = True
        self._cells: list[dict[int, float]] = []
        self._results: list[dict[str, Array]] = []
        self.intake.header(header)
        for axiom in checked.axioms:
            self._follow(axiom)
            if graded:
                self._grade(axiom, values)
        self._last = tuple(State(a.name, Verdict.OPEN, None, {}, None) for a in checked.axioms)
        self._numbers: list[int] = []
        self._codes: list[int] = []
        self._open: list[list[State]] = []

    def _begin(self, step: TraceStep, checked: Sequence[Checked]) -> None:
        """Number the entities of the first step, and put automata into their first states."""
        self.intake.begin(step, checked)
        for name, reason in self.crisp.begin(self._fixed()).items():
            self.growing[name] = reason
            self.history.add(name, next(a.formula for a in self.theory.axioms if a.name == name))
        self.judge.renew()
        names = [s.axiom for s in self._last]
        self._numbers = [names.index(a.name) for a in self.crisp.axioms]
        self._codes = [-1] * len(self._numbers)
        self._open = [
            [replace(self._last[n], now=now) for now in (False, True)] for n in self._numbers
        ]

    def _follow(self, axiom: CheckedAxiom) -> None:
        """Choose how to follow an axiom: with automata, or on the whole trace at the end."""
        parts = outer(nnf(axiom.formula))
        try:
            if parts is None:
                raise LimitError(STUCK)
            self.crisp.add(axiom.name, parts)
        except LimitError as error:
            self.growing[axiom.name] = error.diagnostics[0].message
            self.history.add(axiom.name, axiom.formula)

    def _grade(self, axiom: CheckedAxiom, values: Keep) -> None:
        """Choose how to compute an axiom's value: with totals, on the whole trace, or never."""
        try:
            self.graded.add(axiom.name, axiom.formula)
        except GrowingError as error:
            self.valueless[axiom.name] = str(error)
            if values == "all":
                self.history.add(axiom.name, axiom.formula)

    # --- steps --------------------------------------------------------------------------------

    def step(self, facts: StepInput = (), values: Iterable[Fact] = ()) -> States:
        """Take one step, and return the states of all axioms.

        Args:
            facts: the facts: predicates with their arguments, and a degree if it is not 1; or
                functions with their arguments and values, such as `("speed", "ego", 3.5)`. Facts
                that are not stated are false. Or a whole step: an object with the keys `facts` and
                `values`, or a line of JSON.
            values: the values of temporal functions.

        Raises:
            DataError: a fact does not fit the theory. The monitor stays as it was.
        """
        (states,) = self._one(facts, values)
        return states

    @public
    def finish(self) -> States:
        """Return the verdicts on the whole trace. No steps can follow.

        A trace that ends before its horizon is judged as it ended.

        Raises:
            DataError: there was no step.
        """
        self._check_begun()
        self.ended = True
        return States(self.count - 1, self._final(self.crisp.rows[self.crisp.live]))

    def values(self) -> dict[str, ValueBounds]:
        """Return the value of each axiom if the trace ended now, and bounds on its final value.

        Raises:
            DataError: there was no step.
        """
        self._check_begun()
        self.limits.follow(self.graded)
        (values,) = self._rows_of_values(1)
        return values

    def _rows_of_values(self, count: int) -> list[dict[str, ValueBounds]]:
        """Return the values of axioms, for each of the rows that the limits follow."""
        now = self.limits.values()
        limits = self.limits.bounds(self.horizon) if not self.ended else {}
        from_history = self.history.values(
            self._whole_trace(), self.semantics, threshold=self.threshold
        )
        columns: dict[str, Iterator[ValueBounds]] = {}
        for axiom in self.theory.axioms:
            name = axiom.name
            if name in now:
                low, high = limits.get(name, (now[name], now[name]))
                columns[name] = map(ValueBounds, now[name], low, high)
            elif name in self.valueless:
                value = from_history.get(name)
                ends = (0.0, 1.0) if value is None or not self.ended else (value, value)
                columns[name] = itertools.repeat(ValueBounds(value, *ends))
        return [{name: next(column) for name, column in columns.items()} for _ in range(count)]

    def _whole_trace(self) -> list[str]:
        """Return the axioms whose values are computed on the whole trace."""
        return [n for n in self.valueless if n in self.history.formulas]

    def _again(self, text: str) -> bool:
        cells = self.intake.again(text)
        if cells is None:
            return False
        self._cells.append(cells)
        return True

    def _enter(self, step: TraceStep) -> Iterator[States]:
        """Queue a step; process earlier steps first if it brings new entities."""
        cells = self.intake.cells(step)
        if cells is None:
            checked = self.intake.check(step)
            if not self.intake.begun:
                self._check_room(step, checked)
                self._begin(step, checked)
            elif arrivals := self.intake.arrivals(step, checked):
                self._check_room(step, checked)
                yield from self._flush()
                for arrival in arrivals:
                    self._arrive(arrival)
            cells = self.intake.place(checked)
            if self.intake.changing:
                self._results.append(self.intake.results(checked))
        learn_texts(step, self.intake.known)
        self._cells.append(cells)

    def _check_room(self, step: TraceStep, checked: Sequence[Checked]) -> None:
        """Refuse a step whose new entities would make the tables of this monitor too large.

        Raises:
            LimitError: names the largest table and the limit.
        """
        domain = self.domain
        mentions = {m for item in checked for m in self.intake.checker.mentions(item)}
        more = Counter(sort for sort, name in mentions if name not in domain.names[sort])

        def cells(sorts: Iterable[str | None]) -> int:
            return math.prod(domain.size(s) + more[s] for s in sorts if s is not None)

        tables = {f"'{n}'": cells(d.sorts) for n, d in self.signature.predicates.items()}
        for axiom in self.crisp.axioms:
            parts = [cells(a.sort for a in part.axes) for part in axiom.parts.values()]
            tables[f"the bindings of '{axiom.name}'"] = sum(parts)
        if sum(tables.values()) > MOST_CELLS:
            name, most = max(tables.items(), key=lambda item: item[1])
            span = None if step.line is None else step.line.span()
            raise LimitError(
                Diagnostic(
                    f"with the entities of this step the monitor would follow "
                    f"{sum(tables.values()):,} cells ({name} alone {most:,}), more than the "
                    f"{MOST_CELLS:,} that it has room for",
                    span,
                    "fotltn watch, or fotltn.Watch, follows only facts that are stated",
                )
            )

    def _arrive(self, arrival: Arrival) -> None:
        rows = self.crisp.grown(arrival.kind)
        self.graded.grow(arrival.kind)
        self.limits.forget()
        self.intake.admit(arrival)
        self.crisp.adopt(rows)
        self.judge.renew()
        self._arrived = True

    def _fixed(self) -> Stretch:
        """Return the static facts as tables of truth values."""
        static = {n: t >= self.threshold for n, t in self.intake.static.items()}
        return Stretch(0, 1, static, self.intake.functions)

    def _room(self) -> int:
        """Return how many steps to process together."""
        width = self.columns.width + 16 * len(self.crisp.live)
        if self.values_every is None:
            return max(1, min(MOST_STEPS, _CELLS // width))
        if not self._many_values():
            return self.values_every - self.count % self.values_every
        width += self.columns.width * self.graded.recent.need // self.values_every
        return max(1, min(MOST_STEPS, _CELLS // width))

    def _many_values(self) -> bool:
        """Return whether the values after many steps can be computed together."""
        steady = self.graded.steady or not self.graded.roots
        return self.horizon is None and steady and not self._whole_trace()

    def _flush(self) -> Iterator[States]:
        """Process the queued steps."""
        if not self._waiting:
            return
        count, self._waiting = self._waiting, 0
        waiting, self._cells = self._cells, []
        by_step, self._results = self._results, []
        degrees = self.columns.laid_out(waiting)
        truth = degrees >= self.threshold
        results = {n: np.concatenate([r[n] for r in by_step]) for n in self.intake.changing}
        fixed = self._fixed()
        stretch = Stretch(
            self.count,
            count,
            {**fixed.predicates, **self.columns.tables(truth)},
            {**fixed.functions, **results},
        )
        if self.crisp.settle():
            self.judge.renew()
            self._arrived = True
        rows = self.crisp.run(stretch, truth)
        first, self.count = self.count, self.count + count
        every = self.values_every
        ends: Sequence[int] = ()
        if every is not None:
            ends = range(first - first % every + every, self.count + 1, every)
        at_once = bool(ends) and self._many_values()
        graded = self.graded
        if self.graded.roots:
            tables = self.columns.tables(degrees)
            graded = self.graded.run(count, tables, results, ends if at_once else ())
        self.history.run(count, degrees, results)
        values: list[dict[str, ValueBounds]] = []
        if ends:
            self.limits.follow(graded)
            values = self._rows_of_values(len(ends))
        rest = iter(values)
        for states in self._judged(first, rows):
            wanted = every is not None and (states.step + 1) % every == 0
            yield replace(states, values=next(rest)) if wanted else states

    # --- verdicts -----------------------------------------------------------------------------

    def _judged(self, first: int, rows: Array) -> Iterator[States]:
        """Yield the states after each step; they stay the same while no automaton moves."""
        moved = np.ones(len(rows), dtype=np.bool_)
        moved[1:] = (rows[1:] != rows[:-1]).any(1)
        if not self._arrived:
            moved[0] = bool((rows[0] != self._rows).any())
        self._arrived = False
        self._rows = rows[-1].copy()
        left: list[int] | None = None
        if self.horizon is not None:  # then time alone may decide a verdict
            moved[:] = True
            left = [self.horizon - 1 - first - row for row in range(len(rows))]
        flags = self.judge.flags(rows[moved], left)
        known = iter(zip(self.judge.codes(flags).tolist(), flags, strict=True))
        states = list(self._last)
        for row, new in enumerate(moved.tolist()):
            step = first + row
            if new and self._renew(step, *next(known), states):
                self._last = tuple(states)
            if step + 1 == self.horizon:
                self._last = self._final(rows[row])
            yield States(step, self._last)

    def _renew(self, step: int, codes: list[int], flags: Array, states: list[State]) -> bool:
        """Update the states of axioms; return whether any changed."""
        if codes == self._codes:
            return False
        changed = False
        for number, code in enumerate(codes):
            at = self._numbers[number]
            if states[at].verdict is not Verdict.OPEN or code == self._codes[number]:
                continue
            changed = True
            axiom = self.crisp.axioms[number]
            axiom.decided = code in (LOST, SURE) and self.horizon is None
            if code == LOST:
                binding = self.judge.blame(axiom, flags, ended=False)
                states[at] = State(axiom.name, Verdict.VIOLATED, False, binding, step)
            elif code == SURE:
                states[at] = State(axiom.name, Verdict.SATISFIED, True, {}, step)
            else:
                states[at] = self._open[number][code]
        self._codes = codes
        return changed

    def _final(self, rows: Array) -> tuple[State, ...]:
        """Return the states of axioms if the trace ends with these rows of live places."""
        axioms = {a.name: a for a in self.crisp.axioms}
        flags = self.judge.flags(rows[None])
        codes = dict(zip(axioms, self.judge.codes(flags)[0].tolist(), strict=True))
        truth = self.history.truth(self.growing, threshold=self.threshold)
        states = []
        early = self.horizon is not None and self.count < self.horizon
        for state in self._last:
            name = state.axiom
            by_horizon = early and codes.get(name) in (FALSE_NOW, TRUE_NOW)
            if state.verdict is not Verdict.OPEN and not by_horizon:
                states.append(state)
                continue
            now = codes[name] == TRUE_NOW if name in codes else truth[name]
            binding: dict[str, str] = {}
            if not now and name in axioms:
                binding = self.judge.blame(axioms[name], flags[0], ended=True)
            verdict = Verdict.SATISFIED if now else Verdict.VIOLATED
            states.append(State(name, verdict, now, binding, None))
        return tuple(states)


def _domain(theory: CheckedTheory, fixed: set[str], used: set[str]) -> Domain:
    """Number the constants, and as many strangers of open sorts as axioms can tell apart."""
    signature = theory.signature
    formulas = [a.formula for a in theory.axioms]
    copies: dict[str, int] = {}
    marks: dict[str, tuple[str, ...]] = {}
    for sort in (s for s in signature.sorts if s not in fixed):
        copies[sort] = max(
            (count_variables(f, sort) for f in formulas if tells_apart(f, sort)), default=1
        )
        static = [n for n, d in signature.predicates.items() if d.static and d.sorts == (sort,)]
        counting = tuple(name for name in static if name in used)
        marks[sort] = counting if len(counting) <= MOST_MARKS else ()
    domain = Domain(copies, marks, {sort: {} for sort in signature.sorts})
    for sort, name in constants_of(theory):
        domain.add(sort, name)
    return domain
