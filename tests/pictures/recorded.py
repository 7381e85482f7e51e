"""What is written down beside pictures, so that stale ones are noticed without a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.figures import DOCS

ROOT = DOCS.parent
MANIFEST = DOCS / "pictures.json"

#: The pages that pictures show.
TEMPLATES = (
    *sorted((ROOT / "fotltn/web/pages").glob("*.html")),
    *sorted((ROOT / "fotltn/reporting/pages").glob("*.j2")),
    *sorted((ROOT / "reproduction/report/pages").glob("*.j2")),
)


def words(template: Path) -> list[str]:
    """What a page always says: headings, labels and sentences, without what is filled in.

    A change of style or of a program leaves these as they are; a new part of a page does not.
    """
    text = template.read_text("utf-8")
    text = re.sub(r"\{#.*?#\}|<!--.*?-->|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|<[^>]*>", "\n", text, flags=re.DOTALL)
    return [line for part in text.split("\n") if re.search(r"\w\w", line := " ".join(part.split()))]


class Manifest:
    """The text of each page at the time of its picture, and the words of all templates then."""

    def __init__(self) -> None:
        self.pictures: dict[str, list[str]] = {}

    def add(self, name: str, text: str) -> None:
        """Keep the text of the page that a picture shows, without what is below."""
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
        self.pictures[name] = lines[:120]

    def text(self) -> str:
        """All of it, for a file."""
        content = {"pictures": dict(sorted(self.pictures.items())), "templates": now()}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def now() -> dict[str, list[str]]:
    """The words of all templates as they are."""
    return {path.relative_to(ROOT).as_posix(): words(path) for path in TEMPLATES}
