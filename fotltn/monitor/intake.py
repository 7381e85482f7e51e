"""Enter steps into a roster: check facts, add entities, and set the bits of true facts."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

from fotltn.errors import DataError
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.checks import Checked, Checker, contradiction, too_late
from fotltn.monitor.loop import entries_of, learn_texts
from fotltn.monitor.roster import Key, Roster
from fotltn.monitor.steps import Header, TraceStep, wrong

_MOST_KNOWN = 200_000  # most checked facts to remember

#: Where the bits of a fact are: the facts of its predicate, and its arguments.
Entry = tuple[dict[Key, int], Key]

#: The sorts and names of entities that come with a step.
Arrivals = dict[tuple[str, str], None]


def fixed_sorts(signature: Signature, header: Header) -> set[str]:
    """Return the sorts whose entities must all be named in the first line."""
    if header.closed:
        return set(signature.sorts)
    return {
        sort
        for decl in signature.functions.values()
        if header.default is None or decl.result != c.REAL
        for sort in decl.sorts
    }


class Intake:
    """Checks steps against a signature and enters them into a roster.

    Attributes:
        closed: the sorts that get no new entities.
        begun: whether there was a step.
        known: where the bits of a fact are, by fact and by its text.
        heard: by sort and name, the last step at which a fact about the entity was true.
    """

    def __init__(self, signature: Signature, roster: Roster) -> None:
        """Start before the header."""
        self.signature, self.roster = signature, roster
        self.checker = Checker(signature)
        self.closed: set[str] = set()
        self.begun = False
        self.known: dict[tuple[Any, ...] | str, Entry] = {}
        self.constants: dict[str, set[str]] = {}
        self.heard: dict[str, dict[str, int]] = {}

    # --- the beginning -------------------------------------------------------------------------

    def header(self, header: Header) -> None:
        """Enter a header.

        Raises:
            DataError: the header does not fit the theory.
        """
        checked = self.checker.header(header)
        self.roster.default = header.default
        for sort, names in header.entities.items():
            for name in names:
                self.roster.came[sort].setdefault(name, 0)
        self.enter(header, checked, self.arrivals(header, checked))
        self.closed = fixed_sorts(self.signature, header)

    # --- steps ---------------------------------------------------------------------------------

    def again(self, text: str) -> bool:
        """Enter a line if all its facts are known by their text; return whether they are."""
        if not self.begun or self.roster.results:
            return False
        entries = entries_of(text, self.known)
        return entries is not None and self._noted(*entries)

    def repeated(self, step: TraceStep) -> bool:
        """Enter a step if all its facts were checked before; return whether they were."""
        if not self.begun or step.values or self.roster.results:
            return False
        known = self.known
        plain: list[Entry] = []
        graded: list[Entry] = []
        degrees: list[float] = []
        try:
            for fact in step.facts:
                entry = known.get(tuple(fact))
                if entry is not None:
                    plain.append(entry)
                    continue
                entry, degree = known.get(tuple(fact[:-1])), fact[-1]
                if entry is None or type(degree) is not float or not 0 <= degree <= 1:
                    return False
                graded.append(entry)
                degrees.append(degree)
        except (TypeError, LookupError):
            return False
        if not self._noted(plain, graded, degrees):
            return False
        learn_texts(step, known)
        return True

    def _noted(self, plain: list[Entry], graded: list[Entry], degrees: list[float]) -> bool:
        """Enter known facts and return True, unless a fact may have two degrees."""
        if graded:
            both = {id(entry) for entry in plain} | {id(entry) for entry in graded}
            if len(both) < len(plain) + len(graded):
                return False
        self._note(plain, graded, degrees)
        return True

    def check(self, step: TraceStep) -> tuple[list[Checked], Arrivals]:
        """Return the facts and values of a step, and the entities that come with it.

        Raises:
            DataError: the step does not fit the theory, or contradicts earlier steps.
        """
        checked = self.checker.check(step)
        return checked, self.arrivals(step, checked)

    def arrivals(self, step: TraceStep, checked: Sequence[Checked]) -> Arrivals:
        """Return the entities that come with a step.

        Raises:
            DataError: the step contradicts earlier steps, or lacks a value of a function.
        """
        roster = self.roster
        new: Arrivals = {}
        for item in checked:
            for sort, name in self.checker.mentions(item):
                if name not in roster.came[sort]:
                    if sort in self.closed:
                        raise self.checker.unknown(step, item, sort, name, roster.came[sort])
                    new[sort, name] = None
        for item in checked:
            if self.checker.is_static(item.symbol):
                self._check_static(step, item, new)
        if not isinstance(step, Header):
            self._complete(step, {(item.symbol, item.args) for item in checked})
        return new

    def enter(self, step: TraceStep, checked: Sequence[Checked], new: Arrivals) -> None:
        """Enter checked facts and values, and new entities."""
        for sort, name in new:
            self.roster.add(sort, name, self.roster.now if self.begun else 0)
        if not isinstance(step, Header):
            for results in self.roster.results.values():
                results.append({})
        plain: list[Entry] = []
        graded: list[Entry] = []
        degrees: list[float] = []
        for item in checked:
            name, args = item.symbol, item.args
            if self.checker.is_static(name):
                self._fix(item)
            elif name in self.signature.functions:
                self.roster.results[name][-1][args] = item.value
            else:
                if len(self.known) > _MOST_KNOWN:
                    self.known.clear()
                key = (name, *args)
                if key not in self.known:
                    self.known[key] = self.roster.facts[name], args
                (plain if item.value == 1 else graded).append(self.known[key])
                if item.value != 1:
                    degrees.append(item.value)
        if not isinstance(step, Header):
            self.begun = True
            self._note(plain, graded, degrees)
            learn_texts(step, self.known)

    def _note(
        self, plain: Sequence[Entry], graded: Sequence[Entry], degrees: Sequence[float]
    ) -> None:
        """Set the bits of the facts that are true at the next step of the batch."""
        roster = self.roster
        bit = 1 << roster.count
        if bit == 1:
            for rows, args in plain:
                rows[args] = 1
        else:
            for rows, args in plain:
                rows[args] = rows.get(args, 0) | bit
        if graded:
            threshold = roster.threshold
            for (rows, args), degree in zip(graded, degrees, strict=True):
                if degree >= threshold:
                    rows[args] = rows.get(args, 0) | bit
        roster.count += 1

    def _fix(self, item: Checked) -> None:
        roster, name, args = self.roster, item.symbol, item.args
        if name in roster.relations:
            roster.relations[name][args] = None
        elif name in self.signature.functions:
            roster.fixed[name][args] = item.value
        else:
            roster.fix(name, args, item.value)

    def _check_static(self, step: TraceStep, item: Checked, new: Arrivals) -> None:
        """Refuse a static fact that changes, or that comes later than its entities."""
        name = item.symbol
        if name not in self.signature.predicates:
            if self.begun:
                raise too_late(step, item)
            old = self.roster.fixed.get(name, {}).get(item.args, item.value)
            if old != item.value:
                raise contradiction(step, item, old)
            return
        if self.begun and any(mention in new for mention in self.checker.mentions(item)):
            return
        old = self.roster.static[name].get(item.args, 0.0 if self.begun else item.value)
        if (old >= self.roster.threshold) != (item.value >= self.roster.threshold):
            hint = "it is static: it cannot change for entities that are present"
            more = "; state it in the first line, or when an entity comes" * self.begun
            raise contradiction(step, item, old, hint + more)

    def _complete(self, step: TraceStep, stated: Collection[tuple[str, Key]]) -> None:
        """Refuse a step that lacks a value of a function; static ones belong to the first step."""
        roster = self.roster
        for name, function in self.signature.functions.items():
            if function.static and self.begun:
                continue
            if roster.default is not None and function.result == c.REAL:
                continue
            known = roster.fixed.get(name, {})
            for args in itertools.product(*(roster.came[s] for s in function.sorts)):
                if (name, args) in stated or args in known:
                    continue
                missing = f"'{name}' has no value for ({', '.join(args)})"
                if function.static:
                    raise DataError(f"the function {missing} in the first line")
                raise wrong(step, missing, ("values",))

    # --- entities to forget --------------------------------------------------------------------

    def hear(self) -> None:
        """Note the entities about which a fact was true in a batch."""
        roster, heard = self.roster, self.heard
        for sort, names in roster.came.items():
            known = heard.setdefault(sort, {})
            if len(known) < len(names):
                known |= {name: step for name, step in names.items() if name not in known}
        for predicate in roster.changing:
            sorts = self.signature.predicates[predicate].sorts
            for args, bits in roster.facts[predicate].items():
                step = roster.start + bits.bit_length() - 1
                for sort, name in zip(sorts, args, strict=True):
                    heard[sort][name] = max(step, heard[sort][name])

    def gone(self, since: int) -> dict[str, set[str]]:
        """Return, by sort, the entities about which no fact was true since a step."""
        gone: dict[str, set[str]] = {}
        for sort, known in self.heard.items():
            for name, step in known.items():
                if step >= since:
                    continue
                if name not in self.constants[sort] and sort not in self.closed:
                    gone.setdefault(sort, set()).add(name)
            for name in gone.get(sort, ()):
                del known[name]
        if gone:
            self.known.clear()
        return gone
