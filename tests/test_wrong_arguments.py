"""Wrong arguments to every public function end in a FotError; only their names are a TypeError."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fotltn

TEXT = """sort car
predicate Near(car), Stop(car)
axiom Obey: forall x. G(Near(x) -> WX Stop(x))
"""
THEORY = fotltn.parse(TEXT)
FACTS = {"predicate": ["Near", "Stop"], "arg1": ["ego", "ego"], "time": [0, 2]}
ROWS = {"who": ["ego", "ego"], "t": [0, 1], "speed": [5.0, 0.5], "stop": [0, 1]}
TABLES = fotltn.read(THEORY, FACTS)
WIDE = fotltn.Wide(ROWS, "car", "who", "t", predicates={"stop": "Stop"}, features=["speed"])

#: Names that only annotate, or that are raised: programs do not call them.
NOT_CALLED = {
    "Callback", "Cells", "Formula", "Law", "Model", "Posterior", "SEMANTICS", "Tables", "Theory",
    "plots",
} | {name for name in fotltn.__all__ if name.endswith("Error")}  # fmt: skip


class Strange:
    """Nothing that a function takes."""


POOL: tuple[Any, ...] = (
    None, True, 3, -3, 3.5, 0, 10**400, float("nan"), float("inf"), 1 + 2j, "", " ", "nonsense",
    "a/b.fot", "a\0b", "x" * 300, "predicate", "axiom A: F", "\n", b"", b"text", object(),
    Strange, Strange(), len, lambda: 1, [], [None], [3], [[]], ["nonsense"], ["Stop", 3], (), {},
    {"Stop": 3}, {"Stop": [1.0]}, {3: 4}, {"predicate": ["Stop"]}, {"predicate": 3}, set(), {1, 2},
    frozenset({"a"}), range(3), iter([1, 2]), Ellipsis, NotImplemented, type, slice(1), np.array(3),
    np.array([1.0, np.nan]), np.array("a"), torch.ones(2, 3, 4, 5), torch.tensor(0.5), THEORY,
    THEORY["Obey"], THEORY["Obey"].formula, fotltn.check(THEORY), TABLES, WIDE, fotltn.PMean(4.0),
    fotltn.SEMANTICS["godel"], fotltn.SEMANTICS["crisp"], Path("nonsense"), Path(), Exception("x"),
    torch.float64, np.int64(-1), np.float64(0.5),
)  # fmt: skip


@pytest.fixture(scope="module")
def model() -> fotltn.Model:
    inputs = {"car": {"embedding": 0}}
    return fotltn.train(THEORY, WIDE, learn=["Stop"], inputs=inputs, training={"epochs": 1})


def right(model: fotltn.Model) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Each public function and constructor, with arguments that it takes."""
    semantics = fotltn.SEMANTICS["godel"]
    calls: dict[str, dict[str, Any]] = {
        "AxiomLoss": {"theory": THEORY},
        "Classifier": {"theory": THEORY, "target": "Stop", "sort": "car", "entity": "who"},
        "Entity": {"name": "depot"},
        "Fold": {},
        "Measure": {"column": "speed", "at_least": 3.0},
        "ModelWatch": {"model": model},
        "Monitor": {"theory": THEORY},
        "PMean": {"p": 4.0},
        "Semantics": {"name": "mine"},
        "Watch": {"theory": THEORY},
        "Wide": {"source": ROWS, "sort": "car", "entity": "who"},
        "audit": {"theory": THEORY, "data": TABLES},
        "cells": {"formula": THEORY["Obey"], "data": TABLES},
        "check": {"theory": THEORY},
        "check_formula": {"formula": "F Stop(x)", "signature": THEORY},
        "compile": {"theory": THEORY, "data": TABLES},
        "evaluate": {"formula": THEORY["Obey"], "data": TABLES},
        "inspect": {"model": model},
        "laws": {"semantics": semantics},
        "load": {"path": "theory.fot"},
        "load_model": {"path": "model"},
        "load_project": {"project": "project"},
        "parse": {"text": TEXT},
        "parse_formula": {"text": "F Stop(x)"},
        "read": {"theory": THEORY},
        "report": {"model": model, "path": "report.html"},
        "rules": {"theory": THEORY, "data": TABLES, "resamples": 2},
        "save": {"theory": THEORY, "path": "theory.fot"},
        "show": {"node": THEORY["Obey"].formula},
        "show_theory": {"theory": THEORY},
        "steps": {"data": TABLES},
        "tables": {"theory": THEORY},
        "train": {"theory": THEORY, "facts": FACTS, "learn": ["Nothing"]},
    }
    return {name: (getattr(fotltn, name), arguments) for name, arguments in calls.items()}


