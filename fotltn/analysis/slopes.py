"""How far closed formulas move with the degrees that are learned, trace by trace.

A degree belongs to one trace. So the slope of a formula over all traces with respect to that degree
is the slope on its trace times the slope of the aggregate over traces. The former needs one trace
at a time; the latter needs only the values of all traces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fotltn.evaluation import over_traces
from fotltn.semantics.config import Semantics
from fotltn.semantics.sparse import SparseTable


def learnable(
    table: Tensor | SparseTable, traces: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor | SparseTable]:
    """The degrees of a table, for slopes by them, and a table of these; each trace has its own."""
    if isinstance(table, SparseTable):
        index, value = table.index, table.value
        if table.shape[0] == 1 < traces:
            number = torch.arange(traces, device=index.device).repeat_interleave(index.shape[1])
            index = index.repeat(1, traces)
            index[0], value = number.to(index.dtype), value.repeat(traces)
        degrees = value.detach().to(dtype, copy=True).requires_grad_()
        shape = (traces, *table.shape[1:])
        return degrees, replace(table, index=index, value=degrees, shape=shape)
    every = table.detach().expand(traces, *table.shape[1:])
    degrees = every.to(dtype, copy=True, memory_format=torch.contiguous_format).requires_grad_()
    return degrees, degrees


def trace_slopes(
    value: Tensor, inputs: Mapping[str, tuple[Tensor, Tensor | SparseTable]]
) -> dict[str, Tensor]:
    """The sum of a formula's slopes without signs on each trace, by input.

    Args:
        value: the values of the formula, by trace.
        inputs: the inputs, as `learnable` makes them.

    Returns:
        The sums, without inputs that the formula does not depend on.
    """
    if not value.requires_grad:
        return {}
    degrees = [degrees for degrees, _ in inputs.values()]
    slopes = torch.autograd.grad(value.sum(), degrees, allow_unused=True, retain_graph=True)
    sums = {}
    for (name, (_, table)), slope in zip(inputs.items(), slopes, strict=True):
        if slope is None:
            continue
        sizes = slope.abs().double()
        if isinstance(table, SparseTable):
            nothing = sizes.new_zeros(len(value))
            sums[name] = nothing.index_add(0, table.index[0].long(), sizes)
        else:
            sums[name] = sizes.flatten(1).sum(1)
    return sums


def over_all_traces(slopes: Tensor, values: Tensor, semantics: Semantics) -> float:
    """The sum of slopes of an aggregate over traces, from those of each trace and its value."""
    with torch.enable_grad():
        every = values.detach().double().requires_grad_()
        (pull,) = torch.autograd.grad(over_traces(every, semantics), every)
    return float((pull.abs() * slopes.to(pull.device)).sum())
