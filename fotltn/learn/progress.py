"""The progress of training, and the results of its epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from fotltn.errors import DataError
from fotltn.format import number as digits


@dataclass(frozen=True, slots=True)
class Epoch:
    """The result of one epoch: losses, the values of axioms, and the watched loss.

    Losses and values belong to the weights before each step, averaged over steps. Only the values
    of axioms are aggregated over all traces as ∀ does.
    """

    number: int
    loss: float
    facts: float
    axioms: float | None
    values: dict[str, float]
    watched: float
    best: bool

    def row(self) -> list[float]:
        """Return all of it as numbers, with NaN for what is missing."""
        axioms = math.nan if self.axioms is None else self.axioms
        losses = (float(self.number), self.loss, self.facts, axioms, self.watched)
        return [*losses, float(self.best), *self.values.values()]

    @classmethod
    def of(cls, row: Sequence[float], names: Sequence[str]) -> Epoch:
        """Restore the epoch from a row and the names of its axioms."""
        number, loss, facts, axioms, watched, best, *values = row
        known = None if math.isnan(axioms) else axioms
        by_name = dict(zip(names, values, strict=True))
        return cls(int(number), loss, facts, known, by_name, watched, bool(best))


class EpochHistory(tuple[Epoch, ...]):
    """The epochs of a training run, printed as a single line."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the number of epochs, the first and last loss, and the best epoch."""
        if not self:
            return "<no epochs>"
        best = max((e.number for e in self if e.best), default=0)
        losses = f"{digits(self[0].loss, 4)} to {digits(self[-1].loss, 4)}"
        return f"<{len(self):,} epoch{'s' * (len(self) != 1)}: loss {losses}, best epoch {best}>"


@dataclass(slots=True)
class Progress:
    """The current state of training."""

    epoch: int = 0
    best: float = math.inf
    best_epoch: int = 0
    history: list[Epoch] = field(default_factory=list)
    stopped: str | None = None

    def end_early(self, epochs: int) -> None:
        """End training after the epochs that are done.

        Raises:
            DataError: no epoch is done.
        """
        if self.epoch == 0:
            raise DataError(
                "there is nothing to finish: no epoch is done",
                hint="run the command without --finish to train",
            )
        self.stopped = self.stopped or f"ended early after epoch {self.epoch} of {epochs}"
