"""Predicates as modules: each gives a table with axes (trace, arguments …, time)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.networks.inputs import smoothing
from fotltn.semantics.config import Semantics
from fotltn.semantics.interpretation import Interpretation
from fotltn.semantics.sparse import SparseTable

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
    """Linear layers with an activation between them, initialised from a generator."""
    if activation not in ACTIVATIONS:
        hint = did_you_mean(activation, ACTIVATIONS) or f"there are {listing(ACTIVATIONS)}"
        raise DataError(f"unknown activation '{activation}'; {hint}")
    layers: list[nn.Module] = []
    sizes = [width, *hidden, outputs]
    for before, after in pairwise(sizes):
        layer = nn.Linear(before, after)
        bound = before**-0.5
        with torch.no_grad():
            layer.weight.uniform_(-bound, bound, generator=generator)
            layer.bias.uniform_(-bound, bound, generator=generator)
        layers += [layer, ACTIVATIONS[activation]()]
    return nn.Sequential(*layers[:-1])


class Network(nn.Module):
    """A network over what is seen of the arguments, side by side; its output is a logit.

    Args:
        module: from (…, width) to (…, 1) or (…).
        static: the predicate does not change; what is seen at the first time point decides.
        probability: the output is a degree already, not a logit.
    """

    def __init__(
        self, module: nn.Module, *, static: bool = False, probability: bool = False
    ) -> None:
        """Keep a module."""
        super().__init__()
        self.module, self.static, self.probability = module, static, probability

    def forward(self, seen: Sequence[Tensor]) -> Tensor:
        """The table, from what is seen of each argument (trace, entity, time, width)."""
        logits = self.module(side_by_side(seen, static=self.static))
        if logits.dim() == len(seen) + 3:
            logits = logits.squeeze(-1)
        return logits if self.probability else torch.sigmoid(logits)


class Softmax(nn.Module):
    """Predicates of which exactly one holds (or, with `other`, at most one): one network.

    Args:
        names: of the predicates.
        module: from (…, width) to (…, number of names, and one more with `other`).
        static: as of a network.
        other: none of them may hold.
    """

    def __init__(
        self, names: Sequence[str], module: nn.Module, *, static: bool = False, other: bool = False
    ) -> None:
        """Keep a module."""
        super().__init__()
        self.names, self.module, self.static, self.other = tuple(names), module, static, other

    def forward(self, seen: Sequence[Tensor]) -> dict[str, Tensor]:
        """The tables by name."""
        found = self.module(side_by_side(seen, static=self.static)).softmax(-1)
        if found.shape[-1] != len(self.names) + self.other:
            raise DataError(
                f"{len(self.names) + self.other} outputs are needed for {listing(self.names)}"
                f"{' and none of them' if self.other else ''}, not {found.shape[-1]}"
            )
        return {name: found[..., i] for i, name in enumerate(self.names)}


class Logits(nn.Module):
    """A free logit for every cell of a table, or one that is averaged over neighbours in time.

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
        self.values = nn.Parameter(torch.randn(tuple(shape), generator=generator) * scale)
        kernel = smoothing(shape[-1], reach) if reach and shape[-1] > 1 else None
        self.register_buffer("kernel", kernel, persistent=False)

    def forward(self) -> Tensor:
        """The table."""
        values = self.values if self.kernel is None else self.values @ self.kernel.T
        return torch.sigmoid(values)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Given facts: a dense table or a table of facts, with axes (trace, arguments …, time)."""

    table: Tensor | SparseTable


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A function of the given data and features to a table, computed once."""

    function: Callable[[Interpretation, Mapping[str, Tensor]], Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Defined:
    """A predicate that is what a formula of other predicates says, at every time point.

    Args:
        variables: of the head, in order: `("x",)` for Stop(x).
        formula: its text; its free variables are those of the head.
        semantics: of the formula, if not that of the theory.
    """

    variables: tuple[str, ...]
    formula: str
    semantics: Semantics | None = None


Predicate = Network | Logits | Table | Rule | Defined


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
    if count == 1:
        return moved[0]
    lead = torch.broadcast_shapes(*(m.shape[:-1] for m in moved))
    return torch.cat([m.expand(*lead, m.shape[-1]) for m in moved], dim=-1)
