"""Compute tables of a grounding by rows: a range of the entities of the first argument.

If there are few traces, processes share rows: of networks that see one row at a time, and of
definitions. Otherwise they share traces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fotltn.bindings import Ranged, ranged
from fotltn.evaluation import Evaluator
from fotltn.logic.parts import symbols
from fotltn.logic.presence import relative
from fotltn.networks.grounding import Grounding
from fotltn.networks.parts import part as part_of
from fotltn.networks.predicates import NetworkCall
from fotltn.networks.sequences import Encoded
from fotltn.semantics.by_trace import joined, joined_tables
from fotltn.semantics.tables import Tables, arranged
from fotltn.sharing import BLOCKS, BindingPart, by_blocks, by_parts, is_shared
from fotltn.syntax.theory import FunctionDecl, PredicateDecl

#: Some rows of each of several tables, by name.
_TableRows = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class DefinitionRows:
    """A definition by rows of its first argument.

    Args:
        name: the name of the predicate.
        formula: its formula, with the first argument in a range; None if no argument can be, so
            the table is one row.
        evaluator: computes the formula.
        inputs: the symbols that the formula depends on.
    """

    name: str
    formula: Ranged | None
    evaluator: Evaluator
    inputs: frozenset[str]

    def of(
        self, rows: range, tables: Tables, grounding: Grounding, fixed: Tables, key: int | None
    ) -> Tensor:
        """Compute rows, shape (trace, row, *other arguments, time).

        Args:
            rows: the numbers of the entities of the first argument.
            tables: the tables of all symbols that the definition depends on.
            grounding: the grounding that has the definition.
            fixed: tables that do not change, whose rows are taken only once.
            key: a number for these rows, under which the plan is cached; None to cache nothing.
        """
        free = grounding.definitions[self.name].free
        if self.formula is not None:
            tables = self.formula.tables(tables, rows, fixed)
            free = (self.formula.axis, *free[1:])
        value = self.evaluator(tables, key)[self.name]
        if self.evaluator.semantics.log_space:
            value = value._replace(tensor=value.tensor.exp())
        static = grounding.signature.predicates[self.name].static
        table = arranged(value, free, tables, static=static)
        return table if self.formula is not None else table.unsqueeze(1)


def definition_rows(grounding: Grounding) -> list[DefinitionRows]:
    """Return the definitions of a grounding in order, except those that are sampled."""
    made = []
    for name, checked in grounding.definitions.items():
        if name in grounding.marginals:
            continue
        core = relative(checked.formula, grounding.fixed.presence).value
        some = ranged(core, checked.free[0]) if checked.free else None
        formula = core if some is None else some.formula
        semantics = grounding.defined[name].semantics or grounding.semantics
        at = 0 if grounding.signature.predicates[name].static else None
        evaluator = Evaluator({name: formula}, semantics, at)
        made.append(DefinitionRows(name, some, evaluator, frozenset(symbols(checked.formula))))
    return made


def by_rows(call: NetworkCall, grounding: Grounding) -> bool:
    """Return whether a network computes each row from inputs that need no other rows."""
    inputs = [grounding.inputs_by_sort[sort] for sort in call.decl.sorts]
    return not call.over_time and not any(isinstance(one, Encoded) for one in inputs)


def shares_bindings(grounding: Grounding, blocks: int) -> bool:
    """Return whether blocks of a step over all data are blocks of bindings, for lack of traces.

    If each process would have to compute a network as a whole, traces are shared from two on.
    """
    traces = grounding.fixed.batch
    if not 1 < traces < blocks:
        return traces < blocks
    return all(by_rows(call, grounding) for call in grounding.calls)


def everywhere(grounding: Grounding) -> Tables:
    """Compute the tables of all data; processes that share work compute a part each."""
    tables = None
    if is_shared():
        by_entities = shares_bindings(grounding, BLOCKS)
        tables = _of_rows(grounding) if by_entities else _of_traces(grounding)
    if tables is None:
        tables = grounding()
    return tables


def _of_rows(grounding: Grounding) -> Tables:
    """Compute all tables, each process some rows."""
    fixed, seen = grounding.fixed, grounding.seen()
    calls = [call for call in grounding.calls if by_rows(call, grounding)]

    def of_networks(part: BindingPart) -> _TableRows:
        made: dict[str, Tensor] = {}
        for call in calls:
            if len(rows := _rows(part, fixed, call.decl)):
                made |= grounding.outputs(call, seen, rows=rows)
        return _sent(made)

    every = _whole(by_parts("rows", fixed.batch, of_networks), fixed)
    predicates, functions = grounding.free_tables(), dict[str, Tensor]()
    for call in grounding.calls:
        shared = {name: every[name] for name in call.names if name in every}
        tables = functions if call.function else predicates
        tables |= shared or grounding.outputs(call, seen)
    # Computed tables come first: they determine the precision of all tables.
    model = replace(
        fixed,
        predicates={**predicates, **fixed.predicates},
        functions={**fixed.functions, **functions},
    )
    for one in definition_rows(grounding):
        model = replace(
            model, predicates={**model.predicates, one.name: _defined(one, model, grounding)}
        )
    return model


def _defined(one: DefinitionRows, tables: Tables, grounding: Grounding) -> Tensor:
    """Compute the table of a definition, each process some rows."""
    decl, fixed = grounding.signature.predicates[one.name], grounding.fixed

    def all_rows() -> Tensor:
        every = range(fixed.sizes[decl.sorts[0]] if decl.sorts else 1)
        return one.of(every, tables, grounding, replace(fixed), None)

    if one.formula is None:
        return all_rows().squeeze(1)

    def of_rows(part: BindingPart) -> _TableRows:
        rows = _rows(part, fixed, decl)
        if not len(rows):
            return {}
        return _sent({one.name: one.of(rows, tables, grounding, replace(fixed), None)})

    every = _whole(by_parts(f"rows of {one.name}", fixed.batch, of_rows), fixed)
    return every[one.name] if every else all_rows()


def _rows(part: BindingPart, fixed: Tables, decl: PredicateDecl | FunctionDecl) -> range:
    """Return the rows of a part: the entities that the first argument may be."""
    return part.of(fixed.sizes[decl.sorts[0]])


def _sent(rows: _TableRows) -> _TableRows:
    """Return rows as they are sent: without the memory of the tables that they are part of."""
    return {name: table.cpu().contiguous() for name, table in rows.items()}


def _whole(parts: list[_TableRows] | None, fixed: Tables) -> dict[str, Tensor]:
    """Return tables, put together from the rows of all parts; none of sorts without entities."""
    parts = parts or []
    names = dict.fromkeys(name for part in parts for name in part)
    rows = {name: [part[name] for part in parts if name in part] for name in names}
    return {name: torch.cat(some, 1).to(fixed.lengths.device) for name, some in rows.items()}


def _of_traces(grounding: Grounding) -> Tables | None:
    """Compute all tables, each process some traces; None if nothing is shared."""
    known, here = grounding.fixed, grounding.fixed.lengths.device

    def of_traces(traces: range) -> Tables:
        numbers = torch.arange(traces.start, traces.stop, device=here)
        tables = grounding(part_of(known, grounding.signature, traces=numbers, again=False))
        predicates = {n: t for n, t in tables.predicates.items() if n not in known.predicates}
        functions = {n: t for n, t in tables.functions.items() if n not in known.functions}
        learned = Tables(known.sizes, tables.lengths, known.horizon, predicates, functions)
        return learned.to(torch.device("cpu"))

    blocks = by_blocks("tables", known.batch, of_traces)
    if blocks is None:
        return None
    first, total = blocks[0], known.batch
    predicates = {
        n: joined_tables([b.predicates[n] for b in blocks], total) for n in first.predicates
    }
    functions = {n: joined([b.functions[n] for b in blocks], total) for n in first.functions}
    learned = replace(known, predicates=predicates, functions=functions).to(here)
    return replace(
        known,
        predicates={**learned.predicates, **known.predicates},
        functions={**known.functions, **learned.functions},
    )
