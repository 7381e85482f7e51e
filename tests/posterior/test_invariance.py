"""Names, and the order of axioms and entities, change nothing beyond the error of a sample."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from fotltn.grounding.labels import Labels
from fotltn.logic.check import check
from fotltn.posterior.impossible import NoWorldError
from fotltn.posterior.posterior import Posterior
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sample
from fotltn.posterior.sampler import Sampling
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from tests.posterior.oracle import Case, case

SAMPLING = Sampling(worlds=24, burn_in=10, sweeps=40, stored=40, learn=False)

#: A case after a change, and how to read its tables as those of the case.
Changed = tuple[Case, Callable[[str, Tensor], Tensor]]

NAMES = {"P": "Zeta", "Q": "Alpha", "Tie": "Mu", "V": "Beta", "D": "Kappa", "E": "Nu",
         "Fix": "Omega", "Near": "Chi", "Has": "Psi", "K": "Tau"}  # fmt: skip


def renamed(one: Case) -> Changed:
    """Other names for all symbols and axioms, so that they are in another order."""
    text = one.text
    for old, new in NAMES.items():
        text = re.sub(rf"\b{old}\b", new, text)
    text = re.sub(r"axiom (\w+)", r"axiom Z\1", text)
    text = re.sub(r"\bx(\d*)\b", r"q\1", text)
    theory = check(parse_theory(text))

    def named(tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {NAMES[n]: t for n, t in tables.items()}

    labels = Labels(named(one.labels.index), named(one.labels.truth))
    predicates = {NAMES[n]: t for n, t in one.tables.predicates.items()}
    tables = replace(one.tables, predicates=predicates, signature=theory.signature)
    rates = {NAMES[n]: r for n, r in one.rates.items()}
    learned = tuple(NAMES[n] for n in one.learned)
    made = replace(
        one, theory=theory, tables=tables, labels=labels, learned=learned, rates=rates, text=text
    )
    return made, lambda _, table: table


def reordered(one: Case) -> Changed:
    """Axioms and learned predicates the other way round."""
    axioms = tuple(reversed(one.theory.axioms))
    made = replace(
        one, theory=replace(one.theory, axioms=axioms), learned=tuple(reversed(one.learned))
    )
    return made, lambda _, table: table


def mirrored(one: Case) -> Changed:
    """Entities and traces the other way round."""
    signature = one.theory.signature

    def turned(name: str, table: Tensor) -> Tensor:
        return table.flip(list(range(1 + len(signature.predicates[name].sorts))))

    predicates = {n: turned(n, one.tables.predicate(n)) for n in one.tables.predicates}
    tables = replace(one.tables, predicates=predicates, lengths=one.tables.lengths.flip(0))
    index = {}
    for name, cells in one.labels.index.items():
        sizes = [tables.batch, *(tables.sizes[s] for s in signature.predicates[name].sorts)]
        rows = [size - 1 - row for size, row in zip(sizes, cells, strict=False)]
        index[name] = torch.stack([*rows, cells[-1]])
    labels = replace(one.labels, index=index)
    return replace(one, tables=tables, labels=labels), turned


def drawn(one: Case, seed: int) -> Posterior:
    problem = Problem(
        one.theory, one.tables, one.labels, one.learned, rates=one.rates,
        sampling=replace(SAMPLING, seed=seed), end=one.end,
    )  # fmt: skip
    return sample(problem)


@cache
def original(number: int) -> tuple[Case, Posterior | None]:
    """A case as it is, drawn once; None if no world obeys."""
    one = case(number)
    try:
        return one, drawn(one, 1)
    except NoWorldError:
        return one, None


def differences(
    first: Posterior, second: Posterior, one: Case, name: str, other: str,
    back: Callable[[str, Tensor], Tensor],
) -> list[float]:  # fmt: skip
    """By how many standard errors the probabilities of atoms differ, inside of traces."""
    shares = []
    for posterior, called in ((first, name), (second, other)):
        worlds = posterior.worlds[called].double()
        chains = worlds.reshape(-1, posterior.chains, *worlds.shape[1:]).mean(0)
        shares.append(
            torch.stack([back(name, c) for c in chains]) if posterior is second else chains
        )
    means = [s.mean(0) for s in shares]
    errors = [
        torch.maximum(s.var(0), m * (1 - m) / SAMPLING.sweeps) / SAMPLING.worlds
        for s, m in zip(shares, means, strict=True)
    ]
    error = (errors[0] + errors[1]).sqrt()
    inside = one.tables.inside.reshape(one.tables.batch, *[1] * (error.dim() - 2), -1)
    counts = inside[..., : error.shape[-1]] & (error > 1e-6)
    same = means[0] == means[1]
    assert bool((same | (error > 1e-6) | ~inside[..., : error.shape[-1]]).all())
    values: list[float] = ((means[0] - means[1]) / error.clamp_min(1e-9))[counts].tolist()
    return values


def compare(change: Callable[[Case], Changed], seeds: range) -> None:
    """Sample cases as they are and after a change."""
    values: list[float] = []
    cases = 0
    for seed in seeds:
        one, first = original(seed)
        other, back = change(one)
        if first is None:
            with pytest.raises(NoWorldError):
                drawn(other, 2)
            continue
        second = drawn(other, 2)
        cases += 1
        for name in one.learned:
            called = NAMES[name] if change is renamed else name
            values += differences(first, second, one, name, called, back)
    assert cases > len(seeds) / 2
    assert max(map(abs, values)) < 5.5
    assert 0.7 < math.sqrt(sum(v * v for v in values) / len(values)) < 1.3


CHANGES = pytest.mark.parametrize("change", [renamed, reordered, mirrored])


@CHANGES
def test_probabilities_stay_the_same(change):
    compare(change, range(7))


@pytest.mark.slow
@CHANGES
def test_probabilities_of_further_theories_stay_the_same(change):
    compare(change, range(7, 60))


def test_traces_of_different_lengths_do_not_touch_each_other():
    """Each trace is as if it were alone."""
    values: list[float] = []
    for seed in range(40):
        if case(seed).tables.batch < 2:
            continue
        one, both = original(seed)
        if both is None:
            continue
        for trace in range(one.tables.batch):
            alone = drawn(_alone(one, trace), 2)
            for name in one.learned:
                times = both.worlds[name].shape[-1]
                cut = both.worlds[name][:, trace : trace + 1]
                part = replace(both, worlds={name: cut[..., : int(alone.worlds[name].shape[-1])]})
                assert times >= alone.worlds[name].shape[-1]
                values += differences(
                    part, alone, _alone(one, trace), name, name, lambda _, table: table
                )
    assert len(values) > 20
    assert max(map(abs, values)) < 5.5
    assert 0.7 < math.sqrt(sum(v * v for v in values) / len(values)) < 1.3


def _alone(one: Case, trace: int) -> Case:
    """One trace of a case, cut at its end."""
    tables, length = one.tables, int(one.tables.lengths[trace])
    predicates = {
        n: tables.predicate(n)[trace : trace + 1, ..., :length] for n in tables.predicates
    }
    cut: Tables = replace(
        tables, lengths=tables.lengths[trace : trace + 1], horizon=length, predicates=predicates
    )
    labels = one.labels.take({n: index[0] == trace for n, index in one.labels.index.items()})
    index = {n: torch.cat([torch.zeros_like(i[:1]), i[1:]]) for n, i in labels.index.items()}
    return replace(one, tables=cut, labels=replace(labels, index=index))


LARGER = """
sort a, b
predicate P(a), Q(a), V(b), Near(a, b)
static predicate Fix(a)
hard axiom Def: forall y. G(V(y) <-> exists x. Near(x, y) & P(x))
hard axiom Ends: forall x. G(P(x) -> F[<=3] (!P(x) | last))
hard axiom Fixed: forall x. Fix(x) <-> F P(x)
axiom Apart weight 1.5: forall x. G(!(P(x) & Q(x)))
"""


def learning(work: Case, seed: int) -> Posterior:
    """What is learned on the way: the prior, and all rates."""
    sampling = Sampling(worlds=16, burn_in=20, sweeps=30, seed=seed)
    rates = dict.fromkeys(work.learned)
    problem = Problem(
        work.theory, work.tables, work.labels, work.learned, rates=rates, sampling=sampling
    )
    return sample(problem)


@cache
def learned_twice() -> tuple[Case, Posterior, Posterior]:
    """A case as it is, with two seeds."""
    one = _larger()
    return one, learning(one, 1), learning(one, 2)


@pytest.mark.parametrize(
    "change", [renamed, pytest.param(reordered, marks=pytest.mark.slow), mirrored]
)
def test_what_is_learned_on_the_way_stays_the_same(change):
    one, first, again = learned_twice()
    other, back = change(one)
    second = learning(other, 3)

    def distance(that: Posterior, names: Mapping[str, str], turned: bool) -> float:
        total = 0.0
        for name in one.learned:
            table = that.marginals[names.get(name, name)]
            table = back(name, table) if turned else table
            total += float((first.marginals[name] - table).abs().mean()) / len(one.learned)
        return total

    by_chance = distance(again, {}, turned=False)
    changed = distance(second, NAMES if change is renamed else {}, turned=True)
    assert by_chance < 0.05
    assert changed < 2 * by_chance + 0.005


def _larger() -> Case:
    """Labels of a random world that obeys the axioms, a tenth of them wrong."""
    theory = check(parse_theory(LARGER))
    generator = torch.Generator().manual_seed(5)
    first, second, steps = 16, 6, 20
    near = torch.rand(1, first, second, steps, generator=generator) < 0.15
    starts = torch.rand(1, first, steps, generator=generator) < 0.1
    on = starts | starts.roll(1, -1)
    on[..., 0] = False
    truth = {"P": on, "V": (near & on.unsqueeze(2)).any(1), "Fix": on.any(-1, keepdim=True)}
    truth["Q"] = ~on & (torch.rand(on.shape, generator=generator) < 0.5)
    index, values = {}, {}
    for name, table in truth.items():
        seen = torch.rand(table.shape, generator=generator) < 0.3
        wrong = torch.rand(table.shape, generator=generator) < 0.1
        index[name], values[name] = seen.nonzero().T, (table ^ wrong)[seen].double()
    tables = Tables(
        {"a": first, "b": second}, torch.tensor([steps]), steps, {"Near": near.double()},
        signature=theory.signature,
    )  # fmt: skip
    return Case(
        theory, tables, Labels(index, values), ("P", "Q", "V", "Fix"), {}, LARGER, "undecided"
    )
