"""What training minimises: how far facts and axioms are from being satisfied.

The paper's objective (section 4.2): a fact with label y has the degree `y·g + (1-y)(1-g)`; facts
are aggregated by a p-mean error to sat_sup, axioms to sat_BK, and both to the satisfaction whose
complement is the loss.

With several traces an axiom has a value on each of them, and each (axiom, trace) counts in sat_BK
by the weight of the axiom. An audit first aggregates the traces of each axiom as ∀ aggregates, and
then the axioms, with the exponent of ∀. Both come to the same if `p` is that exponent, since all
axioms have as many traces; if the exponents differ, the two differ.
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
from fotltn.semantics.tables import Tables

FactsBy = Literal["satisfaction", "cross-entropy", "noise-aware"]
AxiomsBy = Literal["satisfaction", "log", "none"]
Together = Literal["mean-error", "sum"]
#: How often labels are wrong, which a posterior can learn.
Rate = float | Literal["learned"]
Rates = Rate | Mapping[str, Rate] | None

#: The least degree whose logarithm is taken; below it there is no slope.
_LEAST = 1e-30
_ONE = Schedule(((0.0, 1.0),))
_FOUR = Schedule(((0.0, 4.0),))


@dataclass(frozen=True, slots=True)
class Objective:
    """How facts and axioms make one loss.

    Args:
        facts: "satisfaction" is the paper's; "cross-entropy" the mean negative log-likelihood, for
            a label between 0 and 1 that of both outcomes by their shares; "noise-aware" the same
            with labels that are flipped at a rate.
        axioms: "satisfaction" aggregates values by a p-mean error; "log" is the weighted mean of
            their negative logarithms, which do not underflow under a semantics in log space;
            "none" leaves them out.
        together: "mean-error" aggregates both satisfactions by a p-mean error, as the paper does,
            and needs "satisfaction" for both; "sum" adds the losses, axioms times `weight`.
        p: the exponent of these aggregations.
        weight: of the axioms, for "sum".
        flips: the rate of flipped labels, for "noise-aware"; it is where learning starts, if it
            is to be learned.
        learn_flips: learn the rate, for "noise-aware".
        missed: the rate of true facts that are labelled false, if it is another; or one for each
            predicate. "learned" is for posteriors.
        invented: likewise the rate of false facts that are labelled true.
        prior: how strongly parameters are drawn to 0: the weight of the sum of their squares,
            against the sum over all labelled facts. For "sum" only.
        trust: learn how far to trust each axiom, for axioms by "log": a factor of its weight under
            a Gamma prior with mean 1 and this shape. The smaller, the further may factors move.
        evidence: predicates whose degrees between 0 and 1 are probabilities that a detector gives,
            and no labels. They count as a likelihood: with the probability q, a degree g has
            `-log(q·g + (1-q)(1-g))`. What a detector is unsure of then says little, and can be
            overruled, where a label of one half would ask for one half.
        axiom_weights: by axiom; others have the weight that the theory gives them.
        fact_weights: by predicate; others have weight 1.
        fact_p: exponents by predicate for "satisfaction"; others have `p`.
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
        """Refuse what does not fit together."""
        for what, loss, known in (
            ("facts", self.facts, FactsBy),
            ("axioms", self.axioms, AxiomsBy),
            ("both together", self.together, Together),
        ):
            if loss not in get_args(known):
                raise DataError(
                    f"there is no loss of {what} by '{loss}'; there are {listing(get_args(known))}"
                )
        if self.together == "mean-error" and (self.facts != "satisfaction" or self.axioms == "log"):
            raise DataError(
                "a mean error aggregates satisfactions; add the losses (together = 'sum') "
                f"with facts by '{self.facts}' and axioms by '{self.axioms}'"
            )
        if not 0 < self.flips < 0.5 and self.facts == "noise-aware":
            raise DataError(f"the rate of flipped labels lies between 0 and 0.5, not {self.flips}")
        if self.learn_flips and self.facts != "noise-aware":
            raise DataError(f"a rate of flips is learned by 'noise-aware', not by '{self.facts}'")
        for rates in (self.missed, self.invented):
            for rate in rates.values() if isinstance(rates, Mapping) else (rates,):
                if isinstance(rate, str | None):
                    continue
                if not 0 <= rate < 1:
                    raise DataError(f"a rate of wrong labels lies in [0, 1), not at {rate}")
        if self.learn_flips and (self.missed is not None or self.invented is not None):
            raise DataError("one rate of flips is learned; 'missed' and 'invented' are given")
        if not 0 <= self.prior < math.inf:
            raise DataError(f"the weight of a prior is a finite number from 0 on, not {self.prior}")
        if self.prior and self.together != "sum":
            raise DataError("a prior is added to a sum of losses (together = 'sum')")
        if self.trust is not None and not 0 < self.trust < math.inf:
            raise DataError(f"trust is a finite number above 0, not {self.trust}")
        if self.trust is not None and self.axioms != "log":
            raise DataError(f"trust is learned with axioms by 'log', not by '{self.axioms}'")
        for exponent in (self.p, *self.fact_p.values()):
            if not all(1 <= p < math.inf for _, p in exponent.points):
                raise DataError(f"p is a finite number from 1 on, not {exponent.as_json()}")
        for weight in (self.weight, *self.axiom_weights.values(), *self.fact_weights.values()):
            if not all(0 <= w < math.inf for _, w in weight.points):
                raise DataError(f"a weight is a finite number from 0 on, not {weight.as_json()}")

    def rate(self, kind: Literal["missed", "invented"], name: str) -> Rate | None:
        """The rate that is said of a predicate, if any."""
        rates: Rates = getattr(self, kind)
        return rates.get(name) if isinstance(rates, Mapping) else rates

    def power(self, name: str, epoch: float) -> float:
        """The exponent for facts of a predicate."""
        return self.fact_p.get(name, self.p).at(epoch)

    @property
    def settled(self) -> float:
        """The epoch from which on the objective stays the same."""
        named = (self.axiom_weights, self.fact_weights, self.fact_p)
        every = [self.p, self.weight, *(one for group in named for one in group.values())]
        return max(schedule.end for schedule in every)


