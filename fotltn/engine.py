"""The engine: compiles formulas for a semantics, plans them for sizes, runs them on data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from fotltn.algebra.expr import Expr, Reduce, Reduction, TableLeaf
from fotltn.algebra.lower import by_equations, lower
from fotltn.algebra.passes import optimize
from fotltn.algebra.passes.share import share
from fotltn.errors import DataError, LimitError, SemanticsError, name_hint
from fotltn.kernels.tracing import tracing
from fotltn.logic import core as c
from fotltn.logic.parts import predicates_in
from fotltn.logic.signature import Signature
from fotltn.plan.blocks import Costs, Layout, layout
from fotltn.plan.build import BUDGET, EQUATIONS, build
from fotltn.plan.context import Run
from fotltn.plan.cost import called, dense_cost
from fotltn.plan.facts import LeafFacts
from fotltn.plan.plan import Plan, Route
from fotltn.plan.run import execute
from fotltn.plan.sizes import Sizes, Sparse
from fotltn.semantics.config import PMean, Semantics
from fotltn.semantics.sparse import SparseTable, has_gradients
from fotltn.semantics.tables import Tables, Value
from fotltn.syntax.theory import FunctionDecl, PredicateDecl
from fotltn.threads import threads_for
from fotltn.tree import postorder


@dataclass(frozen=True, slots=True)
class Program:
    """Named formulas as optimised expressions under one semantics."""

    formulas: Mapping[str, c.Formula]
    expressions: Mapping[str, Expr]
    semantics: Semantics
    at: int | None = 0

    def plan(self, sizes: Sizes, *, budget: int = BUDGET) -> Plan:
        """Choose routes for given sizes.

        Where powers would underflow in this precision, the plan follows the equations.

        Raises:
            LimitError: a formula does not fit the budget; the message names it.
        """
        dense = {name: dense_cost(formula, sizes) for name, formula in self.formulas.items()}
        roots = self.expressions
        dtype = torch.float32 if sizes.width == 4 else torch.float64
        if not within_rounding(self.semantics, dtype):
            roots = {n: by_equations(f, self.at) for n, f in self.formulas.items()}
        try:
            return build(roots, sizes, budget=budget, dense=dense)
        except LimitError:
            for name, root in roots.items():
                _check_alone(name, root, sizes, budget)
            raise

    def prepare(self, tables: Tables, *, dtype: torch.dtype, budget: int = BUDGET) -> Prepared:
        """Plan for data; facts are prepared on first use and kept."""
        sizes = sizes_of(tables, dtype)
        facts = {}
        if not tables.cuts:
            facts = {n: t for n, t in tables.predicates.items() if isinstance(t, SparseTable)}
        plan = self.plan(sizes, budget=budget)
        return Prepared(
            plan, self.semantics, dtype, sizes.ragged, facts, self.guards(), self.unused(plan)
        )

    def ready(
        self, tables: Tables, *, dtype: torch.dtype, budget: int = BUDGET
    ) -> Prepared | InBlocks:
        """Plan for data, in blocks of similar traces if that saves much padding."""
        blocks = None
        if self.at == 0 and tables.batch > 1 and not tables.cuts:
            blocks = layout(list(self.formulas.values()), self.costs, tables)
        if blocks is not None:
            return InBlocks(self, blocks, tables, dtype=dtype, budget=budget)
        return self.prepare(tables, dtype=dtype, budget=budget)

    @property
    def costs(self) -> Costs:
        """The cost of the expressions, as a function of sizes."""
        return Costs(self.expressions.values())

    def unused(self, plan: Plan) -> dict[str, tuple[str, ...]]:
        """Return, by formula, predicates without effect on its value: `a` in `a & false`."""
        roots = dict(plan.roots)
        unused = {}
        for name, formula in self.formulas.items():
            written = predicates_in(formula)
            read = {
                n.predicate for n in postorder(roots[name]) if isinstance(n, TableLeaf | c.Atom)
            }
            if written - read:
                unused[name] = tuple(sorted(written - read))
        return unused

    def guards(self) -> frozenset[str]:
        """Return the predicates in guards, which decide what is counted."""
        quantifiers = [n for n in postorder(*self.formulas.values()) if isinstance(n, c.Quantifier)]
        return frozenset(q.guard.predicate for q in quantifiers if isinstance(q.guard, c.Atom))


@dataclass(slots=True, eq=False)
class Prepared:
    """A plan with the facts it iterates over, ready to run many times."""

    plan: Plan
    semantics: Semantics
    dtype: torch.dtype
    ragged: bool
    facts: dict[str, SparseTable] = field(default_factory=dict)  # as in the last call
    guards: frozenset[str] = frozenset()
    unused: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bound: dict[TableLeaf, LeafFacts] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)

    def __call__(self, tables: Tables) -> dict[str, Value]:
        """Return the value of each formula. Facts must be those prepared for; degrees may change.

        Inside a function that PyTorch compiles, this runs uncompiled; use `compiled` to fuse it.

        Raises:
            DataError: a table of facts differs from the one prepared for.
        """
        if torch.compiler.is_dynamo_compiling():
            return torch.compiler.disable(self._values)(tables)  # type: ignore[no-any-return]
        return self._values(tables)

    def _values(self, tables: Tables) -> dict[str, Value]:
        self._renew(tables)
        run = Run(tables, self.semantics, self.dtype, self.bound, ragged=self.ragged)
        with threads_for(self.plan.largest, step=has_gradients(tables.predicates.values())):
            values = execute(self.plan, run)
        for name, predicates in self.unused.items():
            values[name] = with_gradients(values[name], predicates, tables)
        return values

    def _renew(self, tables: Tables) -> None:
        """Check that facts have not moved, and drop what was derived from other degrees."""
        changed = False
        facts = {n: t for n, t in tables.predicates.items() if isinstance(t, SparseTable)}
        self.facts = self.facts or facts
        for name, old in self.facts.items():
            new = facts.get(name)
            if new is None or not same_places(new, old):
                raise DataError(
                    f"the facts of '{name}' are not those that the plan was prepared for; pass a "
                    "table with the same index tensor, whose degrees may differ, or prepare again"
                )
            version = 0 if new.value.is_inference() else new.value._version
            if new.value is old.value and self.versions.setdefault(name, version) == version:
                continue
            if name in self.guards and not bool((new.value == 1).all()):
                raise DataError(f"'{name}' is a guard: the degrees of its facts must all be 1")
            changed = True
            self.facts[name], self.versions[name] = new, version
        if changed:
            for leaf_facts in self.bound.values():
                leaf_facts.forget()


class InBlocks:
    """Plans for the blocks of a ragged batch, ready to run many times as one plan.

    The values equal those of the whole batch: an aggregation over entities or time never sees more
    of a trace than the trace has.
    """

    def __init__(
        self, program: Program, blocks: Layout, tables: Tables, *, dtype: torch.dtype, budget: int
    ) -> None:
        """Plan each block."""
        self.program, self.dtype, self.budget = program, dtype, budget
        self._plan(blocks, tables)

    def _plan(self, blocks: Layout, tables: Tables) -> None:
        self.layout, self.prepared = blocks, list[Prepared]()
        left = self.budget
        for part in blocks.parts(tables):
            self.prepared.append(self.program.prepare(part, dtype=self.dtype, budget=left))
            left -= self.prepared[-1].plan.peak

    def __call__(self, tables: Tables) -> dict[str, Value]:
        """Return the value of each formula; blocks are chosen again if tables of guards change.

        Raises:
            DataError: a table of facts differs from the one prepared for.
        """
        if not self.layout.fits(tables):
            formulas = list(self.program.formulas.values())
            self._plan(Layout(formulas, self.program.costs, tables), tables)
        parts = self.layout.parts(tables)
        return self.layout.joined(
            [run(part) for run, part in zip(self.prepared, parts, strict=True)]
        )


def same_places(new: SparseTable, old: SparseTable) -> bool:
    """Whether facts are at the same places; their degrees may differ."""
    return new.index is old.index and (new.shape, new.default) == (old.shape, old.default)


@dataclass(slots=True, eq=False)
class Compiled:
    """A plan as one recorded function of the dense tables, fused by PyTorch's compiler."""

    plan: Plan
    names: tuple[str, ...]
    axes: dict[str, tuple[c.Axis, ...]]
    function: Callable[..., tuple[Tensor, ...]]

    def __call__(self, tables: Tables) -> dict[str, Value]:
        """Return the value of each formula; only the dense tables may differ from compilation."""
        tensors = self.function(*(tables.predicates[name] for name in self.names))
        return {
            name: Value(axes, tensor)
            for (name, axes), tensor in zip(self.axes.items(), tensors, strict=True)
        }


