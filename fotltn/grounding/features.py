"""Features of entities as tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fotltn.errors import DataError
from fotltn.grounding.collect import Rows, Symbol
from fotltn.grounding.dense import SAY_BEYOND, after_rows, check_cells, fill, present
from fotltn.grounding.facts import Facts


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Numbers that describe the entities of a sort.

    Args:
        names: the names of the features. A category of a text column is "column=category"; a column
            that may be missing adds the feature "column missing", which is 1 where it is.
        values: shape (trace, entity, time, feature); the time axis has size 1 if all features are
            static. 0 for absent entities and after the end of a trace. NaN where a missing value is
            to be replaced by the mean.
        categories: the categories of each text column.
    """

    names: tuple[str, ...]
    values: Tensor
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def features(
    rows: Mapping[str, Rows],
    symbols: Mapping[str, Symbol],
    facts: Facts,
    dtype: torch.dtype,
) -> dict[str, Features]:
    """Build the feature tensors of each sort.

    A feature needs a value at every time point of a trace at which its entity is present. Entities
    are always present, unless their sort is local to traces or has presence predicates. A missing
    value is an error, or filled as the feature's symbol says.

    Args:
        rows: the rows of each feature, by key.
        symbols: the symbols that the keys stand for.
        facts: the traces and entities, and where entities are present.
        dtype: the type of the tensors.

    Raises:
        DataError: a value is missing, or the tensors would be too large.
    """
    grouped: dict[str, list[str]] = {}
    for key in rows:
        grouped.setdefault(symbols[key].sorts[0], []).append(key)
    by_sort = {}
    for sort, keys in grouped.items():
        horizon = 1 if all(symbols[key].static for key in keys) else max(facts.lengths)
        words = [symbols[key].categories for key in keys]
        width = sum(1 if w is None else len(w) for w in words)
        width += sum(symbols[key].missing != "error" for key in keys)
        shape = (len(facts.traces), facts.sizes()[sort], horizon, width)
        check_cells(f"the features of '{sort}'", shape)
        there = present(facts, sort)
        names: list[str] = []
        columns = []
        for key in keys:
            symbol = symbols[key]
            table, gap = _column(rows[key], symbol, facts, there)
            if symbol.categories is None:
                names.append(symbol.name)
                column = table.nan_to_num(nan=0.0).unsqueeze(-1)
            else:
                names += [f"{symbol.name}={word}" for word in symbol.categories]
                numbers = torch.arange(len(symbol.categories))
                column = (table.unsqueeze(-1) == numbers).to(table.dtype)
            if symbol.missing != "error":
                names.append(f"{symbol.name} missing")
                if symbol.missing != "zero":
                    unknown = gap & table.isnan()
                    column = column.masked_fill(unknown.unsqueeze(-1), math.nan)
                column = torch.cat([column, gap.unsqueeze(-1).to(column.dtype)], dim=-1)
            columns.append(column.expand(*shape[:3], -1))
        texts = {symbols[key].name: w for key, w in zip(keys, words, strict=True) if w is not None}
        by_sort[sort] = Features(tuple(names), torch.cat(columns, dim=-1).to(dtype), texts)
    return by_sort


def _column(rows: Rows, symbol: Symbol, facts: Facts, there: Tensor) -> tuple[Tensor, Tensor]:
    """Return one feature, shape (trace, entity, time or 1), and a mask of its missing values.

    The feature is NaN where it has no value.
    """
    needed = there.any(dim=-1, keepdim=True) if symbol.static else there
    table = fill(rows, tuple(needed.shape), math.nan, torch.float64)
    gap = needed & table.isnan()
    missing = gap.nonzero() if symbol.missing == "error" else gap[:0].nonzero()
    if symbol.missing == "last":
        table = torch.where(gap, _last(table), table)
    if len(missing):
        trace, entity, time = missing[0].tolist()
        when = "" if symbol.static else f" at time {time}"
        where = f" in trace '{facts.traces[trace]}'" if len(facts.traces) > 1 else ""
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        name = facts.name(symbol.sorts[0], trace, entity)
        what = f"the feature '{symbol.name}' has no value for '{name}'{when}{where}{more}"
        if after := after_rows(rows, trace, time):
            raise DataError(f"{what}, {after}", hint=SAY_BEYOND)
        raise DataError(
            what,
            hint="add rows; or name a presence predicate, which is true where there is a row; "
            'or choose how to fill missing values: missing = "mean", "zero" or "last"',
        )
    return table, gap


def _last(table: Tensor) -> Tensor:
    """Return the last value up to each time point; NaN before the first value."""
    time = torch.arange(table.shape[-1]).expand(table.shape)
    last = torch.where(table.isnan(), -1, time).cummax(-1).values
    return table.gather(-1, last.clamp(min=0))
