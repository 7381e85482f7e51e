"""Training as a process of its own, interrupted and killed; run again, it ends as if it had not."""

import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fotltn.cli.main import app, main
from fotltn.errors import DataError, InterruptedTrainingError
from fotltn.project.callbacks import EachEpoch
from fotltn.project.config import read_config
from fotltn.project.model import load_model
from fotltn.project.train import train, train_and_save
from tests.cli.conftest import Call, caller, succeed
from tests.patience import PATIENCE
from tests.project.common import changed, project

EPOCHS = 30  # so that there is a checkpoint, and something to do after it


def lasting(epochs: int) -> str:
    return changed(("epochs = 6", f"epochs = {epochs}"), ("rate = 0.02", "rate = 0.001"))


LONG = lasting(100)  # so that there is time to kill it
SECONDS = PATIENCE

#: A training that waits, after its first checkpoint, until a line is sent to it.
WAITS = """
import sys
from fotltn.cli.main import main
from fotltn.learn import fit

def write_and_wait(*args, write=fit.write_checkpoint):
    write(*args)
    fit.write_checkpoint = write
    sys.stdin.readline()

fit.write_checkpoint = write_and_wait
main()
"""


def start(folder: Path, *program: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, *(program or ("-m", "fotltn")), "train", str(folder)], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
    )  # fmt: skip


