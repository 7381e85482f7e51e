"""A project's settings written out in full, as TOML that says the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from fotltn.learn.schedule import Schedule
from fotltn.project.config import Config, PredicateConfig
from fotltn.project.toml import show_toml

_OF_KIND = {
    "facts": (),
    "network": ("hidden", "activation"),
    "logits": ("scale", "reach"),
    "formula": ("variables", "formula", "semantics"),
    "module": (),
    "function": (),
}


def show_config(config: Config) -> str:
    """The settings, those that were left out included, as a project's file."""
    return show_toml(settings(config))


def settings(config: Config) -> dict[str, Any]:
    """The settings as tables of TOML; None stands for a key that is not there."""
    objective = config.objective
    training = asdict(config.training)
    return {
        "theory": {"file": config.theory, "semantics": config.semantics, "p": config.p},
        "data": {k: v for k, v in asdict(config.data).items() if v != ()},
        "inputs": {name: asdict(given) for name, given in config.inputs.items()},
        "predicates": {name: _predicate(given) for name, given in config.predicates.items()},
        "exclusive": [asdict(group) for group in config.groups] or None,
        "objective": {
            **{f.name: _plain(getattr(objective, f.name)) for f in fields(objective)},
            "axiom_p": _plain(config.axiom_p),
        },
        "training": {**training, "patience": training["patience"] or 0},
        "machine": {"compile": config.compile, "device": config.device, "dtype": config.dtype},
        "output": {"model": config.model},
    }


def _predicate(given: PredicateConfig) -> dict[str, Any]:
    return {"kind": given.kind} | {key: getattr(given, key) for key in _OF_KIND[given.kind]}


def _plain(value: Any) -> Any:
    """Schedules as numbers or pairs of numbers."""
    if isinstance(value, Schedule):
        return value.as_json()
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return value
