"""The training loop."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fotltn.errors import DataError, FotError
from fotltn.grounding.labels import Labels
from fotltn.learn.binding_blocks import BindingBlocks
from fotltn.learn.blocks import TraceBlocks
from fotltn.learn.captured import EPOCHS_BEFORE, RecordedStep, captured, predictable
from fotltn.learn.checkpoints import Latest, Reserved, latest_in, place_of, write_checkpoint
from fotltn.learn.identity import Digests, check_alike, identity, refuse_other_task
from fotltn.learn.objective import (
    Flips,
    Losses,
    fact_errors,
    fact_loss,
    factors,
    facts_together,
    losses,
    prior_loss,
)
from fotltn.learn.optimisers import make_optimiser, plain_step, without_compiler
from fotltn.learn.optimizer_state import (
    common_generators,
    flatten,
    generator_states,
    restore_generators,
    restore_optimiser,
    unflatten,
)
from fotltn.learn.progress import Epoch as Epoch
from fotltn.learn.progress import EpochHistory, Progress
from fotltn.learn.ranks import ALONE, Ranks, joined_ranks
from fotltn.learn.steps import EpochStep, Steps
from fotltn.learn.store import below
from fotltn.learn.tape import OtherwiseError, UnrecordableError
from fotltn.learn.task import Task
from fotltn.threads import threads_for

_STATE = "state.json"
_LAYOUT = 3  # the version of the file's layout
_HISTORY = "history"  # one row per epoch

#: Seconds between checkpoints within an epoch, when data come from disk.
SECONDS = 60.0
#: Epochs between checkpoints, and the least ratio of that time to the time of writing one.
EVERY, SHARE = 25, 50
_LOG = logging.getLogger("fotltn.learn")


@dataclass(frozen=True, slots=True)
class FitResult:
    """How training ended: why, the best epoch, and the history. The task holds the weights.

    If the rate of flipped labels was learned, `flips` is that rate. If trust in axioms was learned,
    `trust` has the factor of each axiom's weight.
    """

    reason: str
    best_epoch: int
    history: tuple[Epoch, ...]
    finished: bool
    warnings: tuple[str, ...] = ()
    flips: float | None = None
    trust: Mapping[str, float] | None = None


def fit(
    task: Task,
    *,
    checkpoints: Path | str | Reserved | None = None,
    every: int | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_resume: Callable[[Sequence[Epoch]], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
    finish: bool = False,
) -> FitResult:
    """Train the networks of a task.

    Args:
        task: the task; its networks end with the weights of the best epoch.
        checkpoints: a folder for the state of training. If it has a checkpoint of this task,
            training continues from there, with the same result as without the interruption. A
            finished run is not trained again. No other run can use the folder at the same time.
        every: epochs between checkpoints; with data from disk, there is also one every minute.
        on_epoch: called after every epoch.
        on_resume: called with the epochs before an interruption, if there was one.
        stop: called after every epoch; if it returns True, training writes a checkpoint and stops.
        finish: whether to train no further than the checkpoint.

    Raises:
        DataError: a loss is not a finite number; the checkpoints belong to another task, another
            running training, or a later version of this program; or there is nothing to finish.
    """
    if every is not None and every < 1:
        raise DataError(f"there must be at least one epoch between checkpoints, not {every}")
    ranks = ALONE if task.training.blocks is None else joined_ranks()
    with place_of(checkpoints, ranks) as place, without_compiler():
        run = _Fit(task, ranks, resumable=checkpoints is not None)
        warnings = run.resume(ranks.of_first(lambda: latest_in(place)))
        if on_resume is not None and run.progress.history:
            on_resume(tuple(run.progress.history))
        if finish:
            run.progress.end_early(task.training.epochs)
        asked, saved, taken = False, time.monotonic(), 0.0

        def save() -> None:
            nonlocal saved, taken
            begin = time.monotonic()
            if place is not None:
                run.save(place.folder)
            saved = time.monotonic()
            taken = saved - begin

        def pause() -> bool:
            """Between blocks from disk, save now and then, and return whether to stop."""
            nonlocal asked
            asked = ranks.of_first(stop)
            if asked or time.monotonic() - saved >= SECONDS:
                save()
            return asked

        while run.progress.stopped is None and not asked:
            epoch = run.go_on(pause)
            if epoch is None:
                break
            _LOG.debug("epoch %d: loss %g, watched %g", epoch.number, epoch.loss, epoch.watched)
            if on_epoch is not None:
                on_epoch(epoch)
            asked = run.progress.stopped is None and ranks.of_first(stop)
            ended = asked or run.progress.stopped is not None
            seldom = every is not None or time.monotonic() - saved >= SHARE * taken
            if ended or (epoch.number % (every or EVERY) == 0 and seldom):
                save()
        return run.end(warnings)


class _Fit:
    """Training in progress."""

    def __init__(self, task: Task, ranks: Ranks = ALONE, *, resumable: bool = True) -> None:
        self.task = task
        training = task.training
        device = task.grounding.fixed.lengths.device
        self.watched: Labels | None = None
        labels = task.labels
        if task.stream is None:
            labels, self.watched = task.split()
        self.watches = self.watched is not None if task.stream is None else task.stream.watches
        self.modules = nn.ModuleDict({"grounding": task.grounding})
        if task.objective.learn_flips:
            self.modules["flips"] = Flips(task.objective.flips).to(device)
        weights = [p for p in self.modules.parameters() if p.requires_grad]
        if not weights:
            raise DataError("nothing can be learned: no network has a parameter")
        self.optimiser = make_optimiser(
            training.optimiser, weights, training.rate, training.options
        )
        self.take_step = plain_step(self.optimiser)
        self.settled = max(task.objective.settled, task.axioms.settled)
        self.digests = Digests()
        self.start = identity(task, self.digests) if resumable or ranks.count > 1 else {}
        check_alike(self.start, ranks)
        self.recorded: RecordedStep | None = None
        self.alike = 0.0  # the number of steps so far that drew no random numbers
        self.by_tape = predictable(self.modules) and not task.axioms.fused
        self.moving: set[str] = set()  # buffers of networks that training changes
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        self.current: dict[str, Tensor] = {}  # the state, while no module runs
        self.generator = torch.Generator().manual_seed(training.seed)
        self.common = common_generators(weights[0].device)
        self.blocks: TraceBlocks | None = None
        if training.blocks is not None:
            self.blocks = BindingBlocks(task, self.modules, self.flips, ranks, self.common)
        self.steps = Steps(
            task.grounding, training.batches, labels, task.stream, self.generator, self.forget
        )
        self.rows: list[list[float]] = []  # the losses of each step of the epoch
        self.seen: list[Tensor] = []  # the values of axioms in each step
        self.drawn = {
            name: torch.Generator(g.device).manual_seed(training.seed).get_state()
            for name, g in self.common.items()
        }

    # --- one epoch --------------------------------------------------------------------------------

    def epoch(self) -> Epoch:
        """Run one epoch."""
        done = self.go_on(lambda: False)
        assert done is not None
        return done

    def go_on(self, pause: Callable[[], bool]) -> Epoch | None:
        """Run one epoch; return None if training should stop between blocks from disk."""
        with self.drawing():
            return self._epoch(self.progress.epoch + 1, pause)

    def _epoch(self, number: int, pause: Callable[[], bool]) -> Epoch | None:
        task, rows, seen = self.task, self.rows, self.seen
        best: bool | None = None
        for step in self.steps.of_epoch():
            if step is None:
                self.drawn = generator_states(self.common)
                if pause():
                    return None
                continue
            size = self.steps.largest(step.part, task.axioms)
            sized = partial(threads_for, size, step=True)
            with sized():
                passed = self.forth_and_back(number, step)
            if passed is None:  # this part has no labelled facts, and there are no axioms
                continue
            numbers, values = passed
            if task.training.clip is not None:
                nn.utils.clip_grad_norm_(self.modules.parameters(), task.training.clip)
            rows.append(numbers)
            _finite(rows[-1][0], number)
            seen += [] if values is None else [values]
            if step.part is None and task.stream is None and not self.watches:
                # This is the loss of the weights before the step.
                best = self.judge(number, rows[-1][0])
            with sized():
                self.take_step()
            if self.recorded is not None and self.progress.stopped is None:
                self.recorded.start()
        if not rows:
            raise DataError(
                f"no part of epoch {number} has a labelled fact; draw more entities at a time"
            )
        total, facts, *axioms = (sum(column) / len(rows) for column in zip(*rows, strict=True))
        watched = self.watch(number) if self.watches else total
        if best is None:
            best = self.judge(number, watched)
        batches = task.training.batches
        apart = task.stream is not None or (batches is not None and batches.by == "traces")
        values_by_axiom = task.axioms.over_steps(seen, apart=apart)
        mean = axioms[0] if axioms else None
        epoch = Epoch(number, total, facts, mean, values_by_axiom, watched, best)
        self.progress.epoch = number
        self.progress.history.append(epoch)
        self.rows, self.seen = [], []
        if number >= task.training.epochs:
            self.progress.stopped = "all epochs are done"
        return epoch

    def forget(self) -> None:
        """Drop the cached parts of the data, because the data have changed."""
        if self.blocks is not None:
            self.blocks.forget()

    def forth_and_back(
        self, number: int, step: EpochStep
    ) -> tuple[list[float], Tensor | None] | None:
        """Return the losses and the values of axioms, with gradients in the weights."""
        part = step.part
        if part is None and self.recorded is not None and self.recorded.trusted:
            try:
                return self.recorded()
            except OtherwiseError:  # steps differ from now on, and may be recorded again
                self.recorded, self.alike = None, 0
        self.modules.train()
        self.current = {}
        if self.blocks is not None:
            return self.blocks.forth_and_back(step.labels, number - 1, part, self.steps.total)
        self.optimiser.zero_grad(set_to_none=True)
        loss, values = self.losses(number - 1, step)
        if not loss.total.requires_grad:
            return None
        loss.total.backward()
        self.alike += 1
        numbers: list[float] = loss.stacked().tolist()
        del loss  # and its graph
        if part is None and self.recorded is not None:
            if not self.recorded.check(numbers, values):
                self.recorded, self.alike = None, -math.inf
        elif part is None and self.recordable(number):
            self.record(number, step)
        return numbers, values

    def recordable(self, number: int) -> bool:
        """Whether all further steps are the same, draw no random numbers, and can be recorded."""
        possible = self.task.stream is None and (self.by_tape or "cuda" in self.common)
        return possible and self.alike >= EPOCHS_BEFORE and number - 1 >= self.settled

    def record(self, number: int, step: EpochStep) -> None:
        """Record a step if possible, and on a GPU the step of the optimiser as well."""
        try:
            self.recorded = RecordedStep(
                self.modules, lambda: self.losses(number - 1, step), tape=self.by_tape
            )
            if self.recorded.on_gpu:
                self.recorded.adopt()
                self.take_step = captured(self.take_step)
        except (UnrecordableError, RuntimeError, DataError):
            self.alike = -math.inf

    def losses(self, epoch: float, step: EpochStep) -> tuple[Losses, Tensor | None]:
        """Return the loss of a step at an epoch, and the values of axioms."""
        task, objective, part = self.task, self.task.objective, step.part
        tables = task.grounding(part)
        facts = fact_loss(objective, self.steps.labels_of(step), tables, epoch, self.flips())
        prior = prior_loss(objective, task.grounding.parameters(), self.steps.total)
        if objective.axioms == "none" or not task.axioms.names:
            return losses(objective, facts, None, epoch, prior), None
        key = 0 if part is None else part.key
        axioms, values = task.axioms.loss(objective, tables, epoch=epoch, key=key)
        return losses(objective, facts, axioms, epoch, prior), values.detach()

    def flips(self) -> Tensor | float:
        """Return the rate of flipped labels."""
        if "flips" not in self.modules:
            return self.task.objective.flips
        rate: Tensor = self.modules["flips"]()
        return rate

    @torch.no_grad()
    def watch(self, number: int) -> float:
        """Return the loss on held-out facts, under the final objective of the schedules."""
        self.modules.eval()
        if self.task.stream is not None:
            return _finite(float(self._watched_on_disk()), number)
        assert self.watched is not None
        if self.blocks is not None:
            return _finite(float(self.blocks.fact_loss(self.watched, math.inf)), number)
        tables = self.task.grounding()
        loss = fact_loss(self.task.objective, self.watched, tables, math.inf, self.flips())
        return _finite(float(loss), number)

    def _watched_on_disk(self) -> Tensor:
        """Return that loss over all blocks: errors of facts add up as if all were in memory."""
        task, sums, counts = self.task, dict[str, Tensor](), dict[str, int]()
        for labels in self.steps.watched():
            each = fact_errors(task.objective, labels, task.grounding(), math.inf, self.flips())
            for name, errors in each.items():
                sums[name] = sums.get(name, 0.0) + errors.double().sum()
                counts[name] = counts.get(name, 0) + len(errors)
        means = {name: total / counts[name] for name, total in sums.items() if counts[name]}
        loss = facts_together(task.objective, means, counts, math.inf)
        assert loss is not None  # a stream that is watched has facts to watch
        return loss

    def judge(self, number: int, watched: float) -> bool:
        """Whether this is the best epoch so far; after too many others, training stops."""
        training, progress = self.task.training, self.progress
        changing = not self.watches and number - 1 < self.settled
        best = changing or watched < progress.best - training.tolerance
        if best:
            progress.best = math.inf if changing else watched
            progress.best_epoch = number
            if training.keep_best:
                self.remember()
        elif training.patience is not None and number - progress.best_epoch >= training.patience:
            progress.stopped = f"no improvement for {training.patience} epochs"
        return best

    def remember(self) -> None:
        """Copy the current weights as the best ones."""
        self.current = self.current or self.modules.state_dict()
        if self.best:
            current = [self.current[name] for name in self.best]
            torch._foreach_copy_([*self.best.values()], current)
        else:
            self.best = {name: tensor.detach().clone() for name, tensor in self.current.items()}

    def end(self, warnings: tuple[str, ...]) -> FitResult:
        """Restore the best weights, if that is set."""
        progress = self.progress
        self.steps.go_home()
        if self.best:
            self.modules.load_state_dict(self.best)
        self.modules.eval()
        if not self.task.labels.total:
            warnings += ("no fact of what is learned has a label, so axioms alone decide",)
        elif not self.watches and (self.task.training.validation or self.task.watched is not None):
            few = "too few labelled facts to watch some; the training loss decides when to stop"
            warnings += (few,)
        return FitResult(
            progress.stopped or "stopped",
            progress.best_epoch,
            EpochHistory(progress.history),
            progress.stopped is not None,
            warnings,
            self.modules["flips"]().item() if "flips" in self.modules else None,
            self.trust(),
        )

    @torch.no_grad()
    def trust(self) -> dict[str, float] | None:
        """Return how far each axiom is trusted, if that is learned."""
        task, trust = self.task, self.task.objective.trust
        if trust is None or not task.axioms.names:
            return None
        logs = task.axioms.values(task.grounding(), epoch=math.inf, key=None, log=True)
        return dict(zip(task.axioms.names, factors(-logs.mean(-1), trust).tolist(), strict=True))

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Swap the state of PyTorch's global generators with that of this run."""
        before = generator_states(self.common)
        restore_generators(self.common, self.drawn)
        try:
            yield
        finally:
            drawn = generator_states(self.common)
            if any(not torch.equal(drawn[n], self.drawn[n]) for n in drawn):
                self.alike = 0
            self.drawn = drawn
            restore_generators(self.common, before)

    # --- interrupting and resuming ------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write all that is needed to resume."""
        self.steps.go_home()
        tensors = {f"weights/{n}": t for n, t in self.modules.state_dict().items()}
        tensors |= {f"best/{n}": t for n, t in self.best.items()}
        tensors |= {f"drawn/{n}": t for n, t in self.drawn.items()}
        tensors |= {"rng/own": self.generator.get_state()}
        state, document = flatten(self.optimiser.state_dict(), prefix="optimiser/")
        history = self.progress.history
        names = [*history[0].values] if history else []
        tensors[_HISTORY] = torch.tensor([e.row() for e in history], dtype=torch.float64)
        _, progress = flatten({**asdict(replace(self.progress, history=[])), "axioms": names})
        if self.task.stream is not None:
            tensors |= {f"epoch/{n}": t for n, t in self.steps.state().items()}
            tensors["epoch/rows"] = torch.tensor(self.rows, dtype=torch.float64)
            tensors |= {"epoch/seen": torch.cat(self.seen, dim=1)} if self.seen else {}
        write_checkpoint(
            folder,
            self.steps.number(self.progress.epoch),
            {**tensors, **state},
            {"optimiser.json": document, _STATE: {**self.identity(), "progress": progress}},
        )

    def resume(self, latest: Latest) -> tuple[str, ...]:
        """Resume from the latest checkpoint, if there is one; return the warnings about others."""
        warnings = tuple(w.message for w in latest.warnings)
        if latest.checkpoint is None:
            return warnings
        folder = latest.checkpoint.path.parent
        tensors, documents = latest.checkpoint.tensors, latest.checkpoint.documents
        state: Any = documents.get(_STATE)
        if not isinstance(state, dict) or state.get("layout") != _LAYOUT:
            raise DataError(
                f"the checkpoints in '{folder}' were written by another version of fotltn; "
                "finish with that version, or remove them to start over"
            )
        try:
            self.check(state, folder)
            progress = unflatten(state["progress"], {})
            names = progress.pop("axioms")
            progress["history"] = [Epoch.of(row, names) for row in tensors[_HISTORY].tolist()]
            self.progress = Progress(**progress)
            self.modules.load_state_dict(below(tensors, "weights/"))
            device = next(self.modules.parameters()).device
            self.best = {n: t.to(device) for n, t in below(tensors, "best/").items()}
            self.drawn = {n: tensors[f"drawn/{n}"] for n in self.common}
            restore_optimiser(self.optimiser, documents["optimiser.json"], tensors)
            restore_generators({"own": self.generator}, below(tensors, "rng/"))
            if epoch := below(tensors, "epoch/"):
                self.steps.restore(epoch)
                self.rows = epoch["rows"].tolist()
                self.seen = [epoch["seen"].to(device)] if "seen" in epoch else []
        except FotError:
            raise
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"the checkpoint in '{folder}' does not fit: {error}") from None
        return warnings

    def identity(self) -> dict[str, Any]:
        """Return what must be equal to resume, without what training itself changes."""
        now = identity(self.task, self.digests)
        self.moving |= {n for n in now | self.start if now.get(n, ...) != self.start.get(n, ...)}
        settled = {n: value for n, value in self.start.items() if n not in self.moving}
        return {"layout": _LAYOUT, "task": settled, "moving": sorted(self.moving)}

    def check(self, state: dict[str, Any], folder: Path) -> None:
        """Raise an error for the state of another task."""
        self.moving = set(state["moving"])
        ours = {n: value for n, value in self.start.items() if n not in self.moving}
        refuse_other_task(state["task"], ours, folder)


def _finite(loss: float, number: int) -> float:
    if not math.isfinite(loss):
        raise DataError(
            f"the loss of epoch {number} is {loss}: a network returns something that is not a "
            "number, or the learning rate is too high"
        )
    return loss
