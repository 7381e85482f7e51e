"""The loop of monitors and watches: steps are checked, queued, and processed together."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Generic, TypeVar

from fotltn.arguments import items_of
from fotltn.errors import DataError, shown
from fotltn.monitor.steps import SEES, Fact, Header, InputLine, StepInput, TraceStep, step_of, wrong
from fotltn.strict_json import read_json

#: The most steps that are processed together.
MOST_STEPS = 1024

T = TypeVar("T")
V = TypeVar("V")

_MOST_KNOWN = 500_000  # most facts and texts to remember

# Numbers of JSON from 0 to 1.
_DEGREE = r" ?(?:0\.\d+|1\.0|\d(?:\.\d+)?[eE]-0*[1-9]\d*)"
_DEGREES = re.compile(f"{_DEGREE}(?:;{_DEGREE})*")


class StepLoop(ABC, Generic[T]):
    """Follows one trace, and yields results as they become known.

    Attributes:
        count: the number of processed steps.
        ended: whether no more steps can follow.
    """

    def __init__(self, header: object, horizon: int | None = None) -> None:
        """Begin before the first step.

        Args:
            header: the header; if it is text, it counts as the first line.
            horizon: the number of steps of the trace, if it is known.

        Raises:
            DataError: the horizon is less than 1.
        """
        if horizon is not None and horizon < 1:
            raise DataError(f"a trace has at least one step, so the horizon is not {horizon}")
        self.horizon = horizon
        self.count = 0
        self.ended = False
        self._waiting = 0
        self._lines = int(isinstance(header, str))

    def steps(self, steps: Iterable[StepInput]) -> Iterator[T]:
        """Take many steps. This is faster than `step`, because it processes them together.

        Args:
            steps: steps as `step` takes them, or an open file with a step on each line.

        Raises:
            DataError: a step does not fit the theory, or cannot be read. The steps before it were
                taken.
        """
        name = str(getattr(steps, "name", "steps"))
        listed = None if isinstance(steps, str | bytes | Mapping) else items_of(steps)
        if listed is None:
            hint = "`step` takes a single one"
            raise DataError(f"expected a list of steps, not {shown(steps)}", hint=hint)
        try:
            for raw in listed:
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
        """Take one step."""
        self._lines += 1
        if isinstance(facts, str):
            facts = InputLine("steps", self._lines, facts.rstrip("\r\n"))
            if not self._over() and self._again(facts.text):
                self._waiting += 1
                return list(self._flush())
        return list(self.steps([step_of(facts, values)]))

    def _take(self, step: TraceStep) -> Iterator[T]:
        """Check a step and queue it; process queued steps first if that is necessary."""
        if self.ended:
            raise DataError("the trace has ended, so there are no more steps")
        if isinstance(step, Header):
            raise wrong(step, "'entities' belongs to the first line", ("entities",))
        if step.features is not None:
            raise wrong(step, "there is no model that sees features", ("features",), SEES)
        if self._over():
            raise wrong(step, f"the horizon is {self.horizon}, but there are more steps")
        yield from self._enter(step)
        self._waiting += 1

    def _over(self) -> bool:
        """Return whether no further step is allowed."""
        return self.ended or self.count + self._waiting == self.horizon

    def _check_begun(self) -> None:
        """Refuse a trace without steps."""
        if self.count == 0:
            raise DataError("a trace has at least one step, but there was none")

    @abstractmethod
    def _again(self, text: str) -> bool:
        """Enter a line if all its facts are known by their text; return whether they are."""

    @abstractmethod
    def _enter(self, step: TraceStep) -> Iterable[T]:
        """Check a step and add it to the queue."""

    @abstractmethod
    def _room(self) -> int:
        """Return how many steps to process together."""

    @abstractmethod
    def _flush(self) -> Iterable[T]:
        """Process the queued steps."""


# --- facts that are known by their text -----------------------------------------------------------


def fact_texts(text: str) -> list[str]:
    """Return the text of each fact of a line that has only facts; empty for any other line.

    A text with brackets may be cut at the wrong place. If each text is the inside of a JSON list,
    the line consists of these lists.
    """
    if text.endswith("]]}"):
        if text.startswith('{"facts": [['):
            return text[12:-3].split("], [")
        if text.startswith('{"facts":[['):
            return text[11:-3].split("],[")
    return []


def entries_of(text: str, known: Mapping[Any, V]) -> tuple[list[V], list[V], list[float]] | None:
    """Look up the facts of a line by their text.

    Returns:
        The entries of facts without a degree, the entries of facts with a degree, and these
        degrees. None if a text is not known, or if the line has more than facts.
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
    """Remember the texts of a step's facts, without their degrees."""
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
                # A text with brackets may have been cut at the wrong place.
                if read_json(f"[{text}]") == list(key):
                    known[text] = known[key]
            except DataError:
                return
