"""Where an axiom is violated: the worst cells with their share of its error; counterexamples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.analysis.atoms import AtomValue, atoms_at
from fotltn.analysis.cells import Cell, Cells, cells_of
from fotltn.analysis.error_shares import Erring, Errors, Measure, erring, shared_cells
from fotltn.analysis.prefix import prefix
from fotltn.errors import DataError, listing
from fotltn.format import NONE, count, degree, share
from fotltn.logic.check import CheckedAxiom, CheckedFormula
from fotltn.semantics.config import CRISP, Semantics
from fotltn.semantics.interpretation import Tables
from fotltn.syntax.notebook import bar, table


@dataclass(frozen=True, slots=True)
class Violation:
    """A binding and time at which an axiom is not fully true.

    It is a violation in the strict sense where `violated` says so: false in two-valued logic.

    Args:
        binding: the names of entities by variable.
        trace: the number of the trace.
        time: the time point, if the axiom speaks of several.
        value: the degree of the axiom's body there.
        share: its share of the axiom's error, from 0 to 1.
        violated: whether the body is false there in two-valued logic.
        antecedent: the degree of the antecedent, if the body is an implication.
        consequent: the degree of the consequent, likewise.
        atoms: the degrees of the atoms there.
    """

    binding: dict[str, str]
    trace: int
    time: int | None
    value: float
    share: float
    violated: bool
    antecedent: float | None
    consequent: float | None
    atoms: tuple[AtomValue, ...]

    def as_dict(self) -> dict[str, object]:
        """The violation for machines."""
        return {
            "binding": dict(self.binding),
            "trace": self.trace,
            "time": self.time,
            "value": self.value,
            "share": self.share,
            "violated": self.violated,
            "antecedent": self.antecedent,
            "consequent": self.consequent,
            "atoms": [a.as_dict() for a in self.atoms],
        }


@dataclass(frozen=True, slots=True)
class Violations:
    """The cells of an axiom that its error comes from: violations first, then what is weak.

    Args:
        axiom: its name.
        value: its degree.
        cells: what the error is shared among, and how, in words.
        count: how many cells count.
        violated: how many of them are false in two-valued logic.
        weak: how many of them are not fully true.
        absent: cells that do not count, since an entity is not present when it is used.
        worst: violations with the largest errors first, then other weak cells likewise.
    """

    axiom: str
    value: float
    cells: str
    count: int
    violated: int
    weak: int
    absent: int
    worst: tuple[Violation, ...]

    def __iter__(self) -> Iterator[Violation]:
        return iter(self.worst)

    def __len__(self) -> int:
        return len(self.worst)

    def __getitem__(self, place: int) -> Violation:
        return self.worst[place]

    @property
    def summary(self) -> str:
        """How many cells are violated, how many weak, and how many do not count, in words."""
        words = f"{count(self.violated)} of {count(self.count)} are violated"
        words += f", {count(self.weak)} not fully true"
        if self.absent:
            verb = "does" if self.absent == 1 else "do"
            words += f". {count(self.absent)} more {verb} not count, since an entity is not present"
        return words

    def _repr_html_(self) -> str:
        heads = ["violated", "share", "value", "if", "then", "time", "binding", "atoms"]
        rows = [
            (
                "yes" if v.violated else "no",
                share(v.share),
                bar(v.value),
                degree(v.antecedent),
                degree(v.consequent),
                NONE if v.time is None else v.time,
                ", ".join(f"{variable} = {name}" for variable, name in v.binding.items()),
                ", ".join(_atom_text(a) for a in v.atoms),
            )
            for v in self
        ]
        words = f"{self.axiom}: value {degree(self.value)}; {self.summary}. Cells: {self.cells}."
        return table(heads, rows, left=["value", "binding", "atoms"], caption=words)

    def as_dict(self) -> dict[str, object]:
        """The violations for machines."""
        return {
            "axiom": self.axiom,
            "value": self.value,
            "cells": self.cells,
            "count": self.count,
            "violated": self.violated,
            "weak": self.weak,
            "absent": self.absent,
            "violations": [v.as_dict() for v in self.worst],
        }


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A binding and time at which an axiom is false in two-valued logic."""

    axiom: str
    binding: dict[str, str]
    trace: int
    time: int | None
    atoms: tuple[AtomValue, ...]

    def as_dict(self) -> dict[str, object]:
        """The counterexample for machines."""
        return {
            "axiom": self.axiom,
            "binding": dict(self.binding),
            "trace": self.trace,
            "time": self.time,
            "atoms": [a.as_dict() for a in self.atoms],
        }


def violations(
    axiom: CheckedAxiom | CheckedFormula,
    tables: Tables,
    semantics: Semantics,
    *,
    top: int = 10,
    threshold: float = 0.5,
) -> Violations:
    """The bindings and times that an axiom's error comes from.

    Args:
        axiom: an axiom, or a formula without free variables.
        tables: the tables.
        semantics: what gives it its value. Several traces are aggregated as ∀ aggregates.
        top: how many to give at most.
        threshold: the degree from which on a fact is true in two-valued logic.

    Returns:
        Violations first, then cells that are weak; of each the largest errors first, ties in the
        order of trace, time and binding. Shares are of the error of all cells. Where ∀ and G
        differ in p, or where there is an epsilon, cells are those of the outermost means that
        have one p; `cells` says which.

    Raises:
        DataError: a table is missing, or the formula has free variables.
    """
    return worst_of(cells_of(axiom, tables, semantics, threshold), top)


