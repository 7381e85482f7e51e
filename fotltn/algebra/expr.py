"""Real-valued expressions over named axes: a formula written out under a semantics.

An expression has entity axes, which quantifiers reduce, and may depend on time. Every expression
also has an axis for the traces of a batch. Nothing reduces that axis, so it is left implicit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from fotltn.logic import core as c
from fotltn.logic.parts import free_axes as free_axes
from fotltn.logic.parts import free_axes_of_all as free_axes_of_all
from fotltn.semantics.config import Semantics
from fotltn.tree import Node, parts


class Reduction(StrEnum):
    """How a reduction combines values."""

    MEAN = "mean"  # 0 over nothing
    SUM = "sum"  # 0 over nothing
    PRODUCT = "product"  # 1 over nothing
    MINIMUM = "minimum"  # 1 over nothing
    MAXIMUM = "maximum"  # 0 over nothing


class Op(StrEnum):
    """Pointwise operations other than scales, offsets and products."""

    MINIMUM = "minimum"  # min(u, v)
    MAXIMUM = "maximum"  # max(u, v)
    POSITIVE = "positive"  # max(0, u + v)
    PLUS = "plus"  # u + v + …
    EXCESS = "excess"  # u - v, where v is u computed without a table's facts
    GODEL_NOT = "godel-not"  # 1 if u = 0 else 0
    GODEL_IMPLIES = "godel-implies"  # 1 if u <= v else v
    GOGUEN = "goguen"  # 1 if u <= v else v / u
    RATIO = "ratio"  # u / v, or 0 if v = 0, where v is a number of points


class Expr(Node):
    """A real-valued expression; `axes` and `timed` tell what it depends on."""

    __slots__ = ("axes", "timed")
    axes: frozenset[c.Axis]
    timed: bool

    def __post_init__(self) -> None:
        """Compute the axes, the time dependence and the hash."""
        axes, timed = _depends(closed(self))
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "timed", timed)
        Node.__post_init__(self)

    def __repr__(self) -> str:
        from fotltn.algebra.show import show

        return f"<{show(self)}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TableLeaf(Expr):
    """The degree of a predicate applied to terms."""

    predicate: str
    args: tuple[c.Term, ...]
    temporal: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Data(Expr):
    """An equality, a comparison or an end of the trace; or, if `crisp`, a guard that is 1 or 0."""

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
    """Any other operation that is applied at every point."""

    op: Op
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reduce(Expr):
    """A reduction over entity axes and, with `time`, the whole trace, where the guard is true.

    If `still` is set, the guard does not change over time.
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
    """The value some steps away, or `outside` beyond the ends of the trace."""

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
    """Until, over all pairs of a time point and its witness."""

    left: Expr
    right: Expr
    window: c.Window
    past: bool
    semantics: Semantics


#: All expression types, for matches that must cover every one of them.
AnyExpr = (
    TableLeaf | Data | Scalar | Affine | Product | Power | Root | Pointwise | Reduce | At
    | TimeShift | Scan | Pairs
)  # fmt: skip

#: Operations that look at one point at a time.
PointwiseExpr = Affine | Power | Root | Product | Pointwise


def closed(node: Node) -> AnyExpr:
    """Return the node typed as one of the known kinds, so that a match can be exhaustive."""
    assert isinstance(node, AnyExpr)
    return node


def argument_axes(leaf: TableLeaf) -> tuple[c.Axis, ...] | None:
    """Return the axes of the arguments in order if they are distinct variables; None otherwise."""
    axes = tuple(a.axis for a in leaf.args if isinstance(a, c.Variable) and a.column is None)
    return axes if len(axes) == len(leaf.args) == len(set(axes)) else None


def pointwise_parts(node: Expr) -> tuple[Expr, ...] | None:
    """Return the operands of a pointwise operation; None for any other node."""
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
    """Return the type of an operation and its settings, without its operands and their axes."""
    return (type(node), *(part for part in parts(node) if not isinstance(part, Node | tuple)))


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
