"""The drawing of a scene: entities over time, as paths for the page, and axes with their ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

#: The most columns of a timeline; if there are more time points, a column stands for several.
MAX_COLUMNS = 300

#: The number of shades for a degree.
SHADES = 10


def timeline(degrees: Tensor, violations: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Draw a predicate over time, one line for each entity.

    Args:
        degrees: the degrees of the predicate, with axes (entity, time); NaN for absent entities.
        violations: the number of violated cells of each entity at each time point, same axes.

    Returns:
        The number of time points per column, the number of columns, ticks as pairs of a time point
        and its place in percent, and the lines: paths by shade, the path of violations and that of
        absence, the mean degree, and the number of time points with violations.
    """
    length = degrees.shape[1]
    width = max(1, math.ceil(length / MAX_COLUMNS))
    columns = math.ceil(length / width)
    padding = columns * width - length
    means = torch.nn.functional.pad(degrees, (0, padding), value=math.nan)
    means = means.unflatten(1, (columns, width)).nanmean(-1)
    levels = (SHADES * means).round().nan_to_num(nan=-1).long().tolist()
    averages = degrees.nanmean(-1).tolist()
    lines = [
        _line(line, wrong, width, mean)
        for line, wrong, mean in zip(levels, violations, averages, strict=True)
    ]
    marks = [int(t) for t in ticks(0, length - 1) if t.is_integer()]
    return {
        "width": width,
        "columns": columns,
        "ticks": [(t, 100 * (t // width + 0.5) / columns) for t in marks],
        "lines": lines,
    }


def _line(
    levels: Sequence[int], violations: Sequence[int], width: int, mean: float
) -> dict[str, Any]:
    wrong = [
        int(any(violations[start : start + width])) for start in range(0, len(violations), width)
    ]
    paths = _runs(levels)
    return {
        "shades": {
            round((level / SHADES) ** 0.6, 3): path  # as in the scale of parts.html
            for level, path in sorted(paths.items())
            if level > 0
        },
        "absent": paths.get(-1, ""),
        "wrong": _runs(wrong).get(1, ""),
        "mean": mean,
        "violations": sum(map(bool, violations)),
    }


def _runs(levels: Sequence[int]) -> dict[int, str]:
    """Return a path of rectangles of height 1 for each level.

    >>> _runs([0, 1, 1, 0])
    {0: 'M0 0h1v1h-1zM3 0h1v1h-1z', 1: 'M1 0h2v1h-2z'}
    """
    paths: dict[int, str] = {}
    start = 0
    for place in range(1, len(levels) + 1):
        if place == len(levels) or levels[place] != levels[start]:
            level, long = levels[start], place - start
            paths[level] = paths.get(level, "") + f"M{start} 0h{long}v1h-{long}z"
            start = place
    return paths


def ticks(low: float, high: float, most: int = 8) -> list[float]:
    """Return round numbers between two limits, at most one more than requested.

    >>> ticks(0, 39), ticks(-2.5, 2.5, 5), ticks(3, 3)
    ([0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0], [-2.0, -1.0, 0.0, 1.0, 2.0], [3.0])
    """
    if not high > low or math.isinf(high - low):
        return [float(low)]
    least = (high - low) / most
    ten = 10.0 ** math.floor(math.log10(least))
    step = next(ten * n for n in (1, 2, 5, 10, 20) if ten * n >= least)
    first = math.ceil(low / step)
    count = math.floor((high - first * step) / step + 1e-9) + 1
    return [round((first + n) * step, 12) + 0.0 for n in range(count)]


def plane_axes(
    names: Sequence[str], plane: Sequence[Sequence[Sequence[float]]]
) -> list[dict[str, Any]]:
    """Return the two axes of a plane with all positions: name, lowest and highest number, ticks."""
    if not names:
        return []
    places = torch.tensor(plane, dtype=torch.float64).reshape(-1, 2)
    axes = []
    for name, values in zip(names, places.unbind(-1), strict=True):
        known = values[values.isfinite()]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        if low == high:
            low, high = low - 0.5, high + 0.5
        axes.append({"name": name, "low": low, "high": high, "ticks": ticks(low, high, 7)})
    return axes
