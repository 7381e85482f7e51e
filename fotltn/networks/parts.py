"""Parts of the data: some traces, or some entities of some sorts, for training step by step."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.grounding.labels import Labels
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.semantics.interpretation import Tables
from fotltn.semantics.sparse import SparseTable
from fotltn.tree import postorder

T = TypeVar("T", Tensor, SparseTable, Tensor | SparseTable)

_KEYS = itertools.count(1)


@dataclass(frozen=True, slots=True, eq=False)
class DataPart:
    """Some traces and entities, and the given data about them.

    Args:
        traces: the numbers of the traces; None for all.
        entities: for each sort that is cut, the numbers of its entities.
        fixed: the given data of this part.
        key: a number of its own, under which plans are kept; None for a part that is met once.
    """

    traces: Tensor | None
    entities: Mapping[str, Tensor]
    fixed: Tables
    key: int | None = None

    def pick(self, table: Tensor, sorts: Sequence[str]) -> Tensor:
        """The part of a table with axes (trace, one for each of `sorts`, …)."""
        return _pick(table, [self.traces, *map(self.entities.get, sorts)])

    def labels(self, labels: Labels) -> Labels:
        """The labelled facts that lie in this part, with its numbers.

        Raises:
            DataError: entities are cut, and labels do not say of which sort theirs are.
        """
        index, truth = {}, {}
        for name, rows in labels.index.items():
            if self.entities and name not in labels.sorts:
                raise DataError(f"the labels of '{name}' do not say the sorts of its arguments")
            chosen = [self.traces, *map(self.entities.get, labels.sorts.get(name, ()))]
            index[name], inside = _pick_facts(rows, chosen)
            truth[name] = labels.truth[name][inside]
        return replace(labels, index=index, truth=truth)


def part(
    fixed: Tables,
    signature: Signature,
    *,
    traces: Tensor | None = None,
    entities: Mapping[str, Tensor] | None = None,
    again: bool = True,
) -> DataPart:
    """A part of given data.

    Args:
        fixed: all data.
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
        _check_numbers("traces", traces, fixed.batch)
    for sort, numbers in cut.items():
        if sort not in fixed.sizes:
            hint = did_you_mean(sort, fixed.sizes) or f"there are {listing(fixed.sizes)}"
            raise DataError(f"entities of the unknown sort '{sort}' are to be left out; {hint}")
        _check_numbers(f"entities of '{sort}'", numbers, fixed.sizes[sort])
        check_cut(sort, signature)

    def chosen(sorts: Sequence[str]) -> list[Tensor | None]:
        return [traces, *map(cut.get, sorts)]

    smaller = replace(
        fixed,
        sizes={**fixed.sizes, **{sort: len(numbers) for sort, numbers in cut.items()}},
        lengths=fixed.lengths if traces is None else fixed.lengths[traces],
        predicates={
            name: _pick(table, chosen(signature.predicates[name].sorts))
            for name, table in fixed.predicates.items()
        },
        functions={
            name: _pick(table, chosen(signature.functions[name].sorts))
            for name, table in fixed.functions.items()
        },
        constants={s: names for s, names in fixed.constants.items() if s not in cut},
        features={s: _pick(f, chosen([s])) for s, f in fixed.features.items()},
    )
    return DataPart(traces, cut, smaller, next(_KEYS) if again else None)


def check_cut(
    sort: str, signature: Signature, formulas: Mapping[str, c.Formula] | None = None
) -> None:
    """Refuse to leave out entities that relations, functions, constants or formulas refer to."""
    functions, relations = signature.functions.values(), signature.relations.values()
    reasons = [f"the function '{f.name}' gives them" for f in functions if f.result == sort]
    reasons += [f"the relation '{r.name}' lists them" for r in relations if sort in r.sorts]
    reasons += [
        f"there is the constant '{constant.name}'"
        for constant in signature.constants.values()
        if constant.sort == sort
    ]
    reasons += [
        f"'{name}' names '{node.name}'"
        for name, formula in (formulas or {}).items()
        for node in postorder(formula)
        if isinstance(node, c.Constant) and node.sort == sort
    ]
    if reasons:
        raise DataError(f"entities of '{sort}' cannot be left out, since {reasons[0]}")


def _check_numbers(what: str, numbers: Tensor, count: int) -> None:
    plain = numbers.tolist() if numbers.dim() == 1 and not numbers.is_floating_point() else []
    if not plain or min(plain) < 0 or max(plain) >= count or len(set(plain)) < len(plain):
        raise DataError(
            f"a part has different {what} from 0 to {count - 1}, at least one, not {numbers}"
        )


def _pick(table: T, chosen: Sequence[Tensor | None]) -> T:
    """The part of a table of which some numbers are chosen on each axis; None for all."""
    if table.shape[0] == 1:
        chosen = [None, *chosen[1:]]
    if isinstance(table, SparseTable):
        index, inside = _pick_facts(table.index, chosen)
        sizes = zip(table.shape, (*chosen, None), strict=True)
        shape = tuple(size if numbers is None else len(numbers) for size, numbers in sizes)
        return SparseTable(index, table.value[inside], shape, table.default)
    for dim, numbers in enumerate(chosen):
        if numbers is not None:
            table = table.index_select(dim, numbers)
    return table


def _pick_facts(index: Tensor, chosen: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
    """The columns of an index that lie in a part, with its numbers; and which these are."""
    rows, inside = list(index), torch.ones_like(index[0], dtype=torch.bool)
    for dim, numbers in enumerate(chosen):
        if numbers is not None:
            row = rows[dim]
            most = max(int(numbers.max()), int(row.max()) if len(row) else 0) + 1
            places = torch.full((most,), -1, dtype=row.dtype, device=row.device)
            order = torch.arange(len(numbers), dtype=row.dtype, device=row.device)
            places[numbers.to(row.device)] = order
            rows[dim] = places[row.long()]
            inside &= rows[dim] >= 0
    return torch.stack(rows)[:, inside], inside
