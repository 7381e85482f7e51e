"""Cars and pedestrians: learn who stops and who crosses, from few and noisy labels and 13 rules.

    python examples/crossing/demo.py [--epochs N] [--keep FOLDER]

The scene is the paper's: 50 cars, 50 pedestrians, 100 steps. A tenth of the facts are labels, and a
tenth of these are wrong. The demo learns three times: from the labels alone, with the axioms as in
the paper, and with the axioms as definitions, which we recommend.
"""

from __future__ import annotations

import signal
import sys


def stop(*_: object) -> None:
    """End with one line on Ctrl-C, even while modules load."""
    sys.stderr.write("stopped\n")
    sys.exit(130)


signal.signal(signal.SIGINT, stop)

import argparse
import subprocess
import tempfile
import time
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

import fotltn as fot

console = Console(width=None if sys.stdout.isatty() else 100)


def main() -> None:
    """Make the project, train three times, and show the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--keep", type=Path, help="keep the project in this folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch) / "crossing"
        began = time.perf_counter()
        papers = project(folder / "paper", args.epochs, "--paper")
        ours = project(folder / "ours", args.epochs)
        alone = {**papers, "objective": {**papers["objective"], "axioms": "none"}}
        show_task(papers["data"])
        models = {
            "labels alone": train(folder / "paper", alone, "from the labels alone"),
            "paper": train(folder / "paper", papers, "with the 13 axioms, as the paper does"),
            "recommended": train(folder / "ours", ours, "with the axioms as definitions"),
        }
        show_metrics(models)
        # Use the paper's semantics for all, so that values can be compared.
        paper = models["paper"]
        same = {n: replace(model, semantics=paper.semantics) for n, model in models.items()}
        audits = {name: model.audit() for name, model in same.items()}
        show_axioms(audits)
        show_violations(paper, audits["paper"])
        if args.keep:
            for name, model in models.items():
                model.save(folder / "models" / name.replace(" ", "-"))
        console.print(f"[dim]{time.perf_counter() - began:.0f} s in all[/dim]")


def project(folder: Path, epochs: int | None, *options: str) -> dict[str, Any]:
    """Return the settings of a project on the scene, as `fotltn new` makes it."""
    command = [sys.executable, "-m", "fotltn", "new", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.strip())
    settings = tomllib.loads((folder / "project.toml").read_text("utf-8"))
    if epochs:
        settings["training"]["epochs"] = epochs
    return settings


def percent(part: float) -> str:
    """A share in percent, with more digits where it is small."""
    return f"{100 * part:.{0 if part >= 0.1 else 1 if part >= 0.01 else 2}f} %"


def show_task(data: dict[str, Any]) -> None:
    """Explain the task."""
    text = (
        "50 cars and 50 pedestrians over 100 steps. Which cars stop, who crosses, and when?\n"
        f"Known: {percent(data['train'])} of the facts, {percent(data['flip'])} of them wrong, "
        "who is close to whom, and 13 rules such as\n"
        "[bold]forall x, y. G(Car(x) & Ped(y) & Crossing(y) & Close(x, y) -> WX Stop(x))[/bold]"
    )
    console.print(Panel(text, title="FOT-LTN", title_align="left", width=min(100, console.width)))


def train(folder: Path, settings: dict[str, Any], how: str) -> fot.Model:
    """Train with a progress bar."""
    console.print(Rule(f"Training {how}", align="left", style="dim"))
    theory, data = settings["theory"], settings["data"]
    epochs = settings["training"]["epochs"]
    progress = Progress(
        TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("epochs"),
        TimeRemainingColumn(),
    )  # fmt: skip
    task = progress.add_task("training", total=epochs)
    began = time.perf_counter()
    with Live(console=Console(stderr=True), refresh_per_second=8, transient=True) as live:

        def tell(epoch: Any) -> None:
            progress.update(task, completed=epoch.number)
            live.update(Group(progress, epoch_view(epoch)))

        model = fot.train(
            folder / theory["file"],
            facts=[folder / name for name in data["facts"]],
            preset=settings["preset"],
            semantics=theory["semantics"],
            p=theory["p"],
            train=data["train"],
            data={"flip": data["flip"], "seed": data["seed"]},
            inputs=settings.get("inputs"),
            predicates=settings["predicates"],
            objective=settings["objective"],
            training=settings["training"],
            callbacks=[tell],
        )
    taken = time.perf_counter() - began
    console.print(f"{model.reason}, {len(model.history)} epochs in {taken:.0f} s")
    return model


def epoch_view(epoch: Any) -> Table:
    """Show an epoch with the values of all axioms."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("[bold]loss", f"{epoch.loss:.4f}", f"facts {epoch.facts:.4f}")
    for name, value in epoch.values.items():
        table.add_row(f"[bold]{name}", f"{value:.3f}", bar(value))
    return table


