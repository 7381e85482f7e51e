"""The report of a model: its content as data, and its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from fotltn.analysis.audit_data import Audit, AxiomAudit, Finding, FindingKind
from fotltn.analysis.metrics import Curve, Report, pr_auc, pr_curve
from fotltn.analysis.over_time import Band, BindingRows, truth_over_time
from fotltn.analysis.violations import WorstCells
from fotltn.decisions import DecisionRule, rule_of
from fotltn.format import cell_words, count, degree, number
from fotltn.project.model import Model
from fotltn.project.stored import fingerprint, versions
from fotltn.project.written import settings, show_config
from fotltn.reporting import plots
from fotltn.reporting.html import Picture, picture, render
from fotltn.reporting.theme import look, new_figure
from fotltn.reporting.typeset import typeset
from fotltn.reporting.verdict import ScoreInterval, advice, by_attention, mean_pr_auc, verdict
from fotltn.syntax.formula import Formula
from fotltn.syntax.show import show_theory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fotltn.analysis.metrics import Scores

#: The most cells of an axiom to evaluate one by one.
MAX_CELLS = 2**27
_ROWS = 12  # bindings of a heat map
_BRIEF = 6  # axioms of the brief page

_NOTABLE = 0.9  # a binding that stays above this is not drawn separately
#: A table lists rows that are violated, that have this share of the error, or that come first.
_SHARE, _FEWEST = 0.001, 3

#: A function that receives the number of steps done, and their total.
OnPart = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class AxiomContent:
    """One axiom: its audit, its truth over time, and its worst bindings.

    Args:
        audit: the values of the axiom, and what they rest on.
        formula: the formula as written.
        findings: the warnings about the axiom.
        cells: the number of its bindings and times, including those that do not count.
        band: its values over time; None if there are too many cells to look at each.
        rows: its worst bindings against time; None likewise.
        worst: the worst bindings and times.
    """

    audit: AxiomAudit
    formula: Formula
    findings: tuple[Finding, ...]
    cells: int
    band: Band | None
    rows: BindingRows | None
    worst: WorstCells

    def as_dict(self) -> dict[str, object]:
        """Return the axiom as data."""
        return {
            **self.audit.as_dict(),
            "warnings": [f.as_dict() for f in self.findings],
            "over_time": None if self.band is None else self.band.as_dict(),
            "bindings": None if self.rows is None else self.rows.as_dict(),
            "worst": self.worst.as_dict(),
        }


@dataclass(frozen=True, eq=False)
class ModelContent:
    """The complete content of a model's report.

    Args:
        name: the name of the model.
        model: the model, with its training.
        rule: how degrees are decided.
        metrics: the metrics on test facts; None if there are none.
        scores: the truth and degree of each of these facts.
        audit: the audit of the axioms; None if there are none.
        axioms: the content for each axiom.
        size: the sizes of the data and of the model.
        fingerprint: a hash of the data.
        written: the versions of the programs that write the report.
        day: the date of the report.
    """

    name: str
    model: Model
    rule: DecisionRule
    metrics: Report | None
    scores: Scores
    audit: Audit | None
    axioms: tuple[AxiomContent, ...]
    size: Mapping[str, int]
    fingerprint: str
    written: Mapping[str, str]
    day: date

    @cached_property
    def interval(self) -> ScoreInterval | None:
        """The mean PR-AUC with its interval."""
        return mean_pr_auc(self.scores)

    @property
    def verdict(self) -> tuple[str, ...]:
        """The verdict, in sentences."""
        sampled = self.model.posterior is not None
        return verdict(self.metrics, self.interval, self.audit, sampled=sampled)

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do next, for a page that has the warnings."""
        return self._advice("below")

    @property
    def brief_advice(self) -> tuple[str, ...]:
        """What to do next, for a page without the warnings."""
        return self._advice("in the full report")

    def _advice(self, place: str) -> tuple[str, ...]:
        posterior = self.model.posterior
        doubts = None if posterior is None else posterior.warnings
        return advice(self.metrics, self.audit, self._worst(), place, doubts=doubts)

    def _worst(self) -> dict[str, str]:
        """Return the worst cells of violated axioms, in words."""
        violated = [one for one in self.axioms if one.audit.on_model.violated]
        return {one.audit.name: _case(one.worst) for one in violated}

    @property
    def told(self) -> str:
        """A summary of the content, in a few words."""
        many, tested = len(self.axioms), self.size["test facts"]
        facts = f"{count(tested)} test fact{'s' * (tested != 1)}"
        return f"{many} axiom{'s' * (many != 1)}, {facts}"

    @property
    def seeds(self) -> dict[str, int]:
        """The seeds of random draws."""
        config = self.model.config
        return {"data": config.data.seed, "training": config.training.seed}

    def curves(self) -> dict[str, Curve]:
        """Precision and recall of the predicates that have both true and false test facts."""
        return {n: pr_curve(*pair) for n, pair in self.scores.items() if pr_auc(*pair).defined}

    def as_dict(self) -> dict[str, Any]:
        """Return the content as data."""
        model = self.model
        return {
            "model": self.name,
            "day": self.day.isoformat(),
            "verdict": list(self.verdict),
            "advice": list(self.advice),
            "pr_auc": None if self.interval is None else self.interval.as_dict(),
            **self.rule.as_dict(),
            "metrics": None if self.metrics is None else self.metrics.as_dict(),
            "curves": {n: c.as_dict() for n, c in self.curves().items()},
            "knowledge_base": None if self.audit is None else self.audit.knowledge_base.as_dict(),
            "axioms": [a.as_dict() for a in self.axioms],
            "training": {
                "reason": model.reason,
                "best_epoch": model.best_epoch,
                "flips": model.flips,
                "history": [asdict(e) for e in model.history],
                "posterior": None if model.posterior is None else model.posterior.as_dict(),
            },
            "theory": show_theory(model.world.source),
            "size": dict(self.size),
            "seeds": self.seeds,
            "settings": dict(settings(model.config)),
            "fingerprint": self.fingerprint,
            "versions": {"trained": dict(model.versions), "written": dict(self.written)},
        }


