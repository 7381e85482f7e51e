"""`fotltn train --shards N` and torchrun: several processes, one model, the same for any number."""

import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fotltn.cli import shards
from fotltn.cli.shards import without_option
from tests.patience import PATIENCE

TOML = """\
[theory]
file = "theory.fot"

[data]
train = 0.7

[[data.wide]]
file = "pumps.csv"
sort = "pump"
entity = "pump"
time = "hour"
trace = "run"
predicates = {alarm = "Alarm", failed = "Failed"}
features = ["pressure"]
missing = {pressure = "mean"}

[inputs.pump]
embedding = 2

[predicates.Failed]
kind = "network"

[training]
epochs = EPOCHS
patience = 0
validation = 0.2

[machine]
dtype = "float64"
"""
THEORY = """\
sort pump
predicate Alarm(pump), Failed(pump)
axiom Warned: forall x. G(Failed(x) -> Alarm(x))
"""


def project(folder: Path, epochs: int = 3, runs: int = 5) -> Path:
    """Pumps in several runs of different lengths, one of which has one pump less."""
    rng, rows = random.Random(0), ["run,pump,hour,pressure,alarm,failed"]
    for run in range(runs):
        for pump in ("north", "south", "east")[: 2 if run == 1 else 3]:
            for hour in range(8 - run % 3):
                pressure = rng.gauss(4, 1.5)
                failed = "" if rng.random() < 0.4 else int(pressure < 2.5)
                rows.append(f"r{run},{pump},{hour},{pressure:.3f},{int(pressure < 3)},{failed}")
    folder.mkdir()
    (folder / "pumps.csv").write_text("\n".join(rows) + "\n", "utf-8")
    (folder / "theory.fot").write_text(THEORY, "utf-8")
    (folder / "project.toml").write_text(TOML.replace("EPOCHS", str(epochs)), "utf-8")
    return folder


def start(*command: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", *map(str, command)], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def run(*command: object) -> tuple[int, str, str]:
    process = start(*command)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def digest(model: Path) -> dict[str, str]:
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in model.iterdir()}


