"""Evaluate formulas on tables: choose the engine or an evaluator, and return degrees or truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Literal

import torch
from torch import Tensor

from fotltn.arguments import whole_number
from fotltn.decisions import two_valued
from fotltn.engine import (
    Compiled,
    InBlocks,
    Prepared,
    compile_for,
    compiled,
    same_places,
    sizes_of,
    with_gradients,
)
from fotltn.errors import DataError, LimitError, SemanticsError
from fotltn.logic import core as c
from fotltn.logic.parts import free_axes, predicates_in
from fotltn.logic.presence import EVERYONE, Presence, at_once, relative
from fotltn.plan.blocks import Costs, layout
from fotltn.plan.build import BUDGET
from fotltn.plan.cost import called, check_peak
from fotltn.semantics import crisp_rows, reference
from fotltn.semantics.by_trace import joined_values, shared
from fotltn.semantics.config import CRISP, Semantics
from fotltn.semantics.logspace import to_log
from fotltn.semantics.operators import operators
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables, Value

Time = int | Literal["all"]


def defined(formula: c.Formula, tables: Tables, budget: int = BUDGET) -> Value | None:
    """Return where the entities are present that a formula needs; None if it is everywhere."""
    needs = relative(formula, tables.presence).defined
    if needs == c.Truth(True):
        return None
    return evaluate_core(needs, tables, CRISP, budget=budget)


def evaluate_core(
    formula: c.Formula,
    tables: Tables,
    semantics: Semantics,
    *,
    at: int | None = None,
    threshold: float | None = None,
    log: bool = False,
    budget: int = BUDGET,
    engine: bool = True,
) -> Value:
    """Return the value of a checked formula: degrees, their logarithms, or Booleans."""
    return evaluate_all(
        {"": formula}, tables, semantics, at=at, threshold=threshold, log=log, budget=budget,
        engine=engine,
    )[""]  # fmt: skip


def evaluate_all(
    formulas: Mapping[str, c.Formula],
    tables: Tables,
    semantics: Semantics,
    *,
    at: int | None = None,
    threshold: float | None = None,
    log: bool = False,
    budget: int = BUDGET,
    engine: bool = True,
) -> dict[str, Value]:
    """Return the values of checked formulas, computed together if that fits the budget.

    With a time point `at`, values are correct only at that point.

    Raises:
        LimitError: with the name of a formula that does not fit the budget.
    """
    parts = shared(
        "values", tables,
        lambda part: {
            n: Value(v.axes, v.tensor.cpu())
            for n, v in evaluate_all(
                formulas, part, semantics, at=at, threshold=threshold, log=log, budget=budget,
                engine=engine,
            ).items()
        },
    )  # fmt: skip
    if parts is not None:
        return joined_values(parts, tables)
    evaluator = Evaluator(formulas, semantics, at, budget, threshold=threshold, engine=engine)
    try:
        values = evaluator(tables, None)
    except LimitError:
        if len(formulas) == 1:
            raise
        alone = [replace(evaluator, formulas={n: f}) for n, f in formulas.items()]
        values = {n: v for one in alone for n, v in one(tables, None).items()}
    if semantics.boolean or log == semantics.log_space:
        return values
    return {
        n: Value(v.axes, to_log(v.tensor) if log else v.tensor.exp()) for n, v in values.items()
    }


@dataclass(slots=True, eq=False)
class Evaluator:
    """Computes the values of named formulas under one semantics.

    It chooses the method: two-valued truth, and means whose powers would underflow, are computed by
    the equations, everything else by the engine. Use it if formulas are evaluated many times on
    tables that differ only in their degrees: it makes one plan for each part of the data.

    Args:
        formulas: the formulas, by name.
        semantics: the semantics. In log space, values are logarithms.
        at: a time point, or "all".
        budget: the memory that intermediate results may use.
        backend: a backend of PyTorch's compiler, to fuse plans; None to run step by step.
        threshold: for two-valued truth, the smallest degree that counts as true; by default, by the
            decisions of the tables, or else degrees must be 0 and 1.
        engine: False always follows the equations.

    Raises:
        SemanticsError: a backend is given for a log-space semantics.
    """

    formulas: Mapping[str, c.Formula]
    semantics: Semantics
    at: int | None
    budget: int = BUDGET
    backend: str | None = None
    threshold: float | None = None
    engine: bool = True
    _ready: dict[int, _Ready] = field(default_factory=dict)
    _apart: dict[Presence, Evaluator] = field(default_factory=dict)
    _told: tuple[object, ...] = (None,) * 4
    _presence: Presence = EVERYONE

    def __post_init__(self) -> None:
        """Raise an error for settings that cannot be compiled."""
        if self.semantics.log_space and self.backend:
            raise SemanticsError("formulas in log space cannot be compiled")

    def __call__(self, tables: Tables, key: int | None = 0) -> dict[str, Value]:
        """The value of each formula.

        Args:
            tables: the tables.
            key: a number for the part of the data, under which its plan is cached; None to cache
                nothing.

        Raises:
            LimitError: the formulas do not fit the budget.
        """
        if not (tables.present or tables.names.local):
            return self._values(tables, key)
        told = (tables.present, tables.names, tables.stated, tables.signature)
        if not all(map(is_, told, self._told)):  # in training, only degrees differ
            self._told, self._presence = told, tables.presence
        if self._presence:
            return self._relative(self._presence)._values(tables, key)
        return self._values(tables, key)

    def _relative(self, presence: Presence) -> Evaluator:
        """The same for formulas as they are written where entities come and go."""
        if presence not in self._apart:
            every = self.formulas.items()
            formulas = {
                n: statement(f, presence) if self.at == 0 else relative(f, presence).value
                for n, f in every
            }
            self._apart[presence] = replace(self, formulas=formulas, _ready={})
        return self._apart[presence]

    def _values(self, tables: Tables, key: int | None) -> dict[str, Value]:
        if self.semantics.boolean:
            return self._truths(tables)
        if not self.engine:
            return self._by_equations(tables)
        ready = None if key is None else self._ready.get(key)
        if ready is None or not ready.fits(tables):
            run, facts = self._prepare(tables), _facts(tables)
            ready = _Ready(run, _layout_of(tables), tables.lengths, facts, tables.present)
            if key is not None:
                self._ready[key] = ready
        return ready.run(tables)

    def by_trace(self, tables: Tables, key: int | None = 0, *, log: bool = False) -> Tensor:
        """Return degrees of closed formulas at the first time point, with axes (formula, trace).

        Args:
            tables: the tables.
            key: as in a call.
            log: return logarithms; under a log-space semantics, they do not underflow.
        """
        rows = list(_at_start(self(tables, key), tables.batch).values())
        if not rows:
            return torch.zeros(0, tables.batch, device=tables.lengths.device)
        stacked = torch.stack(rows)
        if log == self.semantics.log_space:
            return stacked
        return stacked.log() if log else stacked.exp()

    def explain(self, key: int = 0) -> str:
        """Return the cached plan for a part of the data, as text; the equations have no plan."""
        ready = {k: r for one in (self, *self._apart.values()) for k, r in one._ready.items()}
        run = ready[key].run if key in ready else None
        match run:
            case Prepared() | Compiled():
                return run.plan.explain()
            case InBlocks():
                return "\n\n".join(
                    f"{block}\n{one.plan.explain()}"
                    for block, one in zip(run.layout.blocks, run.prepared, strict=True)
                )
            case _:
                return "by the equations, step by step"

    def _prepare(self, tables: Tables) -> Prepared | InBlocks | Compiled:
        program = compile_for(self.formulas, tables, self.semantics, self.at)
        if self.backend:
            prepared = program.prepare(tables, dtype=tables.dtype, budget=self.budget)
            return compiled(prepared, tables, backend=self.backend)
        return program.ready(tables, dtype=tables.dtype, budget=self.budget)

    def _by_equations(self, tables: Tables) -> dict[str, Value]:
        sizes = sizes_of(tables, tables.dtype)
        degrees = [t.value if isinstance(t, SparseTable) else t for t in tables.predicates.values()]
        back = torch.is_grad_enabled() and any(t.requires_grad for t in degrees)
        for name, formula in self.formulas.items():
            check_peak(name, formula, sizes, self.budget, gradients=back)
        values = {}
        for name, formula in self.formulas.items():
            value = reference.evaluate(formula, tables, self.semantics, dtype=tables.dtype)
            values[name] = with_gradients(value, predicates_in(formula), tables)
        return values

    def _truths(self, tables: Tables) -> dict[str, Value]:
        formulas = list(self.formulas.values())
        if tables.decisions is not None:
            used = predicates_in(*formulas)
            tables = two_valued(tables, self.threshold, used, budget=self.budget)

        def truths(part: Tables) -> dict[str, Value]:
            return {
                name: crisp_rows.everywhere(
                    formula, part, threshold=self.threshold, budget=self.budget, what=called(name)
                )
                for name, formula in self.formulas.items()
            }

        batched = self.at == 0 and tables.batch > 1 and not tables.cuts
        blocks = layout(formulas, Costs(formulas), tables) if batched else None
        if blocks is None:
            return truths(tables)
        parts = [
            {n: Value(v.axes, v.tensor[..., :1]) for n, v in truths(part).items()}
            for part in blocks.parts(tables)
        ]
        return blocks.joined(parts)


@dataclass(frozen=True, slots=True, eq=False)
class _Ready:
    """A plan, and the conditions under which it is valid."""

    run: Prepared | InBlocks | Compiled
    layout: tuple[object, ...]
    lengths: Tensor
    facts: dict[str, SparseTable | Tensor]
    present: Mapping[str, Tensor]

    def fits(self, tables: Tables) -> bool:
        """Return whether tables differ only in degrees, or in lengths if those do not matter."""
        return (
            self.layout == _layout_of(tables)
            and (tables.present is self.present or not (tables.present or self.present))
            and self._same_lengths(tables.lengths)
            and all(self._same_facts(name, table) for name, table in _facts(tables).items())
        )

    def _same_lengths(self, lengths: Tensor) -> bool:
        if lengths is self.lengths:
            return True
        if isinstance(self.run, Prepared) and self.run.ragged and not self.run.facts:
            return True  # steps use the current lengths, and no facts were selected by the old ones
        return lengths.device == self.lengths.device and torch.equal(lengths, self.lengths)

    def _same_facts(self, name: str, table: SparseTable | Tensor) -> bool:
        old = self.facts[name]
        if table is old:
            return True
        if not (isinstance(table, SparseTable) and isinstance(old, SparseTable)):
            return False
        degrees_may_differ = isinstance(self.run, Prepared) and name not in self.run.guards
        return degrees_may_differ and same_places(table, old)


def statement(formula: c.Formula, presence: Presence) -> c.Formula:
    """Return the value of a formula at the first point; a closed one is true if undefined."""
    defined, value = relative(formula, presence)
    if defined == c.Truth(True) or free_axes(formula):
        return value
    return at_once(value, defined, neutral=True)


def _layout_of(tables: Tables) -> tuple[object, ...]:
    """Return what a plan depends on, except lengths, facts and relations."""
    dense = {n: t.shape for n, t in tables.predicates.items() if isinstance(t, Tensor)}
    functions = {n: t.shape for n, t in tables.functions.items()}
    sizes = (tables.batch, tables.horizon, dict(tables.sizes), [*tables.cuts])
    return (tables.dtype, *sizes, dense, functions, list(_facts(tables)))


def _facts(tables: Tables) -> dict[str, SparseTable | Tensor]:
    """Return what a plan iterates over: facts and relations."""
    facts = {n: t for n, t in tables.predicates.items() if isinstance(t, SparseTable)}
    return {**facts, **tables.relations}


def axiom_values(
    formulas: Mapping[str, c.Formula], tables: Tables, semantics: Semantics, budget: int = BUDGET
) -> dict[str, Tensor]:
    """Return the degree of each closed formula over all traces, at the first time point."""
    values = trace_values(formulas, tables, semantics, budget)
    return {name: over_traces(value, semantics) for name, value in values.items()}


def trace_values(
    formulas: Mapping[str, c.Formula], tables: Tables, semantics: Semantics, budget: int = BUDGET
) -> dict[str, Tensor]:
    """Return the degree of each closed formula at the first time point of each trace."""
    values = evaluate_all(formulas, tables, semantics, at=0, budget=budget)
    return {name: row.to(tables.dtype) for name, row in _at_start(values, tables.batch).items()}


def _at_start(values: Mapping[str, Value], batch: int) -> dict[str, Tensor]:
    """Return the values of closed formulas at the first time point of each trace."""
    return {name: value.tensor[..., 0].expand(batch) for name, value in values.items()}


def over_traces(values: Tensor, semantics: Semantics) -> Tensor:
    """Aggregate degrees over all traces, the last axis, as ∀ does over entities."""
    if values.shape[-1] == 1:
        return values[..., 0].clone()
    if semantics.boolean:
        return values.amin(-1)
    plain = replace(semantics, epsilon=0.0, log_space=False)
    return operators(plain).quantify(values, True, [values.dim() - 1])


def time_point(at: object, tables: Tables) -> int:
    """Check that a time point exists, and return it."""
    time = whole_number(at)
    if time is None or not 0 <= time < tables.horizon:
        raise DataError(
            f"the time point {at!r} does not exist: there are 0 to {tables.horizon - 1}"
        )
    return time


def present(
    value: Value, free: tuple[c.Axis, ...], tables: Tables, *, at: Time, batched: bool
) -> Tensor:
    """Return a value for users: axes in the order of the free variables, at the chosen time."""
    shape = [tables.batch, *(tables.size(a) for a in free), tables.horizon]
    order = [0, *(1 + value.axes.index(a) for a in free if a in value.axes), value.tensor.dim() - 1]
    tensor = value.tensor.permute(order)
    for place, axis in enumerate(free):
        if axis not in value.axes:
            tensor = tensor.unsqueeze(1 + place)
    tensor = tensor.expand(shape)
    inside = tables.inside.reshape(tables.batch, *[1] * len(free), tables.horizon)
    beyond = torch.tensor(False if tensor.dtype == torch.bool else torch.nan, device=tensor.device)
    if not bool(inside.all()):
        tensor = torch.where(inside, tensor, beyond.to(tensor.dtype))
    if at != "all":
        tensor = tensor[..., time_point(at, tables)]
    return tensor if batched else tensor[0]
