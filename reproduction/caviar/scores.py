"""Score predictions: counts by clip, and confidence intervals from resampled clips."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

#: The classes that are scored.
CLASSES = ("Moving", "Meeting")
#: Probabilities are kept this far from 0 and 1, so that logarithms are finite.
SURE = 0.002
#: Logits are counted in bins of this width, up to the logit of `SURE`.
WIDTH = 0.25
BINS = 2 * math.ceil(math.log(1 / SURE) / WIDTH) + 1
RESAMPLES = 1000
METRICS = ("f1", "macro", "ap", "loss", "ece")

#: A pair at a step: video, pair, step.
Cell = tuple[str, str, int]
#: For each class, the prediction for each pair at each step.
Predictions = dict[str, dict[Cell, float]]
#: For each class, by clip: tp, fp, fn, the sum of losses, and counts of false and true by bin.
Counts = dict[str, dict[str, dict[str, Any]]]
Array = Any


def frames(folder: Path) -> dict[str, list[tuple[Cell, tuple[int, ...]]]]:
    """Return the frames of each clip: the cell of each, and which classes are true."""
    result: dict[str, list[tuple[Cell, tuple[int, ...]]]] = {}
    with (folder / "frames.csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            cell = (row["video"], row["pair"], int(row["step"]))
            truth = tuple(int(row[name]) for name in CLASSES)
            result.setdefault(row["video"], []).append((cell, truth))
    return result


def counted(
    said: Predictions, true: Mapping[str, Sequence[tuple[Cell, tuple[int, ...]]]]
) -> Counts:
    """Score predictions for steps on every frame of some clips."""
    result: Counts = {}
    for place, name in enumerate(CLASSES):
        result[name] = {}
        for video, rows in true.items():
            raw = np.array([said[name][cell] for cell, _ in rows])
            y = np.array([truth[place] for _, truth in rows], dtype=bool)
            p = raw.clip(SURE, 1 - SURE)
            yes = raw >= 0.5
            bins = np.rint(np.log(p / (1 - p)) / WIDTH).astype(int) + BINS // 2
            hits = {
                str(b): [int(((bins == b) & ~y).sum()), int(((bins == b) & y).sum())]
                for b in np.unique(bins).tolist()
            }
            loss = float(-(np.log(p[y]).sum() + np.log(1 - p[~y]).sum()))
            result[name][video] = {
                "tp": int((yes & y).sum()), "fp": int((yes & ~y).sum()),
                "fn": int((~yes & y).sum()), "loss": round(loss, 3), "bins": hits,
            }  # fmt: skip
    return result


class Scores:
    """Metrics of one class over any selection of clips."""

    def __init__(self, by_video: Mapping[str, Mapping[str, Any]], videos: Sequence[str]) -> None:
        """Collect counts as arrays, with one axis for clips."""
        rows = [by_video[video] for video in videos]
        self.counts = np.array([[row["tp"], row["fp"], row["fn"]] for row in rows], dtype=float)
        self.loss = np.array([row["loss"] for row in rows])
        self.bins = np.zeros((len(rows), BINS, 2))
        for n, row in enumerate(rows):
            for place, pair in row["bins"].items():
                self.bins[n, int(place)] = pair

    def metrics(self, times: Array) -> dict[str, Array]:
        """Compute all metrics with clips counted this many times, shape (resample, clip)."""
        tp, fp, fn = np.moveaxis(times @ self.counts, -1, 0)
        bins = np.tensordot(times, self.bins, 1)
        false, true = bins[..., 0], bins[..., 1]
        number = bins.sum((-1, -2))
        above = np.flip(np.flip(bins, 1).cumsum(1), 1)
        precision = above[..., 1] / np.maximum(above.sum(-1), 1)
        positives = np.maximum(true.sum(-1), 1)
        centre = 1 / (1 + np.exp(-(np.arange(BINS) - BINS // 2) * WIDTH))
        counts = self.counts
        f1_by_video = (
            2 * counts[:, 0] / np.maximum(2 * counts[:, 0] + counts[:, 1] + counts[:, 2], 1)
        )
        has = (counts[:, 0] + counts[:, 2] > 0).astype(float)
        return {
            "f1": 2 * tp / np.maximum(2 * tp + fp + fn, 1),
            "macro": (times @ (f1_by_video * has)) / np.maximum(times @ has, 1),
            "ap": (precision * true).sum(-1) / positives,
            "loss": times @ self.loss / number,
            "ece": np.abs(true - centre * (true + false)).sum(-1) / number,
        }


def resampled(videos: int, seed: int = 0) -> Array:
    """Return how often each clip is drawn, shape (resample, clip); the first row has each once."""
    draw = np.random.default_rng(seed)
    times = draw.multinomial(videos, [1 / videos] * videos, size=RESAMPLES)
    return np.concatenate([np.ones((1, videos)), times])


def interval(values: Array) -> tuple[float, float, float]:
    """Return the value on all clips, and the 95 % interval over resampled clips."""
    low, high = np.quantile(values[1:], [0.025, 0.975])
    return float(values[0]), float(low), float(high)


def compared(
    first: Mapping[str, Array], second: Mapping[str, Array], metric: str
) -> tuple[float, float, float]:
    """Return how far the first is above the second, with the same resampled clips for both."""
    return interval(first[metric] - second[metric])
