"""Commands that run the experiments, report their records, and write the pages about them."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fotltn.cli.output import emit_json
from fotltn.cli.report import deliver, name_of, place_of
from fotltn.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reproduction.paper.protocol import Run
    from reproduction.posterior.study import Job


app = typer.Typer(
    name="reproduction",
    help="Run the paper's experiments and the studies, and report their results.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def run(
    folder: Annotated[Path, typer.Argument(help="Folder for records, tables and figures.")] = Path(
        "reproduced"
    ),
    quick: Annotated[
        bool,
        typer.Option("--quick", help="CarPed35K, two fractions, two repetitions, 200 epochs."),
    ] = False,
    device: Annotated[
        str, typer.Option("--device", help="cpu, or cuda, which computes many runs at once.")
    ] = "cpu",
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes", min=1, help="Number of runs at a time on a CPU; by default, its cores."
        ),
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option("--data", help="CarPed35K or CarPed180K; repeatable.")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="FOT-LTN+BK, FOT-LTN or HTGNN; repeatable."),
    ] = None,
    fraction: Annotated[
        list[float] | None,
        typer.Option("--fraction", help="Share of the facts to learn from; repeatable."),
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option("--repetitions", min=1, help="Number of runs of each cell.")
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Limit on epochs.")] = None,
    limit: Annotated[
        bool, typer.Option("--limit/--no-limit", help="Also sample the Bayes limit.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Reproduce the paper: 480 runs, with its tables and figure next to ours.

    Runs on record in the folder are not repeated, so an interrupted reproduction continues; only
    one may run at a time. Tables and figures show all runs on record.
    """
    from fotltn.learn.locks import reserved
    from reproduction.paper import reproduce as version
    from reproduction.paper.protocol import DATA, READING, grid
    from reproduction.paper.published import FRACTIONS, METHODS, REPETITIONS
    from reproduction.paper.sweep import sweep
    from reproduction.report.export import write_report
    from reproduction.report.records import read, write

    if find_spec("matplotlib") is None:
        raise DataError("figures need matplotlib: pip install matplotlib")
    version.check_device(device)
    names = tuple(data or (version.QUICK_DATA if quick else DATA))
    fractions = tuple(fraction or (version.QUICK_FRACTIONS if quick else FRACTIONS))
    count = repetitions or (version.QUICK_REPETITIONS if quick else REPETITIONS)
    setting = replace(READING, epochs=epochs or (version.QUICK_EPOCHS if quick else READING.epochs))
    wanted = list(grid(names, tuple(method or METHODS), fractions, count))
    runs, limits = folder / "runs.jsonl", folder / "limit.jsonl"
    began = time.perf_counter()
    with reserved(folder, "reproduction"), _Progress(quiet=as_json) as progress:
        new = sweep(
            wanted, setting, runs, device=device, processes=processes or os.cpu_count() or 1,
            on_batch=progress.batch,
        )  # fmt: skip
        if limit:
            progress.start("sampling the Bayes limit")
            new += version.bayes(
                names, fractions, count, limits, setting=setting, device=device,
                on_done=progress.show,
            )  # fmt: skip
    taken = time.perf_counter() - began
    recorded = read(runs, limits) if limits.exists() else read(runs)
    known = version.background([n for n in DATA if n in {one.data for one in recorded}])
    records = write(recorded, folder / "records.parquet")
    files = (records, *write_report(recorded, folder / "report", **known))
    if as_json:
        emit_json({
            "ok": True, "runs": len(recorded), "new": new, "seconds": taken,
            "files": [str(f) for f in files],
        })  # fmt: skip
        return
    from reproduction.report.render import as_text
    from reproduction.report.tables import results_table

    for metric in ("pr_auc", "kb_sat"):
        print(as_text(results_table(
            recorded, metric, truth=known["truth"], all_false=known["all_false"]
        )))  # fmt: skip
        print()
    print(
        f"{new} of {len(recorded)} runs done now, in {taken:.0f} s; {len(files)} files in {folder}"
    )


