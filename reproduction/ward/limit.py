"""The Bayes limit of wards: what labels reveal if the process that made them is known.

The prior is the true process, as in `reproduction.ward.world`. The evidence is labels that are
wrong at known rates, and the rota is known. On average, no method that knows less ranks the facts
better.

The posterior is sampled by Gibbs sampling: patients get new tracks, which say who tends them and
when, and nurses get new rests, one after another, given all others. This step is exact, see
`reproduction.ward.chains`. A nurse who tends one patient cannot tend another, so chains seldom
switch between such explanations of the labels. Each chain therefore has copies for which labels
count less, and neighbouring copies exchange traces. Chains start where nothing happens, or at a
true ward: if both give the same result, the sampler has forgotten its start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from fotltn.grounding.labels import Labels
from fotltn.project.scene import Flags
from reproduction.deliveries.chains import draw_paths
from reproduction.deliveries.limit import evidence_of
from reproduction.deliveries.world import Rates
from reproduction.paper.bayes import Degrees, check_sampling
from reproduction.ward.chains import (
    NURSE_STATES,
    PAUSING,
    READY,
    RESTING,
    nurse_chain,
    patient_chain,
    phases,
)
from reproduction.ward.world import COMES, LEARNED, RATES, RESTS, SORTS, WINDOW, Size, Ward

SWEEPS, BURN_IN, CHAINS = 200, 100, 8

#: How much labels count in the copies of a chain; the first copies give the result.
RUNGS = (1.0, 0.7, 0.5, 0.35)

_NEVER = -1e4  # the log-probability of the impossible


def posterior(
    rota: Flags,
    labels: Labels,
    *,
    seed: int,
    rates: Mapping[str, Rates] = RATES,
    sweeps: int = SWEEPS,
    burn_in: int = BURN_IN,
    chains: int = CHAINS,
    start: Ward | None = None,
    device: str | torch.device = "cpu",
) -> Degrees:
    """Compute the probability of every cell of the learned predicates, given rota and labels.

    Args:
        rota: the given rota, shape (trace, nurse, patient, time).
        labels: true or false facts, some of them wrong; there may be none.
        seed: the seed of the draws, which depend on nothing else.
        rates: how often the labels of each predicate are wrong.
        sweeps: the number of sweeps of each chain, after those of `burn_in`.
        burn_in: the number of sweeps that do not count.
        chains: the number of independent chains to average over.
        start: the ward at which all chains start; by default, nobody is ill.
        device: the device to compute on.

    Returns:
        The means by predicate, shape (trace, *arguments, time).

    Raises:
        DataError: labels do not fit the ward, a degree is neither 0 nor 1, or a number is out of
            range.
    """
    return posteriors(
        rota, [labels], seeds=[seed], rates=rates, sweeps=sweeps, burn_in=burn_in,
        chains=chains, start=start, device=device,
    )[0]  # fmt: skip


def posteriors(
    rota: Flags,
    labels: Sequence[Labels],
    *,
    seeds: Sequence[int],
    rates: Mapping[str, Rates] = RATES,
    sweeps: int = SWEEPS,
    burn_in: int = BURN_IN,
    chains: int = CHAINS,
    start: Ward | None = None,
    device: str | torch.device = "cpu",
) -> list[Degrees]:
    """Compute the posterior of one ward for several sets of labels at once.

    Each set has its own seed, and its result equals that of `posterior` up to rounding.
    """
    check_sampling(len(labels), seeds, sweeps, burn_in, chains)
    traces, nurses, patients, steps = rota.shape
    shapes = _shapes(Size(nurses, patients, steps, traces))
    pieces = [evidence_of(one, shapes, rates) for one in labels]
    if not pieces:
        return []
    evidence = {
        name: torch.stack([one[name] for one in pieces], dim=-1)
        .repeat_interleave(chains * len(RUNGS), dim=-1)
        .to(device)
        for name in LEARNED
    }
    sampler = _Sampler(rota, evidence, start)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    shape = (patients + nurses + 1, traces, steps, chains * len(RUNGS))
    for sweep in range(burn_in + sweeps):
        drawn = [torch.rand(shape, generator=g, dtype=torch.float64) for g in generators]
        draws = torch.cat(drawn, dim=-1).to(device)
        sampler.sweep(draws[:-1])
        sampler.exchange(sweep % 2, draws[-1, :, 0])
        if sweep >= burn_in:
            sampler.count()
    means = {
        name: total.unflatten(-1, (-1, chains)).sum(-1).cpu() / (sweeps * chains)
        for name, total in sampler.totals.items()
    }
    return [
        {name: mean[..., run].contiguous() for name, mean in means.items()}
        for run in range(len(labels))
    ]


def _shapes(size: Size) -> dict[str, tuple[int, ...]]:
    numbers = {"nurse": size.nurses, "patient": size.patients}
    return {
        name: (
            size.traces,
            *(numbers[sort] for sort in SORTS[name]),
            1 if name == "Recovers" else size.steps,
        )
        for name in LEARNED
    }


class _Sampler:
    """Draws all patients and nurses in all chains of all runs.

    A row is a copy of a chain of a run; the copies of a chain are adjacent, in the order of
    `RUNGS`. Tables have shape (trace, *entities, time, row).

    Args:
        rota: shape (trace, nurse, patient, time).
        evidence: the table of evidence for each predicate.
        start: the ward at which chains start; by default, nobody is ill.
    """

    def __init__(self, rota: Flags, evidence: Degrees, start: Ward | None) -> None:
        device, rows = evidence["Ill"].device, evidence["Ill"].shape[-1]
        traces, nurses, patients, steps = rota.shape

        def moved(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Tensor:
            return torch.from_numpy(array.copy()).to(device)

        self.strength = torch.tensor(RUNGS, dtype=torch.float64, device=device)
        self.strength = self.strength.repeat(rows // len(RUNGS))
        self.full = evidence
        evidence = {name: table * self.strength for name, table in evidence.items()}
        self.evidence, self.rota = evidence, moved(rota)[..., None]
        chain = patient_chain(nurses)
        self.start, self.chain = moved(chain.initial), moved(chain.transition)[None, None]
        self.kinds = {
            kind: moved(chain.where(kind)) for kind in ("well", "falls", "waits", "left", "tended")
        }
        points, nurse, gap = (chain.column(name) for name in ("points", "nurse", "gap"))
        self.ill, self.unseen = ~self.kinds["well"], self.kinds["falls"] | self.kinds["waits"]
        self.alone = self.kinds["waits"] | (self.kinds["left"] & moved(points > 1))
        self.by = [moved(nurse == n) for n in range(nurses)]
        self.begins = [moved((nurse == n) & (gap > 0)) for n in range(nurses)]
        self.after_gap = [moved(gap == length) for length in range(1, WINDOW + 1)]
        self.recovered = moved(chain.column("recovered"))
        soon = pad(evidence["Soon"], (0, 0, WINDOW, 0))
        back = [soon[..., WINDOW - j : WINDOW - j + steps, :] for j in range(1, WINDOW + 1)]
        self.soon = torch.stack(back).cumsum(0)
        first, table = nurse_chain()
        self.nurse_start, self.nurse_chain = moved(first), moved(table)[None, None]
        phase = torch.arange(NURSE_STATES, device=device)
        self.resting = (phase >= RESTING) & (phase < PAUSING)
        nothing = torch.zeros(traces, patients, steps, rows, dtype=torch.bool, device=device)
        if start is None:
            self.is_ill = nothing
            self.tends = nothing[:, None].repeat(1, nurses, 1, 1, 1)
            self.phase = torch.full((traces, nurses, steps, rows), READY, device=device)
        else:
            self.is_ill = moved(start.ill)[..., None] | nothing
            self.tends = moved(start.tends)[..., None] | nothing[:, None]
            self.phase = moved(phases(start.rests))[..., None].repeat(1, 1, 1, rows)
        self.has_recovered = torch.zeros_like(self.is_ill[:, :, :1])
        self.is_unseen = nothing.clone()
        self.totals = {n: torch.zeros_like(one[..., :: len(RUNGS)]) for n, one in evidence.items()}

    def sweep(self, draws: Tensor) -> None:
        """Draw the track of every patient, and the rests of every nurse.

        Args:
            draws: numbers in [0, 1), shape (patient or nurse, trace, time, row).
        """
        patients = self.is_ill.shape[1]
        for patient in range(patients):
            self._draw_patient(patient, draws[patient])
        for nurse in range(self.phase.shape[1]):
            self._draw_nurse(nurse, draws[patients + nurse])

    def exchange(self, first: int, draws: Tensor) -> None:
        """Let neighbouring copies exchange traces, with the probability that labels imply.

        Args:
            first: the first copy that is compared with the one after it; then every second one is.
            draws: numbers in [0, 1), shape (trace, row).
        """
        traces, rows = draws.shape
        likely = torch.zeros_like(draws)
        for name, table in self._now().items():
            likely += (table * self.full[name]).flatten(1, -2).sum(1)
        rung = torch.arange(rows, device=draws.device) % len(RUNGS)
        left = ((rung >= first) & ((rung - first) % 2 == 0) & (rung + 1 < len(RUNGS))).nonzero()
        left = left[:, 0]
        gain = (self.strength[left] - self.strength[left + 1]) * (
            likely[:, left + 1] - likely[:, left]
        )
        taken = draws[:, left] < gain.exp()
        source = torch.arange(rows, device=draws.device).repeat(traces, 1)
        source[:, left] += taken.long()
        source[:, left + 1] -= taken.long()
        for table in (self.is_ill, self.is_unseen, self.has_recovered, self.tends, self.phase):
            where = source.view(traces, *[1] * (table.ndim - 2), rows).expand_as(table)
            table.copy_(table.gather(-1, where))

    def _draw_patient(self, patient: int, draws: Tensor) -> None:
        """Draw a new track of a patient in all traces; tensors are (trace, time, row, state)."""
        tends, phase = self.tends, self.phase
        tends[:, :, patient] = False
        elsewhere = tends.any(2)
        rests = self.resting[phase]
        may_come = ~_before(elsewhere) & ~rests & self.rota[:, :, patient]
        may_come[:, :, 0] = False
        # What a nurse would have done at the next time point if she had been free.
        ready = (phase == READY) | (phase == NURSE_STATES - 1)
        begins_rest = ready & _next(rests)
        alone = self.is_ill & ~tends.any(1)
        alone[:, patient] = False
        called = (self.rota & _before(alone)[:, None]).any(2)
        called[:, :, 0] = False
        called = _next(called & ~rests)
        never = rests | elsewhere | begins_rest | _next(elsewhere)
        quiet = ready * -_log1m(RESTS) + called * -_log1m(COMES)
        quiet[:, :, -1] = 0.0

        evidence = self.evidence
        gain = evidence["Ill"][:, patient, ..., None] * self.ill
        gain += evidence["Unseen"][:, patient, ..., None] * self.unseen
        gain += evidence["Cared"][:, patient, ..., None] * self.kinds["tended"]
        gain += may_come.any(1)[..., None] * self.alone * _log1m(COMES)
        for soon, after in zip(self.soon[:, :, patient], self.after_gap, strict=True):
            gain += soon[..., None] * after
        gain[:, -1] += evidence["Recovers"][:, patient, 0, :, None] * self.recovered
        for nurse, (by, begins) in enumerate(zip(self.by, self.begins, strict=True)):
            of_nurse = evidence["Tends"][:, nurse, patient] + evidence["Busy"][:, nurse]
            of_nurse = of_nurse + quiet[:, nurse]
            gain += torch.where(never[:, nurse], _NEVER, of_nurse)[..., None] * by
            gain += ~may_come[:, nurse, ..., None] * begins * _NEVER
        steps = gain.shape[1]
        state = draw_paths(gain, self.start, self.chain.expand(1, steps, -1, -1), draws)
        self.is_ill[:, patient] = self.ill[state]
        self.is_unseen[:, patient] = self.unseen[state]
        self.has_recovered[:, patient, 0] = self.recovered[state[:, -1]]
        for nurse, by in enumerate(self.by):
            tends[:, nurse, patient] = by[state]

    def _draw_nurse(self, nurse: int, draws: Tensor) -> None:
        """Draw new rests of a nurse in all traces."""
        busy = self.tends[:, nurse].any(1)
        before = _before(busy)
        alone = self.is_ill & ~self.tends.any(1)
        called = (self.rota[:, nurse] & _before(alone)).any(1) & ~before
        called[:, 0] = False
        resting = self.evidence["Rests"][:, nurse] - called * _log1m(COMES)
        resting = torch.where(busy, _NEVER, resting)
        gain = resting[..., None] * self.resting
        gain[..., RESTING] += before * _NEVER
        gain[..., READY] += ~before * _log1m(RESTS)
        steps = gain.shape[1]
        table = self.nurse_chain.expand(1, steps, -1, -1)
        self.phase[:, nurse] = draw_paths(gain, self.nurse_start, table, draws)

    def count(self) -> None:
        """Add the current state of copies in which labels count in full to the totals."""
        for name, table in self._now().items():
            self.totals[name] += table[..., :: len(RUNGS)]

    def _now(self) -> dict[str, Tensor]:
        """Return what is true now."""
        cared = self.tends.any(1)
        soon = torch.zeros_like(cared)
        for ahead in range(1, min(WINDOW + 1, cared.shape[2])):
            soon[:, :, :-ahead] |= cared[:, :, ahead:]
        return {
            "Ill": self.is_ill,
            "Rests": self.resting[self.phase],
            "Tends": self.tends,
            "Cared": cared,
            "Busy": self.tends.any(2),
            "Unseen": self.is_unseen,
            "Soon": soon & ~cared,
            "Recovers": self.has_recovered,
        }


def _before(table: Tensor) -> Tensor:
    """Shift a table one time point later; False at the first. Time is the second-last axis."""
    return pad(table[..., :-1, :], (0, 0, 1, 0))


def _next(table: Tensor) -> Tensor:
    """Shift a table one time point earlier; False at the last."""
    return pad(table[..., 1:, :], (0, 0, 0, 1))


def _log1m(rate: float) -> float:
    return float(np.log1p(-rate))
