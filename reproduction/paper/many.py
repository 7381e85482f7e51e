"""Train many runs of one data set and method as one computation, with a trace for each run.

Every run has its own networks, initialised by its seed. The loss is the sum of the losses of the
runs, so each run has the same gradients, and with Adam the same steps, as it would alone. Up to
rounding, a run of FOT-LTN does not depend on the runs it is trained with. A run of HTGNN starts the
same, but dropout draws for the whole batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from fotltn import __version__
from fotltn.analysis.metrics import chance, kb_sat, mean, pr_auc
from fotltn.errors import DataError
from fotltn.evaluation import Evaluator
from fotltn.grounding.labels import Labels
from fotltn.grounding.split import split
from fotltn.learn.objective import rooted
from fotltn.networks.encoders import Embeddings
from fotltn.networks.grounding import Grounding
from fotltn.networks.predicates import Network
from fotltn.project.scene import LEARNED
from fotltn.semantics.config import STABLE_PRODUCT, PMean, Semantics, named
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from reproduction.paper.htgnn import HTGNN
from reproduction.paper.many_networks import ManyMLP
from reproduction.paper.protocol import Run, Setting, World, facts_of, theory, world
from reproduction.paper.supervision import (
    Supervision,
    cross_entropy,
    supervision,
    unsatisfied,
)

Degrees = dict[str, Tensor]

#: The weight decay of HTGNN in its publication.
DECAY = 5e-4

#: The memory limit for intermediate results of axioms, over all runs.
BUDGET = 64 * 2**30

#: Means of errors for ∀ and G, the largest degree for ∃ and F: on two-valued tables, the complement
#: of an axiom's value is the share of bindings and times that violate it.
COUNTING = replace(
    STABLE_PRODUCT, name="counting", forall=PMean(1), always=PMean(1),
    exists=PMean(float("inf")), eventually=PMean(float("inf")),
)  # fmt: skip


@dataclass(slots=True, eq=False)
class Batch:
    """Runs of one data set and method, ready to be trained together.

    Args:
        runs: the runs.
        setting: what the paper leaves open.
        device: the device to compute on.
        dtype: the type of weights, tables and losses.
        world: the data set.
        trains: the labels that each run learns from.
        facts: the same labels, combined.
        watched: the labels that are held back for early stopping, combined.
        tests: the labels that each run is tested on.
        base: the sizes and given tables, with a trace for each run.
    """

    runs: list[Run]
    setting: Setting
    device: str
    dtype: torch.dtype
    world: World
    trains: list[Labels]
    facts: Supervision
    watched: Supervision | None
    tests: list[Labels]
    base: Tables

    @property
    def method(self) -> str:
        """The method of all runs."""
        return self.runs[0].method

    def tables(self, learned: Degrees) -> Tables:
        """Return tables of all predicates, with a trace for each run."""
        return replace(self.base, predicates={**self.base.predicates, **learned})


def axioms_under(semantics: Semantics) -> Evaluator:
    """Return an evaluator of the thirteen axioms at the first time point; data sets share them."""
    return Evaluator({a.name: a.formula for a in theory().axioms}, semantics, 0, BUDGET)


def batch(
    runs: Sequence[Run], setting: Setting, device: str, *, dtype: torch.dtype = torch.float32
) -> Batch:
    """Read the facts of runs that share data set and method.

    Raises:
        DataError: there are no runs, or they differ in data set or method.
    """
    kinds = {(run.data, run.method) for run in runs}
    if len(kinds) != 1:
        raise DataError(
            f"runs that are trained together must share data set and method, not have {len(kinds)}"
        )
    source = world(runs[0].data)
    parts = [facts_of(run, setting) for run in runs]
    trains = [train for train, _ in parts]
    seen: list[Labels] = []
    if setting.watch:
        pairs = [
            split(t, 1 - setting.watch, by="facts", seed=run.seed)
            for t, run in zip(trains, runs, strict=True)
        ]
        trains, seen = [a for a, _ in pairs], [b for _, b in pairs]
    agents, steps = source.close.sizes["agent"], source.close.horizon
    shapes = {
        name: (agents, 1 if decl.static else steps)
        for name, decl in source.theory.signature.predicates.items()
        if name in LEARNED
    }
    facts = supervision(trains, shapes, device, dtype)
    watched = supervision(seen, shapes, device, dtype) if seen else None
    close = source.close.predicates["Close"]
    assert isinstance(close, SparseTable)
    moved = replace(close, index=close.index.to(device), value=close.value.to(device, dtype))
    base = replace(
        source.close,
        lengths=torch.full((len(runs),), steps, device=device),
        predicates={"Close": moved},
    )
    tests = [test for _, test in parts]
    return Batch(list(runs), setting, device, dtype, source, trains, facts, watched, tests, base)


class _Ours(nn.Module):
    """FOT-LTN with or without axioms."""

    def __init__(self, work: Batch) -> None:
        super().__init__()
        runs, signature = work.runs, work.world.theory.signature
        agents, steps = work.base.sizes["agent"], work.base.horizon
        self.grounding = Grounding(
            signature,
            work.base,
            {
                name: Network(ManyMLP(len(runs), 32), static=signature.predicates[name].static)
                for name in LEARNED
            },
            inputs={"agent": Embeddings(len(runs), agents, steps, 32)},
        )
        self.to(dtype=work.dtype)
        self.draw(runs, work.setting.scale)
        self.to(work.device)
        self.work = work
        semantics = named(work.setting.semantics).with_p(work.setting.p)
        self.axioms = axioms_under(semantics)

    def draw(self, runs: Sequence[Run], scale: float) -> None:
        """Draw the initial weights of each run by its own seed, whatever the other runs."""
        for number, run in enumerate(runs):
            generator = torch.Generator().manual_seed(run.seed)
            for module in self.grounding.modules():
                if isinstance(module, ManyMLP):
                    module.draw(number, generator)
                elif isinstance(module, Embeddings):
                    with torch.no_grad():
                        module.vectors[number].normal_(0.0, scale, generator=generator)

    def tables(self) -> Degrees:
        """Return the tables of all runs."""
        return {n: t for n, t in self.grounding().predicates.items() if n in LEARNED}

    def forward(self) -> Tensor:
        """Return the loss of each run, shape (run,)."""
        work, p, tables = self.work, self.work.setting.p, self.tables()
        facts = unsatisfied(tables, work.facts, p)
        if work.method == "FOT-LTN":
            return facts
        results = self.axioms(work.tables(tables)).values()
        values = torch.stack([v.tensor.reshape(-1).expand(len(work.runs)) for v in results])
        axioms = rooted(((1 - values).clamp(min=0) ** p).mean(0), p)
        return rooted((facts**p + axioms**p) / 2, p)

    def watch(self, facts: Supervision) -> Tensor:
        """Return the loss of each run on held-back facts, shape (run,)."""
        return unsatisfied(self.tables(), facts, self.work.setting.p)


class _Peer(nn.Module):
    """HTGNN."""

    def __init__(self, work: Batch) -> None:
        super().__init__()
        self.work = work
        self.net = self._made(work.trains, None)
        stacked = dict(self.net.named_parameters())
        for number, (run, train) in enumerate(zip(work.runs, work.trains, strict=True)):
            one = self._made([train], torch.Generator().manual_seed(run.seed))
            with torch.no_grad():
                for name, drawn in one.named_parameters():
                    stacked[name][number] = drawn[0]
        self.to(work.device)

    def _made(self, trains: Sequence[Labels], generator: torch.Generator | None) -> HTGNN:
        scene, setting = self.work.world.scene, self.work.setting
        return HTGNN(
            scene.size, len(trains), trains, scene.close, generator=generator,
            scale=setting.scale, dtype=self.work.dtype,
        )  # fmt: skip

    def tables(self) -> Degrees:
        """Return the tables of all runs."""
        return {n: torch.sigmoid(t) for n, t in self.net().items()}

    def forward(self) -> Tensor:
        """Return the loss of each run, shape (run,)."""
        return cross_entropy(self.net(), self.work.facts)

    def watch(self, facts: Supervision) -> Tensor:
        """Return the loss of each run on held-back facts, shape (run,)."""
        return cross_entropy(self.net(), facts)


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """The outcome of training.

    Args:
        tables: the tables of each run at its best epoch, or after its last.
        best: the best epoch of each run, shape (run,).
        epochs: the last epoch of each run, shape (run,).
        losses: the losses before each step, shape (epoch, run); runs that have stopped are computed
            along with the others.
        parameters: the number of parameters of one run.
    """

    tables: Degrees
    best: Tensor
    epochs: Tensor
    losses: Tensor
    parameters: int


def train(work: Batch, on_epoch: Callable[[int, int], None] | None = None) -> Trained:
    """Train all runs of a batch; each stops by its own patience.

    Args:
        work: the runs.
        on_epoch: a function to call every tenth epoch with the epoch and the number of active runs.

    Raises:
        DataError: a loss is not a number.
    """
    with _drawing(work):
        return _train(work, _Peer(work) if work.method == "HTGNN" else _Ours(work), on_epoch)


@contextmanager
def _drawing(work: Batch) -> Iterator[None]:
    """Seed PyTorch's global generators, and restore them afterwards."""
    here = torch.device(work.device)
    with torch.random.fork_rng([here] if here.type == "cuda" else []):
        torch.manual_seed(work.runs[0].seed)
        yield


