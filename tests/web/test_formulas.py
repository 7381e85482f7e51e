"""The page of a typed formula: its buttons, and its rows without a browser."""

import re

import pytest

from fotltn.syntax.operators import Temporal
from fotltn.syntax.parse import parse_formula
from fotltn.web.formulas import OPERATORS
from tests.web.test_pages import HTML, get, text_of

#: The signs of the language that are no temporal operators.
SIGNS = {"forall", "exists", "!", "&", "|", "->", "<->", "=", "!=", "<", "<=", ">", ">="}

BUTTONS = [text for group in OPERATORS.values() for text, _ in group]


def test_every_operator_has_a_button():
    plain = {text.removesuffix("x. ").strip() for text in BUTTONS}
    assert plain >= SIGNS | {op.ascii for op in Temporal}


@pytest.mark.parametrize("text", BUTTONS)
def test_what_a_button_inserts_is_read(text):
    operands = ("c", "d") if re.fullmatch(r" [!=<>]+ ", text) and "-" not in text else ("p", "q")
    left, right = operands
    parse_formula(f"{left}{text}{right}" if text.startswith(" ") else f"{text}{right}")


def test_rows_of_a_formula_are_sorted_and_narrowed_on_the_page(client):
    asked = {"text": "Stop(x)", "trace": "one"}
    by_name = get(client, "/formula", sort="name", **asked)
    assert by_name["sort"] == "name"
    assert [row["row"] for row in by_name["rows"]] == sorted(r["row"] for r in by_name["rows"])
    page = client.get("/formula", params={**asked, "count": 1}, headers=HTML).text
    assert "1 to 1 of 3 Next" in text_of(page)
    page = client.get("/formula", params={**asked, "find": "walker"}, headers=HTML).text
    assert "walker &amp; co" in page
    assert "&lt;script&gt;alert(1)" not in page.split('id="rows"')[1].split("</section>")[0]
    assert client.get("/formula", params={**asked, "sort": "zzz"}).status_code == 400
