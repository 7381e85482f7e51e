"""Draw figures of sweeps: the paper's results figure next to ours, and metrics by fraction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.reporting.theme import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    SKY,
    YELLOW,
    drawing,
    footer,
    legend_above,
    legend_over_all,
    line_across,
    look,
    new_figure,
    percent_ticks,
)
from reproduction.paper import published
from reproduction.report.compare import Key, cells, data_sets, fractions, methods
from reproduction.report.records import Record
from reproduction.report.stats import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Markers tell methods apart in print, where colours do not.
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
    """Draw PR-AUC above KB-SAT against the fraction, with a column for each data set.

    Lines are means and bands are one standard deviation to either side; the paper's means are
    dashed.

    Args:
        records: the runs.
        truth: the KB-SAT of the true facts of each data set, drawn as a line.
        all_false: the KB-SAT of predictions that are all false, drawn as a line.
        paper: whether to draw the paper's means.
    """
    names = methods(records)
    figure, axes = _by_data(records, list(published.METRICS), names, paper=paper)
    for j, data in enumerate(data_sets(records)):
        line_across(axes[0][j], fmean(r.chance for r in records if r.data == data), "chance")
        _kb_sat_lines(axes[1][j], (truth or {}).get(data), all_false)
    return figure


def methods_figure(records: Sequence[Record], names: Sequence[str], label: str) -> Figure:
    """Draw PR-AUC of some methods against the fraction, with a column for each data set.

    Args:
        records: the runs.
        names: the methods to draw.
        label: the label of the axis.
    """
    chosen = [one for one in records if one.method in names]
    figure, axes = _by_data(chosen, ["pr_auc"], names, paper=False)
    axes[0][0].set_ylabel(label)
    return figure


def _by_data(
    records: Sequence[Record], metrics: Sequence[str], names: Sequence[str], *, paper: bool
) -> tuple[Figure, Any]:
    """Draw a row of axes for each metric and a column for each data set, with legend and footer."""
    sources, styles = data_sets(records), _styles(names)
    if not sources:
        raise DataError("there are no records to draw")
    with look():
        figure = new_figure(3.6 * len(sources) + 0.4, 2.5 * len(metrics) + 0.8)
        axes = figure.subplots(len(metrics), len(sources), sharex=True, sharey="row", squeeze=False)
        for i, metric in enumerate(metrics):
            summaries = cells(records, metric)
            for j, data in enumerate(sources):
                ax = axes[i][j]
                for name in names:
                    _draw(ax, summaries, data, name, styles[name])
                    if paper:
                        _draw_paper(ax, metric, data, name, styles[name])
                _ticks(ax, fractions(records))
            axes[i][0].set_ylabel(published.METRICS[metric])
        for j, data in enumerate(sources):
            axes[0][j].set_title(data)
            axes[-1][j].set_xlabel("share of the facts that are trained on")
        _legend(figure, names, styles, paper=paper)
        footer(figure, f"{_bands(records)}; {origin(records)}")
    return figure, axes


def origin(records: Sequence[Record]) -> str:
    """Say on which device and with which version runs were made, by method if these differ."""
    made: dict[str, list[str]] = {}
    for name in methods(records):
        for one in records:
            if one.method == name:
                device = {"cpu": "processor", None: "unknown hardware"}.get(one.device, one.device)
                where = f"{device}, fotltn {one.version or 'of unknown version'}"
                names = made.setdefault(where, [])
                if name not in names:
                    names.append(name)
    if len(made) == 1:
        return next(iter(made))
    return "; ".join(f"{', '.join(names)}: {where}" for where, names in made.items())


def _bands(records: Sequence[Record]) -> str:
    """Say what lines and bands stand for."""
    counts = sorted(Counter((r.data, r.method, r.fraction) for r in records).values())
    few, many = counts[0], counts[-1]
    runs = f"{many:,} runs" if few == many else f"{few:,} to {many:,} runs"
    return f"mean and standard deviation of {runs}" if many > 1 else "one run each"


def predicates_figure(records: Sequence[Record], *, data: str | None = None) -> Figure:
    """Draw PR-AUC against the fraction, with a small plot for each predicate and data set."""
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
    """Draw a metric against the share of facts used for training, with a line for each method.

    Lines are means over the runs, and bands are one standard deviation to either side.

    Args:
        records: the runs, as `reproduction.report.records.read` returns them.
        metric: a number of a record, such as `pr_auc`, `kb_sat` or `violation_rate`, or an entry of
            a field, such as `pr_auc_by.Car` or `axioms.A1`.
        data: the data set, if there are several.
        paper: whether to draw the paper's means, dashed, where it has them.
        legend: whether to name the methods.
        ax: axes to draw on, instead of a new figure.

    Raises:
        DataError: there are no such records, there are several data sets and none is chosen, or no
            run has the metric.
    """
    summaries, sources = cells(records, metric), data_sets(records)
    if not sources:
        raise DataError("there are no records to draw")
    if data is None and len(sources) > 1:
        raise DataError(f"there are records of {listing(sources)}; choose one with data=…")
    chosen = data or sources[0]
    if chosen not in sources:
        hint = did_you_mean(chosen, sources) or f"there are {listing(sources)}"
        raise DataError(f"there are no records of the data set '{chosen}'; {hint}")
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
            legend_above(ax)
    return ax


# --- parts -----------------------------------------------------------------------------------


def _styles(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return colour and marker of each method; methods without their own take turns."""
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


def _ticks(ax: Axes, shown: Sequence[float], *, every: int = 1) -> None:
    percent_ticks(ax, list(shown)[every - 1 :: every])
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
    legend_over_all(figure, handles)
