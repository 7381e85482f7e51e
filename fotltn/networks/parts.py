"""Parts of the data: some traces, or some entities of some sorts, for training step by step."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.grounding.labels import Labels
from fotltn.logic.signature import Signature
from fotltn.semantics.interpretation import Tables
from fotltn.semantics.sparse import SparseTable

_KEYS = itertools.count(1)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some traces and entities, and the given data about them.

    Args:
        traces: the numbers of the traces; None for all.
        entities: for each sort that is cut, the numbers of its entities.
        given: the given data of this part.
        key: a number of its own, under which plans are kept; None for a part that is met once.
    """

    traces: Tensor | None
    entities: Mapping[str, Tensor]
    given: Tables
    key: int | None = None

    def pick(self, table: Tensor, sorts: Sequence[str | None]) -> Tensor:
        """The part of a table with axes (trace, one for each of `sorts`, …)."""
        return _pick(table, self.traces, [self.entities.get(s or "") for s in sorts])

    def labels(self, labels: Labels) -> Labels:
        """The labelled facts that lie in this part, with its numbers.

        Raises:
            DataError: entities are cut, and labels do not say of which sort theirs are.
        """
        index, truth = {}, {}
        for name, rows in labels.index.items():
            if self.entities and name not in labels.sorts:
                raise DataError(f"the labels of '{name}' do not say the sorts of its arguments")
            kept = torch.ones(rows.shape[1], dtype=torch.bool, device=rows.device)
            moved = list(rows)
            chosen = [self.traces, *(self.entities.get(s) for s in labels.sorts.get(name, ()))]
            for place, numbers in enumerate(chosen):
                if numbers is not None:
                    moved[place], inside = _renumbered(moved[place], numbers)
                    kept &= inside
            index[name] = torch.stack(moved)[:, kept]
            truth[name] = labels.truth[name][kept]
        return replace(labels, index=index, truth=truth)


def part(
    given: Tables,
    signature: Signature,
    *,
    traces: Tensor | None = None,
    entities: Mapping[str, Tensor] | None = None,
    again: bool = True,
) -> Part:
    """A part of given data.

    Args:
        given: all data.
        signature: of their symbols.
        traces: the numbers of its traces; None for all.
        entities: the numbers of its entities, for the sorts that are cut.
        again: it is met again, so that plans for it are worth keeping.

    Raises:
        DataError: there are no such traces or entities, or entities are cut that relations,
            functions or constants refer to.
    """
    cut = dict(entities or {})
    if traces is not None:
        _check_numbers("traces", traces, given.batch)
    for sort, numbers in cut.items():
        if sort not in given.sizes:
            hint = did_you_mean(sort, given.sizes) or f"there are {listing(given.sizes)}"
            raise DataError(f"entities of the unknown sort '{sort}' are to be left out; {hint}")
        _check_numbers(f"entities of '{sort}'", numbers, given.sizes[sort])
    check_cut(cut, signature)
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
    seen = replace(
        given,
        sizes={**given.sizes, **{sort: len(numbers) for sort, numbers in cut.items()}},
        lengths=given.lengths if traces is None else given.lengths[traces],
        predicates=predicates,
        functions=functions,
        constants={s: names for s, names in given.constants.items() if s not in cut},
        features={s: _pick(f, traces, [cut.get(s)]) for s, f in given.features.items()},
    )
    return Part(traces, cut, seen, next(_KEYS) if again else None)


def check_cut(sorts: Iterable[str], signature: Signature) -> None:
    """Refuse to leave out entities of sorts that relations, functions or constants refer to."""
    for sort in sorts:
        for fun in signature.functions.values():
            if fun.result == sort:
                raise DataError(
                    f"entities of '{sort}' cannot be left out, since the function '{fun.name}' "
                    "gives them"
                )
        for rel in signature.relations.values():
            if sort in rel.sorts:
                raise DataError(
                    f"entities of '{sort}' cannot be left out, since the relation '{rel.name}' "
                    "lists them"
                )
        for constant in signature.constants.values():
            if constant.sort == sort:
                raise DataError(
                    f"entities of '{sort}' cannot be left out, since there is the constant "
                    f"'{constant.name}'"
                )


def _check_numbers(what: str, numbers: Tensor, count: int) -> None:
    plain = numbers.tolist() if numbers.dim() == 1 and not numbers.is_floating_point() else []
    if not plain or min(plain) < 0 or max(plain) >= count or len(set(plain)) < len(plain):
        raise DataError(
            f"a part has different {what} from 0 to {count - 1}, at least one, not {numbers}"
        )


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
    most = max(int(numbers.max()), int(row.max()) if len(row) else 0) + 1
    places = torch.full((most,), -1, dtype=row.dtype, device=row.device)
    places[numbers.to(row.device)] = torch.arange(len(numbers), dtype=row.dtype, device=row.device)
    found = places[row.long()]
    return found.clamp(min=0), found >= 0
