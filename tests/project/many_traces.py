"""A project with many small traces: entities of one trace each, shared ones, features, gaps."""

from pathlib import Path

import numpy as np

THEORY = """\
sort pump
sort hall
predicate Here(pump), Alarm(pump), Failed(pump)
predicate Near(pump, pump)
static predicate In(pump, hall)
static predicate Old(hall)
function height(hall): real
axiom Warned: forall x where Here(x). G(Failed(x) -> Alarm(x))
axiom Spreads: forall x, y where Here(x) & Here(y). G(Near(x, y) & Failed(x) -> WX Alarm(y))
axiom Aged: forall x, h where In(x, h). G(Failed(x) -> Old(h))
"""

TOML = """\
preset = "paper"

[theory]
file = "theory.fot"

[data]
facts = ["facts.csv"]
local = ["pump"]
prepared = "blocks"
train = 0.8
seed = 3

[[data.wide]]
file = "pumps.csv"
sort = "pump"
entity = "pump"
time = "hour"
trace = "site"
predicates = {alarm = "Alarm", failed = "Failed"}
features = ["pressure", "kind"]
presence = "Here"

[[data.wide]]
file = "halls.csv"
sort = "hall"
entity = "hall"
trace = "site"
features = ["width"]

[inputs.pump]
embedding = 0

[predicates]
Failed = {kind = "network", hidden = [4]}

[training]
epochs = 3
patience = 0
rate = 0.02
seed = 5

[training.batches]
by = "traces"
size = 3
"""

HALLS = ("north", "south")


def many_traces(folder: Path, traces: int = 8, steps: int = 4, toml: str = TOML) -> Path:
    """Write the project's files into a folder; traces differ in length and in their entities."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(11)
    (folder / "theory.fot").write_text(THEORY)
    (folder / "project.toml").write_text(toml)
    pumps, halls = ["pump,site,hour,pressure,kind,alarm,failed"], ["hall,site,width"]
    facts = ["predicate,arg1,arg2,time,trace,truth,value", "Old,south,,,,,"]
    facts += [f"height,{hall},,,,,{4 + i}" for i, hall in enumerate(HALLS)]
    for number in range(traces):
        site = f"s{number}"
        halls += [f"{hall},{site},{10 + number + i}" for i, hall in enumerate(HALLS)]
        names = [f"p{number}{i}" for i in range(2 + number % 3)]
        facts += [f"In,{name},{HALLS[i % 2]},,{site},," for i, name in enumerate(names)]
        for hour in range(steps + number % 2):
            first, second = draw.choice(names, 2, replace=False)
            facts.append(f"Near,{first},{second},{hour},{site},{draw.choice(['', '0.5'])},")
            for name in names:
                pressure = draw.random()
                kind = "rare" if number == traces - 1 else draw.choice(["a", "b"])
                failed = int(pressure < 0.3) if draw.random() < 0.7 else ""
                alarm = int(pressure < 0.5)
                pumps.append(f"{name},{site},{hour},{pressure:.4f},{kind},{alarm},{failed}")
    shuffled = [pumps[0], *(pumps[1 + i] for i in draw.permutation(len(pumps) - 1))]
    (folder / "pumps.csv").write_text("\n".join(shuffled) + "\n")
    (folder / "halls.csv").write_text("\n".join(halls) + "\n")
    (folder / "facts.csv").write_text("\n".join(facts) + "\n")
    return folder
