"""The command line in this process, and small theories and facts to give to it."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from fotltn.cli.main import app, main
from fotltn.cli.output import BUG

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "appendix_b"
THEORY = """\
sort agent
sort place
static predicate Car(agent)
predicate Stop(agent)
predicate rain
predicate Near(agent, place)
axiom A: forall x: agent. G(Stop(x) -> Car(x))
axiom B: F rain
"""
FACTS = """\
predicate,arg1,time,truth,trace
Car,c1,,,one
Stop,c1,0,0.5,one
Stop,c1,2,0.75,one
Stop,c2,0,,two
rain,,1,0.25,two
"""


class Result(NamedTuple):
    """What a command left behind."""

    status: int
    out: str
    err: str


Call = Callable[..., Result]


def succeed(*args: object) -> None:
    """Run a command that goes well, where fixtures of a single test cannot be had."""
    before, sys.argv = sys.argv, ["fotltn", *map(str, args)]
    try:
        with pytest.raises(SystemExit) as stopped:
            main()
    finally:
        sys.argv = before
    assert not stopped.value.code


def caller(
    program: typer.Typer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Run a program as if from a shell; a bug fails, unless the call says that there is one."""

    def run(*args: object, bug: bool = False) -> Result:
        monkeypatch.setattr(sys, "argv", [program.info.name, *map(str, args)])
        with pytest.raises(SystemExit) as stopped:
            main(program)
        result = Result(int(stopped.value.code or 0), *capsys.readouterr())
        assert result.status != BUG or bug, result.err
        return result

    return run


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run `fotltn` as if from a shell."""
    return caller(app, monkeypatch, capsys)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a theory, `t.fot`, and facts in two traces, `f.csv`."""
    (tmp_path / "t.fot").write_text(THEORY)
    (tmp_path / "f.csv").write_text(FACTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path
