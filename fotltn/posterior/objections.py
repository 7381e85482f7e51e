"""Evidence against a label: axioms that would break, and labels that would be wrong.

Sampled worlds that contradict the label are changed in one place: its fact takes the truth that the
label states, and defined predicates follow. Axioms that the change breaks, and other labels that it
makes wrong, are evidence against the label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fotltn.analysis.axes import binding
from fotltn.analysis.cells import Cell
from fotltn.analysis.explain.repairs import repair
from fotltn.analysis.explain.site import FactPlace, Site
from fotltn.analysis.record import Record
from fotltn.format import degree
from fotltn.grounding.labels import Labels
from fotltn.posterior.clauses import Clause
from fotltn.posterior.ground import atom_text, clause_cells, defined, definition_clauses, told
from fotltn.posterior.posterior import Posterior
from fotltn.posterior.rows import Bindings, RowTruth, at_index, put
from fotltn.posterior.structure import Structure

#: A labelled fact: its predicate, its place in the table, and the truth that the label states.
LabelCell = tuple[str, tuple[int, ...], bool]

#: The most truth values of one evaluation.
_AT_ONCE = 1 << 26

#: The most axioms, other labels, and facts of an axiom, that are named for a label.
_MOST = 3


@dataclass(frozen=True, slots=True)
class ToldFact(Record):
    """A fact with its probability and its label.

    Args:
        text: the fact.
        time: its time; None if it is static.
        truth: a truth value.
        probability: the probability that the fact has this truth value.
        label: the truth that a label states; None without a label.
    """

    text: str
    time: int | None
    truth: bool
    probability: float
    label: bool | None

    KEYS = ("fact=text", "time", "truth", "probability", "label")

    def __str__(self) -> str:
        """The fact in words, with its probability."""
        label = "" if self.label is None else f", labelled {degree(self.label)}"
        return f"{told(self.text, self.time, self.truth)} ({degree(self.probability, 2)}{label})"


@dataclass(frozen=True, slots=True)
class AxiomObjection(Record):
    """An axiom that a label breaks.

    Args:
        axiom: its name.
        binding: the names of entities by variable, where it breaks.
        time: the time point at which it breaks.
        share: the share of worlds that contradict the label in which it breaks.
        unless: the fewest other facts that would have to change for the axiom to hold; None if no
            such change exists.
    """

    axiom: str
    binding: dict[str, str]
    time: int
    share: float
    unless: tuple[ToldFact, ...] | None

    def __str__(self) -> str:
        """The broken axiom, and the facts that would have to change, in words."""
        where = "".join(f"{variable} = {name}, " for variable, name in self.binding.items())
        text = f"breaks {self.axiom} at {where}{self.time}"
        if self.unless:
            text += f", unless {' and '.join(map(str, self.unless[:_MOST]))}"
        if self.unless and len(self.unless) > _MOST:
            text += f" and {len(self.unless) - _MOST} more"
        return text


@dataclass(frozen=True, slots=True)
class Objections(Record):
    """The evidence against a label.

    Args:
        axioms: the axioms that the label breaks, the most frequent first.
        labels: other labels that would be wrong if this one were right.
        nearby: the nearest earlier and later labels of the same fact, if they state the opposite.
        worlds: the number of worlds that contradict the label and were looked at.
    """

    axioms: tuple[AxiomObjection, ...]
    labels: tuple[ToldFact, ...]
    nearby: tuple[ToldFact, ...]
    worlds: int

    @property
    def words(self) -> list[str]:
        """The evidence in words."""
        return [
            *map(str, self.axioms),
            *(f"makes {told(f.text, f.time, f.truth)} wrong" for f in self.labels),
            *(f"{told(f.text, f.time, f.truth)} is near" for f in self.nearby),
        ]


def objections(
    posterior: Posterior, said: Structure, labels: Labels, cells: Sequence[LabelCell], worlds: int
) -> list[Objections]:
    """The evidence against each of some labels, from at most `worlds` worlds for each."""
    return _Against(posterior, said, labels, cells, worlds).run()


class _Against:
    def __init__(
        self, posterior: Posterior, said: Structure, labels: Labels, cells: Sequence[LabelCell],
        worlds: int,
    ) -> None:  # fmt: skip
        self.posterior, self.labels, self.cells = posterior, labels, cells
        self.tables, self.plan = posterior.tables, said
        self.row_truth = RowTruth(posterior.tables, posterior.learned)
        stated = definition_clauses(self.plan, self.tables)
        self.clauses = [*self.plan.clauses, *stated.values()]
        self.rows = [self.row_truth.instances(one.axes, one.body) for one in self.clauses]
        self.worlds = [self._contradicting(cell, worlds) for cell in cells]

    def run(self) -> list[Objections]:
        axioms: list[list[AxiomObjection]] = [[] for _ in self.cells]
        wrong: list[Counter[tuple[str, int]]] = [Counter() for _ in self.cells]
        for places, before, after in self._changed():
            for clause, rows in zip(self.clauses, self.rows, strict=True):
                broken = self._broken(clause, rows, before, after)
                for number, part in places.items():
                    if bool(broken[part].any()):
                        worlds = {n: t[part] for n, t in after.items()}
                        one = self._objection(clause, rows, broken[part], number, worlds)
                        axioms[number].append(one)
            for name, turned in self._wrong(before, after):
                for number, part in places.items():
                    hits = turned[part].sum(0)
                    for at in hits.nonzero().squeeze(-1).tolist():
                        wrong[number][name, at] += int(hits[at])
        return [
            Objections(
                tuple(sorted(axioms[n], key=lambda one: -one.share)[:_MOST]),
                tuple(self._labelled(*key) for key, _ in wrong[n].most_common(_MOST)),
                tuple(self._nearby(cell)),
                len(self.worlds[n]),
            )
            for n, cell in enumerate(self.cells)
        ]

    # --- worlds in which the label is right ---

    def _contradicting(self, cell: LabelCell, most: int) -> Tensor:
        """The worlds that contradict a label, the most probable first."""
        name, place, says = cell
        truth = at_index(self.posterior.worlds[name], *map(torch.tensor, place))
        numbers = (truth != says).nonzero().squeeze(-1)
        order = self.posterior.density[numbers].argsort(descending=True, stable=True)
        return numbers[order][:most]

    def _changed(
        self,
    ) -> Iterator[tuple[dict[int, slice], Mapping[str, Tensor], Mapping[str, Tensor]]]:
        """For some labels at a time: the places of their worlds, and these before and after."""
        largest = max((len(rows) for rows in self.rows), default=1) * self.tables.horizon
        most = max(1, _AT_ONCE // max(1, largest))
        queue = [n for n, worlds in enumerate(self.worlds) if len(worlds)]
        while queue:
            places: dict[int, slice] = {}
            stop = 0
            while queue and (not places or stop + len(self.worlds[queue[0]]) <= most):
                number = queue.pop(0)
                start, stop = stop, stop + len(self.worlds[number])
                places[number] = slice(start, stop)
            chosen = torch.cat([self.worlds[n] for n in places])
            before = {n: t[chosen] for n, t in self.posterior.worlds.items()}
            after = {n: t.clone() for n, t in before.items()}
            for name in self.plan.free:
                self._turn(name, after[name], places)
            for name, definition in self.plan.definitions.items():
                after[name] = defined(definition, self.row_truth, after)
                self._turn(name, after[name], places)
            yield places, before, after

    def _turn(self, predicate: str, table: Tensor, places: Mapping[int, slice]) -> None:
        """Give labelled facts of a predicate the truth that their labels state."""
        for number, part in places.items():
            name, place, says = self.cells[number]
            if name == predicate:
                put(table[part], torch.tensor(says), *map(torch.tensor, place))

    # --- axioms ---

    def _broken(
        self, clause: Clause, rows: Bindings, before: Mapping[str, Tensor],
        after: Mapping[str, Tensor],
    ) -> Tensor:  # fmt: skip
        """Where the change breaks a clause, with axes (world, row, time)."""
        count = next(iter(after.values())).shape[0]
        was, now = (self.row_truth.truth(clause.body, rows, worlds) for worlds in (before, after))
        broken = was & ~now & self.tables.inside[rows.trace]
        return broken.expand(count, len(rows), self.tables.horizon)

    def _objection(
        self, clause: Clause, rows: Bindings, broken: Tensor, number: int,
        worlds: Mapping[str, Tensor],
    ) -> AxiomObjection:  # fmt: skip
        """The cell in which a clause breaks most often, and a repair in the first such world."""
        often = broken.sum(0)
        row, time = divmod(int(often.argmax()), often.shape[1])
        world = int(broken[:, row, time].to(torch.int8).argmax())
        share = float(broken.flatten(1).any(1).double().mean())
        trace = int(rows.trace[row])
        numbers = tuple(int(rows.places[axis][row]) for axis in clause.axes)
        kind = self.tables.dtype
        some = {n: t[world].to(kind) for n, t in worlds.items()}
        tables = replace(self.tables, predicates={**self.tables.predicates, **some})
        site = Site(clause_cells(clause, clause.body, tables), Cell(trace, numbers, time))
        name, place, _ = self.cells[number]
        fixed = [n for n in self.tables.predicates if n not in self.posterior.learned]
        here = np.ravel_multi_index(place[1:], tuple(tables.predicate(name).shape[1:]))
        flips = repair(site, fixed=fixed, held=[FactPlace(name, int(here))]).flips
        unless = None
        if flips is not None:
            unless = tuple(self._told(f.predicate, trace, f.place, f.becomes) for f in flips)
        return AxiomObjection(
            clause.axiom, binding(clause.axes, numbers, trace, self.tables), time, share, unless
        )

    # --- labels ---

    def _wrong(
        self, before: Mapping[str, Tensor], after: Mapping[str, Tensor]
    ) -> Iterator[tuple[str, Tensor]]:
        """Which labels the change makes wrong, with axes (world, label), by predicate."""
        for name, truth in self.labels.truth.items():
            if truth.numel() and name in self.plan.definitions:
                index = tuple(self.labels.index[name].to(before[name].device))
                says = truth.to(before[name].device) >= 0.5
                was, now = (at_index(worlds[name], *index) for worlds in (before, after))
                yield name, (was == says) & (now != says)

    def _labelled(self, name: str, number: int) -> ToldFact:
        """The fact of a label, with its label."""
        trace, *rest = self.labels.index[name][:, number].tolist()
        says = bool(self.labels.truth[name][number] >= 0.5)
        shape = tuple(self.posterior.marginals[name].shape[1:])
        return self._told(name, trace, int(np.ravel_multi_index(rest, shape)), says)

    def _nearby(self, cell: LabelCell) -> Iterator[ToldFact]:
        """The nearest earlier and later labels of the same atom, if they state the opposite."""
        name, place, says = cell
        index = self.labels.index[name].cpu()
        if self.tables.signature.predicates[name].static:
            return
        same = (index[:-1] == torch.tensor(place[:-1]).unsqueeze(-1)).all(0)
        numbers = same.nonzero().squeeze(-1)
        away = index[-1, numbers] - place[-1]
        for side in (away < 0, away > 0):
            if bool(side.any()):
                nearest = numbers[side][away[side].abs().argmin()]
                if bool(self.labels.truth[name][nearest] >= 0.5) != says:
                    yield self._labelled(name, int(nearest))

    def _told(self, name: str, trace: int, place: int, truth: bool) -> ToldFact:
        """A fact with its probability and label, by its place in the table of a trace."""
        marginal = self.posterior.marginals[name]
        *arguments, time = map(int, np.unravel_index(place, tuple(marginal.shape[1:])))
        true = float(marginal[(trace, *arguments, time)])
        index = self.labels.index.get(name)
        label = None
        if index is not None:
            cell = torch.tensor([trace, *arguments, time]).unsqueeze(-1)
            hits = (index.cpu() == cell).all(0).nonzero().squeeze(-1)
            label = bool(self.labels.truth[name][hits[0]] >= 0.5) if len(hits) else None
        static = self.tables.signature.predicates[name].static
        text = atom_text(self.tables, name, trace, arguments)
        return ToldFact(text, None if static else time, truth, true if truth else 1 - true, label)
