"""Compute until under p-means at every point by diagonals: all pairs of equal distance at once.

With `x` the lost degrees of the left side to the power p, and `r` those of the right side, the
value at t is the root of a mean, over the witnesses k, of

    w(t, k)^q,  with  w(t, k) = r(k) (1 - a · (P(t, k) / (k - t))^(1/p)) + e

and `P(t, k)` the sum of x from t to just before k; `a` and `e` are 1 and 0 unless LTN's projections
are used. From distance d to d + 1, `P` grows by one term. So one pass over d, with a few operations
on all points, gives every value, adding in the order of the equations. A second pass, from far
pairs to near ones, gives the gradient. Work is O(T²), as p-means require. Memory is O(T √T) times
the number of traces processed at once, whatever their total. On a GPU, the first pass is one
kernel, and the second is one kernel for each diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.kernels.tracing import unseen
from fotltn.semantics.config import PMean, Semantics, TNorm

#: Numbers in one operation. On a CPU, few enough for several operands to stay in its cache, and
#: enough for the operation to take longer than the call.
MOST_ON_CPU, LEAST_ON_CPU, MOST_ON_GPU = 2**17, 2**15, 2**22


@dataclass(frozen=True, slots=True)
class Means:
    """The exponents and projections of a semantics, and the range of distances of pairs."""

    p: float
    q: float
    epsilon: float
    low: int
    high: int

    @property
    def shape(self) -> tuple[float, float, float]:
        """The settings that are the same at every distance."""
        return self.p, self.q, self.epsilon


def fits(semantics: Semantics) -> bool:
    """Whether a semantics has the form described above."""
    return (
        semantics.conjunction is TNorm.PRODUCT
        and isinstance(semantics.always, PMean)
        and isinstance(semantics.eventually, PMean)
        and not semantics.log_space
        and math.isfinite(semantics.always.p)
        and math.isfinite(semantics.eventually.p)
    )


def means(semantics: Semantics, low: int, high: int) -> Means:
    """Return the settings of a semantics that fits."""
    assert isinstance(semantics.always, PMean)
    assert isinstance(semantics.eventually, PMean)
    return Means(semantics.always.p, semantics.eventually.p, semantics.epsilon, low, high)


def traces_at_once(horizon: int, traces: int, device: torch.device) -> int:
    """Return how many of some traces to process at once."""
    if device.type != "cpu":
        return max(1, min(traces, MOST_ON_GPU // horizon))
    least, most = (max(1, n // horizon) for n in (LEAST_ON_CPU, MOST_ON_CPU))
    return max(least, min(traces, most))


# --- all pairs ------------------------------------------------------------------------------------


def values(left: Tensor, right: Tensor, counts: Tensor, m: Means, inside: Tensor | None) -> Tensor:
    """Compute the value at every point, from tables of shape (time, trace) and witness counts."""
    x, r = _sides(left, right, m)
    sums = torch.zeros_like(x)
    if x.is_cuda:
        from fotltn.kernels.gpu import diagonals as gpu

        unseen("until")
        gpu.add_witnesses(sums, x, r, inside, m.low, m.high, m.shape)
        return _root(sums.div_(counts), m.q)
    running = torch.zeros_like(x)
    if m.low == 0:
        _add_witness(sums, running, r, 0, m, inside)
    for distance in range(1, m.high + 1):
        near = len(x) - distance
        running[:near].add_(x[distance - 1 : -1])
        if distance >= m.low:
            there = _from(inside, distance)
            _add_witness(sums[:near], running[:near], r[distance:], distance, m, there)
    return _root(sums.div_(counts), m.q)


def gradients(
    grad: Tensor, left: Tensor, right: Tensor, counts: Tensor, m: Means, inside: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of both sides from that of the mean of powers at every point."""
    x, r = _sides(left, right, m)
    grad = grad * (m.q / counts)
    by_x, by_r = torch.zeros_like(x), torch.zeros_like(r)
    carried = torch.zeros_like(x)  # the gradient of the running sum at each point
    for distance, running in _backwards(x, m.high):
        if distance < max(1, m.low):
            break
        near = len(x) - distance
        _add_gradients(
            running, r[distance:], grad[:near], carried[:near], by_r[distance:], distance, m,
            _from(inside, distance),
        )  # fmt: skip
        by_x[distance - 1 : -1].add_(carried[:near])
    for distance in range(min(m.low, m.high + 1) - 1, 0, -1):  # closer than any witness
        by_x[distance - 1 : -1].add_(carried[: len(x) - distance])
    if m.low == 0:
        once = r + m.epsilon if m.epsilon else r
        at_once = grad * _power(once, m.q - 1)
        by_r.add_(at_once if inside is None else at_once * inside)
    keep = 1 - m.epsilon
    lost = 1 - keep * left
    by_left = by_x.mul_(_power(lost, m.p - 1)).mul_(-m.p * keep)
    return by_left, by_r.mul_(keep * keep)


