"""Priors that depend on tracks above: densities, draws, and what they say about causes."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
import torch

import fotltn
from fotltn.grounding.labels import Labels
from fotltn.logic.check import check
from fotltn.posterior import structure
from fotltn.posterior.evidence import LabelEvidence
from fotltn.posterior.joint import JointMoves, chance, random_window
from fotltn.posterior.run import sampler_of
from fotltn.posterior.sampler import Sampler, Sampling
from fotltn.posterior.structure import structure as structure_of
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from tests.posterior.oracle import Exact
from tests.posterior.test_enumeration import every_world, give_habits
from tests.posterior.test_joint import THEORIES, problem, tied

#: Chains, which are independent of each other, and the sweeps that count.
WORLDS, SWEEPS = 600, 12

#: Axioms about racks and servers, what is learned, and the numbers of racks, servers and points.
CASES = {
    "now": ("Out Slow", (2, 3, 2), "G(Out(r) -> Slow(s))", "window"),
    "two causes": ("Out Was Slow", (1, 2, 2), "G(Out(r) | Was(r) -> Slow(s))", "window"),
    "either": ("Out Slow Worn", (1, 2, 2), "G(Out(r) -> Slow(s) | Worn(s))", "window"),
    "before": ("Out Slow", (1, 2, 3), "G(Y Out(r) -> Slow(s))", "window"),
    "ever": ("Out Slow", (1, 2, 3), "G(O Out(r) -> Slow(s))", "window"),
    "next": ("Out Slow", (1, 2, 3), "G(Out(r) -> WX Slow(s))", "tested"),
    "long ago": ("Out Slow", (1, 2, 3), "G(O[2,9] Out(r) -> Slow(s))", "window"),
}


def z_scores(name: str, seed: int) -> torch.Tensor:
    """How far sampled probabilities are from exact ones under a random prior, in errors."""
    one = tied(name, seed)
    how = Sampling(WORLDS, 20, SWEEPS, enough=0, stored=1, seed=seed, learn=False)
    sampler = sampler_of(problem(one, how))
    formulas = {n: d.formula for n, d in sampler.structure.definitions.items()}
    exact = Exact(one, sampler.structure.free, formulas)
    assert exact.marginals is not None
    give_habits(sampler, seed)
    worlds, feasible = every_world(sampler, exact)
    log = torch.where(feasible, worlds.density()[:, 0], -torch.inf)
    weight = (log - log.max()).exp()
    weight /= weight.sum()
    sums = {n: torch.zeros(t.shape, dtype=torch.float64) for n, t in sampler.tables.items()}
    for number in range(20 + SWEEPS):
        sampler.sweep(number)
        if number >= 20:
            for predicate, total in sums.items():
                total += sampler.tables[predicate]
    found = []
    for predicate in exact.marginals:
        table = worlds.tables[predicate]
        p = (table * weight.reshape(-1, *[1] * (table.dim() - 1))).sum(0)
        shares = sums[predicate] / SWEEPS
        error = (shares.std(0) / WORLDS**0.5).clamp_min(1e-3)
        found.append(((shares.mean(0) - p) / error).flatten())
    return torch.cat(found)


@pytest.mark.parametrize("moves", ["joint", "alone"])
@pytest.mark.parametrize(
    ("name", "seed"),
    [(name, 0) for name in CASES]
    + [pytest.param(name, seed, marks=pytest.mark.slow) for name in CASES for seed in (1, 2, 3)],
)
def test_probabilities_equal_those_of_enumeration(name, seed, moves, monkeypatch):
    monkeypatch.setattr(structure, "_MOST_JOINED", 1)  # so that tracks move one at a time
    learned, sizes, says, route = CASES[name]
    axiom = f"hard axiom Drag: forall s, r. {says}"
    monkeypatch.setitem(THEORIES, name, (learned, sizes, axiom))
    if moves == "alone":
        monkeypatch.setattr(JointMoves, "move", lambda *_: None)
    plan = sampler_of(problem(tied(name, seed), Sampling(4, learn=False))).structure
    (factor,) = [f for kind in plan.kinds for f in kind.factors if f.below]
    assert (factor.span is not None) == (route == "window")
    z = z_scores(name, seed)
    assert float(z.abs().max()) < 4.5
    assert float(z.square().mean()) < 5


FARM = """
sort rack, server
static predicate In(server, rack)
predicate Down(rack), Slow(server)
hard axiom Drag: forall s, r. G(In(s, r) & Down(r) -> Slow(s))
"""


def test_what_a_track_above_forces_costs_nothing(monkeypatch):
    """The log-probability of worlds, against loops over the tables of the prior."""
    monkeypatch.setattr(structure, "_MOST_JOINED", 1)
    inside = torch.tensor([[[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]])
    theory, sizes = check(parse_theory(FARM)), {"rack": 3, "server": 6}
    tables = Tables(
        sizes, torch.tensor([9]), 9, {"In": inside.unsqueeze(-1).double()},
        signature=theory.signature,
    )  # fmt: skip
    plan = structure_of(theory, tables, ["Down", "Slow"], [])
    nothing = LabelEvidence(Labels({}, {}), {})
    sampler = Sampler(plan, tables, nothing, Sampling(worlds=5, learn=False))
    give_habits(sampler, 3)
    down = torch.rand(5, 1, 3, 9, generator=torch.Generator().manual_seed(1)) < 0.4
    held = (down.unsqueeze(2) & inside.bool().reshape(1, 1, 6, 3, 1)).any(3)
    alone = torch.rand(held.shape, generator=torch.Generator().manual_seed(2)) < 0.5
    sampler.tables["Down"].copy_(down)
    sampler.tables["Slow"].copy_(held | alone)
    wanted = torch.zeros(5, dtype=torch.float64)
    (of_rack,), (of_server,) = (mover.prior.groups for mover in sampler.movers)
    begins, moves = sampler.prior.initial, sampler.prior.moves
    # Told apart by whether the rack is up, and by whether the trace has begun.
    assert of_server.shape == (2, 2)
    for world in range(5):
        for rack in range(3):
            values = sampler.tables["Down"][world, 0, rack].long().tolist()
            wanted[world] += begins[of_rack.names][0, values[0]]
            for old, new in pairwise(values):
                wanted[world] += moves[of_rack.names][0, old, new]
        for server in range(6):
            values = sampler.tables["Slow"][world, 0, server].long().tolist()
            up = (~held[world, 0, server]).long().tolist()
            for time, (now, told) in enumerate(zip(values, up, strict=True)):
                # The last table is for values without a choice.
                table = 2 * told + (time > 0) if told else of_server.number - 1
                wanted[world] += (
                    begins[of_server.names][table, now]
                    if time == 0
                    else moves[of_server.names][table, values[time - 1], now]
                )
    assert torch.allclose(sampler.density()[:, 0], wanted)


def farm(
    seed: int, racks: int, servers: int
) -> tuple[dict[str, list[object]], dict[tuple[str, int], bool]]:
    """Facts about racks of servers, few of them labelled; and whether racks are down."""
    draw, truth = random.Random(seed), {}
    rows: list[tuple[object, ...]] = []
    for rack in (f"r{n}" for n in range(racks)):
        down = False
        slow = dict.fromkeys(range(servers), False)
        rows += [("In", f"{rack}s{n}", rack, None, 1) for n in slow]
        for time in range(60):
            down = draw.random() < (0.9 if down else 0.05)
            truth[rack, time] = down
            for n in slow:
                slow[n] = down or draw.random() < (0.7 if slow[n] else 0.03)
                if draw.random() < 0.15:
                    rows.append(("Slow", f"{rack}s{n}", None, time, int(slow[n])))
    names = ("predicate", "arg1", "arg2", "time", "truth")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)), truth


@pytest.mark.parametrize(("racks", "servers"), [(5, 8), (1, 4)], ids=["many", "few"])
def test_effects_that_come_together_have_a_cause(racks, servers):
    """No rack has a label, but where all its servers are slow, it is down."""
    facts, truth = farm(0, racks, servers)
    model = fotltn.train(
        FARM, facts=facts, learn=["Down", "Slow"], method="posterior",
        objective={"missed": 0.01, "invented": 0.01},
        posterior={"worlds": 16, "burn_in": 40, "sweeps": 20},
    )  # fmt: skip
    table = model.ask("Down(r)", at="all").tensor[0]
    names = model.facts.entities["rack"]
    wrong = [
        (float(table[names.index(rack), time]) > 0.5) != down
        for (rack, time), down in truth.items()
        if time < table.shape[-1]
    ]
    assert sum(truth.values()) > 0.15 * len(wrong)  # to say "never" would be wrong that often
    assert sum(wrong) < 0.1 * len(wrong)


@pytest.mark.parametrize(("length", "horizon"), [(5, 5), (4, 6), (2, 2), (1, 3)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_windows_are_as_likely_as_they_are_said_to_be(length, horizon, seed):
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(1, 1, horizon, generator=generator) < seed / 2
    lengths, number = torch.tensor([length]), 40_000
    drawn = random_window(values.expand(number, -1, -1).clone(), lengths, generator)
    every = [(a, b) for a in range(length) for b in range(a + 1, length + 1)]
    total = 0.0
    for begin, end in every:
        window = torch.zeros(1, 1, horizon, dtype=torch.bool)
        window[..., begin:end] = True
        p = float(chance(values, window, lengths))
        share = float((drawn == window).all(-1).double().mean())
        assert abs(share - p) < 5 * math.sqrt(max(p * (1 - p), 1e-6) / number)
        total += p
    assert total == pytest.approx(1)
