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
from tests.browser import FOCUSED, browser, objections, tab_to, too_wide
from tests.patience import PATIENCE
from tests.test_docs_keys import expected
from tests.test_public import uses

__all__ = ["browser"]

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


#: Operators beside those of time, in ASCII and as signs.
CONNECTIVES = ["!", "&", "|", "->", "<->", "forall", "exists", "¬", "∧", "∨", "→", "↔", "∀", "∃"]


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
    text = html.unescape(re.sub(r"<[^>]+>", "", with_entry[0].read_text("utf-8")))
    code = "\n".join(line for line in text.splitlines() if line.startswith((">>>", "...")))
    assert uses(name, code) or "fotltn.dsl" in code or (name == "inspect" and "fot.Model" in code)


#: Runs in the page: types words one after the other, each with a title that should be there, and
#: gives the titles until that one: ten at once, more where one scrolls to the end.
SEARCH = """async (words) => {
  const box = document.querySelector(".md-search__input");
  const told = () => document.querySelector(".md-search-result__meta").innerText;
  const type = async (text, wanted) => {
    box.value = text;
    box.dispatchEvent(new KeyboardEvent("keyup", { bubbles: true }));
    for (let tries = 0; tries < 2000 && !wanted.test(told()); tries += 1) {
      await new Promise((done) => setTimeout(done, 5));
    }
  };
  box.focus();
  await type("", /Type/);
  const found = {};
  const scroll = document.querySelector(".md-search__scrollwrap");
  for (const [word, wanted] of Object.entries(words)) {
    await type(word, /matching/);
    for (let tries = 0; tries < 200; tries += 1) {
      const titles = document.querySelectorAll(".md-search-result__item h1");
      found[word] = Array.from(titles, (title) => title.innerText);
      if (!wanted || found[word].includes(wanted)) break;
      scroll.scrollTop = scroll.scrollHeight;
      await new Promise((done) => setTimeout(done, 10));
    }
    await type("", /Type/);
  }
  return found;
}"""


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that is closed also if a test fails."""
    with browser.new_page(viewport={"width": 1280, "height": 900}) as opened:
        opened.set_default_timeout(1000 * PATIENCE)
        yield opened


def test_the_search_finds_every_operator_and_setting(page, site):
    """On pages that are opened as files, where no server is; typed into one page."""
    page.goto((site / "index.html").as_uri())
    wanted: dict[str, str | None] = dict.fromkeys(operators() + CONNECTIVES, "The language")
    wanted |= dict.fromkeys(settings(), "Every key of project.toml")
    titles = page.evaluate(SEARCH, wanted | {"zzqqyy": None})
    assert titles.pop("zzqqyy") == []
    assert not {word: found for word, found in titles.items() if wanted[word] not in found}


#: A page of each kind, with everything that the kinds have: blocks, tables, pictures, sheets.
KINDS = (
    "index", "language", "settings", "cheatsheet", "inspect", "reference/semantics",
    "notebooks/tour", "decisions/index", "changelog",
)  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_pages_are_easy_to_reach_and_to_read(browser, site, name):
    """By the rules of axe; the theme's buttons to copy code are left out, which have no names."""
    schemes = {"light": "default", "dark": "slate"}  # a page keeps the scheme that it began with
    for scheme, called in schemes.items():
        page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
        page.set_default_timeout(1000 * PATIENCE)
        page.goto((site / f"{name}.html").as_uri())
        assert page.get_attribute("body", "data-md-color-scheme") == called
        dark = scheme == "dark"
        assert objections(page, contrast_only=dark, leave_out=".md-code__nav") == "", scheme
        page.set_viewport_size({"width": 390, "height": 900})
        assert too_wide(page) <= 0
        page.close()


def test_the_site_with_the_keyboard_alone(page, site):
    """Past the menus to the text, to another page, and by the search to a third."""
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "Skip to content"
    page.keyboard.press("Enter")
    page.wait_for_function("location.hash.length > 1")
    tab_to(page, "cheat sheet")
    page.keyboard.press("Enter")
    page.wait_for_url("**/cheatsheet.html")
    page.keyboard.press("/")
    page.keyboard.type("on_conflict")
    page.wait_for_function("document.querySelector('.md-search-result__item')")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/settings.html*")
    page.wait_for_load_state()
    tab_to(page, "Dark colours")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("body[data-md-color-scheme=slate]")


def test_the_cheat_sheet_is_one_sheet(site, pages):
    if not shutil.which("chromium"):
        pytest.skip("there is no Chromium to print it")
    assert "cheatsheet.pdf" in pages[site / "cheatsheet.html"].links
    sheet = (site / "cheatsheet.pdf").read_bytes()
    assert sheet.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", sheet)) == 1
