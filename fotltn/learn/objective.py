"""What training minimises: how far facts and axioms are from being satisfied.

The paper's objective (section 4.2): a fact with label y has the degree `y·g + (1-y)(1-g)`; facts
are aggregated by a p-mean error to sat_sup, axioms to sat_BK, and both to the satisfaction whose
complement is the loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from fotltn.errors import DataError
from fotltn.grounding.labels import Labels
from fotltn.learn.schedule import Schedule
from fotltn.semantics.interpretation import Interpretation
from fotltn.semantics.sparse import SparseTable

FactLoss = Literal["satisfaction", "cross-entropy", "noise-aware"]
AxiomLoss = Literal["satisfaction", "log", "none"]

_LEAST = 1e-6  # of a probability whose logarithm is taken
_ONE = Schedule(((0.0, 1.0),))
_FOUR = Schedule(((0.0, 4.0),))


@dataclass(frozen=True, slots=True)
class Objective:
    """How facts and axioms make one loss.

    Args:
        facts: "satisfaction" is the paper's; "cross-entropy" the mean negative log-likelihood;
            "noise-aware" the same with labels that are flipped at a rate.
        axioms: "satisfaction" aggregates values by a p-mean error; "log" is the weighted mean of
            their negative logarithms; "none" leaves them out.
        together: "mean-error" aggregates both satisfactions by a p-mean error, as the paper does,
            and needs "satisfaction" for both; "sum" adds the losses, axioms times `weight`.
        p: the exponent of these aggregations.
        weight: of the axioms, for "sum".
        flips: the rate of flipped labels, for "noise-aware"; it is where learning starts, if it
            is to be learned.
        learn_flips: learn the rate.
        axiom_weights: by axiom; others have the weight that the theory gives them.
        fact_weights: by predicate; others have weight 1.
        fact_p: exponents by predicate for "satisfaction"; others have `p`.
    """

    facts: FactLoss = "satisfaction"
    axioms: AxiomLoss = "satisfaction"
    together: Literal["mean-error", "sum"] = "mean-error"
    p: Schedule = _FOUR
    weight: Schedule = _ONE
    flips: float = 0.1
    learn_flips: bool = False
    axiom_weights: Mapping[str, Schedule] = field(default_factory=dict)
    fact_weights: Mapping[str, Schedule] = field(default_factory=dict)
    fact_p: Mapping[str, Schedule] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what does not fit together."""
        if self.together == "mean-error" and (self.facts != "satisfaction" or self.axioms == "log"):
            raise DataError(
                "a mean error aggregates satisfactions; add the losses (together = 'sum') "
                f"with facts by '{self.facts}' and axioms by '{self.axioms}'"
            )
        if not 0 < self.flips < 0.5 and self.facts == "noise-aware":
            raise DataError(f"the rate of flipped labels lies between 0 and 0.5, not {self.flips}")


PAPER = Objective()
#: The paper's ablation: facts alone.
FACTS_ONLY = Objective(axioms="none")


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """A loss and what it is made of; satisfactions are None where there is none."""

    total: Tensor
    facts: Tensor
    axioms: Tensor | None


class Flips(nn.Module):
    """The rate of flipped labels, below one half, as a parameter."""

    def __init__(self, start: float) -> None:
        """Begin at a rate."""
        super().__init__()
        ratio = torch.tensor(2 * start)
        self.logit = nn.Parameter(torch.log(ratio / (1 - ratio)))

    def forward(self) -> Tensor:
        """The rate."""
        return torch.sigmoid(self.logit) / 2


def mean_error(values: Tensor, weights: Tensor, p: float) -> Tensor:
    """The p-mean of the errors, `(Σ w (1-v)^p / Σ w)^(1/p)`, with slope 0 where it is 0."""
    mean = (weights * (1 - values).clamp(min=0) ** p).sum() / weights.sum()
    safe = torch.where(mean > 0, mean, torch.ones_like(mean))
    return torch.where(mean > 0, safe ** (1 / p), torch.zeros_like(mean))


def predicted(labels: Labels, model: Interpretation) -> dict[str, Tensor]:
    """The degrees that a model gives to labelled facts, by predicate."""
    found = {}
    for name, index in labels.index.items():
        table = model.table(name)
        if isinstance(table, SparseTable):
            table = table.dense(table.value.dtype)
        places = [
            torch.zeros_like(row) if size == 1 else row
            for row, size in zip(index, table.shape, strict=True)
        ]
        found[name] = table[tuple(places)]
    return found


def fact_loss(
    objective: Objective,
    labels: Labels,
    model: Interpretation,
    epoch: float,
    flips: Tensor | float,
) -> Tensor:
    """How far the facts are from being predicted; 0 if there are none."""
    p = objective.p.at(epoch)
    shares: list[Tensor] = []
    counts: list[float] = []
    for name, degrees in predicted(labels, model).items():
        truth = labels.truth[name].to(degrees.dtype)
        weight = objective.fact_weights.get(name, _ONE).at(epoch)
        if not len(truth) or weight == 0:
            continue
        agree = truth * degrees + (1 - truth) * (1 - degrees)
        match objective.facts:
            case "satisfaction":
                own = objective.fact_p[name].at(epoch) if name in objective.fact_p else p
                error = (1 - agree).clamp(min=0) ** own
                share = error.mean() if own == p else _rooted(error.mean(), own) ** p
            case "cross-entropy":
                share = -agree.clamp(min=_LEAST).log().mean()
            case "noise-aware":
                noisy = (1 - flips) * agree + flips * (1 - agree)
                share = -noisy.clamp(min=_LEAST).log().mean()
        shares.append(share)
        counts.append(weight * len(truth))
    if not shares:
        return torch.zeros((), device=model.lengths.device)
    total = torch.stack(shares)
    mean = (total * torch.tensor(counts, dtype=total.dtype, device=total.device)).sum() / sum(
        counts
    )
    return _rooted(mean, p) if objective.facts == "satisfaction" else mean


def _rooted(mean: Tensor, p: float) -> Tensor:
    safe = torch.where(mean > 0, mean, torch.ones_like(mean))
    return torch.where(mean > 0, safe ** (1 / p), torch.zeros_like(mean))


def axiom_loss(objective: Objective, values: Tensor, weights: Tensor, epoch: float) -> Tensor:
    """How far the axioms, with axes (axiom, trace), are from being satisfied.

    Traces are aggregated like axioms: each counts the same.
    """
    spread = weights.unsqueeze(-1).expand_as(values)
    if objective.axioms == "log":
        return -(spread * values.clamp(min=_LEAST).log()).sum() / spread.sum()
    return mean_error(values, spread, objective.p.at(epoch))


def losses(objective: Objective, facts: Tensor, axioms: Tensor | None, epoch: float) -> Losses:
    """The loss of both parts."""
    if axioms is None or objective.axioms == "none":
        return Losses(facts, facts, None)
    if objective.together == "sum":
        return Losses(facts + objective.weight.at(epoch) * axioms, facts, axioms)
    both = torch.stack([facts, axioms])
    error = mean_error(1 - both, torch.ones_like(both), objective.p.at(epoch))
    return Losses(error, facts, axioms)
