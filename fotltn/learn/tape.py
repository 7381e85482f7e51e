"""A tape of a training step: its operations in a row, recorded once and replayed many times.

At the sizes of most projects a step is a thousand small operations. Python, PyTorch's autograd and
memory allocation take longer than the arithmetic. A tape holds only the operations of the forward
and backward pass, each with memory for its result. Operations that give the same result in every
step, are computed twice or are never read are left out. The others run in the recorded order, so
results are equal to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fotltn.kernels.tracing import WATCHERS

#: The maximum size of all results in a step, in bytes. Larger operations dominate anyway.
ROOM = 2**28

_ATEN = torch.ops.aten
#: Operations that are faster to call from Python than as operators by name.
_QUICK = {
    getattr(_ATEN, name).out: getattr(torch, name)
    for name in ("mul", "add", "sub", "div", "neg", "sigmoid", "sqrt", "log", "exp")
}
#: Operations that only read the shape of a tensor.
_SHAPE_ONLY = {
    getattr(_ATEN, form.format(kind)).default
    for kind in ("zeros", "ones", "full", "empty")
    for form in ("new_{}", "{}_like")
}
#: Operations that change nothing if their number is 1.
_BY_ONE = (_ATEN.pow.Tensor_Scalar, _ATEN.mul.Scalar, _ATEN.div.Scalar)
_QUICK[_ATEN.pow.Tensor_Scalar_out] = torch.pow

Played = tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]


class UnrecordableError(Exception):
    """A step does something that a tape cannot record."""


class OtherwiseError(Exception):
    """A number that decides which operations run differs from the recorded one."""


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """An operation, its arguments, and its result: tensors, or a Python value."""

    op: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: tuple[Tensor, ...]
    answer: object = None

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors among its arguments."""
        return (*_tensors(self.args), *_tensors([*self.kwargs.values()]))

    @property
    def written(self) -> tuple[Tensor, ...]:
        """The inputs that the operation modifies."""
        told = dict(self.kwargs)
        changed = [a.name for a in self.op._schema.arguments if _is_written(a)]
        told |= {a.name: t for a, t in zip(self.op._schema.arguments, self.args, strict=False)}
        return tuple(_tensors([told[name] for name in changed]))


class _Recorder(TorchDispatchMode):
    """Records all operations while active; results are kept, so no two share memory."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[_Call] = []
        self.refused: str | None = None
        self._bytes = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return True: asking PyTorch's compiler would load it."""
        return False

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        read, told = (_aliased(args), _aliased(kwargs)) if self.refused is None else ((), {})
        result = op(*args, **kwargs)
        if torch.Tag.nondeterministic_seeded in op.tags:
            self.refuse("it draws random numbers")
        if self.refused is None and torch.Tag.inplace_view not in op.tags:
            results = tuple(_aliased(t) for t in _tensors(result))
            answer = None if results else result
            self.calls.append(_Call(op, read, told, results, answer))
            views = any(r.alias_info is not None for r in op._schema.returns)
            fresh = () if views else results
            self._bytes += sum(t.nbytes for t in fresh if t.layout is torch.strided)
            if self._bytes > ROOM:
                self.refuse("its results are large")
        return result

    def refuse(self, why: str) -> None:
        """Stop recording, and drop everything."""
        self.refused = why
        self.calls.clear()


def _tensors(told: object) -> Iterator[Tensor]:
    if isinstance(told, Tensor):
        yield told
    elif isinstance(told, list | tuple):
        for part in told:
            yield from _tensors(part)


def _aliased(told: Any) -> Any:
    """Return the same with other tensors for the same memory, which no operation turns around."""
    if isinstance(told, dict):
        return {name: _aliased(part) for name, part in told.items()}
    if isinstance(told, list | tuple):
        return type(told)(_aliased(part) for part in told)
    if isinstance(told, Tensor) and told.layout is torch.strided:
        return told.detach()
    return told


