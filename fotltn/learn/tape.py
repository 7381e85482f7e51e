"""A tape of a training step: its operations in a row, recorded once and replayed many times.

At the sizes of most projects a step is a thousand small operations. Python, PyTorch's autograd and
memory allocation take longer than the arithmetic. A tape holds only the operations of the forward
and backward pass, each with memory for its result. Operations that give the same result in every
step, are computed twice or are never read are left out. The others run in the recorded order, so
results are equal to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fotltn.kernels.tracing import WATCHERS
from fotltn.learn.calls import (
    SHAPE_ONLY,
    Call,
    Played,
    adds_at_places,
    expect,
    into,
    mapped,
    memory_of,
    out_form,
    place_of,
    tensors_in,
)
from fotltn.learn.calls import OtherwiseError as OtherwiseError
from fotltn.learn.cheaper import fused, smaller, unchanged

#: The maximum size of all results in a step, in bytes. Larger operations dominate anyway.
ROOM = 2**28
#: The number of elements up to which constants are compared as text.
_SMALL = 16


class UnrecordableError(Exception):
    """A step does something that a tape cannot record."""


class _Recorder(TorchDispatchMode):
    """Records all operations while active; results are kept, so no two share memory."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []
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
            results = tuple(_aliased(t) for t in tensors_in(result))
            answer = None if results else result
            self.calls.append(Call(op, read, told, results, answer))
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


def _aliased(told: Any) -> Any:
    """Return the same with other tensors over the same memory, which no operation transposes."""
    return mapped(told, lambda t: t.detach() if t.layout is torch.strided else t)


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
        recording = _Recording(recorder.calls, [memory_of(t) for t in changing])
        calls = recording.needed(outputs)
        for change in (smaller, fused):
            calls = change(calls, outputs, recording.memory, recording.written)
            recording.note(calls)
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

    calls: list[Call]
    changing: list[int]
    same: dict[int, int] = field(default_factory=dict)  # memory to earlier memory of equal content
    written: set[int] = field(default_factory=set)
    made: set[int] = field(default_factory=set)
    moving: set[int] = field(default_factory=set)  # what differs between replays
    renewed: list[Call] = field(default_factory=list)
    constants: _TapeConstants = field(default_factory=lambda: _TapeConstants())

    def __post_init__(self) -> None:
        """Go through the operations in order."""
        self.note(self.calls)
        if self.written - self.made:
            raise UnrecordableError("it writes to existing memory")
        self.moving |= {*self.changing, *self.written}
        known: dict[object, Call] = {}
        for call in self.calls:
            inputs = {self.memory(t) for t in call.inputs if call.op not in SHAPE_ONLY}
            results = {memory_of(t) for t in call.results}
            if results and not call.written and results <= {memory_of(t) for t in call.inputs}:
                continue  # another view of the same numbers
            if not (self.written & (inputs | results)):
                told = (call.op, self.described(call.args), self.described([*call.kwargs.items()]))
                first = known.setdefault(told, call)
                if first is not call and not call.results:
                    continue  # the same question
                known_as = first.results if first is not call else unchanged(call)
                if known_as and {self.memory(t) for t in known_as} <= self.made:
                    pairs = zip(call.results, known_as, strict=True)
                    self.same |= {memory_of(a): self.memory(b) for a, b in pairs}
                    continue
            if not (inputs & self.moving or results & self.written):
                continue
            self.moving |= results
            if any(t.layout is not torch.strided for t in call.results):
                raise UnrecordableError("it creates a sparse tensor")
            self.renewed.append(call)

    def note(self, calls: Iterable[Call]) -> None:
        """Note which memory operations make, and which they modify."""
        for call in calls:
            inputs = {memory_of(t) for t in call.inputs}
            self.made |= {memory_of(t) for t in call.results} - inputs
            self.written |= {memory_of(t) for t in call.written}

    def memory(self, tensor: Tensor) -> int:
        """Return the memory of a tensor, or of the first tensor with equal content."""
        number = memory_of(tensor)
        return self.same.get(number, number)

    def described(self, told: object) -> object:
        """Describe arguments so that equal arguments have equal descriptions."""
        if isinstance(told, Tensor):
            memory = self.memory(told)
            if memory not in self.moving and told.layout is torch.strided:
                return ("constant", self.constants.number(told), told.stride())
            return (memory, *place_of(told))
        if isinstance(told, list | tuple):
            return tuple(self.described(part) for part in told)
        return (type(told), repr(told))

    def needed(self, outputs: Iterable[Tensor]) -> list[Call]:
        """Return the operations that outputs depend on, and those that decide what runs."""
        read = {self.memory(t) for t in outputs}
        needed = []
        for call in reversed(self.renewed):
            made = {self.memory(t) for t in (*call.results, *call.written)}
            if not call.results or made & read:
                read |= {self.memory(t) for t in call.inputs}
                needed.append(call)
        return needed[::-1]


