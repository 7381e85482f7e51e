"""Numbers as exact decimals: whole numbers of a unit that is a power of ten."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fotltn.grounding.cells import Bools, Floats, Ints, encode

#: The most digits after the point, and the greatest power of ten that 64 bits hold.
DIGITS = 18

_PLAIN = r"^[+-]?(?P<whole>\d{1,18})(?:\.(?P<fraction>\d{0,18}))?$"
_LIMIT = 2**62
#: Numbers with so many significant digits may be floats that arithmetic has rounded.
_ROUNDED, _FLOAT = 13, 17


@dataclass(frozen=True, slots=True, eq=False)
class Decimals:
    """Exact numbers: `units` times ten to the power of minus `digits`.

    A column holds 18 digits; digits after those are rounded.

    Args:
        units: whole numbers, shape (row,).
        digits: how many digits all numbers have after the point.
        valid: which cells are not empty.
        wrong: which cells are not numbers, or too large.
        rounded: which numbers are floats that arithmetic may have rounded.
        spacing: the largest distance from a number to its neighbours of the same type; 0 for text
            and whole numbers, which have none.
    """

    units: Ints
    digits: int
    valid: Bools
    wrong: Bools
    rounded: Bools
    spacing: float = 0.0

    def with_digits(self, digits: int) -> Decimals:
        """Return the same numbers with at least so many digits; what no longer fits is wrong."""
        if digits <= self.digits:
            return self
        factor = 10 ** (digits - self.digits)
        large = np.abs(self.units) > _LIMIT // factor
        units = np.where(large, 0, self.units) * factor
        wrong = self.wrong | (large & self.valid)
        return Decimals(units, digits, self.valid, wrong, self.rounded, self.spacing)


def decimals(column: pa.ChunkedArray) -> Decimals:
    """Read the cells of a column of numbers or text as exact numbers."""
    if pa.types.is_floating(column.type):
        return _of_floats(column)
    if pa.types.is_integer(column.type):
        valid = pc.is_valid(column).to_numpy()
        wide = pc.fill_null(column, 0)
        large = pc.greater(wide, _LIMIT) if pa.types.is_uint64(column.type) else None
        units = wide.cast(pa.int64(), safe=False).to_numpy()
        none = np.zeros(len(units), dtype=bool)
        wrong = none if large is None else large.to_numpy(zero_copy_only=False)
        return Decimals(units, 0, valid, wrong, none)
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
        return _of_text(column)
    words, codes = encode(column)
    of_words = _of_text(pa.chunked_array([words]))

    def cells(values: np.ndarray, empty: bool) -> np.ndarray:
        return np.append(values, np.array(empty, values.dtype))[codes]

    return Decimals(
        cells(of_words.units, False), of_words.digits, cells(of_words.valid, False),
        cells(of_words.wrong, False), cells(of_words.rounded, False),
    )  # fmt: skip


def _of_text(column: pa.ChunkedArray) -> Decimals:
    trimmed = pc.utf8_trim_whitespace(column)
    valid = pc.and_(pc.is_valid(trimmed), pc.not_equal(pc.fill_null(trimmed, ""), "")).to_numpy()
    matched = pc.extract_regex(trimmed, _PLAIN)
    before_point, fraction = (pc.fill_null(pc.struct_field(matched, part), "") for part in (0, 1))
    places: Ints = pc.utf8_length(fraction).to_numpy().astype(np.int64)
    written = pc.utf8_ltrim(pc.binary_join_element_wise(before_point, fraction, ""), "0")
    length: Ints = pc.utf8_length(written).to_numpy()
    rounded = (length >= _ROUNDED) & (length <= _FLOAT) & (places > 0)
    before = int(pc.max(pc.utf8_length(before_point)).as_py() or 0)
    most = min(int(places.max(initial=0)), DIGITS - before)
    simple = valid & pc.is_valid(matched).to_numpy() & (places <= most)
    read = {int(row): _python(trimmed[int(row)].as_py()) for row in np.flatnonzero(valid & ~simple)}
    after = [-_exponent(one) for one in read.values() if one is not None]
    most = max(most, min(max(after, default=0), DIGITS - before))
    units, wrong = np.zeros(len(column), dtype=np.int64), valid & ~simple
    if len(rows := np.flatnonzero(simple)):
        exact = trimmed.take(pa.array(rows)).cast(pa.decimal128(38, most)).combine_chunks()
        units[rows], beyond = _halves(exact)
        wrong[rows[beyond]] = True
    for row, one in read.items():
        if one is not None and abs(scaled := one.scaleb(most)) <= _LIMIT:
            units[row], wrong[row] = round(scaled), False
    return Decimals(units, most, valid, wrong, rounded)


def _halves(numbers: pa.Array) -> tuple[Ints, Bools]:
    """Return the low halves of decimals of 128 bits, and which do not fit there."""
    _, data = numbers.buffers()
    pairs = np.frombuffer(data, dtype=np.int64).reshape(-1, 2)[numbers.offset :][: len(numbers)]
    low, high = pairs[:, 0], pairs[:, 1]
    beyond = (high != low >> 63) | (np.abs(low) > _LIMIT)
    return np.where(beyond, 0, low), beyond


def _python(cell: str) -> Decimal | None:
    """Read a number with an exponent or unusual signs; None if it is none, or too large."""
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", cell):
        return None
    try:
        number = Decimal(cell).normalize()
    except InvalidOperation:
        return None
    return number if number.adjusted() <= DIGITS else None


def _exponent(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return min(exponent, 0)


def _of_floats(column: pa.ChunkedArray) -> Decimals:
    valid = pc.is_valid(column).to_numpy()
    narrow = np.asarray(pc.fill_null(column, 0).to_numpy())
    wrong = valid & ~np.isfinite(narrow)
    narrow = np.where(wrong, narrow.dtype.type(0), narrow)
    values: Floats = narrow.astype(np.float64)
    spacing = float(np.spacing(np.abs(narrow).max(initial=0)))
    units, digits = np.zeros(len(values), np.int64), np.zeros(len(values), np.int64)
    open_rows = np.arange(len(values))
    for count in range(DIGITS + 1):
        scaled = np.rint(values[open_rows] * 10.0**count)
        back = (scaled / 10.0**count).astype(narrow.dtype)
        exact = (np.abs(scaled) < 2**53) & (back == narrow[open_rows])
        rows = open_rows[exact]
        units[rows], digits[rows] = scaled[exact].astype(np.int64), count
        open_rows = open_rows[~exact]
        if not len(open_rows):
            break
    for row in open_rows:  # with more digits than whole numbers below 2**53 have
        shortest = Decimal(str(narrow[row])) if wrong[row] == 0 else Decimal(0)
        places = min(-_exponent(shortest), DIGITS)
        scaled_up = round(shortest.scaleb(places))
        if abs(scaled_up) > _LIMIT:
            wrong[row] = True
        else:
            digits[row], units[row] = places, scaled_up
    rounded = (digits > 0) & (np.abs(units) >= 10 ** (_ROUNDED - 1))
    before = len(str(int(np.abs(values).max(initial=0))))
    most = min(int(digits.max(initial=0)), max(0, DIGITS - before))
    less = np.flatnonzero(digits > most)
    units[less] = np.rint(units[less] / 10.0 ** (digits[less] - most)).astype(np.int64)
    factor = 10 ** np.maximum(most - digits, 0)
    large = np.abs(units) > _LIMIT // factor
    every = np.where(large, 0, units) * factor
    return Decimals(every, most, valid, wrong | (large & valid), rounded, spacing)
