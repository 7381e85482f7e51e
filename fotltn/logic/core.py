"""The core language: formulas with resolved names and without syntactic sugar.

Every later stage handles these nodes and no others. Variables carry the axis that their
quantifier opens, so a formula with free variables is a value with named axes.
"""

from __future__ import annotations

from dataclasses import dataclass

from fotltn.tree import Node, postorder

REAL = "real"  # the built-in sort of numbers


@dataclass(frozen=True, slots=True)
class Axis:
    """The range of a quantifier: the entities of a sort, or the tuples of a relation."""

    name: str
    sort: str | None = None
    relation: str | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Window:
    """Steps from the present, `low` to `high` inclusive; None means the end of the trace."""

    low: int = 0
    high: int | None = None


class Core(Node):
    """A node of the core language."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the kind and size, not the whole tree, which may be very deep."""
        return f"<{type(self).__name__} of {sum(1 for _ in postorder(self))} nodes>"


class Term(Core):
    """An entity or a number, of a sort."""

    __slots__ = ()


class Formula(Core):
    """A truth degree at each time point."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Variable(Term):
    """The entity at the current place of an axis; for a tuple, the entity in one column."""

    axis: Axis
    sort: str
    column: int | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constant(Term):
    """An entity by name."""

    name: str
    sort: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Apply(Term):
    """A function of terms."""

    function: str
    args: tuple[Term, ...]
    sort: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Number(Term):
    """A number."""

    value: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Truth(Formula):
    """A constant truth value."""

    value: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Edge(Formula):
    """True exactly at the last time point or, if `past`, at the first."""

    past: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Atom(Formula):
    """A predicate of terms."""

    predicate: str
    args: tuple[Term, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Equal(Formula):
    """Graded equality of two terms of one sort."""

    left: Term
    right: Term


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Compare(Formula):
    """`<`, `<=`, `>` or `>=` between numbers."""

    op: str
    left: Term
    right: Term


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Not(Formula):
    """Negation."""

    arg: Formula


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Connective(Formula):
    """A formula of two formulas."""

    left: Formula
    right: Formula


class And(Connective):
    """Conjunction."""

    __slots__ = ()


class Or(Connective):
    """Disjunction."""

    __slots__ = ()


class Implies(Connective):
    """Implication."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantifier(Formula):
    """∀ (`universal`) or ∃ over axes, for the bindings whose guard is true."""

    universal: bool
    axes: tuple[Axis, ...]
    guard: Formula | None
    body: Formula


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Shift(Formula):
    """The value some steps away: X, or WX if `weak`; Y, WY if `past`."""

    arg: Formula
    steps: int
    past: bool
    weak: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Aggregate(Formula):
    """Over a window of time: G (`universal`) or F; H, O if `past`.

    Nobody writes the guard, and only degrees have one: `logic/presence.py` makes it. The points at
    which it is true are those that count.
    """

    universal: bool
    arg: Formula
    window: Window
    past: bool
    guard: Formula | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Until(Formula):
    """`left` until `right`, with `right` in the window; `dual`: release; `past`: since, trigger."""

    dual: bool
    left: Formula
    right: Formula
    window: Window
    past: bool


#: All kinds of terms and formulas, for matches that must cover every one of them.
AnyTerm = Variable | Constant | Number | Apply
AnyFormula = (
    Truth | Edge | Atom | Equal | Compare | Not | And | Or | Implies | Quantifier | Shift
    | Aggregate | Until
)  # fmt: skip

AnyNode = AnyTerm | AnyFormula


def closed(node: Formula) -> AnyFormula:
    """Return the formula typed as one of the known kinds, so that a match can be exhaustive."""
    assert isinstance(node, AnyFormula)
    return node
