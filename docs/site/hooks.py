"""What the site adds: files beside docs/, notebooks, the reference, and colours for formulas.

MkDocs calls the functions named on_…. The pages stay as they read in a checkout: links that leave
docs/ are turned to where their file is on the site, and the words after the language of a block,
which say how tests run it, become its title or go.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pygments.lexers
from mkdocs.structure.files import File, Files

from fotltn.errors import DataError
from fotltn.reporting.pdf import browser, printed

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))

#: Files beside docs/, by their place on the site.
BESIDE = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "experiments.md": "reproduction/README.md",
    "LICENSE.txt": "LICENSE",
    "CITATION.cff": "CITATION.cff",
}
_PLACES = {source: place for place, source in BESIDE.items()} | {
    "docs/decisions": "decisions/index.md",
    "reproduction": "experiments.md",
}

#: Pages where people look things up: the search shows them first.
_LOOKED_UP = {"cheatsheet.md", "language.md", "semantics.md", "settings.md", "cli.md", "api.md"}

#: How the cheat sheet calls its PDF in a checkout.
_SHEET = "build/site/cheatsheet.pdf"

_FENCE = re.compile(r"^(```|~~~)(\w+) ([^\n]+)$", re.MULTILINE)
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s:]+)(\))")
_ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
_NAME = re.compile(r"^\| `(fotltn\.\w+)` \|", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Let blocks of formulas have colours."""
    sys.path.insert(0, str(Path(__file__).parent))
    pygments.lexers.LEXERS["FotLexer"] = ("fot_lexer", "FOT", ("fot",), ("*.fot",), ())
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the files beside docs/, notebooks, a list of decisions, and the reference."""
    texts = {place: (ROOT / source).read_text("utf-8") for place, source in BESIDE.items()}
    texts["decisions/index.md"] = decisions()
    texts |= {f"reference/{place}.md": text for place, text in reference()}
    texts |= {f"notebooks/{file.stem}.md": notebook(file) for file in NOTEBOOKS}
    for place, text in texts.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn what a checkout shows into what the site shows."""
    place = page.file.src_uri
    if place in _LOOKED_UP:
        page.meta["search"] = {"boost": 12 if place == "settings.md" else 4}
    source = BESIDE.get(place, f"docs/{place}")
    if place == "cheatsheet.md" and _printing():
        markdown = markdown.replace(f"`{_SHEET}`", '<a href="cheatsheet.pdf">cheatsheet.pdf</a>')
    parts = _FENCED.split(markdown)
    parts[::2] = [_prose(part, place, source) for part in parts[::2]]
    parts[1::2] = [_FENCE.sub(_fence, part) for part in parts[1::2]]
    return "".join(parts)


def on_post_page(output: str, **_: Any) -> str:
    """Give the search a name for those who hear the page."""
    return output.replace('role="dialog">', 'role="dialog" aria-label="Search">', 1)


def on_post_build(config: Any) -> None:
    """Print the cheat sheet as a sheet of paper, if a browser is there that prints."""
    if _printing():
        page = Path(config.site_dir) / "cheatsheet.html"
        page.with_suffix(".pdf").write_bytes(printed(page))


def _printing() -> bool:
    try:
        return bool(browser())
    except DataError:
        return False


def notebook(file: Path) -> str:
    """A notebook as a page: its text, its code, and where to get the file."""
    title, *cells = json.loads(file.read_text("utf-8"))["cells"]
    parts = ["".join(title["source"]), f"[Get this notebook]({file.name}) and open it in Jupyter."]
    for cell in cells:
        source = "".join(cell["source"])
        is_text = cell["cell_type"] == "markdown"
        parts.append(source if is_text else f"```python\n{source}\n```")
    return "\n\n".join(parts) + "\n"


def decisions() -> str:
    """All decisions by title."""
    pages = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    titles = [page.read_text("utf-8").split("\n", 1)[0].lstrip("# ") for page in pages]
    lines = [f"- [{title}]({page.name})" for title, page in zip(titles, pages, strict=True)]
    return "# Decisions\n\nChoices that the code does not explain.\n\n" + "\n".join(lines) + "\n"


def reference() -> Iterator[tuple[str, str]]:
    """A page for each table of public names: their docstrings, and the examples below the table."""
    sections = re.split(r"^## ", (DOCS / "api.md").read_text("utf-8"), flags=re.MULTILINE)
    for section in sections[1:]:
        title = section.split("\n", 1)[0]
        place = re.sub(r"\W+", "-", title.lower())
        examples = "\n".join(_FENCED.findall(section))
        entries = "\n\n".join(f"::: {name}" for name in _NAME.findall(section))
        text = "The examples use `theory`, `facts` and `data` from [Public names](../api.md)."
        yield place, f"# {title}\n\n{text}\n\n{entries}\n\n## At work\n\n{examples}\n"


def _fence(match: re.Match[str]) -> str:
    mark, language, rest = match.groups()
    named = rest.endswith((".csv", ".fot", ".toml"))
    return f'{mark}{language} title="{rest}"' if named else f"{mark}{language}"


def _prose(text: str, place: str, source: str) -> str:
    """Links, and tables: in GitHub's tables a bar in code needs a backslash, here it shows."""
    text = _LINK.sub(lambda m: f"{m[1]}{_turned(m[2], place, source)}{m[3]}", text)
    if place == "api.md":
        text = _NAME.sub(r"| [`\1`][\1] |", text)
    return _ROW.sub(_bars, text)


def _bars(row: re.Match[str]) -> str:
    return re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), row[0])


def _turned(target: str, place: str, source: str) -> str:
    path, hash_, anchor = target.partition("#")
    if not path:
        return target
    file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    there = _PLACES.get(file, file.removeprefix("docs/"))
    return posixpath.relpath(there, posixpath.dirname(place) or ".") + hash_ + anchor
