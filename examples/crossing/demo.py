"""Cars and pedestrians: learn who stops and who crosses from few, partly wrong labels and 13 rules.

    python examples/crossing/demo.py [--epochs N] [--keep FOLDER]

The scene is that of the paper: 50 cars, 50 pedestrians, 100 steps. A tenth of the facts are given
as labels, a tenth of these wrong. The same networks are trained with the axioms and without.
"""

from __future__ import annotations

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

from fotltn.cli.display import Display, bar
from fotltn.cli.new import make
from fotltn.learn.audit_data import Audit
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
        make(folder, cars=50, pedestrians=50, steps=100, seed=0)
        config = read_config(folder)
        if args.epochs:
            config = replace(config, training=replace(config.training, epochs=args.epochs))
        began = time.perf_counter()
        show_task(config)
        ruled = train(config, folder / "model", "with the 13 axioms")
        plain = train(without_axioms(config), folder / "facts-only", "from the labels alone")
        audit = ruled.audit()
        show_metrics(ruled, plain)
        show_axioms(audit, plain.audit())
        show_violations(ruled, audit)
        console.print(f"[dim]{time.perf_counter() - began:.0f} s in all[/dim]")


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


def show_metrics(ruled: Model, plain: Model) -> None:
    """PR-AUC on the facts that were held back, which are not noisy."""
    console.print(Rule("Predictions of the 90 % of facts not seen", align="left", style="dim"))
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("PR-AUC")
    for column in ("with axioms", "labels alone", "chance"):
        table.add_column(column, justify="right")
    table.add_column("")
    with_axioms, without = ruled.metrics(), plain.metrics()
    assert with_axioms is not None
    assert without is not None
    for name, one in with_axioms.predicates.items():
        table.add_row(
            name, f"{one.pr_auc.value:.3f}", f"{without.predicates[name].pr_auc.value:.3f}",
            f"{one.chance.value:.3f}", bar(one.pr_auc.value),
        )  # fmt: skip
    means = [with_axioms.mean["pr_auc"], without.mean["pr_auc"], with_axioms.mean["chance"]]
    table.add_section()
    table.add_row("mean", *(f"{m.value:.3f}" for m in means), bar(means[0].value), style="bold")
    console.print(table)


def show_axioms(audit: Audit, plain: Audit) -> None:
    """What the axioms' values are, and what they are worth."""
    console.print(Rule("The axioms, and what their values are worth", align="left", style="dim"))
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("axiom")
    for column in (
        "with axioms", "labels alone", "truth", "all false", "all 0.5", "violated", "support",
    ):  # fmt: skip
        table.add_column(column, justify="right")
    for axiom in audit.axioms:
        crisp = axiom.on_model
        support = "" if axiom.evidence.support is None else f"{axiom.evidence.support:,}"
        table.add_row(
            axiom.name, f"{axiom.value:.3f}", f"{plain.axiom(axiom.name).value:.3f}",
            "" if axiom.labels is None else f"{axiom.labels:.3f}", f"{axiom.all_false:.3f}",
            f"{axiom.all_half:.3f}", f"{crisp.violation_rate:.1%}", support,
        )  # fmt: skip
    sat, other = audit.knowledge_base.kb_sat, plain.knowledge_base.kb_sat
    table.add_section()
    table.add_row(
        "KB-SAT", f"{sat.value:.3f}", f"{other.value:.3f}",
        "" if sat.labels is None else f"{sat.labels:.3f}", f"{sat.all_false:.3f}",
        f"{sat.all_half:.3f}", style="bold",
    )  # fmt: skip
    console.print(table)
    console.print(Text(f"! {audit.knowledge_base.meaning}", style="yellow"))
    for finding in [f for f in audit.warnings if f.kind in ("diluted", "truncated")][:3]:
        console.print(Text(f"! {finding.message}", style="yellow"))


def show_violations(model: Model, audit: Audit) -> None:
    """Where the axiom with the lowest value fails, by name and time."""
    worst = min((a for a in audit.axioms if a.on_model.violations), key=lambda a: a.value)
    found = model.violations(worst.name, top=5)
    title = f"The five worst violations of {worst.name}, whose value is {found.value:.3f}"
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
