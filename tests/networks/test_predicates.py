"""Predicates as modules, against loops over cells."""

import itertools

import pytest
import torch
from torch import nn

from fotltn import DataError
from fotltn.networks.encoders import smoothing
from fotltn.networks.predicates import ACTIVATIONS, Logits, Network, Softmax, mlp


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def seen(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed))


# --- layers ----------------------------------------------------------------------------------


def test_layers_depend_on_the_generator_alone():
    torch.manual_seed(1)
    first = mlp(4, (8, 3), generator=generator())
    torch.manual_seed(2)
    second = mlp(4, (8, 3), generator=generator())
    assert [tuple(p.shape) for p in first.parameters()] == [
        (8, 4), (8,), (3, 8), (3,), (1, 3), (1,),
    ]  # fmt: skip
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert [type(layer).__name__ for layer in first] == ["Linear", "ELU", "Linear", "ELU", "Linear"]


@pytest.mark.parametrize("width", [1, 9, 400])
def test_initial_weights_lie_in_the_range_of_pytorchs_own(width):
    ours, theirs = mlp(width, (500,), generator=generator())[0], nn.Linear(width, 500)
    bound = width**-0.5
    for name in ("weight", "bias"):
        own, other = getattr(ours, name), getattr(theirs, name)
        assert own.abs().max() <= bound
        assert own.abs().max() >= 0.95 * bound
        assert own.std().item() == pytest.approx(other.std().item(), rel=0.15)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_is_applied(activation):
    layers = mlp(2, (3,), activation=activation, generator=generator())
    x = seen(5, 2)
    first, last = layers[0], layers[2]
    by_hand = ACTIVATIONS[activation]()(x @ first.weight.T + first.bias)
    by_hand = by_hand @ last.weight.T + last.bias
    assert torch.allclose(layers(x), by_hand, atol=1e-6)


def test_layers_that_make_no_sense_are_refused():
    with pytest.raises(DataError, match=r"'rellu'; did you mean 'relu'\?"):
        mlp(2, activation="rellu")
    with pytest.raises(DataError, match="unknown activation 'step'; available: 'elu'"):
        mlp(2, activation="step")
    with pytest.raises(DataError, match="at least 1"):
        mlp(0)
    with pytest.raises(DataError, match="at least 1"):
        mlp(2, (4, 0))


# --- networks --------------------------------------------------------------------------------


def test_a_network_of_one_argument_is_applied_to_every_cell():
    network, vectors = Network(mlp(3, generator=generator())), seen(2, 4, 5, 3)
    table = network([vectors])
    assert table.shape == (2, 4, 5)
    for trace, x, time in itertools.product(range(2), range(4), range(5)):
        cell = torch.sigmoid(network.module(vectors[trace, x, time]))
        assert table[trace, x, time].item() == pytest.approx(cell.item(), abs=1e-6)


def test_a_network_of_two_arguments_sees_both_in_order():
    network = Network(mlp(5, generator=generator()))
    first, second = seen(2, 4, 5, 3), seen(1, 3, 1, 2, seed=1)
    table = network([first, second])
    assert table.shape == (2, 4, 3, 5)
    for trace, x, y, time in itertools.product(range(2), range(4), range(3), range(5)):
        both = torch.cat([first[trace, x, time], second[0, y, 0]])
        cell = torch.sigmoid(network.module(both))
        assert table[trace, x, y, time].item() == pytest.approx(cell.item(), abs=1e-6)


def test_a_static_network_sees_the_first_time_point():
    vectors = seen(2, 4, 5, 3)
    network = Network(mlp(3, generator=generator()), static=True)
    table = network([vectors])
    assert table.shape == (2, 4, 1)
    assert torch.equal(table, torch.sigmoid(network.module(vectors[:, :, :1])).squeeze(-1))


def test_a_module_may_leave_out_the_last_axis():
    class Sum(nn.Module):
        def forward(self, x):
            return x.sum(-1)

    vectors = seen(2, 4, 1, 3)
    assert torch.equal(Network(Sum())([vectors]), torch.sigmoid(vectors.sum(-1)))


