"""Predicates defined by formulas: check definitions against their heads, and order them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from fotltn.errors import CheckError
from fotltn.logic import core as c
from fotltn.logic.check import CheckedFormula, check_formula
from fotltn.logic.parts import symbols
from fotltn.logic.signature import Signature
from fotltn.networks.predicates import Defined
from fotltn.syntax.parse import parse_formula


def definitions(defined: Mapping[str, Defined], signature: Signature) -> dict[str, CheckedFormula]:
    """Return checked definitions, each after those it uses, with the head's variables free.

    Raises:
        CheckError: a definition does not fit its head, or definitions depend on themselves.
    """
    return _ordered({name: _checked(name, d, signature) for name, d in defined.items()})


def _checked(name: str, definition: Defined, signature: Signature) -> CheckedFormula:
    variables = definition.variables
    decl, head = signature.predicates[name], f"{name}({', '.join(variables)})"

    def wrong(what: str) -> CheckError:
        hint = definition.formula
        return CheckError(f"the definition of {head} {what}", hint=hint)

    if len(decl.sorts) != len(variables):
        count = len(decl.sorts)
        raise CheckError(
            f"'{name}' takes {count} argument{'' if count == 1 else 's'}, but is defined as {head}"
        )
    for variable in variables:
        if variables.count(variable) > 1:
            raise CheckError(f"the definition of {head} repeats the variable '{variable}'")
        if variable in signature.constants:
            raise CheckError(
                f"in the definition of {head}, '{variable}' is a constant, not a variable"
            )
    source = f"the definition of {head}"
    parsed = parse_formula(definition.formula, source=source)
    sorts = dict(zip(variables, decl.sorts, strict=True))
    checked = check_formula(parsed, signature, sorts=sorts)
    free = {axis.name: axis for axis in checked.free}
    for axis in free.values():
        if axis.name not in variables:
            raise wrong(f"has the free variable '{axis.name}', which is not in its head")
    axes = []
    for variable, sort in zip(variables, decl.sorts, strict=True):
        axis = free.get(variable, c.Axis(variable, sort))
        if axis.sort != sort:
            raise wrong(
                f"uses '{variable}' with the sort '{axis.sort}', but '{name}' takes the sort "
                f"'{sort}'"
            )
        axes.append(axis)
    return replace(checked, free=tuple(axes))


def _ordered(checked: dict[str, CheckedFormula]) -> dict[str, CheckedFormula]:
    uses = {
        name: [used for used in symbols(one.formula) if used in checked]
        for name, one in checked.items()
    }
    try:
        order = list(TopologicalSorter(uses).static_order())
    except CycleError as error:
        ring = " -> ".join(reversed(error.args[1]))
        raise CheckError(
            f"definitions depend on themselves: {ring}",
            hint="a definition may only use definitions that do not use it",
        ) from None
    return {name: checked[name] for name in order}
