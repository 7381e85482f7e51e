"""Build formulas in Python: the same objects that parsing text returns.

Use it if a program composes formulas; for fixed formulas, text is shorter.

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
    """The name of a predicate; call it with terms to build an atom."""

    name: str

    def __call__(self, *args: Term | str | float) -> Atom:
        """Build an atom; strings name entities."""
        return Atom(self.name, tuple(as_term(a) for a in args))


@dataclass(frozen=True, slots=True)
class FunctionSymbol:
    """The name of a function; call it with terms to build a term."""

    name: str

    def __call__(self, *args: Term | str | float) -> Apply:
        """Build a term; strings name entities."""
        if not args:
            raise BuildError(f"the function '{self.name}' needs an argument")
        return Apply(self.name, tuple(as_term(a) for a in args))


def variables(names: str) -> tuple[Var, ...]:
    """Create variables from names separated by spaces.

    >>> x, y = variables("x y")
    >>> print(forall(x, y, predicates("Close")[0](x, y)))
    forall x, y. Close(x, y)
    """
    return tuple(Var(n) for n in _names(names))


def predicates(names: str) -> tuple[PredicateSymbol, ...]:
    """Create predicates from names separated by spaces.

    >>> Car, Stop = predicates("Car Stop")
    >>> print(Car("ego") >> Stop("ego"))
    Car("ego") -> Stop("ego")
    """
    return tuple(PredicateSymbol(n) for n in _names(names))


def functions(names: str) -> tuple[FunctionSymbol, ...]:
    """Create functions from names separated by spaces.

    >>> (speed,) = functions("speed")
    >>> print(speed("ego") > 2)
    speed("ego") > 2
    """
    return tuple(FunctionSymbol(n) for n in _names(names))


def propositions(names: str) -> tuple[Atom, ...]:
    """Create predicates without arguments from names separated by spaces.

    >>> alarm, silence = propositions("alarm silence")
    >>> print(G(alarm >> F(silence, 3)))
    G(alarm -> F[<=3] silence)
    """
    return tuple(Atom(n) for n in _names(names))


def paired(*binders: Var | Binder, relation: str) -> Paired:
    """Let variables range together over the tuples of a relation, inside a quantifier.

    >>> x, y = variables("x y")
    >>> (Close,) = predicates("Close")
    >>> print(forall(paired(x, y, relation="pairs"), G(Close(x, y))))
    forall (x, y) in pairs. G Close(x, y)
    """
    if len(binders) < 2:
        raise BuildError("paired needs at least two variables")
    return Paired(tuple(_binder(b) for b in binders), valid_name(relation))


def forall(*parts: Var | Binder | Paired | Formula, where: Formula | None = None) -> Forall:
    """Quantify a formula universally: `forall(x, y, body)`.

    With `where`, only the bindings that make the guard true count.

    >>> (x,), (Car, Stop) = variables("x"), predicates("Car Stop")
    >>> print(forall(x.of("agent"), F(Stop(x)), where=Car(x)))
    forall x: agent where Car(x). F Stop(x)
    """
    return Forall(*_quantified("forall", parts, where))


def exists(*parts: Var | Binder | Paired | Formula, where: Formula | None = None) -> Exists:
    """Quantify a formula existentially: `exists(x, y, body)`.

    With `where`, only the bindings that make the guard true count.

    >>> (x,), (Stop,) = variables("x"), predicates("Stop")
    >>> print(exists(x, F(Stop(x))))
    exists x. F Stop(x)
    """
    return Exists(*_quantified("exists", parts, where))


def X(arg: Formula, steps: int | None = None) -> Unary:  # noqa: N802 the operator's name
    """Build `X arg`: next, or `steps` ahead; false beyond the last time point."""
    return _unary(Temporal.X, arg, _steps(steps))


def WX(arg: Formula, steps: int | None = None) -> Unary:  # noqa: N802 the operator's name
    """Build `WX arg`: weak next, or `steps` ahead; true beyond the last time point."""
    return _unary(Temporal.WX, arg, _steps(steps))


def Y(arg: Formula, steps: int | None = None) -> Unary:  # noqa: N802 the operator's name
    """Build `Y arg`: previous, or `steps` ago; false before the first time point."""
    return _unary(Temporal.Y, arg, _steps(steps))


def WY(arg: Formula, steps: int | None = None) -> Unary:  # noqa: N802 the operator's name
    """Build `WY arg`: weak previous, or `steps` ago; true before the first time point."""
    return _unary(Temporal.WY, arg, _steps(steps))


def F(arg: Formula, bound: Bounds = None, *, strict: bool = False) -> Unary:  # noqa: N802 the operator's name
    """Build `F arg`: eventually, now or later.

    A bound limits how many steps ahead to look: `3` means 0 to 3, `(2, 5)` means 2 to 5, and
    `(2, None)` has no upper end. A strict operator excludes the present. The same holds for the
    other operators with these arguments.

    >>> (a,) = propositions("a")
    >>> print(F(a), "and", F(a, 3), "and", F(a, (2, None)), "and", F(a, strict=True))
    F a and F[<=3] a and F[>=2] a and F+ a
    """
    return _unary(Temporal.F, arg, bound, strict)


def G(arg: Formula, bound: Bounds = None, *, strict: bool = False) -> Unary:  # noqa: N802 the operator's name
    """Build `G arg`: always, now and at every later time point."""
    return _unary(Temporal.G, arg, bound, strict)


def O(arg: Formula, bound: Bounds = None, *, strict: bool = False) -> Unary:  # noqa: N802, E743 the operator's name
    """Build `O arg`: once, now or earlier."""
    return _unary(Temporal.O, arg, bound, strict)


def H(arg: Formula, bound: Bounds = None, *, strict: bool = False) -> Unary:  # noqa: N802 the operator's name
    """Build `H arg`: historically, now and at every earlier time point."""
    return _unary(Temporal.H, arg, bound, strict)


def U(left: Formula, right: Formula, bound: Bounds = None, *, strict: bool = False) -> Binary:  # noqa: N802 the operator's name
    """Build `left U right`: until; `right` now or later, and `left` until just before that.

    >>> a, b = propositions("a b")
    >>> print(U(a, b, (2, 5)))
    a U[2,5] b
    """
    return _binary(Temporal.U, left, right, bound, strict)


def R(left: Formula, right: Formula, bound: Bounds = None, *, strict: bool = False) -> Binary:  # noqa: N802 the operator's name
    """Build `left R right`: release; `right` until `left` holds, inclusive, or to the end."""
    return _binary(Temporal.R, left, right, bound, strict)


def W(left: Formula, right: Formula, bound: Bounds = None, *, strict: bool = False) -> Binary:  # noqa: N802 the operator's name
    """Build `left W right`: weak until; `left U right`, or `left` to the end."""
    return _binary(Temporal.W, left, right, bound, strict)


def M(left: Formula, right: Formula, bound: Bounds = None, *, strict: bool = False) -> Binary:  # noqa: N802 the operator's name
    """Build `left M right`: strong release; `left R right`, and `left` holds at some point."""
    return _binary(Temporal.M, left, right, bound, strict)


def S(left: Formula, right: Formula, bound: Bounds = None, *, strict: bool = False) -> Binary:  # noqa: N802 the operator's name
    """Build `left S right`: since, the mirror image of until in the past."""
    return _binary(Temporal.S, left, right, bound, strict)


def T(left: Formula, right: Formula, bound: Bounds = None, *, strict: bool = False) -> Binary:  # noqa: N802 the operator's name
    """Build `left T right`: trigger, the mirror image of release in the past."""
    return _binary(Temporal.T, left, right, bound, strict)


def _names(names: str) -> list[str]:
    return [valid_name(name) for name in names.replace(",", " ").split()]


def _binder(value: object) -> Binder:
    if isinstance(value, Binder):
        return value
    if isinstance(value, Var):
        return Binder(value.name)
    raise BuildError(f"a quantifier must bind variables, not {value!r}")


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
            f"a bound must be a number of steps, or a pair from low to high, not {bound!r}"
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
