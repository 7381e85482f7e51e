"""Cells of a table's columns: dictionary-encoded text, and conversion to numbers and times."""

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

#: How messages describe a time.
A_TIME = "a whole number of at least 0"

#: Words that count as numbers in any column, and words that also count in columns of predicates.
FLAGS = {"true": 1.0, "false": 0.0}
TRUTHS = FLAGS | {"yes": 1.0, "no": 0.0}

#: Dictionary-encoded text: each distinct word once, and for each cell the number of its word.
NUMBERED = pa.dictionary(pa.int32(), pa.string())


# --- dictionary-encoded text ---------------------------------------------------------------------


def in_one_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Give all batches one dictionary; return plain text if few words are repeated."""
    words = sum(len(batch.dictionary) for batch in column.iterchunks())
    return column.cast(pa.string()) if 2 * words > len(column) else column.unify_dictionaries()


def words_of(column: pa.ChunkedArray) -> pa.Array:
    """Return the dictionary of encoded text, which may include words that no cell has."""
    return column.chunk(0).dictionary if column.num_chunks else pa.array([], pa.string())


def with_words(column: pa.ChunkedArray, words: pa.Array) -> pa.ChunkedArray:
    """Replace the dictionary of encoded text; equal words become one, null words null cells."""
    encoded = words.dictionary_encode()
    batches = [batch.indices for batch in column.iterchunks()]
    if len(encoded.dictionary) < len(words):
        batches = [encoded.indices.take(codes) for codes in batches]
    named = [pa.DictionaryArray.from_arrays(c, encoded.dictionary, safe=False) for c in batches]
    return pa.chunked_array(named, NUMBERED)


def encode(column: pa.ChunkedArray) -> tuple[pa.Array, Codes]:
    """Return the words of a text column, and for each cell the number of its word; -1 if empty."""
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
    """Apply a function to a text column, once per distinct word if the text is encoded."""
    if not pa.types.is_dictionary(column.type):
        return find(column)
    words, codes = encode(column)
    values = find(pa.chunked_array([words]))
    every: np.ndarray[Any, np.dtype[NumberT]] = np.append(values, values.dtype.type(missing))[codes]
    return every


# --- selecting cells, converting to numbers ------------------------------------------------------


def where(mask: Any) -> Ints:
    """Return the numbers of the rows in which a Boolean column is true."""
    filled = pc.fill_null(mask, False)
    flags = filled.combine_chunks() if isinstance(filled, pa.ChunkedArray) else filled
    rows: Ints = np.flatnonzero(flags.to_numpy(zero_copy_only=False))
    return rows


def numbers(column: pa.ChunkedArray, words: Mapping[str, float] = FLAGS) -> Floats:
    """Convert cells to numbers: NaN for an empty cell, infinity for a cell that is not a number.

    Args:
        column: the cells.
        words: lower-case words that stand for numbers.
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
    """Return which cells of a column of numbers are empty or NaN."""

    def empty(cells: pa.ChunkedArray) -> Bools:
        none: Bools = pc.is_null(cells, nan_is_null=True).to_numpy().copy()
        if pa.types.is_string(cells.type):
            named = pc.equal(pc.utf8_lower(pc.utf8_trim_whitespace(cells)), "nan")
            none |= pc.fill_null(named, False).to_numpy()
        return none

    return by_word(column, empty, True)


def times(column: pa.ChunkedArray) -> tuple[Ints, Bools]:
    """Convert cells to time points; also return which cells are not valid time points."""

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
