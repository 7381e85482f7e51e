"""The optimisers of `torch.optim`, as training uses them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from fotltn.errors import DataError, listing

#: Optimisers by name, in lower case.
OPTIMISERS: dict[str, type[torch.optim.Optimizer]] = {
    name.lower(): kind
    for name, kind in vars(torch.optim).items()
    if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer)
    if name not in ("Optimizer", "LBFGS", "SparseAdam", "Muon")
}
#: Optimisers that update all weights with one GPU operation.
_FUSED = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)
_LOADS_COMPILER = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")


def make_optimiser(
    name: str, weights: Sequence[nn.Parameter], rate: float, options: Mapping[str, Any]
) -> torch.optim.Optimizer:
    """Build an optimiser by name; on a GPU a fused, recordable one, unless options differ.

    Raises:
        DataError: the optimiser does not accept the rate or the options.
    """
    kind: Any = OPTIMISERS[name.lower()]
    chosen = dict(options)
    if weights[0].is_cuda and kind in _FUSED and not {"foreach", "fused"} & {*chosen}:
        chosen["fused"] = True
        if "capturable" in inspect.signature(kind).parameters:
            chosen.setdefault("capturable", True)
    try:
        optimiser: torch.optim.Optimizer = kind(weights, lr=rate, **chosen)
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        raise DataError(f"the optimiser '{name}': {error}", hint=_options(kind)) from None
    return optimiser


def check_options(name: str, rate: float, options: Mapping[str, Any]) -> None:
    """Try an optimiser on one weight.

    Raises:
        DataError: the optimiser does not accept the rate or the options.
    """
    weight = nn.Parameter(torch.zeros(1))
    weight.grad = torch.zeros(1)
    with without_compiler():
        optimiser = make_optimiser(name, [weight], rate, options)
        try:
            plain_step(optimiser)()
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            hint = _options(type(optimiser))
            raise DataError(f"the optimiser '{name}': {error}", hint=hint) from None


def _options(kind: Any) -> str:
    """Say which options an optimiser takes; the learning rate is a setting of its own."""
    names = [n for n in inspect.signature(kind).parameters if n not in ("params", "lr")]
    return f"its options: {listing(names, 20)}; the learning rate is 'rate'"


def plain_step(optimiser: torch.optim.Optimizer) -> Callable[[], object]:
    """Return one step of an optimiser as a function that does not load PyTorch's compiler."""
    if optimiser.defaults.get("differentiable"):
        return optimiser.step
    step = inspect.unwrap(type(optimiser).step)

    @torch.no_grad()
    def take() -> object:
        return step(optimiser)

    return take


@contextmanager
def without_compiler() -> Iterator[None]:
    """Build and use optimisers without loading PyTorch's compiler.

    Optimisers load the compiler only to exclude themselves from it. That takes longer than many a
    training run.
    """
    told: list[Any] = []
    for name in _LOADS_COMPILER:
        method = inspect.unwrap(getattr(torch.optim.Optimizer, name))
        if not hasattr(method, "__dynamo_disable"):
            method.__dynamo_disable = method
            told.append(method)
    try:
        yield
    finally:
        for method in told:
            del method.__dynamo_disable
