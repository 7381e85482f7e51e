"""`sample`: what it refuses, that a seed reproduces it, that worlds obey, how far chains mix."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from fotltn.analysis.truncation import if_longer
from fotltn.errors import FotError
from fotltn.grounding.labels import Labels
from fotltn.logic.check import check
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.impossible import NoWorldError
from fotltn.posterior.mixing import Mixing, MixingReport
from fotltn.posterior.posterior import Posterior
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sample
from fotltn.posterior.sampler import Sampling
from fotltn.semantics import crisp
from fotltn.semantics.tables import Names, Tables
from fotltn.syntax.load import parse_theory
from tests.posterior.oracle import Case, case

THEORY = check(
    parse_theory("""
sort a, b
predicate P(a), Q(a), V(b), Near(a, b)
static predicate Fix(a)
hard axiom Def: forall y. G(V(y) <-> exists x. Near(x, y) & P(x))
hard axiom Ends: forall x. G(P(x) -> F[<=3] (!P(x) | last))
hard axiom Fixed: forall x. Fix(x) <-> F P(x)
axiom Apart weight 1.5: forall x. G(!(P(x) & Q(x)))
""")
)
LEARNED = ["P", "Q", "V", "Fix"]
GENERATOR = torch.Generator().manual_seed(0)
NEAR = (torch.rand(2, 3, 2, 7, generator=GENERATOR) < 0.4).double()
TABLES = Tables(
    {"a": 3, "b": 2}, torch.tensor([7, 4]), 7, {"Near": NEAR}, signature=THEORY.signature,
    names=Names(("long", "short")),
)  # fmt: skip
LABELS = Labels(
    {
        "P": torch.tensor([[0, 0, 1, 1], [0, 1, 2, 0], [2, 5, 3, 0]]),
        "V": torch.tensor([[0, 1], [1, 0], [6, 2]]),
        "Fix": torch.tensor([[0, 1], [0, 2], [0, 0]]),
    },
    {
        "P": torch.tensor([1.0, 0.0, 1.0, 1.0]),
        "V": torch.tensor([1.0, 0.0]),
        "Fix": torch.tensor([1.0, 1.0]),
    },
)
QUICK = Sampling(worlds=6, burn_in=6, sweeps=8, stored=4, seed=3)


def drawn(**options: Any) -> Posterior:
    arguments: dict[str, Any] = {
        "theory": THEORY, "tables": TABLES, "labels": LABELS, "learned": LEARNED,
        "sampling": QUICK, **options,
    }  # fmt: skip
    return sample(Problem(**arguments))


# --- what is refused -------------------------------------------------------------------------


def labels(name: str, index: list[list[int]], truth: list[float]) -> dict[str, Any]:
    return {"labels": Labels({name: torch.tensor(index)}, {name: torch.tensor(truth)})}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learned": []}, "there is nothing to learn; name predicates that are not given"),
        ({"learned": ["P", "Pp"]}, "the theory has no predicate 'Pp'; did you mean 'P'?"),
        ({"learned": ["Other"]}, "the theory has no predicate 'Other'; declare it in the theory"),
        ({"learned": [*LEARNED, "P"]}, "'P' is listed twice among the learned predicates"),
        ({"learned": [*LEARNED, "Near"]}, "'Near' is both given and learned"),
        (
            {"learned": ["P", "V", "Fix"]},
            "'Q' is neither given nor learned; given are 'Near'",
        ),
        ({"rates": {"Near": None}}, "rates: 'Near' is given, not learned"),
        (
            {"rates": {"Neer": None}},
            "rates: the theory has no predicate 'Neer'; did you mean 'Near'?",
        ),
        ({"rates": {"P": NoiseRates(1.0, 0.0)}}, "a rate of 'P' is 1, not a share from 0 to 1"),
        ({"rates": {"P": NoiseRates(0.1, -0.1)}}, "a rate of 'P' is -0.1, not a share from 0 to 1"),
        (
            {"rates": {"P": NoiseRates(math.nan, 0.1)}},
            "a rate of 'P' is nan, not a share from 0 to 1",
        ),
        (
            {"rates": {"P": NoiseRates(0.6, 0.5)}},
            "the rates of 'P' add to 1.1: its labels would say the opposite of what is true",
        ),
        ({"define": {"Near": None}}, "definitions: 'Near' is given, not learned"),
        (
            {"logits": {"P": torch.zeros(2, 3, 6)}},
            "the logits of 'P' have shape (2, 3, 6), not (2, 3, 7)",
        ),
        (
            {"logits": {"Fix": torch.tensor([[[0.0], [math.inf], [0.0]]]).repeat(2, 1, 1)}},
            "the logits of 'Fix' must be finite numbers",
        ),
        (labels("Near", [[0], [0], [0], [0]], [1.0]), "labels: 'Near' is given, not learned"),
        (
            labels("P", [[0], [0]], [1.0]),
            "1 labels of 'P' need an index of shape (3, 1), not (2, 1)",
        ),
        (
            labels("P", [[0], [3], [0]], [1.0]),
            "a label of 'P' is at (0, 3, 0), outside of (2, 3, 7)",
        ),
        (
            labels("Fix", [[0], [0], [1]], [1.0]),
            "a label of 'Fix' is at (0, 0, 1), outside of (2, 3, 1)",
        ),
        (
            labels("P", [[1], [0], [4]], [1.0]),
            "a label of 'P' is at time 4 of trace 'short', which has 4 points",
        ),
        (labels("P", [[0], [0], [0]], [1.5]), "a label of 'P' has the degree 1.5"),
        (labels("P", [[0], [0], [0]], [math.nan]), "a label of 'P' has the degree nan"),
        (
            {
                **labels("P", [[1, 0, 1], [2, 1, 2], [3, 0, 3]], [1.0, 0.0, 0.0]),
                "rates": {"P": NoiseRates(0.0, 0.0)},
            },
            "labels say that P(a#2)@3 of trace 'short' is true, and that it is false, but the "
            "rates say that no label is wrong; leave one out, or give rates above 0",
        ),
        ({"sampling": replace(QUICK, worlds=0)}, "worlds is a whole number from 1, not 0"),
        ({"sampling": replace(QUICK, burn_in=-1)}, "burn_in is a whole number from 0, not -1"),
        ({"sampling": replace(QUICK, sweeps=0)}, "sweeps is a whole number from 1, not 0"),
        ({"sampling": replace(QUICK, stored=0)}, "stored is a whole number from 1, not 0"),
        (
            {"end": "open"},
            "the end of a trace is not 'open'; it is 'undecided', 'final'",
        ),
        (
            {"tables": replace(TABLES, predicates={"Near": 0.3 * NEAR})},
            "'Near' is given with the degree 0.3, but facts of worlds are true or false; learn "
            "it, or round it",
        ),
        (
            {"tables": replace(TABLES, lengths=torch.zeros(0, dtype=torch.int64))},
            "there is no trace to sample",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_refused(options, message):
    with pytest.raises(FotError) as error:
        drawn(**options)
    assert str(error.value) == f"error: {message}"


# --- seeds -----------------------------------------------------------------------------------


def test_a_seed_reproduces():
    first, again, other = drawn(), drawn(), drawn(sampling=replace(QUICK, seed=4))
    for name in LEARNED:
        assert torch.equal(first.worlds[name], again.worlds[name])
        assert torch.equal(first.marginals[name], again.marginals[name])
    assert torch.equal(first.density, again.density)
    assert not torch.equal(first.worlds["P"], other.worlds["P"])


# --- worlds obey -----------------------------------------------------------------------------


def obeys(posterior: Posterior, one: Case) -> None:
    """No sampled world violates a hard axiom, by the crisp evaluator."""
    for number in range(posterior.count):
        world = posterior.world(number)
        for axiom in one.theory.axioms:
            if axiom.hard:
                formula = axiom.formula if one.end == "final" else if_longer(axiom.formula)
                assert bool(crisp.evaluate(formula, world).tensor[:, 0].all()), (axiom, one.text)


def test_no_world_violates_a_hard_axiom():
    sampled = 0
    for seed in range(32):
        one = case(seed)
        try:
            problem = Problem(
                one.theory, one.tables, one.labels, one.learned, rates=one.rates, sampling=QUICK,
                end=one.end,
            )  # fmt: skip
            posterior = sample(problem)
        except NoWorldError:
            continue
        sampled += 1
        obeys(posterior, one)
    assert sampled > 15


@pytest.mark.parametrize("end", ["undecided", "final"])
def test_no_world_of_traces_of_different_lengths_violates_a_hard_axiom(end):
    posterior = drawn(end=end)
    rates = dict.fromkeys(LEARNED, NoiseRates(0.1, 0.1))
    obeys(posterior, Case(THEORY, TABLES, LABELS, tuple(LEARNED), rates, "", end))


def test_what_is_stored_is_what_was_counted():
    posterior = drawn(sampling=replace(QUICK, stored=8))
    assert posterior.count == 8 * 6
    for name in LEARNED:
        shares = posterior.worlds[name].double().mean(0)
        torch.testing.assert_close(posterior.marginals[name], shares)


# --- mixing ----------------------------------------------------------------------------------


def test_chains_that_agree_have_a_figure_near_one():
    generator = torch.Generator().manual_seed(0)
    mixing = Mixing({"P": torch.zeros(16, 4, 25)}, 0)
    for _ in range(80):
        mixing.add({"P": torch.rand(16, 4, 25, generator=generator) < 0.3})
    report = mixing.report()
    assert 0.98 < report.worst < 1.03
    assert report.effective["P"] > 0.5 * 16 * 80


def test_chains_that_never_move_have_a_large_one():
    generator = torch.Generator().manual_seed(0)
    stuck = torch.rand(16, 4, 25, generator=generator) < 0.5
    mixing = Mixing({"P": torch.zeros(16, 4, 25)}, 0)
    for _ in range(80):
        mixing.add({"P": stuck})
    report = mixing.report()
    assert report.worst > 10
    assert report.effective["P"] < 40


def test_chains_that_move_seldom_are_between():
    generator = torch.Generator().manual_seed(0)
    state = torch.rand(16, 4, 25, generator=generator) < 0.5
    mixing = Mixing({"P": torch.zeros(16, 4, 25)}, 0)
    for _ in range(80):
        moves = torch.rand(state.shape, generator=generator) < 0.02
        state = state ^ moves
        mixing.add({"P": state})
    report = mixing.report()
    assert 1.1 < report.worst < 5
    assert report.effective["P"] < 0.2 * 16 * 80


def test_what_never_varies_does_not_count():
    mixing = Mixing({"P": torch.zeros(4, 1, 5)}, 0)
    for _ in range(8):
        mixing.add({"P": torch.zeros(4, 1, 5, dtype=torch.bool)})
    assert mixing.report().r_hat == {}
    assert mixing.report().worst == 1.0


def test_an_easy_theory_mixes():
    easy = drawn(sampling=Sampling(worlds=16, burn_in=10, sweeps=40, learn=False))
    assert easy.mixing.worst < 1.15
    assert easy.warnings == ()


def rigid(axiom: str) -> tuple[Posterior, Case]:
    """Worlds of twenty entities that an axiom ties, too many to be drawn as one."""
    theory = check(parse_theory(f"sort a, b\npredicate P(a), V(b)\nhard axiom Tie: {axiom}"))
    tables = Tables(
        {"a": 10, "b": 10}, torch.tensor([2]), 2, {}, signature=theory.signature, names=Names()
    )
    how = Sampling(worlds=16, burn_in=10, sweeps=20, learn=False)
    one = Case(theory, tables, Labels({}, {}), ("P", "V"), {}, axiom, "undecided")
    problem = Problem(theory, tables, one.labels, one.learned, sampling=how)
    return sample(problem), one


def test_chains_that_cannot_move_are_named():
    stuck, _ = rigid("forall x, y. G(P(x) <-> V(y))")
    assert stuck.structure is not None
    assert stuck.structure.tied == ("Tie",)
    assert {*stuck.mixing.apart} == {"P", "V"}
    assert stuck.mixing.effective["P"] <= 16
    figure = f"{stuck.mixing.r_hat['P']:.3f}"
    assert stuck.warnings == (
        f"chains do not agree on P (R-hat {figure}), V (R-hat {figure}): probabilities depend on "
        "where they began, and hard axioms tie tracks ('Tie'); larger `sweeps` and `burn_in` "
        "in [posterior] may help",
    )


def test_chains_that_cannot_come_to_obey_go_on_from_others():
    stuck, one = rigid("forall x, y. G(P(x) <-> V(y))")
    assert 0 < stuck.mixing.copied < 8
    obeys(stuck, one)
    seldom = MixingReport({"P": 1.0}, {"P": 9.0}, copied=9)
    assert seldom.warnings(16) == (
        "9 of 16 chains did not reach a world that obeys the hard axioms, and continue as copies "
        "of others; a larger `burn_in` in [posterior] may help",
    )
