"""`fotltn reproduce`: the paper's experiments, from generated data to tables and plots."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fotltn.cli.output import emit_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fotltn.experiments.protocol import Run


def reproduce(
    folder: Annotated[Path, typer.Argument(help="Where records, tables and figures go.")] = Path(
        "reproduction"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="One data set, three fractions, three repetitions.")
    ] = False,
    device: Annotated[
        str, typer.Option("--device", help="cpu, or cuda: then many runs are one computation.")
    ] = "cpu",
    processes: Annotated[
        int, typer.Option("--processes", min=1, help="On a CPU, how many at a time.")
    ] = os.cpu_count() or 1,
    data: Annotated[
        list[str] | None, typer.Option("--data", help="CarPed35K or CarPed180K; repeatable.")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="FOT-LTN+BK, FOT-LTN or HTGNN; repeatable."),
    ] = None,
    limit: Annotated[
        bool, typer.Option("--limit/--no-limit", help="Also sample the Bayes limit.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Reproduce the paper: 480 runs, its tables and its figure, ours beside theirs.

    Runs that are on record in the folder are not run again, so that an interrupted reproduction
    goes on where it was.
    """
    from fotltn.errors import DataError, did_you_mean, listing
    from fotltn.experiments.protocol import DATA, FRACTIONS, METHODS, READING, REPETITIONS, grid
    from fotltn.experiments.reproduce import (
        QUICK_FRACTIONS,
        QUICK_REPETITIONS,
        background,
        bayes,
    )
    from fotltn.experiments.reproduce import quick as smaller
    from fotltn.experiments.sweep import sweep
    from fotltn.report.records import read
    from fotltn.report.write import write_report

    names = tuple(data or (["CarPed35K"] if quick else DATA))
    methods = tuple(method or METHODS)
    for what, given, known in (("data set", names, DATA), ("method", methods, METHODS)):
        for name in given:
            if name not in known:
                hint = did_you_mean(name, known) or f"there are {listing(known)}"
                raise DataError(f"unknown {what} '{name}'; {hint}")
    fractions = QUICK_FRACTIONS if quick else FRACTIONS
    repetitions = QUICK_REPETITIONS if quick else REPETITIONS
    setting = smaller() if quick else READING
    runs, limits = folder / "runs.jsonl", folder / "limit.jsonl"
    began = time.perf_counter()
    with _Progress(quiet=as_json) as progress:
        count = sweep(
            grid(names, methods, fractions, repetitions), setting, runs, device=device,
            processes=processes, on_batch=progress.batch,
        )  # fmt: skip
        if limit:
            progress.say("sampling the Bayes limit")
            bayes(names, fractions, repetitions, limits, setting=setting, device=device)
    taken = time.perf_counter() - began
    found = read(runs, limits) if limits.exists() else read(runs)
    known_facts = background(names)
    files = write_report(found, folder / "report", **known_facts)
    if as_json:
        emit_json({
            "ok": True, "runs": len(found), "new": count, "seconds": taken,
            "files": [str(f) for f in files],
        })  # fmt: skip
        return
    from fotltn.report.render import as_text
    from fotltn.report.tables import results_table

    for metric in ("pr_auc", "kb_sat"):
        print(as_text(results_table(
            found, metric, truth=known_facts["truth"], all_false=known_facts["all_false"]
        )))  # fmt: skip
        print()
    print(f"{count} runs in {taken:.0f} s; {len(files)} files in {folder / 'report'}")


class _Progress:
    """Batches as they are done, with the time that is left."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self.console = Console(stderr=True, quiet=quiet)
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TextColumn("runs"), TimeRemainingColumn(), console=self.console, disable=quiet,
        )  # fmt: skip
        self.task = self.bar.add_task("running", total=None)

    def __enter__(self) -> _Progress:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def say(self, text: str) -> None:
        """Say what is done now."""
        self.bar.update(self.task, description=text)

    def batch(
        self, group: Sequence[Run], found: Sequence[dict[str, Any]], done: int, total: int
    ) -> None:
        """Show a batch that is done."""
        first, mean = group[0], sum(r["pr_auc"] for r in found) / len(found)
        self.bar.update(self.task, completed=done, total=total)
        if not self.console.is_terminal:
            self.console.print(
                f"{done} of {total} runs: {first.data}, {first.method}, PR-AUC {mean:.3f}"
            )
