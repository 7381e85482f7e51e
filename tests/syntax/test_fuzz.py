"""Whatever the text: a formula or theory, or an error of ours, and nothing else.

The number of texts is set by FOTLTN_FUZZ.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from fotltn import check, check_formula, parse_formula, show, show_theory
from fotltn.errors import FotError
from fotltn.syntax import formula as f
from fotltn.syntax import theory as th
from fotltn.syntax.load import parse_theory
from tests.helpers import parse_term
from tests.syntax import grow

COUNT = int(os.environ.get("FOTLTN_FUZZ", "2000"))
READERS: tuple[Callable[[str], Any], ...] = (parse_formula, parse_term, parse_theory)


def use(read: Callable[[str], Any], text: str) -> str:
    """Read a text and go on with what was read; says what became of it."""
    try:
        found = read(text)
    except FotError as error:
        for one in error.diagnostics:
            assert one.message
            assert one.span is None or 0 <= one.span.start <= len(one.span.source.text)
        return "refused"
    match found:
        case f.Formula():
            assert parse_formula(show(found, "unicode")) == found == parse_formula(show(found))
            _check(check_formula, found)
        case f.Term():
            assert parse_term(show(found)) == found
        case th.Theory():
            assert parse_theory(show_theory(found, "unicode")) == found
            _check(check, found)
        case _:
            raise AssertionError(f"neither formula nor theory: {found!r}")
    show_theory(found, "latex") if isinstance(found, th.Theory) else show(found, "latex")
    return "read"


def _check(checker: Callable[[Any], Any], found: object) -> None:
    with contextlib.suppress(FotError):
        checker(found)


def fuzz(seed: int, count: int) -> dict[str, int]:
    """Counts of what happened; the shortest text for each way of breaking is reported."""
    outcomes: dict[str, int] = {"read": 0, "refused": 0}
    broken: dict[str, str] = {}
    for text in grow.texts(seed, count):
        for read in READERS:
            try:
                outcomes[use(read, text)] += 1
            except Exception as error:
                first = (str(error).splitlines() or [""])[0]
                kind = f"{read.__name__}: {type(error).__name__}: {first[:40]}"
                outcomes["broken"] = outcomes.get("broken", 0) + 1
                if len(text) < len(broken.get(kind, text + " ")):
                    broken[kind] = text
    shown = "\n".join(f"{kind}\n    {text!a}" for kind, text in sorted(broken.items()))
    assert not broken, f"{outcomes} after {count} texts:\n{shown}"
    return outcomes


@pytest.fixture(autouse=True)
def _somewhere_empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for include


def test_random_texts_are_read_or_refused():
    outcomes = fuzz(0, COUNT)
    assert outcomes["read"] > COUNT // 10
    assert outcomes["refused"] > COUNT


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_random_texts_are_read_or_refused():
    outcomes = fuzz(1, max(COUNT, 100_000))
    print(outcomes)
    assert outcomes["read"] > 10_000


def test_sentences_of_the_grammar_are_mostly_read():
    """The generator follows the grammar file: without slips of meaning, its texts are read."""
    rng = random.Random(0)
    readers = dict(zip(grow.STARTS, READERS, strict=True))
    refused: dict[str, int] = dict.fromkeys(grow.STARTS, 0)
    for start, read in readers.items():
        for _ in range(200):
            text = " ".join(grow.sentence(rng, start, 15))
            try:
                read(text)
            except FotError:
                refused[start] += 1
    assert all(count < 100 for count in refused.values()), refused


def test_the_generator_reaches_every_rule_and_terminal():
    used = {s.name for rules in grow._rules().values() for r in rules for s in r.expansion}
    assert {t.name for t in grow.grammar().terminals} - used == {"COMMENT", "WHITESPACE"}
    rng = random.Random(0)
    tokens = {t for start in grow.STARTS for _ in range(400) for t in grow.sentence(rng, start)}
    for terminal in used - set(grow._rules()):
        assert tokens & set(grow.spellings(terminal)), terminal


def test_the_fuzzer_notices_what_is_not_ours(monkeypatch):
    def broken(text: str) -> f.Formula:
        if "(" in text:
            raise KeyError("(")
        return parse_formula(text)

    monkeypatch.setattr("tests.syntax.test_fuzz.READERS", (broken,))
    with pytest.raises(AssertionError, match="broken: KeyError"):
        fuzz(0, 100)
