"""A model in the loop: step by step it says what it says of the whole trace."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import fotltn
from fotltn.cli.main import app
from fotltn.monitor.journal import Journal

THEORY = """\
sort pump
predicate Failed(pump), Worse(pump, pump), Here(pump), Repair(pump)
axiom Stays: forall x. G(Failed(x) & !Repair(x) -> WX Failed(x))
axiom Ends: forall x. G(Failed(x) -> F[<=3] !Failed(x))
axiom Order: forall x, y. G(Worse(x, y) & Failed(y) -> Failed(x))
"""


def table(seed: int, *, away: bool, hours: int = 30) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    rows = [
        (pump, hour)
        for pump in ("a", "b", "c")
        for hour in range(hours)
        if not away or rng.random() < 0.7 or hour == 0
    ]
    return {
        "pump": [r[0] for r in rows],
        "hour": [r[1] for r in rows],
        "bar": rng.normal(size=len(rows)).tolist(),
        "heat": rng.normal(size=len(rows)).tolist(),
        "repair": rng.integers(0, 2, len(rows)).tolist(),
        "failed": rng.integers(0, 2, len(rows)).tolist(),
    }


def trained(*, away: bool = False, seen: Any = None, **more: Any) -> fotltn.Model:
    data = table(0, away=away)
    pairs: dict[str, list[Any]] = {
        "predicate": ["Worse"] * 3,
        "arg1": ["a", "b", "c"],
        "arg2": ["b", "c", "a"],
    }
    pairs |= {"time": [0, 3, 4], "truth": [1, 0, 1]}
    columns = {"failed": "Failed", "repair": "Repair"}
    wide = fotltn.Wide(
        data, "pump", "pump", "hour", predicates=columns, features=["bar", "heat"],
        presence="Here" if away else None,
    )  # fmt: skip
    torch.manual_seed(1)
    return fotltn.train(
        THEORY, wide=wide, facts=pairs, learn=["Failed", "Worse"],
        inputs={"pump": {"embedding": 0, **(seen or {})}}, preset="paper",
        training={"epochs": 30, "rate": 0.05}, **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def plain_model() -> fotltn.Model:
    return trained()


def steps(data: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """The rows of a table, hour by hour."""
    lines: list[dict[str, Any]] = [
        {"facts": [], "features": {"pump": {}}} for _ in range(1 + max(data["hour"]))
    ]
    for i, (pump, hour) in enumerate(zip(data["pump"], data["hour"], strict=True)):
        lines[hour]["features"]["pump"][pump] = {n: data[n][i] for n in ("bar", "heat")}
        if data["repair"][i]:
            lines[hour]["facts"].append(["Repair", pump])
    return lines


def offline(model: fotltn.Model, data: dict[str, list[Any]]) -> set[tuple[Any, ...]]:
    """The violations of the model on the whole trace."""
    rows = {n: column for n, column in data.items() if n != "failed"}
    nothing = {"predicate": ["Worse"], "arg1": ["a"], "arg2": ["b"], "time": [0], "truth": [1]}
    applied = model.apply([nothing, rows])
    return {
        (name, *v.binding.values(), v.time)
        for name in ("Stays", "Ends", "Order")
        for v in applied.violations(name, top=10_000)
        if v.violated
    }


def told(events: Any) -> list[tuple[Any, ...]]:
    return [(e.axiom, *e.binding.values(), e.time) for e in events if e.kind == "violation"]


@pytest.mark.parametrize(
    ("seen", "away"),
    [
        ({}, False),
        ({"changes": [1, 4], "bins": 3}, True),
        ({"encoder": "gru", "changes": [2], "bins": 3}, True),
        ({"encoder": {"kind": "convolution", "layers": 2, "reach": 2}}, True),
        ({"encoder": "transformer"}, False),
        ({"embedding": 2, "time": "static", "encoder": {"kind": "gru", "layers": 2}}, True),
    ],
)
def test_violations_are_those_of_the_model_on_the_whole_trace(seen, away):
    model, data = trained(away=away, seen=seen), table(5, away=away)
    watch = fotltn.ModelWatch(model)
    events = list(watch.steps(json.dumps(step) for step in steps(data)))
    events += watch.finish()
    expected = offline(model, data)
    assert len(expected) > 5
    assert len(told(events)) == len(set(told(events)))
    assert set(told(events)) == expected


def test_it_goes_on_where_it_was_stopped(tmp_path):
    model, data = trained(away=True, seen={"encoder": "gru", "changes": [3]}), table(6, away=True)
    expected = offline(model, data)
    lines = steps(data)
    for stop in (7, 19, len(lines)):
        watch = fotltn.ModelWatch(model)
        with Journal(tmp_path / "state") as journal:
            journal.resume(watch)
            journal.write(watch.steps(lines[watch.count : stop]))
            journal.save(watch, None)
            if stop == len(lines):
                journal.write(watch.finish())
    text = (tmp_path / "state" / "events.jsonl").read_text()
    events = [json.loads(line) for line in text.splitlines()]
    violations = [e for e in events if e["event"] == "violation"]
    assert {(e["axiom"], *e["binding"].values(), e["time"]) for e in violations} == expected
    assert len(violations) == len(expected)
    with Journal(tmp_path / "state") as journal, pytest.raises(fotltn.DataError, match="model"):
        journal.resume(fotltn.ModelWatch(trained(away=True, seen={"encoder": "gru"})))


def test_modules_of_ones_own_say_their_degrees():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    pair = nn.Sequential(nn.Linear(4, 1))
    model, data = trained(predicates={"Failed": module, "Worse": pair}), table(7, away=False)
    watch = fotltn.ModelWatch(model, fotltn.parse(THEORY.replace("[<=3]", "[<=2]")))
    events = [*watch.steps(steps(data)), *watch.finish()]
    stays = {v for v in offline(model, data) if v[0] == "Stays"}
    assert {v for v in told(events) if v[0] == "Stays"} == stays
    assert stays


class Ahead(nn.Module):
    """What is seen, less what will be."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Linear(2, 1)

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.weights(seen - seen.mean(-2, keepdim=True))
        return output


