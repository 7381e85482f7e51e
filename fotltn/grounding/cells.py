"""Cells of a column: text by number, each word once; cells as numbers, and which of them fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Ints = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]
Codes = np.ndarray[Any, np.dtype[np.int32]]
NumberT = TypeVar("NumberT", bound=np.generic)

#: What a time is, for messages.
A_TIME = "a whole number from 0"

#: Words that are numbers in any column, and those that are truth values in columns of predicates.
FLAGS = {"true": 1.0, "false": 0.0}
TRUTHS = FLAGS | {"yes": 1.0, "no": 0.0}

#: Text by number: each word once, and for each cell the number of its word.
NUMBERED = pa.dictionary(pa.int32(), pa.string())


# --- text by number ------------------------------------------------------------------------------


def in_one_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text by number with the same words for every batch; plain text where few are repeated."""
    words = sum(len(batch.dictionary) for batch in column.iterchunks())
    return column.cast(pa.string()) if 2 * words > len(column) else column.unify_dictionaries()


def words_of(column: pa.ChunkedArray) -> pa.Array:
    """The words of text by number; those that no cell has may be among them."""
    return column.chunk(0).dictionary if column.num_chunks else pa.array([], pa.string())


def with_words(column: pa.ChunkedArray, words: pa.Array) -> pa.ChunkedArray:
    """Other words in place of those of text by number, equal ones once; missing ones are none."""
    encoded = words.dictionary_encode()
    batches = [batch.indices for batch in column.iterchunks()]
    if len(encoded.dictionary) < len(words):
        batches = [encoded.indices.take(codes) for codes in batches]
    named = [pa.DictionaryArray.from_arrays(c, encoded.dictionary, safe=False) for c in batches]
    return pa.chunked_array(named, NUMBERED)


def encode(column: pa.ChunkedArray) -> tuple[pa.Array, Codes]:
    """The words of text, and for each cell the number of its word; -1 where it is missing."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes = pa.chunked_array([batch.indices for batch in column.iterchunks()], pa.int32())
    numbers: Codes = pc.fill_null(codes, -1).to_numpy()
    return words_of(column), numbers


def by_word(
    column: pa.ChunkedArray,
    find: Callable[[pa.ChunkedArray], np.ndarray[Any, np.dtype[NumberT]]],
    missing: float,
) -> np.ndarray[Any, np.dtype[NumberT]]:
    """What a function of text is at each cell; a repeated word is looked at once."""
    if not pa.types.is_dictionary(column.type):
        return find(column)
    words, codes = encode(column)
    values = find(pa.chunked_array([words]))
    every: np.ndarray[Any, np.dtype[NumberT]] = np.append(values, values.dtype.type(missing))[codes]
    return every


# --- which cells, and numbers --------------------------------------------------------------------


def where(mask: Any) -> Ints:
    """The numbers of the rows at which a column of truth values is true."""
    filled = pc.fill_null(mask, False)
    flags = filled.combine_chunks() if isinstance(filled, pa.ChunkedArray) else filled
    rows: Ints = np.flatnonzero(flags.to_numpy(zero_copy_only=False))
    return rows


def numbers(column: pa.ChunkedArray, words: Mapping[str, float] = FLAGS) -> Floats:
    """Cells as numbers: NaN where a cell is missing, infinite where it is no number.

    Args:
        column: the cells.
        words: words that stand for numbers, in small letters.
    """
    return by_word(column, lambda text: _numbers(text, words), np.nan)


def _numbers(column: pa.ChunkedArray, words: Mapping[str, float]) -> Floats:
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    try:
        values = np.array(pc.cast(column, pa.float64(), safe=False).to_numpy())
    except pa.ArrowInvalid:
        cells = [(np.nan if t is None else _number(t, words)) for t in column.to_pylist()]
        return np.asarray([np.inf if c is None else c for c in cells], dtype=np.float64)
    values[pc.is_valid(column).to_numpy() & np.isnan(values)] = np.inf
    return values


def gaps(column: pa.ChunkedArray) -> Bools:
    """Which cells of a column of numbers hold nothing: those that are missing, and NaN."""

    def empty(cells: pa.ChunkedArray) -> Bools:
        none: Bools = pc.is_null(cells, nan_is_null=True).to_numpy().copy()
        if pa.types.is_string(cells.type):
            named = pc.equal(pc.utf8_lower(pc.utf8_trim_whitespace(cells)), "nan")
            none |= pc.fill_null(named, False).to_numpy()
        return none

    return by_word(column, empty, True)


def times(column: pa.ChunkedArray) -> tuple[Ints, Bools]:
    """Cells as points in time, and which of them are none."""

    def points(text: pa.ChunkedArray) -> Ints:
        values = _numbers(text, {})
        right = (values >= 0) & (values < 2**31) & (values == np.floor(values))
        return np.where(right, values, -1).astype(np.int64)

    every = by_word(column, points, -1)
    wrong = every < 0
    return (np.where(wrong, 0, every) if wrong.any() else every), wrong


def _number(text: str, words: Mapping[str, float]) -> float | None:
    lowered = text.strip().lower()
    if lowered in words:
        return words[lowered]
    try:
        number = float(lowered.replace("_", "x"))
    except ValueError:
        return None
    return number if np.isfinite(number) else None
