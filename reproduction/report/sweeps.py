"""Figures of sweeps: the paper's results figure, ours beside theirs, and metrics by fraction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.reporting.theme import (
    BLACK,
    BLUE,
    DOTTED,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    SKY,
    WHITE,
    YELLOW,
    drawing,
    look,
    new_figure,
)
from reproduction.paper import published
from reproduction.report.compare import Key, cells, data_sets, fractions, methods
from reproduction.report.records import Record
from reproduction.report.render import percent
from reproduction.report.stats import Summary

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Markers differ in print, where colours do not.
_STYLES: Mapping[str, tuple[str, str]] = {
    "FOT-LTN+BK": (BLUE, "o"),
    "FOT-LTN": (ORANGE, "s"),
    "HTGNN": (GREEN, "^"),
    "Bayes limit": (BLACK, "D"),
}
_COLOURS = (PINK, YELLOW, SKY, BLUE, ORANGE, GREEN)
_MARKERS = ("v", "P", "X", "p", "*", "h", "<")
_OURS: Mapping[str, Any] = {"lw": 1.6, "markersize": 5.4, "mec": "white", "mew": 0.6}
_THEIRS: Mapping[str, Any] = {
    "lw": 0.9, "linestyle": (0, (5, 2)), "markersize": 3, "mfc": "white", "mew": 0.8,
}  # fmt: skip


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
    with look():
        figure = new_figure(3.6 * len(sources) + 0.4, 5.9)
        axes = figure.subplots(2, len(sources), sharex=True, sharey="row", squeeze=False)
        for i, metric in enumerate(published.METRICS):
            summaries = cells(records, metric)
            for j, data in enumerate(sources):
                ax = axes[i][j]
                for name in names:
                    _draw(ax, summaries, data, name, styles[name])
                    if paper:
                        _draw_paper(ax, metric, data, name, styles[name])
                if i == 0:
                    ax.set_title(data)
                    line_across(ax, fmean(r.chance for r in records if r.data == data), "chance")
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
    with look():
        figure = new_figure(1.55 * len(predicates) + 0.6, 2.0 * len(sources) + 0.6)
        axes = figure.subplots(
            len(sources), len(predicates), sharex=True, sharey=True, squeeze=False
        )
        for j, predicate in enumerate(predicates):
            summaries = cells(chosen, f"pr_auc_by.{predicate}")
            for i, source in enumerate(sources):
                ax = axes[i][j]
                for name in names:
                    _draw(ax, summaries, source, name, styles[name])
                _ticks(ax, fractions(chosen), every=2)
                if i == 0:
                    ax.set_title(predicate)
                if i == len(sources) - 1:
                    ax.set_xlabel("share of facts")
                if j == 0:
                    ax.set_ylabel(f"{source}\nPR-AUC")
        _legend(figure, names, styles, paper=False)
    return figure


def sweep(
    records: Sequence[Record],
    metric: str = "pr_auc",
    *,
    data: str | None = None,
    paper: bool = False,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """A metric against the share of the facts that are trained on, a line for each method.

    Lines are means over the runs, and bands a standard deviation to either side.

    Args:
        records: the runs, as `reproduction.report.records.read` gives them.
        metric: a number of a record, such as `pr_auc`, `kb_sat` or `violation_rate`, or an entry
            of several, such as `pr_auc_by.Car` or `axioms.A1`.
        data: the data set, if there are several.
        paper: whether to draw the paper's means, dashed, where it has them.
        legend: whether to name the methods.
        ax: what to draw on, in place of a new figure.

    Raises:
        DataError: there are no such records, several data sets and none is chosen, or no run has
            the metric.
    """
    summaries, sources = cells(records, metric), data_sets(records)
    if not sources:
        raise DataError("there are no records to draw")
    if data is None and len(sources) > 1:
        raise DataError(f"the records are of {listing(sources)}; choose one with data=…")
    chosen = data or sources[0]
    if chosen not in sources:
        hint = did_you_mean(chosen, sources) or f"there are {listing(sources)}"
        raise DataError(f"no record is of the data set '{chosen}'; {hint}")
    names = [m for m in methods(records) if any(k[:2] == (chosen, m) for k in summaries)]
    if not names:
        raise DataError(f"no run on '{chosen}' has the metric '{metric}'")
    styles = _styles(names)
    with drawing(ax) as ax:
        for name in names:
            _draw(ax, summaries, chosen, name, styles[name], label=name)
            if paper:
                _draw_paper(ax, metric, chosen, name, styles[name])
        _ticks(ax, fractions([one for one in records if one.data == chosen]))
        ax.set_title(chosen)
        ax.set_xlabel("share of the facts that are trained on")
        ax.set_ylabel(published.METRICS.get(metric, metric))
        if legend:
            ax.legend(frameon=False)
    return ax


# --- parts -----------------------------------------------------------------------------------


def _styles(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each method; those without their own take turns."""
    taken = {_STYLES[name][0] for name in names if name in _STYLES}
    free = [colour for colour in _COLOURS if colour not in taken]
    others = [name for name in names if name not in _STYLES]
    turns = {
        name: (free[i % len(free)], _MARKERS[i % len(_MARKERS)]) for i, name in enumerate(others)
    }
    return {name: _STYLES.get(name) or turns[name] for name in names}


