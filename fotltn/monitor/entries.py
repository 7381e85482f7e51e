"""Steps into a roster: facts are checked, entities come, and what is true goes to its bits."""

from __future__ import annotations

import itertools
from typing import Any

from fotltn.errors import DataError, name_hint
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.checks import Checked, Checker
from fotltn.monitor.intake import fixed_sorts
from fotltn.monitor.roster import Key, Roster
from fotltn.monitor.steps import Header, TraceStep, wrong
from fotltn.syntax import theory as th

_MOST_KNOWN = 200_000  # facts that were checked before


class Entries:
    """Checks steps against a signature and enters them into a roster."""

    def __init__(self, signature: Signature, roster: Roster, threshold: float) -> None:
        """Nobody is there but constants.

        Args:
            signature: what facts are about.
            roster: where they go.
            threshold: the degree from which on a fact is true.
        """
        self.signature, self.roster, self.threshold = signature, roster, threshold
        self.checker = Checker(signature, frozenset())
        self.closed: set[str] = set()
        self.begun = False
        self.constants: dict[str, set[str]] = {}
        self.heard: dict[str, dict[str, int]] = {}  # the last step at which something was true
        self._known: dict[Key, tuple[str, Key]] = {}

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
        self._enter(checked, header, 0, 1)
        self.closed = fixed_sorts(self.signature, header)

    def step(self, step: TraceStep, place: int) -> None:
        """Enter a step, which is at a place of the batch.

        Raises:
            DataError: something in it does not fit the theory; then nothing is entered.
        """
        if not self._fast(step, place):
            self._enter(self.checker.check(step), step, self.roster.start + place, 1 << place)
            if not self.begun:
                self._begin()

    def _fast(self, step: TraceStep, place: int) -> bool:
        """Enter a step all of whose facts were checked before."""
        if not self.begun or step.values or self.roster.results:
            return False
        known = self._known
        true: list[tuple[str, Key]] = []
        graded: dict[Key, float] = {}
        try:
            for fact in step.facts:
                entry = known.get(tuple(fact))
                if entry is None:
                    key, degree = tuple(fact[:-1]), fact[-1]
                    if type(degree) is not float or not 0 <= degree <= 1 or key in graded:
                        return False
                    entry = known.get(key)
                    if entry is None:
                        return False
                    graded[key] = degree
                    if degree < self.threshold:
                        continue
                true.append(entry)
        except (TypeError, LookupError):
            return False
        if graded and len(step.facts) != len({*graded, *((name, *args) for name, args in true)}):
            return False  # a fact that is stated twice
        facts, bit = self.roster.facts, 1 << place
        for name, args in true:
            rows = facts[name]
            rows[args] = rows.get(args, 0) | bit
        return True

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
            self._known.clear()
        return gone

    def _enter(self, checked: list[Checked], step: TraceStep, time: int, bit: int) -> None:
        """Check facts and values against what is known, and enter them."""
        roster = self.roster
        stated: dict[tuple[str, Key], Any] = {}
        new: dict[tuple[str, str], None] = {}
        for item in checked:
            if item.symbol not in self.signature.relations:
                old = stated.setdefault((item.symbol, item.args), item.value)
                if old != item.value:
                    raise _contradiction(step, item, old)
            for sort, name in self._mentions(item):
                if name not in roster.came[sort]:
                    if sort in self.closed:
                        raise self._unknown(step, item, sort, name)
                    new[sort, name] = None
        for item in checked:
            self._check_static(item, step, new)
        if not isinstance(step, Header):
            self._complete(step, {key for key in stated if key[0] in roster.results})
        for sort, name in new:
            roster.add(sort, name, time if self.begun else 0)
        for item in checked:
            self._note(item, bit)

    def _note(self, item: Checked, bit: int) -> None:
        roster, name, args = self.roster, item.symbol, item.args
        if name in roster.relations:
            roster.relations[name][args] = None
        elif name in roster.results:
            roster.results[name][bit.bit_length() - 1][args] = item.value
        elif name in self.signature.functions:
            roster.fixed.setdefault(name, {})[args] = item.value
        elif self.signature.predicates[name].static:
            if item.value >= self.threshold and args not in roster.facts[name]:
                roster.fix(name, args)
        else:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            self._known[name, *args] = name, args
            if item.value >= self.threshold:
                rows = roster.facts[name]
                rows[args] = rows.get(args, 0) | bit

    def _check_static(
        self, item: Checked, step: TraceStep, new: dict[tuple[str, str], None]
    ) -> None:
        """After the first step, what is static is known, or about somebody who comes."""
        if not self.begun or not self._is_static(item.symbol):
            return
        if item.symbol not in self.signature.predicates:
            raise wrong(
                step, f"'{item.symbol}' does not change, so it belongs to the first line", item.path
            )
        if any(mention in new for mention in self._mentions(item)):
            return
        if (item.value >= self.threshold) != (item.args in self.roster.facts[item.symbol]):
            raise wrong(
                step,
                f"'{item.symbol}' is static: it cannot change for those who are there",
                item.path,
                "state it in the first line, or when an entity comes",
            )

    def _begin(self) -> None:
        """After the first step: functions have values for all arguments."""
        self.begun = True
        roster = self.roster
        for name, function in self.signature.functions.items():
            if not function.static:
                continue
            table = roster.fixed.setdefault(name, {})
            if roster.default is not None and function.result == c.REAL:
                continue
            for args in itertools.product(*(roster.came[s] for s in function.sorts)):
                if args not in table:
                    raise DataError(
                        f"the function '{name}' has no value for ({', '.join(args)}) in the first "
                        "line"
                    )

    def _complete(self, step: TraceStep, stated: set[tuple[str, Key]]) -> None:
        """Every function that changes has a value for all arguments."""
        for name in self.roster.results:
            function = self.signature.functions[name]
            if self.roster.default is not None and function.result == c.REAL:
                continue
            for args in itertools.product(*(self.roster.came[s] for s in function.sorts)):
                if (name, args) not in stated:
                    raise wrong(step, f"'{name}' has no value for ({', '.join(args)})", ("values",))

    # --- names ---------------------------------------------------------------------------------

    def _declared(self, symbol: str) -> th.PredicateDecl | th.RelationDecl | th.FunctionDecl:
        signature = self.signature
        if symbol in signature.predicates:
            return signature.predicates[symbol]
        return signature.relations.get(symbol) or signature.functions[symbol]

    def _mentions(self, item: Checked) -> list[tuple[str, str]]:
        """The entities that a fact or value names, with their sorts."""
        decl = self._declared(item.symbol)
        mentions = list(zip(decl.sorts, item.args, strict=True))
        if isinstance(decl, th.FunctionDecl) and decl.result != c.REAL:
            mentions.append((decl.result, item.value))
        return mentions

    def _is_static(self, symbol: str) -> bool:
        decl = self._declared(symbol)
        return isinstance(decl, th.RelationDecl) or decl.static

    def _unknown(self, step: TraceStep, item: Checked, sort: str, name: str) -> DataError:
        names = self.roster.came[sort]
        hint = name_hint(name, names)
        where = [n for _, n in self._mentions(item)].index(name) + 1
        return wrong(
            step,
            f"'{name}' is no entity of sort '{sort}': all its entities are named in the first line",
            (*item.path, where),
            hint,
        )


def _contradiction(step: TraceStep, item: Checked, old: Any) -> DataError:
    shown = ", ".join(item.args)
    words = f"'{item.symbol}' of ({shown}) has two values"
    if not isinstance(item.value, str):
        words = f"'{item.symbol}' of ({shown}) is {item.value:g} here, but {old:g} before"
    return wrong(step, words, item.path)
