"""Who is told how training goes: at its start, after every epoch, and at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from fotltn.learn.fit import Epoch
from fotltn.posterior.run import SamplingProgress
from fotltn.project.model import Model


class Callback:
    r"""Is told how training goes. Derive from it, and say what is to be done when.

    An error that it raises ends training.

    >>> import fotltn as fot
    >>> class Losses(fot.Callback):
    ...     def __init__(self):
    ...         self.seen = []
    ...     def epoch(self, epoch):
    ...         self.seen.append(epoch.loss)
    >>> theory = "sort car\npredicate Near(car), Stop(car)\naxiom A: forall x. F Stop(x)"
    >>> facts = {"predicate": ["Near", "Stop"], "arg1": ["ego", "ego"], "time": [0, 3]}
    >>> losses = Losses()
    >>> model = fot.train(
    ...     theory, facts=facts, learn=["Stop"], training={"epochs": 2}, callbacks=[losses]
    ... )
    >>> len(losses.seen)
    2
    """

    def start(self, model: Model) -> None:
        """Training begins; the model has its data and its initial weights."""

    def epoch(self, epoch: Epoch) -> None:
        """An epoch is done. Epochs before an interruption are told again when training goes on."""

    def sweep(self, progress: SamplingProgress) -> None:
        """A sweep of sampling is done; those before an interruption are not told again."""

    def end(self, model: Model | None) -> None:
        """Training has ended with a model, or, if there is none, by an error or a stop."""


class EachEpoch(Callback):
    """A function that is told of every epoch."""

    def __init__(self, function: Callable[[Epoch], None]) -> None:
        """Nothing is called yet."""
        self.function = function

    def epoch(self, epoch: Epoch) -> None:
        """Call it."""
        self.function(epoch)


@dataclass(slots=True)
class Telling:
    """Callbacks that are told together; those that have been told of the start are to be ended."""

    callbacks: tuple[Callback, ...]
    begun: list[Callback] = field(default_factory=list)
    model: Model | None = None

    def start(self, model: Model) -> None:
        """Tell all of the start."""
        for one in self.callbacks:
            one.start(model)
            self.begun.append(one)

    def epoch(self, epoch: Epoch) -> None:
        """Tell all of an epoch."""
        for one in self.callbacks:
            one.epoch(epoch)

    def sweep(self, progress: SamplingProgress) -> None:
        """Tell all of a sweep."""
        for one in self.callbacks:
            if callable(tell := getattr(one, "sweep", None)):  # which version 0.1.0 did not know
                tell(progress)


@contextmanager
def telling(callbacks: Iterable[Callback]) -> Iterator[Telling]:
    """Tell callbacks of training; in the end all are told, whatever happens."""
    told = Telling(tuple(callbacks))
    try:
        yield told
    finally:
        with ExitStack() as last:
            for one in reversed(told.begun):
                last.callback(one.end, told.model)
