"""Find predicates that hard axioms define: those of open kind, and those without facts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from fotltn.errors import Diagnostic, FotError, listing, name_hint, warning
from fotltn.logic.check import CheckedTheory, check_formula
from fotltn.logic.defined import Definition, definitions_in
from fotltn.logic.parts import symbols
from fotltn.logic.text import written
from fotltn.project.config import AUTO, Config, PredicateConfig
from fotltn.syntax.parse import parse_formula
from fotltn.syntax.show import show

#: The semantics of definitions in hard axioms, in which one witness is enough.
_SEMANTICS = "product"


def settled(config: Config, theory: CheckedTheory) -> Config:
    """Return the settings with the kind of every predicate settled.

    A definition that uses nothing learned stays an axiom, because labels could not change it. In
    sampled worlds, predicates without a definition keep the open kind and are drawn.
    """
    sampled = config.method == "posterior"
    names = [n for n, how in config.predicates.items() if how.kind == AUTO]
    if not names:
        return config
    formulas = {n: how.formula for n, how in config.predicates.items() if how.kind == "formula"}
    uses = {n: _symbols(text, theory) for n, text in formulas.items()}
    learned = {n for n, how in config.predicates.items() if how.kind not in (AUTO, "facts")}
    learned |= {*names, *(n for group in config.groups for n in group.predicates)}
    while True:
        definitions = definitions_in(theory, names, uses)
        refused = _refused(definitions.by_name.values(), learned, theory)
        if not refused:
            break
        names = [n for n in names if n not in refused]
    predicates = {
        n: PredicateConfig("network") if how.kind == AUTO and not sampled else how
        for n, how in config.predicates.items()
    }
    for name, definition in definitions.by_name.items():
        predicates[name] = PredicateConfig(
            "formula",
            variables=tuple(axis.name for axis in definition.axes),
            formula=show(written(definition.formula)),
            semantics=_SEMANTICS,
            axioms=tuple(a for a in definition.axioms if a in definitions.axioms),
        )
    return replace(config, predicates=predicates)


def _refused(
    definitions: Iterable[Definition], learned: set[str], theory: CheckedTheory
) -> set[str]:
    """Return definitions that use nothing learned, or whose variables are named like constants."""
    return {
        one.name
        for one in definitions
        if not learned & {*symbols(one.formula)}
        or any(axis.name in theory.signature.constants for axis in one.axes)
    }


def _symbols(text: str, theory: CheckedTheory) -> list[str]:
    with suppress(FotError):  # reported later, when the definition is built
        return symbols(check_formula(parse_formula(text), theory.signature).formula)
    return []


def never_stated(
    theory: CheckedTheory, predicates: Collection[str], stated: Collection[str]
) -> Iterator[Diagnostic]:
    """Yield a warning for each predicate that has no facts although hard axioms define it.

    Args:
        theory: the theory.
        predicates: the predicates that nothing computes.
        stated: the predicates that have facts.
    """
    names = [n for n in predicates if n not in stated]
    for one in definitions_in(theory, names).by_name.values():
        verb = "says" if len(one.axioms) == 1 else "say"
        variables = ", ".join(f'"{axis.name}"' for axis in one.axes)
        formula = json.dumps(show(written(one.formula)), ensure_ascii=False)
        yield warning(
            f"no fact states '{one.name}', so it is false everywhere, but "
            f"{listing(one.axioms)} {verb} what it is",
            hint=f"to compute it, write {one.name} = {{ variables = [{variables}], formula = "
            f"{formula} }} in [predicates]",
        )


def held(config: Config, theory: CheckedTheory) -> tuple[str, ...]:
    """Return the axioms that hold by definition, which need not be learned.

    Raises:
        DataError: a definition names an axiom that the theory lacks.
    """
    known = [a.name for a in theory.axioms]
    names: dict[str, None] = {}
    for predicate, how in config.predicates.items():
        for name in how.axioms:
            if name not in known:
                hint = name_hint(name, known)
                message = f"the theory has no axiom '{name}'"
                raise config.error(("predicates", predicate, "axioms"), message, hint)
            names[name] = None
    return tuple(n for n in known if n in names)
