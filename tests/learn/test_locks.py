"""Locks: one training at a time, nobody waits forever, and systems that lack what Unix has."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fotltn import DataError
from fotltn.learn import locks
from fotltn.learn.checkpoints import latest_checkpoint, reserve
from fotltn.learn.fit import fit
from fotltn.learn.store import read_folder
from tests.learn import tasks
from tests.learn.common import same, write

pytestmark = pytest.mark.reliability

# --- one training at a time -------------------------------------------------------------------


def test_two_trainings_with_the_same_checkpoints(tmp_path):
    folder = tmp_path / "state"
    with reserve(folder):
        with pytest.raises(DataError) as refused:
            fit(tasks.task(), checkpoints=folder)
        assert latest_checkpoint(folder).checkpoint is None
    message, hint = str(refused.value).split("\n")
    assert re.fullmatch(
        f"error: '{folder}' is in use by another training: process {os.getpid()} on "
        rf"{socket.gethostname()}, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d",
        message,
    )
    assert "wait until it has finished" in hint
    assert not folder.exists()
    assert fit(tasks.task(), checkpoints=folder).finished
    assert all(name.startswith("step-") for name in os.listdir(folder))


HOLDER = """
import sys, time
from pathlib import Path
from fotltn.learn.locks import reserved
with reserved(Path(sys.argv[1]), "training"):
    print("ready", flush=True)
    time.sleep(600)
"""


def test_the_lock_dies_with_its_process(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n"
            with pytest.raises(DataError, match=f"training: process {holder.pid} on "):
                fit(tasks.task(), checkpoints=tmp_path)
        finally:
            holder.send_signal(signal.SIGKILL)
            holder.wait()
    assert os.listdir(tmp_path) == [".keeper.lock"]
    assert fit(tasks.task(), checkpoints=tmp_path).finished


def test_a_holder_that_has_not_said_who_it_is(tmp_path):
    with reserve(tmp_path):
        (tmp_path / ".keeper.lock").write_text("{")
        with (
            pytest.raises(DataError, match="an unknown process"),
            reserve(tmp_path),
        ):
            pass


def test_nobody_ever_shares_a_lock_whose_file_comes_and_goes(tmp_path):
    folder, inside, most, rounds = tmp_path / "f", 0, [], 0
    refusals: list[str] = []

    def compete() -> None:
        nonlocal inside, rounds
        while rounds < 200:
            try:
                with reserve(folder):
                    inside += 1
                    most.append(inside)
                    rounds += 1
                    inside -= 1
            except DataError as error:
                refusals.append(str(error))

    threads = [threading.Thread(target=compete) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}
    assert [text for text in refusals if "is in use by another training" not in text] == []


@pytest.mark.parametrize("kind", ["file", "link to a file"])
def test_a_name_that_something_else_has_is_refused(tmp_path, kind):
    other, folder = tmp_path / "other", tmp_path / "f"
    other.write_text("")
    if kind == "file":
        folder.write_text("")
    else:
        folder.symlink_to(other)
    with pytest.raises(DataError, match="cannot write"), reserve(folder):
        pass


# --- nobody waits forever ---------------------------------------------------------------------


@contextlib.contextmanager
def foreign(folder: Path):
    """A lock of another program."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def test_who_waits_says_so_and_gives_up(tmp_path, monkeypatch, capsys):
    folder = write(tmp_path / "m")
    monkeypatch.setattr(locks, "NOTICE", 0.01)
    monkeypatch.setattr(locks, "PATIENCE", 0.2)
    for work in (lambda: read_folder(folder, kind="model"), lambda: write(folder)):
        with foreign(tmp_path), pytest.raises(DataError) as refused:
            work()
        assert str(refused.value) == (
            f"error: '{tmp_path}' is locked by another process, which did not release it within "
            "0.2 seconds\n      = try again when that process has finished, or end it"
        )
        said = f"waiting for '{tmp_path}', which another process has locked\n"
        assert capsys.readouterr().err == said
    same(read_folder(folder, kind="model"))


def test_who_waits_goes_on_when_the_lock_is_given_back(tmp_path, monkeypatch):
    folder = write(tmp_path / "m")
    monkeypatch.setattr(locks, "NOTICE", 0.0)
    with foreign(tmp_path) as handle:

        class Stderr:
            def write(self, _: str) -> None:
                fcntl.flock(handle, fcntl.LOCK_UN)

            def flush(self) -> None:
                pass

        monkeypatch.setattr(sys, "stderr", Stderr())
        same(read_folder(folder, kind="model"))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc")
