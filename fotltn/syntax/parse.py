"""Text to formulas and theories; parse errors with a caret and a hint."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from importlib import resources
from typing import Any, cast

from lark import Lark, Token, UnexpectedInput
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken, VisitError

from fotltn.errors import Diagnostic, LimitError, ParseError, SourceText
from fotltn.syntax.build import Build, Slip, crop
from fotltn.syntax.formula import Formula, Syntax, Term
from fotltn.syntax.hints import KEYWORDS, explain_expected, hint_for
from fotltn.syntax.theory import Statement

#: A longer text is refused: formulas that large are data and belong in a table of facts.
MAX_CHARACTERS = 2 * 1024 * 1024

_local = threading.local()
_reading_grammar = threading.Lock()  # lark reads grammars with one parser for all threads


class _Words:
    """Lets the lexer read a whole word everywhere: `a Stop` is two names, not `a S top`."""

    always_accept = ("NAME",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """The tokens as they are."""
        return stream


def parse(text: str, start: str = "formula", *, source: str = "<formula>") -> Syntax:
    """Read a formula or (with `start="term"`) a term.

    Args:
        text: the text, in ASCII or Unicode spelling.
        start: the grammar rule to read, `formula` or `term`.
        source: the name that errors give to the text.

    Raises:
        ParseError: the text is not in the language; the message points at the place.
        LimitError: the text is longer than `MAX_CHARACTERS`.
    """
    origin = SourceText(source, text)
    limit(origin)
    return cast(Syntax, read(origin, 0, len(text), start))


def parse_formula(text: str, *, source: str = "<formula>") -> Formula:
    """Read a formula.

    >>> print(parse_formula("∀x: agent. □(Car(x) → ● Stop(x))"))
    forall x: agent. G(Car(x) -> WX Stop(x))
    """
    return cast(Formula, parse(text, "formula", source=source))


def parse_term(text: str, *, source: str = "<term>") -> Term:
    """Read a term.

    >>> print(parse_term('owner("car 7")'))
    owner("car 7")
    """
    return cast(Term, parse(text, "term", source=source))


def limit(source: SourceText) -> None:
    """Refuse a text that is too long to be a theory."""
    if len(source.text) > MAX_CHARACTERS:
        raise LimitError(
            f"{source.name} has {len(source.text):,} characters; at most {MAX_CHARACTERS:,} are "
            "read (split the theory, or keep data in a table of facts)"
        )


def read(source: SourceText, start: int, end: int, rule: str) -> Syntax | tuple[Statement, ...]:
    """Parse the characters `start` to `end` of a source by one grammar rule."""
    parser, build = _parser()
    build.begin(source, start)
    text = source.text[start:end]
    try:
        return cast("Syntax | tuple[Statement, ...]", parser.parse(text, start=rule))
    except Slip as slip:
        raise ParseError(slip.diagnostic) from None
    except VisitError as error:
        if isinstance(error.orig_exc, Slip):
            raise ParseError(error.orig_exc.diagnostic) from None
        raise
    except UnexpectedInput as error:
        raise ParseError(_diagnose(error, source, start, end)) from None
    finally:
        build.begin(SourceText("", ""), 0)


def _parser() -> tuple[Lark, Build]:
    """This thread's parser, built on first use; the builder holds the source of the moment."""
    if not hasattr(_local, "parser"):
        grammar = resources.files("fotltn.syntax").joinpath("grammar.lark").read_text("utf-8")
        _local.build = Build()
        with _reading_grammar:
            _local.parser = Lark(
                grammar,
                parser="lalr",
                lexer="contextual",
                start=["formula", "term", "statement"],
                transformer=_local.build,
                keep_all_tokens=True,
                maybe_placeholders=False,
                lexer_callbacks={"NAME": _keyword},
                postlex=_Words(),
            )
    return _local.parser, _local.build


def _keyword(token: Token) -> Token:
    """Names that are operators or keywords become those."""
    kind = KEYWORDS.get(token)
    return Token.new_borrow_pos(kind, token, token) if kind else token


def _diagnose(error: UnexpectedInput, source: SourceText, start: int, end: int) -> Diagnostic:
    build: Any = _local.build
    stop = start + len(source.text[start:end].rstrip())
    match error:
        case UnexpectedToken(token=Token(type="$END")) | UnexpectedEOF():
            place, what = (stop, stop + 1), "the end"
        case UnexpectedToken(token=token):
            begin = start + (token.start_pos or 0)
            place, what = (begin, begin + max(1, len(token))), f"'{crop(token)}'"
        case UnexpectedCharacters():
            begin = start + (error.pos_in_stream or 0)
            place, what = (begin, begin + 1), f"the character {source.text[begin]!r}"
        case _:  # pragma: no cover - lark has no further kinds
            raise error
    parser = getattr(error, "interactive_parser", None)
    expected: set[str] = set(parser.accepts() if parser is not None else ())
    message = f"found {what}, expected {explain_expected(expected)}"
    if isinstance(error, UnexpectedCharacters) and source.text[place[0]] == '"':
        return Diagnostic(
            "a name in double quotes is not closed, or has an escape that there is not",
            build.span(*place),
            r"the escapes are \" \\ \n \r \t, and a name stays on its line",
        )
    return Diagnostic(
        message, build.span(*place), hint_for(source.text, place[0], place[1], expected)
    )
