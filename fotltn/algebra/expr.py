"""Real-valued expressions over named axes: what a formula is under a semantics.

An expression has entity axes, which quantifiers reduce, and may depend on time. The trace of a
batch is an axis that every expression has and nothing reduces; it is not written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import assert_never

from fotltn.logic import core as c
from fotltn.semantics.config import Semantics
from fotltn.tree import Node, children, parts, postorder


class Reduction(StrEnum):
    """What a reduction does with the values."""

    MEAN = "mean"  # 0 over nothing
    SUM = "sum"  # 0 over nothing
    PRODUCT = "product"  # 1 over nothing
    MINIMUM = "minimum"  # 1 over nothing
    MAXIMUM = "maximum"  # 0 over nothing


class Op(StrEnum):
    """Pointwise operations that are not scales, offsets and products."""

    MINIMUM = "minimum"  # min(u, v)
    MAXIMUM = "maximum"  # max(u, v)
    POSITIVE = "positive"  # max(0, u + v)
    PLUS = "plus"  # u + v + …
    EXCESS = "excess"  # u - v, where v is u as if a table had no facts
    GODEL_NOT = "godel-not"  # 1 if u = 0 else 0
    GODEL_IMPLIES = "godel-implies"  # 1 if u <= v else v
    GOGUEN = "goguen"  # 1 if u <= v else v / u


class Expr(Node):
    """A real-valued expression; `axes` and `timed` say what it depends on."""

    __slots__ = ("axes", "timed")
    axes: frozenset[c.Axis]
    timed: bool

    def __post_init__(self) -> None:
        """Compute what the expression depends on, then its hash."""
        axes, timed = _depends(closed(self))
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "timed", timed)
        Node.__post_init__(self)

    def __repr__(self) -> str:
        from fotltn.algebra.show import show

        return f"<{show(self)}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TableLeaf(Expr):
    """The degree of a predicate at terms."""

    predicate: str
    args: tuple[c.Term, ...]
    temporal: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Data(Expr):
    """An equality, a comparison, an end of the trace; or (`crisp`) a guard, which is 1 or 0."""

    formula: c.Formula
    temporal: bool
    crisp: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scalar(Expr):
    """A number."""

    value: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Affine(Expr):
    """`scale · x + offset`."""

    x: Expr
    scale: float
    offset: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Product(Expr):
    """A product of at least two factors."""

    factors: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Power(Expr):
    """`x^p`, p > 1."""

    x: Expr
    p: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Root(Expr):
    """`x^(1/p)`, p > 1, with derivative 0 at 0."""

    x: Expr
    p: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pointwise(Expr):
    """Another operation at every point."""

    op: Op
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reduce(Expr):
    """A reduction over entity axes and (`time`) the whole trace, where the guard is true.

    A guard that is `still` does not change over time.
    """

    kind: Reduction
    over: tuple[c.Axis, ...]
    time: bool
    x: Expr
    guard: c.Formula | None = None
    still: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class At(Expr):
    """The value at one time point."""

    x: Expr
    time: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TimeShift(Expr):
    """The value some steps away, and `outside` beyond the ends of the trace."""

    x: Expr
    steps: int
    past: bool
    outside: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scan(Expr):
    """A reduction over a window of time, for every time point."""

    kind: Reduction
    x: Expr
    window: c.Window
    past: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pairs(Expr):
    """Until: over all pairs of a point and its witness."""

    left: Expr
    right: Expr
    window: c.Window
    past: bool
    semantics: Semantics


#: Every kind of expression that there is, for matches that must cover all of them.
AnyExpr = (
    TableLeaf | Data | Scalar | Affine | Product | Power | Root | Pointwise | Reduce | At
    | TimeShift | Scan | Pairs
)  # fmt: skip

#: Operations on one point at a time.
PointwiseExpr = Affine | Power | Root | Product | Pointwise


def closed(node: Node) -> AnyExpr:
    """The same node as one of the kinds that there are, so that a match can be exhaustive."""
    assert isinstance(node, AnyExpr)
    return node


def argument_axes(leaf: TableLeaf) -> tuple[c.Axis, ...] | None:
    """The axes of the arguments in order, if each is a variable of its own; else None."""
    axes = tuple(a.axis for a in leaf.args if isinstance(a, c.Variable) and a.column is None)
    return axes if len(axes) == len(leaf.args) == len(set(axes)) else None


def pointwise_parts(node: Expr) -> tuple[Expr, ...] | None:
    """What a pointwise operation is applied to; None if the node is something else."""
    if not isinstance(node, PointwiseExpr):
        return None
    match node:
        case Affine(x) | Power(x) | Root(x):
            return (x,)
        case Product(operands) | Pointwise(_, operands):
            return operands
        case _:
            assert_never(node)


def settings(node: Expr) -> tuple[object, ...]:
    """The kind of an operation, and what it is told besides its operands and their axes."""
    return (type(node), *(part for part in parts(node) if not isinstance(part, Node | tuple)))


@lru_cache(maxsize=1000)
def free_axes(node: c.Core) -> frozenset[c.Axis]:
    """The axes that a core formula or term depends on."""
    return free_axes_of_all(node)[node]


def free_axes_of_all(*roots: c.Core | Expr) -> dict[c.Core, frozenset[c.Axis]]:
    """The same for each part of formulas, also of those inside expressions; children first."""
    free: dict[c.Core, frozenset[c.Axis]] = {}
    for node in postorder(*roots):
        if isinstance(node, Expr):
            continue
        axes = frozenset[c.Axis]().union(*(free[child] for child in children(node)))  # type: ignore[index]
        if isinstance(node, c.Variable):
            axes = axes | {node.axis}
        elif isinstance(node, c.Quantifier):
            axes = axes - set(node.axes)
        free[node] = axes
    return free


def _depends(node: AnyExpr) -> tuple[frozenset[c.Axis], bool]:
    none: frozenset[c.Axis] = frozenset()
    match node:
        case TableLeaf(_, args, temporal):
            return none.union(*(free_axes(a) for a in args)), temporal
        case Data(formula, temporal):
            return free_axes(formula), temporal
        case Scalar():
            return none, False
        case Affine(x) | Power(x) | Root(x):
            return x.axes, x.timed
        case Product(operands) | Pointwise(_, operands):
            return none.union(*(x.axes for x in operands)), any(x.timed for x in operands)
        case Reduce(_, over, time, x, guard, still):
            inner = x.axes if guard is None else x.axes | free_axes(guard)
            moving = x.timed or (guard is not None and not still)
            return inner - set(over), moving and not time
        case At(x):
            return x.axes, False
        case TimeShift(x) | Scan(_, x):
            return x.axes, True
        case Pairs(left, right):
            return left.axes | right.axes, True
        case _:
            assert_never(node)