def _sides(left: Tensor, right: Tensor, m: Means) -> tuple[Tensor, Tensor]:
    keep = 1 - m.epsilon
    x = _power(1 - keep * left, m.p)
    return x, (keep * (keep * right + m.epsilon) if m.epsilon else right)


def _from(inside: Tensor | None, distance: int) -> Tensor | None:
    return None if inside is None else inside[distance:]


def _backwards(x: Tensor, high: int) -> Iterator[tuple[int, Tensor]]:
    """Yield the running sums from far pairs to near ones, each computed as in the forward pass.

    The sums at some distances are stored; those in between are recomputed from there.
    """
    stride = max(1, math.isqrt(high))
    marks = _running(x, torch.zeros_like(x), 0, high, stride)
    for number in range(len(marks) - 1, -1, -1):
        start, stop = number * stride, min(high, (number + 1) * stride - 1)
        between = _running(x, marks[number], start, stop, 1)
        for distance in range(stop, start - 1, -1):
            yield distance, between[distance - start][: len(x) - distance]


def _running(x: Tensor, first: Tensor, start: int, stop: int, stride: int) -> Tensor:
    """Return the running sums at every `stride`-th distance, starting from `first`."""
    count = (stop - start) // stride + 1
    sums = torch.empty(count, *x.shape, dtype=x.dtype, device=x.device)
    if x.is_cuda:
        from fotltn.kernels.gpu import diagonals as gpu

        gpu.running(sums, x, first, start, stop, stride)
        return sums
    running = sums[0].copy_(first)
    if stride > 1:
        running = running.clone()
    for distance in range(start + 1, stop + 1):
        near = len(x) - distance
        after = sums[distance - start] if stride == 1 else running
        torch.add(running[:near], x[distance - 1 : -1], out=after[:near])
        running = after
        if stride > 1 and (distance - start) % stride == 0:
            sums[(distance - start) // stride].copy_(running)
    return sums


# --- one diagonal ---------------------------------------------------------------------------------


def _add_witness(
    sums: Tensor, running: Tensor, r: Tensor, distance: int, m: Means, inside: Tensor | None
) -> None:
    """Add the powers of one witness per point."""
    if distance == 0:
        reached = r + m.epsilon if m.epsilon else r.clone()
    else:
        reached = _root(running / distance, m.p)
        torch.addcmul(r, r, reached, value=m.epsilon - 1, out=reached)
        if m.epsilon:
            reached.add_(m.epsilon)
    if inside is not None:
        reached.mul_(inside)
    if m.q == 2:
        sums.addcmul_(reached, reached)
    elif m.q == 4:
        reached.square_()
        sums.addcmul_(reached, reached)
    else:
        sums.add_(_power(reached, m.q))


def _add_gradients(
    running: Tensor, r: Tensor, grad: Tensor, carried: Tensor, by_r: Tensor, distance: int,
    m: Means, inside: Tensor | None,
) -> None:  # fmt: skip
    """Add the gradients from one witness per point to `carried`, for running sums, and `by_r`."""
    if running.is_cuda:
        from fotltn.kernels.gpu import diagonals as gpu

        gpu.add_gradients(running, r, grad, carried, by_r, inside, distance, m.shape)
        return
    mean, keep = running.div_(distance), 1 - m.epsilon
    root = _root(mean, m.p)
    before = torch.sub(root.new_ones(()), root, alpha=keep)
    reached = r * before
    if m.epsilon:
        reached.add_(m.epsilon)
    slope = _power(reached, m.q - 1).mul_(grad)
    if inside is not None:
        slope.mul_(inside)
    by_r.addcmul_(slope, before)
    slope.mul_(r)
    if m.p == 1:
        carried.sub_(slope, alpha=keep / distance)
    else:  # the slope of a root is 0 at 0
        root.div_(mean.add_(torch.finfo(mean.dtype).tiny))
        carried.addcmul_(slope, root, value=-keep / (m.p * distance))


def _power(u: Tensor, p: float) -> Tensor:
    """Compute `u^p` of numbers that are non-negative up to rounding."""
    if p == 0:
        return torch.ones_like(u)
    if p == 1:
        return u.clone()
    if p in (2, 4, 8):
        u = u.square()
        while p > 2:
            u, p = u.square_(), p / 2
        return u
    return u.square().mul_(u) if p == 3 else u.clamp(min=0).pow_(p)


def _root(u: Tensor, p: float) -> Tensor:
    """Return the roots as a new tensor."""
    if p == 1:
        return u.clone()
    if p in (2, 4, 8):
        u = u.sqrt()
        while p > 2:
            u, p = u.sqrt_(), p / 2
        return u
    return u.pow(1 / p)
