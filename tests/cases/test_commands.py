"""What each command prints: in terminals of 80 and 120 columns, without colour, and in a pipe.

A case is a screen and a command; both streams of the command are what comes out.
"""

import io
import math
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fotltn.cli.main import app, main
from tests.cases.pairs import assert_cases, files, pairs
from tests.cli.conftest import succeed

COMMANDS = [str(command.name) for command in app.registered_commands]
SCREENS = ["80", "80 NO_COLOR", "120", "pipe"]
GIVEN = Path(__file__).resolve().parent / "commands" / "given"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: A style that ends and begins again in the same line.
RESTYLED = re.compile(r"\x1b\[([\d;]+)m([^\x1b]*)\x1b\[0m( *)\x1b\[\1m")


class Screen(io.StringIO):
    """Standard output as a terminal."""

    def isatty(self) -> bool:
        """A terminal."""
        return True


class Ready:
    """A server that is ready, and stops."""

    def __init__(self, *_: object, ready: Callable[[], None]) -> None:
        self.ready = ready

    def run(self, sockets: list[object]) -> None:
        """Serve nothing."""
        assert sockets
        self.ready()


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A folder with theories and facts, a model that learned, and one that sampled."""
    folder = tmp_path_factory.mktemp("commands") / "given"
    shutil.copytree(GIVEN, folder)
    shutil.copytree(EXAMPLES / "monitor", folder / "examples" / "monitor")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        succeed("new", "crossing", "--cars", 3, "--pedestrians", 3, "--steps", 12)
        succeed("train", "crossing", "--epochs", 3, "--method", "gradient")
        succeed("train", "plant")
    return folder


def outcome(given: str, folder: Path, monkeypatch, statuses=(0, 1, 2, 3)) -> str:
    """What both streams of a command get."""
    screen, line = given.split("\n")
    width, *plain = screen.split()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80" if width == "pipe" else width)
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name in plain:
        monkeypatch.setenv(name, "1")
    out, err = io.StringIO() if width == "pipe" else Screen(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(sys, "argv", shlex.split(line))
    with pytest.raises(SystemExit) as stopped:
        main()
    assert (stopped.value.code or 0) in statuses, line + err.getvalue()
    text = out.getvalue() + err.getvalue()
    while text != (text := RESTYLED.sub("\x1b[\\1m\\2\\3", text)):
        pass
    return "\n".join(one.rstrip() for one in text.replace("\x1b", "␛").splitlines())


def test_every_command_is_here_on_every_screen():
    assert [file.stem for file in files("commands")] == sorted(COMMANDS)
    for file in files("commands"):
        screens = [pair.given.split("\n")[0] for pair in pairs(file)]
        assert set(screens) >= set(SCREENS), file.stem


@pytest.mark.parametrize("file", files("commands"), ids=lambda file: file.stem)
def test_what_commands_print(file, trained, tmp_path, monkeypatch):
    monkeypatch.setattr("fotltn.cli.terminal.SECONDS", math.inf)
    serve = import_module("fotltn.web.serve")
    monkeypatch.setattr(serve, "server", Ready)
    monkeypatch.setattr(serve, "open_browser", lambda _: None)
    numbers = iter(range(len(pairs(file))))

    def on_a_copy(given: str) -> str:
        folder = tmp_path / str(next(numbers))
        shutil.copytree(trained, folder)
        with monkeypatch.context() as patch:
            return outcome(given, folder, patch)

    assert_cases(file, on_a_copy)


def test_each_help_ends_with_an_example_that_works(trained, tmp_path, monkeypatch):
    folder = tmp_path / "given"
    shutil.copytree(trained, folder)
    shutil.copytree(EXAMPLES / "jaad", folder / "examples" / "jaad")
    with (folder / "crossing" / "project.toml").open("a") as settings:
        settings.write("[posterior]\nworlds = 8\nburn_in = 5\nsweeps = 5\n")
    (tmp_path / "empty").mkdir()
    serve = import_module("fotltn.web.serve")
    monkeypatch.setattr(serve, "server", Ready)
    monkeypatch.setattr(serve, "open_browser", lambda _: None)
    for name in ["train", *(name for name in COMMANDS if name != "train")]:
        last = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "80"}).stdout.rstrip()
        example = " ".join(last.rpartition("\n\n")[2].split())
        assert example.startswith(f"Example: fotltn {name} "), name
        place = tmp_path / "empty" if name == "new" else folder
        outcome(f"pipe\n{example.removeprefix('Example: ')}", place, monkeypatch, statuses=(0, 3))
