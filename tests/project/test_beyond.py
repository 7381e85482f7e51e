"""Forecasts: steps after the last row of a trace."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fotltn
from fotltn.errors import DataError
from fotltn.grounding.wide import Wide, read_wide
from fotltn.logic.check import check
from fotltn.project.config import read_config
from fotltn.project.find import find_model
from fotltn.project.train import train_and_save
from fotltn.syntax.load import parse_theory

THEORY = """\
sort pump
predicate Failed(pump), Here(pump), Repair(pump)
temporal function load(pump): real
axiom Stays: forall x. G(Failed(x) -> WX Failed(x))
axiom Load: forall x. G(load(x) >= 0)
"""


def table(rng: np.random.Generator, *, away: bool = False) -> dict[str, list[Any]]:
    """Pumps in days of different lengths; with `away`, some hours of some pumps are left out."""
    rows = [
        (day, pump, hour)
        for day, hours in (("d1", 5), ("d2", 3))
        for pump in ("a", "b", "c")
        for hour in range(hours)
        if not away or rng.random() < 0.7 or hour == 0
    ]
    return {
        "day": [r[0] for r in rows],
        "pump": [r[1] for r in rows],
        "hour": [r[2] for r in rows],
        "bar": rng.normal(size=len(rows)).tolist(),
        "load": rng.random(len(rows)).tolist(),
        "repair": rng.integers(0, 2, len(rows)).tolist(),
        "failed": rng.integers(0, 2, len(rows)).tolist(),
        "site": ["north"] * len(rows),
    }


def wide(data: Any, **more: Any) -> Wide:
    columns = {"failed": "Failed", "repair": "Repair", "load": "load"}
    return Wide(data, "pump", "pump", "hour", "day", predicates=columns, **more)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("away", [False, True])
def test_what_is_carried_is_what_rows_say_at_the_last_time(seed, away):
    data = table(np.random.default_rng(seed), away=away)
    signature = check(parse_theory(THEORY)).signature
    how: dict[str, Any] = {"features": ["bar"], "presence": "Here" if away else None}
    long, seen = read_wide([wide(data, **how)], signature, horizon=7, beyond="last")
    # The same, with rows written out.
    more = {name: list(column) for name, column in data.items()}
    for day in ("d1", "d2"):
        last = max(h for d, h in zip(data["day"], data["hour"], strict=True) if d == day)
        final = [
            i for i, d in enumerate(data["day"]) if (d, data["hour"][i]) == (day, last)
        ]  # fmt: skip
        for i in final:
            for hour in range(last + 1, 7):
                for name, column in data.items():
                    more[name].append(hour if name == "hour" else column[i])
    written, expected = read_wide([wide(more, **how)], signature)
    assert long.lengths == written.lengths == (7, 7)
    assert torch.equal(seen["pump"].values, expected["pump"].values)
    for name in ("load", "Here") if away else ("load",):
        cells = [
            sorted(zip(r.trace, r.args[:, 0], r.time, r.value, strict=True))
            for r in (long.rows[name], written.rows[name])
        ]
        assert cells[0] == cells[1]
    assert long.rows["Repair"].time.max() < 5  # what is given is false where it is not stated


def model(data: Any, beyond: str = "last", **more: Any) -> fotltn.Model:
    settings: dict[str, Any] = {"features": ["bar"]} | more.pop("wide", {})
    return fotltn.train(
        THEORY, wide=wide(data, **settings), learn=["Failed"], data={"beyond": beyond},
        training={"epochs": 2}, **more,
    )  # fmt: skip


@pytest.mark.parametrize("encoder", [None, "gru", "convolution", "transformer"])
def test_a_forecast_leaves_the_past_as_it_is(encoder, tmp_path):
    data = table(np.random.default_rng(1))
    trained = model(data, inputs={"pump": {"encoder": encoder}} if encoder else None)
    trained.save(tmp_path / "model")
    loaded = fotltn.load_model(tmp_path / "model")
    before = loaded.apply(data).predictions().to_pylist()
    after = loaded.apply(data, horizon=9).predictions().to_pylist()
    assert len(after) == 2 * 3 * 9
    degree = {(r["trace"], r["arg1"], r["time"]): r["truth"] for r in after}
    for row in before:
        expected = pytest.approx(row["truth"], abs=1e-6)
        assert degree[row["trace"], row["arg1"], row["time"]] == expected


def test_static_features_need_nothing():
    data = {k: v for k, v in table(np.random.default_rng(2)).items() if k != "bar"}
    sites = {"pump": ["a", "b", "c"], "size": [1, 2, 3]}
    theory = """
sort pump
predicate Failed(pump)
hard axiom Stays: forall x. G(Failed(x) -> WX Failed(x))
"""
    facts = {"predicate": ["Failed"] * 2, "arg1": ["a", "b"], "time": [1, 1], "truth": [1, 0]}
    model = fotltn.train(theory, facts=facts, objective={"invented": 0.0, "missed": 0.0}, **how)
    with pytest.raises(DataError, match="worlds were sampled for these traces") as told:
        model.apply(facts, horizon=4)
    assert "horizon = 4 in [data]" in str(told.value)
    later = fotltn.train(
        theory, facts=facts, data={"horizon": 4}, objective={"invented": 0.0, "missed": 0.0}, **how
    )
    assert later.ask("Failed(x)", at="all").tensor[0, 0].tolist()[1:] == [1, 1, 1]


def test_a_project_forecasts_from_its_own_tables(tmp_path: Path):
    (tmp_path / "t.fot").write_text("sort pump\npredicate Failed(pump)\n")
    (tmp_path / "pumps.csv").write_text("pump,hour,bar,failed\na,0,5,0\na,1,1,1\n")
    (tmp_path / "project.toml").write_text(
        '[theory]\nfile = "t.fot"\n[data]\nbeyond = "last"\n[[data.wide]]\nfile = "pumps.csv"\n'
        'sort = "pump"\nentity = "pump"\ntime = "hour"\npredicates = { failed = "Failed" }\n'
        'features = ["bar"]\n[predicates]\nFailed = "network"\n[training]\nepochs = 2\n'
    )
    train_and_save(read_config(tmp_path), tmp_path / "model")
    longer = find_model(tmp_path, horizon=4).predictions()
    assert longer.column("time").to_pylist() == [0, 1, 2, 3]
    with pytest.raises(DataError, match="--horizon goes with --data"):
        find_model(tmp_path / "model", horizon=4)
