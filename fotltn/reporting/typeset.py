"""Formulas as HTML: italic variables, bold operators, signs for connectives.

The HTML is plain text in spans, without scripts or fonts, and wraps on a narrow page. Screen
readers get the ASCII spelling.
"""

from __future__ import annotations

import re
from html import escape

from fotltn.syntax import formula as f
from fotltn.syntax.operators import STRICT_MARK, Temporal
from fotltn.syntax.show import show
from fotltn.tree import postorder

_SIGNS = {
    "!": "¬", "&": "∧", "|": "∨", "->": "→", "<->": "↔", "!=": "≠", "<=": "≤", ">=": "≥",
    "true": "⊤", "false": "⊥",
}  # fmt: skip
_QUANTIFIERS = {"forall": "∀", "exists": "∃"}
_WORDS = ("in", "where", "first", "last")
_OPERATORS = {spelling: op.ascii for op in Temporal for spelling in (op.ascii, op.value.unicode)}
_TOKEN = re.compile(
    r"""(?P<entity>"(?:[^"\\]|\\.)*")
    | (?P<bound>\[[^\]]*\])
    | (?P<sign><->|->|<=|>=|!=|[!&|])
    | (?P<number>\d[\w.]*)
    | (?P<name>\w+)
    | (?P<rest>\s+|.)""",
    re.VERBOSE,
)


def typeset(formula: f.Syntax) -> str:
    """Return a formula as HTML that is safe to include in a page.

    >>> from fotltn import parse_formula
    >>> print(typeset(parse_formula("G p(x)")))  # doctest: +NORMALIZE_WHITESPACE
    <span class="formula" role="math" aria-label="G p(x)"><b>G</b> <span
    class="name">p</span>(<i>x</i>)</span>
    """
    text = show(formula)
    inner = "".join(_pieces(text, _variables(formula)))
    return f'<span class="formula" role="math" aria-label="{escape(text)}">{inner}</span>'


def _variables(formula: f.Syntax) -> set[str]:
    """Return the names that quantifiers bind."""
    bound: list[f.Binder | f.Paired] = []
    for node in postorder(formula):
        if isinstance(node, f.Forall | f.Exists):
            bound += node.binders
    return {b.name for one in bound for b in (one.binders if isinstance(one, f.Paired) else (one,))}


def _pieces(text: str, variables: set[str]) -> list[str]:
    pieces = []
    gap = True  # whether to keep the next blank
    for token in _TOKEN.finditer(text):
        kind, piece = str(token.lastgroup), token[0]
        if kind == "rest" and piece.isspace():
            if gap:
                pieces.append(" ")
            gap = True
            continue
        if kind == "rest" and piece == "+":
            pieces.append(f"<sup>{STRICT_MARK['ascii']}</sup>")
            continue
        pieces.append(_piece(kind, piece, text[token.end() : token.end() + 1], variables))
        gap = piece not in _QUANTIFIERS
    return pieces


def _piece(kind: str, piece: str, after: str, variables: set[str]) -> str:
    """Return one token as HTML; a name before a parenthesis is not a variable."""
    if kind == "bound":
        inner = piece[1:-1].replace("<=", "≤").replace(">=", "≥")
        return f"<sub>{escape(inner)}</sub>"
    if kind == "entity":
        return f'<span class="entity">{escape(piece[1:-1])}</span>'
    if kind == "sign" or piece in ("true", "false"):
        return _SIGNS[piece]
    if piece in _QUANTIFIERS:
        return _QUANTIFIERS[piece]
    if piece in _WORDS:
        return f'<span class="word">{piece}</span>'
    if piece in _OPERATORS:
        return f"<b>{_OPERATORS[piece]}</b>"
    if kind == "name":
        if after != "(" and (piece in variables or len(piece) == 1):
            return f"<i>{escape(piece)}</i>"
        return f'<span class="name">{escape(piece)}</span>'
    return escape(piece)
