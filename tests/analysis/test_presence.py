"""Cells where entities come and go: they count where each is present when it is used."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest
import torch

from fotltn import check, check_formula, parse_formula
from fotltn.analysis import evaluate_cells as sweeping
from fotltn.analysis.cells import Cells
from fotltn.analysis.counts import count
from fotltn.analysis.over_time import NO_TRUTH, truth_over_time
from fotltn.analysis.presence import present_where_used
from fotltn.analysis.truncation import if_longer
from fotltn.analysis.view import View
from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom
from fotltn.logic.parts import free_axes
from fotltn.logic.presence import relative, written_out
from fotltn.semantics import crisp
from fotltn.semantics.config import CRISP, STABLE_PRODUCT
from fotltn.semantics.tables import Tables
from fotltn.syntax import formula as f
from fotltn.syntax import theory as th
from fotltn.syntax.load import parse_theory
from fotltn.tree import postorder
from tests.analysis.scenes import about, cell_weights, counterexample, violations
from tests.helpers import numbered, random_formula, seeds
from tests.semantics.absent import ANYONE, Loops

THEORY = check(
    parse_theory(
        """
        sort car, ped
        relation pairs(car, ped)
        predicate Stop(car), Cross(ped), Near(car, ped), Wet
        static predicate Known(ped)
        function friend(ped): ped
        temporal function mood(ped): real
        """
    )
)
SIZES = {"car": 2, "ped": 3}


def checked_axiom(text: str) -> CheckedAxiom:
    parsed = parse_formula(text)
    return CheckedAxiom("N", check_formula(parsed, THEORY.signature).formula, 1.0, parsed)


# --- by example -------------------------------------------------------------------------------

#: One pedestrian that is there at the points 1, 2 and 5, in a trace of 7 points.
HERE = [False, True, True, False, False, True, False]


def lonely(text: str, here: list[bool] | None = None, length: int | None = None) -> Cells:
    here = HERE if here is None else here
    horizon = len(here)
    tables = Tables(
        {"car": 1, "ped": 1},
        torch.tensor([length or horizon]),
        horizon,
        {
            "Stop": torch.zeros(1, 1, horizon),
            "Cross": torch.ones(1, 1, horizon),
            "Near": torch.ones(1, 1, 1, horizon),
            "Wet": torch.zeros(1, horizon),
            "Known": torch.ones(1, 1, 1),
        },
        functions={
            "friend": torch.zeros(1, 1, 1, dtype=torch.int64),
            "mood": torch.zeros(1, 1, horizon),
        },
        relations={"pairs": torch.tensor([[0, 0]])},
        signature=THEORY.signature,
        names=numbered({"car": 1, "ped": 1}),
        present={"ped": torch.tensor([[here]])},
    )
    return View(tables, STABLE_PRODUCT).cells(checked_axiom(text))


def times(cells: Cells) -> list[int]:
    """The times at which the only binding counts."""
    (row,) = truth_over_time(cells).truth.tolist()
    return [time for time, truth in enumerate(row) if truth != NO_TRUTH]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("Cross(y)", [1, 2, 5]),  # now
        ("Wet -> Cross(y)", [1, 2, 5]),
        ("X Cross(y)", [0, 1, 4]),  # at the next point alone, where that is one
        ("Wet -> X Cross(y)", [0, 1, 4]),
        ("WX Cross(y)", [0, 1, 4]),
        ("Y Cross(y)", [2, 3, 6]),  # at the point before
        ("WY Cross(y)", [2, 3, 6]),
        ("X[2] Cross(y)", [0, 3]),
        ("Cross(y) -> X[2] (Known(y) & Wet)", [1, 2, 5]),  # what is static asks for nothing
        ("Wet -> Known(y)", [0, 1, 2, 3, 4, 5, 6]),  # what is static is defined everywhere
        ("Wet & Known(y) -> y = y", [0, 1, 2, 3, 4, 5, 6]),
        ("Wet -> mood(y) < 1", [1, 2, 5]),
        ("X mood(y) < 1", [0, 1, 4]),  # a function may change as well
        ("F[<=1] Cross(y)", [0, 1, 2, 4, 5]),  # a window is cut to where y is there
        ("Wet -> G[<=1] Cross(y)", [0, 1, 2, 4, 5]),
        ("F[1,2] Cross(y)", [0, 1, 3, 4]),  # at 6 the window lies beyond the trace
        ("O[<=1] Cross(y)", [1, 2, 3, 5, 6]),
        ("Wet -> H[1,2] Cross(y)", [2, 3, 4, 6]),
        ("F Cross(y)", [0, 1, 2, 3, 4, 5]),
        ("Wet -> G Cross(y)", [0, 1, 2, 3, 4, 5]),
        ("O Cross(y)", [1, 2, 3, 4, 5, 6]),
        ("Wet -> H[>=4] Cross(y)", [5, 6]),
        ("Wet U Cross(y)", [0, 1, 2, 3, 4, 5]),
        ("Wet S Cross(y)", [1, 2, 3, 4, 5, 6]),
        ("Wet U[<=1] Cross(y)", [0, 1, 2, 4, 5]),
        ("Wet U[2,3] Cross(y)", [0, 2, 3]),  # the right side is used in the window
        (
            "Cross(y) U[2,3] Wet",
            [0, 1, 2, 3, 4, 5, 6],
        ),  # and the left side only where it is defined
        ("Wet R[2,3] Cross(y)", [0, 2, 3]),
        ("Wet S[2,3] Cross(y)", [3, 4, 5]),
        ("Cross(y) S[2,3] Wet", [0, 1, 2, 3, 4, 5, 6]),
        ("X F[<=1] Cross(y)", [0, 1, 3, 4]),
        ("F[<=1] X Cross(y)", [0, 1, 3, 4]),
        ("X Y Cross(y)", [1, 2, 5]),
        ("exists x. X Near(x, y)", [0, 1, 4]),
        ("Cross(y) -> X mood(y) < 1", [1]),  # at both
        ("(exists x. Near(x, y)) -> X Cross(y)", [1]),
        ("Y Cross(y) -> (exists x. Near(x, y))", [2]),
        ("(exists x. Near(x, y)) -> F[1,2] Cross(y)", [1]),
        ("(exists x. Near(x, y)) -> F Cross(y)", [1, 2, 5]),
    ],
)
def test_a_cell_counts_where_its_entity_is_present_when_it_is_used(body, wanted):
    assert times(lonely(f"forall y. G({body})")) == wanted


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("Cross(y) -> X Cross(y)", [1]),
        ("Cross(y) -> Y Cross(y)", [2]),
        ("Y Cross(y) -> X Cross(y)", []),  # at both
        ("Cross(y) -> F[1,2] Cross(y)", [1]),
        ("Cross(y) -> X !Cross(y)", [1]),
        ("F[<=1] Cross(y) -> Cross(y)", [1, 2, 5]),
        ("Cross(y) & X Cross(y) -> X[4] Cross(y)", [1]),
    ],
)
def test_one_atom_that_is_read_at_several_times_asks_for_all_of_them(body, wanted):
    assert times(lonely(f"forall y. G({body})")) == wanted


def test_beyond_the_end_of_a_trace_nobody_is_there():
    assert times(lonely("forall y. G X Cross(y)", length=5)) == [0, 1]
    assert times(lonely("forall y. G F[2,3] Cross(y)", length=4)) == [0]
    assert times(lonely("forall y. G F Cross(y)", length=5)) == [0, 1, 2]
    assert times(lonely("forall y. X Cross(y)")) == [0]  # without G there is one point
    assert times(lonely("forall y. Cross(y)")) == []


def test_both_entities_of_a_pair_are_asked_for():
    for binder in ("forall (x, y) in pairs", "forall x, y"):
        cells = lonely(f"{binder}. G(Cross(y) -> X Stop(x))")
        cars = torch.tensor([[[True, True, True, True, True, False, True]]])
        cells = cells.viewed(tables=replace(cells.tables, present={"car": cars}))
        assert times(cells) == [0, 1, 2, 3, 5]  # the car is used at the next point
        both = {"car": cars, "ped": torch.tensor([[HERE]])}
        cells = cells.viewed(tables=replace(cells.tables, present=both))
        assert times(cells) == [1, 2, 5]


def test_what_is_absent_is_neither_listed_nor_counted_nor_a_counterexample():
    axiom = checked_axiom("forall y. G(Cross(y) -> X Wet)")
    tables = lonely("G Wet").tables
    found = violations(axiom, tables, STABLE_PRODUCT)
    assert [v.time for v in found] == [1, 2, 5]
    assert (found.count, found.violated, found.weak, found.absent) == (3, 3, 3, 4)
    first = counterexample(axiom, tables)
    assert first is not None
    assert first.time == 1
    heat = truth_over_time(View(tables, STABLE_PRODUCT).cells(axiom))
    assert (heat.count, heat.violated) == (3, 3)
    assert heat.values[0].isnan().tolist() == [not here for here in HERE]
    (rule,) = View(tables).rules([str(axiom.source)], resamples=0)
    assert (rule.absent, rule.overall.support, rule.as_dict()["absent"]) == (4, 3, 4)
    (row,) = (
        View(tables, STABLE_PRODUCT, learned=["Wet"], theory=replace(THEORY, axioms=(axiom,)))
        .audit()
        .axioms
    )
    assert (row.on_model.count, row.on_model.violated, row.on_model.absent) == (3, 3, 4)
    nobody = replace(tables, present={"ped": torch.zeros(1, 1, 7, dtype=torch.bool)})
    assert counterexample(axiom, nobody) is None
    assert violations(axiom, nobody, STABLE_PRODUCT).absent == 7
    assert len(truth_over_time(View(nobody, STABLE_PRODUCT).cells(axiom))) == 0


def test_what_is_absent_has_no_part_in_the_errors_of_rows():
    """The first pedestrian errs only where it is absent, the second one where it is present."""
    axiom = checked_axiom("forall y. G Cross(y)")
    tables = lonely("G Wet").tables
    cross = torch.tensor([[0.0, 1.0, 1.0, 0.0], [1.0, 0.5, 1.0, 1.0]])
    here = torch.tensor([[False, True, True, False], [True, True, True, True]])
    tables = replace(
        tables,
        sizes={"car": 1, "ped": 2},
        lengths=torch.tensor([4]),
        horizon=4,
        predicates={"Cross": cross.unsqueeze(0)},
        present={"ped": here.unsqueeze(0)},
        names=numbered({"car": 1, "ped": 2}),
    )
    for semantics in (STABLE_PRODUCT, CRISP):
        threshold = 0.6 if semantics.boolean else 0.5
        heat = truth_over_time(View(tables, semantics, threshold).cells(axiom))
        assert heat.errors.tolist() == [0.0, 1.0]
        assert heat.order.tolist() == [1, 0]
        assert [row.error for row in heat.worst(2)] == [1.0, 0.0]


def test_without_presence_all_cells_count():
    tables = replace(lonely("G Wet").tables, present={})
    axiom = checked_axiom("forall y. G(Cross(y) -> X Wet)")
    found = violations(axiom, tables, STABLE_PRODUCT)
    assert (found.count, found.absent) == (7, 0)


# --- brute force ------------------------------------------------------------------------------


def readers(tables: Tables) -> list[Loops]:
    """For each trace, the meaning of formulas by loops."""
    stated = {f"Here {sort}": mask.double() for sort, mask in tables.present.items()}
    known = {f"Here {sort}": th.PredicateDecl(f"Here {sort}", (sort,)) for sort in tables.present}
    signature = replace(
        tables.signature, predicates={**tables.signature.predicates, **known}
    )  # fmt: skip
    told = replace(tables, predicates={**tables.predicates, **stated}, signature=signature)
    here = {sort: f"Here {sort}" for sort in tables.present}
    return [Loops(told, trace, here) for trace in range(tables.batch)]


PREFIXES = (
    "forall x:car, y:ped. G({})",
    "forall y:ped where Known(y). G(forall x:car. {})",
    "G(forall x:car, y:ped where Near(x, y). {})",
    "G(forall x:car, y:ped where Known(y) & Near(x, y). {})",
    "forall (x, y) in pairs. G({})",
    "forall x:car, y:ped. {}",
    "forall y:ped. G[1,3](forall x:car. {})",
)
ATOMS = [
    f.Atom("Stop", (f.Var("x"),)),
    f.Atom("Cross", (f.Var("y"),)),
    f.Atom("Near", (f.Var("x"), f.Var("y"))),
    f.Atom("Known", (f.Var("y"),)),
    f.Atom("Wet", ()),
    f.Atom("Cross", (f.Apply("friend", (f.Var("y"),)),)),
]


def random_world(rng: random.Random) -> Tables:
    lengths = [rng.randint(1, 6) for _ in range(rng.choice([1, 2, 3]))]
    horizon, batch = max(lengths), len(lengths)
    generator = torch.Generator().manual_seed(rng.randrange(10**9))

    def truths(*shape: int) -> torch.Tensor:
        return torch.rand(batch, *shape, generator=generator) < 0.5

    every = list(itertools.product(range(2), range(3)))
    present = {"car": truths(2, horizon), "ped": truths(3, horizon)}
    for sort in rng.choice([(), ("car",), ("ped",)]):
        del present[sort]
    return Tables(
        SIZES,
        torch.tensor(lengths),
        horizon,
        {
            "Stop": truths(2, horizon).double(),
            "Cross": truths(3, horizon).double(),
            "Near": truths(2, 3, horizon).double(),
            "Wet": truths(horizon).double(),
            "Known": truths(3, 1).double(),
        },
        functions={"friend": torch.randint(0, 3, (1, 3, 1), generator=generator)},
        relations={"pairs": torch.tensor(rng.sample(every, 4))},
        signature=THEORY.signature,
        names=numbered(SIZES),
        present=present,
    )


def random_axiom(rng: random.Random) -> CheckedAxiom:
    sides = [random_formula(rng, rng.randint(0, 3), ATOMS) for _ in range(2)]
    return checked_axiom(rng.choice(PREFIXES).format(f"({sides[0]}) -> ({sides[1]})"))


@pytest.mark.parametrize("end", ["final", "undecided"])
@pytest.mark.parametrize("seed", seeds(50, 150))
def test_cells_and_base_rates_against_brute_force(seed, end, monkeypatch):
    rng = random.Random(seed)
    tables, axiom = random_world(rng), random_axiom(rng)
    if seed % 3 == 0:
        monkeypatch.setattr(sweeping, "MAX_CELLS", 5)
    cells = View(tables, STABLE_PRODUCT, end=end).cells(axiom)
    assert cells.prefix.rule is not None

    loops = readers(tables)

    def environment(axes, place):
        """The entities of a cell; a relation binds several, and others are anyone."""
        env: dict[c.Axis, Any] = dict.fromkeys(free_axes(cells.body), ANYONE)
        for axis, number in zip(axes, place, strict=True):
            related = axis.relation and tuple(tables.relation(axis.relation)[number].tolist())
            env[axis] = related or number
        return env

    def counted_in(layers, body):
        """The cells of layers, those of them that count, and a formula's truth: None if open."""
        axes = tuple(a for n in layers if isinstance(n, c.Quantifier) for a in n.axes)
        guards = [n.guard for n in layers if isinstance(n, c.Quantifier) and n.guard is not None]
        timed = [isinstance(n, c.Aggregate) for n in layers]
        assert len(guards) <= 1
        inner = bool(guards) and timed.index(True) < [
            isinstance(n, c.Quantifier) and n.guard is not None for n in layers
        ].index(True) if any(timed) else True  # fmt: skip
        meant = relative(if_longer(body), cells.boolean.presence).value
        longer = crisp.evaluate(written_out(meant), cells.boolean)
        plain = tuple(replace(n, guard=None) for n in layers)
        every, counted = [], []
        for trace, time, *place in cell_weights(plain, cells.boolean):
            env, at = environment(axes, place), time if inner else 0
            if all(loops[trace].value(guard, at, env) for guard in guards):
                every.append((trace, time, *place))
                if loops[trace].value(cells.body, time, env) is not None:
                    counted.append((trace, time, *place))

        def true(cell):
            trace, time, *place = cell
            env = environment(axes, place)
            now, later = (loops[trace].value(f, time, env) for f in (body, if_longer(body)))
            if later is None:  # a part that nothing but the end asks for is undefined
                at = dict(zip(axes, place, strict=True))
                later = bool(longer.tensor[(trace, *(at[a] for a in longer.axes), time)])
            return None if end == "undecided" and later and not now else now

        return every, counted, true

    layers, consequent = cells.prefix.layers, cells.prefix.rule[1]
    every, counted, true = counted_in(layers, cells.body)
    wrong = [cell for cell in counted if true(cell) is False]
    loose = [cell for cell in counted if true(cell) is None]
    found, _ = count(cells)
    for trace in range(tables.batch):
        assert found.cells[trace] == sum(cell[0] == trace for cell in counted), cells.text
        assert found.absent[trace] == sum(cell[0] == trace for cell in every) - found.cells[trace]
        assert found.support[trace] - found.held[trace] == sum(cell[0] == trace for cell in wrong)
        assert found.undecided[trace] == sum(cell[0] == trace for cell in loose)
    named = {n.axis for n in postorder(consequent) if isinstance(n, c.Variable)}
    _, base, holds = counted_in(about(layers, named), consequent)
    assert found.base_cells.sum() == sum(holds(cell) is not None for cell in base), cells.text
    assert found.base_true.sum() == sum(holds(cell) is True for cell in base), cells.text
    listed = cells.worst(1)  # its counts are those of all
    assert (listed.count, listed.violated, listed.undecided) == (
        len(counted), len(wrong), len(loose),
    )  # fmt: skip
    assert listed.absent == len(every) - len(counted)
    heat = truth_over_time(cells)
    assert (heat.count, heat.violated, heat.undecided) == (len(counted), len(wrong), len(loose))
    first = counterexample(axiom, tables, end=end)
    assert (first is None) == (not wrong)
    if first is not None:
        assert first.trace == min(wrong)[0]
        assert first.time == (min(wrong)[1] if cells.timed else None)


def test_the_cases_of_brute_force_are_not_trivial():
    some = 0
    for seed in range(50):
        rng = random.Random(seed)
        tables, axiom = random_world(rng), random_axiom(rng)
        found, _ = count(View(tables, STABLE_PRODUCT).cells(axiom))
        some += bool(found.cells.sum() > 3 and found.absent.sum() > 3)
    assert some > 20


def test_masks_are_kept_apart_by_axis():
    """So that they are no larger than the tables of presence."""
    cells = lonely("forall x, y. G(Stop(x) -> X Cross(y))")
    here = {"car": torch.ones(1, 1, 7, dtype=torch.bool), "ped": torch.tensor([[HERE]])}
    masks = present_where_used(cells.axes, cells.body, replace(cells.tables, present=here))
    assert [[a.name for a in mask.axes] for mask in masks] == [["x"], ["y"]]
    assert [tuple(mask.tensor.shape) for mask in masks] == [(1, 1, 7)] * 2
