"""Print expressions as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from fotltn.algebra import expr as e
from fotltn.logic import core as c
from fotltn.tree import children, fold


def show(root: e.Expr) -> str:
    """Print an expression on one line, for messages and test fixtures.

    >>> show(e.Affine(e.Scalar(2.0), -1.0, 1.0))
    '1 - 2'
    """
    return fold(root, _text)


def brief(root: e.Expr, names: Mapping[e.Expr, str], depth: int = 6) -> str:
    """Print an expression on one line; parts below the depth appear by name only."""
    if depth == 0 and children(root):
        return names.get(root, "…")
    below = [
        brief(child, names, depth - 1) if isinstance(child, e.Expr) else fold(child, _text)
        for child in children(root)
    ]
    return _text(e.closed(root), below)


def scope(node: e.Expr) -> str:
    """Return the axes of an expression, with time last."""
    return " ".join([*sorted(a.name for a in node.axes), *(["t"] if node.timed else [])])


def core_text(node: c.AnyTerm | c.AnyFormula, below: list[str]) -> str:
    """Print a core formula or term on one line."""
    match node:
        case c.Variable(axis, _, column):
            return axis.name if column is None else axis.name.split(",")[column]
        case c.Constant(name):
            return f'"{name}"'
        case c.Number(value):
            return f"{value:g}"
        case c.Apply(name) | c.Atom(name):
            return f"{name}({', '.join(below)})" if below else name
        case c.Truth(value):
            return str(value).lower()
        case c.Edge(past):
            return "first" if past else "last"
        case c.Equal():
            return f"{below[0]} = {below[1]}"
        case c.Compare(op):
            return f"{below[0]} {op} {below[1]}"
        case c.Not():
            return f"!{below[0]}"
        case c.And():
            return f"({below[0]} & {below[1]})"
        case c.Or():
            return f"({below[0]} | {below[1]})"
        case c.Implies():
            return f"({below[0]} -> {below[1]})"
        case c.Quantifier(universal, axes):
            bound = ", ".join(a.name for a in axes)
            return f"({'forall' if universal else 'exists'} {bound}. {' : '.join(below)})"
        case c.Shift(_, steps, past, weak):
            return f"{'W' * weak}{'Y' if past else 'X'}[{steps}] {below[0]}"
        case c.Aggregate(universal, _, window, past):
            name = {(0, 0): "F", (1, 0): "G", (0, 1): "O", (1, 1): "H"}[universal, past]
            return f"{name}{window_text(window)} {' : '.join(below[::-1])}"
        case c.Until(dual, _, _, window, past):
            name = {(0, 0): "U", (1, 0): "R", (0, 1): "S", (1, 1): "T"}[dual, past]
            return f"({below[0]} {name}{window_text(window)} {below[1]})"
        case _:
            assert_never(node)


def window_text(window: c.Window) -> str:
    """Return `[a,b]`, or nothing if the window is the rest of the trace."""
    if window == c.Window():
        return ""
    return f"[{window.low},{'' if window.high is None else window.high}]"


def _text(node: e.AnyExpr | c.AnyTerm | c.AnyFormula, below: list[str]) -> str:
    match node:
        case c.Core():
            return core_text(node, below)
        case e.TableLeaf(name):
            return f"{name}({', '.join(below)})" if below else name
        case e.Data():
            return f"given({below[0]})"
        case e.Scalar(value):
            return f"{value:g}"
        case e.Affine(_, -1.0, offset):
            return f"{offset:g} - {below[0]}"
        case e.Affine(_, scale, offset):
            shift = f" + {offset:g}" if offset else ""
            return f"{scale:g}·{below[0]}{shift}"
        case e.Product():
            return " · ".join(_wrap(b) for b in below)
        case e.Power(_, p):
            return f"({below[0]})^{p:g}"
        case e.Root(_, p):
            return f"root{p:g}({below[0]})"
        case e.Pointwise(op):
            return f"{op}({', '.join(below)})"
        case e.Reduce(kind, over, time, _, guard):
            axes = " ".join([*(a.name for a in over), *(["t"] if time else [])])
            where = f" | {below[1]}" if guard is not None else ""
            return f"{kind}[{axes}]({below[0]}{where})"
        case e.At(_, time):
            return f"({below[0]})@{time}"
        case e.TimeShift(_, steps, past, outside):
            return f"shift[{'-' if past else '+'}{steps}, {outside:g}]({below[0]})"
        case e.Scan(kind, _, window, past):
            return f"{'past ' if past else ''}{kind}-scan{window_text(window)}({below[0]})"
        case e.Pairs(_, _, window, past):
            return f"{'since' if past else 'until'}{window_text(window)}({below[0]}, {below[1]})"
        case _:
            assert_never(node)


def _wrap(text: str) -> str:
    return f"({text})" if " - " in text or " + " in text else text
