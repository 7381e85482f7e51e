"""Replace recorded operations by fewer or smaller ones that give the same bits.

Only operations that IEEE 754 rounds exactly take part. Their results do not depend on how a tensor
lies in memory, or on which kernel computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fotltn.learn.calls import ATEN, Call, mapped, place_of, tensors_in

_EXACT = {
    ATEN.mul.Tensor, ATEN.mul.Scalar, ATEN.div.Tensor, ATEN.div.Scalar, ATEN.add.Tensor,
    ATEN.add.Scalar, ATEN.sub.Tensor, ATEN.sub.Scalar, ATEN.rsub.Scalar, ATEN.neg.default,
}  # fmt: skip
#: Operations that change nothing if their number is 1.
_BY_ONE = (ATEN.pow.Tensor_Scalar, ATEN.mul.Scalar, ATEN.div.Scalar)
_MINUS_ZERO = {kind: torch.tensor(-0.0, dtype=kind) for kind in (torch.float32, torch.float64)}

Memory = Callable[[Tensor], int]


def unchanged(call: Call) -> tuple[Tensor, ...]:
    """Return the inputs that an operation returns unchanged, such as a first power."""
    if call.op in _BY_ONE and call.args[1:] in ((1,), (1.0,)) and not call.kwargs:
        (result,) = call.results
        if place_of(call.args[0]) == place_of(result):
            return (call.args[0],)
    return ()


class _Uses:
    """The operations that read each memory."""

    def __init__(self, calls: Sequence[Call], outputs: Iterable[Tensor], memory: Memory) -> None:
        self.memory = memory
        self.readers: dict[int, list[tuple[Call | None, Tensor]]] = {}
        pairs = [(call, tensor) for call in calls for tensor in call.inputs]
        for call, tensor in [*pairs, *((None, tensor) for tensor in outputs)]:
            self.readers.setdefault(memory(tensor), []).append((call, tensor))

    def exact(self, result: Tensor) -> bool:
        """Whether only exact operations read a result, and each reads all of it."""
        return all(
            call is not None and call.op in _EXACT and place_of(tensor) == place_of(result)
            for call, tensor in self.readers.get(self.memory(result), ())
        )

    def single(self, result: Tensor) -> bool:
        """Whether a result is read once, as it is."""
        readers = self.readers.get(self.memory(result), ())
        return len(readers) == 1 and place_of(readers[0][1]) == place_of(result)


def smaller(
    calls: Sequence[Call], outputs: Sequence[Tensor], memory: Memory, written: set[int]
) -> list[Call]:
    """Compute values that are equal along a dimension once, and leave out idle operations.

    Args:
        calls: the operations.
        outputs: the tensors that are read after them.
        memory: returns the memory of a tensor.
        written: memories that operations modify, which are left alone.
    """
    uses = _Uses(calls, outputs, memory)
    others: dict[int, Tensor] = {}

    def other(tensor: Tensor) -> Tensor:
        return others.get(memory(tensor), tensor)

    less: list[Call] = []
    for call in calls:
        if call.op not in _EXACT and call.op not in _BY_ONE:
            less.append(call)
            continue
        (result,) = call.results
        free = memory(result) not in written and uses.exact(result)
        told = replace(call, args=mapped(call.args, other), kwargs=mapped(dict(call.kwargs), other))
        if free and (same := unchanged(told)):
            others[memory(result)] = same[0]
            continue
        along = _alike(told, result) if free and call.op in _EXACT else ()
        if along:
            narrow = result.new_empty([1 if d in along else n for d, n in enumerate(result.shape)])
            args = mapped(told.args, lambda t: _first(t, along, result.dim()))  # noqa: B023
            told = replace(told, args=args, results=(narrow,))
            others[memory(result)] = narrow.expand(result.shape)
        less.append(told)
    return less


def _alike(call: Call, result: Tensor) -> tuple[int, ...]:
    """Return the dimensions along which all inputs of an operation are the same."""
    rank = result.dim()
    return tuple(
        d
        for d, size in enumerate(result.shape)
        if size > 1 and all(_is_same_along(tensor, d - rank) for tensor in call.inputs)
    )


def _is_same_along(tensor: Tensor, dim: int) -> bool:
    return tensor.dim() < -dim or tensor.shape[dim] == 1 or tensor.stride(dim) == 0


def _first(tensor: Tensor, along: Sequence[int], rank: int) -> Tensor:
    """Return the part of a tensor at the first place along dimensions of the result."""
    for d in along:
        if d >= rank - tensor.dim():
            tensor = tensor.narrow(d - rank, 0, 1)
    return tensor


def fused(
    calls: Sequence[Call], outputs: Sequence[Tensor], memory: Memory, written: set[int]
) -> list[Call]:
    """Join operations with the one that makes their input, if nothing else reads it.

    `(c·x)·y` is one operation, which also adds something: -0, which changes no bit. `a + (-b)` is
    `a - b`.

    Args:
        calls: the operations.
        outputs: the tensors that are read after them.
        memory: returns the memory of a tensor.
        written: memories that operations modify, which are left alone.
    """
    uses = _Uses(calls, outputs, memory)
    less: list[Call | None] = []
    makers: dict[int, int] = {}  # the number of the operation that makes a memory

    def maker(tensor: Tensor) -> int | None:
        number = makers.get(memory(tensor))
        call = None if number is None else less[number]
        if call is None or not uses.single(call.results[0]):
            return None
        touched = {memory(t) for t in (*call.inputs, *call.results)}
        return None if touched & written else number

    for call in calls:
        joined = call
        for tensor in call.inputs:
            number = maker(tensor)
            inner = None if number is None else less[number]
            if number is not None and inner is not None and (both := _joined(call, tensor, inner)):
                joined, less[number] = both, None
                break
        makers |= {memory(t): len(less) for t in joined.results}
        less.append(joined)
    return [call for call in less if call is not None]


def _joined(call: Call, tensor: Tensor, inner: Call) -> Call | None:
    """Return one operation for two, if the inner one makes a tensor; None if there is none."""
    rest = [told for told in call.args if told is not tensor]
    operands = [*tensors_in(rest), *inner.inputs]
    kinds = {(t.dtype, t.is_cpu) for t in (*operands, *call.results)}
    if kinds not in ({(torch.float32, True)}, {(torch.float64, True)}):
        return None
    match call.op, inner.op, rest, inner.args:
        case ATEN.mul.Tensor, (ATEN.mul.Scalar | ATEN.mul.Tensor), [Tensor() as y], (x, number):
            if isinstance(number, int | float):
                args = (_MINUS_ZERO[tensor.dtype], x, y)
                return replace(call, op=ATEN.addcmul.default, args=args, kwargs={"value": number})
        case ATEN.add.Tensor, ATEN.neg.default, [Tensor() as a], (b,) if not call.kwargs:
            return replace(call, op=ATEN.sub.Tensor, args=(a, b))
        case ATEN.neg.default, ATEN.addcmul.default, [], (zero, *_):
            value = {"value": -inner.kwargs["value"]}
            ours = zero is _MINUS_ZERO[tensor.dtype]
            return replace(inner, kwargs=value, results=call.results) if ours else None
    return None
