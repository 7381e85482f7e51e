"""The posterior: probabilities of atoms and of formulas, over worlds that obey the axioms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fotltn.analysis.truncation import End
from fotltn.errors import DataError
from fotltn.grounding.labels import Labels
from fotltn.logic import core as c
from fotltn.logic.check import CheckedFormula, CheckedTheory
from fotltn.logic.defined import Definition
from fotltn.monitor.nnf import nnf
from fotltn.posterior.contradictions import explained, refuse
from fotltn.posterior.evidence import LabelEvidence, NoiseRates
from fotltn.posterior.impossible import NoWorldError
from fotltn.posterior.inputs import check_input
from fotltn.posterior.mixing import Mixing, MixingReport
from fotltn.posterior.rows import RowTruth, all_rows
from fotltn.posterior.sampler import Sampler, Sampling, unbroken
from fotltn.posterior.structure import Structure, statements, structure
from fotltn.semantics.tables import Tables, Value

#: What labels are taken to be like if nothing is said: seldom wrong.
USUAL = NoiseRates(0.05, 0.05)


@dataclass(frozen=True, slots=True)
class SamplingProgress:
    """How far sampling is.

    Args:
        sweep: the number of sweeps that are done.
        of: how many there will be.
        counts: whether these count already.
        mixing: how far worlds agree, if that is known.
    """

    sweep: int
    of: int
    counts: bool
    mixing: MixingReport | None


@dataclass(frozen=True, slots=True)
class Probability:
    """The probability of a formula.

    Args:
        axes: its free variables.
        mean: shares of worlds, with axes (trace, variables …, time).
        low: the lower end of an interval that holds the probability in 95 of 100 cases.
        high: the upper end.
        worlds: how many worlds were counted.
    """

    axes: tuple[c.Axis, ...]
    mean: Tensor
    low: Tensor
    high: Tensor
    worlds: int


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Worlds that obey the hard axioms, as likely as labels and soft axioms say.

    Args:
        tables: what is given.
        learned: the predicates that are not.
        marginals: the probability of each atom, with axes (trace, arguments …, time).
        worlds: sampled worlds: truth values with axes (world, trace, arguments …, time). Worlds
            that follow each other at the distance `chains` are of one chain.
        density: the logarithm of how likely each of these is, up to a constant.
        chains: how many chains there were.
        rates: how often labels are wrong, told or learned.
        violations: for each soft axiom the expected number of cells that break it.
        mixing: how far chains agree, by predicate.
        structure: what was sampled how.
    """

    tables: Tables
    learned: tuple[str, ...]
    marginals: Mapping[str, Tensor]
    worlds: Mapping[str, Tensor]
    density: Tensor
    chains: int
    rates: Mapping[str, NoiseRates]
    violations: Mapping[str, float]
    mixing: MixingReport
    structure: Structure = field(repr=False)

    @property
    def count(self) -> int:
        """The number of worlds."""
        return len(self.density)

    def world(self, number: int) -> Tables:
        """A sampled world as tables, with what is given.

        Raises:
            DataError: there is no world of that number.
        """
        if not 0 <= number < self.count:
            raise DataError(f"worlds have numbers from 0 to {self.count - 1}, not {number}")
        return self._with({name: table[number] for name, table in self.worlds.items()})

    def most_probable(self) -> Tables:
        """The most likely one of the sampled worlds."""
        return self.world(int(self.density.argmax()))

    def degrees(self) -> Tables:
        """What is given, and the probabilities of atoms as degrees."""
        return self._with(dict(self.marginals))

    def _with(self, learned: Mapping[str, Tensor]) -> Tables:
        kind = self.tables.dtype
        predicates = {**self.tables.predicates, **{n: t.to(kind) for n, t in learned.items()}}
        return replace(self.tables, predicates=predicates)

    def truth(self, formula: CheckedFormula) -> Value:
        """The truth of a formula in every world, with axes (world, trace, variables …, time)."""
        circuit = RowTruth(self.tables, self.learned)
        axes = formula.free
        rows = all_rows(self.tables, axes)
        parts = []
        for start in range(0, self.count, self.chains):
            some = {n: t[start : start + self.chains] for n, t in self.worlds.items()}
            value = circuit.truth(nnf(formula.formula), rows, some)
            parts.append(value.expand(self.chains, len(rows), self.tables.horizon))
        sizes = (self.tables.full_size(a) for a in axes)
        shape = (self.count, self.tables.batch, *sizes, self.tables.horizon)
        return Value(axes, torch.cat(parts).reshape(shape))

    def probability(self, formula: CheckedFormula, *, where: Tensor | None = None) -> Probability:
        """The probability of a formula at every binding and point.

        Args:
            formula: any formula of the language; its truth is that of two-valued logic.
            where: the worlds that count, as truth values; those that obey a condition, say.

        Raises:
            DataError: no world counts.
        """
        axes, truth = self.truth(formula)
        if where is None:
            where = torch.ones(self.count, dtype=torch.bool, device=truth.device)
        count = int(where.sum())
        if count == 0:
            raise DataError(
                f"none of the {self.count} sampled worlds obeys the condition; state it as a label "
                "and sample again"
            )
        chosen = truth[where].to(torch.float64)
        mean = chosen.mean(0)
        chain = torch.arange(self.count, device=truth.device)[where] % self.chains
        low, high = _interval(chosen, mean, chain, self.chains)
        return Probability(axes, mean, low, high, count)


