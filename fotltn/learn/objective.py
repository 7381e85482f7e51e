"""The objective of training: how far facts and axioms are from being satisfied.

The paper's objective (section 4.2): a fact with label y has the degree `y·g + (1-y)(1-g)`; a p-mean
error aggregates facts to sat_sup, axioms to sat_BK, and both to the satisfaction whose complement
is the loss.

With several traces an axiom has a value on each of them, and each (axiom, trace) counts in sat_BK
by the weight of the axiom. An audit first aggregates the traces of each axiom as ∀ does, and then
the axioms, with the exponent of ∀. The results are equal if `p` is that exponent, because all
axioms have the same number of traces; otherwise they differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, assert_never, get_args

import torch
from torch import Tensor, nn

from fotltn.errors import DataError, listing
from fotltn.grounding.labels import Labels
from fotltn.learn.schedule import Schedule
from fotltn.semantics.sparse import numbered
from fotltn.semantics.tables import Tables

FactsBy = Literal["satisfaction", "cross-entropy", "noise-aware"]
AxiomsBy = Literal["satisfaction", "log", "none"]
Together = Literal["mean-error", "sum"]
#: How often labels are wrong; a posterior can learn this rate.
Rate = float | Literal["learned"]
Rates = Rate | Mapping[str, Rate] | None

#: The smallest degree whose logarithm is taken; below it the gradient is 0.
_LEAST = 1e-30
_ONE = Schedule(((0.0, 1.0),))
_FOUR = Schedule(((0.0, 4.0),))


@dataclass(frozen=True, slots=True)
class Objective:
    """How facts and axioms become one loss.

    Args:
        facts: "satisfaction" as in the paper; "cross-entropy", the mean negative log-likelihood, in
            which a label between 0 and 1 counts for both outcomes by its share; "noise-aware", the
            same with labels that are flipped at some rate.
        axioms: "satisfaction" aggregates values by a p-mean error; "log" is the weighted mean of
            their negative logarithms, which do not underflow under a semantics in log space; "none"
            leaves the axioms out.
        together: "mean-error" aggregates both satisfactions by a p-mean error, as in the paper, and
            needs "satisfaction" for both; "sum" adds the losses, axioms times `weight`.
        p: the exponent of these aggregations.
        weight: the weight of the axioms, for "sum".
        flips: the rate of flipped labels, for "noise-aware"; if it is learned, the start value.
        learn_flips: whether to learn that rate, for "noise-aware".
        missed: the rate of true facts labelled false, if different; or a rate for each predicate.
            "learned" is for posteriors.
        invented: the same for false facts labelled true.
        prior: how strongly parameters are drawn to 0: the weight of the sum of their squares,
            relative to the sum over all labelled facts. For "sum" only.
        trust: learn how far to trust each axiom, for axioms by "log": a factor of its weight under
            a Gamma prior with mean 1 and this shape. Smaller shapes let factors move further.
        evidence: predicates whose degrees between 0 and 1 are probabilities from a detector, not
            labels. They count as a likelihood: with the probability q, a degree g contributes
            `-log(q·g + (1-q)(1-g))`. So an unsure detection says little and can be overruled,
            whereas a label of one half would ask for one half.
        axiom_weights: weights by axiom; others have the weight that the theory gives them.
        fact_weights: weights by predicate; others have weight 1.
        fact_p: exponents by predicate, for "satisfaction"; others have `p`.
    """

    facts: FactsBy = "satisfaction"
    axioms: AxiomsBy = "satisfaction"
    together: Together = "mean-error"
    p: Schedule = _FOUR
    weight: Schedule = _ONE
    flips: float = 0.1
    learn_flips: bool = False
    missed: Rates = None
    invented: Rates = None
    prior: float = 0.0
    trust: float | None = None
    evidence: tuple[str, ...] = ()
    axiom_weights: Mapping[str, Schedule] = field(default_factory=dict)
    fact_weights: Mapping[str, Schedule] = field(default_factory=dict)
    fact_p: Mapping[str, Schedule] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise an error for settings that do not fit together."""
        for what, loss, known in (
            ("facts", self.facts, FactsBy),
            ("axioms", self.axioms, AxiomsBy),
            ("both together", self.together, Together),
        ):
            if loss not in get_args(known):
                raise DataError(
                    f"unknown loss '{loss}' for {what}; expected one of {listing(get_args(known))}"
                )
        if self.together == "mean-error" and (self.facts != "satisfaction" or self.axioms == "log"):
            raise DataError(
                "only satisfactions have a mean error; add the losses (together = 'sum') "
                f"for facts by '{self.facts}' and axioms by '{self.axioms}'"
            )
        if not 0 < self.flips < 0.5 and self.facts == "noise-aware":
            raise DataError(
                f"the rate of flipped labels must be above 0 and below 0.5, not {self.flips}"
            )
        if self.learn_flips and self.facts != "noise-aware":
            raise DataError(f"only 'noise-aware' facts learn a rate of flips, not '{self.facts}'")
        for rates in (self.missed, self.invented):
            for rate in rates.values() if isinstance(rates, Mapping) else (rates,):
                if isinstance(rate, str | None):
                    continue
                if not 0 <= rate < 1:
                    raise DataError(f"a rate of wrong labels must be from 0 to below 1, not {rate}")
        if self.learn_flips and (self.missed is not None or self.invented is not None):
            raise DataError("a rate of flips cannot be learned if 'missed' or 'invented' is given")
        if not 0 <= self.prior < math.inf:
            raise DataError(
                f"the weight of a prior must be finite and at least 0, not {self.prior}"
            )
        if self.prior and self.together != "sum":
            raise DataError("a prior needs a sum of losses (together = 'sum')")
        if self.trust is not None and not 0 < self.trust < math.inf:
            raise DataError(f"trust must be a finite number above 0, not {self.trust}")
        if self.trust is not None and self.axioms != "log":
            raise DataError(
                f"trust can be learned only with axioms by 'log', not by '{self.axioms}'"
            )
        for exponent in (self.p, *self.fact_p.values()):
            if not all(1 <= p < math.inf for _, p in exponent.points):
                raise DataError(f"p must be finite and at least 1, not {exponent.as_json()}")
        for weight in (self.weight, *self.axiom_weights.values(), *self.fact_weights.values()):
            if not all(0 <= w < math.inf for _, w in weight.points):
                raise DataError(f"a weight must be finite and at least 0, not {weight.as_json()}")

    def rate(self, kind: Literal["missed", "invented"], name: str) -> Rate | None:
        """Return the rate that is set for a predicate, if any."""
        rates: Rates = getattr(self, kind)
        return rates.get(name) if isinstance(rates, Mapping) else rates

    def power(self, name: str, epoch: float) -> float:
        """Return the exponent for facts of a predicate."""
        return self.fact_p.get(name, self.p).at(epoch)

    @property
    def settled(self) -> float:
        """The epoch after which the objective no longer changes."""
        named = (self.axiom_weights, self.fact_weights, self.fact_p)
        every = [self.p, self.weight, *(one for group in named for one in group.values())]
        return max(schedule.end for schedule in every)


