"""Split labels into two groups, at random or by time, and put errors into labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal, TypeVar

import torch
from torch import Tensor

from fotltn.errors import DataError, listing, name_hint
from fotltn.grounding.labels import Labels

K = TypeVar("K")

#: The things that labels can be split by.
Split = Literal["facts", "entities", "traces", "time"]


def split(
    labels: Labels,
    share: float,
    *,
    by: Split = "facts",
    seed: int,
    stratified: bool = True,
    sort: str | None = None,
) -> tuple[Labels, Labels]:
    """Split labels into two groups, such as for training and testing.

    The groups depend only on the labels and the seed, not on other random numbers. Each group keeps
    the order of its facts.

    Args:
        labels: the labels to split.
        share: the share of the facts, entities, traces or time points for the first group. The
            number is rounded.
        by: what to draw at random, from everything the labels mention. With "entities", a fact that
            mentions an entity of the second group is in the second group, and all others are in the
            first. With "time", nothing is drawn: the first group gets static facts and the earliest
            time points of each trace.
        seed: the seed of the draw.
        stratified: with "facts", give both groups their share of each predicate's true facts (of
            degree 0.5 or more) and of its false facts, up to rounding.
        sort: with "entities", their sort; may be left out if labels mention only one sort. With
            "time", each entity of that sort has its own earliest time points in each trace; a fact
            about several such entities is in the first group if it is early for all of them, and a
            fact about none follows its trace.

    Raises:
        DataError: the share is not from 0 to 1, or labels do not mention entities of that sort.
    """
    _check_share("share", share)
    generator = _generator(seed)
    match by:
        case "facts":
            first = _by_facts(labels, share, stratified, generator)
        case "entities":
            first = _by_entities(labels, share, _sort(labels, sort), generator)
        case "traces":
            groups = {name: index[0] for name, index in labels.index.items()}
            first = {n: ~mask for n, mask in _second(groups, share, generator).items()}
        case "time":
            first = _by_time(labels, share, None if sort is None else _sort(labels, sort))
        case _:
            raise DataError(f"labels can be split by facts, entities, traces or time, not '{by}'")
    return labels.take(first), labels.take({name: ~mask for name, mask in first.items()})


def flip(
    labels: Labels,
    rate: float,
    seed: int,
    *,
    predicates: Iterable[str] | None = None,
    exact: bool = False,
) -> tuple[Labels, dict[str, Tensor]]:
    """Put errors into labels: a degree y becomes 1 - y.

    Use it to measure how a method copes with wrong labels.

    Args:
        labels: the labels; they are not changed.
        rate: the probability of an error, independently for each fact.
        seed: the seed of the draw.
        predicates: the predicates that get errors; by default, all.
        exact: flip exactly this share of each predicate's facts, rounded, instead of drawing each
            fact.

    Returns:
        The labels with errors, and for each predicate a mask of the flipped facts, shape (fact,).

    Raises:
        DataError: the rate is not from 0 to 1, or a predicate has no labels.
    """
    _check_share("rate", rate)
    generator = _generator(seed)
    chosen = labels.truth if predicates is None else labels.only(predicates).truth
    flipped = {n: torch.zeros(t.shape[0], dtype=torch.bool) for n, t in labels.truth.items()}
    for name in chosen:
        count = labels.truth[name].shape[0]
        if exact:
            drawn = torch.randperm(count, generator=generator)[: round(rate * count)]
            flipped[name][drawn] = True
        else:
            draws = torch.rand(count, generator=generator, dtype=torch.float64)
            flipped[name] = draws < rate
    flipped = {n: mask.to(labels.truth[n].device) for n, mask in flipped.items()}
    truth = {n: torch.where(flipped[n], 1 - t, t) for n, t in labels.truth.items()}
    return replace(labels, truth=truth), flipped


def _by_facts(
    labels: Labels, share: float, stratified: bool, generator: torch.Generator
) -> dict[str, Tensor]:
    sizes = [truth.shape[0] for truth in labels.truth.values()]
    if not sizes:
        return {}
    truths = torch.cat([truth.cpu() for truth in labels.truth.values()])
    groups = torch.zeros(len(truths), dtype=torch.int64)
    if stratified:
        predicate = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        groups = 2 * predicate + (truths >= 0.5)
    members = [(groups == group).nonzero()[:, 0] for group in groups.unique().tolist()]
    first = torch.zeros(len(truths), dtype=torch.bool)
    for group, count in zip(members, _counts([len(m) for m in members], share), strict=True):
        order = torch.randperm(len(group), generator=generator)
        first[group[order[:count]]] = True
    masks = zip(labels.truth.items(), first.split(sizes), strict=True)
    return {name: mask.to(truth.device) for (name, truth), mask in masks}


def _counts(sizes: list[int], share: float) -> list[int]:
    """Return whole counts that sum to the rounded share of the total, by largest remainders."""
    counts = [math.floor(share * size) for size in sizes]
    rests = [share * size - count for size, count in zip(sizes, counts, strict=True)]
    order = sorted(range(len(sizes)), key=lambda i: -rests[i])
    for i in order[: round(share * sum(sizes)) - sum(counts)]:
        counts[i] += 1
    return counts


def _by_entities(
    labels: Labels, share: float, sort: str, generator: torch.Generator
) -> dict[str, Tensor]:
    largest = max((int(i.max()) for i in labels.index.values() if i.numel()), default=0) + 1
    places: dict[tuple[str, int], Tensor] = {}
    for name, sorts in labels.sorts.items():
        for place, argument in enumerate(sorts):
            if argument == sort:
                trace, entity = labels.index[name][0], labels.index[name][1 + place]
                places[name, place] = trace * largest + entity if sort in labels.local else entity
    second = _second(places, share, generator)
    first = {n: torch.ones_like(t, dtype=torch.bool) for n, t in labels.truth.items()}
    for (name, _), mask in second.items():
        first[name] = first[name] & ~mask
    return first


def _by_time(labels: Labels, share: float, sort: str | None) -> dict[str, Tensor]:
    """Return masks of facts that are static, or early in their trace or for all their entities."""
    moving = {n: index for n, index in labels.index.items() if n not in labels.static}
    largest = max((int(i.max()) for i in moving.values() if i.numel()), default=0) + 1
    keys: dict[tuple[str, int], Tensor] = {}  # by predicate and argument: trace and entity
    for name, index in moving.items():
        places = [i for i, s in enumerate(labels.sorts[name], 1) if sort is not None and s == sort]
        for place in places or [0]:
            entity = index[place] + 1 if place else torch.zeros_like(index[0])
            keys[name, place] = index[0] * (largest + 1) + entity
    first = {n: torch.ones_like(t, dtype=torch.bool) for n, t in labels.truth.items()}
    if not keys:
        return first
    cells = [torch.stack([key, moving[name][-1]]).cpu() for (name, _), key in keys.items()]
    ends = _ends(torch.cat(cells, dim=1).unique(dim=1), share)
    for (name, _), key in keys.items():
        last = torch.tensor([ends[k] for k in key.tolist()], device=key.device)
        first[name] = first[name] & (moving[name][-1] < last)
    return first


def _ends(times: Tensor, share: float) -> dict[int, int]:
    """Return the first late time point of each key, given distinct columns (key, time)."""
    by_key: dict[int, list[int]] = {}
    for key, time in times.T.tolist():
        by_key.setdefault(key, []).append(time)
    ends = {}
    for key, points in by_key.items():
        early = sorted(points)[: round(share * len(points))]
        ends[key] = early[-1] + 1 if early else 0
    return ends


def _second(
    groups: Mapping[K, Tensor], share: float, generator: torch.Generator
) -> dict[K, Tensor]:
    """Return masks of the members of each column that are drawn for the second group."""
    if not groups:
        return {}
    members = torch.cat([column.cpu() for column in groups.values()]).unique()
    order = torch.randperm(len(members), generator=generator)
    second = members[order[round(share * len(members)) :]]
    return {key: torch.isin(column, second.to(column.device)) for key, column in groups.items()}


def _sort(labels: Labels, sort: str | None) -> str:
    known = list(dict.fromkeys(s for sorts in labels.sorts.values() for s in sorts))
    if sort is None:
        if len(known) != 1:
            raise DataError(f"name the sort of the entities to split by: {listing(known)}")
        return known[0]
    if sort not in known:
        raise DataError(f"no labels mention entities of sort '{sort}'; {name_hint(sort, known)}")
    return sort


def _check_share(what: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise DataError(f"the {what} must be a number from 0 to 1, not {value}")


def _generator(seed: int) -> torch.Generator:
    if not 0 <= seed < 2**63:
        raise DataError(f"a seed must be a whole number from 0 to 2**63 - 1, not {seed}")
    return torch.Generator().manual_seed(seed)
