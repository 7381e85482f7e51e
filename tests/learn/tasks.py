"""A small scene to learn, quick enough to be trained many times."""

from __future__ import annotations

import torch
from torch import nn

from fotltn.grounding.labels import Labels
from fotltn.learn.objective import PAPER
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.task import Task, Training
from fotltn.logic.check import CheckedTheory, check
from fotltn.networks.encoders import Embeddings
from fotltn.networks.grounding import Grounding
from fotltn.networks.predicates import Defined, Network, Predicate, mlp
from fotltn.semantics.config import STABLE_PRODUCT
from fotltn.semantics.sparse import sparse_table
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory

THEORY = """
sort agent
static predicate Car(agent)
predicate Stop(agent), Run(agent), Close(agent, agent), Near(agent)
axiom A1: forall x. G(Car(x) -> Stop(x) | Run(x))
axiom A2: forall x. G !(Stop(x) & Run(x))
axiom A3 weight 2: forall x. G(Near(x) -> WX Stop(x))
"""

AGENTS, HORIZON, WIDTH = 6, 8, 4


def theory(text: str = THEORY) -> CheckedTheory:
    return check(parse_theory(text))


def given(traces: int = 1, *, lengths: list[int] | None = None) -> Tables:
    rng = torch.Generator().manual_seed(5)
    close = torch.rand(traces, AGENTS, AGENTS, HORIZON, generator=rng) < 0.2
    return Tables(
        {"agent": AGENTS},
        torch.tensor(lengths or [HORIZON] * traces),
        HORIZON,
        {"Close": sparse_table(close.nonzero().T, None, close.shape)},
    )


def grounding(
    traces: int = 1,
    *,
    seed: int = 0,
    lengths: list[int] | None = None,
    near: str = "exists y. Close(x, y) & Car(y)",
    stop: Predicate | None = None,
) -> Grounding:
    rng = torch.Generator().manual_seed(seed)
    return Grounding(
        theory().signature,
        given(traces, lengths=lengths),
        {
            "Car": Network(mlp(WIDTH, (6,), generator=rng), static=True),
            "Stop": stop or Network(mlp(WIDTH, (6,), generator=rng)),
            "Run": Network(mlp(WIDTH, (6,), generator=rng)),
            "Near": Defined(("x",), near),
        },
        inputs={"agent": Embeddings(traces, AGENTS, HORIZON, WIDTH, scale=0.5, generator=rng)},
    )


def labels(traces: int = 1, *, share: float = 0.5, seed: int = 3) -> Labels:
    rng = torch.Generator().manual_seed(seed)
    sorts: dict[str, tuple[str, ...]] = {"Stop": ("agent",), "Run": ("agent",), "Car": ("agent",)}
    index, truth = {}, {}
    for name in sorts:
        times = 1 if name == "Car" else HORIZON
        stated = torch.rand(traces, AGENTS, times, generator=rng) < share
        index[name] = stated.nonzero().T
        truth[name] = (torch.rand(index[name].shape[1], generator=rng) < 0.5).double()
    return Labels(index, truth, sorts)


def task(
    traces=1,
    *,
    objective=PAPER,
    semantics=STABLE_PRODUCT,
    text=THEORY,
    seed=0,
    ground=None,
    known=None,
    watched=None,
    **training,
):
    training.setdefault("epochs", 6)
    training.setdefault("rate", 0.05)
    return Task(
        ground or grounding(traces, seed=seed),
        Axioms(theory(text), semantics),
        objective,
        labels(traces) if known is None else known,
        Training(**training),
        watched,
    )


def weights(found):
    return {n: t.clone() for n, t in found.grounding.state_dict().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    """Whether two states are the same bit for bit."""
    return set(first) == set(second) and all(torch.equal(t, second[n]) for n, t in first.items())


def dropout():
    """A network that draws from PyTorch's own generator, and counts what it sees."""
    rng = torch.Generator().manual_seed(7)
    layers = [mlp(WIDTH, (6,), 6, generator=rng), nn.Dropout(0.5)]
    return Network(nn.Sequential(*layers, Normed(), mlp(6, (), generator=rng)))


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x):
        return self.norm(x.reshape(-1, 6)).reshape(x.shape)
