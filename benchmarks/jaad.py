"""Compare all clips of JAAD at once with a loop over clips: values, with and without gradients.

    python -m benchmarks.jaad TABLES [--json FILE]
    python -m benchmarks.jaad TABLES --training [--json FILE]

TABLES is a folder with the three tables. In the loop, every clip has its own tables, without
padding; its plans are made once and reused, as in training, or made for each call, as in
`evaluate`. "In one piece" is the batch with all its padding. The values of all axioms are compared
clip by clip. With --training, a whole epoch of the project is timed instead: networks, labels,
axioms, gradients and steps, for all clips at once and in parts of one clip. Times are CPU times of
one thread, so other programs do not count.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import report
from benchmarks.common import seconds as timed
from fotltn.engine import InBlocks, Prepared, compile_formulas
from fotltn.evaluation import evaluate_all
from fotltn.grounding.dense import tables_of_facts
from fotltn.learn.fit import fit
from fotltn.networks.parts import Batches
from fotltn.project.build import build
from fotltn.project.config import read_config
from fotltn.project.world import World, read_world
from fotltn.semantics import crisp
from fotltn.semantics.config import CRISP, Semantics, named
from fotltn.semantics.tables import Names, Tables, Value

PROJECT = Path(__file__).resolve().parent.parent / "examples" / "jaad"
LEARNED = ("Stop", "Run", "Crossing", "OnSidewalk")
Run = Prepared | InBlocks


def seconds(function: Callable[[], Any], repeat: int = 7) -> float:
    """Return the median CPU time of a call."""
    return timed(function, repeat=repeat, clock=time.process_time)


def batch(world: World) -> Tables:
    """Return all clips; degrees of learned predicates lie between 0 and 1 and carry gradients."""
    model = tables_of_facts(world.facts, world.theory.signature, sparse=True)
    draw = torch.Generator().manual_seed(0)
    tables = {n: model.predicate(n) for n in LEARNED}
    noisy = {
        n: (0.8 * t + 0.2 * torch.rand(t.shape, generator=draw, dtype=t.dtype)).requires_grad_()
        for n, t in tables.items()
    }
    return replace(model, predicates={**model.predicates, **noisy})


def apart(world: World, model: Tables) -> list[Tables]:
    """Return every clip by itself."""
    dense = {n: model.predicate(n) for n in model.predicates}
    laid_out = replace(model, predicates=dense)
    return [_alone(world, laid_out, trace) for trace in range(model.batch)]


def _alone(world: World, model: Tables, trace: int) -> Tables:
    """Return one clip with room only for its own steps and entities."""
    signature, length = world.theory.signature, world.facts.lengths[trace]
    counts = {s: len(names[trace]) for s, names in world.facts.local.items()}
    sizes = {**model.sizes, **counts}

    def cut(table: Tensor, sorts: Sequence[str]) -> Tensor:
        own = table[trace : trace + 1]
        for dim, sort in enumerate(sorts, 1):
            own = own.narrow(dim, 0, sizes[sort])
        own = own if own.shape[-1] == 1 else own[..., :length]
        return own.detach().clone().requires_grad_(table.requires_grad)

    return replace(
        model,
        sizes=sizes,
        lengths=torch.tensor([length]),
        horizon=length,
        present={sort: cut(mask, [sort]) for sort, mask in model.present.items()},
        names=Names(),
        predicates={
            n: cut(model.predicate(n), signature.predicates[n].sorts) for n in model.predicates
        },
        functions={n: cut(t, signature.functions[n].sorts) for n, t in model.functions.items()},
    )


def step(run: Run, model: Tables) -> None:
    """Run forward and backward through all axioms, as a step of training does."""
    total = sum(v.tensor.sum() for v in run(model).values())
    assert isinstance(total, Tensor)
    inputs = [model.predicates[n] for n in LEARNED]
    torch.autograd.grad(total, inputs, allow_unused=True)  # type: ignore[arg-type]


def fuzzy(
    world: World, model: Tables, clips: list[Tables], semantics: Semantics
) -> list[dict[str, Any]]:
    """Measure degrees, without and with gradients."""
    formulas = {a.name: a.formula for a in world.theory.axioms}
    program = compile_formulas(formulas, world.theory.signature, semantics)
    kind = model.predicate("Stop").dtype
    together, piece = program.ready(model, dtype=kind), program.prepare(model, dtype=kind)
    kept = [program.prepare(clip, dtype=kind) for clip in clips]
    blocks = len(together.layout.blocks) if isinstance(together, InBlocks) else 1

    def values(run: Run, one: Tables) -> dict[str, Value]:
        with torch.no_grad():
            return run(one)

    def looped(work: Callable[[Run, Tables], Any]) -> Callable[[], Any]:
        return lambda: [work(run, clip) for run, clip in zip(kept, clips, strict=True)]

    def anew(work: Callable[[Run, Tables], Any]) -> Callable[[], Any]:
        return lambda: [work(program.prepare(c, dtype=kind), c) for c in clips]

    error = difference(values(together, model), looped(values)())
    rows = []
    works: dict[str, Callable[[Run, Tables], Any]] = {
        "forward": values,
        "forward and backward": step,
    }
    for what, work in works.items():
        times = {
            "batched": seconds(partial(work, together, model)),
            "in one piece": seconds(partial(work, piece, model), repeat=3),
            "loop": seconds(looped(work), repeat=3),
            "loop, planned anew": seconds(anew(work), repeat=1),
        }
        rows.append(row(semantics.name, what, blocks, times, error))
    return rows


def two_valued(world: World, model: Tables, clips: list[Tables]) -> list[dict[str, Any]]:
    """Measure two-valued logic, in which degrees of at least one half are true."""
    formulas = {a.name: a.formula for a in world.theory.axioms}

    def truths(one: Tables) -> dict[str, Value]:
        return evaluate_all(formulas, one, CRISP, at=0, threshold=0.5)

    def piece() -> list[Value]:
        return [crisp.evaluate(f, model, threshold=0.5) for f in formulas.values()]

    each = [truths(clip) for clip in clips]
    times = {
        "batched": seconds(lambda: truths(model), repeat=3),
        "in one piece": seconds(piece, repeat=1),
        "loop": seconds(lambda: [truths(clip) for clip in clips], repeat=1),
    }
    return [row("crisp", "forward", None, times, difference(truths(model), each))]


def difference(whole: Mapping[str, Value], each: Sequence[Mapping[str, Value]]) -> float:
    """Return the largest difference between values of the batch and of single clips."""
    return max(
        abs(float(value.tensor[trace, 0]) - float(one[name].tensor.flatten()[0]))
        for name, value in whole.items()
        for trace, one in enumerate(each)
    )


def row(
    meaning: str, what: str, blocks: int | None, times: Mapping[str, float], error: float
) -> dict[str, Any]:
    """Return a row of the table: milliseconds, and how much slower the loop is."""
    shown: dict[str, Any] = {"semantics": meaning, "what": what, "blocks": blocks}
    shown |= {f"{name} ms": taken * 1e3 for name, taken in times.items()}
    shown["times faster"] = times["loop"] / times["batched"]
    shown["largest difference"] = error
    return shown


def epoch(tables: Path, parts: Batches | None) -> float:
    """Return the CPU time of an epoch of the project, after one in which plans are made."""
    built = build(read_config(PROJECT, data=tables))
    training = replace(built.task.training, batches=parts, epochs=3, patience=None)
    times: list[float] = []
    fit(
        replace(built.task, watched=None, training=training),
        on_epoch=lambda _: times.append(time.process_time()),
    )
    return (times[-1] - times[0]) / (len(times) - 1)


def training(tables: Path) -> list[dict[str, Any]]:
    """Measure an epoch at once, and clip by clip."""
    whole, loop = epoch(tables, None), epoch(tables, Batches("traces", 1))
    return [{
        "what": "an epoch of training", "at once ms": 1e3 * whole, "loop over clips ms": 1e3 * loop,
        "times faster": loop / whole,
    }]  # fmt: skip


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path)
    parser.add_argument("--semantics", nargs="*", default=["stable-product", "godel", "crisp"])
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.training:
        report("training on all clips", training(args.tables), args.json)
        return
    world = read_world(replace(read_config(PROJECT, data=args.tables), dtype="float64"))
    model = batch(world)
    clips = apart(world, model)
    rows = []
    for name in args.semantics:
        meaning = named(name)
        rows += (
            two_valued(world, model, clips)
            if meaning.boolean
            else fuzzy(world, model, clips, meaning)
        )
    steps = sum(world.facts.lengths)
    title = f"{len(world.theory.axioms)} axioms on {model.batch} clips, {steps:,} steps"
    report(title, rows, args.json)


if __name__ == "__main__":
    main()
