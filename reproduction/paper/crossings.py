"""Draw the crossings of one pedestrian exactly, given independent evidence at each time point.

A pedestrian crosses either in one stretch of time, by one crossing or by two that overlap, or in
two stretches without a common time point. The prior probability of each stretch follows from the
process of `fotltn.project.scene`. Because evidence adds up over time points, the posterior needs
sums over stretches only, not over all pairs of crossings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

#: The number of random numbers that the crossings of one pedestrian take.
DRAWS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """The prior probabilities of stretches of crossing, by start and length.

    Args:
        alone: the probability that a pedestrian crosses in exactly this stretch, shape (start,
            length), with lengths from 1.
        part: a factor for each stretch. The product over two stretches without a common time point
            is the probability that they are the crossings of a pedestrian: there are two of them
            with probability 1/2, in one of two orders.
    """

    alone: Tensor
    part: Tensor


def prior_of_crossings(steps: int, device: torch.device) -> Prior:
    """Compute the prior in a trace of this length."""
    longest = max(1, steps // 5 - 1)
    start, end = np.ogrid[: steps + 1, : steps + 1]
    length = end - start
    fits = (length >= 1) & (length <= longest)
    ways = fits * np.where(end == steps, longest - length + 1, 1)  # the end of the trace cuts off
    inside = np.pad(ways[::-1].cumsum(0)[::-1].cumsum(1), 1) ** 2  # pairs within start and end
    both = inside[1:-1, 1:-1] - inside[2:, 1:-1] - inside[1:-1, :-2] + inside[2:, :-2]
    apart = 2 * ways @ ways[::-1].cumsum(0)[::-1]
    count = steps * longest
    alone = ways / (2 * count) + (both - apart) / (2 * count**2)

    def band(table: np.ndarray[Any, Any], width: int) -> Tensor:
        first = np.arange(steps)[:, None]
        last = first + np.arange(1, width + 1)
        values = np.where(last <= steps, table[first, np.minimum(last, steps)], 0.0)
        return torch.from_numpy(values).to(device)

    return Prior(band(alone, 2 * longest - 1), band(ways / count, longest))


def draw_crossings(gain: Tensor, prior: Prior, draws: Tensor) -> Tensor:
    """Draw when a pedestrian crosses, independently for each row.

    A stretch from s to e has the likelihood exp(total[e] - total[s]). All tables are by start and
    length, like the prior. For each start, they are relative to the largest likelihood, so they
    neither overflow nor vanish.

    Args:
        gain: what crossing adds to the log-likelihood, shape (row, time).
        prior: the prior of stretches.
        draws: numbers in [0, 1), shape (draw, row).
    """
    steps, width, longest = gain.shape[1], prior.alone.shape[1], prior.part.shape[1]
    rows = torch.arange(len(gain), device=gain.device)
    total = pad(gain.cumsum(1), (1, 0))
    ends = _ahead(total, width)
    alone, log_alone = _weigh(ends, prior.alone)
    parts, log_part = _weigh(ends[..., :longest], prior.part)
    log_part = log_part - total[:, :-1]
    log_later = log_part.flip(1).logcumsumexp(1).flip(1)  # of a second stretch that starts later
    rest = _ahead(pad(log_later, (0, 1), value=-torch.inf), longest)
    firsts, log_first = _weigh(ends[..., :longest] + rest, prior.part)
    starts = torch.cat([log_alone - total[:, :-1], log_first - total[:, :-1]], dim=1)
    place = _draw(starts, draws[0])
    two, start = place >= steps, place % steps
    only, first = (_pick(table[rows, start], draws[1]) for table in (alone, firsts))
    end = start + 1 + torch.where(two, first, only)
    point = torch.arange(steps, device=gain.device)
    allowed = (point >= end[:, None]) | ~two[:, None]
    second = _draw(log_part.masked_fill(~allowed, -torch.inf), draws[2])
    stop = second + 1 + _pick(parts[rows, second], draws[3])
    crossing = (point >= start[:, None]) & (point < end[:, None])
    return crossing | (two[:, None] & (point >= second[:, None]) & (point < stop[:, None]))


def _ahead(values: Tensor, width: int) -> Tensor:
    """Return the values that follow each one except the last; -∞ past the end."""
    return pad(values[:, 1:], (0, width - 1), value=-torch.inf).unfold(1, width, 1)


def _weigh(logs: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
    """Return likelihoods times the prior, up to a factor per start, and the log of their sum."""
    top = logs.amax(-1).clamp(min=torch.finfo(logs.dtype).min)
    weights = (logs - top[..., None]).exp_().mul_(prior)
    return weights, weights.sum(-1).log() + top


def _draw(logits: Tensor, draw: Tensor) -> Tensor:
    """Draw a position in each row in proportion to the exponentials."""
    return _pick((logits - logits.amax(1, keepdim=True)).exp(), draw)


def _pick(weights: Tensor, draw: Tensor) -> Tensor:
    """Draw a position in each row in proportion to the weights."""
    below = weights.cumsum(1)
    return (below <= draw[:, None] * below[:, -1:]).sum(1).clamp(max=weights.shape[1] - 1)
