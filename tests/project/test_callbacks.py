"""Callbacks are told of training whatever happens; loggers say the same to other programs."""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fotltn
from fotltn import Callback, DataError
from fotltn.errors import InterruptedTrainingError
from fotltn.project.callbacks import EachEpoch
from fotltn.project.config import lasting, read_config
from fotltn.project.loggers import LOGGERS, as_callbacks, results, scalars
from fotltn.project.model import Model, load_model
from fotltn.project.train import train
from tests.cli.conftest import succeed
from tests.patience import PATIENCE
from tests.project.common import project

THEORY = "sort s\npredicate A(s)\naxiom Q: forall x. G A(x)"
FACTS = {
    "predicate": ["A"] * 8,
    "arg1": ["a"] * 8,
    "time": list(range(8)),
    "truth": [1, 0, 1, 1, 0, 1, 0, 1],
}


class Notes(Callback):
    """Notes what it is told."""

    def __init__(self, name: str = "", told: list[Any] | None = None) -> None:
        self.name, self.told = name, [] if told is None else told

    def start(self, model):
        assert isinstance(model, Model)
        assert not model.history
        self.told.append(f"{self.name}start")

    def epoch(self, epoch):
        self.told.append(epoch.number)

    def end(self, model):
        self.told.append(f"{self.name}end" if model is None else model)


class Fails(Callback):
    """Fails in the first epoch."""

    def epoch(self, epoch):
        raise KeyError(epoch.number)


def learn(**settings: Any) -> Model:
    defaults: dict[str, Any] = {"training": {"epochs": 3}, "train": 0.5}
    return fotltn.train(THEORY, facts=FACTS, learn=["A"], **{**defaults, **settings})


# --- the protocol -------------------------------------------------------------------------------


def test_callbacks_are_told_of_start_epochs_and_end():
    notes, seen = Notes(), []
    model = learn(callbacks=[lambda e: seen.append(e.number), notes])
    assert notes.told == ["start", 1, 2, 3, model]
    assert seen == [1, 2, 3]


def test_callbacks_change_nothing():
    plain, told = learn(), learn(callbacks=[Notes(), Notes()])
    assert plain.tables.predicate("A").equal(told.tables.predicate("A"))


def test_all_that_were_started_are_ended_whatever_happens():
    class FailsAtTheEnd(Notes):
        def end(self, model):
            super().end(model)
            raise ValueError("at the end")

    told: list[Any] = []
    with pytest.raises(KeyError):
        learn(callbacks=[Notes("a", told), Fails(), Notes("b", told)])
    assert told == ["astart", "bstart", 1, "aend", "bend"]
    told.clear()
    with pytest.raises(ValueError, match="at the end"):
        learn(callbacks=[FailsAtTheEnd("a", told), Notes("b", told)])
    assert told[-2:] == [told[-1]] * 2
    assert isinstance(told[-1], Model)

    class FailsAtTheStart(Callback):
        def start(self, model):
            raise KeyError(model.reason)

    told.clear()
    with pytest.raises(KeyError):
        learn(callbacks=[Notes("a", told), FailsAtTheStart(), Notes("b", told)])
    assert told == ["astart", "aend"]
    told.clear()
    with pytest.raises(DataError):
        learn(callbacks=[Notes("a", told)], training={"epochs": 0})
    assert told == []


def test_a_stop_ends_callbacks_and_epochs_are_told_again(tmp_path):
    config = read_config(project(tmp_path / "p"))
    first, second = Notes(), Notes()
    with pytest.raises(InterruptedTrainingError):
        train(config, checkpoints=tmp_path / "c", callbacks=[first], stop=lambda: True)
    model = train(config, checkpoints=tmp_path / "c", callbacks=[second])
    assert first.told == ["start", 1, "end"]
    assert second.told == ["start", *range(1, 7), model]


def test_anything_with_the_three_methods_is_a_callback():
    duck = SimpleNamespace(start=lambda _: None, epoch=lambda _: None, end=lambda _: None)
    learn(callbacks=[duck])
    with pytest.raises(DataError, match=r"is not a callback: it has no 'start', 'epoch', 'end'"):
        learn(callbacks=[3])
    with pytest.raises(DataError, match="it has no 'end'"):
        learn(callbacks=[SimpleNamespace(start=print, epoch=print)])
    assert [type(one) for one in as_callbacks([EachEpoch(print)])] == [EachEpoch]


