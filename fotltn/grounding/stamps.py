"""Convert time stamps and dates to microseconds since 1970."""

from __future__ import annotations

import re
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fotltn.grounding.cells import Bools, Ints

_STAMP = (
    r"^(?P<day>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<clock>\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)\d* ?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?$"
)
MICROSECONDS = pa.timestamp("us")
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

#: Marks a cell that is not a valid time.
NO_TIME = np.iinfo(np.int64).min


def is_stamp(cell: str | None) -> bool:
    """Return whether a cell looks like a time stamp or a date."""
    return cell is not None and re.match(_STAMP, cell) is not None


def holds_stamps(column: pa.ChunkedArray) -> bool:
    """Return whether a column has a type for time stamps or dates."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def typed_instants(column: pa.ChunkedArray) -> tuple[Ints, Bools, Bools]:
    """Return times in microseconds, and masks of the cells that have a time and a zone."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    there: Bools = pc.is_valid(column).to_numpy()
    if pa.types.is_date(kind):
        column, kind = column.cast(pa.timestamp("ms")), pa.timestamp("ms")
    at: Ints = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    per_second = _PER_SECOND[kind.unit]
    at = at * (10**6 // per_second) if per_second <= 10**6 else np.floor_divide(at, 1000)
    return at, there, np.full(len(at), kind.tz is not None)


def stamp_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column of time stamps or dates to text, in UTC if it has a zone."""
    at, there, zoned = typed_instants(column)
    text = pa.array(at, mask=~there).cast(MICROSECONDS).cast(pa.string())
    zone = "Z" if bool(zoned.any()) else ""
    return pa.chunked_array([pc.binary_join_element_wise(text, zone, "")])


def _parts(text: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray, pa.ChunkedArray]:
    """Split time stamps into day, time of day and zone; parts that are absent are null or ""."""
    parts = pc.extract_regex(text, _STAMP)
    return tuple(pc.struct_field(parts, i) for i in range(3))


def with_zone(text: pa.ChunkedArray) -> Bools:
    """Return which time stamps state a zone."""
    zone = _parts(text)[2]
    mask: Bools = pc.fill_null(pc.not_equal(zone, ""), False).to_numpy()
    return mask


def instants(text: pa.ChunkedArray) -> Ints:
    """Convert time stamps to microseconds, in UTC if they state a zone; NO_TIME if not valid."""
    day, clock, zone = _parts(text)
    clock = pc.if_else(pc.equal(clock, ""), "00:00", clock)
    joined = pc.binary_join_element_wise(day, clock, "T")
    try:
        moments = joined.cast(MICROSECONDS)
    except pa.ArrowInvalid:  # a date such as 30 February
        moments = pa.chunked_array(
            [pa.array([_moment(t) for t in joined.to_pylist()], MICROSECONDS)]
        )
    at: Ints = pc.fill_null(moments.cast(pa.int64()), NO_TIME).to_numpy().copy()
    good = at != NO_TIME
    offsets = {z: _offset(z) for z in pc.unique(zone).to_pylist() if z}
    if offsets:
        shifts = [offsets.get(z, 0) for z in zone.to_pylist()]
        none = np.array([s is None for s in shifts])
        at[good] -= np.array([s or 0 for s in shifts], dtype=np.int64)[good]
        at[none] = NO_TIME
    return at


def _moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None


def without_zone(cell: str) -> bool:
    """Return whether text is a valid time stamp without a zone."""
    match = re.match(_STAMP, cell)
    return match is not None and not match["zone"] and _moment(cell[:19]) is not None


def _offset(zone: str) -> int | None:
    """Return how far a zone is ahead of UTC, in microseconds; None if it is not a valid offset."""
    if zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    if hours > 23 or minutes > 59:
        return None
    return (-1 if zone[0] == "-" else 1) * (hours * 60 + minutes) * 60 * 10**6
