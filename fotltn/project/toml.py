"""Read settings by type, with errors that point at the line of a TOML file, and write them."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from fotltn.errors import DataError, Diagnostic, SourceText, Span, did_you_mean, listing, shown
from fotltn.files import read_file
from fotltn.learn.schedule import Schedule, schedule

#: The file that makes a folder a project.
FILE = "project.toml"

#: The largest size of a settings file, in bytes.
MAX_BYTES = 2**24

_PART = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*(?P<header>(?P<open>\[\[?)\s*(?P<path>{_DOTTED})\s*\]\]?)")
_KEY = re.compile(rf"\s*(?P<path>{_DOTTED})\s*=")
_NUMBERED = re.compile(r"\[\d+\]$")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_POSITION = re.compile(r"\(at line (\d+), column (\d+)\)")

R = TypeVar("R")
T = TypeVar("T")
Places = dict[tuple[str, ...], Span]


class Range(NamedTuple):
    """The smallest and largest value of a number, and whether it may be infinite."""

    low: float = 0
    high: float = math.inf
    infinite: bool = False

    def __str__(self) -> str:
        high = f"{self.high:,}" if isinstance(self.high, int) else f"{self.high:g}"
        if self.high == math.inf:
            return f"of at least {self.low:g}"
        return f"from {self.low:g} to {high}"


class Settings:
    """A table of settings that checks types and refuses unknown keys.

    Errors name the table by its path; the third table of an array is `name[3]`. Settings from a
    file know their places in it.
    """

    def __init__(
        self, values: Mapping[str, Any], path: tuple[str, ...], source: SourceText, places: Places
    ) -> None:
        """Wrap the values of a table."""
        self.values, self.path, self.source, self.places = dict(values), path, source, places
        self.taken: set[str] = set()

    def error(self, key: str | None, message: str, hint: str | None = None) -> DataError:
        """Build an error about a key, or about the table."""
        path = self.path if key is None else (*self.path, key)
        text = f"{'.'.join(path)}: {message}" if path else message
        return DataError(Diagnostic(text, place_of(self.places, path), hint))

    def has(self, key: str) -> bool:
        """Return whether a key is set."""
        return key in self.values

    def take(self, key: str, default: Any = None) -> Any:
        """Return a value as it is, and mark its key as known."""
        self.taken.add(key)
        return self.values.get(key, default)

    def value(self, key: str, kind: Any, default: Any = None, rule: Any = None) -> Any:
        """Return the checked value of a key, or its default; a text without a default is required.

        Args:
            key: the key.
            kind: a type of `_KINDS`, such a type or None ("" and 0 stand for None), words
                (`Literal`), a schedule, or a mapping from names to lists, schedules or anything.
            default: the value of a key that is not set.
            rule: the `Range` of a number (by default, at least 0), the words that a text may be, or
                a function of this table and the key that reads the value.

        Raises:
            DataError: the key is missing, or its value is wrong.
        """
        if NoneType in get_args(kind):
            if not self.has(key):
                return self.take(key, default)
            if callable(rule):
                return rule(self, key)
            value = self.value(key, get_args(kind)[0], None, rule)
            return (value or None) if isinstance(value, str | int) else value
        if callable(rule):
            return rule(self, key)
        if get_origin(kind) is Mapping:
            return self._mapping(key, get_args(kind)[1], rule)
        kind, rule = (str, get_args(kind)) if get_origin(kind) is Literal else (kind, rule)
        value = self.take(key, default)
        if kind is Schedule:
            try:
                return schedule(value, key, low=0 if rule is None else rule.low)
            except DataError as error:
                raise self.error(key, error.diagnostics[0].message) from None
        if kind is str and value is None:
            raise self.error(None, f"the key '{key}' is missing", f'{key} = "…"')
        if get_origin(kind) is tuple:
            value = value if self.has(key) else list(default or ())
            value = [value] if kind == tuple[str, ...] and isinstance(value, str) else value
        right, what = _KINDS[kind]
        if not right(value):
            raise self.error(key, f"expected {what}, not {shown(value)}")
        if kind in (int, float):
            return self._within(key, kind, value, rule or Range())
        if rule is not None and value not in rule:
            hint = did_you_mean(value, list(rule)) or f"expected one of {listing(list(rule))}"
            raise self.error(key, f"unknown value '{value}'", hint)
        return tuple(value) if isinstance(value, list) else value

    def _within(self, key: str, kind: type, value: float, limits: Range) -> float:
        fits = abs(value) < 2**63 if kind is int else limits.infinite or abs(value) < 1e300
        if not fits or not limits.low <= value <= limits.high:
            what = _KINDS[kind][1]
            raise self.error(key, f"expected {what} {limits}, not {shown(value)}")
        return value if kind is int else math.inf if value > 1e300 else float(value)

    def _mapping(self, key: str, kind: Any, rule: Any) -> dict[str, Any]:
        if kind is Any:
            return dict(self.table(key).values)
        return self.by_name(key, lambda table, name: table.value(name, kind, None, rule))

    def table(self, key: str) -> Settings:
        """Return a table below this one, empty if it is not set."""
        value = self.value(key, dict, {})
        return Settings(value, (*self.path, key), self.source, self.places)

    def by_name(self, key: str, read: Callable[[Settings, str], T]) -> dict[str, T]:
        """Read each key of a table below this one."""
        table = self.table(key)
        return {name: read(table, name) for name in table.values}

    def tables(self, key: str) -> list[Settings]:
        """Return a list of tables."""
        value = self.take(key, [])
        if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
            raise self.error(key, f"expected tables, each as [[{'.'.join((*self.path, key))}]]")
        return [
            Settings(v, (*self.path, f"{key}[{n}]"), self.source, self.places)
            for n, v in enumerate(value, 1)
        ]

    def finish(self) -> None:
        """Raise an error for keys that were not taken."""
        for key in self.values:
            if key not in self.taken:
                hint = meant(key, self.taken) or f"known: {listing(sorted(self.taken), 20)}"
                path = (*self.path, key)
                place = place_of(self.places, path)
                raise DataError(Diagnostic(f"unknown key '{'.'.join(path)}'", place, hint))

    # --- dataclasses ------------------------------------------------------------------------------

    def record(
        self,
        kind: Callable[..., R],
        usual: R | None = None,
        *,
        only: Iterable[str] = (),
        **rules: Any,
    ) -> R:
        """Read this table as a dataclass, whose fields are the only allowed keys.

        Args:
            kind: the dataclass.
            usual: the values of keys that are not set; by default, those of the fields.
            only: the fields that are keys; by default, all.
            rules: for a key, its `Range`, its words, or the function that reads it. By default,
                numbers must be at least 0.

        Raises:
            DataError: a key is missing, unknown or wrong, or the values do not fit together.
        """
        types, values = _types(kind), {}
        for field in dataclasses.fields(kind):  # type: ignore[arg-type]
            default = None if field.default is dataclasses.MISSING else field.default
            default = default if usual is None else getattr(usual, field.name)
            if only and field.name not in only:
                values[field.name] = default
            else:
                rule = rules.get(field.name)
                values[field.name] = self.value(field.name, types[field.name], default, rule)
        self.finish()
        try:
            return kind(**values)
        except DataError as error:
            first = error.diagnostics[0]
            raise self.error(None, first.message, first.hint) from None


def meant(key: str, known: Iterable[str]) -> str | None:
    """Return a hint with the known key that an unknown one stands for, or resembles."""
    names = list(known)
    other = _ELSEWHERE.get(key.lower())
    return f"did you mean '{other}'?" if other in names else did_you_mean(key, names)


#: What other packages call settings, with our names.
_ELSEWHERE = {
    "lr": "rate", "learning_rate": "rate", "learning_rate_init": "rate", "optimizer": "optimiser",
    "max_epochs": "epochs", "n_epochs": "epochs", "num_epochs": "epochs", "max_iter": "epochs",
    "n_iter": "epochs", "batch_size": "batches", "random_state": "seed", "hidden_layer_sizes":
    "hidden", "hidden_size": "width", "num_layers": "layers", "n_samples": "worlds",
}  # fmt: skip


@cache
def _types(kind: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields; annotations are evaluated once."""
    return get_type_hints(kind)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