def compiled(prepared: Prepared, tables: Tables, *, backend: str = "inductor") -> Compiled:
    """Record a plan on data and pass it to `torch.compile`, which needs a C++ compiler.

    Raises:
        SemanticsError: a step recomputes for gradients, or shares them among equals, which a
            compiler would not do.
    """
    for step in prepared.plan.steps:
        kind = step.node.kind if isinstance(step.node, Reduce) else None
        extreme = step.route is Route.SUPPORT and kind in (Reduction.MINIMUM, Reduction.MAXIMUM)
        if extreme or step.route in (Route.CHUNKED, Route.PAIRS):
            raise SemanticsError(f"a step of the kind '{step.route}' cannot be compiled")
        if step.why == EQUATIONS:
            raise SemanticsError("a formula that is computed by the equations cannot be compiled")
    names = tuple(n for n, t in tables.predicates.items() if isinstance(t, Tensor))
    axes: dict[str, tuple[c.Axis, ...]] = {}

    def run(*dense: Tensor) -> tuple[Tensor, ...]:
        predicates = {**tables.predicates, **dict(zip(names, dense, strict=True))}
        values = prepared(replace(tables, predicates=predicates))
        axes.update({name: value.axes for name, value in values.items()})
        return tuple(value.tensor for value in values.values())

    if backend not in (known := torch.compiler.list_backends(exclude_tags=())):
        raise SemanticsError(f"unknown backend '{backend}'; {name_hint(backend, known)}")
    from torch.fx.experimental.proxy_tensor import make_fx

    with tracing():
        prepared(tables)  # prepare facts outside the recorded function
        graph = make_fx(run)(*(tables.predicates[name].detach() for name in names))  # type: ignore[union-attr]
    # Loops over time need too many GPU registers for reductions that keep everything in them.
    options: Any = {"triton.persistent_reductions": False} if backend == "inductor" else None
    fused = torch.compile(graph, backend=backend, dynamic=False, options=options)
    with warnings.catch_warnings():  # the compiler reads gradients of tables that are not leaves
        warnings.filterwarnings("ignore", r"The \.grad attribute", UserWarning)
        fused(*(tables.predicates[name] for name in names))
    return Compiled(prepared.plan, names, axes, fused)