def model_content(
    model: Model,
    name: str,
    *,
    threshold: float | None = None,
    top: int = 10,
    on_step: OnPart | None = None,
) -> ModelContent:
    """Gather the content of a model's report.

    Args:
        model: the model.
        name: the name of the model in the report.
        threshold: the smallest degree that counts as true in two-valued logic; by default, the
            model's.
        top: how many of the worst bindings to give for each axiom.
        on_step: a function that receives the progress.
    """
    audit = model.audit(threshold=threshold) if model.theory.axioms else None
    axioms = []
    for i, axiom in enumerate(model.theory.axioms):
        if on_step is not None:
            on_step(i, len(model.theory.axioms))
        assert audit is not None
        cells = model.cells(axiom.name, threshold=threshold)
        size = cells.rows * model.tables.horizon
        heat = truth_over_time(cells) if size <= MAX_CELLS else None
        axioms.append(
            AxiomContent(
                audit.axiom(axiom.name),
                axiom.source,
                tuple(f for f in audit.warnings if f.axiom == axiom.name),
                size,
                None if heat is None else heat.band(),
                None if heat is None else heat.top(_ROWS),
                cells.worst(top),
            )
        )
    return ModelContent(
        name, model, rule_of(model.tables, threshold), model.metrics(threshold=threshold),
        model.scores(), audit, tuple(axioms), _size(model), fingerprint(model.world), versions(),
        date.today(),
    )  # fmt: skip


def _case(worst: WorstCells) -> str:
    """Return the worst binding and time in words."""
    return cell_words(worst[0].binding, worst[0].time) if len(worst) else ""


def _size(model: Model) -> dict[str, int]:
    world = model.world
    return {
        "traces": len(world.facts.traces),
        "longest trace": max(world.facts.lengths),
        **{
            f"entities of {sort}" + ", at most, in a trace" * (sort in world.facts.local): n
            for sort, n in world.facts.sizes().items()
        },
        "training facts": world.labels.total,
        "test facts": 0 if world.test is None else world.test.total,
        "parameters": sum(p.numel() for p in model.grounding.parameters()),
    }


# --- the page ---------------------------------------------------------------------------------


def brief_page(content: ModelContent) -> str:
    """Return a page for decision makers: a verdict, three numbers, advice, and the worst axioms.

    Raises:
        DataError: jinja2 or matplotlib is missing.
    """
    axioms = [_axiom(f"axiom-{i + 1}", one, drawn=False) for i, one in enumerate(content.axioms)]
    return render(
        "brief.html.j2",
        {
            "content": content,
            "title": f"Report of {content.name}, in brief",
            "version": content.written["fotltn"],
            "axioms": _by_attention(content, axioms),
            "most": _BRIEF,
            **_violated(content),
        },
    )


def _violated(content: ModelContent) -> dict[str, int]:
    """Count the cells of all axioms, and the violated ones."""
    every = [one.audit.on_model for one in content.axioms]
    return {"violations": sum(a.violated for a in every), "cells": sum(a.decided for a in every)}


