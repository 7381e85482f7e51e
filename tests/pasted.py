"""What a reader pastes into a shell: run as it is, or checked by the program's own parser."""

from __future__ import annotations

import argparse
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import typer.core
from packaging.requirements import Requirement

from fotltn.cli.main import main

ROOT = Path(__file__).resolve().parent.parent
#: What runs until Ctrl-C.
ENDLESS = re.compile(r"^fotltn inspect\b|^fotltn watch .*--follow\b|^tail -f\b")
#: What only a shell understands.
SHELL = re.compile(r"[|&;<>$]|^\w+=")
ASSIGNMENT = re.compile(r"[A-Z_]+=")


class ParsedError(BaseException):
    """The program has read its arguments, and would begin."""


def commands(text: str) -> list[str]:
    """The commands of a block, without comments; one may go over several lines."""
    found: list[str] = []
    open_lines = ""
    for line in text.splitlines():
        open_lines += line
        if line.endswith("\\"):
            open_lines += "\n"
            continue
        try:
            shlex.split(open_lines, comments=True)
        except ValueError:  # a quotation that is not closed yet
            open_lines += "\n"
            continue
        found.append(re.sub(r"\s+# .*$", "", open_lines))
        open_lines = ""
    assert not open_lines.strip(), open_lines
    return [command for command in found if command.strip()]


def environment(folder: Path) -> dict[str, str]:
    """The environment of a reader's shell, in which `fotltn` is this checkout's."""
    programs = folder.parent / f"{folder.name}-programs"
    programs.mkdir(exist_ok=True)
    program = programs / "fotltn"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m fotltn "$@"\n', "utf-8")
    program.chmod(0o755)
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {
        **os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1",
        "BROWSER": "true", "OMP_NUM_THREADS": "1",
    }  # fmt: skip


def paste(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Run a block in a folder; every command has to succeed, or to go on until Ctrl-C.

    One shell runs the whole block, unless all of it are commands of fotltn that need no shell.
    """
    listed = commands(text)
    endless = [command for command in listed if ENDLESS.search(command)]
    others = [command for command in listed if command not in endless]
    if all(c.startswith("fotltn ") and not SHELL.search(c) for c in others):
        for command in others:
            assert status(command, monkeypatch) == 0, f"{place}: $ {command}"
    elif not endless:
        subprocess.run(["bash", "-ec", text], cwd=folder, env=environment(folder), check=True)
    else:
        raise AssertionError(f"{place}: what never ends stands in a block of its own")
    for command in endless:
        until_interrupted(command, folder, place)


def status(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit status of a command of fotltn, in this process."""
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def until_interrupted(command: str, folder: Path, place: str) -> None:
    """Run a command until it says something, open the page that it names, and press Ctrl-C."""
    with subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=environment(folder), text=True,
        stdout=subprocess.PIPE, start_new_session=True,
    ) as running:  # fmt: skip
        assert running.stdout is not None
        try:
            line = running.stdout.readline()
            assert line.strip(), f"{place}: $ {command} says nothing"
            if address := re.search(r"http://\S+", line):
                cookies = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
                with cookies.open(address[0]) as page:
                    assert page.status == 200, f"{place}: {address[0]}"
        finally:
            os.killpg(running.pid, signal.SIGINT)
        running.stdout.read()
        assert running.wait(60) in (0, 130, -signal.SIGINT), f"{place}: $ {command}"


def check_arguments(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the program itself read the arguments of a command that is not run here."""
    words = shlex.split(command, comments=True)
    while ASSIGNMENT.match(words[0]):
        words.pop(0)
    match words:
        case ["make", *rest]:
            subprocess.run(["make", "-n", *rest], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        case ["pip", "install", *requirements]:
            for requirement in requirements:
                Requirement(requirement)
        case ["srun", *_, "bash", "-c", inner]:
            filled = re.sub(r"\$\(.*?\)", "HOST", inner.replace("\\\n", " "))
            check_arguments(filled, monkeypatch)
        case ["torchrun", *rest]:
            from torch.distributed.run import get_args_parser

            read = get_args_parser().parse_args(rest)
            assert read.module, "torchrun starts a module here"
            _parsed([read.training_script, *read.training_script_args], monkeypatch)
        case ["fotltn", *rest]:
            _parsed(["fotltn", *rest], monkeypatch)
        case ["python", "-m", *rest]:
            _parsed(rest, monkeypatch)
        case ["python", program, *rest]:
            _parsed([str(ROOT / program), *rest], monkeypatch)
        case _:
            raise AssertionError(f"nothing is known about the arguments of {words[0]}")


def _parsed(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a module or a file, as far as it has read its arguments."""

    def parse(self: argparse.ArgumentParser) -> None:
        _, unknown = self.parse_known_args()
        assert not unknown, f"{words[0]} does not know {' '.join(unknown)}"
        raise ParsedError

    def intermixed(self: argparse.ArgumentParser, words: list[str]) -> None:
        self.parse_known_args(words)  # what is unknown here belongs to another program
        raise ParsedError

    def invoke(*_: object) -> None:
        raise ParsedError

    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", list(words))
        patch.setattr(argparse.ArgumentParser, "parse_args", parse)
        patch.setattr(argparse.ArgumentParser, "parse_known_intermixed_args", intermixed)
        patch.setattr(typer.core.TyperCommand, "invoke", invoke)
        is_file = words[0].endswith(".py")
        patch.syspath_prepend(str(Path(words[0]).parent if is_file else ROOT))
        start = runpy.run_path if is_file else runpy.run_module
        with pytest.raises((ParsedError, SystemExit)) as ended:
            start(words[0], run_name="__main__")
    helped = isinstance(ended.value, SystemExit) and not ended.value.code
    if not helped and not isinstance(ended.value, ParsedError):
        raise ended.value
