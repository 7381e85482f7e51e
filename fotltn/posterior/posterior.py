"""The posterior: probabilities of atoms and of formulas, over worlds that obey the axioms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from fotltn.errors import DataError, LimitError, listing
from fotltn.evaluation import evaluate_core, present
from fotltn.logic import core as c
from fotltn.logic.check import CheckedFormula
from fotltn.logic.parts import predicates_in
from fotltn.posterior.carried import Carried
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.mixing import MixingReport
from fotltn.posterior.problem import repeated
from fotltn.posterior.structure import Structure
from fotltn.semantics.config import CRISP
from fotltn.semantics.tables import Tables, Value
from fotltn.threads import entries


@dataclass(frozen=True, slots=True)
class Probability:
    """The probability of a formula.

    Args:
        axes: its free variables.
        mean: shares of worlds, shape `(trace, *variables, time)`; NaN where no world counts.
        low: the lower end of an interval that holds the probability in 95 of 100 cases.
        high: the upper end.
        worlds: the number of worlds that count, by trace.
    """

    axes: tuple[c.Axis, ...]
    mean: Tensor
    low: Tensor
    high: Tensor
    worlds: tuple[int, ...]


class BrokenCells(NamedTuple):
    """The number of cells of a world that break an axiom: its mean, and an interval of 95 %."""

    mean: float
    low: int
    high: int

    @classmethod
    def of(cls, cells: Tensor) -> BrokenCells:
        """Summarise the numbers of broken cells in all worlds."""
        low, high = torch.quantile(
            cells.double(), cells.new_tensor([0.025, 0.975], dtype=torch.float64),
            interpolation="nearest",
        ).tolist()  # fmt: skip
        return cls(float(cells.double().mean()), round(low), round(high))


@entries
@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    r"""Sampled worlds, which obey the hard axioms and fit the labels and the soft axioms.

    `model.posterior` is an example. Use it for the probability of any formula, and to look at
    single worlds.

    Args:
        tables: the given facts.
        learned: the learned predicates.
        marginals: the probability of each atom, shape `(trace, *arguments, time)`.
        worlds: sampled worlds: truth values, shape `(world, trace, *arguments, time)`. Worlds
            at a distance of `chains` are of one chain.
        density: the log-probability of each world, up to a constant, shape `(world,)`.
        best: the most probable world that was found: truth values, shape `(trace, *arguments,
            time)`. It is not one of the sampled worlds.
        best_density: its log-probability, up to the same constant.
        chains: the number of chains.
        rates: the rates of wrong labels, as given or learned.
        violations: for each soft axiom, the number of cells of a world that break it.
        mixing: how far chains agree, by predicate.
        sweeps: the number of sweeps that count.
        structure: how each part was sampled; None if the worlds were read from a folder.
        carried: everything learned while sampling, to sample worlds of other data.

    >>> import fotltn as fot
    >>> rule = "hard axiom A: forall x. Near(x) -> X Stop(x)"
    >>> theory = f"sort car\npredicate Near(car), Stop(car)\n{rule}"
    >>> facts = {"predicate": ["Near", "Near"], "arg1": ["ego", "ego"], "time": [0, 3]}
    >>> model = fot.train(
    ...     theory, facts=facts, learn=["Stop"], method="posterior", posterior={"sweeps": 10}
    ... )
    >>> isinstance(model.posterior, fot.Posterior)
    True
    >>> bool(model.posterior.worlds["Stop"][..., 1].all())  # ego stops at 1 in every world
    True
    """

    tables: Tables
    learned: tuple[str, ...]
    marginals: Mapping[str, Tensor]
    worlds: Mapping[str, Tensor]
    density: Tensor
    best: Mapping[str, Tensor]
    best_density: float
    chains: int
    rates: Mapping[str, NoiseRates]
    violations: Mapping[str, BrokenCells]
    mixing: MixingReport
    sweeps: int
    structure: Structure | None = field(default=None, repr=False)
    carried: Carried | None = field(default=None, repr=False)

    @property
    def count(self) -> int:
        """The number of worlds."""
        return len(self.density)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the probabilities, such as chains that disagree."""
        tied = () if self.structure is None else self.structure.tied
        return self.mixing.warnings(self.chains, tied)

    @property
    def weights(self) -> Mapping[str, float]:
        """The learned weights of soft axioms."""
        return {} if self.carried is None else self.carried.weights

    def as_dict(self) -> dict[str, object]:
        """Return everything except the worlds themselves, as data."""
        return {
            "worlds": self.count,
            "best_density": self.best_density,
            "chains": self.chains,
            "sweeps": self.sweeps,
            "rates": {name: rates._asdict() for name, rates in self.rates.items()},
            "violations": {name: cells._asdict() for name, cells in self.violations.items()},
            "r_hat": dict(self.mixing.r_hat),
            "effective": dict(self.mixing.effective),
            "copied": self.mixing.copied,
            "exponents": {} if self.carried is None else dict(self.carried.exponents),
            "weights": dict(self.weights),
        }

    def world(self, number: int | Literal["best"]) -> Tables:
        """Return a world as tables, with the given facts.

        Args:
            number: the number of a sampled world, or "best" for the most probable world that was
                found.

        Raises:
            DataError: no world has that number.
        """
        if number == "best":
            return self._with(dict(self.best))
        if not 0 <= number < self.count:
            raise DataError(f"worlds have numbers from 0 to {self.count - 1}, not {number}")
        return self._with({name: table[number] for name, table in self.worlds.items()})

    def degrees(self) -> Tables:
        """Return the given facts, and the probabilities of atoms as degrees."""
        return self._with(dict(self.marginals))

    def _with(self, learned: Mapping[str, Tensor]) -> Tables:
        kind = self.tables.dtype
        predicates = {**self.tables.predicates, **{n: t.to(kind) for n, t in learned.items()}}
        return replace(self.tables, predicates=predicates)

    def truth(self, formula: CheckedFormula) -> Value:
        """Return a formula's truth in every world, with axes (world, trace, variables …, time).

        Raises:
            LimitError: evaluating one world takes too much memory.
        """
        parts: list[Tensor] = []
        done, step = 0, self.chains
        while done < self.count:
            try:
                parts.append(self._truth(formula, slice(done, min(done + step, self.count))))
            except LimitError:
                if step == 1:
                    raise
                step //= 2
            else:
                done += len(parts[-1])
        return Value(formula.free, torch.cat(parts))

    def _truth(self, formula: CheckedFormula, some: slice) -> Tensor:
        """The truth of a formula in some worlds, whose traces are evaluated as one batch."""
        used = predicates_in(formula.formula)
        fixed = {n: t for n, t in self.tables.predicates.items() if n in used}
        worlds = {n: t[some].flatten(0, 1) for n, t in self.worlds.items() if n in used}
        number = len(range(self.count)[some])
        # Two-valued logic reads nothing else.
        read = replace(self.tables, predicates=fixed, features={}, inputs={})
        every = repeated(read, number)
        learned = {n: t.to(every.dtype) for n, t in worlds.items()}
        every = replace(every, predicates={**every.predicates, **learned})
        value = evaluate_core(formula.formula, every, CRISP)
        truth = present(value, formula.free, every, at="all", batched=True)
        apart: Tensor = truth.unflatten(0, (number, self.tables.batch))
        return apart

    def probability(
        self, formula: CheckedFormula, condition: CheckedFormula | None = None
    ) -> Probability:
        """Return the probability of a formula at every binding and time point.

        Args:
            formula: any formula of the language; its truth is that of two-valued logic.
            condition: a formula without free variables; in each trace, only worlds in which it is
                true at the first time point count.

        Raises:
            DataError: the condition has free variables, or no world obeys it in any trace.
        """
        axes, truth = self.truth(formula)
        count, batch = truth.shape[:2]
        counted = torch.ones(count, batch, dtype=torch.bool, device=truth.device)
        if condition is not None:
            if condition.free:
                names = listing([axis.name for axis in condition.free])
                raise DataError(f"a condition has no free variables, but it has {names}; bind them")
            counted = self.truth(condition).tensor[..., 0]
            if not bool(counted.any()):
                raise DataError(
                    f"none of the {count} sampled worlds obeys the condition; state it as a fact, "
                    "and sample again"
                )
        mean, low, high = _shares(truth, counted, self.chains)
        return Probability(axes, mean, low, high, tuple(counted.sum(0).tolist()))