class _TapeConstants:
    """Numbers tensors by their content."""

    def __init__(self) -> None:
        self.known: dict[object, int] = {}
        self.firsts: dict[object, Tensor] = {}
        self.large: dict[object, list[tuple[int, Tensor]]] = {}

    def number(self, tensor: Tensor) -> int:
        """Return the number of the first tensor with the same bits in the same shape."""
        place = (memory_of(tensor), *place_of(tensor))
        if place not in self.known:
            self.known[place] = self._number(tensor)
            self.firsts.setdefault((self.known[place], tensor.stride()), tensor)
        return self.known[place]

    def first(self, tensor: Tensor) -> Tensor:
        """Return the first tensor with the same content and strides; others need no memory."""
        if tensor.layout is not torch.strided:
            return tensor
        number = self.known.get((memory_of(tensor), *place_of(tensor)))
        return self.firsts.get((number, tensor.stride()), tensor)

    def _number(self, tensor: Tensor) -> int:
        kind = (tensor.dtype, tensor.device, tensor.shape)
        if tensor.numel() <= _SMALL:
            return self.known.setdefault((*kind, repr(tensor.tolist())), len(self.known))
        alike = self.large.setdefault(kind, [])
        for number, other in alike:
            if torch.equal(tensor, other) and torch.equal(tensor.signbit(), other.signbit()):
                return number
        alike.append((len(self.known), tensor))
        return len(self.known)


class _Room:
    """Assigns memory to each result; memory that is no longer read is reused."""

    def __init__(
        self, recording: _Recording, calls: Sequence[Call], outputs: Sequence[Tensor]
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
        self.longs: dict[object, Tensor] = {}
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

    def over(self, call: Call) -> Tensor | None:
        """Return the memory of an input that is read here for the last time, to be overwritten."""
        if torch.Tag.pointwise not in call.op.tags or out_form(call.op) is None:
            return None
        (result,) = call.results
        for tensor in call.inputs:
            memory = self.recording.memory(tensor)
            alike = [place_of(t) for t in call.inputs if self.recording.memory(t) == memory]
            if (
                self.last[memory] == self.now
                and memory in self.buffers
                and all(place == place_of(result) for place in alike)
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
        return mapped(told, self.assigned)

    def assigned(self, tensor: Tensor) -> Tensor:
        """Return a tensor in its assigned memory."""
        buffer = self.buffers.get(self.recording.memory(tensor))
        if buffer is None:
            return self.recording.constants.first(tensor).detach()
        key = (id(buffer), place_of(tensor))
        if key not in self.views:
            self.views[key] = buffer.as_strided(
                tensor.shape, tensor.stride(), tensor.storage_offset()
            )
        return self.views[key]

    def long(self, index: Tensor) -> Tensor:
        """Return a constant index as long integers."""
        key = (memory_of(index), *place_of(index))
        if key not in self.longs:
            self.longs[key] = index.long()
        return self.longs[key]

    def changing(self, tensors: Iterable[Tensor]) -> bool:
        """Whether some of the tensors change between calls."""
        memories = {self.recording.memory(t) for t in tensors}
        return bool(memories & {*self.recording.changing, *self.buffers})

    def operations(self, call: Call) -> Iterator[Played]:
        """Yield calls that repeat a recorded operation into the memory of its result."""
        op, args, kwargs = call.op, self.told(call.args), self.told(call.kwargs)
        results = [self.told(t) for t in call.results]
        if not results:
            yield expect(op, args, kwargs, call.answer)
        elif call.written:
            yield op._op, args, kwargs
        elif op in SHAPE_ONLY or not self.changing(call.inputs):
            yield results[0].copy_, (op(*args, **kwargs),), {}  # a later operation writes to it
        elif adds_at_places(call) and not self.changing(call.args[2:3]):
            start, dim, index, source = args
            yield torch.scatter_add, (start, dim, self.long(index), source), {"out": results[0]}
        else:
            yield from into(op, args, kwargs, results)


def _kind(buffer: Tensor) -> object:
    return (buffer.dtype, buffer.device, buffer.numel())
