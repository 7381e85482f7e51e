"""The reports of a watch: violations, open cells, and the state of each axiom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

#: The version of a watch's JSON; it grows when a key is removed or changes its meaning.
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Reason:
    """A part of an axiom and its truth at a step; entities stand for the variables."""

    formula: str
    time: int
    truth: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the reason as data."""
        return {"formula": self.formula, "time": self.time, "truth": self.truth}


@dataclass(frozen=True, slots=True)
class CellEvent:
    """Something became certain about a cell: a binding of an axiom at a time point.

    Args:
        kind: `violation`; `resolved` if an open cell became true; `undecided` if the trace ended
            first; `dropped` if an entity of the cell was forgotten.
        axiom: the name of the axiom.
        hard: whether the axiom is hard.
        binding: the entities by variable.
        time: the time point of the cell.
        step: the step at which the event became certain.
        because: the causes of a violation.
    """

    kind: str
    axiom: str
    hard: bool
    binding: Mapping[str, str]
    time: int
    step: int
    because: tuple[Reason, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the event as data."""
        return {
            "event": self.kind,
            "axiom": self.axiom,
            "hard": self.hard,
            "binding": dict(self.binding),
            "time": self.time,
            "step": self.step,
            "because": [evidence.as_dict() for evidence in self.because],
        }

    def __str__(self) -> str:
        cell = [f"{variable} = {name}" for variable, name in self.binding.items()]
        if self.time != self.step:
            cell.append(f"time {self.time}")
        verdict = "violated" if self.kind == "violation" else self.kind
        return f"step {self.step}: {self.axiom} {verdict}{': ' * bool(cell)}{', '.join(cell)}"


@dataclass(frozen=True, slots=True)
class OpenCell:
    """A cell whose formula looks ahead and is not decided yet.

    Args:
        axiom: the name of the axiom.
        binding: the entities by variable.
        time: the time point of the cell.
        needs: the formula that must come true, read at that time point; entities stand for the
            variables.
        due: the step at which the cell is decided if nothing is stated before; None if there is
            no such step.
        fails: whether the cell is then violated.
    """

    axiom: str
    binding: Mapping[str, str]
    time: int
    needs: str
    due: int | None
    fails: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the cell as data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class AxiomStanding:
    """The state of an axiom in a watch.

    Args:
        axiom: the name of the axiom.
        violations: the number of violated cells so far.
        recent: the number of violated cells in the window of the last steps.
        rate: `recent` per step.
        open: the number of open cells.
        last: the step of the last violation, if there was one.
    """

    axiom: str
    violations: int
    recent: int
    rate: float
    open: int
    last: int | None

    def as_dict(self) -> dict[str, Any]:
        """Return the state as data."""
        return asdict(self)
