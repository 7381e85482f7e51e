"""The report of a model in a real browser: by eye, by keyboard, on paper."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fotltn.errors import DataError
from fotltn.project.model import Model
from fotltn.reporting.model_report import ModelContent, brief_page, model_content, model_page
from fotltn.reporting.pdf import browser as printing_browser
from fotltn.reporting.pdf import check_pdf, write_pdf
from tests.browser import browser as browser
from tests.patience import PATIENCE
from tests.report.browser import look_at
from tests.report.test_html import small

pytest.importorskip("matplotlib")


def pages(pdf: bytes) -> int:
    """How many pages a PDF has."""
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


@pytest.fixture(scope="module")
def content() -> ModelContent:
    return model_content(small(train=0.5), "runs")


@pytest.fixture(scope="module")
def page_of_a_model(content, tmp_path_factory) -> Path:
    path: Path = tmp_path_factory.mktemp("pages") / "model.html"
    path.write_text(model_page(content), "utf-8")
    return path


def test_a_page_in_a_browser(page_of_a_model, browser):
    look_at(browser, page_of_a_model)


def test_links_lead_somewhere_by_keyboard(page_of_a_model, browser):
    page = browser.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(page_of_a_model.as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_function("location.hash === '#axioms'")
    page.close()


def test_printed_pages_are_not_cut(page_of_a_model, browser):
    page = browser.new_page(viewport={"width": 700, "height": 1000})
    page.emulate_media(media="print")
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(page_of_a_model.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.pdf().startswith(b"%PDF")
    page.close()


def test_the_brief_page_in_a_browser(content, tmp_path, browser):
    path = tmp_path / "brief.html"
    path.write_text(brief_page(content), "utf-8")
    look_at(browser, path, plots=False)


def test_a_page_is_printed_into_a_file(content, tmp_path):
    try:
        printing_browser()
    except DataError:
        pytest.skip("there is no browser that prints")
    file = tmp_path / "report.pdf"
    write_pdf(brief_page(content), file)
    assert file.read_bytes().startswith(b"%PDF")
    check_pdf(file)  # it is ours, and may be replaced
    file.write_bytes(b"%PDF-1.4 of somebody else")
    with pytest.raises(DataError, match="is not a fotltn report"):
        check_pdf(file)


def many_axioms() -> Model:
    """As much as a brief page shows: violated axioms with long formulas, and much advice."""
    sides = ["Stop(x) & Near(y)", "Near(x) | Stop(y)", "!Stop(x)", "!Near(y) | Stop(x)"]
    axioms = [
        f"axiom Rule{i}{j}: forall x, y. G(({a}) & (Near(x) | Stop(y)) -> WX (F ({b}) & ({a})))"
        for i, a in enumerate(sides)
        for j, b in enumerate(sides[:2])
    ]
    theory = "\n".join(["sort agent", "predicate Near(agent), Stop(agent)", *axioms])
    return small(theory, train=0.5)


def test_the_brief_page_is_one_page_of_paper(tmp_path, browser):
    content = model_content(many_axioms(), "runs")
    assert len(content.axioms) > 6
    assert len(content.brief_advice) >= 4
    path = tmp_path / "brief.html"
    path.write_text(brief_page(content), "utf-8")
    page = browser.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(path.as_uri())
    for paper in ("A4", "Letter"):
        assert pages(page.pdf(format=paper, prefer_css_page_size=True)) == 1
    page.close()


def test_paper_shows_what_is_folded(page_of_a_model, tmp_path, browser):
    text = page_of_a_model.read_text("utf-8")
    unfolded = tmp_path / "unfolded.html"
    unfolded.write_text(re.sub("<details( open)?", "<details open", text), "utf-8")
    assert text != unfolded.read_text("utf-8")
    page = browser.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    printed = []
    for path in (page_of_a_model, unfolded):
        page.goto(path.as_uri())
        page.emulate_media(media="print")
        printed.append(page.evaluate("document.documentElement.scrollHeight"))
    assert printed[0] == printed[1]
    page.close()


def test_a_link_into_a_fold_opens_it(page_of_a_model, browser):
    page = browser.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(page_of_a_model.as_uri())
    for name in ("Training", "Theory"):
        heading = page.get_by_role("heading", name=name, exact=True)
        fold = page.locator("details", has=heading)
        assert fold.get_attribute("open") is None
        page.get_by_role("link", name=name, exact=True).click()
        page.wait_for_function(f"location.hash === '#{name.lower()}-inside'")
        assert fold.get_attribute("open") is not None
    page.close()


def test_without_a_browser_it_is_said_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr("fotltn.reporting.pdf.BROWSERS", ("no such browser",))
    with pytest.raises(DataError, match="printing a PDF needs Chromium, Chrome or Edge"):
        check_pdf(tmp_path / "report.pdf")