def compile_formulas(
    formulas: Mapping[str, c.Formula],
    signature: Signature,
    semantics: Semantics,
    *,
    at: int | None = 0,
) -> Program:
    """Lower and optimise formulas at one time point, or at all of them for `at=None`.

    Under a log-space semantics the values are logarithms of degrees, computed by the equations.
    """
    if semantics.boolean:
        raise SemanticsError(f"the engine computes degrees, not the truth of '{semantics.name}'")
    expressions = {n: optimize(lower(f, signature, semantics, at=at)) for n, f in formulas.items()}
    return Program(dict(formulas), share(expressions), semantics, at)


def compile_for(
    formulas: Mapping[str, c.Formula], tables: Tables, semantics: Semantics, at: int | None
) -> Program:
    """Compile formulas for tables; programs are cached for other tables of the same kind."""
    signature = as_given(formulas, tables)
    predicates = tuple(signature.predicates.values())
    return _program(
        tuple(formulas.items()), predicates, tuple(signature.functions.values()), semantics, at
    )


@lru_cache(maxsize=64)
def _program(
    formulas: tuple[tuple[str, c.Formula], ...],
    predicates: tuple[PredicateDecl, ...],
    functions: tuple[FunctionDecl, ...],
    semantics: Semantics,
    at: int | None,
) -> Program:
    signature = Signature(
        predicates={decl.name: decl for decl in predicates},
        functions={decl.name: decl for decl in functions},
    )
    return compile_formulas(dict(formulas), signature, semantics, at=at)


