"""A grounding: every symbol of a theory as given data, a network, a rule or a definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

import torch
from torch import Tensor, nn

from fotltn.engine import Prepared, as_given, compile_formulas
from fotltn.errors import CheckError, DataError, did_you_mean, listing
from fotltn.logic import core as c
from fotltn.logic.check import CheckedFormula, check_formula
from fotltn.logic.signature import Signature
from fotltn.networks.inputs import Inputs
from fotltn.networks.parts import Part
from fotltn.networks.predicates import Defined, Logits, Network, Predicate, Rule, Softmax, Table
from fotltn.semantics.config import STABLE_PRODUCT, Semantics
from fotltn.semantics.interpretation import Interpretation, Value
from fotltn.semantics.sparse import SparseTable
from fotltn.syntax.parse import parse_formula
from fotltn.tree import postorder


class Grounding(nn.Module):
    """From parameters and given data to tables of all symbols.

    Args:
        signature: the symbols.
        given: sizes, traces, constants, relations, functions, and the tables of given predicates.
        predicates: how the other predicates are computed; these take the place of given ones.
        inputs: for each sort, what networks see of its entities.
        groups: predicates that exclude each other, by one network each.
        functions: real-valued functions as networks.
        features: for rules, the features of each sort with axes (trace, entity, time, feature).
        semantics: of definitions that do not name one.

    Raises:
        DataError: a symbol is unknown, has no grounding or two, or a network lacks its inputs.
        CheckError: a definition is wrong, or depends on itself.
    """

    def __init__(
        self,
        signature: Signature,
        given: Interpretation,
        predicates: Mapping[str, Predicate],
        *,
        inputs: Mapping[str, Inputs] | None = None,
        groups: Sequence[Softmax] = (),
        functions: Mapping[str, Network] | None = None,
        features: Mapping[str, Tensor] | None = None,
        semantics: Semantics = STABLE_PRODUCT,
    ) -> None:
        """Check that every symbol has one grounding, and order the definitions."""
        super().__init__()
        self.signature = signature
        self.semantics = semantics
        self.inputs = nn.ModuleDict(dict(inputs or {}))
        self.networks = nn.ModuleDict(
            {n: p for n, p in predicates.items() if isinstance(p, Network | Logits)}
        )
        self.groups = nn.ModuleList(groups)
        self._heads = tuple(groups)
        self.functions = nn.ModuleDict(dict(functions or {}))
        tables = {n: p.table for n, p in predicates.items() if isinstance(p, Table)}
        self.given = replace(given, predicates={**given.predicates, **tables})
        for name, rule in predicates.items():
            if isinstance(rule, Rule):
                made = _made(name, rule, self.given, features or {}, signature)
                self.given = replace(self.given, predicates={**self.given.predicates, name: made})
        self._check(predicates)
        self.definitions = _ordered(
            {
                n: _definition(n, p, signature)
                for n, p in predicates.items()
                if isinstance(p, Defined)
            }
        )
        self._semantics = {
            n: p.semantics or semantics for n, p in predicates.items() if isinstance(p, Defined)
        }
        self._prepared: dict[tuple[str, int], Prepared] = {}

    @property
    def learned(self) -> tuple[str, ...]:
        """The predicates that networks compute, without those that are defined by formulas."""
        grouped = [n for g in self._heads for n in g.names]
        return tuple(n for n in self.signature.predicates if n in self.networks or n in grouped)

    @property
    def open(self) -> tuple[str, ...]:
        """The predicates that training can change: learned ones, and those defined by them."""
        found = set(self.learned)
        for name, checked in self.definitions.items():
            if any(
                isinstance(a, c.Atom) and a.predicate in found for a in postorder(checked.formula)
            ):
                found.add(name)
        return tuple(n for n in self.signature.predicates if n in found)

    def forward(self, part: Part | None = None) -> Interpretation:
        """Tables of all symbols, with gradients to the parameters; of a part, if one is given."""
        seen = {sort: module() for sort, module in self.inputs.items()}
        given = self.given
        if part is not None:
            seen = {sort: part.pick(table, (sort, None)) for sort, table in seen.items()}
            given = part.given
        tables: dict[str, Tensor | SparseTable] = dict(given.predicates)
        for name, network in self.networks.items():
            if isinstance(network, Logits):
                table = network()
                sorts = self.signature.predicates[name].sorts
                tables[name] = table if part is None else part.pick(table, sorts)
            else:
                tables[name] = network([seen[s] for s in self.signature.predicates[name].sorts])
        for group in self._heads:
            sorts = self.signature.predicates[group.names[0]].sorts
            tables.update(group([seen[s] for s in sorts]))
        functions = dict(given.functions)
        for name, network in self.functions.items():
            functions[name] = network([seen[s] for s in self.signature.functions[name].sorts])
        model = replace(given, predicates=tables, functions=functions)
        key = 0 if part is None else part.key
        for name, checked in self.definitions.items():
            table = self._define(name, checked, model, key)
            model = replace(model, predicates={**model.predicates, name: table})
        return model

    def _define(
        self, name: str, checked: CheckedFormula, model: Interpretation, key: int
    ) -> Tensor:
        if (name, key) not in self._prepared:
            program = compile_formulas(
                {name: checked.formula},
                as_given(self.signature, model),
                self._semantics[name],
                at=None,
            )
            self._prepared[name, key] = program.prepare(model, dtype=_dtype(model))
        value = self._prepared[name, key](model)[name]
        table = arranged(value, checked.free, model)
        if self.signature.predicates[name].static and table.shape[-1] > 1:
            raise CheckError(
                f"'{name}' is static, but its definition changes over time: {checked.formula!r}"
            )
        return table

    def _check(self, predicates: Mapping[str, Predicate]) -> None:
        grouped = [n for g in self._heads for n in g.names]
        known = self.signature.predicates
        for name in [*predicates, *grouped]:
            if name not in known:
                hint = did_you_mean(name, known) or f"declared: {listing(known)}"
                raise DataError(f"a grounding is given for the unknown predicate '{name}'; {hint}")
        twice = [n for n in grouped if n in predicates or grouped.count(n) > 1]
        if twice:
            raise DataError(f"the predicate '{twice[0]}' has two groundings")
        for name in known:
            if name not in {*predicates, *grouped, *self.given.predicates}:
                raise DataError(
                    f"the predicate '{name}' has no grounding: no facts, network or definition"
                )
        for name in [*(n for n, p in predicates.items() if isinstance(p, Network)), *grouped]:
            for sort in known[name].sorts:
                if sort not in self.inputs:
                    raise DataError(
                        f"a network for '{name}' sees nothing of the sort '{sort}'; "
                        "give it embeddings or features"
                    )
            if not known[name].sorts:
                raise DataError(f"'{name}' has no arguments that a network could see; use logits")
        for group in self._heads:
            kinds = {(known[n].sorts, known[n].static) for n in group.names}
            if len(kinds) > 1:
                raise DataError(
                    f"{listing(list(group.names))} share a network, but not their sorts"
                )


def arranged(value: Value, free: Sequence[c.Axis], model: Interpretation) -> Tensor:
    """A value as a table: axes (trace, the free variables in order, time)."""
    tensor = value.tensor
    order = [0, *(1 + value.axes.index(a) for a in free if a in value.axes), tensor.dim() - 1]
    tensor = tensor.permute(order)
    for place, axis in enumerate(free):
        if axis not in value.axes:
            tensor = tensor.unsqueeze(1 + place)
    return tensor.expand(-1, *(model.size(a) for a in free), -1)


def _definition(name: str, given: Defined, signature: Signature) -> CheckedFormula:
    head = f"{name}({', '.join(given.variables)})"
    source = f"the definition of {head}"
    sorts = signature.predicates[name].sorts if name in signature.predicates else ()
    if len(sorts) != len(given.variables):
        raise CheckError(f"'{name}' takes {len(sorts)} arguments, but its definition says {head}")
    checked = check_formula(parse_formula(given.formula, source=source), signature)
    free = {a.name: a for a in checked.free}
    extra = [n for n in free if n not in given.variables]
    if extra:
        raise CheckError(f"{source} has the free variable '{extra[0]}', which its head lacks")
    axes = []
    for variable, sort in zip(given.variables, sorts, strict=True):
        axis = free.get(variable, c.Axis(variable, sort))
        if axis.sort != sort:
            raise CheckError(
                f"in {source}, '{variable}' is of sort '{axis.sort}', but '{name}' takes '{sort}'"
            )
        axes.append(axis)
    return replace(checked, free=tuple(axes))


def _ordered(definitions: dict[str, CheckedFormula]) -> dict[str, CheckedFormula]:
    """The definitions such that each comes after those that it uses."""
    uses = {
        name: {
            a.predicate
            for a in postorder(checked.formula)
            if isinstance(a, c.Atom) and a.predicate in definitions
        }
        for name, checked in definitions.items()
    }
    try:
        order = list(TopologicalSorter(uses).static_order())
    except CycleError as error:
        ring = " -> ".join(reversed(error.args[1]))
        raise CheckError(f"definitions depend on themselves: {ring}") from None
    return {name: definitions[name] for name in order}


def _made(
    name: str,
    rule: Rule,
    given: Interpretation,
    features: Mapping[str, Tensor],
    signature: Signature,
) -> Tensor:
    decl = signature.predicates[name]
    table = rule.function(given, features)
    sizes = tuple(given.sizes[s] for s in decl.sorts)
    times = (1,) if decl.static else (1, given.horizon)
    if not isinstance(table, Tensor) or table.shape[1:-1] != sizes or table.shape[-1] not in times:
        shape = tuple(table.shape) if isinstance(table, Tensor) else type(table).__name__
        raise DataError(
            f"the rule of '{name}' gives {shape}; expected a tensor with axes "
            f"(trace, {', '.join((*decl.sorts, 'time'))})"
        )
    if not bool(((table >= 0) & (table <= 1)).all()):
        raise DataError(f"the rule of '{name}' gives degrees outside [0, 1]")
    return table


def _dtype(model: Interpretation) -> torch.dtype:
    for table in model.predicates.values():
        if isinstance(table, Tensor) and table.is_floating_point():
            return table.dtype
    return torch.get_default_dtype()
