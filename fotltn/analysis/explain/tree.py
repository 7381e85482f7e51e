"""A formula as a tree of values at one cell, with the instances and points that matter most."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fotltn.analysis.cells import Cell, Cells, binding
from fotltn.analysis.explain.node import Node
from fotltn.analysis.explain.values import Inner, Values, site, values_at
from fotltn.analysis.text import is_iff, kind_of, text_of
from fotltn.logic import core as c
from fotltn.semantics.config import GODEL
from fotltn.semantics.interpretation import Tables
from fotltn.semantics.operators import operators
from fotltn.tree import fold

#: How many parts of `a & b & c & …` are shown.
_CHAIN = 12

#: How deep a tree is at most.
_DEPTH = 100

#: How many rows of windows are aggregated at once.
_ROWS = 256


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A part of the formula that is to become a node."""

    node: c.Formula
    inner: Inner
    time: int
    role: str
    bound: tuple[c.Axis, ...] = ()


@dataclass(slots=True, eq=False)
class _Draft:
    """A node without its children."""

    part: _Part
    depth: int = 0
    children: list[_Draft] = field(default_factory=list)
    count: int = 0
    rest: int = 0
    note: str = ""


def explain(cells: Cells, cell: Cell, *, width: int = 3, limit: int = 300) -> Node:
    """The body of a rule as a tree in which every part has its value at a cell.

    Args:
        cells: of the rule.
        cell: where.
        width: how many instances of a quantifier, or points in time, are shown.
        limit: how many nodes the tree has at most; what is nearest to the root comes first.

    Raises:
        DataError: there is no such cell, or a table is missing.
    """
    return tree_of(values_at(site(cells, cell)), width=width, limit=limit)


def tree_of(values: Values, *, width: int = 3, limit: int = 300) -> Node:
    """The tree of the values of a body."""
    here = values.site
    root = _Draft(_Part(here.pattern.body, {}, here.time, ""))
    order, waiting = [root], deque([root])
    while waiting:
        draft = waiting.popleft()
        parts = _below(draft, values, width)
        if len(order) + len(parts) > limit or (parts and draft.depth == _DEPTH):
            draft.note, draft.count, draft.rest = "its parts are not shown", 0, 0
            continue
        draft.children = [_Draft(part, draft.depth + 1) for part in parts]
        order += draft.children
        waiting.extend(draft.children)
    moves = here.cells.tables.derived(
        ("moves", here.pattern.body), lambda: _moves(here.pattern.body, here.cells.tables)
    )
    made: dict[int, Node] = {}
    for draft in reversed(order):
        below = tuple(made.pop(id(child)) for child in draft.children)
        made[id(draft)] = _node(draft, below, values, moves[draft.part.node])
    return made[id(root)]


def _node(draft: _Draft, below: tuple[Node, ...], values: Values, moves: bool) -> Node:
    part = draft.part
    view = values.site.view
    cells = view.cells
    ground = fact = None
    if isinstance(part.node, c.Atom):
        fact = view.fact(part.node, part.inner, part.time)
        ground = view.name(fact)[0]
    elif isinstance(part.node, c.Equal | c.Compare):
        ground = _ground(part.node, part, values)
    places = [part.inner[a] for a in part.bound]
    bound = binding(part.bound, places, view.trace, cells.tables)
    return Node(
        kind_of(part.node),
        text_of(part.node),
        ground,
        part.role,
        bound,
        part.time if moves else None,
        values.value(part.node, part.inner, part.time),
        values.truth(part.node, part.inner, part.time),
        below,
        draft.count,
        draft.rest,
        draft.note,
        fact,
    )


