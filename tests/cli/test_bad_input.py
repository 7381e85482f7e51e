"""Fifty kinds of bad input: one clear message, an exit status, and no file is touched."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from fotltn.cli.main import main
from fotltn.learn.store import write_folder

PROJECT = Path("p/project.toml")
FACTS = Path("p/facts.csv")
THEORY = Path("p/theory.fot")
WEIGHTS = Path("m/weights.safetensors")


class Case(NamedTuple):
    """What is called, what it says, and what is done to the files before."""

    call: str
    message: str
    before: Callable[[], object] = lambda: None
    status: int = 1


def replaced(file: Path, old: str, new: str) -> Callable[[], object]:
    def change() -> None:
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))

    return change


def toml(old: str, new: str) -> Callable[[], object]:
    return replaced(PROJECT, old, new)


def added(file: Path, text: str) -> Callable[[], object]:
    return lambda: file.write_text(file.read_text() + text)


def features(cell: str) -> Callable[[], object]:
    """A wide table with one feature, one cell of which is strange."""

    def write() -> None:
        names = [f"{kind}{i}" for kind in "cp" for i in (1, 2, 3)]
        rows = [f"{n},{cell if n == 'c2' else 1.5}" for n in names]
        Path("p/sizes.csv").write_text("\n".join(["who,size", *rows]) + "\n")
        table = '[[data.wide]]\nfile = "sizes.csv"\nsort = "agent"\nentity = "who"\n'
        toml("[inputs.agent]", f'{table}features = ["size"]\n[inputs.agent]')()

    return write


def cut(file: Path) -> Callable[[], object]:
    return lambda: file.write_bytes(file.read_bytes()[:-100])


def garbage(file: Path) -> Callable[[], object]:
    return lambda: file.write_bytes(bytes(range(256)) * 8)


def other_version() -> None:
    found = json.loads(Path("m/manifest.json").read_text())
    Path("m/manifest.json").write_text(json.dumps({**found, "version": 7}))


CYCLE = (
    'Run = {formula = "!Stop(x)", variables = ["x"]}\n'
    'Stop = {formula = "!Run(x)", variables = ["x"]}'
)

CASES = {
    # new
    "new in a folder that has files": Case("new p", "'p' exists already"),
    "new in place of a file": Case("new p/facts.csv", "'p/facts.csv' exists already"),
    "new below a file": Case("new p/facts.csv/q", "cannot write the project"),
    "new without cars": Case("new q --cars 0", "'--cars'", status=2),
    "new with too much": Case(
        "new q --cars 1000 --pedestrians 1000 --steps 10000", "draws of Close; at most"
    ),
    "new with a name that is too long": Case(f"new {'q' * 300}", "File name too long"),
    # where a project is
    "train without a project": Case("train nothing", "there is no project at 'nothing'"),
    "train an empty folder": Case("train e", "there is no project at 'e'"),
    "train a model": Case("train m", "'m' is a model, not a project"),
    "train without an argument": Case("train", "Missing argument", status=2),
    "train for no epochs": Case("train p --epochs 0", "'--epochs'", status=2),
    # its file
    "a project that is not TOML": Case("train p", "not TOML", toml("[theory]", "[theory")),
    "a project of binary garbage": Case("train p", "it is not UTF-8", garbage(PROJECT)),
    "an unknown key": Case("train p", "did you mean 'epochs'?", toml("epochs", "epochz")),
    "an unknown table": Case("train p", "did you mean 'training'?", toml("[training]", "[train]")),
    "a number in quotes": Case(
        "train p", "training.rate: expected a number", toml("rate = 0.005", 'rate = "fast"')
    ),
    "a share above 1": Case("train p", "from 0 to 1, not 10", toml("train = 0.1", "train = 10")),
    "an unknown semantics": Case("train p", "did you mean 'stable-product'?", toml("le-p", "l-p")),
    "an unknown optimiser": Case(
        "train p", "unknown optimiser 'adamm'", toml("rate =", 'optimiser = "adamm"\nrate =')
    ),
    "options that an optimiser lacks": Case(
        "train p", "the optimiser 'adam'", toml("rate =", "options = {speed = 3}\nrate =")
    ),
    "an unknown predicate": Case("train p", "unknown predicate 'Stpo'", toml("Stop =", "Stpo =")),
    "an unknown sort": Case(
        "train p", "unknown sort 'agents'", toml("inputs.agent", "inputs.agents")
    ),
    "a weight of an unknown axiom": Case(
        "train p",
        "unknown axiom 'A99'",
        toml("[training]", "axiom_weights = {A99 = 1}\n[training]"),
    ),
    "definitions in a circle": Case(
        "train p",
        "definitions depend on themselves",
        lambda: (toml('Run = "network"\n', "")(), toml('Stop = "network"', CYCLE)()),
    ),
    "a definition that is no formula": Case(
        "train p",
        "the definition of Stop(x):1",
        toml('Stop = "network"', 'Stop = {formula = "!(", variables = ["x"]}'),
    ),
    "a wrong device": Case(
        "train p",
        "'gpu' cannot be used",
        toml("[training]", '[machine]\ndevice = "gpu"\n[training]'),
    ),
    "a two-valued semantics": Case("train p", "crisp", toml('"stable-product"', '"crisp"')),
    # its theory and facts
    "a theory that is not there": Case("train p", "theory.fot", THEORY.unlink),
    "a theory that is wrong": Case(
        "train p", "unknown predicate 'Crs'", added(THEORY, "axiom B: G Crs\n")
    ),
    "facts that are not there": Case("train p", "facts.csv: no such file", FACTS.unlink),
    "facts of binary garbage": Case("train p", "facts.csv", garbage(FACTS)),
    "facts without rows": Case(
        "train p",
        "networks need entities of sort 'agent'",
        lambda: FACTS.write_text("predicate,arg1,arg2,time,truth\n"),
    ),
    "no facts at all": Case("train p", "no facts to learn from", toml('["facts.csv"]', "[]")),
    "facts of an unknown predicate": Case(
        "train p", "did you mean 'Stop'?", added(FACTS, "Stpo,c1,,0,1\n")
    ),
    "facts that contradict each other": Case(
        "train p", "'Stop' is 1 here, but 0 at", added(FACTS, "Stop,c1,,0,0\nStop,c1,,0,1\n")
    ),
    "a horizon that is too small": Case(
        "train p", "beyond the horizon of 3 time points", toml("train = 0.1", "horizon = 3")
    ),
    "a feature that is no number": Case("train p", "expected a finite number", features("nan")),
    "a feature that is missing": Case("train p", "expected a finite number", features("")),
    "labels for what is computed from given facts": Case(
        "train p",
        "labels for 'Run', which is not learned",
        toml('Run = "network"', 'Run = {formula = "Close(x, x)", variables = ["x"]}'),
    ),
    # where a model goes
    "a model in a folder of other things": Case("train p -o p", "the folder has other files"),
    "a model in place of a file": Case("train p -o p/facts.csv", "cannot write"),
    "a model below a file": Case("train p -o p/facts.csv/m", "a file is where its folder would be"),
    "a model in place of something else of ours": Case("train p -o c", "it is a 'checkpoint'"),
    "logs in place of a file": Case("train p --tensorboard p/facts.csv", "logs"),
    # a model that is none
    "a model that is not there": Case(
        "score nothing",
        "cannot read",
    ),
    "a project without a model": Case("score p", "the project 'p' has no model yet"),
    "a folder of another kind": Case("score c", "it is a 'checkpoint', not a 'model'"),
    "a folder of something else": Case("ask e Stop(x)", "it has no manifest.json"),
    "weights that are cut short": Case("violations m", "it is cut short", cut(WEIGHTS)),
    "weights of garbage": Case("predict m", "cannot read", garbage(WEIGHTS)),
    "a model of another version": Case("audit m", "it has version 7 of the format", other_version),
    "a model whose theory was changed": Case(
        "score m", "it has been changed", replaced(Path("m/theory.fot"), "A1:", "B1:")
    ),
    "a model with a file too many": Case(
        "score m", "'x' not listed", lambda: Path("m/x").write_text("")
    ),
    # score
    "a threshold of nothing": Case("score m --threshold 0", "a threshold must be above 0"),
    "a threshold that is a word": Case("score m --threshold high", "'--threshold'", status=2),
    "test facts that are not there": Case("score m --facts no.csv", "no.csv: no such file"),
    "test facts of strangers": Case(
        "score m --facts s.csv",
        "the model has no 'c99'",
        lambda: Path("s.csv").write_text("predicate,arg1,time\nStop,c99,0\n"),
    ),
    "test facts of later times": Case(
        "score m --facts s.csv",
        "after the end of the model's trace",
        lambda: Path("s.csv").write_text("predicate,arg1,time\nStop,c1,77\n"),
    ),
    "test facts of given predicates": Case(
        "score m --facts s.csv",
        "no facts about what the model learns",
        lambda: Path("s.csv").write_text("predicate,arg1,arg2,time\nClose,c1,p1,0\n"),
    ),
    # ask
    "a query that is no formula": Case("ask m Stop(", "error: found the end"),
    "a query of an unknown predicate": Case("ask m Stpo(x)", "did you mean 'Stop'?"),
    "a query of an unknown entity": Case('ask m Stop("bob")', "no entity of sort 'agent'"),
    "a query after the end": Case("ask m Stop(x) --at 12", "the time point 12 does not exist"),
    "a query at no time": Case("ask m Stop(x) --at soon", "--at takes a time point from 0"),
    "a query with an unknown semantics": Case("ask m Stop(x) --semantics fuzy", "'fuzy'"),
    "a query with a threshold for degrees": Case(
        "ask m Stop(x) --threshold 0.5", "a threshold needs the semantics 'crisp'"
    ),
    "a query for no rows": Case("ask m Stop(x) --top 0", "'--top'", status=2),
    "a query in no order": Case("ask m Stop(x) --sort up", "'--sort'", status=2),
    "no query": Case("ask m", "Missing argument", status=2),
    # violations, audit, predict
    "violations of an unknown axiom": Case("violations m A14", "the theory has no axiom 'A14'"),
    "violations at a threshold of 2": Case("violations m --crisp --threshold 2", "not 2.0"),
    "the audit of nothing": Case("audit e", "it has no manifest.json"),
    "the audit of a file": Case("audit p/facts.csv", "is a table, not a project"),
    "the audit of a project with bad facts": Case(
        "audit p", "Stpo", added(FACTS, "Stpo,c1,,0,1\n")
    ),
    "predictions of an unknown predicate": Case(
        "predict m --predicate Stpo", "did you mean 'Stop'?"
    ),
    "predictions in a file of another kind": Case("predict m -o x.xlsx", "must end in one of"),
    "predictions in no folder": Case("predict m -o no/x.csv", "cannot write no/x.csv"),
    "predictions in place of a folder": Case("predict m -o e.csv", "cannot write e.csv"),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A project `p`, a model `m`, an empty-handed folder `e`, and `c`, of another kind."""
    folder: Path = tmp_path_factory.mktemp("home")
    for arguments in (
        ["new", folder / "p", "--cars", 3, "--pedestrians", 3, "--steps", 12, "--paper"],
        ["train", folder / "p", "--epochs", 2, "-o", folder / "m"],
    ):
        before, sys.argv = sys.argv, ["fotltn", *map(str, arguments)]
        try:
            with pytest.raises(SystemExit) as stopped:
                main()
        finally:
            sys.argv = before
        assert not stopped.value.code
    (folder / "e").mkdir()
    (folder / "e" / "note.txt").write_text("mine")
    (folder / "e.csv").mkdir()
    write_folder(folder / "c", {}, {}, kind="checkpoint")
    return folder