def children(process: subprocess.Popen[str], count: int) -> list[int]:
    """The processes that a process has started, in order."""
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until = time.monotonic() + PATIENCE
    while len(numbers := path.read_text().split()) < count:
        assert time.monotonic() < until
        time.sleep(0.01)
    return [*map(int, numbers)]


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Wait until there is a checkpoint."""
    while not any(path.glob("step-*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


on_linux = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")


def test_the_option_is_left_out_for_the_processes_that_it_starts():
    assert without_option(["train", "p", "--shards=3", "--json"]) == ["train", "p", "--json"]
    assert without_option(["train", "--shards", "3", "p"]) == ["train", "p"]


def test_a_process_that_fails_ends_the_wait_for_those_before_it(monkeypatch):
    monkeypatch.setattr(shards, "_GRACE", 0.1)
    lines = (f"import time; time.sleep({2 * PATIENCE})", "raise SystemExit(3)")
    processes = [subprocess.Popen([sys.executable, "-c", line]) for line in lines]
    try:
        shards._wait(processes)
        assert [process.returncode for process in processes] == [None, 3]
    finally:
        shards._end(processes)


@pytest.mark.slow
def test_shards_leave_the_same_model_whatever_their_number(tmp_path):
    folder = project(tmp_path / "p")
    models = []
    for count in (1, 2, 3):
        status, out, err = run("fotltn", "train", folder, "--shards", count)
        assert (status, "all epochs are done" in out) == (0, True), err
        models.append(digest(folder / "model"))
    assert models[0] == models[1] == models[2]
    assert "blocks = 16" in (folder / "model" / "project.toml").read_text("utf-8")
    assert not (folder / "model.checkpoints").exists()


@pytest.mark.slow
def test_shards_of_one_trace_leave_the_same_model_whatever_their_number(tmp_path):
    """There are 16 blocks of three pumps, so most blocks have nothing."""
    folder = project(tmp_path / "p", runs=1)
    models = []
    for count in (1, 2, 3, 4):
        status, out, err = run("fotltn", "train", folder, "--shards", count)
        assert (status, "all epochs are done" in out, "nothing to do" in err) == (0, True, False), (
            err
        )
        models.append(digest(folder / "model"))
    assert models[0] == models[1] == models[2] == models[3]


@pytest.mark.slow
def test_torchrun_leaves_the_same_model(tmp_path):
    folder = project(tmp_path / "p")
    assert run("fotltn", "train", folder, "--shards", 1)[0] == 0
    expected = digest(folder / "model")
    launcher = ("torch.distributed.run", "--standalone", "--nproc-per-node", 2)
    status, out, err = run(*launcher, "-m", "fotltn", "train", folder)
    assert status == 0, err
    assert out.count("all epochs are done") == 1
    assert digest(folder / "model") == expected


@pytest.mark.slow
def test_an_error_is_said_once(tmp_path):
    folder = project(tmp_path / "p")
    (folder / "theory.fot").write_text("sort pump\npredicate Alarm(pump\n", "utf-8")
    status, _, err = run("fotltn", "train", folder, "--shards", 2)
    assert (status, err.count("expected ')'")) == (1, 1)


@pytest.mark.slow
def test_more_processes_than_traces_are_warned_of(tmp_path):
    folder = project(tmp_path / "p", runs=1)
    toml = (folder / "project.toml").read_text("utf-8")
    one_block = toml.replace("[machine]", "blocks = 1\n\n[machine]")
    (folder / "project.toml").write_text(one_block, "utf-8")
    status, _, err = run("fotltn", "train", folder, "--shards", 2)
    assert status == 0
    assert "warning: 2 processes share 1 trace, so some had nothing to do" in err


def sampled_project(folder: Path, sweeps: int = 8) -> Path:
    """The same by sampling; rates of wrong labels are learned."""
    toml = (project(folder) / "project.toml").read_text("utf-8")
    toml = toml.replace("[inputs.pump]\nembedding = 2\n", "").replace('"network"', '"logits"')
    toml = toml.replace("validation = 0.2\n", "").replace("features", "# features")
    toml = toml.replace("missing", "# missing") + (
        f"[posterior]\nworlds = 5\nburn_in = 6\nsweeps = {sweeps}\nenough = 0\n"
        '[objective]\nmissed = "learned"\ninvented = "learned"\n'
    )
    (folder / "project.toml").write_text('method = "posterior"\n' + toml, "utf-8")
    return folder


@pytest.mark.slow
def test_shards_sample_the_same_worlds_whatever_their_number(tmp_path):
    folder = sampled_project(tmp_path / "p")
    models = []
    for count in (1, 2, 3, 6):
        status, out, err = run("fotltn", "train", folder, "--shards", count)
        assert (status, "all 14 sweeps are done" in out) == (0, True), err
        assert ("6 processes share 5 worlds" in err) == (count == 6)
        models.append(digest(folder / "model"))
    assert all(model == models[0] for model in models)


@on_linux
@pytest.mark.slow
def test_worlds_go_on_with_another_number_after_a_kill(tmp_path):
    folder = sampled_project(tmp_path / "p", sweeps=60)
    assert run("fotltn", "train", folder, "--shards", 1)[0] == 0
    expected = digest(folder / "model")
    process = start("fotltn", "train", folder, "--shards", 3, "--fresh")
    numbers = children(process, 3)
    wait_for(folder / "model.checkpoints", process)
    os.kill(numbers[1], signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE)
    assert "process 1 of 3 was killed by SIGKILL" in err
    status, _, err = run("fotltn", "train", folder, "--shards", 2)
    assert status == 0, err
    assert digest(folder / "model") == expected


@on_linux
@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_ends_all_and_the_next_start_goes_on(tmp_path, victim):
    folder = project(tmp_path / "p", epochs=80)
    assert run("fotltn", "train", folder, "--shards", 1)[0] == 0
    expected = digest(folder / "model")
    process = start("fotltn", "train", folder, "--shards", 3, "--fresh")
    numbers = children(process, 3)
    wait_for(folder / "model.checkpoints", process)
    os.kill(numbers[victim], signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == (137 if victim == 0 else 130)
    assert f"process {victim} of 3 was killed by SIGKILL" in err
    if victim:
        assert "another process of this training has ended" in err
        assert "run the same command to continue from the last checkpoint" in err
    assert not any(Path(f"/proc/{number}").exists() for number in numbers)
    status, _, err = run("fotltn", "train", folder, "--shards", 2)
    assert status == 0, err
    assert digest(folder / "model") == expected


def long_training(folder):
    """Two processes in the middle of a training, by that which started them, and their numbers."""
    process = start("fotltn", "train", project(folder, epochs=100_000), "--shards", 2)
    numbers = children(process, 2)
    wait_for(folder / "model.checkpoints", process)
    return process, numbers


@on_linux
@pytest.mark.slow
def test_a_killed_starter_takes_its_processes_along(tmp_path):
    process, numbers = long_training(tmp_path / "p")
    process.kill()
    process.communicate()
    until = time.monotonic() + PATIENCE
    while any(Path(f"/proc/{number}").exists() for number in numbers):
        assert time.monotonic() < until
        time.sleep(0.05)


@on_linux
@pytest.mark.slow
def test_an_interrupt_stops_all_after_an_epoch(tmp_path):
    process, numbers = long_training(tmp_path / "p")
    for number in (process.pid, numbers[0]):  # as a terminal would
        os.kill(number, signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "training was stopped after epoch" in err) == (130, True)


# --- other commands -----------------------------------------------------------------------------

COMMANDS = {
    "score": ("score", "p", "--json"),
    "audit": ("audit", "p", "--json"),
    "audit of a model": ("audit", "p/model", "--json"),
    "rules": ("rules", "p", "--json"),
    "rules of degrees": ("rules", "p/model", "--semantics", "godel"),
    "predict": ("predict", "p"),
    "eval": ("eval", "p/theory.fot", "--facts", "facts.csv", "--at", "all", "--json"),
    "score of one trace": ("score", "o", "--json"),
    "audit of one trace": ("audit", "o/model", "--json"),
    "rules of one trace": ("rules", "o", "--json"),
    "degrees of one trace": ("rules", "o/model", "--semantics", "godel"),
    "predict of one trace": ("predict", "o"),
    "eval of one trace": ("eval", "p/theory.fot", "--facts", "one.csv", "--json"),
    "truth of one trace": (
        "eval",
        "p/theory.fot",
        "--facts",
        "one.csv",
        "--semantics",
        "crisp",
        "--json",
    ),
    "score of blocks": ("score", "d", "--json"),
    "rules of blocks": ("rules", "d", "--json"),
    "predict of blocks": ("predict", "d"),
    "eval of blocks": ("eval", "d/theory.fot", "--facts", "d/blocks", "--at", "all", "--json"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a project that is trained."""
    folder = tmp_path_factory.mktemp("trained")
    for name, runs in (("p", 5), ("o", 1)):
        assert run("fotltn", "train", project(folder / name, runs=runs))[0] == 0
    on_disk = project(folder / "d")
    toml = (on_disk / "project.toml").read_text("utf-8").replace("embedding = 2", "embedding = 0")
    toml = toml.replace("[data]\n", '[data]\nprepared = "blocks"\n')
    (on_disk / "project.toml").write_text(toml, "utf-8")
    assert run("fotltn", "prepare", on_disk, "--traces", 2)[0] == 0
    assert run("fotltn", "train", on_disk)[0] == 0
    rows = [
        f"{name},{pump},{hour},{trace}"
        for trace in "abcde" for pump in ("north", "south") for hour in range(4)
        for name in ("Alarm", "Failed") if (ord(trace) + hour + len(pump) + len(name)) % 3
    ]  # fmt: skip
    (folder / "facts.csv").write_text("\n".join(["predicate,arg1,time,trace", *rows]), "utf-8")
    rows = [row for row in rows if row.endswith(",a")]
    (folder / "one.csv").write_text("\n".join(["predicate,arg1,time,trace", *rows]), "utf-8")
    return folder


