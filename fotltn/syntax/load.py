"""Read theories from files with their includes, or from text, with all syntax errors at once."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Protocol, cast, runtime_checkable

from fotltn.arguments import AnyPath, public
from fotltn.errors import DataError, Diagnostic, FotError, ParseError, SourceText, Span, shown
from fotltn.files import ROOT, inside, read_file
from fotltn.syntax import theory as th
from fotltn.syntax.hints import HARD, STATEMENTS, misspelt
from fotltn.syntax.parse import MAX_CHARACTERS, limit, read

_MOST_BYTES = 4 * MAX_CHARACTERS + 3  # in UTF-8, with a byte-order mark

_BEGINS = "|".join(word for word in STATEMENTS if word != "hard")
_STATEMENT = re.compile(rf"^[ \t]*(?=(?:{_BEGINS}|{HARD})\b)", re.MULTILINE)


@runtime_checkable
class HasSource(Protocol):
    """A checked theory, which the language below the checks does not know."""

    @property
    def source(self) -> th.Theory:
        """The theory as written."""


#: A theory in any form that functions take.
AnyTheory = Annotated[th.Theory | HasSource | AnyPath, "a theory, its file or its text"]

_TEXT = re.compile(rf"\s*(#|({'|'.join(STATEMENTS)})\s+\S)")
_FORMS = (
    "a file ends with .fot or exists; a text begins with a declaration, such as 'predicate Stop', "
    "or has several lines"
)


def theory_of(theory: AnyTheory) -> th.Theory:
    r"""Return a theory, also from its file, its text, or a checked theory.

    A string is a text if it has several lines, or begins with a comment or a declaration.

    Raises:
        FotError: the file or the text is wrong, or it is none of these.

    >>> theory_of("predicate Stop") == theory_of("\n\npredicate Stop")
    True
    """
    if isinstance(theory, th.Theory):
        return theory
    if isinstance(theory, str) and ("\n" in theory or _TEXT.match(theory)):
        return parse_theory(theory)
    if isinstance(theory, str | os.PathLike):
        path = os.fspath(theory)
        if isinstance(theory, str) and not (path.endswith(".fot") or _exists(path)):
            text = f"expected a theory, its file or its text, but there is no file {shown(path)}"
            raise DataError(text, hint=_FORMS)
        if isinstance(path, str):
            return load_theory(path)
    if isinstance(source := getattr(theory, "source", None), th.Theory):
        return source
    raise DataError(f"expected a theory, its file or its text, not {shown(theory)}", hint=_FORMS)


def _exists(path: str) -> bool:
    try:
        return os.path.exists(path)
    except ValueError:  # no path has such characters
        return False


@public
def parse_theory(text: str, *, source: str = "<theory>", folder: AnyPath | None = ".") -> th.Theory:
    r"""Parse a theory from text.

    Use it for theories that a program writes, or for short ones in a notebook; `load` reads files.

    Args:
        text: the theory.
        source: the name of the text in error messages.
        folder: the folder that `include` paths are relative to and must stay in. None forbids
            includes.

    Raises:
        ParseError: some statements could not be parsed; the error lists all of them.
        LimitError: the text is too long.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> theory["Obey"].formula == fot.parse_formula("G(Near -> WX Stop)")
    True
    """
    theory = SourceText(source, text)
    limit(theory)
    root = None if folder is None else Path(folder)
    return _collect(theory, root or Path(), root)


@public
def load_theory(path: AnyPath, *, root: AnyPath | None = None) -> th.Theory:
    r"""Read a theory from its file, with the files it includes.

    Args:
        path: the file.
        root: the folder that included files must be in; by default, the folder of the file.

    Raises:
        DataError: a file is missing, unreadable, not a plain file, or not UTF-8.
        ParseError: some statements could not be parsed; the error lists all of them.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> fot.save(theory, "rules.fot")
    >>> fot.load("rules.fot") == theory
    True
    """
    file = Path(path)
    within = file.parent if root is None else Path(root)
    return _collect(_open(file, None), file.parent, within, (_key(file),))


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


def _open(path: Path, include: th.Include | None) -> SourceText:
    where = include.span if include else None
    try:
        text = read_file(path, limit=_MOST_BYTES, links=True).decode("utf-8-sig")
    except DataError as error:
        theory = min(path.glob("*.fot"), default=None)  # of a folder; a file has none
        hint = f"did you mean {theory}?" if theory else None
        changed = (replace(d, span=where, hint=d.hint or hint) for d in error.diagnostics)
        raise DataError(*changed) from None
    except UnicodeDecodeError as error:
        message = (
            f"{path} is not UTF-8 text (byte {error.start} is {error.object[error.start]:#04x})"
        )
        raise DataError(Diagnostic(message, where)) from None
    except (OSError, ValueError) as error:
        message = f"cannot read {path}: {_reason(error)}"
        raise DataError(Diagnostic(message, where)) from None
    source = SourceText(str(path), text.replace("\r\n", "\n"))
    limit(source)
    return source


def _key(file: Path) -> Path:
    """Return the real path behind any links; a path that leads nowhere stays as it is."""
    try:
        return Path(os.path.realpath(file))
    except (OSError, ValueError):
        return file


def _collect(
    source: SourceText, folder: Path, root: Path | None, open_files: tuple[Path, ...] = ()
) -> th.Theory:
    """Collect the statements of a source and its includes in order, reading each file once."""
    declarations: list[th.Declaration] = []
    axioms: list[th.Axiom] = []
    errors: list[Diagnostic] = []
    done: set[Path] = set(open_files)
    stack = [(iter(_statements(source, errors)), folder, open_files)]
    while stack:
        statements, here, chain = stack[-1]
        statement = next(statements, None)
        if statement is None:
            stack.pop()
        elif isinstance(statement, th.Axiom):
            axioms.append(statement)
        elif not isinstance(statement, th.Include):
            declarations.append(statement)
        else:
            file = here / statement.path
            key = _key(file)
            if refused := _outside(file, root):
                errors.append(replace(refused, span=statement.span))
            elif key in chain:
                errors.append(Diagnostic(f"{file} includes itself", statement.span))
            elif key not in done:
                done.add(key)
                try:
                    inner = _open(file, statement)
                except FotError as error:
                    errors += error.diagnostics
                else:
                    stack.append((iter(_statements(inner, errors)), file.parent, (*chain, key)))
    if errors:
        raise ParseError(*errors)
    return th.Theory(tuple(declarations), tuple(axioms))


def _outside(file: Path, root: Path | None) -> Diagnostic | None:
    """Say why a file may not be included, or return None if it may."""
    if root is None:
        return Diagnostic("the theory of a model cannot include files")
    if not inside(file, root):
        hint = f"to include it, set {ROOT} in the environment to a folder that contains it"
        return Diagnostic(f"cannot read {file}: it is outside '{root}'", hint=hint)
    return None


def _statements(source: SourceText, errors: list[Diagnostic]) -> list[th.Statement]:
    """Return the statements that can be parsed; add the errors of the others to `errors`.

    A statement begins with its keyword at the start of a line, so an error in one statement does
    not hide the next one.
    """
    text = source.text
    starts = [m.end() for m in _STATEMENT.finditer(text)]
    statements: list[th.Statement] = []
    head = _strip(text, 0, starts[0] if starts else len(text))
    if head is not None:
        errors.append(_stray(source, *head))
    for start, end in zip(starts, [*starts, len(text)][1:], strict=True):
        try:
            statements += cast("tuple[th.Statement, ...]", read(source, start, end, "statement"))
        except ParseError as error:
            errors += error.diagnostics
    return statements


def _strip(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return the extent of the first line content that is neither blank nor a comment."""
    for match in re.finditer(r"[^\n]+", text[start:end]):
        content = match.group().split("#", 1)[0]
        if content.strip():
            begin = start + match.start() + len(content) - len(content.lstrip())
            return begin, begin + len(content.strip())
    return None


def _stray(source: SourceText, start: int, end: int) -> Diagnostic:
    word = source.text[start:end].split()[0].split("(")[0]
    words = [s for s in STATEMENTS if s != "temporal"]
    return Diagnostic(
        "this is not a statement",
        Span(source, start, end),
        misspelt(word) or f"a statement must begin with one of: {', '.join(words)}",
    )
