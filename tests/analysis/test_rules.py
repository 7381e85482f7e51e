"""Rules counted on data: against loops in plain Python, and their intervals."""

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from fotltn import DataError, check
from fotltn.analysis.counts import ratio
from fotltn.analysis.rules import Draws, estimate
from fotltn.analysis.view import View
from fotltn.logic.check import check_formula
from fotltn.logic.span import reach
from fotltn.semantics.config import GODEL, STABLE_PRODUCT
from fotltn.semantics.sparse import sparse_table
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula

THEORY = check(
    parse_theory(
        """
        sort car, ped
        relation pairs(car, ped)
        predicate Stop(car), Cross(ped), Close(car, ped), Rain
        static predicate Known(ped)
        axiom A1: forall x, y where Known(y). G(Cross(y) & Close(x, y) -> WX Stop(x))
        axiom A2: forall y where Known(y). G(Cross(y) -> F[<=2] !Cross(y))
        axiom A3: forall x. G(Rain -> F Stop(x))
        axiom A4: forall x. Stop(x)
        axiom A5: G(Rain -> exists y where Known(y). Cross(y))
        axiom A6: forall (x, y) in pairs. G(Close(x, y) -> Stop(x))
        axiom A7: forall y where Known(y) & Rain. Cross(y) -> Rain
        """,
        source="rules.fot",
    )
)
CARS, PEDS, HORIZON = 2, 3, 6
LENGTHS = [6, 4, 1, 5]
PAIRS = [(0, 0), (1, 2), (0, 2)]


class Scene:
    """Random facts, and pedestrians that come and go."""

    def __init__(self, seed: int = 0, *, graded: bool = False) -> None:
        rng = random.Random(seed)
        batch = len(LENGTHS)

        def table(*shape):
            cells = itertools.product(*map(range, (batch, *shape)))
            return {c: (rng.random() if graded else float(rng.random() < 0.5)) for c in cells}

        self.stop, self.cross = table(CARS, HORIZON), table(PEDS, HORIZON)
        self.close, self.rain = table(CARS, PEDS, HORIZON), table(HORIZON)
        self.known = {(b, y): float(rng.random() < 0.8) for b in range(batch) for y in range(PEDS)}
        self.here = {
            (b, y, t): bool(self.known[b, y]) and rng.random() < 0.7
            for b, y, t in itertools.product(range(batch), range(PEDS), range(HORIZON))
        }

    def tables(self, *, presence: bool = False) -> Tables:
        def tensor(cells, *shape):
            return torch.tensor([*cells.values()], dtype=torch.float64).reshape(*shape)

        batch = len(LENGTHS)
        close = tensor(self.close, batch, CARS, PEDS, HORIZON)
        return Tables(
            {"car": CARS, "ped": PEDS}, torch.tensor(LENGTHS), HORIZON,
            {
                "Stop": tensor(self.stop, batch, CARS, HORIZON),
                "Cross": tensor(self.cross, batch, PEDS, HORIZON),
                "Close": sparse_table(close.nonzero().T, close[close > 0], close.shape),
                "Rain": tensor(self.rain, batch, HORIZON),
                "Known": tensor(self.known, batch, PEDS, 1),
            },
            relations={"pairs": torch.tensor(PAIRS)},
            signature=THEORY.signature,
            present={"ped": tensor(self.here, batch, PEDS, HORIZON).bool()} if presence else {},
        )  # fmt: skip


def counted(scene, names=None, *, presence=False, **options):
    axioms = tuple(a for a in THEORY.axioms if names is None or a.name in names)
    view = View(scene.tables(presence=presence), theory=replace(THEORY, axioms=axioms))
    return {rule.name: rule for rule in view.rules(**{"resamples": 0, **options})}


def sums(cells):
    """Support, held, from pairs of antecedent and consequent."""
    cells = list(cells)
    return sum(a for a, _ in cells), sum(min(a, b) for a, b in cells)


def share(values):
    values = list(values)
    return sum(values) / len(values) if values else None


