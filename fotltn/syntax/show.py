"""Print formulas and theories as ASCII, Unicode or LaTeX, and write theory files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Literal, assert_never, cast

from fotltn.arguments import AnyPath, public
from fotltn.files import write_files
from fotltn.syntax import formula as f
from fotltn.syntax import theory as th
from fotltn.syntax.hints import KEYWORDS
from fotltn.syntax.load import AnyTheory, theory_of
from fotltn.syntax.notebook import code, table, text
from fotltn.syntax.operators import STRICT_MARK
from fotltn.syntax.parse import AnyFormula, formula_of

Style = Literal["ascii", "unicode", "latex"]

_SIGNS: dict[Style, dict[str, str]] = {
    "ascii": {
        "not": "!", "and": " & ", "or": " | ", "implies": " -> ", "iff": " <-> ",
        "forall": "forall ", "exists": "exists ", "in": " in ", "where": " where ", "dot": ". ",
        "true": "true", "false": "false", "<=": " <= ", ">=": " >= ", "<": " < ", ">": " > ",
        "=": " = ", "comma": ", ",
    },
    "unicode": {
        "not": "¬", "and": " ∧ ", "or": " ∨ ", "implies": " → ", "iff": " ↔ ",
        "forall": "∀", "exists": "∃", "in": " in ", "where": " where ", "dot": ". ",
        "true": "⊤", "false": "⊥", "<=": " ≤ ", ">=": " ≥ ", "<": " < ", ">": " > ",
        "=": " = ", "comma": ", ",
    },
    "latex": {
        "not": r"\neg ", "and": r" \land ", "or": r" \lor ", "implies": r" \to ",
        "iff": r" \leftrightarrow ",
        "forall": r"\forall ", "exists": r"\exists ", "in": r" \in ", "where": r" \mid ",
        "dot": r"\;.\; ",
        "true": r"\top", "false": r"\bot", "<=": r" \le ", ">=": r" \ge ", "<": " < ", ">": " > ",
        "=": " = ", "comma": ", ",
    },
}  # fmt: skip

# How tightly a formula binds; a looser formula inside a tighter one gets parentheses.
_QUANTIFIED, _IFF, _IMPLIES, _OR, _AND, _UNTIL, _RELATION, _PREFIX, _PRIMARY = range(9)
_LEVELS: dict[type[f.Syntax], int] = {
    f.Forall: _QUANTIFIED, f.Exists: _QUANTIFIED, f.Iff: _IFF, f.Implies: _IMPLIES, f.Or: _OR,
    f.And: _AND, f.Binary: _UNTIL, f.Equal: _RELATION, f.Compare: _RELATION, f.Not: _PREFIX,
    f.Unary: _PREFIX,
}  # fmt: skip

_TextPiece = str | tuple[f.Syntax, int]

#: What can be printed.
AnyNode = Annotated[f.Syntax | AnyFormula, "a formula, its text, an axiom or a term"]


@public
def show(node: AnyNode, style: Style = "ascii") -> str:
    r"""Print a formula or term as text.

    Use "ascii" or "unicode" for text that `parse_formula` reads back as an equal formula, and
    "latex" for a paper or a slide.

    Args:
        node: a formula, its text, an axiom, or a term.
        style: "ascii", "unicode" or "latex".

    >>> from fotltn import parse_formula
    >>> show(parse_formula("forall x. G(Stop(x) -> F[<=3] Run(x))"), "unicode")
    '∀x. □(Stop(x) → ◇[≤3] Run(x))'
    """
    out: list[str] = []
    stack: list[_TextPiece] = [
        (node if isinstance(node, f.Syntax) else formula_of(node), _QUANTIFIED)
    ]
    while stack:
        piece = stack.pop()
        if isinstance(piece, str):
            out.append(piece)
            continue
        inner, need = piece
        pieces = _expand(cast("f.AnySyntax", inner), style)
        if _level(inner) < need:
            pieces = [r"\left(", *pieces, r"\right)"] if style == "latex" else ["(", *pieces, ")"]
        stack.extend(reversed(pieces))
    return "".join(out)


def _expand(node: f.AnySyntax, style: Style) -> list[_TextPiece]:
    """Split one node into text and smaller nodes."""
    sign = _SIGNS[style]
    match node:
        case f.Var(name):
            return [_name(name, style)]
        case f.Const(name):
            return [_quoted(name, style)]
        case f.Number(value):
            return [_number(value) if style != "latex" else _latex_number(value)]
        case f.Apply(name, args) | f.Atom(name, args):
            return [_symbol(name, style), *_arguments(args, sign["comma"])]
        case f.Truth(value):
            return [sign["true" if value else "false"]]
        case f.Edge(end):
            return [rf"\mathsf{{{end}}}" if style == "latex" else end]
        case f.Equal(left, right):
            return [(left, 0), sign["="], (right, 0)]
        case f.Compare(op, left, right):
            return [(left, 0), sign[op], (right, 0)]
        case f.Not(arg):
            return [sign["not"], (arg, _PREFIX)]
        case f.And(left, right):
            return [(left, _AND), sign["and"], (right, _UNTIL)]
        case f.Or(left, right):
            return [(left, _OR), sign["or"], (right, _AND)]
        case f.Implies(left, right):
            return [(left, _OR), sign["implies"], (right, _IMPLIES)]
        case f.Iff(left, right):
            return [(left, _IMPLIES), sign["iff"], (right, _IFF)]
        case f.Forall():
            return _quantified("forall", node, style)
        case f.Exists():
            return _quantified("exists", node, style)
        case f.Unary(_, arg):
            gap = "" if _level(arg) < _PREFIX else _space(style)
            return [_operator(node, style), gap, (arg, _PREFIX)]
        case f.Binary(_, left, right):
            return [(left, _PREFIX), f" {_operator(node, style)} ", (right, _UNTIL)]
        case never:
            assert_never(never)


def _level(node: f.Syntax) -> int:
    return _LEVELS.get(type(node), _PRIMARY)


def _space(style: Style) -> str:
    return r"\," if style == "latex" else " "


def _arguments(args: tuple[f.Term, ...], comma: str) -> list[_TextPiece]:
    if not args:
        return []
    pieces: list[_TextPiece] = ["("]
    for index, arg in enumerate(args):
        pieces += [comma, (arg, 0)] if index else [(arg, 0)]
    return [*pieces, ")"]


def _quantified(kind: str, node: f.Quantified, style: Style) -> list[_TextPiece]:
    sign = _SIGNS[style]
    names = sign["comma"].join(_binding(b, style) for b in node.binders)
    where: list[_TextPiece] = [] if node.guard is None else [sign["where"], (node.guard, _IFF)]
    return [sign[kind], names, *where, sign["dot"], (node.body, _QUANTIFIED)]


def _binding(binding: f.Binder | f.Paired, style: Style) -> str:
    sign = _SIGNS[style]
    if isinstance(binding, f.Paired):
        inner = sign["comma"].join(_binding(b, style) for b in binding.binders)
        return f"({inner}){sign['in']}{_name(binding.relation, style)}"
    name = _name(binding.name, style)
    if binding.sort is None:
        return name
    return name + (r"{:}\," if style == "latex" else ": ") + _symbol(binding.sort, style)


def _operator(node: f.Unary | f.Binary, style: Style) -> str:
    text: str = getattr(node.op.value, style)
    strict = STRICT_MARK[style] if node.strict else ""
    bound = _bound(node, style)
    if style == "latex":
        return f"{text}{strict}" + (f"_{{{bound}}}" if bound else "")
    return f"{text}{strict}{bound}"


def _bound(node: f.Unary | f.Binary, style: Style) -> str:
    bound = node.bound
    if bound is None:
        return ""
    low, high = bound.low, bound.high
    less, more = {"ascii": ("<=", ">="), "unicode": ("≤", "≥"), "latex": (r"\le ", r"\ge ")}[style]
    if high is None:
        inner = f"{more}{low}"
    elif low == high:
        inner = str(low)
    elif low == 0:
        inner = f"{less}{high}"
    else:
        inner = f"{low},{high}"
    return inner if style == "latex" and "," not in inner else f"[{inner}]"


def _name(name: str, style: Style) -> str:
    if style != "latex":
        return name
    match_ = re.fullmatch(r"([A-Za-z])_?(\d+)", name)
    if match_:
        return f"{match_[1]}_{{{match_[2]}}}"
    return name if len(name) == 1 and name != "_" else rf"\mathit{{{_escape(name)}}}"


def _symbol(name: str, style: Style) -> str:
    return rf"\mathsf{{{_escape(name)}}}" if style == "latex" else name


def _quoted(name: str, style: Style) -> str:
    if style == "latex":
        return rf"\text{{``{_escape(name)}''}}"
    return quote(name)


def quote(name: str) -> str:
    """Return an entity's name in quotes, as formulas write it."""
    return f'"{name.translate(_ESCAPES)}"'


