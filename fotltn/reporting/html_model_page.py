"""The page of a model's report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from fotltn.analysis.audit_data import FindingKind
from fotltn.format import count, degree, number
from fotltn.project.config import show_config
from fotltn.reporting import plots
from fotltn.reporting.html import Picture, picture, render
from fotltn.reporting.html_model import AxiomContent, ModelContent, Progress
from fotltn.reporting.theme import look, new_figure
from fotltn.reporting.typeset import typeset
from fotltn.syntax.show import show_theory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOTABLE = 0.9  # a binding that stays above it is not drawn on its own
#: A row of a table is violated, has this share of the error, or is one of the first.
_SHARE, _FEWEST = 0.001, 3

#: What a warning of the audit is called in a table.
_VERDICTS = {
    FindingKind.VACUOUS: ("warn", "no evidence"),
    FindingKind.DILUTED: ("warn", "diluted"),
    FindingKind.TRUNCATED: ("warn", "cut by the end"),
    FindingKind.CONTRADICTED: ("bad", "contradicted by labels"),
    FindingKind.GRADIENT: ("warn", "learns the antecedent"),
}


def model_page(content: ModelContent, *, on_step: Progress | None = None) -> str:
    """The report of a model as one HTML document.

    Args:
        content: what it says.
        on_step: is told how many axioms are drawn, and of how many.

    Raises:
        DataError: jinja2 or matplotlib is missing.
    """
    axioms = []
    for i, one in enumerate(content.axioms):
        if on_step is not None:
            on_step(i, len(content.axioms))
        axioms.append(_axiom(f"axiom-{i + 1}", one))
    return render(
        "model.html.j2",
        {
            "content": content,
            "title": f"Report of {content.name}",
            "version": content.written["fotltn"],
            "entities": {
                name.removeprefix("entities of "): n
                for name, n in content.size.items()
                if name.startswith("entities of ")
            },
            "training": _training(content),
            "axioms": axioms,
            "precision_recall": _precision_recall(content),
            "calibration": _calibration(content),
            "declarations": show_theory(replace(content.model.world.source, axioms=())),
            "origin": _origin(content),
            "settings": show_config(content.model.config),
            "violations": sum(a.audit.on_model.violations for a in content.axioms),
            "cells": sum(a.audit.on_model.cells for a in content.axioms),
        },
    )


def _origin(content: ModelContent) -> list[tuple[str, str]]:
    """Where the model comes from, line by line."""
    seeds = ", ".join(f"{name} {seed}" for name, seed in content.seeds.items())
    trained = ", ".join(f"{n} {v}" for n, v in content.model.versions.items())
    return [
        *((name.capitalize(), count(n)) for name, n in content.size.items()),
        ("Seeds", seeds),
        ("Trained with", trained or "not known"),
        ("Report written with", ", ".join(f"{n} {v}" for n, v in content.written.items())),
    ]


# --- parts -----------------------------------------------------------------------------------


def _drawn(plot: Callable[..., object], what: object, width: float, height: float) -> Figure:
    """A figure of so many inches with one plot."""
    with look():
        figure = new_figure(width, height)
        plot(what, ax=figure.add_subplot())
    return figure


def _training(content: ModelContent) -> list[Picture]:
    history = content.model.history
    if not history:
        return []
    first, last = history[0], history[-1]
    label = (
        f"Loss by epoch: {number(first.loss)} in epoch {first.number}, {number(last.loss)} in "
        f"epoch {last.number}; that of the facts {number(last.facts)}, that of the axioms "
        f"{number(last.axioms)} at the end. Epoch {content.model.best_epoch} was kept."
    )
    figure = _drawn(plots.training_curves, history, 5.2, 3.0)
    pictures = [picture(figure, "training-loss", label, "Loss by epoch, and its two parts.")]
    if any(e.values for e in history):
        ends = ", ".join(f"{n} {degree(v)}" for n, v in last.values.items())
        label = f"Values of the axioms by epoch; at the end: {ends}."
        caption = "Values of the axioms by epoch; those with names are the lowest at the end."
        figure = _drawn(plots.axiom_curves, history, 5.2, 3.0)
        pictures.append(picture(figure, "training-axioms", label, caption))
    return pictures


def _axiom(name: str, one: AxiomContent) -> dict[str, Any]:
    """What the page shows of an axiom; the name is that of its place on the page."""
    kinds = dict.fromkeys(f.kind for f in one.findings)
    rows = [
        row
        for rank, row in enumerate(one.worst)
        if row.violated or rank < _FEWEST or row.share >= _SHARE
    ]
    return {
        "id": name,
        "name": one.audit.name,
        "formula": typeset(one.formula),
        "audit": one.audit,
        "verdicts": [_VERDICTS[kind] for kind in kinds],
        "sentences": [f.message for f in one.findings],
        "worst": one.worst,
        "rows": rows,
        "variables": list(dict.fromkeys(v for row in rows for v in row.binding)),
        "timed": any(row.time is not None for row in rows),
        "over_time": _over_time(name, one),
        "heat": _heat(name, one),
        "too_many": one.cells if one.band is None else None,
    }


def _over_time(name: str, one: AxiomContent) -> Picture | None:
    band = one.band
    if band is None or len(band.times) < 2:
        return None
    low = min(range(len(band.times)), key=lambda k: band.low[k])
    label = (
        f"Truth of {one.audit.name} over time. The mean over bindings lies between "
        f"{degree(min(band.mean))} and {degree(max(band.mean))}; the lowest value is "
        f"{degree(band.low[low])}, at time {band.times[low]}."
    )
    caption = "Truth over time: the mean over all bindings (blue), and the lowest (orange)."
    return picture(_drawn(plots.truth_over_time, band, 5.2, 2.2), f"{name}-time", label, caption)


def _heat(name: str, one: AxiomContent) -> Picture | None:
    rows = [] if one.rows is None else [row for row in one.rows.rows if row.lowest < _NOTABLE]
    if one.rows is None or len(one.rows.times) < 2 or not rows:
        return None
    first = [
        f"{', '.join(row.binding.values())} down to {degree(row.lowest)} at time {row.at}"
        for row in rows[:3]
    ]
    label = f"Heat map of {one.audit.name}, the worst bindings against time: {'; '.join(first)}."
    caption = "For whom, and when: the worst bindings; the fuller the colour, the falser."
    plot = partial(plots.heat_map, top=len(rows))
    figure = _drawn(plot, one.rows, 5.2, 0.7 + 0.19 * len(rows))
    return picture(figure, f"{name}-heat", label, caption)


def _precision_recall(content: ModelContent) -> list[Picture]:
    pictures = []
    for i, name in enumerate(content.curves()):
        assert content.metrics is not None
        one = content.metrics.predicates[name]
        label = (
            f"Precision against recall of {name}: PR-AUC {number(one.pr_auc.value)}, chance "
            f"{number(one.chance.value)}."
        )
        caption = f"{name}: {count(one.positive)} of {count(one.facts)} test facts are true."
        plot = partial(plots.precision_recall, predicates=name)
        figure = _drawn(plot, content.scores, 3.6, 2.8)
        pictures.append(picture(figure, f"pr-{i + 1}", label, caption))
    return pictures


def _calibration(content: ModelContent) -> dict[str, Picture]:
    predicates = {} if content.metrics is None else content.metrics.predicates
    pictures = {}
    for i, (name, one) in enumerate(predicates.items()):
        error = number(one.calibration.error.value)
        label = f"Calibration of {name}: predictions are off by {error} on average."
        caption = f"{name}: off by {error} on average; Brier score {number(one.brier.value)}."
        plot = partial(plots.calibration, title=name)
        figure = _drawn(plot, one.calibration, 3.6, 2.8)
        pictures[name] = picture(figure, f"calibration-{i + 1}", label, caption)
    return pictures
