"""Hypothesis strategies that reach every node and option of the syntax tree."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from fotltn.syntax import formula as f
from fotltn.syntax import theory as th
from fotltn.syntax.build import MAX_STEPS
from fotltn.syntax.hints import KEYWORDS
from fotltn.syntax.operators import STRICT, Temporal

#: Constants, numbers and names that have broken printers before.
ODD_STRINGS = (
    "", " ", "car 7", '"', "\\", "\\n", "\n", "\t", "a\n\nb", "it's", "x & y", "# no comment",
    "forall", "é", "名前", "😀", "\u2028", "\x00", "\x01", "\r", "\r\n", "\x1b", "\x7f", "\x85",
    "$%^&_{}~#", "\\left(", '\\"', "{", "}",
)  # fmt: skip
ODD_NUMBERS = (0.0, -0.0, 1.0, -0.5, 1e300, -1e300, 1e-7, 1e15, 1e16, 5e-324, 0.1, 123456789.125)

_LETTERS = st.characters(categories=("L", "Nl", "No"), exclude_characters="𝒰ℛ𝒲ℳ𝒮𝒯")
_WORDS = st.text(st.one_of(_LETTERS, st.sampled_from("_abcXYZ019")), min_size=1, max_size=6)


def _is_name(word: str) -> bool:
    return re.fullmatch(r"[^\W\d]\w*", word) is not None and word not in KEYWORDS


names = st.one_of(st.sampled_from(("x", "y", "Stop", "x_1", "Xa", "_", "inside")), _WORDS).filter(
    _is_name
)
strings = st.one_of(st.sampled_from(ODD_STRINGS), st.text(st.characters(codec="utf-8"), max_size=6))
numbers = st.one_of(st.sampled_from(ODD_NUMBERS), st.floats(allow_nan=False, allow_infinity=False))

terms: st.SearchStrategy[f.Term] = st.recursive(
    st.one_of(st.builds(f.Var, names), st.builds(f.Const, strings), st.builds(f.Number, numbers)),
    lambda inner: st.builds(
        f.Apply, names, st.lists(inner, min_size=1, max_size=3).map(lambda args: tuple(args))
    ),
    max_leaves=4,
)

_binder = st.builds(f.Binder, names, st.none() | names)
_paired = st.builds(
    f.Paired, st.lists(_binder, min_size=2, max_size=3).map(lambda all_: tuple(all_)), names
)
_binders = st.lists(st.one_of(_binder, _paired), min_size=1, max_size=3).map(
    lambda all_: tuple(all_)
)
_steps = st.one_of(st.integers(0, 4), st.just(MAX_STEPS))
_point = st.none() | _steps.map(lambda n: f.Bound(n, n))
_range = st.none() | st.builds(f.Bound, _steps, st.none() | _steps)


def _temporal(inner: st.SearchStrategy[f.Formula]) -> st.SearchStrategy[f.Formula]:
    def marks(op: Temporal) -> tuple[st.SearchStrategy[f.Bound | None], st.SearchStrategy[bool]]:
        return (_point if op.steps else _range), (st.booleans() if op in STRICT else st.just(False))

    def make(op: Temporal) -> st.SearchStrategy[f.Formula]:
        if op.value.arity == 1:
            return st.builds(f.Unary, st.just(op), inner, *marks(op))
        return st.builds(f.Binary, st.just(op), inner, inner, *marks(op))

    return st.one_of([make(op) for op in Temporal])


def _compound(inner: st.SearchStrategy[f.Formula]) -> st.SearchStrategy[f.Formula]:
    guard = st.none() | inner
    return st.one_of(
        st.builds(f.Not, inner),
        *(st.builds(kind, inner, inner) for kind in (f.And, f.Or, f.Implies, f.Iff)),
        *(st.builds(kind, _binders, guard, inner) for kind in (f.Forall, f.Exists)),
        _temporal(inner),
    )


_atoms: st.SearchStrategy[f.Formula] = st.one_of(
    st.builds(f.Truth, st.booleans()),
    st.builds(f.Edge, st.sampled_from(("first", "last"))),
    st.builds(f.Atom, names, st.lists(terms, max_size=3).map(lambda args: tuple(args))),
    st.builds(f.Equal, terms, terms),
    st.builds(f.Compare, st.sampled_from(("<", "<=", ">", ">=")), terms, terms),
)

formulas: st.SearchStrategy[f.Formula] = st.recursive(_atoms, _compound, max_leaves=8)

_sorts = st.lists(names, max_size=3).map(lambda all_: tuple(all_))
declarations: st.SearchStrategy[th.Declaration] = st.one_of(
    st.builds(th.SortDecl, names),
    st.builds(th.PredicateDecl, names, _sorts, st.booleans()),
    st.builds(th.FunctionDecl, names, _sorts, names, st.booleans()),
    st.builds(th.ConstantDecl, st.one_of(names, strings), names),
    st.builds(th.RelationDecl, names, _sorts),
)
_weights = st.one_of(st.just(1.0), st.floats(min_value=5e-324, allow_infinity=False))
theories: st.SearchStrategy[th.Theory] = st.builds(
    th.Theory,
    st.lists(declarations, max_size=4).map(lambda all_: tuple(all_)),
    st.lists(
        st.builds(th.Axiom, names, formulas, _weights)
        | st.builds(th.Axiom, names, formulas, hard=st.just(True)),
        max_size=3,
    ).map(lambda all_: tuple(all_)),
)