def times(ahead=0):
    return [(b, t) for b, length in enumerate(LENGTHS) for t in range(length) if t + ahead < length]


# --- counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("presence", [False, True])
def test_two_kinds_of_entities_and_a_weak_next(seed, presence):
    scene = Scene(seed)
    here = scene.here if presence else dict.fromkeys(scene.here, True)

    def stops(b, x, t):
        return scene.stop[b, x, t + 1] if t + 1 < LENGTHS[b] else 1.0

    found = counted(scene, ["A1"], presence=presence)["A1"]
    for strength, ahead in ((found.overall, 0), (found.uncut, 1)):
        cells = [
            (b, x, y, t)
            for b, t in times(ahead)
            for x in range(CARS)
            for y in range(PEDS)
            if scene.known[b, y] and here[b, y, t]
        ]
        support, held = sums(
            (scene.cross[b, y, t] * scene.close[b, x, y, t], stops(b, x, t)) for b, x, y, t in cells
        )
        base = share(stops(b, x, t) for b, t in times(ahead) for x in range(CARS))
        assert strength.support == support
        assert strength.confidence.value == pytest.approx(held / support)
        assert strength.base_rate.value == pytest.approx(base)  # cars alone: whoever is there
        assert strength.lift.value == pytest.approx(held / support / base)
    assert found.cut == found.overall.support - found.uncut.support
    active = {b for b, x, y, t in itertools.product(range(4), range(CARS), range(PEDS), range(6))
              if t < LENGTHS[b] and scene.known[b, y] and here[b, y, t]
              and scene.cross[b, y, t] * scene.close[b, x, y, t]}  # fmt: skip
    assert found.overall.traces == len(active)
    known = [(b, y, t) for b, t in times() for y in range(PEDS) if scene.known[b, y]]
    assert found.absent == CARS * sum(not here[cell] for cell in known)


@pytest.mark.parametrize("end", ["final", "undecided"])
@pytest.mark.parametrize("seed", range(5))
def test_one_kind_whose_base_rate_is_where_it_is_present(seed, end):
    scene = Scene(seed)

    def ends(b, y, t):
        seen = [s for s in range(t, min(t + 3, LENGTHS[b])) if scene.here[b, y, s]]
        return max(1 - scene.cross[b, y, s] for s in seen)

    found = counted(scene, ["A2"], presence=True, end=end)["A2"]

    def decided(b, y, t):
        return end == "final" or t + 2 < LENGTHS[b] or ends(b, y, t)

    for strength, ahead in ((found.overall, 0), (found.uncut, 2)):
        every = [(b, y, t) for b, t in times(ahead) for y in range(PEDS) if scene.known[b, y]]
        cells = [cell for cell in every if scene.here[cell]]  # the antecedent asks about now
        support, held = sums((scene.cross[c], ends(*c)) for c in cells if decided(*c))
        assert strength.support == support
        assert strength.confidence.value == pytest.approx(held / support)
        base = share(ends(*c) for c in cells if decided(*c))
        assert strength.base_rate.value == pytest.approx(base)
        if ahead == 0:
            assert found.absent == len(every) - len(cells)
            assert found.undecided == sum(scene.cross[c] for c in cells if not decided(*c))


def test_a_consequent_that_looks_to_the_end_has_no_cells_without_it():
    found = counted(Scene(1), ["A3", "A5"])
    assert found["A3"].uncut is None
    assert found["A3"].cut is None
    assert found["A5"].uncut is not None
    assert found["A5"].cut == 0


def test_rules_without_an_antecedent_have_the_share_of_cells():
    scene = Scene(2)
    found = counted(scene, ["A4"])["A4"]
    stops = [scene.stop[b, x, 0] for b in range(4) for x in range(CARS)]
    assert (found.implication, found.overall.support) == (False, len(stops))
    assert found.overall.confidence.value == pytest.approx(share(stops))
    assert found.overall.base_rate.value is None
    assert found.overall.lift.value is None