#: The check for each type, and how messages describe it.
_KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    bool: (lambda v: isinstance(v, bool), "true or false"),
    int: (_is_integer, "a whole number"),
    float: (_is_number, "a number"),
    str: (lambda v: isinstance(v, str), "text in quotes"),
    dict: (lambda v: isinstance(v, dict), "a table"),
    tuple[str, ...]: (
        lambda v: isinstance(v, list) and all(isinstance(w, str) for w in v),
        "a list of texts",
    ),
    tuple[int, ...]: (
        lambda v: isinstance(v, list) and all(_is_integer(n) and 0 < n < 2**31 for n in v),
        "a list of whole numbers of at least 1",
    ),
}


def place_of(places: Places, path: tuple[str, ...]) -> Span | None:
    """Return the place of a key, or of the nearest table around it."""
    while path:
        *outer, last = path
        for name in (last, _NUMBERED.sub("", last)):
            if (*outer, name) in places:
                return places[*outer, name]
        path = tuple(outer)
    return None


def read_toml(path: Path) -> Settings:
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


def parse_toml(text: str, name: str) -> Settings:
    """Parse TOML text; messages call it `name`."""
    source = SourceText(name, text)
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise DataError(f"cannot read '{name}': its values are nested too deeply") from None
    except ValueError as error:  # TOML errors, and numbers with too many digits
        message = _POSITION.sub("", str(error)).strip().removesuffix("(at end of document)")
        begin = len(text)
        if position := _POSITION.search(str(error)):
            line, column = map(int, position.groups())
            begin = sum(len(part) + 1 for part in text.split("\n")[: line - 1]) + column - 1
        begin = min(begin, max(0, len(text) - 1))
        span = Span(source, begin, begin + 1)
        raise DataError(Diagnostic(f"not TOML: {message.strip()}", span)) from None
    return Settings(values, (), source, places_of(source))


