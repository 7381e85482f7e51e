"""Build a plan from expressions and sizes, within a memory budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from fotltn.algebra import expr as e
from fotltn.algebra.expand import by_powers, off_facts
from fotltn.algebra.show import brief, scope
from fotltn.errors import LimitError
from fotltn.kernels.until import extent
from fotltn.logic import core as c
from fotltn.logic.parts import check_axes
from fotltn.plan.cost import blocks_cost, check_variables
from fotltn.plan.dedupe_axes import Twins
from fotltn.plan.plan import Plan, Route, Step, needed
from fotltn.plan.shared_suffixes import tails
from fotltn.plan.sizes import Sizes
from fotltn.plan.sparsity import (
    computed,
    default,
    excesses,
    gathered,
    sparse_leaf,
    supports,
    walks,
)
from fotltn.tree import children, descend

#: The memory that intermediate results may take by default.
BUDGET = 4 * 2**30

#: A mean is written as a sum of means if these take less than this share of its operations.
WORTH = 1.0

#: The reason given for a formula that is not split up.
EQUATIONS = "by the equations"

_GIVEN = (c.Equal, c.Compare, c.Edge)


def build(
    roots: Mapping[str, e.Expr],
    sizes: Sizes,
    *,
    budget: int = BUDGET,
    dense: Mapping[str, tuple[int, int]] | None = None,
) -> Plan:
    """Choose a route for every part.

    Raises:
        LimitError: a step, or all steps together, need more memory than the budget.
    """
    try:
        return _within(_Planner(sizes, budget, WORTH), roots, dense or {})
    except LimitError:  # chunks may fit where sums of means do not
        return _within(_Planner(sizes, budget, 0.0), roots, dense or {})


def _within(
    planner: _Planner, roots: Mapping[str, e.Expr], dense: Mapping[str, tuple[int, int]]
) -> Plan:
    plan = planner.plan(roots, dense)
    if plan.peak > plan.budget:
        most = max(plan.steps, key=lambda step: step.bytes)
        raise LimitError(
            f"{len(plan.steps)} steps need {plan.peak:,} bytes together, more than the budget of "
            f"{plan.budget:,}; {brief(most.node, {})} alone needs {most.bytes:,}"
        )
    return plan


@dataclass(slots=True, eq=False)
class _Planner:
    sizes: Sizes
    budget: int
    worth: float
    known: frozenset[e.Expr] = frozenset()  # parts that are already computed
    expansions: dict[e.Reduce, tuple[e.Expr, str] | None] = field(default_factory=dict)
    held: int = 0
    passing: int = 0
    steps: dict[e.Expr, Step] = field(default_factory=dict)
    twins: Twins = field(init=False)

    def __post_init__(self) -> None:
        self.twins = Twins(self.sizes.cuts)

    def plan(
        self, roots: Mapping[str, e.Expr], dense: Mapping[str, tuple[int, int]] | None = None
    ) -> Plan:
        """Return the steps of the roots, without those that a renamed part made superfluous."""
        for root in roots.values():
            self.add(root)
        parts = needed(roots.values(), self.steps)
        steps = tuple(step for node, step in self.steps.items() if node in parts)
        peak = sum(s.bytes - s.passing for s in steps) + max((s.passing for s in steps), default=0)
        ends = tails(roots, steps)
        return Plan(tuple(roots.items()), steps, self.sizes, self.budget, peak, ends, dense or {})

    @property
    def left(self) -> int:
        """The part of the budget that a step may keep."""
        return self.budget - self.held - self.passing

    def add(self, root: e.Expr) -> None:
        """Plan an expression and its inputs, without recursion."""
        stack = [root]
        chosen: dict[e.Expr, Step] = {}
        while stack:
            node = stack[-1]
            if node in self.steps or node in self.known:
                stack.pop()
                continue
            if node not in chosen:
                chosen[node] = self.choose(node)
            step = chosen[node]
            missing = [i for i in step.inputs if i not in self.steps and i not in self.known]
            if missing:
                stack.extend(missing)
                continue
            if step.bytes > self.budget:
                raise LimitError(
                    f"{brief(node, {})} over [{scope(node)}] needs {step.bytes:,} bytes at once, "
                    f"more than the budget of {self.budget:,}"
                )
            twin = self.twins.find(step)
            if twin is not None:
                why = f"as over {next(iter(twin.axes))}"
                step = Step(node, Route.RENAMED, why, (twin,), 0, 0)
            self.steps[node] = step
            self.held += step.bytes - step.passing
            self.passing = max(self.passing, step.passing)
            stack.pop()

    def choose(self, node: e.Expr) -> Step:
        sizes = self.sizes
        cells, held = sizes.of(node), sizes.bytes(node)
        kind = e.closed(node)
        check_axes(len(node.axes), brief(node, {}))
        match kind:
            case e.TableLeaf(name):
                why = f"{name} has facts, but not under a sum" if name in sizes.sparse else ""
                copied = name in sizes.sparse or e.argument_axes(kind) is None
                return Step(node, Route.TABLE, why, (), 0, held if copied else 0)
            case e.Data(formula) if not kind.crisp and not isinstance(formula, _GIVEN):
                check_variables("", formula)
                return Step(node, Route.GIVEN, EQUATIONS, (), *blocks_cost(formula, sizes))
            case e.Data():
                return Step(node, Route.GIVEN, "", (), cells, held)
            case e.At(e.Pairs(left, right)):
                flops, both = 12 * sizes.cells(node.axes, True), (left, right)
                return Step(node, Route.PAIRS, "one time point", both, flops, 6 * sizes.bytes(left))
            case e.At(x):
                return Step(node, Route.POINT, "", (x,), 0, 0)
            case e.TimeShift(x):
                return Step(node, Route.SHIFT, "", (x,), 0, held)
            case e.Scan(_, x, window):
                why = "suffixes" if window.high is None else "blocks as wide as the window"
                return Step(node, Route.SCAN, why, (x,), 4 * cells, 3 * held)
            case e.Pairs(left, right, window):
                horizon = sizes.horizon
                reach = horizon if window.high is None else min(horizon, window.high + 1)
                why, both = f"{horizon} × {reach} pairs", (left, right)
                lead = max(1, cells // horizon)
                passing = extent(lead, horizon, window, kind.semantics).numbers * sizes.width
                return Step(
                    node, Route.PAIRS, why, both, 12 * cells * reach, 3 * held + passing,
                    passing=passing,
                )  # fmt: skip
            case e.Reduce():
                return self.reduce(kind)
            case e.Scalar():
                return Step(node, Route.POINTWISE, "", (), cells, held)
            case e.Affine() | e.Power() | e.Root() | e.Product() | e.Pointwise():
                inputs = e.pointwise_parts(node) or ()
                return Step(node, Route.POINTWISE, "", inputs, cells * len(inputs), held)
            case _:
                assert_never(kind)

    # --- reductions ---------------------------------------------------------------------------

    def reduce(self, node: e.Reduce) -> Step:
        return self.products(node) or self.support(node) or self.expanded(node) or self.dense(node)

    def products(self, node: e.Reduce) -> Step | None:
        """Plan a mean of products, over facts or axis by axis."""
        if node.kind is not e.Reduction.MEAN:
            return None
        factors = list(node.x.factors) if isinstance(node.x, e.Product) else [node.x]
        if node.guard is not None:
            factors.append(guard_factor(node, self.sizes))
        return self.sparse(node, factors) or self.contraction(node, factors)

    def sparse(self, node: e.Reduce, factors: list[e.Expr]) -> Step | None:
        """Plan a sum over the facts of one factor, with the other factors looked up there."""
        drivers = []
        for factor in factors:
            leaf = sparse_leaf(factor, self.sizes)
            if leaf is None or (node.guard is not None and factor is not factors[-1]):
                continue  # a guarded mean is counted by the facts of its guard
            others = [f for f in factors if f is not factor]
            span = frozenset[c.Axis]().union(*(f.axes for f in others)) - leaf.axes
            outer = node.axes - leaf.axes
            late = any(f.timed for f in others) and not leaf.temporal
            if span or outer or late:
                continue
            table = self.sizes.sparse[leaf.predicate]
            # With another default, the cells without facts would contribute a difference of two
            # sums,
            # whose rounding error a root may magnify: then the facts are made dense instead.
            if default(factor, leaf, table) == 0:
                drivers.append((table.facts, factor, leaf, others))
        if not drivers:
            return None
        facts, factor, leaf, others = min(drivers, key=lambda driver: driver[0])
        inputs = tuple(f for f in others if sparse_leaf(f, self.sizes) is None)
        why = f"{facts:,} facts of {leaf.predicate} instead of {self.cells(node):,} cells"
        cells = sum(self.sizes.of(f) for f in inputs) + facts * (len(others) - len(inputs))
        flops = facts * 2 * max(1, len(others)) + cells
        held = self.sizes.bytes(node) + cells * self.sizes.width
        return Step(
            node, Route.SPARSE, why, inputs, flops, held, driver=factor, leaf=leaf,
            factors=tuple(others),
        )  # fmt: skip

    def contraction(self, node: e.Reduce, factors: list[e.Expr]) -> Step | None:
        """Plan a sum of products, if no factor has all the axes."""
        axes = frozenset[c.Axis]().union(*(f.axes for f in factors))
        timed = any(f.timed for f in factors)
        if len(factors) < 2 or all(f.axes == axes and f.timed == timed for f in factors):
            return None
        if len(axes) + timed > 24:
            return None
        flops, held, why = _path_cost(node, factors, self.sizes)
        if held > self.budget:
            return None
        return Step(
            node, Route.CONTRACTION, why, tuple(factors), flops, held, factors=tuple(factors)
        )

    def support(self, node: e.Reduce) -> Step | None:
        """Plan a reduction that is constant wherever a table has no fact."""
        if node.guard is not None:
            return None
        for leaf, constant in supports(node.x, self.sizes):
            if not walks(node, leaf):
                continue
            facts = self.sizes.sparse[leaf.predicate].facts
            inputs = gathered(node.x, self.sizes, facts)
            why = (
                f"{facts:,} facts of {leaf.predicate}; the value is {constant:g} at the other "
                f"{max(0, self.cells(node) - facts):,} cells"
            )
            nodes = computed(node.x, inputs)
            return Step(
                node, Route.SUPPORT, why, inputs, facts * nodes, facts * nodes * self.sizes.width,
                leaf=leaf, constant=constant,
            )  # fmt: skip
        return None

    def expanded(self, node: e.Reduce) -> Step | None:
        """Plan a mean as a sum of means, if these are cheaper than all cells of its body."""
        if node not in self.expansions:
            self.expansions[node] = None  # do not expand it again inside itself
            self.expansions[node] = self.expand(node)
        way = self.expansions[node]
        return way and Step(node, Route.EXPANDED, way[1], (way[0],), 0, 0)

    def expand(self, node: e.Reduce) -> tuple[e.Expr, str] | None:
        if node.kind is not e.Reduction.MEAN or node.guard is not None:
            return None
        if any(self.sizes.axis(a) == 0 for a in node.over):
            return None
        ways: list[tuple[e.Expr, str]] = []
        for leaf in excesses(node, self.sizes):
            rest, more = off_facts(node, leaf)
            both = e.Pointwise(e.Op.PLUS, (rest, more))
            ways.append((both, f"as if {leaf.predicate} had no facts, and what its facts add"))
        terms = by_powers(node)
        if isinstance(terms, e.Pointwise):
            ways.append((terms, f"{len(terms.args)} terms of a power"))
        region = [n for n in self.region(node.x) if n not in self.steps]
        flops, best = self.worth * (sum(self.sizes.of(n) for n in region) + self.cells(node)), None
        for way in ways:
            trial = _Planner(
                self.sizes, self.budget, self.worth, self.known | set(self.steps),
                self.expansions, self.held, self.passing,
            )  # fmt: skip
            try:
                trial.add(way[0])
            except LimitError:
                continue
            cost = sum(s.flops / _speed(s.route) for s in trial.steps.values())
            if cost < flops and trial.left >= 0:
                flops, best = cost, way
        return best

    def dense(self, node: e.Reduce) -> Step:
        """Plan everything at once if the budget allows, or else one part of an axis at a time."""
        body = node.x
        mask = () if node.guard is None else (guard_factor(node, self.sizes),)
        region = [n for n in self.region(body, *mask) if n not in self.steps]
        cells = self.sizes.cells(body.axes | set(node.over), body.timed)
        need = sum(self.sizes.bytes(n) for n in region) + cells * self.sizes.width
        out = self.sizes.bytes(node)
        flops = sum(self.sizes.of(n) for n in region)
        room = max(1, self.left // 2)
        cut = [a for a in node.over if a in body.axes and self.sizes.axis(a) > 1]
        if need <= room or not cut:
            held = out + self.cells(node) * self.sizes.width
            why = "fits the budget"
            return Step(node, Route.DENSE, why, (body, *mask), self.cells(node), held)
        axis = max(cut, key=self.sizes.axis)
        size = self.sizes.axis(axis)
        hoisted = self.hoisted(axis, body, *mask)
        roots = {"chunk": body, **({"guard": mask[0]} if mask else {})}
        left = self.budget - self.held
        width = math.ceil(size / min(size, math.ceil(need / max(1, left // 2))))
        while True:
            sizes = self.sizes.cut(axis, width)
            plan = _Planner(sizes, self.budget, self.worth, frozenset(hoisted)).plan(roots)
            if plan.peak + out <= left or width == 1:
                break
            width = math.ceil(width / 2)
        held = plan.peak + out
        if held > left:
            other = f", of which other steps hold {self.held:,}" if self.held else ""
            raise LimitError(
                f"{brief(node, {})} needs {held:,} bytes even one entity of {axis} at a time, "
                f"more than the budget of {self.budget:,}{other}"
            )
        chunks = math.ceil(size / width)
        why = f"dense would take {need:,} bytes; {chunks} parts of {axis}, recomputed for gradients"
        return Step(
            node, Route.CHUNKED, why, tuple(hoisted), 2 * flops, held, axis=axis, chunks=chunks,
            region=plan, passing=plan.peak,
        )  # fmt: skip

    def light(self, node: e.Expr) -> bool:
        """Whether a reduction inside another one need not be dense: over facts, or by products."""
        if not isinstance(node, e.Reduce):
            return False
        return bool(self.products(node) or self.few(node) or self.expanded(node))

    def few(self, node: e.Reduce) -> bool:
        """Whether the values that a reduction holds for facts are fewer than its cells, and fit."""
        step = self.support(node) if self.worth else None
        return step is not None and step.bytes <= min(self.left // 2, self.sizes.bytes(node.x))

    def region(self, *roots: e.Expr) -> list[e.Expr]:
        """Return what a dense reduction holds at once, down to the light reductions inside it."""
        return descend(roots, lambda node: () if self.light(node) else _operands(node))

    def hoisted(self, axis: c.Axis, *roots: e.Expr) -> list[e.Expr]:
        """Return what is computed once, outside the chunks: light or independent of the axis."""

        def inside(node: e.Expr) -> bool:
            return axis in node.axes and not self.light(node)

        parts = descend(roots, lambda node: _operands(node) if inside(node) else ())
        return [part for part in parts if not inside(part) and not isinstance(part, e.Scalar)]

    def cells(self, node: e.Reduce) -> int:
        """Return the number of cells in a dense evaluation of a reduction's body."""
        return self.sizes.cells(node.x.axes | set(node.over), node.x.timed or node.time)


