"""The loop of monitors and watches: steps are checked, queued, and processed together."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Generic, TypeVar

from fotltn.errors import DataError
from fotltn.monitor.steps import SEES, Fact, Header, InputLine, StepInput, TraceStep, step_of, wrong
from fotltn.strict_json import read_json

#: Steps that are taken at once.
MOST_STEPS = 1024

T = TypeVar("T")
V = TypeVar("V")

_MOST_KNOWN = 500_000  # facts and texts

# Degrees as JSON has them, from 0 to 1.
_DEGREE = r" ?(?:0\.\d+|1\.0|\d(?:\.\d+)?[eE]-0*[1-9]\d*)"
_DEGREES = re.compile(f"{_DEGREE}(?:;{_DEGREE})*")


class StepLoop(ABC, Generic[T]):
    """Follows one trace, and yields what becomes known about it.

    Attributes:
        count: the number of processed steps.
        ended: whether no more steps can follow.
    """

    def __init__(self, header: object, horizon: int | None = None) -> None:
        """Begin before the first step; a header that is text was the first line.

        Raises:
            DataError: the horizon, which is the number of steps if that is known, is none.
        """
        if horizon is not None and horizon < 1:
            raise DataError(f"a trace has at least one step, so the horizon is not {horizon}")
        self.horizon = horizon
        self.count = 0
        self.ended = False
        self._waiting = 0
        self._lines = int(isinstance(header, str))

    def steps(self, steps: Iterable[StepInput]) -> Iterator[T]:
        """Take many steps, several at a time, which is faster.

        Args:
            steps: each as `step` takes it; or a file that is open, with a step on each line.

        Raises:
            DataError: a step does not fit the theory, or cannot be read; earlier steps were taken.
        """
        name = str(getattr(steps, "name", "steps"))
        try:
            for raw in steps:
                if not isinstance(raw, TraceStep | InputLine):
                    self._lines += 1
                    if isinstance(raw, str):
                        raw = InputLine(name, self._lines, raw.rstrip("\r\n"))
                        if not raw.text.strip():
                            continue
                if isinstance(raw, InputLine) and not self._over() and self._again(raw.text):
                    self._waiting += 1
                else:
                    yield from self._take(step_of(raw))
                if self._waiting >= self._room():
                    yield from self._flush()
        except DataError:
            yield from self._flush()
            raise
        yield from self._flush()

    def _one(self, facts: StepInput, values: Iterable[Fact]) -> list[T]:
        """Go on by one step."""
        self._lines += 1
        if isinstance(facts, str):
            facts = InputLine("steps", self._lines, facts.rstrip("\r\n"))
            if not self._over() and self._again(facts.text):
                self._waiting += 1
                return list(self._flush())
        return list(self.steps([step_of(facts, values)]))

    def _take(self, step: TraceStep) -> Iterator[T]:
        """Check a step and let it wait; what has to be done before it is done."""
        if self.ended:
            raise DataError("the trace has ended, so there are no more steps")
        if isinstance(step, Header):
            raise wrong(step, "'entities' belongs to the first line", ("entities",))
        if step.features is not None:
            raise wrong(step, "there is no model that sees features", ("features",), SEES)
        if self._over():
            raise wrong(step, f"the trace was to have {self.horizon} steps, but there are more")
        yield from self._enter(step)
        self._waiting += 1

    def _over(self) -> bool:
        """Whether no step may come."""
        return self.ended or self.count + self._waiting == self.horizon

    @abstractmethod
    def _again(self, text: str) -> bool:
        """Enter a line all of whose facts were written so before; whether it is one."""

    @abstractmethod
    def _enter(self, step: TraceStep) -> Iterable[T]:
        """Enter a step beside those that wait."""

    @abstractmethod
    def _room(self) -> int:
        """How many steps are done at once."""

    @abstractmethod
    def _flush(self) -> Iterable[T]:
        """Do the steps that wait."""


# --- lines that are known by their text -----------------------------------------------------------


def fact_texts(text: str) -> list[str]:
    """The facts of a line that has nothing else, each as it is written; none of any other line.

    Some of them may be no facts. But if each is the inside of a list, the line is of these lists.
    """
    if text.endswith("]]}"):
        if text.startswith('{"facts": [['):
            return text[12:-3].split("], [")
        if text.startswith('{"facts":[['):
            return text[11:-3].split("],[")
    return []


def entries_of(text: str, known: Mapping[Any, V]) -> tuple[list[V], list[V], list[float]] | None:
    """What the facts of a line are known as: those without a degree, and those with their degrees.

    None if one of them is not known by its text, or if the line has more than facts.
    """
    texts = fact_texts(text)
    if not texts:
        return None
    with suppress(KeyError):
        return [known[one] for one in texts], [], []
    entries = [known.get(one) for one in texts]
    halves = [one.rpartition(",") for one, e in zip(texts, entries, strict=True) if e is None]
    degrees = [degree for _, _, degree in halves]
    if _DEGREES.fullmatch(";".join(degrees)):
        with suppress(KeyError, ValueError):
            graded = [known[fact] for fact, _, _ in halves]
            return [e for e in entries if e is not None], graded, [float(d) for d in degrees]
    return None


def learn_texts(step: TraceStep, known: MutableMapping[Any, V]) -> None:
    """Know the facts of a step by their texts, too, which are those without a degree."""
    if step.line is None or len(known) > _MOST_KNOWN:
        return
    texts = fact_texts(step.line.text)
    if len(texts) != len(step.facts):
        return
    for text, fact in zip(texts, step.facts, strict=True):
        key = tuple(fact)
        if key not in known:
            text, key = text.rpartition(",")[0], key[:-1]
        if text not in known and key in known:
            try:
                # A text with brackets in it may have been cut at the wrong places.
                if read_json(f"[{text}]") == list(key):
                    known[text] = known[key]
            except DataError:
                return