def test_a_folder_that_cannot_come_to_be_is_not_tried_forever(tmp_path):
    theory = tmp_path / "t.fot"
    theory.write_text("predicate P\naxiom A: G P\n")
    line = [sys.executable, "-m", "fotltn", "watch", str(theory), "--state", "/proc/x"]
    done = subprocess.run(
        line, input='{"facts": []}\n', capture_output=True, text=True, timeout=locks.PATIENCE
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: cannot write /proc/x: No such file or directory\n"


def test_a_lock_whose_file_others_always_remove_is_given_up(tmp_path, monkeypatch):
    take = os.open

    def taken_away(path, *args, **options):
        handle = take(path, *args, **options)
        if str(path).endswith(".keeper.lock"):
            os.unlink(path)
        return handle

    monkeypatch.setattr(os, "open", taken_away)
    with (
        pytest.raises(DataError, match="its lock file is removed as soon as it is created"),
        reserve(tmp_path),
    ):
        pytest.fail("it is reserved")


def test_the_usual_limits():
    assert (locks.NOTICE, locks.PATIENCE) == (1.0, 30.0)


# --- systems without the locks of Unix --------------------------------------------------------

#: Hides what Windows lacks, and puts something in place of what Windows has instead.
WINDOWS = """
import os, sys
os.supports_dir_fd.clear()  # which the module for removing folders asks when it is loaded
sys.modules.pop("shutil", None)
import fcntl, importlib, pkgutil, shutil, types
import pyarrow, pyarrow.csv, pyarrow.parquet, safetensors.torch, torch
import jinja2, starlette, uvicorn, rich.progress, typer
flock, LOCK_EX, LOCK_NB, LOCK_UN = fcntl.flock, fcntl.LOCK_EX, fcntl.LOCK_NB, fcntl.LOCK_UN
modes = set()

def locking(handle, mode, count):
    assert (count, os.lseek(handle, 0, os.SEEK_CUR)) == (1, 2**30)
    modes.add(mode)
    try:
        flock(handle, LOCK_UN if mode == 0 else LOCK_EX | LOCK_NB)
    except BlockingIOError:
        raise PermissionError(13, "Permission denied") from None

opened, BINARY = os.open, 1 << 29
def checked(path, flags, *rest, **named):
    assert flags & BINARY, f"{path} is opened as text"
    assert not os.path.isdir(path), f"{path} is a folder, which Windows does not open"
    return opened(path, flags & ~BINARY, *rest, **named)

sys.modules["fcntl"] = None
for name in ("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):
    delattr(os, name)
os.O_BINARY = BINARY
"""

IMPORTS = """
import fotltn
for module in pkgutil.walk_packages(fotltn.__path__, "fotltn."):
    if not module.name.endswith("__main__") and ".kernels.gpu." not in module.name:
        importlib.import_module(module.name)
from fotltn.learn import locks
assert locks.fcntl is None
"""

READS_AND_WRITES = """
sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2, LK_UNLCK=0)
os.open = checked
import torch
from pathlib import Path
from fotltn import DataError
from fotltn.files import write_files
from fotltn.learn import locks
from fotltn.learn.checkpoints import latest_checkpoint, reserve, write_checkpoint
from fotltn.learn.store import read_folder, write_folder

home = Path(sys.argv[1])
for number in (1.0, 2.0):
    write_folder(home / "m", {"a": torch.tensor(number)}, {"t.txt": "a\\nb"}, kind="model")
    stored = read_folder(home / "m", kind="model")
    assert (stored.tensors["a"], stored.documents) == (number, {"t.txt": "a\\nb"})
(home / "link").symlink_to(home / "m" / "t.txt")
os.rename(home / "m" / "t.txt", home / "text")
(home / "m" / "t.txt").symlink_to(home / "text")
try:
    read_folder(home / "m", kind="model")
except DataError as error:
    assert "it is a link, not a plain file" in str(error)
os.unlink(home / "link")
write_files({home / "text": b"a\\nb"})
with reserve(home / "c"):
    write_checkpoint(home / "c", 1, {}, {})
    try:
        with reserve(home / "c"):
            raise AssertionError("two at once")
    except DataError as error:
        assert f"process {os.getpid()} on " in str(error), error
assert latest_checkpoint(home / "c").checkpoint.step == 1
locks.PATIENCE = 0.1
with locks.locked(home, exclusive=False):
    try:
        read_folder(home / "m", kind="model")
    except DataError as error:
        assert "is locked by another process" in str(error)
    else:
        raise AssertionError("not locked")
assert modes == {0, 2}
print(sorted(os.listdir(home)), sorted(os.listdir(home / "c")))
"""

WITHOUT_ANY = """
import torch
from fotltn.learn.store import read_folder, write_folder
write_folder(sys.argv[1] + "/m", {"a": torch.zeros(1)}, {}, kind="model")
print(read_folder(sys.argv[1] + "/m", kind="model").tensors)
"""


#: What is run on such a system, and what it prints.
PROGRAMS = {
    "imports": (IMPORTS, ""),
    "reads and writes": (READS_AND_WRITES, "['c', 'm', 'text'] ['step-000001']\n"),
    "without any locks": (WITHOUT_ANY, "{'a': tensor([0.])}\n"),
}

#: Runs each program in a process of its own, which has loaded what is not ours already.
EACH = """
home, *programs = sys.argv[1:]
for number, program in enumerate(programs):
    child = os.fork()
    if child == 0:
        folder = sys.argv[1] = f"{home}/{number}"
        os.mkdir(folder)
        for name, handle in (("out", 1), ("err", 2)):
            os.dup2(opened(f"{folder}.{name}", os.O_CREAT | os.O_WRONLY), handle)
        break
    with open(f"{home}/{number}.status", "w") as file:
        file.write(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
else:
    sys.exit()
exec(program)
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> dict[str, tuple[str, str, str]]:
    """The status, the output and the errors of each program."""
    for name in ("jinja2", "starlette", "uvicorn"):
        pytest.importorskip(name)
    home = tmp_path_factory.mktemp("windows")
    codes = [code for code, _ in PROGRAMS.values()]
    subprocess.run([sys.executable, "-c", WINDOWS + EACH, str(home), *codes], check=True)
    return {
        program: tuple((home / f"{i}.{part}").read_text() for part in ("status", "out", "err"))
        for i, program in enumerate(PROGRAMS)
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_system_without_the_locks_of_unix(name, ended):
    status, out, err = ended[name]
    assert status == "0", err
    assert out == PROGRAMS[name][1]
