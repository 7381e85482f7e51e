"""Plans: the route that each part of a theory takes, and its cost. Frozen and printable."""

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

    TABLE = "table"  # a predicate's table, viewed through its arguments
    GIVEN = "given"  # equality, comparison, guard: computed from given data
    POINTWISE = "pointwise"
    CONTRACTION = "contraction"  # a sum of products, axis by axis
    SPARSE = "sparse"  # a sum of products over the facts of one table
    SUPPORT = "support"  # a reduction over facts, plus a constant for all other cells
    EXPANDED = "expanded"  # a mean as a sum of cheaper means
    DENSE = "dense"
    CHUNKED = "chunked"  # dense, one part of an axis at a time
    SCAN = "scan"
    PAIRS = "pairs"  # until, over pairs of time points
    SHIFT = "shift"
    POINT = "point"  # one time point
    RENAMED = "renamed"  # the values of another part, with its axis renamed


@dataclass(frozen=True, slots=True)
class Step:
    """One part of a plan."""

    node: e.Expr
    route: Route
    why: str
    inputs: tuple[e.Expr, ...]
    flops: int
    bytes: int
    driver: e.Expr | None = None  # the factor whose facts are iterated over
    leaf: e.TableLeaf | None = None  # the table of the driver
    factors: tuple[e.Expr, ...] = ()
    constant: float = 0.0  # the value where there is no fact
    axis: c.Axis | None = None  # the axis that is cut into chunks
    chunks: int = 1
    region: Plan | None = None  # the plan of one chunk
    passing: int = 0  # the part of `bytes` that is free again after the step


@dataclass(frozen=True, slots=True)
class Tail:
    """The common end of formulas: `chain`, innermost first, maps all `inputs` to `roots`."""

    chain: tuple[e.Expr, ...]
    inputs: tuple[e.Expr, ...]
    roots: tuple[e.Expr, ...]
    covers: frozenset[e.Expr]  # the steps that this tail replaces


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order, for named roots and fixed sizes."""

    roots: tuple[tuple[str, e.Expr], ...]
    steps: tuple[Step, ...]
    sizes: Sizes
    budget: int
    peak: int
    tails: tuple[Tail, ...] = ()
    dense: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # FLOPs, bytes by name

    @property
    def largest(self) -> int:
        """The most numbers that one of its steps reads and writes."""
        return max((step.bytes // self.sizes.width for step in self.steps), default=0)

    def explain(self) -> str:
        """Return the plan as text: the steps of each root, compared with dense evaluation."""
        from fotltn.plan.explain import explain

        return explain(self)

    def __str__(self) -> str:
        return self.explain()


def needed(roots: Iterable[e.Expr], steps: Mapping[e.Expr, Step]) -> set[e.Expr]:
    """Return all parts with a step that the roots need, including the roots."""
    parts = descend(roots, lambda node: steps[node].inputs if node in steps else ())
    return {part for part in parts if part in steps}
