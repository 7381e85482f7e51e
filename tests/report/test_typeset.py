"""Formulas as HTML: the same words as the formula, safe, and with the right signs."""

from __future__ import annotations

import re

import pytest

from fotltn import parse_formula, show
from fotltn.reporting.typeset import typeset
from tests.report.pages import Page

FORMULAS = (
    "forall x: agent, y: agent where Car(x). G(Stop(x) -> F[<=3] !Stop(owner(y)))",
    'exists (x, y) in pairs. x = y & speed(x) >= 1.5 | Stop(ego) S+[2,4] Car("a <b> & one")',
    "(rain <-> first) U (X true & WX last -> Y[2] false)",
    "H[>=2] (p R q) & O (a T b) | WY c W d M e",
)
SIGNS = {
    "→": "->", "↔": "<->", "∧": "&", "∨": "|", "¬": "!", "∀": "forall ", "∃": "exists ",
    "⊤": "true", "⊥": "false", "≤": "<=", "≥": ">=",
}  # fmt: skip


def bare(text: str) -> str:
    return re.sub(r"[\s\[\]\"]", "", text)


@pytest.mark.parametrize("text", FORMULAS)
def test_no_sign_is_lost(text):
    formula = parse_formula(text)
    (math,) = Page(typeset(formula)).all("span", role="math")
    assert math.attributes["aria-label"] == show(formula)
    plain = math.text
    for sign, ascii_ in SIGNS.items():
        plain = plain.replace(sign, ascii_)
    assert bare(plain) == bare(show(formula))


def test_variables_symbols_operators_and_entities():
    page = Page(typeset(parse_formula('forall agent. G (Stop(agent) -> X At(agent, "x <y>"))')))
    assert {e.text for e in page.all("i")} == {"agent"}
    assert [e.text for e in page.all("b")] == ["G", "X"]
    assert [e.text for e in page.all("span", class_="name")] == ["Stop", "At"]
    assert [e.text for e in page.all("span", class_="entity")] == ["x <y>"]


def test_bounds_are_set_low():
    page = Page(typeset(parse_formula("p U[2,5] F[<=3] q")))
    assert [e.text for e in page.all("sub")] == ["2,5", "≤3"]
