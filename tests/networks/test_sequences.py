"""Encoders over time: what they may look at, and what they must not depend on."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fotltn.errors import DataError
from fotltn.logic.check import check
from fotltn.networks.encoders import FeatureInputs
from fotltn.networks.grounding import Grounding
from fotltn.networks.neighbours import pooled
from fotltn.networks.parts import part
from fotltn.networks.predicates import Network, mlp
from fotltn.networks.sequences import Encoded, TimeEncoder
from fotltn.semantics.sparse import sparse_table
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory

KINDS = ("gru", "convolution", "transformer")
TRACES, ENTITIES, TIMES, WIDTH = 3, 4, 9, 2


def data(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Features, and entities that come, go away for a while, and leave; one is never there."""
    draw = torch.Generator().manual_seed(seed)
    values = torch.randn(TRACES, ENTITIES, TIMES, WIDTH, generator=draw, dtype=torch.float64)
    present = torch.rand(TRACES, ENTITIES, TIMES, generator=draw) < 0.7
    present[1, 2] = False
    present[0, 0] = True
    return values, present


def encoder(kind, **options) -> TimeEncoder:
    torch.manual_seed(3)
    return TimeEncoder(WIDTH, kind, 6, layers=2, **options).double()


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_causal_encoder_sees_the_past_alone(kind):
    values, present = data()
    module = encoder(kind)
    before = module(values, present)
    for time in range(TIMES):
        other = values.clone()
        other[..., time + 1 :, :] += 5
        close(module(other, present)[..., : time + 1, :], before[..., : time + 1, :])
        later = present.clone()
        later[..., time + 1 :] = ~later[..., time + 1 :]
        stays = present[..., : time + 1].any(-1)
        close(module(values, later)[stays][:, : time + 1], before[stays][:, : time + 1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_two_sided_encoder_sees_what_comes_too(kind):
    values, present = data()
    module = encoder(kind, causal=False)
    before = module(values, present)
    values[0, 0, -1] += 5
    assert (module(values, present)[0, 0, -2] - before[0, 0, -2]).abs().max() > 1e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("causal", [True, False])
def test_what_is_not_there_does_not_count(kind, causal):
    values, present = data()
    module = encoder(kind, causal=causal)
    before = module(values, present)
    assert (before[~present] == 0).all()
    noise = torch.where(present.unsqueeze(-1), values, values + 7)
    close(module(noise, present), before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("causal", [True, False])
def test_neither_the_length_of_other_traces_nor_the_time_of_arrival_matters(kind, causal):
    values, present = data()
    module = encoder(kind, causal=causal)
    before = module(values, present)
    room = torch.zeros(TRACES, ENTITIES, 4, WIDTH, dtype=torch.float64)
    none = torch.zeros(TRACES, ENTITIES, 4, dtype=torch.bool)
    after = module(torch.cat([values, room], 2), torch.cat([present, none], 2))
    close(after[:, :, :TIMES], before)
    moved = module(torch.cat([room, values], 2), torch.cat([none, present], 2))
    close(moved[:, :, 4:], before)
    alone = module(values[2:, 1:2], present[2:, 1:2])
    close(alone, before[2:, 1:2])


def test_the_recurrent_network_is_that_of_each_row_alone():
    values, present = data()
    module = encoder("gru", causal=False)
    core: Any = module.core
    output = module(values, present)
    for trace in range(TRACES):
        for entity in range(ENTITIES):
            times = present[trace, entity].nonzero().flatten().tolist()
            if not times:
                continue
            span = slice(times[0], times[-1] + 1)
            told = present[trace, entity, span].double().unsqueeze(-1)
            row = torch.cat([values[trace, entity, span] * told, told], -1).unsqueeze(0)
            ahead, back = core.ahead(row)[0], core.back(row.flip(1))[0].flip(1)
            close(output[trace, entity, span], torch.cat([ahead, back], -1)[0] * told)


def test_gradients_reach_all_weights_and_the_features():
    values, present = data()
    for kind in KINDS:
        module = encoder(kind, causal=False)
        seen = values.clone().requires_grad_()
        module(seen, present).square().sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters())
        assert seen.grad is not None
        assert (seen.grad[~present] == 0).all()


def test_nobody_is_ever_there():
    values, present = data()
    for kind in KINDS:
        output = encoder(kind)(values, torch.zeros_like(present))
        assert output.shape == (TRACES, ENTITIES, TIMES, 6)
        assert (output == 0).all()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"kind": "lstm"}, "encoders can be 'gru', 'convolution', 'transformer', not 'lstm'"),
        ({"size": 0}, "whole numbers of at least 1"),
        ({"kind": "transformer", "size": 5}, "2 heads do not divide a transformer's width of 5"),
    ],
)
def test_encoders_that_there_are_not(options, expected):
    with pytest.raises(DataError, match=expected):
        TimeEncoder(WIDTH, **options)


