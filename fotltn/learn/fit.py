"""The training loop."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fotltn.errors import DataError
from fotltn.learn.batches import check_batches, parts
from fotltn.learn.checkpoints import clear_checkpoints, latest_checkpoint, write_checkpoint
from fotltn.learn.objective import Flips, Losses, axiom_loss, fact_loss, losses
from fotltn.learn.packing import (
    pack_generators,
    pack_optimiser,
    restore_generators,
    restore_optimiser,
)
from fotltn.learn.task import OPTIMISERS, Task
from fotltn.networks.parts import Part

_STATE = "state.json"


@dataclass(frozen=True, slots=True)
class Epoch:
    """What one epoch came to: losses, the values of axioms, and the loss that is watched."""

    number: int
    loss: float
    facts: float
    axioms: float | None
    values: dict[str, float]
    watched: float
    best: bool


@dataclass(slots=True)
class Progress:
    """Where training stands."""

    epoch: int = 0
    best: float = math.inf
    best_epoch: int = 0
    history: list[Epoch] = field(default_factory=list)
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How training ended: why, the best epoch, and all of them. The weights are in the task."""

    reason: str
    best_epoch: int
    history: tuple[Epoch, ...]
    finished: bool
    warnings: tuple[str, ...] = ()


def fit(
    task: Task,
    *,
    checkpoints: Path | str | None = None,
    every: int = 25,
    on_epoch: Callable[[Epoch], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Train the networks of a task.

    Args:
        task: what to learn; its weights are changed, and end as those of the best epoch.
        checkpoints: a folder for the state of training. If there is one of this task, training
            goes on from there, and ends as if it had not been interrupted.
        every: epochs between checkpoints.
        on_epoch: is told of every epoch.
        stop: asked after every epoch whether to stop; then a checkpoint is written.

    Raises:
        DataError: a loss is not a number, or the checkpoints are of another task.
    """
    run = _Fit(task)
    warnings = run.resume(Path(checkpoints)) if checkpoints is not None else ()
    for epoch in run.history:
        if on_epoch is not None:
            on_epoch(epoch)
    while run.goes_on():
        epoch = run.epoch()
        if on_epoch is not None:
            on_epoch(epoch)
        asked = run.goes_on() and stop()
        if checkpoints is not None and (asked or epoch.number % every == 0):
            run.save(Path(checkpoints))
        if asked:
            return run.outcome("stopped", finished=False, warnings=warnings)
    run.keep_best()
    return run.outcome(run.progress.stopped or "", finished=True, warnings=warnings)


class _Fit:
    """Training in progress."""

    def __init__(self, task: Task) -> None:
        self.task = task
        training = task.training
        device = task.grounding.given.lengths.device
        self.labels, self.watched = task.split()
        self.modules = nn.ModuleDict({"grounding": task.grounding})
        if task.objective.learn_flips:
            self.modules["flips"] = Flips(task.objective.flips).to(device)
        weights = [p for p in self.modules.parameters() if p.requires_grad]
        if not weights:
            raise DataError("nothing can be learned: no network has a parameter")
        try:
            kind: Any = OPTIMISERS[training.optimiser.lower()]
            self.optimiser: torch.optim.Optimizer = kind(
                weights, lr=training.rate, **training.options
            )
        except (TypeError, ValueError) as error:
            raise DataError(f"the optimiser '{training.optimiser}': {error}") from None
        if training.batches is not None:
            check_batches(training.batches, task.grounding.given, task.grounding.signature)
        self.generator = torch.Generator().manual_seed(training.seed)
        self.parts: dict[int, Part] = {}
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}

    @property
    def history(self) -> list[Epoch]:
        return self.progress.history

    def goes_on(self) -> bool:
        return self.progress.stopped is None

    # --- one epoch --------------------------------------------------------------------------------

    def epoch(self) -> Epoch:
        """Go over the data once."""
        task, number = self.task, self.progress.epoch + 1
        self.modules.train()
        sums: list[tuple[float, float, float]] = []
        values: Tensor | None = None
        for part in parts(
            task.training.batches,
            task.grounding.given,
            task.grounding.signature,
            self.parts,
            self.generator,
        ):
            self.optimiser.zero_grad(set_to_none=True)
            found, seen = self.losses(number - 1, part)
            _check(found, number)
            found.total.backward()
            if task.training.clip is not None:
                nn.utils.clip_grad_norm_(self.modules.parameters(), task.training.clip)
            before = self.snapshot() if part is None and self.watched is None else None
            self.optimiser.step()
            axioms = math.nan if found.axioms is None else float(found.axioms.detach())
            sums.append((float(found.total.detach()), float(found.facts.detach()), axioms))
            values = seen
            if before is not None:
                self.candidate = before
        total, facts, axioms = (sum(column) / len(sums) for column in zip(*sums, strict=True))
        watched = self.watch(number) if self.watched is not None else total
        best = self.judge(number, watched)
        epoch = Epoch(
            number, total, facts, None if math.isnan(axioms) else axioms,
            self._named(values), watched, best,
        )  # fmt: skip
        self.progress.epoch = number
        self.history.append(epoch)
        if number >= task.training.epochs:
            self.progress.stopped = "all epochs are done"
        return epoch

    def losses(self, epoch: float, part: Part | None) -> tuple[Losses, Tensor | None]:
        task = self.task
        model = task.grounding(part)
        labels = self.labels if part is None else part.labels(self.labels)
        flips: Tensor | float = task.objective.flips
        if "flips" in self.modules:
            flips = self.modules["flips"]()
        facts = fact_loss(task.objective, labels, model, epoch, flips)
        if task.objective.axioms == "none" or not task.axioms.names:
            return losses(task.objective, facts, None, epoch), None
        values = task.axioms.values(model, epoch=epoch, key=0 if part is None else part.key)
        weights = task.axioms.weights(task.objective.axiom_weights, epoch).to(values)
        axioms = axiom_loss(task.objective, values, weights, epoch)
        return losses(task.objective, facts, axioms, epoch), values.detach()

    def watch(self, epoch: float) -> float:
        """The loss of the facts that are held back."""
        assert self.watched is not None
        self.modules.eval()
        with torch.no_grad():
            flips: Tensor | float = self.task.objective.flips
            if "flips" in self.modules:
                flips = self.modules["flips"]()
            model = self.task.grounding()
            found = fact_loss(self.task.objective, self.watched, model, epoch, flips)
        return float(found)

    def judge(self, number: int, watched: float) -> bool:
        """Whether this is the best epoch so far; if not for too long, training stops."""
        training, progress = self.task.training, self.progress
        best = watched < progress.best - training.tolerance
        if best:
            progress.best, progress.best_epoch = watched, number
            # Without watched facts, the loss is that of the weights before the step.
            self.best = self.snapshot() if self.watched is not None else self.candidate_or_now()
        elif training.patience is not None and number - progress.best_epoch >= training.patience:
            progress.stopped = f"no improvement for {training.patience} epochs"
        return best

    def candidate_or_now(self) -> dict[str, Tensor]:
        return self.__dict__.pop("candidate", None) or self.snapshot()

    def snapshot(self) -> dict[str, Tensor]:
        return {n: p.detach().clone() for n, p in self.modules.state_dict().items()}

    def keep_best(self) -> None:
        """End with the best weights, if that is asked for."""
        if self.task.training.keep_best and self.best:
            self.modules.load_state_dict(self.best)
        self.modules.eval()

    def _named(self, values: Tensor | None) -> dict[str, float]:
        if values is None:
            return {}
        return dict(zip(self.task.axioms.names, values.mean(1).tolist(), strict=True))

    # --- interrupting and going on ------------------------------------------------------------

    def save(self, folder: Path) -> None:
        tensors = {f"weights/{n}": t for n, t in self.modules.state_dict().items()}
        tensors |= {f"best/{n}": t for n, t in self.best.items()}
        state, document = pack_optimiser(self.optimiser)
        progress = {**asdict(self.progress), "history": [asdict(e) for e in self.history]}
        write_checkpoint(
            folder,
            self.progress.epoch,
            {**tensors, **state, **pack_generators(self.generators())},
            {"optimiser.json": document, _STATE: {"task": self.identity(), **progress}},
        )

    def generators(self) -> dict[str, torch.Generator]:
        return {"own": self.generator, "torch": torch.default_generator}

    def resume(self, folder: Path) -> tuple[str, ...]:
        latest = latest_checkpoint(folder)
        warnings = tuple(w.message for w in latest.warnings)
        if latest.checkpoint is None:
            return warnings
        tensors, documents = latest.checkpoint.tensors, latest.checkpoint.documents
        state: Any = documents[_STATE]
        if state["task"] != self.identity():
            raise DataError(
                f"the checkpoints in '{folder}' are of another task or other settings; "
                "remove them to start anew"
            )
        self.modules.load_state_dict(_below(tensors, "weights/"))
        self.best = _below(tensors, "best/")
        restore_optimiser(self.optimiser, documents["optimiser.json"], tensors)
        restore_generators(self.generators(), tensors)
        history = [Epoch(**e) for e in state["history"]]
        self.progress = Progress(
            state["epoch"], state["best"] if state["best"] is not None else math.inf,
            state["best_epoch"], history, state["stopped"],
        )  # fmt: skip
        return warnings

    def identity(self) -> dict[str, Any]:
        """What must be the same for training to go on."""
        weights = {n: list(p.shape) for n, p in self.modules.state_dict().items()}
        return {
            "training": repr(self.task.training),
            "objective": repr(self.task.objective),
            "axioms": {a.name: repr(a.formula) for a in self.task.axioms.theory.axioms},
            "semantics": repr(self.task.axioms.semantics),
            "weights": weights,
            "labels": {n: _digest(self.labels.index[n], t) for n, t in self.labels.truth.items()},
        }

    def outcome(self, reason: str, *, finished: bool, warnings: tuple[str, ...]) -> Outcome:
        return Outcome(reason, self.progress.best_epoch, tuple(self.history), finished, warnings)


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _digest(index: Tensor, truth: Tensor) -> int:
    """A number that other labels hardly have."""
    return zlib.crc32(truth.cpu().numpy().tobytes(), zlib.crc32(index.cpu().numpy().tobytes()))


def _check(found: Losses, number: int) -> None:
    if not bool(torch.isfinite(found.total)):
        raise DataError(
            f"the loss of epoch {number} is {float(found.total.detach())}: a network gives "
            "something that is no number, or the learning rate is too high"
        )


@contextmanager
def seeded(seed: int) -> Iterator[torch.Generator]:
    """A generator for initial weights, with PyTorch's own seeded too and put back afterwards."""
    before = torch.get_rng_state()
    torch.manual_seed(seed)
    try:
        yield torch.Generator().manual_seed(seed)
    finally:
        torch.set_rng_state(before)


def forget_checkpoints(folder: Path | str) -> None:
    """Remove the checkpoints of a run that ended or is started anew."""
    clear_checkpoints(folder)
