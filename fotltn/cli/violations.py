"""`fotltn violations`: where a model breaks its axioms, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from fotltn.cli.asked import asked_model
from fotltn.cli.options import (
    Evidence,
    Json,
    ModelFolder,
    NewTables,
    Threshold,
    TraceEnd,
    axiom_names,
)
from fotltn.cli.output import emit_json
from fotltn.cli.tables import add, grid, say, show
from fotltn.errors import LimitError
from fotltn.format import NONE, cell_words, count, degree, share, signed
from fotltn.semantics.config import CRISP, check_share

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from rich.console import RenderableType
    from rich.tree import Tree

    from fotltn.analysis.cells import Cells
    from fotltn.analysis.explain.explanation import Explanation
    from fotltn.analysis.explain.tree import ValueNode
    from fotltn.analysis.view import View
    from fotltn.analysis.violations import AtomValue, Counterexample, WorstCell

RANKING = (
    "Violations first, then weak cells. Each kind is ranked by its share of "
    "the error of all axioms, the weighted mean of (1 - value)^p; 'share' "
    "refers to the axiom's own error."
)

_FACTS = (
    "The facts that the value depends on most; 'then' is the value if that fact alone were true, "
    "or, for a negative gradient, false."
)


def violations(
    model: ModelFolder,
    axiom: Annotated[
        str | None,
        typer.Argument(
            help="The name of an axiom; by default, all axioms.", autocompletion=axiom_names
        ),
    ] = None,
    data: NewTables = None,
    evidence: Evidence = False,
    top: Annotated[int, typer.Option("--top", min=1, help="How many to show.")] = 10,
    crisp: Annotated[
        bool,
        typer.Option("--crisp", help="In two-valued logic: a counterexample, if there is one."),
    ] = False,
    threshold: Threshold = None,
    end: TraceEnd = None,
    explained: Annotated[
        int, typer.Option("--why", min=0, help="The number of the shown cells to explain.")
    ] = 0,
    flip_given: Annotated[
        bool,
        typer.Option(
            "--flip-given",
            help="With --why: also list given facts, and let repairs flip them.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show where a model violates its axioms, and where they are weak.

    Bindings and times that are false in two-valued logic come first, then those with a low degree
    and those that are undecided.
    Each has its exact share of the axiom's error. Without an axiom, the worst of all axioms are
    shown, by their share of the error of all axioms together. With --why N, the worst N are
    explained: the value of every part of the formula, the facts that the value depends on most, and
    the fewest facts to flip so that it is true. Exit status: 0 even if there are violations, 1 if
    the input has errors, 2 for a wrong call.
    """
    check_share(threshold)
    from fotltn.cli.terminal import following

    asked = asked_model(model, data, evidence=evidence)
    view = asked.view().under(threshold=threshold, end=end)
    fixed = () if flip_given else asked.fixed
    if crisp:
        _crisp(view.under(semantics=CRISP), axiom, as_json, explained, fixed)
        return
    rows: list[tuple[str, float | None, WorstCell]]
    if axiom is None:
        with following("violations", quiet=as_json):
            ranked = asked.worst(top, threshold=threshold, end=end)
        rows = [(r.axiom, r.share, r.cell) for r in ranked]
        dicts = [r.as_dict() for r in ranked]
        content: dict[str, object] = {"ranking": RANKING}
        sentences, legend = _heading(asked.theory.axioms, rows), [RANKING]
    else:
        with following("violations", quiet=as_json):
            cells = view.cells(axiom)
            worst, rates = cells.worst(top), _rates(cells)
        rows = [(axiom, None, v) for v in worst]
        dicts = [v.as_dict() for v in worst]
        content = {**worst.as_dict(), **rates._asdict()}
        sentences = [
            f"{axiom}: {asked.theory.axiom(axiom).source}",
            f"Value {degree(worst.value)}; {worst.summary}.",
            *rates.sentences(worst.violated),
        ]
        legend = [f"{worst.cells[:1].upper()}{worst.cells[1:]}."]
    chosen = [(name, v) for name, _, v in rows[:explained]]
    reasons = _explanations(view, chosen, fixed)
    if as_json:
        listed = [_with_trace(view, entry) for entry in dicts]
        for entry, reason in zip(listed, reasons, strict=False):
            entry["why"] = reason.as_dict()
        emit_json({"ok": True, **content, "worst": listed, "violations": listed})
        return
    say(*sentences)
    if rows:
        print("\n" * bool(sentences), end="")
        _print(view, rows)
        print()
        say(*legend)
        _show_explanations(reasons, several=view.tables.batch > 1)


