"""Parts of the data: some traces, or some entities of some sorts, for training step by step."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fotltn.errors import DataError
from fotltn.grounding.labels import Labels
from fotltn.logic.core import REAL
from fotltn.logic.signature import Signature
from fotltn.semantics.interpretation import Interpretation
from fotltn.semantics.sparse import SparseTable

_KEYS = itertools.count(1)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some traces and entities, and the given data about them.

    Args:
        traces: the numbers of the traces; None for all.
        entities: for each sort that is cut, the numbers of its entities.
        given: the given data of this part.
        key: a number of its own, for what is kept between steps.
    """

    traces: Tensor | None
    entities: Mapping[str, Tensor]
    given: Interpretation
    key: int = field(default_factory=lambda: next(_KEYS))

    def pick(self, table: Tensor, sorts: Sequence[str | None]) -> Tensor:
        """The part of a table with axes (trace, one for each of `sorts`, …)."""
        return _pick(table, self.traces, [self.entities.get(s or "") for s in sorts])

    def labels(self, labels: Labels) -> Labels:
        """The labelled facts that lie in this part, with its numbers."""
        index, truth = {}, {}
        for name, rows in labels.index.items():
            kept = torch.ones(rows.shape[1], dtype=torch.bool, device=rows.device)
            moved = list(rows)
            chosen = [self.traces, *(self.entities.get(s) for s in labels.sorts[name])]
            for place, numbers in enumerate(chosen):
                if numbers is not None:
                    moved[place], inside = _renumbered(moved[place], numbers)
                    kept &= inside
            index[name] = torch.stack(moved)[:, kept]
            truth[name] = labels.truth[name][kept]
        return replace(labels, index=index, truth=truth)


def part(
    given: Interpretation,
    signature: Signature,
    *,
    traces: Tensor | None = None,
    entities: Mapping[str, Tensor] | None = None,
) -> Part:
    """A part of given data.

    Raises:
        DataError: entities are cut that relations, functions or constants refer to.
    """
    cut = dict(entities or {})
    for fun in signature.functions.values():
        if fun.result in cut and fun.result != REAL:
            raise DataError(
                f"entities of '{fun.result}' cannot be left out, since '{fun.name}' names them"
            )
    for rel in signature.relations.values():
        if set(rel.sorts) & set(cut):
            raise DataError(
                f"entities of '{rel.sorts[0]}' cannot be left out, since the relation "
                f"'{rel.name}' lists them"
            )
    for constant in signature.constants.values():
        if constant.sort in cut:
            raise DataError(
                f"entities of '{constant.sort}' cannot be left out, since there is the constant "
                f"'{constant.name}'"
            )
    predicates: dict[str, Tensor | SparseTable] = {}
    for name, table in given.predicates.items():
        chosen = [cut.get(s) for s in signature.predicates[name].sorts]
        predicates[name] = (
            _pick_facts(table, traces, chosen)
            if isinstance(table, SparseTable)
            else _pick(table, traces, chosen)
        )
    functions = {
        name: _pick(table, traces, [cut.get(s) for s in signature.functions[name].sorts])
        for name, table in given.functions.items()
    }
    sizes = {**given.sizes, **{sort: len(numbers) for sort, numbers in cut.items()}}
    lengths = given.lengths if traces is None else given.lengths[traces]
    seen = replace(given, sizes=sizes, lengths=lengths, predicates=predicates, functions=functions)
    return Part(traces, cut, seen)


def _pick(table: Tensor, traces: Tensor | None, chosen: Sequence[Tensor | None]) -> Tensor:
    for dim, numbers in enumerate([traces, *chosen]):
        if numbers is not None and not (dim == 0 and table.shape[0] == 1):
            table = table.index_select(dim, numbers)
    return table


def _pick_facts(
    table: SparseTable, traces: Tensor | None, chosen: Sequence[Tensor | None]
) -> SparseTable:
    kept = torch.ones(table.facts, dtype=torch.bool, device=table.value.device)
    rows, shape = list(table.index), list(table.shape)
    for dim, numbers in enumerate([traces, *chosen]):
        if numbers is not None and not (dim == 0 and table.shape[0] == 1):
            rows[dim], inside = _renumbered(rows[dim], numbers)
            kept &= inside
            shape[dim] = len(numbers)
    index = torch.stack(rows)[:, kept]
    return SparseTable(index, table.value[kept], tuple(shape), table.default)


def _renumbered(row: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Where in `numbers` each entry of a row is, and whether it is there at all."""
    most = int(max(int(numbers.max()), int(row.max()) if len(row) else 0)) + 1
    places = torch.full((most,), -1, dtype=row.dtype, device=row.device)
    places[numbers] = torch.arange(len(numbers), dtype=row.dtype, device=row.device)
    found = places[row.long()]
    return found.clamp(min=0), found >= 0
