"""What networks see of entities."""

import itertools
import math

import pytest
import torch
from torch import nn

from fotltn import DataError
from fotltn.networks.encoders import (
    Embeddings,
    FeatureInputs,
    Joined,
    Pieces,
    PiecesByArgument,
    smoothing,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("time", "points"), [("free", 7), ("static", 1), ("smooth", 7)])
def test_embeddings_have_an_axis_for_each_of_trace_entity_time_and_width(time, points):
    module = Embeddings(2, 3, 7, 4, time=time, generator=generator())
    assert module().shape == (2, 3, points, 4)
    again = Embeddings(2, 3, 7, 4, time=time, generator=generator())
    assert torch.equal(module(), again())
    other = Embeddings(2, 3, 7, 4, time=time, generator=generator(1))
    assert not torch.equal(module(), other())


@pytest.mark.parametrize("time", ["free", "static", "smooth"])
@pytest.mark.parametrize("scale", [0.01, 2.0])
def test_the_scale_is_the_standard_deviation_of_what_networks_see(time, scale):
    module = Embeddings(1, 200, 30, 32, time=time, scale=scale, reach=4.0, generator=generator())
    assert module().std().item() == pytest.approx(scale, rel=0.03)
    assert abs(module().mean().item()) < 0.05 * scale


def test_smoothing_weighs_neighbours_as_a_normal_distribution():
    weights = smoothing(9, 2.0)
    assert torch.allclose(weights.sum(1), torch.ones(9), atol=1e-6)
    for s in range(9):
        raw = [math.exp(-((s - t) ** 2) / 8) for t in range(9)]
        assert weights[s].tolist() == pytest.approx([r / sum(raw) for r in raw], abs=1e-6)


def test_smooth_embeddings_are_the_average_and_neighbours_are_alike():
    module = Embeddings(1, 50, 40, 8, time="smooth", reach=3.0, generator=generator())
    kernel, raw = smoothing(40, 3.0), module.vectors
    by_hand = torch.stack([(kernel[s, :, None] * raw[0, 5]).sum(0) for s in range(40)])
    assert torch.allclose(module()[0, 5], by_hand, atol=1e-6)
    steps = (module()[:, :, 1:] - module()[:, :, :-1]).std()
    assert steps < 0.4 * module().std()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"entities": 0}, "at least 1"),
        ({"width": 0}, "at least 1"),
        ({"time": "smoth"}, "'free', 'static', 'smooth'"),
        ({"scale": -1.0}, "scale"),
        ({"scale": math.nan}, "scale"),
        ({"time": "smooth", "reach": 0.0}, "the reach of smoothing"),
    ],
)
def test_embeddings_that_make_no_sense_are_refused(wrong, message):
    given = {"traces": 1, "entities": 2, "horizon": 3, **wrong}
    with pytest.raises(DataError, match=message):
        Embeddings(**given)


# --- features --------------------------------------------------------------------------------


def features(seed=0, shape=(2, 5, 6, 3)):
    return torch.randn(shape, generator=generator(seed)) * torch.tensor([1.0, 10.0, 0.1]) + 7


def test_features_are_centred_and_scaled_one_by_one():
    seen = FeatureInputs(features())()
    assert seen.shape == (2, 5, 6, 3)
    flat = seen.reshape(-1, 3)
    assert torch.allclose(flat.mean(0), torch.zeros(3), atol=1e-5)
    assert torch.allclose(flat.std(0, correction=0), torch.ones(3), atol=1e-5)


def test_only_features_of_those_present_count():
    values = features()
    present = torch.rand(2, 5, 6, generator=generator(1)) < 0.6
    spoilt = torch.where(present.unsqueeze(-1), values, torch.tensor(math.nan))
    module = FeatureInputs(spoilt, present=present)
    seen = module()
    assert torch.equal(seen[~present], torch.zeros(int((~present).sum()), 3))
    rows = values[present]
    expected = (rows - rows.mean(0)) / rows.std(0, correction=0)
    assert torch.allclose(seen[present], expected, atol=1e-5)


def test_nobody_present_is_no_problem():
    module = FeatureInputs(features(), present=torch.zeros(2, 5, 6, dtype=torch.bool))
    assert torch.equal(module(), torch.zeros(2, 5, 6, 3))


def test_a_constant_feature_is_seen_as_zero():
    values = features()
    values[..., 1] = 0.1
    assert torch.allclose(FeatureInputs(values)()[..., 1], torch.zeros(()), atol=1e-5)


def test_learnable_entities_get_gradients_and_only_they_change():
    values = features()
    module = FeatureInputs(values, learnable=(3, 1))
    fixed = FeatureInputs(values)()
    seen = module()
    assert torch.equal(seen[:, [1, 3]], torch.zeros(2, 2, 6, 3))
    assert torch.equal(seen[:, [0, 2, 4]], fixed[:, [0, 2, 4]])
    optimiser = torch.optim.SGD(module.parameters(), lr=1.0)
    target = torch.zeros_like(seen)
    target[:, 1], target[:, 3] = 0.25, -0.5
    ((seen - target) ** 2).sum().backward()
    optimiser.step()
    # d/dx Σ (x - y)² over 2 traces and 6 time points
    after = module()
    assert torch.allclose(after[:, 1], torch.tensor(2 * 12 * 0.25))
    assert torch.allclose(after[:, 3], torch.tensor(-2 * 12 * 0.5))
    assert torch.equal(after[:, [0, 2, 4]], fixed[:, [0, 2, 4]])


def test_features_without_learnable_entities_have_no_parameters():
    assert not list(FeatureInputs(features()).parameters())


