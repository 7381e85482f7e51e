"""Every setting of a project counts when an interrupted training is to go on."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fotltn.errors import DataError, InterruptedTrainingError
from fotltn.learn.objective import Objective
from fotltn.learn.schedule import Schedule
from fotltn.learn.task import Training
from fotltn.networks.parts import Batches
from fotltn.project import config as config_module
from fotltn.project import data_config as data_config_module
from fotltn.project.config import (
    WITHOUT_EFFECT,
    Config,
    EncoderConfig,
    lasting,
    read_config,
)
from fotltn.project.data_config import MeasureConfig, SplitConfig
from fotltn.project.train import train
from tests.project.common import changed, config, project, same

pytestmark = pytest.mark.reliability

#: Where a project lies, and its text: not a setting.
NO_SETTINGS = {"folder", "source.name", "source.text", "unnamed"}


def full() -> Config:
    """A configuration in which no part is missing."""
    base = config()
    wide = replace(base.data.wide[0], measures={"Fast": MeasureConfig("speed", 1.0)})
    data = replace(base.data, split=SplitConfig("s.csv", "run", "part"), wide=(wide,))
    objective = replace(base.objective, fact_p={"Stop": Schedule(((0.0, 2.0),))})
    training = replace(base.training, batches=Batches("traces", 2))
    inputs = {s: replace(seen, encoder=EncoderConfig()) for s, seen in base.inputs.items()}
    return replace(base, data=data, objective=objective, training=training, inputs=inputs)


def others(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Everything that differs from a value in one place, with the name of the place."""
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            for place, other in others(getattr(value, field.name), f"{name}.{field.name}"):
                made = copy.copy(value)
                object.__setattr__(made, field.name, other)
                yield place, made
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from ((p, {**value, key: o}) for p, o in others(one, f"{name}.{key}"))
        yield name, {**value, "one_more": 1}
    elif isinstance(value, tuple) and any(map(is_dataclass, value)):
        for i, one in enumerate(value):
            yield from ((p, (*value[:i], o, *value[i + 1 :])) for p, o in others(one, name))
        yield name, value[:-1]
    else:
        yield name, another(value)


def another(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [*value, "one more"]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str | Path):
        return f"{value}x"
    assert value is None, f"no other value of {value!r} is known"
    return 0


@pytest.mark.parametrize("method", ["gradient", "posterior"])
def test_every_setting_counts_or_is_named_as_without_effect(method):
    base = replace(full(), method=method)
    seen: dict[str, bool] = {}
    for place, other in others(base):
        name = place.removeprefix(".")
        seen[name] = seen.get(name, True) and lasting(other) != lasting(base)
    silent = {name for name, counts in seen.items() if not counts}
    sampling = {name for name in seen if name.startswith(("posterior.", "sensors."))}
    without = WITHOUT_EFFECT | sampling if method == "gradient" else WITHOUT_EFFECT - {"end"}
    assert silent == without | NO_SETTINGS
    assert len(seen) > 80
    assert {"predicates.Crowded.scale", "predicates.Crowded.reach", "inputs.agent.scale"} <= {
        name for name, counts in seen.items() if counts
    }


def test_no_kind_of_setting_is_left_out_of_the_test():
    met = {type(value) for value in every(full())}
    declared = {
        kind
        for module in (config_module, data_config_module)
        for _, kind in inspect.getmembers(module, is_dataclass)
        if kind.__module__ == module.__name__
    }
    assert declared | {Training, Objective, Batches, Schedule} <= met


def every(value: Any) -> Iterator[Any]:
    yield value
    if is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from every(one)


def test_a_setting_that_is_added_counts():
    @dataclass(frozen=True, slots=True)
    class Later(Config):
        added: float = 0.0

    base = full()
    values = {f.name: getattr(base, f.name) for f in dataclasses.fields(base)}
    assert lasting(Later(**values)) != lasting(Later(**values, added=1.0))


LOGITS = ('kind = "logits", scale = 0.5', 'kind = "logits", scale = 0.25')
EDITS = {
    "scale of logits": (LOGITS, "predicates.Crowded.scale: 0.5 there, 0.25 here"),
    "reach of logits": (
        ('kind = "logits", scale = 0.5', 'kind = "logits", scale = 0.5, reach = 2'),
        "predicates.Crowded.reach: 0.0 there, 2.0 here",
    ),
    "scale of embeddings": (
        ("reach = 1.5", "reach = 1.5\nscale = 0.5"), "inputs.agent.scale: 0.01 there, 0.5 here",
    ),
    "reach of embeddings": (
        ("reach = 1.5", "reach = 2.5"), "inputs.agent.reach: 1.5 there, 2.5 here",
    ),
    "rate": (("rate = 0.02", "rate = 0.01"), "training.rate: 0.02 there, 0.01 here"),
    "compile": (("[training]", "[machine]\ncompile = true\n[training]"), "compile: False there"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_settings_edited_between_a_kill_and_a_resume_are_refused(name, tmp_path):
    edit, difference = EDITS[name]
    folder = project(tmp_path)
    with pytest.raises(InterruptedTrainingError):
        train(read_config(folder), checkpoints=tmp_path / "c", stop=lambda: True)
    project(folder, changed(edit))
    with pytest.raises(DataError, match="belong to another task or other settings") as refused:
        train(read_config(folder), checkpoints=tmp_path / "c")
    assert f"to resume, restore {difference}" in str(refused.value)
    project(folder)
    assert train(read_config(folder), checkpoints=tmp_path / "c").history


def test_a_project_that_was_moved_goes_on(tmp_path):
    """Other places of the same things, and of the model, change nothing."""
    folder = project(tmp_path / "here")
    with pytest.raises(InterruptedTrainingError):
        train(read_config(folder), checkpoints=tmp_path / "c", stop=lambda: True)
    there = tmp_path / "there"
    shutil.move(folder, there)
    (there / "data").mkdir()
    for old, new in (("facts", "long"), ("agents", "who"), ("places", "where")):
        (there / f"{old}.csv").rename(there / "data" / f"{new}.csv")
    (there / "theory.fot").rename(there / "rules.fot")
    text = changed(
        ('"facts.csv"', '"long.csv"'), ('"agents.csv"', '"who.csv"'),
        ('"places.csv"', '"where.csv"'), ('"theory.fot"', '"rules.fot"'),
        ("[data]", '[output]\nmodel = "elsewhere"\n[data]\nfolder = "data"'),
    )  # fmt: skip
    (there / "project.toml").write_text(text)
    resumed = train(read_config(there), checkpoints=tmp_path / "c")
    undisturbed = train(read_config(there))
    weights = undisturbed.grounding.state_dict()
    assert all(same(w, weights[n]) for n, w in resumed.grounding.state_dict().items())
