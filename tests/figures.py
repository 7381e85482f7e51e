"""Pictures that are compared: what is drawn again, and what is in docs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

DOCS = Path(__file__).resolve().parent.parent / "docs"

#: The mean difference of pixels, from 0 to 1, that another version of a program may make.
DIFFERENCE = 0.01


def assert_same(made: Path, shown: Path, command: str) -> None:
    """Two pictures have one size and look alike; if not, a command makes the one that is shown."""
    from matplotlib.image import imread

    again, there = imread(made), imread(shown)
    assert again.shape == there.shape, f"{shown.name} is stale; run: {command}"
    apart = float(np.abs(again.astype(float) - there.astype(float)).mean())
    assert apart < DIFFERENCE, f"{shown.name} is stale by {apart:.3f}; run: {command}"
