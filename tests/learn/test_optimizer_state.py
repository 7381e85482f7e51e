"""Nested state becomes tensors and JSON, and comes back bit for bit."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fotltn import DataError
from fotltn.learn.optimizer_state import (
    flatten,
    generator_states,
    restore_generators,
    restore_optimiser,
    unflatten,
)
from fotltn.learn.store import read_folder, write_folder


def through_disk(tmp_path, tensors, document):
    write_folder(tmp_path / "state", tensors, {"state.json": document}, kind="state")
    found = read_folder(tmp_path / "state", kind="state")
    return found.documents["state.json"], found.tensors


def identical(one, two):
    """The same types, the same bits."""
    assert type(one) is type(two)
    if isinstance(one, torch.Tensor):
        assert one.dtype == two.dtype
        assert one.shape == two.shape
        assert one.numpy().tobytes() == two.numpy().tobytes()
    elif isinstance(one, dict):
        assert list(one) == list(two)
        assert [type(k) for k in one] == [type(k) for k in two]
        for key in one:
            identical(one[key], two[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            identical(a, b)
    elif isinstance(one, float):
        assert math.copysign(1, one) == math.copysign(1, two) or math.isnan(one)
        assert one == two or (math.isnan(one) and math.isnan(two))
    else:
        assert one == two


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec="utf-8"))
    | st.lists(st.floats(width=32), max_size=3).map(lambda x: torch.tensor(x, dtype=torch.float32)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.integers() | st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(values)
def test_any_nesting_comes_back(value):
    import json

    tensors, document = flatten(value, prefix="p/")
    assert all(name.startswith("p/") for name in tensors)
    again = json.loads(json.dumps(document, allow_nan=False))
    identical(unflatten(again, tensors), value)


def test_names_that_meet_are_kept_apart():
    value = {"a": {"b": torch.zeros(1)}, "a/b": torch.ones(1), 1: torch.ones(2), "1": torch.ones(3)}
    tensors, document = flatten(value)
    assert sorted(tensors) == ["1", "1~2", "a/b", "a/b~2"]
    identical(unflatten(document, tensors), value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [object()]}, "a value of type object at 'a/0' cannot be stored"),
        ({"f": len}, "a value of type builtin_function_or_method at 'f' cannot be stored"),
        ({1.5: 0}, "the key 1.5 at '' cannot be stored; expected text"),
        ({"a": {True: 0}}, "the key True at 'a' cannot be stored"),
        (np.zeros(2), "a value of type ndarray"),
    ],
)
def test_what_cannot_be_packed(value, message):
    with pytest.raises(DataError) as error:
        flatten(value)
    assert message in str(error.value)


def test_circles_and_depth():
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(DataError, match="nested more than 100 deep, at 0/0/0/0/0/…"):
        flatten(circle)
    deep: object = 0
    for _ in range(200):
        deep = [deep]
    with pytest.raises(DataError, match="nested more than 100 deep"):
        unflatten({"value": deep}, {})


@pytest.mark.parametrize(
    "node",
    [
        {},
        {"tensor": 3},
        {"tensor": "a", "tuple": []},
        {"float": "1.0"},
        {"dict": {}},
        {"dict": [["a"]]},
        {"dict": [[[], 0]]},
        {"dict": [[True, 0]]},
        {"tuple": 3},
        {"call": "os.system"},
    ],
)
def test_bad_documents(node):
    with pytest.raises(DataError, match="packed state has an unknown node"):
        unflatten({"value": [node]}, {"a": torch.zeros(1)})


def test_documents_of_something_else():
    documents: tuple[object, ...] = ({}, [], {"value": 1, "more": 2}, "text")
    for document in documents:
        with pytest.raises(DataError, match="must have one key, 'value'"):
            unflatten(document, {})
    with pytest.raises(DataError, match="refers to the tensor 'a', which is missing"):
        unflatten({"value": {"tensor": "a"}}, {})


# --- optimisers ------------------------------------------------------------------------------

OPTIMISERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01), amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    "plain": lambda p: torch.optim.SGD(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.01),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "lbfgs": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3),
}


def network(dtype=torch.float32):
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 4, dtype=dtype), torch.nn.ELU(), torch.nn.Linear(4, 1, dtype=dtype)
    )


def train(model, optimiser, generator, steps):
    dtype = next(model.parameters()).dtype
    for _ in range(steps):
        x = torch.rand(8, 3, generator=generator, dtype=dtype)

        def loss(x=x):
            optimiser.zero_grad()
            value = (model(x) - x.sum(-1, keepdim=True)).square().mean()
            value.backward()
            return value

        optimiser.step(loss)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", list(OPTIMISERS))
def test_training_goes_on_bit_for_bit(tmp_path, name, dtype):
    straight = network(dtype)
    optimiser = OPTIMISERS[name](straight.parameters())
    generator = torch.Generator().manual_seed(1)
    train(straight, optimiser, generator, 4)
    tensors, document = flatten(optimiser.state_dict(), prefix="optimiser/")
    tensors |= generator_states({"data": generator})
    tensors |= {f"model/{k}": v for k, v in straight.state_dict().items()}
    document, tensors = through_disk(tmp_path, tensors, document)
    train(straight, optimiser, generator, 4)

    resumed = network(dtype)
    fresh = OPTIMISERS[name](resumed.parameters())
    other = torch.Generator()
    resumed.load_state_dict(
        {k.removeprefix("model/"): v for k, v in tensors.items() if k.startswith("model/")}
    )
    restore_optimiser(fresh, document, tensors)
    restore_generators({"data": other}, tensors)
    train(resumed, fresh, other, 4)
    identical(dict(resumed.state_dict()), dict(straight.state_dict()))
    identical(fresh.state_dict(), optimiser.state_dict())
    assert torch.equal(other.get_state(), generator.get_state())


def test_an_optimiser_that_has_not_begun(tmp_path):
    model = network()
    tensors, document = flatten(torch.optim.Adam(model.parameters()).state_dict())
    assert tensors == {}
    fresh = torch.optim.Adam(model.parameters(), lr=7.0)
    restore_optimiser(fresh, *through_disk(tmp_path, tensors, document))
    assert fresh.param_groups[0]["lr"] == 1e-3


def test_the_state_of_another_optimiser():
    model = network()
    optimiser = torch.optim.Adam(model.parameters())
    train(model, optimiser, torch.Generator().manual_seed(1), 1)
    tensors, document = flatten(optimiser.state_dict(), prefix="optimiser/")
    with pytest.raises(DataError, match="does not belong to a SGD"):
        restore_optimiser(torch.optim.SGD(model.parameters(), lr=0.1), document, tensors)
    two = [{"params": [p]} for p in model.parameters()]
    with pytest.raises(DataError, match="or not to the same groups of parameters"):
        restore_optimiser(torch.optim.Adam(two), document, tensors)
    with pytest.raises(DataError, match="has 4 parameters; the optimiser has 2"):
        restore_optimiser(torch.optim.Adam(model[0].parameters()), document, tensors)
    wider = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 1))
    with pytest.raises(DataError, match=r"'exp_avg' of parameter 0 has the shape \(4, 3\)"):
        restore_optimiser(torch.optim.Adam(wider.parameters()), document, tensors)
    strange: tuple[object, ...] = ([], {"state": {}}, {"state": [], "param_groups": []})
    for value in strange:
        with pytest.raises(DataError, match="the packed state does not belong to an optimiser"):
            restore_optimiser(optimiser, *reversed(flatten(value)))


# --- generators ------------------------------------------------------------------------------


def test_generators_go_on_where_they_were(tmp_path):
    generators = {"a": torch.Generator().manual_seed(1), "b": torch.Generator().manual_seed(2)}
    torch.randn(7, generator=generators["a"])
    tensors = generator_states(generators)
    assert {t.dtype for t in tensors.values()} == {torch.uint8}
    _, tensors = through_disk(tmp_path, tensors, {})
    expected = {k: torch.randn(5, generator=g) for k, g in generators.items()}
    fresh = {"a": torch.Generator(), "b": torch.Generator()}
    restore_generators(fresh, tensors)
    for name, generator in fresh.items():
        assert torch.equal(torch.randn(5, generator=generator), expected[name])


def test_the_default_generator():
    tensors = generator_states({"torch": torch.default_generator})
    expected = torch.rand(3)
    restore_generators({"torch": torch.default_generator}, tensors)
    assert torch.equal(torch.rand(3), expected)


def test_generators_of_numpy_are_nested_state(tmp_path):
    generator = np.random.default_rng(5)
    generator.integers(0, 10, 3)
    state = generator.bit_generator.state
    document, tensors = through_disk(tmp_path, *flatten(state))
    expected = generator.random(4)
    generator.bit_generator.state = unflatten(document, tensors)
    assert (generator.random(4) == expected).all()


def test_bad_states_of_generators():
    generator = torch.Generator()
    with pytest.raises(DataError, match="the state of the random generator 'a' is missing"):
        restore_generators({"a": generator}, {})
    for state in (torch.zeros(3, dtype=torch.uint8), torch.zeros(5056)):
        with pytest.raises(DataError, match="the state of the random generator 'a' is invalid"):
            restore_generators({"a": generator}, {"a": state})
