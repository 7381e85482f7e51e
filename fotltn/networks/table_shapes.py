"""The shapes of tables: which ones a symbol may have, and errors that name the symbol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from fotltn.errors import DataError
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.syntax.theory import FunctionDecl, PredicateDecl


def fits(shape: Sequence[int], sizes: Sequence[int], tables: Tables, *, static: bool) -> bool:
    """Whether a shape is (traces or 1, *sizes, time points or 1)."""
    if len(shape) != len(sizes) + 2:
        return False
    times = (1,) if static else (1, tables.horizon)
    return shape[0] in (1, tables.batch) and tuple(shape[1:-1]) == (*sizes,) and shape[-1] in times


def check_shape(
    table: Tensor | SparseTable,
    tables: Tables,
    decl: PredicateDecl | FunctionDecl,
    rows: range | None = None,
) -> None:
    """Raise an error for a table that does not fit, or for some rows of its first argument."""
    sizes = [tables.sizes[s] for s in decl.sorts]
    sizes = sizes if rows is None else [len(rows), *sizes[1:]]
    if not fits(table.shape, sizes, tables, static=decl.static):
        traces = f"{tables.batch} or 1" if tables.batch > 1 else "1"
        times = "1, because it is static" if decl.static else f"{tables.horizon} or 1"
        raise DataError(
            f"a table of shape {tuple(table.shape)}; expected "
            f"({', '.join([traces, *map(str, sizes), times])}), with axes "
            f"({', '.join(['trace', *decl.sorts, 'time'])})"
        )


def check_degrees(table: object) -> None:
    """Raise an error for a table that does not hold degrees."""
    if not isinstance(table, Tensor | SparseTable):
        raise DataError(f"a {type(table).__name__}; expected a tensor or a table of facts")
    degrees = table if isinstance(table, Tensor) else table.value
    if degrees.dtype != torch.bool and not bool(((degrees >= 0) & (degrees <= 1)).all()):
        raise DataError("degrees must be from 0 to 1, but some of these are not")


@contextmanager
def about(name: str) -> Iterator[None]:
    """Name the symbol in the errors that are raised inside."""
    what = name if " " in name else f"'{name}'"
    try:
        yield
    except DataError as error:
        first = error.diagnostics[0]
        raise DataError(replace(first, message=f"{what}: {first.message}")) from error.__cause__