def digest(model: Path) -> dict[str, str]:
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in model.iterdir()}


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run `fotltn` in this process, which is another than those that are disturbed."""
    return caller(app, monkeypatch, capsys)


def undisturbed_model(folder: Path, toml: str) -> dict[str, str]:
    """The model of a run that nothing disturbs."""
    succeed("train", project(folder, toml))
    return digest(folder / "model")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, str]:
    return undisturbed_model(tmp_path_factory.mktemp("undisturbed"), lasting(EPOCHS))


def until_checkpoints(folder: Path, process: subprocess.Popen[str]) -> None:
    """Wait until there is something to go on from."""
    for _ in range(SECONDS * 100):
        if any((folder / "model.checkpoints").glob("step-*")):
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    pytest.fail("there are no checkpoints")


def test_control_c_keeps_the_state_and_says_how_to_go_on(call, tmp_path, undisturbed):
    folder = project(tmp_path, lasting(EPOCHS))
    process = start(folder, "-c", WAITS)
    until_checkpoints(folder, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate("go on\n", timeout=SECONDS)
    assert process.returncode == 130
    assert out == ""
    assert "stopping; Ctrl-C again stops at once\n" in err
    assert "error: training was stopped after epoch " in err
    assert f" of {EPOCHS}\n      = run the same command to continue, or with --finish" in err
    assert "Traceback" not in err
    assert not (folder / "model").exists()
    stopped = int(err.split("after epoch ")[1].split(" ")[0])
    (latest,) = [
        f.name for f in (folder / "model.checkpoints").iterdir() if f.name == f"step-{stopped:06d}"
    ]
    assert latest
    again = call("train", folder)
    assert again.status == 0, again.err
    assert digest(folder / "model") == undisturbed
    assert not (folder / "model.checkpoints").exists()


def test_an_interrupted_run_is_finished(call, tmp_path):
    folder = project(tmp_path, lasting(EPOCHS))
    nothing = call("train", folder, "--finish")
    assert (nothing.status, nothing.out) == (1, "")
    assert "there is nothing to finish: no epoch is done" in nothing.err
    assert call("train", folder, "--finish", "--fresh").status == 2
    process = start(folder, "-c", WAITS)
    until_checkpoints(folder, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate("go on\n", timeout=SECONDS)
    stopped = int(err.split("after epoch ")[1].split(" ")[0])
    finished = call("train", folder, "--finish")
    assert finished.status == 0, finished.err
    assert f"ended early after epoch {stopped} of {EPOCHS}, best epoch " in finished.out
    assert len(load_model(folder / "model").history) == stopped
    assert not (folder / "model.checkpoints").exists()


@pytest.mark.reliability
def test_of_two_trainings_of_a_project_at_once_one_is_refused(call, tmp_path, undisturbed):
    folder = project(tmp_path, lasting(EPOCHS))
    first = start(folder, "-c", WAITS)
    until_checkpoints(folder, first)
    for options in ((), ("--fresh",)):
        second = call("train", folder, *options)
        assert (second.status, second.out) == (1, "")
        assert "model.checkpoints' is in use by another training: " in second.err
        assert f"process {first.pid} on {socket.gethostname()}, since 2" in second.err
    _, err = first.communicate("go on\n", timeout=SECONDS)
    assert first.returncode == 0, err
    assert digest(folder / "model") == undisturbed
    assert not (folder / "model.checkpoints").exists()


@pytest.mark.slow
def test_kills_at_random_moments_change_nothing(tmp_path):
    folder = project(tmp_path / "disturbed", LONG)
    draw = random.Random(5)
    for _ in range(5):
        process = start(folder)
        if draw.random() < 0.8:
            until_checkpoints(folder, process)
        try:
            process.communicate(timeout=draw.uniform(0, 1.5))
            break  # it was done
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=SECONDS)
        if (folder / "model").exists():
            break  # it was done, and about to end
    else:
        process = start(folder)
        _, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, err
    assert digest(folder / "model") == undisturbed_model(tmp_path / "undisturbed", LONG)


@pytest.mark.slow
def test_a_kill_leaves_the_old_model(tmp_path):
    """It is there until the new one is."""
    folder = project(tmp_path)
    train_and_save(read_config(folder), folder / "model")
    before = digest(folder / "model")
    (folder / "project.toml").write_text(LONG)
    process = start(folder)
    until_checkpoints(folder, process)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=SECONDS)
    assert digest(folder / "model") == before
    assert load_model(folder / "model").config.training.epochs == 6


# --- in this process --------------------------------------------------------------------------


def test_stopping_and_going_on_in_this_process(tmp_path):
    config = read_config(project(tmp_path))
    whole = train(config)
    seen: list[int] = []
    with pytest.raises(InterruptedTrainingError, match="stopped after epoch 2 of 6"):
        train(
            config, checkpoints=tmp_path / "c", stop=lambda: len(seen) >= 2,
            callbacks=[EachEpoch(lambda e: seen.append(e.number))],
        )  # fmt: skip
    seen.clear()
    model = train(
        config, checkpoints=tmp_path / "c", callbacks=[EachEpoch(lambda e: seen.append(e.number))]
    )
    assert seen == [1, 2, 3, 4, 5, 6]
    assert model.history == whole.history
    model.save(tmp_path / "a")
    whole.save(tmp_path / "b")
    assert digest(tmp_path / "a") == digest(tmp_path / "b")


def test_a_damaged_checkpoint_is_told_and_does_no_harm(tmp_path, capsys, monkeypatch):
    folder = project(tmp_path)
    config = read_config(folder)
    checkpoints = folder / "model.checkpoints"
    for count in (2, 4):
        seen: list[int] = []
        with pytest.raises(InterruptedTrainingError):
            train(
                config, checkpoints=checkpoints, stop=lambda: len(seen) >= count,  # noqa: B023
                callbacks=[EachEpoch(lambda e: seen.append(e.number))],  # noqa: B023
            )  # fmt: skip
    weights = checkpoints / "step-000004" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-7])
    monkeypatch.setattr(sys, "argv", ["fotltn", "train", str(folder)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert not stopped.value.code
    assert "warning: cannot read " in capsys.readouterr().err
    train(config).save(tmp_path / "whole")
    assert digest(folder / "model") == digest(tmp_path / "whole")


def test_checkpoints_of_other_settings_are_refused_unless_forgotten(tmp_path):
    folder = project(tmp_path)
    config = read_config(folder)
    with pytest.raises(InterruptedTrainingError):
        train(config, checkpoints=folder / "model.checkpoints", stop=lambda: True)
    project(folder, changed(("rate = 0.02", "rate = 0.01")))
    with pytest.raises(DataError, match=r"checkpoints .* belong to another task or other settings"):
        train_and_save(read_config(folder), folder / "model")
    train_and_save(read_config(folder), folder / "model", fresh=True)
    assert load_model(folder / "model").config.training.rate == 0.01


def test_other_given_facts_are_another_task(tmp_path):
    folder = project(tmp_path)
    with pytest.raises(InterruptedTrainingError):
        train(read_config(folder), checkpoints=folder / "c", stop=lambda: True)
    text = (folder / "facts.csv").read_text()
    (folder / "facts.csv").write_text(text.replace("Car,a1,,,r1,1", "Car,a1,,,r1,0"))
    with pytest.raises(DataError, match="another task"):
        train(read_config(folder), checkpoints=folder / "c")
