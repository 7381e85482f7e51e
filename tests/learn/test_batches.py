"""Parts of the data: what is right on average, and what says that it is not."""

import itertools

import pytest
import torch

from fotltn import DataError
from fotltn.learn.satisfaction import Axioms
from fotltn.logic.check import check
from fotltn.networks.parts import Batches, DataPart, bias, check_batches, part, parts
from fotltn.semantics.config import STABLE_PRODUCT
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory

DECLARED = """
sort agent, place
static predicate Car(agent)
predicate Stop(agent), Run(agent), At(agent, place), Close(agent, agent)
"""


def theory(*axioms):
    text = "\n".join(f"axiom A{i}: {a}" for i, a in enumerate(axioms))
    return check(parse_theory(DECLARED + text))


def world(traces=1, agents=5, places=2, horizon=4, lengths=None):
    rng = torch.Generator().manual_seed(0)
    shapes = {
        "Stop": (traces, agents, horizon),
        "Run": (traces, agents, horizon), "At": (traces, agents, places, horizon),
        "Close": (traces, agents, agents, horizon),
    }  # fmt: skip
    tables = {n: torch.rand(s, generator=rng) for n, s in shapes.items()}
    tables["Car"] = (torch.arange(agents) < 2).double().reshape(1, agents, 1)
    lengths = torch.tensor(lengths or [horizon] * traces)
    return Tables({"agent": agents, "place": places}, lengths, horizon, tables)


def powers(axioms, model, key=0):
    """The mean of the errors to the power p, over traces."""
    return ((1 - axioms.values(model, key=key)) ** 4).mean(1)


UNBIASED = (
    "forall x. G(Car(x) -> Stop(x) | Run(x))",
    "forall x. G(Stop(x) -> F Run(x))",
    "forall x. Car(x)",
    "forall x. forall p. G !At(x, p)",
    "G forall x, p. At(x, p) -> X Stop(x)",
    "forall x. G exists p. At(x, p)",
)
BIASED = {
    "exists x. G Stop(x)": "witnesses",
    "forall x. G exists y. Close(x, y)": "witnesses",
    "forall x, y. G !Close(x, y)": "occurs twice",
    "forall x. forall y. G !Close(x, y)": "occurs twice",
    "forall x where Car(x). G Stop(x)": "guard",
    "G ((forall x. Stop(x)) -> (forall x. Run(x)))": "counterexamples",
    "F forall x. Stop(x)": "counterexamples",
}


@pytest.mark.parametrize("axiom", UNBIASED)
@pytest.mark.parametrize("size", [1, 2, 4, 5])
def test_the_mean_over_all_draws_of_entities_is_that_over_all_data(axiom, size):
    axioms, model = Axioms(theory(axiom), STABLE_PRODUCT), world(traces=2, lengths=[4, 3])
    signature = axioms.theory.signature
    found = []
    for numbers in itertools.combinations(range(5), size):
        chosen = {"agent": torch.tensor(numbers)}
        piece = part(model, signature, entities=chosen, again=False)
        found.append(powers(axioms, piece.fixed, piece.key))
    assert torch.stack(found).mean(0).item() == pytest.approx(powers(axioms, model).item())
    assert not [s for s in bias(Batches("entities", size, "agent"), axioms.theory) if "A0" in s]


@pytest.mark.parametrize("axiom", BIASED)
def test_axioms_that_are_not_right_on_average_are_named(axiom):
    axioms, model = Axioms(theory(axiom), STABLE_PRODUCT), world()
    found = []
    for numbers in itertools.combinations(range(5), 2):
        chosen = {"agent": torch.tensor(numbers)}
        piece = part(model, axioms.theory.signature, entities=chosen, again=False)
        found.append(powers(axioms, piece.fixed, piece.key))
    assert torch.stack(found).mean(0).item() != pytest.approx(
        powers(axioms, model).item(), rel=1e-3
    )
    (own,) = [s for s in bias(Batches("entities", 2, "agent"), axioms.theory) if "A0" in s]
    assert own.startswith("A0: ")
    assert BIASED[axiom] in own
    elsewhere = bias(Batches("entities", 2, "place"), axioms.theory)
    assert not [s for s in elsewhere if "A0" in s]


