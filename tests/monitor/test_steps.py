"""Steps from lines of JSON and from facts, with errors that point to their place."""

from __future__ import annotations

import json

import pytest

import fotltn
from fotltn.errors import DataError
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.facts import read_facts
from fotltn.logic.check import check
from fotltn.monitor.monitor import Monitor
from fotltn.monitor.steps import Header, InputLine, TraceStep, read_line
from fotltn.semantics import crisp
from fotltn.syntax.load import parse_theory

THEORY = check(
    parse_theory("""
        sort car, ped
        static predicate Fast(car)
        predicate Stop(car), Close(car, ped), rain
        temporal function speed(car): real
        function owner(car): ped
        relation pairs(car, ped)
        axiom A: forall x, y. G(Close(x, y) -> Stop(x) | speed(x) < 3 | owner(x) = y)
    """)
)
HEAD = Header([("pairs", "ego", "ann")], [("owner", "ego", "ann")], entities={"car": ["ego"]})


def test_a_line_is_a_step_or_a_header():
    step = read_line(
        InputLine("s", 1, '{"facts": [["Stop", "ego", 0.5]], "values": [["speed", 1]]}')
    )
    assert (step.facts, step.values) == ([["Stop", "ego", 0.5]], [["speed", 1]])
    head = read_line(InputLine("s", 1, '{"entities": {"car": ["ego"]}, "closed": true}'))
    assert isinstance(head, Header)
    assert (head.entities, head.closed, head.facts) == ({"car": ["ego"]}, True, [])
    assert isinstance(read_line(InputLine("s", 1, "{}")), TraceStep)


SPEED = '"values": [["speed", "ego", 1]]'


@pytest.mark.parametrize(
    ("text", "message", "caret"),
    [
        ("{", "this is not JSON: expecting property name", ""),
        ('{"facts": [["Stop"]', "this is not JSON", ""),
        ("[]", "a step must be an object with the key 'facts'", "[]"),
        ('{"fact": []}', "unknown key 'fact'", '"fact"'),
        ('{"facts": {}}', "'facts' is a list", "{}"),
        ('{"closed": true}', "'closed' needs 'entities'", "true"),
        ('{"default": 0}', "'default' needs 'entities'", "0"),
        ('{"entities": {}, "default": "x"}', "'default' is a finite number", '"x"'),
        ('{"facts": [7]}', "a predicate with its arguments is a list", "7"),
        ('{"facts": [[]]}', "a predicate with its arguments is a list", "[]"),
        ('{"facts": [[7, "ego"]]}', "a predicate comes first, by name, not 7", "7"),
        ('{"facts": [["rain"], ["Stopp", "ego"]]}', "unknown predicate 'Stopp'", '"Stopp"'),
        (
            '{"facts": [["speed", "ego", "x"]]}',
            "'speed' has the value 'x'; expected a finite number",
            '"x"',
        ),
        ('{"facts": [["Stop"]]}', "'Stop' takes 1 argument, but there are 0", '["Stop"]'),
        (
            '{"facts": [["Stop", "ego", 1, 2]]}',
            "'Stop' takes 1 argument, but there are 3",
            '["Stop", "ego", 1, 2]',
        ),
        ('{"facts": [["Stop", 3]]}', "an argument is a name, not 3", "3"),
        (
            '{"facts": [["Stop", "ego", 1.5]]}',
            "'Stop' has the degree 1.5; expected a number from 0 to 1",
            "1.5",
        ),
        ('{"facts": [["Stop", "ego", NaN]]}', "this is not JSON: NaN is not a number in JSON", ""),
        ('{"facts": [["Stop", "ego", "x"]]}', "'Stop' has the degree 'x'", '"x"'),
        (
            '{"facts": [["Stop", "ego"], ["Stop", "ego", 0.25]]}',
            "'Stop' of (ego) is 0.25 here, but 1 before",
            '["Stop", "ego", 0.25]',
        ),
        (
            f'{{"facts": [["Stop", "egon"]], {SPEED}}}',
            "'egon' is no entity of sort 'car': functions take it",
            '"egon"',
        ),
        ('{"facts": []}', "'speed' has no value for (ego)", '{"facts": []}'),
        (
            '{"values": [["speed", "ego", "fast"]]}',
            "'speed' has the value 'fast'; expected a finite number",
            '"fast"',
        ),
        ('{"values": [["speed", "ego", 1e999]]}', "expected a finite number", "1e999"),
        ('{"values": [["owner", "ego", 3]]}', "expected a name of sort ped", "3"),
        (
            f'{{"facts": [["pairs", "ego", "bo"]], {SPEED}}}',
            "'pairs' does not change, so it belongs to the first line",
            '["pairs", "ego", "bo"]',
        ),
    ],
)
def test_errors_point_to_their_place(text, message, caret):
    monitor = Monitor(THEORY, header=HEAD)
    monitor.step(TraceStep(values=[("speed", "ego", 1.0)]))
    line = InputLine("steps.jsonl", 7, text)
    with pytest.raises(DataError) as error:
        monitor.step(read_line(line))
    (found,) = error.value.diagnostics
    assert message in found.message
    assert found.span is not None
    assert found.span.line == 7
    if caret:
        shown = found.span.source.text[found.span.start : found.span.end]
        assert shown == caret
    assert str(error.value).startswith("steps.jsonl:7:")
    assert "^" in str(error.value)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (Header(entities={"cars": []}), "unknown sort 'cars'"),
        (Header(entities={"car": "ego"}), "the entities of 'car' are a list of names"),
        (Header([("Stop", "ego")]), "'Stop' changes over time, so it belongs to a step"),
        (Header(values=[("speed", "ego", 1.0)]), "'speed' changes over time"),
        (Header([("pairs", "ego")]), "'pairs' takes 2 arguments, but there are 1"),
    ],
)
def test_bad_headers(header, message):
    with pytest.raises(DataError) as error:
        Monitor(THEORY, header=header)
    assert message in str(error.value)


