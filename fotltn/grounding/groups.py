"""Read groups of traces, such as those for training and testing, from a column of a table."""

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
    """Return the numbers of the traces in each group.

    Traces that occur only in the table are ignored. A trace with a word that stands for no group is
    in no group.

    Args:
        source: a file by name, a data frame, or a mapping from columns to lists.
        trace: the column with the names of traces; rows about the same trace must agree.
        column: the column with the words.
        words: the words that stand for each group.
        traces: the traces of the data, in order.

    Raises:
        DataError: a column is missing, a trace has no row or rows that differ, or a word does not
            occur.
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
                f"{place.at(row)}: the trace '{name}' is '{word}' here, but '{before}' earlier"
            )
    missing = [name for name in traces if name not in word_of]
    if missing:
        raise DataError(f"{place.name}: no row assigns a group to {listing(missing)}")
    known = sorted({word for word in word_of.values() if word is not None})
    for word in (w for group in words.values() for w in group):
        if word not in known:
            hint = name_hint(word, known)
            raise DataError(f"{place.name}, column '{column}': no cell is '{word}'; {hint}")
    return {
        group: tuple(i for i, name in enumerate(traces) if word_of[name] in meaning)
        for group, meaning in words.items()
    }


def of_traces(labels: Labels, traces: Sequence[int]) -> Labels:
    """Return the labels of some traces."""
    chosen = torch.tensor(traces, dtype=torch.int64)
    return labels.take(
        {n: torch.isin(index[0], chosen.to(index.device)) for n, index in labels.index.items()}
    )
