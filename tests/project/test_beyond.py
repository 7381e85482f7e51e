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
    theory = (
        "sort pump\npredicate Failed(pump)\naxiom Stays: forall x. G(Failed(x) -> WX Failed(x))"
    )
    trained = fotltn.train(
        theory,
        wide=[
            Wide(data, "pump", "pump", "hour", "day", predicates={"failed": "Failed"}),
            Wide(sites, "pump", "pump", features=["size"]),
        ],
        learn=["Failed"], training={"epochs": 2},
    )  # fmt: skip
    assert trained.apply([data, sites], horizon=9).predictions().num_rows == 2 * 3 * 9


def test_without_leave_it_is_refused():
    data = table(np.random.default_rng(3))
    with pytest.raises(DataError) as told:
        model(data, "error").apply(data, horizon=9)
    assert "which is after its last row, at time 4" in str(told.value)
    assert 'beyond = "last" in [data]' in str(told.value)
    plain = fotltn.train(
        THEORY, wide=wide(data), learn=["Failed"], inputs={"pump": {"time": "static"}},
        training={"epochs": 1},
    )  # fmt: skip
    with pytest.raises(DataError, match=r"the function 'load' has no value .* after its last row"):
        plain.apply(data, horizon=9)


def test_those_who_are_there_last_stay():
    data = table(np.random.default_rng(4), away=True)
    gone = model(data, "error", wide={"presence": "Here"}).apply(data, horizon=9)
    assert any("is present after time" in w.message for w in gone.facts.warnings)
    stays = model(data, wide={"presence": "Here"}).apply(data, horizon=9)
    assert not stays.facts.warnings
    assert {r["time"] for r in gone.predictions().to_pylist()} <= set(range(5))
    last = [r for r in stays.predictions().to_pylist() if r["time"] == 8]
    assert last
    here = stays.tables.predicate("Here")
    assert torch.equal(here[0, :, 8], here[0, :, 4])


def test_an_encoder_that_looks_ahead_is_refused():
    data = table(np.random.default_rng(5))
    with pytest.raises(
        DataError, match=r"an encoder that looks ahead cannot be combined with data.bey"
    ):
        model(data, inputs={"pump": {"encoder": {"kind": "gru", "causal": False}}})


@pytest.mark.parametrize("missing", ["mean", "last", "zero"])
@pytest.mark.parametrize("kind", ["gru", "convolution", "transformer"])
def test_missing_features_are_no_leave_to_look_ahead(kind, missing):
    """What `missing` says of later steps would change what is said of earlier ones."""
    data = table(np.random.default_rng(6))
    columns = {"failed": "Failed", "repair": "Repair"}
    seen = Wide(data, "pump", "pump", "hour", "day", predicates=columns, features=["bar"],
                missing=missing)  # fmt: skip

    def trained(causal: bool) -> fotltn.Model:
        return fotltn.train(
            "sort pump\npredicate Failed(pump), Repair(pump)",
            wide=seen, learn=["Failed"], training={"epochs": 1},
            inputs={"pump": {"encoder": {"kind": kind, "width": 4, "causal": causal}}},
        )  # fmt: skip

    short, longer = (trained(causal=True).apply(data, horizon=h) for h in (5, 9))
    before = short.tables.predicate("Failed")[0]
    assert torch.allclose(longer.tables.predicate("Failed")[0][:, :5], before, atol=1e-6)
    ahead = trained(causal=False)
    assert ahead.apply(data).predictions().num_rows
    with pytest.raises(DataError) as told:
        ahead.apply(data, horizon=9)
    assert "an encoder that looks ahead cannot make forecasts" in str(told.value)
    assert "inputs.pump.encoder.causal = false" in str(told.value)
    assert "causal = true" in str(told.value.diagnostics[0].hint)


def test_sampled_worlds_go_beyond_the_last_row():
    """A longer trace is sampled anew, by facts that are evidence, or from the start."""
    sure = {"invented": 0.0, "missed": 0.0}
    how: dict[str, Any] = {"learn": ["Failed"], "method": "posterior", "objective": sure,
                           "posterior": {"worlds": 8, "burn_in": 5, "sweeps": 5}}  # fmt: skip
    theory = """
sort pump
predicate Failed(pump)
hard axiom Stays: forall x. G(Failed(x) -> WX Failed(x))
"""
    facts = {"predicate": ["Failed"] * 2, "arg1": ["a", "b"], "time": [1, 1], "truth": [1, 0]}
    model = fotltn.train(theory, facts=facts, **how)
    for later in (
        model.apply(facts, horizon=4, evidence=True),
        fotltn.train(theory, facts=facts, data={"horizon": 4}, **how),
    ):
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
    with pytest.raises(DataError, match="--horizon needs --data"):
        find_model(tmp_path / "model", horizon=4)