def test_a_static_function_without_a_value():
    monitor = Monitor(THEORY, entities={"car": ["ego"]})
    with pytest.raises(DataError, match=r"'owner' has no value for \(ego\) in the first line"):
        monitor.step([], [("speed", "ego", 1.0)])


def test_errors_from_python_show_the_fact():
    monitor = Monitor(THEORY, header=HEAD)
    with pytest.raises(DataError) as error:
        monitor.step([("Stop", "ego", 7)], [("speed", "ego", 1.0)])
    assert str(error.value).startswith("error: ('Stop', 'ego', 7): 'Stop' has the degree 7;")


def test_a_trace_that_is_over():
    monitor = Monitor(THEORY, header=HEAD, horizon=1)
    with pytest.raises(DataError, match="there was none"):
        monitor.finish()
    step = TraceStep(values=[("speed", "ego", 1.0)])
    assert monitor.step(step)["A"].verdict == "satisfied", "the horizon is reached"
    with pytest.raises(DataError, match="the horizon is 1, but there are more steps"):
        monitor.step(step)
    monitor.finish()
    with pytest.raises(DataError, match="the trace has ended"):
        monitor.step(step)
    with pytest.raises(DataError, match="no axiom 'B'; available: 'A'"):
        monitor.finish()["B"]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"horizon": 0}, "at least one step"), ({"threshold": 0.0}, "a threshold must be above 0")],
)
def test_bad_options(options, message):
    with pytest.raises(DataError, match=message):
        Monitor(THEORY, header=HEAD, **options)


# --- facts -----------------------------------------------------------------------------------

