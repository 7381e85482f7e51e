"""Appendix B of the paper, number by number (its "0.964" for 0.946 and 1.000 is a misprint)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fotltn import parse_formula
from fotltn.dsl import WX, G, forall, predicates, variables
from tests.helpers import evaluate

# Axes (entity, time), entities c1 and p1; Close has (entity, entity, time).
DEGREES: dict[str, Any] = {
    "Car": [[0.99] * 5, [0.01] * 5],
    "Ped": [[0.01] * 5, [0.99] * 5],
    "Crossing": [[0.01] * 5, [0.10, 0.90, 0.80, 0.10, 0.05]],
    "Stop": [[0.05, 0.10, 0.90, 0.85, 0.20], [0.05] * 5],
    "Close": [
        [[0.01] * 5, [0.05, 0.85, 0.80, 0.15, 0.05]],
        [[0.05, 0.85, 0.80, 0.15, 0.05], [0.01] * 5],
    ],
}
TABLES = {name: torch.tensor(rows, dtype=torch.float64) for name, rows in DEGREES.items()}
ANTECEDENT = "Car(x) & Ped(y) & Crossing(y) & Close(x, y)"
CONSEQUENT = "WX Stop(x)"
BODY = f"{ANTECEDENT} -> {CONSEQUENT}"

# The right-hand table as printed.
VACUOUS = "0.000 0.000 0.000 0.000 0.000"
TRUE = "1.000 1.000 1.000 1.000 1.000"
PRINTED = {
    (0, 0): (VACUOUS, "0.100 0.900 0.850 0.200 1.000", TRUE),
    (0, 1): (
        "0.005 0.750 0.627 0.015 0.002",
        "0.100 0.900 0.850 0.200 1.000",
        "0.996 0.925 0.906 0.988 1.000",
    ),
    (1, 0): (VACUOUS, "0.050 0.050 0.050 0.050 1.000", TRUE),
    (1, 1): (VACUOUS, "0.050 0.050 0.050 0.050 1.000", TRUE),
}


def value(text: str, at: int | str = "all") -> Tensor:
    return evaluate(text, TABLES, p=2, at=at)


def printed(row: Tensor) -> str:
    return " ".join(f"{u:.3f}" for u in row.tolist())


@pytest.mark.parametrize("pair", PRINTED)
def test_right_hand_table(pair):
    x, y = pair
    found = value(ANTECEDENT)[x, y], value(CONSEQUENT)[x], value(BODY)[x, y]
    assert tuple(map(printed, found)) == PRINTED[pair]


def test_aggregation_over_time():
    found = value(f"G({BODY})", at=0)
    assert [[f"{s:.3f}" for s in row] for row in found.tolist()] == [
        ["1.000", "0.946"],
        ["1.000", "1.000"],
    ]


def test_aggregation_over_pairs():
    assert f"{value(f'forall x. forall y. G({BODY})', at=0).item():.3f}" == "0.973"
    assert f"{value(f'forall x, y. G({BODY})', at=0).item():.3f}" == "0.973"


def test_from_python():
    x, y = variables("x y")
    Car, Ped, Crossing, Close, Stop = predicates("Car Ped Crossing Close Stop")  # noqa: N806
    formula = forall(x, y, G((Car(x) & Ped(y) & Crossing(y) & Close(x, y)) >> WX(Stop(x))))
    assert formula == parse_formula(f"forall x, y. G({BODY})")
    assert f"{evaluate(formula, TABLES, p=2).item():.3f}" == "0.973"


def test_by_hand():
    """The sums of the appendix, not only their rounded results."""
    v = torch.ones(2, 2, 5)
    stop = torch.cat([TABLES["Stop"][:, 1:], torch.ones(2, 1)], dim=1)
    for x in range(2):
        for y in range(2):
            a = TABLES["Car"][x] * TABLES["Ped"][y] * TABLES["Crossing"][y] * TABLES["Close"][x, y]
            v[x, y] = 1 - a + a * stop[x]
    s = 1 - ((1 - v) ** 2).mean(-1).sqrt()
    total = 1 - ((1 - s) ** 2).mean().sqrt()
    torch.testing.assert_close(value(BODY), v)
    torch.testing.assert_close(value(f"G({BODY})", at=0), s)
    torch.testing.assert_close(value(f"forall x, y. G({BODY})", at=0), total)
