"""`fotltn new`: a project that works, to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fotltn.cli.options import Json
from fotltn.cli.output import emit_json
from fotltn.errors import DataError

#: Settings that we recommend (what axioms define is defined, and the likelihood knows of wrong
#: labels), and those of the paper.
PROJECTS = Path(__file__).parent / "projects"
RECIPE, PAPER = PROJECTS / "recipe.toml", PROJECTS / "paper.toml"


def new(
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet, or is empty.")],
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
    """Make a project: a theory, facts of a scene, and settings.

    Then `fotltn train FOLDER`. Put your own theory and facts in place of these.
    """
    make(folder, cars, pedestrians, steps, seed, paper=paper)
    files = sorted(p.name for p in folder.iterdir())
    if as_json:
        emit_json({"ok": True, "folder": str(folder), "files": files})
        return
    print(f"{folder}: {', '.join(files)}")
    print(f"Next: fotltn train {folder}")


def make(
    folder: Path, cars: int, pedestrians: int, steps: int, seed: int, *, paper: bool = False
) -> None:
    """Write the files of a project into a folder of its own; all of them, or none."""
    from fotltn.files import Content, write_files
    from fotltn.project.scene import THEORY, facts, facts_content, generate
    from fotltn.project.toml import FILE

    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DataError(f"'{folder}' exists already; a new project needs a folder of its own")
    except OSError as error:
        raise DataError(f"cannot write the project '{folder}': {error.strerror}") from None
    scene = facts(generate(cars, pedestrians, steps, seed=seed))
    files: dict[Path, Content] = {
        folder / "theory.fot": THEORY.read_bytes(),
        folder / "facts.csv": facts_content(scene, "facts.csv"),
        folder / FILE: (PAPER if paper else RECIPE).read_bytes(),
    }
    write_files(files, parents=True, what=f"the project '{folder}'")
