"""Errors that say what is wrong, where, and what would be right."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

#: Characters that a terminal obeys: controls except tab and line feed, and text direction.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_WIDTH = 100  # columns of source shown around a caret
_LENGTH = 2000  # the maximum number of characters in a message


@dataclass(frozen=True, slots=True)
class SourceText:
    """A named piece of text that errors can point into."""

    name: str
    text: str

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line and column of a character offset, both counted from 1."""
        line = self.text.count("\n", 0, offset) + 1
        return line, offset - (self.text.rfind("\n", 0, offset) + 1) + 1


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `start` to `end` (exclusive) of a source."""

    source: SourceText
    start: int
    end: int

    @property
    def line(self) -> int:
        """The line number, from 1."""
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        """The column number, from 1."""
        return self.source.position(self.start)[1]

    def excerpt(self) -> str:
        """Return the source line with carets under the span, cropped to a readable width."""
        text = self.source.text
        line, column = self.source.position(self.start)
        begin = self.start - (column - 1)
        end = text.find("\n", begin)
        full = text[begin : end if end >= 0 else len(text)]
        length = max(1, min(self.end - self.start, len(full) - (column - 1)))
        left = max(0, column - 1 - _WIDTH // 2)
        shown = full[left : left + _WIDTH]
        carets = "^" * max(1, min(length, len(shown) - (column - 1 - left)))
        before = "…" if left else ""
        after = "…" if left + _WIDTH < len(full) else ""
        gutter = f"{line:>5} | "
        pad = " " * (len(gutter) - 2) + "| " + " " * (len(before) + column - 1 - left)
        return f"{gutter}{before}{_printable(shown)}{after}\n{pad}{carets}"


def _printable(text: str) -> str:
    """Keep one column per character, so that carets stay aligned."""
    return "".join(c if c.isprintable() else " " for c in text)


def _cut(text: str) -> str:
    """Cut the middle out of a message that a name from the input would make endless."""
    return text if len(text) <= _LENGTH else f"{text[: _LENGTH // 2]} … {text[-_LENGTH // 2 :]}"


def visible(text: str) -> str:
    r"""Escape the characters that a terminal would obey instead of showing.

    >>> print(visible("a\x1b[2Jb\u202ec"))
    a\u001b[2Jb\u202ec
    """
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class Severity(StrEnum):
    """How serious a finding is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about a text or a data file."""

    message: str
    span: Span | None = None
    hint: str | None = None
    severity: Severity = Severity.ERROR

    def render(self) -> str:
        """Return the finding for people: place, message, source line with carets, hint."""
        lines = []
        if self.span is None:
            lines.append(f"{self.severity}: {_cut(self.message)}")
        else:
            place = f"{self.span.source.name}:{self.span.line}:{self.span.column}"
            lines += [f"{place}: {self.severity}: {_cut(self.message)}", self.span.excerpt()]
        if self.hint:
            lines.append(f"      = {_cut(self.hint)}")
        return visible("\n".join(lines))

    def as_dict(self) -> dict[str, object]:
        """Return the finding as a dictionary, for JSON."""
        where = self.span
        return {
            "severity": str(self.severity),
            "message": self.message,
            "hint": self.hint,
            "source": where.source.name if where else None,
            "line": where.line if where else None,
            "column": where.column if where else None,
        }


def warning(message: str, span: Span | None = None, hint: str | None = None) -> Diagnostic:
    """Return a finding that is not an error."""
    return Diagnostic(message, span, hint, Severity.WARNING)


class DataWarning(UserWarning):
    """Something odd in the data that is not an error, such as a fact that is stated twice."""


class FotError(Exception):
    """The base class of all errors that the input causes.

    Catch it to handle any bad theory, formula, data or setting. `error.diagnostics` lists all
    findings, each with a message and, where known, a place and a hint.

    >>> import fotltn as fot
    >>> try:
    ...     fot.evaluate("F Sotp", fot.tables(fot.parse("predicate Stop"), Stop=[0.5]))
    ... except fot.FotError as error:
    ...     print(error.diagnostics[0].message, "-", error.diagnostics[0].hint)
    unknown predicate 'Sotp' - did you mean 'Stop'?
    """

    def __init__(self, *diagnostics: Diagnostic | str, hint: str | None = None) -> None:
        """Collect findings; a string is a finding without a place, with the hint."""
        self.diagnostics: tuple[Diagnostic, ...] = tuple(
            Diagnostic(d, hint=hint) if isinstance(d, str) else d for d in diagnostics
        )
        super().__init__("\n".join(d.render() for d in self.diagnostics))

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from the findings, so that errors can cross process boundaries."""
        return (type(self), self.diagnostics)


class ParseError(FotError, ValueError):
    """A text is not a formula or theory of the language.

    >>> import fotltn as fot
    >>> try:
    ...     fot.parse_formula("G Near(x")
    ... except fot.ParseError as error:
    ...     print(error)
    <formula>:1:9: error: found the end, expected ')' or ','
        1 | G Near(x
          |         ^
    """


class CheckError(FotError, ValueError):
    r"""A formula or theory parses, but its names, sorts, arities or bounds do not fit.

    >>> import fotltn as fot
    >>> try:
    ...     fot.check(fot.parse("predicate Stop\naxiom A: F Sotp"))
    ... except fot.CheckError as error:
    ...     print(error)
    <theory>:2:12: error: unknown predicate 'Sotp'
        2 | axiom A: F Sotp
          |            ^^^^
          = did you mean 'Stop'?
    """


class BuildError(FotError, TypeError):
    """Python code combines formulas in a way that means something else, or nothing.

    >>> import fotltn as fot
    >>> from fotltn.dsl import propositions
    >>> a, b, c = propositions("a b c")
    >>> try:
    ...     a >> b >> c
    ... except fot.BuildError as error:
    ...     print(str(error).split(";")[0])
    error: Python reads a >> b >> c as (a >> b) >> c, where logic reads a -> (b -> c)
    """


class DataError(FotError, ValueError):
    r"""Facts, tensors or files are wrong or do not fit the theory.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> try:
    ...     fot.tables(theory, Near=[0.0, 2.0], Stop=[0.0, 1.0])
    ... except fot.DataError as error:
    ...     print(error)
    error: predicate 'Near' has the degree 2.0 at [1]; degrees must be from 0 to 1
    """


class MissingModuleError(DataError):
    """A model needs a Python module that is not available."""


class InterruptedTrainingError(DataError):
    """Training was stopped before its end; its state is saved if it has a folder."""


class SemanticsError(FotError, ValueError):
    """The semantics is unknown, or does not support the request.

    >>> import fotltn as fot
    >>> try:
    ...     fot.evaluate("F a", {"a": [0.5]}, semantics="goedel")
    ... except fot.SemanticsError as error:
    ...     print(error)
    error: unknown semantics 'goedel'; did you mean 'godel'?
    """


class LimitError(FotError, ValueError):
    """The input is larger than a limit, such as the memory budget.

    >>> import fotltn as fot
    >>> try:
    ...     fot.evaluate("a U b", {"a": [0.5] * 999, "b": [0.5] * 999}, budget=9999, at="all")
    ... except fot.LimitError as error:
    ...     print(str(error).split(", ")[-1])
    more than the budget of 9,999
    """


def missing(what: str, package: str, extra: str) -> DataError:
    """Return the error for an optional package that is not installed."""
    hint = f"pip install {package}, or install fotltn with its extra '{extra}'"
    return DataError(f"{what} the package {package}", hint=hint)


def did_you_mean(name: str, known: Iterable[str], near: float = 0.6) -> str | None:
    """Return a hint with the most similar known name, or None if none is similar enough."""
    names, name = list(known), str(name)  # which may come from outside
    close = difflib.get_close_matches(name, names, n=1, cutoff=near)
    if not close:
        lowered = {n.lower(): n for n in names}
        close = [lowered[name.lower()]] if name.lower() in lowered else []
    return f"did you mean '{close[0]}'?" if close else None


def name_hint(name: str, known: Iterable[str], otherwise: str = "available:") -> str:
    """Return a hint for an unknown name: the most similar name, or a list of all names."""
    names = list(known)
    return did_you_mean(name, names) or f"{otherwise} {listing(names)}"


def shown(value: object, limit: int = 60) -> str:
    """Return an input value for a message, cut so that it does not fill the screen."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 128:
        return "a very long number"
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number in it is too long, or it nests too deeply
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def listing(names: Iterable[str], limit: int = 12) -> str:
    """Return names in quotes for a message, cut after `limit`."""
    quoted = [f"'{n}'" for n in names]
    if len(quoted) > limit:
        quoted = [*quoted[:limit], f"… {len(quoted) - limit} more"]
    return ", ".join(quoted) if quoted else "none"


def renamed(owner: object, name: str, names: Mapping[str, str]) -> Any:
    """Return the attribute that an old name now refers to, with a warning.

    Raises:
        AttributeError: it is not an old name.
    """
    kind = type(owner).__name__
    if name not in names:
        raise AttributeError(f"'{kind}' object has no attribute '{name}'")
    import warnings

    message = f"{kind}.{name} is now called {names[name]}; a later version removes the old name"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    return getattr(owner, names[name])
