"""What the pictures of the documentation show: small worlds that come out the same each time."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fotltn.cli.new import make
from fotltn.monitor.journal import Journal
from fotltn.monitor.watch import Watch
from fotltn.project.config import read_config
from fotltn.project.train import train
from fotltn.syntax.load import parse_theory
from fotltn.web.sides import Side, side_of, side_of_facts
from tests.project import robots


def crossing(
    place: Path, epochs: int, *, size: int = 10, steps: int = 40, share: float = 0.1
) -> Path:
    """A model of the paper's scene, trained the paper's way; as it is, the one of docs/report.md.

    Args:
        place: the folder of the model; pages call it by its name.
        epochs: how long it is trained.
        size: how many cars there are, and how many pedestrians.
        steps: how many times.
        share: of the facts that are labels.
    """
    project = place.with_name(f"project of {place.name}")
    make(project, size, size, steps, 0, paper=True)
    file = project / "project.toml"
    text = file.read_text("utf-8").replace("epochs = 500", f"epochs = {epochs}")
    file.write_text(text.replace("train = 0.1 ", f"train = {share} "), "utf-8")
    train(read_config(project)).save(place)
    return place


# --- a plane ---------------------------------------------------------------------------------

PLANE = """\
sort agent
static predicate Car(agent), Ped(agent)
predicate Crossing(agent), Stop(agent), Close(agent, agent)
temporal function x(agent): real
temporal function y(agent): real
axiom Brake: forall c, p. G(Car(c) & Ped(p) & Crossing(p) & Close(c, p) -> WX Stop(c))
axiom Goes: forall c. G(Car(c) & Stop(c) -> F[0,12] !Stop(c))
"""
STEPS, REACH = 36, 12.0


def on_the_plane() -> dict[str, list[tuple[float, float]]]:
    """Where everyone is at each step: two cars drive by, three people cross the road."""
    cars = {"c1": (-40.0, -2.0, 2.6), "c2": (46.0, 2.0, -3.0)}  # where from, which lane, how fast
    walkers = {"p1": (-9.0, 4, 1.0), "p2": (3.0, 11, -1.0), "p3": (14.0, 16, 1.0)}
    places: dict[str, list[tuple[float, float]]] = {}
    for name, (start, lane, speed) in cars.items():
        braking = range(8, 15) if name == "c1" else range(15, 19)
        at, places[name] = start, []
        for step in range(STEPS):
            places[name].append((round(at, 2), lane))
            at += 0.0 if step in braking else speed
    for name, (along, begin, way) in walkers.items():
        across = [min(max(step - begin, 0), 12) - 6 for step in range(STEPS)]
        places[name] = [(along, way * far) for far in across]
    return places


def plane_facts() -> str:
    places = on_the_plane()
    rows = ["predicate,arg1,arg2,time,truth,value"]
    for name, track in places.items():
        car = name.startswith("c")
        rows.append(f"{'Car' if car else 'Ped'},{name},,,1,")
        for step, (x, y) in enumerate(track):
            rows += [f"x,{name},,{step},,{x}", f"y,{name},,{step},,{y}"]
            before = track[max(0, step - 1)]
            if car and step and before == (x, y):
                rows.append(f"Stop,{name},,{step},1,")
            if not car and abs(y) < 6:
                rows.append(f"Crossing,{name},,{step},1,")
            for other, there in places.items():
                if car and other.startswith("p") and math.dist((x, y), there[step]) < REACH:
                    rows.append(f"Close,{name},{other},{step},1,")
    return "\n".join(rows) + "\n"


def plane(folder: Path) -> Side:
    (folder / "crossing.fot").write_text(PLANE, "utf-8")
    (folder / "tracks.csv").write_text(plane_facts(), "utf-8")
    return side_of_facts(folder / "crossing.fot", [folder / "tracks.csv"])


# --- worlds ----------------------------------------------------------------------------------


ROBOTS = """\
sort robot
predicate Faulty(robot), Slow(robot), Alarm, Near(robot)
hard axiom Loud: G(Alarm <-> exists r. Faulty(r) & Near(r))
hard axiom Stays: forall r. G(Faulty(r) -> WX (Faulty(r) | Slow(r)))
axiom Signs weight 2: forall r. G(Faulty(r) -> Slow(r))
"""

SAMPLING = """\
method = "posterior"

[theory]
file = "theory.fot"

[data]
facts = ["facts.csv"]

[predicates]
Faulty = "auto"
Slow = "logits"
Alarm = "auto"

[posterior]
worlds = 8
burn_in = 60
sweeps = 120
stored = 24

[training]
seed = 3
"""


def robots_facts(robots: int = 6, times: int = 30) -> str:
    """Robots that fail for a while; half of it is labelled, and one label in fifteen is wrong."""
    draw = random.Random(4)
    faulty = {}
    for robot in range(robots):
        begin, long = draw.randrange(times), draw.randrange(4, 9)
        faulty[robot] = set(range(begin, begin + long)) if robot % 2 else set()
    near = {(r, t) for r in range(robots) for t in range(times) if (t // 6 + r) % 3 == 0}
    rows = ["predicate,arg1,time,truth"]

    def label(predicate: str, name: str, time: int, truth: bool) -> None:
        if draw.random() < 0.5:
            rows.append(f"{predicate},{name},{time},{int(truth != (draw.random() < 1 / 15))}")

    for time in range(times):
        label("Alarm", "", time, any(time in faulty[r] and (r, time) in near for r in faulty))
        for robot in range(robots):
            rows.append(f"Near,r{robot},{time},{int((robot, time) in near)}")
            label("Faulty", f"r{robot}", time, time in faulty[robot])
            slow = time in faulty[robot] or time - 1 in faulty[robot]
            label("Slow", f"r{robot}", time, slow)
    return "\n".join(rows) + "\n"


def worlds(folder: Path) -> Side:
    """Robots whose faults are drawn, in enough worlds to look at."""
    place = robots.project(folder / "robots", SAMPLING, ROBOTS, robots_facts())
    train(read_config(place)).save(place / "model")
    return side_of(place)


# --- a watch ---------------------------------------------------------------------------------

RULES = """
sort ped
predicate Crossing(ped), Looking(ped), Safe(ped)
axiom Looks: forall y. G(Crossing(y) -> Looking(y))
axiom Ends: forall y. G(Crossing(y) -> F[<=8] Safe(y))
"""


@contextmanager
def watched(folder: Path) -> Iterator[Path]:
    """The folder of a watch that goes on."""
    draw = random.Random(7)
    watch, steps = Watch(parse_theory(RULES)), []
    for _ in range(88):
        step: list[tuple[str, str]] = []
        for name in ("ann", "bob", "cleo", "dan", "eve"):
            for predicate, often in (("Crossing", 0.1), ("Looking", 0.85), ("Safe", 0.16)):
                if draw.random() < often:
                    step.append((predicate, name))
        steps.append(step)
    steps += [[("Crossing", name), ("Looking", name)] for name in ("ann", "eve")]
    with Journal(folder) as journal:
        journal.write(watch.steps(steps))
        journal.tell(watch, at_once=True)
        yield journal.folder
