"""The look of figures: one set of colours, sizes and lines, without any global state.

matplotlib is loaded when the first figure is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fotltn.errors import missing
from fotltn.files import Content, write_files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# Colours of Okabe and Ito, which differ for all kinds of colour vision.
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
PINK, YELLOW, SKY = "#CC79A7", "#E69F00", "#56B4E9"
BLACK, GREY, GRID, WHITE = "#000000", "#595959", "#e4e4e4", "#ffffff"

#: The colours of lines that have no colour of their own.
SERIES = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY)

#: How a line across a plot is drawn that says what a number means.
DOTTED: Mapping[str, Any] = {"linestyle": (0, (1, 1.5)), "lw": 1}

_LOOK: Mapping[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "legend.fontsize": 8.5,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "text.parse_math": False,  # names may have dollar signs
    "svg.fonttype": "none",
    "svg.hashsalt": "fotltn",
}


def look() -> Any:
    """A context in which what is drawn has this look.

    Raises:
        DataError: matplotlib is missing.
    """
    try:
        import matplotlib
    except ImportError:
        raise missing("plots need", "matplotlib", "report") from None
    chosen: Any = dict(_LOOK)
    return matplotlib.rc_context(chosen)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches that no window shows."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


@contextmanager
def drawing(ax: Axes | None, width: float = 5.2, height: float = 3.2) -> Iterator[Axes]:
    """The axes to draw on: those given, as they look, or new ones with our look."""
    if ax is not None:
        yield ax
        return
    with look():
        yield new_figure(width, height).add_subplot()


def whole_ticks(ax: Axes, numbers: Sequence[int]) -> None:
    """Ticks below at whole numbers only, which times and epochs are."""
    from matplotlib.ticker import MaxNLocator

    if len(numbers) == 1:
        ax.set_xticks(list(numbers))
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def error_colours() -> Colormap:
    """From a full colour at 0 to nothing at 1, on any background; grey where there is no value."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    colour = to_rgb(ORANGE)
    fading = LinearSegmentedColormap.from_list("error", [(*colour, 1.0), (*colour, 0.0)])
    return fading.with_extremes(bad=(0.5, 0.5, 0.5, 0.22))


def drawn(figure: Figure, path: Path | str) -> dict[Path, Content]:
    """A figure as the content of two files of one name, a PNG and an SVG."""

    def write(kind: str, **options: Any) -> Content:
        def drawing(file: BinaryIO) -> None:
            with look():
                figure.savefig(file, format=kind, **options)

        return drawing

    stem = Path(path)
    return {
        stem.with_name(f"{stem.name}.png"): write("png", dpi=200, metadata={"Software": None}),
        stem.with_name(f"{stem.name}.svg"): write("svg", metadata={"Date": None, "Creator": None}),
    }


def save(figure: Figure, path: Path | str) -> tuple[Path, Path]:
    """Write a figure as PNG and as SVG under one name, and give both paths.

    The files are the same for the same figure. Text in the SVG stays text.

    Raises:
        DataError: they cannot be written.
    """
    files = drawn(figure, path)
    write_files(files, parents=True)
    png, svg = files
    return png, svg
