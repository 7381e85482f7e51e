"""Turn facts into tables: dense ones or, for the engine, sparse ones if facts are few."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from fotltn.errors import DataError, name_hint
from fotltn.grounding.facts import Facts, Rows
from fotltn.logic.core import REAL
from fotltn.logic.signature import Signature
from fotltn.semantics.sparse import SparseTable, sparse_table
from fotltn.semantics.tables import Tables, within

#: The most cells of a table; larger data are not for dense evaluation.
MAX_CELLS = 2**28

#: A table with more cells than this, and with many cells per fact, may be sparse.
SPARSE_CELLS, SPARSE_RATIO = 2**16, 8


#: The hint for time points after the last row.
SAY_BEYOND = (
    "add rows; or repeat the last values of features and functions: "
    'beyond = "last" in [data] of the project'
)


def tables_of_facts(
    facts: Facts,
    signature: Signature,
    *,
    dtype: torch.dtype = torch.float64,
    sparse: bool = False,
) -> Tables:
    """Return facts as tables with axes (trace, arguments …, time); other facts are false.

    With `sparse`, predicates with large tables and few facts become sparse tables.

    A local sort has the size of its largest trace. In a trace with fewer entities, all facts about
    the empty places are false, and functions of them are 0.
    """
    sizes = facts.sizes()
    traces, horizon = len(facts.lengths), max(facts.lengths)
    if traces * horizon > MAX_CELLS:
        raise DataError(
            f"{traces:,} traces of {horizon:,} time points are too many: at most "
            f"{MAX_CELLS:,} points can be evaluated"
        )
    predicates: dict[str, Tensor | SparseTable] = {}
    for name, decl in signature.predicates.items():
        shape = (traces, *(sizes[s] for s in decl.sorts), 1 if decl.static else horizon)
        rows = facts.rows.get(name)
        if sparse and _few(rows, shape):
            predicates[name] = _sparse(rows, shape, dtype)
        else:
            predicates[name] = _dense(name, rows, shape, 0.0, dtype)
    functions = {}
    for name, fun in signature.functions.items():
        shape = (traces, *(sizes[s] for s in fun.sorts), 1 if fun.static else horizon)
        table = _dense(name, facts.rows.get(name), shape, math.nan, torch.float64)
        _total(name, table, fun.sorts, facts)
        functions[name] = table.to(dtype) if fun.result == REAL else table.long()
    relations = {}
    for name, rel in signature.relations.items():
        rows = facts.rows.get(name)
        tuples = rows.args if rows is not None else np.zeros((0, len(rel.sorts)), dtype=np.int64)
        relations[name] = torch.from_numpy(tuples)
    constants = {s: {n: i for i, n in enumerate(names)} for s, names in facts.entities.items()}
    return Tables(
        sizes, torch.tensor(facts.lengths), horizon, predicates, functions, constants, relations,
        signature=signature, names=facts.names, single=facts.traces == ("",),
        present={sort: present(facts, sort) for sort in {*facts.local, *facts.present}},
        stated=stated_of(facts),
    )  # fmt: skip


def stated_presence(
    named: Iterable[Sequence[str]], signature: Signature
) -> dict[str, tuple[str, ...]]:
    """Return the predicates of presence by sort, from those that each wide table names.

    Of those that a table names, static ones count only if no other does.
    """
    present: dict[str, tuple[str, ...]] = {}
    for names in named:
        moving = [n for n in names if not signature.predicates[n].static]
        for name in moving or names:
            (sort,) = signature.predicates[name].sorts
            present[sort] = tuple(dict.fromkeys((*present.get(sort, ()), name)))
    return present


def stated_of(facts: Facts) -> dict[str, tuple[str, ...]]:
    """Return the predicates of presence, for each sort of which an entity may be absent."""
    return {sort: facts.present.get(sort, ()) for sort in {*facts.local, *facts.present}}


def presence(facts: Facts, sort: str) -> Tensor:
    """Return which entities of a sort exist in each trace, with axes (trace, entity).

    Entities of a sort that all traces share exist in all of them.
    """
    sizes = facts.sizes()
    if sort not in sizes:
        raise DataError(f"unknown sort '{sort}'; {name_hint(sort, sizes)}")
    counts = [len(names) for names in facts.local.get(sort, ())]
    if sort not in facts.local:
        counts = [sizes[sort]] * len(facts.traces)
    return torch.arange(sizes[sort]) < torch.tensor(counts).unsqueeze(-1)


def present(facts: Facts, sort: str) -> Tensor:
    """Return where entities of a sort are present, with axes (trace, entity, time).

    This is inside the trace and, if there are presence predicates, where these are true.
    """
    inside = within(torch.tensor(facts.lengths), torch.arange(max(facts.lengths)), 3)
    there = presence(facts, sort).unsqueeze(-1) & inside
    names = facts.present.get(sort, ())
    if not names:
        return there
    stated = np.zeros(there.shape, dtype=bool)
    traces, entities, horizon = there.shape
    for rows in (facts.rows[name] for name in names if name in facts.rows):
        true = rows if bool((rows.value > 0).all()) else rows.take(np.flatnonzero(rows.value > 0))
        who = true.trace * entities + true.args[:, 0]
        static = true.time < 0
        stated.reshape(traces * entities, horizon)[who[static]] = True
        moving = slice(None) if not static.any() else ~static
        stated.reshape(-1)[who[moving] * horizon + true.time[moving]] = True
    return there & torch.from_numpy(stated)


def after_rows(rows: Rows, trace: int, time: int) -> str:
    """Say in a message that a time is after the last row of a trace; empty if it is not."""
    last = int(rows.time[rows.trace == trace].max(initial=-1))
    return f"which is after its last row, at time {last}" if time > last >= 0 else ""


def check_cells(what: str, shape: tuple[int, ...]) -> None:
    """Raise an error for a table that would be too large."""
    cells = math.prod(shape)
    if cells > MAX_CELLS:
        raise DataError(
            f"{what} would have {cells:,} cells ({' × '.join(map(str, shape))}); at "
            f"most {MAX_CELLS:,} are possible"
        )


def fill(rows: Rows, shape: tuple[int, ...], default: float, dtype: torch.dtype) -> Tensor:
    """Return a table with axes (trace, arguments …, time), filled with the values of rows."""
    table = torch.full(shape, default, dtype=dtype)
    table[tuple(_index(rows))] = torch.from_numpy(rows.value).to(dtype)
    return table


def _dense(
    name: str, rows: Rows | None, shape: tuple[int, ...], default: float, dtype: torch.dtype
) -> Tensor:
    check_cells(f"a dense table of '{name}'", shape)
    if rows is None:
        return torch.full(shape, default, dtype=dtype)
    return fill(rows, shape, default, dtype)


def _few(rows: Rows | None, shape: tuple[int, ...]) -> bool:
    """Return whether facts are so few that their table would be mostly empty."""
    facts = 0 if rows is None else len(rows.value)
    return max(SPARSE_CELLS, SPARSE_RATIO * facts) < math.prod(shape) < 2**62


def _sparse(rows: Rows | None, shape: tuple[int, ...], dtype: torch.dtype) -> SparseTable:
    if rows is None:
        return sparse_table(torch.zeros(len(shape), 0), torch.zeros(0, dtype=dtype), shape)
    kind = torch.int32 if max(shape) < 2**31 else torch.int64
    index = torch.stack(_index(rows, kind))
    return sparse_table(index, torch.from_numpy(rows.value).to(dtype), shape)


def _index(rows: Rows, kind: torch.dtype = torch.int64) -> list[Tensor]:
    """Return the positions of facts on each axis of a table; the time of a static fact is 0."""
    index = (rows.trace, *rows.args.T, np.maximum(rows.time, 0))
    return [torch.from_numpy(np.ascontiguousarray(i)).to(kind) for i in index]


def _total(name: str, table: Tensor, sorts: tuple[str, ...], facts: Facts) -> None:
    """Check that a function has a result wherever its arguments are present; elsewhere it is 0."""
    missing = table.isnan()
    if table.shape[-1] > 1:
        lengths = torch.tensor(facts.lengths)
        missing &= within(lengths, torch.arange(table.shape[-1]), table.dim())
    for place, sort in enumerate(sorts):
        if sort in facts.local or sort in facts.present:
            there = present(facts, sort)
            there = there.any(-1, keepdim=True) if table.shape[-1] == 1 else there
            shape = [1] * table.dim()
            shape[0], shape[1 + place], shape[-1] = there.shape
            missing = missing & there.reshape(shape)
    if bool(missing.any()):
        trace, *args, time = missing.nonzero()[0].tolist()
        names = ", ".join(str(facts.name(s, trace, i)) for s, i in zip(sorts, args, strict=True))
        when = f" at time {time}" if table.shape[-1] > 1 else ""
        where = f" in trace '{facts.traces[trace]}'" if len(facts.traces) > 1 else ""
        what = f"the function '{name}' has no value for ({names}){when}{where}"
        if name in facts.rows and (after := after_rows(facts.rows[name], trace, time)):
            raise DataError(f"{what}, {after}", hint=SAY_BEYOND)
        raise DataError(what)
    table.nan_to_num_(nan=0.0)
