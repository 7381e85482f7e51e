"""The page about settings names every key of a project's file, with its default."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fotltn.learn.schedule import Schedule
from fotltn.networks.parts import Batches
from fotltn.posterior.sampler import Sampling
from fotltn.project.config import (
    FUNCTION_KINDS,
    KINDS,
    SAMPLING,
    Config,
    EncoderConfig,
    GroupConfig,
    InputConfig,
    PredicateConfig,
    SensorConfig,
    read_config,
)
from fotltn.project.data_config import DataConfig, MeasureConfig, SplitConfig, WideConfig
from fotltn.project.presets import DEFAULT, PRESETS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"
NONE = object()


def shown() -> dict[str, dict[str, Any]]:
    """By table, the keys that the page has, with their defaults."""
    found: dict[str, dict[str, Any]] = {}
    text = PAGE.read_text("utf-8")
    for title, body in re.findall(
        r"^## (\[.+?\]+)\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL
    ):
        rows = re.findall(r"^\| `(\w+)` \| (?:`(.+?)`)? ?\| ", body, re.MULTILINE)
        found[title] = {
            key: tomllib.loads(f"x = {default}")["x"] if default else NONE for key, default in rows
        }
    return found


def fields(kind: Any, /, **more: Any) -> dict[str, Any]:
    """The fields of a dataclass with their defaults, or of an object with their values."""
    made = None if isinstance(kind, type) else kind
    return {f.name: _default(f, made) for f in dataclasses.fields(kind)} | more


def _default(field: dataclasses.Field[Any], made: Any) -> Any:
    value = field.default
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    value = value if made is None else getattr(made, field.name)
    if isinstance(value, Schedule):
        value = value.as_json()
    if value is dataclasses.MISSING or value is None or value == "":
        return NONE
    return list(value) if isinstance(value, tuple) else value


def expected() -> dict[str, dict[str, Any]]:
    """The tables of a file, as the program reads them."""
    config = fields(Config)
    return {
        "[theory]": {"file": NONE, "semantics": "stable-product", "p": NONE, "end": config["end"]},
        "[data]": fields(DataConfig, wide=NONE),
        "[[data.wide]]": fields(
            WideConfig,
            predicates={},
            arguments={},
            features=[],
            categories={},
            missing={},
            unknown_categories="error",
            presence=[],
            measures=NONE,
        ),
        "[data.wide.measures]": fields(MeasureConfig),
        "[data.split]": fields(SplitConfig),
        "[inputs.SORT]": fields(InputConfig),
        "[inputs.SORT.encoder]": fields(EncoderConfig),
        "[predicates]": fields(PredicateConfig, kind="auto"),
        "[functions]": {
            key: value
            for key, value in fields(PredicateConfig, kind="network").items()
            if key in ("kind", *(k for kind in FUNCTION_KINDS for k in KINDS[kind]))
        },
        "[[exclusive]]": fields(GroupConfig),
        "[objective]": fields(PRESETS[DEFAULT].objective, axiom_p={}),
        "[training]": fields(PRESETS[DEFAULT].training),
        "[training.batches]": fields(Batches, by="traces", size=32),
        "[posterior]": {key: fields(Sampling)[key] for key in SAMPLING} | fields(SensorConfig),
        "[machine]": {key: config[key] for key in ("compile", "device", "dtype")},
        "[output]": {"model": config["model"]},
        "[tune]": {"search": []},
    }


@pytest.mark.parametrize("table", expected())
def test_every_key_is_shown_with_its_default(table):
    assert shown()[table] == expected()[table]


def test_all_tables_are_shown():
    assert list(shown()) == list(expected())


def test_presets_are_named():
    row = re.search(r"^\| `preset` .*$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert row is not None
    assert all(f"`{name}`" in row[0].replace('"', "") for name in PRESETS)


def test_shown_defaults_are_what_an_empty_file_means(tmp_path):
    lines = []
    for table, keys in shown().items():
        plain = (
            "theory",
            "data",
            "objective",
            "training",
            "posterior",
            "machine",
            "output",
            "tune",
        )
        if table.strip("[]") in plain and not table.startswith("[["):
            given = {k: v for k, v in keys.items() if v is not NONE and v != {}}
            lines += [table, *(f"{k} = {_toml(v)}" for k, v in given.items())]
            lines += ['file = "theory.fot"'] if table == "[theory]" else []
    empty, full = tmp_path / "empty.toml", tmp_path / "full.toml"
    empty.write_text('[theory]\nfile = "theory.fot"\n', "utf-8")
    full.write_text("\n".join(lines), "utf-8")
    assert read_config(full) == read_config(empty)


def test_the_method_is_shown_with_its_default():
    row = f'| `method` | `"{PRESETS[DEFAULT].method}"` | '
    assert row in PAGE.read_text("utf-8")


def _toml(value: Any) -> str:
    return (
        f'"{value}"'
        if isinstance(value, str)
        else str(value).replace("False", "false").replace("True", "true")
    )
