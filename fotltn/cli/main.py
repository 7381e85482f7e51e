"""The command `fotltn`."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fotltn.cli.ask import ask
from fotltn.cli.audit import audit
from fotltn.cli.check import check
from fotltn.cli.doubt import doubt
from fotltn.cli.eval import evaluate
from fotltn.cli.inspect import inspect
from fotltn.cli.monitor import monitor
from fotltn.cli.new import new
from fotltn.cli.output import FINDINGS, INTERRUPTED, Escaping, complain
from fotltn.cli.plan import plan
from fotltn.cli.predict import predict
from fotltn.cli.prepare import prepare
from fotltn.cli.report import report
from fotltn.cli.reproduce import reproduce
from fotltn.cli.rules import rules
from fotltn.cli.score import score
from fotltn.cli.shards import in_shards
from fotltn.cli.show import show
from fotltn.cli.train import train
from fotltn.cli.tune import tune
from fotltn.cli.violations import violations
from fotltn.cli.watch import watch
from fotltn.cli.worlds import worlds
from fotltn.cli.worth import worth
from fotltn.errors import FotError, InterruptedTrainingError, LimitError
from fotltn.stop import while_loading
from fotltn.syntax.operators import Temporal
from fotltn.threads import own_process

#: Commands that were renamed, by their old name.
_RENAMED = {"evaluate": "score", "query": "ask", "explain": "plan"}


class ByTask(TyperGroup):
    """Lists commands by task, each with its whole summary, and accepts old names."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the list of commands for `--help`."""
        tasks: dict[str, list[tuple[str, str]]] = {}
        width = max(map(len, self.commands))
        for name, command in self.commands.items():
            task = str(getattr(command, "rich_help_panel", None) or "Commands")
            summary = command.get_short_help_str(limit=formatter.width)
            tasks.setdefault(task, []).append((name.ljust(width), summary))
        for task, rows in tasks.items():
            with formatter.section(task):
                formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command to call; warn if its name is an old one."""
        old = args[0]
        if new := _RENAMED.get(old):
            print(
                f"fotltn {old} is now called fotltn {new}; a later version will not "
                "accept the old name",
                file=sys.stderr,
            )
            args = [new, *args[1:]]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="fotltn",
    cls=ByTask,
    help="Check, evaluate and learn rules about things that change over time.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Theories and facts": {
        "check": check, "show": show, "eval": in_shards(evaluate), "rules": in_shards(rules),
        "monitor": monitor,
        "watch": watch,
        "plan": plan,
    },
    "Learning": {"new": new, "prepare": prepare, "train": train, "tune": tune, "worth": worth},
    "Models": {
        "score": in_shards(score), "ask": ask, "predict": in_shards(predict), "worlds": worlds,
        "doubt": doubt,
        "violations": violations, "audit": in_shards(audit), "report": report, "inspect": inspect,
    },
    "The paper": {"reproduce": reproduce},
}  # fmt: skip
#: Commands that take formulas; their help ends with the operators.
_TAKE_FORMULAS = {"eval", "rules", "ask"}


def _operators() -> str:
    """Return the operators of formulas, for the end of a command's help."""
    past, future = (
        ", ".join(f"{o.ascii} {o.value.words}" for o in Temporal if o.value.past is past)
        for past in (True, False)
    )
    return (
        f"Formulas: !a, a & b, a | b, a -> b, a <-> b, forall x. a, exists x. a. Future: {future}. "
        f"Past: {past}. Bounds: F[<=3] a, G[2,5] a, a U[>=2] b. Without the present: F+ a. More: "
        "the page 'Cheat sheet' of the documentation, docs/cheatsheet.md."
    )


for _task, _commands in _COMMANDS.items():
    for _name, _command in _commands.items():
        _more = {"ignore_unknown_options": True} if _command is reproduce else None
        _epilog = _operators() if _name in _TAKE_FORMULAS else None
        app.command(_name, context_settings=_more, rich_help_panel=_task, epilog=_epilog)(_command)


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
    """Check, evaluate and learn rules about things that change over time."""


def main(program: typer.Typer = app) -> None:
    """Run a command line; an error in the input becomes a message and exit status 1."""
    own_process()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with (
            redirect_stdout(Escaping(sys.stdout)), redirect_stderr(Escaping(sys.stderr)),
            while_loading(_stop_at_once),
        ):  # fmt: skip
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
    """Run the command, print everything, and return the exit status."""
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
        if status == INTERRUPTED:
            print("stopped", file=sys.stderr)
    return status


def _stop_at_once() -> None:
    print("stopped", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)


def _discard_output() -> None:
    """Point standard output nowhere, so that the flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
