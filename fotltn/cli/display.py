"""What training looks like: a live view in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fotltn.cli.output import warn
from fotltn.cli.tables import metrics_table, show
from fotltn.cli.terminal import Terminal
from fotltn.errors import DataError, missing
from fotltn.format import count, degree, number

if TYPE_CHECKING:
    from fotltn.learn.fit import Epoch
    from fotltn.project.model import Model

_SECONDS = 10.0  # between lines where there is no terminal


class Display:
    """Shows epochs as they come, and writes TensorBoard's logs if that is asked for."""

    def __init__(self, epochs: int, *, logs: Path | None = None, quiet: bool = False) -> None:
        """Nothing is shown before the first epoch."""
        self.console = Terminal(sys.stderr)
        self.live: Live | None = None
        self.quiet = quiet
        self.best = 0
        self.last = 0.0
        self.bar = Progress(
            TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("epochs"),
            TimeRemainingColumn(), console=self.console,
        )  # fmt: skip
        self.task = self.bar.add_task("training", total=epochs)
        self.writer = _writer(logs) if logs is not None else None

    def __enter__(self) -> Self:
        if self.console.is_terminal and not self.quiet:
            self.live = Live(console=self.console, refresh_per_second=8, transient=True)
            self.live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.live is not None:
            self.live.stop()
        if self.writer is not None:
            self.writer.close()

    def start(self, built: Any) -> None:
        """Say what is trained."""
        if self.quiet:
            return
        parameters = sum(p.numel() for p in built.task.grounding.parameters())
        axioms = len(built.world.theory.axioms)
        warn((*built.world.theory.warnings, *built.world.facts.warnings))
        if built.task.training.batches is not None:
            from fotltn.networks.parts import bias

            for sentence in bias(built.task.training.batches, built.world.theory):
                print(f"note: {sentence}", file=sys.stderr)
        self.console.print(
            f"{count(parameters)} parameters, {count(built.task.labels.total)} labelled facts, "
            f"{axioms} axiom{'s' * (axioms != 1)}"
        )

    def epoch(self, epoch: Epoch) -> None:
        """Show an epoch."""
        self.best = epoch.number if epoch.best else self.best
        if self.writer is not None:
            self._log(epoch)
        if self.live is not None:
            self.bar.update(self.task, completed=epoch.number)
            self.live.update(Group(self.bar, _view(epoch, self.best)))
        elif not self.quiet and time.monotonic() - self.last > _SECONDS:
            self.last = time.monotonic()
            axioms = "" if epoch.axioms is None else f", axioms {degree(1 - epoch.axioms)}"
            print(f"epoch {epoch.number}: loss {number(epoch.loss, 4)}{axioms}", file=sys.stderr)

    def _log(self, epoch: Epoch) -> None:
        assert self.writer is not None
        self.writer.add_scalar("loss/total", epoch.loss, epoch.number)
        self.writer.add_scalar("loss/facts", epoch.facts, epoch.number)
        self.writer.add_scalar("loss/watched", epoch.watched, epoch.number)
        for name, value in epoch.values.items():
            self.writer.add_scalar(f"axioms/{name}", value, epoch.number)


def _writer(logs: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise missing("TensorBoard's logs need", "tensorboard", "tensorboard") from None
    try:
        return SummaryWriter(str(logs))
    except OSError as error:
        raise DataError(f"cannot write logs to '{logs}': {error.strerror}") from None


def _view(epoch: Epoch, best: int) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column()
    table.add_row("loss", number(epoch.loss, 4), f"best epoch {best}")
    table.add_row("facts", number(epoch.facts, 4), f"watched {number(epoch.watched, 4)}")
    for name, value in epoch.values.items():
        table.add_row(name, degree(value), bar(value))
    return table


def bar(value: float, width: int = 24) -> str:
    """A degree as a bar."""
    filled = round(max(0.0, min(1.0, value)) * width)
    return "█" * filled + "░" * (width - filled)


def print_metrics(model: Model) -> None:
    """How good the predictions of test facts are, by predicate."""
    report = model.metrics()
    if report is None:
        print("No facts are held back for testing, so that there are no metrics.")
    else:
        show(metrics_table(report))
