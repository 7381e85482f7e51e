"""Plans: which route each part of a theory takes, and what it costs. Frozen, and printable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fotltn.algebra import expr as e
from fotltn.logic import core as c
from fotltn.plan.sizes import Sizes
from fotltn.tree import descend


class Route(StrEnum):
    """How a part is computed."""

    TABLE = "table"  # a predicate's table, seen through its arguments
    GIVEN = "given"  # equality, comparison, guard: computed from given data
    POINTWISE = "pointwise"
    CONTRACTION = "contraction"  # a sum of products, axis by axis
    SPARSE = "sparse"  # a sum of products over the facts of one table
    SUPPORT = "support"  # a reduction over facts; elsewhere a constant, which is counted
    EXPANDED = "expanded"  # a mean as a sum of cheaper ones
    DENSE = "dense"
    CHUNKED = "chunked"  # dense, a part of one axis at a time
    SCAN = "scan"
    PAIRS = "pairs"  # until, over pairs of time points
    SHIFT = "shift"
    POINT = "point"  # one time point
    RENAMED = "renamed"  # the values of another part, whose axis has another name


@dataclass(frozen=True, slots=True)
class Step:
    """One part of a plan."""

    node: e.Expr
    route: Route
    why: str
    inputs: tuple[e.Expr, ...]
    flops: int
    bytes: int
    driver: e.Expr | None = None  # the factor whose facts are walked
    leaf: e.TableLeaf | None = None  # its table
    factors: tuple[e.Expr, ...] = ()
    constant: float = 0.0  # the value where there is no fact
    axis: c.Axis | None = None  # the axis that is cut
    chunks: int = 1
    region: Plan | None = None  # the plan of one chunk
    passing: int = 0  # those of the bytes that are free again after the step


@dataclass(frozen=True, slots=True)
class Tail:
    """The ends of formulas: `chain`, innermost first, applied to all `inputs` gives `roots`."""

    chain: tuple[e.Expr, ...]
    inputs: tuple[e.Expr, ...]
    roots: tuple[e.Expr, ...]
    covers: frozenset[e.Expr]  # the steps that this replaces


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order, for named roots and given sizes."""

    roots: tuple[tuple[str, e.Expr], ...]
    steps: tuple[Step, ...]
    sizes: Sizes
    budget: int
    peak: int
    tails: tuple[Tail, ...] = ()
    dense: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # FLOPs, bytes by name

    def explain(self) -> str:
        """The plan as text: for each root its steps, and all against dense evaluation."""
        from fotltn.plan.explain import explain

        return explain(self)

    def __str__(self) -> str:
        return self.explain()


def needed(roots: Iterable[e.Expr], steps: Mapping[e.Expr, Step]) -> set[e.Expr]:
    """The parts with a step that roots need, these among them."""
    parts = descend(roots, lambda node: steps[node].inputs if node in steps else ())
    return {part for part in parts if part in steps}
