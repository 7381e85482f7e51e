"""Contradictions of axioms and facts, and the error that reports them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from fotltn.analysis.record import Record
from fotltn.errors import DataError, Diagnostic, listing
from fotltn.format import degree

T = TypeVar("T")

#: A message names so many parts of a contradiction at most.
_TOLD = 12


@dataclass(frozen=True, slots=True)
class AxiomAtOdds(Record):
    """A hard axiom, or a definition, at one binding and time.

    Args:
        axiom: its name.
        binding: the names of entities by variable.
        trace: the name of the trace.
        time: the time point.
    """

    axiom: str
    binding: dict[str, str]
    trace: str
    time: int

    def __str__(self) -> str:
        """The axiom, its binding and its time point."""
        where = "".join(f"{variable} = {name}, " for variable, name in self.binding.items())
        return f"{self.axiom} at {where}time {self.time}"


@dataclass(frozen=True, slots=True)
class FactAtOdds(Record):
    """A given fact, or a fact with a certain label.

    Args:
        text: the fact, or a formula of given facts.
        predicate: the predicate of a label; None for a given fact.
        trace: the name of the trace.
        time: the time point; None for a static fact.
        truth: whether it is true.
        binding: the names of entities by variable, for a formula.
    """

    text: str
    predicate: str | None
    trace: str
    time: int | None
    truth: bool
    binding: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """The fact and its truth."""
        when = "" if self.time is None else f"@{self.time}"
        source = "given" if self.predicate is None else "label"
        bound = ", ".join(f"{variable} = {name}" for variable, name in self.binding.items())
        where = f" for {bound}" if bound else ""
        return f"{source} {self.text}{when} = {degree(self.truth)}{where}"


@dataclass(frozen=True, slots=True)
class Contradiction(Record):
    """Axioms and facts that contradict each other; without any one of them, a world is possible.

    Args:
        axioms: the axioms, with bindings and time points.
        labels: the labels, which are certain.
        facts: the given facts.
        traces: whether there are several traces, so that messages name the trace.
    """

    axioms: tuple[AxiomAtOdds, ...]
    labels: tuple[FactAtOdds, ...]
    facts: tuple[FactAtOdds, ...]
    traces: bool = False

    KEYS = ("axioms", "labels", "facts")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axioms."""
        return tuple(dict.fromkeys(one.axiom for one in self.axioms))

    @property
    def message(self) -> str:
        """The contradiction in a sentence."""
        parts = [str(one) for one in (*self.axioms, *self.labels, *self.facts)]
        more = [f"… {len(parts) - _TOLD} more"] if len(parts) > _TOLD else []
        where = f" in trace '{self.axioms[0].trace}'" if self.traces and self.axioms else ""
        return f"no world obeys all of this{where}: {'; '.join([*parts[:_TOLD], *more])}"

    @property
    def way_out(self) -> str:
        """Changes that would make a world possible."""
        one = "make" if len(self.names) == 1 else "make one of"
        ways = [f"{one} {listing(self.names)} soft"]
        if self.labels:
            predicates = listing(dict.fromkeys(str(label.predicate) for label in self.labels))
            ways.append(f"give labels of {predicates} a rate of errors above 0, or correct one")
        if self.facts:
            ways.append("correct a given fact")
        return "; or ".join(ways)


class NoWorldError(DataError):
    """No world obeys all hard axioms, or the search found none.

    Attributes:
        contradiction: the axioms and facts that contradict each other, if known.
    """

    contradiction: Contradiction | None = None

    @classmethod
    def because(cls, contradiction: Contradiction) -> NoWorldError:
        """Return the error that reports a contradiction."""
        error = cls(Diagnostic(contradiction.message, hint=contradiction.way_out))
        error.contradiction = contradiction
        return error


def irreducible(items: Sequence[T], contradict: Callable[[list[T]], bool]) -> list[T]:
    """Reduce items that contradict each other until none can be left out.

    Args:
        items: items that contradict each other.
        contradict: whether some of the items contradict each other.
    """
    needed: list[T] = []
    rest = list(items)
    while rest:
        # The shortest beginning that contradicts the needed items ends with a needed one.
        low, high = 0, len(rest)
        while low < high:
            middle = (low + high) // 2
            if contradict([*needed, *rest[:middle]]):
                high = middle
            else:
                low = middle + 1
        if not high:
            break
        needed.append(rest[high - 1])
        rest = rest[: high - 1]
    return needed