PAPER = Objective()
#: The default: a likelihood of facts, beside axioms with a small weight.
STANDARD = Objective(
    facts="cross-entropy", axioms="log", together="sum", weight=Schedule(((0.0, 0.3),))
)
#: The paper's ablation: facts only.
FACTS_ONLY = Objective(axioms="none")
#: The recipe: a likelihood that allows for wrong labels, axioms, a weak prior.
RECIPE = Objective(
    facts="noise-aware", axioms="log", together="sum", weight=Schedule(((0.0, 0.6),)), prior=0.003
)


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """A loss and its parts; the part of axioms is None if there are none."""

    total: Tensor
    facts: Tensor
    axioms: Tensor | None

    def stacked(self) -> Tensor:
        """Return all of them in one tensor, without gradients."""
        kinds = [self.total, self.facts, *([] if self.axioms is None else [self.axioms])]
        return torch.stack([k.detach().to(self.total) for k in kinds])


class Flips(nn.Module):
    """The rate of flipped labels, below one half, as a learned parameter."""

    def __init__(self, start: float) -> None:
        """Start at a rate."""
        super().__init__()
        ratio = torch.tensor(2 * start)
        self.logit = nn.Parameter(torch.log(ratio / (1 - ratio)))

    def forward(self) -> Tensor:
        """Return the rate."""
        return torch.sigmoid(self.logit) / 2


