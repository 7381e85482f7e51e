"""Records: results of analyses that convert to plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

from fotltn.errors import DataError, name_hint

T = TypeVar("T")


class Record:
    """A dataclass that converts to plain data.

    `KEYS` lists what these data contain, in order: names of attributes, or `key=attribute` where
    the two differ, or for an attribute of an attribute. Without keys, they contain all fields.
    """

    __slots__ = ()
    KEYS: ClassVar[tuple[str, ...]] = ()

    def as_dict(self) -> dict[str, object]:
        """Return the record as plain data for JSON."""
        names = self.KEYS or [field.name for field in fields(self)]  # type: ignore[arg-type]
        pairs = [name.rpartition("=") for name in names]
        return {key or name: plain(attrgetter(name)(self)) for key, _, name in pairs}


def plain(value: Any) -> Any:
    """Convert a value for JSON: records to dictionaries, tuples to lists, NaN to None."""
    match value:
        case Record():
            return value.as_dict()
        case Mapping():
            return {key: plain(item) for key, item in value.items()}
        case tuple() | list():
            return [plain(item) for item in value]
        case Enum():
            return value.value
        case float() if math.isnan(value):
            return None
    return value


def look_up(known: Mapping[str, T], name: str, problem: str) -> T:
    """Return the item with a name; the error for an unknown name lists the known ones.

    Raises:
        DataError: with the problem.
    """
    if name not in known:
        hint = name_hint(name, known)
        raise DataError(f"{problem}; {hint}")
    return known[name]
