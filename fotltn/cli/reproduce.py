"""`fotltn reproduce`: run the paper's experiments, which only a checkout has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fotltn.errors import DataError

#: The folder that holds `fotltn/`: the checkout, if there is one.
_ROOT = Path(__file__).resolve().parents[2]


def reproduce(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="See `python -m reproduction run --help`."),
    ] = None,
) -> None:
    """Run the paper's experiments, in a checkout of the repository.

    The same as `python -m reproduction run` there. The experiments are not part of the installed
    package.
    """
    if not all((_ROOT / name).is_file() for name in ("pyproject.toml", "reproduction/cli.py")):
        raise DataError(
            "the paper's experiments are not installed: they are in the repository",
            hint="in a checkout, run: python -m reproduction run",
        )
    sys.path.insert(0, str(_ROOT))
    from reproduction.cli import app

    app(["run", *(arguments or ())], prog_name="python -m reproduction")
