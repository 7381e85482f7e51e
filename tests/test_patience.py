"""No test fails since a machine is slow: whatever waits, waits far longer than anything takes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.patience import PATIENCE

TESTS = Path(__file__).resolve().parent


@pytest.mark.reliability
def test_no_limit_is_near_what_a_test_takes():
    near = []
    for file in sorted(TESTS.rglob("*.py")):
        text = file.read_text("utf-8")
        for node in ast.walk(ast.parse(text if "timeout" in text else "")):
            if isinstance(node, ast.keyword) and node.arg == "timeout":
                limit = node.value.value if isinstance(node.value, ast.Constant) else None
                if isinstance(limit, int | float) and limit < PATIENCE:
                    near.append(f"{file.relative_to(TESTS)}:{node.value.lineno}")
    assert near == []
