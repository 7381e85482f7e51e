"""The violations of several axioms, ranked by their share of the error of all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fotltn.analysis.violations import Violation, Violations


@dataclass(frozen=True, slots=True)
class Ranked:
    """A violation, or a weak cell, of one of several axioms, with its share of all their error."""

    axiom: str
    share: float
    violation: Violation

    def as_dict(self) -> dict[str, object]:
        """The violation for machines."""
        return {"axiom": self.axiom, "share_of_all": self.share, **self.violation.as_dict()}


def ranked(
    by_axiom: Sequence[Violations], weights: Mapping[str, float], p: float
) -> tuple[Ranked, ...]:
    """Violations first, then what is weak, by their share of the error of all axioms.

    The error of all is the weighted mean of `(1 - value)^p`. An axiom's part in it is shared among
    its violations as its own error is.

    Args:
        by_axiom: of each axiom.
        weights: of the axioms.
        p: the exponent.
    """
    errors = {one.axiom: max(0.0, 1 - one.value) for one in by_axiom}
    largest = max((error for name, error in errors.items() if weights[name]), default=0.0)
    parts = {
        name: weights[name] * _power(error / largest, p) if largest else 0.0
        for name, error in errors.items()
    }
    total = sum(parts.values()) or 1.0
    every = [Ranked(f.axiom, parts[f.axiom] / total * v.share, v) for f in by_axiom for v in f]
    return tuple(sorted(every, key=lambda one: (not one.violation.violated, -one.share)))


def _power(base: float, p: float) -> float:
    return float(base == 1) if math.isinf(p) else base**p