def _heading(axioms: Sequence[object], rows: Sequence[tuple[str, object, WorstCell]]) -> list[str]:
    """Say so if no axiom is violated; violations would be the first rows."""
    if not axioms:
        return ["There are no axioms."]
    if not rows:
        return ["All axioms are fully true."]
    if rows[0][2].violated:
        return []
    return ["No axiom is violated. The weakest cells:"]


class _ViolationRates(NamedTuple):
    """How often an axiom is violated.

    Args:
        rate: the share of violations of all decided cells; None if there are none.
        support: the cells where the antecedent is true; None without an antecedent.
        rate_of_support: the share of violations of these; None if there are none.
    """

    rate: float | None
    support: int | None = None
    rate_of_support: float | None = None

    def sentences(self, violated: int) -> Iterator[str]:
        """Return the rates in words, if there is an antecedent."""
        if self.support == 0:
            yield "Its antecedent is true at no cell."
        elif self.support is not None:
            where = f"{share(self.rate_of_support)} of cells with a true antecedent"
            numbers = f"{count(violated)} of {count(self.support)}"
            yield f"Violated: {share(self.rate)} of all cells, {where} ({numbers})."


def _rates(cells: Cells) -> _ViolationRates:
    """Count violations as `fotltn rules` counts them; without rates if the budget is too small."""
    try:
        counts = cells.counts()
    except LimitError:
        return _ViolationRates(None)
    if cells.prefix.rule is None:
        return _ViolationRates(counts.tally.rate)
    support = int(counts.support.sum())
    return _ViolationRates(
        counts.tally.rate, support, counts.tally.violated / support if support else None
    )


def _crisp(
    view: View, axiom: str | None, as_json: bool, explained: int, fixed: Collection[str]
) -> None:
    """Print where one axiom, or each axiom, is false in two-valued logic."""
    from fotltn.analysis.violations import counterexample
    from fotltn.cli.terminal import following

    names = [a.name for a in view.theory.axioms] if axiom is None else [axiom]
    with following("violations", quiet=as_json):
        examples = {name: counterexample(view.cells(name)) for name in names}
    broken = [(name, example) for name, example in examples.items() if example is not None]
    reasons = _explanations(view, broken[:explained], fixed)
    if as_json:
        shown: dict[str, dict[str, object] | None] = dict.fromkeys(names)
        shown |= {name: _with_trace(view, example.as_dict()) for name, example in broken}
        for (name, _), reason in zip(broken, reasons, strict=False):
            shown[name] = {**(shown[name] or {}), "why": reason.as_dict()}
        emit_json({"ok": True, **view.rule.as_dict(), "counterexamples": shown})
        return
    for name, example in examples.items():
        if example is None:
            cut = view.cells(name).undecided is not None
            rest = "; cells that the end of a trace cuts off are undecided" if cut else ""
            say(f"{name}: true, where {view.rule}{rest}.")
            continue
        trace = view.tables.names.trace(example.trace) if view.tables.batch > 1 else None
        where = cell_words(example.binding, example.time, trace)
        atoms = (
            f"{a.text}{_at(a.time)} is {'true' if a.value else 'false'}" for a in example.atoms
        )
        say(f"{name}: false{' at ' if where else ''}{where}: {', '.join(atoms)}.")
    _show_explanations(reasons, several=view.tables.batch > 1)


