"""The baseline HTGNN: a graph neural network for typed nodes whose edges change over time.

Many runs, which differ in their labelled facts and initial weights, are one computation: every
parameter has a leading run axis, and nothing passes from one run to another.

A layer follows its publication (arXiv 2110.13889):

1. For each relation and time point, graph attention with one head gives each node a message
   from its neighbours; a node without neighbours gets 0.
2. At each time point, a node's messages are averaged with weights for the relations. The weights
   depend on the mean score of the relation over all nodes of the type.
3. For each type, self-attention over time looks both ways.
4. A gated residual adds the state before the layer, and a layer norm follows.

The construction of the graph and the sizes are our reading of the paper. They match the published
numbers of parameters, 1.81 and 1.39 times those of FOT-LTN, exactly:

- The types of nodes are known, because the paper says: "we map each entity instance to a node,
  typed with Car or Ped". The heads of Car and Ped are still trained from labelled facts. But the
  parameters of a type distinguish its nodes from others, including nodes without a label.
- There are eight relations, four into each type: Close from pedestrians to cars, and back; and a
  relation from a node to itself for each learned predicate: Car, Run and Stop for cars, and Ped,
  Crossing and OnSidewalk for pedestrians. Its edges are the facts that are labelled true, noise
  included. A fact about an agent of the other type is not an edge. Edges of Car and Ped hold at all
  time points.
- Attention over a single edge is 1, whatever the attention vectors are. Those of the relations
  from a node to itself are counted, as in the published sizes, but never learn.
- The states of all time points are kept, and a head reads each. Car and Ped do not change; their
  heads read the state at the first time point, as FOT-LTN reads embeddings there.
- Initially, linear layers are uniform within 1/√width, graph attention is normal (Glorot, with
  gain √2), gates are half open, and inputs are normal with a standard deviation of `scale`.

Train it with Adam, a learning rate of 0.005 and weight decay of 0.0005. The loss is
`supervision.cross_entropy`; its sum over runs trains each run as if it were alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fotltn.errors import DataError
from fotltn.grounding.labels import Labels
from fotltn.project.scene import LEARNED, Flags, Size

#: The static predicates.
STATIC = ("Car", "Ped")

#: The predicates whose facts are edges from a node to itself, for cars and for pedestrians.
OWN = (("Car", "Run", "Stop"), ("Ped", "Crossing", "OnSidewalk"))

_RELATIONS = sum(1 + len(names) for names in OWN)  # including Close into each type
_SLOPE = 0.2  # slope of leaky ReLU
_BASE = 100_000.0  # base of the wavelengths of positions


class Targets(NamedTuple):
    """The labelled facts of a predicate, shape (run, agent, time), with time 1 if it is static.

    Args:
        truth: the degrees of the facts; 0 elsewhere.
        known: a mask of the facts.
    """

    truth: Tensor
    known: Tensor


def targets(
    labels: Sequence[Labels],
    size: Size,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> dict[str, Targets]:
    """Return the labelled facts of all runs as tables by predicate.

    Args:
        labels: the labels of each run; predicates that are not learned are left out.
        size: the size of the scene. Agents are numbered cars first.
        dtype: the type of the degrees.
        device: the device of the tables.

    Raises:
        DataError: a fact is not about the scene.
    """
    agents = size.cars + size.pedestrians
    made = {}
    for name in LEARNED:
        shape = (1, agents, 1 if name in STATIC else size.steps)
        truth = torch.zeros(len(labels), *shape[1:], dtype=dtype)
        known = torch.zeros(len(labels), *shape[1:], dtype=torch.bool)
        for run, stated in enumerate(labels):
            if name not in stated.truth:
                continue
            index = stated.index[name].cpu()
            _check_cells(name, index, shape)
            _, agent, time = index
            truth[run, agent, time] = stated.truth[name].to("cpu", dtype)
            known[run, agent, time] = True
        made[name] = Targets(truth.to(device), known.to(device))
    return made


def _check_cells(name: str, index: Tensor, shape: tuple[int, ...]) -> None:
    limits = torch.tensor(shape)[:, None]
    if index.shape[0] != len(shape) or bool(((index < 0) | (index >= limits)).any()):
        largest = index.amax(1).tolist() if index.shape[1] else []
        raise DataError(
            f"facts of '{name}' must have cells (trace, agent, time) within {shape}, not up to "
            f"{tuple(largest)}"
        )


def parameter_count(size: Size, *, width: int = 32, layers: int = 2) -> int:
    """Return the number of parameters of one run.

    >>> from reproduction.paper.carped import CARPED35K, CARPED180K
    >>> parameter_count(CARPED35K), parameter_count(CARPED180K)
    (588874, 1337674)
    """
    square = width * width
    linear = square + width
    graph = _RELATIONS * (square + 2 * width)
    relations = size.steps * (linear + width)
    time = linear + 3 * square + linear
    residual = linear + 1
    norm = 2 * width
    layer = graph + relations + len(OWN) * (time + residual + norm)
    inputs = (size.cars + size.pedestrians) * size.steps * width
    heads = len(LEARNED) * (linear + width + 1)
    return inputs + len(OWN) * linear + layers * layer + heads


class HTGNN(nn.Module):
    """Independent models of one scene, one for each run.

    In training mode, dropout draws from the global random generator of its device. The state
    dictionary holds only parameters, so `value[i]` of each is the model of run i.

    Args:
        size: the size of the scene.
        runs: the number of models.
        labels: the facts that each run learns from; facts labelled true are edges.
        close: who is close to whom in all runs, shape (car, pedestrian, time).
        generator: the generator of initial parameters.
        width: the width of the nodes' states, an even number.
        layers: the number of layers.
        dropout: the share of features and edges that is dropped in training.
        scale: the standard deviation of the initial inputs.
        dtype: the type of all parameters.

    Raises:
        DataError: a number is out of range, or labels or Close do not fit the scene.
    """

    positions: Tensor
    close: Tensor

    def __init__(
        self,
        size: Size,
        runs: int,
        labels: Sequence[Labels],
        close: Flags | Tensor,
        *,
        generator: torch.Generator | None = None,
        width: int = 32,
        layers: int = 2,
        dropout: float = 0.2,
        scale: float = 1.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Draw initial parameters, and store the edges."""
        super().__init__()
        if min(runs, width, layers, *size) < 1 or width % 2:
            raise DataError(
                f"{runs} runs of {layers} layers of width {width} for {size}: all of these must be "
                "whole numbers of at least 1, and the width must be even"
            )
        if len(labels) != runs:
            raise DataError(f"there are {runs} runs, but {len(labels)} sets of labels")
        if not 0 <= dropout < 1 or not 0 <= scale < math.inf:
            raise DataError(
                f"dropout must be in [0, 1) and the scale of inputs at least 0, not "
                f"{dropout} and {scale}"
            )
        near = close.cpu() if isinstance(close, Tensor) else torch.from_numpy(close.copy())
        if tuple(near.shape) != tuple(size) or near.dtype != torch.bool:
            raise DataError(
                f"Close must be Boolean of shape {tuple(size)} (car, pedestrian, time), not "
                f"{near.dtype} of shape {tuple(near.shape)}"
            )
        draw = _Draw(runs, generator, dtype)
        counts = (size.cars, size.pedestrians)
        self.size, self.runs = size, runs
        self.inputs = nn.ParameterList(
            [draw.normal(size.steps, count, width, scale=scale) for count in counts]
        )
        self.adapt = nn.ModuleList([_Linear(draw, width, width) for _ in counts])
        self.layers = nn.ModuleList(
            [_Layer(draw, width, size.steps, dropout) for _ in range(layers)]
        )
        self.heads = nn.ModuleDict({name: _Head(draw, width) for name in LEARNED})
        for name, edges in _own_edges(targets(labels, size), size).items():
            self.register_buffer(f"own_{name}", edges, persistent=False)
        self.register_buffer("close", near.permute(2, 0, 1).contiguous(), persistent=False)
        self.register_buffer("positions", _positions(size.steps, width, dtype), persistent=False)

    def forward(self) -> dict[str, Tensor]:
        """Return the logits by predicate, shape (run, agent, time), with time 1 if it is static."""
        states = [adapt(x) for adapt, x in zip(self.adapt, self.inputs, strict=True)]
        loops = {name: self.get_buffer(f"own_{name}") for names in OWN for name in names}
        near = [self.close, self.close.transpose(1, 2)]
        for layer in self.layers:
            states = layer(states, loops, near, self.positions)
        agents = torch.cat(states, dim=2)
        return {
            name: head(agents[:, :1] if name in STATIC else agents).transpose(1, 2)
            for name, head in self.heads.items()
        }


