"""Compute until under p-means at every point by diagonals: all pairs of equal distance at once.

With `x` the lost degrees of the left side to the power p, and `r` those of the right side, the
value at t is the root of a mean, over the witnesses k, of

    w(t, k)^q,  with  w(t, k) = r(k) (1 - a · (P(t, k) / (k - t))^(1/p)) + e

and `P(t, k)` the sum of x from t to just before k; `a` and `e` are 1 and 0 unless LTN's projections
are used. From distance d to d + 1, the sum grows by one term, and so does the mean `P / d`, which a
CPU computes instead. So one pass over d, with a few operations on all points, gives every value,
adding in the order of the equations. A second pass, from far pairs to near ones, gives the
gradient. Work is O(T²), as p-means require. Memory is O(T log T) times the number of traces
processed at once, whatever their total; O(T √T) on a GPU, where the first pass is one kernel, and
the second is one kernel for each diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.kernels.gpu import usable
from fotltn.kernels.tracing import unseen
from fotltn.semantics.config import PMean, Semantics, TNorm

#: Numbers in one operation. On a CPU, enough for it to take much longer than the call, at which
#: threads wait for each other.
MOST_ON_CPU, LEAST_ON_CPU, MOST_ON_GPU = 2**19, 2**18, 2**22

#: Diagonals of running means that are stored at once, at each of several scales.
STORED_ON_CPU = 16

_ONE = torch.ones(())


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


def tables_at_once(high: int) -> int:
    """Return about how many tables of all points of these traces a CPU holds.

    Gradients take some more, values alone less.
    """
    stored, distances = 0, high + 1
    while distances > STORED_ON_CPU:
        stored, distances = stored + STORED_ON_CPU, math.ceil(distances / STORED_ON_CPU)
    return 5 * (stored + distances) // 8 + 8


# --- all pairs ------------------------------------------------------------------------------------


def values(left: Tensor, right: Tensor, counts: Tensor, m: Means, inside: Tensor | None) -> Tensor:
    """Compute the value at every point, from tables of shape (time, trace) and witness counts."""
    x, r = _sides(left, right, m)
    sums = torch.zeros_like(x)
    if usable(x):
        from fotltn.kernels.gpu import diagonals as gpu

        unseen("until")
        gpu.add_witnesses(sums, x, r, inside, m.low, m.high, m.shape)
        return _root(sums.div_(counts), m.q)
    mean, reached = torch.zeros_like(x), torch.empty_like(x)
    if m.low == 0:
        torch.add(r, m.epsilon, out=reached)
        _add_powers(sums, reached, m.q, inside)
    for distance in range(1, m.high + 1):
        near = len(x) - distance
        means = mean[:near].lerp_(x[distance - 1 : -1], 1 / distance)
        if distance >= m.low:
            degrees = _reach(means, r[distance:], m, reached[:near])
            _add_powers(sums[:near], degrees, m.q, None if inside is None else inside[distance:])
    return _root(sums.div_(counts), m.q)


def gradients(
    grad: Tensor, left: Tensor, right: Tensor, counts: Tensor, m: Means, inside: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of both sides from that of the mean of powers at every point."""
    x, r = _sides(left, right, m)
    grad = grad * (m.q / counts)
    carried = torch.zeros_like(x)  # the gradient of the running sum at each point
    scratch = [] if usable(x) else [torch.empty_like(x) for _ in range(3)]
    pulled = not m.epsilon and not usable(x)  # powers of r are factors of all terms of a sum
    # Points beyond the end, which count for nothing: the diagonals of a block are equally long.
    beyond = x.new_zeros(_few(x), x.shape[1])
    terms, factor = (torch.cat([u, beyond]) for u in (x, _power(r, m.q) if pulled else r))
    there = None if inside is None else torch.cat([inside, beyond])
    by_term, by_factor = torch.zeros_like(terms), torch.zeros_like(terms)
    for start, means in _backwards(terms, len(x), torch.zeros_like(terms), 0, m.high, {}):
        if start + len(means) <= m.low:
            break
        near = len(x) - start
        some = grad[:near], carried[:near], [u[:near] for u in scratch]
        for distance in range(start + len(means) - 1, max(start, m.low, 1) - 1, -1):
            ahead = slice(distance, distance + near)
            _add_gradients(
                means[distance - start], factor[ahead], by_factor[ahead], *some, distance, m,
                None if there is None else there[ahead],
            )  # fmt: skip
            by_term[distance - 1 : distance - 1 + near].add_(some[1])
    by_x, by_r = by_term[: len(x)], by_factor[: len(x)]
    if pulled:
        by_r.mul_(_power(r, m.q - 1))
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


def _few(x: Tensor) -> int:
    """Return how many diagonals of running means to store at once, at each scale."""
    return math.isqrt(len(x)) + 1 if usable(x) else STORED_ON_CPU