def table_of(settings: Mapping[str, Any]) -> Settings:
    """Wrap settings from Python: drop values of None, and turn tuples into lists.

    Raises:
        DataError: a value has a type that TOML does not have.
    """
    return Settings(_as_in_toml(settings, ()), (), SourceText("", ""), {})


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
        case bool() | str() | int() | float() | date():
            return value
    kind = type(value).__name__
    raise DataError(f"{'.'.join(path)}: a value of type '{kind}' cannot be written as TOML")


def places_of(source: SourceText) -> Places:
    """Find the place of each key and table header."""
    places: Places = {}
    counts: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    offset = 0
    for line in source.text.split("\n"):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            table = _resolved(_parts(header["path"]), counts, new=header["open"] == "[[")
            begin, end = header.span("header")
            places.setdefault(table, Span(source, offset + begin, offset + end))
        elif key:
            begin, end = key.span("path")
            name = (*table, *_parts(key["path"]))
            places.setdefault(name, Span(source, offset + begin, offset + end))
        offset += len(line) + 1
    return places


def _parts(path: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_PART, path)]


def _resolved(
    parts: list[str], counts: dict[tuple[str, ...], int], *, new: bool
) -> tuple[str, ...]:
    """Return the path of a header, with positions in the arrays of tables around it."""
    path: tuple[str, ...] = ()
    for place, part in enumerate(parts):
        plain = (*path, part)
        if new and place == len(parts) - 1:
            counts[plain] = counts.get(plain, 0) + 1
        path = (*path, f"{part}[{counts[plain]}]") if plain in counts else plain
    return path


# --- writing ----------------------------------------------------------------------------------


def show_toml(values: Mapping[str, Any]) -> str:
    """Write values as TOML that reads back as the same; values of None are left out.

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
    """Return whether a value is an array of tables."""
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
