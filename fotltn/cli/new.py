"""`fotltn new`: make a project that works, as a starting point."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fotltn.cli.options import Json
from fotltn.cli.output import emit_json
from fotltn.errors import DataError

if TYPE_CHECKING:
    from fotltn.project.propose import Proposal

LARGE = 2**28  # bytes; a new project refers to a larger table instead of copying it

#: The settings that we recommend (predicates that axioms define are computed, and the likelihood
#: allows for wrong labels), and those of the paper.
PROJECTS = Path(__file__).parent / "projects"
RECIPE, PAPER = PROJECTS / "recipe.toml", PROJECTS / "paper.toml"


class Example(StrEnum):
    """Example scenes."""

    CROSSING = "crossing"


def new(
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet, or is empty.")],
    others: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[TABLE]...", help="Further tables, after --from TABLE."),
    ] = None,
    tables: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="<path>",
            help="Your own table (CSV, TSV, Parquet): a row for each entity, or entity and time.",
        ),
    ] = None,
    learn: Annotated[
        list[str] | None,
        typer.Option(
            "--learn", metavar="<str>", help="With --from: a column to predict; repeatable."
        ),
    ] = None,
    entity: Annotated[
        str | None, typer.Option("--entity", help="With --from: the column that names entities.")
    ] = None,
    trace: Annotated[
        str | None, typer.Option("--trace", help="With --from: the column that names traces.")
    ] = None,
    time: Annotated[
        str | None, typer.Option("--time", help="With --from: the column of times.")
    ] = None,
    example: Annotated[
        Example, typer.Option("--example", help="Without --from: the example scene.")
    ] = Example.CROSSING,
    cars: Annotated[
        int, typer.Option("--cars", min=1, max=1000, help="The number of cars in the scene.")
    ] = 50,
    pedestrians: Annotated[
        int,
        typer.Option(
            "--pedestrians", min=1, max=1000, help="The number of pedestrians in the scene."
        ),
    ] = 50,
    steps: Annotated[
        int,
        typer.Option("--steps", min=2, max=10_000, help="The number of time points in the scene."),
    ] = 100,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the scene.")] = 0,
    paper: Annotated[
        bool,
        typer.Option("--paper", help="Learn as the paper does, not as we recommend."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a project from your own tables, or from an example scene.

    With --from, the command looks at the columns of your tables, and proposes a theory and
    settings, with comments; check them before you trust them. If it takes a column for the wrong
    thing, name the right one. One table has the labels; others may list entities, relations between
    entities, or events: `fotltn new FOLDER --from A.csv B.csv`.
    Without --from, the project is a scene of cars and pedestrians. Next: `fotltn train FOLDER`.
    """
    proposal = None
    asked = {"entity": entity, "trace": trace, "time": time}
    if tables:
        if paper:
            raise DataError("--paper cannot be combined with --from")
        if folder.is_file():
            hint = f"fotltn new FOLDER --from {tables[0]} {folder}"
            raise DataError("the folder of the project comes before --from", hint=hint)
        proposal = make_from(folder, [*tables, *(others or [])], learn or [], asked)
    elif others:
        raise DataError("tables come after --from: fotltn new FOLDER --from TABLE TABLE")
    elif named := [name for name, column in {"learn": learn, **asked}.items() if column]:
        raise DataError(f"--{named[0]} names a column of a table: --from TABLE")
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
    rules = "" if proposal is None else f"write your rules into {folder / 'theory.fot'}, then "
    print(f"Next: {rules}fotltn train {folder}")


def make_from(
    folder: Path, tables: list[Path], learn: list[str], asked: dict[str, str | None]
) -> Proposal:
    """Write the files of a project for tables, either all or none. Large tables are not copied."""
    from fotltn.files import Content, write_files
    from fotltn.project.propose import propose
    from fotltn.project.proposed_files import project_text, theory_text
    from fotltn.project.toml import FILE

    _check_place(folder)
    proposal = propose(tables, learn, **asked)
    copied = sum(table.stat().st_size for table in tables) <= LARGE
    folders = {str(table.absolute().parent) for table in tables}
    if not copied and len(folders) > 1:
        raise DataError("tables that are too large to copy must be in one folder")
    elsewhere = None if copied else folders.pop()
    files: dict[Path, Content] = {
        folder / "theory.fot": theory_text(proposal).encode(),
        folder / FILE: project_text(proposal, elsewhere).encode(),
    }
    for table in tables if copied else ():
        files[folder / table.name] = table.read_bytes()
    write_files(files, parents=True, what=f"the project '{folder}'")
    return proposal


def _print(proposal: Proposal) -> None:
    from fotltn.cli.tables import add, grid, show

    heads = ["column", "taken for", "why"]
    heads = ["table", *heads] if len(proposal.tables) > 1 else heads
    table = grid(*heads, left=heads, fold=["why"])
    for one in proposal.tables:
        for number, column in enumerate(one.columns):
            file = [] if len(proposal.tables) == 1 else ["" if number else one.file]
            add(table, *file, column.name, column.role.value, column.why)
        if one is not proposal.tables[-1]:
            table.add_section()
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
    """Write the files of an example project into a new folder, either all or none."""
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
