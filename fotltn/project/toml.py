"""Settings: typed reading of keys, whose errors point at the line of a TOML file; writing them."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fotltn.errors import DataError, Diagnostic, Source, Span, did_you_mean, listing, shown
from fotltn.files import read_file

#: The most bytes of a file of settings.
MAX_BYTES = 2**24

_PART = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*(?P<whole>(?P<open>\[\[?)\s*(?P<path>{_DOTTED})\s*\]\]?)")
_KEY = re.compile(rf"\s*(?P<path>{_DOTTED})\s*=")
_NUMBERED = re.compile(r"\[\d+\]$")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_POSITION = re.compile(r"\(at line (\d+), column (\d+)\)")


class Table:
    """A table of settings; every key must be taken, so that none is ignored in silence.

    Its path is what errors call it; the third table of an array is `name[3]`. Settings of a file
    have places in it.
    """

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
        return DataError(Diagnostic(whole, place_of(self.places, path), hint))

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
            raise self.error(key, f"expected text in quotes, not {shown(value)}")
        return value

    def choice(self, key: str, known: Iterable[str], default: str) -> str:
        """One of some words."""
        value, words = self.text(key, default), list(known)
        if value not in words:
            hint = did_you_mean(value, words) or f"one of {listing(words)}"
            raise self.error(key, f"unknown value '{value}'", hint)
        return value

    def number(
        self,
        key: str,
        default: float,
        *,
        low: float,
        high: float = math.inf,
        infinite: bool = False,
    ) -> float:
        """A number in a range, or the default; infinite only where that is allowed."""
        value = self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise self.error(key, f"expected a number, not {shown(value)}")
        if not low <= value <= high or (not infinite and not abs(value) < 1e300):
            raise self.error(key, f"expected a number {_range(low, high)}, not {shown(value)}")
        return math.inf if value > 1e300 else float(value)

    def whole(self, key: str, default: int, *, low: int = 0, high: int = 2**63 - 1) -> int:
        """A whole number in a range, or the default."""
        value = self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"expected a whole number, not {shown(value)}")
        if not low <= value <= high:
            raise self.error(
                key, f"expected a whole number {_range(low, high)}, not {shown(value)}"
            )
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.take(key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"expected true or false, not {shown(value)}")
        return value

    def texts(self, key: str, default: Iterable[str] = ()) -> tuple[str, ...]:
        """A list of texts; one text stands for a list of one."""
        value = self.take(key, list(default))
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self.error(key, f"expected a list of texts, not {shown(value)}")
        return tuple(value)

    def wholes(self, key: str, default: Iterable[int]) -> tuple[int, ...]:
        """A list of whole numbers from 1."""
        value = self.take(key, list(default))
        whole = isinstance(value, list) and all(
            isinstance(v, int) and not isinstance(v, bool) and 0 < v < 2**31 for v in value
        )
        if not whole:
            raise self.error(key, f"expected a list of whole numbers from 1, not {shown(value)}")
        return tuple(value)

    def table(self, key: str) -> Table:
        """A table below this one, empty if it is not there."""
        value = self.take(key, {})
        if not isinstance(value, dict):
            raise self.error(key, f"expected a table, not {shown(value)}")
        return Table(value, (*self.path, key), self.source, self.places)

    def tables(self, key: str) -> list[Table]:
        """A list of tables."""
        value = self.take(key, [])
        if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
            raise self.error(key, f"expected tables, each as [[{'.'.join((*self.path, key))}]]")
        return [
            Table(v, (*self.path, f"{key}[{n}]"), self.source, self.places)
            for n, v in enumerate(value, 1)
        ]

    def finish(self) -> None:
        """Refuse keys that were not taken."""
        for key in self.values:
            if key not in self.taken:
                hint = did_you_mean(key, self.taken) or f"known: {listing(sorted(self.taken), 20)}"
                path = (*self.path, key)
                place = place_of(self.places, path)
                raise DataError(Diagnostic(f"unknown key '{'.'.join(path)}'", place, hint))


Places = dict[tuple[str, ...], Span]


def place_of(places: Places, path: tuple[str, ...]) -> Span | None:
    """Where a key stands, or the nearest table around it."""
    while path:
        *outer, last = path
        for name in (last, _NUMBERED.sub("", last)):
            if (*outer, name) in places:
                return places[*outer, name]
        path = tuple(outer)
    return None


def read_toml(path: Path) -> Table:
    """Read a TOML file.

    Raises:
        DataError: there is no such file, or it is not TOML.
    """
    try:
        text = read_file(path, limit=MAX_BYTES, links=True).decode().replace("\r\n", "\n")
    except OSError as error:
        raise DataError(f"cannot read '{path}': {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"cannot read '{path}': it is not UTF-8 (byte {error.start})") from None
    return parse_toml(text, str(path))


def parse_toml(text: str, name: str) -> Table:
    """Read TOML from text; `name` is what errors call it."""
    source = Source(name, text)
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise DataError(f"cannot read '{name}': its values are nested too deeply") from None
    except ValueError as error:  # also of numbers with too many digits
        found = _POSITION.search(str(error))
        message = _POSITION.sub("", str(error)).strip().removesuffix("(at end of document)")
        begin = len(text)
        if found:
            line, column = int(found[1]), int(found[2])
            begin = sum(len(part) + 1 for part in text.split("\n")[: line - 1]) + column - 1
        begin = min(begin, max(0, len(text) - 1))
        span = Span(source, begin, begin + 1)
        raise DataError(Diagnostic(f"not TOML: {message.strip()}", span)) from None
    return Table(values, (), source, places_of(source))


def table_of(settings: Mapping[str, Any]) -> Table:
    """Settings that Python gives: those without a value (None) are left out, tuples are lists.

    Raises:
        DataError: a value is none that a file could have.
    """
    return Table(_as_in_toml(settings, ()), (), Source("", ""), {})


def _as_in_toml(value: Any, path: tuple[str, ...]) -> Any:
    match value:
        case Mapping():
            return {
                str(key): _as_in_toml(inner, (*path, str(key)))
                for key, inner in value.items()
                if inner is not None
            }
        case list() | tuple():
            return [_as_in_toml(inner, path) for inner in value]
        case bool() | str() | int() | float():
            return value
    kind = type(value).__name__
    raise DataError(f"{'.'.join(path)}: a value of type '{kind}' cannot be written as TOML")


def places_of(source: Source) -> Places:
    """Where each key and table header stands."""
    found: Places = {}
    counts: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    offset = 0
    for line in source.text.split("\n"):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            table = _resolved(_parts(header["path"]), counts, new=header["open"] == "[[")
            begin, end = header.span("whole")
            found.setdefault(table, Span(source, offset + begin, offset + end))
        elif key:
            begin, end = key.span("path")
            name = (*table, *_parts(key["path"]))
            found.setdefault(name, Span(source, offset + begin, offset + end))
        offset += len(line) + 1
    return found


def _parts(path: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_PART, path)]


def _resolved(
    parts: list[str], counts: dict[tuple[str, ...], int], *, new: bool
) -> tuple[str, ...]:
    """The path of a header, with the numbers of the tables of arrays that it lies in."""
    path: tuple[str, ...] = ()
    for place, part in enumerate(parts):
        own = (*path, part)
        if new and place == len(parts) - 1:
            counts[own] = counts.get(own, 0) + 1
        path = (*path, f"{part}[{counts[own]}]") if own in counts else own
    return path


def _range(low: float, high: float) -> str:
    if high == math.inf or high == 2**63 - 1:
        return f"from {low:g}"
    return f"from {low:g} to {high:g}"


# --- writing ----------------------------------------------------------------------------------


def show_toml(values: Mapping[str, Any]) -> str:
    """TOML that is read back as the same values; keys without a value (None) are left out.

    >>> print(show_toml({"theory": {"file": "t.fot", "p": 4}}), end="")
    [theory]
    file = "t.fot"
    p = 4
    """
    return "\n\n".join(filter(None, _blocks(values, ()))) + "\n"


def _blocks(values: Mapping[str, Any], path: tuple[str, ...], head: str = "") -> Iterable[str]:
    tables = {k: v for k, v in values.items() if isinstance(v, Mapping)}
    arrays = {k: v for k, v in values.items() if _is_array(v)}
    plain = {k: v for k, v in values.items() if k not in tables and k not in arrays}
    lines = [f"{_key(k)} = {_value(v)}" for k, v in plain.items() if v is not None]
    if lines or head.startswith("[["):
        yield "\n".join([head, *lines] if head else lines)
    for key, table in tables.items():
        inner = (*path, key)
        yield from _blocks(table, inner, f"[{'.'.join(map(_key, inner))}]")
    for key, array in arrays.items():
        inner = (*path, key)
        for table in array:
            yield from _blocks(table, inner, f"[[{'.'.join(map(_key, inner))}]]")


def _is_array(value: Any) -> bool:
    """Whether this is an array of tables."""
    return isinstance(value, list | tuple) and any(isinstance(v, Mapping) for v in value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case int():
            return str(value)
        case float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
    raise DataError(f"a value of type '{type(value).__name__}' cannot be written as TOML")
