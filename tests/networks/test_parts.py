"""Parts of the data: computing a part is computing all and slicing."""

from dataclasses import replace

import pytest
import torch

from fotltn import DataError, engine
from fotltn.grounding.labels import Labels
from fotltn.networks.encoders import Embeddings, Joined
from fotltn.networks.grounding import Grounding
from fotltn.networks.parts import part
from fotltn.networks.predicates import Defined, Logits, Network, Softmax, mlp
from fotltn.semantics.sparse import SparseTable, sparse_table
from fotltn.semantics.tables import Tables
from tests.networks.common import AGENTS, HORIZON, PLACES, TRACES, draw, theory, world


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def facts(seed=0):
    close = draw(TRACES, AGENTS, AGENTS, HORIZON, seed=seed)
    index = (close < 0.4).nonzero().T
    return sparse_table(index, close[tuple(index)], close.shape, default=0.1)


def grounding():
    given = world(dtype=torch.float64)
    given = replace(given, predicates={**given.predicates, "Close": facts()})
    shared = Embeddings(1, AGENTS, HORIZON, 2, time="static", scale=1.0, generator=gen(1))
    own = Embeddings(TRACES, AGENTS, HORIZON, 3, time="smooth", scale=1.0, generator=gen(2))
    return Grounding(
        theory().signature,
        given,
        {
            "Crossing": Network(mlp(5, generator=gen(3))),
            "Ped": Network(mlp(5, generator=gen(4)), static=True),
            "Alarm": Logits((1, HORIZON), scale=1.0, generator=gen(5)),
            "At": Logits((TRACES, AGENTS, PLACES, HORIZON), scale=1.0, generator=gen(6)),
            # Without quantifiers over agents, so that leaving agents out changes nothing else.
            "Danger": Defined(("x",), "Y (Crossing(x) & exists p. At(x, p)) & speed(x) > 0.5"),
        },
        inputs={"agent": Joined(shared, own)},
        groups=[Softmax(("Stop", "Run"), mlp(5, outputs=2, generator=gen(7)))],
    )


def dense(table):
    return table.dense(torch.float64) if isinstance(table, SparseTable) else table


def sliced(table, traces, chosen):
    for dim, numbers in enumerate([traces, *chosen]):
        if numbers is not None and not (dim == 0 and table.shape[0] == 1):
            table = torch.stack([table.select(dim, int(n)) for n in numbers], dim)
    return table


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize(
    ("traces", "agents"), [([1], None), ([1, 0], None), (None, [2, 0]), ([0], [3, 1, 2])]
)
def test_the_tables_of_a_part_are_those_of_all_data_sliced(traces, agents, again):
    ground = grounding()
    whole, sorts = ground(), theory().signature.predicates
    rows = None if traces is None else torch.tensor(traces)
    cut = {} if agents is None else {"agent": torch.tensor(agents)}
    piece = part(ground.fixed, ground.signature, traces=rows, entities=cut, again=again)
    for _ in range(2):
        model = ground(piece)
        assert set(model.predicates) == set(whole.predicates)
        for name, table in model.predicates.items():
            chosen = [cut.get(s) for s in sorts[name].sorts]
            expected = sliced(dense(whole.predicates[name]), rows, chosen)
            assert torch.allclose(dense(table), expected, atol=1e-12), name
    assert torch.equal(
        model.functions["speed"], sliced(whole.functions["speed"], rows, [cut.get("agent")])
    )
    expected = whole.lengths if rows is None else whole.lengths[rows]
    assert torch.equal(model.lengths, expected)
    assert model.sizes == {"agent": AGENTS if agents is None else len(agents), "place": PLACES}
    assert isinstance(model.predicates["Close"], SparseTable)
    assert model.predicates["Close"].default == 0.1


def test_a_part_that_is_met_once_leaves_nothing_behind():
    ground = grounding()
    numbers = {"agent": torch.tensor([1, 2])}
    for _ in range(3):
        ground(part(ground.fixed, ground.signature, entities=numbers, again=False))
    assert not ground._evaluators["Danger"]._ready
    kept = part(ground.fixed, ground.signature, entities=numbers)
    ground(kept)
    ready = ground._evaluators["Danger"]._ready[kept.key]
    compiled = engine._program.cache_info().misses
    ground(kept)
    assert ground._evaluators["Danger"]._ready == {kept.key: ready}
    assert engine._program.cache_info().misses == compiled


