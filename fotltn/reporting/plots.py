r"""Plots of results, for your own figures.

Each function takes results and returns matplotlib's axes (or its figure, if there are several
axes), which you can change, show or save. Most functions draw on the axes that you pass as `ax=`;
by default, they make a figure. matplotlib is loaded when the first figure is made, and its global
state stays untouched.

>>> import fotltn as fot
>>> theory = "sort car\npredicate Near(car), Stop(car)\naxiom A: forall x. F Stop(x)"
>>> facts = {"predicate": ["Near", "Stop"], "arg1": ["ego", "ego"], "time": [0, 3]}
>>> model = fot.train(theory, facts=facts, learn=["Stop"], training={"epochs": 2})
>>> axes = fot.plots.training_curves(model.history)
>>> axes.get_xlabel()
'epoch'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from fotltn.analysis.metrics import Calibration, Scores
from fotltn.analysis.over_time import Band, BindingRow, BindingRows, TruthOverTime
from fotltn.arguments import public
from fotltn.errors import DataError, name_hint
from fotltn.format import about, count, number
from fotltn.learn.fit import Epoch
from fotltn.reporting.theme import (
    BLUE,
    DOTTED,
    GREEN,
    GREY,
    ORANGE,
    SERIES,
    WHITE,
    colour_bar,
    drawing,
    error_colours,
    legend_above,
    whole_ticks,
)
from fotltn.reporting.theme import footer as footer
from fotltn.reporting.theme import save as save
from fotltn.reporting.theme import subplots as subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME = 28  # characters of a binding that a heat map shows
_SHOWN = 3  # how many axioms get their own colour, if none are named
_NOTHING = "no binding of the rule counts at any time, so there is nothing to draw"


# --- training --------------------------------------------------------------------------------


@public
def training_curves(history: Sequence[Epoch], *, ax: Axes | None = None) -> Axes:
    """Plot the loss by epoch, with its two parts: facts and axioms.

    The number that decides which epoch is kept is drawn if it differs from the loss. A dotted line
    marks the best epoch, which was kept; the legend gives the number of epochs.

    Args:
        history: the epochs, as `model.history` has them.
        ax: what to draw on, in place of a new figure.

    Raises:
        DataError: there are no epochs.
    """
    lines = {"loss": (BLUE, 1.8), "facts": (ORANGE, 1.2), "axioms": (GREEN, 1.2)}
    if any(e.watched != e.loss for e in history):
        lines["watched"] = (GREY, 1.2)
    with _by_epoch(history, "loss", ax) as ax:
        for name, (colour, width) in lines.items():
            values = [(e.number, getattr(e, name)) for e in history]
            _line(ax, [(n, v) for n, v in values if v is not None], colour, width, name)
        ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
    return ax


@public
def axiom_curves(
    history: Sequence[Epoch], *, axioms: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Plot the value of each axiom by epoch.

    Args:
        history: the epochs, as `model.history` has them.
        axioms: the axioms to draw in colour; by default, the lowest at the end. The others are
            grey.
        ax: what to draw on, in place of a new figure.

    Raises:
        DataError: there are no epochs or no axioms in them, or an axiom is unknown.
    """
    with _by_epoch(history, "value", ax) as ax:
        last = {name: value for epoch in history for name, value in epoch.values.items()}
        if not last:
            raise DataError("the epochs have no values of axioms to draw")
        chosen = sorted(last, key=lambda n: last[n])[:_SHOWN] if axioms is None else list(axioms)
        for name in chosen:
            _known("axiom", name, list(last))
        others = [n for n in last if n not in chosen]
        for i, name in enumerate([*others, *chosen]):
            points = [(e.number, e.values[name]) for e in history if name in e.values]
            if i < len(others):
                _line(ax, points, GREY, 0.7, None if i else "other axioms", alpha=0.45)
            else:
                _line(ax, points, SERIES[(i - len(others)) % len(SERIES)], 1.5, name)
        ax.set_ylim(top=1.02)
    return ax


@contextmanager
def _by_epoch(history: Sequence[Epoch], what: str, ax: Axes | None) -> Iterator[Axes]:
    """Return axes for a plot by epoch, with the best epoch marked."""
    if not history:
        raise DataError("there are no epochs to draw; the model is not trained")
    best = max((e.number for e in history if e.best), default=None)
    with drawing(ax) as ax:
        yield ax
        if best is not None and len(history) > 1:
            label = f"kept: epoch {count(best)} of {count(history[-1].number)}"
            ax.axvline(best, color=GREY, label=label, **DOTTED)
        ax.set_xlabel("epoch")
        whole_ticks(ax, [epoch.number for epoch in history])
        ax.set_ylabel(what)
        legend_above(ax)


