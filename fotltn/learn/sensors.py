"""Networks next to sampled worlds: they learn from worlds what features say about a cell.

The output for a cell is an odds ratio: the odds that the network gives, divided by the odds of the
share of true cells among those that it learned from. So the prior of the worlds is not counted
twice.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from fotltn.errors import DataError
from fotltn.learn.objective import Objective, prior_loss
from fotltn.learn.optimisers import make_optimiser, plain_step, without_compiler
from fotltn.learn.optimizer_state import flatten, restore_optimiser, seeded
from fotltn.learn.store import below
from fotltn.learn.task import Training
from fotltn.networks.grounding import Grounding
from fotltn.networks.parts import DataPart, parts
from fotltn.semantics.tables import table_shape
from fotltn.threads import threads_for

#: Degrees are clipped here, so that logits are finite and no cell is beyond doubt.
_SURE = 1e-5


class Sensors:
    """Networks on features, and copies of them that each leave out one fold of the cells.

    The first network learns from all cells and is used for other data. Each copy leaves out the
    cells of one fold and is used only for these. So no cell gets its own worlds as evidence again.

    Attributes:
        names: the predicates that networks see.
        steps: how often networks have learned.
    """

    def __init__(
        self,
        grounding: Grounding,
        folds: Mapping[str, Tensor],
        there: Mapping[str, Tensor],
        training: Training,
        objective: Objective,
    ) -> None:
        """Copy the networks, before any learning.

        Args:
            grounding: the networks; they end up with the weights learned from all cells.
            folds: for each predicate, the fold of every cell, from 0; the same shape as its table.
            there: where all arguments are present, inside the traces.
            training: optimiser, rate, seed, clipping and parts of the data.
            objective: how strongly parameters are drawn to 0.
        """
        self.names = tuple(grounding.signature.predicates)
        self.folds, self.there = folds, there
        self.training, self.objective = training, objective
        count = max((int(f.max()) + 1 for f in folds.values() if f.numel()), default=1)
        self.networks = [grounding, *(_copied(grounding) for _ in range(count if count > 1 else 0))]
        self.steps = 0
        self._used: list[dict[str, Tensor]] = [{} for _ in self.networks]
        self._parts: dict[int, DataPart] = {}
        with without_compiler():
            self._optimisers = [self._optimiser(network) for network in self.networks]

    def _optimiser(self, network: nn.Module) -> torch.optim.Optimizer | None:
        how = self.training
        weights = [p for p in network.parameters() if p.requires_grad]
        return make_optimiser(how.optimiser, weights, how.rate, how.options) if weights else None

    def learn(
        self, targets: Mapping[str, Tensor], weights: Mapping[str, Tensor], steps: int
    ) -> None:
        """Move networks towards probabilities of cells, by cross-entropy.

        Args:
            targets: the probability that each cell is true.
            weights: how much each cell counts.
            steps: the number of passes over all data.

        Raises:
            DataError: a network returns something that is not a number.
        """
        for number, network in enumerate(self.networks):
            used = {n: weights[n] * self._mine(n, number) for n in self.names}
            self._used[number] = used
            optimiser = self._optimisers[number]
            if optimiser is None or not any(bool(w.any()) for w in used.values()):
                continue
            with seeded(self.training.seed + self.steps) as generator, without_compiler():
                network.train()
                take = plain_step(optimiser)
                for _ in range(steps):
                    self._go_over(network, optimiser, take, targets, used, generator)
            network.eval()
        self.steps += steps

    def _mine(self, name: str, number: int) -> Tensor:
        """Return the cells that a network learns from."""
        there = self.there[name]
        return there if number == 0 else there & (self.folds[name] != number - 1)

    def _go_over(
        self, network: Grounding, optimiser: torch.optim.Optimizer, take: Callable[[], object],
        targets: Mapping[str, Tensor], used: Mapping[str, Tensor], generator: torch.Generator,
    ) -> None:  # fmt: skip
        total = sum(float(w.sum()) for w in used.values())
        for part in self._cut(network, generator):
            with threads_for(network.largest(part), step=True):
                optimiser.zero_grad(set_to_none=True)
                self._step(network, take, targets, used, part, total)

    def _step(
        self, network: Grounding, take: Callable[[], object], targets: Mapping[str, Tensor],
        used: Mapping[str, Tensor], part: DataPart | None, total: float,
    ) -> None:  # fmt: skip
        how = self.training
        tables = network(part)
        losses, count = [], 0.0
        for name in self.names:
            sorts = network.signature.predicates[name].sorts
            share, weight = (
                table if part is None else part.pick(table, sorts)
                for table in (targets[name], used[name])
            )
            degrees = tables.predicate(name).expand(weight.shape)
            yes = degrees.clamp_min(_SURE**2).log()
            no = (1 - degrees).clamp_min(_SURE**2).log()
            share, weight = share.to(degrees), weight.to(degrees)
            losses.append(-(weight * (share * yes + (1 - share) * no)).sum())
            count += float(weight.sum())
        if not count:
            return
        loss = torch.stack(losses).sum() / count
        prior = prior_loss(self.objective, network.parameters(), round(total))
        loss = loss if prior is None else loss + prior
        if not math.isfinite(float(loss.detach())):
            raise DataError(
                f"the loss of networks is {float(loss.detach())}: a network returns something "
                "that is not a number, or the learning rate is too high"
            )
        loss.backward()
        if how.clip is not None:
            nn.utils.clip_grad_norm_(network.parameters(), how.clip)
        take()

    def _cut(self, network: Grounding, generator: torch.Generator) -> Iterator[DataPart | None]:
        return parts(
            self.training.batches, network.fixed, network.signature, self._parts, generator
        )

    @torch.no_grad()
    def scores(self) -> dict[str, Tensor]:
        """Return the networks' log odds ratio for each cell; 0 where an entity is absent.

        For each fold, it comes from the network that did not learn from that fold.
        """
        every: dict[str, Tensor] = {}
        for number, network in enumerate(self.networks):
            if number == 0 and len(self.networks) > 1:
                continue
            said = said_of_cells(network)
            for name in self.names:
                score = self._score(said[name], name, number)
                mine = self.there[name]
                if number:
                    mine = mine & (self.folds[name] == number - 1)
                before = every.get(name, torch.zeros_like(score))
                every[name] = torch.where(mine, score, before)
        return every

    def bases(self) -> dict[str, float]:
        """Return, for each predicate, the reference logit of the first network, on any data."""
        said = said_of_cells(self.networks[0])
        return {name: self._base(said[name], name, 0) for name in self.names}

    def _score(self, said: Tensor, name: str, number: int) -> Tensor:
        """Return a network's logit relative to the share of true cells; 0 before it has learned."""
        base = self._base(said, name, number)
        return said - base if math.isfinite(base) else torch.zeros_like(said)

    def _base(self, said: Tensor, name: str, number: int) -> float:
        """Return the logit of a network's mean degree on the cells it learned from; NaN if none."""
        used = self._used[number].get(name)
        if used is None or not bool(used.any()):
            return math.nan
        weight = used.to(said)
        mean = float((weight * said.sigmoid()).sum() / weight.sum())
        return math.log(mean / (1 - mean))

    # --- saving and resuming ----------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return everything that further learning depends on."""
        tensors: dict[str, Tensor] = {}
        optimisers: list[Any] = []
        for number, (network, optimiser) in enumerate(
            zip(self.networks, self._optimisers, strict=True)
        ):
            tensors |= {f"{number}/weights/{n}": t for n, t in network.state_dict().items()}
            tensors |= {f"{number}/used/{n}": t for n, t in self._used[number].items()}
            document = None
            if optimiser is not None:
                state, document = flatten(optimiser.state_dict(), prefix=f"{number}/optimiser/")
                tensors |= state
            optimisers.append(document)
        return tensors, {"steps": self.steps, "optimisers": optimisers}

    def restore(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
        """Resume from a state of the same task."""
        self.steps = document["steps"]
        for number, (network, optimiser) in enumerate(
            zip(self.networks, self._optimisers, strict=True)
        ):
            mine = below(tensors, f"{number}/")
            network.load_state_dict(below(mine, "weights/"))
            device = network.fixed.lengths.device
            self._used[number] = {n: t.to(device) for n, t in below(mine, "used/").items()}
            if optimiser is not None:
                restore_optimiser(optimiser, document["optimisers"][number], tensors)
            network.eval()


def said_of_cells(network: Grounding) -> dict[str, Tensor]:
    """Return the logits of networks for all cells, unchanged, shape (trace, *arguments, time)."""
    network.eval()
    with torch.no_grad():
        tables = network()
    said = {}
    for name, decl in network.signature.predicates.items():
        degrees = tables.predicate(name).to(torch.float64).clamp(_SURE, 1 - _SURE)
        said[name] = torch.logit(degrees).expand(table_shape(network.fixed, decl))
    return said


def _copied(grounding: Grounding) -> Grounding:
    """Copy the weights, and share the data."""
    shared: dict[int, Any] = {id(one): one for one in (grounding.fixed, grounding.signature)}
    stored = {id(t) for t in grounding.state_dict(keep_vars=True).values()}
    shared |= {id(t): t for t in grounding.buffers() if id(t) not in stored}
    return copy.deepcopy(grounding, shared)