def _train(
    work: Batch, module: _Ours | _Peer, on_epoch: Callable[[int, int], None] | None
) -> Trained:
    setting, count = work.setting, len(work.runs)
    optimiser = torch.optim.Adam(
        module.parameters(), lr=setting.rate,
        weight_decay=DECAY if work.method == "HTGNN" else 0.0,
        fused=work.device.startswith("cuda"),
    )  # fmt: skip
    best = torch.full((count,), torch.inf, device=work.device, dtype=work.dtype)
    best_epoch = torch.zeros(count, dtype=torch.long, device=work.device)
    epochs = torch.zeros_like(best_epoch)
    going = torch.ones(count, dtype=torch.bool, device=work.device)
    saved = {n: p.detach().clone() for n, p in module.named_parameters()}
    losses: list[Tensor] = []
    for epoch in range(1, setting.epochs + 1):
        optimiser.zero_grad(set_to_none=True)
        loss: Tensor = module()
        losses.append(loss.detach())
        judged = losses[-1] if work.watched is None else _watched(module, work.watched)
        better = going & (judged < best)
        best = torch.where(better, judged, best)
        best_epoch = torch.where(better, epoch, best_epoch)
        epochs = torch.where(going, epoch, epochs)
        if setting.keep_best:
            _keep(saved, module, better)
        loss.sum().backward()
        optimiser.step()
        if not setting.keep_best:
            _keep(saved, module, going)
        going = going & (epoch - best_epoch < setting.patience)
        if epoch % 10 == 0:
            left = int(going.sum())
            if on_epoch is not None:
                on_epoch(epoch, left)
            if not left:
                break
    history = torch.stack(losses)
    _check(work, history, epochs)
    each = sum(p.numel() for p in module.parameters()) // count
    return Trained(_predicted(module, saved), best_epoch, epochs, history, each)