def bar(value: float, width: int = 24) -> str:
    """Return a share as a bar."""
    filled = round(value * width)
    return "█" * filled + "░" * (width - filled)


def show_metrics(models: dict[str, fot.Model]) -> None:
    """Show PR-AUC on the held-back facts, which have no noise."""
    console.print(Rule("Predictions of the 90 % of the facts not seen", align="left", style="dim"))
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("PR-AUC")
    for column in (*models, "chance"):
        table.add_column(column, justify="right")
    table.add_column("")
    reports = [model.metrics() for model in models.values()]
    last = reports[-1]
    assert last is not None
    for name, one in last.predicates.items():
        values = [r.predicates[name].pr_auc.value for r in reports if r is not None]
        shown = [f"{v:.3f}" for v in (*values, one.chance.value)]
        table.add_row(name, *shown, bar(values[-1]))
    means = [r.mean["pr_auc"].value for r in reports if r is not None]
    shown = [f"{v:.3f}" for v in (*means, last.mean["chance"].value)]
    table.add_section()
    table.add_row("mean", *shown, bar(means[-1]), style="bold")
    console.print(table)


def show_axioms(audits: dict[str, Any]) -> None:
    """Show the values of the axioms, and what they are worth."""
    console.print(Rule("The axioms, and what their values are worth", align="left", style="dim"))
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("axiom")
    for column in (*audits, "truth", "all false", "all 0.5", "support"):
        table.add_column(column, justify="right")
    (*_, first) = audits.values()
    for axiom in first.axioms:
        support = "" if axiom.evidence.support is None else f"{axiom.evidence.support:,}"
        values = [audit.axiom(axiom.name).value for audit in audits.values()]
        known = [axiom.labels or 0.0, axiom.all_false, axiom.all_half]
        table.add_row(axiom.name, *(f"{v:.3f}" for v in (*values, *known)), support)
    sats = [audit.knowledge_base.kb_sat for audit in audits.values()]
    known = [sats[0].labels or 0.0, sats[0].all_false, sats[0].all_half]
    table.add_section()
    shown = [f"{v:.3f}" for v in (*(s.value for s in sats), *known)]
    table.add_row("KB-SAT", *shown, style="bold")
    console.print(table)
    console.print(Text(f"! {first.knowledge_base.meaning}", style="yellow"))
    for finding in [f for f in first.warnings if f.kind in ("diluted", "undecided")][:3]:
        console.print(Text(f"! {finding.message}", style="yellow"))


def show_violations(model: fot.Model, audit: Any) -> None:
    """Show where the axiom with the lowest value fails, by name and time."""
    worst = min((a for a in audit.axioms if a.on_model.violated), key=lambda a: a.value)
    found = model.violations(worst.name, top=5)
    title = f"The five worst violations of {worst.name} by the paper's model: {found.value:.3f}"
    console.print(Rule(title, align="left", style="dim"))
    console.print(Text(worst.text, style="bold"))
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in ("who", "time", "share of its error", "value", "because"):
        table.add_column(column, justify="right" if column in ("time", "value") else "left")
    for one in found:
        who = ", ".join(f"{v}={n}" for v, n in one.binding.items())
        because = ", ".join(
            f"{a.text}{'' if a.time is None else f'@{a.time}'}={a.value:.2f}" for a in one.atoms[:4]
        )
        table.add_row(who, str(one.time), percent(one.share), f"{one.value:.3f}", because)
    console.print(table)


if __name__ == "__main__":
    main()