def test_gradients_reach_the_entities_of_a_part_only():
    ground = grounding()
    piece = part(ground.fixed, ground.signature, entities={"agent": torch.tensor([2])})
    ground(piece).predicates["Crossing"].sum().backward()
    shared = ground.inputs["agent"].parts[0].vectors.grad
    assert shared[:, 2].abs().max() > 0
    assert shared[:, [0, 1, 3]].abs().max() == 0


def test_features_for_equality_are_cut_too():
    given = replace(world(), features={"agent": draw(TRACES, AGENTS, 2)})
    piece = part(
        given, theory().signature, traces=torch.tensor([1]),
        entities={"agent": torch.tensor([3, 0])},
    )  # fmt: skip
    assert torch.equal(piece.fixed.features["agent"], given.features["agent"][1:2][:, [3, 0]])


# --- labels ----------------------------------------------------------------------------------


def labels():
    everything = {
        "Stop": torch.cartesian_prod(
            torch.arange(TRACES), torch.arange(AGENTS), torch.arange(HORIZON)
        ).T,
        "At": torch.tensor([[0, 1, 1], [0, 3, 2], [2, 0, 1], [4, 1, 0]]),
        "Alarm": torch.tensor([[0, 1], [3, 2]]),
        "Run": torch.zeros(3, 0, dtype=torch.long),
    }
    truth = {n: draw(i.shape[1], seed=k) for k, (n, i) in enumerate(everything.items())}
    sorts = {n: theory().signature.predicates[n].sorts for n in everything}
    return Labels(everything, truth, sorts)


@pytest.mark.parametrize(
    ("traces", "agents"), [([1], None), ([1, 0], None), (None, [2, 0]), ([0], [3, 1]), ([0], [1])]
)
def test_labels_of_a_part_are_those_inside_with_its_numbers(traces, agents):
    every = labels()
    piece = part(
        world(), theory().signature,
        traces=None if traces is None else torch.tensor(traces),
        entities={} if agents is None else {"agent": torch.tensor(agents)},
    )  # fmt: skip
    found = piece.labels(every)
    assert set(found.index) == set(every.index)
    for name, index in every.index.items():
        expected = []
        for row, degree in zip(index.T.tolist(), every.truth[name].tolist(), strict=True):
            places = [traces, *(agents if s == "agent" else None for s in every.sorts[name]), None]
            if all(p is None or n in p for n, p in zip(row, places, strict=True)):
                moved = [n if p is None else p.index(n) for n, p in zip(row, places, strict=True)]
                expected.append((moved, degree))
        assert found.index[name].T.tolist() == [row for row, _ in expected]
        assert found.truth[name].tolist() == [degree for _, degree in expected]


def test_labels_without_sorts_cannot_follow_entities():
    every = Labels(labels().index, labels().truth)
    piece = part(world(), theory().signature, traces=torch.tensor([1]))
    assert piece.labels(every).total < every.total
    piece = part(world(), theory().signature, entities={"agent": torch.tensor([1])})
    with pytest.raises(DataError, match="'Stop' do not tell the sorts"):
        piece.labels(every)


# --- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"traces": torch.tensor([2])}, "different traces from 0 to 1"),
        ({"traces": torch.tensor([-1])}, "different traces"),
        ({"traces": torch.tensor([0, 0])}, "different traces"),
        ({"traces": torch.tensor([], dtype=torch.long)}, "at least one"),
        ({"entities": {"agent": torch.tensor([0.5])}}, "different entities of 'agent'"),
        ({"entities": {"agent": torch.tensor([[0]])}}, "different entities of 'agent'"),
        ({"entities": {"agents": torch.tensor([0])}}, "unknown sort 'agents'.*'agent'"),
    ],
)
def test_numbers_that_are_none_are_refused(options, message):
    with pytest.raises(DataError, match=message):
        part(world(), theory().signature, **options)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("function next(agent): agent", "the function 'next' returns them"),
        ("relation pairs(place, agent)", "the relation 'pairs' lists them"),
        ("constant ego: agent", "the constant 'ego'"),
    ],
)
def test_entities_that_others_refer_to_are_not_left_out(declared, message):
    signature = theory(declared=f"sort agent, place\n{declared}").signature
    given = Tables({"agent": 3, "place": 2}, torch.tensor([2]), 2, {})
    with pytest.raises(DataError, match=f"entities of 'agent' cannot be left out.*{message}"):
        part(given, signature, entities={"agent": torch.tensor([0])})