def _ground(node: c.Equal | c.Compare, part: _Part, values: Values) -> str:
    """An equality or comparison with entities by name, and numbers as they are."""
    view, sides = values.site.view, []
    for term in (node.left, node.right):
        number = view.term(term, part.inner, part.time)
        sort = c.REAL if isinstance(term, c.Number) else str(getattr(term, "sort", c.REAL))
        real = sort == c.REAL
        sides.append(
            f"{number:g}" if real else view.cells.tables.names.called(sort, view.trace, int(number))
        )
    return f"{sides[0]} {node.op if isinstance(node, c.Compare) else '='} {sides[1]}"


def _moves(body: c.Formula, tables: Tables) -> dict[c.Formula, bool]:
    """Whether each part can have another value at another time."""
    found: dict[c.Formula, bool] = {}

    def visit(node: c.Core, below: list[bool]) -> bool:
        match node:
            case c.Atom(name):
                moves = tables.table(name).shape[-1] > 1 or any(below)
            case c.Apply(name):
                moves = tables.function(name).shape[-1] > 1 or any(below)
            case c.Edge() | c.Shift() | c.Aggregate() | c.Until():
                moves = True
            case _:
                moves = any(below)
        if isinstance(node, c.Formula):
            found[node] = moves
        return moves

    fold(body, visit)
    return found


# --- what is below a part --------------------------------------------------------------------


def _below(draft: _Draft, values: Values, width: int) -> list[_Part]:
    """The parts below a part; where there are many of a kind, those that matter most."""
    part = draft.part
    node, inner, time = part.node, part.inner, part.time
    match node:
        case c.Not(arg):
            return [_Part(arg, inner, time, "of")]
        case c.Implies(left, right):
            return [_Part(left, inner, time, "if"), _Part(right, inner, time, "then")]
        case c.And() | c.Or():
            return _chain(draft, node, values)
        case c.Shift(arg, steps, past):
            when = time - steps if past else time + steps
            if 0 <= when < values.site.cells.tables.length(values.site.view.trace):
                return [_Part(arg, inner, when, "of")]
            draft.note = "before the trace begins" if past else "after the trace has ended"
            return []
        case c.Quantifier():
            return _instances(draft, node, values, width)
        case c.Aggregate(universal, arg):
            return _points(draft, arg, universal, values, width)
        case c.Until():
            return _witnesses(draft, node, values)
    return []


def _chain(draft: _Draft, node: c.And | c.Or, values: Values) -> list[_Part]:
    """The parts of `a & b & c`, as they are written; of very many, those that matter most."""
    part = draft.part
    found: list[c.Formula] = []
    kind = type(node)
    rest: c.Formula = node
    while isinstance(rest, kind) and not (found and is_iff(rest)):
        found.append(rest.right)
        rest = rest.left
    found.append(rest)
    found.reverse()
    if len(found) > _CHAIN:
        draft.count, draft.rest = len(found), len(found) - _CHAIN
        degrees = torch.tensor([values.value(n, part.inner, part.time) for n in found])
        truths = torch.tensor([values.truth(n, part.inner, part.time) for n in found])
        chosen = _telling(degrees, truths, isinstance(node, c.And), _CHAIN)
        found = [found[i] for i in sorted(chosen)]
    return [_Part(n, part.inner, part.time, "part") for n in found]


def _instances(draft: _Draft, node: c.Quantifier, values: Values, width: int) -> list[_Part]:
    part = draft.part
    degrees, truths, places = values.instances(node, part.inner, part.time)
    draft.count = len(degrees)
    chosen = _telling(degrees, truths, node.universal, width)
    draft.rest = draft.count - len(chosen)
    if not draft.count:
        draft.note = "there is nothing to look at"
    return [
        _Part(
            node.body,
            {**part.inner, **dict(zip(node.axes, places[i].tolist(), strict=True))},
            part.time,
            "instance",
            node.axes,
        )
        for i in chosen
    ]


