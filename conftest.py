"""Examples in docstrings write their files to a folder that goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.doctest import DoctestItem


@pytest.fixture(autouse=True)
def _no_files_left(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if isinstance(request.node, DoctestItem):
        folder: Path = tmp_path_factory.mktemp("example")
        monkeypatch.chdir(folder)
