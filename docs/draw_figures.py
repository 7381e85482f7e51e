"""Draw the figures of the documentation, and write `docs/figures.json`: what they show.

    python docs/draw_figures.py

Tests draw the figures again, and compare what they show with the file. Numbers, words and colours
are the same in all versions of matplotlib; pixels are not.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOCS = Path(__file__).resolve().parent
MANIFEST = DOCS / "figures.json"


def main() -> None:
    """Draw all figures, and write what they show."""
    sys.path.insert(0, str(DOCS.parent))
    from benchmarks import growth
    from fotltn.reporting.theme import save
    from reproduction import pages

    record = json.loads((DOCS / "performance" / "growth.json").read_text("utf-8"))
    figures = {DOCS / "performance" / "growth": growth.drawn(record), **pages.figures(DOCS)}
    shown = {}
    for stem, figure in figures.items():
        picture, _ = save(figure, stem)
        shown[picture] = contents(figure)
    shown |= {DOCS / "plots" / name: content for name, content in drawn_on_page().items()}
    MANIFEST.write_text(manifest(shown), "utf-8")


def drawn_on_page() -> dict[str, Any]:
    """Run the examples of docs/plots.md in the folder of its figures; gives what they show."""
    text = (DOCS / "plots.md").read_text("utf-8")
    os.chdir(DOCS / "plots")
    names: dict[str, object] = {}
    with saved() as shown:
        for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            exec(block, names)
    return {path.name: content for path, content in shown.items()}


@contextmanager
def saved() -> Iterator[dict[Path, Any]]:
    """What figures show that are saved to files in the meantime, by file."""
    from matplotlib.figure import Figure

    shown: dict[Path, Any] = {}
    save = Figure.savefig

    def saving(figure: Figure, file: Any, **options: Any) -> None:
        save(figure, file, **options)
        if isinstance(file, str | Path):
            shown[Path(file).resolve()] = contents(figure)

    Figure.savefig = saving
    try:
        yield shown
    finally:
        Figure.savefig = save


def manifest(shown: dict[Path, Any]) -> str:
    """What figures show, by file, with a digest of the file and the version that drew it."""
    import matplotlib

    lines = {
        path.relative_to(DOCS).as_posix(): json.dumps(
            {"sha256": digest(path), "matplotlib": matplotlib.__version__, **content},
            ensure_ascii=False,
        )
        for path, content in sorted(shown.items())
    }
    return "{\n" + ",\n".join(f'"{name}": {line}' for name, line in lines.items()) + "\n}\n"


def digest(path: Path) -> str:
    """A digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def contents(figure: Figure) -> dict[str, Any]:
    """The words and the data of a figure, as JSON has them; numbers at ticks follow from these."""
    from matplotlib.text import Text

    figure.canvas.draw()  # texts of ticks are there once it is drawn
    texts = {text.get_text() for text in figure.findobj(Text) if text.get_visible()}
    words = sorted(text for text in texts if re.search(r"[a-z]", text, re.IGNORECASE))
    return {"texts": words, "axes": [_axes(ax) for ax in figure.axes]}


def _axes(ax: Axes) -> list[dict[str, Any]]:
    """All lines, bands, bars and pictures of axes: their kind, colour and numbers."""
    from matplotlib.colors import to_hex

    parts = [("line", to_hex(line.get_color()), line.get_xydata()) for line in ax.lines]
    for patch in ax.patches:
        corners = patch.get_path().transformed(patch.get_patch_transform()).vertices
        parts.append(("patch", to_hex(patch.get_facecolor()), corners))
    for some in ax.collections:
        faces = [to_hex(face) for face in some.get_facecolor()]
        paths = [number for path in some.get_paths() for number in path.vertices.ravel()]
        values = [] if some.get_array() is None else some.get_array().ravel()
        numbers = [*some.get_offsets().ravel(), *paths, *values]
        parts.append(("collection", " ".join(sorted(set(faces))), numbers))
    parts += [("image", image.get_cmap().name, image.get_array()) for image in ax.images]
    return [
        {"kind": kind, "colour": colour, "numbers": _rounded(numbers)}
        for kind, colour, numbers in parts
    ]


def _rounded(numbers: Any) -> list[float | None]:
    """Numbers with few digits; none where nothing is drawn."""
    import numpy as np

    flat = np.ma.filled(np.ma.asarray(numbers, dtype=float), np.nan).ravel()
    return [float(f"{number:.4g}") if np.isfinite(number) else None for number in flat]


if __name__ == "__main__":
    main()
