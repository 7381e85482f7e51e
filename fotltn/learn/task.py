"""A learning task: the networks, the axioms, the data and the settings of training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from fotltn.errors import DataError, listing, name_hint
from fotltn.grounding.labels import Labels
from fotltn.grounding.split import split
from fotltn.learn.objective import Objective
from fotltn.learn.optimisers import OPTIMISERS
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.steps import DataStream
from fotltn.networks.grounding import Grounding
from fotltn.networks.parts import Batches, check_batches
from fotltn.semantics.tables import table_shape


@dataclass(frozen=True, slots=True)
class Training:
    """The settings of training.

    Args:
        epochs: the maximum number of epochs.
        patience: epochs without improvement before training stops; None to never stop early.
        tolerance: the watched loss must fall by more than this to count as an improvement.
        rate: the learning rate.
        optimiser: the name of an optimiser in `torch.optim`.
        options: further arguments of the optimiser.
        validation: the share of labelled facts that is held out to be watched; with 0, the training
            loss is watched. Losses of epochs in which schedules still change the objective are not
            compared: each such epoch counts as the best so far.
        clip: the maximum norm of the gradients; None for no limit.
        seed: the seed of all random numbers, including those of networks.
        batches: how to split the data; None to use all at once.
        keep_best: whether to end with the weights of the best epoch instead of the last.
        thresholds: the smallest degree that predicts true: 0.5 ("half"), or for each predicate the
            one with the best F1 or accuracy on the watched facts.
        blocks: the number of blocks that each step is split into, for processes to share: of
            traces or, if there are fewer, of bindings; None for no blocks, with each process on
            its own.
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
    thresholds: Literal["half", "f1", "accuracy"] = "half"
    blocks: int | None = None

    def __post_init__(self) -> None:
        """Raise an error for settings out of range."""
        for what in ("epochs", "patience", "blocks"):
            number = getattr(self, what)
            if number is not None and not (isinstance(number, int) and number >= 1):
                raise DataError(f"{what} must be a whole number of at least 1, not {number}")
        if not 0 <= self.tolerance < math.inf:
            raise DataError(f"the tolerance must be at least 0, not {self.tolerance}")
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise DataError(f"the learning rate must be above 0, not {self.rate}")
        if not 0 <= self.validation < 1:
            raise DataError(
                f"the validation share must be from 0 to below 1, not {self.validation}"
            )
        if self.clip is not None and not self.clip > 0:
            raise DataError(f"gradients must be clipped at a norm above 0, not {self.clip}")
        if not 0 <= self.seed < 2**63:
            raise DataError(f"a seed must be a whole number of at least 0, not {self.seed}")
        if self.optimiser.lower() not in OPTIMISERS:
            hint = name_hint(self.optimiser, OPTIMISERS)
            raise DataError(f"unknown optimiser '{self.optimiser}'; {hint}")


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Everything that training needs.

    Args:
        grounding: the networks.
        axioms: the axioms.
        objective: the loss.
        labels: the facts to learn from.
        training: the settings of training.
        watched: facts to watch instead of a share of `labels`; if empty, none are watched.
        settings: all other settings by name; training does not resume with different settings.
        stream: data on disk in blocks of traces; the grounding starts with the first block.

    Raises:
        DataError: its parts do not fit together.
    """

    grounding: Grounding
    axioms: Axioms
    objective: Objective
    labels: Labels
    training: Training = field(default_factory=Training)
    watched: Labels | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    stream: DataStream | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Raise an error for labels of predicates that are not learned, or unknown weights."""
        self._check_labels(self.labels)
        if self.watched is not None:
            self._check_labels(self.watched)
        for what, chosen, known in (
            ("axiom", self.objective.axiom_weights, self.axioms.names),
            ("predicate", self.objective.fact_weights, self.grounding.signature.predicates),
            ("predicate", self.objective.fact_p, self.grounding.signature.predicates),
        ):
            for name in chosen:
                if name not in known:
                    hint = name_hint(name, known)
                    raise DataError(
                        f"a weight or p was given for the unknown {what} '{name}'; {hint}"
                    )
        total = self.labels.total if self.stream is None else self.stream.total
        if not total and (self.objective.axioms == "none" or not self.axioms.names):
            raise DataError("there is nothing to learn from: no labelled facts and no axioms")
        if self.axioms.fused and self.grounding.functions:
            raise DataError(
                "compiled plans treat functions as given, so functions cannot be learned; "
                "leave out 'fused'"
            )
        if self.training.batches is not None:
            formulas = {a.name: a.formula for a in self.axioms.theory.axioms}
            formulas |= {n: d.formula for n, d in self.grounding.definitions.items()}
            check_batches(
                self.training.batches, self.grounding.fixed, self.grounding.signature, formulas
            )

    def _check_labels(self, labels: Labels) -> None:
        """Raise an error for labels outside their tables."""
        for name, index in labels.index.items():
            if name not in self.grounding.open:
                raise DataError(
                    f"there are labels for '{name}', which is not learned; "
                    f"learned: {listing(self.grounding.open)}"
                )
            decl, truth = self.grounding.signature.predicates[name], labels.truth[name]
            sizes = list(table_shape(self.grounding.fixed, decl))
            if index.shape != (len(sizes), len(truth)):
                raise DataError(
                    f"{len(truth)} labels for '{name}' need an index of shape "
                    f"{(len(sizes), len(truth))}, not {tuple(index.shape)}"
                )
            limits = torch.tensor(sizes, device=index.device).unsqueeze(-1)
            if bool(((index < 0) | (index >= limits)).any()):
                raise DataError(f"a label for '{name}' is outside its table of shape {sizes}")
            if not bool(((truth >= 0) & (truth <= 1)).all()):
                raise DataError(f"a label for '{name}' must be from 0 to 1")

    def split(self) -> tuple[Labels, Labels | None]:
        """Return the labels to learn from, and those to watch.

        Few labels are all learned from, if a share of them would leave one of the two empty.
        """
        if self.watched is not None:
            return self.labels, self.watched if self.watched.total else None
        if self.training.validation == 0:
            return self.labels, None
        share = 1 - self.training.validation
        learned, watched = split(self.labels, share, by="facts", seed=self.training.seed)
        return (learned, watched) if learned.total and watched.total else (self.labels, None)
