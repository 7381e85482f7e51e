"""Compute until at every time point, over all pairs of a point and its witness.

Work is O(T²), as p-means require. Few pairs are laid out as a matrix. Many pairs are processed by
diagonals under p-means, and under other semantics in blocks of points that are recomputed for
gradients. So memory stays far below T² per trace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fotltn.kernels import diagonals
from fotltn.kernels.function import Differentiated
from fotltn.kernels.gpu import usable
from fotltn.kernels.powers import power, root
from fotltn.kernels.recompute import recompute
from fotltn.kernels.tracing import is_tracing
from fotltn.kernels.windows import running_product
from fotltn.logic.core import Window
from fotltn.semantics import aggregate, connectives
from fotltn.semantics.config import Fold, PMean, Semantics, TNorm
from fotltn.semantics.laws import Law, laws
from fotltn.semantics.operators import operators
from fotltn.threads import in_threads, most_threads

#: The number of pairs in a block; small enough to stay in the cache of a CPU.
BLOCK = 2**18


def until(
    left: Tensor,
    right: Tensor,
    window: Window,
    past: bool,
    inside: Tensor | None,
    semantics: Semantics,
    *,
    at: int | None = None,
    block: int = BLOCK,
) -> Tensor:
    """Compute `left` until `right` at every point, or only at `at`, without a time dimension."""
    left, right = torch.broadcast_tensors(left, right)
    if past:
        left, right, inside = left.flip(-1), right.flip(-1), None
        at = None if at is None else left.shape[-1] - 1 - at
    horizon = left.shape[-1]
    if inside is not None:
        inside = inside.expand(*inside.shape[:-1], horizon)
    if at is not None:
        rest = (left[..., at:], right[..., at:], _part(inside, at))
        return _rows(*rest, 1, window, semantics)[..., 0]
    if _expands(window, semantics):
        reached = _extreme(left, right, inside)
        return reached.flip(-1) if past else reached
    if window.high is not None and window.high < window.low:
        return torch.zeros_like(left)
    if _walks(left, window, semantics, block):
        reached = _Diagonals.apply(left, right, inside, window, semantics, block)  # type: ignore[no-untyped-call]
    else:
        reached = _by_rows(left, right, inside, window, semantics, block)
    return reached.flip(-1) if past else reached


def until_of_logarithms(
    left: Tensor, right: Tensor, window: Window, past: bool, inside: Tensor | None, s: Semantics
) -> Tensor:
    """Compute until at every point under a semantics in log space whose ⊗ over time is a fold."""
    if past:
        left, right, inside = left.flip(-1), right.flip(-1), None
    if inside is not None:
        inside = inside.expand(*inside.shape[:-1], left.shape[-1])
    reached = _by_rows(left, right, inside, window, s, BLOCK)
    return reached.flip(-1) if past else reached


class PairCost(NamedTuple):
    """The cost of until at every time point, beyond its inputs and its result.

    Args:
        numbers: the numbers held at once.
        pairs: the pairs of a point and a witness that are computed.
        calls: the number of tensor operations.
    """

    numbers: int
    pairs: int
    calls: int


def extent(lead: int, horizon: int, window: Window, semantics: Semantics) -> PairCost:
    """Return the cost of until, with gradients, for `lead` traces or bindings."""
    high = horizon - 1 if window.high is None else min(horizon - 1, window.high)
    if high < window.low:
        return PairCost(0, 0, 1)
    if _expands(window, semantics):
        return PairCost(2 * lead * horizon, 4 * lead * horizon, 4 * horizon)
    pairs = lead * (horizon * (high + 1) - high * (high + 1) // 2)
    if diagonals.fits(semantics) and lead * horizon * (high + 1) > BLOCK:
        threads = most_threads()
        at_once = diagonals.traces_at_once(horizon, math.ceil(lead / threads), torch.device("cpu"))
        tables = diagonals.tables_at_once(high)
        numbers = min(lead, at_once * threads) * horizon * tables
        return PairCost(numbers, pairs, 8 * (high + 1) * math.ceil(lead / at_once))
    size = _at_once(lead, horizon, window, BLOCK)
    matrix = lead * size * min(horizon, size + high)
    pieces = math.ceil(horizon / size)
    return PairCost(8 * matrix, 3 * pieces * matrix, 24 * pieces)


def _expands(window: Window, semantics: Semantics) -> bool:
    """Whether until is computed from its value at the next time point."""
    return window.low == 0 and window.high is None and Law.EXPAND_UNTIL in laws(semantics)


def _at_once(lead: int, horizon: int, window: Window, block: int) -> int:
    """Return the number of points in a block, each paired with the witnesses of all of them."""
    each = block / max(1, lead)
    if window.high is None or window.high >= horizon:
        return max(1, min(horizon, int(each // horizon)))
    return max(1, min(horizon, int((math.sqrt(window.high**2 + 4 * each) - window.high) / 2)))


def _by_rows(
    left: Tensor, right: Tensor, inside: Tensor | None, window: Window, s: Semantics, block: int
) -> Tensor:
    """Compute until at every time point, one block of points at a time."""
    horizon = left.shape[-1]
    size = _at_once(math.prod(left.shape[:-1]), horizon, window, block)
    pieces = []
    for start in range(0, horizon, size):
        rows = min(size, horizon - start)
        stop = horizon if window.high is None else min(horizon, start + rows + window.high)
        part = (left[..., start:stop], right[..., start:stop], _part(inside, start, stop))
        if size < horizon:
            pieces.append(recompute(_rows, *part, rows, window, s))
        else:
            pieces.append(_rows(*part, rows, window, s))
    return torch.cat(pieces, dim=-1)


def _pairs(left: Tensor, window: Window) -> int:
    """Return the number of pairs of all points, in all traces."""
    horizon = left.shape[-1]
    reach = horizon if window.high is None else min(horizon, window.high + 1)
    return max(1, math.prod(left.shape[:-1])) * reach * horizon


def _walks(left: Tensor, window: Window, semantics: Semantics, block: int) -> bool:
    """Return whether to go by diagonals: there are many pairs, and no transform is active."""
    return (
        diagonals.fits(semantics)
        and _pairs(left, window) > block
        and not is_tracing()
        and torch._C._functorch.peek_interpreter_stack() is None
    )


class _Diagonals(Differentiated):
    """Until by diagonals; second derivatives come from `_by_rows`."""

    @staticmethod
    def forward(
        ctx: Any, left: Tensor, right: Tensor, inside: Tensor | None, window: Window, s: Semantics,
        block: int,
    ) -> Tensor:  # fmt: skip
        ctx.how = (inside, window, s, block)
        values = torch.empty(left.shape, dtype=left.dtype, device=left.device)

        def compute(portion: _Portion) -> None:
            portion.of(values)[:] = diagonals.values(*portion.sides).T

        _for_each_portion(compute, left, right, inside, window, s)
        ctx.save_for_backward(left, right, values)
        return values

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        left, right, values = ctx.saved_tensors
        inside, window, s, block = ctx.how
        if torch.is_grad_enabled():  # higher derivatives are needed
            with torch.enable_grad():
                again = _by_rows(left, right, inside, window, s, block)
            sides = [side for side in (left, right) if side.requires_grad]
            slopes = iter(torch.autograd.grad(again, sides, grads[0], create_graph=True))
            by_left, by_right = (next(slopes) if t.requires_grad else None for t in (left, right))
            return by_left, by_right, None, None, None, None
        q = diagonals.means(s, 0, 0).q
        tiny = torch.finfo(values.dtype).tiny
        slope = grads[0] * values / (values**q + tiny) / q if q != 1 else grads[0]
        by_left, by_right = torch.empty_like(values), torch.empty_like(values)

        def compute(portion: _Portion) -> None:
            up = portion.of(slope).T.contiguous()
            one, other = diagonals.gradients(up, *portion.sides)
            portion.of(by_left)[:], portion.of(by_right)[:] = one.T, other.T

        _for_each_portion(compute, left, right, inside, window, s)
        return by_left, by_right, None, None, None, None


class _Portion(NamedTuple):
    """Some traces of until, time first.

    Args:
        traces: which of all traces.
        sides: left, right, the number of witnesses of each point, the means, and which points are
            inside.
    """

    traces: slice
    sides: tuple[Tensor, Tensor, Tensor, diagonals.Means, Tensor | None]

    def of(self, u: Tensor) -> Tensor:
        """Return the rows of these traces in a table of all traces."""
        return u.reshape(-1, u.shape[-1])[self.traces]


def _for_each_portion(
    compute: Callable[[_Portion], None],
    left: Tensor,
    right: Tensor,
    inside: Tensor | None,
    window: Window,
    s: Semantics,
) -> None:
    """Process some traces at a time; on a CPU, each thread has its own.

    One operation on a diagonal is too small for several threads, and stays in the cache of one.
    """
    horizon, lead = left.shape[-1], math.prod(left.shape[:-1])
    high = horizon - 1 if window.high is None else min(window.high, horizon - 1)
    means = diagonals.means(s, window.low, high)
    times = torch.arange(horizon, device=left.device)
    ends = (times + high + 1).clamp(max=horizon)
    starts = (times + window.low).clamp(max=horizon)
    threads = torch.get_num_threads() if left.is_cpu and not usable(left) else 1
    width = diagonals.traces_at_once(horizon, math.ceil(lead / threads), left.device)

    @torch.inference_mode()  # which holds for one thread only
    def process(first: int) -> None:
        traces = slice(first, first + width)
        lefts, rights = (u.reshape(-1, horizon)[traces].T.contiguous() for u in (left, right))
        if inside is None:
            there, counts = None, (ends - starts).unsqueeze(-1).to(left.dtype)
        else:
            rows = inside.expand_as(left).reshape(-1, horizon)[traces]
            there = rows.T.to(left.dtype).contiguous()
            before = torch.cat([there.new_zeros(1, there.shape[1]), there.cumsum(0)])
            counts = before[ends] - before[starts]
        compute(_Portion(traces, (lefts, rights, counts.clamp(min=1), means, there)))

    firsts = range(0, lead, width)
    if min(threads, len(firsts)) > 1:
        in_threads(process, firsts, threads)
    else:
        for first in firsts:
            process(first)


def _part(inside: Tensor | None, start: int, stop: int | None = None) -> Tensor | None:
    return None if inside is None else inside[..., start:stop]


def _rows(
    left: Tensor, right: Tensor, inside: Tensor | None, rows: int, window: Window, s: Semantics
) -> Tensor:
    """Compute until at the first `rows` points from a matrix of points and witnesses."""
    horizon = left.shape[-1]
    device = left.device
    points = torch.arange(rows, device=device).unsqueeze(-1)
    witness = torch.arange(horizon, device=device)
    steps = witness - points
    allowed = steps >= window.low
    if window.high is not None:
        allowed = allowed & (steps <= window.high)
    if inside is not None:
        allowed = allowed & inside.unsqueeze(-2)
    if s.log_space:
        ahead = torch.where(steps >= 0, left.unsqueeze(-2), left.new_zeros(()))
        before = _exclusive(ahead.cumsum(-1), 0.0)
        return operators(s).over_time(right.unsqueeze(-2) + before, False, allowed)
    before = _before(left, steps, s)
    reached = connectives.conjoin(right.unsqueeze(-2), before, s.conjunction, s.epsilon)
    return _witness(reached, allowed, s)


def _before(left: Tensor, steps: Tensor, s: Semantics) -> Tensor:
    """Compute ⊗ from each row's point to just before the witness; 1 over no points."""
    counted = (steps >= 0).to(left.dtype)
    match s.always:
        case PMean(p) if not math.isinf(p):
            lost = 1 - connectives.away_from_one(left, s.epsilon)
            powers = (power(lost, p).unsqueeze(-2) * counted).cumsum(-1)
            mean = _exclusive(powers, 0.0) / steps.clamp(min=1)
            return 1 - (mean if p == 1 else root(mean, p))
        case Fold() if s.conjunction is TNorm.PRODUCT:
            ahead = torch.where(steps >= 0, left.unsqueeze(-2), torch.ones_like(counted))
            return _exclusive(running_product(ahead), 1.0)
        case Fold() if s.conjunction is TNorm.LUKASIEWICZ:
            lost = ((1 - left).unsqueeze(-2) * counted).cumsum(-1)
            return (1 - _exclusive(lost, 0.0)).clamp(min=0)
    ahead = torch.where(steps >= 0, left.unsqueeze(-2), torch.ones_like(counted))
    return _exclusive(ahead.cummin(-1).values, 1.0)


