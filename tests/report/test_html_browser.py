"""The report of a model in a real browser: by eye, by keyboard, on paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from fotltn.reporting.model_report import model_content, model_page
from tests.patience import PATIENCE
from tests.report.browser import browser as browser
from tests.report.browser import look_at
from tests.report.test_html import small

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def page_of_a_model(tmp_path_factory) -> Path:
    path: Path = tmp_path_factory.mktemp("pages") / "model.html"
    path.write_text(model_page(model_content(small(train=0.5), "runs")), "utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_in_a_browser(page_of_a_model, browser, scheme):
    look_at(browser, page_of_a_model, scheme)


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
