"""Real clips, step by step: verdicts at the end are those of evaluation offline."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

import fotltn
from fotltn import Monitor, Watch
from fotltn.analysis.view import View
from fotltn.evaluation import evaluate_all
from fotltn.grounding.dense import tables_of_facts
from fotltn.monitor.events import CellEvent
from fotltn.project.config import read_config
from fotltn.project.world import World, read_world
from fotltn.semantics.config import CRISP

PROJECT = Path(__file__).parents[2] / "examples" / "jaad"
#: A folder with the tables of all clips, if there is one.
TABLES = os.environ.get("FOTLTN_JAAD")


@cache
def world() -> World:
    config = read_config(PROJECT, data=Path(TABLES) if TABLES else None)
    return read_world(replace(config, dtype="float64"))


def test_final_verdicts_are_those_of_the_crisp_evaluator_on_every_clip_and_axiom():
    facts, theory = world().facts, world().theory
    truth = tables_of_facts(facts, theory.signature, dtype=torch.float64)
    formulas = {a.name: a.formula for a in theory.axioms}
    offline = evaluate_all(formulas, truth, CRISP, threshold=0.5)
    seen = set()
    monitor: Monitor | None = None
    for clip in range(len(facts.traces)):
        header, steps = fotltn.steps(truth, clip)
        monitor = Monitor(theory, header=replace(header, closed=True), values="none", like=monitor)
        assert sum(1 for _ in monitor.steps(steps)) == facts.lengths[clip]
        for state in monitor.finish():
            expected = bool(offline[state.axiom].tensor[clip, 0])
            assert (state.verdict == "satisfied") == expected, (facts.traces[clip], state.axiom)
            seen.add((state.axiom, expected))
    assert len({name for name, _ in seen}) == len(theory.axioms)
    assert {("A1", True), ("A1", False), ("P2", True), ("P2", False)} <= seen


def test_verdicts_do_not_change_once_they_are_certain():
    facts, theory = world().facts, world().theory
    truth = tables_of_facts(facts, theory.signature, dtype=torch.float64)
    for clip in range(min(4, len(facts.traces))):
        header, steps = fotltn.steps(truth, clip)
        monitor = Monitor(theory, header=header, values="none")
        certain: dict[str, str] = {}
        for states in monitor.steps(steps):
            for state in states:
                if state.axiom in certain:
                    assert state.verdict == certain[state.axiom]
                elif state.verdict != "open":
                    certain[state.axiom] = state.verdict
        final = {state.axiom: state.verdict for state in monitor.finish()}
        assert certain.items() <= final.items()


def test_a_watch_tells_every_violation_once_however_often_it_is_stopped():
    facts, theory = world().facts, world().theory
    truth = tables_of_facts(facts, theory.signature, dtype=torch.float64)
    wanted = {
        (facts.traces[int(v.trace)], axiom.name, *v.binding.values(), v.time or 0)
        for axiom in theory.axioms
        for v in View(truth, CRISP, 0.5, end="final").cells(axiom).worst(10**7)
        if v.violated
    }
    told = []
    for clip, name in enumerate(facts.traces):
        header, steps = fotltn.steps(truth, clip)
        known: str | None = None
        events: list[CellEvent] = []
        for start in range(0, len(steps), 37):
            watch = Watch(theory, header=header, presence=["InView"])
            if known is not None:
                watch.restore(json.loads(known))
            events += watch.steps(steps[start : start + 37])
            known = json.dumps(watch.snapshot())
        events += watch.finish("final")
        told += [
            (name, e.axiom, *e.binding.values(), e.time) for e in events if e.kind == "violation"
        ]
    assert watch.unwatched == {}
    assert len(told) == len(set(told)) > 100
    assert set(told) == wanted


@pytest.mark.skipif(not TABLES, reason="FOTLTN_JAAD names no folder with the tables of all clips")
def test_all_clips_are_there():
    assert len(world().facts.traces) == 346
