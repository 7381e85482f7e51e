"""The steps of a trace, from Python or from lines of JSON."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fotltn.arguments import items_of
from fotltn.errors import (
    DataError,
    Diagnostic,
    SourceText,
    Span,
    name_hint,
    shown,
)
from fotltn.strict_json import JsonError, read_json

Fact = Sequence[Any]
Path = tuple[str | int, ...]


class InputLine(NamedTuple):
    """A line of input, to which errors can point; bytes that are not text are surrogates."""

    name: str
    number: int
    text: str

    def span(self, path: Path = ()) -> Span:
        """Return the span of the value at a path of keys and places."""
        start, end = _locate(self.text, path)
        above = "\n" * (self.number - 1)
        return Span(SourceText(self.name, above + self.text), start + len(above), end + len(above))


@dataclass(frozen=True, slots=True)
class TraceStep:
    """A step: the facts at a time point, and the values of temporal functions.

    Args:
        facts: predicates with their arguments, and a degree if it is not 1.
        values: functions with their arguments and results.
        line: the line that it was read from.
        features: for a model in the loop, features by sort, entity and name.
    """

    facts: Sequence[Fact] = ()
    values: Sequence[Fact] = ()
    line: InputLine | None = None
    features: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Header(TraceStep):
    """A header: what is known before the first step, such as entities and static facts.

    Args:
        facts: static facts, and the tuples of relations.
        values: the values of static functions.
        line: the line that it was read from.
        entities: names by sort.
        closed: whether no other entities will come.
        default: the value of numeric functions where none is stated. Without it, steps must state
            all values, and the header must name all entities that functions take.
    """

    entities: Mapping[str, Sequence[str]] = field(default_factory=dict)
    closed: bool = False
    default: float | None = None


#: A hint for steps that have features.
SEES = "fotltn watch --model MODEL, or fotltn.ModelWatch, has one"

#: The forms in which a user may give a step.
StepInput = TraceStep | InputLine | Mapping[str, Any] | str | Iterable[Fact]


def wrong(step: TraceStep, message: str, path: Path = (), hint: str | None = None) -> DataError:
    """Return an error that points at a place of a step."""
    if step.line is not None:
        return DataError(Diagnostic(message, step.line.span(path), hint))
    item: Any = None
    if len(path) > 1 and path[0] in ("facts", "values"):
        item = getattr(step, str(path[0]))[int(path[1])]
    return DataError(
        Diagnostic(message if item is None else f"{shown(item)}: {message}", hint=hint)
    )


def step_of(
    raw: StepInput, values: Iterable[Fact] = (), *, name: str = "steps", line: int = 1
) -> TraceStep:
    """Return a step from facts, from an object with the keys of a line, or from the line itself.

    Args:
        raw: the step in any of these forms.
        values: the values of functions, if `raw` has only facts.
        name: the name of the input in errors.
        line: the number of the line.

    Raises:
        DataError: it is not a step.
    """
    if isinstance(raw, TraceStep):
        return raw
    if isinstance(raw, InputLine):
        return read_line(raw)
    if isinstance(raw, str):
        return read_line(InputLine(name, line, raw.rstrip("\r\n")))
    if isinstance(raw, Mapping):
        return _read_object(raw, None)
    return TraceStep(_listed(raw), _listed(values))


def _listed(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    listed = None if isinstance(facts, bytes) else items_of(facts)
    if listed is not None:
        return tuple(listed)
    hint = 'a fact is a predicate with its arguments, such as ("Stop", "ego")'
    raise DataError(f"expected a list of facts, not {shown(facts)}", hint=hint)


def header_of(raw: StepInput) -> Header:
    """Return a header from an object with the keys of a line, or from the line itself.

    Raises:
        DataError: it is not a header.
    """
    step = step_of(raw)
    if not isinstance(step, Header):
        raise wrong(step, "a header is an object with the key 'entities'")
    return step


# --- lines of JSON ---------------------------------------------------------------------------

_KEYS = ("facts", "values", "features", "entities", "closed", "default")


def read_line(line: InputLine) -> TraceStep:
    """Return a step, or a header (which has the key `entities`), from a line of JSON.

    Raises:
        DataError: it is not text, not JSON, or not a step.
    """
    if not line.text.isascii():
        try:
            line.text.encode()
        except UnicodeEncodeError:
            raise wrong(TraceStep(line=line), "this is not UTF-8 text") from None
    try:
        value = read_json(line.text)
    except JsonError as error:
        span = line.span()
        if error.offset is not None:
            at = span.start + min(error.offset, len(line.text))
            span = Span(span.source, at, at + 1)
        hint = 'each line is an object such as {"facts": [["Stop", "ego"]]}'
        raise DataError(Diagnostic(f"this is not JSON: {error.reason}", span, hint)) from None
    if not isinstance(value, dict):
        raise wrong(TraceStep(line=line), "a step must be an object with the key 'facts'")
    return _read_object(value, line)


def _read_object(value: Mapping[str, Any], line: InputLine | None) -> TraceStep:
    bare = TraceStep(line=line)
    for key in value:
        if key not in _KEYS:
            hint = name_hint(key, _KEYS)
            raise wrong(bare, f"unknown key '{key}'", (key,), hint)
    for key in ("facts", "values"):
        if not isinstance(value.get(key, []), list | tuple):
            raise wrong(bare, f"'{key}' is a list", (key,))
    facts, values = value.get("facts", []), value.get("values", [])
    if "entities" not in value:
        for key in ("closed", "default"):
            if key in value:
                raise wrong(bare, f"'{key}' needs 'entities'", (key,))
        features = value.get("features")
        if features is not None and not isinstance(features, Mapping):
            raise wrong(bare, "'features' is an object by sort", ("features",))
        return TraceStep(facts, values, line, features)
    closed = value.get("closed", False)
    if not isinstance(closed, bool):
        raise wrong(bare, "'closed' is true or false", ("closed",))
    if not isinstance(value["entities"], Mapping):
        raise wrong(bare, "'entities' is an object: a list of names for each sort", ("entities",))
    default = value.get("default")
    if default is not None and not is_number(default):
        raise wrong(bare, "'default' is a finite number", ("default",))
    if "features" in value:
        raise wrong(bare, "'features' belongs to a step", ("features",))
    return Header(facts, values, line, entities=value["entities"], closed=closed, default=default)


def is_number(value: object) -> bool:
    """Return whether a value from JSON is a finite number."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max  # type: ignore[arg-type]


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


