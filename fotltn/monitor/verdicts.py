"""The results of a monitor after a step."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fotltn.errors import DataError, name_hint


class Verdict(StrEnum):
    """What is certain about an axiom on a running trace."""

    SATISFIED = "satisfied"  # it will be true, whatever comes
    VIOLATED = "violated"  # it will be false, whatever comes
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class State:
    """The state of an axiom after a step.

    Args:
        axiom: the name of the axiom.
        verdict: what is certain, whatever comes.
        now: whether the axiom would be true if the trace ended here. None if that needs the whole
            trace; then it is known at the end.
        binding: for a violated axiom, the entities that break it, by variable.
        decided: the step at which the verdict became certain; None if it is open, or if only the
            end of the trace decided it.
    """

    axiom: str
    verdict: Verdict
    now: bool | None
    binding: Mapping[str, str]
    decided: int | None

    def as_dict(self) -> dict[str, object]:
        """Return the state as data."""
        return {
            "axiom": self.axiom,
            "verdict": str(self.verdict),
            "now": self.now,
            "binding": dict(self.binding),
            "decided": self.decided,
        }


@dataclass(frozen=True, slots=True)
class ValueBounds:
    """The degree of an axiom.

    Args:
        now: the degree if the trace ended here. None if that needs the whole trace, and the trace
            is not kept.
        low: the lowest degree that is still possible at the end.
        high: the highest degree that is still possible at the end.
    """

    now: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class States:
    """The states of all axioms after a step.

    Args:
        step: the number of the step.
        states: the states of the axioms, in their order.
        values: the degrees of the axioms by name, if the monitor gives values after this step.
    """

    step: int
    states: tuple[State, ...]
    values: Mapping[str, ValueBounds] | None = None

    def __iter__(self) -> Iterator[State]:
        return iter(self.states)

    def __getitem__(self, axiom: str) -> State:
        for state in self.states:
            if state.axiom == axiom:
                return state
        names = [s.axiom for s in self.states]
        hint = name_hint(axiom, names)
        raise DataError(f"the theory has no axiom '{axiom}'; {hint}")


class StateLines:
    """Writes states as lines of JSON. Most steps change only values, so it keeps the other text."""

    def __init__(self) -> None:
        """Start without states."""
        self._states: tuple[State, ...] = ()
        self._texts: list[str] = []

    def line(
        self, head: Mapping[str, object], states: States, values: Mapping[str, ValueBounds]
    ) -> str:
        """Return an object with the keys of a head, and a list of axioms with their values."""
        if states.states is not self._states:
            self._states = states.states
            self._texts = [json.dumps(s.as_dict(), ensure_ascii=False)[:-1] for s in states]
        axioms = [
            f"{text}{_value_text(values.get(state.axiom))}}}"
            for text, state in zip(self._texts, states, strict=True)
        ]
        return f'{json.dumps(head)[:-1]}, "axioms": [{", ".join(axioms)}]}}'


def _value_text(value: ValueBounds | None) -> str:
    """Return the keys and values of an axiom's degree."""
    if value is None:
        return ""
    now = "null" if value.now is None else repr(value.now)
    return f', "value": {now}, "low": {value.low!r}, "high": {value.high!r}'
