"""`fotltn score`: how good a model's predictions are, and how well its axioms hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fotltn.cli.asked import asked_blocks, asked_model, refuse_evidence
from fotltn.cli.options import Evidence, Json, ModelFolder, NewTables, Threshold
from fotltn.cli.output import emit_json, warn
from fotltn.cli.tables import add, grid, metrics_table, say, say_knowledge_base, show
from fotltn.errors import DataError, Diagnostic
from fotltn.format import count, degree, number, share
from fotltn.semantics.config import check_share

if TYPE_CHECKING:
    from fotltn.analysis.audit_data import Audit


def score(
    model: ModelFolder,
    data: NewTables = None,
    evidence: Evidence = False,
    facts: Annotated[
        list[Path] | None,
        typer.Option(
            "--facts",
            metavar="<path>",
            help="CSV or Parquet files of facts, in place of the test facts; repeatable.",
        ),
    ] = None,
    threshold: Threshold = None,
    as_json: Json = False,
) -> None:
    """Score a model's predictions against test facts.

    Shows PR-AUC, ROC-AUC and accuracy by predicate and on average, on the facts held back for
    testing or, with --data, on the facts in the new data. For probabilities, it adds log-loss and
    ECE, the error of calibration. It also shows how well each axiom holds, and KB-SAT beside the
    KB-SAT of predictions that know nothing. Exit status: 0 if everything could be evaluated, 1 if
    the input has errors, 2 for a wrong call.
    """
    check_share(threshold)
    from fotltn.cli.terminal import following
    from fotltn.project.other_labels import read_labels

    warnings: tuple[Diagnostic, ...] = ()
    blocks = asked_blocks(model, data)
    if blocks is not None:
        refuse_evidence(evidence)
        if facts:
            raise DataError("--facts needs data in memory; prepared data have their own test facts")
        posterior, report = None, blocks.metrics(threshold)
        view = blocks.view().under(threshold=threshold)
        with following("axioms", quiet=as_json):
            rule, audit = view.rule, view.audit() if blocks.theory.axioms else None
    else:
        scored = asked_model(model, data, evidence=evidence)
        labels, posterior = scored.world.test, scored.posterior
        if facts:
            labels, warnings = read_labels(scored.world, scored.grounding.open, facts)
        report = None if labels is None or not labels.total else scored.score(labels, threshold)
        rule = scored.view().under(threshold=threshold).rule
        with following("axioms", quiet=as_json):
            audit = scored.audit(threshold=threshold) if scored.theory.axioms else None
    if as_json:
        emit_json(
            {
                "ok": True,
                "model": str(model),
                **rule.as_dict(),
                "metrics": None if report is None else report.as_dict(),
                "axioms": None if audit is None else audit.as_dict(),
                "diagnostics": [w.as_dict() for w in warnings],
            }
        )
        return
    warn(warnings)
    if report is None:
        say("No facts are held back for testing; give some with --facts.")
    else:
        kind = "facts" if facts else "test facts"
        show(metrics_table(report, kind, probabilities=posterior is not None))
    if not rule.plain:
        say(f"Accuracy and violations refer to decisions: {rule}.")
    if audit is not None:
        print()
        _print_axioms(audit)
    if posterior is not None and posterior.violations:
        learned = {n: f", weight {number(w)}" for n, w in posterior.weights.items()}
        shown = ", ".join(
            f"{name} {number(cells.mean, 1)} ({count(cells.low)} to {count(cells.high)}"
            f"{learned.get(name, '')})"
            for name, cells in posterior.violations.items()
        )
        say(
            f"Cells that a sampled world violates on average, and in 95 of 100 worlds: {shown}; "
            "hard axioms hold in all."
        )


def _print_axioms(audit: Audit) -> None:
    """Print values on the model and without knowledge, and violations in two-valued logic."""
    heads = ("axiom", "value", "labels", "all-false", "all-0.5", "violations", "rate")
    table = grid(*heads, left=["axiom"])
    for axiom in audit.axioms:
        counts = axiom.on_model
        add(
            table, axiom.name, degree(axiom.value), degree(axiom.labels), degree(axiom.all_false),
            degree(axiom.all_half), f"{count(counts.violated)} of {count(counts.decided)}",
            share(counts.rate),
        )  # fmt: skip
    show(table)
    print()
    say_knowledge_base(audit.knowledge_base)
