"""Where an axiom is violated: the worst cells with their share of its error; counterexamples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fotltn.algebra.expr import free_axes
from fotltn.analysis.cell_rows import cell_rows
from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.error_shares import ErrorMeasure, Errors, erring, shared_cells
from fotltn.analysis.evaluate_cells import CellBlock
from fotltn.analysis.explain.pattern import outside_guards
from fotltn.analysis.explain.site import Site
from fotltn.analysis.prefix import prefix
from fotltn.analysis.record import Record
from fotltn.errors import DataError, LimitError, listing
from fotltn.format import NONE, count, degree, share
from fotltn.logic import core as c
from fotltn.semantics.config import CRISP
from fotltn.syntax.notebook import bar, table


@dataclass(frozen=True, slots=True)
class AtomValue(Record):
    """The degree of an atom with its arguments named; `time` is None where it does not matter."""

    text: str
    time: int | None
    value: float

    KEYS = ("atom=text", "time", "value")


@dataclass(frozen=True, slots=True)
class Violation(Record):
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
        undecided: whether it is false only since the trace ends; then it is not violated.
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
    undecided: bool = False

    @property
    def standing(self) -> str:
        """Whether it is violated, in a word."""
        return "undecided" if self.undecided else "yes" if self.violated else "no"


@dataclass(frozen=True, slots=True)
class Violations(Record):
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
        undecided: how many cells are false only since their trace ends.
    """

    axiom: str
    value: float
    cells: str
    count: int
    violated: int
    weak: int
    absent: int
    worst: tuple[Violation, ...]
    undecided: int = 0

    KEYS = (
        "axiom", "value", "cells", "count", "violated", "undecided", "weak", "absent",
        "violations=worst",
    )  # fmt: skip

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
        words += f", {count(self.undecided)} undecided" if self.undecided else ""
        words += f", {count(self.weak)} not fully true"
        if self.absent:
            verb = "does" if self.absent == 1 else "do"
            words += f". {count(self.absent)} more {verb} not count, since an entity is not present"
        return words

    def _repr_html_(self) -> str:
        heads = ["violated", "share", "value", "if", "then", "time", "binding", "atoms"]
        rows = [
            (
                v.standing,
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


@dataclass(frozen=True, slots=True)
class Counterexample(Record):
    """A binding and time at which an axiom is false in two-valued logic."""

    axiom: str
    binding: dict[str, str]
    trace: int
    time: int | None
    atoms: tuple[AtomValue, ...]


def violations(cells: Cells, top: int = 10) -> Violations:
    """The bindings and times that an axiom's error comes from: see `Cells.worst`."""
    if top < 0:
        raise DataError(f"the number of violations is at least 0, not {top}")
    if cells.free:
        loose = listing(sorted(a.name for a in cells.free))
        raise DataError(f"a formula with violations has no free variables, but there are {loose}")
    value, crisp = cells.value(), cells.semantics.boolean
    cells, errors = shared_cells(cells)
    rule = dict(zip(("antecedent", "consequent"), cells.prefix.rule or (), strict=False))
    best = _by_rows(cells, top) if crisp else None
    if best is None:
        best = _Best(top)
        for block in erring(cells, errors, rule):
            best.add(block)
    worst = tuple(
        Violation(
            cells.binding(one.cell),
            one.cell.trace,
            one.cell.time if cells.timed else None,
            one.values["body"],
            best.share(one.error, errors),
            one.violated,
            one.values.get("antecedent"),
            one.values.get("consequent"),
            atoms_at(cells, one.cell, crisp=crisp),
            bool(one.values["undecided"]),
        )
        for one in best.worst
    )
    words = errors.words(cells.prefix, cells.tables.batch, prefix(cells.body).layers != ())
    numbers = (best.count, best.violated, best.weak, best.absent)
    return Violations(cells.name, value, words, *numbers, worst, best.undecided)


@dataclass(frozen=True, slots=True)
class FirstViolations:
    """How many cells count, are violated and are undecided, and the first of the violated."""

    count: int
    violated: int
    undecided: int
    cells: tuple[Cell, ...]


def first_violations(cells: Cells, top: int) -> FirstViolations | None:
    """The first violations in two-valued logic, by trace, time and binding, at the cost of facts.

    None where rows of facts cannot tell cells apart, or are too many.
    """
    best = _by_rows(replace(cells, semantics=CRISP), top)
    if best is None:
        return None
    first = tuple(one.cell for one in best.worst if one.violated)
    return FirstViolations(best.count - best.undecided, best.violated, best.undecided, first)


def counterexample(cells: Cells) -> Counterexample | None:
    """A binding and time at which an axiom is false in two-valued logic, or None if it is true.

    It is that of the first trace, then of the first time, then of the first entities.
    """
    worst = violations(replace(cells, semantics=CRISP), top=1)
    if not worst.violated:
        return None
    first = worst[0]
    return Counterexample(worst.axiom, first.binding, first.trace, first.time, first.atoms)


# --- the atoms of a cell ---------------------------------------------------------------------


def atoms_at(cells: Cells, cell: Cell, *, crisp: bool = False) -> tuple[AtomValue, ...]:
    """The degrees of the atoms of a body at a cell, in the order in which they are written.

    An atom under X or Y is read that many steps away. One under F, G, U and their like is read at
    the cell's own time. Atoms of variables that are bound inside are left out.

    Args:
        cells: of the formula.
        cell: where.
        crisp: in two-valued logic, as 1 and 0.
    """
    site = Site(cells, cell)
    atoms = []
    for atom, steps in outside_guards(cells.body):
        time = cell.time + steps
        if not isinstance(atom, c.Atom):
            continue
        if free_axes(atom) <= set(cells.axes) and 0 <= time < site.length:
            fact = site.fact(atom, {}, time)
            value = float(site.truth(fact)) if crisp else site.degree(fact)
            when = time if site.moves[atom] else None
            atoms.append(AtomValue(site.name(fact)[0], when, value))
    return tuple(atoms)


def _atom_text(atom: AtomValue) -> str:
    when = "" if atom.time is None else f"@{atom.time}"
    return f"{atom.text}{when} = {degree(atom.value)}"


# --- the largest errors ----------------------------------------------------------------------


class _Listed(NamedTuple):
    violated: bool
    error: float
    cell: Cell
    values: dict[str, float]

    def rank(self) -> tuple[object, ...]:
        """Violations first, then what is weak; of each the largest errors, then by place."""
        return not self.violated, -self.error, self.cell.trace, self.cell.time, self.cell.numbers


class _Best:
    """The cells with the largest errors so far, and the sum of all."""

    def __init__(self, top: int) -> None:
        self.top = top
        self.worst: list[_Listed] = []
        self.total = self.largest = 0.0
        self.ties = self.count = self.violated = self.undecided = self.weak = self.absent = 0

    def add(self, block: CellBlock) -> None:
        """Take in some cells."""
        degree, error, truth = (block.values[n] for n in ("degree", "error", "truth"))
        counts, cut = block.counts.expand(block.shape), block.values["undecided"]
        wrong, weak = counts & ~truth & ~cut, counts & ((degree < 1) | cut)
        self.count += int(counts.sum())
        self.violated += int(wrong.sum())
        self.undecided += int((counts & cut).sum())
        self.weak += int((weak | wrong).sum())
        self.absent += int(block.absent.expand(block.shape).sum())
        self.total += float(error.sum())
        largest = float(error.max()) if error.numel() else 0.0
        if largest > self.largest:
            self.largest, self.ties = largest, 0
        if largest == self.largest:
            self.ties += int((error == largest).sum())
        for violated, chosen in ((True, wrong), (False, weak & (truth | cut))):
            for place in _largest(error, chosen, self.top):
                trace, *numbers, time = place
                if numbers:
                    numbers[0] += block.start
                here = {name: float(u[place]) for name, u in block.values.items()}
                cell = Cell(trace, tuple(numbers), time)
                self.worst.append(_Listed(violated, float(error[place]), cell, here))
        self.worst.sort(key=_Listed.rank)
        del self.worst[self.top :]

    def share(self, error: float, errors: Errors) -> float:
        """The share of one error in all."""
        if errors.measure is ErrorMeasure.WORST or math.isinf(self.total):
            return 1 / self.ties if error == self.largest and error else 0.0
        return error / self.total if self.total else 0.0


def _by_rows(cells: Cells, top: int) -> _Best | None:
    """All cells in two-valued logic, at the cost of facts.

    What is false has the error 1, whether it counts or not; and of an implication that is false,
    the antecedent is true and the consequent is not. None where rows cannot tell cells apart, or
    where facts are so many that blocks of cells take less memory.
    """
    rows = cell_rows(cells)
    if rows is None:
        return None
    rule, cut, best = cells.prefix.rule, cells.undecided, _Best(top)
    fails = c.Not(cells.body) if rule is None else c.And(rule[0], c.Not(rule[1]))
    values = {"body": 0.0} if rule is None else {"body": 0.0, "antecedent": 1.0, "consequent": 0.0}
    try:
        false = rows.where(fails)
        wrong, loose = false, None
        if cut is not None:
            wrong, loose = rows.where(c.Not(cut), false), rows.where(cut)
        best.count = int(rows.count(rows.counted).sum())
        best.absent = int(rows.count(rows.there).sum()) - best.count
        best.weak = int(rows.count(false).sum())
        best.violated = int(rows.count(wrong).sum())
        best.undecided = best.weak - best.violated
        best.ties = int(rows.count(rows.where(fails, rows.there)).sum())
        best.largest = best.total = float(best.ties > 0)
        for violated, true in ((True, wrong), (False, loose)):
            here = {**values, "undecided": float(not violated)}
            first = [] if true is None else rows.first(true, top - len(best.worst))
            best.worst += [_Listed(violated, 1.0, cell, here) for cell in first]
    except LimitError:
        return None
    return best


def _largest(error: Tensor, chosen: Tensor, top: int) -> list[tuple[int, ...]]:
    """Where the largest of the chosen entries are; of equal ones the first by trace and time."""
    ordered = torch.where(chosen, error, -1.0).movedim(-1, 1)
    flat = ordered.reshape(-1)
    number = min(top, int(chosen.sum()))
    if number == 0:
        return []
    least = flat.topk(number).values[-1]
    above = (flat > least).nonzero().squeeze(-1)
    equal = (flat == least).nonzero().squeeze(-1)[: number - above.numel()]
    places = np.unravel_index(torch.cat([above, equal]).cpu().numpy(), ordered.shape)
    return [(trace, *rest, time) for trace, time, *rest in np.stack(places, -1).tolist()]
