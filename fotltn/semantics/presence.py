"""Where all arguments of a symbol are present."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fotltn.semantics.tables import Tables, table_shape
from fotltn.syntax.theory import FunctionDecl, PredicateDecl


def present_mask(
    tables: Tables,
    decl: PredicateDecl | FunctionDecl,
    present: Mapping[str, Tensor],
    *,
    inside: bool = True,
) -> Tensor:
    """Return where all arguments are present, shape `(trace, *arguments, time)`.

    Args:
        tables: what the symbol is about.
        decl: the symbol.
        present: for sorts whose entities come and go, where they are present.
        inside: whether points beyond the end of a trace are left out.
    """
    shape = table_shape(tables, decl)
    there = torch.ones(shape, dtype=torch.bool, device=tables.lengths.device)
    if inside and not decl.static:
        there &= tables.inside.reshape(tables.batch, *[1] * len(decl.sorts), tables.horizon)
    for place, sort in enumerate(decl.sorts):
        if sort in present:
            mask = present[sort]
            mask = mask.any(-1, keepdim=True) if decl.static else mask
            axes = [1] * len(shape)
            axes[0], axes[1 + place], axes[-1] = mask.shape
            there &= mask.reshape(axes)
    return there
