"""`fotltn new`: a project that works, to begin with."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fotltn.cli.options import Json
from fotltn.cli.output import emit_json
from fotltn.errors import DataError, Diagnostic

if TYPE_CHECKING:
    from fotltn.project.propose import Proposal

LARGE = 2**28  # bytes of a table that a new project names where it is

#: Settings that we recommend (what axioms define is defined, and the likelihood knows of wrong
#: labels), and those of the paper.
PROJECTS = Path(__file__).parent / "projects"
RECIPE, PAPER = PROJECTS / "recipe.toml", PROJECTS / "paper.toml"


class Example(StrEnum):
    """Scenes to begin with."""

    CROSSING = "crossing"


def new(
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet, or is empty.")],
    tables: Annotated[
        list[Path] | None,
        typer.Option(
            "--from", help="Your own table (CSV, TSV, Parquet): a row an entity, or one at a time."
        ),
    ] = None,
    learn: Annotated[
        list[str] | None,
        typer.Option("--learn", help="With --from: a column to predict; repeatable."),
    ] = None,
    example: Annotated[
        Example, typer.Option("--example", help="Without --from: the scene to begin with.")
    ] = Example.CROSSING,
    cars: Annotated[int, typer.Option("--cars", min=1, max=1000, help="Cars of the scene.")] = 50,
    pedestrians: Annotated[
        int, typer.Option("--pedestrians", min=1, max=1000, help="Pedestrians of the scene.")
    ] = 50,
    steps: Annotated[
        int, typer.Option("--steps", min=2, max=10_000, help="Time points of the scene.")
    ] = 100,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the scene.")] = 0,
    paper: Annotated[
        bool,
        typer.Option("--paper", help="Learn as the paper does, not as we recommend."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a project: of your own table, or of a scene to begin with.

    With --from, the columns of a table are looked at, and a theory and settings are proposed, with
    comments; look at them before you trust them. Without it, the scene is one of cars and
    pedestrians. Then `fotltn train FOLDER`.
    """
    proposal = None
    if tables:
        if paper:
            raise DataError("--paper goes with a scene, not with --from")
        if len(tables) > 1:
            hint = "begin with the one that has the labels, and add a [[data.wide]] for each other"
            raise DataError(Diagnostic("--from looks at one table", hint=hint))
        proposal = make_from(folder, tables[0], learn or [])
    elif learn:
        raise DataError("--learn names a column of a table: --from TABLE")
    else:
        assert example is Example.CROSSING
        make(folder, cars, pedestrians, steps, seed, paper=paper)
    files = sorted(p.name for p in folder.iterdir())
    if as_json:
        told = {} if proposal is None else {"proposal": proposal.as_dict()}
        emit_json({"ok": True, "folder": str(folder), "files": files, **told})
        return
    if proposal is not None:
        _print(proposal)
    print(f"{folder}: {', '.join(files)}")
    print(f"Next: fotltn train {folder}")


def make_from(folder: Path, table: Path, learn: list[str]) -> Proposal:
    """Write the files of a project for a table; all of them, or none. A large one is not copied."""
    from fotltn.files import Content, write_files
    from fotltn.project.propose import propose
    from fotltn.project.proposed_files import project_text, theory_text
    from fotltn.project.toml import FILE

    _check_place(folder)
    proposal = propose(table, learn)
    copied = table.stat().st_size <= LARGE
    elsewhere = None if copied else str(table.absolute().parent)
    files: dict[Path, Content] = {
        folder / "theory.fot": theory_text(proposal).encode(),
        folder / FILE: project_text(proposal, elsewhere).encode(),
    }
    if copied:
        files[folder / table.name] = table.read_bytes()
    write_files(files, parents=True, what=f"the project '{folder}'")
    return proposal


def _print(proposal: Proposal) -> None:
    from fotltn.cli.tables import add, grid, show

    table = grid("column", "taken for", "why", left=["column", "taken for", "why"], fold=["why"])
    for column in proposal.columns:
        add(table, column.name, column.role.value, column.why)
    show(table)
    print()


def _check_place(folder: Path) -> None:
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DataError(f"'{folder}' exists already; a new project needs a folder of its own")
    except OSError as error:
        raise DataError(f"cannot write the project '{folder}': {error.strerror}") from None


def make(
    folder: Path, cars: int, pedestrians: int, steps: int, seed: int, *, paper: bool = False
) -> None:
    """Write the files of a project into a folder of its own; all of them, or none."""
    from fotltn.files import Content, write_files
    from fotltn.project.scene import THEORY, facts, facts_content, generate
    from fotltn.project.toml import FILE

    _check_place(folder)
    scene = facts(generate(cars, pedestrians, steps, seed=seed))
    files: dict[Path, Content] = {
        folder / "theory.fot": THEORY.read_bytes(),
        folder / "facts.csv": facts_content(scene, "facts.csv"),
        folder / FILE: (PAPER if paper else RECIPE).read_bytes(),
    }
    write_files(files, parents=True, what=f"the project '{folder}'")
