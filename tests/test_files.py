"""Whatever writes files writes all of them, or leaves what was there, however full the disk is."""

from __future__ import annotations

import ast
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from fotltn import DataError
from fotltn.analysis.predictions import write_table
from fotltn.cli.new import make
from fotltn.files import write_files
from fotltn.project.scene import generate
from fotltn.reporting.html import MARK, write_page
from fotltn.syntax.load import parse_theory
from fotltn.syntax.show import save_theory
from reproduction.paper.sweep import append
from reproduction.report import records
from reproduction.report.records import record
from tests.project.common import write
from tests.reproduction.synthetic import grid, values

PACKAGE = Path(__file__).resolve().parent.parent / "fotltn"

TABLE = pa.table({"predicate": ["P", "Q"], "truth": [1, 0]})


def page(folder: Path) -> None:
    write_page(MARK, folder / "deep" / "report.html")


def theory(folder: Path) -> None:
    save_theory(parse_theory("sort agent\n"), folder / "theory.fot")


def figure(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    from fotltn.reporting.theme import save
    from reproduction.report.sweeps import results_figure

    save(results_figure(some_runs()), folder / "deep" / "figure")


def report(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    from reproduction.report.export import write_report

    write_report(some_runs(), folder / "report")


def some_runs() -> list[records.Record]:
    """Runs of every method on one data set, at two fractions."""
    runs = grid(repetitions=1)
    return [one for one in runs if one.data == "CarPed35K" and one.fraction < 0.25]


#: Everything that writes files: what it does in a folder, and how many files it flushes.
WRITERS: dict[str, tuple[Callable[[Path], object], int]] = {
    "a new project": (lambda f: make(f / "p", 2, 2, 3, 0), 3),
    "a theory": (theory, 1),
    "predictions": (lambda f: write_table(TABLE, f / "out.csv"), 1),
    "predictions as Parquet": (lambda f: write_table(TABLE, f / "out.parquet"), 1),
    "facts": (lambda f: write(generate(1, 1, 2, seed=0), f / "deep"), 1),
    "records": (lambda f: records.write([record(values())], f / "a" / "b" / "runs.jsonl"), 1),
    "records as Parquet": (lambda f: records.write([record(values())], f / "runs.parquet"), 1),
    "a page": (page, 1),
    "a figure": (figure, 2),
    "a report": (report, 2),
    "runs of a sweep": (lambda f: append(f / "deep" / "runs.jsonl", [{"a": 1}]), 1),
}


def tree(folder: Path) -> dict[str, bytes | None]:
    """All files and folders below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def full_at(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full when the file of that number is flushed to it."""
    real, count = os.fsync, 0

    def fsync(handle: int) -> None:
        nonlocal count
        count += 1
        if count == at:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.reliability
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_nothing_behind(name, tmp_path, monkeypatch):
    work, files = WRITERS[name]
    for at in range(1, files + 1):
        with monkeypatch.context() as patch:
            full_at(at, patch)
            with pytest.raises(
                DataError, match=r"^error: cannot write .*: No space left on device"
            ):
                work(tmp_path)
        assert tree(tmp_path) == {}
    work(tmp_path)
    assert not [path for path in tree(tmp_path) if ".fot-" in path]


@pytest.mark.reliability
@pytest.mark.parametrize("name", [name for name in WRITERS if name != "a new project"])
def test_a_full_disk_leaves_what_was_there(name, tmp_path, monkeypatch):
    work, files = WRITERS[name]
    work(tmp_path)
    before = {path: b"old\n" if data is not None else None for path, data in tree(tmp_path).items()}
    if name == "a page":
        before = {path: data and MARK.encode() for path, data in before.items()}
    for path, data in before.items():
        if data is not None:
            (tmp_path / path).write_bytes(data)
    full_at(files, monkeypatch)
    with pytest.raises(DataError, match="No space left on device"):
        work(tmp_path)
    assert tree(tmp_path) == before


@pytest.mark.reliability
def test_a_new_project_in_an_empty_folder_leaves_it_empty(tmp_path, monkeypatch):
    full_at(3, monkeypatch)
    with pytest.raises(DataError, match=f"cannot write the project '{tmp_path}': No space left"):
        make(tmp_path, 2, 2, 3, 0)
    assert tree(tmp_path) == {}


LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
sys.argv = ["fotltn", *sys.argv[1:]]
runpy.run_module("fotltn", run_name="__main__")
"""


@pytest.mark.reliability
@pytest.mark.skipif(sys.platform == "win32", reason="limits of Unix")
def test_a_new_project_that_the_system_refuses(tmp_path):
    """A real refusal in the middle of a file, as on a full disk."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "new", "p", "--cars", "20"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: cannot write the project 'p': File too large\n"
    assert tree(tmp_path) == {}


@pytest.mark.reliability
@pytest.mark.skipif(sys.platform == "win32", reason="limits of Unix")
def test_lines_that_the_system_refuses_are_cut_off_again(tmp_path):
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from fotltn import DataError\n"
        "from fotltn.files import append_lines\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))\n"
        "for name in ('new', 'old'):\n"
        "    try: append_lines(Path(name), b'x' * 200 + b'\\n')\n"
        "    except DataError as error: print(error)\n"
    )
    (tmp_path / "old").write_bytes(b"whole\ncut o")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "".join(
        f"error: cannot write {name}: File too large\n" for name in ("new", "old")
    )
    assert tree(tmp_path) == {"old": b"whole\n"}


@pytest.mark.reliability
def test_an_interrupt_leaves_what_was_there(tmp_path):
    def stopped(file):
        file.write(b"half")
        raise KeyboardInterrupt

    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_files({tmp_path / "a": b"new", tmp_path / "b": stopped})
    assert tree(tmp_path) == {"a": b"old"}


def test_what_is_no_plain_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match=r"cannot write .*pipe: it is not a plain file"):
        write_files({tmp_path / "pipe": b""})
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"cannot write .*folder: Is a directory"):
        write_files({tmp_path / "folder": b""})
    with pytest.raises(DataError, match=r"cannot write .*: embedded null byte"):
        write_files({tmp_path / "a\0b": b""})


