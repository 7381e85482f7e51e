"""Check that the facts and values of a step fit the theory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from fotltn.errors import DataError, name_hint, shown
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.logic.signature import Signature
from fotltn.monitor.steps import Fact, Header, Path, TraceStep, is_number, wrong
from fotltn.syntax import theory as th
from fotltn.tree import postorder


class Checked(NamedTuple):
    """A checked fact or value: its symbol, its arguments, and its degree or result."""

    symbol: str
    args: tuple[str, ...]
    value: Any
    path: Path


class Checker:
    """Checks names, arities, degrees and results against a signature.

    Attributes:
        declared: the declarations of predicates, relations and functions, by name.
    """

    def __init__(self, signature: Signature, hard: Set[str] = frozenset()) -> None:
        """Create a checker; the degrees of `hard` predicates must be 0 or 1."""
        self.signature, self.hard = signature, hard
        self.declared: dict[str, th.PredicateDecl | th.RelationDecl | th.FunctionDecl] = {
            **signature.predicates, **signature.relations, **signature.functions,
        }  # fmt: skip

    def check(self, step: TraceStep) -> list[Checked]:
        """Return the facts and values of a step.

        Raises:
            DataError: one of them does not fit the signature, or two contradict each other.
        """
        checked = [self._stated(step, f, ("facts", i)) for i, f in enumerate(step.facts)]
        checked += [self._value(step, f, ("values", i)) for i, f in enumerate(step.values)]
        stated: dict[tuple[str, tuple[str, ...]], Any] = {}
        for item in checked:
            old = stated.setdefault((item.symbol, item.args), item.value)
            if old != item.value:
                raise contradiction(step, item, old)
        return checked

    def header(self, header: Header) -> list[Checked]:
        """Return the facts and values of a header.

        Raises:
            DataError: the header does not fit the signature, or states what changes over time.
        """
        self._entities(header)
        checked = self.check(header)
        for item in checked:
            if not self.is_static(item.symbol):
                raise wrong(
                    header, f"'{item.symbol}' changes over time, so it belongs to a step", item.path
                )
        return checked

    def is_static(self, symbol: str) -> bool:
        """Return whether a symbol is the same at all time points; relations are."""
        decl = self.declared[symbol]
        return isinstance(decl, th.RelationDecl) or decl.static

    def mentions(self, item: Checked) -> list[tuple[str, str]]:
        """Return the sorts and names of the entities in a fact or value."""
        decl = self.declared[item.symbol]
        mentions = list(zip(decl.sorts, item.args, strict=True))
        if isinstance(decl, th.FunctionDecl) and decl.result != c.REAL:
            mentions.append((decl.result, item.value))
        return mentions

    def unknown(
        self, step: TraceStep, item: Checked, sort: str, name: str, known: Iterable[str]
    ) -> DataError:
        """Return an error: a sort has no such entity, and none may come."""
        reason = "all its entities are named in the first line"
        if any(sort in f.sorts for f in self.signature.functions.values()):
            reason = "functions take it, so its entities are named in the first line"
        where = [n for _, n in self.mentions(item)].index(name) + 1
        message = f"'{name}' is no entity of sort '{sort}': {reason}"
        return wrong(step, message, (*item.path, where), name_hint(name, known))

    def _entities(self, header: Header) -> None:
        """Refuse entities of unknown sorts, and anything but lists of names."""
        for sort, names in header.entities.items():
            if sort not in self.signature.sorts:
                hint = name_hint(sort, self.signature.sorts)
                raise wrong(header, f"unknown sort '{sort}'", ("entities", sort), hint)
            listed = isinstance(names, Sequence) and not isinstance(names, str)
            if not listed or not all(isinstance(n, str) for n in names):
                raise wrong(
                    header, f"the entities of '{sort}' are a list of names", ("entities", sort)
                )

    def _stated(self, step: TraceStep, fact: Fact, path: Path) -> Checked:
        """Check a fact, or the value of a function among the facts."""
        of_function = isinstance(fact, list | tuple) and fact[:1] and isinstance(fact[0], str)
        if of_function and fact[0] in self.signature.functions:
            return self._value(step, fact, path)
        return self._fact(step, fact, path)

    def _fact(self, step: TraceStep, fact: Fact, path: Path) -> Checked:
        signature = self.signature
        symbols: dict[str, Any] = {**signature.predicates, **signature.relations}
        name = self._symbol(step, fact, path, symbols, "predicate")
        sorts = symbols[name].sorts
        paired = name in signature.relations
        count = len(fact) - 1
        if count not in ((len(sorts),) if paired else (len(sorts), len(sorts) + 1)):
            form = ", ".join([f'"{name}"', *sorts])
            tail = "" if paired else ", or with a degree at the end"
            raise wrong(
                step, f"'{name}' takes {_arguments(len(sorts))}, but there are {count}", path,
                f"write [{form}]{tail}",
            )  # fmt: skip
        args = self._names(step, fact[1 : len(sorts) + 1], path)
        degree = fact[-1] if count > len(sorts) else 1
        if (not is_number(degree) and not isinstance(degree, bool)) or not 0 <= degree <= 1:
            raise wrong(
                step, f"'{name}' has the degree {shown(degree)}; expected a number from 0 to 1",
                (*path, count),
            )  # fmt: skip
        if name in self.hard and degree not in (0, 1):
            raise wrong(
                step, f"'{name}' is part of a guard, so its degree is 0 or 1, not {degree:g}",
                (*path, count),
            )  # fmt: skip
        return Checked(name, args, float(degree), path)

    def _value(self, step: TraceStep, fact: Fact, path: Path) -> Checked:
        signature = self.signature
        functions = signature.functions
        name = self._symbol(step, fact, path, functions, "function")
        decl = functions[name]
        if len(fact) != len(decl.sorts) + 2:
            form = ", ".join([f'"{name}"', *decl.sorts, decl.result])
            raise wrong(
                step, f"'{name}' takes {_arguments(len(decl.sorts))} and a result", path,
                f"write [{form}]",
            )  # fmt: skip
        args = self._names(step, fact[1:-1], path)
        result = fact[-1]
        good = is_number(result) if decl.result == c.REAL else isinstance(result, str)
        if not good:
            kind = "finite number" if decl.result == c.REAL else f"name of sort {decl.result}"
            raise wrong(
                step, f"'{name}' has the value {shown(result)}; expected a {kind}",
                (*path, len(fact) - 1),
            )  # fmt: skip
        return Checked(name, args, result, path)

    def _symbol(
        self,
        step: TraceStep,
        fact: Fact,
        path: Path,
        known: Mapping[str, object],
        kind: str,
    ) -> str:
        if isinstance(fact, str) or not isinstance(fact, list | tuple) or not fact:
            raise wrong(step, f"a {kind} with its arguments is a list", path)
        name = fact[0]
        if not isinstance(name, str):
            raise wrong(step, f"a {kind} comes first, by name, not {shown(name)}", (*path, 0))
        if name not in known:
            hint = name_hint(name, known)
            if name in self.signature.predicates:
                hint = "that belongs under 'facts'"
            raise wrong(step, f"unknown {kind} '{name}'", (*path, 0), hint)
        return name

    def _names(self, step: TraceStep, names: Fact, path: Path) -> tuple[str, ...]:
        for place, name in enumerate(names):
            if not isinstance(name, str):
                raise wrong(step, f"an argument is a name, not {shown(name)}", (*path, place + 1))
        return tuple(names)


def constants_of(theory: CheckedTheory) -> list[tuple[str, str]]:
    """Return the sorts and names of the constants that a theory declares or uses."""
    declared = [(one.sort, one.name) for one in theory.signature.constants.values()]
    nodes = postorder(*(axiom.formula for axiom in theory.axioms))
    return declared + [(node.sort, node.name) for node in nodes if isinstance(node, c.Constant)]


def too_late(step: TraceStep, item: Checked) -> DataError:
    """Return an error: a static value comes after the first line."""
    message = f"'{item.symbol}' does not change, so it belongs to the first line"
    return wrong(step, message, item.path)


def contradiction(step: TraceStep, item: Checked, old: Any, hint: str | None = None) -> DataError:
    """Return an error: a fact has two degrees, or a function two values."""
    verb = "has two values"
    if not isinstance(item.value, str):
        verb = f"is {item.value:g} here, but {old:g} before"
    return wrong(step, f"'{item.symbol}' of ({', '.join(item.args)}) {verb}", item.path, hint)


def _arguments(count: int) -> str:
    return f"{count} argument{'' if count == 1 else 's'}"