def planned(
    formulas: Mapping[str, c.Formula],
    signature: Signature,
    semantics: Semantics,
    sizes: Sizes,
    *,
    at: int | None = 0,
    budget: int = BUDGET,
) -> Plan:
    """Return the plan for formulas on data of given sizes; nothing is evaluated.

    Raises:
        LimitError: with the name of a formula that does not fit the budget.
    """
    return compile_formulas(formulas, signature, semantics, at=at).plan(sizes, budget=budget)


def with_gradients(value: Value, predicates: Iterable[str], tables: Tables) -> Value:
    """Return a value with a zero gradient for tables that it does not depend on."""
    tensor = value.tensor
    for name in predicates:
        table = tables.table(name)
        degrees = table.value if isinstance(table, SparseTable) else table
        if degrees.is_floating_point():
            tensor = tensor + degrees.narrow(0, 0, 0).sum().to(tensor.dtype)
    return Value(value.axes, tensor)


def _check_alone(name: str, root: Expr, sizes: Sizes, budget: int) -> None:
    """Raise an error that names the formula if it does not fit the budget even on its own."""
    try:
        build({name: root}, sizes, budget=budget)
    except LimitError as error:
        reasons = [replace(d, message=f"{called(name)}: {d.message}") for d in error.diagnostics]
        raise LimitError(*reasons) from None


def within_rounding(semantics: Semantics, dtype: torch.dtype) -> bool:
    """Whether powers in a mean underflow only for degrees that rounding would lose anyway.

    The reference factors out the largest degree before taking powers. A sum taken axis by axis
    cannot, so a degree whose power is too small for the dtype counts as 0.
    """
    if semantics.log_space:
        return True
    kind = torch.finfo(dtype)
    exponents = [a.p for a in semantics.aggregations if isinstance(a, PMean)]
    return all(p == math.inf or kind.tiny ** (1 / p) <= kind.eps for p in exponents)


def sizes_of(tables: Tables, dtype: torch.dtype) -> Sizes:
    """Return the sizes of data."""
    sparse = {
        name: Sparse(
            table.facts,
            table.default,
            temporal=table.shape[-1] > 1,
            crisp=bool((table.value == 1).all()) and table.default == 0,
        )
        for name, table in tables.predicates.items()
        if isinstance(table, SparseTable)
    }
    sizes = Sizes(
        dict(tables.sizes),
        tables.horizon,
        tables.batch,
        {name: table.shape[0] for name, table in tables.relations.items()},
        sparse,
        ragged=bool((tables.lengths != tables.horizon).any()),
        width=torch.finfo(dtype).bits // 8,
    )
    for axis in tables.cuts:
        sizes = sizes.cut(axis, tables.size(axis))
    return sizes


def as_given(formulas: Mapping[str, c.Formula], tables: Tables) -> Signature:
    """Return which symbols of formulas are static, according to the tables."""
    signature = Signature()
    for node in postorder(*formulas.values()):
        if isinstance(node, c.Atom):
            name = node.predicate
            static = tables.table(name).shape[-1] == 1 < tables.horizon
            signature.predicates[name] = PredicateDecl(name, static=static)
        elif isinstance(node, c.Apply):
            name = node.function
            static = tables.function(name).shape[-1] == 1 < tables.horizon
            signature.functions[name] = FunctionDecl(name, (), "", static=static)
    return signature
