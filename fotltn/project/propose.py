"""A project for tables that nobody has described: what their columns look like, to begin with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pyarrow as pa

from fotltn.errors import DataError, listing, name_hint
from fotltn.grounding.cells import Floats, Ints, encode, numbers
from fotltn.grounding.frames import read_sources
from fotltn.grounding.read import as_text
from fotltn.grounding.stamps import instants, without_zone
from fotltn.logic.check import check
from fotltn.syntax.hints import KEYWORDS
from fotltn.syntax.load import parse_theory

_TIMES = re.compile(
    r"(t|time|step|tick|frame|round|period|second|minute|hour|day|week|month|year)s?(_?(no|nr|id))?",
    re.IGNORECASE,
)
_NAMES = re.compile(r"(.*[_ ])?(id|name|key|code|number|nr|no)", re.IGNORECASE)
#: Steps in microseconds; the longest that tells all times apart is taken.
_STEPS = {"1d": 86_400 * 10**6, "1h": 3_600 * 10**6, "1min": 60 * 10**6, "1s": 10**6}
_WORDS = 20  # of a column that are few enough to be categories
_SUPPORT, _CONFIDENCE, _BEYOND = 10, 0.95, 0.05  # of a rule that is proposed
_RULES = 6


class Role(StrEnum):
    """What a column is taken for."""

    ENTITY = "entity"
    TIME = "time"
    TRACE = "trace"
    GIVEN = "given predicate"
    LEARNED = "learned predicate"
    FEATURE = "feature"
    CATEGORY = "category"
    UNUSED = "not used"


@dataclass(slots=True, eq=False)
class TableColumn:
    """A column: its cells, and what it is taken for.

    Args:
        name: its head.
        words: what is in its cells, each once.
        codes: of each cell the number of its word; -1 where it is empty.
        values: the cells as numbers; NaN where they are none.
        role: what it is taken for.
        why: in a few words.
        symbol: the name of the predicate, if it is one.
    """

    name: str
    words: tuple[str, ...]
    codes: Ints
    values: Floats
    role: Role = Role.UNUSED
    why: str = ""
    symbol: str = ""

    @property
    def gaps(self) -> int:
        """How many cells are empty."""
        return int((self.codes < 0).sum())

    @property
    def is_number(self) -> bool:
        """Whether all cells that are not empty are numbers."""
        return bool(self.words) and bool(np.isfinite(self.values[self.codes >= 0]).all())

    @property
    def is_truth(self) -> bool:
        """Whether all cells that are not empty are true or false."""
        known = {"0", "1", "true", "false", "0.0", "1.0"}
        return bool(self.words) and {w.lower() for w in self.words} <= known

    @property
    def is_time(self) -> bool:
        """Whether cells are whole numbers from 0, none empty."""
        values = self.values
        return not self.gaps and self.is_number and bool(((values >= 0) & (values % 1 == 0)).all())

    @property
    def stamps(self) -> tuple[str, Ints] | None:
        """A step, and the time of each cell in steps, if all cells are dates or time stamps."""
        if self.gaps or not all(map(without_zone, self.words)):
            return None
        since = instants(pa.chunked_array([pa.array(self.words)]))
        since = since - since.min()
        apart = int(np.gcd.reduce(since))
        step = next((step for step, size in _STEPS.items() if apart % size == 0), None)
        return None if step is None else (step, (since // _STEPS[step])[self.codes])

    @property
    def truth(self) -> Floats:
        """1 and 0; NaN where a cell is empty."""
        true = np.array([w.lower() in ("1", "true", "1.0") for w in self.words] or [False])
        return np.where(self.codes < 0, np.nan, true[self.codes].astype(np.float64))


@dataclass(slots=True, eq=False)
class Proposal:
    """A project that fits a table.

    Args:
        file: the name of the table.
        columns: its columns, with their roles.
        rows: how many it has.
        sort: the sort of its entities.
        presence: whether entities come and go.
        rules: axioms that hold on the labels, with how often.
        step: of time stamps; None if times are numbers.
    """

    file: str
    columns: list[TableColumn]
    rows: int
    sort: str = ""
    presence: bool = False
    rules: list[tuple[str, str, str]] = field(default_factory=list)
    step: str | None = None

    def of(self, *roles: Role) -> list[TableColumn]:
        """The columns of some roles."""
        return [c for c in self.columns if c.role in roles]

    def as_dict(self) -> dict[str, object]:
        """The roles of columns for machines."""
        return {
            "file": self.file, "sort": self.sort, "rows": self.rows,
            "columns": {c.name: {"role": c.role.value, "why": c.why} for c in self.columns},
            "rules": [{"name": n, "axiom": text, "evidence": why} for n, text, why in self.rules],
        }  # fmt: skip


def propose(path: Path, learn: Sequence[str] = ()) -> Proposal:
    """Look at a table, and say what its columns may be.

    Args:
        path: CSV, TSV or Parquet: a row an entity, or an entity at a time.
        learn: the columns that are to be predicted; without them, those that have gaps.

    Raises:
        DataError: it cannot be read, or there is nothing to learn.
    """
    ((place, raw),) = read_sources([path])
    table = as_text(place, raw)
    if not table.num_rows:
        raise DataError(f"{path}: there are no rows")
    if twice := [n for n in table.column_names if table.column_names.count(n) > 1]:
        raise DataError(f"{path}: the column '{twice[0]}' occurs twice")
    columns = [_column(name, table.column(name)) for name in table.column_names]
    for name in learn:
        if name not in table.column_names:
            raise DataError(f"{path}: no column '{name}'; {name_hint(name, table.column_names)}")
    proposal = Proposal(path.name, columns, table.num_rows)
    _keys(proposal, path, learn)
    _contents(proposal, path, learn)
    proposal.rules = _rules(proposal)
    check(parse_theory(theory_text(proposal)))
    return proposal


def _column(name: str, cells: pa.ChunkedArray) -> TableColumn:
    words, codes = encode(cells)
    used = np.unique(codes[codes >= 0])
    order = np.full(len(words) + 1, -1)
    order[used] = np.arange(len(used))
    return TableColumn(
        name, tuple(words.take(pa.array(used)).to_pylist()), order[codes].astype(np.int64),
        numbers(cells),
    )  # fmt: skip


# --- which row is about whom, and when ---------------------------------------------------------


def _unique(*columns: TableColumn) -> bool:
    """Whether no two rows have the same cells."""
    rows = np.stack([c.codes for c in columns])
    return bool(np.unique(rows, axis=1).shape[1] == rows.shape[1])


def _keys(proposal: Proposal, path: Path, learn: Sequence[str]) -> None:
    columns = [c for c in proposal.columns if c.name not in learn]
    times = [c for c in columns if c.stamps is not None]
    times += [c for c in columns if c.is_time and _TIMES.fullmatch(c.name)]
    names = [c for c in columns if c not in times and not c.gaps and not c.is_truth]
    names = [c for c in names if not c.is_number or _NAMES.fullmatch(c.name)]
    names.sort(key=lambda c: not _NAMES.fullmatch(c.name))
    repeated = [c for c in names if len(c.words) < proposal.rows]
    for time in [*times, None]:
        when = [] if time is None else [time]
        # What is another in every row does not come again at another time.
        texts = names if time is None else repeated
        for entity in texts:
            if _unique(entity, *when):
                _take(proposal, entity, time, None)
                return
        if time is None:
            continue
        for entity, trace in permutations(texts, 2):
            if len(trace.words) < len(entity.words) and _unique(entity, trace, time):
                _take(proposal, entity, time, trace)
                return
        others = [c for c in times if c is not time]
        for entity in texts:
            for trace in (c for c in others if _unique(entity, c, time)):
                _take(proposal, entity, time, trace)
                return
        for entity, trace in permutations(texts, 2):
            if _unique(entity, trace, time):
                _take(proposal, entity, time, trace)
                return
    candidates = listing([c.name for c in names]) or "no column"
    raise DataError(
        f"{path}: no row can be told from the others by an entity and a time: {candidates} could "
        "name entities; give every row an id, or a whole number from 0 in a column 'time'"
    )


def _take(
    proposal: Proposal, entity: TableColumn, time: TableColumn | None, trace: TableColumn | None
) -> None:
    entity.role, entity.why = Role.ENTITY, f"names {len(entity.words):,} entities"
    proposal.sort = _identifier(re.sub(r"[_ ]?(id|name|key|nr|no)$", "", entity.name.lower()))
    points = 1
    if time is not None:
        why = "whole numbers up to {:,}"
        if time.stamps is not None:
            proposal.step, steps = time.stamps
            time.values = steps.astype(np.float64)
            why = f"time stamps, {{:,}} steps of {proposal.step}"
        points = int(time.values.max()) + 1
        time.role, time.why = Role.TIME, why.format(points - 1)
    if trace is not None:
        trace.role, trace.why = Role.TRACE, f"{len(trace.words):,} traces"
    traces = 1 if trace is None else len(trace.words)
    proposal.presence = time is not None and proposal.rows < traces * len(entity.words) * points


# --- what rows say ------------------------------------------------------------------------------


def _contents(proposal: Proposal, path: Path, learn: Sequence[str]) -> None:
    taken = {proposal.sort}
    for column in (c for c in proposal.columns if not c.why):
        if column.is_truth:
            column.role = Role.GIVEN
            column.why = f"true or false{f', {column.gaps:,} empty' if column.gaps else ''}"
            column.symbol = _predicate(column.name, taken)
        elif column.name in learn:
            raise DataError(
                f"{path}: '{column.name}' cannot be learned, since it is not true or false (1 or "
                "0, empty where it is not known)"
            )
        elif column.gaps:
            column.why = f"{column.gaps:,} of {proposal.rows:,} cells are empty"
        elif column.is_number:
            column.role, column.why = Role.FEATURE, "numbers"
        elif 2 <= len(column.words) <= _WORDS:
            column.role, column.why = Role.CATEGORY, f"{len(column.words)} different words"
        else:
            column.why = f"{len(column.words):,} different words"
    truths = proposal.of(Role.GIVEN)
    if not truths:
        raise DataError(
            f"{path}: no column is true or false, so that there is nothing to learn; add one with "
            "1 and 0, empty where it is not known"
        )
    chosen = [c for c in truths if c.name in learn] or [c for c in truths if c.gaps] or truths[-1:]
    for column in chosen:
        column.role = Role.LEARNED
    for column in truths:
        if column.role is Role.GIVEN and column.gaps:
            column.why += ", which count as false"


def _identifier(name: str) -> str:
    plain = re.sub(r"\W+", "_", name).strip("_") or "entity"
    plain = plain if plain[0].isalpha() else f"e_{plain}"
    return f"{plain}_" if plain in KEYWORDS else plain


def _predicate(name: str, taken: set[str]) -> str:
    parts = [p for p in re.split(r"\W+|_", name) if p]
    symbol = "".join(p[:1].upper() + p[1:] for p in parts) or "P"
    symbol = symbol if symbol[0].isalpha() else f"P{symbol}"
    while symbol in taken or symbol in KEYWORDS or symbol == "Here":
        symbol += "_"
    taken.add(symbol)
    return symbol


# --- what holds ---------------------------------------------------------------------------------


def _rules(proposal: Proposal) -> list[tuple[str, str, str]]:
    """Rules that hold on the labels beyond chance: name, axiom, and how often."""
    truths = proposal.of(Role.LEARNED, Role.GIVEN)
    where = " where Here(x)" if proposal.presence else ""
    counted: list[tuple[float, str, str, str]] = []

    def count(name: str, body: str, first: Floats, then: Floats) -> None:
        both = np.isfinite(first) & np.isfinite(then)
        base = then[both].mean() if both.any() else 1.0
        held = then[both & (first == 1)]
        if len(held) < _SUPPORT or held.mean() < _CONFIDENCE or held.mean() - base < _BEYOND:
            return
        shown = f"holds {held.mean():.3f} of {len(held):,} times; by chance it would {base:.3f}"
        counted.append((float(held.mean() - base), name, f"forall x{where}. G({body})", shown))

    for one, two in combinations(truths, 2):
        for a, b in ((one, two), (two, one)):
            body = f"{a.symbol}(x) -> {b.symbol}(x)"
            count(f"{a.symbol}Means{b.symbol}", body, a.truth, b.truth)
            count(f"{a.symbol}Excludes{b.symbol}", f"{a.symbol}(x) -> !{b.symbol}(x)", a.truth,
                  1 - b.truth)  # fmt: skip
    rows, following = _steps(proposal)
    for a in truths:
        now, then = a.truth[rows], a.truth[following]
        count(f"{a.symbol}Stays", f"{a.symbol}(x) -> WX {a.symbol}(x)", now, then)
    return [rule for _, *rule in sorted(counted, reverse=True)[:_RULES]]  # type: ignore[misc]


def _steps(proposal: Proposal) -> tuple[Ints, Ints]:
    """Rows, and for each that of the same entity one step later."""
    if not proposal.of(Role.TIME):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    keys = proposal.of(Role.TRACE, Role.ENTITY)
    time = proposal.of(Role.TIME)[0].values
    order = np.lexsort([time, *(c.codes for c in keys)])
    same = np.ones(len(order) - 1, dtype=bool)
    for column in keys:
        same &= column.codes[order[1:]] == column.codes[order[:-1]]
    same &= time[order[1:]] == time[order[:-1]] + 1
    return order[:-1][same], order[1:][same]


# --- the files ----------------------------------------------------------------------------------


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
    return "\n".join(lines) + "\n"


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
        lines += [_said(f"step = {_text(proposal.step)}", "of time stamps, from the earliest on")]
    if not any(c.gaps for c in learned) or _many(learned):
        lines += [_said("train = 0.8", "the share of labels to learn from; the others test")]
        lines += [_said('by = "entities"', "test on entities that training does not see")]
    lines += ["", "[[data.wide]]", f"file = {_text(proposal.file)}"]
    lines += [f"sort = {_text(proposal.sort)}"]
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
    if proposal.presence:
        lines += [_said('presence = "Here"', "true where there is a row")]
    lines += [f"# not used: {_text(c.name)}, since {c.why}" for c in one[Role.UNUSED]]
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
