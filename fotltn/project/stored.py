"""What a project is about, as tensors and plain data that a folder can hold."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fotltn.project.world import World
from fotltn.semantics.sparse import SparseTable

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
