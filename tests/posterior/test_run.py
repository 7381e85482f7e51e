"""Sampling that is interrupted and goes on, and what is asked of worlds."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fotltn.errors import DataError
from fotltn.grounding.labels import Labels
from fotltn.logic.check import CheckedTheory, check, check_formula
from fotltn.posterior.bits import packed, unpacked
from fotltn.posterior.mixing import MixingReport
from fotltn.posterior.plan import plan_of
from fotltn.posterior.posterior import Posterior
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import SamplingProgress, SamplingRun, sample, sampler_of
from fotltn.posterior.sampler import Sampling
from fotltn.semantics import crisp
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula

THEORY = """
sort robot
predicate Faulty(robot), Slow(robot), Alarm, Near(robot)
static predicate Worn(robot)
hard axiom D1: G(Alarm <-> exists r. Faulty(r) & Near(r))
hard axiom D2: forall r. Worn(r) <-> F Faulty(r)
hard axiom Stays: forall r. G(Faulty(r) -> WX (Faulty(r) | Slow(r)))
axiom Signs weight 2: forall r. G(Faulty(r) -> Slow(r))
"""
LEARNED = ("Faulty", "Slow", "Alarm", "Worn")
HOW = Sampling(worlds=6, burn_in=8, sweeps=12, stored=3, seed=5)


def theory() -> CheckedTheory:
    return check(parse_theory(THEORY))


def tables(traces: int = 2, robots: int = 3, times: int = 7) -> Tables:
    near = torch.rand(traces, robots, times, generator=torch.Generator().manual_seed(1)) > 0.4
    lengths = torch.tensor([times - 2 * n for n in range(traces)])
    return Tables(
        {"robot": robots}, lengths, times, {"Near": near.float()}, signature=theory().signature
    )


def labels() -> Labels:
    index = {
        "Faulty": torch.tensor([[0, 0, 1], [0, 1, 2], [3, 5, 2]]),
        "Slow": torch.tensor([[0, 0, 1, 1], [0, 1, 0, 2], [2, 4, 0, 1]]),
        "Alarm": torch.tensor([[0, 0, 1], [1, 4, 3]]),
    }
    truth = {
        "Faulty": torch.tensor([1.0, 0.0, 1.0]),
        "Slow": torch.tensor([1.0, 0.0, 0.0, 1.0]),
        "Alarm": torch.tensor([0.0, 1.0, 1.0]),
    }
    return Labels(index, truth)


def problem() -> Problem:
    rates = {"Faulty": None, "Slow": None}
    return Problem(theory(), tables(), labels(), LEARNED, rates=rates, sampling=HOW)


def result() -> Posterior:
    return sample(Problem(theory(), tables(), labels(), LEARNED, sampling=HOW))


def assert_same_worlds(one: Posterior, other: Posterior) -> None:
    for name in LEARNED:
        assert one.marginals[name].equal(other.marginals[name])
        assert one.worlds[name].equal(other.worlds[name])
    assert one.density.equal(other.density)


def assert_same(one: Posterior, other: Posterior) -> None:
    assert_same_worlds(one, other)
    assert (one.rates, one.violations, one.mixing) == (other.rates, other.violations, other.mixing)


@pytest.mark.parametrize("stops", [(3,), (8,), (9, 14), (20,)])
def test_a_run_that_goes_on_ends_as_if_it_had_not_stopped(stops):
    straight = SamplingRun(problem())
    while not straight.finished:
        straight.sweep()
    run = SamplingRun(problem())
    for stop in stops:
        while run.done < stop:
            run.sweep()
        state = run.state()
        run = SamplingRun(problem())
        run.restore(*state)
    while not run.finished:
        run.sweep()
    assert_same(run.result(), straight.result())


# --- until it is enough -------------------------------------------------------------------------

LONG = replace(HOW, enough=0, worlds=24, burn_in=4, sweeps=32, stored=4)


def ran(how: Sampling, stop: int | None = None) -> SamplingRun:
    """A run to its end, perhaps interrupted once."""
    asked = replace(problem(), sampling=how)
    run = SamplingRun(asked)
    while not run.finished:
        run.sweep()
        if run.done == stop:
            state = run.state()
            run = SamplingRun(asked)
            run.restore(*state)
    return run


def test_a_run_ends_when_it_is_enough():
    first, again = (ran(replace(LONG, enough=1), stop) for stop in (None, 9))
    assert first.done < LONG.burn_in + LONG.sweeps == 36
    assert first.reason == f"chains agree after {first.done} of 36 sweeps"
    counted = first.done - LONG.burn_in
    assert first.result().sweeps == counted
    every = ran(replace(LONG, sweeps=counted)).result()
    assert_same_worlds(first.result(), every)
    assert_same(first.result(), again.result())


def test_a_run_that_is_never_enough_does_all_sweeps():
    every = ran(LONG).result()
    first, again = (ran(replace(LONG, enough=10**9), stop) for stop in (None, 21))
    assert first.reason == "all 36 sweeps are done"
    assert_same_worlds(first.result(), every)  # as far apart as if nobody had asked
    assert first.result().violations == every.violations
    assert_same(first.result(), again.result())


@pytest.mark.parametrize(
    ("r_hat", "effective", "enough"),
    [
        ({"P": 1.09, "Q": 1.0}, {"P": 100.0, "Q": 101.0}, True),
        ({"P": 1.11, "Q": 1.0}, {"P": 900.0, "Q": 900.0}, False),
        ({"P": 1.0, "Q": 1.0}, {"P": 900.0, "Q": 99.0}, False),
        ({}, {}, True),  # nothing is open
    ],
)
def test_what_is_enough(r_hat, effective, enough):
    assert MixingReport(r_hat, effective).enough(100) is enough


@pytest.mark.parametrize(
    ("sweeps", "enough", "looks"),
    [
        (80, 9, (20, 40, 80)),
        (80, 0, (80,)),
        (20, 9, (10, 20)),
        (15, 9, (15,)),
        (33, 9, (8, 16, 33)),
    ],
)
def test_when_it_is_looked(sweeps, enough, looks):
    how = Sampling(sweeps=sweeps, enough=enough, stored=4)
    assert how.looks == looks
    for look in looks:
        assert sum(how.stores(counted, look) for counted in range(1, look + 1)) == 4
        assert how.stores(look, look)


@pytest.mark.parametrize(
    ("tensor", "value", "message"),
    [
        ("sums/Slow", torch.zeros(2, 3, 7), "the sum of Slow does not fit"),
        ("sums/Alarm", torch.full((2, 7), torch.nan).double(), "the sum of Alarm does not fit"),
        ("worlds/Alarm", torch.zeros(3).byte(), "84 truth values are not 3 bytes"),
        (
            "prior/moves/Faulty,Slow", torch.zeros(1, 4, 4).double(),
            "the prior of 'Faulty', 'Slow' does not fit",
        ),
        ("done", 21, "it has 21 of 20 sweeps"),
        ("done", -1, "it has -1 of 20 sweeps"),
        ("done", "4", "it has 4 of 20 sweeps"),
        ("stored", [1], "the number of its worlds is not the one it states"),
    ],
)  # fmt: skip
def test_a_state_of_another_run_is_refused(tensor, value, message):
    run = SamplingRun(problem())
    run.sweep()
    tensors, document = run.state()
    (document if tensor in document else tensors)[tensor] = value
    with pytest.raises(ValueError, match=message):
        SamplingRun(problem()).restore(tensors, document)


def test_a_seed_reproduces():
    assert_same(result(), result())


def test_progress_is_told_of_every_sweep():
    told: list[SamplingProgress] = []
    sample(Problem(theory(), tables(), labels(), LEARNED, sampling=HOW), report=told.append)
    assert [(p.sweep, p.of) for p in told] == [(n, 20) for n in range(1, 21)]
    assert [p.counts for p in told] == [False] * 8 + [True] * 12
    assert [p.sweep for p in told if p.mixing is not None] == [18]


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 0, 4), (8,), (2, 3, 7)])
def test_bits_come_back(shape):
    truth = torch.rand(shape, generator=torch.Generator().manual_seed(2)) > 0.5
    assert unpacked(packed(truth), shape).equal(truth)


def test_bits_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="17 truth values are not 2 bytes"):
        unpacked(packed(torch.ones(16, dtype=torch.bool)), (17,))


def test_cells_that_break_soft_axioms_are_counted():
    posterior = sample(replace(problem(), sampling=replace(HOW, stored=12)))
    body = check_formula(parse_formula("Faulty(r) -> Slow(r)"), theory().signature)
    truth = posterior.truth(body).tensor
    inside = posterior.tables.inside.unsqueeze(1)
    broken = (~truth & inside).flatten(1).sum(1)
    counted = posterior.violations["Signs"]
    assert counted.mean == pytest.approx(float(broken.double().mean()))
    within = (broken >= counted.low) & (broken <= counted.high)
    assert float(within.double().mean()) >= 0.95
    for strict in ((broken > counted.low), (broken < counted.high)):
        assert float(strict.double().mean()) <= 0.98


# --- probabilities ------------------------------------------------------------------------------


def formula(text: str):
    return check_formula(parse_formula(text), theory().signature)


@pytest.mark.parametrize(
    "text", ["Faulty(r)", "exists r. F (Faulty(r) & X Slow(r))", "Worn(r) -> O Slow(r)"]
)
def test_probabilities_are_shares_of_worlds(text):
    posterior, asked = result(), formula(text)
    shares = sum(
        crisp.evaluate(asked.formula, posterior.world(n)).tensor.double()
        for n in range(posterior.count)
    )
    inside = posterior.tables.inside
    inside = inside if not asked.free else inside.unsqueeze(1)
    answer = posterior.probability(asked)
    difference = (answer.mean - shares / posterior.count).abs() * inside
    assert float(difference.max()) < 1e-12
    assert bool(((answer.low <= answer.mean) & (answer.mean <= answer.high)).all())
    assert answer.worlds == (posterior.count, posterior.count)


def test_conditions_choose_worlds_trace_by_trace():
    posterior = result()
    condition, asked = formula("exists r. Faulty(r)"), formula("F Alarm")
    holds = posterior.truth(condition).tensor[..., 0]
    truth = posterior.truth(asked).tensor[..., 0]
    answer = posterior.probability(asked, condition)
    assert answer.worlds == tuple(holds.sum(0).tolist())
    for trace in range(2):
        share = truth[holds[:, trace], trace].double().mean()
        assert float(answer.mean[trace, 0]) == pytest.approx(float(share), nan_ok=True)


def test_conditions_that_no_world_obeys_are_refused():
    with pytest.raises(DataError) as caught:
        result().probability(formula("F Alarm"), formula("exists r. Worn(r) & G !Faulty(r)"))
    assert str(caught.value) == (
        "error: none of the 18 sampled worlds obeys the condition; state it as a fact, and sample "
        "again"
    )


def test_conditions_have_no_free_variables():
    with pytest.raises(DataError) as caught:
        result().probability(formula("F Alarm"), formula("Faulty(r)"))
    assert str(caught.value) == (
        "error: a condition has no free variables, but it has 'r'; bind them"
    )


def test_worlds_that_count_before_they_obey_are_refused(monkeypatch):
    run = SamplingRun(problem())
    cells = {"Stays": torch.tensor([0, 2, 0, 0, 1, 0])}
    while not run.finished:
        if run.done == 11:
            monkeypatch.setattr(run.sampler, "broken", lambda: cells)
        run.sweep()
        monkeypatch.undo()
    with pytest.raises(DataError) as caught:
        run.result()
    assert str(caught.value) == (
        "error: 2 of the worlds that count break 'Stays': the burn-in ended before they obeyed\n"
        "      = sample with a longer burn-in, such as burn_in = 16"
    )


def test_the_plan_foresees_what_moves_take():
    sampler = sampler_of(problem())
    (mover,) = sampler.movers
    mover.refresh()
    mover.help(sampler.tables)
    taken = [
        sum(gain.values.nbytes for gain in mover._gains(colour, sampler.tables, {}, 1.0)[0])
        for colour in mover.colours
    ]
    assert 0 < max(taken) < plan_of(sampler).working < 100 * max(taken)