def test_degrees_are_taken_as_they_are_and_refused_outside_the_unit_interval():
    class Clamp(nn.Module):
        def forward(self, x):
            return x[..., :1]

    network = Network(Clamp(), probability=True)
    fine = torch.rand(1, 4, 2, 3, generator=generator())
    assert torch.equal(network([fine]), fine[..., 0])
    with pytest.raises(DataError, match=r"-0\.5 to 2"):
        network([torch.tensor([-0.5, 2.0]).reshape(1, 2, 1, 1)])
    assert network([torch.full((1, 1, 1, 1), torch.nan)]).isnan().all()
    assert torch.equal(network.outputs([3 * fine]), 3 * fine[..., 0])


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lambda: mlp(3, outputs=2), r"expected one output, not 2"),
        (lambda: mlp(4), r"vectors of width 3 .*mat1 and mat2 shapes"),
        (lambda: nn.Flatten(0, -1), r"shape \(120,\)"),
        (lambda: nn.LSTM(3, 1), "vectors of width 3"),
        (lambda: mlp(3).bfloat16(), "vectors of width 3 .*dtype"),
    ],
)
def test_modules_that_do_not_fit_are_refused(module, message):
    with pytest.raises(DataError, match=message):
        Network(module())([seen(2, 4, 5, 3)])


def test_what_a_module_gives_must_be_a_tensor():
    class Pair(nn.Module):
        def forward(self, x):
            return x, x

    with pytest.raises(DataError, match="returned tuple"):
        Network(Pair())([seen(2, 4, 5, 3)])


# --- softmax ---------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [False, True])
def test_predicates_that_exclude_each_other_share_the_degree(other):
    names = ("Red", "Amber", "Green")
    group = Softmax(names, mlp(3, outputs=3 + other, generator=generator()), other=other)
    vectors = 5 * seen(2, 4, 5, 3)
    tables = group([vectors])
    assert tuple(tables) == names
    total = sum(tables.values())
    if other:
        assert (total < 1).all()
        assert total.min() < 0.9
    else:
        assert torch.allclose(total, torch.ones(2, 4, 5), atol=1e-6)
    cell = group.module(vectors[1, 2, 3]).exp()
    assert tables["Amber"][1, 2, 3].item() == pytest.approx((cell[1] / cell.sum()).item())


def test_a_softmax_of_the_wrong_width_is_refused():
    with pytest.raises(DataError, match="must have 2 outputs for 'A', 'B', not 3"):
        Softmax(("A", "B"), mlp(3, outputs=3))([seen(1, 2, 2, 3)])
    with pytest.raises(DataError, match=r"must have 3 outputs .* and none of them, not 2"):
        Softmax(("A", "B"), mlp(3, outputs=2), other=True)([seen(1, 2, 2, 3)])
    with pytest.raises(DataError, match="at least one"):
        Softmax((), mlp(3))


# --- logits ----------------------------------------------------------------------------------


def test_logits_are_free_or_averaged_in_time():
    free = Logits((2, 3, 6), scale=1.0, generator=generator())
    assert torch.equal(free(), torch.sigmoid(free.values))
    smooth = Logits((2, 3, 6), scale=1.0, reach=1.5, generator=generator())
    assert torch.equal(smooth.values, free.values)
    kernel = smoothing(6, 1.5)
    for trace, x, time in itertools.product(range(2), range(3), range(6)):
        logit = (kernel[time] * smooth.values[trace, x]).sum()
        assert smooth()[trace, x, time].item() == pytest.approx(torch.sigmoid(logit).item())
    static = Logits((1, 3, 1), reach=2.0)
    assert static().shape == (1, 3, 1)


def test_logits_need_a_shape():
    with pytest.raises(DataError, match="shape"):
        Logits((3,))
    with pytest.raises(DataError, match="shape"):
        Logits((1, 0, 3))
