"""Build the syntax tree from grammar rules: one method per rule, called as the parser reduces."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lark import Token, Transformer

from fotltn.errors import Diagnostic, SourceText, Span
from fotltn.syntax import formula as f
from fotltn.syntax import theory as th
from fotltn.syntax.operators import STRICT, Temporal

_SPELLED = {s: op for op in Temporal for s in (op.value.ascii, op.value.unicode)}
_COMPARE = {"≤": "<=", "≥": ">="}
MAX_STEPS = 2**31 - 1  # a larger bound is a typing error: no trace is that long


def crop(token: str) -> str:
    """Shorten a token for a message, so that it does not fill the screen."""
    return token if len(token) <= 40 else f"{token[:40]}…"


def _unquote(token: str) -> str:
    """Return the name that a string token stands for; raw control characters are allowed in it."""
    return str(json.loads(token, strict=False))


class Slip(Exception):  # noqa: N818 an internal signal, turned into a ParseError at once
    """Raised when a rule matches, but its content is wrong in a way the grammar cannot express."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        """Carry the diagnostic out of the parser."""
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def _infix(kind: Callable[..., f.Formula]) -> Callable[[Build, list[Any]], f.Formula]:
    """Return the method for a rule with a sign between two parts."""
    return lambda build, items: kind(items[0], items[2], span=build.over(items))


class Build(Transformer[Token, Any]):
    """Builds nodes. The children of a rule include all its tokens, so spans are exact."""

    def __init__(self) -> None:
        """Start without a source; `begin` sets one for each parse."""
        super().__init__()
        self.begin(SourceText("", ""), 0)

    def begin(self, source: SourceText, offset: int) -> None:
        """Set the source, and the offset in it at which the parsed text begins."""
        self._source, self._offset = source, offset

    def span(self, start: int, end: int) -> Span:
        """Return the span between two absolute offsets of the current source."""
        return Span(self._source, start, end)

    def over(self, items: list[Any]) -> Span:
        """Return the span from the first to the last of some items."""
        return Span(self._source, self._edge(items[0], True), self._edge(items[-1], False))

    def _edge(self, item: Any, first: bool) -> int:
        if isinstance(item, Token):
            return self._offset + int((item.start_pos if first else item.end_pos) or 0)
        if isinstance(item, tuple):  # a temporal operator: (op, strict, bound, span)
            item = item[-1]
            return int(item.start if first else item.end)
        return int(item.span.start if first else item.span.end)

    def _fail(self, item: Any, message: str, hint: str | None = None) -> Slip:
        return Slip(Diagnostic(message, self.over([item]), hint))

    # --- formulas ---------------------------------------------------------------------------

    def formula(self, items: list[Any]) -> f.Formula:
        """Return the formula below the start rule unchanged."""
        return items[0]  # type: ignore[no-any-return]

    def group(self, items: list[Any]) -> f.Formula:
        """Drop the parentheses from the tree, but count them in the formula's span."""
        return replace(items[1], span=self.over(items))  # type: ignore[no-any-return]

    iff = _infix(f.Iff)
    implies = _infix(f.Implies)
    disjunction = _infix(f.Or)
    conjunction = _infix(f.And)
    equal = _infix(f.Equal)

    def negation(self, items: list[Any]) -> f.Formula:
        """`!a`."""
        return f.Not(items[1], span=self.over(items))

    def unary_temporal(self, items: list[Any]) -> f.Formula:
        """`F[<=3] a`."""
        (op, strict, bound, _), arg = items
        return f.Unary(op, arg, bound, strict, span=self.over(items))

    def binary_temporal(self, items: list[Any]) -> f.Formula:
        """`a U b`."""
        left, (op, strict, bound, _), right = items
        return f.Binary(op, left, right, bound, strict, span=self.over(items))

    def unary(self, items: list[Any]) -> tuple[Temporal, bool, f.Bound | None, Span]:
        """A temporal operator with its strictness mark and bound."""
        op = _SPELLED[items[0]]
        strict = any(isinstance(i, Token) and i.type == "STRICT" for i in items[1:])
        bound = next((i for i in items if isinstance(i, f.Bound)), None)
        if strict and op not in STRICT:
            raise self._fail(
                items[1], f"{op.ascii} has no strict form", "it already leaves out the present"
            )
        if bound is not None and op.steps and bound.low != bound.high:
            raise Slip(
                Diagnostic(
                    f"{op.ascii} looks at one time point, not at a range",
                    bound.span,
                    f"write {op.ascii}[3] for three steps, or F, G, O, H for a range",
                )
            )
        return op, strict, bound, self.over(items)

    binary = unary

    def bound_exact(self, items: list[Any]) -> f.Bound:
        """`[3]`: exactly three steps away."""
        steps = self._steps(items[1])
        return f.Bound(steps, steps, span=self.over(items))

    def bound_side(self, items: list[Any]) -> f.Bound:
        """`[<=3]` or `[>=3]`."""
        op, steps = _COMPARE.get(items[1], str(items[1])), self._steps(items[2])
        if op not in ("<=", ">="):
            raise self._fail(items[1], f"a bound must be written with <= or >=, not {op}")
        low, high = (0, steps) if op == "<=" else (steps, None)
        return f.Bound(low, high, span=self.over(items))

    def bound_both(self, items: list[Any]) -> f.Bound:
        """`[1,4]`; the checker makes sure that 1 <= 4."""
        return f.Bound(self._steps(items[1]), self._steps(items[3]), span=self.over(items))

    def _steps(self, token: Token) -> int:
        if not token.isdecimal():
            raise self._fail(token, f"a bound must be a whole number of steps, not {crop(token)}")
        if len(token) > 10 or int(token) > MAX_STEPS:
            raise self._fail(
                token, f"a bound must be at most {MAX_STEPS}", "leave it out, or write [>=a]"
            )
        return int(token)

    def quantified(self, items: list[Any]) -> f.Formula:
        """`forall x: s where g. a`."""
        formulas = [i for i in items if isinstance(i, f.Formula)]
        guard = formulas[0] if len(formulas) == 2 else None
        kind = f.Forall if items[0] in ("forall", "∀") else f.Exists
        return kind(tuple(items[1]), guard, formulas[-1], span=self.over(items))

    def binders(self, items: list[Any]) -> list[f.Binder | f.Paired]:
        """The variables of a quantifier."""
        return [i for i in items if not isinstance(i, Token)]

    def binder(self, items: list[Any]) -> f.Binder:
        """`x` or `x: sort`."""
        sort = str(items[2]) if len(items) == 3 else None
        return f.Binder(str(items[0]), sort, span=self.over(items))

    def paired(self, items: list[Any]) -> f.Paired:
        """`(x, y) in pairs`."""
        binders = tuple(i for i in items if isinstance(i, f.Binder))
        return f.Paired(binders, str(items[-1]), span=self.over(items))

    def truth(self, items: list[Any]) -> f.Formula:
        """`true` or `false`."""
        return f.Truth(items[0] in ("true", "⊤"), span=self.over(items))

    def edge(self, items: list[Any]) -> f.Formula:
        """`first` or `last`."""
        return f.Edge(str(items[0]), span=self.over(items))

    def atom(self, items: list[Any]) -> f.Formula:
        """`P(x, y)`, or a proposition `p`."""
        name, args, span = items[0]
        return f.Atom(str(name), tuple(args), span=span)

    def unequal(self, items: list[Any]) -> f.Formula:
        """`s != t` is the negation of `s = t`."""
        return f.Not(f.Equal(items[0], items[2], span=self.over(items)), span=self.over(items))

    def compare(self, items: list[Any]) -> f.Formula:
        """`s <= t`."""
        op = _COMPARE.get(items[1], str(items[1]))
        return f.Compare(op, items[0], items[2], span=self.over(items))

    # --- terms ------------------------------------------------------------------------------

    def application(self, items: list[Any]) -> tuple[Token, list[f.Term], Span]:
        """A name with or without arguments; the rule around it decides what the name stands for."""
        terms = [i for i in items if isinstance(i, f.Term)]
        return items[0], terms, self.over(items)

    def apply(self, items: list[Any]) -> f.Term:
        """`x`, or `owner(x)`."""
        name, args, span = items[0]
        if not args:
            if span.end - span.start != len(name):
                raise Slip(
                    Diagnostic(
                        f"the function '{name}' needs an argument",
                        span,
                        f"write {name} for a variable or constant",
                    )
                )
            return f.Var(str(name), span=span)
        return f.Apply(str(name), tuple(args), span=span)

    def constant(self, items: list[Any]) -> f.Term:
        """`"car 7"`."""
        return f.Const(_unquote(items[0]), span=self.over(items))

    def number(self, items: list[Any]) -> f.Term:
        """`3.5`."""
        value = float(items[0])
        if not math.isfinite(value):
            raise self._fail(items[0], f"the number {crop(items[0])} is too large")
        return f.Number(value, span=self.over(items))

    # --- statements -------------------------------------------------------------------------

    def signature(self, items: list[Any]) -> tuple[str, tuple[str, ...], Span]:
        """`Close(agent, agent)`."""
        names = [str(i) for i in items if i.type == "NAME"]
        return names[0], tuple(names[1:]), self.over(items)

    def sorts(self, items: list[Any]) -> tuple[th.Statement, ...]:
        """`sort agent, road`."""
        return tuple(th.SortDecl(str(i), span=self.over([i])) for i in items if i.type == "NAME")

    def predicates(self, items: list[Any]) -> tuple[th.Statement, ...]:
        """`static predicate Car(agent), Ped(agent)`."""
        static = items[0] == "static"
        declared = (i for i in items if isinstance(i, tuple))
        return tuple(th.PredicateDecl(n, s, static, span=p) for n, s, p in declared)

    def function(self, items: list[Any]) -> tuple[th.Statement, ...]:
        """`function owner(car): person`."""
        name, sorts, span = next(i for i in items if isinstance(i, tuple))
        return (th.FunctionDecl(name, sorts, str(items[-1]), items[0] != "temporal", span=span),)

    def constants(self, items: list[Any]) -> tuple[th.Statement, ...]:
        """`constant ego, "car 7": car`."""
        names = [i for i in items[1:-1] if i.type in ("NAME", "STRING")]
        return tuple(
            th.ConstantDecl(
                _unquote(i) if i.type == "STRING" else str(i),
                str(items[-1]),
                span=self.over([i]),
            )
            for i in names
        )

    def relations(self, items: list[Any]) -> tuple[th.Statement, ...]:
        """`relation pairs(agent, agent)`."""
        declared = (i for i in items if isinstance(i, tuple))
        return tuple(th.RelationDecl(n, s, span=p) for n, s, p in declared)

    def include(self, items: list[Any]) -> tuple[th.Statement, ...]:
        """`include "common.fot"`."""
        return (th.Include(_unquote(items[1]), span=self.over(items)),)

    def axiom(self, items: list[Any]) -> tuple[th.Statement, ...]:
        """`axiom A1 weight 2: a`, or `hard axiom A1: a`."""
        hard = items[0] == "hard"
        _, name, *marks, _, formula = items[hard:]
        weight = 1.0
        if marks:
            weight = float(marks[1])
            if hard:
                raise self._fail(
                    marks[0],
                    "a hard axiom cannot have a weight",
                    "it holds in every world; leave out the weight or 'hard'",
                )
            if not (math.isfinite(weight) and weight > 0):
                raise self._fail(marks[1], f"a weight must be a positive number, not {marks[1]}")
        return (th.Axiom(str(name), formula, weight, hard, span=self.over([name])),)
