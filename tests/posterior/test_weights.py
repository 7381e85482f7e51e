"""Weights of soft axioms are learned: those that make the labels most likely."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fotltn.errors import DataError
from fotltn.grounding.labels import Labels
from fotltn.logic.check import check
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import SamplingRun, sample
from fotltn.posterior.sampler import Sampling
from fotltn.posterior.weights import DEVIATION
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from tests.posterior.oracle import STAYS, Case, Exact, coming_and_going, stated

HOW = Sampling(worlds=256, burn_in=150, sweeps=1, enough=0, learn=False, weights="learned")

#: Of one point of a track, of two of its points, of two tracks, of a relation and its arguments.
THEORIES = {
    "point": ("P Q", ["axiom A: forall x. G(P(x) -> Q(x))"]),
    "step": ("P", ["axiom A weight 2: forall x. G(P(x) -> WX P(x))"]),
    "tracks": ("P", ["axiom A weight 0.5: forall x, z. G(P(x) -> P(z))"]),
    "relation": ("P Tie", ["axiom A: forall x, y. G(Tie(x, y) -> P(x))"]),
    "until": ("P Q", ["axiom A: forall x. G(P(x) -> F Q(x))",
                      "axiom B: forall x. G(Q(x) -> P(x))"]),
    "hard": ("P V", ["hard axiom Here: forall x. G(P(x) -> Near(x))",
                     "axiom A: forall x, y. G(P(x) & Has(x, y) -> V(y))"]),
}  # fmt: skip


def small(text: str, seed: int) -> tuple[Case, Exact]:
    """A theory with labels by chance, few enough to enumerate all worlds."""
    learned, axioms = THEORIES[text]
    for attempt in range(100):
        one = stated(random.Random(100 * seed + attempt), seed, axioms, learned.split())
        exact = Exact(one, one.learned, {})
        if 4 <= exact.atoms <= 12 and exact.marginals is not None and one.labels.total >= 3:
            return one, exact
    raise AssertionError(text)


def best(exact: Exact, written: dict[str, float]) -> dict[str, float]:
    """Where labels are most likely, with what is believed of weights, by enumeration."""
    cells = torch.stack([exact.broken[name] for name in written], 1)
    start = torch.tensor([*written.values()], dtype=torch.float64)
    weights = start.clone()

    def shares(log: Tensor) -> Tensor:
        return torch.softmax(log - cells @ weights, 0)

    for _ in range(20_000):
        free, told = shares(exact.prior), shares(exact.prior + exact.likelihood)
        slope = free @ cells - told @ cells + (start - weights) / DEVIATION**2
        weights = (weights + 0.05 * slope).clamp_min(0.0)
    return dict(zip(written, weights.tolist(), strict=True))


def problem(one: Case, how: Sampling) -> Problem:
    return Problem(
        one.theory, one.tables, one.labels, one.learned, rates=one.rates, sampling=how, end=one.end
    )


def learned(one: Case, how: Sampling) -> dict[str, float]:
    run = SamplingRun(problem(one, how))
    while not run.finished:
        run.sweep()
    return run.sampler.learned_weights


def compared(text: str, seed: int, runs: int) -> list[float]:
    """By how many standard errors what is learned differs from what is best."""
    one, exact = small(text, seed)
    wanted = best(exact, {a.name: a.weight for a in one.theory.axioms if not a.hard})
    draws = [learned(one, replace(HOW, seed=n)) for n in range(runs)]
    result = []
    for name, value in wanted.items():
        values = torch.tensor([draw[name] for draw in draws], dtype=torch.float64)
        error = float(values.std()) / math.sqrt(runs)
        result.append((float(values.mean()) - value) / max(error, 0.03))
    return result


@pytest.mark.parametrize(("text", "seed"), [("point", 1), ("until", 4)])
def test_weights_make_labels_most_likely(text, seed):
    """Also beside an axiom that labels speak against, whose weight is 0."""
    assert all(abs(z) < 4 for z in compared(text, seed, 2))


@pytest.mark.slow
@pytest.mark.parametrize("text", THEORIES)
def test_weights_make_labels_most_likely_in_many_theories(text):
    deviations = torch.tensor([z for seed in range(5) for z in compared(text, seed, 6)])
    assert float(deviations.abs().max()) < 5
    assert float((deviations**2).mean()) < 2.5


# --- larger worlds ------------------------------------------------------------------------------

TEAM = """
sort a
predicate P(a)
static predicate Pair(a, a)
axiom Agree{weight}: forall x, z. G(Pair(x, z) -> (P(x) <-> P(z)))
"""


def drawn_pair(weight: float, steps: int, draw: torch.Generator) -> Tensor:
    """What two do that each stay as they are with 0.9, and agree with a weight."""
    stay = torch.tensor([[STAYS, 1 - STAYS], [1 - STAYS, STAYS]])
    moves = torch.kron(stay, stay)  # both of them as one number
    agree = torch.tensor([1.0, math.exp(-weight), math.exp(-weight), 1.0])
    later = [torch.ones(4)]
    for _ in range(steps - 1):
        later.append(moves @ (agree * later[-1]))
    state = int(torch.multinomial(agree * later.pop(), 1, generator=draw))
    states = [state]
    while later:
        state = int(torch.multinomial(moves[state] * agree * later.pop(), 1, generator=draw))
        states.append(state)
    both = torch.tensor(states)
    return torch.stack([both >> 1, both & 1]).bool()


def team(weight: float, seed: int, *, written: str = "", pairs: int = 5, burn: int = 40) -> Problem:
    """Pairs that agree with a known weight, and labels of most of what they do."""
    theory = check(parse_theory(TEAM.format(weight=written)))
    steps, entities = 40, 2 * pairs
    known = torch.zeros(1, entities, entities, 1, dtype=torch.float64)
    known[0, range(0, entities, 2), range(1, entities, 2)] = 1.0
    tables = Tables(
        {"a": entities}, torch.tensor([steps]), steps, {"Pair": known}, signature=theory.signature
    )
    draw = torch.Generator().manual_seed(seed)
    truth = torch.stack([drawn_pair(weight, steps, draw) for _ in range(pairs)])
    truth = truth.reshape(1, entities, steps)
    index = (torch.rand(truth.shape, generator=draw) < 0.7).nonzero().T
    said = truth[tuple(index)] ^ (torch.rand(index.shape[1], generator=draw) < 0.05)
    labels = Labels({"P": index}, {"P": said.double()})
    return Problem(
        theory, tables, labels, ["P"], {"P": NoiseRates(0.05, 0.05)},
        Sampling(16, burn, 1, enough=0, seed=seed, learn=False, weights="learned"),
    )  # fmt: skip


def weight_of(problem: Problem) -> float:
    run = SamplingRun(problem)
    while not run.finished:
        run.sweep()
    return run.sampler.learned_weights["Agree"]


@pytest.mark.slow
def test_weights_that_made_worlds_are_learned():
    """Where pairs agree by chance, it is 0. Each trial has a deviation of about 0.1."""
    for weight, tolerance in ((0.0001, 0.1), (0.5, 0.1), (1.0, 0.12)):
        learned = [weight_of(team(weight, seed, pairs=12, burn=100)) for seed in range(8)]
        assert sum(learned) / len(learned) == pytest.approx(weight, abs=tolerance)


def best_of_pairs(problem: Problem) -> float:
    """Where the labels of pairs are most likely, with what is believed of weights, exactly."""
    entities, steps = problem.tables.sizes["a"], problem.tables.horizon
    missed, invented = problem.rates["P"] or (0.0, 0.0)
    index, says = problem.labels.index["P"], problem.labels.truth["P"] == 1
    true = torch.where(says, 1 - missed, missed).double().log()
    false = torch.where(says, invented, 1 - invented).double().log()
    likely = torch.zeros(entities, steps, 2, dtype=torch.float64)
    likely[index[1], index[2]] = torch.stack([false, true], 1)
    one, other = likely.unflatten(0, (-1, 2)).unbind(1)
    told = (one.unsqueeze(-1) + other.unsqueeze(-2)).flatten(2)  # pair, time, values of both
    stay = torch.tensor([[STAYS, 1 - STAYS], [1 - STAYS, STAYS]], dtype=torch.float64)
    moves = torch.kron(stay, stay).log()
    apart = torch.tensor([0.0, 1.0, 1.0, 0.0], dtype=torch.float64)

    def total(by_point: Tensor) -> Tensor:
        """The logarithm of the sum over all that pairs may do."""
        so_far = by_point[:, 0]
        for point in by_point[:, 1:].unbind(1):
            so_far = torch.logsumexp(so_far.unsqueeze(-1) + moves, 1) + point
        return torch.logsumexp(so_far, 1).sum()

    (axiom,) = problem.theory.axioms
    weights = torch.linspace(0.0, 6.0, 241, dtype=torch.float64)
    worth = [
        total(told - w * apart) - total(torch.zeros_like(told) - w * apart)
        - (w - axiom.weight) ** 2 / (2 * DEVIATION**2)
        for w in weights
    ]  # fmt: skip
    return float(weights[torch.stack(worth).argmax()])


@pytest.mark.parametrize(("weight", "written"), [(1.5, ""), (30.0, " weight 0.2")])
def test_the_weight_that_made_a_world_is_learned(weight, written):
    """An axiom that always holds gets a larger weight, wherever that begins, and no end of it."""
    asked = team(weight, 1, written=written)
    assert weight_of(asked) == pytest.approx(best_of_pairs(asked), abs=0.6)


@pytest.mark.slow
def test_large_weights_are_learned_where_labels_are_most_likely():
    """Not too large, although worlds without labels come to rest late.

    They begin where those with labels are. Each trial has a deviation of about 0.25.
    """
    problems = [team(2.0, seed, pairs=12, burn=100) for seed in range(8)]
    wrong = [weight_of(one) - best_of_pairs(one) for one in problems]
    assert sum(wrong) / len(wrong) == pytest.approx(0.0, abs=0.25)


def test_only_the_named_weights_are_learned():
    one, _ = small("until", 0)
    some = replace(HOW, worlds=16, weights=("B",))
    weights = SamplingRun(problem(one, some)).sampler.learned_weights
    assert weights == {"B": 1.0}
    with pytest.raises(DataError, match="weights: the theory has no axiom 'C'; there are 'A', 'B'"):
        sample(problem(one, replace(some, weights=("C",))))
    one, _ = small("hard", 0)
    with pytest.raises(DataError, match="'Here' is hard, and only soft axioms have a weight"):
        sample(problem(one, replace(some, weights=("Here",))))
    none = replace(one.theory, axioms=tuple(replace(a, weight=0.0) for a in one.theory.axioms))
    with pytest.raises(DataError, match="'A' has the weight 0, so it has no effect"):
        sample(problem(replace(one, theory=none), replace(some, weights=("A",))))


def test_who_comes_and_goes_is_weighed_while_there():
    """Weights that are learned count in draws of tracks that begin late as in all others."""
    one = coming_and_going(small("step", 0)[0], 5)
    run = SamplingRun(problem(one, replace(HOW, worlds=16)))
    assert run.sampler.movers[0].spans is not None
    run.sampler.scales["A"] = 3.0
    fixed = replace(one.theory, axioms=tuple(replace(a, weight=6.0) for a in one.theory.axioms))
    other = SamplingRun(problem(replace(one, theory=fixed), replace(HOW, worlds=16)))
    for each in (run, other):
        each.sampler.sweep(0)
    assert all(run.sampler.tables[n].equal(t) for n, t in other.sampler.tables.items())
    assert run.sampler.density().allclose(other.sampler.density())
