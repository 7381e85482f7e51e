"""Formulas whose degree at a point depends on few points around it, and how to evaluate them.

The last points of the trace are kept, on which the reference evaluator is right at every point
that has enough neighbours. Operators of the past without a bound are *streams*: their degrees
come from running totals, and stand there like the facts of a predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from fotltn.algebra.expr import free_axes
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.logic.span import HERE, inside
from fotltn.monitor.domain import ordered
from fotltn.semantics.config import Fold, PMean, Semantics, TConorm, TNorm
from fotltn.tree import children, fold, postorder, rebuilt

#: The stream that is true at the first point alone.
FIRST = "<first>"

#: A formula that looks further is evaluated on the whole history.
MOST_REACH = 1000

LOW, HIGH = "#low", "#high"


class Reach(NamedTuple):
    """How many points before and after its own a degree may depend on."""

    back: int
    ahead: int


@dataclass(frozen=True, slots=True)
class Stream:
    """A part of formulas whose degrees are computed as the trace goes on.

    Args:
        name: of the predicate that stands for it.
        node: the part, with streams inside it replaced.
        axes: its free variables, the arguments of the predicate.
        reach: of its operands.
        unbounded: whether it is an operator of the past with a running total; otherwise it is
            evaluated point by point.
    """

    name: str
    node: c.Formula
    axes: tuple[c.Axis, ...]
    reach: Reach
    unbounded: bool


@dataclass(frozen=True, slots=True)
class Series:
    """A formula with its streams replaced, and its reach."""

    formula: c.Formula
    reach: Reach


class GrowingError(Exception):
    """A formula that needs the whole history, and why."""


class Streams:
    """The streams of all axioms, each distinct one once."""

    def __init__(
        self, signature: Signature, semantics: Semantics, grows: Callable[[str], bool]
    ) -> None:
        """No streams yet; `grows` says of a sort whether its entities may become more."""
        self.signature, self.semantics, self.grows = signature, semantics, grows
        self.known: dict[c.Formula, Stream] = {}

    def parts(self, formula: c.Formula) -> dict[c.Core, Series | str]:
        """Each part of a formula as a series, or else the reason why it is none."""
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
        """The streams in some formulas, and those that they need, inner ones first."""
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
        """A part whose own parts are replaced, or the atom that stands for it."""
        if not isinstance(node, c.Formula):
            return node
        match c.closed(node):
            case c.Edge(True):
                return c.Atom(FIRST, ())
            case c.Aggregate(_, _, window, True) if window.high is None:
                return self._atom(node, reach, True)
            case c.Until(_, _, _, window, True) if window.high is None:
                if window.low > 0 or not is_lattice(self.semantics):
                    raise GrowingError("a since without bound moves as a whole")
                return self._atom(node, reach, True)
            case c.Atom() | c.Equal() | c.Compare() if self._moving(node):
                return self._atom(node, reach, False)
            case c.Quantifier(_, axes, guard):
                if any(a.sort is not None and self.grows(a.sort) for a in axes):
                    raise GrowingError("somebody who comes late changes earlier points")
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
            raise GrowingError(f"it looks further than {MOST_REACH} points")
        return node

    def check_guard(self, guard: c.Formula) -> None:
        """Refuse a guard with a stream whose degrees are not those of two-valued logic.

        Raises:
            GrowingError: there is one.
        """
        soft = {s.name for s in self.known.values() if not isinstance(s.node, c.Atom | c.Compare)}
        if any(isinstance(n, c.Atom) and n.predicate in soft for n in postorder(guard)):
            raise GrowingError("a guard looks back without a bound, or at numbers that change")

    def _moving(self, node: c.Core) -> bool:
        return any(
            isinstance(n, c.Apply) and not self.signature.functions[n.function].static
            for n in postorder(node)
        )

    def _atom(self, node: c.Formula, reach: Reach, unbounded: bool) -> c.Formula:
        if reach.ahead:
            raise GrowingError("an operator of the past without bound has the future beneath it")
        if node not in self.known:
            axes = ordered(free_axes(node))
            if any(a.relation is not None for a in axes):
                raise GrowingError("it looks back without bound on paired variables")
            name = f"<{len(self.known)}>"
            self.known[node] = Stream(name, node, axes, reach, unbounded)
        stream = self.known[node]
        return c.Atom(stream.name, tuple(c.Variable(a, str(a.sort)) for a in stream.axes))


def is_lattice(semantics: Semantics) -> bool:
    """Whether and, or, F and G are minimum and maximum, so that since can be continued."""
    folds = {PMean(float("inf")), Fold()}
    return (
        semantics.conjunction is TNorm.MINIMUM
        and semantics.disjunction is TConorm.MAXIMUM
        and {semantics.eventually, semantics.always} <= folds
    )


def _is_stream(node: c.Core) -> bool:
    return isinstance(node, c.Atom) and node.predicate.startswith("<")


def _reach_of(node: c.Core, below: list[Reach]) -> Reach:
    """How far a node reaches, if its parts reach so far from where it reads them."""
    back = max((reach.back for reach in below), default=0)
    ahead = max((reach.ahead for reach in below), default=0)
    if not isinstance(node, c.Formula):
        return Reach(back, ahead)
    if node == c.Edge(past=False):
        return Reach(0, 1)
    low, high = inside(node, HERE)
    if high is None:
        raise GrowingError("an operator of the future without bound is not outermost")
    low = high if low is None else low  # a running total takes in the nearest point alone
    if not isinstance(node, c.Shift):
        low, high = min(low, 0), max(high, 0)
    return Reach(max(0, back - low), max(0, ahead + high))


# --- bounds ----------------------------------------------------------------------------------


def extremes(formula: c.Formula, signature: Signature) -> tuple[c.Formula, c.Formula] | None:
    """Formulas for the lowest and the highest degree, over low and high degrees of atoms.

    An atom that changes becomes two: one for its low and one for its high degrees. None if guards
    change, so that a degree may both raise and lower the value.
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
