"""The tables of the page about the recipe, from the records of its runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))  # `docs/reproduction` is no package

from reproduction.pages import records_of  # noqa: E402
from reproduction.recipe import page  # noqa: E402

NAMES = ("results", "ablations", "violations", "search", "deliveries")


@cache
def _tables() -> dict[str, str]:
    _, records = records_of(DOCS)
    return page.tables(records, DOCS / "recipe")


def _table(name: str) -> str:
    return _tables()[name]


#: What writes each region of the page.
REGIONS: dict[str, Callable[[], str]] = {f"recipe_{n}": partial(_table, n) for n in NAMES}
