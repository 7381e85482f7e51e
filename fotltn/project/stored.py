"""What a project is about, as tensors and plain data that a folder can hold, and back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fotltn.errors import DataError, shown
from fotltn.grounding.facts import Facts
from fotltn.grounding.features import Features
from fotltn.grounding.labels import Labels
from fotltn.logic.check import CheckedTheory, check
from fotltn.project.config import Config
from fotltn.project.world import World, device_of, to_device
from fotltn.semantics.interpretation import Tables
from fotltn.semantics.sparse import SparseTable
from fotltn.syntax.theory import Theory

#: Of what a model's folder holds; it is raised whenever that changes.
LAYOUT = 1


def pack_world(world: World) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors by name, and the names that go with them."""
    tensors: dict[str, Tensor] = {}
    shapes: dict[str, Any] = {}
    for name, table in world.given.predicates.items():
        if isinstance(table, SparseTable):
            tensors |= {f"given/{name}/index": table.index, f"given/{name}/value": table.value}
            shapes[name] = [list(table.shape), table.default]
        else:
            tensors[f"given/{name}/table"] = table
    tensors |= {f"functions/{n}": t for n, t in world.given.functions.items()}
    tensors |= {f"relations/{n}": t for n, t in world.given.relations.items()}
    tensors |= {f"features/{n}": f.values for n, f in world.features.items()}
    tensors |= {f"present/{n}": mask for n, mask in world.given.present.items()}
    for kind, labels in (("stated", world.stated), ("train", world.labels), ("test", world.test)):
        if labels is not None:
            tensors |= {f"{kind}/{n}/index": t for n, t in labels.index.items()}
            tensors |= {f"{kind}/{n}/truth": t for n, t in labels.truth.items()}
    domain = {
        "layout": LAYOUT,
        "traces": list(world.facts.traces),
        "lengths": list(world.facts.lengths),
        "entities": {s: list(n) for s, n in world.facts.entities.items()},
        "local": {s: [list(t) for t in n] for s, n in world.facts.local.items()},
        "tables": shapes,
        "features": {s: list(f.names) for s, f in world.features.items()},
        "test": world.test is not None,
    }
    return tensors, domain


def unpack_world(
    tensors: Mapping[str, Tensor], domain: Mapping[str, Any], source: Theory, config: Config
) -> World:
    """The world that was packed.

    Raises:
        DataError: it was packed by a version that does it in another way.
        KeyError, TypeError, ValueError: something is missing, or is another thing.
    """
    if domain.get("layout") != LAYOUT:
        raise DataError(
            f"the model has the layout {shown(domain.get('layout'))}; this fotltn reads {LAYOUT}"
        )
    theory = check(source)
    facts = Facts(
        tuple(domain["traces"]),
        {s: tuple(n) for s, n in domain["entities"].items()},
        {},
        tuple(domain["lengths"]),
        local={s: tuple(tuple(t) for t in n) for s, n in domain["local"].items()},
    )
    given = below(tensors, "given/")
    predicates: dict[str, Tensor | SparseTable] = {
        n.removesuffix("/table"): t for n, t in given.items() if n.endswith("/table")
    }
    for name, (shape, default) in domain["tables"].items():
        predicates[name] = SparseTable(
            given[f"{name}/index"], given[f"{name}/value"], tuple(shape), default
        )
    device = device_of(config)
    model = Tables(
        facts.sizes(),
        torch.tensor(facts.lengths),
        max(facts.lengths),
        predicates,
        below(tensors, "functions/"),
        {s: {n: i for i, n in enumerate(names)} for s, names in facts.entities.items()},
        below(tensors, "relations/"),
        signature=theory.signature,
        names=facts.names,
        present=below(tensors, "present/"),
    )
    features = {
        s: Features(tuple(names), tensors[f"features/{s}"])
        for s, names in domain["features"].items()
    }
    read = partial(_labels, tensors, theory, facts)
    return World(
        source, theory, facts, features, model.to(device),
        to_device(read("stated"), device), to_device(read("train"), device),
        to_device(read("test"), device) if domain["test"] else None,
    )  # fmt: skip


def _labels(
    tensors: Mapping[str, Tensor], theory: CheckedTheory, facts: Facts, kind: str
) -> Labels:
    found = below(tensors, f"{kind}/")
    # In the order of declarations, which is that of the labels that were packed.
    names = [n for n in theory.signature.predicates if f"{n}/index" in found]
    return Labels(
        {n: found[f"{n}/index"] for n in names},
        {n: found[f"{n}/truth"] for n in names},
        {n: theory.signature.predicates[n].sorts for n in names},
        frozenset(facts.local),
    )


def below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