def _interval(values: Tensor, mean: Tensor, chain: Tensor, chains: int) -> tuple[Tensor, Tensor]:
    """Ends of an interval of 95 %, by how much chains differ; Wilson's for as many worlds."""
    size = torch.bincount(chain, minlength=chains).to(torch.float64)
    sums = torch.zeros(chains, *mean.shape, dtype=torch.float64, device=mean.device)
    sums.index_add_(0, chain, values)
    used = size > 0
    number = int(used.sum())
    spread = mean * (1 - mean)
    worth = torch.full_like(mean, float(len(values)))
    if number > 1:
        shares = sums[used] / size[used].reshape(-1, *[1] * mean.dim())
        error = shares.var(0) / number
        worth = torch.where(error > 0, (spread / error).clamp(1.0, float(len(values))), worth)
    z = 1.96
    middle = (mean + z * z / (2 * worth)) / (1 + z * z / worth)
    half = z / (1 + z * z / worth) * (spread / worth + z * z / (4 * worth * worth)).sqrt()
    return (middle - half).clamp(0, 1), (middle + half).clamp(0, 1)


def sample(
    theory: CheckedTheory,
    tables: Tables,
    labels: Labels,
    learned: Sequence[str],
    *,
    rates: Mapping[str, NoiseRates | None] | None = None,
    sampling: Sampling | None = None,
    define: Mapping[str, Definition] | None = None,
    logits: Mapping[str, Tensor] | None = None,
    end: End = "undecided",
    report: Callable[[SamplingProgress], None] | None = None,
) -> Posterior:
    """Sample worlds that obey the hard axioms of a theory.

    Args:
        theory: the theory. Hard axioms hold in every world; each cell that breaks a soft one makes
            a world less likely by the factor `exp(-weight)`.
        tables: what is given: a table for each predicate that is not learned.
        labels: what was observed of the others, perhaps wrongly.
        learned: the predicates that are not given.
        rates: how often labels of a predicate are wrong; None for rates that are learned. Without
            a word about a predicate, 5 % of its labels are.
        sampling: how much is sampled.
        define: what predicates are, beside what hard axioms define.
        logits: what is known of single cells beside labels, as logarithms of odds.
        end: what the end of a trace makes of an axiom that it cuts off.
        report: is told of every sweep.

    Raises:
        DataError: labels do not fit, or no world obeys all hard axioms.
        LimitError: axioms need more states than can be followed.
    """
    how = sampling or Sampling()
    check_input(
        theory, tables, labels, learned, rates=rates or {}, logits=logits or {},
        define=define or {}, sampling=how, end=end,
    )  # fmt: skip
    told = {n: r for n, r in (rates or {}).items() if r is not None}
    noise = {n: told.get(n, NoiseRates(0.1, 0.1) if n in (rates or {}) else USUAL) for n in learned}
    free_rates = frozenset(n for n, r in (rates or {}).items() if r is None and n in labels.truth)
    labelled = [n for n in learned if n in labels.truth and labels.truth[n].numel()]
    weighed = [*labelled, *(n for n in (logits or {}) if n not in labelled)]
    evidence = LabelEvidence(labels, noise, free_rates, logits or {})
    try:
        plan = structure(theory, tables, learned, weighed, define=define, end=end)
    except NoWorldError as error:
        said = statements(theory, tables, learned, define=define, end=end)
        raise explained(error, said, tables, evidence) from None
    if watched := unbroken(plan, tables, labels):
        plan = structure(theory, tables, learned, weighed, define=define, end=end, watched=watched)
    sampler = Sampler(plan, tables, evidence, how)
    return run(sampler, report)


def run(sampler: Sampler, report: Callable[[SamplingProgress], None] | None = None) -> Posterior:
    """Sample to the end, and count."""
    how, plan = sampler.sampling, sampler.structure
    learned = (*plan.free, *plan.definitions)
    sums = {n: torch.zeros(t.shape[1:], dtype=torch.float64, device=t.device)
            for n, t in sampler.tables.items() if n in learned}  # fmt: skip
    mixing = Mixing({n: sampler.tables[n] for n in learned}, how.seed)
    stored: list[Mapping[str, Tensor]] = []
    density: list[Tensor] = []
    broken: dict[str, float] = {}
    every = max(1, how.sweeps // max(1, how.stored))
    told: MixingReport | None = None
    for number in range(how.burn_in + how.sweeps):
        sampler.sweep(number)
        if number in (0, how.burn_in - 1):
            refuse(sampler, "burnt in" if number else "first")
        counted = number - how.burn_in
        if counted >= 0:
            for name, total in sums.items():
                total += sampler.tables[name].to(torch.float64).mean(0)
            mixing.add(sampler.tables)
            if counted % every == every - 1 or counted == how.sweeps - 1:
                stored.append(sampler.snapshot())
                density.append(sampler.density())
                for name, costs in sampler.soft().items():
                    broken[name] = broken.get(name, 0.0) + float(costs.double().mean())
            if counted % 20 == 19:
                told = mixing.report()
        if report is not None:
            report(SamplingProgress(number + 1, how.burn_in + how.sweeps, counted >= 0, told))
    refuse(sampler, "last")
    worlds = {n: torch.cat([part[n] for part in stored]) for n in learned}
    return Posterior(
        sampler.known, learned, {n: t / how.sweeps for n, t in sums.items()}, worlds,
        torch.cat(density), how.worlds, dict(sampler.evidence.rates),
        {n: v / len(stored) for n, v in broken.items()}, mixing.report(), plan,
    )  # fmt: skip
