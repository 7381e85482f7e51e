"""The files of a project that is proposed for a table: its theory and its settings, as text."""

from __future__ import annotations

import json
from collections.abc import Iterable

from fotltn.logic.check import check
from fotltn.project.propose import FEW, Proposal, Role, TableColumn
from fotltn.syntax.load import parse_theory


def theory_text(proposal: Proposal) -> str:
    """The theory that is proposed."""
    static = "" if proposal.of(Role.TIME) else "static "
    lines = [f"# What the columns of {proposal.file} state, and what is known of it.", ""]
    lines += [f"sort {proposal.sort}", ""]
    for column in proposal.of(Role.GIVEN, Role.LEARNED):
        kind = "learned" if column.role is Role.LEARNED else "given"
        lines.append(f"{static}predicate {column.symbol}({proposal.sort})   # {kind}: {column.why}")
    if proposal.presence:
        lines.append(f"predicate Here({proposal.sort})   # given: true where there is a row")
    lines += [
        "",
        "# Rules that hold on the labels. Keep those that are laws, and add what you know.",
    ]
    lines += [f"axiom {name}: {text}   # {why}" for name, text, why in proposal.rules]
    if not proposal.rules:
        first = proposal.of(Role.LEARNED)[0].symbol
        where = " where Here(x)" if proposal.presence else ""
        lines.append("# None was found. A rule looks like this:")
        lines.append(f"# axiom Stays: forall x{where}. G({first}(x) -> WX {first}(x))")
    text = "\n".join(lines) + "\n"
    check(parse_theory(text))
    return text


def project_text(proposal: Proposal, folder: str | None) -> str:
    """The settings that are proposed, for a table in the project or in another folder."""
    one = {role: proposal.of(role) for role in Role}
    learned = one[Role.LEARNED]
    known = [c for c in one[Role.GIVEN] if not c.gaps]  # networks may see these, too
    features = [*one[Role.FEATURE], *one[Role.CATEGORY], *known]
    lines = [f"# A project for {proposal.file}, proposed by its columns. Look at every line."]
    lines += ["", "[theory]", 'file = "theory.fot"', "", "[data]"]
    if folder is not None:
        lines += [f"folder = {_text(folder)}"]
    if proposal.step is not None:
        step = proposal.step if proposal.step.isdecimal() else _text(proposal.step)
        lines += [_said(f"step = {step}", "of times, from the earliest on")]
    if not any(c.gaps for c in learned) or _many(learned):
        lines += [_said("train = 0.8", "the share of labels to learn from; the others test")]
        if proposal.entities >= FEW:
            lines += [_said('by = "entities"', "test on entities that training does not see")]
        elif one[Role.TIME]:
            lines += [_said('by = "time"', "test on the latest times")]
    lines += ["", "[[data.wide]]", f"file = {_text(proposal.file)}"]
    lines += [f"sort = {_text(proposal.sort)}"]
    if not one[Role.ENTITY]:
        lines += [_said(f"entity = {_text(f'={proposal.sort}')}", "what all rows are about")]
    for key, role in (("entity", Role.ENTITY), ("time", Role.TIME), ("trace", Role.TRACE)):
        lines += [_said(f"{key} = {_text(c.name)}", c.why) for c in one[role]]
    truths = [*one[Role.GIVEN], *learned]
    pairs = ", ".join(f"{_text(c.name)} = {_text(c.symbol)}" for c in truths)
    lines += [f"predicates = {{ {pairs} }}"]
    if features:
        lines += [f"features = {_list(c.name for c in features)}"]
    if one[Role.CATEGORY]:
        words = ", ".join(f"{_text(c.name)} = {_list(sorted(c.words))}" for c in one[Role.CATEGORY])
        lines += [f"categories = {{ {words} }}"]
    if empty := [c for c in features if c.gaps]:
        filled = _text("last" if one[Role.TIME] else "mean")
        columns = ", ".join(f"{_text(c.name)} = {filled}" for c in empty)
        lines += [_said(f"missing = {{ {columns} }}", "what empty cells are seen as")]
    if proposal.presence:
        lines += [_said('presence = "Here"', "true where there is a row")]
    lines += [f"# not used: {_text(c.name)} ({c.why})" for c in one[Role.UNUSED]]
    if one[Role.TIME] and features:
        lines += ["", f"[inputs.{proposal.sort}]"]
        lines += [_said('# encoder = "gru"', "lets networks see what went before")]
    lines += ["", "[predicates]", *(f'{c.symbol} = "network"' for c in learned)]
    lines += ["", "[objective]", 'facts = "cross-entropy"', 'together = "sum"']
    if proposal.rules:
        lines += ['axioms = "log"', _said("weight = 0.3", "of the axioms, beside the facts")]
    else:
        lines += [_said('axioms = "none"', 'there are none yet; then "log"')]
    lines += ["", "[training]", "epochs = 300", "rate = 0.01"]
    lines += [_said("validation = 0.1", "the share of labels that says when to stop")]
    lines += [_said("patience = 30", "epochs without improvement, then it stops")]
    return "\n".join(lines) + "\n"


def _said(setting: str, comment: str) -> str:
    return f"{setting:<28} # {comment}"


def _many(columns: Iterable[TableColumn]) -> bool:
    """Whether there are labels enough to hold some back."""
    return all((c.codes >= 0).sum() >= 50 for c in columns)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(values: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, values))}]"
