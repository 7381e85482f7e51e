"""What the ends of traces leave open, against all ways in which traces may go on."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from fotltn.analysis.truncation import end_of, if_longer, never_fails, undecided
from fotltn.errors import DataError
from fotltn.logic.check import check_formula
from fotltn.semantics import crisp
from fotltn.semantics.tables import Tables
from fotltn.syntax import formula as f
from fotltn.syntax.parse import parse_formula
from tests.helpers import random_formula


def propositional(text: str):
    return check_formula(parse_formula(text)).formula


def world(*traces: list[list[bool]]) -> Tables:
    """Traces of p and q."""
    lengths = [len(rows[0]) for rows in traces]
    tables = torch.zeros(2, len(traces), max(lengths), dtype=torch.bool)
    for trace, rows in enumerate(traces):
        tables[:, trace, : lengths[trace]] = torch.tensor(rows)
    return Tables({}, torch.tensor(lengths), max(lengths), {"p": tables[0], "q": tables[1]})


def could_be(formula, rows, extra):
    """At which points a formula is true for some way to go on by up to `extra` points."""
    longer = [
        [rows[0] + list(tail[:more]), rows[1] + list(tail[more:])]
        for more in range(extra + 1)
        for tail in itertools.product([False, True], repeat=2 * more)
    ]
    return crisp.evaluate(formula, world(*longer)).tensor[:, : len(rows[0])].any(0)


READ_ONCE = (
    "F p", "F[<=2] p", "F[1,2] p", "X p", "X[2] p", "WX p", "G p", "p U q", "p U[<=2] q",
    "p U[1,2] q", "!(p R q)", "!(p R[<=1] q)", "!G p", "!G[<=1] p", "O p -> F q", "p S q",
    "q -> X[2] p", "G F p", "!WX p", "p & F[<=1] q", "Y p | X q",
)  # fmt: skip


@pytest.mark.parametrize("text", READ_ONCE)
def test_what_could_be_true_if_the_trace_went_on(text):
    formula = propositional(text)
    for bits in itertools.product([False, True], repeat=6):
        rows = [list(bits[:3]), list(bits[3:])]
        found = crisp.evaluate(if_longer(formula), world(rows)).tensor[0]
        assert found.tolist() == could_be(formula, rows, 3).tolist(), rows


def test_the_bound_is_never_too_low():
    rng = random.Random(5)
    atoms = [f.Atom("p", ()), f.Atom("q", ())]
    for _ in range(60):
        formula = check_formula(random_formula(rng, 4, atoms, edges=False)).formula
        rows = [[rng.random() < 0.5 for _ in range(3)] for _ in range(2)]
        found = crisp.evaluate(if_longer(formula), world(rows)).tensor[0]
        assert bool((found | ~could_be(formula, rows, 2)).all())


@pytest.mark.parametrize("text", [*READ_ONCE, "F q -> F p", "WX q -> X p", "G q -> F[<=1] p"])
def test_undecided_is_what_fails_now_and_may_not_later(text):
    formula = propositional(text)
    open_ended = undecided(formula, "undecided")
    for bits in itertools.product([False, True], repeat=6):
        rows = [list(bits[:3]), list(bits[3:])]
        now = crisp.evaluate(formula, world(rows)).tensor[0]
        wanted = ~now & could_be(formula, rows, 3)
        if open_ended is None:
            assert not wanted.any()
        else:
            assert torch.equal(crisp.evaluate(open_ended, world(rows)).tensor[0], wanted), rows
    assert undecided(formula, "final") is None


def test_ends_have_names():
    assert [end_of(name) for name in ("undecided", "final")] == ["undecided", "final"]
    with pytest.raises(DataError, match=r"is not 'finale'; did you mean 'final'\?"):
        end_of("finale")
    with pytest.raises(DataError, match="is not '7'; it is 'undecided', 'final'"):
        end_of("7")


NEVER_FALSE_FOR_GOOD = (
    "F p", "G F p", "G(q -> F p)", "p | F q", "O p -> F q", "O F p", "!G p", "!(F G p)",
    "G(G p -> q)",
)  # fmt: skip


@pytest.mark.parametrize("text", [*READ_ONCE, *NEVER_FALSE_FOR_GOOD, "p | !p", "G(q -> F p) & G p"])
def test_what_never_fails_can_become_true_after_every_trace(text):
    formula = propositional(text)
    assert never_fails(formula) is (text in NEVER_FALSE_FOR_GOOD)
    if never_fails(formula):
        for bits in itertools.product([False, True], repeat=6):
            assert bool(could_be(formula, [list(bits[:3]), list(bits[3:])], 3).all()), bits
