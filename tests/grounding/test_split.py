"""Splits and noise: the right shares, the same every time, and nothing lost."""

from typing import Any

import pytest
import torch

from fotltn import DataError
from fotltn.grounding.labels import Labels
from fotltn.grounding.split import flip, split


def make(seed: int = 0, local: bool = False) -> Labels:
    """Labels of a unary, a binary and a nullary predicate, rarely true, in 6 traces."""
    g = torch.Generator().manual_seed(seed)

    def table(places: int, count: int, share: float) -> tuple[torch.Tensor, torch.Tensor]:
        sizes = [6, *[10] * places, 7]
        cells = torch.cartesian_prod(*(torch.arange(n) for n in sizes))
        index = cells[torch.randperm(len(cells), generator=g)[:count]].T.contiguous()
        return index, (torch.rand(index.shape[1], generator=g) < share).double()

    made = {"Stop": table(1, 300, 0.2), "Close": table(2, 501, 0.05), "Rain": table(0, 20, 0.5)}
    sorts = {"Stop": ("agent",), "Close": ("agent", "place"), "Rain": ()}
    return Labels(
        {n: i for n, (i, _) in made.items()},
        {n: t for n, (_, t) in made.items()},
        sorts,
        frozenset({"agent"} if local else ()),
    )


def facts(labels: Labels) -> list[tuple[Any, ...]]:
    return [
        (name, *place, truth)
        for name, index in labels.index.items()
        for place, truth in zip(index.T.tolist(), labels.truth[name].tolist(), strict=True)
    ]


def ordered(part: Labels, whole: Labels) -> bool:
    """Whether a part keeps the order of the whole."""
    places = {fact: i for i, fact in enumerate(facts(whole))}
    found = [places[fact] for fact in facts(part)]
    return found == sorted(found)


@pytest.mark.parametrize("by", ["facts", "entities", "traces"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.83, 1.0])
def test_nothing_is_lost_or_doubled(by, share):
    whole = make()
    first, second = split(whole, share, by=by, seed=4, sort="agent" if by == "entities" else None)
    assert sorted(facts(first) + facts(second)) == sorted(facts(whole))
    assert ordered(first, whole)
    assert ordered(second, whole)
    assert (first.sorts, second.sorts) == (whole.sorts, whole.sorts)
    if share in (0, 1):
        empty = second if share == 1 else first
        assert len(empty) == (20 if by == "entities" and share == 0 else 0)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.8, 0.999])
@pytest.mark.parametrize("stratified", [True, False])
def test_shares_of_facts(share, stratified):
    whole = make()
    first, _ = split(whole, share, seed=1, stratified=stratified)
    assert len(first) == round(share * len(whole))
    for name, truth in whole.truth.items():
        for value in (0, 1):
            exact = share * int((truth == value).sum())
            if stratified:
                assert abs(int((first.truth[name] == value).sum()) - exact) < 1


def test_degrees_are_stratified_by_the_half():
    truth = torch.linspace(0, 1, 101, dtype=torch.float64)
    index = torch.stack([torch.zeros(101).long(), torch.arange(101), torch.zeros(101).long()])
    first, _ = split(Labels({"P": index}, {"P": truth}), 0.4, seed=0)
    assert int((first.truth["P"] >= 0.5).sum()) in (20, 21)
    assert len(first) == 40


def test_rare_facts_are_in_both_groups():
    truth = torch.zeros(1000)
    truth[:10] = 1
    index = torch.stack([torch.zeros(1000).long(), torch.arange(1000), torch.zeros(1000).long()])
    for seed in range(20):
        first, second = split(Labels({"P": index}, {"P": truth}), 0.8, seed=seed)
        assert [part.truth["P"].sum().item() for part in (first, second)] == [8, 2]


@pytest.mark.parametrize("local", [False, True])
def test_by_entities(local):
    whole = make(local=local)

    def mentioned(labels: Labels) -> set[Any]:
        pairs = [
            (int(trace) if local else None, int(agent))
            for name in ("Stop", "Close")
            for trace, agent in zip(labels.index[name][0], labels.index[name][1], strict=True)
        ]
        return set(pairs)

    first, second = split(whole, 0.55, by="entities", seed=3, sort="agent")
    count = len(mentioned(whole))
    assert count == (60 if local else 10)
    assert not mentioned(first) & mentioned(second)
    sizes = (33, 27) if local else (6, 4)
    assert (len(mentioned(first)), len(mentioned(second))) == sizes
    assert len(first.truth["Rain"]) == 20  # mentions none


