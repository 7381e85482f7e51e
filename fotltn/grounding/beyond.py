"""Extend features past the last row of a trace for forecasts, by repeating their last values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from fotltn.grounding.cells import Ints
from fotltn.grounding.collect import Rows, Symbol
from fotltn.grounding.facts import Facts
from fotltn.logic.signature import Signature

#: How to treat time points after the last row: raise an error, or repeat the last values.
Beyond = Literal["error", "last"]


def carried(
    facts: Facts, features: Mapping[str, Rows], symbols: Mapping[str, Symbol], signature: Signature
) -> tuple[Facts, dict[str, Rows]]:
    """Repeat what rows say at their last time point until the trace ends.

    This applies to the features of a sort and to the predicates that say which of its entities are
    present. The last time point of a trace is the latest one in any of these rows. Each temporal
    function has its own last time point. Other facts stay as stated.

    Args:
        facts: the facts; the lengths of their traces say how far to repeat.
        features: the rows of features, by key.
        symbols: the symbols that the keys stand for.
        signature: the declarations, which say which functions change over time.

    Returns:
        The extended facts, and the extended rows of features by key.
    """
    rows = dict(facts.rows)
    moving = {key: part for key, part in features.items() if not symbols[key].static}
    by_sort: dict[str, list[str]] = {}
    for key in moving:
        by_sort.setdefault(symbols[key].sorts[0], []).append(key)
    for sort, names in facts.present.items():
        for name in names:
            if name in rows and not signature.predicates[name].static:
                moving[name] = rows[name]
                by_sort.setdefault(sort, []).append(name)
    for name, decl in signature.functions.items():
        if name in rows and not decl.static:
            moving[name] = rows[name]
            by_sort[f"function {name}"] = [name]
    ends = np.array(facts.lengths, dtype=np.int64)
    longer: dict[str, Rows] = {}
    for keys in by_sort.values():
        last = _last_times((moving[key] for key in keys), len(ends))
        longer |= {key: _repeated(moving[key], last, ends) for key in keys}
    rows = {name: longer.get(name, part) for name, part in rows.items()}
    tested = {name: mask for name, mask in facts.tested.items() if name not in longer}
    extended = {key: longer.get(key, part) for key, part in features.items()}
    return replace(facts, rows=rows, tested=tested), extended


def _last_times(parts: Iterable[Rows], traces: int) -> Ints:
    """Return the last time point of each trace that has a row, shape (trace,); -1 without rows."""
    last = np.full(traces, -1, dtype=np.int64)
    for part in parts:
        np.maximum.at(last, part.trace, part.time)
    return last


def _repeated(part: Rows, last: Ints, ends: Ints) -> Rows:
    """Repeat the rows at the last time point of their trace for every later time point."""
    final = np.flatnonzero((part.time == last[part.trace]) & (part.time >= 0))
    counts = ends[part.trace[final]] - 1 - part.time[final]
    again = part.take(np.repeat(final, counts))
    steps = np.arange(len(again.time)) - np.repeat(np.cumsum(counts) - counts, counts)
    again = replace(again, time=again.time + 1 + steps)
    return Rows(
        np.concatenate([part.trace, again.trace]),
        np.concatenate([part.args, again.args]),
        np.concatenate([part.time, again.time]),
        np.concatenate([part.value, again.value]),
    )
