"""Memories of axioms about a track, and values that axioms leave no choice about.

The automata of free predicates remember how long something has been true, or what must still come.
A prior that depends on such memories learns how long things last, and does not mistake necessity
for habit. Automata that predict later time points do not count.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from fotltn.posterior.automata import Flags, Numbers
from fotltn.posterior.product import Part
from fotltn.posterior.track_kind import TrackKind

#: The most letters of states under conditions that are computed at once.
_AT_ONCE = 2_000_000

#: With more memories, or more letters in their automata, a prior does not depend on memories.
_MOST_MEMORIES, _MOST_LETTERS = 128, 12


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """Memories and forced values of the groups of a kind, which its prior depends on.

    Args:
        codes: which groups have no choice, for each condition, state and way of the product:
            numbers with a bit for each group, the first lowest.
        memories: the number of memories of each group.
        states: for each group, the memory of each state of the product.
        axioms: for each group, the axioms that have memories.
    """

    codes: Numbers
    memories: tuple[int, ...]
    states: tuple[Numbers, ...]
    axioms: tuple[tuple[str, ...], ...]


def choices(
    kind: TrackKind, groups: Sequence[tuple[tuple[str, ...], Sequence[int]]],
    bits: Collection[int], fixed: Collection[int],
) -> Choices:  # fmt: skip
    """Find the memories of axioms about the groups of a kind, and where groups have no choice.

    Args:
        kind: the kind of tracks.
        groups: the names and bits of each group.
        bits: the bits that no other kind moves; axioms about other bits do not count.
        fixed: the given conditions; axioms with other conditions do not count.
    """
    shape, product = kind.shape, kind.product
    usable = {*bits, *(shape.bits + number for number in fixed)}
    laws = [
        place for place, number in enumerate(shape.laws[: product.laws.shape[1]])
        if usable.issuperset(kind.parts[number][1].columns)
    ]  # fmt: skip
    memories, states, axioms = [], [], []
    for _, some in groups:
        mine = [place for place in laws if _concerns(kind, shape.laws[place], some)]
        known = _known([kind.parts[shape.laws[place]][1] for place in mine])
        rows = [tuple(row) for row in product.laws[:, mine].tolist()]
        memories.append(max(1, len(known)))
        states.append(np.array([known.get(row, 0) for row in rows], dtype=np.int64))
        axioms.append(tuple(kind.parts[shape.laws[place]][0] for place in mine if known))
    codes = _forced(kind, groups, bits, laws, fixed)
    return Choices(codes, tuple(memories), tuple(states), tuple(axioms))


def _concerns(kind: TrackKind, number: int, group: Sequence[int]) -> bool:
    """Whether a part reads a group, and no entity that is not in the group."""
    bits = kind.moving.bits

    def entities(bit: int) -> set[tuple[str, int]]:
        slots = zip(bits[bit].sorts, bits[bit].slots, strict=True)
        return {(sort, slot.number) for sort, slot in slots if slot.position is None}

    read = [column for column in kind.parts[number][1].columns if column < kind.shape.bits]
    mine = entities(group[0])
    return bool({*group} & {*read}) and (not mine or all(entities(b) <= mine for b in read))


def _known(parts: Sequence[Part]) -> dict[tuple[int, ...], int]:
    """Number the joint states that parts can reach; empty if there are too many."""
    columns = sorted({column for part in parts for column in part.columns})
    if not parts or len(columns) > _MOST_LETTERS:
        return {}
    numbers = np.arange(1 << len(columns))
    words = []
    for part in parts:
        word = np.zeros_like(numbers)
        for digit, column in enumerate(part.columns):
            word |= (numbers >> columns.index(column) & 1) << digit
        words.append(word)
    known: dict[tuple[int, ...], int] = {(0,) * len(parts): 0}
    for number in itertools.count():
        if number == len(known):
            return known
        state = [*known][number]
        after = [
            part.machine.next[s, word] for part, s, word in zip(parts, state, words, strict=True)
        ]
        alive = [part.machine.live[new] for part, new in zip(parts, after, strict=True)]
        rows = np.stack(after, 1)[np.logical_and.reduce(alive)]
        for row in np.unique(rows, axis=0).tolist():
            known.setdefault(tuple(row), len(known))
        if len(known) > _MOST_MEMORIES:
            return {}
    return known


def _forced(
    kind: TrackKind, groups: Sequence[tuple[tuple[str, ...], Sequence[int]]],
    bits: Collection[int], laws: Sequence[int], fixed: Collection[int],
) -> Numbers:  # fmt: skip
    """The codes of groups without a choice; conditions of other tracks may have any value."""
    product, words = kind.product, np.array(kind.shape.conditions, dtype=np.int64)
    codes = np.zeros_like(product.next)
    if not laws:
        return codes
    told, case = np.unique(words & sum(1 << n for n in fixed), return_inverse=True)
    size = max(1, _AT_ONCE // max(1, len(product.letters) * len(words)))
    for start in range(0, product.states, size):
        part = slice(start, start + size)
        legal = _legal(kind, laws, part)
        allowed = np.stack([legal[:, :, case == n].any(2) for n in range(len(told))])
        by_letter = _without_choice(product.letters, groups, bits, allowed)
        ways = np.take_along_axis(by_letter, product.letter[None, part], axis=2)
        codes[:, part] = ways[case.reshape(-1)]
    return codes


def _legal(kind: TrackKind, laws: Sequence[int], part: slice) -> Flags:
    """Which letters the laws allow in states, with axes (state, letter, condition)."""
    product, shape = kind.product, kind.shape
    words = np.array(shape.conditions, dtype=np.int64)
    states, statics = product.laws[part], product.statics[part]
    legal = np.ones((len(states), len(product.letters), len(words)), dtype=bool)
    for place in laws:
        law = kind.parts[shape.laws[place]][1]
        word = np.zeros((1, 1, 1), dtype=np.int64)
        for digit, column in enumerate(law.columns):
            if column >= shape.bits:
                truth = (words >> (column - shape.bits) & 1)[None, None, :]
            elif column in shape.static:
                truth = (statics >> shape.static.index(column) & 1)[:, None, None]
            else:
                truth = product.letters[:, column].astype(np.int64)[None, :, None]
            word = word | truth << digit
        legal &= law.machine.live[law.machine.next[states[:, place, None, None], word]]
    return legal


def _without_choice(
    letters: Flags, groups: Sequence[tuple[tuple[str, ...], Sequence[int]]], bits: Collection[int],
    allowed: Flags,
) -> Numbers:  # fmt: skip
    """Which groups have a single possible value, with axes (case, state, letter), as `allowed`.

    Groups are decided in order, each given the groups of other names before it.
    """
    codes = np.zeros(allowed.shape, dtype=np.int64)
    values = [(letters[:, list(some)] * (1 << np.arange(len(some)))).sum(1) for _, some in groups]
    for number, (names, some) in enumerate(groups):
        if not {*some} <= {*bits}:
            continue
        before = [values[n] for n in range(number) if groups[n][0] != names]
        prefix = np.unique(
            np.stack([np.zeros(len(letters)), *before]), axis=1, return_inverse=True
        )[1].reshape(-1)
        for one in np.unique(prefix):
            here = prefix == one
            options = [here & (values[number] == v) for v in np.unique(values[number][here])]
            left = np.stack([allowed[:, :, option].any(2) for option in options]).sum(0)
            codes[:, :, here] |= (left == 1)[:, :, None] << number
    return codes