def test_a_fact_that_mentions_one_of_the_second_group_is_in_it():
    grid = torch.cartesian_prod(
        torch.arange(1), torch.arange(8), torch.arange(8), torch.arange(1)
    ).T
    whole = Labels({"R": grid}, {"R": torch.ones(64)}, {"R": ("agent", "agent")})
    first, second = split(whole, 0.75, by="entities", seed=0)
    kept = set(first.index["R"][1].tolist())
    assert len(kept) == 6
    pairs = [tuple(p) for p in first.index["R"][1:3].T.tolist()]
    assert sorted(pairs) == [(a, b) for a in sorted(kept) for b in sorted(kept)]
    assert len(second) == 64 - 36


def test_by_traces():
    whole = make()
    first, second = split(whole, 0.67, by="traces", seed=5)

    def traces(labels: Labels) -> set[int]:
        return {t for index in labels.index.values() for t in index[0].tolist()}

    assert (len(traces(first)), len(traces(second))) == (4, 2)
    assert not traces(first) & traces(second)


@pytest.mark.parametrize("by", ["facts", "entities", "traces"])
def test_the_seed_alone_decides(by):
    whole = make()
    sort = "agent" if by == "entities" else None
    torch.manual_seed(1)
    once = facts(split(whole, 0.5, by=by, seed=7, sort=sort)[0])
    torch.manual_seed(2)
    state = torch.get_rng_state()
    again = facts(split(whole, 0.5, by=by, seed=7, sort=sort)[0])
    assert torch.equal(torch.get_rng_state(), state)
    assert once == again
    others = [facts(split(whole, 0.5, by=by, seed=s, sort=sort)[0]) for s in range(8, 12)]
    assert any(other != once for other in others)


def test_every_fact_may_be_drawn():
    whole = make()
    drawn = {f for seed in range(40) for f in facts(split(whole, 0.5, seed=seed)[0])}
    assert drawn == set(facts(whole))


# --- noise -----------------------------------------------------------------------------------


@pytest.mark.parametrize("exact", [True, False])
def test_flips(exact):
    whole = make()
    before = {n: t.clone() for n, t in whole.truth.items()}
    noisy, masks = flip(whole, 0.3, 2, exact=exact)
    for name, truth in before.items():
        assert torch.equal(whole.truth[name], truth)
        assert masks[name].dtype == torch.bool
        assert torch.equal(noisy.truth[name] != truth, masks[name])
        assert torch.equal(noisy.truth[name], torch.where(masks[name], 1 - truth, truth))
        assert torch.equal(noisy.index[name], whole.index[name])
        if exact:
            assert int(masks[name].sum()) == round(0.3 * len(truth))
    again, same = flip(noisy, 0.3, 2, exact=exact)
    assert facts(again) == facts(whole)
    assert all(torch.equal(same[n], masks[n]) for n in masks)


def test_the_rate_of_flips():
    whole = Labels({"P": torch.zeros(2, 100_000).long()}, {"P": torch.full((100_000,), 0.25)})
    noisy, masks = flip(whole, 0.1, 0)
    assert abs(masks["P"].double().mean().item() - 0.1) < 0.005  # five standard deviations
    assert noisy.truth["P"][masks["P"]].unique().tolist() == [0.75]
    assert not flip(whole, 0.0, 0)[1]["P"].any()
    assert flip(whole, 1.0, 0)[1]["P"].all()


def test_flips_of_some_predicates():
    whole = make()
    noisy, masks = flip(whole, 1.0, 0, predicates=["Stop"])
    assert {n: bool(m.any()) for n, m in masks.items()} == {
        "Stop": True, "Close": False, "Rain": False,
    }  # fmt: skip
    assert torch.equal(noisy.truth["Close"], whole.truth["Close"])
    with pytest.raises(DataError, match="no predicate 'Stpo' to label; did you mean 'Stop'"):
        flip(whole, 0.5, 0, predicates=["Stpo"])


def test_flips_depend_on_the_seed_alone():
    whole = make()
    torch.manual_seed(1)
    once = flip(whole, 0.4, 9)[1]
    torch.manual_seed(2)
    assert all(torch.equal(mask, once[n]) for n, mask in flip(whole, 0.4, 9)[1].items())
    assert not torch.equal(flip(whole, 0.4, 10)[1]["Close"], once["Close"])