def _own_edges(facts: Mapping[str, Targets], size: Size) -> dict[str, Tensor]:
    """Return edges from nodes to themselves by predicate, shape (run, time, node of its type)."""
    nodes = (slice(0, size.cars), slice(size.cars, None))
    return {
        name: (facts[name].truth[:, some] > 0.5).expand(-1, -1, size.steps).transpose(1, 2)
        for names, some in zip(OWN, nodes, strict=True)
        for name in names
    }


def _positions(steps: int, width: int, dtype: torch.dtype) -> Tensor:
    """Return a vector for each time point: alternating sines and cosines of growing wavelength."""
    rate = _BASE ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(steps, dtype=torch.float64)[:, None] * rate
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).to(dtype)


class _Draw:
    """Draws initial parameters with a leading run axis."""

    def __init__(self, runs: int, generator: torch.Generator | None, dtype: torch.dtype) -> None:
        self.runs, self.generator, self.dtype = runs, generator, dtype

    def normal(self, *shape: int, scale: float) -> nn.Parameter:
        drawn = torch.randn(self.runs, *shape, generator=self.generator, dtype=self.dtype)
        return nn.Parameter(drawn.mul_(scale))

    def uniform(self, *shape: int, bound: float) -> nn.Parameter:
        drawn = torch.rand(self.runs, *shape, generator=self.generator, dtype=self.dtype)
        return nn.Parameter(drawn.mul_(2 * bound).sub_(bound))

    def constant(self, *shape: int, value: float) -> nn.Parameter:
        return nn.Parameter(torch.full((self.runs, *shape), value, dtype=self.dtype))


