"""What networks see of entities: their features, their neighbours' features, and changes."""

from __future__ import annotations

import torch
from torch import Tensor

from fotltn.grounding.dense import present
from fotltn.networks.encoders import SeenData, beside, with_changes
from fotltn.networks.neighbours import pooled
from fotltn.project.config import InputConfig
from fotltn.project.world import World


def seen_of(sort: str, how: InputConfig, world: World) -> SeenData:
    """Return what networks see of a sort; on the CPU, to be moved to a device all at once."""
    features = world.fixed.inputs
    mask = world.fixed.present.get(sort)
    mask = None if mask is None else mask.cpu()
    there = present(world.facts, sort) if mask is None else mask
    parts = [features[sort].values] if how.features and sort in features else []
    parts += [pooled(world.fixed, name, sort) for name in how.neighbours]
    if not parts:
        return SeenData(there=there)
    values = beside(parts)
    if how.changes:
        values = with_changes(values, there, how.changes)
    if mask is not None and values.shape[2] == 1:
        mask = mask.any(-1, keepdim=True)
    return SeenData(values, None if mask is None else mask.unsqueeze(-1), there)


def counted_cells(sort: str, world: World, seen: SeenData) -> Tensor | None:
    """Return the cells used for centring features, if some are held back; otherwise None."""
    if sort not in world.counted:
        return None
    assert seen.values is not None
    assert seen.there is not None
    counted = world.counted[sort] & seen.there
    for dim in (0, 2):
        if seen.values.shape[dim] == 1:
            counted = counted.any(dim, keepdim=True)
    return counted


def counted_rows(sort: str, world: World, seen: SeenData) -> Tensor:
    """Return the rows of features used for centring."""
    assert seen.values is not None
    cells = torch.ones(seen.values.shape[:-1], dtype=torch.bool)
    if (counted := counted_cells(sort, world, seen)) is not None:
        cells &= counted
    if seen.present is not None:
        cells &= seen.present.squeeze(-1)
    return seen.values[cells]
