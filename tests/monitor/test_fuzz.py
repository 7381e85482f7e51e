"""Whatever the steps: verdicts, or an error of ours, and nothing else."""

from __future__ import annotations

import json
import random
import traceback

import pytest

from fotltn import Monitor, check
from fotltn.errors import FotError
from fotltn.monitor.steps import Header, InputLine, read_line
from fotltn.syntax.load import parse_theory
from tests.mutate import changed, garbled, report

THEORY = check(
    parse_theory("""
sort car
sort person
static predicate Fast(car)
predicate Stop(car), Near(car, person), rain
function owner(car): person
temporal function speed(car): real
relation pairs(car, person)
axiom A: forall x: car. G(Stop(x) -> F[<=2] !Stop(x))
axiom B: forall (x, y) in pairs. G(Near(x, y) -> speed(x) < 3 | rain)
axiom C: forall x: car where Fast(x). F (exists y. Near(x, y) & y = owner(x))
""")
)
OPEN = check(
    parse_theory("sort agent\npredicate Stop(agent)\naxiom A: forall x. G(Stop(x) -> X !Stop(x))")
)
TRACES = (
    (THEORY, [
        {"entities": {"car": ["ego", "bus"], "person": ["ann", "bo"]}, "closed": False,
         "facts": [["Fast", "ego"], ["pairs", "ego", "ann"], ["pairs", "bus", "bo"]],
         "values": [["owner", "ego", "ann"], ["owner", "bus", "bo"]]},
        {"facts": [["Stop", "ego"], ["Near", "ego", "ann", 0.7], ["rain"]],
         "values": [["speed", "ego", 2], ["speed", "bus", 0.5]]},
        {"facts": [["Near", "bus", "bo", 1]], "values": [["speed", "ego", 3], ["speed", "bus", 0]]},
    ]),
    (OPEN, [
        {"facts": [["Stop", "a"], ["Stop", "b", 0.5]]},
        {"facts": []},
        {"facts": [["Stop", "c"]], "values": []},
    ]),
)  # fmt: skip


def follow(theory, texts: list[str]) -> str:
    """Run the steps of some lines as the command does; says what became of it."""
    try:
        steps = [read_line(InputLine("steps", i, text)) for i, text in enumerate(texts, 1)]
        header = steps.pop(0) if isinstance(steps[0], Header) else None
        monitor = Monitor(theory, header=header, values="all")  # type: ignore[arg-type]
        for step in steps:
            monitor.step(step)
            monitor.values()
        if steps:
            monitor.finish()
            monitor.values()
    except FotError as error:
        return "refused" if len(str(error)) < 5000 else "long"
    return "read"


def fuzz(seed: int, count: int) -> dict[str, int]:
    rng = random.Random(seed)
    outcomes = {"read": 0, "refused": 0}  # a message that fills the screen would be a KeyError
    broken: dict[str, str] = {}
    for _ in range(count):
        theory, steps = rng.choice(TRACES)
        texts = [json.dumps(step) for step in steps]
        number = rng.randrange(len(texts))
        if rng.random() < 0.7:
            value = changed(steps[number], rng)
            texts[number] = json.dumps(changed(value, rng) if rng.random() < 0.3 else value)
        else:
            texts[number] = garbled(texts[number], rng)
        try:
            outcomes[follow(theory, texts)] += 1
        except Exception as error:
            kind = f"{type(error).__name__}: {str(error)[:60]}"
            broken.setdefault(kind, f"{texts!a}\n{traceback.format_exc()[-600:]}")
    report(count, broken, outcomes)
    return outcomes


@pytest.mark.parametrize("trace", range(len(TRACES)))
def test_the_traces_themselves_are_read(trace):
    theory, steps = TRACES[trace]
    assert follow(theory, [json.dumps(step) for step in steps]) == "read"


@pytest.mark.reliability
def test_changed_steps_are_read_or_refused():
    outcomes = fuzz(0, 250)
    assert min(outcomes.values()) > 10


@pytest.mark.slow
@pytest.mark.reliability
@pytest.mark.timeout(3600)
def test_ten_thousand_changed_steps_are_read_or_refused():
    assert min(fuzz(1, 10_000).values()) > 500
