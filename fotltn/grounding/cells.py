"""Cells of a column as numbers, and which of them fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Ints = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

#: What a time is, for messages.
A_TIME = "a whole number from 0"


def where(mask: Any) -> Ints:
    """The numbers of the rows at which a column of truth values is true."""
    filled = pc.fill_null(mask, False)
    flags = filled.combine_chunks() if isinstance(filled, pa.ChunkedArray) else filled
    rows: Ints = np.flatnonzero(flags.to_numpy(zero_copy_only=False))
    return rows


def numbers(column: pa.ChunkedArray, *, words: bool = True) -> Floats:
    """Cells as numbers: NaN where a cell is missing, infinite where it is no number.

    With `words`, true and false are 1 and 0.
    """
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    try:
        values = np.array(pc.cast(column, pa.float64(), safe=False).to_numpy())
    except pa.ArrowInvalid:
        cells = [(np.nan if t is None else _number(t, words)) for t in column.to_pylist()]
        return np.asarray([np.inf if c is None else c for c in cells], dtype=np.float64)
    values[pc.is_valid(column).to_numpy() & np.isnan(values)] = np.inf
    return values


def times(column: pa.ChunkedArray) -> tuple[Ints, Bools]:
    """Cells as points in time, and which of them are none."""
    values = numbers(column, words=False)
    wrong = ~((values >= 0) & (values < 2**31) & (values == np.floor(values)))
    return np.where(wrong, 0, values).astype(np.int64), wrong


def _number(text: str, words: bool) -> float | None:
    lowered = text.strip().lower()
    if words and lowered in ("true", "false"):
        return float(lowered == "true")
    try:
        number = float(lowered.replace("_", "x"))
    except ValueError:
        return None
    return number if np.isfinite(number) else None
