"""Measure the gain of each axiom: learn with all axioms and without each, then score.

This driver works for every method: it divides the labels several times, and each time it learns
once with all axioms, and once without each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from fotltn.errors import FotError
from fotltn.grounding.labels import Labels

R = TypeVar("R")


class Division(NamedTuple):
    """The labels to learn from, and those to hold back."""

    learned: Labels
    held_back: Labels


@dataclass(frozen=True, slots=True)
class LeftOutProgress:
    """The progress of the measurement.

    Args:
        division: the number of the division of labels, from 1.
        axiom: the axiom that was left out; None for the run with all.
        done: the number of finished runs.
        of: the total number of runs.
    """

    division: int
    axiom: str | None
    done: int
    of: int


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut(Generic[R]):
    """The results of learning, division by division.

    Args:
        every: the results with all axioms.
        without: the results without each axiom, by its name; after a problem, no more.
        problems: why nothing could be learned without an axiom, by its name.
    """

    every: tuple[R, ...]
    without: Mapping[str, tuple[R, ...]]
    problems: Mapping[str, str]


def leave_out(
    axioms: Sequence[str],
    divisions: Sequence[Division],
    learn: Callable[[str | None, int, Division], R],
    *,
    bearable: tuple[type[FotError], ...] = (),
    report: Callable[[LeftOutProgress], None] | None = None,
) -> LeftOut[R]:
    """Learn with all axioms and without each, on every division of the labels.

    Args:
        axioms: the names of the axioms to leave out.
        divisions: the labels, divided.
        learn: called with an axiom to leave out (or None), a division and its number; learns, and
            returns how well the result predicts the labels that were held back.
        bearable: errors of learning without an axiom that end only the measurement of that axiom.
        report: a function to call after every run.
    """
    every: list[R] = []
    without: dict[str, list[R]] = {name: [] for name in axioms}
    problems: dict[str, str] = {}
    done = 0
    for number, division in enumerate(divisions):
        for axiom in (None, *axioms):
            if axiom is None:
                every.append(learn(None, number, division))
            elif axiom not in problems:
                try:
                    without[axiom].append(learn(axiom, number, division))
                except bearable as error:
                    problems[axiom] = error.diagnostics[0].message
            done += 1
            if report is not None:
                total = len(divisions) * (1 + len(axioms))
                report(LeftOutProgress(number + 1, axiom, done, total))
    return LeftOut(tuple(every), {n: tuple(r) for n, r in without.items()}, problems)
