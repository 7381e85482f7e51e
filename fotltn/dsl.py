"""Formulas from Python: the same objects that parsing text gives.

>>> from fotltn.dsl import *
>>> x, y = variables("x y")
>>> Car, Ped, Crossing, Stop = predicates("Car Ped Crossing Stop")
>>> print(forall(x, y, G((Car(x) & Ped(y) & Crossing(y)) >> WX(Stop(x)))))
forall x, y. G(Car(x) & Ped(y) & Crossing(y) -> WX Stop(x))
"""

from __future__ import annotations

from dataclasses import dataclass

from fotltn.errors import BuildError
from fotltn.syntax.build import MAX_STEPS
from fotltn.syntax.formula import (
    And,
    Apply,
    Atom,
    Binary,
    Binder,
    Bound,
    Const,
    Edge,
    Equal,
    Exists,
    Forall,
    Formula,
    Iff,
    Implies,
    Not,
    Number,
    Or,
    Paired,
    Term,
    Truth,
    Unary,
    Var,
    as_formula,
    as_term,
)
from fotltn.syntax.hints import valid_name
from fotltn.syntax.operators import STRICT, Temporal

Bounds = int | tuple[int, int | None] | None

true, false = Truth(True), Truth(False)
first, last = Edge("first"), Edge("last")


@dataclass(frozen=True, slots=True)
class PredicateSymbol:
    """A predicate's name; calling it makes an atom."""

    name: str

    def __call__(self, *args: Term | str | float) -> Atom:
        """The atom over terms; strings name entities."""
        return Atom(self.name, tuple(as_term(a) for a in args))


@dataclass(frozen=True, slots=True)
class FunctionSymbol:
    """A function's name; calling it makes a term."""

    name: str

    def __call__(self, *args: Term | str | float) -> Apply:
        """The term over terms; strings name entities."""
        if not args:
            raise BuildError(f"the function '{self.name}' needs an argument")
        return Apply(self.name, tuple(as_term(a) for a in args))


def variables(names: str) -> tuple[Var, ...]:
    """Variables from names separated by spaces."""
    return tuple(Var(n) for n in _names(names))


def predicates(names: str) -> tuple[PredicateSymbol, ...]:
    """Predicates from names separated by spaces."""
    return tuple(PredicateSymbol(n) for n in _names(names))


def functions(names: str) -> tuple[FunctionSymbol, ...]:
    """Functions from names separated by spaces."""
    return tuple(FunctionSymbol(n) for n in _names(names))


def propositions(names: str) -> tuple[Atom, ...]:
    """Predicates without arguments, from names separated by spaces."""
    return tuple(Atom(n) for n in _names(names))


def paired(*binders: Var | Binder, relation: str) -> Paired:
    """Variables that run together through the tuples of a relation."""
    if len(binders) < 2:
        raise BuildError("paired variables are at least two")
    return Paired(tuple(_binder(b) for b in binders), valid_name(relation))


def forall(*parts: Var | Binder | Paired | Formula, where: Formula | None = None) -> Forall:
    """`forall(x, y, body)`; `where` keeps only the bindings whose guard is true."""
    return Forall(*_quantified("forall", parts, where))


def exists(*parts: Var | Binder | Paired | Formula, where: Formula | None = None) -> Exists:
    """`exists(x, y, body)`; `where` keeps only the bindings whose guard is true."""
    return Exists(*_quantified("exists", parts, where))


def X(arg: Formula, steps: int | None = None) -> Unary:  # noqa: N802 the operator's name
    """Next: false beyond the last point."""
    return _unary(Temporal.X, arg, _steps(steps))


def WX(arg: Formula, steps: int | None = None) -> Unary:  # noqa: N802 the operator's name
    """Weak next: true beyond the last point."""
    return _unary(Temporal.WX, arg, _steps(steps))


def Y(arg: Formula, steps: int | None = None) -> Unary:  # noqa: N802 the operator's name
    """Previous: false before the first point."""
    return _unary(Temporal.Y, arg, _steps(steps))


def WY(arg: Formula, steps: int | None = None) -> Unary:  # noqa: N802 the operator's name
    """Weak previous: true before the first point."""
    return _unary(Temporal.WY, arg, _steps(steps))


def F(arg: Formula, bound: Bounds = None, *, strict: bool = False) -> Unary:  # noqa: N802 the operator's name
    """Eventually."""
    return _unary(Temporal.F, arg, bound, strict)