def test_pairs_of_a_relation():
    scene = Scene(3)
    found = counted(scene, ["A6"], presence=True)["A6"].overall
    cells = [(b, x, y, t) for b, t in times() for x, y in PAIRS if scene.here[b, y, t]]
    support, held = sums((scene.close[b, x, y, t], scene.stop[b, x, t]) for b, x, y, t in cells)
    assert (found.support, found.confidence.value) == (support, pytest.approx(held / support))
    base = share(scene.stop[b, x, t] for b, x, _, t in cells)  # of the pairs, with all in them
    assert found.base_rate.value == pytest.approx(base)


def test_guards_that_speak_of_nothing_else_hold_for_the_base_rate_too():
    scene = Scene(4)
    found = counted(scene, ["A7"])["A7"].overall
    rainy = [b for b in range(4) if scene.rain[b, 0]]
    support = sum(scene.cross[b, y, 0] for b in rainy for y in range(PEDS) if scene.known[b, y])
    assert (found.support, found.confidence.value) == (support, 1.0)
    assert found.base_rate.value == 1.0  # Rain, where it rains


@pytest.mark.parametrize("seed", range(3))
def test_degrees_are_summed(seed):
    scene = Scene(seed, graded=True)
    scene.known = {key: float(value > 0) for key, value in scene.known.items()}
    found = counted(scene, ["A1"], presence=True, semantics=GODEL)["A1"].overall

    def stops(b, x, t):
        return scene.stop[b, x, t + 1] if t + 1 < LENGTHS[b] else 1.0

    cells = [(b, x, y, t) for b, t in times() for x in range(CARS) for y in range(PEDS)
             if scene.here[b, y, t]]  # fmt: skip
    support, held = sums(
        (min(scene.cross[b, y, t], scene.close[b, x, y, t]), stops(b, x, t)) for b, x, y, t in cells
    )
    assert found.support == pytest.approx(support)
    assert found.confidence.value == pytest.approx(held / support)
    base = share(stops(b, x, t) for b, t in times() for x in range(CARS))
    assert found.base_rate.value == pytest.approx(base)
    product = counted(scene, ["A1"], presence=True, semantics=STABLE_PRODUCT)["A1"].overall
    wanted = sum(scene.cross[b, y, t] * scene.close[b, x, y, t] for b, x, y, t in cells)
    assert product.support == pytest.approx(wanted)


def test_degrees_of_crisp_facts_are_counts():
    scene = Scene(5)
    options = {"presence": True, "resamples": 50, "end": "final"}
    crisp, graded = counted(scene, **options), counted(scene, semantics=GODEL, **options)
    for name, rule in crisp.items():
        assert _flat(graded[name].as_dict()) == pytest.approx(_flat(rule.as_dict()), nan_ok=True)


def _flat(value):
    if isinstance(value, dict):
        return [one for inner in value.values() for one in _flat(inner)]
    return [] if isinstance(value, str) else [math.nan if value is None else float(value)]


def test_a_threshold_makes_degrees_true():
    scene = Scene(6, graded=True)
    low, high = (
        counted(scene, ["A2"], threshold=t, end="final")["A2"].overall.support for t in (0.2, 0.8)
    )
    cells = [(b, y, t) for b, t in times() for y in range(PEDS) if scene.known[b, y] >= 0.5]
    assert low > high
    assert high == sum(scene.cross[c] >= 0.8 for c in cells)


def test_some_traces():
    scene = Scene(7)
    whole = counted(scene, ["A1"])["A1"].overall
    parts = [counted(scene, ["A1"], traces=traces)["A1"].overall for traces in ([0, 2], [3, 1])]
    assert whole.support == sum(part.support for part in parts)
    assert whole.traces == sum(part.traces for part in parts)


