"""Pages as single files: a template with its style and figures."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fotltn.errors import DataError, missing
from fotltn.files import write_files
from fotltn.format import count, degree, entered, number, points, share, signed
from fotltn.reporting.svg import inline_svg

if TYPE_CHECKING:
    import jinja2
    from matplotlib.figure import Figure

PAGES = Path(__file__).parent / "pages"

#: A mark near the beginning of every page that fotltn writes.
MARK = '<meta name="generator" content="fotltn'
_HEAD = 4096  # the mark is within this many bytes


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure on a page, as SVG, with its caption."""

    svg: str
    caption: str


def picture(figure: Figure, name: str, label: str, caption: str) -> Picture:
    """Return a figure for a page, made by `inline_svg`, with its caption."""
    return Picture(inline_svg(figure, name=name, label=label), caption)


def check_packages() -> None:
    """Raise an error early if a package for pages is missing.

    Raises:
        DataError: jinja2 or matplotlib is missing.
    """
    for name in ("jinja2", "matplotlib"):
        if find_spec(name) is None:
            raise missing("reports need", name, "report")


@cache
def templates(*folders: Path) -> jinja2.Environment:
    """Return the templates in your folders and in `pages/`; inserted text is escaped.

    Numbers are formatted by `fotltn.format`.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, PAGES]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    written = (number, degree, entered, share, points, count, signed)
    environment.filters |= {f.__name__: f for f in written}
    return environment


def render(template: str, values: Mapping[str, Any], *folders: Path) -> str:
    """Return a page from a template in `pages/` or in your own folder.

    Raises:
        DataError: a package is missing.
    """
    check_packages()
    style = (PAGES / "style.css").read_text("utf-8")
    return templates(*folders).get_template(template).render(style=style, **values)


def write_page(text: str, path: Path | str, *, force: bool = False) -> Path:
    """Write a page completely or not at all, and return its path.

    Args:
        text: the page.
        path: the file; an earlier page is replaced.
        force: replace another file, too.

    Raises:
        DataError: the path holds something else, or cannot be written.
    """
    check_place(path, force=force)
    write_files({Path(path): text.encode()}, parents=True)
    return Path(path)


def check_place(path: Path | str, *, force: bool = False) -> None:
    """Raise an error if a page would replace something that is not a fotltn page.

    Args:
        path: the place.
        force: replace another file, too.

    Raises:
        DataError: the path is a folder or another file, or cannot be written.
    """
    target = Path(os.path.realpath(path))
    try:
        if not os.path.lexists(target):
            folder = next(p for p in target.parents if os.path.lexists(p))
            if not folder.is_dir():
                raise DataError(f"cannot write {path}: '{folder.name}' is a file, not a folder")
            if not os.access(folder, os.W_OK):
                name = folder.name
                raise DataError(f"cannot write {path}: the folder '{name}' cannot be written to")
            return
        if target.is_dir():
            hint = f"name a file, such as {Path(path) / 'report.html'}"
            raise DataError(f"cannot write {path}: it is a folder", hint=hint)
        if not stat.S_ISREG(target.stat().st_mode):
            raise DataError(f"cannot write {path}: it is not a plain file")
        if force:
            return
        with target.open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from None
    if head and MARK.encode() not in head:
        hint = "--force replaces it, or give another name with -o"
        raise DataError(f"{path} already exists and is not a fotltn report", hint=hint)
