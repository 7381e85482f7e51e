"""`fotltn report`: a model as a single page to send around."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from fotltn.cli.asked import asked_model
from fotltn.cli.options import ModelFolder, NewTables, Threshold
from fotltn.cli.output import emit_json
from fotltn.errors import DataError
from fotltn.format import size
from fotltn.semantics.config import check_share

_PAGE = Path("report.html")


def report(
    model: ModelFolder,
    data: NewTables = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The page to write.  [default: report.html]"),
    ] = None,
    top: Annotated[
        int,
        typer.Option("--top", min=1, help="How many of the worst bindings of each axiom to show."),
    ] = 10,
    threshold: Threshold = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file even if it is not a report.")
    ] = False,
    brief: Annotated[
        bool,
        typer.Option("--brief", help="One page: a verdict, three numbers, and what to do."),
    ] = False,
    pdf: Annotated[
        bool,
        typer.Option("--pdf", help="Also print the page as a PDF beside it, with Chromium."),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the content as JSON; the page is written only with -o."),
    ] = False,
) -> None:
    """Write a report as one HTML file to send around.

    It opens offline, light or dark, and prints well. It has metrics, training, every axiom with its
    audit, its truth over time and its worst bindings, precision and recall, calibration, the
    theory, and its origin; --brief is for decision makers. An existing report is replaced; any
    other file only with --force. Exit status: 0 if it is written, 1 if the input has errors, 2 for
    a wrong call.
    """
    check_share(threshold)
    place = place_of(output, force=force, as_json=as_json)
    if pdf and place is None:
        raise DataError("the PDF is written beside a page; name the page with -o")
    from fotltn.cli.terminal import bar
    from fotltn.reporting.model_report import brief_page, model_content, model_page
    from fotltn.reporting.pdf import check_pdf, write_pdf

    printed = place.with_suffix(".pdf") if pdf and place is not None else None
    if printed is not None:
        check_pdf(printed, force=force)

    with bar("axioms", quiet=as_json) as show:
        content = model_content(
            asked_model(model, data), name_of(model), threshold=threshold, top=top, on_step=show
        )
    text = ""
    if place is not None:
        with bar("drawing", quiet=as_json) as show:
            text = brief_page(content) if brief else model_page(content, on_step=show)
    if printed is not None:
        write_pdf(text, printed)
    beside = {"pdf": None if printed is None else str(printed)}
    deliver(
        content.told, lambda: beside | content.as_dict(), text, place, force=force, as_json=as_json
    )
    if printed is not None and not as_json:
        print(f"{printed}: {size(printed.stat().st_size)}")


def place_of(output: Path | None, *, force: bool, as_json: bool) -> Path | None:
    """Return the path of the page, if one is wanted, after checking that it can be written."""
    from fotltn.reporting.html import check_packages, check_place

    place = output or (None if as_json else _PAGE)
    if place is not None:
        check_packages()
        check_place(place, force=force)
    return place


def deliver(
    told: str,
    content: Callable[[], dict[str, Any]],
    text: str,
    place: Path | None,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Write the page, and print its contents: in a few words, or all of it as data."""
    from fotltn.reporting.html import write_page

    if place is not None:
        write_page(text, place, force=force)
    if as_json:
        emit_json({"ok": True, "file": None if place is None else str(place), **content()})
    else:
        print(f"{place}: {told}, {size(len(text.encode()))}")


def name_of(path: Path) -> str:
    """Return only the last two parts of a path, because reports are sent around."""
    parts = [part for part in path.parts if part not in (path.anchor, ".", "..")]
    return "/".join(parts[-2:]) or path.resolve().name or str(path)