_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t"})


def _escape(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    text = " ".join(text.split()) if "\n" in text else text
    return "".join(special.get(c, f"\\{c}" if c in "_&%$#{}" else c) for c in text)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else json.dumps(value)


def _latex_number(value: float) -> str:
    mantissa, _, exponent = _number(value).partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa


# --- theories --------------------------------------------------------------------------------


@public
def show_theory(theory: AnyTheory, style: Style = "ascii") -> str:
    r"""Print a theory as the text of a theory file, or its axioms as a LaTeX table.

    Args:
        theory: the theory, its file or its text.
        style: "ascii" or "unicode" for text that `fotltn.parse` reads back as an equal theory;
            "latex" for an array of the axioms.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> print(fot.show_theory(theory, "unicode").rstrip())
    predicate Near
    predicate Stop
    <BLANKLINE>
    axiom Obey: □(Near → ● Stop)
    """
    theory = theory_of(theory)
    if style == "latex":
        rows = [
            rf"\mathrm{{{_escape(a.name)}}}{_HARD_LATEX * a.hard} & {show(a.formula, 'latex')} \\"
            for a in theory.axioms
        ]
        return "\n".join([r"\begin{array}{ll}", *rows, r"\end{array}", ""])
    lines = [_declaration(d) for d in theory.declarations]
    if lines and theory.axioms:
        lines.append("")
    lines += [show_axiom(a, style) for a in theory.axioms]
    return "\n".join(lines) + "\n" if lines else ""


@public
def save_theory(
    theory: AnyTheory, path: AnyPath, *, style: Literal["ascii", "unicode"] = "ascii"
) -> None:
    r"""Write a theory to a file; the old file stays intact until the new one is complete.

    Args:
        theory: the theory, its file or its text.
        path: the file to write.
        style: the spelling of operators, "ascii" or "unicode".

    >>> import pathlib, fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> fot.save(theory, "rules.fot", style="unicode")
    >>> print(pathlib.Path("rules.fot").read_text("utf-8").rstrip())
    predicate Near
    predicate Stop
    <BLANKLINE>
    axiom Obey: □(Near → ● Stop)
    """
    text = show_theory(theory, style)
    write_files({Path(path): lambda file: file.write(text.encode())})


def show_axiom(axiom: th.Axiom, style: Style = "ascii") -> str:
    """Print an axiom as a theory file has it, with its weight, or as hard; "latex" is no style."""
    weight = f" weight {_number(axiom.weight)}" if axiom.weight != 1.0 else ""
    hard = "hard " if axiom.hard else ""
    return f"{hard}axiom {axiom.name}{weight}: {show(axiom.formula, style)}"


_HARD_LATEX = r"\ \text{(hard)}"


def _declaration(item: th.Declaration) -> str:
    match item:
        case th.SortDecl(name):
            return f"sort {name}"
        case th.PredicateDecl(name, sorts, static):
            return f"{'static ' if static else ''}predicate {name}{_sorts(sorts)}"
        case th.FunctionDecl(name, sorts, result, static):
            return f"{'' if static else 'temporal '}function {name}{_sorts(sorts)}: {result}"
        case th.ConstantDecl(name, sort):
            plain = re.fullmatch(r"[^\W\d]\w*", name) and name not in KEYWORDS
            return f"constant {name if plain else quote(name)}: {sort}"
        case th.RelationDecl(name, sorts):
            return f"relation {name}{_sorts(sorts)}"


def _sorts(sorts: tuple[str, ...]) -> str:
    return f"({', '.join(sorts)})" if sorts else ""


def theory_html(theory: th.Theory) -> str:
    """Render a theory for notebooks: declarations as text, axioms in Unicode signs."""
    declared = "\n".join(_declaration(d) for d in theory.declarations)
    rows = [
        (a.name, "hard" if a.hard else _number(a.weight), code(show(a.formula, "unicode")))
        for a in theory.axioms
    ]
    heads = ("axiom", "weight", "formula")
    return f"<pre>{text(declared)}</pre>{table(heads, rows, left=('axiom', 'formula'))}"
