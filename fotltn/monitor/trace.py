"""Turn a trace of tables into the steps of a monitor, to compare the two."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from fotltn.arguments import public
from fotltn.data import AnyFacts, tables_of
from fotltn.errors import DataError, name_hint
from fotltn.logic.check import check
from fotltn.logic.core import REAL
from fotltn.monitor.steps import Fact, Header, TraceStep
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import AnyTheory
from fotltn.threads import entry

#: The facts and the values of one step.
Lines = tuple[list[Fact], list[Fact]]


@entry
@public
def steps(
    data: AnyFacts,
    trace: int | str = 0,
    *,
    theory: AnyTheory | None = None,
    declare: bool = True,
) -> tuple[Header, tuple[TraceStep, ...]]:
    r"""Return a trace as a header and steps for a monitor or a watch.

    Use it to replay data that you have, for example to compare a monitor with `evaluate`.

    Args:
        data: tables, such as the predictions of a model; or, with a theory, facts as `fotltn.read`
            takes them.
        trace: the number or the name of the trace.
        theory: the declarations of the predicates, if the data are no tables.
        declare: name all entities of the trace before the first step. Otherwise they come when
            they are first mentioned.

    Raises:
        DataError: there is no such trace.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Stop\naxiom A: F Stop")
    >>> header, steps = fot.steps(fot.tables(theory, Stop=[0.0, 1.0, 0.5]))
    >>> [step.facts for step in steps]
    [(), (('Stop',),), (('Stop', 0.5),)]
    """
    data = tables_of(data, None if theory is None else check(theory))
    number = _number(data, trace)
    before: Lines = ([], [])
    lines: list[Lines] = [([], []) for _ in range(data.length(number))]

    def places(time: int | None, static: bool) -> list[Lines]:
        if static:
            return [before]
        return lines if time is None else lines[time : time + 1]  # none beyond the end

    for name, predicate in data.signature.predicates.items():
        if name in data.predicates:
            for time, fact in _facts(data, name, predicate.sorts, number):
                for facts, _ in places(time, predicate.static):
                    facts.append(fact)
    for name, function in data.signature.functions.items():
        if name in data.functions:
            for time, fact in _values(data, name, (*function.sorts, function.result), number):
                for _, values in places(time, function.static):
                    values.append(fact)
    for name, relation in data.signature.relations.items():
        for pair in data.relations[name].tolist() if name in data.relations else ():
            before[0].append((name, *_called(data, relation.sorts, number, pair)))
    entities = {s: _entities(data, s, number) for s in data.signature.sorts} if declare else {}
    # In tables, functions are 0 where entities are not present.
    default = 0.0 if data.present else None
    static, fixed = before
    header = Header(tuple(static), tuple(fixed), entities=entities, default=default)
    return header, tuple(TraceStep(tuple(facts), tuple(values)) for facts, values in lines)


def _number(data: Tables, trace: int | str) -> int:
    names = data.names.traces
    if isinstance(trace, str):
        if trace not in names:
            hint = name_hint(trace, names)
            raise DataError(f"there is no trace '{trace}'; {hint}")
        return names.index(trace)
    if not 0 <= trace < data.batch:
        raise DataError(f"there is no trace {trace}; there are {data.batch}, from 0")
    return trace


def _entities(data: Tables, sort: str, trace: int) -> list[str]:
    names = (data.names.entity(sort, trace, n) for n in range(data.sizes.get(sort, 0)))
    return [name for name in names if name is not None]


def _called(
    data: Tables, sorts: tuple[str, ...], trace: int, numbers: list[int]
) -> list[str | None]:
    return [data.names.entity(s, trace, n) for s, n in zip(sorts, numbers, strict=True)]


def _facts(
    data: Tables, name: str, sorts: tuple[str, ...], trace: int
) -> Iterator[tuple[int | None, Fact]]:
    """Yield the facts that are not false, each with its time point (None for all)."""
    table = data.table(name)
    if isinstance(table, SparseTable) and table.default == 0:
        here = (table.index[0] == trace) | torch.tensor(table.shape[0] == 1)
        index, degrees = table.index[1:, here], table.value[here]
    else:
        dense = _of_trace(data.predicate(name), trace)
        index = dense.nonzero().T
        degrees = dense[tuple(index)]
    fixed = table.shape[-1] == 1
    for (*numbers, time), degree in zip(index.T.tolist(), degrees.tolist(), strict=True):
        called = _called(data, sorts, trace, numbers)
        if degree != 0 and None not in called:
            yield None if fixed else time, (name, *called, *([] if degree == 1 else [degree]))


def _values(
    data: Tables, name: str, sorts: tuple[str, ...], trace: int
) -> Iterator[tuple[int | None, Fact]]:
    *arguments, result = sorts
    table = _of_trace(data.function(name), trace)
    fixed = table.shape[-1] == 1
    for *numbers, time in torch.ones_like(table).nonzero().tolist():
        value = table[(*numbers, time)].item()
        called = _called(data, tuple(arguments), trace, numbers)
        end = value if result == REAL else data.names.called(result, trace, int(value))
        if None not in called:
            yield None if fixed else time, (name, *called, end)


def _of_trace(table: Tensor, trace: int) -> Tensor:
    return table[trace if table.shape[0] > 1 else 0].detach()