def test_many_entities_are_counted_a_part_at_a_time(monkeypatch):
    scene = Scene(8)
    whole = counted(scene, presence=True)
    monkeypatch.setattr("fotltn.analysis.evaluate_cells.MAX_CELLS", 1)
    assert counted(scene, presence=True) == whole


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0}, "a threshold must be above 0"),
        ({"traces": []}, "some of the traces 0 to 3"),
        ({"traces": [4]}, "some of the traces 0 to 3"),
        ({"resamples": -1}, "resamples are a whole number"),
        ({"seed": -1}, "a seed is a whole number"),
    ],
)
def test_what_makes_no_sense(options, message):
    with pytest.raises(DataError, match=message):
        counted(Scene(), **options)


# --- intervals ------------------------------------------------------------------------------------


def test_intervals_are_quantiles_over_traces_drawn_anew():
    """The same draws by hand: confidence and lift of each draw, and their quantiles."""
    scene = Scene(9)
    found = counted(scene, ["A1"], resamples=400, seed=5)["A1"].overall
    parts = [counted(scene, ["A1"], traces=[b])["A1"].overall for b in range(4)]
    picked = np.random.default_rng(5).integers(4, size=(400, 4))
    confidences = []
    for draw in picked:
        support = sum(parts[b].support for b in draw)
        held = sum(parts[b].support * (parts[b].confidence.value or 0.0) for b in draw)
        confidences.append(held / support)
    low, high = np.quantile(confidences, [0.025, 0.975])
    assert (found.confidence.low, found.confidence.high) == pytest.approx((low, high))
    assert found.confidence.low < found.confidence.value < found.confidence.high
    assert found.lift.low is not None
    again = counted(scene, ["A1"], resamples=400, seed=5)["A1"].overall
    assert again == found
    assert counted(scene, ["A1"], resamples=400, seed=6)["A1"].overall != found


def test_draws_are_whole_traces():
    counts = np.arange(5.0)[:, None] ** np.array([[0, 1]])  # how many, and the sum of numbers
    drawn = Draws(5, 1000, 0).sums(counts)
    assert drawn.shape == (1000, 2)
    assert (drawn[:, 0] == 5).all()
    assert drawn[:, 1].mean() == pytest.approx(10, abs=0.5)
    assert drawn[:, 1].std() == pytest.approx(math.sqrt(5 * 2), abs=0.3)


def test_many_traces_are_drawn_in_parts(monkeypatch):
    counts = np.ones((50, 1))
    monkeypatch.setattr("fotltn.analysis.rules._AT_ONCE", 120)
    assert Draws(50, 7, 0).sums(counts).tolist() == [[50.0]] * 7


def test_one_trace_has_no_interval_and_nothing_has_no_value():
    scene = Scene(10)
    found = counted(scene, ["A1"], traces=[0], resamples=100)["A1"].overall
    assert found.confidence.low is None
    assert estimate(np.float64("nan"), np.ones(3)).value is None
    rare = np.where(np.arange(100) < 20, np.nan, 0.5)  # a fifth of the draws has no support
    assert estimate(np.float64(0.5), rare).low is None
    assert ratio(np.array([1.0, 0.0]), np.array([2.0, 0.0])).tolist() == pytest.approx(
        [0.5, math.nan], nan_ok=True
    )


# --- how far formulas look ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("rain", 0),
        ("WX rain", 1),
        ("X[3] rain & F[<=5] rain", 5),
        ("F[2,4] X rain", 5),
        ("G rain", None),
        ("rain U[<=3] WX rain", 4),
        ("rain R rain", None),
        ("O rain & Y rain", 0),
        ("O F[<=2] rain", 2),
        ("forall x. X B(x)", 1),
        ("last", None),
        ("first", 0),
    ],
)
def test_how_far_ahead_a_formula_looks(text, wanted):
    assert reach(check_formula(parse_formula(text)).formula) == wanted


def test_old_names_of_attributes_warn():
    rule = counted(Scene(0), ["A1"])["A1"]
    with pytest.warns(DeprecationWarning, match=r"Rule\.whole is now called overall"):
        assert rule.whole is rule.overall
    with pytest.raises(AttributeError, match="'Rule' object has no attribute 'hole'"):
        _ = rule.hole
