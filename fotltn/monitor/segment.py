"""The last steps of a trace as tables, on which formulas with a finite reach are evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.domain import Array, Domain, Kind
from fotltn.monitor.intake import Intake
from fotltn.monitor.series import FIRST, HIGH, LOW, Stream
from fotltn.monitor.totals import Total, over_time
from fotltn.semantics import reference
from fotltn.semantics.config import Semantics
from fotltn.semantics.interpretation import Tables, Value
from fotltn.semantics.operators import Operators

Segments = dict[str, Tensor]


class Segment:
    """The last points of a trace, with streams among the predicates.

    Attributes:
        start: the time of the first point that is kept.
        count: how many points there were in all.
        tables: degrees of predicates and streams, with axes (trace, arguments …, time).
    """

    def __init__(
        self, signature: Signature, domain: Domain, intake: Intake, semantics: Semantics,
        ops: Operators,
    ) -> None:  # fmt: skip
        """No points yet."""
        self.signature, self.domain, self.intake = signature, domain, intake
        self.semantics, self.ops = semantics, ops
        self.keep = 1
        self.start = self.count = 0
        self.streams: list[Stream] = []
        self.tables: Segments = {}
        self.functions: Segments = {}
        self.totals: dict[str, Total] = {}
        self.since: Segments = {}

    @property
    def length(self) -> int:
        """How many points are kept."""
        return self.count - self.start

    def push(self, added: int, tables: Mapping[str, Array], functions: Mapping[str, Array]) -> None:
        """Add points, and drop none: `trim` does that."""
        new = {n: _last(t) for n, t in tables.items()}
        self.tables |= {n: _joined(self.tables.get(n), t) for n, t in new.items()}
        values = {n: _last(t) for n, t in functions.items()}
        self.functions |= {n: _joined(self.functions.get(n), t) for n, t in values.items()}
        self.count += added
        times = torch.arange(self.start, self.count).unsqueeze(0)
        self.tables[FIRST] = (times == 0).double()
        for stream in self.streams:
            self._stream(stream, added)

    def trim(self) -> None:
        """Keep as many points as formulas may need."""
        drop = max(0, self.length - self.keep)
        if drop:
            self.start += drop
            self.tables = {n: t[..., drop:].clone() for n, t in self.tables.items()}
            self.functions = {n: t[..., drop:].clone() for n, t in self.functions.items()}

    def model(self, tables: Segments, lengths: Sequence[int]) -> Tables:
        """Segments over some points, with what is static; the trace may have several lengths."""
        static = {n: torch.from_numpy(t).unsqueeze(-1) for n, t in self.intake.static.items()}
        fixed = {n: torch.from_numpy(t).unsqueeze(-1) for n, t in self.intake.functions.items()}
        pairs = {n: torch.from_numpy(t) for n, t in self.intake.relations.items()}
        sizes = {sort: self.domain.size(sort) for sort in self.domain.names}
        return Tables(
            sizes, torch.tensor(lengths), max(lengths), {**static, **tables},
            {**fixed, **self.functions}, self.domain.names, pairs,
        )  # fmt: skip

    def evaluate(self, formula: c.Formula) -> Value:
        """A formula at every point that is kept, if the trace ends with them."""
        model = self.model(self.tables, [self.length])
        return reference.evaluate(formula, model, self.semantics, dtype=torch.float64)

    # --- streams ------------------------------------------------------------------------------

    def _stream(self, stream: Stream, added: int) -> None:
        shape = [self.domain.size(str(a.sort)) for a in stream.axes]
        if not stream.unbounded:
            found = self._ordered(self.evaluate(stream.node), stream.axes)
            self.tables[stream.name] = self.ops.leave(found)
            return
        match stream.node:
            case c.Aggregate(universal, arg, window):
                u = self._ordered(self.evaluate(arg), stream.axes)
                empty = over_time(self.ops, self.semantics, universal).empty((1, *shape))
                total = self.totals.get(stream.name, empty)
                points = []
                for place in range(self.length - added, self.length):
                    if self.start + place >= window.low:
                        here = place - window.low
                        total = total.plus(u[..., here : here + 1])
                    points.append(total.read())
                self.totals[stream.name] = total
            case c.Until(dual, left, right):
                a, b = (self._ordered(self.evaluate(part), stream.axes) for part in (left, right))
                points = []
                for place in range(self.length - added, self.length):
                    points.append(self._since(stream.name, a[..., place], b[..., place], dual))
            case _:
                raise AssertionError(stream.node)
        new = self.ops.leave(torch.stack(points, -1))
        self.tables[stream.name] = _joined(self.tables.get(stream.name), new)

    def _since(self, name: str, a: Tensor, b: Tensor, dual: bool) -> Tensor:
        ops = self.ops
        if dual:
            a, b = ops.negate(a), ops.negate(b)
        found = b
        if name in self.since:
            found = ops.over_time(torch.stack([b, ops.conjoin(a, self.since[name])], -1), False)
        self.since[name] = found
        return ops.negate(found) if dual else found

    def _ordered(self, value: Value, axes: tuple[c.Axis, ...]) -> Tensor:
        """A value with axes (trace, axes …, time), all in full."""
        order = [0, *(1 + value.axes.index(a) for a in axes if a in value.axes), -1]
        found = value.tensor.permute([i % value.tensor.dim() for i in order])
        for place, axis in enumerate(axes):
            if axis not in value.axes:
                found = found.unsqueeze(1 + place)
        shape = [self.domain.size(str(a.sort)) for a in axes]
        return found.expand(1, *shape, found.shape[-1])

    # --- what is not known --------------------------------------------------------------------

    def extreme(
        self, formulas: tuple[c.Formula, c.Formula], more: Sequence[int], *, known: bool = True
    ) -> tuple[Value, Value]:
        """The lowest and highest degrees at points that are kept, and some that may follow.

        Args:
            formulas: for low and for high degrees, see `extremes`.
            more: how many unknown points may follow.
            known: whether the points that are kept come before them.
        """
        kept = self.length if known else 0
        tables: Segments = {}
        for name, table in self.tables.items():
            # After points that are kept, no point is the first.
            for mark, degree in ((LOW, 0.0), (HIGH, float(name != FIRST or not known))):
                shape = (*table.shape[:-1], max(more))
                beyond = torch.full(shape, degree, dtype=torch.float64)
                tables[name + mark] = torch.cat([table[..., :kept], beyond], -1)
        model = self.model(tables, [kept + count for count in more])
        low, high = (
            reference.evaluate(f, model, self.semantics, dtype=torch.float64) for f in formulas
        )
        return (
            Value(low.axes, low.tensor.amin(0, keepdim=True)),
            Value(high.axes, high.tensor.amax(0, keepdim=True)),
        )

    # --- entities -----------------------------------------------------------------------------

    def grow(self, kind: Kind) -> None:
        """One more entity, who is as a stranger of that kind was. It is numbered afterwards."""
        for name in self.tables:
            if name == FIRST:
                continue
            self.tables[name] = self.grown(self.tables[name], self._axes(name), kind)
        for name, table in self.functions.items():
            axes = tuple(c.Axis(s, s) for s in self.signature.functions[name].sorts)
            self.functions[name] = self.grown(table, axes, kind)
        for stream in self.streams:
            if stream.name in self.totals:
                old = self.totals[stream.name]
                self.totals[stream.name] = self.grown_total(old, stream.axes, kind)
            if stream.name in self.since:
                self.since[stream.name] = self.grown(self.since[stream.name], stream.axes, kind)

    def grown(self, tensor: Tensor, axes: tuple[c.Axis, ...], kind: Kind) -> Tensor:
        """A tensor with axes (trace, axes …) and one more entity."""
        return torch.from_numpy(self.domain.grown(tensor.numpy(), axes, kind, lead=1))

    def grown_total(self, total: Total, axes: tuple[c.Axis, ...], kind: Kind) -> Total:
        """A total for each binding, with one more entity."""
        parts = (self.grown(t, axes, kind) for t in (total.total, total.top, total.count))
        return Total(total.rule, *parts)

    def _axes(self, name: str) -> tuple[c.Axis, ...]:
        for stream in self.streams:
            if stream.name == name:
                return stream.axes
        return tuple(c.Axis(s, s) for s in self.signature.predicates[name].sorts)


def _last(table: Array) -> Tensor:
    """A table with axes (step, …) as one with axes (trace, …, time)."""
    return torch.from_numpy(table).movedim(0, -1).unsqueeze(0).clone()


def _joined(old: Tensor | None, new: Tensor) -> Tensor:
    return new if old is None else torch.cat([old, new], -1)
