"""Where an axiom is violated: the worst cells with their share of its error; counterexamples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.algebra.expr import free_axes
from fotltn.analysis.atoms import AtomValue, Names, atom_values, binding
from fotltn.analysis.error_shares import Errors, Measure, split, weigh
from fotltn.analysis.evaluate_cells import Part, axiom_values, sweep, two_valued
from fotltn.analysis.prefix import Prefix, prefix, weights
from fotltn.errors import DataError, listing
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.semantics.config import CRISP, Semantics
from fotltn.semantics.interpretation import Tables
from fotltn.syntax.notebook import bar, number, table


@dataclass(frozen=True, slots=True)
class Violation:
    """A binding and time at which an axiom is not fully true.

    Args:
        binding: the names of entities by variable.
        trace: the number of the trace.
        time: the time point, if the axiom speaks of several.
        value: the degree of the axiom's body there.
        share: its share of the axiom's error, from 0 to 1.
        antecedent: the degree of the antecedent, if the body is an implication.
        consequent: the degree of the consequent, likewise.
        atoms: the degrees of the atoms there.
    """

    binding: dict[str, str]
    trace: int
    time: int | None
    value: float
    share: float
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
            "antecedent": self.antecedent,
            "consequent": self.consequent,
            "atoms": [a.as_dict() for a in self.atoms],
        }


@dataclass(frozen=True, slots=True)
class Violations:
    """The worst violations of an axiom, worst first.

    Args:
        axiom: its name.
        value: its degree.
        cells: what the error is shared among, and how, in words.
        count: how many cells there are.
        violated: how many of them are not fully true.
        worst: the first of these.
    """

    axiom: str
    value: float
    cells: str
    count: int
    violated: int
    worst: tuple[Violation, ...]

    def __iter__(self) -> Iterator[Violation]:
        return iter(self.worst)

    def __len__(self) -> int:
        return len(self.worst)

    def __getitem__(self, place: int) -> Violation:
        return self.worst[place]

    def _repr_html_(self) -> str:
        heads = ["share", "value", "if", "then", "time", "binding", "atoms"]
        rows = [
            (
                f"{100 * v.share:.1f}%",
                bar(v.value),
                number(v.antecedent),
                number(v.consequent),
                "–" if v.time is None else v.time,
                ", ".join(f"{variable} = {name}" for variable, name in v.binding.items()),
                ", ".join(_atom_text(a) for a in v.atoms),
            )
            for v in self
        ]
        words = (
            f"{self.axiom}: value {self.value:.3f}; {self.violated:,} of {self.count:,} are not "
            f"fully true; {self.cells}."
        )
        return table(heads, rows, left=["value", "binding", "atoms"], caption=words)

    def as_dict(self) -> dict[str, object]:
        """The violations for machines."""
        return {
            "axiom": self.axiom,
            "value": self.value,
            "cells": self.cells,
            "count": self.count,
            "violated": self.violated,
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
    axiom: str | c.Formula,
    theory: CheckedTheory,
    tables: Tables,
    semantics: Semantics,
    names: Names,
    *,
    top: int = 10,
    dtype: torch.dtype = torch.float32,
    threshold: float = 0.5,
) -> Violations:
    """The bindings and times that an axiom's error comes from.

    Args:
        axiom: the name of an axiom, or a formula without free variables.
        theory: the theory it belongs to.
        tables: the tables.
        semantics: what gives it its value. Several traces are aggregated as ∀ aggregates.
        names: gives the name of an entity from its sort, the trace and its number.
        top: how many to give at most.
        dtype: the precision of values.
        threshold: for the crisp semantics, the degree from which on a fact is true.

    Returns:
        The violations with the largest errors, ties in the order of trace, time and binding. Their
        shares add up to 1 over all cells. Where ∀ and G differ in p, or where there is an epsilon,
        cells are those of the outermost means that have one p; `cells` says which.

    Raises:
        DataError: there is no such axiom, or a table is missing.
    """
    if top < 0:
        raise DataError(f"the number of violations is at least 0, not {top}")
    name, formula = _find(axiom, theory)
    if semantics.boolean:
        tables = two_valued(tables, threshold)
    part, errors = split(formula, semantics, tables.batch)
    rule = dict(zip(("antecedent", "consequent"), part.rule or (), strict=False))
    best = _Best(part, top)
    for piece, body, error, seen in weigh(
        part, part.axes, errors, theory.signature, tables, semantics, dtype=dtype, others=rule
    ):
        best.add(piece, error, seen, body < 1)
    with torch.no_grad():
        value = axiom_values({name: formula}, theory.signature, tables, semantics, dtype=dtype)
    found = []
    for cell in best.cells:
        trace, time, *place = cell.place
        found.append(
            Violation(
                binding(part.axes, place, trace, theory.signature, tables, names),
                trace,
                time if part.timed else None,
                cell.values["body"],
                best.share(cell.error, errors),
                cell.values.get("antecedent"),
                cell.values.get("consequent"),
                atom_values(part.body, part.axes, cell.place, theory.signature, tables, names),
            )
        )
    words = errors.words(part, tables.batch, prefix(part.body).layers != ())
    return Violations(name, float(value[name]), words, best.count, best.violated, tuple(found))


def counterexample(
    axiom: str | c.Formula,
    theory: CheckedTheory,
    tables: Tables,
    names: Names,
    *,
    threshold: float = 0.5,
) -> Counterexample | None:
    """The first binding and time at which an axiom is false, or None if it is true.

    Args:
        axiom: the name of an axiom, or a formula without free variables.
        theory: the theory it belongs to.
        tables: the tables.
        names: gives the name of an entity from its sort, the trace and its number.
        threshold: the degree from which on a fact is true.

    Returns:
        That of the first trace, then of the first time, then of the first entities.
    """
    name, formula = _find(axiom, theory)
    boolean = two_valued(tables, threshold)
    part = prefix(formula)
    counted = weights(part, boolean)
    best = _Best(part, 1)
    for piece in sweep(
        {"body": part.body}, part.axes, theory.signature, boolean, CRISP, dtype=torch.float32
    ):
        shape = piece.shape(part.axes, tables)
        seen = counted.at(part.axes, (piece.start, piece.stop)).expand(shape) > 0
        wrong = ~piece.values["body"] & seen
        best.add(piece, wrong.to(torch.float64), seen, wrong)
    if not best.cells:
        return None
    trace, time, *place = best.cells[0].place
    return Counterexample(
        name,
        binding(part.axes, place, trace, theory.signature, tables, names),
        trace,
        time if part.timed else None,
        atom_values(part.body, part.axes, (trace, time, *place), theory.signature, boolean, names),
    )


def _atom_text(atom: AtomValue) -> str:
    when = "" if atom.time is None else f"@{atom.time}"
    return f"{atom.text}{when} = {atom.value:.2f}"


def _find(axiom: str | c.Formula, theory: CheckedTheory) -> tuple[str, c.Formula]:
    if isinstance(axiom, c.Formula):
        if free := free_axes(axiom):
            loose = listing(sorted(a.name for a in free))
            raise DataError(
                f"a formula with violations has no free variables, but there are {loose}"
            )
        return "formula", axiom
    return axiom, theory.axiom(axiom).formula


# --- the largest errors ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cell:
    error: float
    place: tuple[int, ...]  # trace, time, and a number for each axis
    values: dict[str, float]


class _Best:
    """The cells with the largest errors so far, and the sum of all."""

    def __init__(self, part: Prefix, top: int) -> None:
        self.axes, self.top = part.axes, top
        self.cells: list[_Cell] = []
        self.total = self.largest = 0.0
        self.ties = self.count = self.violated = 0

    def add(self, piece: Part, error: Tensor, seen: Tensor, wrong: Tensor) -> None:
        """Take in a part of the cells: their errors, which of them count, which are not true."""
        wrong = wrong & seen
        self.count += int(seen.sum())
        self.violated += int(wrong.sum())
        self.total += float(error.sum())
        largest = float(error.max())
        if largest > self.largest:
            self.largest, self.ties = largest, 0
        if largest == self.largest:
            self.ties += int((error == largest).sum())
        ordered = torch.where(wrong, error, 0.0).movedim(-1, 1)
        for place in _largest(ordered, self.top):
            trace, time, *inner = place
            values = {n: float(_at(u, trace, inner, time)) for n, u in piece.values.items()}
            at = (trace, time, *_shifted(inner, piece.start))
            self.cells.append(_Cell(float(ordered[place]), at, values))
        self.cells.sort(key=lambda cell: (-cell.error, cell.place))
        del self.cells[self.top :]

    def share(self, error: float, errors: Errors) -> float:
        """The share of one error in all."""
        if errors.measure is Measure.WORST or math.isinf(self.total):
            return 1 / self.ties if error == self.largest else 0.0
        return error / self.total


def _shifted(place: list[int], start: int) -> list[int]:
    return [place[0] + start, *place[1:]] if place else []


def _largest(error: Tensor, top: int) -> list[tuple[int, ...]]:
    """Where the largest positive entries are; of equal ones the first."""
    flat = error.reshape(-1)
    count = min(top, int((flat > 0).sum()))
    if count == 0:
        return []
    least = flat.topk(count).values[-1]
    above = (flat > least).nonzero().squeeze(-1)
    equal = (flat == least).nonzero().squeeze(-1)[: count - above.numel()]
    found = torch.unravel_index(torch.cat([above, equal]), error.shape)
    return [tuple(place) for place in torch.stack(found, -1).tolist()]


def _at(u: Tensor, trace: int, place: list[int], time: int) -> Tensor:
    where = zip((trace, *place, time), u.shape, strict=True)
    return u[tuple(i if size > 1 else 0 for i, size in where)]
