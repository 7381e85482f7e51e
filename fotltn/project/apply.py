"""Apply a model to other data, with other entities, traces and lengths."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fotltn.data import apart
from fotltn.errors import DataError, Diagnostic, listing, name_hint, warning
from fotltn.grounding.block_reader import FeatureColumns
from fotltn.grounding.facts import Facts
from fotltn.grounding.features import Features
from fotltn.grounding.frames import Source
from fotltn.grounding.prepared import MANIFEST
from fotltn.networks.encoders import Embeddings, FeatureInputs
from fotltn.networks.grounding import Grounding
from fotltn.networks.sequences import Encoded, TimeEncoder
from fotltn.project.build import ground
from fotltn.project.config import Config
from fotltn.project.data_config import sources_of
from fotltn.project.method import TRAVELS, obstacles
from fotltn.project.world import InMemory, PythonPredicate, World, device_of, read_world
from fotltn.semantics.tables import Tables

#: New data: tables that `fotltn.read` returned, a folder with the tables that a project names,
#: files, data frames, or a mapping from table names to tables.
NewData = Tables | Source | Sequence[Source] | Mapping[str, Source]

_FAR = 5.0  # distance from the training data, in standard deviations, that gives a warning


def own_data_only(config: Config, world: World) -> str:
    """Say why a model can be applied only to its own data; empty if it works on other data."""
    reasons = obstacles(config, world)
    return f"the model can be applied only to its own data: {'; '.join(reasons)}" if reasons else ""


def moved(
    grounding: Grounding,
    config: Config,
    world: World,
    data: NewData,
    horizon: int | None,
    *,
    evidence: bool = False,
) -> tuple[Config, World, Grounding]:
    """Put trained networks over other data.

    Args:
        grounding: the networks.
        config: the settings that made them.
        world: the data that they were trained on.
        data: the new data, as in `Model.apply`.
        horizon: the number of time points of every trace; by default, as in the data.
        evidence: whether to use labels among the new facts as evidence rather than for testing.

    Raises:
        DataError: a network depends on its own data, or the new data do not fit.
    """
    if refusal := own_data_only(config, world):
        raise DataError(refusal, hint=TRAVELS)
    _refuse_foresight(config, horizon)
    if evidence and config.method != "posterior":
        hint = 'leave out evidence, or train the project with method = "posterior"'
        text = "evidence is for sampled worlds, and this model has none"
        raise DataError(text, hint=hint)
    config, tables = _with_data(config, data, horizon)
    modules: dict[str, PythonPredicate] = {}
    for name, how in {**config.predicates, **config.functions}.items():
        if how.kind in ("module", "shared"):
            modules[name] = grounding.module(name)
        elif how.kind == "function":
            modules[name] = grounding.rules[name]
    for sort, seen in _networks(grounding).inputs_by_sort.items():
        if isinstance(seen, Encoded) and not isinstance(seen.encoder, TimeEncoder):
            modules[sort] = seen.encoder
    more = InMemory(world.source, tables, modules, labelled=False)
    new = read_world(config, more)
    config = replace(config, inputs=_known_inputs(config, new.facts))
    new = new.unseen(evidence=evidence)
    if odd := other_features(world, new.fixed.inputs, "the new data"):
        raise DataError(odd)
    over = ground(config, new, modules)
    over = over.to(dtype=getattr(torch, config.dtype))
    over.load_state_dict(_state(grounding, config, world.facts, new.facts, over))
    warnings = (*new.facts.warnings, *_unlike(world, new, over), *_empty_ends(config, new))
    new = replace(new, facts=replace(new.facts, warnings=warnings))
    return config, new, over.to(device_of(config))


def other_features(world: World, seen: Mapping[str, Features | FeatureColumns], whose: str) -> str:
    """Say how features differ from those that networks were trained on; empty if they do not."""
    for sort, features in world.fixed.inputs.items():
        names = seen[sort].names if sort in seen else ()
        if names != features.names:
            known, others = listing(features.names, 20), listing(names, 20)
            return f"the model sees these features of '{sort}': {known}; {whose} have {others}"
    return ""


def _refuse_foresight(config: Config, horizon: int | None) -> None:
    """Raise an error if an encoder looks ahead and the data may end before the horizon.

    Raises:
        DataError: names the sort of the encoder.
    """
    ahead = [s for s, seen in config.inputs.items() if seen.encoder and not seen.encoder.causal]
    if horizon is not None and ahead:
        raise DataError(
            f"an encoder that looks ahead cannot make forecasts: the steps without data, up to "
            f"the horizon of {horizon}, would change its output for earlier steps "
            f"(inputs.{ahead[0]}.encoder.causal = false)",
            hint="set causal = true and train again; or leave out the horizon, so each trace "
            "ends with its last row",
        )


def _networks(grounding: Grounding) -> Grounding:
    """Return the networks that see features, on their own or next to sampled worlds."""
    return grounding if grounding.sensors is None else grounding.sensors


# --- new data ---------------------------------------------------------------------------------


def _with_data(
    config: Config, data: NewData, horizon: int | None
) -> tuple[Config, dict[str, Source]]:
    """Return the settings for new data, and the new tables under the names in the settings.

    All new data are to be predicted: no labels are drawn, flipped or held back.
    """
    names = [*config.data.facts, *(wide.file for wide in config.data.wide)]
    plain = replace(config.data.undrawn(), prepared=None, horizon=horizon)
    if isinstance(data, str | os.PathLike) and os.path.isdir(data):
        folder = Path(data).absolute()
        if os.path.isfile(folder / MANIFEST):
            raise DataError(
                f"the folder '{data}' holds prepared data, of which one block is in memory at "
                "a time, and this needs all",
                hint="score, audit, rules and predict go over them; or give the tables",
            )

        def place(name: str) -> Path:  # of an absolute path, only the file name counts
            return folder / (Path(name).name if Path(name).is_absolute() else name)

        if missing := [n for n in names if not place(n).exists()]:
            raise DataError(
                f"the folder '{data}' has no table '{missing[0]}', which the model needs",
                hint=f"the model needs {listing(names, 20)}; if a table does not exist, pass "
                "the files by name instead of the folder",
            )
        tests = tuple(n for n in config.data.test if place(n).exists())
        plain = replace(plain, folder=str(folder), facts=(*plain.facts, *tests))
        places = {n: place(n) for n in (*names, *tests)}
        return replace(config, data=plain, roots=()), places
    if isinstance(data, Tables):
        facts, wide, read_so = sources_of(data)
        data = [*facts, *(one.source for one in wide)]
        plain = replace(plain, horizon=horizon or read_so.get("horizon"))
    tables = _by_name(data, names, config.data.test)
    return replace(
        config,
        data=replace(
            plain,
            facts=tuple(n for n in (*plain.facts, *config.data.test) if n in tables),
            wide=tuple(w for w in plain.wide if w.file in tables),
        ),
        roots=(),
    ), tables


def _by_name(data: NewData, names: Sequence[str], tests: Sequence[str]) -> dict[str, Source]:
    """Match new tables to the names that the settings have for the old ones."""
    known = [*names, *tests]
    if isinstance(data, Mapping) and data and set(data) <= set(known):
        return {str(name): table for name, table in data.items()}
    long, wide = apart(data)
    listed: list[Any] = [*long, *wide]
    files = [t for t in listed if isinstance(t, str | os.PathLike)]
    by_file = {Path(name).name: name for name in known}
    if len(files) == len(listed):
        matched = {by_file[Path(f).name]: Path(f) for f in files if Path(f).name in by_file}
        if listed and len(matched) == len(files):
            return dict(matched)
    if len(listed) == len(names) > 0:
        return dict(zip(names, listed, strict=True))
    if files and (strange := [f for f in files if Path(f).name not in by_file]):
        hint = name_hint(Path(strange[0]).name, list(by_file), "it reads")
        raise DataError(f"the model does not read a table '{strange[0]}'; {hint}")
    raise DataError(
        f"the model reads {len(names)} tables ({listing(names, 20)}), not {len(listed)}; pass as "
        "many, or pass a mapping from names to tables"
    )


# --- warnings about other units ---------------------------------------------------------------


def _unlike(old: World, new: World, over: Grounding) -> Iterator[Diagnostic]:
    """Yield warnings about times and features that seem to be in other units."""
    before, now = _step(old), _step(new)
    if now > before > 0:
        yield warning(
            f"all times of the new data are multiples of {now:,}, those in training of {before:,}: "
            "do they have another unit?"
        )
    for sort, seen in _networks(over).inputs_by_sort.items():
        for part in seen.modules():
            if not isinstance(part, FeatureInputs):
                continue
            there = part.values.flatten(0, 2)
            if part.present is not None:
                there = there[part.present.flatten()]
            if not len(there):
                continue
            away = ((there.nanmean(0) - part.mean) / part.spread).abs()
            names = new.fixed.inputs[sort].names if sort in new.fixed.inputs else ()
            for name, distance in zip(names, away.tolist(), strict=False):
                if distance > _FAR:
                    yield warning(
                        f"the feature '{name}' of '{sort}' is on average {distance:.0f} standard "
                        "deviations from the training data: does it have another unit?"
                    )


def _empty_ends(config: Config, new: World) -> Iterator[Diagnostic]:
    """Yield a warning for each sort without present entities at the end of the horizon."""
    if config.data.horizon is None:
        return
    for sort, mask in new.fixed.present.items():
        times = mask.flatten(0, 1).any(0).nonzero()
        last = int(times.max()) if len(times) else -1
        if last + 1 < new.fixed.horizon:
            yield warning(
                f"no '{sort}' is present after time {last}, so nothing is predicted there",
                hint='set beyond = "last" in [data] of the project to keep the last ones present',
            )


def _step(world: World) -> int:
    """Return the greatest common divisor of all times at which an entity is present, or 0.

    It is 0 if no entities come and go. Then every time point needs features, so data in other units
    do not fit anyway.
    """
    times = [mask.flatten(0, 1).any(0).nonzero().flatten() for mask in world.fixed.present.values()]
    return int(np.gcd.reduce(torch.cat(times).cpu().numpy())) if times else 0


# --- weights that belong to entities ----------------------------------------------------------


def _known_inputs(config: Config, facts: Facts) -> dict[str, Any]:
    """Return the inputs of each sort, without learnable entities that the new data lack."""
    return {
        sort: replace(
            seen, learnable=tuple(n for n in seen.learnable if n in facts.entities.get(sort, ()))
        )
        for sort, seen in config.inputs.items()
    }


def _state(
    grounding: Grounding, config: Config, old: Facts, new: Facts, over: Grounding
) -> dict[str, Tensor]:
    """Return the weights of the networks; weights that belong to entities are matched by name.

    Tables with shares of worlds are not copied, because new worlds are sampled.
    """
    state = dict(grounding.state_dict())
    if grounding.marginals:
        sensors = {n: t for n, t in state.items() if n.startswith("sensors.")}
        return {**over.state_dict(), **sensors}
    places = {id(module): name for name, module in over.named_modules()}
    for sort, module in over.inputs_by_sort.items():
        mine = (config.inputs[sort], old, new, sort)
        for part in module.modules():
            name = places[id(part)]
            if isinstance(part, Embeddings):
                state[f"{name}.vectors"] = _vectors(state[f"{name}.vectors"], *mine)
            elif isinstance(part, FeatureInputs) and part.learned is None:
                state.pop(f"{name}.learned", None)
            elif isinstance(part, FeatureInputs):
                learnable = _learnable(grounding, sort)
                rows = [learnable.index(old.entities[sort].index(n)) for n in mine[0].learnable]
                state[f"{name}.learned"] = state[f"{name}.learned"][rows]
    return state


def _learnable(grounding: Grounding, sort: str) -> list[int]:
    parts: Iterable[nn.Module] = grounding.inputs_by_sort[sort].modules()
    (features,) = (part for part in parts if isinstance(part, FeatureInputs))
    return [int(number) for number in features.learnable]


def _vectors(vectors: Tensor, seen: Any, old: Facts, new: Facts, sort: str) -> Tensor:
    """Return the vectors of the new entities; unknown ones get what the settings say."""
    numbers = {name: number for number, name in enumerate(old.entities[sort])}
    strange = [name for name in new.entities[sort] if name not in numbers]
    if strange and seen.unknown != "mean":
        raise DataError(
            f"the model has no vector for {listing(strange)} of sort '{sort}' "
            f"(inputs.{sort}.embedding = {seen.embedding})",
            hint=f'embedding = 0, or unknown = "mean" in [inputs.{sort}], which gives new '
            "entities the mean of all vectors",
        )
    mean = vectors.mean(1, keepdim=True)
    every = torch.cat([vectors, mean], dim=1)
    return every[:, [numbers.get(name, vectors.shape[1]) for name in new.entities[sort]]]
