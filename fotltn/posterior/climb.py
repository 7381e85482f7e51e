"""The most probable world: from sampled worlds, track after track becomes as probable as it can."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fotltn.posterior.clauses import Clause
from fotltn.posterior.movers import Mover
from fotltn.posterior.sampler import Sampler

#: After so many rounds, worlds stay as they are.
_MOST_ROUNDS = 50

#: A world that gains less than this, as a logarithm, is at its peak.
_LEAST_GAIN = 1e-6

#: If the tracks of a kind break an axiom together, at most so many parts of them move separately.
_PARTS = 64


def climb(sampler: Sampler) -> Tensor:
    """Change worlds until no single track can make them more probable.

    Traces are independent of each other, so each goes on until it is at its peak. A trace never
    becomes less probable, and never breaks a hard axiom that it obeyed.

    Returns:
        The log-probability of each world, up to a constant, with axes (world, trace); minus
        infinity where a hard axiom is broken.
    """
    structure = sampler.structure
    watched = [one for one in structure.clauses if one.axiom in structure.watched]
    for mover in sampler.movers:
        mover.firm, mover.lazy, mover.stale = sampler.firm, False, True
    sampler.define()
    worth, broken = sampler.density_by_trace(), sampler.broken_by_trace()
    for _ in range(_MOST_ROUNDS):
        before = sampler.snapshot()
        for mover in sampler.movers:
            _climb(sampler, mover, watched)
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


def _climb(sampler: Sampler, mover: Mover, watched: Sequence[Clause]) -> None:
    """Make tracks as probable as they can be, but not those that would break a watched axiom.

    Draws ignore watched axioms. If all tracks of a trace break one together, halves of them move
    separately, and so on.
    """
    tables, defined = sampler.tables, [*sampler.structure.definitions]
    every = torch.arange(mover.tracks, device=mover.device)
    old, limit = mover.read(tables, every), sampler.false_by_trace(watched)
    mover.move(tables, None, 1.0)
    sampler.define_anew(defined)
    waiting = sampler.false_by_trace(watched) > limit
    if not bool(waiting.any()):
        return
    new, number = mover.read(tables, every), mover.tracks // sampler.known.batch
    trace, place = mover.rows.trace, every % number

    def put(which: Tensor) -> None:
        """Move some tracks, with axes (world, trace, track of the trace), and no others."""
        taken = which[:, trace, place][..., None, None]
        mover.write(tables, every, torch.where(taken, new, old))
        sampler.define_anew(defined)

    moved = ~waiting.unsqueeze(-1).expand(-1, -1, number)
    parts = [(0, number // 2, waiting), (number // 2, number, waiting)]
    while parts:
        start, end, waiting = parts.pop()
        inside = (every[:number] >= start) & (every[:number] < end)
        tried = moved | (waiting.unsqueeze(-1) & inside)
        put(tried)
        worse = sampler.false_by_trace(watched) > limit
        moved = torch.where(worse.unsqueeze(-1), moved, tried)
        if bool((worse & waiting).any()) and (end - start) * _PARTS > number and end - start > 1:
            middle = (start + end) // 2
            parts += [(start, middle, worse & waiting), (middle, end, worse & waiting)]
    put(moved)
