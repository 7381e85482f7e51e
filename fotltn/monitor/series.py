"""Formulas whose degree at a time point depends on few points around it.

A monitor keeps the last points of the trace. On these, the reference evaluator is right at every
point with enough neighbours. Unbounded past operators are *streams*: their degrees come from
running totals, and are stored like the facts of a predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from fotltn.logic import core as c
from fotltn.logic.parts import changes, free_axes
from fotltn.logic.signature import Signature
from fotltn.logic.span import HERE, inside
from fotltn.monitor.domain import ordered
from fotltn.semantics.config import Fold, PMean, Semantics, TConorm, TNorm
from fotltn.tree import children, fold, postorder, rebuilt

#: The stream that is true only at the first point.
FIRST = "<first>"

#: A formula that looks further is evaluated on the whole trace.
MOST_REACH = 1000

LOW, HIGH = "#low", "#high"


class Reach(NamedTuple):
    """The numbers of points before and after a time point on which its degree may depend."""

    back: int
    ahead: int


@dataclass(frozen=True, slots=True)
class Stream:
    """A part of formulas whose degrees are computed as the trace goes on.

    Args:
        name: the name of the predicate that stands for the part.
        node: the part; predicates stand for the streams inside it.
        axes: its free variables, the arguments of the predicate.
        reach: the reach of its operands.
        unbounded: whether it is a past operator with a running total; otherwise it is evaluated
            point by point.
    """

    name: str
    node: c.Formula
    axes: tuple[c.Axis, ...]
    reach: Reach
    unbounded: bool


@dataclass(frozen=True, slots=True)
class Series:
    """A formula, in which predicates stand for streams, and its reach."""

    formula: c.Formula
    reach: Reach


class GrowingError(Exception):
    """The reason why a formula needs the whole trace."""


class Streams:
    """The streams of all axioms, each distinct one once."""

    def __init__(
        self, signature: Signature, semantics: Semantics, grows: Callable[[str], bool]
    ) -> None:
        """Start without streams; `grows` says whether a sort may get more entities."""
        self.signature, self.semantics, self.grows = signature, semantics, grows
        self.known: dict[c.Formula, Stream] = {}

    def parts(self, formula: c.Formula) -> dict[c.Core, Series | str]:
        """Return each part of a formula as a series, or the reason why it is not a series."""
        series: dict[c.Core, Series | str] = {}
        replaced: dict[c.Core, c.Core] = {}
        reaches: dict[c.Core, Reach] = {}
        for node in postorder(formula):
            below: list[c.Core] = children(node)  # type: ignore[assignment]
            inner = replaced[node] = rebuilt(node, [replaced[child] for child in below])
            failed = [r for r in map(series.get, below) if isinstance(r, str)]
            if failed:
                series[node] = failed[0]
                continue
            try:
                reach = _reach_of(node, [reaches[child] for child in below])
                replaced[node] = self._replaced(inner, reach)
                reaches[node] = Reach(0, 0) if _is_stream(replaced[node]) else reach
                if isinstance(inner, c.Formula):
                    series[node] = Series(replaced[node], reaches[node])  # type: ignore[arg-type]
            except GrowingError as error:
                series[node] = str(error)
        return series

    def used(self, formulas: Iterable[c.Formula]) -> list[Stream]:
        """Return the streams in formulas, and the streams inside these, inner ones first."""
        names: set[str] = set()
        stack: list[c.Core] = list(formulas)
        named = {stream.name: stream for stream in self.known.values()}
        while stack:
            for node in postorder(stack.pop()):
                if not isinstance(node, c.Atom):
                    continue
                name = node.predicate
                if name in named and name not in names:
                    names.add(name)
                    stack.append(named[name].node)
        return [stream for name, stream in named.items() if name in names]

    def _replaced(self, node: c.Core, reach: Reach) -> c.Core:
        """Return a part, or the atom that stands for it if it is a stream."""
        if not isinstance(node, c.Formula):
            return node
        match c.closed(node):
            case c.Edge(True):
                return c.Atom(FIRST, ())
            case c.Aggregate(_, _, window, True) if window.high is None:
                return self._atom(node, reach, True)
            case c.Until(_, _, _, window, True) if window.high is None:
                if window.low > 0 or not is_lattice(self.semantics):
                    raise GrowingError("an unbounded since needs more than its last degree")
                return self._atom(node, reach, True)
            case c.Atom() | c.Equal() | c.Compare() if changes(
                self.signature, *(n for n in children(node) if isinstance(n, c.Term))
            ):
                return self._atom(node, reach, False)
            case c.Quantifier(_, axes, guard):
                if any(a.sort is not None and self.grows(a.sort) for a in axes):
                    raise GrowingError("an entity that comes late changes earlier time points")
                if guard is not None:
                    self.check_guard(guard)
            case (
                c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Not() | c.And()
                | c.Or() | c.Implies() | c.Shift() | c.Aggregate() | c.Until()
            ):  # fmt: skip
                pass
            case never:
                assert_never(never)
        if reach.back + reach.ahead > MOST_REACH:
            raise GrowingError(f"it looks further than {MOST_REACH} time points")
        return node

    def check_guard(self, guard: c.Formula) -> None:
        """Refuse a guard with a stream, because a guard needs two-valued truth.

        Raises:
            GrowingError: the guard has a stream that is not an atom or a comparison.
        """
        soft = {s.name for s in self.known.values() if not isinstance(s.node, c.Atom | c.Compare)}
        if any(isinstance(n, c.Atom) and n.predicate in soft for n in postorder(guard)):
            raise GrowingError("a guard has an unbounded past operator or a changing equation")

    def _atom(self, node: c.Formula, reach: Reach, unbounded: bool) -> c.Formula:
        if reach.ahead:
            raise GrowingError("an unbounded past operator has a future operator below it")
        if node not in self.known:
            axes = ordered(free_axes(node))
            if any(a.relation is not None for a in axes):
                raise GrowingError("an unbounded past operator has paired variables")
            name = f"<{len(self.known)}>"
            self.known[node] = Stream(name, node, axes, reach, unbounded)
        stream = self.known[node]
        return c.Atom(stream.name, tuple(c.Variable(a, str(a.sort)) for a in stream.axes))


def is_lattice(semantics: Semantics) -> bool:
    """Return whether and, or, F and G are minimum and maximum, so that since can be continued."""
    folds = {PMean(float("inf")), Fold()}
    return (
        semantics.conjunction is TNorm.MINIMUM
        and semantics.disjunction is TConorm.MAXIMUM
        and {semantics.eventually, semantics.always} <= folds
    )


def _is_stream(node: c.Core) -> bool:
    return isinstance(node, c.Atom) and node.predicate.startswith("<")


def _reach_of(node: c.Core, below: list[Reach]) -> Reach:
    """Return the reach of a node, given the reach of the nodes below it."""
    back = max((reach.back for reach in below), default=0)
    ahead = max((reach.ahead for reach in below), default=0)
    if not isinstance(node, c.Formula):
        return Reach(back, ahead)
    if node == c.Edge(past=False):
        return Reach(0, 1)
    low, high = inside(node, HERE)
    if high is None:
        raise GrowingError("an unbounded future operator is not outermost")
    low = high if low is None else low  # a running total adds only the nearest point
    if not isinstance(node, c.Shift):
        low, high = min(low, 0), max(high, 0)
    return Reach(max(0, back - low), max(0, ahead + high))


# --- bounds ----------------------------------------------------------------------------------


def extremes(formula: c.Formula, signature: Signature) -> tuple[c.Formula, c.Formula] | None:
    """Return formulas for the lowest and the highest degree, over low and high degrees of atoms.

    A temporal atom becomes two: one for its low degrees, one for its high degrees. None if a guard
    changes, because a higher degree may then both raise and lower the value.
    """
    for node in postorder(formula):
        if isinstance(node, c.Quantifier) and node.guard is not None:
            atoms = [n for n in postorder(node.guard) if isinstance(n, c.Atom)]
            if any(_changes(n.predicate, signature) for n in atoms):
                return None

    def visit(node: c.AnyNode, below: list[tuple[c.Core, c.Core]]) -> tuple[c.Core, c.Core]:
        low, high = [a for a, _ in below], [b for _, b in below]
        match node:
            case c.Atom(name, args) if _changes(name, signature):
                return c.Atom(name + LOW, args), c.Atom(name + HIGH, args)
            case c.Not():
                low, high = high, low
            case c.Implies():
                low[0], high[0] = high[0], low[0]
            case (
                c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.And() | c.Or()
                | c.Quantifier() | c.Shift() | c.Aggregate() | c.Until()
            ):  # fmt: skip
                pass
            case c.Variable() | c.Constant() | c.Number() | c.Apply():
                pass
            case never:
                assert_never(never)
        return rebuilt(node, low), rebuilt(node, high)

    pair: tuple[c.Formula, c.Formula] = fold(formula, visit)  # type: ignore[assignment]
    return pair


def _changes(name: str, signature: Signature) -> bool:
    return name not in signature.predicates or not signature.predicates[name].static
