"""The command `fotltn`."""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Annotated

import typer

from fotltn.cli.audit import audit
from fotltn.cli.check import check
from fotltn.cli.eval import evaluate
from fotltn.cli.evaluate import evaluate_model
from fotltn.cli.explain import explain
from fotltn.cli.inspect import inspect
from fotltn.cli.monitor import monitor
from fotltn.cli.new import new
from fotltn.cli.output import FINDINGS, INTERRUPTED, Escaping, complain
from fotltn.cli.predict import predict
from fotltn.cli.query import query
from fotltn.cli.report import report
from fotltn.cli.reproduce import reproduce
from fotltn.cli.rules import rules
from fotltn.cli.show import show
from fotltn.cli.train import train
from fotltn.cli.violations import violations
from fotltn.errors import FotError, InterruptedTrainingError, LimitError

app = typer.Typer(
    name="fotltn",
    help="Typed first-order temporal logic with a differentiable meaning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("check")(check)
app.command("show")(show)
app.command("eval")(evaluate)
app.command("explain")(explain)
app.command("new")(new)
app.command("train")(train)
app.command("reproduce", context_settings={"ignore_unknown_options": True})(reproduce)
app.command("evaluate")(evaluate_model)
app.command("query")(query)
app.command("violations")(violations)
app.command("audit")(audit)
app.command("rules")(rules)
app.command("predict")(predict)
app.command("monitor")(monitor)
app.command("inspect")(inspect)
app.command("report")(report)


def _version(value: bool) -> None:
    if value:
        from fotltn import __version__

        print(f"fotltn {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Typed first-order temporal logic with a differentiable meaning."""


def main(program: typer.Typer = app) -> None:
    """Run a command line; errors of the input become a message and exit status 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with redirect_stdout(Escaping(sys.stdout)), redirect_stderr(Escaping(sys.stderr)):
            status = _run(program)
        sys.stdout.flush()
        sys.exit(status)
    except BrokenPipeError:
        _discard_output()
        sys.exit(FINDINGS)
    except OSError as error:
        _discard_output()
        print(f"error: cannot write the output: {error.strerror}", file=sys.stderr)
        sys.exit(FINDINGS)


def _run(program: typer.Typer) -> int:
    """The exit status, with everything printed."""
    status = 0
    try:
        program()
    except FotError as error:
        complain(error, as_json="--json" in sys.argv)
        status = INTERRUPTED if isinstance(error, InterruptedTrainingError) else FINDINGS
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        status = INTERRUPTED
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "allocate" not in str(error):
            raise
        complain(LimitError("this does not fit into memory"), as_json="--json" in sys.argv)
        status = FINDINGS
    except SystemExit as stop:
        status = int(stop.code or 0)
    return status


def _discard_output() -> None:
    """Point standard output nowhere, so that the flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
