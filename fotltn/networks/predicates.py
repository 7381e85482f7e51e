"""Predicates as modules: each gives a table with axes (trace, arguments …, time)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from fotltn.errors import DataError, FotError, listing, name_hint
from fotltn.networks.encoders import beside, smoothing
from fotltn.networks.sequences import takes_presence
from fotltn.semantics.config import Semantics
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "elu": nn.ELU, "relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh,
}  # fmt: skip


def mlp(
    width: int,
    hidden: Sequence[int] = (16, 16),
    outputs: int = 1,
    *,
    activation: str = "elu",
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """Linear layers with an activation between them, initialised from a generator.

    Raises:
        DataError: a width is below 1, or the activation is not known.
    """
    if min(width, *hidden, outputs) < 1:
        raise DataError(f"the widths of layers are from 1, not {[width, *hidden, outputs]}")
    if activation not in ACTIVATIONS:
        hint = name_hint(activation, ACTIVATIONS)
        raise DataError(f"unknown activation '{activation}'; {hint}")
    layers: list[nn.Module] = []
    sizes = [width, *hidden, outputs]
    for before, after in pairwise(sizes):
        with torch.random.fork_rng(devices=[]):  # what it draws by itself is drawn anew below
            layer = nn.Linear(before, after, device="cpu")
        bound = before**-0.5
        with torch.no_grad():
            layer.weight.uniform_(-bound, bound, generator=generator)
            layer.bias.uniform_(-bound, bound, generator=generator)
        layers += [layer, ACTIVATIONS[activation]()]
    return nn.Sequential(*layers[:-1])


@dataclass(frozen=True, slots=True, eq=False)
class PresentCells:
    """The cells of a table that are computed, where entities are present; the others are 0.

    Args:
        index: for each axis of the table, the numbers of the cells.
        shape: of the table, (trace, arguments …, time).
    """

    index: tuple[Tensor, ...]
    shape: tuple[int, ...]

    def spread(self, values: Tensor) -> Tensor:
        """A table of values, one for each cell."""
        return values.new_zeros(self.shape).index_put(self.index, values)

    def vectors(self, seen: Sequence[Tensor], *, static: bool) -> Tensor:
        """What is seen of the arguments of each cell, side by side."""
        trace, *entities, time = self.index
        nothing = torch.zeros_like(time)
        return torch.cat(
            [
                part[
                    trace if part.shape[0] > 1 else nothing,
                    entity,
                    time if part.shape[2] > 1 and not static else nothing,
                ]
                for part, entity in zip(seen, entities, strict=True)
            ],
            dim=-1,
        )


class Network(nn.Module):
    """A network over what is seen of the arguments, side by side; its output is a logit.

    Args:
        module: from (…, width) to (…, 1) or (…).
        static: the predicate does not change; what is seen at the first time point decides.
        probability: the output is a degree already, not a logit.
        over_time: the module sees all cells at once, with axes (trace, arguments …, time, width),
            and may look from one to another; else it may see those that are present alone. If it
            has an argument `present`, it is told which these are.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        static: bool = False,
        probability: bool = False,
        over_time: bool = False,
    ) -> None:
        """Keep a module."""
        super().__init__()
        self.module, self.static, self.probability = module, static, probability
        self.over_time = over_time

    def forward(self, seen: Sequence[Tensor], cells: PresentCells | None = None) -> Tensor:
        """The table, from what is seen of each argument (trace, entity, time, width).

        Args:
            seen: of each argument.
            cells: those that are computed, if not all are.

        Raises:
            DataError: the module does not take what is seen, or gives something else.
        """
        degrees = self._degrees(self._numbers(seen, cells))
        return degrees if cells is None else cells.spread(degrees)

    def outputs(self, seen: Sequence[Tensor], cells: PresentCells | None = None) -> Tensor:
        """What the module gives, as it is: the values, if a function is computed."""
        numbers = self._numbers(seen, cells)
        return numbers if cells is None else cells.spread(numbers)

    def _degrees(self, numbers: Tensor) -> Tensor:
        if not self.probability:
            return torch.sigmoid(numbers)
        # What is no number is found by those who know when it came up.
        if bool(((numbers < 0) | (numbers > 1)).any()):
            low, high = numbers.detach().aminmax()
            raise DataError(
                f"a network that gives degrees gives numbers from {float(low):g} to "
                f"{float(high):g}; expected [0, 1], or probability=False"
            )
        return numbers

    def _numbers(self, seen: Sequence[Tensor], cells: PresentCells | None) -> Tensor:
        shape, output = _applied(
            self.module, seen, cells, static=self.static, over_time=self.over_time
        )
        if output.shape == (*shape[:-1], 1):
            return output.squeeze(-1)
        if output.shape != shape[:-1]:
            raise DataError(
                f"a network gives shape {tuple(output.shape)} for vectors of shape "
                f"{tuple(shape)}; one output is needed, not {output.shape[-1]}"
            )
        return output


