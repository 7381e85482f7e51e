"""Convert a project's data to tensors and plain data for a folder, and back.

A model's folder may come from anyone, so every part is checked before it is used. A part that does
not fit raises a `ValueError` with the reason; `load_model` adds the name of the model.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any

import torch
from torch import Tensor

from fotltn.errors import DataError, shown, warning
from fotltn.grounding.dense import MAX_CELLS, stated_of, stated_presence
from fotltn.grounding.facts import Facts
from fotltn.grounding.features import Features
from fotltn.grounding.labels import Labels
from fotltn.grounding.timeline import StepTimes
from fotltn.learn.fit import Epoch
from fotltn.learn.progress import EpochHistory
from fotltn.learn.store import below, package_version
from fotltn.logic.core import REAL
from fotltn.logic.signature import Signature
from fotltn.project.config import Config
from fotltn.project.world import World, checked, device_of
from fotltn.semantics.sparse import SparseTable, sparse_table
from fotltn.semantics.tables import Tables, table_shape
from fotltn.syntax.theory import FunctionDecl, Theory

#: The version of the folder's contents; raise it whenever they change.
LAYOUT = 1

#: A wider layer or embedding must be in the weights before memory is allocated for it.
_WIDE = 2**12
_EPOCH = "an epoch of its history is wrong"


def pack_world(world: World) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors by name, and the names that belong to them."""
    tensors: dict[str, Tensor] = {}
    shapes: dict[str, Any] = {}
    for name, table in world.fixed.predicates.items():
        if isinstance(table, SparseTable):
            tensors |= {f"given/{name}/index": table.index, f"given/{name}/value": table.value}
            shapes[name] = [list(table.shape), table.default]
        else:
            tensors[f"given/{name}/table"] = table
    tensors |= {f"functions/{n}": t for n, t in world.fixed.functions.items()}
    tensors |= {f"relations/{n}": t for n, t in world.fixed.relations.items()}
    tensors |= {f"features/{n}": f.values for n, f in world.fixed.inputs.items()}
    tensors |= {f"present/{n}": mask for n, mask in world.fixed.present.items()}
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
        "features": {s: list(f.names) for s, f in world.fixed.inputs.items()},
        "test": world.test is not None,
    }
    if world.facts.timeline is not None:
        domain |= _kept(world.facts.timeline, world.facts.traces)
    if world.facts.room:
        domain["room"] = dict(world.facts.room)
    return tensors, domain


