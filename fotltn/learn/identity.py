"""What a task is, in a form that can be stored and compared."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from fotltn.grounding.labels import Labels
from fotltn.learn.task import Task
from fotltn.semantics.interpretation import Tables
from fotltn.semantics.sparse import SparseTable


def identity(
    task: Task, modules: nn.Module, labels: Labels, watched: Labels | None
) -> dict[str, Any]:
    """What must be the same for training to go on: settings, axioms, networks and data.

    The weights themselves are not part of it, nor are the numbers that networks keep for
    themselves without storing them.
    """
    grounding, axioms = task.grounding, task.axioms
    state = modules.state_dict()
    return {
        "training": repr(task.training),
        "objective": repr(task.objective),
        "axioms": [[a.name, str(a.source), a.weight] for a in axioms.theory.axioms],
        "p": {name: schedule.as_json() for name, schedule in axioms.p.items()},
        "semantics": repr(axioms.semantics),
        "definitions": {
            name: [list(d.variables), d.formula, repr(d.semantics or grounding.semantics)]
            for name, d in grounding.defined.items()
        },
        "networks": str(modules),
        "weights": {name: [str(p.dtype), *p.shape] for name, p in state.items()},
        "inputs": {
            name: _digest([buffer])
            for name, buffer in grounding.inputs.named_buffers()
            if f"grounding.inputs.{name}" not in state
        },
        "given": _of_data(grounding.given),
        "labels": _of_labels(labels),
        "watched": None if watched is None else _of_labels(watched),
    }


def _of_labels(labels: Labels) -> dict[str, int]:
    return {name: _digest([labels.index[name], t]) for name, t in labels.truth.items()}


def _of_data(given: Tables) -> dict[str, Any]:
    tables: dict[str, list[Tensor]] = {"lengths": [given.lengths]}
    for name, table in given.predicates.items():
        tables[f"predicate {name}"] = (
            [table.index, table.value] if isinstance(table, SparseTable) else [table]
        )
    for kind, found in (
        ("function", given.functions),
        ("relation", given.relations),
        ("feature", given.features),
    ):
        tables |= {f"{kind} {name}": [table] for name, table in found.items()}
    return {
        "sizes": dict(given.sizes),
        "horizon": given.horizon,
        **{name: _digest(tensors) for name, tensors in tables.items()},
    }


def _digest(tensors: Iterable[Tensor]) -> int:
    """A number that other data hardly have."""
    found = 0
    for tensor in tensors:
        plain = tensor.detach().cpu().contiguous()
        found = zlib.crc32(str((plain.dtype, tuple(plain.shape))).encode(), found)
        found = zlib.crc32(plain.numpy().tobytes(), found)
    return found