def _memory(tensor: Tensor) -> int:
    """Return an id of a tensor's memory; a tensor without plain storage has its own."""
    if tensor.layout is not torch.strided:
        return id(tensor)
    number: int = tensor.untyped_storage()._cdata
    return number


def _place(tensor: Tensor) -> tuple[object, ...]:
    """Return the position of a tensor in its memory."""
    if tensor.layout is not torch.strided:
        return ()
    return (tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())


def _nothing_done(call: _Call) -> tuple[Tensor, ...]:
    """Return the inputs that an operation returns unchanged, such as a first power."""
    if call.op in _BY_ONE and call.args[1:] in ((1,), (1.0,)) and not call.kwargs:
        (result,) = call.results
        if _place(call.args[0]) == _place(result):
            return (call.args[0],)
    return ()


class Tape:
    """The operations of a function of changing tensors, ready to be replayed.

    Args:
        function: the function to record; it returns tensors.
        changing: the tensors whose numbers change between calls, always in the same memory.

    Raises:
        UnrecordableError: the function draws random numbers, writes to existing memory, or is too
            large.
    """

    def __init__(
        self, function: Callable[[], Sequence[Tensor]], changing: Sequence[Tensor]
    ) -> None:
        """Record, select the operations to replay, and assign memory to each result."""
        recorder = _Recorder()
        WATCHERS.append(recorder.refuse)
        try:
            with recorder:
                outputs = tuple(function())
        finally:
            WATCHERS.remove(recorder.refuse)
        if recorder.refused is not None:
            raise UnrecordableError(recorder.refused)
        recording = _Recording(recorder.calls, [_memory(t) for t in changing])
        calls = recording.needed(outputs)
        with torch.inference_mode():
            self.played, self.outputs = _Room(recording, calls, outputs).played()

    def __call__(self) -> tuple[Tensor, ...]:
        """Replay the tape; results are in the same tensors every time.

        Raises:
            OtherwiseError: the function would have done something that is not on the tape.
        """
        with torch.inference_mode():
            for call, args, kwargs in self.played:
                call(*args, **kwargs)
        return self.outputs


