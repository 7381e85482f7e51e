"""How commands talk: errors to standard error with an exit status, results as text or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from fotltn.errors import Diagnostic, FotError

OK, FINDINGS, USAGE = 0, 1, 2


def emit_json(value: Any) -> None:
    """Print a JSON document; NaN, which JSON lacks, becomes null."""
    print(json.dumps(_finite(value), ensure_ascii=False, indent=2))


def complain(error: FotError, *, as_json: bool = False) -> None:
    """Print an error: for people to standard error, for machines to standard output."""
    if as_json:
        emit_json({"ok": False, "diagnostics": [d.as_dict() for d in error.diagnostics]})
    else:
        print(error, file=sys.stderr)


def warn(warnings: Iterable[Diagnostic]) -> None:
    """Print warnings to standard error."""
    for warning in warnings:
        print(warning.render(), file=sys.stderr)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not (-float("inf") < value < float("inf")):
        return None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
