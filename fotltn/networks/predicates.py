"""Predicates as modules: each computes a table of shape (trace, *arguments, time)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fotltn.errors import DataError, FotError, listing, name_hint
from fotltn.networks.encoders import beside, smoothing
from fotltn.networks.sequences import takes_presence
from fotltn.semantics.config import Semantics
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.syntax.theory import FunctionDecl, PredicateDecl

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
    """Build linear layers with an activation between them, initialised from a generator.

    Raises:
        DataError: a width is below 1, or the activation is unknown.
    """
    if min(width, *hidden, outputs) < 1:
        raise DataError(f"the widths of layers must be at least 1, not {[width, *hidden, outputs]}")
    if activation not in ACTIVATIONS:
        hint = name_hint(activation, ACTIVATIONS)
        raise DataError(f"unknown activation '{activation}'; {hint}")
    layers: list[nn.Module] = []
    sizes = [width, *hidden, outputs]
    for before, after in pairwise(sizes):
        with torch.random.fork_rng(devices=[]):  # PyTorch's initial weights are replaced below
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
        shape: the shape of the table, (trace, *arguments, time).
    """

    index: tuple[Tensor, ...]
    shape: tuple[int, ...]

    def spread(self, values: Tensor) -> Tensor:
        """Return the table, given a value for each cell."""
        return values.new_zeros(self.shape).index_put(self.index, values)

    def of_rows(self, rows: range) -> PresentCells:
        """Return the cells whose first argument is one of some entities, as a table."""
        entity = self.index[1]
        inside = (entity >= rows.start) & (entity < rows.stop)
        trace, entity, *others = (row[inside] for row in self.index)
        shape = (self.shape[0], len(rows), *self.shape[2:])
        return PresentCells((trace, entity - rows.start, *others), shape)

    def vectors(self, seen: Sequence[Tensor], *, static: bool) -> Tensor:
        """Return the concatenated inputs about the arguments of each cell."""
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
    """A network on the concatenated inputs about the arguments; its output is a logit.

    Args:
        module: a module from shape (…, width) to (…, 1) or (…).
        static: the predicate does not change; the inputs at the first time point decide.
        probability: the output is already a degree, not a logit.
        over_time: the module sees all cells at once, shape (trace, *arguments, time, width), and
            may relate them to each other. Otherwise it may see only the present ones. If it has an
            argument `present`, it receives a mask of the present cells.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        static: bool = False,
        probability: bool = False,
        over_time: bool = False,
    ) -> None:
        """Keep the module."""
        super().__init__()
        self.module, self.static, self.probability = module, static, probability
        self.over_time = over_time

    def forward(self, seen: Sequence[Tensor], cells: PresentCells | None = None) -> Tensor:
        """Compute the table from inputs of shape (trace, entity, time, width).

        Args:
            seen: the inputs about each argument.
            cells: the cells to compute; None for all.

        Raises:
            DataError: the module does not accept the inputs, or its output has the wrong shape.
        """
        degrees = self._degrees(self._numbers(seen, cells))
        return degrees if cells is None else cells.spread(degrees)

    def outputs(self, seen: Sequence[Tensor], cells: PresentCells | None = None) -> Tensor:
        """Return the raw outputs of the module, which are the values of a function."""
        numbers = self._numbers(seen, cells)
        return numbers if cells is None else cells.spread(numbers)

    def _degrees(self, numbers: Tensor) -> Tensor:
        if not self.probability:
            return torch.sigmoid(numbers)
        # NaN is reported elsewhere, where it is known when it first came up.
        if bool(((numbers < 0) | (numbers > 1)).any()):
            low, high = numbers.detach().aminmax()
            raise DataError(
                f"a network that returns degrees gave numbers from {float(low):g} to "
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
                f"a network returned shape {tuple(output.shape)} for vectors of shape "
                f"{tuple(shape)}; expected one output, not {output.shape[-1]}"
            )
        return output


class NetworkCall(NamedTuple):
    """A network that computes tables of predicates, or of a function.

    Args:
        names: the predicates that it computes.
        decl: the declaration of the first of these.
        module: computes their tables from the inputs about each argument, at some cells.
        over_time: it sees all cells at once.
        function: it computes a function.
    """

    names: tuple[str, ...]
    decl: PredicateDecl | FunctionDecl
    module: Callable[..., Tensor | dict[str, Tensor]]
    over_time: bool
    function: bool = False


class Softmax(nn.Module):
    """Predicates of one network: exactly one of them holds or, with `other`, at most one.

    Args:
        names: the names of the predicates.
        module: a module from shape (…, width) to (…, number of names), plus one with `other`.
        static: the predicates do not change; the inputs at the first time point decide.
        other: whether none of them may hold.
    """

    over_time = False

    def __init__(
        self, names: Sequence[str], module: nn.Module, *, static: bool = False, other: bool = False
    ) -> None:
        """Keep the module."""
        super().__init__()
        if not names:
            raise DataError("a group of predicates that exclude each other needs at least one")
        self.names, self.module, self.static, self.other = tuple(names), module, static, other

    def forward(
        self, seen: Sequence[Tensor], cells: PresentCells | None = None
    ) -> dict[str, Tensor]:
        """Return the tables by name; `cells` selects the cells to compute."""
        shape, output = _applied(
            self.module, seen, cells, static=self.static, over_time=self.over_time
        )
        count = len(self.names) + self.other
        if output.shape != (*shape[:-1], count):
            raise DataError(
                f"a network must have {count} outputs for {listing(self.names)}"
                f"{' and none of them' if self.other else ''}, not {output.shape[-1]} "
                f"(shape {tuple(output.shape)})"
            )
        degrees = self.degrees(output)
        tables = {name: degrees[..., i] for i, name in enumerate(self.names)}
        return tables if cells is None else {n: cells.spread(t) for n, t in tables.items()}

    def degrees(self, output: Tensor) -> Tensor:
        """Return degrees that sum to 1."""
        return output.softmax(-1)


class Heads(Softmax):
    """Predicates that share a network, which has a separate logit for each.

    Args:
        names: the names of the predicates.
        module: a module from shape (…, width) to (…, number of names), which sees all cells.
        static: the predicates do not change; the inputs at the first time point decide.
    """

    over_time = True

    def __init__(self, names: Sequence[str], module: nn.Module, *, static: bool = False) -> None:
        """Keep the module."""
        super().__init__(names, module, static=static)

    def degrees(self, output: Tensor) -> Tensor:
        """Return degrees that are independent of each other."""
        return output.sigmoid()


def _applied(
    module: nn.Module,
    seen: Sequence[Tensor],
    cells: PresentCells | None,
    *,
    static: bool,
    over_time: bool,
) -> tuple[torch.Size, Tensor]:
    """Return the shape of the inputs of a module, and its output for them."""
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
            f"a network does not accept vectors of width {vectors.shape[-1]} "
            f"(shape {tuple(vectors.shape)}): {str(error).strip().splitlines()[0]}"
        ) from error
    if not isinstance(output, Tensor) or not output.dim():
        kind = "a single number" if isinstance(output, Tensor) else type(output).__name__
        raise DataError(
            f"a network returned {kind}; expected a tensor with an output for each vector"
        )
    if cells is None or not over_time:
        return vectors.shape, output
    if output.shape[: len(cells.shape)] != cells.shape:
        raise DataError(
            f"a network returned shape {tuple(output.shape)} for vectors of shape "
            f"{tuple(vectors.shape)}; expected the same axes except for the last"
        )
    chosen = output[cells.index]
    return torch.Size((len(chosen), vectors.shape[-1])), chosen


class Logits(nn.Module):
    """A free logit for every cell of a table, optionally averaged over neighbours in time.

    A learned level, one for each trace, is added to every logit.

    Args:
        shape: (trace, *arguments, time or 1).
        scale: the standard deviation of the initial values.
        reach: the reach of the average in steps; 0 for none.
        generator: the source of random numbers.
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
        """Draw the initial values."""
        super().__init__()
        if len(shape) < 2 or min(shape) < 1:
            raise DataError(
                f"logits must have a shape (traces, arguments …, time points), not {tuple(shape)}"
            )
        self.scale, self.reach = scale, reach
        self.values = nn.Parameter(torch.randn(tuple(shape), generator=generator) * scale)
        self.level = nn.Parameter(torch.zeros(shape[0], *[1] * (len(shape) - 1)))
        kernel = smoothing(shape[-1], reach) if reach and shape[-1] > 1 else None
        self.register_buffer("kernel", kernel, persistent=False)

    def forward(self) -> Tensor:
        """Return the table."""
        values = self.values if self.kernel is None else self.values @ self.kernel.T
        return torch.sigmoid(values + self.level)