@dataclass(slots=True, eq=False)
class _Recording:
    """Selects the recorded operations whose results change, without duplicates."""

    calls: list[_Call]
    changing: list[int]
    same: dict[int, int] = field(default_factory=dict)  # memory to earlier memory of equal content
    written: set[int] = field(default_factory=set)
    made: set[int] = field(default_factory=set)
    renewed: list[_Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Go through the operations in order."""
        for call in self.calls:
            inputs = {_memory(t) for t in call.inputs}
            self.made |= {_memory(t) for t in call.results} - inputs
            self.written |= {_memory(t) for t in call.written}
        if self.written - self.made:
            raise UnrecordableError("it writes to existing memory")
        changing = {*self.changing, *self.written}
        known: dict[object, _Call] = {}
        for call in self.calls:
            inputs = {self.memory(t) for t in call.inputs if call.op not in _SHAPE_ONLY}
            results = {_memory(t) for t in call.results}
            if results and not call.written and results <= {_memory(t) for t in call.inputs}:
                continue  # another view of the same numbers
            if not (self.written & (inputs | results)):
                told = (call.op, self.described(call.args), self.described([*call.kwargs.items()]))
                first = known.setdefault(told, call)
                known_as = first.results if first is not call else _nothing_done(call)
                if known_as and {self.memory(t) for t in known_as} <= self.made:
                    pairs = zip(call.results, known_as, strict=True)
                    self.same |= {_memory(a): self.memory(b) for a, b in pairs}
                    continue
            if not (inputs & changing or results & self.written):
                continue
            changing |= results
            if any(t.layout is not torch.strided for t in call.results):
                raise UnrecordableError("it creates a sparse tensor")
            self.renewed.append(call)

    def memory(self, tensor: Tensor) -> int:
        """Return the memory of a tensor, or of the first tensor with equal content."""
        number = _memory(tensor)
        return self.same.get(number, number)

    def described(self, told: object) -> object:
        """Describe arguments so that equal arguments have equal descriptions."""
        if isinstance(told, Tensor):
            return (self.memory(told), *_place(told))
        if isinstance(told, list | tuple):
            return tuple(self.described(part) for part in told)
        return (type(told), repr(told))

    def needed(self, outputs: Iterable[Tensor]) -> list[_Call]:
        """Return the operations that outputs depend on, and those that decide what runs."""
        read = {self.memory(t) for t in outputs}
        needed = []
        for call in reversed(self.renewed):
            made = {self.memory(t) for t in (*call.results, *call.written)}
            if not call.results or made & read:
                read |= {self.memory(t) for t in call.inputs}
                needed.append(call)
        return needed[::-1]


class _Room:
    """Assigns memory to each result; memory that is no longer read is reused."""

    def __init__(
        self, recording: _Recording, calls: Sequence[_Call], outputs: Sequence[Tensor]
    ) -> None:
        self.recording, self.calls, self.results = recording, calls, outputs
        self.last: dict[int, int] = {}
        for number, call in enumerate(calls):
            for tensor in (*call.inputs, *call.results):
                self.last[recording.memory(tensor)] = number
        for tensor in outputs:
            self.last[recording.memory(tensor)] = len(calls)
        self.buffers: dict[int, Tensor] = {}
        self.free: dict[object, list[Tensor]] = {}
        self.views: dict[object, Tensor] = {}
        self.now = 0

    def played(self) -> tuple[list[Played], tuple[Tensor, ...]]:
        """Return the calls to make, and the tensors that hold the outputs afterwards."""
        played: list[Played] = []
        for number, call in enumerate(self.calls):
            self.now = number
            over = self.over(call)
            for tensor in call.results:
                memory = self.recording.memory(tensor)
                if memory not in self.buffers and memory in self.recording.made:
                    self.buffers[memory] = over if over is not None else self.taken(tensor)
            played += self.operations(call)
            for memory in {self.recording.memory(t) for t in (*call.inputs, *call.results)}:
                if self.last[memory] == self.now and memory in self.buffers:
                    buffer = self.buffers.pop(memory)
                    if buffer is not over:
                        self.free.setdefault(_kind(buffer), []).append(buffer)
        return played, tuple(self.told(t) for t in self.results)

    def over(self, call: _Call) -> Tensor | None:
        """Return the memory of an input that is read here for the last time, to be overwritten."""
        if torch.Tag.pointwise not in call.op.tags or out_form(call.op) is None:
            return None
        (result,) = call.results
        for tensor in call.inputs:
            memory = self.recording.memory(tensor)
            alike = [_place(t) for t in call.inputs if self.recording.memory(t) == memory]
            if (
                self.last[memory] == self.now
                and memory in self.buffers
                and all(place == _place(result) for place in alike)
                and tensor.untyped_storage().nbytes() == result.untyped_storage().nbytes()
            ):
                return self.buffers[memory]
        return None

    def taken(self, tensor: Tensor) -> Tensor:
        """Return memory for a result."""
        numbers = tensor.untyped_storage().nbytes() // tensor.element_size()
        left = self.free.get((tensor.dtype, tensor.device, numbers))
        return left.pop() if left else tensor.new_empty(numbers)

    def told(self, told: Any) -> Any:
        """Return the arguments of an operation, with tensors in their assigned memory."""
        if isinstance(told, dict):
            return {name: self.told(part) for name, part in told.items()}
        if isinstance(told, list | tuple):
            return type(told)(self.told(part) for part in told)
        if not isinstance(told, Tensor):
            return told
        buffer = self.buffers.get(self.recording.memory(told))
        if buffer is None:
            return told.detach()
        key = (id(buffer), _place(told))
        if key not in self.views:
            self.views[key] = buffer.as_strided(told.shape, told.stride(), told.storage_offset())
        return self.views[key]

    def changing(self, call: _Call) -> bool:
        """Whether the arguments of an operation change between calls."""
        memories = {self.recording.memory(t) for t in call.inputs}
        return bool(memories & {*self.recording.changing, *self.buffers})

    def operations(self, call: _Call) -> Iterator[Played]:
        """Yield calls that repeat a recorded operation into the memory of its result."""
        op, args, kwargs = call.op, self.told(call.args), self.told(call.kwargs)
        results = [self.told(t) for t in call.results]
        if not results:
            yield _expect, (op, args, kwargs, call.answer), {}
        elif call.written:
            yield op._op, args, kwargs
        elif op in _SHAPE_ONLY or not self.changing(call):
            yield results[0].copy_, (op(*args, **kwargs),), {}  # a later operation writes to it
        else:
            yield from _into(op, args, kwargs, results)


def _kind(buffer: Tensor) -> object:
    return (buffer.dtype, buffer.device, buffer.numel())


def _expect(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], answer: object) -> None:
    if op(*args, **kwargs) != answer:
        raise OtherwiseError


def _into(op: Any, args: Any, kwargs: Any, results: list[Tensor]) -> Iterator[Played]:
    first, out = results[0], out_form(op)
    if out is not None:
        places = [a.name for a in out._schema.arguments if _is_out(a)]
        yield _QUICK.get(out, out._op), args, kwargs | dict(zip(places, results, strict=True))
    elif op in _BY_TENSOR and args[0].dtype == first.dtype and first.is_floating_point():
        number = torch.scalar_tensor(args[1], dtype=first.dtype, device=first.device)
        pair = (number, args[0]) if op is _ATEN.rsub.Scalar else (args[0], number)
        alpha = {"alpha": args[2]} if len(args) > 2 else {}
        yield _BY_TENSOR[op], pair, {**kwargs, **alpha, "out": first}
    elif op in (_ATEN.clone.default, _ATEN._to_copy.default):
        yield first.copy_, args[:1], {}
    elif op is _ATEN.sum.default:
        yield torch.sum, (args[0], None), {**kwargs, "out": first}
    elif op in _BACK_TO_PART:
        yield first.zero_, (), {}
        yield _BACK_TO_PART[op](first, *args[2:]).copy_, args[:1], {}
    elif (inner := _in_place(op)) is not None and _place(args[0])[:2] == _place(first)[:2]:
        yield first.copy_, args[:1], {}
        yield inner._op, (first, *args[1:]), kwargs
    else:
        yield _copied, (op._op, args, kwargs, results), {}


def _copied(op: Any, args: Any, kwargs: Any, results: list[Tensor]) -> None:
    fresh = op(*args, **kwargs)
    for place, result in zip(results, _tensors(fresh), strict=True):
        place.copy_(result)


#: Operations with a number, which are replaced by those with a one-element tensor.
_BY_TENSOR: dict[Any, Callable[..., object]] = {
    _ATEN.mul.Scalar: torch.mul,
    _ATEN.div.Scalar: torch.div,
    _ATEN.add.Scalar: torch.add,
    _ATEN.sub.Scalar: torch.sub,
    _ATEN.rsub.Scalar: torch.sub,
}
#: Backward operations of slices, by the operation that takes the slice.
_BACK_TO_PART = {
    _ATEN.select_backward.default: _ATEN.select.int,
    _ATEN.slice_backward.default: _ATEN.slice.Tensor,
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


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _is_out(argument: Any) -> bool:
    return _is_written(argument) and argument.kwarg_only


@cache
def _in_place(op: Any) -> Any:
    """Return the variant of an operation that modifies its first argument."""
    packet = getattr(_ATEN, f"{op.overloadpacket.__name__}_", None)
    return getattr(packet, op._overloadname, None)