def test_a_link_is_followed(tmp_path):
    (tmp_path / "link").symlink_to("file")
    write_files({tmp_path / "link": b"1"})
    write_files({tmp_path / "link": b"2"})
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"2"


#: The only files that may write: the helper, folders that are put in place at once, and locks.
MAY_WRITE = {"files.py", "learn/folders.py", "learn/locks.py", "monitor/journal.py"}


@pytest.mark.reliability
def test_nothing_writes_on_its_own():
    for file in sorted(PACKAGE.rglob("*.py")):
        if str(file.relative_to(PACKAGE)) in MAY_WRITE:
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                assert not writes(node), f"{file}:{node.lineno}: use fotltn.files"


def writes(call: ast.Call) -> bool:
    """Whether a call gives a file content: `write_text`, `open(…, "w")`, and others."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    modes = [a.value for a in (*call.args, *(k.value for k in call.keywords))
             if isinstance(a, ast.Constant) and isinstance(a.value, str)]  # fmt: skip
    opened = name in ("open", "fdopen") and any(set(m) & set("wax+") for m in modes if len(m) < 4)
    return opened or name in ("write_text", "write_bytes", "NamedTemporaryFile", "mkstemp")


# --- drafts of processes that were killed -----------------------------------------------------

WRITING = """
import sys, time
from pathlib import Path
from fotltn.files import write_files

def slowly(file):
    file.write(b"half")
    print("writes", flush=True)
    time.sleep(600)

write_files({Path(sys.argv[1]): slowly})
"""


def _writing(path: Path) -> subprocess.Popen[str]:
    """A process that stands in the middle of writing a file."""
    line = [sys.executable, "-c", WRITING, str(path)]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "writes\n"
    return process


def _drafts(folder: Path) -> list[Path]:
    return sorted(folder.glob(".fot-*.tmp"))


@pytest.mark.reliability
def test_the_next_write_removes_drafts_of_killed_processes_only(tmp_path):
    out = tmp_path / "out.csv"
    killed = _writing(out)
    (left,) = _drafts(tmp_path)
    killed.kill()
    killed.wait()
    live = _writing(tmp_path / "other.csv")
    try:
        (working,) = (one for one in _drafts(tmp_path) if one != left)
        word, process, rest = working.name.removeprefix(".fot-").split("-")
        assert int(process) == live.pid
        elsewhere = tmp_path / f".fot-{word[::-1]}-{killed.pid}-{rest}"  # of another machine
        elsewhere.write_bytes(b"half")
        older = tmp_path / f".fot-{rest}"  # as version 0.2.0 named them
        older.write_bytes(b"half")
        long_ago = (0.0, 0.0)
        for draft in (older, working):  # a draft that is still locked is never too old
            os.utime(draft, long_ago)
        write_files({out: b"new"})
        assert out.read_bytes() == b"new"
        assert _drafts(tmp_path) == sorted([working, elsewhere])
        os.utime(elsewhere, long_ago)
        write_files({out: b"newer"})
        assert _drafts(tmp_path) == [working]
    finally:
        live.kill()
        live.wait()
        assert live.stdout is not None
        live.stdout.close()
        assert killed.stdout is not None
        killed.stdout.close()
    write_files({out: b"newest"})
    assert _drafts(tmp_path) == []
