"""Commands on pages are run as a reader pastes them, and print what is shown."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fotltn
from fotltn.cli.main import main
from fotltn.reporting.pdf import BROWSERS
from tests import test_docs
from tests.pasted import check_arguments, commands, paste
from tests.test_docs import DOCS, PAGES, ROOT, added_to, blocks, by_page, trimmed, workspace
from tests.test_docs import _as_for_a_reader as _as_for_a_reader

PASTED = [*PAGES, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "examples").glob("*/README.md"))]
NUMBER = re.compile(r"(?<![\w.])[<>]?\d[\d,]*(?:\.\d+)?")  # as "0.5", "16,000" or "<0.001"


def run(command: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a command prints, errors and all, without a process of its own."""
    program, *arguments = shlex.split(command)
    assert program == "fotltn", f"only fotltn can be shown, not {program}"
    printed = io.StringIO()
    monkeypatch.setattr(sys, "argv", [program, *arguments])
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        contextlib.suppress(SystemExit),
    ):
        main()
    return trimmed(printed.getvalue())


def assert_about(printed: str, shown: str, place: str) -> None:
    """The same words and about the same numbers: what training gives may differ in last digits.

    Lines may be broken elsewhere, those of progress depend on how fast a machine is, and how far
    chains agree on every draw.
    """

    def parts(text: str) -> tuple[str, list[float]]:
        passing = (
            r"^(?:epoch \d+:|sweep \d+ of|drawing:) .*$|─+|R-hat [\d.]+, at least [\d,]+ effective"
        )
        text = re.sub(passing, "", text, flags=re.MULTILINE)
        words = " ".join(text.split())
        return NUMBER.sub("#", words), [
            float(n.strip("<>").replace(",", "")) for n in NUMBER.findall(words)
        ]

    (words, numbers), (wanted, expected) = parts(printed), parts(shown)
    assert words == wanted, place
    assert numbers == pytest.approx(expected, rel=0.05, abs=0.02), place


@pytest.mark.reliability
@by_page
def test_commands_print_what_is_shown(page, tmp_path, monkeypatch, owned):
    run_commands(page, tmp_path, monkeypatch, owned)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [p for p in PAGES if "```sh slow" in p.read_text("utf-8")], ids=lambda p: p.stem
)
def test_slow_commands_succeed(page, tmp_path, monkeypatch, owned):
    run_commands(page, tmp_path, monkeypatch, owned, kinds=("", "slow"))


def run_commands(page, folder, monkeypatch, owned, kinds=("",)):
    """Do what a page says in an empty folder, block by block, as a reader who pastes it.

    What is said after `sh` is how it is run: `slow` by slow tests alone, `browser` where there is
    one, `install` by a slow test in a new environment; of `long` and `elsewhere`, which take hours
    or need other data and machines, the programs themselves check the arguments.
    """
    workspace(page, folder)
    monkeypatch.chdir(folder)
    for name in OWNED.get(page.stem, ()):
        copy = shutil.copytree if (owned / name).is_dir() else shutil.copy
        copy(owned / name, folder / name)
    for block in blocks(page):
        if file := added_to(block):
            with Path(file).open("a", encoding="utf-8") as opened:
                opened.write(block.text)
        prints = block.title == "browser" and any(map(shutil.which, BROWSERS))
        if block.language == "sh" and (prints or block.title in kinds):
            paste(block.text, folder, monkeypatch, block.place)
        if block.language != "console" or block.title == "flights":
            continue  # tests/flights runs what needs the data of flights
        head, *calls = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
        assert not head.strip(), f"{block.place}: output before a command"
        for call in calls:
            command, shown = call.split("\n", 1)
            printed, place = run(command, monkeypatch), f"{block.place}: $ {command}"
            if block.title == "trained":
                assert_about(printed, shown, place)
            else:
                assert printed == trimmed(shown), place


