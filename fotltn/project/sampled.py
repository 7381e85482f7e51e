"""Sample the worlds of a project: run and resume, ask worlds, and store them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fotltn.analysis.ask import Answer
from fotltn.analysis.presence import absent_where_used
from fotltn.decisions import two_valued
from fotltn.errors import DataError, FotError, listing, warning
from fotltn.evaluation import Time, present, time_point
from fotltn.learn.checkpoints import (
    Reserved,
    clear_checkpoints,
    latest_checkpoint,
    place_of,
    write_checkpoint,
)
from fotltn.learn.identity import check_alike, identity, refuse_other_task
from fotltn.learn.ranks import ALONE, Ranks
from fotltn.learn.store import below
from fotltn.logic.check import check_formula
from fotltn.networks.grounding import Grounding
from fotltn.posterior.bits import packed, unpacked
from fotltn.posterior.carried import PARTS, Carried, learned_by, take_over
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.impossible import NoWorldError
from fotltn.posterior.mixing import MixingReport
from fotltn.posterior.posterior import BrokenCells, Posterior
from fotltn.posterior.run import SamplingProgress, SamplingRun
from fotltn.posterior.shared_worlds import WorldShare
from fotltn.project.build import Built
from fotltn.project.config import Config
from fotltn.project.problem import moved_problem, problem_of
from fotltn.project.sensing import Sensing, added, logits_of
from fotltn.project.stored import expect, numbers_by_name
from fotltn.project.world import World
from fotltn.semantics.tables import Value
from fotltn.syntax.parse import parse_formula

_STATE = "state.json"
_LAYOUT = 3  # version of the checkpoint's document
_EVERY = 10  # sweeps between checkpoints

#: The least learned rate of wrong labels that is worth a warning, and what rates mean.
_HIGH = 0.3
_WRONG = {
    "missed": "true facts are labelled false", "invented": "false facts are labelled true"
}  # fmt: skip

# --- running ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """The outcome of sampling: worlds unless stopped, sweeps done and planned, why it ended."""

    posterior: Posterior | None
    done: int
    of: int
    reason: str = ""
    warnings: tuple[str, ...] = ()


def sample_project(
    built: Built,
    *,
    checkpoints: Path | Reserved | None = None,
    on_sweep: Callable[[SamplingProgress], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
    ranks: Ranks = ALONE,
    finish: bool = False,
) -> Sampled:
    """Sample the worlds of a project.

    Args:
        built: the project; its tables of probabilities are filled in.
        checkpoints: a folder for the state of sampling. An interrupted run continues from there,
            with the same result as without the interruption.
        on_sweep: a function to call after every sweep.
        stop: a function to call after every sweep; if it returns true, a checkpoint is written and
            sampling stops.
        ranks: the processes that move the worlds together.
        finish: whether to sample no further than the checkpoint.

    Raises:
        DataError: the checkpoints belong to another task, there is nothing to finish, or no world
            obeys all hard axioms.
        LimitError: the axioms need too many states.
    """
    with place_of(checkpoints, ranks) as place:
        ours = {} if checkpoints is None and ranks.count == 1 else identity(built.task)
        check_alike(ours, ranks)
        nothing = _Before({}, None)
        before = ranks.of_first(lambda: nothing if place is None else _before(place.folder, ours))
        run, sensing = _started(built, before, ranks)
        if finish:
            run.end_early()
        asked = False
        try:
            while not run.finished and not asked:
                run.sweep()
                if sensing is not None:
                    sensing.follow(run)
                if on_sweep is not None:
                    on_sweep(run.progress())
                asked = not run.finished and ranks.of_first(stop)
                if place is not None and (asked or run.finished or run.done % _EVERY == 0):
                    tensors, state = run.state()
                    document = {"layout": _LAYOUT, "task": ours, "moving": [], "run": state}
                    if sensing is not None:
                        more, document["sensing"] = sensing.state()
                        tensors |= {f"sensing/{n}": t for n, t in more.items()}
                    write_checkpoint(place.folder, run.done, tensors, {_STATE: document})
            if asked:
                return Sampled(None, run.done, run.total, warnings=before.warnings)
            posterior = run.result()
        except NoWorldError:
            if place is not None:  # the checkpoint cannot lead to a world
                clear_checkpoints(place.folder)
            raise
    carried = learned_by(run.sampler) if sensing is None else sensing.carried(run.sampler)
    posterior = replace(posterior, carried=carried)
    _fill(built.task.grounding, posterior)
    high = _high_rates(posterior, run.sampler.evidence.learned)
    warnings = (*before.warnings, *posterior.warnings, *high)
    return Sampled(posterior, run.done, run.total, run.reason, warnings)


def _high_rates(posterior: Posterior, learned: Collection[str]) -> Iterator[str]:
    """Warn of learned rates of wrong labels that are so high that labels say little."""
    for name in sorted(learned):
        for what, rate in posterior.rates[name]._asdict().items():
            if rate > _HIGH:
                yield (
                    f"labels of {name} count for little: it was learned that {100 * rate:.0f} % of "
                    f"its {_WRONG[what]}; if that is too many, give the rates: missed = 0.1 and "
                    "invented = 0.1 in [objective]"
                )


def sample_again(
    carried: Carried | None,
    config: Config,
    world: World,
    grounding: Grounding,
    on_sweep: Callable[[SamplingProgress], None] | None = None,
) -> tuple[Posterior, World]:
    """Sample worlds of other data with what was learned.

    Args:
        carried: what was learned.
        config: the settings, for the new data.
        world: the new data.
        grounding: their networks; its tables of probabilities are filled in.
        on_sweep: a function to call after every sweep.

    Returns:
        The worlds; and the data, with warnings about priors that could not be reused.

    Raises:
        DataError: the model does not hold what was learned, or no world obeys all hard axioms.
    """
    if carried is None:
        raise DataError(
            "the model lacks what it needs to sample worlds of other data",
            hint="train it again with this version",
        )
    problem = moved_problem(config, world, grounding, carried)
    said = {} if grounding.sensors is None else logits_of(grounding.sensors, world, carried)
    run = SamplingRun(replace(problem, logits=added(problem.logits, said)))
    anew = take_over(run.sampler, carried)
    while not run.finished:
        run.sweep()
        if on_sweep is not None:
            on_sweep(run.progress())
    posterior = replace(run.result(), carried=carried)
    _fill(grounding, posterior)
    moved = [
        f"the prior of {listing(names)} is learned again from the new data, because it depends on "
        "other things there"
        for names in anew
    ]
    told = (*world.facts.warnings, *map(warning, (*moved, *posterior.warnings)))
    facts = replace(world.facts, warnings=told)
    return posterior, replace(world, facts=facts)


def _fill(grounding: Grounding, posterior: Posterior) -> None:
    for name, marginal in grounding.marginals.items():
        marginal.table.copy_(posterior.marginals[name])


def _started(built: Built, before: _Before, ranks: Ranks) -> tuple[SamplingRun, Sensing | None]:
    """Return a run, new or resumed, and its networks if it has any."""
    problem, sensing = problem_of(built), None
    try:
        if built.task.grounding.sensors is not None:
            sensing = Sensing(built, problem)
            if before.state is None:
                sensing.begin(problem)
            else:
                sensing.restore(below(before.tensors, "sensing/"), before.state["sensing"])
            problem = replace(problem, logits=sensing.logits())
        share = None
        if ranks.count > 1:
            share = WorldShare(ranks.number, ranks.count, ranks.gathered)
        run = SamplingRun(problem, share)
        if sensing is not None:
            sensing.attach(run)
        if before.state is not None:
            run.restore(before.tensors, before.state["run"])
    except FotError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        if before.state is None:
            raise
        raise DataError(f"the checkpoint in '{before.folder}' does not fit: {error}") from None
    return run, sensing


@dataclass(frozen=True, slots=True, eq=False)
class _Before:
    """The state that an earlier run left; `state` is None if there was none."""

    tensors: Mapping[str, Tensor]
    state: Any
    folder: Path = Path()
    warnings: tuple[str, ...] = ()


def _before(folder: Path, ours: Mapping[str, Any]) -> _Before:
    """Load the latest checkpoint, if there is one, with warnings about damaged ones."""
    latest = latest_checkpoint(folder)
    warnings = tuple(w.message for w in latest.warnings)
    if latest.checkpoint is None:
        return _Before({}, None, folder, warnings)
    state: Any = latest.checkpoint.documents.get(_STATE)
    if not isinstance(state, dict) or state.get("layout") != _LAYOUT:
        raise DataError(
            f"the checkpoints in '{folder}' were written by another version of fotltn; "
            "finish with that version, or remove them to start again"
        )
    if not isinstance(theirs := state.get("task"), dict):
        raise DataError(f"the checkpoint in '{folder}' does not fit: it belongs to no task")
    refuse_other_task(theirs, ours, folder)
    return _Before(latest.checkpoint.tensors, state, folder, warnings)


# --- asking -----------------------------------------------------------------------------------


def ask_worlds(
    posterior: Posterior, formula: str, *, at: Time = 0, condition: str | None = None
) -> Answer:
    """Return the probability of a formula for each binding of its free variables.

    Args:
        posterior: the worlds.
        formula: the text of the formula.
        at: a time point, or "all".
        condition: the text of a formula; in each trace, only worlds that obey it count.

    Raises:
        FotError: a formula is wrong, or no world obeys the condition.
    """
    tables, parsed = posterior.tables, parse_formula(formula)
    checked = check_formula(parsed, tables.signature)
    times = range(tables.horizon) if at == "all" else (time_point(at, tables),)
    other = None
    if condition is not None:
        other = check_formula(parse_formula(condition, source="condition"), tables.signature)
    answer = posterior.probability(checked, other)
    mean, low, high = (
        present(Value(answer.axes, part), checked.free, tables, at="all", batched=True)[..., times]
        for part in (answer.mean, answer.low, answer.high)
    )
    absent = absent_where_used(checked.free, checked.formula, tables)
    return Answer(
        str(parsed), checked.free, mean, tuple(times), tuple(tables.lengths.tolist()),
        tables.names, low, high, answer.worlds,
        absent=None if absent is None else absent[..., times],
    )  # fmt: skip


def no_worlds(what: str, posterior: Posterior | None) -> DataError:
    """Build the error that a request needs worlds, but there are none or degrees are asked for."""
    if posterior is not None:
        return DataError(f"{what}, not among degrees", hint="leave out the semantics")
    hint = 'train the project with method = "posterior"'
    return DataError(f"{what}, and this model has none", hint=hint)


# --- storing ----------------------------------------------------------------------------------

#: The document for everything about worlds that is not a tensor.
WORLDS = "posterior.json"


def pack_posterior(posterior: Posterior) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Pack worlds as byte tensors, with a document for the rest."""
    tensors = {f"posterior/worlds/{n}": packed(t) for n, t in posterior.worlds.items()}
    tensors |= {f"posterior/best/{n}": packed(t) for n, t in posterior.best.items()}
    tensors["posterior/density"] = posterior.density
    document = posterior.as_dict()
    if (carried := posterior.carried) is not None:
        for part, tables in carried.tables.items():
            tensors |= {f"posterior/prior/{part}/{','.join(n)}": t for n, t in tables.items()}
        document["conditions"] = {",".join(n): list(t) for n, t in carried.conditions.items()}
        document["bases"] = dict(carried.bases)
    return tensors, document


