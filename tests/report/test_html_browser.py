"""Reports in a real browser: no errors, no overflow, nothing that axe complains about."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fotltn.report.html_model import model_content
from fotltn.report.html_model_page import model_page
from fotltn.report.html_sweep import sweep_content, sweep_page
from fotltn.report.records import record
from tests.report.common import TRUTH, values
from tests.report.test_html import small

pytest.importorskip("matplotlib")
playwright = pytest.importorskip("playwright.sync_api")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")

ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder: Path = tmp_path_factory.mktemp("pages")
    runs = [
        record(values(method=method, fraction=f, repetition=i))
        for method in ("FOT-LTN+BK", "HTGNN") for f in (0.1, 0.2) for i in range(2)
    ]  # fmt: skip
    texts = {
        "model": model_page(model_content(small(train=0.5), "runs")),
        "sweep": sweep_page(
            sweep_content(runs, "sweep", version="0.1.0", truth=TRUTH, all_false=1.0)
        ),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, "utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
    with playwright.sync_playwright() as started:
        if found is None and not Path(started.chromium.executable_path).exists():
            pytest.skip("there is no Chromium here, neither on the path nor of Playwright")
        running = started.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        yield running
        running.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["model", "sweep"])
def test_a_page_in_a_browser(pages, browser, name, scheme):
    context = browser.new_context(viewport={"width": 1200, "height": 900}, color_scheme=scheme)
    told: list[str] = []
    asked: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(pages[name].as_uri())
    for details in page.query_selector_all("details"):
        details.evaluate("element => { element.open = true }")
    # What is in a figure is hidden behind its label, and would take axe many seconds.
    found = axe.Axe().run(page, context={"exclude": [["svg.plot > g"]]}).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found] == []
    for width in (1200, 768, 360):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    ink = page.evaluate("getComputedStyle(document.querySelector('svg.plot text')).fill")
    bright = sum(int(n) for n in ink.removeprefix("rgb(").removesuffix(")").split(",")) > 384
    assert bright == (scheme == "dark")
    assert told == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    context.close()


def test_links_lead_somewhere_by_keyboard(pages, browser):
    page = browser.new_page()
    page.goto(pages["model"].as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.url.endswith("#axioms")
    page.close()


def test_printed_pages_are_not_cut(pages, browser):
    page = browser.new_page(viewport={"width": 700, "height": 1000})
    page.emulate_media(media="print")
    page.goto(pages["model"].as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.pdf().startswith(b"%PDF")
    page.close()
