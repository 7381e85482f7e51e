"""Cases as data: files of pairs, what is given and what comes out.

A file has any number of cases:

    === a name
    what is given
    ---
    what comes out

`FOTLTN_CASES=write` writes what comes out now into the files, to be reviewed as a change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

CASES = Path(__file__).resolve().parent


class Pair(NamedTuple):
    """A case: its name, what is given, and what should come out."""

    name: str
    given: str
    expected: str

    def __str__(self) -> str:
        """The case as it stands in a file."""
        return f"=== {self.name}\n{self.given}\n---\n{self.expected}\n"


def files(kind: str) -> list[Path]:
    """The files of a kind of cases, which is a folder."""
    found = sorted((CASES / kind).glob("*.txt"))
    assert found, f"there are no cases in {kind}"
    return found


def pairs(file: Path) -> list[Pair]:
    """The cases of a file."""
    listed = []
    for case in re.split(r"^=== ", file.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        name, rest = case.split("\n", 1)
        given, expected = rest.split("\n---\n", 1)
        listed.append(Pair(name, given, expected.rstrip("\n")))
    assert listed, f"{file.name} has no cases"
    return listed


def assert_cases(file: Path, outcome: Callable[[str], str]) -> None:
    """Compare what comes out of each case of a file with what should, or write it down."""
    known = pairs(file)
    now = [Pair(p.name, p.given, outcome(p.given).rstrip("\n")) for p in known]
    if os.environ.get("FOTLTN_CASES") == "write":
        file.write_text("\n".join(map(str, now)), "utf-8")
        return
    for before, after in zip(known, now, strict=True):
        assert after.expected == before.expected, f"{file.name}: {before.name}"
