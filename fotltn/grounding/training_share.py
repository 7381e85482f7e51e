"""Find the cells for training when traces, entities or time points are held back.

Statistics of features that are computed before training (means, spreads, categories) use only these
cells.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fotltn.errors import DataError, listing
from fotltn.grounding.features import Features
from fotltn.grounding.labels import Labels
from fotltn.grounding.split import Split
from fotltn.semantics.tables import Tables


def cells_of_traces(tables: Tables, traces: Sequence[int]) -> dict[str, Tensor]:
    """Return a mask of the cells of some traces for each sort, shape (trace, entity, time)."""
    chosen = torch.zeros(tables.batch, dtype=torch.bool)
    chosen[list(traces)] = True
    return {sort: _cells(tables, sort) & chosen.reshape(-1, 1, 1) for sort in tables.sizes}


def training_cells(
    tables: Tables, train: Labels, test: Labels, by: Split, sort: str | None
) -> dict[str, Tensor]:
    """Return a mask of the cells for training, shape (trace, entity, time), for some sorts.

    All cells of a sort without a mask are for training. A trace or an entity is for testing if it
    has labels for testing only. If labels are split by time, everything after the last label for
    training is for testing.

    Args:
        tables: the traces, and the sizes of sorts.
        train: the labels for training.
        test: the labels for testing.
        by: how the labels were split.
        sort: the sort whose entities or times were split.
    """
    match by:
        case "facts":
            return {}
        case "traces":
            held = _members(test, None) - _members(train, None)
            return cells_of_traces(tables, [i for i in range(tables.batch) if (i, -1) not in held])
        case "entities":
            names = {s for sorts in train.sorts.values() for s in sorts}
            (drawn,) = names if sort is None else [sort]
            held = _members(test, drawn) - _members(train, drawn)
            cells = _cells(tables, drawn)
            for trace, entity in held:
                cells[trace if drawn in train.local else slice(None), entity] = False
            return {drawn: cells}
        case "time":
            last = {s: _last_times(tables, train, test, s) for s in {None, sort}}
            return {
                s: _cells(tables, s) & _until(last[sort if s == sort else None], tables.horizon)
                for s in tables.sizes
            }


def _cells(tables: Tables, sort: str) -> Tensor:
    return torch.ones(tables.batch, tables.sizes[sort], tables.horizon, dtype=torch.bool)


def _until(last: Tensor, horizon: int) -> Tensor:
    """Return a mask of the time points up to the last ones, which have shape (trace, entity)."""
    return torch.arange(horizon) <= last.unsqueeze(-1)


def _places(labels: Labels, name: str, sort: str | None) -> list[int]:
    """Return the rows of a predicate's index that hold entities of a sort."""
    return [] if sort is None else [i for i, s in enumerate(labels.sorts[name], 1) if s == sort]


def _members(labels: Labels, sort: str | None) -> set[tuple[int, int]]:
    """Return the traces as (trace, -1), or the entities of a sort as (trace or 0, entity)."""
    members: set[tuple[int, int]] = set()
    for name, index in labels.index.items():
        rows = index.cpu()
        traces = rows[0] if sort is None or sort in labels.local else torch.zeros_like(rows[0])
        places = [-torch.ones_like(traces)] if sort is None else []
        places += [rows[i] for i in _places(labels, name, sort)]
        for place in places:
            members |= {*map(tuple, torch.stack([traces, place]).T.tolist())}
    return members


def _last_times(tables: Tables, train: Labels, test: Labels, sort: str | None) -> Tensor:
    """Return the last time point for training, shape (trace, 1) or, with a sort, (trace, entity).

    Where nothing is for testing, this is the horizon.
    """
    shape = (tables.batch, 1 if sort is None else tables.sizes[sort])
    last = torch.full(shape, -1)
    tested = torch.zeros(shape, dtype=torch.bool)
    for labels in (train, test):
        for name, index in labels.index.items():
            if name in labels.static:
                continue
            rows = index.cpu()
            places = [rows[i] for i in _places(labels, name, sort)]
            for entity in places if sort is not None else [torch.zeros_like(rows[0])]:
                if labels is test:
                    tested[rows[0], entity] = True
                else:
                    flat = rows[0] * shape[1] + entity
                    last.view(-1).scatter_reduce_(0, flat, rows[-1], "amax")
    return torch.where(tested, last, tables.horizon)


def without_unseen_words(
    features: Mapping[str, Features],
    counted: Mapping[str, Tensor],
    present: Mapping[str, Tensor],
    named: Collection[tuple[str, str]],
    zero: Collection[tuple[str, str]],
) -> dict[str, Features]:
    """Remove the categories whose words occur only in rows for testing.

    Args:
        features: the features by sort.
        counted: the cells for training.
        present: the cells in which entities are present, for sorts whose entities come and go.
        named: the columns, as (sort, column), whose categories are listed in the settings.
        zero: the columns in which an unknown word sets all categories to 0.

    Raises:
        DataError: such a word occurs, and unknown words of its column are errors.
    """
    reduced = dict(features)
    for sort, seen in features.items():
        if sort not in counted:
            continue
        there = counted[sort]
        if sort in present:
            there = there & present[sort].cpu()
        if seen.values.shape[2] == 1:
            there = there.any(-1, keepdim=True)
        if not bool(there.any()):
            continue
        known = (seen.values[there].nan_to_num(nan=0.0) != 0).any(0).tolist()
        columns = dict(zip(seen.names, known, strict=True))
        categories = dict(seen.categories)
        for column, words in seen.categories.items():
            strange = [w for w in words if not columns[f"{column}={w}"]]
            if (sort, column) in named or not strange or len(strange) == len(words):
                continue
            if (sort, column) not in zero:
                raise DataError(
                    f"the feature '{column}' of '{sort}' is {listing(strange)} only in rows "
                    "for testing, so training never sees this",
                    hint='unknown_categories = "zero" sets all categories to 0 there; or '
                    "list all categories: categories = { … }",
                )
            categories[column] = tuple(w for w in words if w not in strange)
        left = [
            i
            for i, name in enumerate(seen.names)
            if not any(
                name == f"{column}={word}"
                for column, words in seen.categories.items()
                for word in words
                if word not in categories[column]
            )
        ]
        names = tuple(seen.names[i] for i in left)
        reduced[sort] = replace(
            seen, names=names, values=seen.values[..., left], categories=categories
        )
    return reduced
