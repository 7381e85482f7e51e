"""What a watch tells: violations as they happen, what is open, and how it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: The version of what a watch writes as JSON; it grows when a key changes its meaning or goes.
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Reason:
    """A part of an axiom and its truth at a step, with the names of entities filled in."""

    formula: str
    time: int
    truth: bool

    def as_dict(self) -> dict[str, Any]:
        """The evidence for machines."""
        return {"formula": self.formula, "time": self.time, "truth": self.truth}


@dataclass(frozen=True, slots=True)
class CellEvent:
    """Something became certain of a cell: a binding of an axiom at a time.

    Args:
        kind: `violation`; `resolved` if what was open came; `undecided` if the trace ended before;
            `dropped` if an entity was forgotten.
        axiom: its name.
        hard: whether the axiom is hard.
        binding: the entities by variable.
        time: the time of the cell.
        step: the step at which it was certain.
        because: what made it so.
    """

    kind: str
    axiom: str
    hard: bool
    binding: Mapping[str, str]
    time: int
    step: int
    because: tuple[Reason, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The event for machines."""
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
        where = ", ".join(f"{variable} = {name}" for variable, name in self.binding.items())
        when = "" if self.time == self.step else f", asked at {self.time}"
        return f"step {self.step}: {self.axiom} {self.kind}{': ' * bool(where)}{where}{when}"


@dataclass(frozen=True, slots=True)
class OpenCell:
    """A cell that waits for something.

    Args:
        axiom: its name.
        binding: the entities by variable.
        time: the time of the cell.
        needs: what must come, with the names of entities filled in, as of that time.
        due: the step at which it is settled if nothing is stated until then; None if it waits on.
        fails: whether it is violated then.
    """

    axiom: str
    binding: Mapping[str, str]
    time: int
    needs: str
    due: int | None
    fails: bool

    def as_dict(self) -> dict[str, Any]:
        """The cell for machines."""
        return {
            "axiom": self.axiom,
            "binding": dict(self.binding),
            "time": self.time,
            "needs": self.needs,
            "due": self.due,
            "fails": self.fails,
        }


@dataclass(frozen=True, slots=True)
class AxiomStanding:
    """How an axiom stands.

    Args:
        axiom: its name.
        violations: how many cells were violated so far.
        recent: how many of these in the last steps, those of the window.
        rate: that number by step.
        open: how many cells wait for something.
        last: the step of the last violation, if there was one.
    """

    axiom: str
    violations: int
    recent: int
    rate: float
    open: int
    last: int | None

    def as_dict(self) -> dict[str, Any]:
        """The standing for machines."""
        return {
            "axiom": self.axiom,
            "violations": self.violations,
            "recent": self.recent,
            "rate": self.rate,
            "open": self.open,
            "last": self.last,
        }
