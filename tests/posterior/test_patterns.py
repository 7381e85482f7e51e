"""The truth of a factor under every pattern of a track equals that of changed worlds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.logic.check import check, check_formula
from fotltn.logic.nnf import nnf
from fotltn.posterior import colours
from fotltn.posterior.colours import Coupling
from fotltn.posterior.evidence import LabelEvidence
from fotltn.posterior.impossible import NoWorldError
from fotltn.posterior.movers import Mover
from fotltn.posterior.patterns import Bit, Moving, Patterns, Sight, Slot, reach
from fotltn.posterior.sampler import Sampler, Sampling
from fotltn.posterior.structure import structure
from fotltn.semantics import crisp
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula
from tests.posterior.oracle import case

WORLDS = 2

#: So many patterns of a factor are tried.
TRIED = 6


def couplings(seed: int) -> Iterator[tuple[Sampler, Mover, Coupling]]:
    """The factors of a random case that windows hold, over random worlds."""
    one = case(seed)
    labelled = [n for n in one.learned if one.labels.truth[n].numel()]
    try:
        plan = structure(one.theory, one.tables, one.learned, labelled, end=one.end)
    except NoWorldError:
        return
    evidence = LabelEvidence(one.labels, dict(one.rates))
    sampler = Sampler(plan, one.tables, evidence, Sampling(worlds=WORLDS, learn=False))
    generator = torch.Generator().manual_seed(seed)
    for name in plan.free:
        table = sampler.tables[name]
        table.copy_(torch.rand(table.shape, generator=generator) < 0.5)
    sampler.define()
    for mover in sampler.movers:
        mover.help(sampler.tables)
    for mover in sampler.movers:
        for colour in mover.colours:
            for coupling in colour.couplings:
                if coupling.window is not None and len(coupling.cells):
                    yield sampler, mover, coupling


def truth_in(
    sampler: Sampler, worlds: dict[str, Tensor], formula: c.Formula, coupling: Coupling, cell: int
) -> Tensor:
    """What the crisp evaluator says of a factor at a cell, in every world."""
    cells, known = coupling.cells, sampler.known
    row = int(cells.row[cell])
    results = []
    entities = {s: {f"#{n}": n for n in range(size)} for s, size in known.sizes.items()}
    for number in range(WORLDS):
        some = {n: t[number].double() for n, t in worlds.items()}
        tables: Tables = replace(known, predicates={**known.predicates, **some}, constants=entities)
        axes, value = crisp.evaluate(formula, tables)
        value = value[int(cells.rows.trace[row])]
        for axis in axes:
            value = value[int(cells.rows.places[axis][row])]
        results.append(value[int(cells.time[cell])])
    return torch.stack(results)


def compare(seeds: range) -> int:
    """How many patterns were compared."""
    count = 0
    for seed in seeds:
        choose = random.Random(seed)
        for sampler, mover, coupling in couplings(seed):
            factor, cells = coupling.factor, coupling.cells
            assert coupling.window is not None
            assert factor.span is not None
            bits, static = coupling.window[1], mover.kind.shape.static
            low, high = factor.span.low, factor.span.high
            points = max(0, high - low + 1)
            patterns = Patterns(mover.contacts, sampler.tables, {}, static, bits, factor.span)
            truth = patterns.truth(factor.formula, cells)
            shape = (1 << len(static), *[1 << len(bits)] * points)
            truth = truth.expand(WORLDS, len(cells), *shape)
            for _ in range(TRIED):
                cell = choose.randrange(len(cells))
                place = [choose.randrange(size) for size in shape]
                worlds = {n: t.clone() for n, t in sampler.tables.items()}
                track, time = cells.track[cell : cell + 1], int(cells.time[cell])
                length = int(sampler.known.lengths[mover.rows.trace[track]])
                for bit, value in _changes(static, bits, place, time + low, length):
                    one = mover.kind.moving.bits[bit]
                    where = tuple(int(i) for i in mover.cells(one, track))
                    table = worlds[one.predicate][:, where[0]]
                    for number in where[1:]:
                        table = table[:, number]
                    table[:, value[0]] = value[1]
                expected = truth_in(sampler, worlds, factor.formula, coupling, cell)
                mine = truth[:, cell].flatten(1)[:, _flat(place, shape)]
                assert torch.equal(mine, expected), (seed, factor.axiom)
                count += 1
    return count


def _flat(place: list[int], shape: tuple[int, ...]) -> int:
    number = 0
    for digit, size in zip(place, shape, strict=True):
        number = number * size + digit
    return number


def _changes(
    static: tuple[int, ...], bits: tuple[int, ...], place: list[int], start: int, length: int
) -> Iterator[tuple[int, tuple[int, bool]]]:
    """Bits that a pattern sets inside of the trace, with the time and the truth."""
    for number, bit in enumerate(static):
        yield bit, (0, bool(place[0] >> number & 1))
    for ahead, word in enumerate(place[1:]):
        if 0 <= start + ahead < length:
            for number, bit in enumerate(bits):
                yield bit, (start + ahead, bool(word >> number & 1))


def test_patterns_equal_changed_worlds():
    assert compare(range(120)) > 200


@pytest.mark.slow
def test_patterns_equal_changed_worlds_in_many_cases():
    compare(range(100, 1100))


@pytest.mark.parametrize("few", [1, 3, 64])
def test_tracks_that_touch_one_row_are_never_drawn_at_once(few, monkeypatch):
    """However many tracks touch a row, and with the same colours."""
    monkeypatch.setattr(colours, "_FEW", few)
    for seed in range(60):
        choose = random.Random(seed)
        tracks = choose.randint(1, 20)
        pairs = sorted({(choose.randrange(12), choose.randrange(tracks)) for _ in range(30)})
        at, track = torch.tensor(pairs).T
        colour = colours.coloured(tracks, [(at, track)])
        for row in range(12):
            there = track[at == row]
            assert len(colour[there].unique()) == len(there), seed
        most = max((at == row).sum() for row in range(12))
        met = [
            len({o for r, o in pairs for q, p in pairs if p == one and q == r})
            for one in range(tracks)
        ]
        assert most <= len(colour.unique()) <= max(met), seed


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("P(x)", 0, 0),
        ("Near(x) U[2,3] P(x)", 2, 3),  # what a window does not reach is not seen
        ("P(x) U[2,3] Near(x)", 0, 3),
        ("P(x) S[1,2] Near(x)", -2, 0),
        ("X O[1,1] P(x)", 0, 0),
        ("F[<=1] (P(x) & Y Near(x))", 0, 1),
        ("Near(x)", 0, -1),
    ],
)
def test_how_far_formulas_see(text, low, high):
    theory = check(parse_theory("sort a\npredicate P(a), Near(a)\n"))
    formula = nnf(check_formula(parse_formula(text), theory.signature).formula)
    moving = Moving([Bit("P", (Slot(0),), ("a",), static=False)], ("a",))
    assert reach(formula, moving, 8) == Sight(low, high)
    if high > low:
        assert reach(formula, moving, high - low) is None
    always = reach(c.Until(False, formula, formula, c.Window(), past=False), moving, 8)
    assert always == (None if moving.inside(formula) else Sight(0, -1))