def digest(folder: Path) -> dict[str, str]:
    """Every file and folder, with what is in it."""
    return {
        str(path.relative_to(folder)): "folder"
        if path.is_dir()
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("name", CASES)
def test_bad_input(home, call, tmp_path, monkeypatch, name):
    case = CASES[name]
    here = tmp_path / "here"
    shutil.copytree(home, here)
    monkeypatch.chdir(here)
    case.before()
    before = digest(here)
    status, out, err = call(*case.call.split())
    assert (status, out) == (case.status, "")
    assert case.message in err
    assert "Traceback" not in err
    if case.status == 1:
        places = [line for line in err.splitlines() if "error: " in line]
        assert places, err
    assert digest(here) == before
    if case.status == 1:
        status, out, err = call(*case.call.split(), "--json")
        assert (status, err) == (1, "")
        found = json.loads(out)
        assert found["ok"] is False
        said = "\n".join(
            f"{d['source']}:{d['line']} {d['message']} {d['hint']}" for d in found["diagnostics"]
        )
        assert case.message.removeprefix("error: ") in said
        assert digest(here) == before


def test_there_are_fifty_kinds():
    assert len(CASES) >= 50
    assert len({case.call.split()[0] for case in CASES.values()}) == 7


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to the administrator")
def test_folders_that_cannot_be_written(home, call, tmp_path):
    shutil.copytree(home, tmp_path / "here")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    for command in (
        ("new", locked / "p"),
        ("train", tmp_path / "here" / "p", "-o", locked / "m"),
        ("predict", tmp_path / "here" / "m", "-o", locked / "x.csv"),
    ):
        status, out, err = call(*command)
        assert (status, out) == (1, "")
        assert "cannot write" in err
