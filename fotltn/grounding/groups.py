"""Traces in groups, such as those to learn from and those to test on, by a column of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from fotltn.errors import DataError, listing, name_hint
from fotltn.grounding.cells import encode
from fotltn.grounding.frames import Source, read_sources
from fotltn.grounding.labels import Labels
from fotltn.grounding.read import as_text


def read_groups(
    source: Source,
    *,
    trace: str,
    column: str,
    words: Mapping[str, Sequence[str]],
    traces: Sequence[str],
) -> dict[str, tuple[int, ...]]:
    """The numbers of the traces of each group.

    Traces that the table has and the data have not are left alone. So are, in no group, those
    with a word that stands for none.

    Args:
        source: a file by name, a data frame, or a mapping from columns to lists.
        trace: the column with the names of traces; rows about one trace must agree.
        column: the column with the words.
        words: for each group, the words that stand for it.
        traces: the traces of the data, in their order.

    Raises:
        DataError: a column is missing, a trace is in no row or in several that differ, or a word
            is in none.
    """
    ((place, raw),) = read_sources([source])
    for name in (trace, column):
        if name not in raw.column_names:
            raise DataError(
                f"{place.name}: no column '{name}'; {name_hint(name, raw.column_names)}"
            )
    table = as_text(place, raw.select([trace, column]))
    word_of: dict[str, str | None] = {}
    named, names = encode(table.column(trace))
    spoken, codes = encode(table.column(column))
    pairs = names.astype(np.int64) * (len(spoken) + 1) + codes + 1
    for pair in pc.unique(pa.array(pairs[names >= 0])).to_pylist():  # by first appearance
        number, code = divmod(pair, len(spoken) + 1)
        name, word = named[number].as_py(), spoken[code - 1].as_py() if code else None
        if word_of.setdefault(name, word) != word:
            row, before = int(np.flatnonzero(pairs == pair)[0]), word_of[name]
            raise DataError(
                f"{place.at(row)}: the trace '{name}' is '{word}' here, and '{before}' before"
            )
    missing = [name for name in traces if name not in word_of]
    if missing:
        raise DataError(f"{place.name}: no row says what {listing(missing)} is for")
    known = sorted({word for word in word_of.values() if word is not None})
    for word in (w for group in words.values() for w in group):
        if word not in known:
            hint = name_hint(word, known)
            raise DataError(f"{place.name}, column '{column}': nothing is '{word}'; {hint}")
    return {
        group: tuple(i for i, name in enumerate(traces) if word_of[name] in meaning)
        for group, meaning in words.items()
    }


def of_traces(labels: Labels, traces: Sequence[int]) -> Labels:
    """The labels of some traces."""
    chosen = torch.tensor(traces, dtype=torch.int64)
    return labels.take(
        {n: torch.isin(index[0], chosen.to(index.device)) for n, index in labels.index.items()}
    )
