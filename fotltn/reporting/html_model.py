"""What the report of a model says, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from fotltn.analysis.audit_data import Audit, AxiomAudit, Finding
from fotltn.analysis.metrics import Curve, Report, pr_auc, pr_curve
from fotltn.analysis.over_time import truth_over_time
from fotltn.analysis.violations import Violations
from fotltn.project.config import settings
from fotltn.project.model import Model
from fotltn.project.stored import fingerprint, versions
from fotltn.reporting.plots import Band, Worst, band, worst
from fotltn.syntax.formula import Formula
from fotltn.syntax.show import show_theory

if TYPE_CHECKING:
    from fotltn.analysis.metrics import Scores

#: The most cells of an axiom that are looked at one by one.
MAX_CELLS = 2**27
_ROWS = 12  # bindings of a heat map

#: Is told how many steps are done, of how many.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class AxiomContent:
    """One axiom: its audit, its truth over time, and its worst bindings.

    Args:
        audit: its values, and what they rest on.
        formula: as it is written.
        findings: the warnings about it.
        cells: how many bindings and times it has, also those that do not count.
        band: its values over time; None if there are too many cells to look at each.
        rows: its worst bindings against time; None likewise.
        worst: the worst bindings and times.
    """

    audit: AxiomAudit
    formula: Formula
    findings: tuple[Finding, ...]
    cells: int
    band: Band | None
    rows: Worst | None
    worst: Violations

    def as_dict(self) -> dict[str, object]:
        """The axiom for machines."""
        return {
            **self.audit.as_dict(),
            "warnings": [f.as_dict() for f in self.findings],
            "over_time": None if self.band is None else self.band.as_dict(),
            "bindings": None if self.rows is None else self.rows.as_dict(),
            "worst": self.worst.as_dict(),
        }


@dataclass(frozen=True, slots=True, eq=False)
class ModelContent:
    """Everything that the report of a model says.

    Args:
        name: what it is a report of.
        model: the model, with how it was trained.
        threshold: the degree from which on a fact is true.
        metrics: how good predictions of test facts are; None if there are none.
        scores: the truth and degree of each of these facts.
        audit: of the axioms; None if there are none.
        axioms: each of them.
        size: how large everything is.
        fingerprint: of the data.
        written: the versions that write the report.
    """

    name: str
    model: Model
    threshold: float
    metrics: Report | None
    scores: Scores
    audit: Audit | None
    axioms: tuple[AxiomContent, ...]
    size: Mapping[str, int]
    fingerprint: str
    written: Mapping[str, str]

    @property
    def told(self) -> str:
        """What there is, in a few words."""
        many = len(self.axioms)
        return f"{many} axiom{'s' * (many != 1)}, {self.size['test facts']:,} test facts"

    @property
    def seeds(self) -> dict[str, int]:
        """What was drawn from."""
        config = self.model.config
        return {"data": config.data.seed, "training": config.training.seed}

    def curves(self) -> dict[str, Curve]:
        """Precision and recall, of the predicates that have both true and false test facts."""
        return {n: pr_curve(*pair) for n, pair in self.scores.items() if pr_auc(*pair).defined}

    def as_dict(self) -> dict[str, Any]:
        """The content for machines."""
        model = self.model
        return {
            "model": self.name,
            "threshold": self.threshold,
            "metrics": None if self.metrics is None else self.metrics.as_dict(),
            "curves": {n: c.as_dict() for n, c in self.curves().items()},
            "knowledge_base": None if self.audit is None else self.audit.knowledge_base.as_dict(),
            "axioms": [a.as_dict() for a in self.axioms],
            "training": {
                "reason": model.reason,
                "best_epoch": model.best_epoch,
                "flips": model.flips,
                "history": [asdict(e) for e in model.history],
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
    threshold: float = 0.5,
    top: int = 10,
    on_step: Progress | None = None,
) -> ModelContent:
    """Gather what the report of a model says.

    Args:
        model: the model.
        name: what to call it.
        threshold: the degree from which on a fact is true in two-valued logic.
        top: how many of the worst bindings to give for each axiom.
        on_step: is told how far it is.
    """
    audit = model.audit(threshold=threshold) if model.theory.axioms else None
    axioms = []
    for i, axiom in enumerate(model.theory.axioms):
        if on_step is not None:
            on_step(i, len(model.theory.axioms))
        assert audit is not None
        cells = model.cells(axiom.name, threshold=threshold)
        number = cells.rows * model.tables.horizon
        heat = truth_over_time(cells) if number <= MAX_CELLS else None
        axioms.append(
            AxiomContent(
                audit.axiom(axiom.name),
                axiom.source,
                tuple(f for f in audit.warnings if f.axiom == axiom.name),
                number,
                None if heat is None else band(heat),
                None if heat is None else worst(heat, _ROWS),
                cells.worst(top),
            )
        )
    return ModelContent(
        name, model, threshold, model.metrics(threshold=threshold), model.scores(), audit,
        tuple(axioms), _size(model), fingerprint(model.world), versions(),
    )  # fmt: skip


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
