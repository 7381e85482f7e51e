"""A step of training as one graph of a GPU: recorded once, then started by one call.

At the sizes of most projects a GPU waits for Python to tell it of a thousand small operations. A
recorded step tells it of one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fotltn.learn.objective import Losses

#: Epochs that run as they are before a step is recorded: by then all is made that is made once.
EPOCHS_BEFORE = 3


def captured(function: Callable[[], object]) -> Callable[[], None]:
    """What a function does on the GPU without gradients, as one call; it is not done yet.

    Raises:
        RuntimeError: it does something that a graph cannot hold.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    replay: Callable[[], None] = graph.replay
    return replay


class CapturedStep:
    """The way there and back of a step; losses, values and gradients stay at their places."""

    def __init__(
        self, modules: nn.Module, losses: Callable[[], tuple[Losses, Tensor | None]]
    ) -> None:
        """Record what a function does with modules, and the way back from its loss to weights.

        Raises:
            RuntimeError: it does something that a graph cannot hold, such as to wait for a number.
        """
        learned = {n: p for n, p in modules.named_parameters() if p.requires_grad}
        step = _Step(modules, losses)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            # The same numbers under other names, which no step before this one knows of.
            anew = {f"inner.{n}": p.detach().requires_grad_() for n, p in learned.items()}
            outcome, self.values = torch.func.functional_call(step, anew, ())
            grads = torch.autograd.grad(outcome.total, list(anew.values()), allow_unused=True)
            self.numbers = outcome.stacked()
        for weight, grad in zip(learned.values(), grads, strict=True):
            weight.grad = grad

    def __call__(self) -> tuple[list[float], Tensor | None]:
        """The losses and the values of axioms of the weights as they are; gradients are renewed."""
        self.graph.replay()
        return self.numbers.tolist(), self.values


class _Step(nn.Module):
    """What a function does with modules, as a module whose weights can be replaced."""

    def __init__(
        self, inner: nn.Module, losses: Callable[[], tuple[Losses, Tensor | None]]
    ) -> None:
        super().__init__()
        self.inner, self.losses = inner, losses

    def forward(self) -> tuple[Losses, Tensor | None]:
        return self.losses()
