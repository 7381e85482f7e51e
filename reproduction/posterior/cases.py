"""Three worlds with labels of a share of their facts: the input of the methods.

Methods assume one pair of rates of wrong labels for all predicates of a world. In deliveries and in
the ward, the true rates differ by predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial

import pyarrow as pa
import pyarrow.compute as pc
import torch

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.facts import Facts, read_facts
from fotltn.grounding.labels import Labels, labels
from fotltn.grounding.split import split
from fotltn.logic.check import CheckedTheory, check
from fotltn.posterior.evidence import NoiseRates
from fotltn.project import scene
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import load_theory
from reproduction.deliveries import limit as deliveries_limit
from reproduction.deliveries import study as deliveries_study
from reproduction.deliveries import world as deliveries
from reproduction.paper import bayes
from reproduction.paper.carped import CARPED35K
from reproduction.paper.protocol import FLIPS, Run, Setting, facts_of
from reproduction.recipe.recipe import DEFINITIONS
from reproduction.ward import limit as ward_limit
from reproduction.ward import world as ward

#: The worlds, by their names in records.
WORLDS = ("deliveries", "CarPed35K", "ward")

Degrees = Mapping[str, torch.Tensor]
Limit = Callable[[Labels, int, str], Degrees]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """What one run learns from, and is tested on.

    Args:
        theory: the theory.
        facts: the names of traces and entities, and all facts.
        stated: the facts of given predicates, as a table of rows.
        tables: the same facts, as tensors.
        learned: the learned predicates.
        train: noisy labels.
        test: clean labels of all other facts.
        told: the rates of wrong labels that methods assume.
        define: further definitions of predicates by name, with the variable x.
        seed: the seed of all draws of the run.
        limit: the Bayes limit: from labels, a seed and a device to probabilities, shape (trace,
            *arguments, time).
        limit_from_truth: the same from chains that start at the truth, if the sampler can do that.
    """

    theory: CheckedTheory
    facts: Facts
    stated: pa.Table
    tables: Tables
    learned: tuple[str, ...]
    train: Labels
    test: Labels
    told: NoiseRates
    define: Mapping[str, str]
    seed: int
    limit: Limit = field(repr=False)
    limit_from_truth: Limit | None = field(default=None, repr=False)


def case(world: str, fraction: float, repetition: int) -> Case:
    """Return the labels of one run, the same for all methods.

    Raises:
        DataError: there is no such world.
    """
    match world:
        case "deliveries":
            return _deliveries(fraction, repetition)
        case "CarPed35K":
            return _cars(fraction, repetition)
        case "ward":
            return _ward(fraction, repetition)
        case _:
            hint = did_you_mean(world, WORLDS) or f"there are {listing(WORLDS)}"
            raise DataError(f"unknown world '{world}'; {hint}")


def every(world: str) -> Labels:
    """Return all facts of a world's learned predicates, without noise.

    Raises:
        DataError: there is no such world.
    """
    sources = {"deliveries": _deliveries_source, "CarPed35K": _cars_source, "ward": _ward_source}
    if world not in sources:
        hint = did_you_mean(world, WORLDS) or f"there are {listing(WORLDS)}"
        raise DataError(f"unknown world '{world}'; {hint}")
    return sources[world]().every


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """A world that has been read."""

    theory: CheckedTheory
    facts: Facts
    stated: pa.Table
    tables: Tables
    every: Labels


def read_world(
    theory: CheckedTheory, table: pa.Table, learned: Sequence[str], steps: int
) -> _Source:
    """Read a world from its theory and the table of all its facts."""
    stated = read_facts([table], theory.signature, horizon=steps)
    tables = tables_of_facts(stated, theory.signature)
    known = {name: one for name, one in tables.predicates.items() if name not in learned}
    every = labels(stated, theory.signature, learned, dtype=torch.float32)
    rest = table.filter(pc.invert(pc.is_in(table["predicate"], pa.array(learned))))
    return _Source(theory, stated, rest, replace(tables, predicates=known), every)


# --- deliveries ------------------------------------------------------------------------------


@cache
def _deliveries_source() -> _Source:
    theory = check(load_theory(deliveries.THEORY))
    made = deliveries.generate(seed=0)
    return read_world(theory, deliveries.facts(made), deliveries.LEARNED, made.size.steps)


def _deliveries(fraction: float, repetition: int) -> Case:
    source = _deliveries_source()
    train, test = deliveries_study.sample(source.every, fraction, repetition)

    def limit(train: Labels, seed: int, device: str) -> Degrees:
        known = deliveries.generate(seed=0).known
        means = deliveries_limit.posterior(known, train, seed=seed, device=device)
        return {name: table[None] for name, table in means.items()}

    told = NoiseRates(deliveries_study.MISSED, deliveries_study.INVENTED)
    return Case(
        source.theory, source.facts, source.stated, source.tables, deliveries.LEARNED, train, test,
        told, {}, repetition, limit,
    )  # fmt: skip


# --- cars ------------------------------------------------------------------------------------


@cache
def _cars_source() -> _Source:
    """Read the paper's scene; its axioms hold, except where the trace ends."""
    theory = check(load_theory(scene.THEORY))
    hard = replace(theory, axioms=tuple(replace(axiom, hard=True) for axiom in theory.axioms))
    made = scene.generate(*CARPED35K, seed=0)
    return read_world(hard, scene.facts(made), scene.LEARNED, made.size.steps)


def _cars(fraction: float, repetition: int) -> Case:
    """Build a case without known types: their facts are sampled and noisy like all others."""
    source = _cars_source()
    run = Run("CarPed35K", "Recipe", fraction, repetition)
    train, test = facts_of(run, Setting(types="once", flip_types=True))

    def limit(train: Labels, seed: int, device: str) -> Degrees:
        close = scene.generate(*CARPED35K, seed=0).close
        means = bayes.posterior(close, CARPED35K, train, FLIPS, seed=seed, device=device)
        return {name: table[None] for name, table in means.items()}

    return Case(
        source.theory, source.facts, source.stated, source.tables, scene.LEARNED, train, test,
        NoiseRates(FLIPS, FLIPS), DEFINITIONS, run.seed, limit,
    )  # fmt: skip


# --- the ward --------------------------------------------------------------------------------

#: The rates of wrong labels that methods assume for the ward.
WARD_TOLD = NoiseRates(0.2, 0.02)


@cache
def _ward_source() -> _Source:
    theory = check(load_theory(ward.THEORY))
    made = ward.generate(seed=0)
    return read_world(theory, ward.facts(made), ward.LEARNED, made.size.steps)


def _ward(fraction: float, repetition: int) -> Case:
    source = _ward_source()
    train, test = split(source.every, fraction, by="facts", seed=1000 + repetition)
    noisy = deliveries.noisy(train, 1000 + repetition, rates=ward.RATES)

    made = ward.generate(seed=0)

    def limit(train: Labels, seed: int, device: str, start: ward.Ward | None = None) -> Degrees:
        return ward_limit.posterior(made.rota, train, seed=seed, start=start, device=device)

    return Case(
        source.theory, source.facts, source.stated, source.tables, ward.LEARNED, noisy, test,
        WARD_TOLD, {}, repetition, limit, partial(limit, start=made),
    )  # fmt: skip
