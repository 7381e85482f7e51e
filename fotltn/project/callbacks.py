"""Callbacks: objects that follow training from its start to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from fotltn.learn.fit import Epoch
from fotltn.posterior.run import SamplingProgress
from fotltn.project.model import Model


class Callback:
    r"""Follows training. Subclass it and override the methods you need.

    Use a callback to log, plot or stop: an error that it raises ends training.

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
    >>> losses.resume(model.history)  # as training does if it continues after an interruption
    >>> len(losses.seen)
    4
    """

    def start(self, model: Model) -> None:
        """Called when training begins; the model has its data and its initial weights."""

    def resume(self, epochs: Sequence[Epoch]) -> None:
        """Called when training resumes, with the epochs before; passes each to `epoch`."""
        for epoch in epochs:
            self.epoch(epoch)

    def epoch(self, epoch: Epoch) -> None:
        """Called after each epoch, and again for earlier epochs when training resumes."""

    def sweep(self, progress: SamplingProgress) -> None:
        """Called after each sweep of sampling, but not again for sweeps before an interruption."""

    def end(self, model: Model | None) -> None:
        """Called when training has ended; `model` is None after an error or a stop."""


class EachEpoch(Callback):
    """Calls a function after every epoch."""

    def __init__(self, function: Callable[[Epoch], None]) -> None:
        """Wrap the function."""
        self.function = function

    def epoch(self, epoch: Epoch) -> None:
        """Call the function."""
        self.function(epoch)


@dataclass(slots=True)
class Telling:
    """Calls several callbacks, and ends those that it has started."""

    callbacks: tuple[Callback, ...]
    begun: list[Callback] = field(default_factory=list)
    model: Model | None = None

    def start(self, model: Model) -> None:
        """Start all callbacks."""
        for one in self.callbacks:
            one.start(model)
            self.begun.append(one)

    def resume(self, epochs: Sequence[Epoch]) -> None:
        """Report the epochs before an interruption to all callbacks."""
        for one in self.callbacks:
            if callable(tell := getattr(one, "resume", None)):
                tell(epochs)
            else:  # version 0.1.0 did not have it
                Callback.resume(one, epochs)

    def epoch(self, epoch: Epoch) -> None:
        """Report an epoch to all callbacks."""
        for one in self.callbacks:
            one.epoch(epoch)

    def sweep(self, progress: SamplingProgress) -> None:
        """Report a sweep to all callbacks."""
        for one in self.callbacks:
            if callable(tell := getattr(one, "sweep", None)):  # version 0.1.0 did not have it
                tell(progress)


@contextmanager
def telling(callbacks: Iterable[Callback]) -> Iterator[Telling]:
    """Yield an object that reports to all callbacks; at the end, always end those it started."""
    told = Telling(tuple(callbacks))
    try:
        yield told
    finally:
        with ExitStack() as last:
            for one in reversed(told.begun):
                last.callback(one.end, told.model)
