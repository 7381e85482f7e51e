"""A search for settings: what may be searched, what judges, and that it goes on."""

import re
from pathlib import Path

import pytest

from fotltn import DataError
from fotltn.errors import InterruptedTrainingError
from fotltn.project.config import read_config
from fotltn.project.tune import STORAGE, TUNED, SearchedSetting, choice_of, tune
from tests.cli.test_shards import project
from tests.cli.test_tune import needs_optuna

SEARCH = ("training.rate=0.001..0.1:log", "inputs.pump.embedding=1,2,3")


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("objective.weight=0.1..10:log", SearchedSetting("objective.weight", (), 0.1, 10, True)),
        ("inputs.pump.embedding = 2..8", SearchedSetting("inputs.pump.embedding", (), 2, 8)),
        ("predicates.Failed.activation=elu,tanh",
         SearchedSetting("predicates.Failed.activation", ("elu", "tanh"))),
        ("training.keep_best=true,false", SearchedSetting("training.keep_best", (True, False))),
        ("theory.p=4", SearchedSetting("theory.p", (4,))),
    ],
)  # fmt: skip
def test_what_a_setting_may_be(text, choice):
    assert choice_of(text) == choice


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training.rate", "does not state the values of a setting"),
        ("training.rate=", "does not state the values of a setting"),
        ("training.rate=2..1", "has no range"),
        ("training.rate=a..b", "has no range"),
        ("training.rate=0..1:log", "must begin above 0"),
        ("training.seed=1,2", "'training.seed' cannot be searched"),
        ("training.validation=0.1..0.5", "cannot be searched"),
        ("data.train=0.1..0.5", "'data.train' cannot be searched"),
        ("rate=1..2", "'rate' cannot be searched"),
    ],
)
def test_what_is_no_search(text, message):
    with pytest.raises(DataError, match=re.escape(message)):
        choice_of(text)


@needs_optuna
@pytest.mark.parametrize(
    ("search", "message"),
    [
        ((), "no settings to search for were named"),
        (("training.rote=1..2",), "unknown key 'training.rote'"),
        (("training.optimiser=adam,x", "training.optimiser=sgd"), "was named twice"),
        (("training.rate=-2..-1",), "training.rate"),
        (("training.rate.x=1",), "training.rate: expected a number"),
        (("training.rate=2", "training.rate.x=1"), "'training.rate.x' is not a setting"),
    ],
)
def test_errors_come_before_trials(tmp_path, search, message):
    with pytest.raises(DataError, match=re.escape(message)):
        tune(project(tmp_path / "p"), search)
    assert not (tmp_path / "p" / STORAGE).exists()


def without_validation(folder: Path) -> Path:
    file = folder / "project.toml"
    file.write_text(file.read_text("utf-8").replace("validation = 0.2", "validation = 0"), "utf-8")
    return folder


@needs_optuna
def test_settings_are_judged_on_watched_facts_alone(tmp_path):
    folder = without_validation(project(tmp_path / "p"))
    with pytest.raises(DataError, match="judged on validation facts") as raised:
        tune(folder, SEARCH)
    assert "validation = 0.1" in str(raised.value)


@needs_optuna
@pytest.mark.slow
def test_a_search_goes_on_to_the_same_end(tmp_path):
    """Also if it was stopped twice; and the best settings make a project of their own."""
    folder = project(tmp_path / "a")
    whole = tune(folder, SEARCH, trials=5, metric="log_loss")
    assert whole.best is not None
    assert whole.best.value == min(trial.value or 0 for trial in whole.trials)
    other = project(tmp_path / "b")

    def stop(after: int):
        def told(number, _):
            if number == after:
                raise KeyboardInterrupt

        return told

    for after in (-1, 2):
        with pytest.raises(KeyboardInterrupt):
            tune(other, SEARCH, trials=5, metric="log_loss", on_trial=stop(after))
    again = tune(other, SEARCH, trials=5, metric="log_loss")
    assert (again.trials, again.before, again.best) == (whole.trials, whole.before, whole.best)
    chosen = read_config(folder / TUNED)
    assert chosen.training.rate == whole.best.settings["training.rate"]
    assert chosen.inputs["pump"].embedding == whole.best.settings["inputs.pump.embedding"]
    assert chosen.model == "model-tuned"
    seen = []
    more = tune(other, SEARCH, trials=7, metric="log_loss", on_trial=lambda n, _: seen.append(n))
    assert more.trials[:5] == whole.trials
    assert seen == [-1, 5, 6]
    with pytest.raises(DataError, match="has another metric") as raised:
        tune(other, SEARCH, trials=7)
    assert "--fresh" in str(raised.value)


@needs_optuna
@pytest.mark.slow
def test_labels_for_testing_change_nothing(tmp_path):
    """Those of the trace to test on are turned round, and the search comes to the same."""
    outcomes = []
    for name in ("a", "b"):
        folder = project(tmp_path / name)
        file, table = folder / "project.toml", folder / "pumps.csv"
        split = '[data.split]\nfile = "parts.csv"\ntrace = "run"\ncolumn = "part"\n'
        text = (
            file.read_text("utf-8").replace("train = 0.7\n", "").replace("validation = 0.2\n", "")
        )
        file.write_text(f'{text}{split}validation = "watch"\n', "utf-8")
        parts = ("train", "train", "train", "watch", "test")
        rows = [f"r{number},{part}" for number, part in enumerate(parts)]
        (folder / "parts.csv").write_text("\n".join(["run,part", *rows]), "utf-8")
        lines = table.read_text("utf-8").splitlines()
        stated = [n for n, line in enumerate(lines) if line.startswith("r4") and line[-1] in "01"]
        for place in stated if name == "b" else ():
            lines[place] = lines[place][:-1] + str(1 - int(lines[place][-1]))
        table.write_text("\n".join(lines) + "\n", "utf-8")
        assert len(stated) > 3
        outcomes.append(tune(folder, SEARCH, trials=2, metric="log_loss").trials)
    assert outcomes[0] == outcomes[1]


@needs_optuna
def test_a_trial_that_is_stopped_stops_the_search(tmp_path, monkeypatch):
    def stopped(*_):
        raise InterruptedTrainingError("training was stopped after epoch 1 of 3")

    monkeypatch.setattr("fotltn.project.tune.tried", stopped)
    with pytest.raises(InterruptedTrainingError, match="the search was stopped") as raised:
        tune(project(tmp_path / "p"), SEARCH)
    assert "run the same command to continue" in str(raised.value)