PAPER = Objective()
#: The paper's ablation: facts alone.
FACTS_ONLY = Objective(axioms="none")
#: What we recommend: a likelihood that knows of wrong labels, axioms beside it, a weak prior.
RECIPE = Objective(
    facts="noise-aware", axioms="log", together="sum", weight=Schedule(((0.0, 0.6),)), prior=0.003
)


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """A loss and what it is made of; satisfactions are None where there is none."""

    total: Tensor
    facts: Tensor
    axioms: Tensor | None

    def stacked(self) -> Tensor:
        """All of them in one tensor, without gradients."""
        kinds = [self.total, self.facts, *([] if self.axioms is None else [self.axioms])]
        return torch.stack([k.detach().to(self.total) for k in kinds])


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


@lru_cache(maxsize=64)
def fixed_row(numbers: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Numbers as a tensor, which is made once: a GPU would have to wait for them every time."""
    return torch.tensor(numbers, dtype=dtype, device=device)


def mean_error(values: Tensor, weights: Tensor, p: float) -> Tensor:
    """The p-mean of the errors, `(Σ w (1-v)^p / Σ w)^(1/p)`, with slope 0 where it is 0.

    Without any weight it is 0.
    """
    powers = (weights * (1 - values).clamp(min=0) ** p).sum()
    return rooted(powers / _total(weights), p)


def _total(weights: Tensor) -> Tensor:
    return weights.sum().clamp(min=torch.finfo(weights.dtype).tiny)


def predicted(labels: Labels, tables: Tables) -> dict[str, Tensor]:
    """The degrees that a model gives to labelled facts, by predicate."""
    degrees = {}
    for name, index in labels.index.items():
        table = tables.predicate(name)
        places = [
            torch.zeros_like(row) if size == 1 else row
            for row, size in zip(index, table.shape, strict=True)
        ]
        degrees[name] = table[tuple(places)]
    return degrees


def fact_errors(
    objective: Objective,
    labels: Labels,
    tables: Tables,
    epoch: float,
    flips: Tensor | float,
) -> dict[str, Tensor]:
    """The loss of each labelled fact, by predicate, before means and roots are taken.

    Predicates without facts or without weight are left out.
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
    """The loss of facts, of the mean of `fact_errors` of each predicate; None if there are none."""
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
    """How far the facts are from being predicted; 0 if there are none."""
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
    """The loss of each fact of predicates for which the objective says what it says of one."""
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
    """The negative log-likelihood of labels that are `seen`, and of a detector's evidence."""
    yes, no = _log(seen), _log(1 - seen)
    each = truth * yes + (1 - truth) * no
    if name in objective.evidence:
        agree = truth * degrees + (1 - truth) * (1 - degrees)
        each = torch.where(unsure(truth), _log(agree), each)
    return -each


def unsure(truth: Tensor) -> Tensor:
    """Which stated degrees are neither true nor false."""
    return (truth > 0) & (truth < 1)


def _log(degrees: Tensor) -> Tensor:
    return degrees.clamp(min=_LEAST).log()


def rooted(mean: Tensor, p: float) -> Tensor:
    """The root, with slope 0 at 0; what is no number stays so."""
    nothing = mean == 0
    return torch.where(nothing, 0, torch.where(nothing, 1, mean) ** (1 / p))


def axiom_loss(
    objective: Objective, values: Tensor, weights: Tensor, epoch: float, *, logs: bool = False
) -> Tensor:
    """How far the axioms, with axes (axiom, trace), are from being satisfied.

    Traces are aggregated like axioms: each counts the same. This is what an audit computes, which
    aggregates traces as ∀ does, if the objective has the exponent of ∀.

    Args:
        objective: how.
        values: degrees.
        weights: of the axioms.
        epoch: of the schedules.
        logs: the values are logarithms of degrees; for the loss "log".
    """
    if objective.axioms == "log":
        missing = -(values if logs else _log(values)).mean(-1)
        if objective.trust is not None:
            missing = doubted(missing, objective.trust)
        return (weights * missing).sum() / _total(weights)
    spread = weights.unsqueeze(-1).expand_as(values)
    return mean_error(values, spread, objective.p.at(epoch))


def doubted(missing: Tensor, trust: float) -> Tensor:
    """What axioms add to the loss with the factors of their weights at their best.

    A factor f costs `f·L + k(f - 1 - log f)`, with L the negative logarithm of an axiom's value
    and k the shape of the prior. The least cost is at `k / (k + L)`, see `factors`, and is
    `k log(1 + L/k)`; so the factors need no steps of their own.
    """
    return trust * torch.log1p(missing / trust)


def factors(missing: Tensor, trust: float) -> Tensor:
    """How far each axiom is trusted, from 0 to 1."""
    return trust / (trust + missing)


def prior_loss(objective: Objective, parameters: Iterable[Tensor], facts: int) -> Tensor | None:
    """How far parameters are from 0, as a share of the loss of so many facts; None without."""
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
    """The loss of all parts."""
    alone = facts if prior is None else facts + prior
    if axioms is None or objective.axioms == "none":
        return Losses(alone, facts, None)
    if objective.together == "sum":
        return Losses(alone + objective.weight.at(epoch) * axioms, facts, axioms)
    both = torch.stack([facts.to(axioms.dtype), axioms])
    error = mean_error(1 - both, torch.ones_like(both), objective.p.at(epoch))
    return Losses(error, facts, axioms)