def _exclusive(u: Tensor, first: float) -> Tensor:
    """Shift running values by one, starting with `first`, so each excludes its own point."""
    start = torch.full((*u.shape[:-1], 1), first, dtype=u.dtype, device=u.device)
    return torch.cat([start, u[..., :-1]], dim=-1)


def _witness(reached: Tensor, allowed: Tensor, s: Semantics) -> Tensor:
    match s.eventually:
        case PMean(p) if math.isinf(p):
            return aggregate.p_mean(reached, p, (-1,), allowed)
        case PMean(p):
            u = connectives.away_from_zero(reached, s.epsilon)
            count = allowed.sum(-1).clamp(min=1)
            mean = (power(u, p) * allowed).sum(-1) / count
            return mean if p == 1 else root(mean, p)
    return aggregate.fold_disjunction(reached, s.disjunction, (-1,), allowed)


def _extreme(left: Tensor, right: Tensor, inside: Tensor | None) -> Tensor:
    """Compute `u_t = max(right_t, min(left_t, u_{t+1}))`, where that law holds."""
    if inside is not None:
        right = torch.where(inside, right, torch.zeros_like(right))
    points: list[Tensor] = [right[..., -1]]
    for t in range(left.shape[-1] - 2, -1, -1):
        points.append(torch.maximum(right[..., t], torch.minimum(left[..., t], points[-1])))
    return torch.stack(points[::-1], dim=-1)
