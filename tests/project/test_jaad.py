"""The example on real clips: counts against loops over rows, the batch against single clips."""

import csv
import gzip
import itertools
import json
import os
import re
import runpy
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.jaad import apart, batch
from fotltn.engine import InBlocks, compile_formulas
from fotltn.evaluation import evaluate_all
from fotltn.plan import blocks
from fotltn.project.config import read_config
from fotltn.project.find import load_project
from fotltn.project.train import train
from fotltn.project.world import read_world
from fotltn.semantics import reference
from fotltn.semantics.config import CRISP, GODEL, STABLE_PRODUCT
from fotltn.semantics.tables import Tables, Value

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "examples" / "jaad"
AUDIT = json.loads((ROOT / "docs" / "jaad" / "audit.json").read_text("utf-8"))
#: A folder with the tables of all clips; tests that need it are skipped without.
WHOLE = os.environ.get("FOTLTN_JAAD")
FOLDERS = [PROJECT / "data", *([Path(WHOLE)] if WHOLE else [])]

by_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)


class Rows:
    """The tables as lists of rows, and what loops over them find."""

    def __init__(self, folder: Path) -> None:
        self.car = {(r["clip"], int(r["t"])): r for r in _read(folder / "car_steps_10hz.csv.gz")}
        self.peds = _read(folder / "ped_steps_10hz.csv.gz")
        self.ped = {(r["clip"], r["ped"], int(r["t"])): r for r in self.peds}
        self.length: dict[str, int] = defaultdict(int)
        for clip, t in self.car:
            self.length[clip] = max(self.length[clip], t + 1)
        self.part = {r["video"]: r["split"] for r in _read(folder / "videos.csv")}

    def stops(self, clip: str, t: int) -> bool:
        return self.car[clip, t]["Stop"] == "True"

    def weak_stop(self, clip: str, t: int) -> bool:
        return t + 1 >= self.length[clip] or self.stops(clip, t + 1)

    def soon_stop(self, clip: str, t: int) -> bool:
        return any(self.stops(clip, s) for s in range(t, min(t + 31, self.length[clip])))

    def near(self, least: float, part: str | None = None) -> list[tuple[str, int]]:
        """Where somebody crosses whose box is so high."""
        return [
            (r["clip"], int(r["t"]))
            for r in self.peds
            if r["Crossing"] == "True" and float(r["h_rel"]) >= least
            if part is None or self.part[r["clip"]] == part
        ]

    def starts(self) -> list[tuple[str, str, int]]:
        """Where somebody crosses who was on the sidewalk the step before."""
        return [
            key
            for key, r in self.ped.items()
            if r["Crossing"] == "True"
            if self.ped.get((*key[:2], key[2] - 1), {}).get("OnSidewalk") == "True"
        ]

    def in_view(self) -> list[tuple[str, str, int]]:
        """Where somebody is in view, and was the step before."""
        return [(clip, ped, t) for clip, ped, t in self.ped if (clip, ped, t - 1) in self.ped]

    def looked(self, clip: str, ped: str, t: int, reach: int) -> bool:
        seen = range(max(0, t - reach), t + 1)
        return any(self.ped.get((clip, ped, s), {}).get("Looking") == "True" for s in seen)


def _read(path: Path) -> list[dict[str, str]]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return list(csv.DictReader(text.splitlines()))


def world(folder: Path):
    return read_world(replace(read_config(PROJECT, data=folder), dtype="float64"))


# --- rules ----------------------------------------------------------------------------------------


@by_folder
def test_rules_are_what_loops_over_the_rows_find(folder):
    rows = Rows(folder)
    found = load_project(PROJECT, data=folder, theory=PROJECT / "audit.fot")
    counted = {r.name: r for r in found.rules(resamples=0)}
    for name, least, then in (
        ("A1", 0.2, rows.weak_stop), ("C10", 0.1, rows.weak_stop), ("C40", 0.4, rows.weak_stop),
        ("B3", 0.2, rows.soon_stop), ("D30", 0.3, rows.soon_stop),
    ):  # fmt: skip
        rule, cells = counted[name].overall, rows.near(least)
        assert rule.support == len(cells)
        assert rule.confidence.value == pytest.approx(sum(then(*c) for c in cells) / len(cells))
        base = sum(then(*c) for c in rows.car) / len(rows.car)
        assert rule.base_rate.value == pytest.approx(base)
        assert rule.traces == len({clip for clip, _ in cells})
    inner = [(c, t) for c, t in rows.near(0.2) if t + 1 < rows.length[c]]
    uncut = counted["A1"].uncut
    assert uncut is not None
    assert uncut.support == len(inner)
    held = sum(rows.stops(c, t + 1) for c, t in inner) / len(inner)
    assert uncut.confidence.value == pytest.approx(held)
    for name, reach in (("P1", 10**6), ("P2", 30), ("P5", 10), ("P6", 0)):
        rule, starts = counted[name].overall, rows.starts()
        assert rule.support == len(starts)
        share = sum(rows.looked(*s, reach) for s in starts) / len(starts)
        assert rule.confidence.value == pytest.approx(share)
        there = rows.in_view()
        base = sum(rows.looked(*c, reach) for c in there) / len(there)
        assert rule.base_rate.value == pytest.approx(base)


