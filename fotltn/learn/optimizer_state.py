"""Convert nested state, such as that of an optimiser, to tensors and a JSON document, and back.

The document repeats the nesting. Numbers, text, True, False, None and lists stand for themselves.
Everything else is an object with one key that says what it is:

- `{"tensor": NAME}`, the tensor with that name;
- `{"dict": [[KEY, VALUE], …]}`, because keys may be numbers;
- `{"tuple": […]}`;
- `{"float": "inf"}`, and the same for "-inf" and "nan", which JSON lacks.

All values are restored with their types and bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from fotltn.errors import DataError

_MAX_DEPTH = 100

#: The tensors that optimisers keep for each element of a parameter.
_ELEMENTWISE = (
    "exp_avg", "exp_avg_sq", "exp_inf", "max_exp_avg_sq", "momentum_buffer", "square_avg",
    "grad_avg", "acc_delta", "sum",
)  # fmt: skip


def flatten(value: Any, *, prefix: str = "") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of a nested value by name, and a document that says where they belong.

    Args:
        value: tensors, numbers, text, True, False and None in dictionaries, lists and tuples.
        prefix: a prefix for the names of all tensors.

    Raises:
        DataError: there is a value of another type; the message says where.

    >>> tensors, document = flatten({"lr": 0.1, "state": {0: torch.zeros(2)}}, prefix="adam/")
    >>> list(tensors)
    ['adam/state/0']
    >>> unflatten(document, tensors)
    {'lr': 0.1, 'state': {0: tensor([0., 0.])}}
    """
    tensors: dict[str, Tensor] = {}
    return tensors, {"value": _pack(value, (), prefix, tensors)}


def _pack(value: Any, path: tuple[str, ...], prefix: str, tensors: dict[str, Tensor]) -> Any:
    if len(path) > _MAX_DEPTH:
        raise DataError(f"state is nested more than {_MAX_DEPTH} deep, at {'/'.join(path[:5])}/…")

    def inside(items: Iterable[Any]) -> list[Any]:
        return [_pack(item, (*path, str(i)), prefix, tensors) for i, item in enumerate(items)]

    match value:
        case Tensor():
            name = base = prefix + "/".join(path)
            copy = 1
            while name in tensors:
                copy += 1
                name = f"{base}~{copy}"
            tensors[name] = value.detach()
            return {"tensor": name}
        case float() if not math.isfinite(value):
            return {"float": str(float(value))}
        case None | bool() | int() | float() | str():
            return value
        case tuple():
            return {"tuple": inside(value)}
        case list():
            return inside(value)
        case dict():
            pairs = []
            for key, item in value.items():
                if not _is_key(key):
                    where = "/".join(path)
                    raise DataError(f"the key {key!r} at '{where}' cannot be stored; expected text")
                pairs.append([key, _pack(item, (*path, str(key)), prefix, tensors)])
            return {"dict": pairs}
        case _:
            raise DataError(
                f"a value of type {type(value).__name__} at '{'/'.join(path)}' cannot be stored; "
                "expected tensors, numbers, text, lists, tuples or dictionaries"
            )


def _is_key(key: Any) -> bool:
    return isinstance(key, str | int) and not isinstance(key, bool)


