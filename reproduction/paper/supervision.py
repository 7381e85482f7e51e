"""The labelled facts of many runs, and the loss of each run on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fotltn.grounding.labels import Labels
from fotltn.learn.objective import rooted
from fotltn.project.scene import LEARNED

Degrees = dict[str, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Supervision:
    """The labelled facts of all runs: cells of flat tables, labels, and the run of each."""

    cells: dict[str, Tensor]
    truth: dict[str, Tensor]
    run: dict[str, Tensor]
    counts: Tensor


def supervision(
    parts: Sequence[Labels],
    shapes: dict[str, tuple[int, int]],
    device: str,
    dtype: torch.dtype = torch.float32,
) -> Supervision:
    """Combine the facts of runs; tables have `shapes` (agents, time points or 1)."""
    cells, truth, run = {}, {}, {}
    for name in LEARNED:
        agents, times = shapes[name]
        rows, labels, owner = [], [], []
        for number, part in enumerate(parts):
            _, agent, step = part.index[name]
            rows.append((number * agents + agent) * times + (step if times > 1 else 0))
            labels.append(part.truth[name])
            owner.append(torch.full_like(agent, number))
        cells[name] = torch.cat(rows).to(device)
        truth[name] = torch.cat(labels).to(device, dtype)
        run[name] = torch.cat(owner).to(device)
    counts = torch.tensor([part.total for part in parts], device=device, dtype=dtype)
    return Supervision(cells, truth, run, counts)


def unsatisfied(tables: Degrees, facts: Supervision, p: float) -> Tensor:
    """Return the mean error of each run's facts, the complement of sat_sup, shape (run,)."""
    total = torch.zeros_like(facts.counts)
    for name, cells in facts.cells.items():
        degree = tables[name].reshape(-1)[cells]
        truth = facts.truth[name]
        error = truth * (1 - degree) + (1 - truth) * degree
        total = total.index_add(0, facts.run[name], error.square().square() if p == 4 else error**p)
    return rooted(total / facts.counts, p)


def cross_entropy(logits: Degrees, facts: Supervision) -> Tensor:
    """Return the mean cross-entropy of each run's facts, shape (run,)."""
    total = torch.zeros_like(facts.counts)
    for name, cells in facts.cells.items():
        loss = nn.functional.binary_cross_entropy_with_logits(
            logits[name].reshape(-1)[cells], facts.truth[name], reduction="none"
        )
        total = total.index_add(0, facts.run[name], loss)
    return total / facts.counts
