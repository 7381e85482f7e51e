"""Propose rules that hold on the labels of tables more often than chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fotltn.format import share
from fotltn.grounding.cells import Floats, Ints
from fotltn.project.proposed_table import ProposedTable
from fotltn.project.table_columns import Role

_SUPPORT, _CONFIDENCE, _BEYOND = 10, 0.95, 0.05  # minimum support, share, and share above chance
_RULES = 6
_PAIRS = 10**6  # limit on rows of neighbours


class ProposedRule(NamedTuple):
    """An axiom, and how often it holds on the labels."""

    name: str
    axiom: str
    evidence: str


class _RowTruths(NamedTuple):
    """The truth of a predicate in each row of a table; NaN if unknown."""

    symbol: str
    truth: Floats
    learned: bool = False
    event: bool = False
    static: bool = False
    ever: bool = False

    @property
    def atom(self) -> str:
        """The atom about an entity x."""
        return f"F {self.symbol}(x)" if self.ever else f"{self.symbol}(x)"

    @property
    def name(self) -> str:
        """The predicate as part of a rule's name."""
        return f"Ever{self.symbol}" if self.ever else self.symbol


def rules_of(main: ProposedTable, others: Sequence[ProposedTable]) -> list[ProposedRule]:
    """Propose rules about the entities of a table, from what all tables say about them."""
    truths = [
        _RowTruths(c.symbol, c.truth, c.role is Role.LEARNED, static=main.static)
        for c in main.of(Role.LEARNED, Role.GIVEN)
    ]
    truths += [one for table in others for one in _aligned(main, table)]
    counted: list[tuple[float, ProposedRule]] = []

    def count(name: str, body: str, first: Floats, then: Floats, *more: str) -> None:
        known = np.isfinite(then)
        base = then[known].mean() if known.any() else 1.0
        held = then[known & (first == 1)]
        if len(held) < _SUPPORT or held.mean() < _CONFIDENCE or held.mean() - base < _BEYOND:
            return
        often, chance = share(float(held.mean())), share(float(base))
        shown = f"holds in {often} of {len(held):,} cases; {chance} by chance"
        axiom = always(body, "x", *more, here=main.presence)
        axiom = f"forall x. {body}" if main.static and "F " in body else axiom
        counted.append((float(held.mean() - base), ProposedRule(name, axiom, shown)))

    def later(atom: str, variable: str = "x") -> str:
        """Return an atom at the next step, restricted to entities that are present then."""
        return f"WX (Here({variable}) -> {atom})" if main.presence else f"WX {atom}"

    for one, two in (pair for pair in combinations(truths, 2) if any(t.learned for t in pair)):
        for a, b in ((one, two), (two, one)):
            count(f"{a.name}Means{b.name}", f"{a.atom} -> {b.atom}", a.truth, b.truth)
            count(f"{a.name}Excludes{b.name}", f"{a.atom} -> !({b.atom})" if b.ever else
                  f"{a.atom} -> !{b.atom}", a.truth, 1 - b.truth)  # fmt: skip
    rows, following = _steps(main)
    for a in truths:
        now, then = a.truth[rows], a.truth[following]
        if a.learned and not a.static:
            count(f"{a.symbol}Stays", f"{a.symbol}(x) -> {later(f'{a.symbol}(x)')}", now, then)
        for b in (b for b in truths if b.learned and a.event):
            then = b.truth[following]
            makes, ends = (later(f"{sign}{b.symbol}(x)") for sign in ("", "!"))
            count(f"{a.symbol}Makes{b.symbol}", f"{a.symbol}(x) -> {makes}", now, then)
            count(f"{a.symbol}Ends{b.symbol}", f"{a.symbol}(x) -> {ends}", now, 1 - then)
    for relation, first, second, step in _neighbours(main, others):
        for a in (a for a in truths if a.learned):
            near = f"{a.symbol}(y)"
            count(
                f"{relation}Spreads{a.symbol}{'Next' * step}",
                f"{relation}(x, y) & {a.symbol}(x) -> {later(near, 'y') if step else near}",
                a.truth[first], a.truth[second], "y",
            )  # fmt: skip
    counted.sort(key=lambda pair: (pair[0], *pair[1]), reverse=True)
    return [rule for _, rule in counted[:_RULES]]


def always(body: str, *variables: str, here: bool) -> str:
    """Return an axiom that holds at all times, for all entities or for those present."""
    names = ", ".join(variables)
    if not here:
        return f"forall {names}. G({body})"
    there = " & ".join(f"Here({variable})" for variable in variables)
    return f"G forall {names} where {there}. ({body})"


