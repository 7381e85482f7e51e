"""A real browser, and what every page has to stand in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE

playwright = pytest.importorskip("playwright.sync_api")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")

ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
    with playwright.sync_playwright() as started:
        if found is None and not Path(started.chromium.executable_path).exists():
            pytest.skip("there is no Chromium here, neither on the path nor of Playwright")
        running = started.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        yield running
        running.close()


def look_at(browser: Any, path: Path, scheme: str) -> None:
    """No errors, no overflow, nothing that axe complains about, nothing that is fetched."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, color_scheme=scheme)
    told: list[str] = []
    asked: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(path.as_uri())
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
