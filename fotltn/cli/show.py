"""`fotltn show`: print a theory in another spelling."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from fotltn.cli.options import Json, TheoryFile
from fotltn.cli.output import emit_json, emit_text
from fotltn.syntax.load import load_theory
from fotltn.syntax.show import show as show_formula
from fotltn.syntax.show import show_theory


class TheorySpelling(StrEnum):
    """The spellings that a theory can be printed in."""

    ascii = "ascii"
    unicode = "unicode"
    latex = "latex"


def show(
    theory: TheoryFile,
    spelling: Annotated[
        TheorySpelling,
        typer.Option("--as", help="The spelling; fotltn reads ascii and unicode back."),
    ] = TheorySpelling.unicode,
    as_json: Json = False,
) -> None:
    """Print a theory in ASCII, Unicode or LaTeX.

    Included files are printed, too.
    """
    loaded = load_theory(theory)
    if as_json:
        axioms = [
            {
                "name": a.name,
                "hard": a.hard,
                "weight": a.weight,
                "formula": show_formula(a.formula, spelling.value),
            }
            for a in loaded.axioms
        ]
        emit_json({"theory": str(theory), "as": spelling.value, "axioms": axioms})
    else:
        emit_text(show_theory(loaded, spelling.value))