def test_no_labels():
    none = Labels({}, {})
    assert [len(part) for part in split(none, 0.5, seed=0)] == [0, 0]
    assert [len(part) for part in split(none, 0.5, by="traces", seed=0)] == [0, 0]
    assert len(flip(none, 0.5, 0)[0]) == 0


def message(call: Any) -> str:
    with pytest.raises(DataError) as found:
        call()
    return str(found.value)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
def test_shares_and_rates_are_from_0_to_1(value):
    whole = make()
    wanted = f"must be a number from 0 to 1, not {value}"
    assert message(lambda: split(whole, value, seed=0)) == f"error: the share {wanted}"
    assert message(lambda: flip(whole, value, 0)) == f"error: the rate {wanted}"


def test_wrong_calls():
    whole = make()
    assert message(lambda: split(whole, 0.5, seed=0, by="days")) == (  # type: ignore[arg-type]
        "error: labels can be split by facts, entities, traces or time, not 'days'"
    )
    assert message(lambda: split(whole, 0.5, seed=0, by="entities")) == (
        "error: name the sort of the entities to split by: 'agent', 'place'"
    )
    assert message(lambda: split(whole, 0.5, seed=0, by="entities", sort="agnt")) == (
        "error: no labels mention entities of sort 'agnt'; did you mean 'agent'?"
    )
    for seed in (-1, 2**63):
        assert "a seed must be a whole number from 0" in message(
            lambda s=seed: split(whole, 0.5, seed=s)
        )


# --- by time ------------------------------------------------------------------------------------


def slow_by_time(labels: Labels, share: float, sort: str | None) -> list[tuple[Any, ...]]:
    """The facts of the first group, one after another."""

    def keys(name: str, place: list[int]) -> list[tuple[Any, ...]]:
        trace, *args, _ = place
        own = [a for a, s in zip(args, labels.sorts[name], strict=True) if s == sort]
        if not own:
            return [("trace", trace)]
        return [("entity", trace, a) for a in own]

    every = [(f[0], list(f[1:-1]), f) for f in facts(labels) if f[0] not in labels.static]
    times: dict[tuple[Any, ...], set[int]] = {}
    for name, place, _ in every:
        for key in keys(name, place):
            times.setdefault(key, set()).add(place[-1])
    early = {k: sorted(t)[: round(share * len(t))] for k, t in times.items()}
    chosen = [f for n, place, f in every if all(place[-1] in early[k] for k in keys(n, place))]
    return [f for f in facts(labels) if f[0] in labels.static or f in chosen]


@pytest.mark.parametrize("sort", [None, "agent", "place"])
@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.83, 1.0])
def test_the_earliest_times(share, local, sort):
    labels = make(seed=3, local=local)
    pairs = torch.randint(0, 6, (4, 40), generator=torch.Generator().manual_seed(1))
    more = {"Meet": (pairs.unique(dim=1), ("agent", "agent")), "Old": (pairs[:3], ("agent",))}
    labels = Labels(
        labels.index | {n: i for n, (i, _) in more.items()},
        labels.truth | {n: torch.ones(i.shape[1]).double() for n, (i, _) in more.items()},
        labels.sorts | {n: s for n, (_, s) in more.items()},
        labels.local,
        frozenset({"Old"}),
    )
    first, second = split(labels, share, by="time", sort=sort, seed=0)
    assert facts(first) == slow_by_time(labels, share, sort)
    assert sorted(facts(first) + facts(second)) == sorted(facts(labels))
    assert ordered(second, labels)
    assert facts(split(labels, share, by="time", sort=sort, seed=9)[0]) == facts(first)


def test_by_time_without_labels_or_times():
    nothing = Labels({}, {}, {})
    assert [len(part) for part in split(nothing, 0.5, by="time", seed=0)] == [0, 0]
    index = {"Old": torch.tensor([[0, 0], [0, 1], [0, 0]])}
    static = Labels(index, {"Old": torch.ones(2)}, {"Old": ("agent",)}, static=frozenset({"Old"}))
    assert [len(part) for part in split(static, 0.5, by="time", seed=0)] == [2, 0]
    with pytest.raises(DataError, match="no labels mention entities of sort 'car'"):
        split(static, 0.5, by="time", sort="car", seed=0)
