"""Many networks as one: each trace as the plain network with its weights."""

import pytest
import torch

from fotltn import DataError
from fotltn.networks.predicates import ACTIVATIONS, Network, mlp
from reproduction.paper.many_networks import ManyMLP


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def plain(many, number, width, hidden, outputs, activation):
    """The network of one trace, by `mlp`."""
    one = mlp(width, hidden, outputs, activation=activation)
    layers = [layer for layer in one if isinstance(layer, torch.nn.Linear)]
    with torch.no_grad():
        for layer, weight, bias in zip(layers, many.weights, many.biases, strict=True):
            layer.weight.copy_(weight[number].T)
            layer.bias.copy_(bias[number, 0])
    return one


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    ("hidden", "outputs", "middle"),
    [((16, 16), 1, (4, 5)), ((3,), 2, (6,)), ((), 1, ()), ((2, 3, 4), 3, (2, 1, 3))],
)
def test_each_trace_is_as_mlp(activation, hidden, outputs, middle):
    count, width = 3, 7
    many = ManyMLP(
        count, width, hidden, outputs, activation=activation, generator=seeded(1)
    )  # fmt: skip
    x = torch.randn(count, *middle, width, generator=seeded(2))
    found = many(x)
    assert found.shape == (count, *middle, outputs)
    for number in range(count):
        one = plain(many, number, width, hidden, outputs, activation)
        torch.testing.assert_close(found[number], one(x[number]), rtol=1e-12, atol=1e-12)


def test_gradients_are_those_of_mlp_and_do_not_cross_traces():
    many = ManyMLP(2, 5, (4,), generator=seeded(1))
    x = torch.randn(2, 3, 6, 5, generator=seeded(2))
    many(x).square().sum().backward()
    for number in range(2):
        one = plain(many, number, 5, (4,), 1, "elu")
        one(x[number]).square().sum().backward()
        linear = [layer for layer in one if isinstance(layer, torch.nn.Linear)]
        for layer, weight, bias in zip(linear, many.weights, many.biases, strict=True):
            torch.testing.assert_close(weight.grad[number].T, layer.weight.grad)
            torch.testing.assert_close(bias.grad[number, 0], layer.bias.grad)
    many.zero_grad()
    many(x)[0].sum().backward()
    assert all(not weight.grad[1].any() and weight.grad[0].any() for weight in many.weights)


def test_a_trace_is_drawn_by_itself():
    many = ManyMLP(3, 5, generator=seeded(1))
    before = [p.detach().clone() for p in many.parameters()]
    many.draw(1, seeded(9))
    for old, new in zip(before, many.parameters(), strict=True):
        assert torch.equal(old[0], new[0])
        assert torch.equal(old[2], new[2])
        assert not torch.equal(old[1], new[1])
    other = ManyMLP(2, 5, generator=seeded(4))
    other.draw(0, seeded(9))
    for one, two in zip(many.parameters(), other.parameters(), strict=True):
        assert torch.equal(one[1], two[0])


def test_initial_weights_have_the_range_of_mlp():
    many = ManyMLP(50, 16, (25,), generator=seeded(1))
    bounds = (16**-0.5, 25**-0.5)
    for weight, bias, bound in zip(many.weights, many.biases, bounds, strict=True):
        for drawn in (weight, bias):
            assert drawn.abs().max() <= bound
        assert weight.abs().max() > 0.95 * bound
        assert abs(float(weight.detach().std()) / (bound / 3**0.5) - 1) < 0.05


def test_it_is_a_predicate():
    many = ManyMLP(2, 5, (4,), generator=seeded(1))
    seen = torch.randn(2, 3, 6, 5, generator=seeded(2))
    table = Network(many)([seen])
    torch.testing.assert_close(table, torch.sigmoid(many(seen).squeeze(-1)))
    assert Network(many, static=True)([seen]).shape == (2, 3, 1)


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((0, 5), {}, "0 networks with layers of widths"),
        ((2, 5, (0,)), {}, r"widths \[5, 0, 1\]"),
        ((2, 5), {"activation": "rely"}, "unknown activation 'rely'; did you mean 'relu'"),
    ],
)
def test_what_makes_no_sense_is_refused(args, options, message):
    with pytest.raises(DataError, match=message):
        ManyMLP(*args, **options)