@dataclass(frozen=True, slots=True, eq=False)
class DataRule:
    """A function from given data and features to a table, computed once."""

    function: Callable[[Tables, Mapping[str, Tensor]], Tensor | SparseTable]


@dataclass(frozen=True, slots=True, eq=False)
class Defined:
    """A predicate defined by a formula over other predicates, at every time point.

    A static predicate takes the degree of the formula at the first time point of a trace.

    Args:
        variables: the variables of the head, in order: `("x",)` for Stop(x).
        formula: the text of the formula; its free variables are those of the head.
        semantics: the semantics of the formula, if not that of the theory.
    """

    variables: tuple[str, ...]
    formula: str
    semantics: Semantics | None = None


class Marginal(nn.Module):
    """A probability for every cell of a table, which gradient training does not change.

    Args:
        shape: (trace, *arguments, time or 1).
        definition: the definition of the predicate in each world, if it has one.
    """

    table: Tensor

    def __init__(self, shape: Sequence[int], definition: Defined | None = None) -> None:
        """Start with probability 0 everywhere."""
        super().__init__()
        self.definition = definition
        self.register_buffer("table", torch.zeros(tuple(shape)))

    def forward(self) -> Tensor:
        """Return the table."""
        return self.table


Predicate = Network | Logits | DataRule | Defined | Marginal


def side_by_side(seen: Sequence[Tensor], *, static: bool) -> Tensor:
    """Concatenate the inputs about each argument, shape (trace, *arguments, time, width)."""
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