@torch.no_grad()
def _watched(module: _Ours | _Peer, facts: Supervision) -> Tensor:
    module.eval()
    loss = module.watch(facts)
    module.train()
    return loss


@torch.no_grad()
def _predicted(module: _Ours | _Peer, saved: Degrees) -> Degrees:
    """Return the predictions of the stored weights, without dropout."""
    module.load_state_dict(saved)
    module.eval()
    return module.tables()


def _check(work: Batch, losses: Tensor, epochs: Tensor) -> None:
    """Raise an error if a loss is not a number up to the last epoch of its run."""
    count = torch.arange(1, len(losses) + 1, device=losses.device)
    wrong = (~losses.isfinite() & (count[:, None] <= epochs)).nonzero()
    if len(wrong):
        epoch, number = wrong[0].tolist()
        run = work.runs[number]
        raise DataError(
            f"the loss of {run.method} on {run.data} ({run.fraction:.0%}, repetition "
            f"{run.repetition}) is not a number in epoch {epoch + 1}; try a lower learning rate"
        )


@torch.no_grad()
def _keep(saved: Degrees, module: nn.Module, which: Tensor) -> None:
    """Copy the weights of some runs."""
    for name, weight in module.named_parameters():
        mask = which.reshape(-1, *[1] * (weight.dim() - 1))
        torch.where(mask, weight, saved[name], out=saved[name])


def records(work: Batch, trained: Trained, seconds: float) -> list[dict[str, Any]]:
    """Return the record of each run."""
    with torch.no_grad():
        values = axioms_under(STABLE_PRODUCT.with_p(work.setting.p))(work.tables(trained.tables))
        crisp = {n: (t >= 0.5).double() for n, t in trained.tables.items()}
        counted = axioms_under(COUNTING)(work.tables(crisp))
    axioms = {n: v.tensor.reshape(-1).expand(len(work.runs)).tolist() for n, v in values.items()}
    broken = {
        n: (1 - v.tensor.reshape(-1)).expand(len(work.runs)).tolist() for n, v in counted.items()
    }
    tables = {n: t.cpu() for n, t in trained.tables.items()}
    name = torch.cuda.get_device_name(work.device) if work.device.startswith("cuda") else "cpu"
    rows = []
    for i, run in enumerate(work.runs):
        scores, base = {}, {}
        for predicate in LEARNED:
            _, agent, step = work.tests[i].index[predicate]
            truth = work.tests[i].truth[predicate] >= 0.5
            table = tables[predicate][i]
            degree = table[agent, step if table.shape[-1] > 1 else torch.zeros_like(step)]
            scores[predicate], base[predicate] = pr_auc(truth, degree), chance(truth)
        of_axioms = {n: v[i] for n, v in axioms.items()}
        wrong = {n: v[i] for n, v in broken.items()}
        rows.append({
            "data": run.data, "method": run.method, "fraction": run.fraction,
            "repetition": run.repetition, "seed": run.seed,
            "pr_auc": mean(scores).value,
            "pr_auc_by": {n: m.value for n, m in scores.items() if m.defined},
            "chance": mean(base).value, "kb_sat": kb_sat(list(of_axioms.values())).value,
            "axioms": of_axioms, "violations": wrong,
            "violation_rate": sum(wrong.values()) / len(wrong),
            "epochs": int(trained.epochs[i]), "best_epoch": int(trained.best[i]),
            "seconds": seconds / len(work.runs), "batch": len(work.runs),
            "parameters": trained.parameters, "setting": asdict(work.setting), "device": name,
            "version": __version__,
        })  # fmt: skip
    return rows


def run_many(
    runs: Sequence[Run],
    setting: Setting,
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    on_epoch: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Train runs of one data set and method together, and return their records."""
    work = batch(runs, setting, device, dtype=dtype)
    began = time.perf_counter()
    trained = train(work, on_epoch)
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return records(work, trained, time.perf_counter() - began)