def G(arg: Formula, bound: Bounds = None, *, strict: bool = False) -> Unary:  # noqa: N802 the operator's name
    """Always."""
    return _unary(Temporal.G, arg, bound, strict)


def O(arg: Formula, bound: Bounds = None, *, strict: bool = False) -> Unary:  # noqa: N802, E743 the operator's name
    """Once."""
    return _unary(Temporal.O, arg, bound, strict)


def H(arg: Formula, bound: Bounds = None, *, strict: bool = False) -> Unary:  # noqa: N802 the operator's name
    """Historically."""
    return _unary(Temporal.H, arg, bound, strict)


def U(left: Formula, right: Formula, bound: Bounds = None, *, strict: bool = False) -> Binary:  # noqa: N802 the operator's name
    """Until."""
    return _binary(Temporal.U, left, right, bound, strict)


def R(left: Formula, right: Formula, bound: Bounds = None, *, strict: bool = False) -> Binary:  # noqa: N802 the operator's name
    """Release."""
    return _binary(Temporal.R, left, right, bound, strict)


def W(left: Formula, right: Formula, bound: Bounds = None, *, strict: bool = False) -> Binary:  # noqa: N802 the operator's name
    """Weak until."""
    return _binary(Temporal.W, left, right, bound, strict)


def M(left: Formula, right: Formula, bound: Bounds = None, *, strict: bool = False) -> Binary:  # noqa: N802 the operator's name
    """Strong release."""
    return _binary(Temporal.M, left, right, bound, strict)


def S(left: Formula, right: Formula, bound: Bounds = None, *, strict: bool = False) -> Binary:  # noqa: N802 the operator's name
    """Since."""
    return _binary(Temporal.S, left, right, bound, strict)


def T(left: Formula, right: Formula, bound: Bounds = None, *, strict: bool = False) -> Binary:  # noqa: N802 the operator's name
    """Trigger, the dual of since."""
    return _binary(Temporal.T, left, right, bound, strict)


def _names(names: str) -> list[str]:
    return [valid_name(name) for name in names.replace(",", " ").split()]


def _binder(value: object) -> Binder:
    if isinstance(value, Binder):
        return value
    if isinstance(value, Var):
        return Binder(value.name)
    raise BuildError(f"a quantifier binds variables, not {value!r}")


def _quantified(
    kind: str, parts: tuple[Var | Binder | Paired | Formula, ...], where: Formula | None
) -> tuple[tuple[Binder | Paired, ...], Formula | None, Formula]:
    if len(parts) < 2:
        raise BuildError(f"{kind} needs at least a variable and a formula: {kind}(x, G(Stop(x)))")
    *bound, body = parts
    binders = tuple(b if isinstance(b, Paired) else _binder(b) for b in bound)
    return binders, None if where is None else as_formula(where), as_formula(body)


def _steps(steps: int | None) -> Bounds:
    if steps is not None and type(steps) is not int:
        raise BuildError(f"X, WX, Y and WY take a number of steps, not {steps!r}")
    return None if steps is None else (steps, steps)


def _bound(bound: Bounds) -> Bound | None:
    if bound is None:
        return None
    low, high = bound if isinstance(bound, tuple) and len(bound) == 2 else (0, bound)
    steps = [low] if high is None else [low, high]
    if not all(type(n) is int and 0 <= n <= MAX_STEPS for n in steps) or steps != sorted(steps):
        raise BuildError(
            f"a bound is a number of steps, or a pair of them, from low to high: not {bound!r}"
        )
    return Bound(low, high)


def _unary(op: Temporal, arg: Formula, bound: Bounds, strict: bool = False) -> Unary:
    return Unary(op, as_formula(arg), _bound(bound), strict and op in STRICT)


def _binary(op: Temporal, left: Formula, right: Formula, bound: Bounds, strict: bool) -> Binary:
    return Binary(op, as_formula(left), as_formula(right), _bound(bound), strict)


__all__ = [
    "WX",
    "WY",
    "And",
    "Const",
    "Equal",
    "F",
    "G",
    "H",
    "Iff",
    "Implies",
    "M",
    "Not",
    "Number",
    "O",
    "Or",
    "R",
    "S",
    "T",
    "U",
    "W",
    "X",
    "Y",
    "exists",
    "false",
    "first",
    "forall",
    "functions",
    "last",
    "paired",
    "predicates",
    "propositions",
    "true",
    "variables",
]  # fmt: skip
