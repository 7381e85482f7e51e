"""The syntax tree: terms and formulas as frozen data, with Python operators as sugar."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fotltn.errors import BuildError, Span
from fotltn.syntax.operators import Temporal
from fotltn.tree import Node, parts


@dataclass(frozen=True, slots=True)
class Placed:
    """Something that was read from a text, and where it stands there."""

    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Syntax(Node):
    """Anything that has a text: it prints as such and travels between processes as such."""

    start: ClassVar[str]  # the grammar rule that reads the text back
    span: Span | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        """The ASCII text."""
        from fotltn.syntax.show import show

        return show(self)

    def __repr__(self) -> str:
        """The class and its ASCII text."""
        return f"<{type(self).__name__} {self}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as text, which has no depth limit."""
        from fotltn.syntax.parse import parse

        return parse, (str(self), self.start)


# --- terms -----------------------------------------------------------------------------------


class Term(Syntax):
    """An entity, or a number."""

    __slots__ = ()
    start = "term"

    def __lt__(self, other: Term | float) -> Formula:
        """`self < other`, a comparison of given data."""
        return Compare("<", self, as_term(other))

    def __le__(self, other: Term | float) -> Formula:
        """`self <= other`."""
        return Compare("<=", self, as_term(other))

    def __gt__(self, other: Term | float) -> Formula:
        """`self > other`."""
        return Compare(">", self, as_term(other))

    def __ge__(self, other: Term | float) -> Formula:
        """`self >= other`."""
        return Compare(">=", self, as_term(other))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Term):
    """A name: a bound or free variable, or a declared constant written without quotes."""

    name: str

    def of(self, sort: str) -> Binder:
        """This variable with its sort, for a quantifier."""
        from fotltn.syntax.hints import valid_name

        return Binder(self.name, valid_name(sort))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Const(Term):
    """An entity by its name, written in quotes."""

    name: str

    def __post_init__(self) -> None:
        """Refuse what is no name."""
        if not isinstance(self.name, str):
            raise BuildError(f"the name of an entity is a string, not {self.name!r}")
        Node.__post_init__(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Apply(Term):
    """A function applied to terms."""

    function: str
    args: tuple[Term, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Number(Term):
    """A number, for comparisons."""

    value: float

    def __post_init__(self) -> None:
        """Refuse values that have no spelling."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise BuildError(f"expected a number, not {self.value!r}")
        if abs(self.value) > sys.float_info.max or not math.isfinite(self.value):
            raise BuildError(f"a number in a formula must be finite, not {self.value}")
        object.__setattr__(self, "value", float(self.value) + 0.0)  # -0.0 becomes 0.0
        Node.__post_init__(self)


# --- formulas --------------------------------------------------------------------------------


class Formula(Syntax):
    """A truth degree that may change over time.

    >>> import fotltn as fot
    >>> near, stop = fot.parse_formula("Near(x)"), fot.parse_formula("Stop(x)")
    >>> print(near >> ~stop)
    Near(x) -> !Stop(x)
    """

    __slots__ = ()
    start = "formula"

    def __invert__(self) -> Formula:
        """`~a`, negation."""
        return Not(self)

    def __and__(self, other: Formula) -> Formula:
        """`a & b`, conjunction."""
        return And(*_operands("&", self, other))

    def __or__(self, other: Formula) -> Formula:
        """`a | b`, disjunction."""
        return Or(*_operands("|", self, other))

    def __rshift__(self, other: Formula) -> Formula:
        """`a >> b`, implication."""
        if isinstance(self, Implies):
            raise BuildError(
                "Python reads a >> b >> c as (a >> b) >> c, where logic reads a -> (b -> c); "
                "write a >> (b >> c), or Implies(Implies(a, b), c) if that is meant"
            )
        return Implies(self, as_formula(other))

    def __rand__(self, other: object) -> Formula:
        """Refused, with a word on equality."""
        return And(as_formula(other), self)

    def __ror__(self, other: object) -> Formula:
        """Refused, with a word on equality."""
        return Or(as_formula(other), self)

    def __rrshift__(self, other: object) -> Formula:
        """Refused, with a word on equality."""
        return Implies(as_formula(other), self)

    def __bool__(self) -> bool:
        """Refused: a formula has no truth value before it is evaluated."""
        raise BuildError(
            "a formula is not true or false by itself; combine formulas with ~ & | >>, "
            "not with 'not', 'and', 'or', and write Equal(s, t) for equality of terms"
        )

    def _repr_latex_(self) -> str:
        from fotltn.syntax.show import show

        return f"$\\displaystyle {show(self, 'latex')}$"


def _operands(sign: str, left: Formula, right: Formula) -> tuple[Formula, Formula]:
    name = {"&": "And", "|": "Or"}[sign]
    if isinstance(left, Implies):
        raise BuildError(
            f"Python binds >> tighter than {sign}, so 'a >> b {sign} c' is (a >> b) {sign} c; "
            f"write a >> (b {sign} c), or {name}(a >> b, c) if that is meant"
        )
    if isinstance(right, Implies):
        raise BuildError(
            f"Python binds >> tighter than {sign}, so 'a {sign} b >> c' is a {sign} (b >> c); "
            f"write (a {sign} b) >> c, or {name}(a, b >> c) if that is meant"
        )
    return left, as_formula(right)


class Connective(Formula):
    """A formula of formulas."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Refuse parts that are no formulas."""
        for part in parts(self):
            as_formula(part)
        Node.__post_init__(self)


class Relation(Formula):
    """A formula of two terms."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Take names and numbers for terms."""
        for side in ("left", "right"):
            object.__setattr__(self, side, as_term(getattr(self, side)))
        Node.__post_init__(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Truth(Formula):
    """`true` or `false`."""

    value: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Edge(Formula):
    """`first` or `last`: true exactly at that end of the trace."""

    end: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Atom(Formula):
    """A predicate applied to terms; a proposition has none."""

    predicate: str
    args: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Equal(Relation):
    """`s = t`, graded by the distance of the two."""

    left: Term
    right: Term


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Compare(Relation):
    """`s < t` and its kin between numbers: 1 or 0."""

    op: str
    left: Term
    right: Term


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Not(Connective):
    """`!a`."""

    arg: Formula


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pair(Connective):
    """A connective of two formulas."""

    left: Formula
    right: Formula


class And(Pair):
    """`a & b`."""

    __slots__ = ()


class Or(Pair):
    """`a | b`."""

    __slots__ = ()


class Implies(Pair):
    """`a -> b`."""

    __slots__ = ()


class Iff(Pair):
    """`a <-> b`, the conjunction of both implications."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Binder(Placed):
    """A variable being bound, with its sort if one is written."""

    name: str
    sort: str | None = None


@dataclass(frozen=True, slots=True)
class Paired(Placed):
    """Variables that run together through the tuples of a relation."""

    binders: tuple[Binder, ...]
    relation: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantified(Formula):
    """A quantifier over variables, at those bindings whose guard is true."""

    binders: tuple[Binder | Paired, ...]
    guard: Formula | None
    body: Formula


class Forall(Quantified):
    """`forall x: s, … where guard. body`."""

    __slots__ = ()


class Exists(Quantified):
    """`exists x: s, … where guard. body`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Bound(Placed):
    """Steps from the present: `low` to `high` inclusive; no `high` means the end of the trace."""

    low: int
    high: int | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unary(Formula):
    """A temporal operator on one formula: X, WX, F, G and Y, WY, O, H."""

    op: Temporal
    arg: Formula
    bound: Bound | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Binary(Formula):
    """A temporal operator between two formulas: U, R, W, M and S, T."""

    op: Temporal
    left: Formula
    right: Formula
    bound: Bound | None = None
    strict: bool = False


#: Every kind of node that there is, for matches that must cover all of them.
AnySyntax = (
    Var | Const | Apply | Number | Truth | Edge | Atom | Equal | Compare | Not | And | Or | Implies
    | Iff | Forall | Exists | Unary | Binary
)  # fmt: skip

_NO_EQUATION = "; write Equal(s, t), since == compares the objects"


def as_term(value: Term | str | float) -> Term:
    """A term from Python: a string names an entity, a number is itself."""
    if isinstance(value, Term):
        return value
    if isinstance(value, str):
        return Const(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Number(value)
    hint = _NO_EQUATION if isinstance(value, bool) else ""
    raise BuildError(f"expected a term, a name or a number, not {value!r}{hint}")


def as_formula(value: object) -> Formula:
    """Check that a Python value is a formula; True and False are not taken for one."""
    if isinstance(value, Formula):
        return value
    hint = _NO_EQUATION if isinstance(value, bool) else ""
    raise BuildError(f"expected a formula, not {value!r}{hint}")
