"""Tables from tensors: axes, sizes and degrees checked against a signature."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.semantics.sparse import SparseTable, sparse_table
from fotltn.semantics.tables import Tables
from fotltn.syntax.theory import FunctionDecl
from fotltn.tree import postorder

T = TypeVar("T", bound=Tensor | SparseTable)


def interpret(
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
    """Check tables against a signature and put them together.

    Tables that the signature does not know are left alone. If it was `declared`, and not read off
    a formula, what it says is static must be so.
    """
    if not isinstance(predicates, Mapping):
        raise DataError(f"predicates are a mapping from names to tables, not {predicates!r}")
    batched = lengths is not None
    for kind, given, needed in (
        ("predicate", predicates, _used(used, signature.predicates, c.Atom, "predicate")),
        ("function", functions or {}, _used(used, signature.functions, c.Apply, "function")),
    ):
        _none_missing(kind, given, needed)
    tables = {
        n: _table(f"predicate '{n}'", predicates[n])
        for n in signature.predicates
        if n in predicates
    }
    results = {n: _tensor(f"function '{n}'", t) for n, t in (functions or {}).items()}
    sizes: dict[str, tuple[int, str]] = {}
    times: dict[str, int] = {}
    traces: dict[str, int] = {}
    shaped: dict[str, Tensor | SparseTable] = {}
    for name, table in tables.items():
        decl = signature.predicates[name]
        static = decl.static if declared else None
        if isinstance(table, SparseTable):
            table = _as_written(table, len(decl.sorts), static, batched)
        shaped[name] = _shape(
            f"predicate '{name}'", table, decl.sorts, static, batched, sizes, times, traces
        )
    mapped: dict[str, Tensor] = {}
    for name, result in results.items():
        if name in signature.functions:
            fun = signature.functions[name]
            static = fun.static if declared else None
            mapped[name] = _shape(
                f"function '{name}'", result, fun.sorts, static, batched, sizes, times, traces
            )
    vectors = _features(signature, features or {}, batched, sizes)
    traces.update({f"features of '{s}'": t.shape[0] for s, t in vectors.items() if batched})
    length, count = _lengths(lengths, times, traces, horizon)
    for name, result in mapped.items():
        mapped[name] = _inside_only(result, count, length)
    for name, table in shaped.items():
        if isinstance(table, SparseTable):  # its degrees are checked, and are no padding
            continue
        shaped[name] = inside = _inside_only(table, count, length)
        seen = inside if batched else inside[0]
        _degrees(name, seen if len(tables[name].shape) == seen.dim() else seen[..., 0])
    pairs = {
        n: _tuples(n, t, len(signature.relations[n].sorts))
        for n, t in (relations or {}).items()
        if n in signature.relations
    }
    known: dict[str, int] = {}
    for name, number in (constants or {}).items():
        entity = whole_number(number)
        if entity is None:
            raise DataError(f"the constant '{name}' is the number of an entity, not {number!r}")
        known[name] = entity
    numbers = {s: dict(known) for s in signature.sorts}
    plain = {s: n for s, (n, _) in sizes.items()}
    for decl_ in signature.functions.values():
        _entity_results(decl_, mapped, plain)
    for name, tuples in pairs.items():
        for place, sort in enumerate(signature.relations[name].sorts):
            _in_range(f"relation '{name}', place {place + 1}", tuples[:, place], plain.get(sort))
    degrees = [t.value if isinstance(t, SparseTable) else t for t in tables.values()]
    device = next((t.device for t in degrees), torch.device("cpu"))
    kinds = {t.dtype for t in degrees if t.is_floating_point()}
    if len(kinds) > 1:
        widest = functools.reduce(torch.promote_types, kinds)
        shaped = {n: _to(t, widest) for n, t in shaped.items()}
    model = Tables(
        plain, count.to(device), length, shaped, mapped, numbers, pairs, vectors,
        signature=signature, single=not batched,
    )  # fmt: skip
    for sort, names in numbers.items():
        for name, number in names.items():
            if sort in plain and not 0 <= number < plain[sort] and _constant_used(used, name, sort):
                raise DataError(
                    f"constant '{name}' is entity {number}, but sort '{sort}' has {plain[sort]}"
                )
    return model


def _constant_used(formula: c.Formula | None, name: str, sort: str) -> bool:
    if formula is None:
        return True
    return any(
        isinstance(n, c.Constant) and (n.name, n.sort) == (name, sort) for n in postorder(formula)
    )


def _used(formula: c.Formula | None, every: Mapping[str, Any], kind: type, name: str) -> set[str]:
    """The symbols of a kind in a formula; without one, all."""
    if formula is None:
        return set(every)
    return {getattr(node, name) for node in postorder(formula) if isinstance(node, kind)}


def _none_missing(kind: str, given: Mapping[str, Any], needed: set[str]) -> None:
    missing = sorted(needed - set(given))
    if missing:
        hint = did_you_mean(missing[0], given) or f"tables: {listing(given)}"
        raise DataError(f"no table is given for the {kind} '{missing[0]}'; {hint}")


def whole_number(value: object) -> int | None:
    """A whole number of Python, NumPy or PyTorch; None if it is none."""
    if isinstance(value, bool) or getattr(value, "dtype", None) in (bool, torch.bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def _table(what: str, value: Any) -> Tensor | SparseTable:
    """A table of degrees; a sparse tensor of PyTorch is one of facts."""
    if isinstance(value, SparseTable):
        for part in (value.index, value.value):
            _numbers(what, part)
        return _checked_facts(what, value.index, value.value, value.shape, value.default)
    if isinstance(value, Tensor) and value.layout == torch.sparse_coo and not value.is_meta:
        if value.dense_dim():
            raise DataError(f"the table of {what} has dense dimensions inside of sparse ones")
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
    """Refuse tensors that have no numbers, or not one for each cell."""
    if table.is_meta:
        raise DataError(f"the table of {what} is on the device 'meta', where there are no numbers")
    if table.layout != torch.strided or table.is_nested or table.is_quantized:
        kind = "nested" if table.is_nested else "quantized" if table.is_quantized else table.layout
        raise DataError(
            f"the table of {what} is a tensor of the kind {kind}; give a dense one, or for a "
            "predicate one of the layout torch.sparse_coo"
        )
    return table


def _inside_only(table: Tensor, lengths: Tensor, horizon: int) -> Tensor:
    """A table in which padding beyond the end of a trace, whatever it is, is 0."""
    if table.shape[-1] == 1 or bool((lengths == horizon).all()):
        return table
    inside = torch.arange(horizon) < lengths.unsqueeze(-1)
    shape = (lengths.shape[0], *[1] * (table.dim() - 2), horizon)
    zero = torch.zeros((), dtype=table.dtype, device=table.device)
    return torch.where(inside.reshape(shape).to(table.device), table, zero)


def _tuples(name: str, value: Any, places: int) -> Tensor:
    table = _tensor(f"relation '{name}'", value)
    if table.numel() == 0:
        return torch.zeros((0, places), dtype=torch.int64)
    if table.dim() != 2 or table.shape[1] != places or table.is_floating_point():
        raise DataError(
            f"relation '{name}' lists tuples of {places} entity numbers, with axes "
            f"(tuple, place); its table has shape {tuple(table.shape)} and type {table.dtype}"
        )
    return table.long()


def _degrees(name: str, table: Tensor) -> None:
    """Refuse degrees outside [0, 1], NaN above all."""
    if table.dtype == torch.bool or table.numel() == 0:
        return
    if table.is_complex():
        raise DataError(f"the table of predicate '{name}' has complex numbers")
    bad = ~((table >= 0) & (table <= 1))
    if bool(bad.any()):
        place = tuple(bad.nonzero()[0].tolist())
        raise DataError(
            f"predicate '{name}' has the degree {table[place].item()} at {list(place)}; "
            "degrees lie in [0, 1]"
        )


def _as_written(
    table: SparseTable, arguments: int, static: bool | None, batched: bool
) -> SparseTable:
    """Facts with the axes that a dense table would have: those of size 1 are not written."""
    if len(table.shape) != arguments + 2:
        return table
    index, shape = table.index, table.shape
    if shape[-1] == 1 and static is not False:
        index, shape = index[:-1], shape[:-1]
    if shape[0] == 1 and not batched:
        index, shape = index[1:], shape[1:]
    return replace(table, index=index, shape=shape)


def _shape(
    what: str,
    table: T,
    sorts: tuple[str, ...],
    static: bool | None,
    batched: bool,
    sizes: dict[str, tuple[int, str]],
    times: dict[str, int],
    traces: dict[str, int],
) -> T:
    """The table with axes (trace, arguments …, time); sizes are compared across tables."""
    extra = len(table.shape) - len(sorts) - int(batched)
    lead = "trace, " if batched else ""
    args = ", ".join(sorts) + (", " if sorts else "")
    expected = {0: f"({lead}{args.rstrip(', ')})", 1: f"({lead}{args}time)"}
    allowed = (
        [expected[0]] if static else [expected[1]] if static is False else list(expected.values())
    )
    if extra not in (0, 1) or expected[extra] not in allowed:
        raise DataError(
            f"the table of {what} has shape {tuple(table.shape)}; "
            f"expected axes {' or '.join(allowed)}"
        )
    if not batched:
        table = table.unsqueeze(0)  # type: ignore[assignment]
    if extra == 0:
        table = table.unsqueeze(-1)  # type: ignore[assignment]
    else:
        times[what] = table.shape[-1]
    if batched:
        traces[what] = table.shape[0]
    for place, sort in enumerate(sorts):
        _same_size(sizes, sort, table.shape[1 + place], f"argument {place + 1} of {what}")
    return table


def _same_size(sizes: dict[str, tuple[int, str]], sort: str, size: int, what: str) -> None:
    known, where = sizes.setdefault(sort, (size, what))
    if known != size:
        shown = "" if sort.startswith("<") else f" (sort '{sort}')"
        raise DataError(
            f"{where} has {known} entities, {what} has {size}, but both are of one sort{shown}"
        )


def _features(
    signature: Signature,
    features: Mapping[str, Any],
    batched: bool,
    sizes: dict[str, tuple[int, str]],
) -> dict[str, Tensor]:
    found = {}
    for sort, value in features.items():
        if sort not in signature.sorts:
            hint = did_you_mean(sort, signature.sorts) or f"sorts: {listing(signature.sorts)}"
            raise DataError(f"features are given for an unknown sort '{sort}'; {hint}")
        table = _tensor(f"features of '{sort}'", value)
        if table.dim() != 2 + batched:
            axes = "(trace, entity, feature)" if batched else "(entity, feature)"
            raise DataError(
                f"features of '{sort}' have shape {tuple(table.shape)}; expected {axes}"
            )
        if not bool(table.isfinite().all()):
            raise DataError(f"features of '{sort}' are not all finite numbers")
        found[sort] = table if batched else table.unsqueeze(0)
        _same_size(sizes, sort, table.shape[-2], f"features of '{sort}'")
    return found


def _lengths(
    lengths: Sequence[int] | Tensor | None,
    times: dict[str, int],
    traces: dict[str, int],
    horizon: int | None,
) -> tuple[int, Tensor]:
    """The common number of time points, and that of each trace."""
    if len(set(times.values())) > 1:
        first = next(iter(times.items()))
        second = next((w, n) for w, n in times.items() if n != first[1])
        raise DataError(
            f"{first[0]} has {first[1]} time points, {second[0]} has {second[1]}; all must agree"
        )
    count = None if lengths is None else _whole_lengths(lengths)
    total = next(iter(times.values()), horizon)
    if total is None:
        total = 1 if count is None or not count.numel() else int(count.max())
    if horizon is not None and total != horizon:
        raise DataError(f"the horizon is {horizon}, but tables have {total} time points")
    if total < 1:
        raise DataError("a trace has at least one time point")
    if count is None:
        return total, torch.tensor([total])
    wrong = [(w, n) for w, n in traces.items() if n not in (1, count.shape[0])]
    if wrong:
        what, number = wrong[0]
        raise DataError(f"{what} has {number} traces, but {count.shape[0]} lengths are given")
    outside = (count < 1) | (count > total)
    if bool(outside.any()):
        place = int(outside.nonzero()[0])
        raise DataError(
            f"trace {place} has length {int(count[place])}; lengths lie between 1 and {total}"
        )
    return total, count.long()


def _whole_lengths(lengths: Sequence[int] | Tensor) -> Tensor:
    try:
        count = _numbers("lengths", torch.as_tensor(lengths))
    except (TypeError, ValueError, RuntimeError):
        count = torch.tensor(0.0)
    if count.dim() != 1 or count.is_floating_point() or count.dtype == torch.bool:
        raise DataError("lengths are whole numbers, one for each trace")
    return count


def _entity_results(
    decl: FunctionDecl, tables: dict[str, Tensor], sizes: Mapping[str, int]
) -> None:
    """Results of functions must be entities of their sort, or finite numbers."""
    if decl.name not in tables:
        return
    table = tables[decl.name]
    if decl.result == c.REAL:
        if bool((~table.isfinite()).any()):
            raise DataError(f"function '{decl.name}' has a result that is not a finite number")
        return
    if table.is_floating_point() or table.dtype == torch.bool:
        raise DataError(
            f"function '{decl.name}' gives entities, so its table must hold whole numbers; one "
            "that gives numbers is declared in a theory with the result 'real'"
        )
    tables[decl.name] = table.long()
    _in_range(f"function '{decl.name}'", tables[decl.name], sizes.get(decl.result))


def _in_range(what: str, numbers: Tensor, size: int | None) -> None:
    if size is None or numbers.numel() == 0:
        return
    low, high = int(numbers.min()), int(numbers.max())
    if low < 0 or high >= size:
        raise DataError(
            f"{what} names entity {low if low < 0 else high}, but there are 0 to {size - 1}"
        )


def _to(table: Tensor | SparseTable, dtype: torch.dtype) -> Tensor | SparseTable:
    """A table of degrees in a precision; whole numbers and Booleans stay as they are."""
    if isinstance(table, SparseTable):
        return replace(table, value=table.value.to(dtype))
    return table.to(dtype) if table.is_floating_point() else table