def unpack_posterior(
    tensors: Mapping[str, Tensor], document: Any, grounding: Grounding
) -> Posterior:
    """Restore packed worlds for a grounding that has their shares.

    Raises:
        ValueError: a part is wrong, or does not fit the rest.
    """
    stored, fixed = below(tensors, "posterior/"), grounding.fixed
    names, device = tuple(grounding.marginals), fixed.lengths.device
    density, chains = stored["density"], document["chains"]
    expect(
        density.dtype == torch.float64 and density.dim() == 1 and bool(density.isfinite().all()),
        "the densities of its worlds are wrong",
    )
    right = type(chains) is int and chains > 0 and len(density) > 0 and len(density) % chains == 0
    expect(right, "the number of its chains is wrong")
    shapes = {name: grounding.marginals[name].table.shape for name in names}
    packs = below(stored, "worlds/")
    expect(set(packs) == set(names), "its worlds are of other predicates")
    worlds = {n: unpacked(packs[n], (len(density), *shapes[n])).to(device) for n in names}
    best, best_density = _best(stored, document, worlds, density)
    rates = document["rates"]
    expect(isinstance(rates, dict) and set(rates) == set(names), "its rates are wrong")
    pairs = {n: NoiseRates(**numbers_by_name(pair, "a rate")) for n, pair in rates.items()}
    for name, pair in pairs.items():
        expect(all(0 <= r < 1 for r in pair), f"a rate of '{name}' is not in [0, 1)")
    tables = {n: m.table.to(torch.float64) for n, m in grounding.marginals.items()}
    for name, table in tables.items():
        expect(bool(((table >= 0) & (table <= 1)).all()), f"'{name}' has degrees outside [0, 1]")
    broken = document["violations"]
    expect(isinstance(broken, dict), "violations")
    violations = {name: _cells(numbers_by_name(v, "violations")) for name, v in broken.items()}
    numbers = [numbers_by_name(document[k], k) for k in ("r_hat", "effective")]
    sweeps = document["sweeps"]
    expect(type(sweeps) is int and sweeps > 0, "the number of its sweeps is wrong")
    copied = document.get("copied", 0)
    expect(type(copied) is int and 0 <= copied <= chains, "its number of copied chains is wrong")
    return Posterior(
        two_valued(fixed, 0.5), names, tables, worlds, density.to(device), best, best_density,
        chains, pairs, violations, MixingReport(numbers[0], numbers[1], copied), sweeps,
        carried=_carried(stored, document, pairs, grounding),
    )  # fmt: skip


