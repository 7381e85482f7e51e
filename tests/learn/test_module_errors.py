"""What `AxiomLoss` refuses, and what it says."""

from __future__ import annotations

import pytest
import torch

import fotltn
from fotltn import AxiomLoss, DataError
from tests.learn.test_module import SMALL


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"weights": {"Obay": 1}},
            "weight was given for the unknown axiom 'Obay'; did you mean 'Obey'",
        ),
        ({"axiom_p": {"Reson": 2}}, "p is given for the unknown axiom 'Reson'; did you mean"),
        ({"weights": {"Obey": -1}}, "the weight of Obey must be at least 0, not -1"),
        ({"mean_p": 0.5}, "mean_p must be at least 1, not 0.5"),
        ({"by": "lgo"}, "by: expected one of 'satisfaction', 'log', 'none', not 'lgo'"),
        ({"by": "none"}, "there is nothing to minimise"),
        ({"trust": 1.0}, "trust can be learned only with axioms by 'log'"),
        ({"semantics": "crisp"}, "two-valued truth has no slope to learn from"),
        ({"semantics": "gödel"}, "unknown semantics 'gödel'"),
        ({"data": {"Near": [1.0]}}, r"'Near' has shape \(1,\); expected axes \(agent, time\)"),
    ],
)
def test_wrong_settings(options, message):
    with pytest.raises(fotltn.FotError, match=message):
        AxiomLoss(SMALL, **options)


def test_a_theory_is_needed():
    with pytest.raises(DataError, match="expected a theory"):
        AxiomLoss("Stop")
    with pytest.raises(DataError, match="there is nothing to minimise: the theory has no axioms"):
        AxiomLoss(fotltn.parse("predicate a"))


NEAR, CAR = torch.rand(3, 4, 6), torch.rand(4)


@pytest.mark.parametrize(
    ("brought", "message"),
    [
        ({}, "no table was given for the predicate 'Stop'"),
        ({"Sotp": NEAR}, "unknown symbol 'Sotp'; did you mean 'Stop'"),
        ({"Stop": torch.rand(6)}, r"expected axes \(trace, agent, time\), or \(agent, time\)"),
        ({"Stop": NEAR, "Car": NEAR}, r"expected axes \(trace, agent\), or \(agent\)"),
        ({"Stop": torch.rand(3, 5, 6)}, "argument 1 of predicate 'Near' has 4 entities"),
        ({"Stop": torch.rand(3, 4, 7)}, "predicate 'Near' has 6 time points"),
        ({"Stop": torch.rand(2, 4, 6)}, "traces of predicate 'Near': 3, of predicate 'Stop': 2;"),
        ({"Stop": 2 + NEAR}, r"predicate 'Stop' has the degree .*; degrees must be from 0 to 1"),
        ({"Stop": torch.full((3, 4, 6), torch.nan)}, "predicate 'Stop' has the degree nan"),
        ({"Stop": "no"}, "is not a tensor, array or nested list"),
        ({"Stop": NEAR, "lengths": [6, 2]}, "predicate 'Near' has 3 traces, but 2 lengths"),
        ({"Stop": NEAR, "lengths": [6, 2, 7]}, "length 7; it must be from 1 to 6"),
        ({"Stop": NEAR, "lengths": 2}, "lengths must be whole numbers, one for each trace"),
    ],
)  # fmt: skip
def test_wrong_tables(brought, message):
    with pytest.raises(DataError, match=message):
        AxiomLoss(SMALL)(**{"Near": NEAR, "Car": CAR, **brought})


def test_data_and_tables_agree():
    loss = AxiomLoss(SMALL, fotltn.tables(SMALL, Near=torch.rand(4, 6), Car=torch.ones(4)))
    with pytest.raises(DataError, match="predicate 'Car' in the data has 4"):
        loss(Stop=torch.rand(5, 6))
    with pytest.raises(DataError, match="predicate 'Near' in the data has 6"):
        loss(Stop=torch.rand(4, 7))
    named_alone = fotltn.tables(SMALL, entities={"agent": ["ego", "bus"]})
    with pytest.raises(DataError, match="the sort 'agent' has 2 entities in the data, 4 in tables"):
        AxiomLoss(SMALL, named_alone)(Stop=NEAR, Near=NEAR, Car=CAR)


def test_degrees_are_looked_at_where_a_shape_is_new_and_lengths_always():
    loss = AxiomLoss(SMALL)
    loss(Near=NEAR, Car=CAR, Stop=NEAR, lengths=[6, 2, 5])
    loss(Near=NEAR, Car=CAR, Stop=2 + NEAR, lengths=[6, 2, 5])
    with pytest.raises(DataError, match="degrees must be from 0 to 1"):
        loss(Near=NEAR, Car=CAR, Stop=2 + NEAR)
    with pytest.raises(DataError, match="lengths must be from 1 to 6, not"):
        loss(Near=NEAR, Car=CAR, Stop=NEAR, lengths=[6, 0, 5])
