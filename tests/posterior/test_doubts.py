"""Doubtful labels: their probabilities by enumeration, and what speaks against them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fotltn.errors import DataError
from fotltn.grounding.labels import Labels
from fotltn.logic.check import check
from fotltn.posterior.doubts import doubts
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.impossible import NoWorldError
from fotltn.posterior.posterior import Posterior
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sample
from fotltn.posterior.sampler import Sampling
from fotltn.posterior.structure import statements
from fotltn.semantics.tables import Names, Tables
from fotltn.syntax.load import parse_theory
from tests.posterior.oracle import Case, Exact, case

FEW = Sampling(worlds=4, burn_in=4, sweeps=8, stored=4, learn=False)


def exact(one: Case, posterior: Posterior) -> Exact:
    plan = posterior.structure
    assert plan is not None
    return Exact(one, plan.free, {n: d.formula for n, d in plan.definitions.items()})


def without(labels: Labels, name: str, number: int) -> Labels:
    masks = {n: torch.ones(t.shape, dtype=torch.bool) for n, t in labels.truth.items()}
    masks[name][number] = False
    return labels.take(masks)


def test_probabilities_are_those_of_enumeration_with_and_without_the_label():
    compared = 0
    for seed in range(32):
        one = case(seed)
        try:
            problem = Problem(
                one.theory, one.tables, one.labels, one.learned, rates=one.rates, sampling=FEW,
                end=one.end,
            )  # fmt: skip
            posterior = sample(problem)
        except NoWorldError:
            continue
        every = exact(one, posterior)
        if not 0 < every.atoms <= 8:
            continue
        assert every.marginals is not None
        posterior = replace(posterior, marginals=every.marginals)
        for doubt in doubts(posterior, one.labels):
            cell = torch.tensor([doubt.trace, *doubt.arguments, doubt.time or 0])
            index = one.labels.index[doubt.predicate]
            (number,) = (index == cell.unsqueeze(-1)).all(0).nonzero().squeeze(-1).tolist()
            rest = exact(
                replace(one, labels=without(one.labels, doubt.predicate, number)), posterior
            )
            assert rest.marginals is not None
            for marginals, value in (
                (every.marginals, doubt.wrong),
                (rest.marginals, doubt.others),
            ):
                true = float(marginals[doubt.predicate][tuple(cell)])
                assert value == pytest.approx(1 - true if doubt.says else true, abs=1e-9)
            compared += 1
    assert compared > 20


THEORY = """
sort a, s
predicate On(a), Lit(s)
predicate At(a, s)
hard axiom Def: forall y. G(Lit(y) <-> exists x. At(x, y) & On(x))
hard axiom Stays: forall x. G(On(x) -> WX On(x))
"""


def sampled(labels: Labels, rates: NoiseRates) -> Posterior:
    theory = check(parse_theory(THEORY))
    at = torch.zeros(1, 2, 1, 4)
    at[0, 0] = 1.0
    tables = Tables(
        {"a": 2, "s": 1}, torch.tensor([4]), 4, {"At": at}, signature=theory.signature,
        names=Names(("day",), {"a": ("ann", "bob"), "s": ("lamp",)}),
    )  # fmt: skip
    sampling = Sampling(worlds=16, burn_in=10, sweeps=20, learn=False)
    problem = Problem(
        theory, tables, labels, ["On", "Lit"], rates=dict.fromkeys(("On", "Lit"), rates),
        sampling=sampling,
    )  # fmt: skip
    return sample(problem)


@pytest.fixture(scope="module")
def labels() -> Labels:
    on = torch.tensor([[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 2, 3]])
    lit = torch.tensor([[0, 0, 0], [0, 0, 0], [1, 2, 3]])
    return Labels(
        {"On": on, "Lit": lit},
        {"On": torch.tensor([0.0, 1.0, 0.0, 1.0]), "Lit": torch.tensor([1.0, 1.0, 1.0])},
        {"On": ("a",), "Lit": ("s",)},
    )


def test_the_wrong_label_comes_first_with_what_speaks_against_it(labels):
    listed = doubts(sampled(labels, NoiseRates(0.05, 0.05)), labels)
    assert len(listed) == 7
    first = listed[0]
    assert str(first) == "On(ann)@2 = false"
    assert first.wrong > 0.9
    assert first.others is not None
    assert first.others >= first.wrong
    assert [d.text for d in listed.flagged()] == ["On(ann)"]
    assert listed.expected() == pytest.approx(sum(d.wrong for d in listed))
    assert list(listed)[1:3] == listed[1:3]
    assert listed.of("On")[2] == first.wrong
    against = listed.against(first)
    (axiom,) = against.axioms
    assert (axiom.axiom, axiom.binding, axiom.time, axiom.share) == ("Stays", {"x": "ann"}, 1, 1.0)
    assert axiom.unless is not None
    (fact,) = axiom.unless
    assert (fact.text, fact.time, fact.truth, fact.label) == ("On(ann)", 1, False, True)
    assert [(f.text, f.time, f.label) for f in against.labels] == [("Lit(lamp)", 2, True)]
    assert [(f.text, f.time) for f in against.nearby] == [("On(ann)", 1), ("On(ann)", 3)]
    assert against.words[0].startswith("breaks Stays at x = ann, 1, unless On(ann)@1 = false (")
    assert against.words[1:] == [
        "makes Lit(lamp)@2 = true wrong", "On(ann)@1 = true is near", "On(ann)@3 = true is near",
    ]  # fmt: skip


def test_labels_of_what_is_defined_break_the_definition(labels):
    turned = replace(labels, truth={**labels.truth, "Lit": torch.tensor([1.0, 0.0, 1.0])})
    turned = replace(turned, truth={**turned.truth, "On": torch.tensor([0.0, 1.0, 1.0, 1.0])})
    listed = doubts(sampled(turned, NoiseRates(0.05, 0.05)), turned)
    assert str(listed[0]) == "Lit(lamp)@2 = false"
    (axiom,) = listed.against(listed[0]).axioms
    assert (axiom.axiom, axiom.binding, axiom.time) == ("Def", {"y": "lamp"}, 2)
    assert axiom.unless is not None
    assert [(f.text, f.time, f.truth, f.label) for f in axiom.unless] == [
        ("On(ann)", 2, False, True)
    ]


def test_certain_labels_are_never_wrong_and_nothing_is_known_without_them(labels):
    sure = replace(labels, truth={**labels.truth, "On": torch.tensor([0.0, 1.0, 1.0, 1.0])})
    listed = doubts(sampled(sure, NoiseRates(0.3, 0.0)), sure)
    for doubt in listed:
        assert (doubt.others is None) == doubt.says
        if doubt.says:
            assert doubt.wrong == 0
    assert listed.rows(0) == []
    assert listed.against(listed[-1]).worlds == 0  # none contradicts it
    assert listed.against(listed[-1]).words == []


def test_rows_are_plain_data_and_notebooks_show_a_table(labels):
    listed = doubts(sampled(labels, NoiseRates(0.05, 0.05)), labels)
    (row,) = listed.rows(1)
    assert row["fact"] == "On(ann)"
    assert row["against"] == listed.against(listed[0]).as_dict()
    assert "7 labels; " in listed._repr_html_()


def test_what_the_theory_says_can_be_told_where_worlds_were_read_from_a_folder(labels):
    posterior = sampled(labels, NoiseRates(0.05, 0.05))
    stored = replace(posterior, structure=None)
    bare = doubts(stored, labels)
    with pytest.raises(DataError) as error:
        bare.against(bare[0])
    assert str(error.value) == (
        "error: the evidence against labels follows from the theory; pass it as `said`"
    )
    theory = check(parse_theory(THEORY))
    said = statements(theory, posterior.tables, posterior.learned)
    expected = doubts(posterior, labels).rows(3)
    assert doubts(stored, labels, said=said).rows(3) == expected


def test_labels_without_facts_are_no_doubts(labels):
    none = labels.take({})
    assert list(doubts(sampled(labels, NoiseRates(0.05, 0.05)), none)) == []


def test_bad_input_is_refused(labels):
    posterior = sampled(labels, NoiseRates(0.05, 0.05))
    listed = doubts(posterior, labels)
    with pytest.raises(IndexError, match="there are 7 labels, and none is 7"):
        listed[7]
    for call, message in (
        (lambda: listed.of("At"), "'At' has no labels; available: 'On', 'Lit'"),
        (lambda: listed.rows(-1), "the number of labels is at least 0, not -1"),
        (lambda: listed.against(listed[0], worlds=0), "at least 1 world is looked at, not 0"),
        (
            lambda: doubts(posterior, replace(labels, index={"At": labels.index["On"]})),
            "no world contains 'At'; available: 'On', 'Lit'",
        ),
        (
            lambda: doubts(posterior, replace(labels, index={"On": labels.index["On"] + 1})),
            "a label of 'On' lies outside the sampled worlds",
        ),
    ):
        with pytest.raises(DataError) as error:
            call()
        assert str(error.value) == f"error: {message}"
