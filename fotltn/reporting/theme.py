"""The look of figures: one set of colours, sizes and lines, without any global state.

matplotlib is loaded when the first figure is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from weakref import WeakSet

from fotltn.errors import DataError, missing, shown
from fotltn.files import Content, write_files

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# Colours of Okabe and Ito, which differ for all kinds of colour vision.
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
PINK, YELLOW, SKY = "#CC79A7", "#E69F00", "#56B4E9"
#: The colour of errors in heat maps. These are pixels, so a page cannot replace it by its own.
ERROR = "#D45D00"
BLACK, GREY, GRID, WHITE = "#000000", "#595959", "#e4e4e4", "#ffffff"

#: The colours of lines without a fixed colour.
SERIES = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY)

#: The style of a reference line across a plot.
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
    """Apply this look to everything that is drawn in a context.

    Raises:
        DataError: matplotlib is missing.
    """
    try:
        import matplotlib
    except ImportError:
        raise missing("plots need", "matplotlib", "report") from None
    chosen: Any = dict(_LOOK)
    return matplotlib.rc_context(chosen)


#: The figures that were made here; plots on them have this look.
_THEMED: WeakSet[Figure] = WeakSet()


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure without a window, of a size in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    _THEMED.add(figure)
    return figure


def subplots(
    rows: int = 1, columns: int = 1, *, width: float = 5.2, height: float = 3.2, **options: Any
) -> tuple[Figure, Any]:
    """Return a figure in the look of this package, with axes to pass as `ax=`.

    Use it for a figure of several plots. Plots on your own axes keep your own style.

    Args:
        rows: the number of rows of axes.
        columns: the number of columns.
        width: the width of the figure, in inches.
        height: the height of the figure, in inches.
        options: further arguments of `Figure.subplots`, such as `sharey=True`.

    Returns:
        The figure, and its axes as `Figure.subplots` returns them.

    >>> figure, (left, right) = subplots(1, 2, width=9, height=3)
    >>> left.spines["top"].get_visible()
    False
    """
    with look():
        figure = new_figure(width, height)
        return figure, figure.subplots(rows, columns, **options)


@contextmanager
def drawing(ax: Axes | None, width: float = 5.2, height: float = 3.2) -> Iterator[Axes]:
    """Yield axes to draw on: new ones in this look, or yours unchanged."""
    if ax is not None and not hasattr(ax, "get_figure"):
        raise DataError(f"ax: expected axes of matplotlib, not {shown(ax)}")
    if ax is None:
        with look():
            yield new_figure(width, height).add_subplot()
    else:
        with look() if ax.get_figure(root=True) in _THEMED else nullcontext():
            yield ax


def legend_above(ax: Axes) -> None:
    """Put the legend above the axes, where it covers no data; a title goes above the legend."""
    shown = ax.get_legend_handles_labels()[0]
    if not shown:
        return
    columns = _columns(shown, _width(ax) - 0.7)
    ax.legend(
        handles=shown, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, ncols=columns,
        **_LEGEND,
    )  # fmt: skip
    if ax.get_title():
        ax.set_title(ax.get_title(), pad=6 + 14 * math.ceil(len(shown) / columns))


def legend_over_all(figure: Figure, handles: Sequence[Artist]) -> int:
    """Put one legend above all axes of a figure, and return its number of rows."""
    columns = _columns(handles, figure.get_figwidth() - 0.4)
    figure.legend(handles=list(handles), loc="outside upper center", ncols=columns, **_LEGEND)
    return math.ceil(len(handles) / columns)


_LEGEND: Mapping[str, Any] = {"frameon": False, "columnspacing": 1.4, "handlelength": 1.8}
_LETTER, _HANDLE = 0.066, 0.44  # inches of a letter of a legend, and of the space beside its text


def _columns(handles: Sequence[Artist], width: float) -> int:
    """Return how many entries of a legend fit side by side into a width in inches."""
    letters = [len(str(handle.get_label())) for handle in handles]
    for columns in range(len(letters), 1, -1):
        rows = math.ceil(len(letters) / columns)
        each = [max(letters[i : i + rows]) for i in range(0, len(letters), rows)]
        if sum(_HANDLE + _LETTER * most for most in each) <= width:
            return columns
    return 1


def _width(ax: Axes) -> float:
    """Return the width of axes in inches, by their place in the grid."""
    figure, place = ax.get_figure(root=True), ax.get_subplotspec()
    assert figure is not None
    columns = 1 if place is None else place.get_gridspec().ncols
    return figure.get_figwidth() / columns


def line_across(ax: Axes, value: float, text: str) -> None:
    """Draw a dotted line across a plot, with its name above it at the right."""
    ax.axhline(value, color=GREY, **DOTTED)
    ax.annotate(
        text, (1, value), xycoords=("axes fraction", "data"), xytext=(-2, 2.5), ha="right",
        va="bottom", textcoords="offset points", color=GREY, fontsize=8,
        bbox={"facecolor": WHITE, "edgecolor": "none", "alpha": 0.8, "pad": 0.8},
    )  # fmt: skip


def end_of_line(ax: Axes, x: float, y: float, text: str) -> None:
    """Write beside the last point of a line why it ends there."""
    ax.plot([x], [y], marker="x", color=GREY, markersize=9, mew=1.6, lw=0, zorder=4)
    ax.annotate(
        text, (x, y), xytext=(9, 0), textcoords="offset points", ha="left", va="center",
        color=GREY, fontsize=8,
    )  # fmt: skip


def footer(figure: Figure, text: str) -> None:
    """Add a small line of text at the lower right of a figure, for hardware and versions.

    Args:
        figure: the figure.
        text: the text.

    >>> figure, _ = subplots()
    >>> footer(figure, "one thread of x86_64, torch 2.13.0")
    """
    figure.supxlabel(text, x=0.995, ha="right", fontsize=7, color=GREY)


def percent_ticks(ax: Axes, shares: Sequence[float]) -> None:
    """Put ticks at shares on the horizontal axis, as percentages."""
    ax.set_xticks(list(shares))
    ax.xaxis.set_major_formatter(lambda value, _: f"{round(100 * value, 4):g} %")


def colour_bar(ax: Axes, label: str, *, gaps: str | None = None) -> None:
    """Add a bar above axes that shows which degree a colour of `error_colours` stands for.

    Args:
        ax: the axes with the colours.
        label: the name of the degrees.
        gaps: the meaning of grey, if there is any.
    """
    from matplotlib.offsetbox import AnchoredOffsetbox, DrawingArea, HPacker, TextArea
    from matplotlib.patches import Rectangle

    colours, parts = error_colours(), 24
    area = DrawingArea(_BAR, _TALL)
    for i in range(parts):
        place, size = (_BAR * i / parts, 0), (_BAR / parts, _TALL)
        area.add_artist(Rectangle(place, *size, fc=colours(i / (parts - 1)), lw=0, aa=False))
    area.add_artist(Rectangle((0, 0), _BAR, _TALL, fill=False, ec=GREY, lw=0.6))
    words: dict[str, Any] = {"textprops": {"fontsize": 8.5}}
    shown: list[Artist] = [TextArea(f"{label}  0", **words), area, TextArea("1", **words)]
    if gaps is not None:
        grey = DrawingArea(_TALL, _TALL)
        grey.add_artist(Rectangle((0, 0), _TALL, _TALL, fc=colours.get_bad(), lw=0))
        shown += [TextArea("   "), grey, TextArea(gaps, **words)]
    box = AnchoredOffsetbox(
        "lower left", child=HPacker(children=shown, align="center", pad=0, sep=4), frameon=False,
        pad=0, borderpad=0.4, bbox_to_anchor=(0, 1), bbox_transform=ax.transAxes,
    )  # fmt: skip
    ax.add_artist(box)


_BAR, _TALL = 70.0, 7.0  # the size of a colour bar, in points


def whole_ticks(ax: Axes, numbers: Sequence[int]) -> None:
    """Put ticks only at whole numbers on the horizontal axis, for times and epochs."""
    from matplotlib.ticker import MaxNLocator

    if len(numbers) == 1:
        ax.set_xticks(list(numbers))
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def error_colours() -> Colormap:
    """Return a colour map from full colour at 0 to transparent at 1, with grey for gaps."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    colour = to_rgb(ERROR)
    fading = LinearSegmentedColormap.from_list("error", [(*colour, 1.0), (*colour, 0.0)])
    return fading.with_extremes(bad=(0.5, 0.5, 0.5, 0.22))


def drawn(figure: Figure, path: Path | str) -> dict[Path, Content]:
    """Return a figure as the content of two files, a PNG and an SVG."""

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
    """Write a figure as PNG and as SVG under one name, and return both paths.

    The files are the same for the same figure. Text in the SVG stays text.

    Raises:
        DataError: they cannot be written.
    """
    files = drawn(figure, path)
    write_files(files, parents=True)
    png, svg = files
    return png, svg