def guard_factor(node: e.Reduce, sizes: Sizes) -> e.Expr:
    """Return a guard as a factor that is 1 or 0: the facts of a table, or given data."""
    guard = node.guard
    assert guard is not None
    if isinstance(guard, c.Atom) and guard.predicate in sizes.sparse:
        leaf = e.TableLeaf(guard.predicate, guard.args, sizes.temporal(guard.predicate))
        if sparse_leaf(leaf, sizes) is not None and sizes.sparse[guard.predicate].crisp:
            return leaf
    return e.Data(guard, temporal=not node.still, crisp=True)


def _operands(node: e.Expr) -> list[e.Expr]:
    return [child for child in children(node) if isinstance(child, e.Expr)]


def _path_cost(node: e.Reduce, factors: list[e.Expr], sizes: Sizes) -> tuple[int, int, str]:
    """Return the FLOPs and memory of summing out one axis after another, cheapest first."""
    import opt_einsum

    letters: dict[object, str] = {}
    extent: dict[str, int] = {}

    def letter(key: object, size: int) -> str:
        if key not in letters:
            letters[key] = opt_einsum.get_symbol(len(letters))
            extent[letters[key]] = max(1, size)
        return letters[key]

    terms = []
    for f in factors:
        names = [letter(a, sizes.axis(a)) for a in sorted(f.axes, key=lambda a: a.name)]
        terms.append("".join(names + ([letter("time", sizes.horizon)] if f.timed else [])))
    result = [letter(a, sizes.axis(a)) for a in sorted(node.axes, key=lambda a: a.name)]
    if node.timed and "time" in letters:
        result.append(letters["time"])
    result = [k for k in result if any(k in t for t in terms)]
    shapes = [tuple(extent[k] for k in t) for t in terms]
    equation = ",".join(terms) + "->" + "".join(result)
    _, info = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize="greedy")
    flops = int(info.opt_cost) * sizes.traces
    held = int(info.largest_intermediate) * sizes.width * sizes.traces
    return flops, held, f"largest intermediate {int(info.largest_intermediate):,} cells"


def _speed(route: Route) -> float:
    """Estimate how many operations of a contraction take as long as one at every cell."""
    return 8.0 if route is Route.CONTRACTION else 1.0
