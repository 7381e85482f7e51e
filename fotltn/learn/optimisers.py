"""The optimisers of `torch.optim`, as training uses them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from fotltn.errors import DataError

#: By name, in small letters.
OPTIMISERS: dict[str, type[torch.optim.Optimizer]] = {
    name.lower(): kind
    for name, kind in vars(torch.optim).items()
    if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer)
    if name not in ("Optimizer", "LBFGS", "SparseAdam", "Muon")
}
#: Those that change all weights by one operation of a GPU.
_FUSED = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)
_LOADS_COMPILER = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")


def make_optimiser(
    name: str, weights: Sequence[nn.Parameter], rate: float, options: Mapping[str, Any]
) -> torch.optim.Optimizer:
    """The optimiser of that name; on a GPU a fused one that can be recorded, unless options differ.

    Raises:
        DataError: it does not take the rate or the options.
    """
    kind: Any = OPTIMISERS[name.lower()]
    chosen = dict(options)
    if weights[0].is_cuda and kind in _FUSED and not {"foreach", "fused"} & {*chosen}:
        chosen["fused"] = True
        if "capturable" in inspect.signature(kind).parameters:
            chosen.setdefault("capturable", True)
    try:
        optimiser: torch.optim.Optimizer = kind(weights, lr=rate, **chosen)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"the optimiser '{name}': {error}") from None
    return optimiser


def plain_step(optimiser: torch.optim.Optimizer) -> Callable[[], object]:
    """One step of an optimiser, as a function that does not load the compiler of torch."""
    if optimiser.defaults.get("differentiable"):
        return optimiser.step
    step = inspect.unwrap(type(optimiser).step)

    @torch.no_grad()
    def take() -> object:
        return step(optimiser)

    return take


@contextmanager
def without_compiler() -> Iterator[None]:
    """While optimisers are made and used without loading the compiler of torch.

    They load it to tell it to leave them alone. That takes longer than many a training.
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
