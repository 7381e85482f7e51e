"""A model on other data: other entities, traces and lengths, seen as the model is used to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fotltn.errors import DataError, Diagnostic, Severity, listing, name_hint, shown
from fotltn.grounding.facts import Facts
from fotltn.grounding.frames import Source, is_frame
from fotltn.grounding.labels import Labels
from fotltn.networks.encoders import Embeddings, FeatureInputs
from fotltn.networks.grounding import Grounding
from fotltn.networks.sequences import Encoded, TimeEncoder
from fotltn.project.build import ground
from fotltn.project.config import Config
from fotltn.project.data_config import sources_of
from fotltn.project.world import InMemory, PythonPredicate, World, device_of, read_world
from fotltn.semantics.tables import Tables

#: Data that were read, a folder with the tables that a project names, files, data frames, or tables
#: by these names.
NewData = Tables | Source | Sequence[Source] | Mapping[str, Source]

_FAR = 5.0  # standard deviations

_TRAVELS = (
    "what travels: networks over features (embedding = 0 in [inputs.SORT]), and vectors of "
    'entities that are the same at all times (time = "static")'
)


def obstacles(config: Config, world: World) -> tuple[str, ...]:
    """What keeps a model from answering for other data than its own, by name."""
    if config.method == "posterior":
        return ()  # worlds are sampled for other data, by what was learned
    reasons = [
        f"'{name}' is computed by a logit for each fact of its own data"
        for name, how in config.predicates.items()
        if how.kind == "logits"
    ]
    for sort, seen in config.inputs.items():
        if not seen.embedding:
            continue
        if seen.time != "static":
            each = "at each time"
        elif sort in world.facts.local:
            each = "of each trace"
        else:
            continue
        reasons.append(
            f"networks see of each '{sort}' {each} a vector of its own "
            f"(inputs.{sort}.embedding = {seen.embedding})"
        )
    return tuple(reasons)


def own_data_only(config: Config, world: World) -> str:
    """That a model can answer for its own data only, and why; nothing if it travels."""
    reasons = obstacles(config, world)
    return f"the model can answer for its own data only: {'; '.join(reasons)}" if reasons else ""


def moved(
    grounding: Grounding,
    config: Config,
    world: World,
    data: NewData,
    horizon: int | None,
    *,
    evidence: bool = False,
) -> tuple[Config, World, Grounding]:
    """Networks over other data than those that they were trained on.

    Args:
        grounding: the networks.
        config: the settings that made them.
        world: what they were trained on.
        data: as of `Model.apply`.
        horizon: the number of time points of every trace; without it, what the data have.
        evidence: whether labels among the new facts are to learn from; else they are tests.

    Raises:
        DataError: something that a network sees belongs to the old data, or the new ones do not
            fit.
    """
    if refusal := own_data_only(config, world):
        raise DataError(Diagnostic(refusal, hint=_TRAVELS))
    _refuse_foresight(config, horizon)
    if evidence and config.method != "posterior":
        hint = 'leave out evidence; or train the project with method = "posterior"'
        text = "labels are evidence for sampled worlds, and this model has none"
        raise DataError(Diagnostic(text, hint=hint))
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
    nothing = Labels({}, {}, {}, frozenset(new.facts.local))
    test = new.stated if new.stated.total and not evidence else None
    labels = new.stated if evidence else nothing
    new = replace(new, labels=labels, test=test, watched=None, parts={})
    for sort, features in world.fixed.inputs.items():
        names = new.fixed.inputs[sort].names if sort in new.fixed.inputs else ()
        if names != features.names:
            raise DataError(
                f"the model sees of each '{sort}' {listing(features.names, 20)}; the new data have "
                f"{listing(names, 20) or 'no features'}"
            )
    over = ground(config, new, modules)
    over = over.to(dtype=getattr(torch, config.dtype))
    over.load_state_dict(_state(grounding, config, world.facts, new.facts, over))
    warnings = (*new.facts.warnings, *_unlike(world, new, over), *_empty_ends(config, new))
    new = replace(new, facts=replace(new.facts, warnings=warnings))
    return config, new, over.to(device_of(config))


def _refuse_foresight(config: Config, horizon: int | None) -> None:
    """Refuse encoders that look ahead where there may be steps that nobody has seen.

    Raises:
        DataError: with the sort whose encoder does.
    """
    ahead = [s for s, seen in config.inputs.items() if seen.encoder and not seen.encoder.causal]
    if horizon is not None and ahead:
        raise DataError(
            Diagnostic(
                f"an encoder that looks ahead makes no forecasts: steps before the horizon of "
                f"{horizon} that nobody has seen would change what it says of those before "
                f"(inputs.{ahead[0]}.encoder.causal = false)",
                hint="causal = true, and train again; or leave out the horizon, and each trace "
                "ends with its last row",
            )
        )


def _networks(grounding: Grounding) -> Grounding:
    """What sees features: networks, or those beside sampled worlds."""
    return grounding if grounding.sensors is None else grounding.sensors


# --- the new data -----------------------------------------------------------------------------


def _with_data(
    config: Config, data: NewData, horizon: int | None
) -> tuple[Config, dict[str, Source]]:
    """The settings for new data, and these by the names that the settings have for them.

    All of the new data are there to be answered for: none is drawn, flipped or held back.
    """
    names = [*config.data.facts, *(wide.file for wide in config.data.wide)]
    plain = replace(
        config.data, test=(), split=None, train=1.0, by="facts", sort=None, flip=0.0,
        horizon=horizon,
    )  # fmt: skip
    if isinstance(data, str | os.PathLike) and os.path.isdir(data):
        folder = Path(data).absolute()

        def place(name: str) -> Path:  # a name that says where it was says nothing of the new one
            return folder / (Path(name).name if Path(name).is_absolute() else name)

        if missing := [n for n in names if not place(n).exists()]:
            raise DataError(
                Diagnostic(
                    f"the folder '{data}' has no table '{missing[0]}', which the model reads",
                    hint=f"the model reads {listing(names, 20)}; of tables that there are not, "
                    "leave the folder out and name the files themselves",
                )
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
    """New tables by the names that settings have for the old ones."""
    known = [*names, *tests]
    if isinstance(data, Mapping) and data and set(data) <= set(known):
        return {str(name): table for name, table in data.items()}
    if isinstance(data, str | os.PathLike | Mapping) or is_frame(data):
        listed: list[Any] = [data]
    elif isinstance(data, Iterable):
        listed = list(data)
    else:
        raise DataError(f"expected a folder, files or tables of new data, not {shown(data)}")
    files = [t for t in listed if isinstance(t, str | os.PathLike)]
    if len(files) == len(listed):
        by_file = {Path(name).name: name for name in known}
        matched = {by_file[Path(f).name]: Path(f) for f in files if Path(f).name in by_file}
        if listed and len(matched) == len(files):
            return dict(matched)
    if len(listed) == len(names) > 0:
        return dict(zip(names, listed, strict=True))
    if files and (strange := [f for f in files if Path(f).name not in by_file]):
        hint = name_hint(Path(strange[0]).name, list(by_file), "it reads")
        raise DataError(f"the model reads no table '{strange[0]}'; {hint}")
    raise DataError(
        f"the model reads {len(names)} tables ({listing(names, 20)}), not {len(listed)}; give as "
        "many, or say which is which: {name: table}"
    )


# --- what looks like other units --------------------------------------------------------------


def _unlike(old: World, new: World, over: Grounding) -> Iterator[Diagnostic]:
    """Warnings of times and features that look as if they were measured otherwise."""
    before, now = _step(old), _step(new)
    if now > before > 0:
        yield Diagnostic(
            f"all times of the new data are multiples of {now:,}, those of training of {before:,}: "
            "is the unit another?",
            severity=Severity.WARNING,
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
                    yield Diagnostic(
                        f"the feature '{name}' of '{sort}' is on average {distance:.0f} standard "
                        "deviations from that of training: is the unit another?",
                        severity=Severity.WARNING,
                    )


def _empty_ends(config: Config, new: World) -> Iterator[Diagnostic]:
    """A warning for each sort of which nobody is present at the end of the time asked for."""
    if config.data.horizon is None:
        return
    for sort, mask in new.fixed.present.items():
        times = mask.flatten(0, 1).any(0).nonzero()
        last = int(times.max()) if len(times) else -1
        if last + 1 < new.fixed.horizon:
            yield Diagnostic(
                f"nobody of the sort '{sort}' is present after time {last}, so that nothing is "
                "predicted there",
                hint='those stay who are there last, with beyond = "last" in [data] of the project',
                severity=Severity.WARNING,
            )


def _step(world: World) -> int:
    """The largest number of which all times are multiples at which somebody is present, or 0.

    Where nobody comes and goes, features are needed at all times, and other units do not fit.
    """
    times = [mask.flatten(0, 1).any(0).nonzero().flatten() for mask in world.fixed.present.values()]
    return int(np.gcd.reduce(torch.cat(times).cpu().numpy())) if times else 0


# --- what networks keep of entities -----------------------------------------------------------


def _known_inputs(config: Config, facts: Facts) -> dict[str, Any]:
    """What networks see of each sort; entities with learned features may not be there."""
    return {
        sort: replace(
            seen, learnable=tuple(n for n in seen.learnable if n in facts.entities.get(sort, ()))
        )
        for sort, seen in config.inputs.items()
    }


def _state(
    grounding: Grounding, config: Config, old: Facts, new: Facts, over: Grounding
) -> dict[str, Tensor]:
    """The weights of networks; what belongs to entities goes by their names.

    Shares of worlds stay with the worlds that they are of.
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
    """The vectors of new entities: their own, if the model knows them; else as is settled."""
    numbers = {name: number for number, name in enumerate(old.entities[sort])}
    strange = [name for name in new.entities[sort] if name not in numbers]
    if strange and seen.unknown != "mean":
        raise DataError(
            Diagnostic(
                f"the model has no vector for {listing(strange)} of sort '{sort}' "
                f"(inputs.{sort}.embedding = {seen.embedding})",
                hint=f'embedding = 0, or unknown = "mean" in [inputs.{sort}]: the mean of all '
                "vectors for entities that training did not see",
            )
        )
    mean = vectors.mean(1, keepdim=True)
    every = torch.cat([vectors, mean], dim=1)
    return every[:, [numbers.get(name, vectors.shape[1]) for name in new.entities[sort]]]
