"""Data for formulas and for training: tables from files, data frames or tensors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, TypeGuard

import torch
from torch import Tensor

from fotltn.arguments import names_of, public
from fotltn.errors import DataError, DataWarning, name_hint, shown
from fotltn.grounding.clock import Clock, ClockKind, clock_of
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.facts import Facts
from fotltn.grounding.frames import Source, is_frame
from fotltn.grounding.labels import labels
from fotltn.grounding.merge import Conflict
from fotltn.grounding.wide import Sources, Wide, read_wide
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory, check
from fotltn.logic.signature import Signature
from fotltn.semantics.from_tensors import tables_of_tensors
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Names, Tables
from fotltn.syntax.load import AnyTheory
from fotltn.threads import entry


@entry
@public
def read(
    theory: AnyTheory,
    *sources: Source,
    wide: Iterable[Wide] | Wide = (),
    horizon: int | None = None,
    local: Sequence[str] | str = (),
    presence: Sequence[str] | str = (),
    unknown: Sequence[str] | str = (),
    on_conflict: Conflict = "error",
    step: str | float | None = None,
    origin: str | float | date | None = None,
    timezone: str | None = None,
    clock: ClockKind | None = None,
    dtype: torch.dtype = torch.float64,
) -> Tables:
    r"""Read facts from files, data frames or lists, as data to evaluate or to learn from.

    A fact that is not stated is false, except for predicates in `unknown`. If few of many facts
    are true, only the true ones are stored.

    Args:
        theory: the declarations of the predicates and functions: a theory, its file or its text.
        sources: tables with a row for each fact (columns `predicate`, `arg1` …, `time`, `trace`,
            `truth`): CSV or Parquet files by name, data frames, or mappings from columns to lists.
            Wide tables may be among them.
        wide: tables with a row for each entity and time point, and a column for each predicate.
        horizon: the number of time points of every trace; by default, a trace ends with its last
            fact.
        local: sorts whose entities each belong to one trace.
        presence: predicates of one entity that state when it is present.
        unknown: predicates whose facts are unknown where no row states them, such as labels of what
            is to be learned. Their degree is 0 there, `tables.known(name)` is the mask of the
            facts that are stated, and rules, audits and violations leave the others out.
        on_conflict: how to resolve facts that contradict each other: "error", "mean", "first",
            "last" or "majority".
        step: the length of a step, if times are time stamps or dates: a number with a unit (s, min,
            h, d, w), such as "15min"; or a plain number, if times are other numbers. Without it,
            times must be whole numbers, counted from 0.
        origin: for a shared clock, the time at which the first step begins; by default, the
            earliest time of the data, rounded down to the unit of the step.
        timezone: the zone of times that name none, such as "Europe/Berlin".
        clock: whose time it is. "own": each trace begins at its own step 0; this is the default.
            "shared": all traces have one origin; the default if an `origin` is given. "events":
            the times of a trace are its steps, whatever lies between them.
        dtype: the precision of degrees.

    Returns:
        Tables of degrees, of shape `(trace, *arguments, time)`, with the names of traces and
        entities.

    Raises:
        DataError: some rows are wrong; the error lists up to 20, each with its file, row and value,
            and with what was expected.

    >>> import fotltn as fot
    >>> theory = fot.parse("sort car\npredicate Stop(car)\naxiom A: forall x: car. F Stop(x)")
    >>> data = fot.read(theory, {"predicate": ["Stop"], "arg1": ["ego"], "time": [2]})
    >>> data.names.entities, data.horizon
    ({'car': ('ego',)}, 3)
    """
    sources, among = apart(sources)
    listed = [*among, *apart(wide)[1]]
    named, local = names_of(presence), names_of(local)
    timing = clock_of(step, origin, timezone, clock)
    facts, tables = stated(
        check(theory), sources, wide=listed, horizon=horizon, local=local, presence=named,
        on_conflict=on_conflict, clock=timing, dtype=dtype,
    )  # fmt: skip
    tables = replace(tables, possible=_possible(facts, tables, names_of(unknown)))
    for warning in facts.warnings:
        warnings.warn(warning.message, DataWarning, stacklevel=3)
    settings = {
        "horizon": horizon, "local": [*local], "on_conflict": on_conflict, "step": step,
        "origin": origin, "timezone": timezone, "presence": named,
        "clock": None if timing is None else timing.kind,
    }  # fmt: skip
    said = {
        name: value for name, value in settings.items()
        if value is not None and not (isinstance(value, list) and not value)
    }  # fmt: skip
    return replace(tables, sources=Sources(sources, tuple(listed), said))


def stated(
    theory: CheckedTheory,
    sources: Iterable[Source],
    *,
    wide: Iterable[Wide] = (),
    horizon: int | None = None,
    local: Sequence[str] = (),
    presence: Sequence[str] = (),
    on_conflict: Conflict = "error",
    clock: Clock | None = None,
    dtype: torch.dtype = torch.float64,
) -> tuple[Facts, Tables]:
    """Return the stated facts and their tables; the arguments are those of `read`.

    Raises:
        DataError: a file is missing or wrong, or a presence predicate does not take one entity.
    """
    signature = theory.signature
    sorts = [(_sort_of_presence(name, signature), name) for name in presence]
    facts, features = read_wide(
        wide, signature, facts=sources, horizon=horizon, local=local, on_conflict=on_conflict,
        clock=clock, dtype=dtype,
    )  # fmt: skip
    present = dict(facts.present)
    for sort, name in sorts:
        present[sort] = (*present.get(sort, ()), name)
    facts = replace(facts, present=present)
    tables = tables_of_facts(facts, signature, dtype=dtype, sparse=True)
    return facts, replace(tables, inputs=features)


def _possible(facts: Facts, tables: Tables, unknown: Iterable[str]) -> dict[str, SparseTable]:
    """Return tables in which every fact that no row states is true."""
    of = labels(facts, tables.signature, unknown, dtype=tables.dtype)
    return {
        name: SparseTable(of.index[name], of.truth[name], tuple(tables.table(name).shape), 1.0)
        for name in of.truth
    }


def _sort_of_presence(name: str, signature: Signature) -> str:
    decl = signature.predicates.get(name)
    if decl is None:
        known = signature.predicates
        raise DataError(f"unknown predicate '{name}' for presence; {name_hint(name, known)}")
    if len(decl.sorts) != 1:
        raise DataError(f"presence needs a predicate of one entity, not '{name}'")
    return decl.sorts[0]


@entry
@public
def tables(
    theory: AnyTheory,
    values: Mapping[str, Any] | None = None,
    /,
    *,
    lengths: Sequence[int] | Tensor | None = None,
    horizon: int | None = None,
    constants: Mapping[str, int] | None = None,
    features: Mapping[str, Any] | None = None,
    entities: Mapping[str, Sequence[str]] | None = None,
    traces: Sequence[str] = (),
    present: Mapping[str, Any] | None = None,
    **named: Any,
) -> Tables:
    r"""Build data from tensors, arrays or nested lists, one for each predicate and function.

    Use it for degrees that a program computes; gradients pass through. `read` is for stated facts.

    Args:
        theory: the declarations of the predicates, functions and relations: a theory, its file or
            its text.
        values: tables by name, for names that cannot be Python arguments.
        lengths: the number of time points of each trace in a batch. With it, each table begins with
            an axis for traces.
        horizon: the number of time points, if no table has a time axis.
        constants: entity numbers of constants; names in `entities` need none.
        features: for graded equality, vectors by sort, shape `(entity, feature)`.
        entities: the names of the entities of each sort; by default, they are numbered.
        traces: the names of traces; by default, they are numbered.
        present: for sorts whose entities come and go, where they are present, shape
            `(trace, entity, time)`.
        named: tables by name. For predicates and functions, shape `(*arguments, time)`, or
            `(*arguments,)` if static; for relations, tuples of entity numbers, shape
            `(tuple, place)`. A sparse tensor (`torch.sparse_coo_tensor`) is a list of facts, and
            stays sparse.

    Raises:
        DataError: a table is missing, unknown, or does not fit the theory or the names.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near\npredicate Stop\naxiom A: G(Near -> WX Stop)")
    >>> data = fot.tables(theory, Near=[1.0, 0.0, 0.0], Stop=[0.0, 1.0, 0.0])
    >>> fot.evaluate(theory["A"], data)
    tensor(1.)
    """
    signature = check(theory).signature
    every = {**(values or {}), **named}
    known = {**signature.predicates, **signature.functions, **signature.relations}
    for name in every:
        if name not in known:
            hint = name_hint(name, known, "the theory declares")
            raise DataError(f"a table was given for the unknown symbol '{name}'; {hint}")
    called = {sort: tuple(names) for sort, names in (entities or {}).items()}
    made = tables_of_tensors(
        signature,
        {n: t for n, t in every.items() if n in signature.predicates},
        used=c.Truth(True),  # a missing table is reported when a formula uses it
        lengths=lengths,
        functions={n: t for n, t in every.items() if n in signature.functions},
        relations={n: t for n, t in every.items() if n in signature.relations},
        constants=constants,
        features=features,
        horizon=horizon,
    )
    for sort, names in called.items():
        size = made.sizes.get(sort)
        if size is not None and size != len(names):
            raise DataError(f"the sort '{sort}' has {size} entities, but {len(names)} names")
    if traces and len(traces) != made.batch:
        raise DataError(f"there are {made.batch} traces, but {len(traces)} names of traces")
    numbers = {s: {n: i for i, n in enumerate(names)} for s, names in called.items()}
    masks = {s: _mask(s, mask, made) for s, mask in (present or {}).items()}
    return replace(
        made,
        sizes={**{s: len(names) for s, names in called.items()}, **made.sizes},
        constants={s: {**made.constants.get(s, {}), **numbers.get(s, {})} for s in signature.sorts},
        names=Names(tuple(traces), called),
        present=masks,
    )


def is_by_name(facts: AnyFacts) -> TypeGuard[Mapping[str, Any]]:
    """Return whether facts are degrees by the names of predicates, and no columns of a table."""
    names = isinstance(facts, Mapping) and all(isinstance(name, str) for name in facts)
    return names and "predicate" not in facts


def apart(facts: Any) -> tuple[tuple[Source, ...], tuple[Wide, ...]]:
    """Return the long and the wide tables among facts: one table, or a list of them.

    Raises:
        DataError: it is neither.
    """
    single = isinstance(facts, str | os.PathLike | Mapping | Wide) or is_frame(facts)
    try:
        listed = [facts] if single else list(facts)
    except TypeError:
        listed = None
    if listed is None or isinstance(facts, bytes):
        raise DataError(
            f"expected tables of facts, not {shown(facts)}",
            hint="a table is a file by name, a data frame, a mapping from columns to lists, or a "
            "fotltn.Wide",
        )
    wide = tuple(one for one in listed if isinstance(one, Wide))
    return tuple(one for one in listed if not isinstance(one, Wide)), wide


#: Facts in any form that functions take.
AnyFacts = Any


def tables_of(facts: AnyFacts, theory: CheckedTheory | None) -> Tables:
    """Return facts as tables: tables as they are, and what `read` takes, one or a list of them.

    A mapping without a column `predicate` holds degrees by name, as `tables` takes them.

    Raises:
        FotError: the facts are wrong, or there is no theory that declares their predicates.
    """
    if isinstance(facts, Tables):
        return facts
    if theory is None:
        raise DataError(
            f"expected tables, not {shown(facts)}: facts alone do not declare their predicates",
            hint="pass theory=…, or the tables that fotltn.read(theory, facts) returns",
        )
    if is_by_name(facts):
        return tables(theory, facts)
    long, wide = apart(facts)
    return read(theory, *long, wide=wide)


def _mask(sort: str, mask: Any, made: Tables) -> Tensor:
    try:
        tensor = torch.as_tensor(mask, dtype=torch.bool)
    except (TypeError, ValueError, RuntimeError):
        message = f"the presence of '{sort}': expected true and false, not {shown(mask)}"
        raise DataError(message) from None
    shape = (made.batch, made.sizes.get(sort, 0), made.horizon)
    if tensor.dim() == 2 and made.batch == 1:
        tensor = tensor.unsqueeze(0)
    if tensor.shape != shape:
        raise DataError(
            f"the presence of '{sort}' has shape {tuple(tensor.shape)}; expected {shape}, with "
            "axes (trace, entity, time)"
        )
    return tensor
