"""Inputs off the beaten track: long traces, many labels against an axiom, labels at odds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fotltn.grounding.labels import Labels
from fotltn.logic.check import check
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.posterior import Posterior, sample
from fotltn.posterior.sampler import Sampling
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory


def sampled(
    text: str, sizes: Mapping[str, int], points: int, learned: list[str],
    labels: Mapping[str, tuple[Tensor, Tensor]], **options: Any,
) -> Posterior:  # fmt: skip
    """Worlds of one trace, with labels by predicate: index and truth."""
    theory = check(parse_theory(text))
    tables = Tables(
        sizes, torch.tensor([points]), points, options.pop("given", {}), signature=theory.signature
    )
    told = Labels({n: i for n, (i, _) in labels.items()}, {n: t for n, (_, t) in labels.items()})
    return sample(theory, tables, told, learned, **options)


def grid(*sizes: int) -> Tensor:
    """The index of every cell of the only trace."""
    return torch.cartesian_prod(torch.arange(1), *map(torch.arange, sizes)).T


def test_long_traces_are_drawn():
    # All that is drawn of a long track weighs almost nothing, since so many labels are unlikely.
    points = 4000
    truth = (torch.arange(points) // 7 % 2).bool()
    generator = torch.Generator().manual_seed(0)
    labels = truth ^ (torch.rand(points, generator=generator) < 0.1)
    posterior = sampled(
        "sort a\npredicate P(a)\naxiom A: forall x. G(P(x) -> P(x))", {"a": 1}, points, ["P"],
        {"P": (grid(1, points), labels.double())},
        rates={"P": NoiseRates(0.1, 0.1)}, sampling=Sampling(2, 4, 4),
    )  # fmt: skip
    assert float(((posterior.marginals["P"][0, 0] > 0.5) == truth).double().mean()) > 0.9
