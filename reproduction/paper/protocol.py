"""The paper's protocol: the runs, and the facts that each of them learns from.

Choices that the paper does not state are a `Setting`, the same for all fractions and both data
sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import torch

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.grounding.facts import Facts, read_facts
from fotltn.grounding.labels import Labels, labels
from fotltn.grounding.split import flip, split
from fotltn.logic.check import CheckedTheory, check
from fotltn.project.scene import LEARNED, THEORY, Scene, Size, facts, generate
from fotltn.semantics.config import named
from fotltn.semantics.sparse import sparse_table
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import load_theory
from reproduction.paper.carped import CARPED35K, CARPED180K
from reproduction.paper.published import FRACTIONS, METHODS, REPETITIONS

DATA: dict[str, Size] = {"CarPed35K": CARPED35K, "CarPed180K": CARPED180K}
FLIPS = 0.1
TYPES = ("once", "all", "every step")


@dataclass(frozen=True, slots=True)
class Setting:
    """Choices that the paper leaves open.

    Args:
        scale: the standard deviation of initial embeddings.
        types: how type facts are stated: "once" for each agent and sampled like all others; "all"
            of them as facts for training and also for testing; or at "every step", where they are
            sampled and flipped at each. With "every step", test facts are as with "once", so the
            type of a test agent may be stated at some steps. All other facts for training and
            testing are disjoint in any case.
        flip_types: whether type facts are flipped like all others.
        patience: the number of epochs without a better loss after which a run stops.
        epochs: the limit on epochs.
        rate: the learning rate.
        p: the exponent of all means.
        keep_best: whether predictions come from the best epoch rather than the last.
        semantics: the name of the semantics; "ltn" has the projections away from 0 and 1.
        watch: the share of training facts held back for early stopping; with 0, the training loss
            is watched.
        holdout: the share of the (noisy) training facts that replaces the test facts, to choose a
            setting by; 0 for none.

    Raises:
        DataError: a value is out of range or unknown.
    """

    scale: float = 1.0
    types: str = "once"
    flip_types: bool = True
    patience: int = 30
    epochs: int = 500
    rate: float = 0.005
    p: float = 4.0
    keep_best: bool = True
    semantics: str = "stable-product"
    watch: float = 0.0
    holdout: float = 0.0

    def __post_init__(self) -> None:
        """Raise an error if a value is out of range or unknown."""
        if self.types not in TYPES:
            hint = did_you_mean(self.types, TYPES) or f"there are {listing(TYPES)}"
            raise DataError(f"type facts cannot be stated '{self.types}'; {hint}")
        named(self.semantics).with_p(self.p)
        for what, count in (("epochs", self.epochs), ("patience", self.patience)):
            if count < 1:
                raise DataError(f"{what} must be a whole number of at least 1, not {count}")
        for what, share in (("watch", self.watch), ("holdout", self.holdout)):
            if not 0 <= share < 1:
                raise DataError(f"the share to {what} must be in [0, 1), not {share}")
        if not (0 <= self.scale < math.inf and 0 < self.rate < math.inf):
            raise DataError(
                f"the scale must be at least 0 and the rate above 0, not {self.scale} and "
                f"{self.rate}"
            )


#: The reading that the reproduction uses: embeddings with PyTorch's default initialisation, and
#: type facts known to all methods, because they are the nodes' types in HTGNN's graph.
READING = Setting(scale=1.0, types="all", flip_types=False)


@dataclass(frozen=True, slots=True)
class Run:
    """One run: a data set, a method, the share of facts that it learns from, and a repetition.

    The share is in whole percents, so no two runs of a method have the same seed.

    Raises:
        DataError: there is no such data set, or a number is out of range.
    """

    data: str
    method: str
    fraction: float
    repetition: int

    def __post_init__(self) -> None:
        """Raise an error if the run is not valid."""
        _known_data(self.data)
        if not 0 < self.fraction < 1 or round(self.fraction, 2) != self.fraction:
            raise DataError(
                f"a fraction of the facts must be in whole percents from 0.01 to 0.99, not "
                f"{self.fraction}"
            )
        if self.repetition < 0:
            raise DataError(f"a repetition must be at least 0, not {self.repetition}")

    @property
    def seed(self) -> int:
        """The seed of all draws of this run; methods share it, so they share their facts."""
        return (
            1_000_003 * list(DATA).index(self.data)
            + 1009 * self.repetition
            + round(100 * self.fraction)
        )


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A data set: its scene, theory and facts, and the table of Close."""

    name: str
    scene: Scene
    theory: CheckedTheory
    facts: Facts
    every: Labels
    close: Tables = field(repr=False)


