"""Steps after the last row of a trace, for forecasts: features stay as they were last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from fotltn.grounding.cells import Ints
from fotltn.grounding.collect import Rows, Symbol
from fotltn.grounding.facts import Facts
from fotltn.logic.signature import Signature

#: What features, functions and presence are after the last row: an error, or as they were last.
Beyond = Literal["error", "last"]


def carried(
    facts: Facts, features: Mapping[str, Rows], symbols: Mapping[str, Symbol], signature: Signature
) -> tuple[Facts, dict[str, Rows]]:
    """Facts and features in which what rows say at their last time holds until the trace ends.

    That goes for the features of a sort, and for those of its entities that are present then; the
    last time is that of any of these rows in the trace. A function that changes has a last time of
    its own. Other facts are as they are stated.

    Args:
        facts: with the lengths of traces, which say how far.
        features: their rows, by key.
        symbols: what the keys stand for.
        signature: which functions change.
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
    return replace(facts, rows=rows), {k: longer.get(k, part) for k, part in features.items()}


def _last_times(parts: Iterable[Rows], traces: int) -> Ints:
    """The last time of each trace at which there is a row; -1 where there is none."""
    last = np.full(traces, -1, dtype=np.int64)
    for part in parts:
        np.maximum.at(last, part.trace, part.time)
    return last


def _repeated(part: Rows, last: Ints, ends: Ints) -> Rows:
    """Rows, those at the last time of their trace again at every later one."""
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
