"""A watch: reports every violation of a theory's axioms on a running trace, once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from fotltn.arguments import public
from fotltn.errors import DataError, LimitError
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.logic.check import check as check_theory
from fotltn.monitor.axiom_watch import TOLD, AxiomWatch
from fotltn.monitor.checks import constants_of
from fotltn.monitor.conditions import Conditions
from fotltn.monitor.events import AxiomStanding, CellEvent, OpenCell
from fotltn.monitor.intake import Intake
from fotltn.monitor.leaves import watched
from fotltn.monitor.loop import MOST_STEPS, StepLoop
from fotltn.monitor.open_cells import LeafWatch, Outcome, Ranges
from fotltn.monitor.roster import Key, Roster
from fotltn.monitor.snapshot import VERSION, packed, unpack
from fotltn.monitor.steps import Fact, Header, StepInput, TraceStep, header_of
from fotltn.monitor.table import TransitionTable
from fotltn.semantics.config import check_share
from fotltn.syntax.load import AnyTheory
from fotltn.syntax.show import show_theory
from fotltn.threads import entries

#: How to treat cells that further steps could still make true.
End = Literal["undecided", "final"]


#: What an absent entity means to a state: decision 28.
_ABSENCE = "no point"


@entries
class Watch(StepLoop[CellEvent]):
    r"""Follows a trace and reports every violation of a theory's axioms.

    Use it for alarms on live data; `Monitor` gives verdicts on whole axioms.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> watch = fot.Watch(theory)
    >>> [str(event) for event in watch.steps([[("Near",)], [("Near",)], [("Stop",)]])]
    ['step 1: Obey violated: time 0']
    """

    @public
    def __init__(
        self,
        theory: AnyTheory,
        *,
        entities: Mapping[str, Sequence[str]] | None = None,
        header: Header | Mapping[str, Any] | str | None = None,
        threshold: float = 0.5,
        presence: Sequence[str] = (),
        resolved: bool = False,
        window: int = 1000,
        forget: int | None = None,
        horizon: int | None = None,
    ) -> None:
        """Begin before the first step.

        Args:
            theory: the axioms to watch: a theory, its file or its text.
            entities: the names, by sort, of entities present from the start. Others may come.
            header: entities with static facts and values, in place of `entities`: an object with
                the keys of a first line, or that line itself.
            threshold: the smallest degree that counts as true.
            presence: predicates that are true where entities are present. A cell counts only if
                its entities are present when they are used.
            resolved: also report open cells that become true.
            window: the number of steps for recent counts and rates.
            forget: every so many steps, forget the entities about which nothing was true since the
                last look, with their open cells. Without it, no entity is forgotten.
            horizon: the number of steps of the trace, if it is known. A violation is then reported
                as soon as no trace of that length can avoid it.

        Raises:
            DataError: the header does not fit the theory, or a predicate cannot state presence.
        """
        super().__init__(header, horizon)
        checked = check_theory(theory)
        check_share(threshold)
        if window < 1:
            raise DataError(f"a window has at least one step, not {window}")
        if forget is not None and forget < 1:
            raise DataError(f"entities are forgotten after at least one step, not {forget}")
        self.forget = forget
        options = repr((threshold, tuple(presence), resolved, window, forget))
        options += f" {horizon}" if horizon is not None else ""
        text = hashlib.sha256(show_theory(checked.source).encode()).hexdigest()[:16]
        self._kind = {"version": VERSION, "theory": text, "set of options": options}
        if presence:
            self._kind["meaning of absence"] = _ABSENCE
        self.theory, self.signature, self.window = checked, checked.signature, window
        self.roster = Roster(checked.signature, threshold)
        self.entries = Intake(checked.signature, self.roster)
        self.conditions = Conditions(self.roster)
        self.table = TransitionTable()
        self.axioms: dict[str, AxiomWatch] = {}
        self.unwatched: dict[str, str] = {}
        there = _presence(presence, checked)
        for axiom in checked.axioms:
            try:
                shape = watched(axiom, there, self.signature)
                leaves, pairs = (
                    [
                        LeafWatch(leaf, shape, self.conditions, self.roster, self.table, horizon)
                        for leaf in some
                    ]
                    for some in (shape.leaves, shape.pairs)
                )
            except LimitError as error:
                self.unwatched[axiom.name] = error.diagnostics[0].message
                continue
            for leaf in leaves:
                leaf.every = resolved
            pairs = [pair for pair in pairs if pair.tells_more()]
            self.axioms[axiom.name] = AxiomWatch(shape, leaves, pairs)
        self._watched = list(self.axioms.values())
        for sort, name in constants_of(checked):
            self.roster.came[sort][name] = 0
        self.entries.constants = {s: set(names) for s, names in self.roster.came.items()}
        begin = Header(entities=entities or {}) if header is None else header_of(header)
        self.entries.header(begin)

    def snapshot(self) -> dict[str, Any]:
        """Return the state after the last step, as plain data for JSON."""
        known = packed(self.roster, self.entries, self.conditions, self.axioms)
        return {**self._kind, "count": self.count, "ended": self.ended, **known}

    @public
    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from the snapshot of another watch of this theory with these options.

        Raises:
            DataError: the snapshot belongs to another theory or to other options.
        """
        for key, value in self._kind.items():
            if key not in snapshot:
                raise DataError(
                    f"it has no {key}: where entities come and go, earlier versions took an absent "
                    "one for one of which nothing is true",
                    hint="watch from the beginning, with another state",
                )
            if snapshot.get(key) != value:
                raise DataError(f"another {key}: {snapshot.get(key)}, not {value}")
        self.count, self.ended = snapshot["count"], snapshot["ended"]
        unpack(snapshot, self.roster, self.entries, self.conditions, self.axioms)

    # --- steps ---------------------------------------------------------------------------------

    def step(self, facts: StepInput = (), values: Iterable[Fact] = ()) -> list[CellEvent]:
        """Take one step, and return the events that became certain with it.

        Args:
            facts: the facts: predicates with their arguments, and a degree if it is not 1; or
                functions with their arguments and values, such as `("speed", "ego", 3.5)`. Facts
                that are not stated are false. Or a whole step: an object with the keys `facts` and
                `values`, or a line of JSON.
            values: the values of temporal functions.

        Raises:
            DataError: a fact does not fit the theory. The watch stays as it was.
        """
        return self._one(facts, values)

    def _room(self) -> int:
        """Return how many steps to process together; a batch ends where entities are forgotten."""
        if self.forget is None:
            return MOST_STEPS
        return min(MOST_STEPS, self.forget - self.count % self.forget)

    def _again(self, text: str) -> bool:
        self._begin_batch()
        return self.entries.again(text)

    def _enter(self, step: TraceStep) -> tuple[CellEvent, ...]:
        self._begin_batch()
        entries = self.entries
        if not entries.repeated(step):
            entries.enter(step, *entries.check(step))
        return ()

    def _begin_batch(self) -> None:
        if self._waiting == 0:
            self.roster.begin(self.count)

    def _flush(self) -> list[CellEvent]:
        """Process the queued steps."""
        count, self._waiting = self._waiting, 0
        if count == 0:
            return []
        roster = self.roster
        roster.seal()
        self.conditions.read()
        self.table.tidy()
        self.count += count
        events: list[CellEvent] = []
        for axiom in self._watched:
            outcomes = [(leaf, outcome) for leaf in axiom.leaves for outcome in leaf.run()]
            for pair in axiom.pairs:
                outcomes += [(pair, outcome) for outcome in pair.run() if not outcome.good]
            if outcomes:
                events += self._told(axiom, outcomes, "resolved")
        if self.forget is not None:
            self.entries.hear()
            if self.count % self.forget == 0:
                events += self._forgotten(self.count - self.forget)
        return self._sorted(events)

    def _sorted(self, events: list[CellEvent]) -> list[CellEvent]:
        """Sort events; the order does not depend on how many steps were processed together."""
        if len(events) > 1:
            places = {name: place for place, name in enumerate(self.axioms)}
            events.sort(key=lambda e: (e.step, places[e.axiom], e.time, *e.binding.values()))
        return events

    def _forgotten(self, since: int) -> list[CellEvent]:
        """Forget entities about which no fact was true since a step, and drop their open cells."""
        gone = self.entries.gone(since)
        if not gone:
            return []
        events = []
        for axiom in self.axioms.values():
            for leaf in axiom.leaves:
                away = _among(leaf.leaf.axes, gone)
                for key in [key for key in leaf.open if away(key)]:
                    for times in leaf.open[key].waiting.values():
                        outcome = Outcome(key, times, self.count - 1, True, None)
                        events += self._events(axiom, leaf, outcome, "dropped")
                    leaf.drop(key)
            for pair in axiom.pairs:
                away = _among(pair.leaf.axes, gone)
                for key in [key for key in pair.open if away(key)]:
                    pair.drop(key)
            away = _among(axiom.shape.axes, gone)
            axiom.told = {cell for cell in axiom.told if not away(cell[0])}
        for condition in self.conditions.known.values():
            condition.forget(_among(condition.axes, gone))
        self.roster.forget(gone)
        return events

    def _told(
        self, axiom: AxiomWatch, outcomes: Iterable[tuple[LeafWatch, Outcome]], kind: str
    ) -> list[CellEvent]:
        """Return the events of outcomes, and count violations; `kind` is for good outcomes."""
        events = [e for leaf, outcome in outcomes for e in self._events(axiom, leaf, outcome, kind)]
        if axiom.many:
            events = self._first(axiom, events)
        self._count(axiom, events)
        return events

    def _events(
        self, axiom: AxiomWatch, leaf: LeafWatch, outcome: Outcome, kind: str
    ) -> list[CellEvent]:
        """Return the events of an outcome: of `kind` if it is good, violations if it is bad."""
        key, times, step, good, letter = outcome
        shape = axiom.shape
        binding = self.roster.binding(shape.axes, key[: len(shape.axes)])
        kind = kind if good else "violation"
        events = []
        for first, stop in times:
            for time in range(first, stop):
                because = () if good else leaf.because(key, time, step, letter)
                events.append(
                    CellEvent(
                        kind, axiom.shape.name, axiom.shape.hard, binding, time, step, because
                    )
                )
        return events

    def _first(self, axiom: AxiomWatch, events: list[CellEvent]) -> list[CellEvent]:
        """Keep one violation of each cell, the first that is certain.

        Other events of a cell are reported once a step, and not after its violation.
        """
        first = []
        told_now: set[tuple[Key, int, int]] = set()  # with the step
        for event in sorted(events, key=_rank):
            cell = (tuple(event.binding.values()), event.time)
            if cell in axiom.told or (*cell, event.step) in told_now:
                continue
            if event.kind == "violation":
                axiom.told.add(cell)
            else:
                told_now.add((*cell, event.step))
            first.append(event)
        if len(axiom.told) > axiom.room:
            # Cells before all open ones cannot be reported again.
            cells = (cells for leaf in axiom.all for cells in leaf.open.values())
            since = min(
                (t[0][0] for one in cells for t in one.waiting.values()), default=self.count
            )
            axiom.told = {(key, time) for key, time in axiom.told if time >= since}
            axiom.room = max(TOLD, 2 * len(axiom.told))
        return first

    def _count(self, axiom: AxiomWatch, events: list[CellEvent]) -> None:
        """Count violations by step. The events of a batch need not be in the order of steps."""
        steps = Counter(event.step for event in events if event.kind == "violation")
        for step, number in sorted(steps.items()):
            axiom.violations += number
            axiom.last = step
            if axiom.recent and axiom.recent[-1][0] == step:
                number += axiom.recent.pop()[1]
            axiom.recent.append((step, number))
        while axiom.recent and axiom.recent[0][0] < self.count - self.window:
            axiom.recent.popleft()

    # --- the end -------------------------------------------------------------------------------

    @public
    def finish(self, end: End = "undecided") -> list[CellEvent]:
        """End the trace, and return the events that its end decides. No steps can follow.

        Args:
            end: how to treat cells that further steps could still make true: as undecided or, if
                the end is final, as violated.

        Raises:
            DataError: there was no step.
        """
        self._check_begun()
        self.ended = True
        events: list[CellEvent] = []
        for axiom in self._watched:
            last, final = self.count - 1, end == "final"
            outcomes = [
                (leaf, outcome)
                for leaf in axiom.leaves
                for outcome in leaf.finish(last, final=final)
            ]
            events += self._told(axiom, outcomes, "undecided")
        return self._sorted(events)

    # --- state ---------------------------------------------------------------------------------

    def open(self) -> Iterator[OpenCell]:
        """Yield the open cells: their formulas look ahead and are not decided yet."""
        for axiom in self.axioms.values():
            size = len(axiom.shape.axes)
            for leaf in axiom.leaves:
                for key, cells in leaf.open.items():
                    binding = self.roster.binding(axiom.shape.axes, key[:size])
                    needs = leaf.needs(key)
                    for row, times in cells.waiting.items():
                        fate = leaf.due_if_quiet(row, cells)
                        due = None if fate is None else cells.asof + fate[0]
                        fails = fate is not None and not fate[1]
                        for time in _times(times):
                            yield OpenCell(axiom.shape.name, binding, time, needs, due, fails)

    def standings(self) -> dict[str, AxiomStanding]:
        """Return the state of each axiom: all violations, recent ones, and open cells."""
        standings = {}
        for name, axiom in self.axioms.items():
            self._count(axiom, [])
            recent = sum(count for _, count in axiom.recent)
            waiting = sum(
                stop - first
                for leaf in axiom.leaves
                for cells in leaf.open.values()
                for times in cells.waiting.values()
                for first, stop in times
            )
            steps = max(1, min(self.count, self.window))
            standings[name] = AxiomStanding(
                name, axiom.violations, recent, recent / steps, waiting, axiom.last
            )
        return standings


def _rank(event: CellEvent) -> tuple[int, bool, int, str]:
    """Return a key for sorting: earlier events, then violations, then events with few reasons."""
    return event.step, event.kind != "violation", len(event.because), str(event.because)


def _times(ranges: Ranges) -> Iterator[int]:
    for first, stop in ranges:
        yield from range(first, stop)


def _among(axes: tuple[c.Axis, ...], gone: Mapping[str, set[str]]) -> Callable[[Key], bool]:
    """Return a test: whether a binding has an entity to forget."""
    places = [(i, gone[str(a.sort)]) for i, a in enumerate(axes) if a.sort in gone]
    return lambda key: any(key[i] in names for i, names in places)


def _presence(names: Sequence[str], theory: CheckedTheory) -> dict[str, tuple[str, ...]]:
    there: dict[str, tuple[str, ...]] = {}
    for name in names:
        decl = theory.signature.predicates.get(name)
        if decl is None or decl.static or len(decl.sorts) != 1:
            raise DataError(
                f"'{name}' does not say where entities are present; a predicate with one argument, "
                "which changes over time, does"
            )
        there[decl.sorts[0]] = (*there.get(decl.sorts[0], ()), name)
    return there
