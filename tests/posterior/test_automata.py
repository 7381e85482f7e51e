"""Automata equal the crisp evaluator on random formulas and traces."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from fotltn.logic import core as c
from fotltn.logic.nnf import nnf
from fotltn.monitor.compile import letter
from fotltn.posterior.automata import machine
from fotltn.semantics import crisp
from fotltn.semantics.tables import Tables

LETTERS = 2


def random_formula(choose: random.Random, depth: int) -> c.Formula:
    if depth == 0:
        atoms = [letter(n) for n in range(LETTERS)]
        return choose.choice([*atoms, *atoms, c.Truth(True), c.Edge(True), c.Edge(False)])
    below = [random_formula(choose, depth - 1) for _ in range(2)]
    low = choose.randint(0, 2)
    window = choose.choice([c.Window(), c.Window(low, low + choose.randint(0, 2)), c.Window(low)])
    past = choose.random() < 0.4
    match choose.randrange(7):
        case 0:
            return c.Not(below[0])
        case 1:
            return choose.choice([c.And, c.Or, c.Implies])(*below)
        case 2:
            return c.Shift(below[0], choose.randint(1, 2), past, choose.random() < 0.5)
        case 3:
            return c.Aggregate(choose.random() < 0.5, below[0], window, past)
        case _:
            return c.Until(choose.random() < 0.5, below[0], below[1], window, past)


def compare(seeds: range) -> None:
    for seed in seeds:
        choose = random.Random(seed)
        formula = random_formula(choose, choose.randint(1, 3))
        automaton = machine("A", nnf(formula), LETTERS)
        lengths = [choose.randint(1, 8) for _ in range(4)]
        generator = np.random.default_rng(seed)
        values = generator.random((LETTERS, 4, 8)) < 0.5
        names = {letter(n).predicate: torch.from_numpy(values[n]) for n in range(LETTERS)}
        tables = Tables({}, torch.tensor(lengths), 8, names)
        truth = crisp.evaluate(formula, tables).tensor[:, 0]
        for trace, length in enumerate(lengths):
            state = 0
            for t in range(length):
                word = sum(int(values[n, trace, t]) << n for n in range(LETTERS))
                assert not automaton.accepts[state] or automaton.live[state]
                state = automaton.next[state, word]
            assert bool(automaton.accepts[state]) == bool(truth[trace]), seed


def test_automata_equal_the_crisp_evaluator():
    compare(range(300))


@pytest.mark.slow
def test_automata_equal_the_crisp_evaluator_on_ten_thousand_formulas():
    compare(range(300, 10_300))


def test_automata_are_minimal():
    eventually = c.Aggregate(False, letter(0), c.Window(), past=False)
    assert len(machine("A", nnf(eventually), 1).accepts) == 2
    within_three = c.Aggregate(
        True, c.Implies(letter(0), c.Aggregate(False, letter(1), c.Window(0, 3), past=False)),
        c.Window(), past=False,
    )  # fmt: skip
    assert len(machine("A", nnf(within_three), 2).accepts) == 6  # with start and end
