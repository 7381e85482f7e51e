"""Record a training step once and replay it: with a tape, or on a GPU with a CUDA graph.

At the sizes of most projects, launching a thousand small operations takes longer than the
operations themselves. A tape (`learn/tape.py`) has fewer operations and launches each with one
call. A CUDA graph launches all of them with one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from fotltn.learn.objective import Losses
from fotltn.learn.tape import Tape, UnrecordableError

#: Epochs that run normally before a step is recorded; by then, one-time setup is done.
EPOCHS_BEFORE = 3

TaskStep = Callable[[], tuple[Losses, Tensor | None]]


def captured(function: Callable[[], object]) -> Callable[[], None]:
    """Return what a function does on the GPU without gradients as one call, without running it.

    Raises:
        RuntimeError: the function does something that a graph cannot record.
    """
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        with torch.cuda.graph(graph):
            function()
    except BaseException:
        torch.cuda.synchronize()
        torch.cuda.set_stream(stream)  # a failed capture does not restore the stream
        raise
    return partial(_replay, graph, function)


def _replay(graph: torch.cuda.CUDAGraph, function: Callable[[], object]) -> None:  # noqa: ARG001
    """Replay a graph; the function keeps alive the memory that the graph uses."""
    graph.replay()


def predictable(modules: nn.Module) -> bool:
    """Whether modules do the same in every step, as those of this package and of PyTorch do.

    Other modules may depend on more than PyTorch sees. Batch norms update running statistics.
    """
    return all(
        type(m).__module__.startswith(("fotltn.", "torch.nn."))
        and not isinstance(m, _NormBase)
        and not (m._forward_hooks or m._forward_pre_hooks)
        for m in modules.modules()
    )


class RecordedStep:
    """The forward and backward pass of a step; gradients always end up in the same memory.

    A tape is trusted once its results equal those of a step that was not recorded.
    """

    def __init__(self, modules: nn.Module, losses: TaskStep, *, tape: bool) -> None:
        """Record a function of modules, and the backward pass from its loss to the weights.

        Args:
            modules: the modules with weights.
            losses: computes the losses of the step.
            tape: whether PyTorch sees all operations, so that a tape can record them.

        Raises:
            UnrecordableError: the step does something that a tape cannot record.
            RuntimeError: the step does something that a graph cannot record, such as reading a
                number from the GPU.
        """
        self.weights = {n: p for n, p in modules.named_parameters() if p.requires_grad}
        self.losses, self.modules = losses, modules
        self.on_gpu = next(iter(self.weights.values())).is_cuda
        self.trusted, self.ahead = self.on_gpu, False
        self.numbers = 0  # the number of losses
        self.shape, self.kind = torch.Size(), torch.float32  # of the values of axioms
        self.play = self._on_gpu(tape) if self.on_gpu else self._by_tape()

    def _by_tape(self) -> Callable[[], object]:
        weights = list(self.weights.values())
        tape = Tape(lambda: self._both(weights, self.losses), weights)
        self.seen, *results = tape.outputs
        self.grads = [torch.empty_like(g) for g in results]

        def play() -> None:
            tape()
            torch._foreach_copy_(self.grads, results)

        return play

    def _on_gpu(self, tape: bool) -> Callable[[], object]:
        try:
            if tape:
                return captured(self._by_tape())
        except (UnrecordableError, RuntimeError):
            pass  # record the step as it is
        step = _StepModule(self.modules, self.losses)

        def there_and_back() -> None:
            # The same numbers under new names, which no earlier step has used.
            fresh = {f"inner.{n}": p.detach().requires_grad_() for n, p in self.weights.items()}
            self.seen, *self.grads = self._both(
                [*fresh.values()], lambda: torch.func.functional_call(step, fresh, ())
            )

        return captured(there_and_back)

    def _both(self, weights: Sequence[Tensor], losses: TaskStep) -> list[Tensor]:
        """Return all losses and values in one row, and the gradients, 0 for unused weights."""
        outcome, values = losses()
        grads = torch.autograd.grad(outcome.total, weights, allow_unused=True)
        row = [outcome.stacked().double()]
        self.numbers = len(row[0])
        if values is not None:
            self.shape, self.kind = values.shape, values.dtype
            row.append(values.reshape(-1).double())
        self.unused = [g is None for g in grads]
        return [torch.cat(row), *(row[0].new_zeros(()) if g is None else g for g in grads)]

    def adopt(self) -> None:
        """Move the current gradients of weights to the memory of the recorded step."""
        for weight, grad in zip(self.weights.values(), self.grads, strict=True):
            if weight.grad is not None:
                weight.grad = grad.copy_(weight.grad)

    def start(self) -> None:
        """Start the next step on a GPU, which computes it while the CPU does something else."""
        if self.on_gpu:
            self.play()
            self.ahead = True

    def __call__(self) -> tuple[list[float], Tensor | None]:
        """Return the losses and the values of axioms for the current weights, and set gradients.

        Raises:
            OtherwiseError: the step differs from the recorded one.
        """
        if not self.ahead:
            self.play()
        self.ahead = False
        for weight, grad, unused in zip(
            self.weights.values(), self.grads, self.unused, strict=True
        ):
            weight.grad = None if unused else grad
        row = self.seen.cpu()
        values = row[self.numbers :].reshape(self.shape).to(self.kind) if self.shape else None
        return row[: self.numbers].tolist(), values

    def check(self, numbers: list[float], values: Tensor | None) -> bool:
        """Whether the replay equals a normal step, whose gradients are in the weights.

        If it does not, these gradients stay there.
        """
        wanted = [p.grad for p in self.weights.values()]
        ours, of_axioms = self()
        grads = [p.grad for p in self.weights.values()]
        pairs = [(values, of_axioms), *zip(wanted, grads, strict=True)]
        self.trusted = ours == numbers and all(
            a is b is None or (a is not None and b is not None and torch.equal(a, b))
            for a, b in pairs
        )
        if not self.trusted:
            for weight, grad in zip(self.weights.values(), wanted, strict=True):
                weight.grad = grad
        return self.trusted


class _StepModule(nn.Module):
    """A function of modules as a module whose weights can be replaced."""

    def __init__(self, inner: nn.Module, losses: TaskStep) -> None:
        super().__init__()
        self.inner, self.losses = inner, losses

    def forward(self) -> tuple[Losses, Tensor | None]:
        return self.losses()
