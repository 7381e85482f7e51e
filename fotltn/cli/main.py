"""The command `fotltn`."""

from __future__ import annotations

import io
import os
import shlex
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib import metadata
from pathlib import Path
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
from fotltn.cli.output import BUG, FINDINGS, INTERRUPTED, Escaping, complain
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
from fotltn.errors import DataError, FotError, InterruptedTrainingError, LimitError
from fotltn.stop import while_loading
from fotltn.syntax.operators import Temporal
from fotltn.threads import own_process

#: The option, and the environment variable, with which a bug shows its traceback.
_TRACEBACK, _TRACEBACK_SET = "--traceback", "FOTLTN_TRACEBACK"
_PACKAGE = Path(__file__).resolve().parents[1]

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
#: Commands that take formulas; their help has the operators.
_TAKE_FORMULAS = {"eval", "rules", "ask"}
_STREAM = "examples/monitor/crossing.fot --input examples/monitor/steps.jsonl"
#: What the help of each command ends with; `fotltn new crossing` makes the folder.
_EXAMPLES = {
    "check": "crossing/theory.fot",
    "show": "crossing/theory.fot --as latex",
    "eval": "crossing/theory.fot --facts crossing/facts.csv --formula 'F Stop(x)'",
    "rules": "crossing --formula 'forall x. G(Stop(x) -> Car(x))'",
    "monitor": _STREAM,
    "watch": _STREAM,
    "plan": "crossing",
    "new": "crossing --cars 8 --pedestrians 8 --steps 40",
    "prepare": "examples/jaad blocks",
    "train": "crossing --method posterior",
    "tune": "pumps --search training.rate=0.001..0.1:log --trials 10",
    "worth": "crossing --axiom A1",
    "score": "crossing",
    "ask": "crossing 'F Stop(x)' --top 5",
    "predict": "crossing --predicate Stop -o stops.csv",
    "worlds": "crossing -o worlds",
    "doubt": "crossing --top 5",
    "violations": "crossing A9 --why 1",
    "audit": "crossing --suggest",
    "report": "crossing -o crossing.html",
    "inspect": "crossing",
    "reproduce": "--help",
}


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
        _example = f"Example: fotltn {_name} {_EXAMPLES[_name]}"
        _epilog = f"{_operators()}\n\n{_example}" if _name in _TAKE_FORMULAS else _example
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
    traceback: Annotated[
        bool, typer.Option(_TRACEBACK, help="Show the traceback of a bug, to report it.")
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
        print(f"error: cannot write the output: {error.strerror or error}", file=sys.stderr)
        sys.exit(FINDINGS)


def _run(program: typer.Typer) -> int:
    """Run the command, print everything, and return the exit status."""
    try:
        program()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return INTERRUPTED
    except SystemExit as stop:
        status = int(stop.code or 0)
        if status == INTERRUPTED:
            print("stopped", file=sys.stderr)
        return status
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None:
            raise  # standard output cannot be written
        status, complaint = _complaint(error)
        if status == BUG and (_TRACEBACK in sys.argv or os.environ.get(_TRACEBACK_SET)):
            traceback.print_exception(error)
        complain(complaint, as_json="--json" in sys.argv)
        return status
    return 0


def _complaint(error: Exception) -> tuple[int, FotError]:
    """Return the exit status of an error, and what to say of it."""
    match error:
        case InterruptedTrainingError():
            return INTERRUPTED, error
        case FotError():
            return FINDINGS, error
        case RecursionError():
            return FINDINGS, LimitError("this nests too deeply", hint="split it into smaller parts")
        case OSError():
            return FINDINGS, DataError(f"cannot use {error.filename}: {error.strerror or error}")
        case MemoryError():
            return FINDINGS, LimitError("this does not fit into memory")
        case RuntimeError() if "allocate" in str(error):
            return FINDINGS, LimitError("this does not fit into memory")
        case _:
            return BUG, _bug(error)


def _bug(error: Exception) -> FotError:
    """Return what to say of an error that no input should cause: one line to report."""
    from fotltn import __version__

    frames = [(Path(f.filename), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    mine = [(path, line) for path, line in frames if path.is_relative_to(_PACKAGE)]
    where = "".join(f", {p.relative_to(_PACKAGE.parent)}:{line}" for p, line in mine[-1:])
    what = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    links = list[str]()
    with suppress(metadata.PackageNotFoundError):
        links = metadata.metadata("fotltn").get_all("Project-URL") or []
    issues = [link.split(", ", 1)[1] for link in links if "issue" in link.lower()]
    return FotError(
        f"this is a bug in fotltn {__version__}: {what[:200]}{where}; please report this line "
        f"{' '.join(['at', *issues[:1]]) if issues else 'to the maintainers'}, with the command: "
        f"{shlex.join(['fotltn', *sys.argv[1:]])[:500]} (fotltn {_TRACEBACK} … shows where)"
    )


def _stop_at_once() -> None:
    print("stopped", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)


def _discard_output() -> None:
    """Point standard output nowhere, so that the flush at exit does not fail again."""
    with suppress(io.UnsupportedOperation):  # it is a buffer of a program that calls this one
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
