"""The page of promises names every test that shows one, and no test that does not exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reliability.md"

#: `tests/…/test_x.py::test_y`, or a whole file of tests.
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def marked(code: str | ast.expr) -> bool:
    text = code if isinstance(code, str) else ast.unparse(code)
    return "mark.reliability" in text


def shown() -> dict[str, set[str]]:
    """The tests with the marker, by file."""
    tests: dict[str, set[str]] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text("utf-8")
        if not marked(text):
            continue
        code = ast.parse(text)
        every = any(
            isinstance(n, ast.Assign)
            and ast.unparse(n.targets[0]) == "pytestmark"
            and marked(n.value)
            for n in code.body
        )
        names = {
            n.name
            for n in ast.walk(code)
            if isinstance(n, ast.FunctionDef)
            and n.name.startswith("test_")
            and (every or any(map(marked, n.decorator_list)))
        }
        if names:
            tests[str(file.relative_to(ROOT))] = names
    return tests


@pytest.mark.reliability
def test_the_page_names_the_tests_that_show_its_promises():
    tests = shown()
    listed: dict[str, set[str]] = {}
    for file, name in NAMED.findall(PAGE.read_text("utf-8")):
        assert file in tests, f"{file} has no test with the marker"
        assert not name or name in tests[file], f"{file}::{name} is no test with the marker"
        listed.setdefault(file, set()).update({name} if name else tests[file])
    missing = {file: names - listed.get(file, set()) for file, names in tests.items()}
    assert {file: names for file, names in missing.items() if names} == {}
