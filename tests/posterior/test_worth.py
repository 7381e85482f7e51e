"""What axioms are worth: labels that are held back are foreseen better with those that help."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from fotltn.analysis.left_out import LeftOutProgress
from fotltn.errors import DataError, LimitError
from fotltn.grounding.labels import Labels
from fotltn.logic.check import check
from fotltn.posterior import worth as module
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.impossible import NoWorldError
from fotltn.posterior.posterior import Posterior
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sample
from fotltn.posterior.sampler import Sampling
from fotltn.posterior.worth import foreseen, worth
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory

THEORY = check(
    parse_theory("""
sort a, b
predicate P(a), Q(b), Near(a, b)
hard axiom Seen: forall y. G(Q(y) <-> exists x. Near(x, y) & P(x))
axiom Idle weight 0.5: forall x. G(P(x) | !P(x))
""")
)
ENTITIES, STEPS = 12, 10
NEAR = torch.rand(1, ENTITIES, ENTITIES, STEPS, generator=torch.Generator().manual_seed(1)) < 0.1
TABLES = Tables(
    {"a": ENTITIES, "b": ENTITIES}, torch.tensor([STEPS]), STEPS, {"Near": NEAR.double()},
    signature=THEORY.signature,
)  # fmt: skip
RATES = dict.fromkeys(("P", "Q"), NoiseRates(0.05, 0.05))
SAMPLING = Sampling(worlds=16, burn_in=8, sweeps=16)


def observed(share: float) -> Labels:
    """Labels of a random world that obeys the axioms."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.rand(1, ENTITIES, STEPS, generator=generator) < 0.5
    seen_from = (NEAR & truth.unsqueeze(2)).any(1)
    index, values = {}, {}
    for name, table in (("P", truth), ("Q", seen_from)):
        seen = torch.rand(table.shape, generator=generator) < share
        wrong = torch.rand(table.shape, generator=generator) < 0.05
        index[name] = seen.nonzero().T
        values[name] = (table ^ wrong)[seen].double()
    return Labels(index, values)


def problem(labels: Labels) -> Problem:
    return Problem(THEORY, TABLES, labels, ["P", "Q"], rates=RATES, sampling=SAMPLING)


def test_axioms_that_help_are_worth_something_and_others_are_not():
    told: list[LeftOutProgress] = []
    labels = observed(0.6)
    helps, idle = worth(problem(labels), folds=2, report=told.append)
    assert (helps.axiom, idle.axiom) == ("Seen", "Idle")
    assert helps.low > 0
    assert abs(idle.gain) < 0.1 * helps.gain
    for one in (helps, idle):
        assert one.low <= one.gain <= one.high
        assert one.labels == labels.total
        assert one.by_label == one.gain / labels.total
    assert [(p.division, p.axiom, p.done, p.of) for p in told[:4]] == [
        (1, None, 1, 6), (1, "Seen", 2, 6), (1, "Idle", 3, 6), (2, None, 4, 6),
    ]  # fmt: skip


def test_one_axiom_alone_can_be_measured_and_a_seed_reproduces():
    results = [worth(problem(observed(0.3)), ["Seen"], folds=2) for _ in range(2)]
    assert results[0] == results[1]
    assert [one.axiom for one in results[0]] == ["Seen"]


def test_labels_are_foreseen_as_noise_says():
    labels = Labels({"P": torch.tensor([[0, 0], [0, 1], [0, 3]])}, {"P": torch.tensor([1.0, 0.0])})
    posterior = sample(problem(labels))
    share = torch.full((1, ENTITIES, STEPS), 0.25, dtype=torch.float64)
    posterior = replace(
        posterior, marginals={**posterior.marginals, "P": share},
        rates={"P": NoiseRates(0.2, 0.1)}, mixing=replace(posterior.mixing, effective={"P": 1e9}),
    )  # fmt: skip
    says = 0.25 * 0.8 + 0.75 * 0.1
    expected = torch.tensor([math.log(says), math.log(1 - says)], dtype=torch.float64)
    torch.testing.assert_close(foreseen(posterior, labels)["P"], expected, rtol=1e-6, atol=1e-6)


def test_what_never_happened_in_a_sample_is_not_impossible():
    labels = Labels({"P": torch.tensor([[0], [0], [0]])}, {"P": torch.tensor([1.0])})
    posterior = sample(problem(labels))
    nothing = torch.zeros(1, ENTITIES, STEPS, dtype=torch.float64)
    posterior = replace(
        posterior, marginals={"P": nothing}, rates={"P": NoiseRates(0.2, 0.0)},
        mixing=replace(posterior.mixing, effective={}),
    )  # fmt: skip
    assert foreseen(posterior, labels)["P"].item() == pytest.approx(
        math.log(0.8 * 0.5 / (posterior.count + 1))
    )


@pytest.mark.parametrize("kind", [LimitError, NoWorldError])
def test_an_axiom_without_which_nothing_can_be_sampled_is_told(monkeypatch, kind):
    def fails(asked: Problem) -> Posterior:
        if len(asked.theory.axioms) < 2:
            raise kind("a track has too many states")
        return sample(asked)

    monkeypatch.setattr(module, "sample", fails)
    (one,) = worth(problem(observed(0.3)), ["Seen"], folds=2)
    assert one.problem == "a track has too many states"
    assert math.isnan(one.gain)


def test_chains_that_do_not_agree_without_an_axiom_count_for_that_axiom(monkeypatch):
    def apart(asked: Problem) -> Posterior:
        names = {axiom.name for axiom in asked.theory.axioms}
        mixing = replace(sample(asked).mixing, r_hat={"P": 1.01 if "Idle" in names else 1.5})
        return replace(sample(asked), mixing=mixing)

    monkeypatch.setattr(module, "sample", apart)
    by_name = {one.axiom: one for one in worth(problem(observed(0.3)), folds=2)}
    assert (by_name["Idle"].r_hat, by_name["Idle"].agree) == (1.5, False)
    assert (by_name["Seen"].r_hat, by_name["Seen"].agree) == (1.01, True)


def test_bad_input_is_refused():
    labels = observed(0.3)
    few = labels.take({"P": torch.arange(len(labels.truth["P"])) < 1})
    for options, given_labels, message in (
        (
            {"axioms": ["See"]}, labels,
            "the theory has no axiom 'See' that is hard or has a weight, and defines nothing; did "
            "you mean 'Seen'?",
        ),
        ({"folds": 1}, labels, "there are at least 2 folds, not 1"),
        ({"folds": 2}, few, "2 folds need as many labels, and there are 1"),
    ):  # fmt: skip
        with pytest.raises(DataError) as error:
            worth(problem(given_labels), **options)
        assert str(error.value) == f"error: {message}"
