"""The thirteen axioms as a good engineer writes them in PyTorch: dense, with LTN's epsilon."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

EPSILON = 1e-4
P = 4


def low(u: Tensor) -> Tensor:
    return (1 - EPSILON) * u + EPSILON


def high(u: Tensor) -> Tensor:
    return (1 - EPSILON) * u


def conj(u: Tensor, v: Tensor) -> Tensor:
    return low(u) * low(v)


def disj(u: Tensor, v: Tensor) -> Tensor:
    u, v = high(u), high(v)
    return u + v - u * v


def imply(u: Tensor, v: Tensor) -> Tensor:
    u, v = low(u), high(v)
    return 1 - u + u * v


def some(u: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    return low(u).pow(P).mean(dim).pow(1 / P)


def every(u: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    return 1 - (1 - high(u)).pow(P).mean(dim).pow(1 / P)


def weak_next(u: Tensor) -> Tensor:
    return torch.cat([u[..., 1:], torch.ones_like(u[..., :1])], -1)


def eventually(u: Tensor) -> Tensor:
    powers = low(u).pow(P).flip(-1).cumsum(-1).flip(-1)
    counts = torch.arange(u.shape[-1], 0, -1, device=u.device)
    return (powers / counts).pow(1 / P)


def axioms(t: dict[str, Tensor], close: Tensor, only: set[str] | None = None) -> list[Tensor]:
    """Return the axioms; tables are (entity, time or 1), close is (entity, entity, time)."""
    car, ped = t["Car"], t["Ped"]
    run, stop, cross, side = t["Run"], t["Stop"], t["Crossing"], t["OnSidewalk"]
    x, y = (slice(None), None), (None, slice(None))
    found: dict[str, Callable[[], Tensor]] = {}
    if only is None or only & {"A1", "A2"}:
        near = conj(conj(conj(car[x], ped[y]), cross[y]), close)
        found["A1"] = lambda: every(every(imply(near, weak_next(stop)[x]), -1), (0, 1))
        found["A2"] = lambda: every(
            every(
                imply(
                    conj(conj(conj(conj(car, stop)[x], ped[y]), cross[y]), close),
                    eventually(run)[x],
                ),
                -1,
            ),
            (0, 1),
        )
    found["A3"] = lambda: every(
        every(imply(conj(car, 1 - some(conj(conj(ped, cross)[y], close), 1)), weak_next(run)), -1),
        0,
    )
    found["A4"] = lambda: every(imply(car[:, 0], run[:, 0]), 0)
    found["A5"] = lambda: every(every(imply(close, close.transpose(0, 1)), -1), (0, 1))
    found["A6"] = lambda: every(every(imply(car, disj(run, stop)), -1), 0)
    found["A7"] = lambda: every(every(imply(run, 1 - stop), -1), 0)
    found["A8"] = lambda: every(every(imply(car, conj(1 - cross, 1 - side)), -1), 0)
    found["A9"] = lambda: every(every(imply(ped, 1 - car), -1), 0)
    found["A10"] = lambda: every(every(imply(cross, 1 - side), -1), 0)
    found["A11"] = lambda: every(every(imply(ped, disj(cross, side)), -1), 0)
    found["A12"] = lambda: every(every(imply(ped, 1 - run), -1), 0)
    found["A13"] = lambda: every(every(imply(cross, eventually(side)), -1), 0)
    return [make() for name, make in found.items() if only is None or name in only]


def total(t: dict[str, Tensor], close: Tensor, only: set[str] | None = None) -> Tensor:
    """Return the sum of all axioms."""
    flat = {name: table[0] for name, table in t.items()}
    return torch.stack(axioms(flat, close, only)).sum()


def step(
    t: dict[str, Tensor],
    close: Tensor,
    only: set[str] | None = None,
    function: Callable[..., Tensor] = total,
) -> Tensor:
    """Run forward and backward."""
    found = function(t, close, only)
    torch.autograd.grad(found, list(t.values()), allow_unused=True)
    return found.detach()
