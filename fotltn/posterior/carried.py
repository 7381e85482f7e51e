"""The results of learning while worlds are sampled, to sample worlds of other data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from fotltn.logic.text import text_of
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.prior import Prior
from fotltn.posterior.sampler import Sampler

#: The names of the tables of a prior.
PARTS = ("initial", "moves", "static")


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """Everything learned that worlds of other data are sampled with.

    Args:
        rates: the rates of wrong labels, by predicate.
        tables: the learned prior of tracks, by table and names of predicates.
        conditions: for each group of predicates, what its prior depends on.
        exponents: the exponents of networks, by predicate.
        bases: the mean logits of networks, by predicate, which are subtracted from their logits.
        weights: the learned weights of soft axioms.
    """

    rates: Mapping[str, NoiseRates]
    tables: Mapping[str, Mapping[tuple[str, ...], Tensor]] = field(default_factory=dict)
    conditions: Mapping[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    exponents: Mapping[str, float] = field(default_factory=dict)
    bases: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)


def learned_by(
    sampler: Sampler,
    exponents: Mapping[str, float] | None = None,
    bases: Mapping[str, float] | None = None,
) -> Carried:
    """Collect everything that a sampler has learned, except networks."""
    tables = {part: dict(getattr(sampler.prior, part)) for part in PARTS}
    return Carried(
        dict(sampler.evidence.rates), tables, _conditions(sampler), dict(exponents or {}),
        dict(bases or {}), sampler.learned_weights,
    )  # fmt: skip


def take_over(sampler: Sampler, carried: Carried) -> tuple[tuple[str, ...], ...]:
    """Give a sampler of other data the prior learned before, which it then keeps.

    Returns:
        The groups of predicates whose prior depends on other things than before. The sampler learns
        their prior again.
    """
    here, strange = _conditions(sampler), set[tuple[str, ...]]()
    for part in PARTS:
        tables = getattr(sampler.prior, part)
        for names, table in tables.items():
            old = carried.tables.get(part, {}).get(names)
            same = here.get(names) == carried.conditions.get(names)
            if old is None or old.shape != table.shape or not same:
                strange.add(names)
            else:
                tables[names] = old.to(table)
    sampler.teaches = [names & strange for names in sampler.teaches]
    return tuple(sorted(strange))


def _conditions(sampler: Sampler) -> dict[tuple[str, ...], tuple[str, ...]]:
    """For each group that changes: the conditions, bits and memories that its prior depends on."""
    result: dict[tuple[str, ...], tuple[str, ...]] = {}
    for mover in sampler.movers:
        for number, group in enumerate(mover.prior.groups):
            result.setdefault(group.names, _told(mover.prior, number))
    return result


def _told(prior: Prior, number: int) -> tuple[str, ...]:
    bits, group = prior.kind.moving.bits, prior.groups[number]
    static = prior.kind.shape.static if group.statics > 1 else ()
    return (
        *(text_of(prior.kind.conditions[number]) for number in group.conditions),
        *(bits[bit].predicate for bit in (*static, *group.beside)),
        *(prior.choices.axioms[number] if group.memories > 1 else ()),
    )