def test_mean_and_spread_are_kept_with_the_weights_and_features_are_not():
    trained, later = FeatureInputs(features(0)), FeatureInputs(features(1) + 100)
    assert set(trained.state_dict()) == {"mean", "spread"}
    later.load_state_dict(trained.state_dict())
    expected = (features(1) + 100 - trained.mean) / trained.spread
    assert torch.equal(later(), expected)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (torch.zeros(2, 3, 4), {}, "axes"),
        (torch.zeros(2, 3, 4, 1, dtype=torch.long), {}, "int64"),
        (torch.zeros(2, 3, 4, 0), {}, "axes"),
        (torch.full((2, 3, 4, 1), math.inf), {}, "finite"),
        (torch.zeros(2, 3, 4, 1), {"present": torch.ones(2, 3, dtype=torch.bool)}, "presence"),
        (torch.zeros(2, 3, 4, 1), {"present": torch.ones(2, 3, 4)}, "presence"),
        (torch.zeros(2, 3, 4, 1), {"learnable": (3,)}, "0 to 2"),
        (torch.zeros(2, 3, 4, 1), {"learnable": (-1,)}, "0 to 2"),
        (torch.zeros(2, 3, 4, 1), {"learnable": (1, 1)}, "different"),
    ],
)
def test_features_that_do_not_fit_are_refused(values, options, message):
    with pytest.raises(DataError, match=message):
        FeatureInputs(values, **options)


# --- side by side ----------------------------------------------------------------------------


def test_static_inputs_are_joined_with_timed_ones():
    static = Embeddings(1, 5, 6, 2, time="static", generator=generator())
    timed = FeatureInputs(features())
    module = Joined(static, Joined(timed))
    assert module.width == 5
    seen = module()
    assert seen.shape == (2, 5, 6, 5)
    for trace in range(2):
        for time in range(6):
            assert torch.equal(seen[trace, :, time, :2], static()[0, :, 0])
            assert torch.equal(seen[trace, :, time, 2:], timed()[trace, :, time])
    assert len(list(module.parameters())) == 1


def test_inputs_of_different_entities_are_not_joined():
    module = Joined(Embeddings(1, 5, 6, 2), Embeddings(1, 4, 6, 2))
    with pytest.raises(DataError, match=r"\(1, 5, 6\), \(1, 4, 6\)"):
        module()
    with pytest.raises(DataError, match="no inputs to combine"):
        Joined()


def test_all_inputs_move_with_their_module():
    modules = nn.ModuleList(
        [
            Embeddings(1, 5, 6, 2, time="smooth"),
            FeatureInputs(features(), learnable=(1,), present=torch.ones(2, 5, 6).bool()),
        ]
    ).double()
    assert all(module().dtype == torch.float64 for module in modules)


# --- pieces -----------------------------------------------------------------------------------


def by_hand(value: float, edges: list[float]) -> list[float]:
    """How much of each interval lies below a number."""
    return [min(max((value - a) / (b - a), 0.0), 1.0) for a, b in itertools.pairwise(edges)]


def test_pieces_are_shares_of_the_intervals_between_quantiles():
    rows = torch.arange(9.0).unsqueeze(-1) ** 2  # quarters: 0, 4, 16, 36, 64
    pieces = Pieces(rows[torch.randperm(9, generator=generator())], [True], 4)
    assert pieces.width == 4
    for value in (-3.0, 0.0, 1.0, 4.0, 20.0, 63.0, 64.0, 1000.0):
        seen = pieces(torch.tensor([[[value]]]))
        assert seen.shape == (1, 1, 4)
        assert seen.flatten().tolist() == pytest.approx(by_hand(value, [0, 4, 16, 36, 64]))


def test_what_is_no_number_to_take_by_pieces_stays_and_comes_first():
    rows = torch.rand(20, 3, generator=generator())
    pieces = Pieces(rows, [True, False, True], 5)
    assert pieces.width == 11
    seen = pieces(rows)
    assert torch.equal(seen[:, 0], rows[:, 1])
    for row, values in zip(rows.tolist(), seen[:, 1:].tolist(), strict=True):
        expected = [
            share
            for column, number in ((0, row[0]), (2, row[2]))
            for share in by_hand(number, pieces.edges[0 if column == 0 else 1].tolist())
        ]
        assert values == pytest.approx(expected, abs=1e-5)


def test_a_column_of_few_values_has_few_pieces():
    rows = torch.tensor([[0.0, 7.0], [1.0, 7.0], [1.0, 7.0], [3.0, 7.0]])
    pieces = Pieces(rows, [True, True], 6)
    seen = pieces(torch.tensor([[0.0, 7.0], [2.0, 7.0], [9.0, -1.0]]))
    assert seen.isfinite().all()
    assert seen[:, :2].tolist() == [[0, 0], [1, 0.5], [1, 1]]
    assert not seen[:, 2:].any()  # a constant says nothing


def test_pieces_of_no_rows_wait_for_those_that_are_loaded():
    some, none = (
        Pieces(torch.arange(5.0).unsqueeze(-1), [True], 2),
        Pieces(torch.zeros(0, 1), [True], 2),
    )
    assert not none(torch.tensor([[3.0]])).any()
    none.load_state_dict(some.state_dict())
    assert none(torch.tensor([[3.0]])).tolist() == [[1.0, 0.5]]


def test_arguments_have_pieces_of_their_own():
    first = Pieces(torch.arange(5.0).unsqueeze(-1), [True], 2)
    both = PiecesByArgument([first, 2])
    seen = both(torch.tensor([[3.0, 8.0, 9.0]]))
    assert both.width == 4
    assert seen.tolist() == [[1.0, 0.5, 8.0, 9.0]]
