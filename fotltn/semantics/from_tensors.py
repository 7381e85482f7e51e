"""Build tables from tensors, with shapes, sizes and degrees checked against a signature."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from fotltn.arguments import whole_number
from fotltn.errors import DataError, name_hint
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.semantics.sparse import SparseTable, sparse_table
from fotltn.semantics.tables import Tables, within
from fotltn.syntax.theory import FunctionDecl, PredicateDecl
from fotltn.tree import postorder

T = TypeVar("T", bound=Tensor | SparseTable)


def tables_of_tensors(
    signature: Signature,
    predicates: Mapping[str, Any],
    *,
    used: c.Formula | None = None,
    lengths: Sequence[int] | Tensor | None = None,
    functions: Mapping[str, Any] | None = None,
    relations: Mapping[str, Any] | None = None,
    constants: Mapping[str, int] | None = None,
    features: Mapping[str, Any] | None = None,
    horizon: int | None = None,
    declared: bool = True,
) -> Tables:
    """Check tables against a signature and build `Tables` from them.

    Tables that the signature does not mention are ignored. If the signature was `declared`, rather
    than inferred from a formula, its static predicates and functions must have no time axis.
    """
    if not isinstance(predicates, Mapping):
        raise DataError(f"predicates must be a mapping from names to tables, not {predicates!r}")
    written = set() if used is None else set(postorder(used))
    atoms = {n.predicate for n in written if isinstance(n, c.Atom)}
    applied = {n.function for n in written if isinstance(n, c.Apply)}
    _none_missing("predicate", predicates, signature.predicates if used is None else atoms)
    _none_missing("function", functions or {}, signature.functions if used is None else applied)
    degrees = {
        n: as_table(f"predicate '{n}'", predicates[n])
        for n in signature.predicates
        if n in predicates
    }
    results = {n: _tensor(f"function '{n}'", t) for n, t in (functions or {}).items()}
    shapes = TableShapes(batched=lengths is not None, declared=declared)
    tables = {
        n: shapes.shaped(f"predicate '{n}'", t, signature.predicates[n]) for n, t in degrees.items()
    }
    mapped = {
        n: shapes.shaped(f"function '{n}'", t, signature.functions[n])
        for n, t in results.items()
        if n in signature.functions
    }
    vectors = shapes.features(signature, features or {})
    length, count = shapes.lengths(lengths, horizon)
    mapped = {n: _inside_only(t, count, length) for n, t in mapped.items()}
    for name, table in tables.items():
        if isinstance(table, Tensor):  # facts have no padding, and their degrees are checked
            tables[name] = inside = _inside_only(table, count, length)
            seen = inside if shapes.batched else inside[0]
            check_degrees(name, seen if len(degrees[name].shape) == seen.dim() else seen[..., 0])
    pairs = {
        n: _tuples(n, t, len(signature.relations[n].sorts))
        for n, t in (relations or {}).items()
        if n in signature.relations
    }
    named = {}
    for name, number in (constants or {}).items():
        if (entity := whole_number(number)) is None:
            raise DataError(f"the constant '{name}' must be an entity number, not {number!r}")
        named[name] = entity
    sizes = {s: n for s, (n, _) in shapes.sizes.items()}
    for name, result in mapped.items():
        mapped[name] = check_results(signature.functions[name], result, sizes)
    for name, tuples in pairs.items():
        for place, sort in enumerate(signature.relations[name].sorts):
            _in_range(f"relation '{name}', place {place + 1}", tuples[:, place], sizes.get(sort))
    for sort in signature.sorts:
        for name, number in named.items():
            matters = used is None or c.Constant(name, sort) in written
            if sort in sizes and not 0 <= number < sizes[sort] and matters:
                raise DataError(
                    f"constant '{name}' is entity {number}; sort '{sort}' has only {sizes[sort]}"
                )
    values = [t.value if isinstance(t, SparseTable) else t for t in degrees.values()]
    kinds = {t.dtype for t in values if t.is_floating_point()}
    if len(kinds) > 1:
        widest = functools.reduce(torch.promote_types, kinds)
        tables = {n: _to(t, widest) for n, t in tables.items()}
    device = next((t.device for t in values), torch.device("cpu"))
    return Tables(
        sizes, count.to(device), length, tables, mapped, dict.fromkeys(signature.sorts, named),
        pairs, vectors, signature=signature, single=not shapes.batched,
    )  # fmt: skip


def _none_missing(kind: str, tables: Mapping[str, Any], needed: Iterable[str]) -> None:
    missing = sorted(set(needed) - set(tables))
    if missing:
        hint = name_hint(missing[0], tables, "tables:")
        raise DataError(f"no table was given for the {kind} '{missing[0]}'; {hint}")


class TableShapes:
    """Checks that the axes of tables are right, and that sizes agree across tables.

    Args:
        batched: whether tables begin with an axis for traces.
        declared: whether static predicates and functions must have no time axis.
    """

    def __init__(self, *, batched: bool, declared: bool) -> None:
        """Start without tables."""
        self.batched, self.declared = batched, declared
        self.sizes: dict[str, tuple[int, str]] = {}  # entities by sort, and their table
        self.times: dict[str, int] = {}
        self.traces: dict[str, int] = {}

    def shaped(self, what: str, table: T, decl: PredicateDecl | FunctionDecl) -> T:
        """Return the table with shape (trace, *arguments, time)."""
        sorts, static = decl.sorts, decl.static if self.declared else None
        if isinstance(table, SparseTable):
            table = self._as_written(table, len(sorts), static)  # type: ignore[assignment]
        extra = len(table.shape) - len(sorts) - int(self.batched)
        axes = [*(["trace"] if self.batched else []), *sorts]
        expected = {0: f"({', '.join(axes)})", 1: f"({', '.join([*axes, 'time'])})"}
        allowed = list(expected.values()) if static is None else [expected[0 if static else 1]]
        if expected.get(extra) not in allowed:
            raise DataError(
                f"the table of {what} has shape {tuple(table.shape)}; "
                f"expected axes {' or '.join(allowed)}"
            )
        if not self.batched:
            table = table.unsqueeze(0)  # type: ignore[assignment]
        if extra == 0:
            table = table.unsqueeze(-1)  # type: ignore[assignment]
        self.add(what, table.shape, sorts, timed=extra == 1)
        return table

    def add(self, what: str, shape: Sequence[int], sorts: Sequence[str], *, timed: bool) -> None:
        """Compare the shape (trace, *arguments, time) of a table with earlier tables."""
        if timed:
            self.times[what] = shape[-1]
        if self.batched:
            self.traces[what] = shape[0]
        for place, sort in enumerate(sorts):
            self._same_size(sort, shape[1 + place], f"argument {place + 1} of {what}")

    def _as_written(self, table: SparseTable, arguments: int, static: bool | None) -> SparseTable:
        """Give facts the axes that a dense table would have; axes of size 1 are omitted."""
        if len(table.shape) != arguments + 2:
            return table
        index, shape = table.index, table.shape
        if shape[-1] == 1 and static is not False:
            index, shape = index[:-1], shape[:-1]
        if shape[0] == 1 and not self.batched:
            index, shape = index[1:], shape[1:]
        return replace(table, index=index, shape=shape)

    def _same_size(self, sort: str, size: int, what: str) -> None:
        known, where = self.sizes.setdefault(sort, (size, what))
        if known != size:
            shown = "" if sort.startswith("<") else f" (sort '{sort}')"
            raise DataError(
                f"{where} has {known} entities, {what} has {size}, but both are of the same "
                f"sort{shown}"
            )

    def features(self, signature: Signature, features: Mapping[str, Any]) -> dict[str, Tensor]:
        """Check feature vectors and return them with shape (trace, entity, feature)."""
        vectors = {}
        for sort, value in features.items():
            what = f"features of '{sort}'"
            if sort not in signature.sorts:
                hint = name_hint(sort, signature.sorts, "sorts:")
                raise DataError(f"features were given for an unknown sort '{sort}'; {hint}")
            table = _tensor(what, value)
            if table.dim() != 2 + self.batched:
                axes = "(trace, entity, feature)" if self.batched else "(entity, feature)"
                raise DataError(f"{what} have shape {tuple(table.shape)}; expected {axes}")
            if not bool(table.isfinite().all()):
                raise DataError(f"{what} must all be finite numbers")
            vectors[sort] = table if self.batched else table.unsqueeze(0)
            self._same_size(sort, table.shape[-2], what)
            if self.batched:
                self.traces[what] = table.shape[0]
        return vectors

    def lengths(
        self, lengths: Sequence[int] | Tensor | None, horizon: int | None
    ) -> tuple[int, Tensor]:
        """Return the common number of time points, and the number for each trace."""
        if len(set(self.times.values())) > 1:
            first, *others = self.times.items()
            second = next(other for other in others if other[1] != first[1])
            raise DataError(
                f"{first[0]} has {first[1]} time points, {second[0]} has {second[1]}; all must "
                "be equal"
            )
        count = None if lengths is None else _whole_lengths(lengths)
        total = next(iter(self.times.values()), horizon)
        if total is None:
            total = 1 if count is None or not count.numel() else int(count.max())
        if horizon is not None and total != horizon:
            raise DataError(f"the horizon is {horizon}, but tables have {total} time points")
        if total < 1:
            raise DataError("a trace must have at least one time point")
        if count is None:
            return total, torch.tensor([total])
        for what, number in self.traces.items():
            if number not in (1, len(count)):
                raise DataError(f"{what} has {number} traces, but {len(count)} lengths were given")
        outside = (count < 1) | (count > total)
        if bool(outside.any()):
            place = int(outside.nonzero()[0])
            raise DataError(
                f"trace {place} has length {int(count[place])}; it must be from 1 to {total}"
            )
        return total, count.long()


def as_table(what: str, value: Any) -> Tensor | SparseTable:
    """Convert a value to a table of degrees; a sparse PyTorch tensor becomes a table of facts."""
    if isinstance(value, SparseTable):
        for part in (value.index, value.value):
            _numbers(what, part)
        return _checked_facts(what, value.index, value.value, value.shape, value.default)
    if isinstance(value, Tensor) and value.layout == torch.sparse_coo and not value.is_meta:
        if value.dense_dim():
            raise DataError(f"the table of {what} has dense dimensions inside sparse ones")
        facts = value.coalesce()
        return _checked_facts(what, facts.indices(), facts.values(), facts.shape, 0.0)
    return _tensor(what, value)


def _checked_facts(
    what: str, index: Tensor, value: Tensor, shape: Sequence[int], default: float
) -> SparseTable:
    try:
        return sparse_table(index, value, shape, default=default)
    except DataError as error:
        message = error.diagnostics[0].message
        raise DataError(f"the table of {what}: {message}") from None


def _tensor(what: str, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return _numbers(what, value)
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"the table of {what} is not a tensor, array or nested list: {error}"
        ) from None


def _numbers(what: str, table: Tensor) -> Tensor:
    """Raise an error for tensors that hold no numbers, or not one for each cell."""
    if table.is_meta:
        raise DataError(f"the table of {what} is on the device 'meta', which holds no numbers")
    if table.layout != torch.strided or table.is_nested or table.is_quantized:
        kind = "nested" if table.is_nested else "quantized" if table.is_quantized else table.layout
        raise DataError(
            f"the table of {what} is a tensor of the kind {kind}; give a dense tensor or, for a "
            "predicate, one with the layout torch.sparse_coo"
        )
    return table


def _inside_only(table: Tensor, lengths: Tensor, horizon: int) -> Tensor:
    """Return the table with 0 in place of the padding beyond the end of each trace."""
    if table.shape[-1] == 1 or bool((lengths == horizon).all()):
        return table
    inside = within(lengths, torch.arange(horizon), table.dim()).to(table.device)
    return torch.where(inside, table, torch.zeros((), dtype=table.dtype, device=table.device))


def _tuples(name: str, value: Any, places: int) -> Tensor:
    table = _tensor(f"relation '{name}'", value)
    if table.numel() == 0:
        return torch.zeros((0, places), dtype=torch.int64)
    if table.dim() != 2 or table.shape[1] != places or table.is_floating_point():
        raise DataError(
            f"relation '{name}' must list tuples of {places} entity numbers, with axes "
            f"(tuple, place); its table has shape {tuple(table.shape)} and type {table.dtype}"
        )
    return table.long()


def check_degrees(name: str, table: Tensor) -> None:
    """Raise an error for degrees outside [0, 1], in particular NaN."""
    if table.dtype == torch.bool or table.numel() == 0:
        return
    if table.is_complex():
        raise DataError(f"the table of predicate '{name}' has complex numbers; degrees are real")
    bad = ~((table >= 0) & (table <= 1))
    if bool(bad.any()):
        place = tuple(bad.nonzero()[0].tolist())
        raise DataError(
            f"predicate '{name}' has the degree {table[place].item()} at {list(place)}; "
            "degrees must be from 0 to 1"
        )


def _whole_lengths(lengths: Sequence[int] | Tensor) -> Tensor:
    try:
        count = _numbers("lengths", torch.as_tensor(lengths))
    except (TypeError, ValueError, RuntimeError):
        count = torch.tensor(0.0)
    if count.dim() != 1 or count.is_floating_point() or count.dtype == torch.bool:
        raise DataError("lengths must be whole numbers, one for each trace")
    return count


def check_results(decl: FunctionDecl, table: Tensor, sizes: Mapping[str, int]) -> Tensor:
    """Check that results of a function are entities of its sort, or finite numbers."""
    if decl.result == c.REAL:
        if bool((~table.isfinite()).any()):
            raise DataError(f"function '{decl.name}' has a result that is not a finite number")
        return table
    if table.is_floating_point() or table.dtype == torch.bool:
        raise DataError(
            f"function '{decl.name}' returns entities, so its table must hold whole numbers; for "
            "a function that returns numbers, declare the result 'real' in a theory"
        )
    _in_range(f"function '{decl.name}'", table, sizes.get(decl.result))
    return table.long()


def _in_range(what: str, numbers: Tensor, size: int | None) -> None:
    if size is None or numbers.numel() == 0:
        return
    low, high = int(numbers.min()), int(numbers.max())
    if low < 0 or high >= size:
        raise DataError(
            f"{what} names entity {low if low < 0 else high}; entities are 0 to {size - 1}"
        )


def _to(table: Tensor | SparseTable, dtype: torch.dtype) -> Tensor | SparseTable:
    """Convert degrees to a precision; whole numbers and Booleans stay as they are."""
    if isinstance(table, SparseTable):
        return replace(table, value=table.value.to(dtype))
    return table.to(dtype) if table.is_floating_point() else table