def worst_of(cells: Cells, top: int) -> Violations:
    """The same of cells."""
    if top < 0:
        raise DataError(f"the number of violations is at least 0, not {top}")
    if cells.free:
        loose = listing(sorted(a.name for a in cells.free))
        raise DataError(f"a formula with violations has no free variables, but there are {loose}")
    tables, semantics = cells.tables, cells.semantics
    value = cells.value()
    cells, errors = shared_cells(cells)
    rule = dict(zip(("antecedent", "consequent"), cells.prefix.rule or (), strict=False))
    best = _Best(top)
    for part in erring(cells, errors, rule):
        best.add(part)
    listed = []
    for one in best.listed():
        trace, time, *place = one.place
        cell = Cell(trace, tuple(place), time)
        listed.append(
            Violation(
                cells.binding(cell),
                trace,
                time if cells.timed else None,
                one.values["body"],
                best.share(one.error, errors),
                one.violated,
                one.values.get("antecedent"),
                one.values.get("consequent"),
                atoms_at(cells, cell, crisp=semantics.boolean),
            )
        )
    words = errors.words(cells.prefix, tables.batch, prefix(cells.body).layers != ())
    return Violations(
        cells.name, value, words, best.count, best.violated, best.weak, best.absent,
        tuple(listed),
    )  # fmt: skip


def counterexample(
    axiom: CheckedAxiom | CheckedFormula, tables: Tables, *, threshold: float = 0.5
) -> Counterexample | None:
    """A binding and time at which an axiom is false, or None if it is true.

    Args:
        axiom: an axiom, or a formula without free variables.
        tables: the tables.
        threshold: the degree from which on a fact is true.

    Returns:
        That of the first trace, then of the first time, then of the first entities.
    """
    worst = violations(axiom, tables, CRISP, top=1, threshold=threshold)
    if not worst.violated:
        return None
    first = worst[0]
    return Counterexample(worst.axiom, first.binding, first.trace, first.time, first.atoms)


def _atom_text(atom: AtomValue) -> str:
    when = "" if atom.time is None else f"@{atom.time}"
    return f"{atom.text}{when} = {degree(atom.value, 2)}"


# --- the largest errors ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Listed:
    violated: bool
    error: float
    place: tuple[int, ...]  # trace, time, and a number for each axis
    values: dict[str, float]


class _Best:
    """The cells with the largest errors so far, and the sum of all."""

    def __init__(self, top: int) -> None:
        self.top = top
        self.kinds: dict[bool, list[_Listed]] = {True: [], False: []}
        self.total = self.largest = 0.0
        self.ties = self.count = self.violated = self.weak = self.absent = 0

    def add(self, part: Erring) -> None:
        """Take in some cells."""
        block, degree, error, truth = part
        counts = block.counts.expand(block.shape)
        wrong, weak = counts & ~truth, counts & (degree < 1)
        self.count += int(counts.sum())
        self.violated += int(wrong.sum())
        self.weak += int((weak | wrong).sum())
        self.absent += int(((block.weight > 0) & ~block.counts).expand(block.shape).sum())
        self.total += float(error.sum())
        largest = float(error.max()) if error.numel() else 0.0
        if largest > self.largest:
            self.largest, self.ties = largest, 0
        if largest == self.largest:
            self.ties += int((error == largest).sum())
        for violated, chosen in ((True, wrong), (False, weak & truth)):
            listed = self.kinds[violated]
            ordered = error.movedim(-1, 1)
            for place in _largest(ordered, chosen.movedim(-1, 1), self.top):
                trace, time, *inner = place
                values = {n: float(_at(u, trace, inner, time)) for n, u in block.values.items()}
                at = (trace, time, *_shifted(inner, block.start))
                listed.append(_Listed(violated, float(ordered[place]), at, values))
            listed.sort(key=lambda one: (-one.error, one.place))
            del listed[self.top :]

    def listed(self) -> list[_Listed]:
        """Violations first, then what is weak."""
        return (self.kinds[True] + self.kinds[False])[: self.top]

    def share(self, error: float, errors: Errors) -> float:
        """The share of one error in all."""
        if errors.measure is Measure.WORST or math.isinf(self.total):
            return 1 / self.ties if error == self.largest and error else 0.0
        return error / self.total if self.total else 0.0


def _shifted(place: list[int], start: int) -> list[int]:
    return [place[0] + start, *place[1:]] if place else []


def _largest(error: Tensor, chosen: Tensor, top: int) -> list[tuple[int, ...]]:
    """Where the largest of the chosen entries are; of equal ones the first."""
    flat = torch.where(chosen, error, -1.0).reshape(-1)
    count = min(top, int(chosen.sum()))
    if count == 0:
        return []
    least = flat.topk(count).values[-1]
    above = (flat > least).nonzero().squeeze(-1)
    equal = (flat == least).nonzero().squeeze(-1)[: count - above.numel()]
    places = torch.unravel_index(torch.cat([above, equal]), error.shape)
    return [tuple(place) for place in torch.stack(places, -1).tolist()]


def _at(u: Tensor, trace: int, place: list[int], time: int) -> Tensor:
    where = zip((trace, *place, time), u.shape, strict=True)
    return u[tuple(i if size > 1 else 0 for i, size in where)]