def _by_attention(content: ModelContent, axioms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the axioms for a page, those that need attention first."""
    if content.audit is None:
        return axioms
    places = [one.name for one in by_attention(content.audit.axioms)]
    return sorted(axioms, key=lambda one: places.index(one["name"]))


def model_page(content: ModelContent, *, on_step: OnPart | None = None) -> str:
    """Return the report of a model as one HTML document.

    Args:
        content: the content of the report.
        on_step: a function that receives the number of axioms drawn, and their total.

    Raises:
        DataError: jinja2 or matplotlib is missing.
    """
    axioms = []
    for i, one in enumerate(content.axioms):
        if on_step is not None:
            on_step(i, len(content.axioms))
        axioms.append(_axiom(f"axiom-{i + 1}", one))
    axioms = _by_attention(content, axioms)
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
            "warnings": _warnings(axioms),
            "details": _details(axioms),
            "precision_recall": _precision_recall(content),
            "calibration": _calibration(content),
            "declarations": show_theory(replace(content.model.world.source, axioms=())),
            "origin": _origin(content),
            "settings": show_config(content.model.config),
            **_violated(content),
        },
    )


def _origin(content: ModelContent) -> list[tuple[str, str]]:
    """Return the origin of the model, line by line."""
    seeds = ", ".join(f"{name} {seed}" for name, seed in content.seeds.items())
    trained = ", ".join(f"{n} {v}" for n, v in content.model.versions.items())
    return [
        *((name.capitalize(), count(n)) for name, n in content.size.items()),
        ("Seeds", seeds),
        ("Trained with", trained or "not known"),
        ("Report written with", ", ".join(f"{n} {v}" for n, v in content.written.items())),
    ]


def _drawn(plot: Callable[..., object], what: object, width: float, height: float) -> Figure:
    """Return a figure with one plot, of a size in inches."""
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


def _axiom(name: str, one: AxiomContent, *, drawn: bool = True) -> dict[str, Any]:
    """Return the content of a page about an axiom; the name is its anchor on the page."""
    kinds = dict.fromkeys(f.kind for f in one.findings)
    rows = [
        row
        for rank, row in enumerate(one.worst)
        if row.violated or rank < _FEWEST or row.share >= _SHARE
    ]
    return {
        "id": name,
        "number": int(name.rpartition("-")[2]),
        "name": one.audit.name,
        "formula": typeset(one.formula),
        "audit": one.audit,
        "verdicts": [
            ("bad" if kind is FindingKind.CONTRADICTED else "warn", kind) for kind in kinds
        ],
        "findings": one.findings,
        "wrong": not one.audit.on_model.holds,
        "worst": one.worst,
        "rows": rows,
        "variables": list(dict.fromkeys(v for row in rows for v in row.binding)),
        "timed": any(row.time is not None for row in rows),
        "over_time": _over_time(name, one) if drawn else None,
        "heat": _heat(name, one) if drawn else None,
        "too_many": one.cells if one.band is None else None,
    }


def _warnings(axioms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each kind of warning once, with the axioms that it is about."""
    kinds: dict[tuple[str, FindingKind], list[dict[str, Any]]] = {}
    for one in axioms:
        for kind in one["verdicts"]:
            kinds.setdefault(kind, []).append(one)
    return [
        {"badge": badge, "kind": kind, "axioms": about, "text": _about(kind, about)}
        for (badge, kind), about in kinds.items()
    ]


def _details(axioms: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return by axiom what its warnings say beyond the list of warnings."""
    every = [
        (one, f, f.message.removeprefix(one["name"])) for one in axioms for f in one["findings"]
    ]
    said = Counter(text for *_, text in every)
    axioms_of = Counter(kind for one in axioms for _, kind in one["verdicts"])
    details: dict[str, list[str]] = {one["name"]: [] for one in axioms}
    for one, finding, text in every:
        if said[text] == 1 and axioms_of[finding.kind] > 1:
            details[one["name"]].append(finding.message)
    return details


def _about(kind: FindingKind, axioms: list[dict[str, Any]]) -> str:
    """Return the text of a kind of warning, to follow the names of the axioms."""
    if len(axioms) > 1:
        return f": {kind.meaning}"
    (one,) = axioms
    findings: tuple[Finding, ...] = one["findings"]
    return next(f.message for f in findings if f.kind is kind).removeprefix(one["name"])


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
    caption = (
        "For whom, and when: the worst bindings; the stronger the colour, the lower the degree."
    )
    plot = partial(plots.heat_map, top=len(rows))
    figure = _drawn(plot, one.rows, 5.2, 0.9 + 0.19 * len(rows))
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
        scores = f"Brier score {number(one.brier.value)}, log-loss {number(one.log_loss.value)}"
        caption = f"{name}: off by {error} on average; {scores}."
        plot = partial(plots.calibration, title=name)
        figure = _drawn(plot, one.calibration, 3.6, 2.8)
        pictures[name] = picture(figure, f"calibration-{i + 1}", label, caption)
    return pictures
