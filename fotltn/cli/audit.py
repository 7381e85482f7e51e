"""`fotltn audit`: what the values of a theory's axioms are worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fotltn.cli.asked import asked_blocks, asked_model
from fotltn.cli.options import Json, NewTables, Threshold, TraceEnd
from fotltn.cli.output import emit_json, emit_text, one_folder
from fotltn.cli.tables import add, grid, say, say_knowledge_base, show
from fotltn.errors import DataError
from fotltn.format import NONE, count, degree, number, share, signed
from fotltn.semantics.config import check_share

if TYPE_CHECKING:
    from fotltn.analysis.audit_data import Audit
    from fotltn.analysis.truncation import End

_LEGEND = (
    "Support: bindings and times where the antecedent is true{where}; active: their share. "
    "Confidence: how often the consequent is true there; base: how often anywhere; "
    "lift: their ratio. Gradient: the shares that go to antecedent (if) and consequent (then)."
)

_SUGGESTED = (
    "Active: where the antecedent is true. Slope: how far the axiom's value "
    "moves if all learned facts move, from 0.5; share: its part of the "
    "slopes of all axioms, by weight. Guarded: how many times larger the "
    "slope would be with the axiom's given conditions as a guard."
)

_DRAWS = 3

_GAINED = (
    "What each axiom adds to all others, on a fifth of the labels, which is "
    "held back: means over the draws, and the number of draws that are "
    "better with the axiom than without. For log-loss, a gain is a fall. "
    "With all axioms, PR-AUC is {area} and log-loss {loss}."
)


def audit(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PROJECT_OR_MODEL",
            help="A project, before training, or the folder of a model, after it.",
        ),
    ],
    data: NewTables = None,
    threshold: Threshold = None,
    end: TraceEnd = None,
    suggest: Annotated[
        bool,
        typer.Option(
            "--suggest",
            help="Say how much each axiom moves learned predicates, and rewrite weak ones.",
        ),
    ] = False,
    gain: Annotated[
        bool,
        typer.Option(
            "--gain", help="Train without each axiom in turn, and score labels that are held back."
        ),
    ] = False,
    draws: Annotated[
        int | None,
        typer.Option(
            "--draws",
            min=1,
            help="With --gain: how often to draw the labels that are held back.  [default: 3]",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Audit the axioms: what their values rest on, and their worth.

    Values are shown beside those of predictions that know nothing. For a project, axioms are
    evaluated on its facts, and facts without a label are not held against them; for a model, on its
    predictions as well. With --gain, Ctrl-C stops, and the same command continues. Exit status: 0
    even if there are warnings, 1 if the input has errors, 2 for a wrong call, 130 after Ctrl-C.
    """
    check_share(threshold)
    from fotltn.cli.terminal import following
    from fotltn.project.find import is_project

    before = is_project(path)
    if gain:
        if not before or data:
            raise DataError("--gain trains a project on its own data: fotltn audit PROJECT --gain")
        if suggest or threshold is not None or end is not None:
            raise DataError("--gain cannot be combined with --suggest, --threshold or --end")
        _gain(path, _DRAWS if draws is None else draws, as_json)
        return
    if draws is not None:
        raise DataError("--draws needs --gain: fotltn audit PROJECT --gain --draws 5")
    with following("audit", quiet=as_json):
        audited = _audited(path, data, threshold, end, before=before)
    if as_json:
        rule = audited.rule.as_dict()
        emit_json({"ok": True, "trained": not before, **rule, **audited.as_dict()})
        return
    _suggest(audited) if suggest else _print(audited, before)


def _audited(
    path: Path,
    data: list[Path] | None,
    threshold: float | None,
    end: End | None,
    *,
    before: bool,
) -> Audit:
    """Audit a project before training, or a model; over all blocks if data are prepared."""
    from fotltn.project.blocked import project_on_disk
    from fotltn.project.config import read_config
    from fotltn.project.find import audit_labels

    if before and not data:
        config = read_config(path)
        if config.data.prepared is not None:
            return project_on_disk(config).view().under(threshold=threshold, end=end).audit()
    if before:
        return audit_labels(path, data=one_folder(data), threshold=threshold, end=end)
    blocks = asked_blocks(path, data)
    model = asked_model(path, data) if blocks is None else blocks.model
    if not model.theory.axioms:
        raise DataError(f"the theory of '{path}' has no axioms to audit")
    if blocks is not None:
        return blocks.view().under(threshold=threshold, end=end).audit()
    return model.audit(threshold=threshold, end=end)


