"""Degrees as shapes: numbers that a template puts into an SVG, whose styles are elsewhere."""

from __future__ import annotations

from collections.abc import Sequence


def bar(value: float | bool | None, width: float = 100) -> str:
    """The length of a bar for a degree.

    >>> bar(0.25)
    '25'
    """
    return f"{width * max(0.0, min(1.0, float(value or 0))):.4g}"


def steps(values: Sequence[float | None], width: float, height: float) -> str:
    """The path of degrees over time, each held for one step; a gap where there is none.

    >>> steps([1.0, 0.0], 20, 10)
    'M0 0H10V10H20'
    """
    step = width / max(1, len(values))
    path, inside = "", False
    for place, value in enumerate(values):
        if value is None:
            inside = False
            continue
        y = height * (1 - value)
        path += f"V{y:.4g}" if inside else f"M{place * step:.5g} {y:.4g}"
        path += f"H{(place + 1) * step:.5g}"
        inside = True
    return path
