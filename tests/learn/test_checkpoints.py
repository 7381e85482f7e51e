"""Checkpoints survive kills, and what is damaged is skipped."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch

from fotltn import DataError, files
from fotltn.errors import Severity
from fotltn.learn import store
from fotltn.learn.checkpoints import clear_checkpoints, latest_checkpoint, write_checkpoint
from fotltn.learn.fit import fit
from fotltn.learn.store import MANIFEST, WEIGHTS, write_folder
from tests.learn import tasks
from tests.learn.test_store_damage import reseal
from tests.patience import PATIENCE


def write(folder, step):
    return write_checkpoint(folder, step, {"w": torch.full((3,), float(step))}, {"s.json": [step]})


def latest(folder):
    found = latest_checkpoint(folder)
    assert found.warnings == ()
    return found.checkpoint.step if found.checkpoint else None


def test_the_last_two_are_kept(tmp_path):
    folder = tmp_path / "runs" / "a"
    assert latest_checkpoint(folder).checkpoint is None
    for step in range(0, 50, 10):
        assert write(folder, step) == folder / f"step-{step:06d}"
        assert latest(folder) == step
    assert sorted(os.listdir(folder)) == ["step-000030", "step-000040"]
    checkpoint = latest_checkpoint(folder).checkpoint
    assert checkpoint is not None
    assert checkpoint.path == folder / "step-000040"
    assert torch.equal(checkpoint.tensors["w"], torch.full((3,), 40.0))
    assert checkpoint.documents == {"s.json": [40]}


def test_steps_are_ordered_as_numbers(tmp_path):
    write(tmp_path, 999_999)
    write(tmp_path, 1_000_000)
    assert latest(tmp_path) == 1_000_000
    write(tmp_path, 1_000_001)
    assert sorted(os.listdir(tmp_path)) == ["step-1000000", "step-1000001"]


def test_a_damaged_one_is_skipped_with_a_warning(tmp_path):
    write(tmp_path, 1)
    damaged = write(tmp_path, 2) / WEIGHTS
    damaged.write_bytes(damaged.read_bytes()[:-2])
    found = latest_checkpoint(tmp_path)
    assert found.checkpoint is not None
    assert found.checkpoint.step == 1
    (warning,) = found.warnings
    assert warning.severity is Severity.WARNING
    assert "step-000002" in warning.message
    assert "cut short" in warning.message

    (tmp_path / "step-000001" / MANIFEST).unlink()
    found = latest_checkpoint(tmp_path)
    assert found.checkpoint is None
    assert len(found.warnings) == 2


def test_going_back_makes_the_written_one_the_latest(tmp_path):
    for step in (1, 2, 3):
        write(tmp_path, step)
    (tmp_path / "step-000003" / MANIFEST).unlink()
    write(tmp_path, 3)
    assert latest(tmp_path) == 3
    write(tmp_path, 2)
    assert sorted(os.listdir(tmp_path)) == ["step-000002"]
    assert latest(tmp_path) == 2


def test_other_files_are_left_alone(tmp_path):
    for name in ("notes.txt", "step-1", "step-abc", "model"):
        (tmp_path / name).mkdir()
    for step in range(4):
        write(tmp_path, step)
    assert latest(tmp_path) == 3
    clear_checkpoints(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["model", "notes.txt", "step-1", "step-abc"]
    assert latest(tmp_path) is None
    clear_checkpoints(tmp_path / "nowhere")


def test_what_is_no_checkpoint_is_not_taken(tmp_path):
    write(tmp_path, 1)
    write_folder(tmp_path / "step-000005", {}, {}, kind="model")
    shutil.copytree(tmp_path / "step-000001", tmp_path / "elsewhere")
    (tmp_path / "step-000006").symlink_to(tmp_path / "elsewhere")
    found = latest_checkpoint(tmp_path)
    assert found.checkpoint is not None
    assert found.checkpoint.step == 1
    link, kind = (w.message for w in found.warnings)
    assert "it is a link, not a folder" in link
    assert "it is a 'model', not a 'checkpoint'" in kind


def tree(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.mark.reliability
@pytest.mark.parametrize("step", [1, 2])
def test_one_of_a_later_version_is_kept_and_nothing_is_trained(tmp_path, step):
    """Whether it is the newest or not: what this program cannot read, it must not remove."""
    for number in (1, 2):
        write(tmp_path, number)
    reseal(tmp_path / f"step-00000{step}", lambda body: body.update(version=2, fotltn="9.0"))
    before = tree(tmp_path)
    with pytest.raises(DataError) as refused:
        fit(tasks.task(), checkpoints=tmp_path)
    message, hint = str(refused.value).split("\n")
    assert "it has version 2 of the format, written by fotltn '9.0'" in message
    assert (
        "continue with a version of fotltn, or on a machine, that can read it; or start over"
        in hint
    )
    assert tree(tmp_path) == before


@pytest.mark.reliability
@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), MemoryError()])
def test_one_that_cannot_be_read_now_is_not_taken_for_damaged(tmp_path, monkeypatch, error):
    for number in (1, 2):
        write(tmp_path, number)
    before, real = tree(tmp_path), files.read_file

    def read_file(path, **options):
        if path == tmp_path / "step-000002" / WEIGHTS:
            raise error
        return real(path, **options)

    monkeypatch.setattr(store, "read_file", read_file)
    with pytest.raises(DataError, match=r"cannot read .*(Permission denied|not fit into memory)"):
        fit(tasks.task(), checkpoints=tmp_path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("step", [-1, 10**18])
def test_bad_steps(tmp_path, step):
    with pytest.raises(DataError, match=f"a step must be a whole number of at least 0, not {step}"):
        write(tmp_path, step)


def test_a_file_instead_of_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot read .*file: Not a directory"):
        latest_checkpoint(tmp_path / "file")
    with pytest.raises(DataError, match=r"cannot write .*file"):
        write(tmp_path / "file", 1)


@pytest.fixture
def ended():
    with contextlib.ExitStack() as stack:
        yield stack


#: Starts a writer whenever asked, which says each step that it has written, until it is killed.
#: Writers resume from the latest checkpoint; every third step is written a second time.
SERVER = """
import os, sys, torch
from fotltn.learn.checkpoints import latest_checkpoint, write_checkpoint

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def work(folder):
    found = latest_checkpoint(folder)
    step = found.checkpoint.step if found.checkpoint else 0
    while os.getppid() == parent:
        step += 1
        tensors = {"w": torch.full((2000,), float(step))}
        for _ in range(2 if step % 3 == 0 else 1):
            write_checkpoint(folder, step, tensors, {"s.json": {"step": step}})
        say("step", step)