def _backwards(
    x: Tensor, horizon: int, first: Tensor, start: int, stop: int, levels: dict[int, Tensor]
) -> Iterator[tuple[int, Sequence[Tensor]]]:
    """Yield the running means of blocks of diagonals, far pairs first.

    Each mean is computed as in the forward pass. The means at some distances are stored; those in
    between are recomputed from there, in the same way. On a GPU these are sums.

    Args:
        x: the terms, and zeros after the last one.
        horizon: the number of terms.
        first: the means at the smallest distance.
        start: the smallest distance.
        stop: the largest distance.
        levels: memory for means, by the difference of their distances.

    Yields:
        The smallest distance of a block, and the means at each of its distances.
    """
    few, stride = _few(x[:horizon]), 1
    while stride * few <= stop - start:
        stride *= few
    count = (stop - start) // stride + 1
    if stride not in levels:
        levels[stride] = x.new_empty(few if levels else count, *x.shape)
    means = levels[stride][:count]
    if usable(x):
        from fotltn.kernels.gpu import diagonals as gpu

        gpu.running(means, x, first, start, stop, stride)
    else:
        _store_means(means, x, horizon, first, start, stride)
    if stride == 1:
        yield start, means[:, : horizon - start].unbind()
        return
    for number in range(count - 1, -1, -1):
        near = start + number * stride
        yield from _backwards(x, horizon, means[number], near, min(stop, near + stride - 1), levels)


def _store_means(
    means: Tensor, x: Tensor, horizon: int, first: Tensor, start: int, stride: int
) -> None:
    """Compute the running means at every `stride`-th distance, starting from `first`."""
    means[0].copy_(first)
    few = _few(x)
    for number in range(1, len(means)):
        before, last = means[number - 1], start + number * stride
        for done in range(last - stride, last, few):
            near = horizon - (start if stride == 1 else done)
            mean, after = before[:near], means[number, :near]
            for distance in range(done + 1, min(last, done + few) + 1):
                torch.lerp(mean, x[distance - 1 : distance - 1 + near], 1 / distance, out=after)
                mean = after
            before = means[number]


# --- one diagonal ---------------------------------------------------------------------------------


def _reach(mean: Tensor, r: Tensor, m: Means, reached: Tensor) -> Tensor:
    """Compute the degree of one witness per point, into a tensor that is returned."""
    root = _root(mean, m.p, out=reached)
    torch.addcmul(r, r, root, value=m.epsilon - 1, out=reached)
    return reached.add_(m.epsilon) if m.epsilon else reached


def _add_powers(sums: Tensor, reached: Tensor, q: float, inside: Tensor | None) -> None:
    """Add the powers of degrees, which are overwritten."""
    if inside is not None:
        reached.mul_(inside)
    if q in (2, 4):
        half = reached.square_() if q == 4 else reached
        sums.addcmul_(half, half)
    else:
        sums.add_(_power(reached, q))


def _add_gradients(
    mean: Tensor, factor: Tensor, by_r: Tensor, grad: Tensor, carried: Tensor,
    scratch: list[Tensor], distance: int, m: Means, inside: Tensor | None,
) -> None:  # fmt: skip
    """Add the gradients from one witness per point to `carried`, for running sums, and `by_r`.

    Without projections, powers of the right side are in `factor`, and `by_r` still lacks its own.
    """
    if usable(mean):
        from fotltn.kernels.gpu import diagonals as gpu

        gpu.add_gradients(mean, factor, grad, carried, by_r, inside, distance, m.shape)
        return
    root, before, slope = scratch
    keep = 1 - m.epsilon
    _root(mean, m.p, out=root)
    torch.sub(_ONE, root, alpha=keep, out=before)
    reached = torch.mul(factor, before).add_(m.epsilon) if m.epsilon else before
    _power(reached, m.q - 1, out=slope).mul_(grad)
    if inside is not None:
        slope.mul_(inside)
    by_r.addcmul_(slope, before)
    slope.mul_(factor)
    if m.p == 1:
        carried.sub_(slope, alpha=keep / distance)
    else:  # the slope of a root is 0 at 0
        slope.mul_(root)
        tiny = torch.finfo(mean.dtype).tiny
        carried.addcdiv_(slope, mean.add_(tiny), value=-keep / (m.p * distance))


def _power(u: Tensor, p: float, out: Tensor | None = None) -> Tensor:
    """Compute `u^p` of numbers that are non-negative up to rounding; write to `out` if given."""
    out = torch.empty_like(u) if out is None else out
    if p == 0:
        return out.fill_(1)
    if p == 1:
        return out.copy_(u)
    if p in (2, 3, 4, 8):
        torch.square(u, out=out)
        if p == 3:
            return out.mul_(u)
        return out if p == 2 else out.square_() if p == 4 else out.square_().square_()
    return torch.clamp(u, min=0, out=out).pow_(p)


def _root(u: Tensor, p: float, out: Tensor | None = None) -> Tensor:
    """Compute roots; write to `out` if given, which may be the numbers themselves."""
    out = torch.empty_like(u) if out is None else out
    if p == 1:
        return out.copy_(u)
    if p in (4, 8):  # two inverse square roots take less time than two square roots
        torch.rsqrt(u, out=out).rsqrt_()
        return out if p == 4 else out.sqrt_()
    return torch.sqrt(u, out=out) if p == 2 else torch.pow(u, 1 / p, out=out)
