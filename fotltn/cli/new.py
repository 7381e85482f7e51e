"""`fotltn new`: a project that works, to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fotltn.cli.output import emit_json
from fotltn.errors import DataError

_START = """\
# A scene of cars and pedestrians: which cars stop, who crosses, and when.

[theory]
file = "theory.fot"          # declarations and axioms
semantics = SEMANTICS
p = 4                        # the exponent of all means
"""

_DATA = """
[data]
facts = ["facts.csv"]        # predicate, arg1, arg2, time, truth
train = 0.1                  # the share of labelled facts to learn from; the others are for testing
flip = 0.1                   # the share of training labels that are made wrong, to test robustness
seed = 0
"""

#: What we recommend: what axioms define is defined, and the likelihood knows of wrong labels.
RECIPE = (
    _START.replace(
        "SEMANTICS", '"witness"        # what they mean; one witness suffices for exists, F'
    )
    + _DATA
    + """
[predicates]                 # what is not named here is given by facts
Car = "logits"               # free for every agent
Ped = "logits"
Crossing = { kind = "logits", reach = 4.0 }    # and time, averaged over neighbours in time

[predicates.Stop]            # A1 and A3 say what Stop is
variables = ["x"]
formula = "Car(x) & Y (exists y. Ped(y) & Crossing(y) & Close(x, y))"
semantics = "product"        # of the definition: one witness suffices

[predicates.Run]             # A6 and A7
variables = ["x"]
formula = "Car(x) & !Stop(x)"
semantics = "product"

[predicates.OnSidewalk]      # A10 and A11
variables = ["x"]
formula = "Ped(x) & !Crossing(x)"
semantics = "product"

[objective]
preset = "recipe"            # a likelihood that knows of wrong labels, axioms beside it, a prior
flips = 0.1                  # the rate of wrong labels

[training]
epochs = 300
patience = 0                 # never stops early
rate = 0.05
seed = 0
"""
)

#: The setting of the paper.
PAPER = (
    _START.replace("SEMANTICS", '"stable-product" # what they mean: means, as in the paper')
    + _DATA
    + """
[inputs.agent]               # what networks see of an agent
embedding = 32               # a learned vector of that width ...
time = "free"                # ... for every time point ("static": one for all; "smooth")

[predicates]                 # what is not named here is given by facts
Car = "network"
Ped = "network"
Run = "network"
Stop = "network"
Crossing = "network"
OnSidewalk = "network"

[objective]
preset = "paper"             # facts and axioms as in the paper

[training]
epochs = 500
patience = 30                # epochs without improvement, then it stops
rate = 0.005
seed = 0
"""
)


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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
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
    from fotltn.project.config import FILE
    from fotltn.project.scene import THEORY, facts, facts_content, generate

    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DataError(f"'{folder}' exists already; a new project needs a folder of its own")
    except OSError as error:
        raise DataError(f"cannot write the project '{folder}': {error.strerror}") from None
    scene = facts(generate(cars, pedestrians, steps, seed=seed))
    files: dict[Path, Content] = {
        folder / "theory.fot": THEORY.read_bytes(),
        folder / "facts.csv": facts_content(scene, "facts.csv"),
        folder / FILE: (PAPER if paper else RECIPE).encode(),
    }
    write_files(files, parents=True, what=f"the project '{folder}'")
