"""The most probable tracks: the best way through time from every state, found backwards."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fotltn.posterior.chain import Chain, EdgeSymbols, with_none
from fotltn.posterior.track_weights import TrackDraws, Weights


def best_tracks(
    chain: Chain, weights: Weights, digits: Sequence[Tensor], worlds: int
) -> TrackDraws:
    """Find the most probable value of every track in every world.

    Args:
        chain: the automaton of the tracks.
        weights: the weights of tracks.
        digits: for each gain, the digit of each letter.
        worlds: the number of worlds.

    Returns:
        The tracks; their total weight is that of the most probable value.
    """

    def best(some: Weights, told: EdgeSymbols) -> TrackDraws:
        return _best(chain, some, told, worlds)

    return chain.by_parts(weights, digits, worlds, best)


def _best(chain: Chain, weights: Weights, told: EdgeSymbols, worlds: int) -> TrackDraws:
    (blocks, states), every = chain.edge.shape, chain.edge.flatten()
    target, symbol = with_none(chain.target)[every], with_none(told.which)[every]
    by_symbol, moves = chain.worth_of_symbols(weights, told.symbols), weights.moves.log()[every]
    conditions, end = weights.conditions.permute(2, 1, 0), chain.ends(weights).log()
    lengths, (tracks, times) = weights.lengths.unsqueeze(-1), weights.evidence.shape[:2]
    # If all weights are the same in all worlds, so are the best tracks.
    apart = max(end.shape[-1], by_symbol.shape[-1], conditions.shape[-1])
    later = end.expand(states, tracks, apart)
    kind = torch.uint8 if blocks <= 256 else torch.int32
    ways = torch.empty(times, states, tracks, apart, dtype=kind, device=chain.device)
    for t in range(times - 1, -1, -1):
        worth = moves[:, conditions[t]] + by_symbol[t].index_select(0, symbol)
        worth = worth + later.index_select(0, target)
        best, way = worth.unflatten(0, (blocks, states)).max(0)
        ways[t] = way
        later = torch.where(t < lengths, best, later)

    def forwards(state: Tensor, lengths: Tensor) -> Tensor:
        taken = torch.empty(times, len(state), dtype=torch.int64, device=chain.device)
        for t, way in enumerate(ways.flatten(2).unbind(0)):
            taken[t] = way.gather(0, state.unsqueeze(0)).long()[0] * states + state
            state = torch.where(t < lengths, target[taken[t]], state)
        return every[taken]

    static, starts = weights.static.T.unsqueeze(-1), chain.starts
    if weights.first is not None:
        static, starts = static[chain.statics], torch.arange(states, device=chain.device)
        static = static + weights.first.T.unsqueeze(-1).log()
    begins = torch.where((starts >= 0)[:, None, None], static + later[starts], -torch.inf)
    total, chosen = begins.max(0)
    letters, values, total = chain.along(weights, chosen, total, forwards)
    every_world = (table.expand(worlds, *table.shape[1:]) for table in (letters, values, total))
    return TrackDraws(*every_world)
