"""TOML with places: typed reading of keys, whose errors point at the line."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fotltn.errors import DataError, Diagnostic, Source, Span, did_you_mean, listing

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]")
_KEY = re.compile(r"""\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)\s*=""")
_POSITION = re.compile(r"\(at line (\d+), column (\d+)\)")


class Table:
    """A table of a TOML file; every key must be taken, so that none is ignored in silence."""

    def __init__(
        self, values: Mapping[str, Any], path: tuple[str, ...], source: Source, places: Places
    ) -> None:
        """Wrap the values of a table."""
        self.values, self.path, self.source, self.places = dict(values), path, source, places
        self.taken: set[str] = set()

    def error(self, key: str | None, message: str, hint: str | None = None) -> DataError:
        """An error about a key, or about the table."""
        path = self.path if key is None else (*self.path, key)
        name = ".".join(path)
        whole = f"{name}: {message}" if name else message
        return DataError(Diagnostic(whole, self.places.get(path), hint))

    def has(self, key: str) -> bool:
        """Whether a key is there."""
        return key in self.values

    def take(self, key: str, default: Any = None) -> Any:
        """A value as it is."""
        self.taken.add(key)
        return self.values.get(key, default)

    def text(self, key: str, default: str | None = None) -> str:
        """Text, which must be there if there is no default."""
        value = self.take(key, default)
        if value is None:
            raise self.error(None, f"the key '{key}' is missing", f'{key} = "…"')
        if not isinstance(value, str):
            raise self.error(key, f"expected text in quotes, not {_shown(value)}")
        return value

    def choice(self, key: str, known: Iterable[str], default: str) -> str:
        """One of some words."""
        value, words = self.text(key, default), list(known)
        if value not in words:
            hint = did_you_mean(value, words) or f"one of {listing(words)}"
            raise self.error(key, f"unknown value '{value}'", hint)
        return value

    def number(
        self, key: str, default: float | None, *, low: float = -math.inf, high: float = math.inf
    ) -> float | None:
        """A number in a range, or the default."""
        value = self.take(key, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise self.error(key, f"expected a number, not {_shown(value)}")
        if not low <= value <= high:
            raise self.error(key, f"expected a number {_range(low, high)}, not {value}")
        return value

    def whole(
        self, key: str, default: int | None, *, low: int = 0, high: int = 2**63 - 1
    ) -> int | None:
        """A whole number in a range, or the default."""
        value = self.take(key, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"expected a whole number, not {_shown(value)}")
        if not low <= value <= high:
            raise self.error(key, f"expected a whole number {_range(low, high)}, not {value}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.take(key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"expected true or false, not {_shown(value)}")
        return value

    def texts(self, key: str, default: Iterable[str] = ()) -> tuple[str, ...]:
        """A list of texts; one text stands for a list of one."""
        value = self.take(key, list(default))
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self.error(key, f"expected a list of texts, not {_shown(value)}")
        return tuple(value)

    def wholes(self, key: str, default: Iterable[int]) -> tuple[int, ...]:
        """A list of whole numbers from 1."""
        value = self.take(key, list(default))
        whole = isinstance(value, list) and all(
            isinstance(v, int) and not isinstance(v, bool) and v > 0 for v in value
        )
        if not whole:
            raise self.error(key, f"expected a list of whole numbers from 1, not {_shown(value)}")
        return tuple(value)

    def table(self, key: str) -> Table:
        """A table below this one, empty if it is not there."""
        value = self.take(key, {})
        if not isinstance(value, dict):
            raise self.error(key, f"expected a table, not {_shown(value)}")
        return Table(value, (*self.path, key), self.source, self.places)

    def tables(self, key: str) -> list[Table]:
        """A list of tables."""
        value = self.take(key, [])
        if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
            raise self.error(key, f"expected tables, each as [[{'.'.join((*self.path, key))}]]")
        return [Table(v, (*self.path, key), self.source, self.places) for v in value]

    def finish(self, known: Iterable[str] = ()) -> None:
        """Refuse keys that were not taken."""
        for key in self.values:
            if key not in self.taken:
                words = [*self.taken, *known]
                hint = did_you_mean(key, words) or f"known: {listing(sorted(words))}"
                raise self.error(key, f"unknown key '{key}'", hint)


Places = dict[tuple[str, ...], Span]


def read_toml(path: Path) -> Table:
    """Read a TOML file.

    Raises:
        DataError: there is no such file, or it is not TOML.
    """
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise DataError(f"cannot read '{path}': {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"'{path}' is not text in UTF-8") from None
    return parse_toml(text, str(path))


def parse_toml(text: str, name: str) -> Table:
    """Read TOML from text; `name` is what errors call it."""
    source = Source(name, text)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _POSITION.search(str(error))
        message = _POSITION.sub("", str(error)).strip()
        span = None
        if found:
            line, column = int(found[1]), int(found[2])
            begin = sum(len(part) + 1 for part in text.split("\n")[: line - 1]) + column - 1
            span = Span(source, min(begin, len(text)), min(begin, len(text)) + 1)
        raise DataError(Diagnostic(f"not TOML: {message}", span)) from None
    return Table(values, (), source, _places(source))


def _places(source: Source) -> Places:
    """Where each key and table header stands."""
    found: Places = {}
    path: tuple[str, ...] = ()
    offset = 0
    for line in source.text.split("\n"):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            path = tuple(part.strip().strip("\"'") for part in header[2].split("."))
            found.setdefault(path, Span(source, offset + header.start(1), offset + len(line)))
        elif key:
            name = key[1].strip("\"'")
            found.setdefault(
                (*path, name), Span(source, offset + key.start(1), offset + key.end(1))
            )
        offset += len(line) + 1
    return found


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _range(low: float, high: float) -> str:
    if high == math.inf or high == 2**63 - 1:
        return f"from {low:g}"
    return f"from {low:g} to {high:g}"
