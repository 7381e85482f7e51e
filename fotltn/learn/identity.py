"""The identity of a task, in a form that can be stored and compared.

Every part of a task counts: every field of its settings, every attribute of its networks, all of
its data. A new setting counts without being named here. The weights themselves do not count, nor do
attributes that begin with an underscore.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fotltn.errors import DataError
from fotltn.grounding.labels import Labels
from fotltn.learn.ranks import Ranks
from fotltn.learn.task import Task
from fotltn.logic.check import CheckedFormula, CheckedTheory
from fotltn.logic.signature import Signature
from fotltn.semantics.tables import Tables
from fotltn.syntax.show import show_theory
from fotltn.syntax.theory import Theory
from fotltn.tree import Node

#: Attributes that every module has, and that say nothing about it.
_OF_MODULES = frozenset(vars(nn.Module()))
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_LONG = 200  # longer values, in characters, are replaced by a digest
_MOST = 5  # the maximum number of differences in a message
_EXCERPT = 60  # characters of a text that differs
_SHA = "sha256 "
_SETTINGS = "settings."


class Digests:
    """Digests of tensors, each read once until something writes to it."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self._known: dict[int, tuple[Tensor, int, str]] = {}

    def of(self, value: Tensor | np.ndarray[Any, Any]) -> str:
        """Return the digest of a tensor or array."""
        if not isinstance(value, Tensor) or value.is_inference():
            return _digest(value)
        tensor, version, digest = self._known.get(id(value), (None, -1, ""))
        if tensor is not value or version != value._version:
            digest = _digest(value)
            self._known[id(value)] = (value, value._version, digest)
        return digest


