"""A project of robots that learns a posterior: drawn, defined and given predicates, few facts."""

from __future__ import annotations

import random
from pathlib import Path

THEORY = """\
sort robot
predicate Faulty(robot), Slow(robot), Alarm, Near(robot), Idle(robot)
static predicate Worn(robot)
hard axiom Loud: G(Alarm <-> exists r. Faulty(r) & Near(r))
hard axiom Wear: forall r. Worn(r) <-> F Faulty(r)
hard axiom Stays: forall r. G(Faulty(r) -> WX (Faulty(r) | Slow(r)))
axiom Signs weight 2: forall r. G(Faulty(r) -> Slow(r))
"""

TOML = """\
method = "posterior"

[theory]
file = "theory.fot"

[data]
facts = ["facts.csv"]
train = 0.8

[predicates]
Faulty = "auto"
Slow = "logits"
Alarm = "auto"
Worn = "auto"
Idle = {variables = ["r"], formula = "!Slow(r)"}

[posterior]
worlds = 6
burn_in = 6
sweeps = 9
stored = 3
learn = false

[training]
seed = 3
"""


def facts(robots: int = 3, times: int = 6) -> str:
    draw = random.Random(4)
    rows = ["predicate,arg1,time,truth"]
    for name in ("Faulty", "Slow", "Near", "Idle"):
        for robot in range(robots):
            for time in range(times):
                truth = draw.random() < 0.4
                if name == "Near" or draw.random() < 0.5:
                    rows.append(f"{name},r{robot},{time},{int(truth)}")
    rows += [f"Alarm,,{time},{int(time > 3)}" for time in range(0, times, 2)]
    return "\n".join([*rows, "Worn,r0,,1"]) + "\n"


def project(folder: Path, toml: str = TOML, theory: str = THEORY, table: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "project.toml").write_text(toml, "utf-8")
    (folder / "theory.fot").write_text(theory, "utf-8")
    (folder / "facts.csv").write_text(table or facts(), "utf-8")
    return folder


def other(*pairs: tuple[str, str]) -> str:
    text = TOML
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text
