"""Folders are replaced as a whole, whatever fails or dies at whatever moment."""

import errno
import os
import resource
import subprocess
import sys
import threading

import pytest
import torch

from fotltn import DataError
from fotltn.learn import folders
from fotltn.learn.store import MANIFEST, read_folder, write_folder
from tests.learn.common import refusal, same, write

OLD = {"a": torch.zeros(4)}
NEW = {"a": torch.ones(4)}

#: What a write does to the disk, and what a removal does.
CALLS = ("mkdir", "open", "write", "fsync", "rename", "unlink", "rmdir")


def value(folder):
    return read_folder(folder, kind="model").tensors["a"][0].item()


class Faults:
    """Counts calls to the system and lets one of them fail."""

    def __init__(self, monkeypatch, at, error):
        self.count = 0
        for name in CALLS:
            monkeypatch.setattr(os, name, self.wrap(name, getattr(os, name), at, error))

    def wrap(self, name, call, at, error):
        def wrapped(*arguments, **options):
            self.count += 1
            if self.count == at:
                if name == "write":  # some of it was written
                    call(arguments[0], bytes(arguments[1])[:1])
                raise error
            return call(*arguments, **options)

        return wrapped


def attempts(tmp_path, monkeypatch, error, *, exists):
    """Fail at the first call, at the second, and so on; gives what was raised and what is left."""
    for at in range(1, 200):
        folder = tmp_path / str(at) / "m"
        if exists:
            write(folder, OLD)
        else:
            folder.parent.mkdir()
        raised = None
        with monkeypatch.context() as patch:
            faults = Faults(patch, at, error)
            try:
                write(folder, NEW)
            except (DataError, KeyboardInterrupt) as caught:
                raised = caught
        yield folder, raised
        if faults.count < at:
            return
    raise AssertionError("a write never came to its end")


@pytest.mark.parametrize("exists", [True, False])
def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch, exists):
    full = OSError(errno.ENOSPC, "No space left on device")
    outcomes = []
    for folder, raised in attempts(tmp_path, monkeypatch, full, exists=exists):
        left = set(os.listdir(folder.parent))
        if raised is None:
            assert value(folder) == 1
        else:
            assert "m: No space left on device" in str(raised)
            assert left <= {"m"}, "temporary files stay behind"
            if folder.exists():
                outcomes.append(value(folder))
            else:
                assert not exists
                outcomes.append(None)
        write(folder, NEW)
        assert os.listdir(folder.parent) == ["m"]
    assert len(outcomes) > 12
    assert set(outcomes) == {0 if exists else None}


def test_an_interrupt_by_the_user_leaves_what_was_there(tmp_path, monkeypatch):
    seen = set()
    for folder, raised in attempts(tmp_path, monkeypatch, KeyboardInterrupt(), exists=True):
        assert value(folder) in (0, 1)
        seen.add((type(raised), value(folder)))
        write(folder, OLD)
        assert os.listdir(folder.parent) == ["m"]
    assert (KeyboardInterrupt, 0) in seen


def test_a_real_limit_on_the_size_of_files(tmp_path):
    """The system refuses to write beyond a limit, as it does when a disk is full."""
    folder = write(tmp_path / "m", OLD)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(DataError) as refused:
            write_folder(folder, {"a": torch.ones(10000)}, {}, kind="model")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(refused.value) == f"error: cannot write {folder}: File too large"
    assert value(folder) == 0
    assert os.listdir(tmp_path) == ["m"]