def _shares(truth: Tensor, counted: Tensor, chains: int) -> tuple[Tensor, Tensor, Tensor]:
    """Shares of worlds, and both ends of an interval of 95 %, whose width follows from chains.

    The interval is Wilson's, for the effective number of worlds. Where no world counts, all three
    are NaN.

    Args:
        truth: truth values with axes (world, trace, …).
        counted: the worlds that count, with axes (world, trace).
        chains: the number of chains; worlds at that distance are of one chain.
    """
    spread = [1] * (truth.dim() - 2)
    counted = counted.reshape(-1, chains, counted.shape[1], *spread)
    size = counted.sum(0).to(torch.float64)  # of each chain
    hits = torch.zeros(chains, *truth.shape[1:], dtype=torch.float64, device=truth.device)
    for values, mask in zip(truth.reshape(-1, chains, *truth.shape[1:]), counted, strict=True):
        hits += values & mask
    total = size.sum(0)
    mean = hits.sum(0) / total
    used = size > 0
    number = used.sum(0)
    shares = torch.where(used, hits / size.clamp_min(1), 0.0)
    middle = shares.sum(0) / number
    squares = torch.where(used, (shares - middle) ** 2, 0.0).sum(0)
    error = squares / (number * (number - 1)).clamp_min(1)
    variance = mean * (1 - mean)
    worth = torch.minimum((variance / error.clamp_min(1e-30)).clamp_min(1.0), total)
    worth = torch.where(error > 0, worth, total)
    z = 1.96
    middle = (mean + z * z / (2 * worth)) / (1 + z * z / worth)
    half = z / (1 + z * z / worth) * (variance / worth + z * z / (4 * worth * worth)).sqrt()
    return mean, (middle - half).clamp(0, 1), (middle + half).clamp(0, 1)