def _locate(text: str, path: Path) -> tuple[int, int]:
    """Return the start and end of the value at a path in a valid JSON text, or of the nearest one.

    If the path ends with an unknown key, return the start and end of the key itself.
    """
    tokens = [(m.group(), m.start(), m.end()) for m in _TOKEN.finditer(text)]
    if not tokens:
        return 0, max(1, len(text))
    if not path:
        return tokens[0][1], tokens[-1][2]
    here: list[str | int | None] = []
    best = (0, tokens[0][1], tokens[-1][2])

    def matched() -> int:
        if len(here) > len(path):
            return 0
        same = all(a == b for a, b in zip(here, path, strict=False))
        return len(here) if same else 0

    for number, (token, start, end) in enumerate(tokens):
        is_key = bool(here) and number + 1 < len(tokens) and tokens[number + 1][0] == ":"
        if is_key and token.startswith('"'):
            here[-1] = read_json(token)
            if list(path) == here and path[-1] not in _KEYS:
                return start, end
            continue
        if token in "[{":
            if matched() > best[0]:
                best = (matched(), start, _closing(tokens, number))
            here.append(0 if token == "[" else None)
        elif token in "]}":
            here.pop()
        elif token == "," and here and isinstance(here[-1], int):
            here[-1] += 1
        elif token not in ",:" and matched() > best[0]:
            best = (matched(), start, end)
    return best[1], best[2]


def _closing(tokens: list[tuple[str, int, int]], number: int) -> int:
    depth = 0
    for token, _, end in tokens[number:]:
        depth += (token in "[{") - (token in "]}")
        if depth == 0:
            return end
    return tokens[-1][2]
