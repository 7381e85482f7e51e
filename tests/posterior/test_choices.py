"""What axioms remember of a track, where they leave no choice, and what is learned of choices."""

from __future__ import annotations

import pytest
import torch

from fotltn.grounding.labels import Labels
from fotltn.logic.check import check
from fotltn.posterior.evidence import LabelEvidence
from fotltn.posterior.sampler import Sampler, Sampling
from fotltn.posterior.structure import structure
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory

LASTS = """
sort a
predicate P(a)
hard axiom Lasts: forall x. G(P(x) & WY !P(x) -> P(x) U[2,4] !P(x) | P(x) U[<=3] (last & P(x)))
"""

TIED = """
sort a, b
predicate P(a), Tie(a, b), Has(a, b)
hard axiom With: forall x, y. G(Tie(x, y) -> P(x))
hard axiom One: forall x, y, y2. G(Tie(x, y) & Tie(x, y2) -> y = y2)
hard axiom Begun: forall x, y. G(Tie(x, y) -> Tie(x, y) S (Tie(x, y) & Has(x, y)))
hard axiom Twice: forall x, y. G(Tie(x, y) & WY !Tie(x, y) -> WX Tie(x, y))
"""


def sampler(text: str, sizes: dict[str, int], learned: list[str], **given: torch.Tensor) -> Sampler:
    theory = check(parse_theory(text))
    horizon = next(iter(given.values())).shape[-1] if given else 12
    tables = Tables(
        sizes, torch.tensor([horizon]), horizon, dict(given), signature=theory.signature
    )
    plan = structure(theory, tables, learned, [])
    return Sampler(plan, tables, LabelEvidence(Labels({}, {}), {}), Sampling(worlds=1))


def forced(one: Sampler, group: int) -> list[int]:
    """Whether a group has no choice, at each point of the only track, in the only world."""
    (mover,) = one.movers
    mover.help(one.tables)
    edges, conditions = (part[:, 0, 0] for part in mover._drawn(one.tables)[:2])
    codes: list[int] = (mover.chain.code[edges, conditions] >> group & 1).tolist()
    return codes


def test_what_must_last_is_no_choice():
    one = sampler(LASTS, {"a": 1}, ["P"])
    one.tables["P"].copy_(torch.tensor([0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1]).bool())
    # After the first true point there must be a second, after the fourth there is no fifth.
    assert forced(one, 0) == [0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0]


def test_how_long_things_last_is_learned():
    one = sampler(LASTS, {"a": 1}, ["P"])
    one.tables["P"].copy_(torch.tensor([0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1]).bool())
    (mover,) = one.movers
    mover.help(one.tables)
    for _ in range(60):
        mover.learn(one.tables, 0.2, {("P",)})
    (group,) = mover.prior.groups
    stays = one.prior.moves["P",][:-1].exp().reshape(*group.shape, 2, 2)[0, :, 1, 1]
    memory = mover.chain.in_order(mover.prior.choices.states[0])
    edges = mover._drawn(one.tables)[0][:, 0, 0]
    second, third = memory[mover.chain.source[edges[3]]], memory[mover.chain.source[edges[4]]]
    assert stays[second] > 0.75  # it went on each time
    assert stays[third] < 0.55  # it ended each time
    assert abs(one.prior.moves["P",][:-1].exp().sum(-1) - 1).max() < 1e-9
    assert one.prior.moves["P",][-1].abs().max() < 1e-4  # what must be is as likely as can be


def test_a_relation_has_a_choice_only_where_what_is_given_leaves_one():
    has = torch.zeros(1, 1, 2, 8)
    has[0, 0, 0, 2:4] = 1.0
    has[0, 0, 1, 6] = 1.0
    one = sampler(TIED, {"a": 1, "b": 2}, ["P", "Tie"], Has=has)
    one.tables["P"].copy_(torch.tensor([0, 1, 1, 1, 1, 1, 0, 0]).bool())
    one.tables["Tie"].zero_()
    one.tables["Tie"][..., 0, :] = torch.tensor([0, 0, 1, 1, 1, 0, 0, 0]).bool()
    names = [group.names for group in one.movers[0].prior.groups]
    assert names == [("P",), ("Tie",), ("Tie",)]
    # It begins where it may, must go on once, and then may.
    assert forced(one, 1) == [1, 1, 0, 1, 0, 0, 1, 1]
    # The other may not begin beside it, nor without P.
    assert forced(one, 2) == [1, 1, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(("sizes", "forces"), [((1, 9), (False, True)), ((9, 9), (False, False))])
def test_only_tracks_above_leave_no_choice(sizes, forces):
    text = "sort a, b\npredicate P(a), V(b)\nhard axiom E: forall x, y. G(P(x) -> V(y))\n"
    one = sampler(text, dict(zip("ab", sizes, strict=True)), ["P", "V"])
    assert tuple(bool(mover.chain.code.any()) for mover in one.movers) == forces
