"""A real browser for tests of pages: one for each module that asks for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

#: Opens a page of a server by its path.
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A module has its own, since nothing else can run an event loop while one is open."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with api.sync_playwright() as tool:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        if path is None and not Path(tool.chromium.executable_path).exists():
            pytest.skip("there is no Chromium; install one, or run: playwright install chromium")
        started = tool.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


def opening(browser: Any, url: str, token: str) -> Iterator[Open]:
    """Open pages as somebody who has the address; whatever the console complains of fails."""
    complaints: list[str] = []
    contexts = []

    def go(path: str = "/", *, width: int = 1100, height: int = 800, scheme: str = "light") -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, base_url=url
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(f"/?token={token}")
        assert token not in page.url
        if path != "/":
            page.goto(path)
        return page

    yield go
    for context in contexts:
        context.close()
    assert [c for c in complaints if "404" not in c] == []


def ready(page: Any) -> Any:
    """A page whose heat map is drawn."""
    page.wait_for_selector(".heat[data-ready=true]")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))")
    return page


def settled(page: Any) -> Any:
    """A page with nothing left to come."""
    page.wait_for_selector("main:not(:has([data-pending]))")
    if page.locator("[data-panels]").count():
        ready(page)
    return page


def too_wide(page: Any) -> int:
    """How many pixels a page is wider than its window."""
    over: int = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return over


def objections(page: Any, *, contrast_only: bool = False, leave_out: str | None = None) -> str:
    """What the rules of axe have against a page; nothing if they are kept."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    results = axe.run(
        page,
        context={"exclude": [[leave_out]]} if leave_out else None,
        options={"runOnly": ["color-contrast"]} if contrast_only else None,
    )
    return str(results.generate_report()) if results.violations_count else ""


def assert_easy(page: Any, *, leave_out: str | None = None) -> None:
    """Easy to reach and to read: by the rules of axe, in light and dark, on a narrow screen.

    Of the dark scheme those of contrast, since the others do not depend on colours.
    """
    page.emulate_media(color_scheme="light")
    assert objections(page, leave_out=leave_out) == "", page.url
    page.emulate_media(color_scheme="dark")
    assert objections(page, contrast_only=True, leave_out=leave_out) == "", f"{page.url}, dark"
    size = page.viewport_size
    page.set_viewport_size({"width": 360, "height": 800})
    assert too_wide(page) <= 0, page.url
    page.set_viewport_size(size)


#: What has the focus, as a reader of screens would call it.
FOCUSED = """() => { const one = document.activeElement;
  return one.getAttribute("aria-label") || one.labels?.[0]?.childNodes[0].textContent.trim()
    || one.innerText?.trim() || one.id; }"""


#: Whether one sees what has the focus: by an outline, which a hidden box leaves to what follows.
SEEN = """() => { const one = document.activeElement;
  return [one, one.nextElementSibling].some(
    (e) => e && getComputedStyle(e).outlineStyle !== "none"); }"""


def tab_to(page: Any, name: str) -> None:
    """Press Tab until something of that name has the focus, and make sure that one sees it."""
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED) == name:
            assert page.evaluate(SEEN), f"{name} has the focus, and nothing shows it"
            return
    raise AssertionError(f"Tab does not lead to {name!r} on {page.url}")
