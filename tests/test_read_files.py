"""Plain files alone are read, up to a limit; paths stay in their folder."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fotltn.errors import DataError, FotError
from fotltn.files import ROOT, inside, read_file
from fotltn.grounding.read import read_file as read_table
from fotltn.project.toml import read_toml
from fotltn.syntax.load import load_theory
from reproduction.paper.sweep import done
from reproduction.report.records import read as read_records
from tests.patience import PATIENCE


def test_a_plain_file_is_read(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"abc")
    assert read_file(file, limit=3) == read_file(file, limit=9, size=3) == b"abc"
    (tmp_path / "b").symlink_to(file)
    assert read_file(tmp_path / "b", limit=3, links=True) == b"abc"
    with pytest.raises(DataError, match="it is a link, not a plain file"):
        read_file(tmp_path / "b", limit=3)
    with pytest.raises(DataError, match="it has 3 bytes; at most 2 are read"):
        read_file(file, limit=2)
    with pytest.raises(DataError, match="not 4; it is cut short"):
        read_file(file, limit=9, size=4)
    with pytest.raises(DataError, match="not 2; it has been changed"):
        read_file(file, limit=9, size=2)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none", limit=2)


@pytest.mark.reliability
def test_the_limit_holds_while_reading(tmp_path, monkeypatch):
    """Also for a file that says less than it gives, as those that the system makes up."""
    with pytest.raises(DataError, match="it does not have the stated 0 bytes"):
        read_file(Path("/proc/self/maps"), limit=10**9)
    file = tmp_path / "a"
    file.write_bytes(b"x" * 100)
    real = os.fstat

    def smaller(handle):
        values = list(real(handle))
        values[6] = min(values[6], 10)
        return os.stat_result(values)

    monkeypatch.setattr("fotltn.files.os.fstat", smaller)
    with pytest.raises(DataError, match="it does not have the stated 10 bytes"):
        read_file(file, limit=50)


READERS: dict[str, Callable[[Path], object]] = {
    "theory.fot": load_theory,
    "project.toml": read_toml,
    "facts.csv": read_table,
    "facts.tsv.gz": read_table,
    "facts.parquet": read_table,
    "runs.jsonl": read_records,
    "runs.parquet": read_records,
    "record.jsonl": lambda path: done(path, {}),
}


@pytest.mark.reliability
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("thing", ["pipe", "device", "folder", "link to a device"])
def test_what_is_no_plain_file_is_refused_at_once(tmp_path, name, thing):
    path = tmp_path / name
    match thing:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link to a device":
            path.symlink_to("/dev/zero")
        case "device":
            try:
                os.mknod(path, 0o20666, os.makedev(1, 5))
                path.open("rb").close()
            except OSError:
                pytest.skip("devices cannot be made here")
    ended: list[BaseException] = []

    def run():
        try:
            READERS[name](path)
        except BaseException as error:
            ended.append(error)

    reader = threading.Thread(target=run, daemon=True)
    reader.start()
    reader.join(timeout=PATIENCE)
    assert not reader.is_alive(), "it waits for a writer, or reads without end"
    assert isinstance(ended[0], FotError)
    assert "it is not a plain file" in str(ended[0]) or "it is a folder" in str(ended[0])


@pytest.mark.reliability
def test_a_theory_file_that_is_too_long_is_not_read(tmp_path):
    with (tmp_path / "t.fot").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(DataError, match=r"1,099,511,627,776 bytes; at most 8,388,611 are read"):
        load_theory(tmp_path / "t.fot")


def test_inside(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "a" / "out").symlink_to("/")
    folder = tmp_path / "a"
    assert inside(folder / "x", folder)
    assert inside(tmp_path / "link" / "x", folder)
    assert inside(folder / ".." / "a" / "x", folder)
    assert inside(folder, folder)
    assert not inside(tmp_path / "ab", folder)
    assert not inside(folder / ".." / "x", folder)
    assert not inside(folder / "out" / "x", folder)
    assert not inside(folder / "a\0b", folder)
    assert inside(tmp_path / "x", folder, tmp_path)
    monkeypatch.setenv(ROOT, f"/nowhere{os.pathsep}{tmp_path}")
    assert inside(tmp_path / "x", folder)
    monkeypatch.setenv(ROOT, "")
    assert not inside(tmp_path / "x", folder)
