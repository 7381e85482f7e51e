"""Figures of one model: training by epoch, precision and recall, calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.format import count, number
from fotltn.reporting.theme import (
    BLUE,
    DOTTED,
    GREEN,
    GREY,
    ORANGE,
    SERIES,
    WHITE,
    drawing,
    whole_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fotltn.analysis.metrics import Calibration, Scores
    from fotltn.learn.fit import Epoch

_SHOWN = 3  # axioms with a colour of their own, unless they are named


def training_curves(history: Sequence[Epoch], *, ax: Axes | None = None) -> Axes:
    """The loss by epoch, with its parts: that of the facts, and that of the axioms.

    What decides which epoch is kept is drawn where it is another number than the loss. The epoch
    that was kept has a dotted line.

    Args:
        history: the epochs, as `model.history` has them.
        ax: what to draw on, in place of a new figure.

    Raises:
        DataError: there are no epochs.
    """
    numbers = _numbers(history)
    lines: dict[str, tuple[list[float] | list[float | None], str, float]] = {
        "loss": ([e.loss for e in history], BLUE, 1.8),
        "facts": ([e.facts for e in history], ORANGE, 1.2),
        "axioms": ([e.axioms for e in history], GREEN, 1.2),
    }
    if any(e.watched != e.loss for e in history):
        lines["watched"] = ([e.watched for e in history], GREY, 1.2)
    with drawing(ax) as ax:
        marker = "o" if len(numbers) == 1 else None
        for name, (values, colour, width) in lines.items():
            kept = [(n, v) for n, v in zip(numbers, values, strict=True) if v is not None]
            if kept:
                x, y = zip(*kept, strict=True)
                ax.plot(x, y, color=colour, lw=width, label=name, marker=marker)
        _best(ax, history)
        ax.set_xlabel("epoch")
        whole_ticks(ax, numbers)
        ax.set_ylabel("loss")
        ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
        ax.legend(frameon=False)
    return ax


def axiom_curves(
    history: Sequence[Epoch], *, axioms: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """The value of each axiom by epoch.

    Args:
        history: the epochs, as `model.history` has them.
        axioms: those to draw in colour; without, the lowest at the end. The others are grey.
        ax: what to draw on, in place of a new figure.

    Raises:
        DataError: there are no epochs or no axioms in them, or an axiom is unknown.
    """
    numbers = _numbers(history)
    names = list(dict.fromkeys(name for epoch in history for name in epoch.values))
    if not names:
        raise DataError("the epochs have no values of axioms to draw")
    last = {n: next(e.values[n] for e in reversed(history) if n in e.values) for n in names}
    chosen = sorted(names, key=lambda n: last[n])[:_SHOWN] if axioms is None else list(axioms)
    for name in chosen:
        _known("axiom", name, names)
    with drawing(ax) as ax:
        marker = "o" if len(numbers) == 1 else None
        others = [n for n in names if n not in chosen]
        for i, name in enumerate([*others, *chosen]):
            points = [(e.number, e.values[name]) for e in history if name in e.values]
            x, y = zip(*points, strict=True)
            turn = i - len(others)
            if turn < 0:
                label = "other axioms" if i == 0 else None
                ax.plot(x, y, color=GREY, lw=0.7, alpha=0.45, label=label, marker=marker)
            else:
                colour = SERIES[turn % len(SERIES)]
                ax.plot(x, y, color=colour, lw=1.5, label=name, marker=marker)
        _best(ax, history)
        ax.set_xlabel("epoch")
        whole_ticks(ax, numbers)
        ax.set_ylabel("value")
        ax.set_ylim(top=1.02)
        ax.legend(frameon=False)
    return ax


def precision_recall(
    scores: Scores, predicates: str | Sequence[str] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Precision against recall, as the threshold falls; dotted, what a constant scores.

    The area under a line is the PR-AUC of the legend.

    Args:
        scores: truth and degree by predicate, as `model.scores()` gives them.
        predicates: one or several of them; without, all for which there is a curve.
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
    with drawing(ax, 4.2, 3.6) as ax:
        for i, name in enumerate(chosen):
            colour = SERIES[i % len(SERIES)]
            curve, area = pr_curve(*scores[name]), pr_auc(*scores[name]).value
            heights = (*curve.precision[:-1], curve.precision[-2])  # the last one is by convention
            ax.step(
                curve.recall, heights, where="post", color=colour, lw=1.5,
                label=f"{name} {number(area)}",
            )  # fmt: skip
            level = chance(scores[name][0]).value
            ax.axhline(level, color=GREY if len(chosen) == 1 else colour, **DOTTED)
        ax.set_xlabel("recall")
        ax.set_ylabel("precision")
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.05)
        if len(chosen) > 1:
            ax.legend(frameon=False)
        else:
            ax.set_title(f"{chosen[0]}: PR-AUC {number(area)}, chance {number(level)}")
    return ax


def calibration(found: Calibration, *, title: str = "", ax: Axes | None = None) -> Axes:
    """The share of true facts against the predicted degree, by bins; bars count the facts.

    Where predictions are calibrated, points lie on the diagonal. Bars are as high as their share
    of all facts, and have the number of facts above them.

    Args:
        found: the bins, as `model.metrics().predicates["Stop"].calibration` has them.
        title: stands above.
        ax: what to draw on, in place of a new figure.

    Raises:
        DataError: all bins are empty.
    """
    bins = [b for b in found.bins if b.count]
    total = sum(b.count for b in bins)
    if not total:
        raise DataError("there are no facts to draw the calibration of")
    with drawing(ax, 4.2, 3.6) as ax:
        places = [(b.low + b.high) / 2 for b in bins]
        widths = [0.86 * (b.high - b.low) for b in bins]
        shares = [b.count / total for b in bins]
        ax.bar(places, shares, widths, color=GREY, alpha=0.25, lw=0, label="share of facts")
        for place, share, one in zip(places, shares, bins, strict=True):
            text = count(one.count) if one.count < 10_000 else f"{one.count / 1000:.0f}k"
            ax.annotate(
                text, (place, share), xytext=(0, 1.5), textcoords="offset points", ha="center",
                va="bottom", fontsize=6.5, color=GREY,
            )  # fmt: skip
        ax.plot([0, 1], [0, 1], color=GREY, **DOTTED)
        ax.plot(
            [b.predicted for b in bins], [b.true for b in bins], color=BLUE, marker="o",
            lw=1.4, markersize=5, mec=WHITE, mew=0.6, label="share of true facts",
        )  # fmt: skip
        ax.set_xlabel("predicted degree")
        ax.set_ylabel("share that is true")
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.06)
        if title:
            ax.set_title(title)
    return ax


def _numbers(history: Sequence[Epoch]) -> list[int]:
    if not history:
        raise DataError("there are no epochs to draw; the model is not trained")
    return [epoch.number for epoch in history]


def _best(ax: Axes, history: Sequence[Epoch]) -> None:
    kept = max((e.number for e in history if e.best), default=None)
    if kept is not None and len(history) > 1:
        ax.axvline(kept, color=GREY, label=f"kept: epoch {kept}", **DOTTED)


def _known(what: str, name: str, names: Sequence[str] | Scores) -> None:
    if name not in names:
        hint = did_you_mean(name, names) or f"there are {listing(names)}"
        raise DataError(f"there is no {what} '{name}' to draw; {hint}")
