"""Pictures that are compared: what is drawn again, and what is in docs."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"

#: The mean difference of pixels, from 0 to 1, that another machine may make.
DIFFERENCE = 0.01

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def assert_same(made: Path, shown: Path, command: str) -> None:
    """Two pictures have one size and look alike; if not, a command makes the one that is shown."""
    from matplotlib.image import imread

    again, there = imread(made), imread(shown)
    assert again.shape == there.shape, f"{shown.name} is stale; run: {command}"
    apart = float(np.abs(again.astype(float) - there.astype(float)).mean())
    assert apart < DIFFERENCE, f"{shown.name} is stale by {apart:.3f}; run: {command}"


def drawing() -> ModuleType:
    """The program that draws the figures of the documentation."""
    spec = importlib.util.spec_from_file_location("draw_figures", DOCS / "draw_figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_current(contents: dict[str, Any], made: Path, name: str) -> None:
    """A figure drawn again shows what docs/figures.json says, and so does the picture in docs.

    Data and words are compared, and not only pixels: a line is a small part of a picture, and each
    version of matplotlib draws letters in its way.
    """
    import matplotlib

    recorded = json.loads((DOCS / "figures.json").read_text("utf-8"))[name]
    assert_shown(contents, recorded, name)
    stale = f"{name} is not the picture of docs/figures.json; run: make figures"
    assert drawing().digest(DOCS / name) == recorded["sha256"], stale
    if matplotlib.__version__ == recorded["matplotlib"]:
        assert_same(made, DOCS / name, "make figures")


def assert_shown(contents: dict[str, Any], recorded: dict[str, Any], name: str) -> None:
    """The same kinds, colours, words and numbers; training elsewhere gives other last digits."""
    stale = f"{name} is stale; run: make figures"
    assert _words(contents["texts"]) == _words(recorded["texts"]), stale
    kinds = [[(part["kind"], part["colour"]) for part in axes] for axes in contents["axes"]]
    wanted = [[(part["kind"], part["colour"]) for part in axes] for axes in recorded["axes"]]
    assert kinds == wanted, stale
    for one, other in zip(_numbers(contents), _numbers(recorded), strict=True):
        assert one == pytest.approx(other, rel=0.05, abs=0.02, nan_ok=True), stale


def _words(texts: list[str]) -> list[str]:
    return [NUMBER.sub("#", text) for text in texts]


def _numbers(contents: dict[str, Any]) -> list[list[float]]:
    """The numbers in words, then those of each part."""
    told = [float(n.replace(",", "")) for text in contents["texts"] for n in NUMBER.findall(text)]
    parts = [part["numbers"] for axes in contents["axes"] for part in axes]
    return [told, *([float("nan") if n is None else n for n in part] for part in parts)]
