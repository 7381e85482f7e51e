"""Say after training which axioms did not move what is learned, and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from fotltn.errors import LimitError, listing
from fotltn.format import count
from fotltn.learn.fit import fit
from fotltn.logic.parts import symbols
from fotltn.networks.parts import DataPart, parts
from fotltn.project.build import build
from fotltn.project.method import without_axioms
from fotltn.project.model import Model, model_of
from fotltn.project.world import InMemory, in_precision

if TYPE_CHECKING:
    from fotltn.analysis.influence import Weakness

#: Predictions that differ by no more are the same.
SAME = 0.001

_MOSTLY = 0.9  # of the cells of an axiom


def unmoved(model: Model, more: InMemory, stop: Callable[[], bool]) -> tuple[str, ...]:
    """Return warnings about axioms that moved nothing, or hardly anything, with the reasons.

    Where all axioms are suspect, the project is trained once more without them, and the predictions
    are compared.
    """
    from fotltn.analysis.influence import Weakness

    config = model.config
    about = [a.name for a in model.theory.axioms if {*symbols(a.formula)} & {*model.grounding.open}]
    if config.objective.axioms == "none" or not about:
        return ()
    weak = _weak(model)
    if config.method == "posterior":  # worlds obey hard axioms whatever their slopes are
        weak = {why: names for why, names in weak.items() if why is Weakness.NEVER}
    absent = dict(_absent(model, about))
    told: dict[str, list[str]] = {}
    for name, why in absent.items():
        told.setdefault(why, []).append(name)
    told |= {why.meaning: names for why, names in weak.items()}
    texts = tuple(f"{', '.join(names)}: {why}" for why, names in told.items())
    suspects = {*(name for names in weak.values() for name in names), *absent}
    alone = config.method == "gradient" and config.data.prepared is None
    if not alone or config.training.blocks is not None or not {*about} <= suspects:
        return texts
    change = _change(model, more, stop)
    if change is not None and change <= SAME:
        texts += (
            f"axioms changed no prediction by more than {change:.1g}, compared with the same model "
            "without axioms",
        )
    return texts


def _change(model: Model, more: InMemory, stop: Callable[[], bool]) -> float | None:
    """Return by how much axioms changed predictions, at most; None if it was stopped."""
    config = without_axioms(model.config)
    with in_precision(config):
        built = build(config, more)
        outcome = fit(built.task, stop=stop)
    if not outcome.finished:
        return None
    other = model_of(built, outcome)
    most = 0.0
    for name in model.grounding.open:
        ours, theirs = (m.tables.predicate(name).double() for m in (model, other))
        most = max(most, float((ours - theirs).abs().max()) if ours.numel() else 0.0)
    return most


def _absent(model: Model, names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield axioms nearly all of whose cells are absent, with the reason."""
    masks = {s: m.any(-1) for s, m in model.tables.present.items() if s not in model.facts.local}
    alone = [s for s, there in masks.items() if len(there) > 1 and bool((there.sum(0) <= 1).all())]
    for name in names if masks else ():
        try:
            tally = model.cells(name).counts().tally
        except LimitError:
            continue
        of = tally.count + tally.absent
        if not of or tally.absent <= _MOSTLY * of:
            continue
        text = f"{count(tally.absent)} of {count(of)} cells are absent"
        if alone:
            said = ", ".join(f'"{sort}"' for sort in alone)
            text += (
                f", because each {listing(alone)} is present in one trace only; say so: "
                f'data={{"local": [{said}]}} (in a file, local = [{said}] in [data])'
            )
        yield name, text


def _weak(model: Model) -> dict[Weakness, list[str]]:
    """Return the axioms with little or no influence on learned predicates, by reason.

    If training was on parts, guards are tried on the first part, and only axioms that are weak in
    all parts are named. None are if parts are entities drawn at random, or the data are on disk.
    """
    from fotltn.analysis.influence import Weakness, weaknesses

    tables, signature, batches = model.truth, model.theory.signature, model.config.training.batches
    reasons: dict[str, Weakness] | None = None
    order = list(Weakness)  # if parts differ, the first set of warnings holds for all of them
    drawn = batches is not None and batches.by == "entities"
    some = drawn or model.config.data.prepared is not None
    ready: dict[int, DataPart] = {}
    last = {n: when.at(math.inf) for n, when in model.config.objective.axiom_weights.items()}
    axioms = (
        a if a.hard else replace(a, weight=last.get(a.name, a.weight)) for a in model.theory.axioms
    )
    theory = replace(model.theory, axioms=tuple(axioms))
    try:
        for part in parts(batches, tables, signature, ready, torch.Generator().manual_seed(0)):
            view = model.view(tables if part is None else part.fixed)
            weak = weaknesses(replace(view, theory=theory))
            if reasons is None:
                reasons = weak
            else:
                reasons = {
                    name: min(why, weak.get(name, why), key=order.index)
                    for name, why in reasons.items()
                    if why is Weakness.GUARD or name in weak
                }
            ready.clear()  # one part in memory at a time
            if some:
                reasons = {n: why for n, why in reasons.items() if why is Weakness.GUARD}
            if set(reasons.values()) <= {Weakness.GUARD}:
                break
    except LimitError:  # a guard makes no axiom larger, but training may have used less data
        return {}
    groups: dict[Weakness, list[str]] = {}
    for name, why in (reasons or {}).items():
        groups.setdefault(why, []).append(name)
    return groups
