"""The engine: formulas compiled once for a semantics, planned for sizes, run on data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fotltn.algebra.expr import Expr, Kind, Leaf, Reduce
from fotltn.algebra.lower import lower
from fotltn.algebra.passes import optimize
from fotltn.algebra.passes.share import share
from fotltn.errors import SemanticsError
from fotltn.kernels.tracing import tracing
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.plan.build import BUDGET, build
from fotltn.plan.cost import dense_cost
from fotltn.plan.facts import Bound
from fotltn.plan.plan import Plan, Route
from fotltn.plan.run import execute
from fotltn.plan.sizes import Sizes, Sparse
from fotltn.plan.state import Run
from fotltn.semantics.config import Semantics
from fotltn.semantics.interpretation import Interpretation, Value
from fotltn.semantics.sparse import SparseTable


@dataclass(frozen=True, slots=True)
class Program:
    """Named formulas as optimised expressions under one semantics."""

    formulas: tuple[tuple[str, c.Formula], ...]
    expressions: tuple[tuple[str, Expr], ...]
    signature: Signature
    semantics: Semantics

    def plan(self, sizes: Sizes, *, budget: int = BUDGET) -> Plan:
        """Choose routes for given sizes."""
        dense = {name: dense_cost(formula, sizes) for name, formula in self.formulas}
        return build(dict(self.expressions), sizes, budget=budget, dense=dense)

    def prepare(
        self, model: Interpretation, *, dtype: torch.dtype, budget: int = BUDGET
    ) -> Prepared:
        """Plan for data; facts are made ready on first use and kept."""
        sizes = sizes_of(model, dtype)
        return Prepared(self.plan(sizes, budget=budget), self.semantics, dtype, sizes.ragged)


@dataclass(slots=True, eq=False)
class Prepared:
    """A plan with the facts that it walks, ready to run again and again."""

    plan: Plan
    semantics: Semantics
    dtype: torch.dtype
    ragged: bool
    bound: dict[Leaf, Bound] = field(default_factory=dict)

    @torch._disable_dynamo  # type: ignore[attr-defined, untyped-decorator, unused-ignore]
    def __call__(self, model: Interpretation) -> dict[str, Value]:
        """The value of each formula. Tables of facts must be those that were prepared for.

        Inside a function that PyTorch compiles, this runs as it is; `compiled` fuses it.
        """
        run = Run(model, self.semantics, self.dtype, self.bound, ragged=self.ragged)
        return execute(self.plan, run)


@dataclass(slots=True, eq=False)
class Compiled:
    """A plan as one recorded function of the dense tables, fused by PyTorch's compiler."""

    names: tuple[str, ...]
    axes: dict[str, tuple[c.Axis, ...]]
    function: Callable[..., tuple[Tensor, ...]]

    def __call__(self, model: Interpretation) -> dict[str, Value]:
        """The value of each formula; all but the dense tables is as when it was compiled."""
        found = self.function(*(model.predicates[name] for name in self.names))
        return {
            name: Value(axes, tensor)
            for (name, axes), tensor in zip(self.axes.items(), found, strict=True)
        }


def compiled(prepared: Prepared, model: Interpretation, *, backend: str = "inductor") -> Compiled:
    """Record a plan on data and hand it to `torch.compile`, which needs a C++ compiler.

    Raises:
        SemanticsError: a step computes anew for gradients, or shares them among equals, which a
            compiler would not do.
    """
    for step in prepared.plan.steps:
        kind = step.node.kind if isinstance(step.node, Reduce) else None
        extreme = step.route is Route.SUPPORT and kind in (Kind.MINIMUM, Kind.MAXIMUM)
        if extreme or step.route in (Route.CHUNKED, Route.PAIRS):
            raise SemanticsError(f"a step of the kind '{step.route}' is not compiled")
    prepared(model)  # facts are made ready outside
    names = tuple(n for n, t in model.predicates.items() if isinstance(t, Tensor))
    axes: dict[str, tuple[c.Axis, ...]] = {}

    def run(*tables: Tensor) -> tuple[Tensor, ...]:
        dense = dict(zip(names, tables, strict=True))
        values = prepared(replace(model, predicates={**model.predicates, **dense}))
        axes.update({name: value.axes for name, value in values.items()})
        return tuple(value.tensor for value in values.values())

    from torch.fx.experimental.proxy_tensor import make_fx

    with tracing():
        graph = make_fx(run)(*(model.predicates[name].detach() for name in names))  # type: ignore[union-attr]
    return Compiled(names, axes, torch.compile(graph, backend=backend, dynamic=False))


def compile_formulas(
    formulas: Mapping[str, c.Formula],
    signature: Signature,
    semantics: Semantics,
    *,
    at: int | None = 0,
) -> Program:
    """Lower and optimise formulas at one time point, or (`at=None`) at all."""
    if semantics.boolean or semantics.log_space:
        raise SemanticsError(f"the engine computes real degrees, not '{semantics.name}'")
    expressions = share(
        {
            name: optimize(lower(formula, signature, semantics, at=at))
            for name, formula in formulas.items()
        }
    )
    return Program(tuple(formulas.items()), tuple(expressions.items()), signature, semantics)


def sizes_of(model: Interpretation, dtype: torch.dtype) -> Sizes:
    """The sizes of data."""
    sparse = {
        name: Sparse(
            table.facts,
            table.default,
            temporal=table.shape[-1] > 1,
            crisp=bool((table.value == 1).all()) and table.default == 0,
        )
        for name, table in model.predicates.items()
        if isinstance(table, SparseTable)
    }
    return Sizes(
        dict(model.sizes),
        model.horizon,
        model.batch,
        {name: table.shape[0] for name, table in model.relations.items()},
        sparse,
        ragged=bool((model.lengths != model.horizon).any()),
        width=torch.finfo(dtype).bits // 8,
    )


def as_given(signature: Signature, model: Interpretation) -> Signature:
    """A signature in which what is static is what the tables of a model say."""
    predicates = {
        name: replace(decl, static=model.predicates[name].shape[-1] == 1 < model.horizon)
        if name in model.predicates
        else decl
        for name, decl in signature.predicates.items()
    }
    functions = {
        name: replace(decl, static=model.functions[name].shape[-1] == 1 < model.horizon)
        if name in model.functions
        else decl
        for name, decl in signature.functions.items()
    }
    return replace(signature, predicates=predicates, functions=functions)
