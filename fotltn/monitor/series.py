"""Formulas whose degree at a point depends on few points around it, and how to evaluate them.

Some steps of the trace are kept as a *segment*, on which the reference evaluator is right at every
point that has enough neighbours. Operators of the past without a bound are *streams*: their degrees
come from running totals, and stand in the segment like the facts of a predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from fotltn.algebra.expr import free_axes
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.semantics.config import Fold, PMean, Semantics, TConorm, TNorm
from fotltn.tree import children, fold, parts, postorder

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
        found: dict[c.Core, Series | str] = {}
        rebuilt: dict[c.Core, c.Core] = {}
        reaches: dict[c.Core, Reach] = {}
        for node in postorder(formula):
            below = children(node)
            same = all(rebuilt[child] is child for child in below)  # type: ignore[index]
            inner: Any = node if same else type(node)(*(_renewed(p, rebuilt) for p in parts(node)))
            rebuilt[node] = inner
            failed = [r for r in map(found.get, below) if isinstance(r, str)]  # type: ignore[arg-type]
            if failed:
                found[node] = failed[0]
                continue
            try:
                reach = _reach_of(node, [reaches[child] for child in below])  # type: ignore[index]
                rebuilt[node] = self._replaced(inner, reach)
                reaches[node] = Reach(0, 0) if _is_stream(rebuilt[node]) else reach
                if isinstance(inner, c.Formula):
                    found[node] = Series(rebuilt[node], reaches[node])  # type: ignore[arg-type]
            except GrowingError as error:
                found[node] = str(error)
        return found

    def used(self, formulas: Iterable[c.Formula]) -> list[Stream]:
        """The streams in some formulas, and those that they need, inner ones first."""
        names: set[str] = set()
        stack: list[c.Core] = list(formulas)
        named = {stream.name: stream for stream in self.known.values()}
        while stack:
            for node in postorder(stack.pop()):
                match node:
                    case c.Atom(name) if name in named and name not in names:
                        names.add(name)
                        stack.append(named[name].node)
        return [stream for name, stream in named.items() if name in names]

    def _replaced(self, node: c.Core, reach: Reach) -> c.Core:
        """A part whose own parts are replaced, or the atom that stands for it."""
        match node:
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
            axes = tuple(sorted(free_axes(node), key=str))
            if any(a.relation is not None for a in axes):
                raise GrowingError("it looks back without bound on paired variables")
            name = f"<{len(self.known)}>"
            self.known[node] = Stream(name, node, axes, reach, unbounded)
        found = self.known[node]
        return c.Atom(found.name, tuple(c.Variable(a, str(a.sort)) for a in found.axes))


def _renewed(part: Any, rebuilt: dict[c.Core, c.Core]) -> Any:
    if isinstance(part, tuple):
        return tuple(rebuilt.get(item, item) for item in part)
    return rebuilt.get(part, part) if isinstance(part, c.Core) else part


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


def _widest(*reaches: Reach) -> Reach:
    return Reach(max(r.back for r in reaches), max(r.ahead for r in reaches))


def _reach_of(node: c.Core, below: list[Reach]) -> Reach:
    inner = _widest(Reach(0, 0), *below)
    match node:
        case c.Edge(False):
            return Reach(0, 1)
        case c.Shift(_, steps, True):
            return Reach(inner.back + steps, max(0, inner.ahead - steps))
        case c.Shift(_, steps, False):
            return Reach(max(0, inner.back - steps), inner.ahead + steps)
        case c.Aggregate(_, _, window, past) | c.Until(_, _, _, window, past):
            if past:
                high = window.low if window.high is None else window.high
                return Reach(inner.back + high, inner.ahead)
            if window.high is None:
                raise GrowingError("an operator of the future without bound is not outermost")
            return Reach(inner.back, inner.ahead + window.high)
    return inner


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

    def visit(node: c.Core, below: list[tuple[c.Core, c.Core]]) -> tuple[c.Core, c.Core]:
        low = [b[0] for b in below]
        high = [b[1] for b in below]
        match node:
            case c.Atom(name, args) if _changes(name, signature):
                return c.Atom(name + LOW, args), c.Atom(name + HIGH, args)
            case c.Not():
                return c.Not(*high), c.Not(*low)  # type: ignore[arg-type]
            case c.Implies():
                return c.Implies(high[0], low[1]), c.Implies(low[0], high[1])  # type: ignore[arg-type]
            case c.And() | c.Or():
                kind = type(node)
                return kind(*low), kind(*high)  # type: ignore[arg-type]
            case c.Quantifier(universal, axes, guard):
                return (
                    c.Quantifier(universal, axes, guard, low[-1]),  # type: ignore[arg-type]
                    c.Quantifier(universal, axes, guard, high[-1]),  # type: ignore[arg-type]
                )
            case c.Shift(_, steps, past, weak):
                return c.Shift(low[0], steps, past, weak), c.Shift(high[0], steps, past, weak)  # type: ignore[arg-type]
            case c.Aggregate(universal, _, window, past):
                return (
                    c.Aggregate(universal, low[0], window, past),  # type: ignore[arg-type]
                    c.Aggregate(universal, high[0], window, past),  # type: ignore[arg-type]
                )
            case c.Until(dual, _, _, window, past):
                return (
                    c.Until(dual, low[0], low[1], window, past),  # type: ignore[arg-type]
                    c.Until(dual, high[0], high[1], window, past),  # type: ignore[arg-type]
                )
        return node, node

    found: tuple[c.Formula, c.Formula] = fold(formula, visit)  # type: ignore[assignment]
    return found


def _changes(name: str, signature: Signature) -> bool:
    return name not in signature.predicates or not signature.predicates[name].static
