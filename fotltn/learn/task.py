"""A task: what is to be learned, from what, and how."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.grounding.labels import Labels
from fotltn.grounding.split import split
from fotltn.learn.batches import Batches
from fotltn.learn.objective import Objective
from fotltn.learn.satisfaction import Axioms
from fotltn.networks.grounding import Grounding

OPTIMISERS: dict[str, type[torch.optim.Optimizer]] = {
    name.lower(): kind
    for name, kind in vars(torch.optim).items()
    if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer)
    if name not in ("Optimizer", "LBFGS", "SparseAdam", "Muon")
}


@dataclass(frozen=True, slots=True)
class Training:
    """How training goes.

    Args:
        epochs: at most.
        patience: epochs without improvement after which it stops; None for never.
        tolerance: what counts as an improvement of the watched loss.
        rate: of learning.
        optimiser: of `torch.optim`, by name.
        options: further arguments of the optimiser.
        validation: the share of the labelled facts that is held back, to watch; 0 for none, then
            the training loss is watched.
        clip: the greatest norm of the gradients; None for any.
        seed: of everything that is drawn.
        batches: parts of the data; None for all at once.
        keep_best: end with the weights of the best epoch, not of the last.
    """

    epochs: int = 500
    patience: int | None = 30
    tolerance: float = 0.0
    rate: float = 0.005
    optimiser: str = "adam"
    options: Mapping[str, Any] = field(default_factory=dict)
    validation: float = 0.0
    clip: float | None = None
    seed: int = 0
    batches: Batches | None = None
    keep_best: bool = True

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        for what, number in (("epochs", self.epochs), ("patience", self.patience)):
            if number is not None and number < 1:
                raise DataError(f"{what} is a whole number from 1, not {number}")
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise DataError(f"the learning rate is a number above 0, not {self.rate}")
        if not 0 <= self.validation < 1:
            raise DataError(f"the validation share lies in [0, 1), not at {self.validation}")
        if self.clip is not None and not self.clip > 0:
            raise DataError(f"gradients are clipped at a norm above 0, not {self.clip}")
        if not 0 <= self.seed < 2**63:
            raise DataError(f"a seed is a whole number from 0, not {self.seed}")
        if self.optimiser.lower() not in OPTIMISERS:
            hint = did_you_mean(self.optimiser, OPTIMISERS) or f"there are {listing(OPTIMISERS)}"
            raise DataError(f"unknown optimiser '{self.optimiser}'; {hint}")


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Everything that training needs.

    Args:
        grounding: the networks.
        axioms: the axioms.
        objective: the loss.
        labels: facts to learn from.
        training: how.
        watched: facts to watch instead of a share of `labels`.
    """

    grounding: Grounding
    axioms: Axioms
    objective: Objective
    labels: Labels
    training: Training = field(default_factory=Training)
    watched: Labels | None = None

    def __post_init__(self) -> None:
        """Refuse labels of what is not learned, and weights of what does not exist."""
        for name in self.labels.index:
            if name not in self.grounding.open:
                raise DataError(
                    f"there are labels for '{name}', which nothing learns; "
                    f"learned: {listing(self.grounding.open)}"
                )
        for what, given, known in (
            ("axiom", self.objective.axiom_weights, self.axioms.names),
            ("axiom", self.axioms.p, self.axioms.names),
            ("predicate", self.objective.fact_weights, self.grounding.signature.predicates),
            ("predicate", self.objective.fact_p, self.grounding.signature.predicates),
        ):
            for name in given:
                if name not in known:
                    hint = did_you_mean(name, known) or f"there are {listing(known)}"
                    raise DataError(
                        f"a weight or p is given for the unknown {what} '{name}'; {hint}"
                    )
        if not self.labels.total and (self.objective.axioms == "none" or not self.axioms.names):
            raise DataError("there is nothing to learn from: no labelled facts, and no axioms")

    def split(self) -> tuple[Labels, Labels | None]:
        """The labels to learn from, and those to watch."""
        if self.watched is not None or self.training.validation == 0:
            return self.labels, self.watched
        share = 1 - self.training.validation
        return split(self.labels, share, by="facts", seed=self.training.seed)