def methods(model: fotltn.Model) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Methods of results, with arguments that they take."""
    watch, monitor = fotltn.Watch(THEORY), fotltn.Monitor(THEORY)
    cells = model.cells("Obey")
    classifier = fotltn.Classifier(
        THEORY, "Stop", sort="car", entity="who", time="t", predicates={"stop": "Stop"},
        features=["speed"], training={"epochs": 1},
    )  # fmt: skip
    classifier.fit(ROWS)
    where = {"axiom": "Obey", "binding": {"x": "ego"}, "time": 0}
    calls: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (model.apply, {"data": [ROWS]}),
        (model.ask, {"formula": "Stop(x)"}),
        (model.audit, {}),
        (model.cells, {"axiom": "Obey"}),
        (model.counterexample, {"axiom": "Obey"}),
        (model.decided, {}),
        (model.metrics, {}),
        (model.predictions, {}),
        (model.save, {"path": "folder"}),
        (model.truth_over_time, {"axiom": "Obey"}),
        (model.violations, {"axiom": "Obey"}),
        (model.why, where),
        (model.worst, {}),
        (watch.step, {"facts": []}),
        (watch.steps, {"steps": []}),
        (watch.finish, {}),
        (watch.restore, {"snapshot": watch.snapshot()}),
        (monitor.step, {"facts": []}),
        (monitor.steps, {"steps": []}),
        (cells.worst, {}),
        (cells.find, {"entities": {"x": "ego"}, "time": 0}),
        (TABLES.known, {"name": "Stop"}),
        (TABLES.predicate, {"name": "Stop"}),
        (TABLES.numbers, {"sort": "car", "trace": 0}),
        (fotltn.AxiomLoss(THEORY).forward, {"values": {"Near": TABLES.predicate("Near")}}),
        (classifier.predict, {"frame": ROWS}),
        (fotltn.plots.training_curves, {"history": model.history}),
        (fotltn.plots.axiom_curves, {"history": model.history}),
        (fotltn.plots.heat_map, {"rule": model.truth_over_time("Obey")}),
    ]
    return {callee.__qualname__: (callee, arguments) for callee, arguments in calls}


def test_every_public_name_is_called_or_not_callable(model):
    assert {*right(model), *NOT_CALLED} == set(fotltn.__all__)


def wrong(callee: Callable[..., Any], arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The arguments with each of them, and each that is left out, replaced by each of the pool."""
    for name, parameter in inspect.signature(callee).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        for value in POOL:
            yield {**arguments, name: value}


def call(callee: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Call a function; those that only store what they are told to use are used once."""
    parameters = inspect.signature(callee).parameters.values()
    at_places = {p.name for p in parameters if p.kind is p.POSITIONAL_ONLY}
    many = {p.name for p in parameters if p.kind is p.VAR_POSITIONAL}
    places = [arguments[p.name] for p in parameters if p.name in at_places and p.name in arguments]
    more = [arguments[name] for name in many if name in arguments]
    named = {n: v for n, v in arguments.items() if n not in at_places | many}
    if more:
        places, named = [named.pop("theory")], named
    result = callee(*places, *more, **named)
    if isinstance(result, Iterator):
        list(result)
    if isinstance(result, fotltn.Wide):
        fotltn.read(THEORY, wide=result)
    if isinstance(result, fotltn.Classifier):
        result.set_params(training={"epochs": "none"}).fit(ROWS)


@pytest.mark.parametrize("name", sorted(set(fotltn.__all__) - NOT_CALLED))
def test_a_wrong_argument_is_a_fot_error(name, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server = importlib.import_module("fotltn.web.serve")
    monkeypatch.setattr(server, "serve", lambda *_, **__: None)
    callee, arguments = right(model)[name]
    assert not escaped(name, callee, arguments)


def test_a_wrong_argument_of_a_method_is_a_fot_error(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lists = [escaped(name, *one) for name, one in methods(model).items()]
    assert not [error for errors in lists for error in errors]


def escaped(name: str, callee: Callable[..., Any], arguments: dict[str, Any]) -> list[str]:
    """What ends in another error than ours."""
    errors = []
    for changed in wrong(callee, arguments):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call(callee, changed)
        except fotltn.FotError:
            continue
        except Exception as error:
            (what,) = (n for n, v in changed.items() if n not in arguments or arguments[n] is not v)
            errors.append(f"{name}({what}={changed[what]!r:.40}): {type(error).__name__}: {error}")
    return errors


def test_there_are_many_wrong_arguments(model):
    assert sum(1 for one in right(model).values() for _ in wrong(*one)) > 5000


@pytest.mark.parametrize(
    "name", sorted(set(fotltn.__all__) - NOT_CALLED - {"Classifier", "Fold", "tables"})
)
def test_an_unknown_argument_has_a_hint(name, model):
    callee, arguments = right(model)[name]
    near = [*arguments][-1]
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{near}s'; (did|avail)"):
        callee(**arguments, **{f"{near}s": 3})
