"""Counts where entities come and go: a rule and rows are given, its cells come out."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

import fotltn
from tests.cases.pairs import assert_cases, files

DECLARED = "sort p\npredicate Sick(p), Here(p)\n"


def outcome(given: str) -> str:
    """The counts of each rule, and the cells at which it is false."""
    text, rows = given.split("\n\n")
    theory = fotltn.parse(DECLARED + text)
    listed = list(csv.DictReader(rows.splitlines()))
    stated: list[tuple[Any, ...]] = [("Here", r["who"], r["day"], 1) for r in listed]
    stated += [("Sick", r["who"], r["day"], float(r["sick"])) for r in listed]
    columns = dict(zip(("predicate", "arg1", "time", "truth"), map(list, zip(*stated, strict=True)),
                       strict=True))  # fmt: skip
    data = fotltn.read(theory, columns, presence="Here")
    return "\n".join(counted(theory, axiom.name, data) for axiom in theory.axioms)


def counted(theory: fotltn.Theory, name: str, data: fotltn.Tables) -> str:
    cells = fotltn.cells(theory[name], data, semantics="crisp")
    tally = cells.counts()
    absent, support, held, undecided = (
        int(n.sum()) for n in (tally.absent, tally.support, tally.held, tally.undecided)
    )
    wrong = [
        " ".join([*one.binding.values(), str(one.time)]) for one in cells.worst() if one.violated
    ]
    assert len(wrong) == support - held
    return (
        f"{name}: {int(tally.cells.sum())} cells, {absent} absent, {undecided} undecided; "
        f"{held} of {support} hold; false at {', '.join(wrong) or 'none'}"
    )


@pytest.mark.parametrize("file", files("presence"), ids=lambda file: file.stem)
def test_counts(file: Path) -> None:
    assert_cases(file, outcome)