@cache
def theory() -> CheckedTheory:
    """Return the paper's theory of thirteen axioms."""
    return check(load_theory(THEORY))


def _known_data(name: str) -> None:
    if name not in DATA:
        hint = did_you_mean(name, DATA) or f"there are {listing(DATA)}"
        raise DataError(f"unknown data set '{name}'; {hint}")


@cache
def world(name: str) -> World:
    """Return a data set by name; there is one scene of each size."""
    _known_data(name)
    scene = generate(*DATA[name], seed=0)
    stated = read_facts([facts(scene)], theory().signature, horizon=scene.size.steps)
    every = labels(stated, theory().signature, LEARNED, dtype=torch.float32)
    names = {n: i for i, n in enumerate(stated.entities["agent"])}
    assert tuple(names) == scene.agents, "facts must name agents in the order of the scene"
    first, second, time = np.nonzero(scene.tables()["Close"])
    index = torch.from_numpy(np.stack([np.zeros_like(time), first, second, time]))
    agents, steps = len(names), scene.size.steps
    close = sparse_table(
        index, torch.ones(len(time), dtype=torch.float32), (1, agents, agents, steps)
    )
    tables = Tables(
        {"agent": agents},
        torch.tensor([steps]),
        steps,
        {"Close": close},
        constants={"agent": names},
    )
    return World(name, scene, theory(), stated, every, tables)


def facts_of(run: Run, setting: Setting) -> tuple[Labels, Labels]:
    """Return the facts that a run learns from, each flipped with probability 0.1, and the rest."""
    train, test = split(world(run.data).every, run.fraction, by="facts", seed=run.seed)
    if setting.types == "every step":
        train = _at_every_step(train, run)
    elif setting.types == "all":
        every = world(run.data).every
        train, test = (_with_types(part, every) for part in (train, test))
    flipped = None if setting.flip_types else [n for n in LEARNED if n not in ("Car", "Ped")]
    noisy, _ = flip(train, FLIPS, run.seed, predicates=flipped)
    if setting.holdout:
        return split(noisy, 1 - setting.holdout, by="facts", seed=run.seed)
    return noisy, test


def _with_types(part: Labels, every: Labels) -> Labels:
    """Add all type facts to labels."""
    types = ("Car", "Ped")
    return replace(
        part,
        index={**part.index, **{n: every.index[n] for n in types}},
        truth={**part.truth, **{n: every.truth[n] for n in types}},
    )


def _at_every_step(train: Labels, run: Run) -> Labels:
    """State type facts at every step and sample a share, so that most agents have some."""
    steps = world(run.data).scene.size.steps
    draw = torch.Generator().manual_seed(run.seed)
    index, truth = dict(train.index), dict(train.truth)
    every = world(run.data).every
    for name in ("Car", "Ped"):
        count = every.truth[name].shape[0]
        chosen = (torch.rand(count, steps, generator=draw) < run.fraction).nonzero()[:, 0]
        index[name] = every.index[name][:, chosen]
        truth[name] = every.truth[name][chosen]
    return replace(train, index=index, truth=truth)


def grid(
    data: tuple[str, ...] = tuple(DATA),
    methods: tuple[str, ...] = METHODS,
    fractions: tuple[float, ...] = FRACTIONS,
    repetitions: int = REPETITIONS,
) -> Iterator[Run]:
    """Yield all runs, grouped by data set and method.

    Raises:
        DataError: a method or data set is unknown, or a fraction is out of range.
    """
    for name in data:
        for method in methods:
            if method not in METHODS:
                hint = did_you_mean(method, METHODS) or f"there are {listing(METHODS)}"
                raise DataError(f"unknown method '{method}'; {hint}")
            for fraction in fractions:
                for repetition in range(repetitions):
                    yield Run(name, method, fraction, repetition)
