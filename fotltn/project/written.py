"""Write a project's configuration out in full, as TOML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from fotltn.learn.schedule import Schedule
from fotltn.project.config import KINDS, SAMPLING, Config, PredicateConfig
from fotltn.project.toml import show_toml


def show_config(config: Config) -> str:
    """Return all settings, including defaults, as the text of a project's file."""
    return show_toml(settings(config))


def settings(config: Config) -> dict[str, Any]:
    """Return the settings as TOML tables; None stands for a key that is not set."""
    objective = config.objective
    training = asdict(config.training)
    sampled = config.method == "posterior"
    return {
        "method": config.method,
        "theory": {
            "file": config.theory,
            "semantics": config.semantics,
            "p": config.p,
            "end": config.end,
        },
        "data": {k: v for k, v in asdict(config.data).items() if v != ()},
        "inputs": {sort: asdict(seen) for sort, seen in config.inputs.items()},
        "predicates": _computed(config.predicates),
        "functions": _computed(config.functions),
        "exclusive": [asdict(group) for group in config.groups] or None,
        "objective": {
            **{f.name: _plain(getattr(objective, f.name)) for f in fields(objective)},
            "axiom_p": _plain(config.axiom_p),
        },
        "training": {**training, "patience": training["patience"] or 0},
        "posterior": {
            **{n: getattr(config.posterior, n) for n in SAMPLING},
            **asdict(config.sensors),
        }
        if sampled
        else None,
        "machine": {"compile": config.compile, "device": config.device, "dtype": config.dtype},
        "output": {"model": config.model},
    }


def _computed(symbols: Mapping[str, PredicateConfig]) -> dict[str, Any]:
    return {
        name: {key: getattr(how, key) for key in ("kind", *KINDS.get(how.kind, ()))}
        for name, how in symbols.items()
    }


def _plain(value: Any) -> Any:
    """Return schedules as numbers or pairs of numbers."""
    if isinstance(value, Schedule):
        return value.as_json()
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return value