class _Linear(nn.Module):
    """A linear layer for each run, on states of shape (run, time, node, width)."""

    def __init__(self, draw: _Draw, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        bound = inputs**-0.5
        self.weight = draw.uniform(inputs, outputs, bound=bound)
        self.bias = draw.uniform(1, outputs, bound=bound) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return _times(x, self.weight, self.bias)


def _times(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply x, shape (run, time, node, width), by the matrix of its run, and add the bias."""
    flat = x.flatten(1, 2)
    product = torch.bmm(flat, weight) if bias is None else torch.baddbmm(bias, flat, weight)
    return product.view(*x.shape[:3], -1)


class _GraphAttention(nn.Module):
    """Messages along the edges of one relation, at all time points."""

    def __init__(self, draw: _Draw, width: int, dropout: float) -> None:
        super().__init__()
        self.weight = draw.normal(width, width, scale=math.sqrt(2.0 * 2 / (2 * width)))
        scale = math.sqrt(2.0 * 2 / (width + 1))
        self.source = draw.normal(width, 1, scale=scale)
        self.target = draw.normal(width, 1, scale=scale)
        self.dropout = dropout

    def forward(self, sources: Tensor, edges: Tensor, nodes: Tensor | None = None) -> Tensor:
        """Return messages to nodes; all states have shape (run, time, node, width).

        Args:
            sources: the nodes that edges come from.
            edges: shape (time, node, source); or (run, time, node) for edges to themselves.
            nodes: the nodes that edges go to; None for edges to themselves.
        """
        values = _times(self._drop(sources), self.weight)
        if nodes is None:
            return values * self._drop(edges.to(values.dtype))[..., None]
        theirs = _times(values, self.source).transpose(2, 3)
        ours = _times(self._drop(nodes), torch.bmm(self.weight, self.target))
        scores = F.leaky_relu(ours + theirs, _SLOPE)
        lowest = torch.finfo(scores.dtype).min
        attention = self._drop(scores.masked_fill(~edges, lowest).softmax(-1))
        # A node without neighbours has equal attention for all, which must not count.
        return torch.matmul(attention, values) * edges.any(-1, keepdim=True)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


class _RelationAttention(nn.Module):
    """A weighted mean of messages, with separate weights at each time point."""

    def __init__(self, draw: _Draw, width: int, steps: int) -> None:
        super().__init__()
        bound = width**-0.5
        self.weight = draw.uniform(steps, width, width, bound=bound)
        self.bias = draw.uniform(steps, 1, width, bound=bound)
        self.vector = draw.uniform(steps, width, 1, bound=bound)

    def forward(self, messages: Tensor) -> Tensor:
        """Map shape (run, time, relation, node, width) to (run, time, node, width)."""
        relations, nodes = messages.shape[2:4]
        hidden = torch.tanh(torch.matmul(messages.flatten(2, 3), self.weight) + self.bias)
        mean = hidden.unflatten(2, (relations, nodes)).mean(3)
        weights = torch.matmul(mean, self.vector).softmax(2)
        return torch.matmul(weights.transpose(2, 3), messages.flatten(3)).reshape(
            *messages.shape[:2], nodes, -1
        )


class _Node(nn.Module):
    """The parts of a layer for each type of nodes: attention over time, residual and norm."""

    def __init__(self, draw: _Draw, width: int) -> None:
        super().__init__()
        self.project = _Linear(draw, width, width)
        self.query, self.key, self.value = (
            _Linear(draw, width, width, bias=False) for _ in range(3)
        )
        self.output = _Linear(draw, width, width)
        self.gate = draw.constant(1, 1, 1, value=0.0)
        self.residual = _Linear(draw, width, width)
        self.gain = draw.constant(1, 1, width, value=1.0)
        self.bias = draw.constant(1, 1, width, value=0.0)

    def forward(self, messages: Tensor, before: Tensor, positions: Tensor) -> Tensor:
        """Return the new state from messages and the old state, shape (run, time, node, width)."""
        share = torch.sigmoid(self.gate)
        mixed = share * self._over_time(messages, positions) + (1 - share) * self.residual(before)
        return F.layer_norm(mixed, mixed.shape[-1:]) * self.gain + self.bias

    def _over_time(self, x: Tensor, positions: Tensor) -> Tensor:
        placed = self.project(x) + positions[:, None]
        query, key, value = (
            linear(placed).transpose(1, 2) for linear in (self.query, self.key, self.value)
        )
        seen = F.scaled_dot_product_attention(query, key, value, scale=1.0).transpose(1, 2)
        return F.relu(self.output(seen))


class _Layer(nn.Module):
    """One layer: messages within each time point, then attention over time."""

    def __init__(self, draw: _Draw, width: int, steps: int, dropout: float) -> None:
        super().__init__()
        self.close = nn.ModuleList([_GraphAttention(draw, width, dropout) for _ in OWN])
        self.loops = nn.ModuleDict(
            {name: _GraphAttention(draw, width, dropout) for names in OWN for name in names}
        )
        self.relations = _RelationAttention(draw, width, steps)
        self.nodes = nn.ModuleList([_Node(draw, width) for _ in OWN])

    def forward(
        self,
        states: Sequence[Tensor],
        loops: Mapping[str, Tensor],
        near: Sequence[Tensor],
        positions: Tensor,
    ) -> list[Tensor]:
        """Return the new states of cars and of pedestrians."""
        updated = []
        for kind, x in enumerate(states):
            messages = [self.close[kind](states[1 - kind], near[kind], x)]
            messages += [self.loops[name](x, loops[name]) for name in OWN[kind]]
            merged = self.relations(torch.stack(messages, dim=2))
            updated.append(self.nodes[kind](merged, x, positions))
        return updated


class _Head(nn.Module):
    """A logit for each node and time point."""

    def __init__(self, draw: _Draw, width: int) -> None:
        super().__init__()
        self.hidden = _Linear(draw, width, width)
        self.output = _Linear(draw, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.output(F.relu(self.hidden(x)))
        return logits.squeeze(-1)