def test_a_process_that_dies_at_any_call_leaves_a_readable_folder(tmp_path):
    """A child dies at its first call to the system, the next at its second, and so on."""
    code = f"""
import os, sys, torch
from pathlib import Path
from fotltn.learn.store import read_folder, write_folder

def die_at(at):
    count = 0
    def wrap(name, call):
        def wrapped(*arguments, **options):
            nonlocal count
            count += 1
            if count == at:
                if name == "write":
                    call(arguments[0], bytes(arguments[1])[:1])
                os._exit(9)
            return call(*arguments, **options)
        return wrapped
    for name in {CALLS}:
        setattr(os, name, wrap(name, getattr(os, name)))

def value(folder):
    return read_folder(folder, kind="model").tensors["a"][0].item()

for at in range(1, 200):
    folder = Path(sys.argv[1]) / str(at) / "m"
    write_folder(folder, {{"a": torch.zeros(4)}}, {{"x.txt": "old"}}, kind="model")
    child = os.fork()
    if not child:
        die_at(at)
        write_folder(folder, {{"a": torch.ones(4)}}, {{}}, kind="model")
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = value(folder)
    between = not folder.exists()
    write_folder(folder, {{"a": torch.full((4,), 2.0)}}, {{}}, kind="model")
    print(status, found, int(between), value(folder), os.listdir(folder.parent) == ["m"])
    if status == 0:
        break
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    assert len(rows) > 20
    assert [row[0] for row in rows] == ["9"] * (len(rows) - 1) + ["0"]
    values = [row[1] for row in rows]
    assert values == sorted(values), "once the new folder is there, it stays"
    assert {"0.0", "1.0"} == set(values)
    assert [row[2] for row in rows].count("1") == 1  # between the two renames: read all the same
    assert {tuple(row[3:]) for row in rows} == {("2.0", "True")}


def test_an_interrupted_replacement_is_read_and_then_finished(tmp_path):
    folder, new = write(tmp_path / "m", OLD), write(tmp_path / "n", NEW)
    token = "0123456789abcdef"
    folder.rename(tmp_path / f".m.{token}.old")
    assert "no such folder" in refusal(folder)  # a lone old folder was replaced or removed
    new.rename(tmp_path / f".m.{token}.tmp")
    assert value(folder) == 1
    assert folders.names(tmp_path) == {"m"}
    folders.settle(tmp_path, lambda name: name == "m")
    assert os.listdir(tmp_path) == ["m"]
    assert value(folder) == 1


def test_if_the_new_folder_is_damaged_before_it_is_in_place_the_old_one_is_read(tmp_path):
    token = "0123456789abcdef"
    write(tmp_path / "m", OLD).rename(tmp_path / f".m.{token}.old")
    new = write(tmp_path / "n", NEW).rename(tmp_path / f".m.{token}.tmp")
    (new / MANIFEST).unlink()
    assert value(tmp_path / "m") == 0


def test_leftovers_of_others_stay(tmp_path):
    token = "0123456789abcdef"
    (tmp_path / f".other.{token}.tmp").mkdir()
    (tmp_path / f".m.{token}.tmp").mkdir()
    (tmp_path / ".m.notes.tmp").mkdir()
    write(tmp_path / "m")
    assert sorted(os.listdir(tmp_path)) == [".m.notes.tmp", f".other.{token}.tmp", "m"]


def test_readers_and_writers_at_once(tmp_path):
    """Every read gives a whole folder, of one write."""
    folder = write(tmp_path / "m", OLD)
    failures: list[BaseException] = []
    stop = threading.Event()

    def keep_writing(number):
        try:
            while not stop.is_set():
                write(folder, {"a": torch.full((4,), float(number))}, {"n.json": [number]})
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=keep_writing, args=(i,)) for i in (1, 2)]
    for thread in threads:
        thread.start()
    seen: set[float] = set()
    reads = 0
    try:
        while not failures and (reads < 60 or not seen & {1, 2}):
            reads += 1
            tensors, documents = read_folder(folder, kind="model")
            number = tensors["a"].unique().item()
            if number:
                assert documents == {"n.json": [number]}
            seen.add(number)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert os.listdir(tmp_path) == ["m"]


def test_a_folder_that_cannot_be_locked_is_read_all_the_same(tmp_path, monkeypatch):
    folder = write(tmp_path / "m")

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    same(read_folder(folder, kind="model"))
    same(read_folder(write(folder), kind="model"))


def test_a_file_system_that_cannot_flush_folders(tmp_path, monkeypatch):
    real = os.fsync

    def no_folders(handle):
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(errno.EINVAL, "Invalid argument")
        real(handle)

    monkeypatch.setattr(os, "fsync", no_folders)
    same(read_folder(write(tmp_path / "m"), kind="model"))
