"""Data for formulas and for training: tables from files, data frames or tensors."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import torch
from torch import Tensor

from fotltn.errors import DataError, DataWarning, name_hint
from fotltn.grounding.clock import Clock, clock_of
from fotltn.grounding.dense import interpretation
from fotltn.grounding.facts import Facts
from fotltn.grounding.frames import Source
from fotltn.grounding.merge import Conflict
from fotltn.grounding.wide import Sources, Wide, read_wide
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory, check
from fotltn.logic.signature import Signature
from fotltn.semantics.from_tensors import interpret
from fotltn.semantics.tables import Names, Tables
from fotltn.syntax.theory import Theory


def read(
    theory: Theory | CheckedTheory,
    *sources: Source,
    wide: Iterable[Wide] | Wide = (),
    horizon: int | None = None,
    local: Sequence[str] = (),
    presence: Sequence[str] | str = (),
    on_conflict: Conflict = "error",
    step: str | float | None = None,
    origin: str | float | date | None = None,
    timezone: str | None = None,
    dtype: torch.dtype = torch.float64,
) -> Tables:
    r"""Read facts: what a theory is evaluated on, or learned from.

    What no fact states is false. Where few of many facts are true, only these are held.

    Args:
        theory: declares what facts may be about.
        sources: tables with a row for each fact (columns `predicate`, `arg1` …, `time`, `trace`,
            `truth`): CSV or Parquet files by name, data frames, or mappings from columns to lists.
        wide: tables with a row for each entity and time, and a column for each predicate.
        horizon: the number of time points of every trace; without it, a trace ends with its last
            fact.
        local: sorts whose entities belong to one trace each.
        presence: a predicate of one entity, or several, that say where it is present.
        on_conflict: what becomes of facts that contradict each other: "error", "mean", "first",
            "last" or "majority".
        step: how long a step is, where times are time stamps or dates: a number with a unit (s,
            min, h, d, w), as "15min"; or a number, where times are other numbers. Without it,
            times are whole numbers from 0.
        origin: when the first step begins; without it, at the earliest time of the data, cut off
            to the unit of the step.
        timezone: of times that name no zone, as "Europe/Berlin".
        dtype: the precision of degrees.

    Raises:
        DataError: with the file, row, value and expectation of every bad row (20 at most).

    >>> import fotltn as fot
    >>> theory = fot.parse("sort car\npredicate Stop(car)\naxiom A: forall x: car. F Stop(x)")
    >>> data = fot.read(theory, {"predicate": ["Stop"], "arg1": ["ego"], "time": [2]})
    >>> data.names.entities, data.horizon
    ({'car': ('ego',)}, 3)
    """
    listed = [wide] if isinstance(wide, Wide) else list(wide)
    named = [presence] if isinstance(presence, str) else presence
    facts, tables = stated(
        checked_theory(theory), sources, wide=listed, horizon=horizon, local=local, presence=named,
        on_conflict=on_conflict, clock=clock_of(step, origin, timezone), dtype=dtype,
    )  # fmt: skip
    for warning in facts.warnings:
        warnings.warn(warning.message, DataWarning, stacklevel=2)
    settings = {
        "horizon": horizon, "local": [*local], "on_conflict": on_conflict, "step": step,
        "origin": origin, "timezone": timezone, "presence": presence,
    }  # fmt: skip
    said = {name: value for name, value in settings.items() if value not in (None, [], ())}
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
    """Facts as they are stated, and their tables; arguments as of `read`.

    Raises:
        DataError: a file is missing or wrong, or a predicate is none that says where an entity is.
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
    tables = interpretation(facts, signature, dtype=dtype, sparse=True)
    return facts, replace(tables, inputs=features)


def _sort_of_presence(name: str, signature: Signature) -> str:
    decl = signature.predicates.get(name)
    if decl is None:
        known = signature.predicates
        raise DataError(f"unknown predicate '{name}' for presence; {name_hint(name, known)}")
    if len(decl.sorts) != 1:
        raise DataError(f"presence takes a predicate of one entity, not '{name}'")
    return decl.sorts[0]


def tables(
    theory: Theory | CheckedTheory,
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
    r"""Tables from tensors, arrays or nested lists: one for each predicate, function and relation.

    Args:
        theory: declares what the tables are of.
        values: tables by name, for names that Python does not take as an argument.
        lengths: the number of time points of each trace of a batch. With it, each table begins
            with an axis for traces.
        horizon: the number of time points, if no table says.
        constants: entity numbers of names; those in `entities` need none.
        features: vectors for graded equality by sort, with axes (entity, feature).
        entities: the names of the entities of each sort; without, they are numbered.
        traces: the names of traces; without, they are numbered.
        present: for sorts whose entities come and go, where they are: (trace, entity, time).
        named: tables by name. Those of predicates have axes (arguments …, time), or (arguments
            …) where time does not matter; those of relations list tuples of entity numbers. A
            sparse tensor (`torch.sparse_coo_tensor`) is a list of facts, and stays one.

    Raises:
        DataError: a table is missing, unknown, or does not fit the theory or the names.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near\npredicate Stop\naxiom A: G(Near -> WX Stop)")
    >>> data = fot.tables(theory, Near=[1.0, 0.0, 0.0], Stop=[0.0, 1.0, 0.0])
    >>> fot.evaluate(theory["A"], data)
    tensor(1.)
    """
    signature = checked_theory(theory).signature
    every = {**(values or {}), **named}
    known = {**signature.predicates, **signature.functions, **signature.relations}
    for name in every:
        if name not in known:
            hint = name_hint(name, known, "the theory declares")
            raise DataError(f"a table is given for the unknown symbol '{name}'; {hint}")
    called = {sort: tuple(names) for sort, names in (entities or {}).items()}
    made = interpret(
        signature,
        {n: t for n, t in every.items() if n in signature.predicates},
        used=c.Truth(True),  # what is missing is missed when it is used
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


def checked_theory(theory: Theory | CheckedTheory) -> CheckedTheory:
    """A theory, checked; one that is needs no second check."""
    if isinstance(theory, CheckedTheory):
        return theory
    if not isinstance(theory, Theory):
        raise DataError(
            f"expected a theory, as fotltn.load or fotltn.parse gives it, not {theory!r:.60}"
        )
    return check(theory)


def _mask(sort: str, mask: Any, made: Tables) -> Tensor:
    tensor = torch.as_tensor(mask, dtype=torch.bool)
    shape = (made.batch, made.sizes.get(sort, 0), made.horizon)
    if tensor.dim() == 2 and made.batch == 1:
        tensor = tensor.unsqueeze(0)
    if tensor.shape != shape:
        raise DataError(
            f"where '{sort}' is present has shape {tuple(tensor.shape)}; expected {shape}, with "
            "axes (trace, entity, time)"
        )
    return tensor
