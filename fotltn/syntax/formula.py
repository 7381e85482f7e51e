"""The syntax tree: terms and formulas as frozen data, with Python operators as shorthand."""

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
    """Something that was read from text, with the place where it was written."""

    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Syntax(Node):
    """A term or formula: `str` gives its text, and pickling goes through the same text."""

    start: ClassVar[str]  # the grammar rule that reads the text back
    span: Span | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        """Return the ASCII text."""
        from fotltn.syntax.show import show

        return show(self)

    def __repr__(self) -> str:
        """Return the class name and the ASCII text."""
        return f"<{type(self).__name__} {self}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as text, because text has no depth limit."""
        from fotltn.syntax.parse import parse

        return parse, (str(self), self.start)


# --- terms -----------------------------------------------------------------------------------


class Term(Syntax):
    """An entity or a number."""

    __slots__ = ()
    start = "term"

    def __lt__(self, other: Term | float) -> Formula:
        """Build `self < other`, a comparison of given data."""
        return Compare("<", self, as_term(other))

    def __le__(self, other: Term | float) -> Formula:
        """Build `self <= other`."""
        return Compare("<=", self, as_term(other))

    def __gt__(self, other: Term | float) -> Formula:
        """Build `self > other`."""
        return Compare(">", self, as_term(other))

    def __ge__(self, other: Term | float) -> Formula:
        """Build `self >= other`."""
        return Compare(">=", self, as_term(other))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Term):
    """A name: a bound or free variable, or a declared constant written without quotes."""

    name: str

    def of(self, sort: str) -> Binder:
        """Return this variable with its sort, to be bound by a quantifier."""
        from fotltn.syntax.hints import valid_name

        return Binder(self.name, valid_name(sort))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Const(Term):
    """An entity, referred to by its quoted name."""

    name: str

    def __post_init__(self) -> None:
        """Raise an error if the name is not a string."""
        if not isinstance(self.name, str):
            raise BuildError(f"the name of an entity must be a string, not {self.name!r}")
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
        """Raise an error for values that cannot be written in a formula."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise BuildError(f"expected a number, not {self.value!r}")
        if abs(self.value) > sys.float_info.max or not math.isfinite(self.value):
            raise BuildError(f"a number in a formula must be finite, not {self.value}")
        object.__setattr__(self, "value", float(self.value) + 0.0)  # -0.0 becomes 0.0
        Node.__post_init__(self)


# --- formulas --------------------------------------------------------------------------------


class Formula(Syntax):
    """A formula of the language, with a degree at each time point.

    `fotltn.parse_formula` returns one. Use it to build formulas in a program; most functions that
    take a formula also take its text.

    Python operators combine formulas: `~a`, `a & b`, `a | b` and `a >> b` for "not", "and", "or"
    and "implies".

    >>> import fotltn as fot
    >>> near, stop = fot.parse_formula("Near(x)"), fot.parse_formula("Stop(x)")
    >>> print(near >> ~stop)
    Near(x) -> !Stop(x)
    """

    __slots__ = ()
    start = "formula"

    def __invert__(self) -> Formula:
        """Build the negation `~a`."""
        return Not(self)

    def __and__(self, other: Formula) -> Formula:
        """Build the conjunction `a & b`."""
        return And(*_operands("&", self, other))

    def __or__(self, other: Formula) -> Formula:
        """Build the disjunction `a | b`."""
        return Or(*_operands("|", self, other))

    def __rshift__(self, other: Formula) -> Formula:
        """Build the implication `a >> b`."""
        if isinstance(self, Implies):
            raise BuildError(
                "Python reads a >> b >> c as (a >> b) >> c, where logic reads a -> (b -> c); "
                "write a >> (b >> c), or Implies(Implies(a, b), c) if that is meant"
            )
        return Implies(self, as_formula(other))

    def __rand__(self, other: object) -> Formula:
        """Raise an error that explains how to write equality."""
        return And(as_formula(other), self)

    def __ror__(self, other: object) -> Formula:
        """Raise an error that explains how to write equality."""
        return Or(as_formula(other), self)

    def __rrshift__(self, other: object) -> Formula:
        """Raise an error that explains how to write equality."""
        return Implies(as_formula(other), self)

    def __bool__(self) -> bool:
        """Raise an error: a formula has no truth value before it is evaluated."""
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
    """A formula made of other formulas."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Raise an error if a part is not a formula."""
        for part in parts(self):
            as_formula(part)
        Node.__post_init__(self)


class Relation(Formula):
    """A formula that relates two terms."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Convert names and numbers to terms."""
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
    """A predicate applied to terms; a proposition takes no terms."""

    predicate: str
    args: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Equal(Relation):
    """`s = t`, with a degree that falls with the distance between the two."""

    left: Term
    right: Term


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Compare(Relation):
    """`s < t`, `s <= t`, `s > t` or `s >= t` between numbers: 1 or 0."""

    op: str
    left: Term
    right: Term


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Not(Connective):
    """`!a`."""

    arg: Formula


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pair(Connective):
    """A connective between two formulas."""

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
    """A variable that a quantifier binds, with its sort if one is written."""

    name: str
    sort: str | None = None


@dataclass(frozen=True, slots=True)
class Paired(Placed):
    """Variables that range together over the tuples of a relation."""

    binders: tuple[Binder, ...]
    relation: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantified(Formula):
    """A quantifier over all bindings that make the guard true."""

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
    """Steps from the present, `low` to `high` inclusive; None means the end of the trace."""

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


#: All node types, for matches that must cover every one of them.
AnySyntax = (
    Var | Const | Apply | Number | Truth | Edge | Atom | Equal | Compare | Not | And | Or | Implies
    | Iff | Forall | Exists | Unary | Binary
)  # fmt: skip

_NO_EQUATION = "; write Equal(s, t), because == compares Python objects"


def as_term(value: Term | str | float) -> Term:
    """Convert a Python value to a term: a string names an entity, a number stands for itself."""
    if isinstance(value, Term):
        return value
    if isinstance(value, str):
        return Const(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Number(value)
    hint = _NO_EQUATION if isinstance(value, bool) else ""
    raise BuildError(f"expected a term, a name or a number, not {value!r}{hint}")


def as_formula(value: object) -> Formula:
    """Return the value if it is a formula; raise an error otherwise, even for True and False."""
    if isinstance(value, Formula):
        return value
    hint = _NO_EQUATION if isinstance(value, bool) else ""
    raise BuildError(f"expected a formula, not {value!r}{hint}")
