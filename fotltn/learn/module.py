"""Axioms as a loss for your own training loop."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from fotltn.arguments import public
from fotltn.data import AnyFacts, tables_of
from fotltn.errors import DataError, name_hint, shown
from fotltn.evaluation import over_traces
from fotltn.kernels.tracing import is_transformed
from fotltn.learn.objective import AxiomsBy, Objective
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.schedule import schedule
from fotltn.logic.check import check
from fotltn.plan.build import BUDGET
from fotltn.semantics.config import STABLE_PRODUCT, Semantics, semantics_of
from fotltn.semantics.from_tensors import TableShapes, as_table, check_degrees, check_results
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables, within
from fotltn.syntax.load import AnyTheory
from fotltn.syntax.theory import FunctionDecl, PredicateDecl
from fotltn.threads import entries

#: The maximum number of planned table shapes; the least recently used are dropped.
SHAPES = 16

Table = Tensor | SparseTable
Declared = PredicateDecl | FunctionDecl
T = TypeVar("T", bound=Table)


@entries
@dataclass(frozen=True, slots=True, eq=False)
class AxiomValues:
    """The loss of axioms, and the values behind it, all with gradients.

    Args:
        loss: how far the axioms are from being satisfied.
        degrees: the value of each axiom on each trace, shape `(axiom, trace)`.
        names: the axioms in order.
        semantics: the semantics of the axioms.
    """

    loss: Tensor
    degrees: Tensor
    names: tuple[str, ...]
    semantics: Semantics

    @property
    def values(self) -> dict[str, Tensor]:
        """The value of each axiom over all traces, as `fotltn.compile` computes it."""
        return dict(zip(self.names, over_traces(self.degrees, self.semantics), strict=True))

    @property
    def by_trace(self) -> dict[str, Tensor]:
        """The value of each axiom on each trace, shape `(trace,)`."""
        return dict(zip(self.names, self.degrees, strict=True))


@entries
class AxiomLoss(nn.Module):
    r"""How far axioms are from being satisfied, as a loss for your own training loop.

    Use it to add axioms to an existing PyTorch training loop; `fotltn.train` has its own loop. Call
    it with tables of degrees by name, as networks compute them. It returns the loss and the values
    of the axioms (`AxiomValues`). The first call with tables of some shape plans the axioms; later
    calls only run the plan. The module has no parameters.

    Args:
        theory: the axioms, and the declarations of the tables: a theory, its file or its text.
        data: tables that do not change, or facts as `fotltn.read` takes them: given facts,
            functions, relations, names of entities. A call may replace some of them. Data of a
            single trace hold for all traces of a call.
        semantics: the semantics of the axioms, or its name.
        p: another exponent for its means.
        by: how values become a loss. "satisfaction" is the p-mean of their errors, "log" the mean
            of their negative logarithms, as in the objective of `fotltn.train`.
        mean_p: the exponent of that p-mean over axioms and traces.
        weights: weights of axioms that replace those in the theory.
        axiom_p: exponents for the means inside some axioms.
        trust: with "log", learn how far to trust each axiom, under a prior with this shape.
        budget: the memory in bytes that intermediate results may take.

    Raises:
        FotError: the theory or a setting is wrong.

    >>> import torch, fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> loss = fot.AxiomLoss(theory, fot.tables(theory, Near=[1.0, 1.0, 0.0]))
    >>> stop = torch.tensor([0.0, 0.5, 0.5], requires_grad=True)
    >>> result = loss(Stop=stop)
    >>> result.loss.backward()
    >>> round(result.values["Obey"].item(), 3), stop.grad.ne(0).tolist()
    (0.548, [False, True, True])
    """

    @public
    def __init__(
        self,
        theory: AnyTheory,
        data: AnyFacts = None,
        *,
        semantics: str | Semantics = STABLE_PRODUCT,
        p: float | None = None,
        by: AxiomsBy = "satisfaction",
        mean_p: float = 4.0,
        weights: Mapping[str, float] | None = None,
        axiom_p: Mapping[str, float] | None = None,
        trust: float | None = None,
        budget: int = BUDGET,
    ) -> None:
        """Check the settings; the axioms are planned when tables arrive."""
        super().__init__()
        self.theory = check(theory)
        nothing = Tables({}, torch.ones(1, dtype=torch.int64), 1, {})
        self.data = nothing if data is None else tables_of(data, self.theory)
        if by == "none" or not self.theory.axioms:
            raise DataError("there is nothing to minimise: the theory has no axioms")
        self.objective = Objective(
            axioms=by,
            together="sum",
            p=schedule(mean_p, "mean_p", low=1),
            trust=trust,
            axiom_weights={
                n: schedule(w, f"the weight of {n}") for n, w in (weights or {}).items()
            },
        )
        exponents = {n: schedule(q, f"the p of {n}", low=1) for n, q in (axiom_p or {}).items()}
        self.axioms = Axioms(self.theory, semantics_of(semantics, p), exponents, budget)
        for name in self.objective.axiom_weights:
            if name not in self.axioms.names:
                hint = name_hint(name, self.axioms.names)
                raise DataError(f"a weight was given for the unknown axiom '{name}'; {hint}")
        self._forget()

    def forward(
        self,
        values: Mapping[str, Any] | None = None,
        /,
        *,
        lengths: Sequence[int] | Tensor | None = None,
        **named: Any,
    ) -> AxiomValues:
        """Compute the loss and the values of the axioms on tables.

        Degrees outside [0, 1] raise an error on the first call with tables of their shape. Later
        calls do not check, because a GPU would have to wait for the answer.

        Args:
            values: tables by name, for names that cannot be Python arguments.
            lengths: the number of time points of each trace; by default, the length of the tables.
                Values beyond the end of a trace are ignored.
            named: tables by name, shape `(trace, *arguments, time)`. A table may omit the trace
                axis if it holds for all traces or there is only one. Static predicates have no time
                axis. A sparse tensor (`torch.sparse_coo_tensor`) is a list of facts; as long as the
                facts are at the same places, nothing is planned again.

        Raises:
            DataError: a table is missing, unknown, or does not fit the theory or other tables.
            LimitError: an axiom, named in the message, does not fit the budget.
        """
        if isinstance(values, Tables):
            hint = "pass tables that do not change with the theory: fotltn.AxiomLoss(theory, data)"
            raise DataError("expected degrees by name, not Tables", hint=hint)
        if values is not None and not isinstance(values, Mapping):
            raise DataError(f"expected degrees by name, not {shown(values)}")
        tables = {**values, **named} if values else named
        if torch.compiler.is_dynamo_compiling():
            plain: Callable[..., AxiomValues] = torch.compiler.disable(self._values)
            return plain(tables, lengths)
        if torch.is_inference_mode_enabled():
            # a cached plan must also work for training
            with torch.inference_mode(False), torch.no_grad():
                return self._values(tables, lengths)
        return self._values(tables, lengths)

    def _values(
        self, values: Mapping[str, Any], lengths: Sequence[int] | Tensor | None
    ) -> AxiomValues:
        tables = {name: _as_written(name, value) for name, value in values.items()}
        count = None if lengths is None else _as_lengths(lengths)
        key = (
            None if count is None else (count.shape, count.dtype),
            *(
                (n, type(t), t.shape, _degrees(t).dtype, _degrees(t).device)
                for n, t in tables.items()
            ),
        )
        planned = self._planned.get(key)
        seen = None if planned is None else planned.on(tables, count)
        if planned is None or seen is None:
            planned = self._planned[key] = self._plan(tables, count)
            seen = planned.on(tables, count)
            assert seen is not None
            planned.check(seen)
            if len(self._planned) > SHAPES:
                self._planned.popitem(last=False)
        self._planned.move_to_end(key)
        device = seen.lengths.device.type
        if torch.is_autocast_enabled(device):
            with torch.autocast(device, enabled=False):
                loss, degrees = planned.axioms.loss(self.objective, seen)
        else:
            loss, degrees = planned.axioms.loss(self.objective, seen)
        return AxiomValues(loss, degrees, self.axioms.names, self.axioms.semantics)

    def _plan(self, tables: Mapping[str, Table], lengths: Tensor | None) -> _Planned:
        """Compare tables with the theory, with each other and with the data."""
        signature = self.theory.signature
        declared: dict[str, Declared] = {**signature.predicates, **signature.functions}
        for name in tables:
            if name in signature.relations:
                raise DataError(f"'{name}' is a relation; pass relations with the data, once")
            if name not in declared:
                hint = name_hint(name, declared, "the theory declares")
                raise DataError(f"a table was given for the unknown symbol '{name}'; {hint}")
        device = _common_device(tables, self.data)
        dtype = _common_dtype(tables, self.data)
        data = self._data_on(device, dtype)
        shapes = TableShapes(batched=True, declared=True)
        lacking, facts = {}, {}
        for name, table in tables.items():
            checked, decl = as_table(_called(declared[name]), table), declared[name]
            lacking[name] = _lacking(decl, table.shape)
            checked = _completed(checked, lacking[name])
            shapes.add(_called(decl), checked.shape, decl.sorts, timed=not decl.static)
            if isinstance(table, SparseTable) and isinstance(checked, SparseTable):
                facts[name] = (table.index, checked)
        left = declared.keys() - tables.keys()
        predicates = {n: t for n, t in data.predicates.items() if n in left}
        functions = {n: t for n, t in data.functions.items() if n in left}
        for name, fixed in {**predicates, **functions}.items():
            decl = declared[name]
            timed = not decl.static and (fixed.shape[-1] > 1 or data.horizon == 1)
            shapes.add(f"{_called(decl)} in the data", fixed.shape, decl.sorts, timed=timed)
        horizon, ends = _lengths(shapes, lengths, data)
        sizes = {**data.sizes, **{sort: size for sort, (size, _) in shapes.sizes.items()}}
        for sort, size in data.sizes.items():
            if sizes[sort] != size:
                raise DataError(
                    f"the sort '{sort}' has {size} entities in the data, {sizes[sort]} in tables"
                )
        base = replace(
            data, sizes=sizes, lengths=ends.to(device), horizon=horizon, predicates=predicates,
            functions=functions, signature=signature, single=False,
        )  # fmt: skip
        return _Planned(base, dtype, replace(self.axioms, _evaluators={}), lacking, facts)

    def _data_on(self, device: torch.device, dtype: torch.dtype) -> Tables:
        """Return the data on a device and in a precision, converted once."""
        if (device, dtype) not in self._moved:
            moved = self.data.to(device)
            predicates = {n: _in_precision(t, dtype) for n, t in moved.predicates.items()}
            self._moved[device, dtype] = replace(moved, predicates=predicates)
        return self._moved[device, dtype]

    def _forget(self) -> None:
        self._planned: OrderedDict[tuple[object, ...], _Planned] = OrderedDict()
        self._moved: dict[tuple[torch.device, torch.dtype], Tables] = {}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> AxiomLoss:
        """Move the data, which are not part of the module's state, with the module."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        device = fn(torch.empty(0, device=self.data.lengths.device)).device
        if device != self.data.lengths.device and device.type != "meta":
            self.data = self.data.to(device)
            self._forget()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return everything except plans, which are built again."""
        emptied = replace(self.axioms, _evaluators={})
        return {**self.__dict__, "axioms": emptied, "_planned": OrderedDict(), "_moved": {}}

    def extra_repr(self) -> str:
        """Return the axioms and their semantics."""
        return f"{', '.join(self.axioms.names)}; {self.axioms.semantics.name}"


@dataclass(slots=True, eq=False)
class _Planned:
    """Axioms planned for tables of certain shapes.

    Args:
        tables: all tables except those that calls bring.
        dtype: the precision of degrees.
        axioms: the axioms with their plans.
        lacking: for each table that calls bring, whether it lacks the trace axis and the time axis.
        facts: for each table that is a list of facts, its places as given, and with all axes.
    """

    tables: Tables
    dtype: torch.dtype
    axioms: Axioms
    lacking: dict[str, tuple[bool, bool]]
    facts: dict[str, tuple[Tensor, SparseTable]]

    def on(self, tables: Mapping[str, Table], lengths: Tensor | None) -> Tables | None:
        """Return all tables, including those of a call; None if facts are at other places."""
        base, ends, inside = self.tables, self.tables.lengths, None
        if lengths is not None:
            ends = _checked_ends(lengths, base)
            inside = within(ends, base.times)
        predicates, functions = dict(base.predicates), dict(base.functions)
        for name, table in tables.items():
            if isinstance(table, SparseTable):
                written, known = self.facts[name]
                if table.index is not written and not torch.equal(table.index, written):
                    return None
                predicates[name] = replace(known, value=table.value.to(self.dtype))
                continue
            full = _completed(table, self.lacking[name])
            if inside is not None and full.shape[-1] > 1:
                room = inside.reshape(base.batch, *[1] * (full.dim() - 2), base.horizon)
                full = torch.where(room, full, 0)
            if name in base.signature.functions:
                functions[name] = full
            elif full.dtype != self.dtype and full.is_floating_point():
                predicates[name] = full.to(self.dtype)
            else:
                predicates[name] = full
        return replace(base, lengths=ends, predicates=predicates, functions=functions)

    def check(self, seen: Tables) -> None:
        """Raise an error for wrong degrees and results, as far as numbers can be read."""
        for name in self.lacking:
            table = seen.functions.get(name, seen.predicates.get(name))
            if not isinstance(table, Tensor) or is_transformed(table):
                continue
            if name in seen.predicates:
                check_degrees(name, table)
            else:
                check_results(seen.signature.functions[name], table, seen.sizes)


def _as_written(name: str, value: Any) -> Table:
    """Convert a value to a table with the same number of axes."""
    if isinstance(value, SparseTable):
        return value
    if not isinstance(value, Tensor):
        return as_table(f"'{name}'", value)
    if value.layout != torch.sparse_coo or value.dense_dim():
        return value
    facts = value.coalesce()
    return SparseTable(facts.indices(), facts.values(), tuple(facts.shape))


def _as_lengths(lengths: Any) -> Tensor:
    try:
        return torch.as_tensor(lengths)
    except (TypeError, ValueError, RuntimeError):
        raise DataError(f"lengths must be whole numbers, not {shown(lengths)}") from None


def _degrees(table: Table) -> Tensor:
    return table.value if isinstance(table, SparseTable) else table


def _called(decl: Declared) -> str:
    kind = "predicate" if isinstance(decl, PredicateDecl) else "function"
    return f"{kind} '{decl.name}'"


def _lacking(decl: Declared, shape: Sequence[int]) -> tuple[bool, bool]:
    """Whether a table lacks the trace axis, and whether it lacks the time axis."""
    arguments, rank = len(decl.sorts), len(shape)
    if rank == arguments + 2 and (not decl.static or shape[-1] == 1):
        return False, False
    if rank == arguments + 1:
        return not decl.static, decl.static
    if rank == arguments and decl.static:
        return True, True
    axes = [*decl.sorts, *([] if decl.static else ["time"])]
    raise DataError(
        f"the table of {_called(decl)} has shape {tuple(shape)}; expected axes "
        f"({', '.join(['trace', *axes])}), or ({', '.join(axes)}) for all traces"
    )


def _completed(table: T, lacking: tuple[bool, bool]) -> T:
    """Add the missing axes, for shape (trace, *arguments, time)."""
    no_trace, no_time = lacking
    if no_trace:
        table = table.unsqueeze(0)  # type: ignore[assignment]
    if no_time:
        table = table.unsqueeze(-1)  # type: ignore[assignment]
    return table


def _common_device(tables: Mapping[str, Table], data: Tables) -> torch.device:
    devices = {_degrees(table).device: name for name, table in tables.items()}
    if len(devices) > 1:
        (here, one), (there, other) = list(devices.items())[:2]
        raise DataError(f"the table of '{one}' is on {here}, but that of '{other}' is on {there}")
    return next(iter(devices), data.lengths.device)


def _common_dtype(tables: Mapping[str, Table], data: Tables) -> torch.dtype:
    """Return the widest precision of the tables, at least single; without tables, the data's."""
    kinds = [_degrees(t).dtype for t in tables.values() if _degrees(t).is_floating_point()]
    if not kinds:
        return data.dtype
    return functools.reduce(torch.promote_types, kinds, torch.float32)


