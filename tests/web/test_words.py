"""The words of pages: those of the glossary, with their units."""

import re
from pathlib import Path

from fotltn.format import points
from tests.web.test_pages import HTML, get, text_of

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def test_the_first_page_says_what_is_counted(client):
    said = text_of(client.get("/", headers=HTML).text)
    assert "3 entities of sort agent, 1 of sort place, 4 time points, 2 traces" in said


def test_differences_of_shares_have_a_unit_and_enough_digits(pair):
    page = text_of(pair.get("/compare", headers=HTML).text)
    for one in get(pair, "/compare")["axioms"]:
        assert points(one["rate_difference"]) in page
    assert "in percentage points (pp)" in page


def test_the_worst_cell_has_one_name(client):
    """An axiom without violations shows its worst cell, as the documentation calls it."""
    for one in get(client, "/")["axioms"]:
        name = one["axiom"]
        axiom = get(client, f"/axiom/{name}")
        page = text_of(client.get(f"/axiom/{name}", headers=HTML).text)
        if axiom["violated"]:
            assert "Worst violation" in page, name
        elif any(row["lowest"] < 1 for row in axiom["rows"]):
            assert "Worst cell" in page, name
    text = (DOCS / "inspect.md").read_text("utf-8")
    assert re.findall(r"(?i)weakest \w+", text) == []
    assert "**Worst violation**" in " ".join(text.split())
    assert "**Worst cell**" in " ".join(text.split())
    assert "| **worst** | the worst cell" in (DOCS / "glossary.md").read_text("utf-8")
