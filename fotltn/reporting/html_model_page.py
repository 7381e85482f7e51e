"""The page of a model's report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fotltn.analysis.audit_data import FindingKind
from fotltn.format import count, degree, number
from fotltn.reporting import plots
from fotltn.reporting.html import Picture, picture, render
from fotltn.reporting.html_model import AxiomContent, ModelContent, Progress
from fotltn.reporting.theme import look, new_figure
from fotltn.reporting.typeset import typeset
from fotltn.syntax.show import show_theory

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
        axioms.append(_axiom(i, one, content))
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
            "declarations": show_theory(replace(content.theory, axioms=())),
            "origin": _origin(content),
            "violations": sum(a.audit.on_model.violations for a in content.axioms),
            "cells": sum(a.audit.on_model.cells for a in content.axioms),
        },
    )


def _origin(content: ModelContent) -> list[tuple[str, str]]:
    """Where the model comes from, line by line."""
    seeds = ", ".join(f"{name} {seed}" for name, seed in content.seeds.items())
    trained = ", ".join(f"{name} {version}" for name, version in content.trained.items())
    return [
        *((name.capitalize(), count(n)) for name, n in content.size.items()),
        ("Seeds", seeds),
        ("Trained with", trained or "not known"),
        ("Report written with", ", ".join(f"{n} {v}" for n, v in content.written.items())),
    ]


# --- parts -----------------------------------------------------------------------------------


def _training(content: ModelContent) -> list[Picture]:
    if not content.history:
        return []
    first, last = content.history[0], content.history[-1]
    with look():
        figure = new_figure(5.2, 3.0)
        plots.training_curves(content.history, ax=figure.add_subplot())
    label = (
        f"Loss by epoch: {number(first.loss)} in epoch {first.number}, {number(last.loss)} in "
        f"epoch {last.number}; that of the facts {number(last.facts)}, that of the axioms "
        f"{number(last.axioms)} at the end. Epoch {content.best_epoch} was kept."
    )
    found = [picture(figure, "training-loss", label, "Loss by epoch, and its two parts.")]
    if any(e.values for e in content.history):
        with look():
            figure = new_figure(5.2, 3.0)
            plots.axiom_curves(content.history, ax=figure.add_subplot())
        ends = ", ".join(f"{n} {degree(v)}" for n, v in last.values.items())
        label = f"Values of the axioms by epoch; at the end: {ends}."
        caption = "Values of the axioms by epoch; those with names are the lowest at the end."
        found.append(picture(figure, "training-axioms", label, caption))
    return found


def _axiom(i: int, one: AxiomContent, content: ModelContent) -> dict[str, Any]:
    """What the page shows of an axiom."""
    kinds = dict.fromkeys(f.kind for f in one.findings)
    rows = [
        row
        for rank, row in enumerate(one.worst)
        if row.violated or rank < _FEWEST or row.share >= _SHARE
    ]
    return {
        "id": f"axiom-{i + 1}",
        "name": one.audit.name,
        "formula": typeset(one.formula),
        "audit": one.audit,
        "verdicts": [_VERDICTS[kind] for kind in kinds],
        "sentences": [f.message for f in one.findings],
        "worst": one.worst,
        "rows": rows,
        "variables": list(dict.fromkeys(v for row in rows for v in row.binding)),
        "timed": any(row.time is not None for row in rows),
        "over_time": _over_time(i, one),
        "heat": _heat(i, one),
        "too_many": one.cells if one.band is None else None,
        "traces": content.traces,
    }


def _over_time(i: int, one: AxiomContent) -> Picture | None:
    band = one.band
    if band is None or len(band.times) < 2:
        return None
    with look():
        figure = new_figure(5.2, 2.2)
        plots.truth_over_time(band, ax=figure.add_subplot())
    low = min(range(len(band.times)), key=lambda k: band.low[k])
    label = (
        f"Truth of {one.audit.name} over time. The mean over bindings lies between "
        f"{degree(min(band.mean))} and {degree(max(band.mean))}; the lowest value is "
        f"{degree(band.low[low])}, at time {band.times[low]}."
    )
    caption = "Truth over time: the mean over all bindings (blue), and the lowest (orange)."
    return picture(figure, f"axiom-{i + 1}-time", label, caption)


def _heat(i: int, one: AxiomContent) -> Picture | None:
    if one.rows is None or len(one.rows.times) < 2:
        return None
    wrong = [row for row in one.rows.rows if row.lowest < _NOTABLE]
    if not wrong:
        return None
    with look():
        figure = new_figure(5.2, 0.7 + 0.19 * len(wrong))
        plots.heat_map(one.rows, top=len(wrong), ax=figure.add_subplot())
    first = [
        f"{', '.join(row.binding.values())} down to {degree(row.lowest)} at time {row.at}"
        for row in wrong[:3]
    ]
    label = f"Heat map of {one.audit.name}, the worst bindings against time: {'; '.join(first)}."
    caption = "For whom, and when: the worst bindings; the fuller the colour, the falser."
    return picture(figure, f"axiom-{i + 1}-heat", label, caption)


def _precision_recall(content: ModelContent) -> list[Picture]:
    found = []
    for i, name in enumerate(content.curves()):
        assert content.metrics is not None
        one = content.metrics.predicates[name]
        with look():
            figure = new_figure(3.6, 2.8)
            plots.precision_recall(content.scores, name, ax=figure.add_subplot())
        label = (
            f"Precision against recall of {name}: PR-AUC {number(one.pr_auc.value)}, chance "
            f"{number(one.chance.value)}."
        )
        caption = f"{name}: {count(one.positive)} of {count(one.facts)} test facts are true."
        found.append(picture(figure, f"pr-{i + 1}", label, caption))
    return found


def _calibration(content: ModelContent) -> dict[str, Picture]:
    if content.metrics is None:
        return {}
    found = {}
    for i, (name, one) in enumerate(content.metrics.predicates.items()):
        with look():
            figure = new_figure(3.6, 2.8)
            plots.calibration(one.calibration, title=name, ax=figure.add_subplot())
        error = number(one.calibration.error.value)
        label = f"Calibration of {name}: predictions are off by {error} on average."
        caption = f"{name}: off by {error} on average; Brier score {number(one.brier.value)}."
        found[name] = picture(figure, f"calibration-{i + 1}", label, caption)
    return found