def test_sweeps_are_told_to_those_who_want_to_know(monkeypatch):
    duck: Any = SimpleNamespace(start=lambda _: None, epoch=lambda _: None, end=lambda _: None)
    fake = FakeMLflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    facts = {"predicate": ["A", "A"], "arg1": ["a", "b"], "time": [0, 3]}
    fotltn.train(
        "sort s\npredicate A(s)", facts=facts, learn=["A"], method="posterior",
        posterior={"burn_in": 2, "sweeps": 20}, callbacks=[duck, "mlflow"],
    )  # fmt: skip
    told = {step: set(numbers) for kind, (step, numbers) in metrics_of(fake) if step is not None}
    assert told == {12: {"r_hat/A", "effective/A"}, 22: {"r_hat/A", "effective/A"}}
    assert fake.calls[-1] == ("end", "FINISHED")


def metrics_of(fake: Any) -> list[Any]:
    return [call for call in fake.calls if call[0] == "metrics"]


# --- loggers ------------------------------------------------------------------------------------


MODULES = {"tensorboard": "torch.utils.tensorboard", "mlflow": "mlflow", "wandb": "wandb"}


@pytest.mark.parametrize("kind", LOGGERS)
def test_a_package_that_is_missing_is_named_with_its_extra(kind, monkeypatch):
    monkeypatch.setitem(sys.modules, MODULES[kind], None)
    with pytest.raises(DataError, match=f"need the package {kind}(.|\n)*its extra '{kind}'"):
        learn(callbacks=[kind])


def test_logs_of_an_unknown_kind():
    with pytest.raises(DataError, match="no logs of the kind 'mlfow'; did you mean 'mlflow'"):
        learn(callbacks=["mlfow:here"])


