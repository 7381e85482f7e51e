"""A project by sampling: runs that go on, what is asked of worlds, and what is stored of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fotltn.analysis.ask import Answer
from fotltn.decisions import two_valued
from fotltn.errors import DataError, Diagnostic, FotError
from fotltn.evaluation import Time, present, time_point
from fotltn.learn.checkpoints import (
    Reserved,
    clear_checkpoints,
    latest_checkpoint,
    reserve,
    write_checkpoint,
)
from fotltn.learn.identity import identity, refuse_other_task
from fotltn.learn.store import below
from fotltn.logic.check import check_formula
from fotltn.networks.grounding import Grounding
from fotltn.posterior.bits import packed, unpacked
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.impossible import NoWorldError
from fotltn.posterior.mixing import MixingReport
from fotltn.posterior.posterior import Posterior, SamplingProgress, SamplingRun
from fotltn.project.build import Built
from fotltn.project.problem import problem_of
from fotltn.project.stored import numbers_by_name
from fotltn.semantics.tables import Value
from fotltn.syntax.parse import parse_formula

_STATE = "state.json"
_LAYOUT = 2  # of that file, which training by gradients shares
_EVERY = 10  # sweeps between checkpoints

# --- running ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """What sampling came to: worlds, unless it was stopped; sweeps that are done; warnings."""

    posterior: Posterior | None
    done: int
    of: int
    warnings: tuple[str, ...] = ()


def sample_project(
    built: Built,
    *,
    checkpoints: Path | Reserved | None = None,
    on_sweep: Callable[[SamplingProgress], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Sampled:
    """Sample the worlds of a project.

    Args:
        built: the project; its tables of probabilities are filled.
        checkpoints: a folder for the state of sampling, from which an interrupted run goes on, and
            ends as if it had not been interrupted.
        on_sweep: is told of every sweep from there on.
        stop: asked after every sweep whether to stop; then a checkpoint is written.

    Raises:
        DataError: the checkpoints are of another task, or no world obeys all hard axioms.
        LimitError: axioms need more states than can be followed.
    """
    with _place(checkpoints) as place:
        run = SamplingRun(problem_of(built).sampler())
        ours = {} if place is None else identity(built.task)
        warnings = () if place is None else _resume(run, place.folder, ours)
        asked = False
        try:
            while not run.finished and not asked:
                run.sweep()
                if on_sweep is not None:
                    on_sweep(run.progress())
                asked = not run.finished and stop()
                if place is not None and (asked or run.finished or run.done % _EVERY == 0):
                    tensors, state = run.state()
                    document = {"layout": _LAYOUT, "task": ours, "moving": [], "run": state}
                    write_checkpoint(place.folder, run.done, tensors, {_STATE: document})
            if asked:
                return Sampled(None, run.done, run.total, warnings)
            posterior = run.result()
        except NoWorldError:
            if place is not None:  # nothing leads from there to a world
                clear_checkpoints(place.folder)
            raise
    for name, marginal in built.task.grounding.marginals.items():
        marginal.table.copy_(posterior.marginals[name])
    return Sampled(posterior, run.done, run.total, warnings)


def _place(checkpoints: Path | Reserved | None) -> AbstractContextManager[Reserved | None]:
    return reserve(checkpoints) if isinstance(checkpoints, Path) else nullcontext(checkpoints)


def _resume(run: SamplingRun, folder: Path, ours: Mapping[str, Any]) -> tuple[str, ...]:
    """Go on from the latest checkpoint, if there is one; the warnings about others."""
    latest = latest_checkpoint(folder)
    warnings = tuple(w.message for w in latest.warnings)
    if latest.checkpoint is None:
        return warnings
    state: Any = latest.checkpoint.documents.get(_STATE)
    if not isinstance(state, dict) or state.get("layout") != _LAYOUT:
        raise DataError(
            f"the checkpoints in '{folder}' were written by another version of fotltn; "
            "finish with that version, or remove them to start anew"
        )
    try:
        refuse_other_task(state["task"], ours, folder)
        run.restore(latest.checkpoint.tensors, state["run"])
    except FotError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"the checkpoint in '{folder}' does not fit: {error}") from None
    return warnings


# --- asking -----------------------------------------------------------------------------------


def ask_worlds(
    posterior: Posterior, formula: str, *, at: Time = 0, condition: str | None = None
) -> Answer:
    """The probability of a formula, for each binding of its free variables.

    Args:
        posterior: the worlds.
        formula: its text.
        at: a time point, or "all".
        condition: the text of a formula; in each trace, those worlds count that obey it.

    Raises:
        FotError: a formula does not fit, or no world obeys the condition.
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
    return Answer(
        str(parsed), checked.free, mean, tuple(times), tuple(tables.lengths.tolist()),
        tables.names, low, high, answer.worlds,
    )  # fmt: skip


def no_worlds(what: str, posterior: Posterior | None) -> DataError:
    """That something needs worlds, where there are none, or degrees are asked for."""
    if posterior is not None:
        return DataError(Diagnostic(f"{what}, not among degrees", hint="leave out the semantics"))
    hint = 'train the project with method = "posterior"'
    return DataError(Diagnostic(f"{what}, and this model has none", hint=hint))


# --- what is stored ---------------------------------------------------------------------------

#: The document that says of worlds what tensors do not.
WORLDS = "posterior.json"


def pack_posterior(posterior: Posterior) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Worlds as tensors of bytes, and what goes with them."""
    tensors = {f"posterior/worlds/{n}": packed(t) for n, t in posterior.worlds.items()}
    tensors["posterior/density"] = posterior.density
    return tensors, posterior.as_dict()


def unpack_posterior(
    tensors: Mapping[str, Tensor], document: Any, grounding: Grounding
) -> Posterior:
    """The worlds that were packed, of a grounding that has their shares.

    Raises:
        ValueError: something is another thing, or does not fit the rest.
    """
    stored, fixed = below(tensors, "posterior/"), grounding.fixed
    names, device = tuple(grounding.marginals), fixed.lengths.device
    density, chains = stored["density"], document["chains"]
    _expect(
        density.dtype == torch.float64 and density.dim() == 1 and bool(density.isfinite().all()),
        "its worlds are not said to be more or less likely",
    )
    right = type(chains) is int and chains > 0 and len(density) > 0 and len(density) % chains == 0
    _expect(right, "it has no chains")
    packs = below(stored, "worlds/")
    _expect(set(packs) == set(names), "its worlds are of other predicates")
    worlds = {}
    for name, data in packs.items():
        shape = (len(density), *grounding.marginals[name].table.shape)
        worlds[name] = unpacked(data, shape).to(device)
    rates = document["rates"]
    _expect(isinstance(rates, dict) and set(rates) == set(names), "its rates are another thing")
    pairs = {n: NoiseRates(**numbers_by_name(pair, "a rate")) for n, pair in rates.items()}
    for name, pair in pairs.items():
        _expect(all(0 <= r < 1 for r in pair), f"a rate of '{name}' is no share")
    tables = {n: m.table.to(torch.float64) for n, m in grounding.marginals.items()}
    for name, table in tables.items():
        _expect(bool(((table >= 0) & (table <= 1)).all()), f"'{name}' has degrees outside [0, 1]")
    numbers = [numbers_by_name(document[k], k) for k in ("violations", "r_hat", "effective")]
    return Posterior(
        two_valued(fixed, 0.5), names, tables, {n: worlds[n] for n in names}, density.to(device),
        chains, pairs, numbers[0],
        MixingReport(numbers[1], numbers[2]),
    )  # fmt: skip


def _expect(right: bool, what: str) -> None:
    if not right:
        raise ValueError(what)
