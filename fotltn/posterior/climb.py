"""The most probable world: from sampled worlds, track after track becomes as probable as it can."""

from __future__ import annotations

import torch
from torch import Tensor

from fotltn.posterior.sampler import Sampler

#: After so many rounds, worlds stay as they are.
_MOST_ROUNDS = 50

#: A world that gains less than this, as a logarithm, is at its peak.
_LEAST_GAIN = 1e-6


def climb(sampler: Sampler) -> Tensor:
    """Change worlds until no single track can make them more probable.

    Traces are independent of each other, so each goes on until it is at its peak. A trace never
    becomes less probable, and never breaks a hard axiom that it obeyed.

    Returns:
        The log-probability of each world, up to a constant, with axes (world, trace); minus
        infinity where a hard axiom is broken.
    """
    sampler.define()
    worth, broken = sampler.density_by_trace(), sampler.broken_by_trace()
    for _ in range(_MOST_ROUNDS):
        before = sampler.snapshot()
        for mover in sampler.movers:
            mover.move(sampler.tables, None, 1.0)
            sampler.define_anew([*sampler.structure.definitions])
        now, broken_now = sampler.density_by_trace(), sampler.broken_by_trace()
        better = (now > worth + _LEAST_GAIN) & (broken_now <= broken)
        for name, table in before.items():
            sampler.tables[name][~better] = table[~better]
        worth, broken = (
            torch.where(better, new, old) for new, old in ((now, worth), (broken_now, broken))
        )
        if not bool(better.any()):
            break
    return torch.where(broken > 0, -torch.inf, worth)