@app.command()
def posterior(
    folder: Annotated[Path, typer.Argument(help="Folder for records.")] = Path("posterior"),
    world: Annotated[
        list[str] | None,
        typer.Option("--world", help="deliveries, CarPed35K or ward; repeatable."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            help="gradient, posterior, 'posterior, rates learned' or limit; for the ward also "
            "'limit, from the truth'; repeatable.",
        ),
    ] = None,
    fraction: Annotated[
        list[float] | None,
        typer.Option("--fraction", help="Share of the facts that are labelled; repeatable."),
    ] = None,
    repetitions: Annotated[
        int, typer.Option("--repetitions", min=1, help="Number of runs of each cell.")
    ] = 10,
    worlds: Annotated[
        int | None, typer.Option("--worlds", min=1, help="Number of worlds to sample at once.")
    ] = None,
    burn_in: Annotated[
        int | None, typer.Option("--burn-in", min=0, help="Number of sweeps that do not count.")
    ] = None,
    sweeps: Annotated[
        int | None, typer.Option("--sweeps", min=1, help="Sweeps that count.")
    ] = None,
    enough: Annotated[
        int | None,
        typer.Option(
            "--enough", min=0, help="Effective draws of a fact that end sampling; 0 for all sweeps."
        ),
    ] = None,
    device: Annotated[
        str, typer.Option("--device", help="cpu, or cuda, which computes repetitions at once.")
    ] = "cpu",
    processes: Annotated[
        int, typer.Option("--processes", min=1, help="Number of runs at a time.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare the posterior with the gradient method and the Bayes limit, on three worlds.

    Runs on record in the folder are not repeated, so an interrupted study continues; only one may
    run at a time.
    """
    from fotltn.learn.locks import reserved
    from fotltn.posterior.sampler import Sampling
    from reproduction.paper.reproduce import check_device
    from reproduction.posterior.cases import WORLDS
    from reproduction.posterior.methods import METHODS
    from reproduction.posterior.study import METRICS, SHARES, grid, study, table
    from reproduction.report.records import read
    from reproduction.report.render import as_text

    check_device(device)
    usual = Sampling()
    sampling = replace(
        usual, worlds=worlds or usual.worlds, sweeps=sweeps or usual.sweeps,
        burn_in=usual.burn_in if burn_in is None else burn_in,
        enough=usual.enough if enough is None else enough,
    )  # fmt: skip
    jobs = list(grid(world or WORLDS, method or METHODS, fraction or SHARES, repetitions))
    began, path = time.perf_counter(), folder / "runs.jsonl"
    with reserved(folder, "study"), _Progress(quiet=as_json) as progress:
        new = study(
            jobs, path, sampling=sampling, device=device, processes=processes,
            on_done=progress.batch,
        )  # fmt: skip
    taken = time.perf_counter() - began
    records = read(path)
    if as_json:
        emit_json({
            "ok": True, "runs": len(records), "new": new, "seconds": taken, "file": str(path),
        })  # fmt: skip
        return
    for metric in METRICS:
        print(as_text(table(records, metric)))
    print(f"{new} of {len(records)} runs done now, in {taken:.0f} s; records in {path}")


@app.command()
def report(
    path: Annotated[
        Path, typer.Argument(metavar="RECORDS", help="Records of runs: a file, or their folder.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The page to write.  [default: report.html]"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file even if it is not a report.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the content as JSON; the page is written only with -o."),
    ] = False,
) -> None:
    """Write comparison tables and plots of many runs as one HTML file.

    For the paper's data sets, it includes the published figures.
    """
    from fotltn import __version__
    from reproduction.paper.protocol import DATA
    from reproduction.paper.reproduce import background
    from reproduction.report.html import sweep_content, sweep_page
    from reproduction.report.records import find_records, read

    place = place_of(output, force=force, as_json=as_json)
    records = read(*(find_records(path) if path.is_dir() else (path,)))
    if not records:
        raise DataError(f"there are no runs in {path}")
    names = [name for name in DATA if name in {one.data for one in records}]
    known: dict[str, Any] = background(names) if names else {}
    content = sweep_content(records, name_of(path), version=__version__, **known)
    text = "" if place is None else sweep_page(content)
    deliver(content.told, content.as_dict, text, place, force=force, as_json=as_json)


@app.command()
def pages(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a page is out of date.")
    ] = False,
) -> None:
    """Write the pages in docs/ about the experiments, and their figures, from the records."""
    from reproduction.pages import stale, write

    if not check:
        write()
    elif names := stale():
        raise DataError(f"out of date: {', '.join(names)}; run: python -m reproduction pages")


class _Progress:
    """Shows finished batches and the time left."""

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
            TextColumn("runs"), TimeRemainingColumn(), console=self.console,
            disable=quiet or not self.console.is_terminal,
            speed_estimate_period=3600,  # because a run may take minutes
        )  # fmt: skip
        self.task = self.bar.add_task("running", total=None)

    def __enter__(self) -> _Progress:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def start(self, text: str) -> None:
        """Begin another task."""
        self.bar.remove_task(self.task)
        self.task = self.bar.add_task(text, total=None)
        self.say(text)

    def say(self, text: str) -> None:
        """Print a line, unless there is a progress bar."""
        if not self.console.is_terminal:
            self.console.print(text)

    def show(self, done: int, total: int) -> None:
        """Show how many are done."""
        self.bar.update(self.task, completed=done, total=total)

    def batch(
        self, group: Sequence[Run | Job], results: Sequence[dict[str, Any]], done: int, total: int
    ) -> None:
        """Show a finished batch."""
        first, mean = group[0], sum(r["pr_auc"] for r in results) / len(results)
        self.show(done, total)
        self.say(f"{done} of {total} runs: {first.data}, {first.method}, PR-AUC {mean:.3f}")
