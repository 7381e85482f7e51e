"""A grounding: every symbol of a theory as given data, a network, a rule or a definition."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fotltn.errors import DataError, SemanticsError, listing, name_hint
from fotltn.evaluation import Evaluator
from fotltn.logic.core import REAL
from fotltn.logic.parts import symbols
from fotltn.logic.signature import Signature
from fotltn.networks.definitions import definitions
from fotltn.networks.encoders import SeenData
from fotltn.networks.parts import DataPart
from fotltn.networks.predicates import (
    DataRule,
    Defined,
    Logits,
    Marginal,
    Network,
    NetworkCall,
    Predicate,
    PresentCells,
    Softmax,
)
from fotltn.networks.sequences import Encoded, Inputs
from fotltn.networks.table_shapes import about, check_degrees, check_shape, fits
from fotltn.semantics.config import STABLE_PRODUCT, Semantics
from fotltn.semantics.presence import present_mask
from fotltn.semantics.sparse import largest
from fotltn.semantics.tables import Decisions, Tables, arranged
from fotltn.syntax.theory import FunctionDecl, PredicateDecl
from fotltn.threads import threads_for

#: The names that PyTorch itself uses for attributes of modules.
_PLAIN = nn.ModuleDict()


class LaidData(NamedTuple):
    """The data that networks run on: tables of given symbols, and inputs by sort."""

    fixed: Tables
    seen: Mapping[str, SeenData]


class Grounding(nn.Module):
    """Computes the tables of all symbols from parameters and given data.

    Args:
        signature: the symbols.
        fixed: sizes, traces, constants, relations, functions, and the tables of given predicates;
            rules read features from its inputs.
        predicates: how the other predicates are computed; they replace given ones.
        inputs: for each sort, the inputs of networks about its entities.
        groups: predicates that exclude each other, with one network for each group.
        functions: networks for real-valued functions; their outputs are the values.
        present: for sorts whose entities come and go, where they are present, shape (trace, entity,
            time). Networks compute nothing elsewhere: an absent entity satisfies no predicate.
        semantics: the semantics of definitions that do not name one.
        sensors: networks for the evidence about predicates of sampled worlds; their outputs are not
            tables of this grounding.

    Raises:
        DataError: a symbol is unknown, has no grounding or two, or a network lacks its inputs.
        CheckError: a definition is wrong, or depends on itself.
        SemanticsError: a definition has a two-valued semantics.
    """

    def __init__(
        self,
        signature: Signature,
        fixed: Tables,
        predicates: Mapping[str, Predicate],
        *,
        inputs: Mapping[str, Inputs] | None = None,
        groups: Sequence[Softmax] = (),
        functions: Mapping[str, Network] | None = None,
        present: Mapping[str, Tensor] | None = None,
        semantics: Semantics = STABLE_PRODUCT,
        sensors: Grounding | None = None,
    ) -> None:
        """Check that every symbol has exactly one grounding, and order the definitions."""
        super().__init__()
        self.signature = signature
        self.semantics = semantics
        self.inputs_by_sort = dict(inputs or {})
        self._networks = {
            n: p for n, p in predicates.items() if isinstance(p, Network | Logits | Marginal)
        }
        self.marginals = {n: p for n, p in self._networks.items() if isinstance(p, Marginal)}
        self._groups = tuple(groups)
        self._functions = dict(functions or {})
        self.inputs = _registered(self.inputs_by_sort)
        self.networks = _registered(self._networks)
        self.groups = nn.ModuleList(groups)
        self.functions = _registered(self._functions)
        self.sensors = sensors
        self.defined = {n: p for n, p in predicates.items() if isinstance(p, Defined)}
        self.defined |= {n: m.definition for n, m in self.marginals.items() if m.definition}
        self.rules = {n: p.function for n, p in predicates.items() if isinstance(p, DataRule)}
        self._check(predicates, fixed)
        for sort, mask in (present or {}).items():
            self.register_buffer(f"present_{sort}", mask, persistent=False)
        self._present = tuple(present or {})
        self._cells: dict[tuple[object, ...], PresentCells] = {}
        self.fixed = self._completed(fixed)
        self.definitions = definitions(self.defined, signature)
        self._evaluators = {
            n: Evaluator(
                {n: checked.formula},
                _graded(self.defined[n].semantics or semantics),
                0 if signature.predicates[n].static else None,
            )
            for n, checked in self.definitions.items()
        }

    @property
    def learned(self) -> tuple[str, ...]:
        """The predicates that networks compute; predicates defined by formulas are not included."""
        made = {*self._networks, *(n for g in self._groups for n in g.names)}
        return tuple(n for n in self.signature.predicates if n in made and n not in self.defined)

    @property
    def open(self) -> tuple[str, ...]:
        """The predicates that training can change: learned ones, and those defined by them."""
        changing = {*self.learned, *self._functions}
        for name, checked in self.definitions.items():
            if changing & {*symbols(checked.formula)}:
                changing.add(name)
        return tuple(n for n in self.signature.predicates if n in changing)

    def module(self, name: str) -> nn.Module:
        """Return the module that computes a predicate or function, alone or with others."""
        if self.sensors is not None:
            return self.sensors.module(name)
        network = self._networks.get(name, self._functions.get(name))
        if network is None:
            return next(group.module for group in self._groups if name in group.names)
        assert isinstance(network, Network)
        return network.module

    def looks_over_time(self, name: str) -> bool:
        """Whether the network of a predicate sees all time points at once."""
        network = self._networks.get(name)
        if network is None:
            return next(g.over_time for g in self._groups if name in g.names)
        return isinstance(network, Network) and network.over_time

    def at_a_point(self, seen: Mapping[str, Tensor], wanted: Collection[str]) -> dict[str, Tensor]:
        """Compute predicates with networks at one time point.

        Args:
            seen: the inputs of each sort that has entities, shape (trace, entity, time, width).
            wanted: the predicates.
        """
        tables: dict[str, Tensor] = {}
        for name, network in self._networks.items():
            sorts = self.signature.predicates[name].sorts
            if name in wanted and isinstance(network, Network) and set(sorts) <= set(seen):
                tables[name] = network([seen[s] for s in sorts])
        for group in self._groups:
            sorts = self.signature.predicates[group.names[0]].sorts
            if set(sorts) <= set(seen):
                tables |= group([seen[s] for s in sorts])
        return {name: table for name, table in tables.items() if name in wanted}

    def train(self, mode: bool = True) -> Grounding:
        """Set the training mode; frozen modules keep their state and running statistics."""
        super().train(mode)
        networks = (*self._networks.values(), *self._groups, *self._functions.values())
        for module in (*networks, *self.inputs_by_sort.values()):
            if not any(p.requires_grad for p in module.parameters()):
                module.eval()
        return self

    def forward(self, part: DataPart | None = None) -> Tables:
        """Compute the tables of all symbols, or of a part of the data, with gradients.

        Raises:
            DataError: a network or its inputs have the wrong shape.
        """
        with threads_for(self.largest(part), step=torch.is_grad_enabled()):
            return self._tables(part)

    def largest(self, part: DataPart | None = None) -> int:
        """Return the size of the largest table, or of the largest output of a network's layer."""
        fixed = self.fixed if part is None else part.fixed
        sizes = [largest(fixed.predicates.values())]
        for call in self.calls:
            cells = self._present_cells(call.decl, part, every=call.over_time)
            if cells is None or call.over_time:
                shape = (fixed.batch, *(fixed.sizes[s] for s in call.decl.sorts), fixed.horizon)
                count = math.prod(shape[:-1] if call.decl.static else shape)
            else:
                count = len(cells.index[0])
            module: Any = getattr(call.module, "__self__", call.module)
            weights = (p.shape[0] for p in module.parameters() if p.dim() > 1)
            sizes.append(count * max(weights, default=1))
        return max(sizes)

    def placeholders(self, part: DataPart | None = None) -> Tables:
        """Return tables of the right shapes, without what networks compute."""
        fixed = self.fixed if part is None else part.fixed
        nothing = torch.zeros((), device=fixed.lengths.device)

        def blank(decl: PredicateDecl | FunctionDecl) -> Tensor:
            sizes = (fixed.sizes[sort] for sort in decl.sorts)
            return nothing.expand((fixed.batch, *sizes, 1 if decl.static else fixed.horizon))

        tables = {name: blank(decl) for name, decl in self.signature.predicates.items()}
        numbers = {call.names[0]: blank(call.decl) for call in self.calls if call.function}
        return replace(
            fixed,
            predicates={**tables, **fixed.predicates},
            functions={**numbers, **fixed.functions},
        )

    def _tables(self, part: DataPart | None) -> Tables:
        fixed = self.fixed if part is None else part.fixed
        seen, functions = self.seen(part), dict(fixed.functions)
        tables = self.free_tables(part)
        for call in self.calls:
            (functions if call.function else tables).update(self.outputs(call, seen, part))
        # Computed tables come first: they determine the precision of all tables.
        model = replace(
            fixed,
            predicates={**tables, **fixed.predicates},
            functions=functions,
        )
        return self._with_definitions(model, 0 if part is None else part.key, without=tables)

    @property
    def calls(self) -> list[NetworkCall]:
        """The networks, in the order in which they run."""
        predicates, functions = self.signature.predicates, self.signature.functions
        return [
            *(
                NetworkCall((name,), predicates[name], network, network.over_time)
                for name, network in self._networks.items()
                if isinstance(network, Network)
            ),
            *(
                NetworkCall(group.names, predicates[group.names[0]], group, group.over_time)
                for group in self._groups
            ),
            *(
                NetworkCall((name,), functions[name], network.outputs, network.over_time, True)
                for name, network in self._functions.items()
            ),
        ]

    def outputs(
        self,
        call: NetworkCall,
        seen: Mapping[str, Tensor],
        part: DataPart | None = None,
        rows: range | None = None,
    ) -> dict[str, Tensor]:
        """Compute the tables of a network, of a part of the data or some rows of all data.

        Args:
            call: the network.
            seen: the inputs of each sort.
            part: the part of the data; None for all.
            rows: the numbers of the entities that the first argument may be; None for all.
        """
        decl = call.decl
        with about(decl.name):
            cells = self._present_cells(decl, part, every=call.over_time)
            inputs = [seen[s] for s in decl.sorts]
            if rows is not None:
                inputs[0] = inputs[0].narrow(1, rows.start, len(rows))
                cells = None if cells is None else cells.of_rows(rows)
            output = call.module(inputs, cells)
            made = output if isinstance(output, dict) else {decl.name: output}
            fixed = self.fixed if part is None else part.fixed
            check_shape(made[decl.name], fixed, decl, rows)
        return made

    def free_tables(self, part: DataPart | None = None) -> dict[str, Tensor]:
        """Compute the tables that no network has a part in: their cells are learned or sampled."""
        tables: dict[str, Tensor] = {}
        for name, network in self._networks.items():
            if not isinstance(network, Network):
                decl = self.signature.predicates[name]
                with about(name):
                    table = network()
                    check_shape(table, self.fixed, decl)
                    tables[name] = table if part is None else part.pick(table, decl.sorts)
        return tables

    def decisions(self, thresholds: Mapping[str, float] | None = None) -> Decisions:
        """Return how degrees become true or false: definitions follow from the other predicates."""
        return Decisions(thresholds or {}, self.definitions)

    # --- other data -----------------------------------------------------------------------------

    def laid(self) -> LaidData:
        """Return the data that networks currently run on."""
        inputs = self.inputs_by_sort.items()
        return LaidData(self.fixed, {sort: seen.laid() for sort, seen in inputs})

    def over(self, fixed: Tables, seen: Mapping[str, SeenData]) -> LaidData:
        """Return other data, completed by rules, for `put_over`."""
        return LaidData(self._completed(fixed), seen)

    def put_over(self, data: LaidData) -> None:
        """Run on other data from now on; learned parameters stay."""
        self.fixed = data.fixed
        self._cells.clear()
        for sort in self._present:
            setattr(self, f"present_{sort}", data.fixed.present[sort])
        for sort, seen in data.seen.items():
            self.inputs_by_sort[sort].put_over(seen)

    def function_values(self) -> dict[str, Tensor]:
        """Return the current values of computed functions on all data, as after training."""
        if not self._functions:
            return {}
        training = self.training
        tables = self.eval()()
        self.train(training)
        return {name: tables.functions[name] for name in self._functions}

    def applied(self, tables: Tables) -> Tables:
        """Return tables with all definitions recomputed from the other predicates, on all data."""
        rest = {n: t for n, t in tables.predicates.items() if n not in self.defined}
        return self._with_definitions(replace(tables, predicates=rest), 0)

    def completed(self, tables: Tables) -> Tables:
        """Return tables completed with the definitions that they lack, on all data."""
        lacking = {n: f for n, f in self.definitions.items() if n not in tables.predicates}
        every = self._with_definitions(tables, None, without=tables.predicates)
        return replace(every, decisions=Decisions(definitions=lacking))

    def _with_definitions(
        self, tables: Tables, key: int | None, without: Collection[str] = ()
    ) -> Tables:
        for name, checked in self.definitions.items():
            if name in without:
                continue
            value = self._evaluators[name](tables, key)[name]
            if self._evaluators[name].semantics.log_space:
                value = value._replace(tensor=value.tensor.exp())
            static = self.signature.predicates[name].static
            table = arranged(value, checked.free, tables, static=static)
            tables = replace(tables, predicates={**tables.predicates, name: table})
        return tables

    def seen(self, part: DataPart | None = None) -> dict[str, Tensor]:
        """Return the inputs of networks for each sort."""
        seen = {}
        for sort, module in self.inputs_by_sort.items():
            some = None if part is None or not isinstance(module, Encoded) else part.traces
            vectors = module() if some is None else module(some)
            size, width = self.fixed.sizes[sort], vectors.shape[-1]
            if some is not None and part is not None:  # its shape is that of the part's data
                seen[sort] = replace(part, traces=None).pick(vectors, (sort,))
                continue
            if not fits(vectors.shape[:-1], (size,), self.fixed, static=False):
                raise DataError(
                    f"the inputs of the sort '{sort}' have shape {tuple(vectors.shape)}; expected "
                    f"({self.fixed.batch} or 1, {size}, {self.fixed.horizon} or 1, {width}), "
                    "with axes (trace, entity, time, width)"
                )
            seen[sort] = vectors if part is None else part.pick(vectors, (sort,))
        return seen

    def _present_cells(
        self, decl: PredicateDecl | FunctionDecl, part: DataPart | None, *, every: bool
    ) -> PresentCells | None:
        """Return the cells where all arguments are present; None means all, unless `every` is set.

        With `every`, the result is restricted at least to the cells inside each trace.
        """
        if not every and not set(decl.sorts) & set(self._present):
            return None
        fixed = self.fixed if part is None else part.fixed
        key = (decl.sorts, decl.static, every, fixed.lengths.device)
        if part is None and key in self._cells:
            return self._cells[key]
        masks: dict[str, Tensor] = {s: getattr(self, f"present_{s}") for s in self._present}
        if part is not None:
            masks = {sort: part.pick(mask, (sort,)) for sort, mask in masks.items()}
        there = present_mask(fixed, decl, masks, inside=every)
        cells = PresentCells(there.nonzero(as_tuple=True), tuple(there.shape))
        if part is None:
            self._cells[key] = cells
        return cells

    def _completed(self, fixed: Tables) -> Tables:
        """Return the given data completed by rules, without computed predicates."""
        features = {sort: seen.values for sort, seen in fixed.inputs.items()}
        for name, rule in self.rules.items():
            table = rule(fixed, features)
            with about(f"the rule of '{name}'"):
                check_degrees(table)
                check_shape(table, fixed, self.signature.predicates[name])
            fixed = replace(fixed, predicates={**fixed.predicates, name: table})
        computed = {*self.learned, *self.defined}
        rest = {n: t for n, t in fixed.predicates.items() if n not in computed}
        return replace(fixed, predicates=rest)

    # --- checks -----------------------------------------------------------------------------------

    def _check(self, predicates: Mapping[str, Predicate], fixed: Tables) -> None:
        known, grouped = self.signature.predicates, [n for g in self._groups for n in g.names]
        for name in [*predicates, *grouped]:
            _known("predicate", name, known)
        for name, how in predicates.items():
            if not isinstance(how, Predicate):
                raise DataError(
                    f"the predicate '{name}' is grounded by a {type(how).__name__}; expected "
                    "Network(…), Logits(…), DataRule(…), Defined(…) or Marginal(…)"
                )
        twice = [n for n in grouped if n in predicates or grouped.count(n) > 1]
        if twice:
            raise DataError(f"the predicate '{twice[0]}' has two groundings")
        for name in known:
            if name not in {*predicates, *grouped, *fixed.predicates}:
                raise DataError(
                    f"the predicate '{name}' has no grounding: no facts, network or definition"
                )
        for group in self._groups:
            if len({(known[n].sorts, known[n].static) for n in group.names}) > 1:
                raise DataError(
                    f"{listing(group.names)} share a network, but differ in their sorts, or in "
                    "whether they are static"
                )
        self._check_functions(fixed)
        networks = [n for n, p in self._networks.items() if isinstance(p, Network)]
        for name in [*networks, *grouped]:
            self._check_inputs(name, known[name].sorts)
        for sort in self.inputs_by_sort:
            if sort not in fixed.sizes:
                _known("sort", sort, self.signature.sorts)
                raise DataError(f"the number of entities of the sort '{sort}' is not known")

    def _check_functions(self, fixed: Tables) -> None:
        known = self.signature.functions
        for name, network in self._functions.items():
            _known("function", name, known)
            if known[name].result != REAL:
                raise DataError(
                    f"the function '{name}' returns entities of sort '{known[name].result}'; "
                    "networks return numbers"
                )
            if not isinstance(network, Network):
                raise DataError(
                    f"the function '{name}' is grounded by a {type(network).__name__}; "
                    "expected Network(…)"
                )
            self._check_inputs(name, known[name].sorts)
        for name in known:
            if name not in self._functions and name not in fixed.functions:
                raise DataError(f"the function '{name}' has no grounding: no facts, no network")

    def _check_inputs(self, name: str, sorts: Sequence[str]) -> None:
        if not sorts:
            raise DataError(f"'{name}' has no arguments for a network to see; use logits")
        for sort in sorts:
            if sort not in self.inputs_by_sort:
                raise DataError(
                    f"a network for '{name}' has no inputs for the sort '{sort}'; "
                    "give it embeddings or features"
                )


def _registered(modules: Mapping[str, nn.Module]) -> nn.ModuleDict:
    """Register modules by name; a name that PyTorch uses itself gets an apostrophe."""
    return nn.ModuleDict({n + "'" * hasattr(_PLAIN, n): m for n, m in modules.items()})


def _known(kind: str, name: str, known: Mapping[str, object]) -> None:
    if name not in known:
        hint = name_hint(name, known, "declared:")
        raise DataError(f"a grounding was given for the unknown {kind} '{name}'; {hint}")


def _graded(semantics: Semantics) -> Semantics:
    """Return the semantics if it has degrees, and so gradients to learn from."""
    if semantics.boolean:
        raise SemanticsError("two-valued truth has no gradients to learn from")
    return semantics
