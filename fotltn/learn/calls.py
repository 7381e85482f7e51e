"""A recorded operation, and the fastest way to repeat it into given memory, to the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

ATEN = torch.ops.aten
#: A call to make: a function, its arguments, and those by name.
Played = tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]

#: Operations that only read the shape of a tensor.
SHAPE_ONLY = {
    getattr(ATEN, form.format(kind)).default
    for kind in ("zeros", "ones", "full", "empty")
    for form in ("new_{}", "{}_like")
}
#: Operations that are faster to call from Python than as operators by name.
_QUICK = {
    getattr(getattr(ATEN, name), form): getattr(torch, name)
    for form, names in {
        "out": "mul add sub div neg sigmoid sqrt log exp addcmul mm mv mean cumsum cumprod cat "
        "stack index_select clamp amin abs",
        "Tensor_Scalar_out": "pow",
        "IntList_out": "sum",
        "Scalar_out": "ge eq",
        "self_out": "where",
    }.items()
    for name in names.split()
}
#: Parts of at least this size are joined by one copy each.
_LARGE = 2**12


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """An operation, its arguments, and its result: tensors, or a Python value."""

    op: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: tuple[Tensor, ...]
    answer: object = None

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors among its arguments."""
        return (*tensors_in(self.args), *tensors_in([*self.kwargs.values()]))

    @property
    def written(self) -> tuple[Tensor, ...]:
        """The inputs that the operation modifies."""
        changed = _written_names(self.op)
        if not changed:
            return ()
        told = dict(self.kwargs)
        told |= {a.name: t for a, t in zip(self.op._schema.arguments, self.args, strict=False)}
        return tuple(tensors_in([told[name] for name in changed]))


def tensors_in(told: object) -> Iterator[Tensor]:
    """Yield the tensors in nested lists and tuples."""
    if isinstance(told, Tensor):
        yield told
    elif isinstance(told, list | tuple):
        for part in told:
            yield from tensors_in(part)


def mapped(told: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return the same arguments with other tensors."""
    if isinstance(told, dict):
        return {name: mapped(part, change) for name, part in told.items()}
    if isinstance(told, list | tuple):
        return type(told)(mapped(part, change) for part in told)
    return change(told) if isinstance(told, Tensor) else told


def memory_of(tensor: Tensor) -> int:
    """Return an id of a tensor's memory; a tensor without plain storage has its own."""
    if tensor.layout is not torch.strided:
        return id(tensor)
    number: int = tensor.untyped_storage()._cdata
    return number


def place_of(tensor: Tensor) -> tuple[object, ...]:
    """Return the position of a tensor in its memory."""
    if tensor.layout is not torch.strided:
        return ()
    return (tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())


def expect(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], answer: object) -> Played:
    """Return a call that raises an error if an operation gives another answer."""
    if op is ATEN._local_scalar_dense.default:
        return _expect, (args[0].item, (), {}, answer), {}
    return _expect, (op, args, kwargs, answer), {}


class OtherwiseError(Exception):
    """A number that decides which operations run differs from the recorded one."""


def _expect(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], answer: object) -> None:
    if op(*args, **kwargs) != answer:
        raise OtherwiseError


def adds_at_places(call: Call) -> bool:
    """Whether an operation adds up numbers at places, which `torch.scatter_add` does faster."""
    return (
        call.op is ATEN.index_add.default
        and call.results[0].dim() == 1
        and call.results[0].is_cpu
        and not call.kwargs
    )


def into(op: Any, args: Any, kwargs: Any, results: list[Tensor]) -> Iterator[Played]:
    """Yield calls that put the results of an operation into given memory.

    Args:
        op: the operation.
        args: its arguments.
        kwargs: its arguments by name.
        results: the memory.
    """
    first, out = results[0], out_form(op)
    if op is ATEN.pow.Tensor_Scalar and args[1] == 2 and first.is_floating_point():
        yield torch.square, args[:1], {"out": first}
    elif op is ATEN.cat.default and first.numel() >= _LARGE * len(args[0]):
        yield from _joined(first, *args)
    elif out is not None:
        places = [a.name for a in out._schema.arguments if _is_out(a)]
        yield _QUICK.get(out, out._op), args, kwargs | dict(zip(places, results, strict=True))
    elif op in _BY_TENSOR and args[0].dtype == first.dtype and first.is_floating_point():
        number = torch.scalar_tensor(args[1], dtype=first.dtype, device=first.device)
        pair = (number, args[0]) if op is ATEN.rsub.Scalar else (args[0], number)
        alpha = {"alpha": args[2]} if len(args) > 2 else {}
        yield _BY_TENSOR[op], pair, {**kwargs, **alpha, "out": first}
    elif op in (ATEN.clone.default, ATEN._to_copy.default):
        yield first.copy_, args[:1], {}
    elif op is ATEN.sum.default:
        yield torch.sum, (args[0], None), {**kwargs, "out": first}
    elif op in _BACK_TO_PART:
        yield first.zero_, (), {}
        yield _BACK_TO_PART[op](first, *args[2:]).copy_, args[:1], {}
    elif (inner := _in_place(op)) is not None and place_of(args[0])[:2] == place_of(first)[:2]:
        yield first.copy_, args[:1], {}
        yield inner._op, (first, *args[1:]), kwargs
    else:
        yield _copied, (op._op, args, kwargs, results), {}


def _joined(result: Tensor, parts: list[Tensor], dim: int = 0) -> Iterator[Played]:
    sizes = [part.shape[dim] for part in parts]
    for place, part in zip(result.split(sizes, dim), parts, strict=True):
        yield place.copy_, (part,), {}


def _copied(op: Any, args: Any, kwargs: Any, results: list[Tensor]) -> None:
    fresh = op(*args, **kwargs)
    for place, result in zip(results, tensors_in(fresh), strict=True):
        place.copy_(result)


#: Operations with a number, which are replaced by those with a one-element tensor.
_BY_TENSOR: dict[Any, Callable[..., object]] = {
    ATEN.mul.Scalar: torch.mul,
    ATEN.div.Scalar: torch.div,
    ATEN.add.Scalar: torch.add,
    ATEN.sub.Scalar: torch.sub,
    ATEN.rsub.Scalar: torch.sub,
}
#: Backward operations of slices, by the operation that takes the slice.
_BACK_TO_PART = {
    ATEN.select_backward.default: ATEN.select.int,
    ATEN.slice_backward.default: ATEN.slice.Tensor,
}


@cache
def out_form(op: Any) -> Any:
    """Return the variant of an operation that writes into given memory, unless it only copies."""
    told = [(a.name, str(a.type)) for a in op._schema.arguments]
    for name in op.overloadpacket.overloads():
        other = getattr(op.overloadpacket, name)
        rest = [(a.name, str(a.type)) for a in other._schema.arguments if not _is_out(a)]
        if len(rest) < len(other._schema.arguments) and rest == told:
            return None if torch.Tag.generated in other.tags else other
    return None


@cache
def _written_names(op: Any) -> tuple[str, ...]:
    return tuple(a.name for a in op._schema.arguments if _is_written(a))


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _is_out(argument: Any) -> bool:
    return _is_written(argument) and argument.kwarg_only


@cache
def _in_place(op: Any) -> Any:
    """Return the variant of an operation that modifies its first argument."""
    packet = getattr(ATEN, f"{op.overloadpacket.__name__}_", None)
    return getattr(packet, op._overloadname, None)
