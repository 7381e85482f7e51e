"""What every page of a report has to stand in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.browser import assert_easy, too_wide
from tests.patience import PATIENCE


def look_at(browser: Any, path: Path, *, plots: bool = True) -> None:
    """No errors, no overflow, nothing that axe complains about, nothing that is fetched."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
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
    assert_easy(page, leave_out="svg.plot > g")
    page.set_viewport_size({"width": 768, "height": 800})
    assert too_wide(page) <= 0
    chosen, colour = ("svg.plot text", "fill") if plots else ("body", "color")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        ink = page.evaluate(f"getComputedStyle(document.querySelector('{chosen}')).{colour}")
        bright = sum(int(n) for n in ink.removeprefix("rgb(").removesuffix(")").split(",")) > 384
        assert bright == (scheme == "dark")
    assert told == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    context.close()
