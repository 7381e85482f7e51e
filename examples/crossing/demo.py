"""Cars and pedestrians: learn who stops and who crosses from few, partly wrong labels and 13 rules.

    python examples/crossing/demo.py [--epochs N] [--keep FOLDER]

The scene is that of the paper: 50 cars, 50 pedestrians, 100 steps. A tenth of the facts are given
as labels, a tenth of these wrong. Learned from the labels alone, with the axioms as the paper does,
and with the axioms as definitions, as we recommend.
"""

from __future__ import annotations

import fotltn.cli.quiet  # noqa: F401 from here on, Ctrl-C ends it with a line

# isort: split
import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from fotltn.analysis.audit_data import Audit
from fotltn.cli.display import Display, bar
from fotltn.cli.new import make
from fotltn.project.config import Config, read_config
from fotltn.project.model import Model
from fotltn.project.train import train_and_save, without_axioms

console = Console(width=None if sys.stdout.isatty() else 100)


def main() -> None:
    """Make the project, train twice, and show what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--keep", type=Path, help="keep the project in this folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch) / "crossing"
        papers, ours = project(folder / "paper", True, args), project(folder / "ours", False, args)
        began = time.perf_counter()
        show_task(papers)
        plain = train(without_axioms(papers), folder / "labels-alone", "from the labels alone")
        ruled = train(papers, folder / "paper" / "model", "with the 13 axioms, as the paper does")
        best = train(ours, folder / "ours" / "model", "with the axioms as definitions")
        models = {"labels alone": plain, "paper": ruled, "recommended": best}
        show_metrics(models)
        # One meaning for all, the paper's, so that values can be compared.
        same = {n: replace(model, semantics=ruled.semantics) for n, model in models.items()}
        audits = {name: model.audit() for name, model in same.items()}
        show_axioms(audits)
        show_violations(ruled, audits["paper"])
        console.print(f"[dim]{time.perf_counter() - began:.0f} s in all[/dim]")


def project(folder: Path, paper: bool, args: argparse.Namespace) -> Config:
    """A project on the scene, as `fotltn new` makes it."""
    make(folder, cars=50, pedestrians=50, steps=100, seed=0, paper=paper)
    config = read_config(folder)
    if args.epochs:
        config = replace(config, training=replace(config.training, epochs=args.epochs))
    return config


def show_task(config: Config) -> None:
    """What is learned from what."""
    text = (
        "50 cars and 50 pedestrians over 100 steps. Which cars stop, who crosses, and when?\n"
        f"Known: {config.data.train:.0%} of the facts, {config.data.flip:.0%} of them wrong, "
        "who is close to whom, and 13 rules such as\n"
        "[bold]forall x, y. G(Car(x) & Ped(y) & Crossing(y) & Close(x, y) -> WX Stop(x))[/bold]"
    )
    console.print(Panel(text, title="FOT-LTN", title_align="left", width=min(100, console.width)))


def train(config: Config, path: Path, how: str) -> Model:
    """Train, with a live view."""
    console.print(Rule(f"Training {how}", align="left", style="dim"))
    began = time.perf_counter()
    with Display(config.training.epochs) as display:
        model = train_and_save(config, path, on_start=display.start, on_epoch=display.epoch)
    taken = time.perf_counter() - began
    console.print(f"{model.reason}, {len(model.history)} epochs in {taken:.0f} s")
    return model


def show_metrics(models: dict[str, Model]) -> None:
    """PR-AUC on the facts that were held back, which are not noisy."""
    console.print(Rule("Predictions of the 90 % of facts not seen", align="left", style="dim"))
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


def show_axioms(audits: dict[str, Audit]) -> None:
    """What the axioms' values are, and what they are worth."""
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
    for finding in [f for f in first.warnings if f.kind in ("diluted", "truncated")][:3]:
        console.print(Text(f"! {finding.message}", style="yellow"))


def show_violations(model: Model, audit: Audit) -> None:
    """Where the axiom with the lowest value fails, by name and time."""
    worst = min((a for a in audit.axioms if a.on_model.violations), key=lambda a: a.value)
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
        share = f"{one.share:.3%}"
        table.add_row(who, str(one.time), share, f"{one.value:.3f}", because)
    console.print(table)


if __name__ == "__main__":
    main()