def _rounded(text: str) -> str:
    """Text, with numbers rounded to 12 digits."""
    return re.sub(r"\d+\.\d{12,}", lambda found: f"{float(found[0]):.12g}", text)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_say_the_same_whatever_the_number_of_shards(trained, monkeypatch, name):
    """With uneven shares, and with more processes than traces."""
    monkeypatch.chdir(trained)
    plain = run("fotltn", *COMMANDS[name])
    assert plain[0] == 0
    shared = [run("fotltn", *COMMANDS[name], "--shards", count)[:2] for count in (1, 2, 7)]
    assert shared[0] == shared[1] == shared[2]
    assert _rounded(shared[0][1]) == _rounded(plain[1])


@pytest.mark.slow
def test_one_process_writes_what_all_predict(trained, monkeypatch):
    monkeypatch.chdir(trained)
    assert run("fotltn", "predict", "p", "-o", "alone.csv")[0] == 0
    assert run("fotltn", "predict", "p", "-o", "one.csv", "--shards", 1)[0] == 0
    launcher = ("torch.distributed.run", "--standalone", "--nproc-per-node", 2)
    status, out, err = run(*launcher, "-m", "fotltn", "predict", "p", "-o", "both.csv")
    assert (status, out.count("rows")) == (0, 1), err
    assert Path("both.csv").read_bytes() == Path("one.csv").read_bytes()
    shared, alone = (_rounded(Path(n).read_text("utf-8")) for n in ("both.csv", "alone.csv"))
    assert shared == alone


@pytest.mark.slow
def test_an_error_of_a_command_is_said_once(trained, monkeypatch):
    monkeypatch.chdir(trained)
    status, _, err = run("fotltn", "eval", "p/theory.fot", "--facts", "none.csv", "--shards", 3)
    assert (status, err.count("none.csv")) == (1, 1)


@on_linux
@pytest.mark.slow
def test_a_killed_process_ends_a_command(trained, monkeypatch):
    """It is stopped before it can meet the others, so that these wait for it."""
    monkeypatch.chdir(trained)
    process = start("fotltn", "rules", "p", "--shards", 3)
    victim = children(process, 3)[1]
    os.kill(victim, signal.SIGSTOP)
    time.sleep(1)
    os.kill(victim, signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert "process 1 of 3 was killed by SIGKILL" in err
    assert "Traceback" not in err