def test_a_part_of_the_split():
    rows = Rows(PROJECT / "data")
    found = load_project(PROJECT)
    for part, word in (("train", "train"), ("validation", "val"), ("test", "test")):
        rule = next(found.rules(part=part, resamples=0))
        assert (rule.name, rule.overall.support) == ("A1", len(rows.near(0.2, word)))


def test_degrees_of_closeness_weigh_the_cells():
    rows = Rows(PROJECT / "data")
    found = {r.name: r.overall for r in load_project(PROJECT).rules(semantics=GODEL, resamples=0)}
    degrees = [
        (min(1, max(0, (float(r["h_rel"]) - 0.1) / 0.3)), r["clip"], int(r["t"]))
        for r in rows.peds
        if r["Crossing"] == "True"
    ]
    support = sum(d for d, _, _ in degrees)
    held = sum(d for d, clip, t in degrees if rows.weak_stop(clip, t))
    assert found["N1"].support == pytest.approx(support)
    assert found["N1"].confidence.value == pytest.approx(held / support)
    crisp = {r.name: r.overall for r in load_project(PROJECT).rules(resamples=0)}
    assert found["A1"].support == crisp["A1"].support
    assert found["B3"].confidence == crisp["B3"].confidence


@pytest.mark.skipif(WHOLE is None, reason="FOTLTN_JAAD names no folder with all tables")
def test_all_clips_give_the_figures_on_record():
    found = load_project(PROJECT, data=Path(str(WHOLE)), theory=PROJECT / "audit.fot")
    for rule in found.rules():
        known = AUDIT["parts"]["all"][rule.name]
        assert rule.overall.support == known["support"]
        for kind in ("confidence", "base_rate", "lift"):
            for bound in ("value", "low", "high"):
                value = getattr(getattr(rule.overall, kind), bound)
                assert value == (None if known[kind][bound] is None else pytest.approx(
                    known[kind][bound], rel=1e-3))  # fmt: skip


def test_the_record_has_the_check_figure():
    """12,574 pairs, .340 of them hold, against .148 over all steps of cars."""
    a1 = AUDIT["parts"]["all"]["A1"]
    assert a1["support"] == 12574
    assert round(a1["confidence"]["value"], 3) == 0.340
    assert round(a1["base_rate"]["value"], 3) == 0.148
    assert AUDIT["traces"] == {"all": 346, "train": 188, "validation": 32, "test": 126}


def test_the_script_of_the_audit(tmp_path, monkeypatch, capsys):
    out = tmp_path / "audit.json"
    monkeypatch.setattr(sys, "argv", ["audit.py", "--json", str(out)])
    runpy.run_path(str(PROJECT / "audit.py"), run_name="__main__")
    found = json.loads(out.read_text("utf-8"))
    assert set(found) == set(AUDIT)
    assert set(found["parts"]["all"]) == set(AUDIT["parts"]["all"])
    assert found["texts"] == AUDIT["texts"]
    assert "validation, crisp" in capsys.readouterr().out


# --- values ---------------------------------------------------------------------------------------


@by_folder
@pytest.mark.parametrize("semantics", [STABLE_PRODUCT, GODEL, CRISP], ids=lambda s: s.name)
def test_all_clips_at_once_are_what_each_is_alone(folder, semantics, monkeypatch):
    if folder == FOLDERS[0]:
        monkeypatch.setattr(blocks, "STEP_CELLS", 0)
    given = world(folder)
    model = batch(given)
    formulas = {a.name: a.formula for a in given.theory.axioms}
    threshold = 0.5 if semantics.boolean else None

    def values(one: Tables) -> dict[str, Value]:
        return evaluate_all(formulas, one, semantics, at=0, threshold=threshold)

    with torch.no_grad():
        whole = values(model)
        for trace, clip in enumerate(apart(given, model)):
            single = values(clip)
            for name in formulas:
                here, there = whole[name].tensor[trace, 0], single[name].tensor.flatten()[0]
                assert float(here) == pytest.approx(float(there), abs=1e-9), (name, trace)


