"""Versions agree: the package, its metadata, the citation, and the changelog."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import fotltn

ROOT = Path(__file__).resolve().parent.parent
NUMBER = r"\d+\.\d+\.\d+"


def disagreements(package: str, metadata: str, citation: str, changelog: str) -> list[str]:
    """What is wrong with four places that name a version.

    A version in development has a section Unreleased, and one cites the last release.
    """
    first, *sections = re.findall(rf"^## \[(Unreleased|{NUMBER})\]", changelog, re.MULTILINE)
    released = [name for name in (first, *sections) if name != "Unreleased"]
    cited = re.search(r"^version: (.*)$", citation, re.MULTILINE)
    wrong = []
    if package != metadata:
        wrong.append(f"fotltn.__version__ is {package}, pyproject.toml has {metadata}")
    if package.endswith(".dev0"):
        if first != "Unreleased":
            wrong.append(f"{package} needs a section Unreleased in CHANGELOG.md")
        if package.removesuffix(".dev0") in released:
            wrong.append(f"{package} was released, by CHANGELOG.md")
    elif first != package:
        wrong.append(f"the newest section of CHANGELOG.md is {first}, not {package}")
    if cited is None or cited[1] != released[0]:
        wrong.append(f"CITATION.cff does not name {released[0]}, the last release")
    return wrong


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_versions_agree():
    metadata = tomllib.loads(text("pyproject.toml"))["project"]["version"]
    places = text("CITATION.cff"), text("CHANGELOG.md")
    assert disagreements(fotltn.__version__, metadata, *places) == []


OPEN, CLOSED = "## [Unreleased]\n\n## [0.1.0] - 2026-11-15\n", "## [0.1.0] - 2026-11-15\n"


@pytest.mark.parametrize(
    ("package", "metadata", "cited", "changelog", "wrong"),
    [
        ("0.2.0.dev0", "0.2.0.dev0", "0.1.0", OPEN, None),
        ("0.1.0", "0.1.0", "0.1.0", CLOSED, None),
        ("0.2.0.dev0", "0.2.0", "0.1.0", OPEN, "pyproject.toml has 0.2.0"),
        ("0.2.0.dev0", "0.2.0.dev0", "0.1.0", CLOSED, "needs a section Unreleased"),
        ("0.1.0.dev0", "0.1.0.dev0", "0.1.0", OPEN, "was released"),
        ("0.1.0", "0.1.0", "0.1.0", OPEN, "newest section of CHANGELOG.md is Unreleased"),
        ("0.2.0", "0.2.0", "0.1.0", CLOSED, "newest section of CHANGELOG.md is 0.1.0"),
        ("0.2.0.dev0", "0.2.0.dev0", "0.2.0", OPEN, "does not name 0.1.0"),
    ],
)
def test_versions_that_disagree_are_noticed(package, metadata, cited, changelog, wrong):
    said = disagreements(package, metadata, f"title: A\nversion: {cited}\n", changelog)
    assert len(said) == (wrong is not None)
    assert wrong is None or wrong in said[0]