def _draw(
    ax: Axes,
    summaries: Mapping[Key, Summary],
    data: str,
    method: str,
    style: tuple[str, str],
    label: str | None = None,
) -> None:
    colour, marker = style
    points = sorted((f, s) for (d, m, f), s in summaries.items() if (d, m) == (data, method))
    if not points:
        return
    x = [fraction for fraction, _ in points]
    low, high = ([s.mean + sign * s.std for _, s in points] for sign in (-1, 1))
    ax.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
    ax.plot(x, [s.mean for _, s in points], color=colour, marker=marker, label=label, **_OURS)


def _draw_paper(ax: Axes, metric: str, data: str, method: str, style: tuple[str, str]) -> None:
    keys = [(metric, data, method, f) for f in published.FRACTIONS]
    means = [published.RESULTS[key].mean for key in keys if key in published.RESULTS]
    if means:
        ax.plot(published.FRACTIONS, means, color=style[0], marker=style[1], **_THEIRS)


def _kb_sat_lines(ax: Axes, truth: float | None, all_false: float | None) -> None:
    if truth is not None:
        line_across(ax, truth, "the truth")
    if all_false is not None:
        line_across(ax, all_false, "all false")


def line_across(ax: Axes, value: float, text: str) -> None:
    """A dotted line across, with its name at the right."""
    ax.axhline(value, color=GREY, **DOTTED)
    ax.annotate(
        text,
        (1, value),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 2.5),
        textcoords="offset points",
        ha="right",
        va="bottom",
        color=GREY,
        fontsize=8,
        bbox={"facecolor": WHITE, "edgecolor": "none", "alpha": 0.8, "pad": 0.8},
    )


def _ticks(ax: Axes, shown: Sequence[float], *, every: int = 1) -> None:
    ax.set_xticks(list(shown)[every - 1 :: every])
    ax.xaxis.set_major_formatter(lambda share, _: percent(share))
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
        handles.append(Line2D([], [], color=GREY, marker="o", label="here (± std)", **_OURS))
        handles.append(Line2D([], [], color=GREY, marker="o", label="paper", **_THEIRS))
    legend_below(figure, handles)


def legend_below(figure: Figure, handles: Sequence[Artist]) -> int:
    """A legend below a figure, in as many columns as there is room for; gives its rows."""
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = int(figure.get_figwidth() / (0.5 + 0.07 * longest))
    columns = max(1, min(len(handles), columns))
    figure.legend(handles=handles, loc="outside lower center", frameon=False, ncols=columns)
    return math.ceil(len(handles) / columns)
