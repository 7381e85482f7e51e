"""Lines that are known by their text mean what they mean when they are read."""

from __future__ import annotations

import json
import random

import pytest

from fotltn.errors import DataError
from fotltn.monitor.loop import entries_of, fact_texts, learn_texts
from fotltn.monitor.monitor import Monitor
from fotltn.monitor.steps import InputLine, read_line
from fotltn.monitor.watch import Watch
from fotltn.syntax.load import parse_theory

THEORY = parse_theory("""
    sort s
    predicate a(s), b(s), near(s, s)
    axiom A: forall x. G(a(x) -> WX b(x))
    axiom B: forall x, y. G(near(x, y) -> a(x) | b(y))
    axiom C: forall x. G(b(x) -> O[<=3] a(x))
""")
NAMES = ["n", "], [", '"', "\u00fc", "a, 0.5", "{"]


def random_steps(rng, count, *, degrees):
    steps = []
    for _ in range(count):
        facts = {}
        for _ in range(rng.randrange(6)):
            name = rng.choice(["a", "b", "near"])
            args = [rng.choice(NAMES) for _ in range(2 if name == "near" else 1)]
            more = [rng.choice([0.0, 1.0, 1e-7, 0.25, 0.5, 0.75])] if degrees else []
            facts[name, *args] = [name, *args, *(more if rng.random() < 0.7 else [])]
        steps.append({"facts": list(facts.values())})
    return steps


@pytest.mark.parametrize("seed", range(6))
def test_lines_mean_what_their_objects_mean(seed):
    rng = random.Random(seed)
    steps = random_steps(rng, 150, degrees=seed % 2)
    separators = [None, (",", ":"), (", ", ": "), (" ,", ":")]
    lines = [
        json.dumps(s, separators=rng.choice(separators), ensure_ascii=rng.random() < 0.5)
        for s in steps
    ]
    read, known = Monitor(THEORY), Monitor(THEORY)
    assert list(read.steps(steps)) == list(known.steps(lines))
    assert read.values() == known.values()
    read_too, known_too = Watch(THEORY), Watch(THEORY)
    events = [str(event) for event in read_too.steps(steps)]
    assert events == [str(event) for event in known_too.steps(lines)]
    assert len(events) > 10
    assert sum(known.intake.again(line) is not None for line in lines[50:]) > 10


@pytest.mark.parametrize("kind", [Monitor, Watch])
def test_errors_after_lines_that_are_known(kind):
    line = '{"facts": [["a", "n", 0.5], ["b", "n"]]}'
    for wrong, message in [
        ('{"facts": [["a", "n", 0.5], ["a", "n", 0.6]]}', "0.6 here, but 0.5 before"),
        ('{"facts": [["a", "n"], ["a", "n", 0.6]]}', "0.6 here, but 1 before"),
        ('{"facts": [["a", "n"], ["a", "n", 1.5]]}', "1.5"),
        ('{"facts": [["a", "n"], ["b", "n"]]]}', "not JSON"),
        ('{"facts": [["a", "n"],["b", "n"], ["a"]]}', "argument"),
        ('{"facts": [["a", "n", .5]]}', "not JSON"),
    ]:
        follower = kind(THEORY)
        list(follower.steps(['{"facts": [["a", "n"], ["b", "n"]]}', line, line]))
        with pytest.raises(DataError, match=message):
            list(follower.steps([line, wrong, line]))
        assert follower.count == 4


def test_a_text_that_is_cut_at_the_wrong_places_is_not_learned():
    line = InputLine("s", 1, '{"facts": [["a", "n], [m"],["b", "n"]]}')
    step = read_line(line)
    known: dict[object, int] = {("a", "n], [m"): 1, ("b", "n"): 2}
    assert len(fact_texts(line.text)) == len(step.facts)
    learn_texts(step, known)
    assert not any(isinstance(key, str) for key in known)


KNOWN = {'"a", "n"': 1, '"a","n"': 2, '"b"': 3}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ('"b"], ["a", "n"], ["a", "n", 0.5', ([3, 1], [1], [0.5])),
        ('"a","n",1e-05], ["a", "n", 1.0', ([], [2, 1], [1e-5, 1.0])),
        ('"a", "n", 9e-0', None),
        ('"a", "n", 1', None),
        ('"a", "n", -0.5', None),
        ('"a", "n", 0.5 ', None),
        ('"a", "n", 0.5; 0.6', None),
        ('"a", "n, 0.5"', None),
        ('"a", "m"', None),
        ("", None),
    ],
)
def test_degrees_in_texts(facts, expected):
    assert entries_of(f'{{"facts": [[{facts}]]}}', KNOWN) == expected
