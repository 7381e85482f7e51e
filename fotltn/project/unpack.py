"""What a project is about, back from a folder: every part is checked before any is used.

Whoever wrote a model may have written anything. What does not fit is a `ValueError` that says what;
`load_model` says of which model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fotltn.errors import shown
from fotltn.grounding.dense import MAX_CELLS
from fotltn.grounding.facts import Facts
from fotltn.grounding.features import Features
from fotltn.grounding.labels import Labels
from fotltn.learn.fit import Epoch
from fotltn.logic.core import REAL
from fotltn.logic.signature import Signature
from fotltn.project.config import Config
from fotltn.project.stored import LAYOUT
from fotltn.project.world import World, checked, device_of, to_device
from fotltn.semantics.interpretation import Tables
from fotltn.semantics.sparse import SparseTable, sparse_table
from fotltn.syntax.theory import Theory

#: Layers and embeddings wider than this must be in the weights before memory is taken for them.
_WIDE = 2**12
_EPOCH = "an epoch of its history is another thing"


def unpack_world(
    tensors: Mapping[str, Tensor], domain: Any, source: Theory, config: Config
) -> World:
    """The world that was packed.

    Raises:
        FotError: the theory or a table of facts is wrong.
        ValueError: something is missing, is another thing, or does not fit the rest.
    """
    theory = checked(source, config)
    signature, dtype = theory.signature, getattr(torch, config.dtype)
    _expect(isinstance(domain, dict), "domain.json is no object")
    _expect(
        type(domain.get("layout")) is int and domain["layout"] == LAYOUT,
        f"it has the layout {shown(domain.get('layout'))}; this fotltn reads {LAYOUT}",
    )
    facts = _facts(domain, signature)
    shapes = _Shapes(facts, signature)
    model = Tables(
        facts.sizes(),
        torch.tensor(facts.lengths),
        shapes.horizon,
        _predicates(below(tensors, "given/"), domain, shapes, dtype),
        _functions(below(tensors, "functions/"), shapes, dtype),
        {s: {n: i for i, n in enumerate(names)} for s, names in facts.entities.items()},
        _relations(below(tensors, "relations/"), shapes),
        signature=signature,
        names=facts.names,
        present=_present(below(tensors, "present/"), shapes),
        single=facts.traces == ("",),
    )
    device = device_of(config)
    tested = _typed(domain, "test", bool)
    labels = {
        kind: to_device(_labels(below(tensors, f"{kind}/"), shapes, dtype, kind), device)
        for kind in ("stated", "train", *(["test"] if tested else []))
    }
    return World(
        source, theory, facts, _features(tensors, domain, shapes, dtype), model.to(device),
        labels["stated"], labels["train"], labels.get("test"),
    )  # fmt: skip


def unpack_history(past: Any) -> tuple[Epoch, ...]:
    """The epochs of training.

    Raises:
        ValueError: one of them is another thing.
    """
    epochs = []
    for entry in _typed(past, "history", list):
        _expect(isinstance(entry, dict) and set(entry) == set(Epoch.__annotations__), _EPOCH)
        numbers = [entry[n] for n in ("loss", "facts", "watched")]
        numbers += [] if entry["axioms"] is None else [entry["axioms"]]
        _expect(type(entry["number"]) is int and type(entry["best"]) is bool, _EPOCH)
        epochs.append(Epoch(**{**entry, "values": numbers_by_name(entry["values"], _EPOCH)}))
        _expect(all(map(_is_number, numbers)), _EPOCH)
    return tuple(epochs)


def numbers_by_name(value: Any, what: str) -> dict[str, float]:
    """A mapping to numbers.

    Raises:
        ValueError: it is another thing.
    """
    _expect(isinstance(value, dict) and all(map(_is_number, value.values())), what)
    return dict(value)


def check_widths(config: Config, weights: Mapping[str, Tensor]) -> None:
    """See that settings ask for no layers that the weights do not have, before these are made.

    Raises:
        ValueError: they do.
    """
    there = {size for t in weights.values() if t.numel() for size in t.shape}
    widths = [i.embedding for i in config.inputs.values()]
    widths += [size for p in config.predicates.values() for size in p.hidden]
    widths += [size for g in config.groups for size in g.hidden]
    for size in widths:
        _expect(size <= _WIDE or size in there, f"the weights have no layer of {size:,}")


def below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


# --- names ------------------------------------------------------------------------------------


def _facts(domain: Mapping[str, Any], signature: Signature) -> Facts:
    traces = _names(domain.get("traces"), "traces")
    lengths = _typed(domain, "lengths", list)
    _expect(
        len(lengths) == len(traces) > 0
        and all(type(n) is int and n > 0 for n in lengths)
        and len(traces) * max(lengths) <= MAX_CELLS,
        f"the lengths of {len(traces)} traces are {shown(lengths)}",
    )
    entities = _typed(domain, "entities", dict)
    local = _typed(domain, "local", dict)
    _expect(
        {*entities, *local} == set(signature.sorts) and not {*entities} & {*local},
        "its entities are not of the sorts of its theory",
    )
    for sort, names in local.items():
        right = isinstance(names, list) and len(names) == len(traces)
        _expect(right, f"the entities of '{sort}' are not listed for each trace")
    return Facts(
        traces,
        {s: _names(n, f"the entities of '{s}'") for s, n in entities.items()},
        {},
        tuple(lengths),
        local={s: tuple(_names(t, f"the entities of '{s}'") for t in n) for s, n in local.items()},
    )


def _names(value: Any, what: str) -> tuple[str, ...]:
    right = isinstance(value, list) and all(isinstance(n, str) for n in value)
    _expect(right and len(set(value)) == len(value), f"{what} are no list of distinct names")
    return tuple(value)


def _typed(value: Any, key: str, kind: type) -> Any:
    right = isinstance(value, dict) and isinstance(value.get(key), kind)
    _expect(right, f"'{key}' is missing, or another thing than a {kind.__name__}")
    return value[key]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _expect(right: bool, what: str) -> None:
    if not right:
        raise ValueError(what)


# --- tensors ----------------------------------------------------------------------------------


class _Shapes:
    """The shapes of the tables of a signature, with axes (trace, arguments …, time)."""

    def __init__(self, facts: Facts, signature: Signature) -> None:
        self.facts, self.signature = facts, signature
        self.sizes, self.traces = facts.sizes(), len(facts.traces)
        self.horizon = max(facts.lengths)

    def of(self, sorts: Sequence[str], static: bool) -> tuple[int, ...]:
        sizes = (self.sizes[s] for s in sorts)
        return (self.traces, *sizes, 1 if static else self.horizon)

    def predicate(self, name: str) -> tuple[int, ...]:
        decl = self.signature.predicates[name]
        return self.of(decl.sorts, decl.static)


def _table(what: str, table: Tensor | None, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A tensor of that shape and type, all of whose numbers are finite."""
    if table is None:
        raise ValueError(f"{what} is missing")
    _expect(
        tuple(table.shape) == tuple(shape) and table.dtype == dtype,
        f"{what} has the shape {tuple(table.shape)} and the type {table.dtype}; "
        f"expected {tuple(shape)} and {dtype}",
    )
    _expect(bool(table.isfinite().all()), f"{what} has numbers that are not finite")
    return table