def fingerprint(world: World) -> str:
    """Return the SHA-256 of the data: names, given tables, features, and labels with test labels.

    Models with the same fingerprint were trained and tested on the same data.
    """
    tensors, domain = pack_world(world)
    digest = hashlib.sha256(json.dumps(domain, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        plain = tensor.detach().cpu().contiguous()
        digest.update(json.dumps([name, str(plain.dtype), list(plain.shape)]).encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of the programs that compute here."""
    return {
        "fotltn": package_version(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": metadata.version("numpy"),
    }


# --- reading ----------------------------------------------------------------------------------


def unpack_world(
    tensors: Mapping[str, Tensor], domain: Any, source: Theory, config: Config
) -> World:
    """Restore a packed world.

    Raises:
        FotError: the theory or a table of facts is wrong.
        ValueError: a part is missing or wrong, or does not fit the rest.
    """
    theory = checked(source, config)
    expect(isinstance(domain, dict), "domain.json is not an object")
    expect(
        type(domain.get("layout")) is int and domain["layout"] == LAYOUT,
        f"it has the layout {shown(domain.get('layout'))}; this version of fotltn reads {LAYOUT}",
    )
    facts = _facts(domain, theory.signature)
    facts = replace(
        facts,
        timeline=_timeline(domain, config, facts.traces),
        present=stated_presence((wide.presence for wide in config.data.wide), theory.signature),
    )
    functions = {n: d for n, d in theory.signature.functions.items() if n not in config.functions}
    dtype = getattr(torch, config.dtype)
    stored = _CheckedTensors(tensors, domain, facts, theory.signature, dtype, functions)
    device = device_of(config)
    kinds = ("stated", "train", *(["test"] if _typed(domain, "test", bool) else []))
    labels = {kind: stored.labels(kind).to(device) for kind in kinds}
    return World(
        source, theory, facts, stored.fixed().to(device), labels["stated"], labels["train"],
        labels.get("test"),
    )  # fmt: skip


def read_anew(world: World, version: str) -> World:
    """Return the data of a model; say so if its version gave its formulas another meaning."""
    old = version.split(".")[:2] in ([""], ["0", "1"], ["0", "2"])
    if not (old and world.fixed.presence):
        return world
    told = warning(
        "version 0.2 took an absent entity for one of which nothing is true; now it has no time "
        "points: what was learned stays, formulas and axioms are read anew",
        hint="train again, so that learning follows this meaning, too",
    )
    return replace(world, facts=replace(world.facts, warnings=(*world.facts.warnings, told)))


def unpack_history(past: Any) -> tuple[Epoch, ...]:
    """Restore the epochs of training.

    Raises:
        ValueError: an epoch is wrong.
    """
    epochs = []
    for entry in _typed(past, "history", list):
        expect(isinstance(entry, dict) and set(entry) == set(Epoch.__annotations__), _EPOCH)
        numbers = [entry[n] for n in ("loss", "facts", "watched")]
        numbers += [] if entry["axioms"] is None else [entry["axioms"]]
        expect(type(entry["number"]) is int and type(entry["best"]) is bool, _EPOCH)
        epochs.append(Epoch(**{**entry, "values": numbers_by_name(entry["values"], _EPOCH)}))
        expect(all(map(_is_number, numbers)), _EPOCH)
    return EpochHistory(epochs)


def numbers_by_name(value: Any, what: str) -> dict[str, float]:
    """Check that a value is a mapping from names to numbers, and return it.

    Raises:
        ValueError: it is something else.
    """
    expect(isinstance(value, dict) and all(map(_is_number, value.values())), what)
    return dict(value)


def check_widths(config: Config, weights: Mapping[str, Tensor]) -> None:
    """Check that the weights contain all wide layers of the settings, before building them.

    Raises:
        ValueError: a layer is not in the weights.
    """
    there = {size for t in weights.values() if t.numel() for size in t.shape}
    widths = [i.embedding or 0 for i in config.inputs.values()]
    encoders = [i.encoder for i in config.inputs.values() if i.encoder is not None]
    widths += [size for e in encoders for size in (e.width, e.layers, e.reach, e.heads)]
    networks = (*config.predicates.values(), *config.functions.values())
    widths += [size for how in networks for size in how.hidden]
    widths += [size for g in config.groups for size in g.hidden]
    for size in widths:
        expect(size <= _WIDE or size in there, f"the weights have no layer of width {size:,}")


def placed(config: Config, device: str | None) -> Config:
    """Return the configuration with the requested device, or one that exists."""
    if device is not None:
        return replace(config, device=device)
    try:
        device_of(config)
    except DataError:
        return replace(config, device="cpu")
    return config


def _facts(domain: Mapping[str, Any], signature: Signature) -> Facts:
    """Restore the names of traces and entities."""
    traces = _names(domain.get("traces"), "traces")
    lengths = _typed(domain, "lengths", list)
    expect(
        len(lengths) == len(traces) > 0
        and all(type(n) is int and n > 0 for n in lengths)
        and len(traces) * max(lengths) <= MAX_CELLS,
        f"the lengths of {len(traces)} traces are {shown(lengths)}",
    )
    entities = _typed(domain, "entities", dict)
    local = _typed(domain, "local", dict)
    expect(
        {*entities, *local} == set(signature.sorts) and not {*entities} & {*local},
        "its entities do not fit the sorts of its theory",
    )
    for sort, names in local.items():
        right = isinstance(names, list) and len(names) == len(traces)
        expect(right, f"the entities of '{sort}' are not listed for each trace")
    room = domain.get("room", {})
    right = isinstance(room, dict) and all(type(n) is int and 0 < n < 2**31 for n in room.values())
    expect(right and {*room} <= {*local}, f"the places of its entities are {shown(room)}")
    return Facts(
        traces,
        {s: _names(n, f"the entities of '{s}'") for s, n in entities.items()},
        {},
        tuple(lengths),
        local={s: tuple(_names(t, f"the entities of '{s}'") for t in n) for s, n in local.items()},
        room=room,
    )


def _kept(timeline: StepTimes, traces: Sequence[str]) -> dict[str, Any]:
    """Return where the steps are in time, as far as the settings do not say."""
    origin = timeline.origin
    return {"clock": timeline.as_dict(traces)} if origin is None else {"origin": origin}


def _timeline(domain: Mapping[str, Any], config: Config, traces: Sequence[str]) -> StepTimes | None:
    """Restore where the steps of traces are in time."""
    clock = config.data.timing
    if clock is None:
        return None
    if clock.kind == "shared":
        return StepTimes.shared(replace(clock, origin=_typed(domain, "origin", str)))
    return StepTimes.of(clock, _typed(domain, "clock", dict), traces)


class _CheckedTensors:
    """The tensors of a folder, checked against their names, the domain and the theory."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        domain: Mapping[str, Any],
        facts: Facts,
        signature: Signature,
        dtype: torch.dtype,
        functions: Mapping[str, FunctionDecl],
    ) -> None:
        self.functions = functions
        self.tensors, self.domain, self.local = tensors, domain, frozenset(facts.local)
        self.signature, self.dtype = signature, dtype
        self.stated = stated_of(facts)
        self.frame = Tables(
            facts.sizes(), torch.tensor(facts.lengths), max(facts.lengths), {},
            constants={s: {n: i for i, n in enumerate(e)} for s, e in facts.entities.items()},
            signature=signature, names=facts.names, single=facts.traces == ("",),
        )  # fmt: skip
        self.features = {
            sort: _names(names, f"the features of '{sort}'")
            for sort, names in _typed(domain, "features", dict).items()
        }
        for name, tensor in tensors.items():
            if not name.startswith(("weights/", "posterior/")):  # checked elsewhere
                shape, kind, most = self._expected(name, tensor)
                _check_tensor(name, self._filled(name, tensor, shape), shape, kind, most)

    def _filled(self, name: str, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """Replace NaN by 0 in features that may be missing, so that the check passes."""
        if not name.startswith("features/") or tensor.shape != tuple(shape):
            return tensor
        names = self.features[name.removeprefix("features/")]
        marked = [n.removesuffix(" missing") for n in names if n.endswith(" missing")]
        may = torch.tensor([any(n == m or n.startswith(f"{m}=") for m in marked) for n in names])
        return tensor.masked_fill(tensor.isnan() & may, 0)

    def fixed(self) -> Tables:
        """Return the tables of everything that is not computed."""
        predicates: dict[str, Tensor | SparseTable] = {}
        for name, entry in _typed(self.domain, "tables", dict).items():
            shape = list(table_shape(self.frame, self.signature.predicates[name]))
            right = isinstance(entry, list) and len(entry) == 2 and entry[0] == shape
            expect(right and _is_number(entry[1]), f"the table of '{name}' does not fit its facts")
            index, value = (self.tensors[f"given/{name}/{part}"] for part in ("index", "value"))
            predicates[name] = sparse_table(index, value, shape, default=entry[1])
        for key, table in below(self.tensors, "given/").items():
            if key.endswith("/table"):
                predicates[key.removesuffix("/table")] = table
        functions, relations = below(self.tensors, "functions/"), below(self.tensors, "relations/")
        known = (set(self.functions), set(self.signature.relations))
        same = (set(functions), set(relations)) == known
        expect(same, "its functions and relations do not match its theory")
        inputs = {
            sort: Features(names, self.tensors[f"features/{sort}"])
            for sort, names in self.features.items()
        }
        return replace(
            self.frame, predicates=predicates, functions=functions, relations=relations,
            present=below(self.tensors, "present/"), inputs=inputs, stated=self.stated,
        )  # fmt: skip

    def labels(self, kind: str) -> Labels:
        """Return the labels of a kind, in the order of declarations, as they were packed."""
        tensors, known = below(self.tensors, f"{kind}/"), self.signature.predicates
        names = [n for n in known if f"{n}/index" in tensors]
        index = {n: tensors[f"{n}/index"] for n in names}
        truth = {n: tensors[f"{n}/truth"] for n in names}
        same = all(index[n].shape[1] == truth[n].shape[0] for n in names)
        expect(same and len(tensors) == 2 * len(names), f"its labels ({kind}) are incomplete")
        static = frozenset(n for n in names if known[n].static)
        return Labels(index, truth, {n: known[n].sorts for n in names}, self.local, static)

    def _expected(
        self, name: str, tensor: Tensor
    ) -> tuple[Sequence[int], torch.dtype, Tensor | None]:
        """Return a tensor's expected shape (-1 for any size), its type and its largest values."""
        kind, _, symbol = name.partition("/")
        batch, sizes, horizon = self.frame.batch, self.frame.sizes, self.frame.horizon
        match kind:
            case "given" | "stated" | "train" | "test":
                predicate, _, part = symbol.rpartition("/")
                shape = table_shape(self.frame, self.signature.predicates[predicate])
                if part == "index":
                    small = kind == "given" and tensor.dtype == torch.int32
                    last = torch.tensor(shape).unsqueeze(-1) - 1
                    return (len(shape), -1), torch.int32 if small else torch.int64, last
                return shape if part == "table" else (-1,), self.dtype, torch.tensor(1)
            case "functions":
                decl = self.signature.functions[symbol]
                shape = table_shape(self.frame, decl)
                if decl.result == REAL:
                    return shape, self.dtype, None
                return shape, torch.int64, self._last_entities([decl.result])
            case "relations":
                sorts = self.signature.relations[symbol].sorts
                return (-1, len(sorts)), torch.int64, self._last_entities(sorts)
            case "features":
                times = 1 if tensor.dim() == 4 and tensor.shape[2] == 1 else horizon
                width = len(self.features[symbol])
                return (batch, sizes[symbol], times, width), self.dtype, None
            case "present":
                return (batch, sizes[symbol], horizon), torch.bool, None
        raise ValueError(f"'{name}' is not part of a model")

    def _last_entities(self, sorts: Sequence[str]) -> Tensor:
        return torch.tensor([max(1, self.frame.sizes[s]) - 1 for s in sorts])


def _check_tensor(
    name: str, tensor: Tensor, shape: Sequence[int], dtype: torch.dtype, most: Tensor | None
) -> None:
    fits = tensor.dim() == len(shape) and all(
        wanted in (-1, size) for size, wanted in zip(tensor.shape, shape, strict=True)
    )
    expect(
        fits and tensor.dtype == dtype,
        f"'{name}' has the shape {tuple(tensor.shape)} and the type {tensor.dtype}; "
        f"expected {tuple(shape)} and {dtype}",
    )
    expect(bool(tensor.isfinite().all()), f"'{name}' has numbers that are not finite")
    if most is not None:
        inside = (tensor >= 0) & (tensor <= most)
        expect(bool(inside.all()), f"'{name}' has numbers that are below 0 or too large")


def _names(value: Any, what: str) -> tuple[str, ...]:
    right = isinstance(value, list) and all(isinstance(n, str) for n in value)
    expect(right and len(set(value)) == len(value), f"{what} are not a list of distinct names")
    return tuple(value)


def _typed(value: Any, key: str, kind: type) -> Any:
    right = isinstance(value, dict) and isinstance(value.get(key), kind)
    expect(right, f"'{key}' is missing, or is not a {kind.__name__}")
    return value[key]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def expect(right: bool, what: str) -> None:
    """Raise a `ValueError` that says what is wrong with a stored part, unless it is right."""
    if not right:
        raise ValueError(what)