class Softmax(nn.Module):
    """Predicates of which exactly one holds (or, with `other`, at most one): one network.

    Args:
        names: of the predicates.
        module: from (…, width) to (…, number of names, and one more with `other`).
        static: as of a network.
        other: none of them may hold.
    """

    over_time = False

    def __init__(
        self, names: Sequence[str], module: nn.Module, *, static: bool = False, other: bool = False
    ) -> None:
        """Keep a module."""
        super().__init__()
        if not names:
            raise DataError("predicates that exclude each other are at least one")
        self.names, self.module, self.static, self.other = tuple(names), module, static, other

    def forward(
        self, seen: Sequence[Tensor], cells: PresentCells | None = None
    ) -> dict[str, Tensor]:
        """The tables by name; of some cells, as a network has them."""
        shape, output = _applied(
            self.module, seen, cells, static=self.static, over_time=self.over_time
        )
        count = len(self.names) + self.other
        if output.shape != (*shape[:-1], count):
            raise DataError(
                f"{count} outputs are needed for {listing(self.names)}"
                f"{' and none of them' if self.other else ''}, not {output.shape[-1]} "
                f"(shape {tuple(output.shape)})"
            )
        degrees = self.degrees(output)
        tables = {name: degrees[..., i] for i, name in enumerate(self.names)}
        return tables if cells is None else {n: cells.spread(t) for n, t in tables.items()}

    def degrees(self, output: Tensor) -> Tensor:
        """Degrees that add up to 1."""
        return output.softmax(-1)


class Heads(Softmax):
    """Predicates that share a network, each with an output of its own, which is a logit.

    Args:
        names: of the predicates.
        module: from (…, width) to (…, number of names), as of a network that sees all cells.
        static: as of a network.
    """

    over_time = True

    def __init__(self, names: Sequence[str], module: nn.Module, *, static: bool = False) -> None:
        """Keep a module."""
        super().__init__(names, module, static=static)

    def degrees(self, output: Tensor) -> Tensor:
        """Degrees that know nothing of each other."""
        return output.sigmoid()