def _line(
    ax: Axes,
    points: Sequence[tuple[int, float]],
    colour: str,
    width: float,
    label: str | None,
    **look: Any,
) -> None:
    """Draw a line, or a mark for a single point."""
    if points:
        marker = "o" if len(points) == 1 else None
        ax.plot(
            *zip(*points, strict=True), color=colour, lw=width, label=label, marker=marker, **look
        )


# --- predictions -----------------------------------------------------------------------------


@public
def precision_recall(
    scores: Scores, predicates: str | Sequence[str] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Plot precision against recall; a dotted line shows the score of a constant.

    The area under a line is the PR-AUC in the legend.

    Args:
        scores: truth and degree by predicate, as `model.scores()` returns them.
        predicates: one or several of them; by default, all that have a curve.
        ax: what to draw on, in place of a new figure.

    Raises:
        DataError: a predicate is unknown, or its facts are all true or all false.
    """
    from fotltn.analysis.metrics import chance, pr_auc, pr_curve

    chosen = [predicates] if isinstance(predicates, str) else predicates
    if chosen is None:
        chosen = [n for n, pair in scores.items() if pr_auc(*pair).defined]
        if not chosen:
            raise DataError("no predicate has both true and false facts, so there is no curve")
    for name in chosen:
        _known("predicate", name, scores)
        if reason := pr_auc(*scores[name]).reason:
            raise DataError(f"'{name}' has no curve of precision and recall: {reason}")
    several = len(chosen) > 1
    with drawing(ax, 4.2, 3.6) as ax:
        for i, name in enumerate(chosen):
            colour = SERIES[i % len(SERIES)]
            curve, area = pr_curve(*scores[name]), pr_auc(*scores[name]).value
            heights = (*curve.precision[:-1], curve.precision[-2])  # the last one is by convention
            ax.step(
                curve.recall, heights, where="post", color=colour, lw=1.5,
                label=f"{name if several else 'PR-AUC'} {number(area)}",
            )  # fmt: skip
            level = chance(scores[name][0]).value
            label = f"chance, {name}" if several else f"chance {number(level)}"
            ax.axhline(level, color=colour if several else GREY, label=label, **DOTTED)
        ax.set_xlabel("recall")
        ax.set_ylabel("precision")
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.05)
        if not several:
            ax.set_title(chosen[0])
        legend_above(ax)
    return ax


@public
def calibration(measured: Calibration, *, title: str = "", ax: Axes | None = None) -> Axes:
    """Plot the share of true facts against the predicted degree, by bins; bars count the facts.

    Where predictions are calibrated, points lie on the diagonal. Bars are as high as their share
    of all facts. The number of facts stands above each, at the top, where no line runs.

    Args:
        measured: the bins, as `model.metrics().predicates["Stop"].calibration` has them.
        title: the title above the plot.
        ax: what to draw on, in place of a new figure.

    Raises:
        DataError: all bins are empty.
    """
    bins = [b for b in measured.bins if b.count]
    total = sum(b.count for b in bins)
    if not total:
        raise DataError("there are no facts to draw the calibration of")
    with drawing(ax, 4.2, 3.6) as ax:
        places = [(b.low + b.high) / 2 for b in bins]
        widths = [0.86 * (b.high - b.low) for b in bins]
        shares = [b.count / total for b in bins]
        ax.bar(places, shares, widths, color=GREY, alpha=0.25, lw=0, label="share of facts")
        written: dict[str, Any] = {"textcoords": "offset points", "fontsize": 6.5, "color": GREY}
        for place, one in zip(places, bins, strict=True):
            text = count(one.count) if one.count < 10_000 else about(one.count)
            ax.annotate(text, (place, 1), xytext=(0, 5), ha="center", va="bottom", **written)
        ax.annotate(
            "facts", (0, 1), xycoords=("axes fraction", "data"), xytext=(-5, 5), ha="right",
            va="bottom", **written,
        )  # fmt: skip
        ax.plot([0, 1], [0, 1], color=GREY, label="calibrated", **DOTTED)
        ax.plot(
            [b.predicted for b in bins], [b.true for b in bins], color=BLUE, marker="o",
            lw=1.4, markersize=5, mec=WHITE, mew=0.6, label="predictions",
        )  # fmt: skip
        ax.set_xlabel("predicted degree")
        ax.set_ylabel("share that is true")
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.16)
        if title:
            ax.set_title(title)
        legend_above(ax)
    return ax


def _known(what: str, name: str, names: Sequence[str] | Scores) -> None:
    if name not in names:
        hint = name_hint(name, names)
        raise DataError(f"there is no {what} '{name}' to draw; {hint}")


# --- one rule over bindings and time ----------------------------------------------------------


@public
def band(rule: TruthOverTime) -> Band:
    """Compute the mean and range of a rule's values at each time, for `truth_over_time`."""
    return rule.band()


@public
def truth_over_time(rule: TruthOverTime | Band, *, ax: Axes | None = None) -> Axes:
    """Plot a rule's degrees over time: the mean over bindings, and the band of all degrees.

    The band reaches from the lowest value at each time to the highest.

    Args:
        rule: the result of `model.truth_over_time`, or its band.
        ax: what to draw on, in place of a new figure.

    Raises:
        DataError: no cell counts.
    """
    drawn = rule if isinstance(rule, Band) else rule.band()
    times, single = drawn.times, len(drawn.times) == 1
    if not times:
        raise DataError(_NOTHING)
    with drawing(ax, 5.2, 2.4) as ax:
        if single:
            ax.vlines(
                times, drawn.low, drawn.high, color=BLUE, alpha=0.3, lw=8, label="lowest to highest"
            )
        else:
            ax.fill_between(
                times, drawn.low, drawn.high, color=BLUE, alpha=0.16, linewidth=0,
                label="lowest to highest",
            )  # fmt: skip
            ax.plot(times, drawn.low, color=ORANGE, lw=1, label="lowest")
        ax.plot(times, drawn.mean, color=BLUE, lw=1.6, marker="o" if single else None, label="mean")
        ax.set_ylim(-0.04, 1.06)
        ax.set_xlabel("time")
        ax.set_ylabel("value")
        whole_ticks(ax, times)
        legend_above(ax)
    return ax


@public
def heat_map(rule: TruthOverTime | BindingRows, *, top: int = 30, ax: Axes | None = None) -> Axes:
    """Plot the worst bindings of a rule, one per row, against time.

    The stronger the colour, the lower the degree. A bar above the map says which degree a colour
    stands for. A cell is grey where it does not count, because a guard excludes it or its trace
    has ended.

    Args:
        rule: the result of `model.truth_over_time`, or its first rows.
        top: the maximum number of bindings, the worst first.
        ax: what to draw on, in place of a new figure.

    Raises:
        DataError: no cell counts, or `top` is less than 1.
    """
    if top < 1:
        raise DataError(f"a heat map has at least 1 row, not {top}")
    drawn = rule if isinstance(rule, BindingRows) else rule.top(top)
    rows, times = drawn.rows[:top], drawn.times
    if not rows:
        raise DataError(_NOTHING)
    with drawing(ax, 5.2, 1.0 + 0.2 * len(rows)) as ax:
        degrees = np.ma.masked_invalid(drawn.values[:top])
        ax.imshow(
            degrees, cmap=error_colours(), vmin=0, vmax=1,
            aspect="auto", interpolation="none",
            extent=(times[0] - 0.5, times[-1] + 0.5, len(rows) - 0.5, -0.5),
        )  # fmt: skip
        names = [_label(row, several=drawn.traces > 1) for row in rows]
        ax.set_yticks(range(len(rows)), names, parse_math=False)
        ax.tick_params(axis="y", length=0)
        ax.grid(visible=False)
        ax.set_xlabel("time")
        whole_ticks(ax, times)
        gaps = "does not count" if np.ma.is_masked(degrees) else None
        colour_bar(ax, "degree", gaps=gaps)
    return ax


def _label(row: BindingRow, *, several: bool) -> str:
    """Return a binding by names, with its trace if there are several."""
    text = ", ".join(row.binding.values()) or "the rule"
    text = f"{row.trace_name or row.trace}: {text}" if several else text
    return text if len(text) <= _NAME else f"{text[: _NAME - 1]}…"
