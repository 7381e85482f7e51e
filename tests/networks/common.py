"""A small world of two traces, some tables of which are given."""

from __future__ import annotations

import torch

from fotltn.logic.check import CheckedTheory, check
from fotltn.networks.encoders import Embeddings
from fotltn.networks.grounding import Grounding
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory

DECLARED = """
sort agent, place
static predicate Car(agent), Ped(agent)
predicate Stop(agent), Run(agent), Crossing(agent)
predicate Close(agent, agent), At(agent, place), Alarm, Danger(agent), Rank(agent)
temporal function speed(agent): real
"""

AGENTS, PLACES, TRACES, HORIZON = 4, 3, 2, 5
LENGTHS = (5, 3)


def theory(axioms: str = "", declared: str = DECLARED) -> CheckedTheory:
    return check(parse_theory(f"{declared}\n{axioms}"))


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def world(*, dtype=torch.float32):
    """Random degrees for every predicate; the second trace ends early."""
    shapes: dict[str, tuple[int, ...]] = {
        "Car": (TRACES, AGENTS, 1),
        "Ped": (1, AGENTS, 1),
        "Stop": (TRACES, AGENTS, HORIZON),
        "Run": (TRACES, AGENTS, HORIZON),
        "Crossing": (TRACES, AGENTS, HORIZON),
        "Close": (TRACES, AGENTS, AGENTS, HORIZON),
        "At": (TRACES, AGENTS, PLACES, HORIZON),
        "Alarm": (TRACES, HORIZON),
        "Danger": (TRACES, AGENTS, HORIZON),
        "Rank": (TRACES, AGENTS, HORIZON),
    }
    tables = {n: draw(*s, seed=i).to(dtype) for i, (n, s) in enumerate(shapes.items())}
    return Tables(
        {"agent": AGENTS, "place": PLACES},
        torch.tensor(LENGTHS),
        HORIZON,
        tables,
        {"speed": draw(TRACES, AGENTS, HORIZON, seed=99).to(dtype)},
    )


def embeddings(width=3, seed=0):
    return Embeddings(TRACES, AGENTS, HORIZON, width, scale=1.0, generator=gen(seed))


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def grounding(predicates=None, *, signature=None, given=None, **options):
    options.setdefault("inputs", {"agent": embeddings()})
    return Grounding(
        signature or theory().signature, given or world(dtype=torch.float64), predicates or {},
        **options,
    )  # fmt: skip
