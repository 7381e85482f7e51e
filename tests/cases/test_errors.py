"""Errors as users see them: each case is a piece of Python, and the error that it ends in."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import fotltn
from tests.cases.pairs import assert_cases, files

THEORY = """sort car
predicate Near(car), Stop(car)
axiom Obey: forall x. G(Near(x) -> WX Stop(x))
"""


def outcome(code: str) -> str:
    names: dict[str, Any] = {
        "fot": fotltn,
        "theory": fotltn.parse(THEORY),
        "facts": {"predicate": ["Near", "Stop"], "arg1": ["ego", "ego"], "time": [0, 2]},
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(code, names)
    except (fotltn.FotError, TypeError) as error:
        return f"{type(error).__name__}: {error}".replace(str(Path.cwd()), "FOLDER")
    return "no error"


@pytest.mark.parametrize("file", files("errors"), ids=lambda file: file.stem)
def test_errors(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert_cases(file, outcome)
