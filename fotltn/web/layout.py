"""How the rows of a heat map are numbered, and what they are called."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.analysis.cells import named_binding
from fotltn.analysis.explain import Cell, Rule, Subject


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Rows by trace, then by the place on each axis of a rule, the last axis first.

    Args:
        rule: whose bindings the rows are.
        subject: the data that they are bindings in.
    """

    rule: Rule
    subject: Subject

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of places of each axis."""
        return tuple(self.subject.tables.size(a) for a in self.rule.axes)

    @property
    def bindings(self) -> int:
        """The number of rows of a trace."""
        return math.prod(self.sizes)

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return self.subject.tables.batch * self.bindings

    def cell(self, row: int, time: int) -> Cell:
        """The cell of a row at a time."""
        trace, rest = divmod(row, self.bindings)
        numbers: list[int] = []
        for size in reversed(self.sizes):
            rest, number = divmod(rest, size)
            numbers.insert(0, number)
        return Cell(trace, tuple(numbers), time)

    def binding(self, row: int) -> dict[str, str]:
        """The entities of a row by variable."""
        return named_binding(self.rule, self.subject, self.cell(row, 0))

    def trace(self, row: int) -> str | None:
        """The name of a row's trace, where there are several."""
        if self.subject.tables.batch == 1:
            return None
        return self.subject.trace_name(row // self.bindings)

    def label(self, row: int) -> str:
        """What a row is called beside a heat map."""
        trace = self.trace(row)
        where = [] if trace is None else [f"{trace}:"]
        return " ".join([*where, ", ".join(self.binding(row).values())]).strip()

    def containing(self, text: str) -> Tensor:
        """Which rows bind an entity whose name contains a text, whatever the case of letters."""
        model, wanted = self.subject.tables, text.casefold()
        found = torch.zeros(model.batch, *self.sizes, dtype=torch.bool)
        for place, axis in enumerate(self.rule.axes):
            hits = torch.zeros(model.batch, self.sizes[place], dtype=torch.bool)
            columns = [(str(axis.sort), list(range(self.sizes[place])))]
            if axis.relation is not None:
                sorts = self.subject.signature.relations[axis.relation].sorts
                columns = list(zip(sorts, model.relation(axis.relation).T.tolist(), strict=True))
            for sort, entities in columns:
                named = [
                    [wanted in self.subject.entity(sort, t, i).casefold() for i in entities]
                    for t in range(model.batch)
                ]
                hits |= torch.tensor(named, dtype=torch.bool)
            shape = [1] * found.dim()
            shape[0], shape[1 + place] = hits.shape
            found |= hits.reshape(shape)
        return found.reshape(-1)
