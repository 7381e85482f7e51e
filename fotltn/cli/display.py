"""Show training: a live view in a terminal, and a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.styled import Styled

from fotltn.cli.output import warn
from fotltn.cli.tables import Grid, add, grid, metrics_table, show
from fotltn.cli.terminal import Pace, Terminal
from fotltn.errors import listing
from fotltn.format import count, degree, number, signed
from fotltn.project.callbacks import Callback

if TYPE_CHECKING:
    from fotltn.learn.fit import Epoch
    from fotltn.posterior.mixing import MixingReport
    from fotltn.posterior.run import SamplingProgress
    from fotltn.project.model import Model

_BACK = 10  # epochs over which a trend is measured
_STEADY = 0.0015  # a smaller change is no trend
_STAY = 6  # axioms in the summary that stays on the screen


class Display(Callback):
    """Shows each epoch or sweep when it ends: a callback of training."""

    def __init__(
        self, sweeps: int | None = None, *, quiet: bool = False, patient: bool = False
    ) -> None:
        """Show nothing before the first epoch or sweep.

        Args:
            sweeps: the number of sweeps to expect, if no training announces it.
            quiet: show nothing.
            patient: without a terminal, wait before the first line.
        """
        self.console = Terminal(sys.stderr)
        self.live: Live | None = None
        self.quiet = quiet
        self.best = 0
        self.pace = Pace(at_once=not patient)
        self.mixing: MixingReport | None = None
        self.first: Epoch | None = None
        self.recent: deque[Epoch] = deque(maxlen=_BACK)
        self.expect("sampling", "sweeps", sweeps)

    def expect(self, verb: str, what: str, total: int | None) -> None:
        """Make a progress bar for a number of epochs or sweeps."""
        self.bar = Progress(
            TextColumn(verb), BarColumn(), MofNCompleteColumn(), TextColumn(what),
            TimeRemainingColumn(), console=self.console,
        )  # fmt: skip
        self.task = self.bar.add_task(verb, total=total)

    def start(self, model: Model) -> None:
        """Print what will be trained."""
        if self.quiet:
            return
        if model.config.method == "posterior":
            how = model.config.posterior
            self.expect("sampling", "sweeps", how.burn_in + how.sweeps)
            made = f"{count(how.worlds)} worlds at once"
        else:
            self.expect("training", "epochs", model.config.training.epochs)
            made = count(sum(p.numel() for p in model.grounding.parameters())) + " parameters"
        axioms = len(model.theory.axioms)
        warn((*model.theory.warnings, *model.facts.warnings))
        if model.chosen:
            self.console.print(f"method: {model.config.method}, {model.chosen}")
        for sentence in (*stated_definitions(model), *model.bias):
            print(f"note: {sentence}", file=sys.stderr)
        self.console.print(
            f"{made}, {count(model.world.labels.total)} labelled facts, "
            f"{axioms} axiom{'s' * (axioms != 1)}"
        )
        self.go_live()

    def go_live(self) -> None:
        """Start a live view, if there is a terminal."""
        if self.console.is_terminal:
            self.live = Live(console=self.console, refresh_per_second=8, transient=True)
            self.live.start()

    def resume(self, epochs: Sequence[Epoch]) -> None:
        """Say where training continues."""
        for epoch in epochs:
            self._note(epoch)
        if not self.quiet:
            self.console.print(f"continues after epoch {count(epochs[-1].number)}")

    def _note(self, epoch: Epoch) -> None:
        self.best = epoch.number if epoch.best else self.best
        self.first = self.first or epoch
        self.recent.append(epoch)

    def epoch(self, epoch: Epoch) -> None:
        """Show an epoch."""
        self._note(epoch)
        if self.live is not None:
            self.bar.update(self.task, completed=epoch.number)
            rows = max(3, self.console.height - 6)
            self.live.update(Group(self.bar, _losses(epoch, self.best), self.axioms(rows)))
        elif not self.quiet and self.pace.due():
            mean = fmean(epoch.values.values()) if epoch.values else None
            axioms = "" if mean is None else f", mean of axioms {degree(mean)}"
            print(f"epoch {epoch.number}: loss {number(epoch.loss, 4)}{axioms}", file=sys.stderr)

    def sweep(self, progress: SamplingProgress) -> None:
        """Show a sweep."""
        self.mixing = progress.mixing or self.mixing
        if self.live is not None:
            self.bar.update(self.task, completed=progress.sweep)
            self.live.update(Group(self.bar, _agreement(progress, self.mixing)))
        elif not self.quiet and self.pace.due():
            agreed = "" if self.mixing is None else f", {mixing_text(self.mixing)}"
            learned = "".join(f", weight of {n} {number(w)}" for n, w in progress.weights.items())
            print(f"sweep {progress.sweep} of {progress.of}{learned}{agreed}", file=sys.stderr)

    def axioms(self, most: int, *, since_start: bool = False) -> Grid:
        """Return the values of axioms, the worst first, with their trends.

        Args:
            most: the number of axioms to list; the others are only counted.
            since_start: compare with the first epoch instead of some epochs ago.
        """
        now, before = self.recent[-1], self.first if since_start else self.recent[0]
        assert before is not None
        table = grid(
            "axiom", "value", "bar", "change", left=["axiom", "bar"], aside=["bar"], plain=True
        )
        ranked = sorted(now.values.items(), key=lambda item: item[1])
        for name, value in ranked[:most]:
            style, change = shade(value), value - before.values.get(name, value)
            shown = trend(change)
            told = f"{shown} {signed(change)}" if since_start else shown
            add(table, name, Styled(degree(value), style), Styled(bar(value), style), told)
        if len(ranked) > most:
            rest = f"{count(len(ranked) - most)} more, from {degree(ranked[most][1])} on"
            add(table, "…", "", rest, "")
        return table

    def end(self, model: Model | None) -> None:
        """Close the live view; the final values of axioms stay on the screen."""
        if self.live is not None:
            self.live.stop()
            if model is not None and self.recent and self.recent[-1].values:
                self.console.print("axioms, the lowest first, and their change in training:")
                self.console.print(self.axioms(_STAY, since_start=True))


def stated_definitions(model: Model) -> Iterator[str]:
    """Return a sentence for each predicate that axioms define."""
    for name, how in model.config.predicates.items():
        if how.axioms:
            head = f"{name}({', '.join(how.variables)})" if how.variables else name
            say = "says" if len(how.axioms) == 1 else "say"
            yield f"{head} is computed as {how.formula}, as {listing(how.axioms, 20)} {say}"


def shade(value: float) -> str:
    """Return the colour of a degree: false, in between, or true."""
    return "red" if value < 0.5 else "yellow" if value < 0.9 else "green"


def trend(change: float) -> str:
    """Return an arrow for a degree that rises, falls or stays."""
    return "·" if abs(change) < _STEADY else "↑" if change > 0 else "↓"


def _losses(epoch: Epoch, best: int) -> Grid:
    table = grid("what", "value", "more", left=["what", "more"], plain=True)
    add(table, "loss", number(epoch.loss, 4), f"best epoch {best}")
    add(table, "facts", number(epoch.facts, 4), f"watched {number(epoch.watched, 4)}")
    return table


def _agreement(progress: SamplingProgress, mixing: MixingReport | None) -> Grid:
    """Return how far chains agree, by predicate."""
    table = grid("predicate", "value", "more", left=["predicate", "more"], plain=True)
    for name, value in progress.weights.items():
        add(table, name, f"weight {number(value)}", "")
    if mixing is None:
        add(table, "worlds", "", "counted" if progress.counts else "warming up")
        return table
    for name, value in mixing.r_hat.items():
        draws = count(round(mixing.effective[name]))
        add(table, name, f"R-hat {number(value)}", f"{draws} effective draws")
    return table


def mixing_text(mixing: MixingReport) -> str:
    """Return the worst agreement of chains, in a few words."""
    if not mixing.r_hat:
        return "no fact is open"
    fewest = count(round(min(mixing.effective.values())))
    return f"R-hat {number(mixing.worst)}, at least {fewest} effective draws"


def bar(value: float, width: int = 24) -> str:
    """Return a degree as a bar."""
    filled = round(max(0.0, min(1.0, value)) * width)
    return "█" * filled + "░" * (width - filled)


def print_metrics(model: Model) -> None:
    """Print how good the predictions of test facts are, by predicate."""
    report = model.metrics()
    if report is None:
        print("No facts are held back for testing, so there are no metrics.")
    else:
        show(metrics_table(report, probabilities=model.posterior is not None))
