"""Steps against a theory: facts are checked, entities come, and what is stated is noted.

Both a watch and a monitor take their steps in so. A subclass says how facts are noted.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from typing import Any, Generic, TypeVar

from fotltn.errors import DataError, name_hint
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.checks import Checked, Checker
from fotltn.monitor.loop import entries_of, learn_texts
from fotltn.monitor.roster import Key, Roster
from fotltn.monitor.steps import Header, TraceStep, wrong
from fotltn.syntax import theory as th

_MOST_KNOWN = 200_000  # facts that were checked before

#: What a fact is noted as.
V = TypeVar("V")

#: Entities that come with a step: sorts and names.
Arrivals = dict[tuple[str, str], None]


def fixed_sorts(signature: Signature, header: Header) -> set[str]:
    """The sorts all of whose entities are named in the first line."""
    if header.closed:
        return set(signature.sorts)
    return {
        sort
        for decl in signature.functions.values()
        if header.default is None or decl.result != c.REAL
        for sort in decl.sorts
    }


class Intake(ABC, Generic[V]):
    """Checks steps against a signature and enters them into a roster.

    Attributes:
        closed: the sorts of which nobody new may come.
        begun: whether there was a step.
        known: what facts, and texts of facts, are noted as.
    """

    def __init__(self, signature: Signature, roster: Roster, hard: Set[str] = frozenset()) -> None:
        """Nobody is there but constants.

        Args:
            signature: what facts are about.
            roster: where they go.
            hard: predicates whose degrees are 0 or 1.
        """
        self.signature, self.roster = signature, roster
        self.declared: dict[str, th.PredicateDecl | th.RelationDecl | th.FunctionDecl] = {
            **signature.predicates, **signature.relations, **signature.functions,
        }  # fmt: skip
        self.checker = Checker(signature, hard)
        self.closed: set[str] = set()
        self.begun = False
        self.known: dict[tuple[Any, ...] | str, V] = {}

    # --- how facts are noted -------------------------------------------------------------------

    @abstractmethod
    def entry(self, name: str, args: Key) -> V:
        """What a fact that changes is noted as."""

    @abstractmethod
    def note(self, plain: Sequence[V], graded: Sequence[V], degrees: Sequence[float]) -> None:
        """Note the facts of a step: those with degree 1, and others with their degrees."""

    # --- the beginning -------------------------------------------------------------------------

    def header(self, header: Header) -> None:
        """Take in what is known before the first step.

        Raises:
            DataError: something in it does not fit the theory.
        """
        self.checker.entities(header)
        checked = self.checker.check(header)
        for item in checked:
            if not self._is_static(item.symbol):
                raise wrong(
                    header, f"'{item.symbol}' changes over time, so it belongs to a step", item.path
                )
        self.roster.default = header.default
        for sort, names in header.entities.items():
            for name in names:
                self.roster.came[sort].setdefault(name, 0)
        self.enter(header, checked, self.arrivals(header, checked))
        self.closed = fixed_sorts(self.signature, header)

    # --- steps ---------------------------------------------------------------------------------

    def again(self, text: str) -> bool:
        """Enter a line all of whose facts were written so before; whether it is one."""
        if not self.begun or self.roster.results:
            return False
        entries = entries_of(text, self.known)
        return entries is not None and self._noted(*entries)

    def repeated(self, step: TraceStep) -> bool:
        """Enter a step all of whose facts were checked before; whether it is one."""
        if not self.begun or step.values or self.roster.results:
            return False
        known = self.known
        plain: list[V] = []
        graded: list[V] = []
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

    def _noted(self, plain: list[V], graded: list[V], degrees: list[float]) -> bool:
        """Note facts that are known, unless their degrees have to be checked."""
        if graded:
            both = {id(entry) for entry in plain} | {id(entry) for entry in graded}
            if self.checker.hard or len(both) < len(plain) + len(graded):
                return False
        self.note(plain, graded, degrees)
        return True

    def check(self, step: TraceStep) -> tuple[list[Checked], Arrivals]:
        """The facts and values of a step, and who comes with it.

        Raises:
            DataError: something in it does not fit the theory, or what is known.
        """
        checked = self.checker.check(step)
        return checked, self.arrivals(step, checked)

    def arrivals(self, step: TraceStep, checked: Sequence[Checked]) -> Arrivals:
        """Who comes with a step.

        Raises:
            DataError: something in it does not fit what is known.
        """
        roster = self.roster
        stated: dict[tuple[str, Key], Any] = {}
        new: Arrivals = {}
        for item in checked:
            if item.symbol not in self.signature.relations:
                old = stated.setdefault((item.symbol, item.args), item.value)
                if old != item.value:
                    raise contradiction(step, item, old)
            for sort, name in self._mentions(item):
                if name not in roster.came[sort]:
                    if sort in self.closed:
                        raise self._unknown(step, item, sort, name)
                    new[sort, name] = None
        for item in checked:
            if self._is_static(item.symbol):
                self._check_static(step, item, new)
        if not isinstance(step, Header):
            self._complete(step, stated)
        return new

    def enter(self, step: TraceStep, checked: Sequence[Checked], new: Arrivals) -> None:
        """Enter what was checked, and who comes."""
        for sort, name in new:
            self.roster.add(sort, name, self.roster.now if self.begun else 0)
        if not isinstance(step, Header):
            for results in self.roster.results.values():
                results.append({})
        plain: list[V] = []
        graded: list[V] = []
        degrees: list[float] = []
        for item in checked:
            name, args = item.symbol, item.args
            if self._is_static(name):
                self._fix(item)
            elif name in self.signature.functions:
                self.roster.results[name][-1][args] = item.value
            else:
                if len(self.known) > _MOST_KNOWN:
                    self.known.clear()
                key = (name, *args)
                if key not in self.known:
                    self.known[key] = self.entry(name, args)
                (plain if item.value == 1 else graded).append(self.known[key])
                if item.value != 1:
                    degrees.append(item.value)
        if not isinstance(step, Header):
            self.begun = True
            self.note(plain, graded, degrees)
            learn_texts(step, self.known)

    def _fix(self, item: Checked) -> None:
        roster, name, args = self.roster, item.symbol, item.args
        if name in roster.relations:
            roster.relations[name][args] = None
        elif name in self.signature.functions:
            roster.fixed[name][args] = item.value
        else:
            roster.fix(name, args, item.value)

    def _check_static(self, step: TraceStep, item: Checked, new: Arrivals) -> None:
        """What is static is said once; after the first step, of somebody who comes alone."""
        name = item.symbol
        if name not in self.signature.predicates:
            if self.begun:
                raise wrong(
                    step, f"'{name}' does not change, so it belongs to the first line", item.path
                )
            old = self.roster.fixed.get(name, {}).get(item.args, item.value)
            if old != item.value:
                raise contradiction(step, item, old)
            return
        if self.begun and any(mention in new for mention in self._mentions(item)):
            self.late(step, item)
            return
        old = self.roster.static[name].get(item.args, 0.0 if self.begun else item.value)
        if not self.agree(old, item.value):
            hint = "it is static: it cannot change for those who are there"
            more = "; state it in the first line, or when an entity comes" * self.begun
            raise contradiction(step, item, old, hint + more)

    def late(self, step: TraceStep, item: Checked) -> None:
        """Check a static fact about somebody who comes after the first step.

        Raises:
            DataError: it cannot be taken in then.
        """

    def agree(self, old: float, new: float) -> bool:
        """Whether two degrees of a static fact say the same."""
        return old == new

    def _complete(self, step: TraceStep, stated: Mapping[tuple[str, Key], Any]) -> None:
        """Every function that changes has a value for all arguments; at first, every function."""
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

    # --- names ---------------------------------------------------------------------------------

    def _mentions(self, item: Checked) -> list[tuple[str, str]]:
        """The entities that a fact or value names, with their sorts."""
        decl = self.declared[item.symbol]
        mentions = list(zip(decl.sorts, item.args, strict=True))
        if isinstance(decl, th.FunctionDecl) and decl.result != c.REAL:
            mentions.append((decl.result, item.value))
        return mentions

    def _is_static(self, symbol: str) -> bool:
        decl = self.declared[symbol]
        return isinstance(decl, th.RelationDecl) or decl.static

    def _unknown(self, step: TraceStep, item: Checked, sort: str, name: str) -> DataError:
        reason = "all its entities are named in the first line"
        if any(sort in f.sorts for f in self.signature.functions.values()):
            reason = "functions take it, so its entities are named in the first line"
        where = [n for _, n in self._mentions(item)].index(name) + 1
        hint = name_hint(name, self.roster.came[sort])
        return wrong(
            step, f"'{name}' is no entity of sort '{sort}': {reason}", (*item.path, where), hint
        )


def contradiction(step: TraceStep, item: Checked, old: Any, hint: str | None = None) -> DataError:
    """An error: a fact, or a function, has two values."""
    words = f"'{item.symbol}' of ({', '.join(item.args)}) has two values"
    if not isinstance(item.value, str):
        words = words.replace("has two values", f"is {item.value:g} here, but {old:g} before")
    return wrong(step, words, item.path, hint)