def _gain(path: Path, draws: int, as_json: bool) -> None:
    """Measure and print how much each axiom helps on labels that are held back."""
    from fotltn.cli.terminal import bar
    from fotltn.project.config import read_config
    from fotltn.project.gain import average, better, gains
    from fotltn.stop import interrupts

    with bar("trainings", quiet=as_json) as moved, interrupts("stopping") as asked:
        every, axioms = gains(
            read_config(path), draws=draws, stop=asked,
            report=lambda told: moved(told.done, told.of),
        )  # fmt: skip
    if as_json:
        rows = [{"axiom": one.axiom, **one.as_dict()} for one in axioms]
        emit_json({"ok": True, "draws": draws, "all": every._asdict(), "axioms": rows})
        return
    table = grid("axiom", "PR-AUC", "better", "log-loss", "better", left=["axiom"])
    for one in axioms:
        cells = [
            cell
            for each in (one.pr_auc, one.log_loss)
            for cell in (signed(average(each)), f"{better(each)} of {draws}")
        ]
        add(table, one.axiom, *cells)
    show(table)
    print()
    say(_GAINED.format(area=number(every.pr_auc), loss=number(every.log_loss)))


def _suggest(audited: Audit) -> None:
    """Print the influence of each axiom, why some have none, and a guarded form of weak ones."""
    from fotltn.analysis.influence import Weakness

    table = grid("axiom", "active", "slope", "share", "guarded", left=["axiom"])
    rewritten: list[str] = []
    others: dict[Weakness, list[str]] = {}
    for axiom in audited.axioms:
        one = axiom.influence
        if one is None:
            continue
        gain = NONE if one.gain is None else f"{number(one.gain, 1)} ×"
        active = share(axiom.evidence.active_share)
        add(table, axiom.name, active, number(one.slope, 4), share(one.share), gain)
        if one.weakness is Weakness.GUARD:
            rewritten.append(str(one.suggestion))
        elif one.weakness is not None:
            others.setdefault(one.weakness, []).append(axiom.name)
    show(table)
    print()
    say(_SUGGESTED)
    print()
    if others:
        say(*(f"{', '.join(names)}: {why.meaning}" for why, names in others.items()))
        print()
    if rewritten:
        say("Axioms whose slope a guard would make at least ten times as large, rewritten:")
        emit_text("\n".join(rewritten) + "\n")
    else:
        say("A guard would not make the slope of any axiom ten times as large.")


def _print(audited: Audit, before: bool) -> None:
    labelled = any(a.labels is not None for a in audited.axioms)
    values = ["value", "labels"] if labelled and not before else ["labels" if before else "value"]
    heads = ["axiom", *values, "all-false", "all-0.5", "support", "active", "conf.", "base"]
    table = grid(*heads, "lift", "∇ if", "∇ then", left=["axiom"], tight=True)
    for axiom in audited.axioms:
        crisp = axiom.evidence
        degrees = [{"value": axiom.value, "labels": axiom.labels}[head] for head in values]
        add(
            table, axiom.name, *map(degree, degrees), degree(axiom.all_false),
            degree(axiom.all_half), count(crisp.support), share(crisp.active_share),
            number(crisp.confidence), number(crisp.base_rate), number(crisp.lift, 2),
            share(axiom.gradient_antecedent), share(axiom.gradient_consequent),
        )  # fmt: skip
    show(table)
    print()
    say(_LEGEND.format(where=" on the labels" if labelled else " on the model"))
    print()
    say(*(f"warning: {sentence}" for sentence in _sentences(audited)))
    print()
    say_knowledge_base(audited.knowledge_base, trained=not before)


def _sentences(audited: Audit) -> list[str]:
    """Return the warnings about axioms; one that concerns several axioms appears once."""
    groups: dict[str, list[str]] = {}
    for warning in audited.warnings:
        if warning.axiom is not None:  # the warning about all axioms is the last line
            groups.setdefault(warning.message.removeprefix(warning.axiom), []).append(warning.axiom)
    return [
        f"{names[0]}{rest}" if len(names) == 1 else f"{', '.join(names)}: {_each(rest)}"
        for rest, names in groups.items()
    ]


def _each(rest: str) -> str:
    return f"each{rest}" if rest.startswith(" ") else rest.removeprefix(": ")