TABLE = {
    "predicate": [
        "Stop", "Close", "Stop", "Close", "Close", "Fast", "pairs", "owner", "speed", "speed",
        "speed", "speed", "speed",
    ],
    "arg1": ["ego"] * 13,
    "arg2": [None, "ann", None, "bo", "ann", None, "ann"] + [None] * 6,
    "time": [0, 0, 1, 1, 1, None, None, None, 0, 1, 0, 1, 2],
    "truth": [1, 1, 0.25, 1, 1, None, None, None, None, None, None, None, None],
    "value": [None] * 7 + ["bo", "5", "6", "1", "4", "9"],
    "trace": ["m", "m", "m", "t", "m", None, None, None, "m", "m", "t", "t", "t"],
}  # fmt: skip


@pytest.mark.parametrize("declare", [False, True])
def test_facts_as_steps(declare):
    facts = read_facts([TABLE], THEORY.signature)
    model = tables_of_facts(facts, THEORY.signature)
    wanted = crisp.evaluate(THEORY.axioms[0].formula, model, threshold=0.5).tensor[:, 0].tolist()
    found = []
    for trace in range(2):
        header, steps = fotltn.steps(model, trace, declare=declare)
        assert len(steps) == facts.lengths[trace]
        assert bool(header.entities) == declare
        monitor = Monitor(THEORY, header=header)
        for _ in monitor.steps(steps):
            pass
        found.append(monitor.finish()["A"].verdict == "satisfied")
    assert found == wanted == [False, True]
    header, steps = fotltn.steps(model, 0)
    assert ("Fast", "ego") in header.facts
    assert ("owner", "ego", "bo") in header.values
    assert ("Stop", "ego", 0.25) in steps[1].facts


# --- steps as one writes them ----------------------------------------------------------------

PLAIN = fotltn.parse("sort car\npredicate Stop(car)\naxiom A: forall x: car. G Stop(x)")
HEADER = {"entities": {"car": ["ego"]}, "closed": True}
LINES = ['{"facts": [["Stop", "ego"]]}', "", '{"facts": []}']


def verdicts(monitor, steps):
    return [str(states["A"].verdict) for states in monitor.steps(steps)]


def test_steps_are_facts_objects_lines_or_a_file(tmp_path):
    wanted = ["open", "violated"]
    assert verdicts(Monitor(PLAIN, header=HEADER), [[("Stop", "ego")], ()]) == wanted
    objects = [{"facts": [("Stop", "ego")]}, {}]
    assert verdicts(Monitor(PLAIN, header=HEADER), objects) == wanted
    assert verdicts(Monitor(PLAIN, header=json.dumps(HEADER)), LINES) == wanted
    file = tmp_path / "steps.jsonl"
    file.write_text("\n".join([json.dumps(HEADER), *LINES, '{"facts": [["Stpo", "ego"]]}']))
    with file.open() as lines:
        monitor = Monitor(PLAIN, header=next(lines))
        with pytest.raises(DataError, match=r"steps\.jsonl:5:13: error: unknown predicate 'Stpo'"):
            verdicts(monitor, lines)
    assert monitor.count == 2


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"fact": []}, "unknown key 'fact'"),
        ({"facts": 3}, "'facts' is a list"),
        ("{", "steps:1:2: error: this is not JSON"),
        ({"entities": {}}, "belongs to the first line"),
    ],
)
def test_bad_steps_as_one_writes_them(step, message):
    with pytest.raises(DataError, match=message):
        Monitor(PLAIN, header=HEADER).step(step)


def test_a_header_names_entities():
    with pytest.raises(DataError, match="a header is an object with the key 'entities'"):
        Monitor(PLAIN, header={"facts": []})


def test_steps_of_a_trace_that_is_not_there():
    data = fotltn.tables(PLAIN, Stop=[[1.0, 0.0]])
    with pytest.raises(DataError, match="there is no trace 1; there are 1, from 0"):
        fotltn.steps(data, 1)
    with pytest.raises(DataError, match="there is no trace 'm'"):
        fotltn.steps(data, "m")