def test_what_is_said_of_all_axioms_and_facts():
    several = theory(*UNBIASED, *BIASED)
    by_traces = bias(Batches("traces", 2), several)
    assert not [s for s in by_traces if s.startswith("A")]
    assert any("root" in s for s in by_traces)
    assert any(s.startswith("Facts") for s in by_traces)
    assert any("multiple" in s for s in by_traces)
    by_entities = bias(Batches("entities", 2, "agent"), several)
    named = {s.split(":")[0] for s in by_entities if s.startswith("A")}
    assert named == {f"A{i}" for i in range(len(UNBIASED), len(UNBIASED) + len(BIASED))}


# --- parts of an epoch -----------------------------------------------------------------------


def epoch(batches, model, kept, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return list(parts(batches, model, theory().signature, kept, rng))


def test_without_batches_there_is_one_part_which_is_all():
    assert epoch(None, world(), {}) == [None]


@pytest.mark.parametrize(("traces", "size"), [(6, 2), (7, 3), (5, 5), (3, 9), (4, 1)])
def test_an_epoch_goes_over_all_traces_in_parts_of_about_one_size(traces, size):
    model = world(traces=traces)
    kept: dict[int, DataPart] = {}
    found = epoch(Batches("traces", size), model, kept)
    numbers = [p.traces.tolist() for p in found]
    assert sorted(n for own in numbers for n in own) == list(range(traces))
    sizes = sorted(len(own) for own in numbers)
    assert len(sizes) == -(-traces // size)
    assert sizes[-1] - sizes[0] <= 1
    assert sizes[-1] <= size
    again = epoch(Batches("traces", size), model, kept, seed=1)
    assert {p.key for p in again} == {p.key for p in found}
    assert len({p.key for p in found}) == len(found)


def test_the_mean_over_blocks_of_traces_is_that_over_all_data():
    axioms = Axioms(theory(*UNBIASED, *BIASED), STABLE_PRODUCT)
    model = world(traces=6, lengths=[4, 2, 3, 4, 1, 4])
    values = [powers(axioms, p.fixed, p.key) for p in epoch(Batches("traces", 2), model, {})]
    assert torch.allclose(torch.stack(values).mean(0), powers(axioms, model))


def test_an_epoch_draws_entities_anew_by_the_generator():
    model = world(agents=7)
    batches = Batches("entities", 3, "agent")
    first, second = epoch(batches, model, {}), epoch(batches, model, {})
    drawn = [p.entities["agent"].tolist() for p in first]
    assert drawn == [p.entities["agent"].tolist() for p in second]
    assert drawn != [p.entities["agent"].tolist() for p in epoch(batches, model, {}, seed=1)]
    assert len(drawn) == 2
    assert all(own == sorted(set(own)) and len(own) == 3 for own in drawn)
    assert all(p.key is None for p in first)


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        (Batches("traces", 0), "at least one of the traces, not 0"),
        (Batches("entities", 0, "agent"), "at least one of the entities"),
        (Batches("entities", 2), "need a sort, not none; declared: 'agent', 'place'"),
        (Batches("entities", 2, "agents"), "need a sort, not 'agents'; did you mean 'agent'"),
        (Batches("entities", 6, "agent"), "6 entities of 'agent': there are only 5"),
        (Batches("bindings", 2), "by traces or by entities, not by 'bindings'"),  # type: ignore[arg-type]
    ],
)
def test_parts_that_make_no_sense(batches, message):
    with pytest.raises(DataError, match=message):
        check_batches(batches, world(), theory().signature)
    with pytest.raises(DataError, match=message):
        epoch(batches, world(), {})


def test_entities_that_axioms_name_are_not_left_out():
    named = theory('G Stop("ego")', "forall x. G Stop(x)")
    formulas = {a.name: a.formula for a in named.axioms}
    with pytest.raises(DataError, match="'A0' names 'ego'"):
        check_batches(Batches("entities", 2, "agent"), world(), named.signature, formulas)
    check_batches(Batches("entities", 2, "place"), world(), named.signature, formulas)
    check_batches(Batches("traces", 2), world(), named.signature, formulas)
