"""A grounding: every symbol of a theory as given data, a network, a rule or a definition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from fotltn.errors import DataError, SemanticsError, did_you_mean, listing
from fotltn.evaluation import Evaluator
from fotltn.logic import core as c
from fotltn.logic.core import REAL
from fotltn.logic.signature import Signature
from fotltn.networks.definitions import arranged, definitions
from fotltn.networks.inputs import Inputs
from fotltn.networks.parts import Part
from fotltn.networks.predicates import (
    Cells,
    Defined,
    Logits,
    Network,
    Predicate,
    Rule,
    Softmax,
    Table,
)
from fotltn.semantics.config import STABLE_PRODUCT, Semantics
from fotltn.semantics.interpretation import Tables
from fotltn.semantics.sparse import SparseTable
from fotltn.tree import postorder


class Grounding(nn.Module):
    """From parameters and given data to tables of all symbols.

    Args:
        signature: the symbols.
        given: sizes, traces, constants, relations, functions, and the tables of given predicates.
        predicates: how the other predicates are computed; these take the place of given ones.
        inputs: for each sort, what networks see of its entities.
        groups: predicates that exclude each other, by one network each.
        functions: real-valued functions as networks, whose outputs are the values as they are.
        features: for rules, the features of each sort with axes (trace, entity, time, feature).
        present: for sorts whose entities come and go, where these are, with axes (trace, entity,
            time). Networks compute nothing elsewhere: what is not there satisfies no predicate.
        semantics: of definitions that do not name one.

    Raises:
        DataError: a symbol is unknown, has no grounding or two, or a network lacks its inputs.
        CheckError: a definition is wrong, or depends on itself.
        SemanticsError: a definition is to be two-valued.
    """

    def __init__(
        self,
        signature: Signature,
        given: Tables,
        predicates: Mapping[str, Predicate],
        *,
        inputs: Mapping[str, Inputs] | None = None,
        groups: Sequence[Softmax] = (),
        functions: Mapping[str, Network] | None = None,
        features: Mapping[str, Tensor] | None = None,
        present: Mapping[str, Tensor] | None = None,
        semantics: Semantics = STABLE_PRODUCT,
    ) -> None:
        """Check that every symbol has one grounding, and order the definitions."""
        super().__init__()
        self.signature = signature
        self.semantics = semantics
        self._inputs = dict(inputs or {})
        self._networks = {n: p for n, p in predicates.items() if isinstance(p, Network | Logits)}
        self._groups = tuple(groups)
        self._functions = dict(functions or {})
        self.inputs = _registered(self._inputs)
        self.networks = _registered(self._networks)
        self.groups = nn.ModuleList(groups)
        self.functions = _registered(self._functions)
        self.defined = {n: p for n, p in predicates.items() if isinstance(p, Defined)}
        self._check(predicates, given)
        for sort, mask in (present or {}).items():
            self.register_buffer(f"present_{sort}", mask, persistent=False)
        self._present = tuple(present or {})
        self._cells: dict[tuple[tuple[str, ...], bool, torch.device], Cells] = {}
        self.given = self._completed(given, predicates, features or {})
        self.definitions = definitions(self.defined, signature)
        self._evaluators = {
            n: Evaluator(
                {n: checked.formula}, _graded(self.defined[n].semantics or semantics), None
            )
            for n, checked in self.definitions.items()
        }

    @property
    def learned(self) -> tuple[str, ...]:
        """The predicates that networks compute, without those that are defined by formulas."""
        grouped = [n for g in self._groups for n in g.names]
        return tuple(n for n in self.signature.predicates if n in self._networks or n in grouped)

    @property
    def open(self) -> tuple[str, ...]:
        """The predicates that training can change: learned ones, and those defined by them."""
        found = set(self.learned)
        for name, checked in self.definitions.items():
            for node in postorder(checked.formula):
                match node:
                    case c.Atom(used) if used in found:
                        found.add(name)
                    case c.Apply(used) if used in self._functions:
                        found.add(name)
        return tuple(n for n in self.signature.predicates if n in found)

    def forward(self, part: Part | None = None) -> Tables:
        """Tables of all symbols, with gradients to the parameters; of a part, if one is given.

        Raises:
            DataError: a network or its inputs have the wrong shape.
        """
        given = self.given if part is None else part.given
        seen = self._seen(part)
        tables: dict[str, Tensor | SparseTable] = {}
        for name, network in self._networks.items():
            sorts = self.signature.predicates[name].sorts
            with _about(name):
                if isinstance(network, Logits):
                    table = network()
                    _check_shape(table, self.given, sorts, self._static(name))
                    tables[name] = table if part is None else part.pick(table, sorts)
                else:
                    cells = self._computed(sorts, part, static=self._static(name))
                    table = network([seen[s] for s in sorts], cells)
                    _check_shape(table, given, sorts, self._static(name))
                    tables[name] = table
        for group in self._groups:
            first, sorts = group.names[0], self.signature.predicates[group.names[0]].sorts
            with _about(first):
                cells = self._computed(sorts, part, static=self._static(first))
                found = group([seen[s] for s in sorts], cells)
                _check_shape(found[first], given, sorts, self._static(first))
                tables.update(found)
        functions = dict(given.functions)
        for name, network in self._functions.items():
            decl = self.signature.functions[name]
            with _about(name):
                cells = self._computed(decl.sorts, part, static=decl.static)
                functions[name] = network.outputs([seen[s] for s in decl.sorts], cells)
                _check_shape(functions[name], given, decl.sorts, decl.static)
        # Computed tables come first: they say how precise everything is.
        model = replace(given, predicates={**tables, **given.predicates}, functions=functions)
        return self._with_definitions(model, 0 if part is None else part.key)

    def decided(self, model: Tables, *, threshold: float = 0.5) -> Tables:
        """Two-valued tables that agree with the definitions: these are applied to decided ones.

        Args:
            model: tables, as computed by this grounding on all data.
            threshold: the degree from which on what is learned is true.
        """
        tables = {n: model.predicate(n) for n in self.learned}
        decided = {n: (t >= threshold).to(t.dtype) for n, t in tables.items()}
        found = self.applied(replace(model, predicates={**model.predicates, **decided}))
        defined = {n: (found.predicate(n) >= threshold) for n in self.defined}
        first = next(iter(tables.values()))
        crisp = {n: t.to(first.dtype) for n, t in defined.items()}
        return replace(found, predicates={**found.predicates, **crisp})

    def applied(self, tables: Tables) -> Tables:
        """Tables in which what is defined is computed anew from the rest, on all data."""
        kept = {n: t for n, t in tables.predicates.items() if n not in self.defined}
        return self._with_definitions(replace(tables, predicates=kept), 0)

    def _with_definitions(self, tables: Tables, key: int | None) -> Tables:
        for name, checked in self.definitions.items():
            value = self._evaluators[name](tables, key)[name]
            if self._evaluators[name].semantics.log_space:
                value = value._replace(tensor=value.tensor.exp())
            table = arranged(value, checked.free, tables)
            tables = replace(tables, predicates={**tables.predicates, name: table})
        return tables

    def _seen(self, part: Part | None) -> dict[str, Tensor]:
        """What networks see of each sort."""
        seen = {}
        for sort, module in self._inputs.items():
            vectors = module()
            size, width = self.given.sizes[sort], vectors.shape[-1]
            if not _fits(vectors.shape[:-1], (size,), self.given, static=False):
                raise DataError(
                    f"what is seen of the sort '{sort}' has shape {tuple(vectors.shape)}; "
                    f"expected ({self.given.batch} or 1, {size}, {self.given.horizon} or 1, "
                    f"{width}), with axes (trace, entity, time, width)"
                )
            seen[sort] = vectors if part is None else part.pick(vectors, (sort,))
        return seen

    def _computed(self, sorts: Sequence[str], part: Part | None, *, static: bool) -> Cells | None:
        """The cells of a table where all arguments are present; None for all."""
        if not set(sorts) & set(self._present):
            return None
        given = self.given if part is None else part.given
        key = (tuple(sorts), static, given.lengths.device)
        if part is None and key in self._cells:
            return self._cells[key]
        horizon = 1 if static else given.horizon
        shape = (given.batch, *(given.sizes[s] for s in sorts), horizon)
        there = torch.ones(shape, dtype=torch.bool, device=given.lengths.device)
        for place, sort in enumerate(sorts):
            if sort not in self._present:
                continue
            mask: Tensor = getattr(self, f"present_{sort}")
            mask = mask if part is None else part.pick(mask, (sort,))
            mask = mask.any(-1, keepdim=True) if static else mask
            axes = [1] * len(shape)
            axes[0], axes[1 + place], axes[-1] = mask.shape
            there &= mask.reshape(axes)
        cells = Cells(there.nonzero(as_tuple=True), shape)
        if part is None:
            self._cells[key] = cells
        return cells

    def _static(self, name: str) -> bool:
        return self.signature.predicates[name].static

    def _completed(
        self,
        given: Tables,
        predicates: Mapping[str, Predicate],
        features: Mapping[str, Tensor],
    ) -> Tables:
        """The given data with tables and what rules make of them, without what is computed."""
        for name, found in predicates.items():
            if isinstance(found, Table | Rule):
                is_rule = isinstance(found, Rule)
                table = found.function(given, features) if isinstance(found, Rule) else found.table
                with _about(f"the {'rule' if is_rule else 'table'} of '{name}'"):
                    _check_degrees(table)
                    sorts = self.signature.predicates[name].sorts
                    _check_shape(table, given, sorts, self._static(name))
                given = replace(given, predicates={**given.predicates, name: table})
        computed = {*self.learned, *self.defined}
        kept = {n: t for n, t in given.predicates.items() if n not in computed}
        return replace(given, predicates=kept)

    # --- what is refused --------------------------------------------------------------------------

    def _check(self, predicates: Mapping[str, Predicate], given: Tables) -> None:
        known, grouped = self.signature.predicates, [n for g in self._groups for n in g.names]
        for name in [*predicates, *grouped]:
            _known("predicate", name, known)
        for name, found in predicates.items():
            if not isinstance(found, Predicate):
                raise DataError(
                    f"the predicate '{name}' is grounded by a {type(found).__name__}; expected "
                    "Network(…), Logits(…), Table(…), Rule(…) or Defined(…)"
                )
        twice = [n for n in grouped if n in predicates or grouped.count(n) > 1]
        if twice:
            raise DataError(f"the predicate '{twice[0]}' has two groundings")
        for name in known:
            if name not in {*predicates, *grouped, *given.predicates}:
                raise DataError(
                    f"the predicate '{name}' has no grounding: no facts, network or definition"
                )
        for group in self._groups:
            if len({(known[n].sorts, known[n].static) for n in group.names}) > 1:
                raise DataError(
                    f"{listing(group.names)} share a network, but differ in their sorts, or in "
                    "whether they are static"
                )
        self._check_functions(given)
        networks = [n for n, p in self._networks.items() if isinstance(p, Network)]
        for name in [*networks, *grouped]:
            self._check_inputs(name, known[name].sorts)
        for sort in self._inputs:
            if sort not in given.sizes:
                _known("sort", sort, self.signature.sorts)
                raise DataError(f"nothing says how many entities the sort '{sort}' has")

    def _check_functions(self, given: Tables) -> None:
        known = self.signature.functions
        for name, network in self._functions.items():
            _known("function", name, known)
            if known[name].result != REAL:
                raise DataError(
                    f"the function '{name}' gives entities of sort '{known[name].result}'; "
                    "networks give numbers"
                )
            if not isinstance(network, Network):
                raise DataError(
                    f"the function '{name}' is grounded by a {type(network).__name__}; "
                    "expected Network(…)"
                )
            self._check_inputs(name, known[name].sorts)
        for name in known:
            if name not in self._functions and name not in given.functions:
                raise DataError(f"the function '{name}' has no grounding: no facts, no network")

    def _check_inputs(self, name: str, sorts: Sequence[str]) -> None:
        if not sorts:
            raise DataError(f"'{name}' has no arguments that a network could see; use logits")
        for sort in sorts:
            if sort not in self._inputs:
                raise DataError(
                    f"a network for '{name}' sees nothing of the sort '{sort}'; "
                    "give it embeddings or features"
                )


def _registered(modules: Mapping[str, nn.Module]) -> nn.ModuleDict:
    """Modules by name; a name that PyTorch uses itself gets an apostrophe."""
    own = nn.ModuleDict()
    return nn.ModuleDict({n + "'" * hasattr(own, n): m for n, m in modules.items()})


def _known(kind: str, name: str, known: Mapping[str, object]) -> None:
    if name not in known:
        hint = did_you_mean(name, known) or f"declared: {listing(known)}"
        raise DataError(f"a grounding is given for the unknown {kind} '{name}'; {hint}")


@contextmanager
def _about(name: str) -> Iterator[None]:
    """Say in errors which symbol they are about."""
    what = name if " " in name else f"'{name}'"
    try:
        yield
    except DataError as error:
        first = error.diagnostics[0]
        raise DataError(replace(first, message=f"{what}: {first.message}")) from error.__cause__


def _fits(shape: Sequence[int], sizes: Sequence[int], tables: Tables, *, static: bool) -> bool:
    """Whether a shape is (traces or 1, sizes …, time points or 1)."""
    if len(shape) != len(sizes) + 2:
        return False
    times = (1,) if static else (1, tables.horizon)
    return shape[0] in (1, tables.batch) and tuple(shape[1:-1]) == (*sizes,) and shape[-1] in times


def _check_shape(
    table: Tensor | SparseTable, tables: Tables, sorts: Sequence[str], static: bool
) -> None:
    sizes = [tables.sizes[s] for s in sorts]
    if not _fits(table.shape, sizes, tables, static=static):
        traces = f"{tables.batch} or 1" if tables.batch > 1 else "1"
        times = "1, since it is static" if static else f"{tables.horizon} or 1"
        raise DataError(
            f"a table of shape {tuple(table.shape)}; expected "
            f"({', '.join([traces, *map(str, sizes), times])}), with axes "
            f"({', '.join(['trace', *sorts, 'time'])})"
        )


def _check_degrees(table: object) -> None:
    if not isinstance(table, Tensor | SparseTable):
        raise DataError(f"a {type(table).__name__}; expected a tensor or a table of facts")
    degrees = table if isinstance(table, Tensor) else table.value
    if degrees.dtype != torch.bool and not bool(((degrees >= 0) & (degrees <= 1)).all()):
        raise DataError("degrees lie in [0, 1], but not all of these do")


def _graded(semantics: Semantics) -> Semantics:
    """A semantics that has degrees, and so slopes to learn from."""
    if semantics.boolean:
        raise SemanticsError("two-valued truth has no slope to learn from")
    return semantics
