"""`fotltn violations`: where a model breaks its axioms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fotltn.cli.output import emit_json
from fotltn.cli.score import check_threshold_share
from fotltn.cli.tables import add, binding_text, grid, say, show
from fotltn.cli.why import Reasons
from fotltn.format import NONE, degree, share

if TYPE_CHECKING:
    from fotltn.analysis.violations import AtomValue, Counterexample, Violation
    from fotltn.project.model import Model

RANKING = (
    "Violations first, then what is weak. Each kind is ranked by its share of the error of all "
    "axioms, the weighted mean of (1 - value)^p; 'share' is that of the axiom's own error."
)


def violations(
    model: Annotated[Path, typer.Argument(help="The folder of a model, or of a project.")],
    axiom: Annotated[
        str | None, typer.Argument(help="The name of an axiom; without it, all of them.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many to show.")] = 10,
    crisp: Annotated[
        bool,
        typer.Option("--crisp", help="In two-valued logic: a counterexample, if there is one."),
    ] = False,
    threshold: Annotated[
        float,
        typer.Option("--threshold", help="Degrees at or above it count as true."),
    ] = 0.5,
    explained: Annotated[
        int, typer.Option("--why", min=0, help="How many of those shown to explain.")
    ] = 0,
    flip_given: Annotated[
        bool,
        typer.Option(
            "--flip-given",
            help="With --why: given facts, too, may be influential, and flipped in repairs.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show where a model violates its axioms, and where they are weak.

    Bindings and times that are false in two-valued logic come first, then those with a low degree.
    Each has its exact share of the axiom's error. Without an axiom, the worst of all axioms are
    shown, by their share of the error of all axioms together. With --why N, the worst N are
    explained: the value of every part of the formula, the facts that the value depends on most, and
    the fewest facts to flip so that it is true. Exit status: 0 even if there are violations, 1 if
    the input has errors, 2 for a wrong call.
    """
    check_threshold_share(threshold)
    from fotltn.project.find import find_model

    if crisp and explained:
        raise typer.BadParameter("--why explains degrees; leave out --crisp", param_hint="--why")
    found = find_model(model)
    reasons = Reasons(found, explained, flip_given, threshold)
    names = [axiom] if axiom is not None else [a.name for a in found.theory.axioms]
    if crisp:
        wrong = {n: found.counterexample(n, threshold=threshold) for n in names}
        _crisp(found, wrong, threshold, as_json)
    elif axiom is not None:
        _one(found, axiom, top, reasons, as_json)
    else:
        _all(found, top, reasons, as_json)


def _one(model: Model, axiom: str, top: int, reasons: Reasons, as_json: bool) -> None:
    found = model.violations(axiom, top=top, threshold=reasons.threshold)
    worst = [(axiom, v) for v in found]
    if as_json:
        shown = found.as_dict()
        every = [_as_dict(model, v.as_dict()) for v in found]
        shown["violations"] = reasons.added(every, worst)
        emit_json({"ok": True, **shown})
        return
    say(_text(model, axiom))
    say(f"Value {degree(found.value)}; {found.summary}.")
    say(f"{found.cells[:1].upper()}{found.cells[1:]}.")
    if len(found):
        print()
        _print(model, [(None, None, v) for v in found])
        reasons.show(worst)


def _all(model: Model, top: int, reasons: Reasons, as_json: bool) -> None:
    found = model.worst(top, threshold=reasons.threshold)
    worst = [(r.axiom, r.violation) for r in found]
    if as_json:
        shown = reasons.added([_as_dict(model, r.as_dict()) for r in found], worst)
        emit_json({"ok": True, "ranking": RANKING, "violations": shown})
        return
    say(RANKING if found else "All axioms are fully true.")
    if found:
        print()
        _print(model, [(r.axiom, r.share, r.violation) for r in found])
        reasons.show(worst)


def _crisp(
    model: Model, found: dict[str, Counterexample | None], threshold: float, as_json: bool
) -> None:
    if as_json:
        shown = {n: None if c is None else _as_dict(model, c.as_dict()) for n, c in found.items()}
        emit_json({"ok": True, "threshold": threshold, "counterexamples": shown})
        return
    for name, example in found.items():
        if example is None:
            say(f"{name}: true, with degrees from {threshold:g} on as true.")
            continue
        where = [*binding_text(example.binding), *_where(model, example.trace, example.time)]
        atoms = (
            f"{a.text}{_at(a.time)} is {'true' if a.value else 'false'}" for a in example.atoms
        )
        say(f"{name}: false{' at ' if where else ''}{', '.join(where)}: {', '.join(atoms)}.")


def _text(model: Model, axiom: str) -> str:
    return next(f"{a.name}: {a.source}" for a in model.theory.axioms if a.name == axiom)


def _as_dict(model: Model, found: dict[str, object]) -> dict[str, object]:
    """A violation with its trace by name."""
    return {**found, "trace": model.facts.traces[int(str(found["trace"]))]}


def _where(model: Model, trace: int, time: int | None) -> list[str]:
    where = [] if time is None else [f"time {time}"]
    return where + ([f"trace {model.facts.traces[trace]}"] if len(model.facts.traces) > 1 else [])


def _at(time: int | None) -> str:
    return "" if time is None else f"@{time}"


def _print(model: Model, rows: list[tuple[str | None, float | None, Violation]]) -> None:
    ranked, several = rows[0][0] is not None, len(model.facts.traces) > 1
    heads = [*(["axiom", "of all"] if ranked else []), "violated", "share", "value", "if", "then"]
    heads += ["time", *(["trace"] if several else []), "binding", "atoms"]
    table = grid(*heads, left=["axiom", "trace"], fold=["binding", "atoms"])
    for axiom, of_all, v in rows:
        bound = ", ".join(binding_text(v.binding)).replace(" = ", "=")
        add(
            table, *([axiom, share(of_all)] if ranked else []), "yes" if v.violated else "no",
            share(v.share), degree(v.value), degree(v.antecedent), degree(v.consequent),
            NONE if v.time is None else v.time,
            *([model.facts.traces[v.trace]] if several else []), bound,
            " ".join(map(_atom, v.atoms)),
        )  # fmt: skip
    show(table)


def _atom(atom: AtomValue) -> str:
    return f"{atom.text.replace(', ', ',')}{_at(atom.time)}={degree(atom.value, 2)}"
