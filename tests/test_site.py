"""The site: built without a warning, whole without a network, and its search finds things."""

from __future__ import annotations

import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import fotltn
from fotltn.syntax.operators import Temporal
from tests.test_docs_keys import expected

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.slow

#: What a browser loads by itself, by the element and the attribute that name it.
LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}


@dataclass
class Page(html.parser.HTMLParser):
    """The anchors of a page, and what it points to."""

    anchors: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.add(value)
                if (tag, name) in LOADED:
                    self.loaded.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site that `make site` has built, or one that is built here."""
    if built := os.environ.get("FOTLTN_SITE"):
        return ROOT / built
    pytest.importorskip("mkdocs", reason="the extra 'docs' is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    parsed = {}
    for file in site.rglob("*.html"):
        parsed[file] = Page()
        parsed[file].feed(file.read_text("utf-8"))
    assert len(parsed) > 30
    return parsed


def indexed(site: Path, page: str) -> str:
    """What the search knows of a page, without markup."""
    entries = json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    texts = [entry["text"] for entry in entries if entry["location"].split("#")[0] == page]
    return html.unescape(re.sub(r"<[^>]+>", " ", "\n".join(texts)))


def settings() -> list[str]:
    return sorted({key for table in expected().values() for key in table})


def operators() -> list[str]:
    spelled = [(op.value.ascii, op.value.unicode, op.value.words) for op in Temporal]
    return [word for words in spelled for word in words]


def test_every_link_leads_somewhere(pages):
    broken = []
    for file, page in pages.items():
        for link in page.links:
            target = urllib.parse.urlsplit(link)
            if target.scheme or file.name == "404.html":
                continue
            there = (file.parent / urllib.parse.unquote(target.path)).resolve()
            there = file if not target.path else there
            wanted = urllib.parse.unquote(target.fragment)
            anchors = pages[there].anchors if there in pages else {wanted}
            if not there.exists() or (wanted and wanted not in anchors):
                broken.append(f"{file.name}: {link}")
    assert not broken


def test_nothing_comes_from_elsewhere(site, pages):
    assert not {f"{file.name}: {u}" for file, p in pages.items() for u in p.loaded if "//" in u}
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(?:https?:)?//", sheet.read_text("utf-8")), sheet


def test_the_search_knows_operators_and_settings(site):
    language, keys = indexed(site, "language.html"), set(indexed(site, "settings.html").split())
    assert not [word for word in operators() if not re.search(rf"(?<!\w){word}(?!\w)", language)]
    assert not set(settings()) - keys


@pytest.mark.parametrize("name", fotltn.__all__)
def test_a_public_name_has_an_entry(name, pages):
    with_entry = [f for f, page in pages.items() if f"fotltn.{name}" in page.anchors]
    assert [file.parent.name for file in with_entry] == ["reference"]
    assert "&gt;&gt;&gt;" in with_entry[0].read_text("utf-8")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with api.sync_playwright() as tool:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        if path is None and not Path(tool.chromium.executable_path).exists():
            pytest.skip("there is no Chromium; install one, or run: playwright install chromium")
        started = tool.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


def test_the_search_finds_operators_and_settings(browser, site):
    """On pages that are opened as files: no server is there."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.goto((site / "index.html").as_uri())
    words = [word for op in Temporal for word in (op.value.words, op.value.unicode)]
    assert not [word for word in words if not search(opened, word)]
    keys = ["on_conflict", "unknown_categories", "reach"]
    assert not [key for key in keys if "Every key of project.toml" not in search(opened, key)]
    assert not search(opened, "zzqqyy")


def search(page: Any, words: str) -> list[str]:
    """The titles of the pages that are found; what was found before is cleared first."""
    for text, shown in (("zzqqzz", "No matching"), (words, "[0-9] matching")):
        page.fill(".md-search__input", text)
        page.dispatch_event(".md-search__input", "keyup")
        meta = "document.querySelector('.md-search-result__meta').innerText"
        try:
            page.wait_for_function(f"/{shown}/.test({meta})", timeout=10_000)
        except Exception:  # Playwright's own, of a package that may be missing
            return []
    titles = "all => all.map(title => title.innerText)"
    listed: list[str] = page.eval_on_selector_all(".md-search-result__item h1", titles)
    return listed


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_the_screen(browser, site, scheme, width):
    opened = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    for name in ("index", "settings", "semantics", "reference/learning"):
        opened.goto((site / f"{name}.html").as_uri())
        assert opened.evaluate("document.documentElement.scrollWidth") <= width, name
        colours = opened.get_attribute("body", "data-md-color-scheme")
        assert colours == {"light": "default", "dark": "slate"}[scheme]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_hard_to_reach_or_to_read(browser, site, scheme):
    """By the rules of axe; the theme's buttons to copy code are left out, which have no names."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    opened = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    opened.set_default_timeout(120_000)
    for name in ("index", "language", "settings", "reference/learning", "notebooks/tour"):
        opened.goto((site / f"{name}.html").as_uri())
        result = axe.run(opened, context={"exclude": [[".md-code__nav"]]})
        assert result.violations_count == 0, f"{name}: {result.generate_report()}"
