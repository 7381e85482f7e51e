"""`--shards N`: let several processes of one machine share the work of a command.

This program starts the processes and waits. The first process acts like a single one: it shows
progress, handles Ctrl-C and saves the model, and its exit status is that of the command. If one
process ends early, all end.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from inspect import Parameter
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from fotltn.cli.output import FINDINGS, INTERRUPTED
from fotltn.errors import FotError, visible
from fotltn.files import MEETING

_OPTION = "--shards"
_STARTED = "FOTLTN_STARTED_BY"
# seconds; the second is the time for processes to end after one has failed
_POLL, _GRACE = 0.05, 15.0
_MOST = 2000  # characters of a process's output


#: The option.
Shards = Annotated[
    int | None,
    typer.Option(_OPTION, min=1, help="Processes of this machine that share the work."),
]


def in_shards(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option `--shards` to a command; torchrun can start it, too.

    Each process runs the whole command, and processes share the work on traces. Only the first
    process prints, including the errors of the others.
    """

    @functools.wraps(command)
    def run(*, shards: int | None, **options: Any) -> None:
        if shards is not None:
            run_shards(shards)
            return
        if not {"RANK", "WORLD_SIZE"} <= os.environ.keys():
            command(**options)
            return
        end_with_starter()
        from fotltn.learn.ranks import shared_work

        with ExitStack() as stack:
            if os.environ["RANK"] != "0":
                stack.enter_context(contextlib.redirect_stdout(_Nowhere()))
                stack.enter_context(contextlib.redirect_stderr(_Nowhere()))
                stack.enter_context(_silent())
            stack.enter_context(shared_work())
            command(**options)

    told = inspect.signature(command, eval_str=True)
    option = Parameter("shards", Parameter.KEYWORD_ONLY, default=None, annotation=Shards)
    *others, last = (p.replace(kind=Parameter.KEYWORD_ONLY) for p in told.parameters.values())
    every = {p.name: p for p in (*others, option, last)}
    run.__signature__ = told.replace(parameters=[*every.values()])  # type: ignore[attr-defined]
    run.__annotations__ = {name: p.annotation for name, p in every.items()}
    return run


class _Nowhere(io.TextIOBase):
    """A stream that drops all output."""

    def write(self, text: str) -> int:
        """Drop text."""
        return len(text)


@contextmanager
def _silent() -> Iterator[None]:
    """Exit with the status of an error that the first process prints."""
    try:
        yield
    except FotError:
        raise typer.Exit(FINDINGS) from None


def run_shards(count: int) -> None:
    """Run the command of this program, without the option, in several processes.

    Raises:
        typer.Exit: with the status of the first process.
    """
    command = [sys.executable, "-m", "fotltn", *without_option(sys.argv[1:])]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fotltn-")))
        said = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(count)]
        processes: list[subprocess.Popen[bytes]] = []
        stack.callback(_end, processes)
        for number in range(count):
            process = _started(command, number, count, folder, said[number])
            processes.append(stack.enter_context(process))
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process handles it
        stack.callback(signal.signal, signal.SIGINT, before)
        _wait(processes)
        ended = [process.poll() for process in processes]
        _end(processes)
        for number, status in enumerate(ended):
            _explain(number, status, said, ended[0])
        status = processes[0].returncode
        raise typer.Exit(status if status >= 0 else 128 - status)


def end_with_starter() -> None:
    """End this process when the program that started it ends."""
    if _STARTED not in os.environ:
        return

    def watch() -> None:
        while os.read(0, 1):
            pass
        os._exit(INTERRUPTED)

    threading.Thread(target=watch, daemon=True).start()


def without_option(arguments: list[str]) -> list[str]:
    """Arguments without `--shards N`.

    >>> without_option(["train", "pumps", "--shards", "2", "--epochs", "3"])
    ['train', 'pumps', '--epochs', '3']
    """
    rest, words = [], iter(arguments)
    for word in words:
        if word == _OPTION:
            next(words, None)
        elif not word.startswith(f"{_OPTION}="):
            rest.append(word)
    return rest


def _started(
    command: list[str], number: int, count: int, folder: Path, said: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start one of the processes; only the first handles Ctrl-C and prints at once.

    Each has one thread by default, because several threads would add numbers in other orders, and
    processes already use the cores. When this program ends, their input ends, and so do they.
    """
    numbers = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    environment = {
        "OMP_NUM_THREADS": "1", **os.environ, **{k: str(v) for k, v in numbers.items()},
        MEETING: (folder / "meeting").as_uri(), _STARTED: str(os.getpid()),
    }  # fmt: skip
    if sys.platform.startswith("linux"):
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    other = number > 0
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL if other else None, stderr=said if other else None,
        process_group=0 if other else None,
    )  # fmt: skip


def _wait(processes: list[subprocess.Popen[bytes]]) -> None:
    """Wait until all processes have ended, or one has failed and the others had time to notice."""
    failed: float | None = None
    while None in (statuses := [process.poll() for process in processes]):
        if failed is None and any(statuses):
            failed = time.monotonic()
        if failed is not None and time.monotonic() - failed > _GRACE:
            return
        time.sleep(_POLL)


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """End the processes that still run."""
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()


def _explain(number: int, status: int | None, said: Sequence[IO[bytes]], first: int | None) -> None:
    """Print how a process ended, unless the first process has already said so."""
    who = f"process {number} of {len(said)}"
    if status is None:
        print(f"{who} did not end by itself", file=sys.stderr)
    elif status < 0:
        print(f"{who} was killed by {signal.Signals(-status).name}", file=sys.stderr)
    elif number and status not in (0, INTERRUPTED, first):
        said[number].seek(0)
        text = said[number].read().decode(errors="replace").strip()[-_MOST:]
        print(f"{who}: {visible(text)}", file=sys.stderr)
