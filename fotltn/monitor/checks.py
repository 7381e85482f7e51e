"""Check that the facts and values of a step fit the theory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

from fotltn.errors import name_hint, shown
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.steps import Fact, Header, Path, TraceStep, is_number, wrong


class Checked(NamedTuple):
    """A fact or value of a step, by names: symbol, arguments, and degree or result."""

    symbol: str
    args: tuple[str, ...]
    value: Any
    path: Path


class Checker:
    """Checks names, arities, degrees and results against a signature."""

    def __init__(self, signature: Signature, hard: Set[str] = frozenset()) -> None:
        """The degrees of `hard` predicates are 0 or 1."""
        self.signature, self.hard = signature, hard

    def check(self, step: TraceStep) -> list[Checked]:
        """The facts and values of a step.

        Raises:
            DataError: one of them does not fit.
        """
        facts = [self._fact(step, f, ("facts", i)) for i, f in enumerate(step.facts)]
        return facts + [self._value(step, f, ("values", i)) for i, f in enumerate(step.values)]

    def entities(self, header: Header) -> None:
        """Refuse entities of unknown sorts, and what is no list of names.

        Raises:
            DataError: with the sort.
        """
        for sort, names in header.entities.items():
            if sort not in self.signature.sorts:
                hint = name_hint(sort, self.signature.sorts)
                raise wrong(header, f"unknown sort '{sort}'", ("entities", sort), hint)
            listed = isinstance(names, Sequence) and not isinstance(names, str)
            if not listed or not all(isinstance(n, str) for n in names):
                raise wrong(
                    header, f"the entities of '{sort}' are a list of names", ("entities", sort)
                )

    def _fact(self, step: TraceStep, fact: Fact, path: Path) -> Checked:
        signature = self.signature
        symbols: dict[str, Any] = {**signature.predicates, **signature.relations}
        name = self._symbol(step, fact, path, symbols, "predicate", signature.functions)
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
        name = self._symbol(step, fact, path, functions, "function", signature.predicates)
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
        others: Mapping[str, object],
    ) -> str:
        if isinstance(fact, str) or not isinstance(fact, list | tuple) or not fact:
            raise wrong(step, f"a {kind} with its arguments is a list", path)
        name = fact[0]
        if not isinstance(name, str):
            raise wrong(step, f"a {kind} comes first, by name, not {shown(name)}", (*path, 0))
        if name not in known:
            hint = name_hint(name, known)
            if name in others:
                key = "values" if kind == "predicate" else "facts"
                hint = f"that belongs under '{key}'"
            raise wrong(step, f"unknown {kind} '{name}'", (*path, 0), hint)
        return name

    def _names(self, step: TraceStep, names: Fact, path: Path) -> tuple[str, ...]:
        for place, name in enumerate(names):
            if not isinstance(name, str):
                raise wrong(step, f"an argument is a name, not {shown(name)}", (*path, place + 1))
        return tuple(names)


def _arguments(count: int) -> str:
    return f"{count} argument{'' if count == 1 else 's'}"