def _applied(
    module: nn.Module,
    seen: Sequence[Tensor],
    cells: PresentCells | None,
    *,
    static: bool,
    over_time: bool,
) -> tuple[torch.Size, Tensor]:
    """The shape of the vectors that a module sees, and its output for them."""
    more = {}
    if cells is None or over_time:
        vectors = side_by_side(seen, static=static)
    else:
        vectors = cells.vectors(seen, static=static)
    if cells is not None and over_time:
        vectors = vectors.expand(*cells.shape, vectors.shape[-1])
        if takes_presence(module):
            there = torch.zeros(cells.shape, dtype=torch.bool, device=vectors.device)
            there[cells.index] = True
            more["present"] = there
    try:
        output = module(vectors, **more)
    except (torch.OutOfMemoryError, FotError):
        raise
    except (RuntimeError, ValueError, IndexError) as error:
        raise DataError(
            f"a network does not take vectors of width {vectors.shape[-1]} "
            f"(shape {tuple(vectors.shape)}): {str(error).strip().splitlines()[0]}"
        ) from error
    if not isinstance(output, Tensor) or not output.dim():
        kind = "a single number" if isinstance(output, Tensor) else type(output).__name__
        raise DataError(f"a network gives {kind}; expected a tensor with an output for each vector")
    if cells is None or not over_time:
        return vectors.shape, output
    if output.shape[: len(cells.shape)] != cells.shape:
        raise DataError(
            f"a network gives shape {tuple(output.shape)} for vectors of shape "
            f"{tuple(vectors.shape)}; expected the same axes, but for the last"
        )
    chosen = output[cells.index]
    return torch.Size((len(chosen), vectors.shape[-1])), chosen


class Logits(nn.Module):
    """A free logit for every cell of a table, or one that is averaged over neighbours in time.

    To each is added a level, which is learned too, one for each trace.

    Args:
        shape: (traces, arguments …, time points or 1).
        scale: the standard deviation of the initial values.
        reach: how far the average reaches, in steps; 0 for none.
        generator: of random numbers.
    """

    kernel: Tensor | None

    def __init__(
        self,
        shape: Sequence[int],
        *,
        scale: float = 0.01,
        reach: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw initial values."""
        super().__init__()
        if len(shape) < 2 or min(shape) < 1:
            raise DataError(
                f"logits have a shape (traces, arguments …, time points), not {tuple(shape)}"
            )
        self.scale, self.reach = scale, reach
        self.values = nn.Parameter(torch.randn(tuple(shape), generator=generator) * scale)
        self.level = nn.Parameter(torch.zeros(shape[0], *[1] * (len(shape) - 1)))
        kernel = smoothing(shape[-1], reach) if reach and shape[-1] > 1 else None
        self.register_buffer("kernel", kernel, persistent=False)

    def forward(self) -> Tensor:
        """The table."""
        values = self.values if self.kernel is None else self.values @ self.kernel.T
        return torch.sigmoid(values + self.level)


@dataclass(frozen=True, slots=True, eq=False)
class DataRule:
    """A function of the given data and features to a table, computed once."""

    function: Callable[[Tables, Mapping[str, Tensor]], Tensor | SparseTable]


@dataclass(frozen=True, slots=True, eq=False)
class Defined:
    """A predicate that is what a formula of other predicates says, at every time point.

    A static one is what the formula says at the first point of a trace.

    Args:
        variables: of the head, in order: `("x",)` for Stop(x).
        formula: its text; its free variables are those of the head.
        semantics: of the formula, if not that of the theory.
    """

    variables: tuple[str, ...]
    formula: str
    semantics: Semantics | None = None


class Marginal(nn.Module):
    """A probability for every cell of a table, which training by gradients does not change.

    Args:
        shape: (traces, arguments …, time points or 1).
        definition: what the predicate is in each world, if a formula says so.
    """

    table: Tensor

    def __init__(self, shape: Sequence[int], definition: Defined | None = None) -> None:
        """Nothing is probable yet."""
        super().__init__()
        self.definition = definition
        self.register_buffer("table", torch.zeros(tuple(shape)))

    def forward(self) -> Tensor:
        """The table."""
        return self.table


Predicate = Network | Logits | DataRule | Defined | Marginal


def side_by_side(seen: Sequence[Tensor], *, static: bool) -> Tensor:
    """What is seen of each argument, joined: axes (trace, arguments …, time, width)."""
    count = len(seen)
    moved = []
    for place, part in enumerate(seen):
        traces, entities, times, width = part.shape
        if static and times > 1:
            part, times = part[:, :, :1], 1
        shape = [traces, *[1] * count, times, width]
        shape[1 + place] = entities
        moved.append(part.reshape(shape))
    return moved[0] if count == 1 else beside(moved)
