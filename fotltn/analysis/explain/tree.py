"""A formula as a tree of values at one cell, with the instances and points that matter most."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import torch
from torch import Tensor

from fotltn.analysis.axes import binding
from fotltn.analysis.explain.pattern import clipped
from fotltn.analysis.explain.site import FactPlace, Inner, Site
from fotltn.analysis.explain.values import Values, values_at
from fotltn.analysis.presence import present_where_used
from fotltn.analysis.record import Record
from fotltn.format import cell_words
from fotltn.logic import core as c
from fotltn.logic.parts import conjuncts
from fotltn.logic.presence import as_written, is_at_once
from fotltn.logic.span import TimeSpan, operands
from fotltn.logic.text import is_iff, kind_of, text_of
from fotltn.semantics.config import GODEL
from fotltn.semantics.operators import operators
from fotltn.semantics.tables import sort_of
from fotltn.syntax.notebook import bar, text

#: How many parts of `a & b & c & …` are shown.
_CHAIN = 12

#: How many points are named at which an entity is absent.
_TIMES = 8

#: How deep a tree is at most.
_DEPTH = 100

#: How many rows of windows are aggregated at once.
_ROWS = 256

_LIST = '<ul style="list-style:none;padding-left:1.2em;margin:0">'


@dataclass(frozen=True, slots=True)
class ValueNode(Record):
    """A part of a formula with its value at a binding and time.

    Args:
        kind: the kind of the part: `atom`, `and`, `forall`, `until` and so on.
        text: the part as written.
        ground: the text of an atom, equality or comparison, with names in place of variables.
        role: its role in the part above: `if` and `then` of an implication, a `part` of `&` and
            `|`, an `instance` of a quantifier, a `point` in time, the `witness` of an until or a
            point `before` it, or `of` for the only part of its kind.
        binding: the names that an instance gives to variables.
        time: when it is read; None where time does not matter.
        value: its degree.
        truth: its truth in two-valued logic.
        children: its parts; of instances and points, those that matter most.
        count: how many instances or points there are.
        rest: how many of them are not among the children.
        note: a remark, if there is one.
        fact: for an atom, the fact.
    """

    kind: str
    text: str
    ground: str | None
    role: str
    binding: dict[str, str]
    time: int | None
    value: float
    truth: bool
    children: tuple[ValueNode, ...] = ()
    count: int = 0
    rest: int = 0
    note: str = ""
    fact: FactPlace | None = None

    KEYS = (
        "kind", "text", "ground", "role", "binding", "time", "value", "truth", "children", "count",
        "rest", "note",
    )  # fmt: skip

    def levels(self) -> Iterator[tuple[ValueNode, int]]:
        """The node and all nodes below it in the order in which they are read, with their depth."""
        stack = [(self, 0)]
        while stack:
            node, level = stack.pop()
            yield node, level
            stack.extend((child, level + 1) for child in reversed(node.children))

    @property
    def label(self) -> str:
        """The part in words: its role, its text with names, and its time."""
        role = self.role if self.role in ("if", "then", "witness", "before") else ""
        names = cell_words(self.binding)
        dated = self.ground is not None or self.role in ("point", "witness", "before")
        when = f"at {self.time}" if dated and self.time is not None else ""
        parts = (role, f"{names}:" if names else "", self.ground or self.text, when)
        return " ".join(part for part in parts if part)

    @property
    def remark(self) -> str:
        """What is not shown below the node, and its note."""
        rest = f"{self.rest:,} more of {self.count:,}" if self.rest else ""
        return "; ".join(part for part in (rest, self.note) if part)

    def _repr_html_(self) -> str:
        return f"{_LIST}{self._item()}</ul>"

    def _item(self) -> str:
        """Return the node and all nodes below it as an item of a list."""
        remark = f" <em>({text(self.remark)})</em>" if self.remark else ""
        below = "".join(child._item() for child in self.children)
        below = f"{_LIST}{below}</ul>" if below else ""
        truth = "true" if self.truth else "false"
        return f"<li>{bar(self.value)} {truth} <code>{text(self.label)}</code>{remark}{below}</li>"


@dataclass(slots=True, eq=False)
class _Draft:
    """A part of the formula that will become a node: where it is read, and the parts below it."""

    node: c.Formula
    inner: Inner
    time: int
    role: str
    bound: tuple[c.Axis, ...] = ()
    depth: int = 0
    children: list[_Draft] = field(default_factory=list)
    count: int = 0
    rest: int = 0
    note: str = ""


def explain(site: Site, *, width: int = 3, limit: int = 300) -> ValueNode:
    """Return the body of a rule as a tree in which every part has its value at a cell.

    Args:
        site: the cell.
        width: the number of instances of a quantifier, or of time points, to show.
        limit: the maximum number of nodes; those nearest to the root come first.

    Raises:
        DataError: a table is missing.
    """
    values = values_at(site)
    root = _Draft(site.body, {}, site.cell.time, "", note=_undefined(site))
    order, waiting = [root], deque([root])
    while waiting:
        draft = waiting.popleft()
        _enter(draft, values)
        below = _below(draft, values, width)
        if len(order) + len(below) > limit or (below and draft.depth == _DEPTH):
            draft.note, draft.count, draft.rest = "its parts are not shown", 0, 0
            continue
        for child in below:
            child.depth = draft.depth + 1
        draft.children = below
        order += below
        waiting.extend(below)
    made: dict[int, ValueNode] = {}
    for draft in reversed(order):
        children = tuple(made.pop(id(child)) for child in draft.children)
        made[id(draft)] = _node(draft, children, values)
    return made[id(root)]


def _node(draft: _Draft, children: tuple[ValueNode, ...], values: Values) -> ValueNode:
    site, node = values.site, draft.node
    ground = fact = None
    if isinstance(node, c.Atom):
        fact = site.fact(node, draft.inner, draft.time)
        ground = site.name(fact)[0]
    elif isinstance(node, c.Equal | c.Compare):
        ground = _ground(node, draft, site)
    places = [draft.inner[a] for a in draft.bound]
    plain = as_written(node, site.cells.tables.presence)
    return ValueNode(
        kind_of(plain),
        text_of(plain),
        ground,
        draft.role,
        binding(draft.bound, places, site.cell.trace, site.cells.tables),
        draft.time if site.moves[node] else None,
        values.value(node, draft.inner, draft.time),
        values.truth(node, draft.inner, draft.time),
        children,
        draft.count,
        draft.rest,
        draft.note,
        fact,
    )


def _ground(node: c.Equal | c.Compare, draft: _Draft, site: Site) -> str:
    """An equality or comparison with entities by name, and numbers as they are."""
    sides = []
    for term in (node.left, node.right):
        number = site.term(term, draft.inner, draft.time)
        sort = str(getattr(term, "sort", c.REAL))  # a number has none
        called = site.cells.tables.names.called
        sides.append(
            f"{number:g}" if sort == c.REAL else called(sort, site.cell.trace, int(number))
        )
    return f"{sides[0]} {node.op if isinstance(node, c.Compare) else '='} {sides[1]}"


# --- what is below a part --------------------------------------------------------------------


def _below(draft: _Draft, values: Values, width: int) -> list[_Draft]:
    """The parts below a part; where there are many of a kind, those that matter most."""
    inner, time = draft.inner, draft.time
    node = c.closed(draft.node)
    match node:
        case c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare():
            return []
        case c.Not(arg):
            return [_Draft(arg, inner, time, "of")]
        case c.Implies(left, right):
            return [_Draft(left, inner, time, "if"), _Draft(right, inner, time, "then")]
        case c.And() | c.Or():
            return _chain(draft, node, values)
        case c.Shift(arg, steps, past):
            when = time - steps if past else time + steps
            if 0 <= when < values.site.length:
                return [_Draft(arg, inner, when, "of")]
            draft.note = "before the trace begins" if past else "after the trace has ended"
            return []
        case c.Quantifier():
            return _instances(draft, node, values, width)
        case c.Aggregate():
            return [] if is_at_once(node) else _points(draft, node, values, width)
        case c.Until():
            return _witnesses(draft, node, values)
        case _:
            assert_never(node)


def _chain(draft: _Draft, node: c.And | c.Or, values: Values) -> list[_Draft]:
    """The parts of `a & b & c`, as they are written; of very many, those that matter most."""
    chain: list[c.Formula] = []
    kind = type(node)
    rest: c.Formula = node
    while isinstance(rest, kind) and not (chain and is_iff(rest)):
        chain.append(rest.right)
        rest = rest.left
    chain = [rest, *reversed(chain)]
    if len(chain) > _CHAIN:
        at = (draft.inner, draft.time)
        degrees = torch.tensor([values.value(n, *at) for n in chain])
        truths = torch.tensor([values.truth(n, *at) for n in chain])
        chosen = _telling(draft, degrees, truths, isinstance(node, c.And), _CHAIN)
        chain = [chain[i] for i in sorted(chosen)]
    return [_Draft(n, draft.inner, draft.time, "part") for n in chain]


def _instances(draft: _Draft, node: c.Quantifier, values: Values, width: int) -> list[_Draft]:
    degrees, truths, places = values.instances(node, draft.inner, draft.time)
    if not len(degrees):
        draft.note = "there is nothing to look at"
    instances = []
    for number in _telling(draft, degrees, truths, node.universal, width):
        inner = {**draft.inner, **dict(zip(node.axes, places[number].tolist(), strict=True))}
        instances.append(_Draft(node.body, inner, draft.time, "instance", node.axes))
    return instances


def _points(draft: _Draft, node: c.Aggregate, values: Values, width: int) -> list[_Draft]:
    window, *_ = _windows(draft, values)
    if window is None:
        return []
    degrees, truths = values.points(node.arg, draft.inner, *window)
    points = torch.arange(window[0], window[1] + 1, device=degrees.device)
    if node.guard is not None:
        counts = values.counting(node, draft.inner, *window)
        draft.note = _absence(node.guard, draft.inner, points[~counts].tolist(), values.site)
        degrees, truths, points = degrees[counts], truths[counts], points[counts]
    chosen = _telling(draft, degrees, truths, node.universal, width)
    return [_Draft(node.arg, draft.inner, int(points[i]), "point") for i in chosen]


def _enter(draft: _Draft, values: Values) -> None:
    """Pass over what only says where a side of until is defined; where it is not, say so."""
    node = draft.node
    while isinstance(node, c.Aggregate) and node.guard is not None and is_at_once(node):
        if not bool(values.counting(node, draft.inner, draft.time, draft.time)):
            draft.note = _absence(node.guard, draft.inner, [draft.time], values.site)
            return
        draft.node = node = node.arg


def _undefined(site: Site) -> str:
    """Say if a cell does not count, because an entity is absent."""
    cells = site.cells
    for axes, mask in present_where_used(cells.axes, cells.body, cells.tables):
        places = [site.cell.numbers[cells.axes.index(axis)] for axis in axes]
        trace = site.cell.trace if mask.shape[0] > 1 else 0
        if not bool(mask[(trace, *places, site.cell.time if mask.shape[-1] > 1 else 0)]):
            return "it has no value here: an entity is absent"
    return ""


def _absence(guard: c.Formula, inner: Inner, points: Sequence[int], site: Site) -> str:
    """Say which entities are absent at which points."""
    absent: dict[str, list[int]] = {}
    names = site.cells.tables.names
    for atom in (part for part in conjuncts(guard) if isinstance(part, c.Atom)):
        (who,) = atom.args
        for time in points:
            if not site.truth(site.fact(atom, inner, time)):
                number = int(site.term(who, inner, time))
                called = names.called(sort_of(who), site.cell.trace, number)
                absent.setdefault(called, []).append(time)
    listed = [f"{name} is absent at {_times(times)}" for name, times in absent.items()]
    return "; ".join(listed) or ("an entity is absent" if points else "")


def _times(times: Sequence[int]) -> str:
    shown = ", ".join(map(str, times[:_TIMES]))
    return shown if len(times) <= _TIMES else f"{shown} and {len(times) - _TIMES:,} more"


def _telling(
    draft: _Draft, degrees: Tensor, truths: Tensor, universal: bool, width: int
) -> list[int]:
    """Return the lowest parts if all must be true, else the highest; of equals, the first.

    A part that decides the truth in two-valued logic is among them. The total is noted.
    """
    chosen = _extreme(degrees, truths, universal, width)
    draft.count, draft.rest = len(degrees), len(degrees) - len(chosen)
    return chosen


def _extreme(degrees: Tensor, truths: Tensor, universal: bool, width: int) -> list[int]:
    order = degrees.argsort(descending=not universal, stable=True)
    chosen: list[int] = order[:width].tolist()
    deciding = ~truths if universal else truths
    if chosen and bool(deciding.any()) and not bool(deciding[chosen].any()):
        chosen[-1] = int(order[deciding[order]][0])
    return chosen


def _windows(draft: _Draft, values: Values) -> list[tuple[int, int] | None]:
    """The first and last point at which each part below is read; None, with a note, if nowhere."""
    here = TimeSpan(draft.time, draft.time)
    spans = [clipped(span, values.site.length) for _, span in operands(draft.node, here)]
    windows = [span if span[0] <= span[1] else None for span in spans]
    if windows[-1] is None:
        draft.note = "its window has no points inside the trace"
    return windows


# --- until -----------------------------------------------------------------------------------


def _witnesses(draft: _Draft, node: c.Until, values: Values) -> list[_Draft]:
    """The point that comes nearest to a witness, and the weakest point before it.

    For release and trigger, it is a witness against the formula: a point at which `right` may fail
    before `left` came.
    """
    read, window = _windows(draft, values)
    if read is None or window is None:
        return []
    fuzzy, crisp = (
        torch.cat(list(_candidates(node, values, draft.inner, read, window, two_valued)))
        for two_valued in (False, True)
    )
    best = int(fuzzy.argmax())
    chosen = [best]
    decided = crisp > 0.5
    if bool(decided.any()) and not bool(decided[best]):
        chosen.append(int(decided.nonzero()[0]))
    draft.count, draft.rest = len(fuzzy), len(fuzzy) - len(chosen)
    drafts = []
    for number in chosen:
        when = window[0] + number
        drafts.append(_Draft(node.right, draft.inner, when, "witness"))
        start, stop = (when + 1, draft.time) if node.past else (draft.time, when - 1)
        if start <= stop:
            degrees, truths = values.points(node.left, draft.inner, start, stop)
            worst = _extreme(degrees, truths, not node.dual, 1)[0]
            drafts.append(_Draft(node.left, draft.inner, start + worst, "before"))
    return drafts


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
