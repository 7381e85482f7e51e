"""The training loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fotltn.errors import DataError
from fotltn.evaluation import over_traces
from fotltn.grounding.labels import Labels
from fotltn.learn.blocks import TraceBlocks
from fotltn.learn.captured import EPOCHS_BEFORE, CapturedStep, captured
from fotltn.learn.checkpoints import Latest, Reserved, latest_in, place_of, write_checkpoint
from fotltn.learn.identity import Digests, check_alike, identity, refuse_other_task
from fotltn.learn.objective import (
    Flips,
    Losses,
    fact_loss,
    factors,
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
from fotltn.learn.ranks import ALONE, Ranks, joined_ranks
from fotltn.learn.store import below
from fotltn.learn.task import Task
from fotltn.networks.parts import DataPart, parts

_STATE = "state.json"
_LAYOUT = 3  # of that file
_HISTORY = "history"  # one row an epoch


@dataclass(frozen=True, slots=True)
class Epoch:
    """What one epoch came to: losses, the values of axioms, and the loss that is watched.

    Losses and values are those of the weights before each step. Of several steps they are the
    mean; but axioms have one value over all traces, as ∀ aggregates.
    """

    number: int
    loss: float
    facts: float
    axioms: float | None
    values: dict[str, float]
    watched: float
    best: bool

    def row(self) -> list[float]:
        """All of it as numbers; what is not there is no number."""
        axioms = math.nan if self.axioms is None else self.axioms
        losses = (float(self.number), self.loss, self.facts, axioms, self.watched)
        return [*losses, float(self.best), *self.values.values()]

    @classmethod
    def of(cls, row: Sequence[float], names: Sequence[str]) -> Epoch:
        """The epoch of a row, with the names of the axioms that it has values of."""
        number, loss, facts, axioms, watched, best, *values = row
        known = None if math.isnan(axioms) else axioms
        by_name = dict(zip(names, values, strict=True))
        return cls(int(number), loss, facts, known, by_name, watched, bool(best))


@dataclass(slots=True)
class Progress:
    """Where training stands."""

    epoch: int = 0
    best: float = math.inf
    best_epoch: int = 0
    history: list[Epoch] = field(default_factory=list)
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class FitResult:
    """How training ended: why, the best epoch, and all of them. The weights are in the task.

    If the rate of flipped labels was learned, `flips` is that of the weights. If trust in axioms
    was learned, `trust` has the factor of each axiom's weight.
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
    every: int = 25,
    on_epoch: Callable[[Epoch], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> FitResult:
    """Train the networks of a task.

    Args:
        task: what to learn; its weights are changed, and end as those of the best epoch.
        checkpoints: a folder for the state of training. If there is one of this task, training
            goes on from there, and ends as if it had not been interrupted. That of a run that
            ended stays, and such a run is not trained again. No other training can use the folder
            at the same time.
        every: epochs between checkpoints.
        on_epoch: is told of every epoch, also of those before an interruption.
        stop: asked after every epoch whether to stop; then a checkpoint is written.

    Raises:
        DataError: a loss is not a number, or the checkpoints are of another task, in use by
            another training, or of a later version of this program.
    """
    if every < 1:
        raise DataError(f"there is at least one epoch between checkpoints, not {every}")
    ranks = ALONE if task.training.blocks is None else joined_ranks()
    with place_of(checkpoints, ranks) as place, without_compiler():
        run = _Fit(task, ranks, resumable=checkpoints is not None)
        warnings = run.resume(ranks.of_first(lambda: latest_in(place)))
        if on_epoch is not None:
            for epoch in run.progress.history:
                on_epoch(epoch)
        asked = False
        while run.progress.stopped is None and not asked:
            epoch = run.epoch()
            if on_epoch is not None:
                on_epoch(epoch)
            asked = run.progress.stopped is None and ranks.of_first(stop)
            ended = asked or run.progress.stopped is not None
            if place is not None and (ended or epoch.number % every == 0):
                run.save(place.folder)
        return run.end(warnings)


class _Fit:
    """Training in progress."""

    def __init__(self, task: Task, ranks: Ranks = ALONE, *, resumable: bool = True) -> None:
        self.task = task
        training = task.training
        device = task.grounding.fixed.lengths.device
        self.labels, self.watched = task.split()
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
        self.parts: dict[int, DataPart] = {}
        self.part_labels: dict[int, Labels] = {}
        self.digests = Digests()
        self.start = identity(task, self.digests) if resumable or ranks.count > 1 else {}
        check_alike(self.start, ranks)
        self.recorded: CapturedStep | None = None
        self.alike = 0.0  # steps so far that drew no random numbers
        self.moving: set[str] = set()  # what networks keep for themselves, and training changes
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        self.generator = torch.Generator().manual_seed(training.seed)
        self.common = common_generators(weights[0].device)
        self.blocks = None
        if training.blocks is not None:
            self.blocks = TraceBlocks(task, self.modules, self.flips, ranks, self.common)
        self.drawn = {
            name: torch.Generator(g.device).manual_seed(training.seed).get_state()
            for name, g in self.common.items()
        }

    # --- one epoch --------------------------------------------------------------------------------

    def epoch(self) -> Epoch:
        """Go over the data once."""
        with self.drawing():
            return self._epoch(self.progress.epoch + 1)

    def _epoch(self, number: int) -> Epoch:
        task = self.task
        rows: list[list[float]] = []  # of losses, one for each step
        seen: list[Tensor] = []  # values of axioms
        self.modules.train()
        best: bool | None = None
        fixed, signature = task.grounding.fixed, task.grounding.signature
        for part in parts(task.training.batches, fixed, signature, self.parts, self.generator):
            passed = self.forth_and_back(number, part)
            if passed is None:  # no labelled facts in this part, and no axioms
                continue
            numbers, values = passed
            if task.training.clip is not None:
                nn.utils.clip_grad_norm_(self.modules.parameters(), task.training.clip)
            rows.append(numbers)
            _finite(rows[-1][0], number)
            seen += [] if values is None else [values]
            if part is None and self.watched is None:
                # The loss is that of the weights before the step.
                best = self.judge(number, rows[-1][0])
            self.take_step()
        if not rows:
            raise DataError(
                f"no part of epoch {number} has a labelled fact; draw more entities at once"
            )
        total, facts, *axioms = (sum(column) / len(rows) for column in zip(*rows, strict=True))
        watched = self.watch(number) if self.watched is not None else total
        if best is None:
            best = self.judge(number, watched)
        values_by_axiom = _over_traces(task, seen)
        mean = axioms[0] if axioms else None
        epoch = Epoch(number, total, facts, mean, values_by_axiom, watched, best)
        self.progress.epoch = number
        self.progress.history.append(epoch)
        if number >= task.training.epochs:
            self.progress.stopped = "all epochs are done"
        return epoch

    def forth_and_back(
        self, number: int, part: DataPart | None
    ) -> tuple[list[float], Tensor | None] | None:
        """The losses and the values of axioms, with gradients left in the weights."""
        if part is None and self.recorded is not None:
            return self.recorded()
        if self.blocks is not None:
            return self.blocks.forth_and_back(self.labels, number - 1, part)
        self.optimiser.zero_grad(set_to_none=True)
        if part is None and self.recordable(number):
            if self.record(number):
                assert self.recorded is not None
                return self.recorded()
            self.optimiser.zero_grad(set_to_none=True)
        step, values = self.losses(number - 1, part)
        if not step.total.requires_grad:
            return None
        step.total.backward()
        self.alike += 1
        return step.stacked().tolist(), values

    def recordable(self, number: int) -> bool:
        """Whether all further steps are alike, on a GPU, and draw no random numbers."""
        on_gpu = "cuda" in self.common
        return on_gpu and self.alike >= EPOCHS_BEFORE and number - 1 >= self.settled

    def record(self, number: int) -> bool:
        """Record a step, and that of the optimiser beside it; whether the first can be recorded."""
        try:
            self.recorded = CapturedStep(self.modules, lambda: self.losses(number - 1, None))
        except RuntimeError:  # a network does what a graph cannot hold
            torch.cuda.synchronize()
            self.alike = -math.inf
            return False
        try:
            self.take_step = captured(self.take_step)
        except RuntimeError:  # an optimiser does
            torch.cuda.synchronize()
        return True

    def losses(self, epoch: float, part: DataPart | None) -> tuple[Losses, Tensor | None]:
        """The loss of a part at an epoch, and the values of axioms."""
        task, objective = self.task, self.task.objective
        tables = task.grounding(part)
        facts = fact_loss(objective, self._labels(part), tables, epoch, self.flips())
        prior = prior_loss(objective, task.grounding.parameters(), self.labels.total)
        if objective.axioms == "none" or not task.axioms.names:
            return losses(objective, facts, None, epoch, prior), None
        key = 0 if part is None else part.key
        axioms, values = task.axioms.loss(objective, tables, epoch=epoch, key=key)
        return losses(objective, facts, axioms, epoch, prior), values.detach()

    def _labels(self, part: DataPart | None) -> Labels:
        if part is None:
            return self.labels
        if part.key is None:
            return part.labels(self.labels)
        if part.key not in self.part_labels:
            self.part_labels[part.key] = part.labels(self.labels)
        return self.part_labels[part.key]

    def flips(self) -> Tensor | float:
        """The rate of flipped labels."""
        if "flips" not in self.modules:
            return self.task.objective.flips
        rate: Tensor = self.modules["flips"]()
        return rate

    @torch.no_grad()
    def watch(self, number: int) -> float:
        """The loss of the facts that are held back, by what the objective comes to in the end."""
        assert self.watched is not None
        self.modules.eval()
        if self.blocks is not None:
            return _finite(float(self.blocks.fact_loss(self.watched, math.inf)), number)
        tables = self.task.grounding()
        loss = fact_loss(self.task.objective, self.watched, tables, math.inf, self.flips())
        return _finite(float(loss), number)

    def judge(self, number: int, watched: float) -> bool:
        """Whether this is the best epoch so far; if not for too long, training stops."""
        training, progress = self.task.training, self.progress
        changing = self.watched is None and number - 1 < self.settled
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
        """Copy the weights as the best ones."""
        state = self.modules.state_dict()
        if self.best:
            torch._foreach_copy_([*self.best.values()], [state[name] for name in self.best])
        else:
            self.best = {name: tensor.detach().clone() for name, tensor in state.items()}

    def end(self, warnings: tuple[str, ...]) -> FitResult:
        """Leave the best weights, if that is asked for."""
        progress = self.progress
        if self.best:
            self.modules.load_state_dict(self.best)
        self.modules.eval()
        return FitResult(
            progress.stopped or "stopped",
            progress.best_epoch,
            tuple(progress.history),
            progress.stopped is not None,
            warnings,
            self.modules["flips"]().item() if "flips" in self.modules else None,
            self.trust(),
        )

    @torch.no_grad()
    def trust(self) -> dict[str, float] | None:
        """How far each axiom is trusted, if that is learned."""
        task, trust = self.task, self.task.objective.trust
        if trust is None or not task.axioms.names:
            return None
        logs = task.axioms.values(task.grounding(), epoch=math.inf, key=None, log=True)
        return dict(zip(task.axioms.names, factors(-logs.mean(-1), trust).tolist(), strict=True))

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Give PyTorch's own generators the state that this run left them in, and back."""
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

    # --- interrupting and going on ------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write all that is needed to go on."""
        tensors = {f"weights/{n}": t for n, t in self.modules.state_dict().items()}
        tensors |= {f"best/{n}": t for n, t in self.best.items()}
        tensors |= {f"drawn/{n}": t for n, t in self.drawn.items()}
        tensors |= {"rng/own": self.generator.get_state()}
        state, document = flatten(self.optimiser.state_dict(), prefix="optimiser/")
        history = self.progress.history
        names = [*history[0].values] if history else []
        tensors[_HISTORY] = torch.tensor([e.row() for e in history], dtype=torch.float64)
        _, progress = flatten({**asdict(replace(self.progress, history=[])), "axioms": names})
        write_checkpoint(
            folder,
            self.progress.epoch,
            {**tensors, **state},
            {"optimiser.json": document, _STATE: {**self.identity(), "progress": progress}},
        )

    def resume(self, latest: Latest) -> tuple[str, ...]:
        """Go on from the latest checkpoint, if there is one; the warnings about others."""
        warnings = tuple(w.message for w in latest.warnings)
        if latest.checkpoint is None:
            return warnings
        folder = latest.checkpoint.path.parent
        tensors, documents = latest.checkpoint.tensors, latest.checkpoint.documents
        state: Any = documents.get(_STATE)
        if not isinstance(state, dict) or state.get("layout") != _LAYOUT:
            raise DataError(
                f"the checkpoints in '{folder}' were written by another version of fotltn; "
                "finish with that version, or remove them to start anew"
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
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"the checkpoint in '{folder}' does not fit: {error}") from None
        return warnings

    def identity(self) -> dict[str, Any]:
        """What must be the same for training to go on, without what training itself changes."""
        now = identity(self.task, self.digests)
        self.moving |= {n for n in now | self.start if now.get(n, ...) != self.start.get(n, ...)}
        settled = {n: value for n, value in self.start.items() if n not in self.moving}
        return {"layout": _LAYOUT, "task": settled, "moving": sorted(self.moving)}

    def check(self, state: dict[str, Any], folder: Path) -> None:
        """Refuse the state of another task."""
        self.moving = set(state["moving"])
        ours = {n: value for n, value in self.start.items() if n not in self.moving}
        refuse_other_task(state["task"], ours, folder)


def _over_traces(task: Task, seen: list[Tensor]) -> dict[str, float]:
    """The values of axioms in the steps of an epoch, over all traces."""
    if not seen:
        return {}
    semantics, batches = task.axioms.semantics, task.training.batches
    if batches is not None and batches.by == "traces":
        by_trace = torch.cat(seen, dim=1)
    else:
        by_trace = torch.stack(seen).mean(0) if len(seen) > 1 else seen[0]
    together = by_trace[:, 0]
    if by_trace.shape[1] > 1:
        together = over_traces(by_trace, semantics)
    return dict(zip(task.axioms.names, together.tolist(), strict=True))


def _finite(loss: float, number: int) -> float:
    if not math.isfinite(loss):
        raise DataError(
            f"the loss of epoch {number} is {loss}: a network gives something that is no number, "
            "or the learning rate is too high"
        )
    return loss


@contextmanager
def seeded(seed: int) -> Iterator[torch.Generator]:
    """A generator for initial weights, with PyTorch's own seeded too and put back afterwards."""
    before = torch.get_rng_state()
    torch.manual_seed(seed)
    try:
        yield torch.Generator().manual_seed(seed)
    finally:
        torch.set_rng_state(before)
