"""Whatever a model's folder holds: a model that answers, or an error of ours, and nothing else.

Changes are sealed: the manifest has their digests, as a forger would write them.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import traceback
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from fotltn.errors import FotError
from fotltn.learn import store
from fotltn.learn.store import MANIFEST, WEIGHTS
from fotltn.project.model import load_model
from tests.mutate import changed as changed_value
from tests.mutate import garbled, report
from tests.project.common import changed, trained

FORMULAS = ("Stop(x)", "forall x, y. G(Near(x, y) -> F Stop(x))", "exists y. height(y) > 2")


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, bytes]:
    """The files of a model."""
    folder = tmp_path_factory.mktemp("fuzz")
    trained(folder / "p", changed(("epochs = 6", "epochs = 2"))).save(folder / "m")
    return {path.name: path.read_bytes() for path in sorted((folder / "m").iterdir())}


def seal(files: dict[str, bytes], folder: Path) -> None:
    """Write files with a manifest that agrees with them."""
    manifest = json.loads(files[MANIFEST])
    del manifest["sha256"]
    manifest["files"] = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in files.items()
        if name != MANIFEST
    }
    for old in folder.iterdir():
        old.unlink()
    for name, data in {**files, MANIFEST: store._sealed(manifest)}.items():
        (folder / name).write_bytes(data)


def use(folder: Path) -> str:
    """Load a model and ask it everything; says what became of it."""
    try:
        model = load_model(folder)
        model.satisfaction()
        for formula in FORMULAS:
            model.ask(formula, at="all").tensor.tolist()
        model.metrics()
        model.audit()
        model.predictions()
        model.worst(3)
        for axiom in model.theory.axioms[:1]:
            model.truth_over_time(axiom.name)
            model.counterexample(axiom.name)
        model._repr_html_()
    except FotError:
        return "refused"
    return "read"


# --- changes ---------------------------------------------------------------------------------


def change(files: dict[str, bytes], rng: random.Random) -> tuple[dict[str, bytes], str]:
    """The files with something changed, and what."""
    made = dict(files)
    name = rng.choice([n for n in files if n != MANIFEST])
    if name == WEIGHTS and rng.random() < 0.7:
        tensors = safetensors.torch.load(files[name])
        what = _change_tensor(tensors, rng)
        made[name] = safetensors.torch.save(tensors)
        return made, what
    if name.endswith(".json") and rng.random() < 0.7:
        value = changed_value(json.loads(files[name]), rng)
        made[name] = json.dumps(value).encode()
        return made, f"{name}: {made[name][:3000]!r}"
    if name == WEIGHTS or rng.random() < 0.1:
        data = bytearray(files[name])
        for _ in range(rng.choice((1, 2, 8))):
            place = rng.randrange(min(len(data), 4000))
            data[place] = rng.randrange(256)
        made[name] = bytes(data)
        return made, f"{name}: bytes {bytes(data)[:3000]!r}"
    if rng.random() < 0.05:
        del made[name]
        return made, f"without {name}"
    made[name] = garbled(files[name].decode(), rng).encode(errors="replace")
    return made, f"{name}: {made[name].decode()}"


def _change_tensor(tensors: dict[str, Tensor], rng: random.Random) -> str:
    name = rng.choice(list(tensors))
    tensor = tensors[name]
    ways: dict[str, Any] = {
        "gone": lambda: None,
        "one dimension more": lambda: tensor.unsqueeze(rng.randrange(tensor.dim() + 1)),
        "flat": lambda: tensor.flatten(),
        "a number": lambda: tensor.flatten()[:1].squeeze(),
        "turned": lambda: tensor.transpose(0, -1) if tensor.dim() else tensor,
        "shorter": lambda: tensor[:-1] if tensor.dim() else tensor,
        "narrower": lambda: tensor[..., :-1] if tensor.dim() else tensor,
        "twice": lambda: torch.cat([tensor, tensor]) if tensor.dim() else tensor,
        "empty": lambda: tensor[:0] if tensor.dim() else tensor,
        "halves": lambda: tensor.half(),
        "doubles": lambda: tensor.double(),
        "whole": lambda: tensor.long(),
        "truths": lambda: tensor.bool(),
        "bytes": lambda: tensor.to(torch.uint8),
        "another": lambda: tensors[rng.choice(list(tensors))],
        "renamed": lambda: None,
    }
    for number in (-1, 2, 10**6, math.nan, math.inf):
        ways[f"with {number}"] = lambda number=number: _with(tensor, number, rng)
    way = rng.choice(list(ways))
    made = ways[way]()
    if way == "renamed":
        tensors[name + rng.choice(["x", "/", "/index", "/table"])] = tensor
    if made is None:
        del tensors[name]
    else:
        tensors[name] = made.contiguous().clone()
    return f"the tensor {name}: {way}"


def _with(tensor: Tensor, number: float, rng: random.Random) -> Tensor:
    """The tensor with a number somewhere in it."""
    made = tensor.clone().flatten()
    if made.numel() and (made.is_floating_point() or math.isfinite(number)):
        made[rng.randrange(made.numel())] = number
    return made.reshape(tensor.shape)


def fuzz(files: dict[str, bytes], folder: Path, seed: int, count: int) -> dict[str, int]:
    rng = random.Random(seed)
    outcomes = {"read": 0, "refused": 0}
    broken: dict[str, str] = {}
    for _ in range(count):
        made, what = change(files, rng)
        seal(made, folder)
        try:
            outcomes[use(folder)] += 1
        except Exception as error:
            kind = f"{type(error).__name__}: {' '.join(str(error).split())[:60]}"
            where = traceback.format_exc()[-700:]
            if len(what) < len(broken.get(kind, what + " " * 2000)):
                broken[kind] = f"{what[:1000]}\n{where}"
    report(count, broken, outcomes)
    return outcomes


def test_the_model_itself_is_read(files, tmp_path):
    seal(files, tmp_path)
    assert use(tmp_path) == "read"


@pytest.mark.reliability
def test_changed_models_are_read_or_refused(files, tmp_path):
    outcomes = fuzz(files, tmp_path, 0, 40)
    assert min(outcomes.values()) > 8


@pytest.mark.slow
@pytest.mark.reliability
@pytest.mark.timeout(7200)
def test_ten_thousand_changed_models_are_read_or_refused(files, tmp_path):
    assert min(fuzz(files, tmp_path, 1, 10_000).values()) > 500
