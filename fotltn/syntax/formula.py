"""The syntax tree: terms and formulas as frozen data, with Python operators as sugar."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fotltn.errors import BuildError, Span
from fotltn.syntax.operators import Temporal
from fotltn.tree import Node, parts


class Syntax(Node):
    """Anything that has a text: it prints as such and travels between processes as such."""

    __slots__ = ()
    start: ClassVar[str]  # the grammar rule that reads the text back

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
    span: Span | None = field(default=None, kw_only=True)

    def of(self, sort: str) -> Binder:
        """This variable with its sort, for a quantifier."""
        from fotltn.syntax.hints import valid_name

        return Binder(self.name, valid_name(sort))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Const(Term):
    """An entity by its name, written in quotes."""

    name: str
    span: Span | None = field(default=None, kw_only=True)

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
    span: Span | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Number(Term):
    """A number, for comparisons."""

    value: float
    span: Span | None = field(default=None, kw_only=True)

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
    """A truth degree that may change over time."""

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
    span: Span | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Edge(Formula):
    """`first` or `last`: true exactly at that end of the trace."""

    end: str
    span: Span | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Atom(Formula):
    """A predicate applied to terms; a proposition has none."""

    predicate: str
    args: tuple[Term, ...] = ()
    span: Span | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Equal(Relation):
    """`s = t`, graded by the distance of the two."""

    left: Term
    right: Term
    span: Span | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Compare(Relation):
    """`s < t` and its kin between numbers: 1 or 0."""

    op: str
    left: Term
    right: Term
    span: Span | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Not(Connective):
    """`!a`."""

    arg: Formula
    span: Span | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class And(Connective):
    """`a & b`."""

    left: Formula
    right: Formula
    span: Span | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Or(Connective):
    """`a | b`."""

    left: Formula
    right: Formula
    span: Span | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Implies(Connective):
    """`a -> b`."""

    left: Formula
    right: Formula
    span: Span | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Iff(Connective):
    """`a <-> b`, the conjunction of both implications."""

    left: Formula
    right: Formula
    span: Span | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Binder:
    """A variable being bound, with its sort if one is written."""

    name: str
    sort: str | None = None
    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Paired:
    """Variables that run together through the tuples of a relation."""

    binders: tuple[Binder, ...]
    relation: str
    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Forall(Formula):
    """`forall x: s, … where guard. body`."""

    binders: tuple[Binder | Paired, ...]
    guard: Formula | None
    body: Formula
    span: Span | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Exists(Formula):
    """`exists x: s, … where guard. body`."""

    binders: tuple[Binder | Paired, ...]
    guard: Formula | None
    body: Formula
    span: Span | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Bound:
    """Steps from the present: `low` to `high` inclusive; no `high` means the end of the trace."""

    low: int
    high: int | None
    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unary(Formula):
    """A temporal operator on one formula: X, WX, F, G and Y, WY, O, H."""

    op: Temporal
    arg: Formula
    bound: Bound | None = None
    strict: bool = False
    span: Span | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Binary(Formula):
    """A temporal operator between two formulas: U, R, W, M and S, T."""

    op: Temporal
    left: Formula
    right: Formula
    bound: Bound | None = None
    strict: bool = False
    span: Span | None = field(default=None, kw_only=True)


def as_term(value: Term | str | float) -> Term:
    """A term from Python: a string names an entity, a number is itself."""
    match value:
        case Term():
            return value
        case str():
            return Const(value)
        case bool():
            pass
        case int() | float():
            return Number(value)
    hint = "; write Equal(s, t), since == compares the objects" if isinstance(value, bool) else ""
    raise BuildError(f"expected a term, a name or a number, not {value!r}{hint}")


def as_formula(value: object) -> Formula:
    """Check that a Python value is a formula; True and False are not taken for one."""
    if isinstance(value, Formula):
        return value
    hint = "; write Equal(s, t), since == compares the objects" if isinstance(value, bool) else ""
    raise BuildError(f"expected a formula, not {value!r}{hint}")