def _best(
    stored: Mapping[str, Tensor], document: Any, worlds: Mapping[str, Tensor], density: Tensor
) -> tuple[dict[str, Tensor], float]:
    """Return the most probable world, and its log-probability.

    If an earlier version wrote the model, it is the most probable one of the stored worlds.
    """
    if "best_density" not in document:
        first = int(density.argmax())
        return {name: table[first] for name, table in worlds.items()}, float(density[first])
    packs, worth = below(stored, "best/"), document["best_density"]
    expect(set(packs) == set(worlds), "its most probable world is of other predicates")
    expect(type(worth) is float and math.isfinite(worth), "the density of its best world is wrong")
    best = {n: unpacked(packs[n], t.shape[1:]).to(t.device) for n, t in worlds.items()}
    return best, worth


def _cells(numbers: Mapping[str, float]) -> BrokenCells:
    return BrokenCells(numbers["mean"], round(numbers["low"]), round(numbers["high"]))


def _carried(
    stored: Mapping[str, Tensor], document: Any, rates: Mapping[str, NoiseRates],
    grounding: Grounding,
) -> Carried | None:  # fmt: skip
    """Return what was learned for other data; None if an earlier version wrote the model."""
    if "conditions" not in document:
        return None
    tables: dict[str, dict[tuple[str, ...], Tensor]] = {part: {} for part in PARTS}
    for key, table in below(stored, "prior/").items():
        part, _, names = key.partition("/")
        right = table.dtype == torch.float64 and not bool(table.isnan().any())
        expect(right and part in tables, f"'prior/{key}' is not part of a prior")
        tables[part][tuple(names.split(","))] = table
    conditions = document["conditions"]
    expect(
        isinstance(conditions, dict)
        and all(isinstance(t, list) and all(isinstance(w, str) for w in t)
                for t in conditions.values()),
        "its conditions are wrong",
    )  # fmt: skip
    exponents = numbers_by_name(document["exponents"], "exponents")
    bases = numbers_by_name(document["bases"], "bases")
    seeing = () if grounding.sensors is None else tuple(grounding.sensors.signature.predicates)
    expect({*exponents} == {*bases} == {*seeing}, "its exponents belong to other networks")
    told = {tuple(n.split(",")): tuple(t) for n, t in conditions.items()}
    weights = numbers_by_name(document.get("weights", {}), "weights")
    expect(all(weight >= 0 for weight in weights.values()), "a weight is below 0")
    return Carried(rates, tables, told, exponents, bases, weights)