def test_every_kind_is_an_extra():
    import tomllib

    text = (Path(fotltn.__file__).parent.parent / "pyproject.toml").read_text("utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    assert all(extras[kind][0].startswith(kind) for kind in LOGGERS)


def test_what_is_logged():
    model = learn()
    report = model.metrics()
    assert report is not None
    numbers = results(model)
    assert numbers["test/A/facts"] == 4
    assert numbers["test/A/accuracy"] == report.predicates["A"].accuracy.value
    assert numbers["test/mean/brier"] == report.mean["brier"].value
    assert results(learn(train=1.0)) == {}
    epoch = model.history[0]
    assert scalars(epoch) == {
        "loss/total": epoch.loss, "loss/facts": epoch.facts, "loss/watched": epoch.watched,
        "axioms/Q": epoch.values["Q"],
    }  # fmt: skip


class FakeMLflow:
    """What MLflow would be told."""

    class exceptions:  # noqa: N801
        MlflowException = KeyError

    def __init__(self, refuse: str = "") -> None:
        self.calls: list[tuple[str, Any]] = []
        self.uri, self.active, self.refuse = "usual", False, refuse
        self.files: set[str] = set()

    def get_tracking_uri(self):
        return self.uri

    def set_tracking_uri(self, uri):
        self.uri = uri

    def active_run(self):
        return self.active or None

    def start_run(self):
        self.active = True
        self.calls.append(("start", self.uri))

    def end_run(self, status):
        self.active = False
        self.calls.append(("end", status))

    def log_params(self, params):
        assert len(params) <= 100
        self.calls.append(("params", params))

    def log_metrics(self, metrics, step=None):
        if self.refuse in metrics:
            raise KeyError("no\nroom")
        self.calls.append(("metrics", (step, metrics)))

    def log_artifacts(self, folder, name):
        assert name == "model"
        load_model(folder)
        self.files = set(os.listdir(folder))


def test_mlflow_is_told_everything(monkeypatch):
    fake = FakeMLflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    model = learn(callbacks=["mlflow:sqlite:///runs.db"])
    kinds = [kind for kind, _ in fake.calls]
    assert kinds[0] == "start"
    assert fake.calls[0][1] == "sqlite:///runs.db"
    assert fake.calls[-1] == ("end", "FINISHED")
    assert fake.uri == "usual"
    params = {n: v for kind, part in fake.calls if kind == "params" for n, v in part.items()}
    assert params == {n: str(v) for n, v in lasting(model.config).items()}
    assert params["training.epochs"] == "3"
    by_step = [told for kind, told in fake.calls if kind == "metrics"]
    assert by_step[:3] == [(e.number, scalars(e)) for e in model.history]
    assert by_step[-1][1] == results(model)
    assert {"README.md", "manifest.json", "weights.safetensors"} <= fake.files


def test_a_run_of_mlflow_that_is_active_is_used_and_left(monkeypatch):
    fake = FakeMLflow()
    fake.active = True
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    learn(callbacks=["mlflow"])
    assert {kind for kind, _ in fake.calls} == {"params", "metrics"}
    assert fake.active


def test_what_mlflow_refuses_is_an_error_and_the_run_has_failed(monkeypatch):
    for refuse in ("loss/total", "test/A/facts"):
        fake = FakeMLflow(refuse)
        monkeypatch.setitem(sys.modules, "mlflow", fake)
        with pytest.raises(DataError, match="MLflow refuses: 'no"):
            learn(callbacks=["mlflow:here"])
        assert fake.calls[-1] == ("end", "FAILED")
        assert (fake.active, fake.uri) == (False, "usual")


# --- with the programs themselves -----------------------------------------------------------------


def values(kind: str, log: Any) -> dict[str, list[float]]:
    return {n: [e.value for e in log.Scalars(n)] for n in log.Tags()["scalars"] if kind in n}


@pytest.mark.filterwarnings("default")
def test_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import (  # type: ignore
        EventAccumulator,
    )

    model = learn(callbacks=[f"tensorboard:{tmp_path / 'logs'}"])
    log = EventAccumulator(str(tmp_path / "logs"))
    log.Reload()
    losses = values("loss/total", log)["loss/total"]
    assert losses == pytest.approx([e.loss for e in model.history], rel=1e-6)
    assert values("axioms", log).keys() == {"axioms/Q"}
    assert values("test", log).keys() == results(model).keys()


@pytest.mark.filterwarnings("default")
def test_tensorboard_and_the_command(tmp_path):
    folder = project(tmp_path / "p")
    for option in (["--tensorboard", str(tmp_path / "a")], ["--log", f"tensorboard:{tmp_path}/b"]):
        succeed("train", folder, "--json", "-o", tmp_path / "model", *option)
    assert [len(list((tmp_path / name).iterdir())) for name in "ab"] == [1, 1]


@pytest.mark.filterwarnings("default")
def test_mlflow(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow: Any = importlib.import_module("mlflow")
    place = (tmp_path / "runs").as_uri()
    model = learn(callbacks=[f"mlflow:{place}"])
    client = mlflow.tracking.MlflowClient(place)
    (run,) = client.search_runs(["0"])
    assert run.info.status == "FINISHED"
    assert run.data.params["training.epochs"] == "3"
    assert run.data.metrics["test/A/accuracy"] == results(model)["test/A/accuracy"]
    history = client.get_metric_history(run.info.run_id, "axioms/Q")
    assert [(m.step, m.value) for m in history] == [
        (e.number, pytest.approx(e.values["Q"])) for e in model.history
    ]
    folder = client.download_artifacts(run.info.run_id, "model", str(tmp_path))
    assert load_model(folder).tables.predicate("A").equal(model.tables.predicate("A"))
    with pytest.raises(KeyError):
        learn(callbacks=[f"mlflow:{place}", Fails()])
    assert sorted(r.info.status for r in client.search_runs(["0"])) == ["FAILED", "FINISHED"]


@pytest.mark.filterwarnings("default")
def test_weights_and_biases(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path))
    wandb: Any = importlib.import_module("wandb")
    seen: dict[str, Any] = {}

    class Look(Callback):
        def end(self, model):  # noqa: ARG002
            seen["summary"] = dict(wandb.run.summary)
            seen["config"] = dict(wandb.run.config)

    model = learn(callbacks=[Look(), "wandb:team/project"])
    assert wandb.run is None
    assert seen["config"]["training.epochs"] == 3
    assert seen["summary"]["loss/total"] == pytest.approx(model.history[-1].loss)
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    (log,) = folder.glob("*.wandb")
    end = time.monotonic() + PATIENCE  # another process writes it, a little later
    while b"fotltn-model" not in log.read_bytes() and time.monotonic() < end:
        time.sleep(0.05)
    assert all(word in log.read_bytes() for word in (b"fotltn-model", b"test/A/accuracy"))
