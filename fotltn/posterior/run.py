"""Sample a posterior from a theory and labels: sweep by sweep, so that a run can resume."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from fotltn.errors import DataError, Diagnostic, listing
from fotltn.grounding.labels import Labels
from fotltn.posterior.bits import packed, unpacked
from fotltn.posterior.blind import BlindWorlds
from fotltn.posterior.carried import PARTS
from fotltn.posterior.climb import climb
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.impossible import NoWorldError
from fotltn.posterior.inputs import check_input
from fotltn.posterior.mirrored import mirrored
from fotltn.posterior.mixing import Mixing, MixingReport
from fotltn.posterior.posterior import BrokenCells, Posterior
from fotltn.posterior.problem import Problem, several
from fotltn.posterior.sampler import LEAST_LOOK, Sampler, obeyed_among_ties, unbroken
from fotltn.posterior.shared_worlds import WorldShare
from fotltn.posterior.structure import Structure, structure
from fotltn.posterior.weights import LearnedWeights
from fotltn.semantics.sparse import largest
from fotltn.threads import threads_for

_LOG = logging.getLogger("fotltn.posterior")

#: Progress reports say how far chains agree once in so many sweeps.
_TOLD = 10

#: After so many quarters of the burn-in, axioms that worlds still break outweigh all labels.
_FIRM = 3


@dataclass(frozen=True, slots=True)
class SamplingProgress:
    """The progress of sampling.

    Args:
        sweep: the number of sweeps done.
        of: the number of sweeps in all.
        counts: whether the burn-in is over, so that sweeps count.
        mixing: how far chains agree, if known; with several parts, in the first part.
        weights: the learned weights of soft axioms.
    """

    sweep: int
    of: int
    counts: bool
    mixing: MixingReport | None
    weights: Mapping[str, float] = field(default_factory=dict)


def sample(
    problem: Problem, *, report: Callable[[SamplingProgress], None] | None = None
) -> Posterior:
    """Sample worlds that obey the hard axioms of a theory.

    Args:
        problem: the theory, the facts and the labels.
        report: called after every sweep.

    Raises:
        DataError: labels do not fit, or no world obeys all hard axioms.
        LimitError: axioms need too many states.
    """
    run = SamplingRun(problem)
    while not run.finished:
        run.sweep()
        if report is not None:
            report(run.progress())
    return run.result()


def sample_each(
    problem: Problem,
    labels: Sequence[Labels],
    *,
    report: Callable[[SamplingProgress], None] | None = None,
) -> list[Posterior]:
    """Sample from one theory and its facts with several sets of labels, all at once.

    Use it to compare sets of labels: on a GPU, many sets take hardly longer than one. Each set has
    a copy of the traces, and learns as if it were alone.

    Args:
        problem: the theory and the facts; its labels are ignored. Learned weights of axioms are
            refused, because they need worlds without labels.
        labels: the sets of labels.
        report: called after every sweep.

    Raises:
        DataError: as for `sample`; one set with an error stops all of them.
        LimitError: as for `sample`.
    """
    if not labels:
        return []
    if problem.sampling.weights != "given":
        raise DataError("several sets of labels can be sampled at once only with given weights")
    run = SamplingRun(several(problem, labels))
    while not run.finished:
        run.sweep()
        if report is not None:
            report(run.progress())
    return [replace(one, tables=problem.tables) for one in run.results()]


def sampler_of(problem: Problem) -> Sampler:
    """Return the sampler that `sample` runs, before its first sweep."""
    check_input(problem)
    said, problem = problem, mirrored(problem)
    evidence = problem.evidence()
    try:
        plan = _structure(problem)
    except NoWorldError as error:
        from fotltn.posterior.contradictions import explained

        raise explained(error, said.said(), said.tables, evidence) from None
    if watched := unbroken(plan, problem.tables, evidence):
        plan = _structure(problem, watched)
        rest = obeyed_among_ties(plan, problem.tables, evidence)
        plan = plan if len(rest) == len(watched) else _structure(problem, rest)
    return Sampler(plan, problem.tables, evidence, problem.sampling)


def _structure(problem: Problem, watched: Collection[str] = ()) -> Structure:
    truth = problem.labels.truth
    labelled = [n for n in problem.learned if n in truth and truth[n].numel()]
    weighed = [*labelled, *(n for n in problem.logits if n not in labelled)]
    return structure(
        problem.theory, problem.tables, problem.learned, weighed, define=problem.define,
        end=problem.end, watched=watched,
    )  # fmt: skip


class SamplingRun:
    """A run of the sampler, sweep by sweep.

    Attributes:
        sampler: the worlds.
        done: the number of sweeps done.
        blind: worlds without labels, if something is learned from them.
    """

    def __init__(self, problem: Problem, share: WorldShare | None = None) -> None:
        """Start a run; with a share, several processes move the worlds."""
        self.sampler, self.done, self._problem = sampler_of(problem), 0, problem
        self.sampler.share = share
        sampler, self._parts = self.sampler, problem.parts
        self.blind: BlindWorlds | None = None
        self._weights: LearnedWeights | None = None
        if sampler.scales:
            self._weights = LearnedWeights(sampler)
            self.go_beside()
        plan, self._how = sampler.structure, sampler.sampling
        self.learned = (*plan.free, *plan.definitions)
        worlds = {name: sampler.tables[name] for name in self.learned}
        self._sums = {
            n: torch.zeros(t.shape[1:], dtype=torch.float64, device=t.device)
            for n, t in worlds.items()
        }
        self._mixing = [Mixing(some, self._how.seed) for some in self._by_part(worlds)]
        self._stored: dict[str, list[Tensor]] = {name: [] for name in self.learned}
        self._density: list[Tensor] = []
        self._stored_at: list[int] = []
        self._enough = self._early = False
        self._broken: dict[str, list[Tensor]] = {}  # the broken cells of each world, by soft axiom
        self._unruly: dict[str, int] = {}
        self._copied = [0] * self._parts

    def _by_part(self, worlds: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        """Split tables with axes (world, trace, …) into parts."""
        apart = {name: table.unflatten(1, (self._parts, -1)) for name, table in worlds.items()}
        return [
            {name: table[:, part] for name, table in apart.items()} for part in range(self._parts)
        ]

    def go_beside(self) -> None:
        """Also sample worlds without labels."""
        self.blind = self.blind or BlindWorlds(self.sampler)
        self.blind.sampler.share = self.sampler.share

    @property
    def total(self) -> int:
        """The number of sweeps in all."""
        return self._how.burn_in + self._how.sweeps

    @property
    def finished(self) -> bool:
        """Whether all sweeps are done, or chains agree after fewer."""
        return self._enough or self._early or self.done >= self.total

    def end_early(self) -> None:
        """End sampling after the sweeps that are done.

        Raises:
            DataError: chains cannot be compared after so few sweeps.
        """
        if self.finished:
            return
        if self.counted < LEAST_LOOK:
            raise DataError(
                f"there is nothing to finish yet: {self.counted} of the sweeps that count are "
                f"done, and {min(LEAST_LOOK, self._how.sweeps)} are needed",
                hint="run the command without --finish to continue",
            )
        if not self._stored_at:
            self._store()
        self._early = True

    @property
    def reason(self) -> str:
        """The reason why sampling ended."""
        if self._early:
            return f"ended early after {self.done} of {self.total} sweeps"
        if self._enough:
            return f"chains agree after {self.done} of {self.total} sweeps"
        return f"all {self.total} sweeps are done"

    @property
    def counted(self) -> int:
        """The number of sweeps that count so far."""
        return max(0, self.done - self._how.burn_in)

    def sweep(self) -> None:
        """Move all worlds once; after the burn-in, count them."""
        sampler = self.sampler
        size = largest(sampler.tables[name] for name in self.learned)
        with threads_for(size, step=True):
            self._sweep()

    def _sweep(self) -> None:
        sampler, how = self.sampler, self._how
        sampler.sweep(self.done)
        if self.blind is not None and self.done < how.burn_in:
            if self._weights is not None and self.done == how.full:
                self.blind.follow(sampler)
            self.blind.sweep(sampler, self.done)
            if self._weights is not None:
                self._weights.learn(self.blind.sampler, self.done)
        if self.done == _FIRM * how.burn_in // 4:
            sampler.firm = any(bool(cells.any()) for cells in sampler.broken().values())
        if self.done + 1 in (how.settled, how.burn_in):
            self._copied = [*map(max, self._copied, sampler.rejoin())]
        if self.done in (0, how.burn_in - 1):
            self._refuse("burnt in" if self.done else "first")
        self.done += 1
        _LOG.debug("sweep %d of at most %d", self.done, self.total)
        if not self.counted:
            return
        for name, total in self._sums.items():
            total += sampler.tables[name].to(torch.float64).mean(0)
        for mixing, worlds in zip(self._mixing, self._by_part(sampler.tables), strict=True):
            mixing.add(worlds)
        look, *later = [look for look in how.looks if look >= self.counted]
        if how.stores(self.counted, look):
            self._store()
        if self.counted == look and later:
            self._enough = all(one.report().enough(how.enough) for one in self._mixing)
            if not self._enough:
                self._thin(later[0])

    def _store(self) -> None:
        sampler = self.sampler
        self._stored_at.append(self.counted)
        for name, table in sampler.snapshot().items():
            self._stored[name].append(table)
        self._density.append(sampler.density())
        for name, cells in sampler.broken().items():
            self._unruly[name] = self._unruly.get(name, 0) + int((cells > 0).sum())
        for name, costs in sampler.soft().items():
            self._broken.setdefault(name, []).append(costs)

    def _thin(self, look: int) -> None:
        """Keep only the stored worlds that are nearest to the sweeps stored until a look."""
        wanted = [at for at in range(1, self.counted + 1) if self._how.stores(at, look)]
        places = sorted({
            min(range(len(self._stored_at)), key=lambda n: abs(self._stored_at[n] - at))
            for at in wanted
        })  # fmt: skip
        self._stored_at = [self._stored_at[place] for place in places]
        self._density = [self._density[place] for place in places]
        for by_name in (self._stored, self._broken):
            for name, parts in by_name.items():
                by_name[name] = [parts[place] for place in places]

    def _refuse(self, moment: Literal["first", "burnt in", "last"]) -> None:
        """Raise an error if no world can obey all hard axioms."""
        from fotltn.posterior.contradictions import refuse

        refuse(self.sampler, moment)

    def progress(self) -> SamplingProgress:
        """The progress so far; every tenth sweep, it says how far chains agree."""
        told = self.counted > 0 and (self.counted % _TOLD == 0 or self._enough)
        mixing = self._mixing[0].report(self._problem.learned) if told else None
        weights = self.sampler.learned_weights
        return SamplingProgress(self.done, self.total, self.counted > 0, mixing, weights)

    def result(self) -> Posterior:
        """Return the posterior of all sweeps.

        Raises:
            NoWorldError: worlds break hard axioms.
        """
        (one,) = self.results()
        return one

    def results(self) -> list[Posterior]:
        """Return the posterior of each part."""
        sampler, how = self.sampler, self._how
        self._refuse("last")
        if names := [n for n, worlds in self._unruly.items() if worlds]:
            most = max(self._unruly.values())
            raise NoWorldError(
                Diagnostic(
                    f"{most} of the worlds that count break {listing(names)}: the burn-in ended "
                    "before they obeyed",
                    hint=f"sample with a longer burn-in, such as burn_in = {2 * how.burn_in}",
                )
            )
        plan, tables = sampler.structure, sampler.known
        learned = tuple(n for n in self.learned if n in self._problem.learned)
        if len(learned) < len(self.learned):  # some drawn predicates are not in the problem
            said = self._problem.said()
            plan, tables = replace(said, tied=plan.tied, watched=plan.watched), self._problem.tables
        sums = self._by_part({n: self._sums[n].unsqueeze(0) for n in learned})
        stored = self._by_part({n: torch.cat(self._stored[n]) for n in learned})
        density, evidence = torch.cat(self._density), sampler.evidence.by_part
        best, peak = self._best(density)
        broken = {n: torch.cat(cells) for n, cells in self._broken.items()}
        return [
            Posterior(
                tables, learned, {n: total[0] / self.counted for n, total in sums[part].items()},
                stored[part], density[:, part],
                {n: best[part][n] for n in learned}, float(peak[part]), how.worlds,
                {n: evidence[part].rates[n] for n in learned},
                {n: BrokenCells.of(cells[:, part]) for n, cells in broken.items()},
                self._mixing[part].report(learned, self._copied[part]), self.counted, plan,
            )
            for part in range(self._parts)
        ]  # fmt: skip

    def _best(self, density: Tensor) -> tuple[list[dict[str, Tensor]], Tensor]:
        """The most probable world of each part, and its log-probability.

        Worlds climb from the last sweep, one of them from the most probable stored world. Traces
        are independent, so each trace takes the best of all worlds.
        """
        sampler, before = self.sampler, self.sampler.snapshot()
        stored = self._by_part({name: torch.cat(self._stored[name]) for name in before})
        for part, worlds in enumerate(self._by_part(sampler.tables)):
            number = int(density[:, part].argmax())
            for name, table in stored[part].items():
                worlds[name][0] = table[number]
        worth, chosen = climb(sampler).max(0)
        traces = torch.arange(len(chosen), device=chosen.device)
        best = {name: sampler.tables[name][chosen, traces].unsqueeze(0) for name in before}
        for name, table in before.items():
            sampler.tables[name].copy_(table)
        apart = [{n: t[0] for n, t in part.items()} for part in self._by_part(best)]
        return apart, worth.unflatten(0, (self._parts, -1)).sum(1)

    # --- to resume later --------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return everything that a resumed run needs: tensors, and data for JSON; of one part."""
        sampler = self.sampler
        tensors = {"generator": sampler.generator.get_state()}
        for name in self.learned:
            tensors[f"worlds/{name}"] = packed(sampler.tables[name])
            tensors[f"sums/{name}"] = self._sums[name]
            if self._density:
                tensors[f"stored/{name}"] = packed(torch.cat(self._stored[name]))
            if self._mixing[0].draws[name]:
                tensors[f"draws/{name}"] = packed(torch.stack(self._mixing[0].draws[name]))
        if self._density:
            tensors["density"] = torch.cat(self._density, 1).T
        tensors |= {f"broken/{name}": torch.cat(cells, 1).T for name, cells in self._broken.items()}
        for part in PARTS:
            for names, table in getattr(sampler.prior, part).items():
                tensors[f"prior/{part}/{','.join(names)}"] = table
        if self.blind is not None:
            tensors |= {f"blind/{name}": part for name, part in self.blind.state().items()}
        if self._weights is not None:
            tensors["spread"] = self._weights.spread
        return tensors, {
            "done": self.done,
            "rates": {n: list(rates) for n, rates in sampler.evidence.rates.items()},
            "scales": sampler.scales,
            "unruly": self._unruly,
            "copied": self._copied[0],
            "firm": sampler.firm,
            "stored": self._stored_at,
            "enough": self._enough,
        }

    def restore(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
        """Resume from a state of the same task.

        Raises:
            KeyError: part of the state is missing.
            ValueError: part of the state is of another task.
        """
        sampler, device = self.sampler, self.sampler.known.lengths.device
        self.done = document["done"]
        if type(self.done) is not int or not 0 <= self.done <= self.total:
            raise ValueError(f"it has {self.done} of {self.total} sweeps")
        self._unruly = dict(document["unruly"])
        for key in [key for key in tensors if key.startswith("broken/")]:
            cells = tensors[key].to(device).unsqueeze(-1)
            self._broken[key.removeprefix("broken/")] = [*cells]
        self._copied = [int(document["copied"])]
        self._stored_at, self._enough = [*document["stored"]], document["enough"] is True
        sampler.firm = document["firm"] is True
        sampler.evidence.rates.update({n: NoiseRates(*r) for n, r in document["rates"].items()})
        sampler.generator.set_state(tensors["generator"])
        self._density = [part.to(device).unsqueeze(-1) for part in tensors.get("density", ())]
        counted, snapshots = self.counted, len(self._density)
        if len(self._stored_at) != snapshots:
            raise ValueError("the number of its worlds is not the one it states")
        for name in self.learned:
            table = sampler.tables[name]
            table.copy_(unpacked(tensors[f"worlds/{name}"], table.shape))
            self._sums[name] = like(self._sums[name], tensors[f"sums/{name}"], "the sum of", name)
            if snapshots:
                shape = (snapshots, *table.shape)
                self._stored[name] = [*unpacked(tensors[f"stored/{name}"], shape).to(device)]
            if counted:
                shape = (counted, len(table), len(self._mixing[0].cells[name]))
                self._mixing[0].draws[name] = [
                    *unpacked(tensors[f"draws/{name}"], shape).to(device)
                ]
        for part in PARTS:
            tables = getattr(sampler.prior, part)
            for names, table in tables.items():
                new = tensors[f"prior/{part}/{','.join(names)}"]
                tables[names] = like(table, new, "the prior of", listing(names))
        if self.blind is not None:
            self.blind.restore(
                {n.removeprefix("blind/"): t for n, t in tensors.items() if n.startswith("blind/")}
            )
        if self._weights is not None:
            spread = self._weights.spread
            self._weights.spread = like(spread, tensors["spread"], "the spread of broken cells")
            if {*document["scales"]} != {*sampler.scales}:
                raise ValueError("it has learned weights of other axioms")
            sampler.scales.update({n: float(document["scales"][n]) for n in sampler.scales})


def like(old: Tensor, new: Tensor, *what: str) -> Tensor:
    """Return a tensor that replaces another one.

    Raises:
        ValueError: it has another shape or type, or a number that is not finite.
    """
    if new.shape != old.shape or new.dtype != old.dtype or not bool(new.isfinite().all()):
        raise ValueError(f"{' '.join(what)} does not fit")
    return new.to(old.device)