def _degrees(what: str, table: Tensor) -> Tensor:
    _expect(bool(((table >= 0) & (table <= 1)).all()), f"{what} has degrees outside [0, 1]")
    return table


def _in_range(what: str, numbers: Tensor, size: int) -> None:
    right = not numbers.numel() or (int(numbers.min()) >= 0 and int(numbers.max()) < max(1, size))
    _expect(right, f"{what} names an entity that there is not")


def _predicates(
    tensors: dict[str, Tensor], domain: Mapping[str, Any], shapes: _Shapes, dtype: torch.dtype
) -> dict[str, Tensor | SparseTable]:
    tables: dict[str, Tensor | SparseTable] = {}
    known = shapes.signature.predicates
    for name, entry in _typed(domain, "tables", dict).items():
        _expect(
            name in known and isinstance(entry, list) and len(entry) == 2
            and entry[0] == list(shapes.predicate(name)) and _is_number(entry[1]),
            f"the table of '{name}' is not that of its facts",
        )  # fmt: skip
        value = tensors.get(f"{name}/value", torch.empty(()))
        count = value.shape[0] if value.dim() == 1 else -1
        index = tensors.get(f"{name}/index", torch.empty(()))
        integers = index.dtype if index.dtype == torch.int32 else torch.int64
        tables[name] = sparse_table(
            _table(f"the index of '{name}'", index, (len(entry[0]), count), integers),
            _table(f"the facts of '{name}'", value, (count,), dtype),
            shapes.predicate(name),
            default=entry[1],
        )
    for key, table in tensors.items():
        name, _, kind = key.rpartition("/")
        _expect(name in known, f"'{name}' is no predicate of its theory")
        if kind == "table":
            what = f"the table of '{name}'"
            tables[name] = _degrees(what, _table(what, table, shapes.predicate(name), dtype))
    return tables