def _points(
    draft: _Draft, arg: c.Formula, universal: bool, values: Values, width: int
) -> list[_Part]:
    part = draft.part
    first, last = _window(part, values)
    draft.count = max(0, last - first + 1)
    if not draft.count:
        draft.note = "its window has no points inside the trace"
        return []
    degrees, truths = values.points(arg, part.inner, first, last)
    chosen = _telling(degrees, truths, universal, width)
    draft.rest = draft.count - len(chosen)
    return [_Part(arg, part.inner, first + i, "point") for i in chosen]


def _telling(degrees: Tensor, truths: Tensor, universal: bool, width: int) -> list[int]:
    """The lowest of what must all be true, or the highest of what may be; the first of equals.

    One that decides the truth in two-valued logic is among them.
    """
    order = degrees.argsort(descending=not universal, stable=True)
    chosen: list[int] = order[:width].tolist()
    deciding = ~truths if universal else truths
    if chosen and bool(deciding.any()) and not bool(deciding[chosen].any()):
        chosen[-1] = int(order[deciding[order]][0])
    return chosen


def _window(part: _Part, values: Values) -> tuple[int, int]:
    """The first and last point that a temporal operator looks at."""
    assert isinstance(part.node, c.Aggregate | c.Until)
    window, past = part.node.window, part.node.past
    end = values.site.cells.tables.length(values.site.view.trace) - 1
    if past:
        first = 0 if window.high is None else max(0, part.time - window.high)
        return first, part.time - window.low
    last = end if window.high is None else min(end, part.time + window.high)
    return part.time + window.low, last


# --- until -----------------------------------------------------------------------------------


def _witnesses(draft: _Draft, node: c.Until, values: Values) -> list[_Part]:
    """The point that comes nearest to a witness, and the weakest point before it.

    For release and trigger, it is a witness against it: where `right` may fail before `left` came.
    """
    part = draft.part
    first, last = _window(part, values)
    draft.count = max(0, last - first + 1)
    if not draft.count:
        draft.note = "its window has no points inside the trace"
        return []
    low, high = (first, part.time) if node.past else (part.time, last)
    fuzzy, crisp = (
        list(_candidates(node, values, part.inner, (low, high), (first, last), two_valued))
        for two_valued in (False, True)
    )
    best = int(torch.cat(fuzzy).argmax())
    chosen = [best]
    decided = torch.cat(crisp) > 0.5
    if bool(decided.any()) and not bool(decided[best]):
        chosen.append(int(decided.nonzero()[0]))
    draft.rest = draft.count - len(chosen)
    found = []
    for number in chosen:
        when = first + number
        found.append(_Part(node.right, part.inner, when, "witness"))
        start, stop = (when + 1, part.time) if node.past else (part.time, when - 1)
        if start <= stop:
            degrees, truths = values.points(node.left, part.inner, start, stop)
            worst = _telling(degrees, truths, not node.dual, 1)[0]
            found.append(_Part(node.left, part.inner, start + worst, "before"))
    return found


def _candidates(
    node: c.Until,
    values: Values,
    inner: Inner,
    read: tuple[int, int],
    window: tuple[int, int],
    two_valued: bool,
) -> Iterator[Tensor]:
    """How good a witness each point of the window is, some points at a time."""
    semantics = values.site.cells.semantics
    crisp = two_valued or semantics.boolean
    ops = operators(GODEL if crisp else semantics)
    sides = []
    for side in (node.left, node.right):
        degrees, truths = values.points(side, inner, *read)
        value = ops.enter(truths.to(degrees.dtype) if crisp else degrees)
        sides.append(ops.negate(value) if node.dual else value)
    left, right = sides
    times = torch.arange(read[0], read[1] + 1, device=left.device)
    for start in range(window[0], window[1] + 1, _ROWS):
        points = times[start - read[0] : min(window[1] + 1, start + _ROWS) - read[0]].unsqueeze(-1)
        before = times > points if node.past else times < points
        held = ops.over_time(left.expand(before.shape), True, before)
        yield ops.leave(ops.conjoin(right[points.squeeze(-1) - read[0]], held))