@lru_cache(maxsize=64)
def fixed_row(numbers: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return numbers as a cached tensor, because a GPU would have to wait for new ones."""
    return torch.tensor(numbers, dtype=dtype, device=device)


def mean_error(values: Tensor, weights: Tensor, p: float) -> Tensor:
    """Compute the p-mean of the errors, `(Σ w (1-v)^p / Σ w)^(1/p)`, with gradient 0 where it is 0.

    If all weights are 0, it is 0.
    """
    powers = (weights * (1 - values).clamp(min=0) ** p).sum()
    return rooted(powers / _total(weights), p)


def _total(weights: Tensor) -> Tensor:
    return weights.sum().clamp(min=torch.finfo(weights.dtype).tiny)


def predicted(labels: Labels, tables: Tables) -> dict[str, Tensor]:
    """Return the predicted degrees of labelled facts, by predicate."""
    degrees = {}
    for name, index in labels.index.items():
        table = tables.predicate(name)
        cells = numbered([*index], table.shape)
        degrees[name] = table.reshape(-1).index_select(0, cells)
    return degrees


def fact_errors(
    objective: Objective,
    labels: Labels,
    tables: Tables,
    epoch: float,
    flips: Tensor | float,
) -> dict[str, Tensor]:
    """Compute the loss of each labelled fact by predicate, before means and roots.

    Predicates without facts or with weight 0 are left out.
    """
    degrees = predicted(labels, tables)
    stated = [
        name for name in degrees if len(labels.truth[name]) and _fact_weight(objective, name, epoch)
    ]
    alike: dict[tuple[object, ...], list[str]] = {}
    for name in stated:
        rates = (objective.rate("missed", name), objective.rate("invented", name))
        power = objective.power(name, epoch)
        kind = (*rates, power, name in objective.evidence, degrees[name].dtype)
        alike.setdefault(kind, []).append(name)
    errors: dict[str, Tensor] = {}
    for names in alike.values():
        together = torch.cat([degrees[name] for name in names])
        truth = torch.cat([labels.truth[name] for name in names]).to(together.dtype)
        each = _losses_of_facts(objective, names[0], truth, together, epoch, flips)
        parts = each.split([len(labels.truth[name]) for name in names])
        errors |= dict(zip(names, parts, strict=True))
    return {name: errors[name] for name in stated}


def facts_together(
    objective: Objective, means: Mapping[str, Tensor], counts: Mapping[str, int], epoch: float
) -> Tensor | None:
    """Combine the mean `fact_errors` of each predicate into one loss; None if there are none."""
    p = objective.p.at(epoch)
    shares: list[Tensor] = []
    for name, mean in means.items():
        power = objective.power(name, epoch)
        usual = objective.facts != "satisfaction" or power == p
        shares.append(mean if usual else rooted(mean, power) ** p)
    if not shares:
        return None
    stacked = torch.stack(shares)
    weights = tuple(_fact_weight(objective, name, epoch) * counts[name] for name in means)
    mean = (stacked * fixed_row(weights, stacked.dtype, stacked.device)).sum() / sum(weights)
    return rooted(mean, p) if objective.facts == "satisfaction" else mean


def fact_loss(
    objective: Objective,
    labels: Labels,
    tables: Tables,
    epoch: float,
    flips: Tensor | float,
) -> Tensor:
    """Compute how far predictions are from the labelled facts; 0 if there are none."""
    errors = fact_errors(objective, labels, tables, epoch, flips)
    means = {name: each.mean() for name, each in errors.items()}
    loss = facts_together(objective, means, {n: len(e) for n, e in errors.items()}, epoch)
    return torch.zeros((), device=tables.lengths.device) if loss is None else loss


def _fact_weight(objective: Objective, name: str, epoch: float) -> float:
    return objective.fact_weights.get(name, _ONE).at(epoch)


def _losses_of_facts(
    objective: Objective, name: str, truth: Tensor, degrees: Tensor, epoch: float,
    flips: Tensor | float,
) -> Tensor:  # fmt: skip
    """Compute the loss of each fact of one predicate."""
    match objective.facts:
        case "satisfaction":
            agree = truth * degrees + (1 - truth) * (1 - degrees)
            return (1 - agree).clamp(min=0) ** objective.power(name, epoch)
        case "cross-entropy":
            return _likelihood(name, objective, truth, degrees, degrees)
        case "noise-aware":
            missed = _said(objective.rate("missed", name), flips)
            invented = _said(objective.rate("invented", name), flips)
            seen = (1 - missed) * degrees + invented * (1 - degrees)
            return _likelihood(name, objective, truth, degrees, seen)
        case never:
            assert_never(never)


def _said(rate: Rate | None, usual: Tensor | float) -> Tensor | float:
    return usual if isinstance(rate, str | None) else rate


def _likelihood(
    name: str, objective: Objective, truth: Tensor, degrees: Tensor, seen: Tensor
) -> Tensor:
    """Compute the negative log-likelihood of labels, and of a detector's evidence."""
    yes, no = _log(seen), _log(1 - seen)
    each = truth * yes + (1 - truth) * no
    if name in objective.evidence:
        agree = truth * degrees + (1 - truth) * (1 - degrees)
        each = torch.where(unsure(truth), _log(agree), each)
    return -each


def unsure(truth: Tensor) -> Tensor:
    """Return which stated degrees are neither 0 nor 1."""
    return (truth > 0) & (truth < 1)


def _log(degrees: Tensor) -> Tensor:
    return degrees.clamp(min=_LEAST).log()


def rooted(mean: Tensor, p: float) -> Tensor:
    """Compute the root, with gradient 0 at 0; NaN stays NaN."""
    nothing = mean == 0
    return torch.where(nothing, 0, torch.where(nothing, 1, mean) ** (1 / p))


def axiom_loss(
    objective: Objective, values: Tensor, weights: Tensor, epoch: float, *, logs: bool = False
) -> Tensor:
    """Compute how far the axioms are from being satisfied, from values of shape (axiom, trace).

    Traces are aggregated like axioms, all with the same weight. The result equals that of an audit,
    which aggregates traces as ∀ does, if the objective has the exponent of ∀.

    Args:
        objective: the objective.
        values: degrees.
        weights: the weights of the axioms.
        epoch: the epoch, for schedules.
        logs: whether the values are logarithms of degrees; for the loss "log".
    """
    if objective.axioms == "log":
        missing = -(values if logs else _log(values)).mean(-1)
        if objective.trust is not None:
            missing = doubted(missing, objective.trust)
        return (weights * missing).sum() / _total(weights)
    spread = weights.unsqueeze(-1).expand_as(values)
    return mean_error(values, spread, objective.p.at(epoch))


def doubted(missing: Tensor, trust: float) -> Tensor:
    """Return the loss that axioms add, with the best factors for their weights.

    A factor f costs `f·L + k(f - 1 - log f)`, with L the negative logarithm of an axiom's value and
    k the shape of the prior. The minimum `k log(1 + L/k)` is at `k / (k + L)`, see `factors`. So
    the factors need no training steps.
    """
    return trust * torch.log1p(missing / trust)


def factors(missing: Tensor, trust: float) -> Tensor:
    """Return how far each axiom is trusted, from 0 to 1."""
    return trust / (trust + missing)


def prior_loss(objective: Objective, parameters: Iterable[Tensor], facts: int) -> Tensor | None:
    """Return the penalty on parameters relative to the loss of `facts` facts; None without one."""
    if not objective.prior:
        return None
    squares = torch.stack([p.square().sum() for p in parameters]).sum()
    return objective.prior * squares / max(1, facts)


def losses(
    objective: Objective,
    facts: Tensor,
    axioms: Tensor | None,
    epoch: float,
    prior: Tensor | None = None,
) -> Losses:
    """Combine the losses of all parts."""
    alone = facts if prior is None else facts + prior
    if axioms is None or objective.axioms == "none":
        return Losses(alone, facts, None)
    if objective.together == "sum":
        return Losses(alone + objective.weight.at(epoch) * axioms, facts, axioms)
    both = torch.stack([facts.to(axioms.dtype), axioms])
    error = mean_error(1 - both, torch.ones_like(both), objective.p.at(epoch))
    return Losses(error, facts, axioms)