def _steps(table: ProposedTable) -> tuple[Ints, Ints]:
    """Return rows, and for each the row of the same entity one step later."""
    time = table.steps
    if time is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    keys = table.of(Role.TRACE, Role.ENTITY)
    order = np.lexsort([time, *(c.codes for c in keys)])
    same = np.ones(len(order) - 1, dtype=bool)
    for column in keys:
        same &= column.codes[order[1:]] == column.codes[order[:-1]]
    same &= time[order[1:]] == time[order[:-1]] + 1
    return order[:-1][same], order[1:][same]


# --- other tables -----------------------------------------------------------------------------

Places = dict[tuple[object, ...], int]


def _places(table: ProposedTable, keyed: Sequence[Role]) -> list[tuple[object, ...]]:
    """Return the words of each row's keys, and its time if that is a key."""
    columns: list[Sequence[object]] = []
    for role in keyed:
        if role is Role.TIME:
            columns += [] if table.steps is None else [table.steps.tolist()]
        else:
            columns += [[c.words[i] for i in c.codes.tolist()] for c in table.of(role)]
    return list(zip(*columns, strict=True))


def _aligned(main: ProposedTable, other: ProposedTable) -> Iterator[_RowTruths]:
    """Yield what another table about the same entities says, for the rows of the main table."""
    if other.sort != main.sort or other.arguments or not other.of(Role.ENTITY) or other.note:
        return
    roles = [Role.ENTITY]
    roles += [Role.TRACE] if other.of(Role.TRACE) and main.of(Role.TRACE) else []
    if not other.static and not main.static:
        roles.append(Role.TIME)
    places: Places = {place: row for row, place in enumerate(_places(main, roles))}
    if not other.static and (len(places) < main.rows or (main.static and not other.several)):
        return
    here = _places(main, roles)
    there = _places(other, roles)
    if not other.several:
        rows: Places = {place: row for row, place in enumerate(there)}
        at = np.array([rows.get(place, -1) for place in here])
        for column in other.of(Role.GIVEN):
            truth = np.where(at < 0, np.nan, column.truth[at])
            yield _RowTruths(column.symbol, truth, static=other.static)
        return
    for symbol, words in _event_rows(other):
        happened = {place for place, row in zip(there, words.tolist(), strict=True) if row}
        truth = np.array([float(place in happened) for place in here])
        ever = main.static and not other.static
        yield _RowTruths(symbol, truth, event=not other.static and not ever, ever=ever)


def _event_rows(table: ProposedTable) -> Iterator[tuple[str, Ints]]:
    """Yield the predicates of a table of events, with the rows in which each is true."""
    for column in table.of(Role.EVENTS):
        for word, symbol in table.events.items():
            yield symbol, (column.codes == column.words.index(word)).astype(np.int64)
    for symbol, arguments in table.links.items():
        if len(arguments) == 1:
            yield symbol, np.ones(table.rows, dtype=np.int64)


def _neighbours(
    main: ProposedTable, others: Sequence[ProposedTable]
) -> Iterator[tuple[str, Ints, Ints, bool]]:
    """Yield rows of neighbours at the same time and one step apart, for each static relation."""
    if len(main.of(Role.ENTITY)) != 1:
        return
    (entity,) = main.of(Role.ENTITY)
    number = {word: i for i, word in enumerate(entity.words)}
    for table in others:
        for symbol, arguments in table.links.items():
            if not table.static or table.sorts_of(arguments) != (main.sort, main.sort):
                continue
            columns = [[number.get(c.words[i], -1) for i in c.codes] for c in arguments]
            pairs = np.unique(np.array(columns), axis=1)
            pairs = pairs[:, (pairs >= 0).all(0)]
            if main.rows * pairs.shape[1] > _PAIRS * len(entity.words):
                continue
            rows = _places(main, [Role.ENTITY, Role.TRACE, Role.TIME])
            where = {place: row for row, place in enumerate(rows)}
            for later in (False, True) if not main.static else (False,):
                first, second = [], []
                for x, y in pairs.T.tolist():
                    for row in np.flatnonzero(entity.codes == x).tolist():
                        _, *rest = rows[row]
                        if later:
                            rest[-1] += 1  # type: ignore[operator]
                        near = where.get((entity.words[y], *rest))
                        if near is not None:
                            first.append(row)
                            second.append(near)
                yield symbol, np.array(first, np.int64), np.array(second, np.int64), later