def identity(task: Task, digests: Digests | None = None) -> dict[str, Any]:
    """Return by name what must be equal for training to resume.

    Args:
        task: the task.
        digests: a cache of digests.
    """
    device = task.grounding.fixed.lengths.device.type
    return {"device": device, **leaves(task, digests)}


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Describe the differences between two identities, for a message; empty if there are none.

    >>> differences({"training.rate": 0.1, "a": 1}, {"training.rate": 0.2, "a": 1})
    'training.rate: 0.1 there, 0.2 here'
    >>> long = "axiom A: forall x. " + "Stop(x) & " * 9
    >>> print(differences({"theory": long + "Go(x)"}, {"theory": long + "Run(x)"}))
    theory: …Stop(x) & Stop(x) & Go(x) there, …Stop(x) & Stop(x) & Run(x) here
    """
    names = [n for n in {**theirs, **ours} if theirs.get(n, ...) != ours.get(n, ...)]
    # Prefer project settings, because they use the words of the project file.
    names = [n for n in names if n.startswith(_SETTINGS)] or names
    names.sort(key=lambda n: n != f"{_SETTINGS}method")  # many others follow from it
    shown = []
    for name in names:
        there, here = _excerpts(_said(theirs, name), _said(ours, name))
        shown.append(f"{name.removeprefix(_SETTINGS)}: {there} there, {here} here")
    more = f"; and {len(shown) - _MOST} more" if len(shown) > _MOST else ""
    return "; ".join(shown[:_MOST]) + more


def refuse_other_task(theirs: Mapping[str, Any], ours: Mapping[str, Any], folder: Path) -> None:
    """Raise an error if the checkpoints in a folder belong to another task.

    Raises:
        DataError: the identities differ; the message says where.
    """
    if differing := differences(theirs, ours):
        raise DataError(
            f"the checkpoints in '{folder}' belong to another task or other settings",
            hint=f"to resume, restore {differing}; to start over, use --fresh or remove them",
        )


def check_alike(ours: Mapping[str, Any], ranks: Ranks) -> None:
    """Raise an error if processes that train together have different tasks.

    Raises:
        DataError: the identities differ; the message says where.
    """
    first, *others = ranks.objects(ours)
    for number, theirs in enumerate(others, 1):
        if differing := differences(first, theirs):
            raise DataError(
                f"process {number} of {ranks.count} has another task than the first: {differing}"
            )


def _said(one: Mapping[str, Any], name: str) -> str:
    if name not in one:
        return "nothing"
    text = str(one[name])
    return "other data" if text.startswith(_SHA) else text


def _excerpts(theirs: str, ours: str) -> tuple[str, str]:
    """Cut two long texts around the place where they first differ."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(theirs, ours, strict=False))
    start = max(0, sum(1 for _ in alike) - _EXCERPT // 3)
    return _excerpt(theirs, start), _excerpt(ours, start)


def _excerpt(text: str, start: int) -> str:
    if len(text) <= _EXCERPT:
        return text
    part = text[start : start + _EXCERPT]
    return f"{'…' * (start > 0)}{part}{'…' * (start + _EXCERPT < len(text))}"


def leaves(value: Any, digests: Digests | None = None) -> dict[str, Any]:
    """Return all parts of a value by name, as JSON values."""
    every = _leaves("", value, digests or Digests())
    return {name.removeprefix("."): _short(leaf) for name, leaf in every}


def _leaves(name: str, value: Any, digests: Digests) -> Iterator[tuple[str, Any]]:
    if isinstance(value, nn.Module):
        yield from _of_module(name, value, digests)
    elif isinstance(value, CheckedTheory):
        yield from _leaves(f"{name}.signature", value.signature, digests)
        for axiom in value.axioms:
            marks = ["hard"] if axiom.hard else []
            yield f"{name}.axioms.{axiom.name}", [str(axiom.source), axiom.weight, *marks]
        yield f"{name}.order", [axiom.name for axiom in value.axioms]
    elif isinstance(value, CheckedFormula):
        return  # built from a text that counts itself
    elif isinstance(value, Signature):
        yield name, show_theory(Theory(value.declarations, ()))
    elif isinstance(value, Tables | Labels):
        for field in fields(value):
            if not field.name.startswith("_") and field.name != "stated":
                yield f"{name}.{field.name}", _digest(leaves(getattr(value, field.name), digests))
        if isinstance(value, Tables) and value.presence:
            yield f"{name}.absent entities", ["have no points", sorted(value.presence.everywhere)]
    elif is_dataclass(value) and not isinstance(value, Node | type):
        for field in fields(value):
            if field.compare and not field.name.startswith("_"):
                yield from _leaves(f"{name}.{field.name}", getattr(value, field.name), digests)
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _leaves(f"{name}.{key}", one, digests)
    elif isinstance(value, list | tuple) and not _is_plain(value):
        for number, one in enumerate(value, 1):
            yield from _leaves(f"{name}.{number}", one, digests)
    else:
        yield name, _leaf(value, digests)


def _of_module(name: str, root: nn.Module, digests: Digests) -> Iterator[tuple[str, Any]]:
    for path, module in root.named_modules():
        at = f"{name}.{path}" if path else name
        yield f"{at}.kind", f"{type(module).__module__}.{type(module).__qualname__}"
        yield f"{at}.says", module.extra_repr()
        for key, value in vars(module).items():
            if key not in _OF_MODULES and not key.startswith("_"):
                inner = type(value).__qualname__ if isinstance(value, nn.Module) else value
                yield from _leaves(f"{at}.{key}", inner, digests)
        stored = module.state_dict(keep_vars=True)
        for key, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is None or key not in stored:
                yield f"{at}.{key}", _leaf(tensor, digests)
            else:  # the numbers of parameters are what is learned
                yield f"{at}.{key}", [str(tensor.dtype), tensor.requires_grad, *tensor.shape]


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _leaf(value: Any, digests: Digests) -> Any:
    """Convert a value to JSON such that equal values are equal in every process."""
    if isinstance(value, list | tuple):
        return [_leaf(one, digests) for one in value]
    if isinstance(value, AbstractSet):
        return sorted(map(repr, value))
    if isinstance(value, Tensor | np.ndarray):
        return digests.of(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value) if isinstance(value, str) else _ADDRESS.sub("", repr(value))


def _short(leaf: Any) -> Any:
    return leaf if len(json.dumps(leaf)) <= _LONG else _digest(leaf)


def _digest(value: Any) -> str:
    """Return a short text that identifies the data."""
    if isinstance(value, Tensor | np.ndarray):
        plain = torch.as_tensor(value).detach().cpu()
        plain = (plain if plain.layout == torch.strided else plain.to_dense()).contiguous()
        digest = hashlib.sha256(str((plain.dtype, tuple(plain.shape))).encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    else:
        digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode())
    return f"{_SHA}{digest.hexdigest()[:32]}"
