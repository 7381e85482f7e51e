"""Predicates that formulas define: checked against their heads, and put in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from torch import Tensor

from fotltn.errors import CheckError, Diagnostic
from fotltn.logic import core as c
from fotltn.logic.check import CheckedFormula, check_formula
from fotltn.logic.signature import Signature
from fotltn.networks.predicates import Defined
from fotltn.semantics.interpretation import Tables, Value
from fotltn.syntax.parse import parse_formula
from fotltn.tree import postorder


def definitions(given: Mapping[str, Defined], signature: Signature) -> dict[str, CheckedFormula]:
    """Checked definitions, each after those that it uses; free variables are those of the head.

    Raises:
        CheckError: a definition does not fit its head, or definitions depend on themselves.
    """
    return _ordered({name: _checked(name, d, signature) for name, d in given.items()})


def _checked(name: str, given: Defined, signature: Signature) -> CheckedFormula:
    decl, head = signature.predicates[name], f"{name}({', '.join(given.variables)})"
    if len(decl.sorts) != len(given.variables):
        count = len(decl.sorts)
        raise CheckError(
            f"'{name}' takes {count} argument{'' if count == 1 else 's'}, but is defined as {head}"
        )
    for variable in given.variables:
        if given.variables.count(variable) > 1:
            raise CheckError(f"the definition of {head} has the variable '{variable}' twice")
        if variable in signature.constants:
            raise CheckError(
                f"in the definition of {head}, '{variable}' is a constant, not a variable"
            )
    source = f"the definition of {head}"
    checked = check_formula(parse_formula(given.formula, source=source), signature)
    free = {axis.name: axis for axis in checked.free}
    for axis in free.values():
        if axis.name not in given.variables:
            raise _wrong(head, given, f"has the free variable '{axis.name}', which is not in it")
    axes = []
    for variable, sort in zip(given.variables, decl.sorts, strict=True):
        axis = free.get(variable, c.Axis(variable, sort))
        if axis.sort != sort:
            what = f"takes '{variable}' to be of sort '{axis.sort}', but '{name}' is of '{sort}'"
            raise _wrong(head, given, what)
        axes.append(axis)
    if decl.static and (why := _changes(checked.formula, signature)):
        raise _wrong(head, given, f"changes over time ({why}), but '{name}' is static")
    return replace(checked, free=tuple(axes))


def _wrong(head: str, given: Defined, what: str) -> CheckError:
    return CheckError(Diagnostic(f"the definition of {head} {what}", hint=given.formula))


def _changes(formula: c.Formula, signature: Signature) -> str | None:
    """What in a formula may depend on the time point."""
    for node in postorder(formula):
        match node:
            case c.Atom(name) if not signature.predicates[name].static:
                return f"'{name}' is not static"
            case c.Apply(name) if not signature.functions[name].static:
                return f"'{name}' is not static"
            case c.Edge() | c.Shift() | c.Aggregate() | c.Until():
                return "it has temporal operators"
    return None


def _ordered(found: dict[str, CheckedFormula]) -> dict[str, CheckedFormula]:
    uses = {
        name: [
            node.predicate
            for node in postorder(checked.formula)
            if isinstance(node, c.Atom) and node.predicate in found
        ]
        for name, checked in found.items()
    }
    try:
        order = list(TopologicalSorter(uses).static_order())
    except CycleError as error:
        ring = " -> ".join(reversed(error.args[1]))
        raise CheckError(
            Diagnostic(
                f"definitions depend on themselves: {ring}",
                hint="each definition may use those that do not use it",
            )
        ) from None
    return {name: found[name] for name in order}


def arranged(value: Value, free: Sequence[c.Axis], tables: Tables) -> Tensor:
    """A value as a table: axes (trace, the free variables in order, time)."""
    tensor = value.tensor
    order = [0, *(1 + value.axes.index(a) for a in free if a in value.axes), tensor.dim() - 1]
    tensor = tensor.permute(order)
    for place, axis in enumerate(free):
        if axis not in value.axes:
            tensor = tensor.unsqueeze(1 + place)
    return tensor.expand(-1, *(tables.size(a) for a in free), -1)