def _with_trace(view: View, entry: dict[str, object]) -> dict[str, object]:
    """Return a violation as data, with the name of its trace."""
    return {**entry, "trace": view.tables.names.trace(int(str(entry["trace"])))}


def _at(time: int | None) -> str:
    return "" if time is None else f"@{time}"


def _print(view: View, rows: list[tuple[str, float | None, WorstCell]]) -> None:
    ranked, several = rows[0][1] is not None, view.tables.batch > 1
    heads = [*(["axiom", "of all"] if ranked else []), "violated", "share", "value", "if", "then"]
    heads += ["time", *(["trace"] if several else []), "binding", "atoms"]
    table = grid(
        *heads, left=["axiom", "trace"], fold=["binding", "atoms"],
        aside=["then", "if", "share", "value", "of all"],
    )  # fmt: skip
    for axiom, of_all, v in rows:
        bound = cell_words(v.binding).replace(" = ", "=")
        add(
            table, *([axiom, share(of_all)] if ranked else []), v.standing,
            share(v.share), degree(v.value), degree(v.antecedent), degree(v.consequent),
            NONE if v.time is None else v.time,
            *([view.tables.names.trace(v.trace)] if several else []), bound,
            " ".join(map(_atom, v.atoms)),
        )  # fmt: skip
    show(table)


def _atom(atom: AtomValue) -> str:
    return f"{atom.text.replace(', ', ',')}{_at(atom.time)}={degree(atom.value)}"


# --- why ---------------------------------------------------------------------------------------


def _explanations(
    view: View,
    violations: Sequence[tuple[str, WorstCell | Counterexample]],
    fixed: Collection[str],
) -> list[Explanation]:
    """Explain some violations, each with the name of its axiom."""
    from fotltn.analysis.error_shares import shared_cells
    from fotltn.analysis.explain.explanation import why

    explained = []
    for axiom, one in violations:
        cells, _ = shared_cells(view.cells(axiom))
        cell = cells.find(one.binding, one.time or 0, one.trace)
        explained.append(why(cells, cell, top=5, fixed=fixed))
    return explained


def _show_explanations(explained: Sequence[Explanation], *, several: bool) -> None:
    """Print explanations, with the trace if there are several."""
    from fotltn.cli.terminal import wide_console

    for one in explained:
        trace = f", trace {one.trace}" if several else ""
        print()
        say(f"{one.cells.name} at {one.place}{trace}", style="bold")
        wide_console().print(_tree(one.tree, crisp=one.cells.semantics.boolean))
        if one.influence:
            print()
            say(_FACTS)
            _facts(one)
        print()
        say(f"Smallest repair: {one.repair}.")


def _tree(root: ValueNode, *, crisp: bool) -> Tree:
    from rich.tree import Tree

    made = Tree(_line(root, crisp=crisp))
    stack = [(root, made)]
    while stack:
        node, branch = stack.pop()
        stack += [(child, branch.add(_line(child, crisp=crisp))) for child in node.children]
        if node.remark:
            branch.add(_styled(node.remark, "dim"))
    return made


def _line(node: ValueNode, *, crisp: bool) -> RenderableType:
    truth = "true " if node.truth else "false"
    value = "" if crisp else f"{degree(node.value)} "
    return _styled(f"{value}{truth} {node.label}", "" if node.truth else "red")


def _styled(text: str, style: str) -> RenderableType:
    from rich.styled import Styled

    return Styled(text, style)


def _facts(one: Explanation) -> None:
    """Return a table of the facts that the value depends on most."""
    table = grid("fact", "time", "value", "gradient", "then", left=["fact"])
    for fact in one.influence:
        when = NONE if fact.time is None else str(fact.time)
        values = (degree(fact.value), signed(fact.gradient), degree(fact.then))
        add(table, fact.text, when, *values)
    show(table)
