"""Enter steps into a roster: check facts, add entities, and set the bits of true facts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from fotltn.errors import DataError, name_hint
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.checks import Checked, Checker
from fotltn.monitor.loop import entries_of, learn_texts
from fotltn.monitor.roster import Key, Roster
from fotltn.monitor.steps import Header, TraceStep, wrong
from fotltn.syntax import theory as th

_MOST_KNOWN = 200_000  # facts that were checked before

#: Where the bits of a fact are.
Entry = tuple[dict[Key, int], Key]

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


class Intake:
    """Checks steps against a signature and enters them into a roster.

    Attributes:
        closed: the sorts of which nobody new may come.
        begun: whether there was a step.
        known: where the bits of facts are, by these and by their texts.
        heard: by sort and name, the last step at which something was true.
    """

    def __init__(self, signature: Signature, roster: Roster) -> None:
        """Nobody is there but constants."""
        self.signature, self.roster = signature, roster
        self.declared: dict[str, th.PredicateDecl | th.RelationDecl | th.FunctionDecl] = {
            **signature.predicates, **signature.relations, **signature.functions,
        }  # fmt: skip
        self.checker = Checker(signature)
        self.closed: set[str] = set()
        self.begun = False
        self.known: dict[tuple[Any, ...] | str, Entry] = {}
        self.constants: dict[str, set[str]] = {}
        self.heard: dict[str, dict[str, int]] = {}

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
        """Note facts that are known, unless their degrees have to be checked."""
        if graded:
            both = {id(entry) for entry in plain} | {id(entry) for entry in graded}
            if len(both) < len(plain) + len(graded):
                return False
        self._note(plain, graded, degrees)
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
        plain: list[Entry] = []
        graded: list[Entry] = []
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
        """Note what is true at the next step of the batch."""
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
            return
        old = self.roster.static[name].get(item.args, 0.0 if self.begun else item.value)
        if (old >= self.roster.threshold) != (item.value >= self.roster.threshold):
            hint = "it is static: it cannot change for those who are there"
            more = "; state it in the first line, or when an entity comes" * self.begun
            raise contradiction(step, item, old, hint + more)

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

    # --- who is forgotten ----------------------------------------------------------------------

    def hear(self) -> None:
        """Note of whom something was true in a batch."""
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
        """Those of whom nothing was true since a step, by sort."""
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
