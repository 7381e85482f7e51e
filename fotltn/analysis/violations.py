"""Find where an axiom is violated: its worst cells, and counterexamples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.error_shares import erring, shared_cells
from fotltn.analysis.explain.pattern import outside_guards
from fotltn.analysis.explain.site import Site
from fotltn.analysis.record import Record
from fotltn.analysis.tally import CellTally
from fotltn.analysis.worst import WorstSoFar, worst_by_rows
from fotltn.errors import DataError, listing, renamed
from fotltn.format import NONE, cell_words, count, degree, share
from fotltn.logic import core as c
from fotltn.logic.parts import free_axes
from fotltn.logic.prefix import prefix
from fotltn.semantics.config import CRISP
from fotltn.stop import doing
from fotltn.syntax.notebook import bar, table


@dataclass(frozen=True, slots=True)
class AtomValue(Record):
    """The degree of an atom with its arguments named; `time` is None where it does not matter."""

    text: str
    time: int | None
    value: float

    KEYS = ("atom=text", "time", "value")


@dataclass(frozen=True, slots=True)
class WorstCell(Record):
    """A cell at which an axiom is violated, or not fully true: a binding and a time.

    Args:
        binding: the names of entities by variable.
        trace: the number of the trace.
        time: the time point, if the axiom is about several.
        value: the degree of the axiom's body there.
        share: its share of the axiom's error, from 0 to 1.
        violated: whether the body is false there in two-valued logic.
        antecedent: the degree of the antecedent, if the body is an implication.
        consequent: the degree of the consequent, if the body is an implication.
        atoms: the degrees of the atoms there.
        undecided: whether it is false only because the trace ends; then it is not violated.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstCells(CellTally):
    """The cells that an axiom's error comes from: violations first, then weak cells.

    Args:
        axiom: its name.
        value: its degree.
        cells: the cells that share the error, and how, in words.
        weak: how many cells are not fully true.
        worst: violations, then weak cells, each with the largest errors first.
    """

    axiom: str
    value: float
    cells: str
    weak: int
    worst: tuple[WorstCell, ...]

    KEYS = (
        "axiom", "value", "cells", "count", "decided", "violated", "undecided", "weak", "absent",
        "worst", "violations=worst",
    )  # fmt: skip

    def __iter__(self) -> Iterator[WorstCell]:
        return iter(self.worst)

    def __len__(self) -> int:
        return len(self.worst)

    def __getitem__(self, place: int) -> WorstCell:
        return self.worst[place]

    @property
    def summary(self) -> str:
        """How many cells are violated, how many weak, and how many do not count, in words."""
        return self.words(f"{count(self.weak)} not fully true")

    def __repr__(self) -> str:
        """Return the value and the counts; iterate to see the cells."""
        return f"<{self.axiom}: value {degree(self.value)}; {self.summary}; {len(self)} listed>"

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
                cell_words(v.binding),
                ", ".join(_atom_text(a) for a in v.atoms),
            )
            for v in self
        ]
        words = f"{self.axiom}: value {degree(self.value)}; {self.summary}; {self.cells}."
        return table(heads, rows, left=["value", "binding", "atoms"], caption=words)


@dataclass(frozen=True, slots=True)
class Counterexample(Record):
    """A binding and time at which an axiom is false in two-valued logic."""

    axiom: str
    binding: dict[str, str]
    trace: int
    time: int | None
    atoms: tuple[AtomValue, ...]


def violations(cells: Cells, top: int = 10) -> WorstCells:
    """Return the cells that an axiom's error comes from; see `Cells.worst`."""
    if top < 0:
        raise DataError(f"the number of violations is at least 0, not {top}")
    if cells.free:
        loose = listing(sorted(a.name for a in cells.free))
        raise DataError(f"a formula with violations has no free variables, but there are {loose}")
    doing(cells.name)
    value, crisp = cells.value(), cells.semantics.boolean
    cells, errors = shared_cells(cells)
    rule = dict(zip(("antecedent", "consequent"), cells.prefix.rule or (), strict=False))
    best = worst_by_rows(cells, top) if crisp else None
    if best is None:
        best = WorstSoFar(top)
        for block in erring(cells, errors, rule):
            best.add(block)
    worst = tuple(
        WorstCell(
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
    return WorstCells(
        *best.tally.numbers, axiom=cells.name, value=value, cells=words, weak=best.weak, worst=worst
    )


def counterexample(cells: Cells) -> Counterexample | None:
    """Return a cell in which an axiom is false in two-valued logic; None if it is true.

    The first trace comes first, then the first time, then the first entities.
    """
    worst = violations(cells.viewed(semantics=CRISP), top=1)
    if not worst.violated:
        return None
    first = worst[0]
    return Counterexample(worst.axiom, first.binding, first.trace, first.time, first.atoms)


# --- the atoms of a cell ---------------------------------------------------------------------


def atoms_at(cells: Cells, cell: Cell, *, crisp: bool = False) -> tuple[AtomValue, ...]:
    """The degrees of the atoms of a body at a cell, in the order in which they are written.

    An atom under X or Y is read that many steps away. An atom under F, G, U or the like is read at
    the cell's own time. Atoms of variables that are bound inside are left out.

    Args:
        cells: the cells of the formula.
        cell: one of these cells.
        crisp: whether to give truth in two-valued logic, as 1 and 0.
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


# --- several axioms --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ranked:
    """One of the worst cells of one of several axioms, with its share of all their error."""

    axiom: str
    share: float
    cell: WorstCell

    def __getattr__(self, name: str) -> Any:
        """Return `cell` under its name in version 0.1.0."""
        return renamed(self, name, {"violation": "cell"})

    def as_dict(self) -> dict[str, object]:
        """Return the cell as data."""
        return {"axiom": self.axiom, "share_of_all": self.share, **self.cell.as_dict()}


def ranked(
    by_axiom: Sequence[WorstCells], weights: Mapping[str, float], p: float
) -> tuple[Ranked, ...]:
    """Rank cells of all axioms: violations, then weak cells, by their share of the total error.

    The error of all axioms is the weighted mean of `(1 - value)^p`. An axiom's part in it is shared
    among its violations as its own error is.

    Args:
        by_axiom: the worst cells of each axiom.
        weights: the weights of the axioms.
        p: the exponent.
    """
    errors = {one.axiom: max(0.0, 1 - one.value) for one in by_axiom}
    largest = max((error for name, error in errors.items() if weights[name]), default=0.0)
    parts = {
        name: weights[name] * _power(error / largest, p) if largest else 0.0
        for name, error in errors.items()
    }
    total = sum(parts.values()) or 1.0
    every = [Ranked(f.axiom, parts[f.axiom] / total * v.share, v) for f in by_axiom for v in f]
    return tuple(sorted(every, key=lambda one: (not one.cell.violated, -one.share)))


def _power(base: float, p: float) -> float:
    return float(base == 1) if math.isinf(p) else base**p
