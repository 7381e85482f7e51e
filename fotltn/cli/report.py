"""`fotltn report`: a model or a sweep as one page that can be sent around."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fotltn.cli.evaluate import check_threshold_share
from fotltn.cli.output import emit_json

if TYPE_CHECKING:
    from fotltn.report.html_model import ModelContent
    from fotltn.report.html_sweep import SweepContent

_PAGE = Path("report.html")


def report(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL_OR_RECORDS",
            help="The folder of a model or of a project, or records of runs: a file or a folder.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The page to write.  [default: report.html]"),
    ] = None,
    top: Annotated[
        int, typer.Option("--top", min=1, help="How many of the worst bindings of each axiom.")
    ] = 10,
    threshold: Annotated[
        float, typer.Option("--threshold", help="Degrees at or above it count as true.")
    ] = 0.5,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that is no report, too.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the content as JSON; the page is written only with -o."),
    ] = False,
) -> None:
    """Write a report as one HTML file that opens offline, light or dark, and prints well.

    Of a model: metrics, training, every axiom with its audit, its truth over time and its worst
    bindings, precision and recall, calibration, the theory, and where it all comes from. Of
    records (such as those of `fotltn reproduce`): the comparison tables and plots. A report that
    is there is replaced, another file only with --force. Exit status: 0 if it is written, 1 if
    the input has errors, 2 for a wrong call.
    """
    check_threshold_share(threshold)
    from fotltn.report.html import check_packages, check_place, write_page
    from fotltn.report.records import find_records, is_record_file

    place = output or (None if as_json else _PAGE)
    if place is not None:
        check_packages()
        check_place(place, force=force)
    content: ModelContent | SweepContent
    files = (path,) if is_record_file(path) else _unless_model(path, find_records(path))
    if files:
        from fotltn.report.html_sweep import sweep_page

        content = _sweep(path, files, quiet=as_json)
        text = sweep_page(content) if place else ""
    else:
        from fotltn.report.html_model_page import model_page

        content = _model(path, threshold, top, quiet=as_json)
        with _bar("drawing", quiet=as_json) as show:
            text = model_page(content, on_step=show) if place else ""
    if place is not None:
        write_page(text, place, force=force)
    if as_json:
        emit_json({"ok": True, "file": None if place is None else str(place), **content.as_dict()})
    else:
        print(f"{place}: {content.told}, {len(text.encode()) / 1024:,.0f} KiB")


def _unless_model(path: Path, files: tuple[Path, ...]) -> tuple[Path, ...]:
    """Records of a folder, which counts as a project or a model first."""
    from fotltn.learn.store import MANIFEST
    from fotltn.project.find import is_project

    return () if is_project(path) or (path / MANIFEST).exists() else files


def _model(path: Path, threshold: float, top: int, *, quiet: bool) -> ModelContent:
    from fotltn.project.find import find_model
    from fotltn.report.html_model import model_content

    model = find_model(path)
    with _bar("axioms", quiet=quiet) as show:
        return model_content(model, _name(path), threshold=threshold, top=top, on_step=show)


def _sweep(path: Path, files: tuple[Path, ...], *, quiet: bool) -> SweepContent:
    from fotltn import __version__
    from fotltn.errors import DataError
    from fotltn.experiments.protocol import DATA
    from fotltn.experiments.reproduce import background
    from fotltn.report.html_sweep import sweep_content
    from fotltn.report.records import read

    records = read(*files)
    if not records:
        raise DataError(f"there are no runs in {path}")
    with _bar("data sets", quiet=quiet) as show:
        show(0, 1)
        names = [name for name in DATA if name in {one.data for one in records}]
        known: dict[str, Any] = background(names) if names else {}
        show(1, 1)
    return sweep_content(records, _name(path), version=__version__, **known)


def _name(path: Path) -> str:
    """The last two parts of a path, and no more, since a report is sent around."""
    parts = [part for part in path.parts if part not in (path.anchor, ".", "..")]
    return "/".join(parts[-2:]) or path.resolve().name or str(path)


@contextmanager
def _bar(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error, if that is a terminal, and a function that moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, disable=hidden, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
