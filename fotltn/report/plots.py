"""The paper's results figure, ours beside theirs, and PR-AUC by predicate.

Every function gives a matplotlib figure, to be changed, shown or saved. matplotlib is loaded when
the first figure is made, and nothing of its global state is touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fotltn.errors import DataError
from fotltn.report import published
from fotltn.report.compare import Key, cells, data_sets, fractions, methods
from fotltn.report.records import Record
from fotltn.report.stats import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours of Okabe and Ito, which differ for all kinds of colour vision; markers differ in print.
_STYLES: Mapping[str, tuple[str, str]] = {
    "FOT-LTN+BK": ("#0072B2", "o"),
    "FOT-LTN": ("#D55E00", "s"),
    "HTGNN": ("#009E73", "^"),
    "Bayes limit": ("#000000", "D"),
}
_OTHERS = (("#CC79A7", "v"), ("#E69F00", "P"), ("#56B4E9", "X"))
_GREY = "#595959"
_OURS: Mapping[str, Any] = {"lw": 1.6, "markersize": 5.4, "mec": "white", "mew": 0.6}
_THEIRS: Mapping[str, Any] = {
    "lw": 0.9, "linestyle": (0, (5, 2)), "markersize": 3, "mfc": "white", "mew": 0.8,
}  # fmt: skip

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
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "fotltn",
}


def results_figure(
    records: Sequence[Record],
    *,
    truth: Mapping[str, float] | None = None,
    all_false: float | None = 1.0,
    paper: bool = True,
) -> Figure:
    """PR-AUC above KB-SAT against the fraction, a column for each data set.

    Lines are means and bands a standard deviation to either side; the paper's means are dashed.

    Args:
        records: the runs.
        truth: the KB-SAT of the true facts of each data set, drawn as a line.
        all_false: the KB-SAT of predictions that are all false, drawn as a line.
        paper: whether to draw the paper's means.
    """
    sources = data_sets(records)
    if not sources:
        raise DataError("there are no records to draw")
    names, styles = methods(records), _styles(methods(records))
    with _look():
        figure = _figure(3.6 * len(sources) + 0.4, 5.9)
        axes = figure.subplots(2, len(sources), sharex=True, sharey="row", squeeze=False)
        for i, metric in enumerate(published.METRICS):
            found = cells(records, metric)
            for j, data in enumerate(sources):
                ax = axes[i][j]
                for name in names:
                    _draw(ax, found, data, name, styles[name])
                    if paper:
                        _draw_paper(ax, metric, data, name, styles[name])
                if i == 0:
                    ax.set_title(data)
                    _line(ax, fmean(r.chance for r in records if r.data == data), "chance")
                else:
                    _kb_sat_lines(ax, (truth or {}).get(data), all_false)
                    ax.set_xlabel("share of the facts that are trained on")
                if j == 0:
                    ax.set_ylabel(published.METRICS[metric])
                _ticks(ax, fractions(records))
        _legend(figure, names, styles, paper=paper)
    return figure


def predicates_figure(records: Sequence[Record], *, data: str | None = None) -> Figure:
    """PR-AUC against the fraction, a small plot for each predicate and data set."""
    chosen = [one for one in records if data in (None, one.data)]
    predicates = tuple(dict.fromkeys(name for one in chosen for name in one.pr_auc_by))
    if not predicates:
        raise DataError("there are no records with PR-AUC by predicate to draw")
    sources, names = data_sets(chosen), methods(chosen)
    styles = _styles(names)
    with _look():
        figure = _figure(1.55 * len(predicates) + 0.6, 2.0 * len(sources) + 0.6)
        axes = figure.subplots(
            len(sources), len(predicates), sharex=True, sharey=True, squeeze=False
        )
        for j, predicate in enumerate(predicates):
            found = cells(chosen, f"pr_auc_by.{predicate}")
            for i, source in enumerate(sources):
                ax = axes[i][j]
                for name in names:
                    _draw(ax, found, source, name, styles[name])
                _ticks(ax, fractions(chosen), every=2)
                if i == 0:
                    ax.set_title(predicate)
                if i == len(sources) - 1:
                    ax.set_xlabel("share of facts")
                if j == 0:
                    ax.set_ylabel(f"{source}\nPR-AUC")
        _legend(figure, names, styles, paper=False)
    return figure


def save(figure: Figure, path: Path | str) -> tuple[Path, Path]:
    """Write a figure as PNG and as SVG under one name, and give both paths.

    The files are the same for the same figure. Text in the SVG stays text.
    """
    stem = Path(path)
    png, svg = (stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg"))
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        with _look():
            figure.savefig(png, dpi=200, metadata={"Software": None})
            figure.savefig(svg, metadata={"Date": None, "Creator": None})
    except OSError as error:
        raise DataError(f"cannot write {stem}: {error.strerror or error}") from None
    return png, svg


# --- parts -----------------------------------------------------------------------------------


def _look() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise DataError("plots need matplotlib: pip install matplotlib") from None
    look: Any = dict(_LOOK)
    return matplotlib.rc_context(look)


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _styles(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each method; those without their own take turns."""
    others = [name for name in names if name not in _STYLES]
    turns = {name: _OTHERS[i % len(_OTHERS)] for i, name in enumerate(others)}
    return {name: _STYLES.get(name) or turns[name] for name in names}


def _draw(
    ax: Axes, found: Mapping[Key, Summary], data: str, method: str, style: tuple[str, str]
) -> None:
    colour, marker = style
    points = sorted((f, s) for (d, m, f), s in found.items() if (d, m) == (data, method))
    if not points:
        return
    x = [fraction for fraction, _ in points]
    low, high = ([s.mean + sign * s.std for _, s in points] for sign in (-1, 1))
    ax.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
    ax.plot(x, [s.mean for _, s in points], color=colour, marker=marker, **_OURS)


def _draw_paper(ax: Axes, metric: str, data: str, method: str, style: tuple[str, str]) -> None:
    keys = [(metric, data, method, f) for f in published.FRACTIONS]
    means = [published.RESULTS[key].mean for key in keys if key in published.RESULTS]
    if means:
        ax.plot(published.FRACTIONS, means, color=style[0], marker=style[1], **_THEIRS)


def _line(ax: Axes, value: float, text: str) -> None:
    """A dotted line across, with its name at the right."""
    ax.axhline(value, color=_GREY, linestyle=(0, (1, 1.5)), lw=1)
    ax.annotate(
        text,
        (1, value),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 2.5),
        textcoords="offset points",
        ha="right",
        va="bottom",
        color=_GREY,
        fontsize=8,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8},
    )


def _kb_sat_lines(ax: Axes, truth: float | None, all_false: float | None) -> None:
    if truth is not None:
        _line(ax, truth, "the truth")
    if all_false is not None:
        _line(ax, all_false, "all false")


def _ticks(ax: Axes, found: Sequence[float], *, every: int = 1) -> None:
    from matplotlib.ticker import PercentFormatter

    ax.set_xticks(list(found)[every - 1 :: every])
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=None, symbol=" %"))
    ax.tick_params(length=0)


def _legend(
    figure: Figure, names: Sequence[str], styles: Mapping[str, tuple[str, str]], *, paper: bool
) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=styles[name][0], marker=styles[name][1], label=name, **_OURS)
        for name in names
    ]
    if paper:
        handles.append(Line2D([], [], color=_GREY, marker="o", label="here (± std)", **_OURS))
        handles.append(Line2D([], [], color=_GREY, marker="o", label="paper", **_THEIRS))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