def test_blocks_and_equations_agree_with_gradients(monkeypatch):
    monkeypatch.setattr(blocks, "STEP_CELLS", 0)
    given = world(PROJECT / "data")
    model = batch(given)
    formulas = {a.name: a.formula for a in given.theory.axioms}
    program = compile_formulas(formulas, given.theory.signature, STABLE_PRODUCT)
    run = program.ready(model, dtype=torch.float64)
    assert isinstance(run, InBlocks)
    found = run(model)
    learned = [model.predicate(n) for n in ("Stop", "Crossing")]
    for name in ("A1", "A13", "P2"):
        wanted = reference.evaluate(formulas[name], model, STABLE_PRODUCT, dtype=torch.float64)
        sums = [found[name].tensor.sum(), wanted.tensor[:, 0].sum()]
        mine, theirs = (
            torch.autograd.grad(s, learned, allow_unused=True, retain_graph=True) for s in sums
        )
        for a, b in zip(mine, theirs, strict=True):
            mine_, theirs_ = (torch.zeros(1, 1, 1) if g is None else g for g in (a, b))
            torch.testing.assert_close(*torch.broadcast_tensors(mine_, theirs_), rtol=0, atol=1e-12)


# --- the project ----------------------------------------------------------------------------------


def test_what_the_project_reads():
    given = world(PROJECT / "data")
    rows = Rows(PROJECT / "data")
    assert set(given.facts.traces) == set(rows.length)
    assert dict(zip(given.facts.traces, given.facts.lengths, strict=True)) == rows.length
    assert given.facts.warnings == ()
    assert given.theory.warnings == ()
    assert sum(len(p) for p in given.parts.values()) == 12
    seen = {(c, p) for c, p, _ in rows.ped}
    local = zip(given.facts.traces, given.facts.local["ped"], strict=True)
    assert {(c, p) for c, names in local for p in names} == seen
    assert given.stated.truth["Crossing"].shape[0] == len(rows.peds)
    height = given.fixed.function("height")
    (clip, ped, t), row = next(itertools.islice(rows.ped.items(), 100, None))
    trace = given.facts.traces.index(clip)
    number = given.facts.local["ped"][trace].index(ped)
    assert float(height[trace, number, t]) == float(row["h_rel"])


def test_the_project_learns():
    config = read_config(PROJECT)
    few = replace(config, training=replace(config.training, epochs=3))
    model = train(few)
    assert len(model.history) == 3
    found = model.metrics()
    assert found is not None
    assert set(found.predicates) == {"Stop", "Run", "Crossing", "OnSidewalk"}
    tested = sum(model.facts.lengths[i] for i in model.world.parts["test"])
    assert found.predicates["Stop"].facts == tested


# --- the page -------------------------------------------------------------------------------------


def test_the_page_has_the_figures_on_record():
    page = (ROOT / "docs" / "jaad.md").read_text("utf-8")
    shown = dict(re.findall(r"^\| ([A-Z]+\d+) \| [^|]+ \| (.*) \|$", page, re.MULTILINE))
    for name, rule in {**AUDIT["parts"]["all"], "N1": AUDIT["degrees"]["N1"]}.items():
        clips, support, confidence, base, lift, uncut, more = (
            cell.strip() for cell in shown[name].split("|")
        )
        assert (clips, support) == (str(rule["traces"]), f"{rule['support']:,.0f}")
        assert confidence == _interval(rule["confidence"], 3)
        assert lift == _interval(rule["lift"], 2)
        assert base == _interval(rule["base_rate"], 3).split(" ")[0]
        inner = rule["uncut"] or {"confidence": {"value": None}, "lift": {"value": None}}
        assert uncut == _interval(inner["confidence"], 3).split(" ")[0]
        assert more == _interval(inner["lift"], 2).split(" ")[0]


def _interval(found, digits):
    if found["value"] is None:
        return ""
    low, high = found.get("low"), found.get("high")
    return f"{found['value']:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