def test_an_encoder_of_ones_own():
    values, present = data()

    class Total(nn.Module):
        def forward(self, seen: Tensor) -> Tensor:
            return seen.cumsum(2)

    class Flat(nn.Module):
        def forward(self, seen: Tensor, present: Tensor) -> Tensor:
            return seen[present]

    inputs = FeatureInputs(values)
    made = Encoded("agent", inputs, Total(), present)
    assert made.width == WIDTH
    close(made(), inputs().cumsum(2))
    with pytest.raises(
        DataError, match=r"the encoder of 'agent' returned .* expected the same axes"
    ):
        Encoded("agent", inputs, Flat(), present)
    with pytest.raises(DataError, match="does not accept vectors of shape"):
        Encoded("agent", inputs, nn.Linear(5, 2).double(), present)
    steady = FeatureInputs(values[:, :, :1])
    with pytest.raises(
        DataError, match="an encoder needs inputs that change over time, but those of 'agent'"
    ):
        Encoded("agent", steady, Total(), present)


# --- neighbours -------------------------------------------------------------------------------

SIGNATURE = """
sort car, person
predicate Near(car, person), Far(car, car), Glad(person)
static predicate Owns(car, person)
"""


def scene(dense: bool) -> Tables:
    from fotltn.grounding.features import Features
    from fotltn.logic.check import check
    from fotltn.syntax.load import parse_theory

    draw = torch.Generator().manual_seed(8)

    def facts(*shape: int) -> Tensor:
        return (torch.rand(*shape, generator=draw) < 0.4).double()

    relations = {
        "Near": facts(2, 3, 4, 5), "Far": facts(1, 3, 3, 5), "Owns": facts(2, 3, 4, 1)
    }  # fmt: skip
    tables = {
        n: t if dense else sparse_table(t.nonzero().T, None, t.shape) for n, t in relations.items()
    }
    persons = torch.randn(2, 4, 5, 3, generator=draw, dtype=torch.float64)
    cars = torch.randn(2, 3, 1, 2, generator=draw, dtype=torch.float64)
    signature = check(parse_theory(SIGNATURE)).signature
    return Tables(
        {"car": 3, "person": 4}, torch.tensor([5, 5]), 5, tables, {}, {}, signature=signature,
        inputs={"person": Features(("a", "b", "c"), persons), "car": Features(("u", "v"), cars)},
    )  # fmt: skip


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize(
    ("relation", "sort", "other", "place"),
    [
        ("Near", "car", "person", 0), ("Near", "person", "car", 1), ("Far", "car", "car", 0),
        ("Owns", "person", "car", 1), ("Owns", "car", "person", 0),
    ],
)  # fmt: skip
def test_neighbours_are_counted_and_averaged(dense, relation, sort, other, place):
    tables = scene(dense)
    output = pooled(tables, relation, sort)
    facts = scene(dense=True).predicate(relation)
    features = tables.inputs[other].values
    for trace in range(2):
        for entity in range(tables.sizes[sort]):
            for time in range(output.shape[2]):
                row = facts[trace % facts.shape[0]].select(place, entity)
                row = row[:, time % row.shape[1]]
                near = row.nonzero().flatten()
                seen = features[trace, near, time % features.shape[2]]
                expected = seen.mean(0) if len(near) else torch.zeros(features.shape[-1]).double()
                close(output[trace, entity, time, 0], torch.tensor(float(len(near))).double())
                close(output[trace, entity, time, 1:], expected)


def test_neighbours_that_nothing_tells():
    tables = scene(dense=False)
    for relation, expected in [
        ("Naer", "unknown predicate 'Naer' of neighbours; did you mean 'Near'"),
        ("Glad", "a predicate of a 'car' and another entity, not 'Glad\\(person\\)'"),
    ]:
        with pytest.raises(DataError, match=expected):
            pooled(tables, relation, "car")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_part_is_encoded_by_itself_as_in_the_whole(kind, causal, seed):
    values, present = data(seed)
    signature = check(parse_theory("sort agent\npredicate A(agent), B(agent)")).signature
    fixed = Tables({"agent": ENTITIES}, torch.full((TRACES,), TIMES), TIMES, {})
    torch.manual_seed(seed)
    inputs = Encoded("agent", FeatureInputs(values), encoder(kind, causal=causal), present)
    sizes: list[int] = []
    inputs.encoder.register_forward_pre_hook(lambda _, args, **__: sizes.append(len(args[0])))
    networks = {n: Network(mlp(inputs.width).double()) for n in ("A", "B")}
    made = Grounding(signature, fixed, networks, inputs={"agent": inputs})
    weights = [p for p in made.parameters() if p.requires_grad]

    def graded(table: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(table.square().sum(), weights, allow_unused=True)

    draw = torch.Generator().manual_seed(seed)
    cuts: list[dict[str, Any]] = [{"traces": torch.tensor([1])}, {"traces": torch.tensor([2, 0])}]
    some = torch.randperm(ENTITIES, generator=draw)[:2].sort().values
    cuts += [{"traces": torch.tensor([0, 2]), "entities": {"agent": some}}]
    cuts += [{"entities": {"agent": some}}]
    for cut in cuts:
        chosen = part(fixed, signature, **cut)
        for _ in range(2):  # the second time, where entities are is known
            sizes.clear()
            alone = made(chosen).predicate("A")
            assert sizes == [len(cut.get("traces", range(TRACES)))]
        expected = chosen.pick(made().predicate("A"), ("agent",))
        close(alone, expected)
        for one, other in zip(graded(alone), graded(expected), strict=True):
            if one is not None:
                close(one, other)