def test_what_needs_later_steps_is_refused():
    with pytest.raises(fotltn.DataError, match="the network of 'Failed' looks at other entities"):
        fotltn.ModelWatch(trained(predicates={"Failed": Ahead()}))
    ahead = trained(seen={"encoder": {"kind": "gru", "causal": False}})
    with pytest.raises(fotltn.DataError, match=r"step by step: the encoder of 'pump' looks ahead"):
        fotltn.ModelWatch(ahead)
    free = trained(seen={"embedding": 4})
    with pytest.raises(fotltn.DataError, match="only to its own data"):
        fotltn.ModelWatch(free)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"features": {"pomp": {}}}', "features of the sort 'pomp'"),
        ('{"features": {"pump": {"a": {"bar": 1}}}}', "'a' has no 'heat'"),
        ('{"features": {"pump": {"a": {"bar": 1, "hot": 2}}}}', "unknown feature 'hot'"),
        ('{"features": {"pump": {"a": {"bar": "x", "heat": 2}}}}', "'bar' must be a number"),
        ('{"facts": [["Failed", "a"]]}', "'Failed' is predicted by the model"),
        ('{"features": {"pump": {"d": {"bar": 1, "heat": 2}}}}', "'d' of sort 'pump' was not pres"),
        ('{"features": {"pump": {"a": {"bar": 1, "heat": 2}}}}', "there are no features of 'b'"),
        ('{"features": 3}', "'features' is an object"),
    ],
)
def test_errors_say_what_would_be_right(line, message, plain_model):
    watch = fotltn.ModelWatch(plain_model)
    watch.step(steps(table(5, away=False))[0])
    before = json.dumps(watch.snapshot())
    with pytest.raises(fotltn.DataError, match=message):
        watch.step(line)
    assert json.dumps(watch.snapshot()) == before


def test_the_command_has_a_model(tmp_path):
    model, data = trained(away=True, seen={"encoder": "gru"}), table(8, away=True)
    model.save(tmp_path / "model")
    (tmp_path / "rules.fot").write_text(THEORY)
    text = "".join(json.dumps(step) + "\n" for step in steps(data))
    called = ["watch", str(tmp_path / "rules.fot"), "--model", str(tmp_path / "model"), "--json"]
    result = CliRunner().invoke(app, called, input=text)
    assert result.exit_code == 3, result.output
    events = [json.loads(line) for line in result.stdout.splitlines()]
    violations = [e for e in events if e["event"] == "violation"]
    assert {(e["axiom"], *e["binding"].values(), e["time"]) for e in violations} == offline(
        model, data
    )


def test_features_without_a_model_are_refused():
    with pytest.raises(fotltn.DataError, match="there is no model that sees features"):
        fotltn.Watch(fotltn.parse(THEORY)).step('{"features": {"pump": {}}}')