def unflatten(document: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Restore the nested value that was passed to `flatten`. There may be further tensors.

    Raises:
        DataError: the document does not come from `flatten`, or a tensor is missing.
    """
    match document:
        case {"value": value} if len(document) == 1:
            return _unpack(value, tensors, 0)
        case _:
            raise DataError("a document of packed state must have one key, 'value'")


def _unpack(node: Any, tensors: Mapping[str, Tensor], depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise DataError(f"packed state is nested more than {_MAX_DEPTH} deep")
    match node:
        case None | bool() | int() | float() | str():
            return node
        case list():
            return [_unpack(item, tensors, depth + 1) for item in node]
        case {"tuple": list(items)} if len(node) == 1:
            return tuple(_unpack(item, tensors, depth + 1) for item in items)
        case {"dict": list(pairs)} if len(node) == 1 and all(map(_is_pair, pairs)):
            return {key: _unpack(item, tensors, depth + 1) for key, item in pairs}
        case {"float": "inf" | "-inf" | "nan" as text} if len(node) == 1:
            return float(text)
        case {"tensor": str(name)} if len(node) == 1:
            if name not in tensors:
                raise DataError(f"packed state refers to the tensor '{name}', which is missing")
            return tensors[name]
        case _:
            raise DataError(f"packed state has an unknown node: {str(node)[:60]}")


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and _is_key(pair[0])


def restore_optimiser(
    optimiser: torch.optim.Optimizer, document: Any, tensors: Mapping[str, Tensor]
) -> None:
    """Load packed state into an optimiser with the same parameters.

    Raises:
        DataError: the state belongs to another kind of optimiser, or to other parameters.
    """
    state = unflatten(document, tensors)
    match state:
        case {"state": dict(), "param_groups": list(groups)} if len(state) == 2:
            keys = [set(group) if isinstance(group, dict) else set() for group in groups]
        case _:
            raise DataError("the packed state does not belong to an optimiser")
    if keys != [set(group) for group in optimiser.state_dict()["param_groups"]]:
        raise DataError(
            f"the packed state does not belong to a {type(optimiser).__name__}, or not to the same "
            "groups of parameters"
        )
    try:
        stored = _check_shapes(optimiser, state)
        optimiser.load_state_dict(state)
        for parameter, name, value in stored:
            now = optimiser.state[parameter]
            if now[name].dtype != value.dtype:  # torch converts some to the type of the parameter
                now[name] = value.to(now[name].device)
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise DataError(f"the packed state does not fit the optimiser: {error}") from None


def _check_shapes(
    optimiser: torch.optim.Optimizer, state: dict[str, Any]
) -> list[tuple[Tensor, str, Tensor]]:
    """Return the tensors of each parameter; per-element tensors must have its shape."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    numbers = [i for group in state["param_groups"] for i in group["params"]]
    if len(parameters) != len(numbers):
        raise DataError(
            f"the packed state has {len(numbers)} parameters; the optimiser has {len(parameters)}"
        )
    listed = [
        (parameter, number, name, value)
        for number, parameter in zip(numbers, parameters, strict=True)
        for name, value in state["state"].get(number, {}).items()
        if isinstance(value, Tensor)
    ]
    for parameter, number, name, value in listed:
        if name in _ELEMENTWISE and value.shape != parameter.shape:
            raise DataError(
                f"the packed state '{name}' of parameter {number} has the shape "
                f"{tuple(value.shape)}; the parameter has {tuple(parameter.shape)}"
            )
    return [(parameter, name, value) for parameter, _, name, value in listed]


def common_generators(device: torch.device) -> dict[str, torch.Generator]:
    """Return PyTorch's global generators, from which networks on a device draw."""
    generators = {"cpu": torch.default_generator}
    if device.type == "cuda":
        number = torch.cuda.current_device() if device.index is None else device.index
        generators["cuda"] = torch.cuda.default_generators[number]
    return generators


def generator_states(generators: Mapping[str, torch.Generator]) -> dict[str, Tensor]:
    """Return the states of random generators, as byte tensors."""
    return {name: generator.get_state() for name, generator in generators.items()}


def restore_generators(
    generators: Mapping[str, torch.Generator], states: Mapping[str, Tensor]
) -> None:
    """Restore the states of random generators.

    Raises:
        DataError: a state is missing or invalid.
    """
    for name, generator in generators.items():
        if name not in states:
            raise DataError(f"the state of the random generator '{name}' is missing")
        try:
            generator.set_state(states[name])
        except (RuntimeError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(
                f"the state of the random generator '{name}' is invalid: {reason}"
            ) from None


@contextmanager
def seeded(seed: int) -> Iterator[torch.Generator]:
    """Return a generator for initial weights; PyTorch's own is seeded meanwhile, then restored."""
    before = torch.get_rng_state()
    torch.manual_seed(seed)
    try:
        yield torch.Generator().manual_seed(seed)
    finally:
        torch.set_rng_state(before)
