"""Files of pairs are read, compared and written as their page says."""

import pytest

from tests.cases.pairs import Pair, assert_cases, pairs

TEXT = "=== one\na\nb\n---\nA\n\nB\n\n=== two === 2\nc\n---\nC\n"


def test_pairs_are_read_compared_and_written(tmp_path, monkeypatch):
    monkeypatch.delenv("FOTLTN_CASES", raising=False)
    file = tmp_path / "upper.txt"
    file.write_text(TEXT, "utf-8")
    assert pairs(file) == [Pair("one", "a\nb", "A\n\nB"), Pair("two === 2", "c", "C")]
    assert_cases(file, lambda given: given.upper().replace("\n", "\n\n"))
    with pytest.raises(AssertionError, match="two"):
        assert_cases(file, lambda given: "A\n\nB\n" if "a" in given else "D")
    assert file.read_text("utf-8") == TEXT
    monkeypatch.setenv("FOTLTN_CASES", "write")
    assert_cases(file, lambda given: f"{given}!\n")
    assert pairs(file) == [Pair("one", "a\nb", "a\nb!"), Pair("two === 2", "c", "c!")]
