"""Parse text into formulas and theories; errors come with a caret and a hint."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from importlib import resources
from typing import Annotated, Any, cast

from lark import Lark, Token, UnexpectedInput
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken, VisitError

from fotltn.arguments import public
from fotltn.errors import BuildError, Diagnostic, LimitError, ParseError, SourceText, shown
from fotltn.syntax.build import Build, Slip, crop
from fotltn.syntax.formula import Formula, Syntax
from fotltn.syntax.hints import KEYWORDS, explain_expected, hint_for
from fotltn.syntax.theory import Axiom, Statement

#: Longer texts are rejected: formulas that large are data and belong in a table of facts.
MAX_CHARACTERS = 2 * 1024 * 1024

_local = threading.local()
_reading_grammar = threading.Lock()  # lark shares one grammar parser between all threads


class _Words:
    """Makes the lexer read whole words everywhere: `a Stop` is two names, not `a S top`."""

    always_accept = ("NAME",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """Return the tokens unchanged."""
        return stream


def parse(text: str, start: str = "formula", *, source: str = "<formula>") -> Syntax:
    """Parse a formula or, with `start="term"`, a term.

    Args:
        text: the text, in ASCII or Unicode spelling.
        start: the grammar rule to parse by: `formula` or `term`.
        source: the name of the text in error messages.

    Raises:
        ParseError: the text is not a formula or term; the message points at the place.
        LimitError: the text is longer than `MAX_CHARACTERS`.
    """
    origin = SourceText(source, text)
    limit(origin)
    return cast(Syntax, read(origin, 0, len(text), start))


@public
def parse_formula(text: str, *, source: str = "<formula>") -> Formula:
    """Parse a formula, in ASCII or Unicode spelling.

    Use it to build a formula once and pass it to several functions. Most functions also accept the
    text itself.

    Args:
        text: the formula.
        source: the name of the text in error messages.

    Raises:
        ParseError: the text is not a formula; the message points at the place.
        LimitError: the text is longer than 2,097,152 characters.

    >>> print(parse_formula("∀x: agent. □(Car(x) → ● Stop(x))"))
    forall x: agent. G(Car(x) -> WX Stop(x))
    """
    return cast(Formula, parse(text, "formula", source=source))


#: A formula in any form that functions take.
AnyFormula = Annotated[Formula | Axiom | str, "a formula, its text or an axiom"]


def formula_of(formula: AnyFormula) -> Formula:
    """Return a formula, also from its text or from an axiom, which may be checked.

    Raises:
        FotError: the text is not a formula, or it is none of these.
    """
    if isinstance(formula, Formula):
        return formula
    if isinstance(formula, str):
        return parse_formula(formula)
    for name in ("formula", "source"):  # of an axiom, and of a checked one or a checked formula
        if isinstance(held := getattr(formula, name, None), Formula):
            return held
    raise BuildError(f"expected a formula, its text or an axiom, not {shown(formula)}")


def limit(source: SourceText) -> None:
    """Raise an error if a text is too long to be a theory."""
    if len(source.text) > MAX_CHARACTERS:
        raise LimitError(
            f"{source.name} has {len(source.text):,} characters; at most {MAX_CHARACTERS:,} are "
            "read (split the theory, or keep data in a table of facts)"
        )


def read(source: SourceText, start: int, end: int, rule: str) -> Syntax | tuple[Statement, ...]:
    """Parse the characters from `start` to `end` of a source by one grammar rule."""
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
    """Return this thread's parser, built on first use, and the builder that holds its source."""
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
    """Turn a name that is an operator or keyword into the matching token."""
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
            "a name in double quotes is not closed or contains an unknown escape",
            build.span(*place),
            r"the escapes are \" \\ \n \r \t, and a name must end on the line it starts on",
        )
    return Diagnostic(
        message, build.span(*place), hint_for(source.text, place[0], place[1], expected)
    )