parent = os.getpid()
say("ready")
for line in sys.stdin:
    gate, go = os.pipe()
    child = os.fork()
    if not child:
        os.read(gate, 1)
        work(sys.argv[1])
    say("child", child)
    os.write(go, b"x")
    os.waitpid(child, 0)
    say("dead")
"""


def test_a_writer_killed_at_any_moment_leaves_a_checkpoint_that_reads(tmp_path, ended):
    """Twenty kills: the latest one is that last said to be written, or the next."""
    chance = random.Random(4)
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    ended.enter_context(server)
    ended.callback(server.kill)
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    reported, written = 0, []
    for kill in range(20):
        server.stdin.write("go\n")
        server.stdin.flush()
        said = [server.stdout.readline()]
        assert said[0].startswith("child")
        if kill % 2:  # not before something is written, however slow the disk is
            said.append(server.stdout.readline())
        time.sleep(chance.uniform(0, 0.2))
        os.kill(int(said[0].split()[1]), signal.SIGKILL)
        while said[-1] != "dead\n":
            said.append(server.stdout.readline())
        reported = max([reported, *(int(s.split()[1]) for s in said if s.startswith("step"))])
        found = latest_checkpoint(tmp_path)
        assert found.warnings == ()
        if found.checkpoint is None:
            assert reported == 0
            continue
        step = found.checkpoint.step
        assert step in (reported, reported + 1)
        assert torch.equal(
            found.checkpoint.tensors["w"], torch.full((2000,), float(step), dtype=torch.float32)
        )
        assert found.checkpoint.documents == {"s.json": {"step": step}}
        written.append(step)
        reported = step
    server.stdin.close()
    assert server.wait(timeout=PATIENCE) == 0
    assert written == sorted(written)
    assert written[-1] >= 10
    write(tmp_path, reported + 1)  # clears what the killed ones left
    assert len(os.listdir(tmp_path)) == 2