def _functions(
    tensors: dict[str, Tensor], shapes: _Shapes, dtype: torch.dtype
) -> dict[str, Tensor]:
    known = shapes.signature.functions
    _expect(set(tensors) == set(known), "its functions are not those of its theory")
    for name, decl in known.items():
        what, is_number = f"the function '{name}'", decl.result == REAL
        kind = dtype if is_number else torch.int64
        table = _table(what, tensors[name], shapes.of(decl.sorts, decl.static), kind)
        if not is_number:
            _in_range(what, table, shapes.sizes[decl.result])
    return tensors


def _relations(tensors: dict[str, Tensor], shapes: _Shapes) -> dict[str, Tensor]:
    known = shapes.signature.relations
    _expect(set(tensors) == set(known), "its relations are not those of its theory")
    for name, decl in known.items():
        what = f"the relation '{name}'"
        count = tensors[name].shape[0] if tensors[name].dim() else -1
        table = _table(what, tensors[name], (count, len(decl.sorts)), torch.int64)
        for place, sort in enumerate(decl.sorts):
            _in_range(what, table[:, place], shapes.sizes[sort])
    return tensors


def _features(
    tensors: Mapping[str, Tensor], domain: Mapping[str, Any], shapes: _Shapes, dtype: torch.dtype
) -> dict[str, Features]:
    features = {}
    for sort, value in _typed(domain, "features", dict).items():
        what = f"the features of '{sort}'"
        _expect(sort in shapes.sizes, f"'{sort}' is no sort of its theory")
        names, table = _names(value, what), tensors.get(f"features/{sort}")
        times = 1 if table is not None and table.dim() == 4 and table.shape[2] == 1 else None
        shape = (shapes.traces, shapes.sizes[sort], times or shapes.horizon, len(names))
        features[sort] = Features(names, _table(what, table, shape, dtype))
    return features


def _present(tensors: dict[str, Tensor], shapes: _Shapes) -> dict[str, Tensor]:
    for sort, mask in tensors.items():
        _expect(sort in shapes.sizes, f"'{sort}' is no sort of its theory")
        _table(f"where '{sort}' is present", mask, shapes.of((sort,), False), torch.bool)
    return tensors


def _labels(tensors: dict[str, Tensor], shapes: _Shapes, dtype: torch.dtype, kind: str) -> Labels:
    known = shapes.signature.predicates
    # In the order of declarations, which is that of the labels that were packed.
    names = [n for n in known if f"{n}/index" in tensors]
    keys = {f"{n}/{part}" for n in names for part in ("index", "truth")}
    _expect(set(tensors) == keys, f"the labels ({kind}) are not of predicates of its theory")
    for name in names:
        what, shape = f"the labels ({kind}) of '{name}'", shapes.predicate(name)
        truth, index = tensors[f"{name}/truth"], tensors[f"{name}/index"]
        count = truth.shape[0] if truth.dim() == 1 else -1
        _degrees(what, _table(what, truth, (count,), dtype))
        _table(what, index, (len(shape), count), torch.int64)
        limits = torch.tensor(shape).unsqueeze(-1)
        _expect(bool(((index >= 0) & (index < limits)).all()), f"{what} are outside its table")
    return Labels(
        {n: tensors[f"{n}/index"] for n in names},
        {n: tensors[f"{n}/truth"] for n in names},
        {n: known[n].sorts for n in names},
        frozenset(shapes.facts.local),
    )
