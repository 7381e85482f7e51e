"""Read a column as a feature: numbers, or words that are numbered as categories."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fotltn.errors import listing
from fotltn.grounding.cells import Bools, Floats, by_word, gaps, numbers
from fotltn.grounding.collect import Collector, NameNumbers, SourceRows, Symbol
from fotltn.grounding.read import TablePlace

#: How to treat a word that is not among the categories: raise an error, or set all of them to 0.
Unknown = Literal["error", "zero"]

#: The largest number that networks can see; its square must be finite where means are taken.
LARGEST = 1e30

#: The largest number of categories that a feature can take from the data.
MAX_CATEGORIES = 100

_SAY_MISSING = 'choose how to fill missing values: missing = "mean", "zero" or "last"'
_SAY_UNKNOWN = 'add it to the categories, or set all of them to 0: unknown_categories = "zero"'
_SAY_CATEGORIES = "list its categories, or leave the feature out"


def collect_feature(
    collector: Collector,
    place: TablePlace,
    symbol: Symbol,
    base: SourceRows,
    cells: pa.ChunkedArray,
    unknown: Unknown,
) -> None:
    """Collect a column as a feature, or report the cells that do not fit.

    Args:
        collector: receives rows and errors.
        place: the table and the column.
        symbol: the feature. If it states no categories and the column holds words, its categories
            are the words of all tables.
        base: the rows of the table, with their entities and times.
        cells: the column at these rows.
        unknown: how to treat a word that is not a category.
    """
    key = f"feature {symbol.name} of {symbol.sorts[0]}"
    named = symbol.categories
    values = numbers(cells) if named is None else np.zeros(0)
    if named is None and _words(cells, values):
        symbol = replace(symbol, categories=())
    symbol = _agreed(collector, key, symbol, bare=cells.null_count == len(cells))
    if collector.symbols[key] != symbol:
        what = _difference(symbol, collector.symbols[key])
        message = f"another table has the feature '{symbol.name}' with {what}"
        collector.complain(place, None, message)
        return
    expected = "a finite number"
    if symbol.categories is not None:
        values = _categories(collector, place, key, cells, named, unknown)
        expected = f"one of {listing(named)}" if named else "a word"
    large = np.isfinite(values) & (np.abs(values) > LARGEST)
    values = np.where(large, np.inf, values)
    empty = wrong = ~np.isfinite(values)
    if wrong.any():
        empty = gaps(cells) if symbol.categories is None else pc.is_null(cells).to_numpy()
        wrong = wrong & ~(empty & (symbol.missing != "error"))
    for i in map(int, np.flatnonzero(wrong)):
        cell = cells[i].as_py()
        what = "empty" if cell is None else f"the feature is '{cell}'"
        hint = _SAY_MISSING if empty[i] else _SAY_UNKNOWN if named else None
        right = f"a number from {-LARGEST:g} to {LARGEST:g}" if large[i] else expected
        collector.complain(place, int(base.numbers[i]), f"{what}; expected {right}", hint)
    if not wrong.any():
        stated = np.flatnonzero(np.isfinite(values))
        rows = replace(base.rows, value=values).take(stated)
        collector.add(key, SourceRows(rows, place, base.numbers[stated]))


def close_categories(collector: Collector) -> None:
    """Number the categories that were taken from the data in alphabetical order."""
    for key, words in collector.words.items():
        names = sorted(words.numbers)
        rank = np.zeros(len(names), dtype=np.float64)
        rank[[words.numbers[name] for name in names]] = np.arange(len(names))
        collector.symbols[key] = replace(collector.symbols[key], categories=tuple(names))
        collector.parts[key] = [
            part._replace(rows=replace(part.rows, value=rank[part.rows.value.astype(np.int64)]))
            for part in collector.parts.get(key, [])
        ]


def _agreed(collector: Collector, key: str, symbol: Symbol, *, bare: bool) -> Symbol:
    """Register the feature; an empty column becomes numbers or words to match other tables."""
    other = collector.symbols.setdefault(key, symbol)
    if bare and symbol.categories is None and other.categories == ():
        return replace(symbol, categories=())
    stated = any(len(part.numbers) for part in collector.parts.get(key, []))
    if not stated and other == replace(symbol, categories=None):
        collector.symbols[key] = symbol
    return symbol


def _difference(symbol: Symbol, other: Symbol) -> str:
    if other.static != symbol.static:
        return "a time" if symbol.static else "no time"
    if other.missing != symbol.missing:
        return f'missing = "{other.missing}"'
    if other.categories is None:
        return "numbers"
    return "words" if symbol.categories is None else "other categories"


def _words(cells: pa.ChunkedArray, values: Floats) -> bool:
    """Return whether a column holds words: text with letters, and no number or truth value.

    Args:
        cells: the column.
        values: its cells as numbers.
    """
    if not (pa.types.is_dictionary(cells.type) or pa.types.is_string(cells.type)):
        return False
    if np.isfinite(values).any():
        return False
    there = ~gaps(cells)
    return bool(there.any()) and bool(by_word(cells, _are_words, True)[there].all())


def _are_words(text: pa.ChunkedArray) -> Bools:
    return np.array([word is not None and _is_word(word) for word in text.to_pylist()], dtype=bool)


def _is_word(text: str) -> bool:
    """Return whether text is a word rather than a date or a number in any notation."""
    try:
        float(text)
    except ValueError:
        return any(map(str.isalpha, text))
    return False


def _categories(
    collector: Collector,
    place: TablePlace,
    key: str,
    cells: pa.ChunkedArray,
    named: tuple[str, ...] | None,
    unknown: Unknown,
) -> Floats:
    """Return the numbers of categories: -1 for words set to 0, NaN for empty or unknown cells."""
    if named is None:
        words = collector.words.setdefault(key, NameNumbers())
        values = np.full(len(cells), np.nan)
        there = pc.is_valid(cells).to_numpy()
        values[there] = words.encode(cells.filter(pa.array(there)))
        if len(words.numbers) > MAX_CATEGORIES:
            message = f"{len(words.numbers):,} different words; at most {MAX_CATEGORIES} can be"
            collector.complain(place, None, f"{message} categories", _SAY_CATEGORIES)
        return values
    known = {word: float(i) for i, word in enumerate(named)}
    other = np.nan if unknown == "error" else -1.0

    def category(text: pa.ChunkedArray) -> Floats:
        words = text.to_pylist()
        return np.array([np.nan if w is None else known.get(w, other) for w in words])

    return by_word(cells, category, np.nan)
