"""The last steps of a trace as tables, to evaluate formulas with a finite reach."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import assert_never

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.domain import Array, Axes, Domain, Stranger, axes_of
from fotltn.monitor.numbering import Numbering
from fotltn.monitor.series import FIRST, HIGH, LOW, Stream
from fotltn.monitor.totals import Total, aggregator
from fotltn.semantics import reference
from fotltn.semantics.config import Semantics
from fotltn.semantics.operators import Operators
from fotltn.semantics.tables import Tables, Value

Tensors = dict[str, Tensor]


class RecentPoints:
    """The last points of a trace, with streams among the predicates.

    Attributes:
        start: the time of the first point that is kept.
        count: the number of all points so far.
        need: the most points that a formula may need.
        tables: the degrees of predicates and streams, with axes (trace, arguments …, time).
        rows: the number of traces: one, or one for each of several ends.
    """

    def __init__(
        self, signature: Signature, domain: Domain, intake: Numbering, semantics: Semantics,
        ops: Operators,
    ) -> None:  # fmt: skip
        """Start without points."""
        self.signature, self.domain, self.intake = signature, domain, intake
        self.semantics, self.ops = semantics, ops
        self.need = 1
        self.start = self.count = 0
        self.rows = 1
        self.streams: list[Stream] = []
        self.tables: Tensors = {}
        self.functions: Tensors = {}
        self.totals: dict[str, Total] = {}
        self.since: Tensors = {}

    @property
    def length(self) -> int:
        """The number of points that are kept."""
        return self.count - self.start

    def push(self, added: int, tables: Mapping[str, Array], functions: Mapping[str, Array]) -> None:
        """Add points; `trim` drops old ones."""
        for target, new in ((self.tables, tables), (self.functions, functions)):
            for name, table in new.items():
                _append(target, name, torch.from_numpy(table).movedim(0, -1).unsqueeze(0).clone())
        self.count += added
        times = torch.arange(self.start, self.count).unsqueeze(0)
        self.tables[FIRST] = (times == 0).double()
        for stream in self.streams:
            self._stream(stream, added)

    def trim(self) -> None:
        """Drop points that no formula needs."""
        drop = max(0, self.length - self.need)
        if drop:
            self.start += drop
            self.tables = {n: t[..., drop:].clone() for n, t in self.tables.items()}
            self.functions = {n: t[..., drop:].clone() for n, t in self.functions.items()}

    def before_each(self, ends: Sequence[int], length: int) -> RecentPoints:
        """Return the last `length` points before each of several ends, one row for each end.

        The rows have the times of the last one.
        """
        rows = copy.copy(self)
        starts = torch.tensor([end - length - self.start for end in ends])

        def cut(table: Tensor) -> Tensor:
            return table.unfold(-1, length, 1).index_select(-2, starts).movedim(-2, 0).squeeze(1)

        rows.tables = {n: cut(t) for n, t in self.tables.items()}
        rows.functions = {n: cut(t) for n, t in self.functions.items()}
        rows.start, rows.count, rows.rows = ends[-1] - length, ends[-1], len(ends)
        return rows

    def points(self, tables: Tensors, lengths: Sequence[int]) -> Tables:
        """Return tables over some points with the static symbols, one trace for each length."""
        static = {n: torch.from_numpy(t).unsqueeze(-1) for n, t in self.intake.static.items()}
        fixed = {n: torch.from_numpy(t).unsqueeze(-1) for n, t in self.intake.functions.items()}
        pairs = {n: torch.from_numpy(t) for n, t in self.domain.relations.items()}
        sizes = {sort: self.domain.size(sort) for sort in self.domain.names}
        return Tables(
            sizes, torch.tensor(lengths), max(lengths), {**static, **tables},
            {**fixed, **self.functions}, self.domain.names, pairs,
        )  # fmt: skip

    def evaluate(self, formula: c.Formula, tables: Tables | None = None) -> Value:
        """Return a formula's values at all kept points, if the trace ended now; or on tables."""
        if tables is None:
            tables = self.points(self.tables, [self.length] * self.rows)
        return reference.evaluate(formula, tables, self.semantics, dtype=torch.float64)

    # --- streams ------------------------------------------------------------------------------

    def _stream(self, stream: Stream, added: int) -> None:
        if not stream.unbounded:
            value = self._in_full(self.evaluate(stream.node), stream.axes)
            self.tables[stream.name] = self.ops.leave(value)
            return
        new = range(self.length - added, self.length)
        assert isinstance(stream.node, c.Aggregate | c.Until)
        match stream.node:
            case c.Aggregate(universal, arg, window):
                u = self._in_full(self.evaluate(arg), stream.axes)
                total = self.totals.get(stream.name)
                if total is None:
                    rule = aggregator(self.ops, self.semantics, universal, time=True)
                    total = rule.empty(tuple(u.shape[:-1]))
                points = []
                for place in new:
                    if self.start + place >= window.low:
                        here = place - window.low
                        total = total.plus(u[..., here : here + 1])
                    points.append(total.read())
                self.totals[stream.name] = total
            case c.Until(dual, left, right):
                a, b = (self._in_full(self.evaluate(part), stream.axes) for part in (left, right))
                points = [self._since(stream.name, a[..., t], b[..., t], dual) for t in new]
            case never:
                assert_never(never)
        _append(self.tables, stream.name, self.ops.leave(torch.stack(points, -1)))

    def _since(self, name: str, a: Tensor, b: Tensor, dual: bool) -> Tensor:
        ops = self.ops
        if dual:
            a, b = ops.negate(a), ops.negate(b)
        if name in self.since:
            b = ops.over_time(torch.stack([b, ops.conjoin(a, self.since[name])], -1), False)
        self.since[name] = b
        return ops.negate(b) if dual else b

    def _in_full(self, value: Value, axes: Axes) -> Tensor:
        """Return a value with axes (trace, axes …, time), each in full size."""
        return expanded(value, axes).expand(1, *self.domain.shape(axes), value.tensor.shape[-1])

    # --- unknown points -----------------------------------------------------------------------

    def extreme(
        self, formulas: tuple[c.Formula, c.Formula], more: Sequence[int], *, known: bool = True
    ) -> tuple[Value, Value]:
        """Return the lowest and highest degrees at kept points and at unknown points after them.

        Args:
            formulas: formulas for low and for high degrees, from `extremes`.
            more: the numbers of unknown points to try.
            known: whether the kept points come before the unknown ones.
        """
        before = self.length if known else 0
        tables: Tensors = {}
        rows = self.rows if known else 1
        for name, table in self.tables.items():
            table = table[:rows]
            # A point after the kept ones is not the first.
            for mark, degree in ((LOW, 0.0), (HIGH, float(name != FIRST or not known))):
                beyond = torch.full((*table.shape[1:-1], max(more), rows), degree).double()
                # Rows lie side by side in memory, so one operation processes all of them.
                joined = torch.cat([table[..., :before].movedim(0, -1), beyond], -2)
                joined = joined.repeat(*[1] * (joined.dim() - 1), len(more))
                tables[name + mark] = joined.movedim(-1, 0)
        ahead = self.points(tables, [before + count for count in more for _ in range(rows)])
        low, high = (self.evaluate(formula, ahead) for formula in formulas)
        return (
            Value(low.axes, low.tensor.unflatten(0, (len(more), rows)).amin(0)),
            Value(high.axes, high.tensor.unflatten(0, (len(more), rows)).amax(0)),
        )

    # --- entities -----------------------------------------------------------------------------

    def grow(self, kind: Stranger) -> None:
        """Add an entity, which takes over the values of a stranger. It is numbered afterwards."""
        axes = {stream.name: stream.axes for stream in self.streams} | {FIRST: ()}
        for tables, declared in (
            (self.tables, self.signature.predicates),
            (self.functions, self.signature.functions),
            (self.since, {}),
        ):
            for name, table in tables.items():
                over = axes[name] if name in axes else axes_of(declared[name].sorts)
                tables[name] = self.grown(table, over, kind)
        for name, total in self.totals.items():
            self.totals[name] = self.grown_total(total, axes[name], kind)

    def grown(self, tensor: Tensor, axes: Axes, kind: Stranger) -> Tensor:
        """Return a tensor with axes (trace, axes …) and one more entity."""
        return torch.from_numpy(self.domain.grown(tensor.numpy(), axes, kind))

    def grown_total(self, total: Total, axes: Axes, kind: Stranger) -> Total:
        """Return the totals of bindings, with one more entity."""
        parts = (self.grown(t, axes, kind) for t in (total.total, total.top, total.count))
        return Total(total.rule, *parts)


def expanded(value: Value, axes: Axes) -> Tensor:
    """Return a value with a dimension for each of some axes, in their order."""
    order = [0, *(1 + value.axes.index(a) for a in axes if a in value.axes), value.tensor.dim() - 1]
    tensor = value.tensor.permute(order)
    for place, axis in enumerate(axes):
        if axis not in value.axes:
            tensor = tensor.unsqueeze(1 + place)
    return tensor


def _append(tables: Tensors, name: str, new: Tensor) -> None:
    tables[name] = torch.cat([tables[name], new], -1) if name in tables else new