def _in_precision(table: Table, dtype: torch.dtype) -> Table:
    if isinstance(table, SparseTable):
        return replace(table, value=table.value.to(dtype))
    return table.to(dtype) if table.is_floating_point() else table


def _lengths(shapes: TableShapes, lengths: Tensor | None, data: Tables) -> tuple[int, Tensor]:
    """Return the number of time points of the tables, and of each trace."""
    horizon = None if shapes.times and data.horizon == 1 else data.horizon
    horizon = shapes.lengths(None, horizon)[0]
    if lengths is not None:
        if data.batch > 1:
            raise DataError("the data already state the lengths of traces: leave out 'lengths'")
        return shapes.lengths(lengths.cpu(), horizon)
    named = {**shapes.traces, **({"the data": data.batch} if data.batch > 1 else {})}
    traces = {number: what for what, number in named.items() if number != 1}
    if len(traces) > 1:
        (few, one), (many, other) = list(traces.items())[:2]
        raise DataError(f"traces of {one}: {few}, of {other}: {many}; they must be equal")
    full = torch.full((next(iter(traces), 1),), horizon)
    return shapes.lengths(data.lengths.cpu() if data.batch > 1 else full, horizon)


def _checked_ends(lengths: Tensor, base: Tables) -> Tensor:
    """Return lengths on the device of the tables, checked if that needs no waiting."""
    if lengths.device.type == "cpu":
        low, high = torch.aminmax(lengths)
        if low < 1 or high > base.horizon:
            raise DataError(f"lengths must be from 1 to {base.horizon}, not {lengths.tolist()}")
    return lengths.to(base.lengths.device)
