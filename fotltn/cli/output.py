"""How commands talk: errors to standard error with an exit status, results as text or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fotltn.errors import DataError, Diagnostic, FotError

if TYPE_CHECKING:
    from rich.console import Console

OK, FINDINGS, USAGE, INTERRUPTED = 0, 1, 2, 130

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


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


def wide_console() -> Console:
    """A console on standard output; where it is no terminal, lines have no end."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=1_000_000)


def time_point(at: str) -> int | None:
    """A time point, or None for all of them."""
    if at == "all":
        return None
    if not at.isdecimal() or len(at) > 18:
        raise DataError(f"--at takes a time point from 0, or 'all', not '{at[:40]}'")
    return int(at)


def as_bytes(text: str) -> int:
    """The bytes of a budget.

    >>> as_bytes("4G") == 4 * 2**30 and as_bytes("500 MiB") == 500 * 2**20
    True
    """
    cleaned = text.strip().lower().removesuffix("ib").removesuffix("b")
    number, unit = (cleaned[:-1], cleaned[-1:]) if cleaned[-1:] in _UNITS else (cleaned, "")
    try:
        count = float(number) * _UNITS[unit]
    except ValueError:
        count = -1.0
    if not 0 < count < 2**63:
        raise DataError(f"--budget takes bytes as 500M or 4G, not '{text}'")
    return int(count)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not (-float("inf") < value < float("inf")):
        return None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
