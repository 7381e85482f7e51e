"""Which rows are for training, where traces, entities or times are held back.

What is computed from features before training (means, spreads, categories) is computed from these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fotltn.errors import DataError, Diagnostic, listing
from fotltn.grounding.features import Features
from fotltn.grounding.labels import Labels
from fotltn.grounding.split import Split
from fotltn.semantics.tables import Tables


def cells_of_traces(tables: Tables, traces: Sequence[int]) -> dict[str, Tensor]:
    """For each sort, the cells (trace, entity, time) of some traces."""
    chosen = torch.zeros(tables.batch, dtype=torch.bool)
    chosen[list(traces)] = True
    return {sort: _cells(tables, sort) & chosen.reshape(-1, 1, 1) for sort in tables.sizes}


def training_cells(
    tables: Tables, train: Labels, test: Labels, by: Split, sort: str | None
) -> dict[str, Tensor]:
    """For each sort, which cells (trace, entity, time) are for training; without one, all are.

    Traces, or entities, are for testing that have labels for testing alone. By time, what comes
    after the last label for training is.

    Args:
        tables: traces, sizes and lengths.
        train: labels for training.
        test: labels for testing.
        by: what was split.
        sort: whose entities, or whose times.
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
    """The times up to the last ones, which have axes (trace, entity)."""
    return torch.arange(horizon) <= last.unsqueeze(-1)


def _places(labels: Labels, name: str, sort: str | None) -> list[int]:
    """Where entities of a sort are in the index of a predicate."""
    return [] if sort is None else [i for i, s in enumerate(labels.sorts[name], 1) if s == sort]


def _members(labels: Labels, sort: str | None) -> set[tuple[int, int]]:
    """The traces, as (trace, -1), or the entities of a sort, as (trace or 0, entity)."""
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
    """The last time for training of each trace, or of each entity, with axes (trace, entity or 1).

    Where nothing is for testing, that is the last time of all.
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
    """Features without the categories of words that only rows for testing have.

    Args:
        features: by sort.
        counted: which cells are for training.
        present: where entities are, for sorts that come and go.
        named: the columns, as (sort, column), whose categories are named in the settings.
        zero: those in which an unknown word is 0 in all categories.

    Raises:
        DataError: there is such a word, and it is not said that unknown ones are 0.
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
                    Diagnostic(
                        f"the feature '{column}' of '{sort}' is {listing(strange)} in rows for "
                        "testing alone, so that training does not know it",
                        hint='unknown_categories = "zero" lets it be none of the categories; or '
                        "name all of them: categories = { … }",
                    )
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
