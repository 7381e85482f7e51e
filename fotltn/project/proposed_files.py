"""Write the files of a proposed project: its theory and its settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from fotltn.format import listed
from fotltn.logic.check import check
from fotltn.project.presets import DEFAULT, PRESETS
from fotltn.project.propose import Proposal
from fotltn.project.proposed_rules import always
from fotltn.project.proposed_table import WORDS, ProposedTable
from fotltn.project.table_columns import Role, TableColumn
from fotltn.syntax.load import parse_theory

_FEW = 5  # with fewer entities, none are held back for testing


def theory_text(proposal: Proposal) -> str:
    """Return the text of the proposed theory."""
    files = [t.file for t in proposal.tables if not t.note]
    verb = "states" if len(files) == 1 else "state"
    lines = [f"# What {listed(files)} {verb}, and rules that hold on the labels.", ""]
    lines += [f"sort {', '.join(proposal.sorts)}"]
    for table in proposal.tables:
        if declared := list(_declared(table)):
            lines += ["", *([f"# {table.file}"] if len(files) > 1 else []), *declared]
    lines += [
        "",
        "# Rules that hold on the labels. Keep those that are true, and add what you know. If a",
        "# rule has no exceptions, make it a `hard axiom`.",
    ]
    lines += [f"axiom {name}: {text}   # {why}" for name, text, why in proposal.rules]
    if not proposal.rules:
        table = next(t for t in proposal.tables if t.of(Role.LEARNED))
        variables = [*"xy"[: max(1, len(table.arguments))]]
        atom = f"{table.of(Role.LEARNED)[0].symbol}({', '.join(variables)})"
        body = atom if table.static else f"{atom} -> WX {atom}"
        example = always(body, *variables, here=table.presence)
        lines.append("# No rule was found. A rule looks like this:")
        lines.append(f"# axiom {'All' if table.static else 'Stays'}: {example}")
    text = "\n".join(lines) + "\n"
    check(parse_theory(text))
    return text


def _declared(table: ProposedTable) -> Iterator[str]:
    """Yield the declarations of the predicates that a table states."""
    static = "static " if table.static else ""
    named = table.sorts_of(table.arguments) if table.arguments else (table.sort,)
    for column in table.of(Role.GIVEN, Role.LEARNED):
        kind = "learned" if column.role is Role.LEARNED else "given"
        head = f"{column.symbol}({', '.join(named)})"
        yield f"{static}predicate {head}   # {kind}: {column.why}"
    if table.presence:
        yield f"predicate Here({table.sort})   # given: true where there is a row"
    for symbol in table.events.values():
        yield f"{static}predicate {symbol}({table.sort})   # given: an event"
    for symbol, arguments in table.links.items():
        sorts = ", ".join(table.sorts_of(arguments))
        yield f"{static}predicate {symbol}({sorts})   # given: true where a row says so"


def project_text(proposal: Proposal, folder: str | None) -> str:
    """Return the text of the proposed settings, for tables in the project or in another folder."""
    main, tables = proposal.main, [t for t in proposal.tables if not t.note]
    learned = [c for t in tables for c in t.of(Role.LEARNED)]
    files = listed(t.file for t in proposal.tables)
    whose = "its" if len(proposal.tables) == 1 else "their"
    lines = [f"# A project for {files}, proposed from {whose} columns. Check every line."]
    preset = PRESETS[DEFAULT]
    lines += ["", _said(f"preset = {_text(DEFAULT)}", "the defaults, as fotltn.train has them")]
    words = "gradients or, with hard axioms, sampled worlds"
    lines += [_said(f"method = {_text(preset.method)}", words)]
    lines += ["", "[theory]", 'file = "theory.fot"', "", "[data]"]
    if folder is not None:
        lines += [f"folder = {_text(folder)}"]
    if proposal.step is not None:
        step = proposal.step if proposal.step.isdecimal() else _text(proposal.step)
        lines += [_said(f"step = {step}", "the length of a step")]
        if any(t.of(Role.TRACE) for t in tables):
            lines += [_said('clock = "own"', 'each trace begins at step 0; or "shared"')]
        else:
            lines += [_said('clock = "shared"', "all times count from one origin")]
            if proposal.origin is not None:
                lines += [_said(f"origin = {_text(proposal.origin)}", "when the first step begins")]
    if proposal.local:
        said = f"every trace has its own {main.sort}s"
        lines += [_said(f"local = [{_text(main.sort)}]", said)]
    if proposal.split is None and (not any(c.gaps for c in learned) or _many(learned)):
        lines += [_said("train = 0.8", "the share of labels to learn from; test on the others")]
        of_main = all(t.sort == main.sort for t in tables if t.of(Role.LEARNED))
        if main.entities >= _FEW and not main.arguments and of_main:
            lines += [_said('by = "entities"', "test on entities that training does not see")]
            several = [t for t in tables if t.sort != main.sort]
            lines += [f"sort = {_text(main.sort)}"] if several else []
        elif main.of(Role.TIME) and of_main:
            lines += [_said('by = "time"', "test on the latest time points")]
    for table in tables:
        lines += ["", *_wide(table)]
    for table in (t for t in proposal.tables if t.note):
        lines += ["", f"# not used: {table.file} ({table.note})"]
    if proposal.split is not None:
        lines += ["", *_split(*proposal.split)]
    lines += list(_inputs(proposal))
    lines += ["", "[predicates]", *(f'{c.symbol} = "auto"' for c in learned)]
    weight, how = preset.objective.weight.as_json(), preset.training
    said = "of the axioms, relative to the facts"
    lines += ["", "[objective]", _said(f"weight = {weight}", said)]
    lines += ["", "[training]", f"epochs = {how.epochs}", f"rate = {how.rate}"]
    said = "the share of labels that decides when to stop"
    lines += [_said(f"validation = {how.validation}", said)]
    said = "stop after so many epochs without improvement"
    lines += [_said(f"patience = {how.patience}", said)]
    return "\n".join(lines) + "\n"


def _features(table: ProposedTable) -> list[TableColumn]:
    """Return the columns that networks see, including given predicates and links with few words."""
    if table.several or table.arguments:
        return []
    known = [c for c in table.of(Role.GIVEN) if not c.gaps]
    links = [c for c in table.of(Role.LINK) if 2 <= len(c.words) <= WORDS]
    return [*table.of(Role.FEATURE), *table.of(Role.CATEGORY), *known, *links]


def _wide(table: ProposedTable) -> Iterator[str]:
    """Yield the settings of one table."""
    one = {role: table.of(role) for role in Role}
    yield "[[data.wide]]"
    yield f"file = {_text(table.file)}"
    yield f"sort = {_text(table.sort)}"
    if table.arguments:
        yield _said(f"entity = {_text(table.arguments[0].name)}", table.arguments[0].why)
    elif not one[Role.ENTITY]:
        yield _said(f"entity = {_text(f'={table.sort}')}", "the entity that all rows are about")
    for key, role in (("entity", Role.ENTITY), ("time", Role.TIME), ("trace", Role.TRACE)):
        yield from (_said(f"{key} = {_text(c.name)}", c.why) for c in one[role])
    truths = [] if table.several else [*one[Role.GIVEN], *one[Role.LEARNED]]
    if truths:
        pairs = ", ".join(f"{_text(c.name)} = {_text(c.symbol)}" for c in truths)
        yield f"predicates = {{ {pairs} }}"
        if table.arguments:
            named = _list(c.name for c in table.arguments)
            yield f"arguments = {{ {', '.join(f'{_text(c.name)} = {named}' for c in truths)} }}"
    features = _features(table)
    if features:
        yield f"features = {_list(c.name for c in features)}"
    if worded := [c for c in features if c.role in (Role.CATEGORY, Role.LINK) or c.is_worded]:
        words = ", ".join(f"{_text(c.name)} = {_list(sorted(c.words))}" for c in worded)
        yield f"categories = {{ {words} }}"
    if empty := [c for c in features if c.gaps or table.gaps]:
        filled = _text("mean" if table.static else "last")
        columns = ", ".join(f"{_text(c.name)} = {filled}" for c in empty)
        yield _said(f"missing = {{ {columns} }}", "how to fill empty cells")
    if table.presence:
        yield _said('presence = "Here"', "true where there is a row")
    yield from (f"# not used: {_text(c.name)} ({c.why})" for c in one[Role.UNUSED])
    measures = [*_measures(table)]
    if measures:
        yield from ["", "[data.wide.measures]", *measures]


def _measures(table: ProposedTable) -> Iterator[str]:
    """Yield predicates that rows make true: events, relations, and links to other tables."""
    for column in table.of(Role.EVENTS):
        for word, symbol in table.events.items():
            how = f"column = {_text(column.name)}, among = [{_text(word)}], only_true = true"
            yield f"{symbol} = {{ {how} }}"
    if table.several:
        for column in table.of(Role.GIVEN):
            true = column.true_words
            how = f"column = {_text(column.name)}, among = {_list(true)}, only_true = true"
            yield f"{column.symbol} = {{ {how} }}"
    for symbol, arguments in table.links.items():
        comment = f"names {' and '.join(table.sorts_of(arguments))}"
        yield _said(f"{symbol} = {{ arguments = {_list(c.name for c in arguments)} }}", comment)


def _split(table: ProposedTable, trace: TableColumn, column: TableColumn) -> Iterator[str]:
    yield "[data.split]"
    yield f"file = {_text(table.file)}"
    yield f"trace = {_text(trace.name)}"
    yield _said(f"column = {_text(column.name)}", column.why)
    for key, begin in (("train", "train"), ("validation", ("val", "dev")), ("test", "test")):
        if words := [w for w in column.words if w.lower().startswith(begin)]:
            yield f"{key} = {_list(words)}"


def _inputs(proposal: Proposal) -> Iterator[str]:
    """Yield what networks see of each sort in addition to its features."""
    tables = [t for t in proposal.tables if not t.note]
    seen = {t.sort for t in tables if _features(t)}
    moving = {t.sort for t in tables if _features(t) and not t.static}
    learned = {t.sort for t in tables if t.of(Role.LEARNED)}
    for sort in proposal.sorts:
        if sort not in learned or sort not in seen:
            continue
        near = [
            symbol
            for table in tables
            for symbol, arguments in table.links.items()
            if sort in (sorts := table.sorts_of(arguments))
            and len(sorts) == 2
            and seen & ({*sorts} - {sort} or {sort})
        ]
        if near or sort in moving:
            yield ""
            yield f"[inputs.{sort}]"
        if near:
            yield _said(f"neighbours = {_list(near)}", "networks also see their features")
        if sort in moving:
            yield _said('# encoder = "gru"', "lets networks see earlier time points")


def _said(setting: str, comment: str) -> str:
    return f"{setting:<28} # {comment}"


def _many(columns: Iterable[TableColumn]) -> bool:
    """Return whether there are enough labels to hold some back."""
    return all((c.codes >= 0).sum() >= 50 for c in columns)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(values: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, values))}]"
