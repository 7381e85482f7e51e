"""Tasks and training: what fits together, and what does not."""

import math

import pytest
import torch

from fotltn import DataError
from fotltn.grounding.labels import Labels
from fotltn.learn.fit import fit
from fotltn.learn.objective import FACTS_ONLY, Objective
from fotltn.learn.optimisers import OPTIMISERS
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.schedule import schedule
from fotltn.learn.task import Task, Training
from fotltn.networks.encoders import Embeddings
from fotltn.networks.grounding import Grounding
from fotltn.networks.parts import Batches
from fotltn.networks.predicates import Network, mlp
from fotltn.semantics.config import STABLE_PRODUCT
from fotltn.semantics.tables import Tables
from tests.learn import tasks


def one(name, index, truth=(1.0,)):
    return Labels(
        {name: torch.tensor(index).T.reshape(-1, len(truth))}, {name: torch.tensor(truth)}
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1, not 0"),
        ({"epochs": 2.5}, "epochs must be a whole number"),
        ({"patience": 0}, "patience must be a whole number of at least 1"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"rate": 0.0}, "learning rate"),
        ({"rate": math.nan}, "learning rate"),
        ({"validation": 1.0}, "validation share"),
        ({"clip": 0.0}, "clipped"),
        ({"seed": -1}, "seed"),
        ({"optimiser": "adan"}, "unknown optimiser 'adan'; did you mean 'adam'"),
        ({"optimiser": "lbfgs"}, "unknown optimiser 'lbfgs'"),
    ],
)
def test_training_that_makes_no_sense(options, message):
    with pytest.raises(DataError, match=message):
        Training(**options)


def test_optimisers_are_pytorchs():
    assert OPTIMISERS["adamw"] is torch.optim.AdamW
    assert Training(optimiser="AdamW").optimiser == "AdamW"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"known": one("Close", [[0, 0, 0, 0]])}, "'Close', which is not learned; learned: 'Car'"),
        ({"known": one("Stop", [[0, 0, 0, 0]])}, "1 labels for 'Stop' need an index of shape"),
        ({"known": one("Stop", [[1, 0, 0]])}, "outside its table of shape"),
        ({"known": one("Stop", [[0, 6, 0]])}, "outside its table"),
        ({"known": one("Stop", [[0, 0, -1]])}, "outside its table"),
        ({"known": one("Car", [[0, 0, 1]])}, "outside its table"),
        ({"known": one("Stop", [[0, 0, 0]], [1.5])}, "must be from 0 to 1"),
        ({"known": one("Stop", [[0, 0, 0]], [math.nan])}, "must be from 0 to 1"),
        ({"watched": one("Stop", [[0, 9, 0]])}, "outside its table"),
        (
            {"objective": Objective(axiom_weights={"A4": schedule(1, "w")})},
            "unknown axiom 'A4'; available: 'A1', 'A2', 'A3'",
        ),
        (
            {"objective": Objective(fact_weights={"Stopp": schedule(1, "w")})},
            "unknown predicate 'Stopp'; did you mean 'Stop'",
        ),
        (
            {"objective": Objective(fact_p={"Halt": schedule(1, "w")})},
            "unknown predicate 'Halt'; available:",
        ),
        ({"known": Labels({}, {}), "objective": FACTS_ONLY}, "nothing to learn from"),
        ({"known": Labels({}, {}), "text": tasks.THEORY.split("axiom")[0]}, "nothing to learn"),
        ({"batches": Batches("entities", 2, "car")}, "need a sort, not 'car'"),
        ({"batches": Batches("entities", 20, "agent")}, "there are only 6"),
        (
            {
                "batches": Batches("entities", 2, "agent"),
                "text": tasks.THEORY + 'axiom Z: Car("e")',
            },
            "'Z' names 'e'",
        ),
    ],
)
def test_tasks_that_do_not_fit_together(options, message):
    with pytest.raises(DataError, match=message):
        tasks.task(**options)


def test_labels_of_what_is_defined_are_allowed():
    assert tasks.task(known=one("Near", [[0, 2, 3]])).labels.total == 1


def test_compiled_plans_cannot_learn_functions():
    text = "sort agent\ntemporal function speed(agent): real\naxiom A: forall x. G speed(x) = 1"
    theory = tasks.theory(text)
    ground = Grounding(
        theory.signature, Tables({"agent": 2}, torch.tensor([3]), 3, {}), {},
        inputs={"agent": Embeddings(1, 2, 3, 2)}, functions={"speed": Network(mlp(2))},
    )  # fmt: skip
    none = Labels({}, {})
    Task(ground, Axioms(theory, STABLE_PRODUCT), Objective(), none)
    with pytest.raises(DataError, match="functions cannot be learned"):
        Task(ground, Axioms(theory, STABLE_PRODUCT, fused=True), Objective(), none)


def test_a_share_of_the_labels_is_watched():
    found = tasks.task(validation=0.25, seed=0)
    own, watched = found.split()
    assert own.total + watched.total == found.labels.total
    assert watched.total == round(0.25 * found.labels.total)
    both = tasks.task(validation=0.25, watched=tasks.labels(seed=9)).split()
    assert both[0].total == found.labels.total
    assert both[1].total == tasks.labels(seed=9).total
    assert tasks.task().split()[1] is None


@pytest.mark.parametrize(
    "options", [{"validation": 0.1}, {"validation": 0.9}, {"watched": Labels({}, {})}]
)
def test_few_labels_are_all_learned_from(options):
    few = one("Stop", [[0, 0, 0], [0, 1, 0]], [1.0, 0.0])
    task = tasks.task(known=few, epochs=2, **options)
    assert task.split() == (few, None)
    outcome = fit(task)
    assert [epoch.watched for epoch in outcome.history] == [e.loss for e in outcome.history]
    assert outcome.warnings == (
        "too few labelled facts to watch some; the training loss decides when to stop",
    )
