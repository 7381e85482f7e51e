"""A project of every kind of data, small: two traces, wide tables with features, local sorts."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from fotltn.files import write_files
from fotltn.project.config import Config, config_of, read_config
from fotltn.project.model import Model
from fotltn.project.scene import Scene, facts, facts_content
from fotltn.project.toml import parse_toml
from fotltn.project.train import train

THEORY = """\
sort agent
sort place
static predicate Car(agent)
predicate Stop(agent), Slow(agent), Fast(agent)
predicate Near(agent, place)
predicate Waits(agent)
static predicate Crowded(place)
function height(place): real
axiom A1: forall x. G(Stop(x) -> !Fast(x))
axiom A2 weight 2: forall x. G(Car(x) & Stop(x) -> F (Slow(x) | Fast(x)))
axiom A3: forall x, y. G(Near(x, y) & Crowded(y) -> WX Stop(x))
axiom A4: forall x. G(Waits(x) -> Stop(x))
"""

TOML = """\
preset = "paper"

[theory]
file = "theory.fot"
semantics = "stable-product"
p = 2

[data]
facts = ["facts.csv"]
train = 0.5
seed = 1

[[data.wide]]
file = "agents.csv"
sort = "agent"
entity = "who"
time = "t"
trace = "run"
predicates = ["Stop", "Slow", "Fast"]
features = ["speed", "colour"]
categories = {colour = ["red", "blue"]}

[[data.wide]]
file = "places.csv"
sort = "place"
entity = "name"
features = ["width"]

[inputs.agent]
embedding = 3
time = "smooth"
reach = 1.5

[inputs.place]
embedding = 2
time = "static"
learnable = ["l2"]

[predicates]
Near = {kind = "network", hidden = [4], activation = "tanh"}
Waits = {formula = "Y Stop(x) & exists y. Near(x, y)", variables = ["x"], semantics = "godel"}
Crowded = {kind = "logits", scale = 0.5}

[[exclusive]]
predicates = ["Stop", "Slow", "Fast"]
hidden = [5]

[objective]
facts = "cross-entropy"
axioms = "log"
together = "sum"
weight = [[0, 0.1], [4, 1]]

[objective.axiom_weights]
A1 = 0.5

[objective.axiom_p]
A3 = [[0, 1], [6, 3]]

[training]
epochs = 6
patience = 0
rate = 0.02
validation = 0.2
clip = 5
optimiser = "AdamW"
options = {weight_decay = 0.01, betas = [0.9, 0.99]}
seed = 3
"""

RUNS, WHO, PLACES, TIMES = ("r1", "r2"), ("a1", "a2", "a3"), ("l1", "l2"), 5


def project(folder: Path, toml: str = TOML) -> Path:
    """Write the project's files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(7)
    (folder / "theory.fot").write_text(THEORY)
    (folder / "project.toml").write_text(toml)
    wide = ["who,run,t,speed,colour,Stop,Slow,Fast"]
    long = ["predicate,arg1,arg2,time,trace,truth,value"]
    for run in RUNS:
        for who in WHO:
            long.append(f"Car,{who},,,{run},{int(who != 'a3')},")
            for t in range(TIMES):
                speed = draw.random()
                state = [int(s) for s in np.eye(3)[min(2, int(3 * speed))]]
                colour = "red" if who == "a1" else "blue"
                wide.append(f"{who},{run},{t},{speed:.3f},{colour},{','.join(map(str, state))}")
                long += [
                    f"Near,{who},{place},{t},{run},{int(draw.random() < 0.4)}," for place in PLACES
                ]
    long += [f"height,{place},,,,,{i + 1.5}" for i, place in enumerate(PLACES)]
    (folder / "agents.csv").write_text("\n".join(wide) + "\n")
    (folder / "facts.csv").write_text("\n".join(long) + "\n")
    (folder / "places.csv").write_text("name,width\nl1,2.5\nl2,4\n")
    return folder


def changed(*changes: tuple[str, str]) -> str:
    """The project's file with some text replaced; each must be there."""
    text = TOML
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def config(text: str = TOML, folder: Path = Path()) -> Config:
    return config_of(parse_toml(text, "project.toml"), folder)


def write(scene: Scene, folder: Path, *, name: str = "facts.csv") -> Path:
    """Write the facts of a scene as a table like any user's."""
    path = folder / name
    write_files({path: facts_content(facts(scene), name)}, parents=True)
    return path


def trained(folder: Path, toml: str = TOML) -> Model:
    return train(read_config(project(folder, toml)))


def same(a: Any, b: Any) -> bool:
    """Whether tensors are the same bit for bit, or other things are equal."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    return bool(a == b)