@pytest.mark.slow
@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "start.md"], ids=lambda p: p.name)
def test_packages_install_from_a_checkout(page, tmp_path):
    """In a new environment, with what git has of this checkout; packages come from the network."""
    checkout = tmp_path / "fot-ltn"
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).exists():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
    (block,) = (b for b in blocks(page) if b.title == "install")
    folder = checkout if page.name == "README.md" else tmp_path / "empty"
    folder.mkdir(exist_ok=True)
    text = block.text
    if "venv" not in text:
        text = f"python3 -m venv env\n. env/bin/activate\n{text}"
    script = f"{text}\ncd {tmp_path}\nwhich fotltn\nfotltn --version"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["PIP_CONSTRAINT"] = str(ROOT / "constraints.txt")
    done = subprocess.run(
        ["bash", "-ec", script], cwd=folder, env=environment, check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.stdout.endswith(f"{folder}/env/bin/fotltn\nfotltn {fotltn.__version__}\n")


@pytest.fixture(scope="module")
def owned(tmp_path_factory):
    """What the reader of some pages has: a project with a model, one of a scene, and others."""
    folder = tmp_path_factory.mktemp("owned")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (readme,) = (b for b in blocks(ROOT / "README.md") if b.title == "pumps.csv")
        Path("pumps.csv").write_text(readme.text, "utf-8")
        paste(
            "fotltn new pumps --from pumps.csv\nfotltn train pumps --epochs 2\n"
            "fotltn new crossing --cars 3 --pedestrians 3 --steps 8\n"
            "fotltn train crossing --epochs 2 --method gradient",
            folder, patch, "what readers have",
        )  # fmt: skip
        shutil.copytree("crossing/model", "other-model")
        shutil.copy("crossing/theory.fot", "theory.fot")
        shutil.copy("crossing/facts.csv", "facts.csv")
        for name in ("crossing.fot", "steps.jsonl"):
            shutil.copy(ROOT / "examples" / "monitor" / name, name)
        Path("rules.fot").write_text(RULES, "utf-8")
        Path("readings.jsonl").write_text(READINGS, "utf-8")
    return folder


RULES = "sort pump\npredicate Alarm(pump), Failed(pump)\naxiom Quiet: forall x. G !Alarm(x)\n"
READINGS = """\
{"features": {"pump": {"north": {"pressure": 5.2, "alarm": 0}}}}
{"facts": [["Alarm", "north"]], "features": {"pump": {"north": {"pressure": 2.2, "alarm": 1}}}}
"""
OWNED = {
    "inspect": ["crossing", "other-model", "theory.fot", "facts.csv"],
    "monitor": ["crossing.fot", "steps.jsonl", "pumps", "rules.fot", "readings.jsonl"],
    "scale": ["pumps", "theory.fot", "facts.csv"],
}


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("page", PASTED, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_that_are_not_run_have_right_arguments(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    for block in blocks(page):
        if block.language == "sh" and block.title in ("browser", "long", "elsewhere"):
            for command in commands(block.text):
                check_arguments(command, monkeypatch)


@pytest.mark.parametrize("page", PASTED, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_are_run_or_say_why_not(page):
    kinds = {"browser", "install", "long", "elsewhere"} | ({"", "slow"} if page in PAGES else set())
    for block in blocks(page):
        assert block.language != "sh" or block.title in kinds, block.place


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("fotltn train pumps --epoch", SystemExit),
        ("make tset", subprocess.CalledProcessError),
        ("python -m benchmarks.until --jsn FILE", AssertionError),
        ("torchrun --nods 2 -m fotltn train pumps", SystemExit),
        ("curl https://example.org", AssertionError),
    ],
)
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_wrong_arguments_are_noticed(command, error, monkeypatch):
    with pytest.raises(error):
        check_arguments(command, monkeypatch)


@pytest.mark.parametrize("text", ["fotltn check none.fot", "fotltn --version | grep -q none"])
def test_a_command_that_fails_is_noticed(text, tmp_path, monkeypatch):
    with pytest.raises((AssertionError, subprocess.CalledProcessError)):
        paste(text, tmp_path, monkeypatch, "here")


@pytest.mark.parametrize(
    "text",
    [
        "console\n$ fotltn --version\nfotltn 0.0.0",
        "console trained\n$ fotltn --version\nltn 0.1.0",
        "console trained\n$ fotltn --version\nfotltn 9.1",
        "sh\nfotltn check none.fot",
    ],
)
def test_a_wrong_example_is_noticed(text, tmp_path, monkeypatch):
    monkeypatch.setattr(test_docs, "ROOT", tmp_path)
    (tmp_path / "examples").mkdir()
    (tmp_path / "page.md").write_text(f"```{text}\n```\n", "utf-8")
    (tmp_path / "empty").mkdir()
    with pytest.raises(AssertionError):
        run_commands(tmp_path / "page.md", tmp_path / "empty", monkeypatch, tmp_path)
