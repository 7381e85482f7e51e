"""Figures of one rule: its truth over time, and bindings against time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fotltn.errors import DataError
from fotltn.reporting.theme import BLUE, ORANGE, drawing, error_colours, whole_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fotltn.analysis.over_time import BindingRow, TruthOverTime

_NAME = 28  # characters of a binding that a heat map shows


@dataclass(frozen=True, slots=True)
class Band:
    """The values of a rule's body at each time, over all traces and bindings that count there.

    Args:
        times: the points at which something counts.
        mean: the mean value at each.
        low: the lowest value at each.
        high: the highest value at each.
        violated: how many cells are false at each, in two-valued logic.
    """

    times: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    violated: tuple[int, ...]

    def as_dict(self) -> dict[str, object]:
        """The numbers for machines."""
        return {name: list(getattr(self, name)) for name in self.__slots__}


def band(found: TruthOverTime) -> Band:
    """The mean and the range of a rule's values at each time."""
    values = found.values.detach().cpu().numpy()
    truth = found.truth.detach().cpu().numpy()
    columns = []
    for i, time in enumerate(found.times):
        column = values[:, i]
        column = column[~np.isnan(column)]
        if len(column):
            mean = float(column.mean(dtype=np.float64))
            wrong = int((truth[:, i] == 0).sum())
            columns.append((time, mean, float(column.min()), float(column.max()), wrong))
    if not columns:
        return Band((), (), (), (), ())
    return Band(*zip(*columns, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Worst:
    """The worst bindings of a rule, with their values over time.

    Args:
        rows: the bindings, the worst first.
        values: their degrees with axes (row, time); NaN where nothing counts.
        times: the time of each column.
        traces: how many traces there are in all.
    """

    rows: tuple[BindingRow, ...]
    values: np.ndarray[Any, Any]
    times: tuple[int, ...]
    traces: int

    def as_dict(self) -> dict[str, object]:
        """The rows for machines; what does not count is NaN."""
        pairs = zip(self.rows, self.values.tolist(), strict=True)
        return {
            "times": list(self.times),
            "rows": [{**row.as_dict(), "values": values} for row, values in pairs],
        }


def worst(found: TruthOverTime, top: int) -> Worst:
    """The worst bindings of a rule, at most so many."""
    rows = found.worst(top)
    values = found.values[[row.row for row in rows]].detach().cpu().numpy()
    return Worst(rows, values, found.times, len(found.lengths))


def truth_over_time(found: TruthOverTime | Band, *, ax: Axes | None = None) -> Axes:
    """The value of a rule's body over time: the mean over bindings, and a band down to the worst.

    The band reaches from the lowest value at each time to the highest.

    Args:
        found: what `model.truth_over_time` gives, or the band of it.
        ax: what to draw on, in place of a new figure.

    Raises:
        DataError: no cell counts.
    """
    given = found if isinstance(found, Band) else band(found)
    if not given.times:
        raise DataError("no binding of the rule counts at any time, so there is nothing to draw")
    with drawing(ax, 5.2, 2.4) as ax:
        if len(given.times) == 1:
            ax.vlines(given.times, given.low, given.high, color=BLUE, alpha=0.3, lw=8)
        else:
            ax.fill_between(
                given.times, given.low, given.high, color=BLUE, alpha=0.16, linewidth=0,
                label="lowest to highest",
            )  # fmt: skip
            ax.plot(given.times, given.low, color=ORANGE, lw=1, label="lowest")
        marker = "o" if len(given.times) == 1 else None
        ax.plot(given.times, given.mean, color=BLUE, lw=1.6, marker=marker, label="mean")
        ax.set_ylim(-0.04, 1.06)
        ax.set_xlabel("time")
        ax.set_ylabel("value")
        whole_ticks(ax, given.times)
    return ax


def heat_map(found: TruthOverTime | Worst, *, top: int = 30, ax: Axes | None = None) -> Axes:
    """The worst bindings of a rule, one a row, against time; the fuller the colour, the falser.

    What does not count, for a guard or since the trace has ended, is grey.

    Args:
        found: what `model.truth_over_time` gives, or the worst of it.
        top: how many bindings to draw at most, the worst first.
        ax: what to draw on, in place of a new figure.

    Raises:
        DataError: no cell counts, or `top` is less than 1.
    """
    if top < 1:
        raise DataError(f"a heat map has at least 1 row, not {top}")
    given = found if isinstance(found, Worst) else worst(found, top)
    rows, values = given.rows[:top], given.values[:top]
    if not rows:
        raise DataError("no binding of the rule counts at any time, so there is nothing to draw")
    with drawing(ax, 5.2, 0.8 + 0.2 * len(rows)) as ax:
        first, last = given.times[0], given.times[-1]
        ax.imshow(
            np.ma.masked_invalid(values), cmap=error_colours(), vmin=0, vmax=1, aspect="auto",
            interpolation="none", extent=(first - 0.5, last + 0.5, len(rows) - 0.5, -0.5),
        )  # fmt: skip
        names = [_label(row, several=given.traces > 1) for row in rows]
        ax.set_yticks(range(len(rows)), names, parse_math=False)
        ax.tick_params(axis="y", length=0)
        ax.grid(visible=False)
        ax.set_xlabel("time")
        whole_ticks(ax, given.times)
    return ax


def _label(row: BindingRow, *, several: bool) -> str:
    """A binding by names, with its trace if there are several."""
    text = ", ".join(row.binding.values()) or "the rule"
    text = f"{row.trace_name or row.trace}: {text}" if several else text
    return text if len(text) <= _NAME else f"{text[: _NAME - 1]}…"
