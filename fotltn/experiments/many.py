"""Many runs of one data set and method as one computation: a trace for each run.

Every run has networks of its own. The loss is the sum of the losses of the runs, so that each has
the gradients, and with Adam the steps, that it would have alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from fotltn import __version__
from fotltn.engine import Prepared, compile_formulas
from fotltn.experiments.carped import LEARNED
from fotltn.experiments.protocol import Run, Setting, World, facts_of, world
from fotltn.grounding.labels import Labels
from fotltn.grounding.split import split
from fotltn.learn.metrics import chance, kb_sat, mean, pr_auc
from fotltn.networks.grounding import Grounding
from fotltn.networks.inputs import Embeddings
from fotltn.networks.many import ManyMLP
from fotltn.networks.predicates import Network
from fotltn.semantics.config import STABLE_PRODUCT, PMean, Semantics, named
from fotltn.semantics.interpretation import Interpretation
from fotltn.semantics.sparse import SparseTable

Tables = dict[str, Tensor]

#: Means of errors for ∀ and G, the greatest degree for ∃ and F: on two-valued tables the
#: complement of an axiom's value is the share of bindings and times at which it is violated.
COUNTING = replace(
    STABLE_PRODUCT, name="counting", forall=PMean(1), always=PMean(1),
    exists=PMean(float("inf")), eventually=PMean(float("inf")),
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Supervision:
    """The labelled facts of all runs: cells of flat tables, labels, and whose they are."""

    cells: dict[str, Tensor]
    truth: dict[str, Tensor]
    run: dict[str, Tensor]
    counts: Tensor


def supervision(
    parts: Sequence[Labels], shapes: dict[str, tuple[int, int]], device: str
) -> Supervision:
    """Put the facts of runs together; a table has `shapes` (agents, time points or 1)."""
    cells, truth, run = {}, {}, {}
    for name in LEARNED:
        agents, times = shapes[name]
        rows, labels, owner = [], [], []
        for number, part in enumerate(parts):
            _, agent, step = part.index[name]
            rows.append((number * agents + agent) * times + (step if times > 1 else 0))
            labels.append(part.truth[name])
            owner.append(torch.full_like(agent, number))
        cells[name] = torch.cat(rows).to(device)
        truth[name] = torch.cat(labels).to(device)
        run[name] = torch.cat(owner).to(device)
    counts = torch.tensor([float(part.total) for part in parts], device=device)
    return Supervision(cells, truth, run, counts)


def mean_error(powers: Tensor, p: float) -> Tensor:
    """The root of means of powers of errors, with slope 0 at 0."""
    safe = torch.where(powers > 0, powers, torch.ones_like(powers))
    return torch.where(powers > 0, safe ** (1 / p), torch.zeros_like(powers))


def unsatisfied(tables: Tables, facts: Supervision, p: float) -> Tensor:
    """For each run, the mean error of its facts: the complement of the paper's sat_sup."""
    total = torch.zeros_like(facts.counts)
    for name, cells in facts.cells.items():
        degree = tables[name].reshape(-1)[cells]
        truth = facts.truth[name]
        error = truth * (1 - degree) + (1 - truth) * degree
        total = total.index_add(0, facts.run[name], error.square().square() if p == 4 else error**p)
    return mean_error(total / facts.counts, p)


def cross_entropy(logits: Tables, facts: Supervision) -> Tensor:
    """For each run, the mean cross-entropy of its facts."""
    total = torch.zeros_like(facts.counts)
    for name, cells in facts.cells.items():
        loss = nn.functional.binary_cross_entropy_with_logits(
            logits[name].reshape(-1)[cells], facts.truth[name], reduction="none"
        )
        total = total.index_add(0, facts.run[name], loss)
    return total / facts.counts


@dataclass(slots=True, eq=False)
class Batch:
    """Runs of one data set and method, ready to be trained together."""

    runs: list[Run]
    setting: Setting
    device: str
    world: World
    facts: Supervision
    watched: Supervision | None
    tests: list[Labels]
    base: Interpretation

    @property
    def method(self) -> str:
        """The method of all runs."""
        return self.runs[0].method

    def axioms(self, semantics: Semantics, tables: Tables) -> Prepared:
        """The axioms, planned for tables of this batch."""
        formulas = {a.name: a.formula for a in self.world.theory.axioms}
        program = compile_formulas(formulas, self.world.theory.signature, semantics)
        return program.prepare(self.model(tables), dtype=torch.float32, budget=64 * 2**30)

    def model(self, tables: Tables) -> Interpretation:
        """Tables of all predicates, with a trace for each run."""
        return replace(self.base, predicates={**self.base.predicates, **tables})


def batch(runs: Sequence[Run], setting: Setting, device: str) -> Batch:
    """Read the facts of runs, which share data set and method."""
    found = world(runs[0].data)
    parts = [facts_of(run, setting) for run in runs]
    trains = [train for train, _ in parts]
    seen: list[Labels] = []
    if setting.watch:
        pairs = [
            split(t, 1 - setting.watch, by="facts", seed=run.seed)
            for t, run in zip(trains, runs, strict=True)
        ]
        trains, seen = [a for a, _ in pairs], [b for _, b in pairs]
    agents, steps = found.close.sizes["agent"], found.close.horizon
    shapes = {
        name: (agents, 1 if decl.static else steps)
        for name, decl in found.theory.signature.predicates.items()
        if name in LEARNED
    }
    facts = supervision(trains, shapes, device)
    watched = supervision(seen, shapes, device) if seen else None
    close = found.close.predicates["Close"]
    assert isinstance(close, SparseTable)
    moved = replace(close, index=close.index.to(device), value=close.value.to(device))
    base = replace(
        found.close,
        lengths=torch.full((len(runs),), steps, device=device),
        predicates={"Close": moved},
    )
    tests = [test for _, test in parts]
    return Batch(list(runs), setting, device, found, facts, watched, tests, base)


class _Ours(nn.Module):
    """FOT-LTN with or without axioms: tables, and the loss of each run."""

    def __init__(self, work: Batch) -> None:
        super().__init__()
        runs, setting = work.runs, work.setting
        agents, steps = work.base.sizes["agent"], work.base.horizon
        signature = work.world.theory.signature
        self.grounding = Grounding(
            signature,
            work.base,
            {
                name: Network(
                    ManyMLP(len(runs), 32),
                    static=signature.predicates[name].static,
                )
                for name in LEARNED
            },
            inputs={"agent": Embeddings(len(runs), agents, steps, 32)},
        )
        self.draw(runs, setting.scale)
        self.to(work.device)
        self.work = work
        self.ready: Prepared | None = None

    def draw(self, runs: Sequence[Run], scale: float) -> None:
        """Initial weights of each run by its own seed, whatever runs it is trained with."""
        for number, run in enumerate(runs):
            generator = torch.Generator().manual_seed(run.seed)
            for module in self.grounding.modules():
                if isinstance(module, ManyMLP):
                    module.draw(number, generator)
                elif isinstance(module, Embeddings):
                    with torch.no_grad():
                        module.vectors[number].normal_(0.0, scale, generator=generator)

    def forward(self) -> tuple[Tables, Tensor]:
        """Tables, and the loss of each run."""
        work, p = self.work, self.work.setting.p
        model = self.grounding()
        tables = {n: t for n, t in model.predicates.items() if n in LEARNED}
        facts = unsatisfied(tables, work.facts, p)
        if work.method == "FOT-LTN":
            return tables, facts
        if self.ready is None:
            self.ready = work.axioms(named(work.setting.semantics).with_p(p), tables)
        found = self.ready(model).values()
        values = torch.stack([v.tensor.reshape(-1).expand(len(work.runs)) for v in found])
        axioms = mean_error(((1 - values).clamp(min=0) ** p).mean(0), p)
        return tables, mean_error((facts**p + axioms**p) / 2, p)


class _Peer(nn.Module):
    """HTGNN: tables, and the loss of each run."""

    def __init__(self, work: Batch) -> None:
        from fotltn.experiments.htgnn import HTGNN

        super().__init__()
        generator = torch.Generator().manual_seed(work.runs[0].seed)
        trains = [facts_of(run, work.setting)[0] for run in work.runs]
        scene = work.world.scene
        self.net = HTGNN(
            scene.size, len(work.runs), trains, scene.close, generator=generator,
            scale=work.setting.scale,
        ).to(work.device)  # fmt: skip
        self.work = work

    def forward(self) -> tuple[Tables, Tensor]:
        """Tables, and the loss of each run."""
        logits = self.net()
        loss = cross_entropy(logits, self.work.facts)
        return {n: torch.sigmoid(t) for n, t in logits.items()}, loss


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """The tables of each run at its best epoch, and which epoch that was."""

    tables: Tables
    best: Tensor
    epochs: Tensor
    parameters: int


def train(work: Batch, on_epoch: Callable[[int, int], None] | None = None) -> Trained:
    """Train all runs of a batch; each stops by its own patience.

    `on_epoch` is told the epoch and how many runs still go on, now and then.
    """
    setting = work.setting
    torch.manual_seed(work.runs[0].seed)
    module: nn.Module = _Peer(work) if work.method == "HTGNN" else _Ours(work)
    decay = 5e-4 if work.method == "HTGNN" else 0.0
    optimiser = torch.optim.Adam(
        module.parameters(), lr=setting.rate, weight_decay=decay,
        fused=work.device.startswith("cuda"),
    )  # fmt: skip
    count = len(work.runs)
    best = torch.full((count,), torch.inf, device=work.device)
    best_epoch = torch.zeros(count, dtype=torch.long, device=work.device)
    epochs = torch.zeros_like(best_epoch)
    going = torch.ones(count, dtype=torch.bool, device=work.device)
    kept: Tables = {}
    for epoch in range(1, setting.epochs + 1):
        optimiser.zero_grad(set_to_none=True)
        tables, loss = module()
        judged = loss.detach()
        if work.watched is not None:
            judged = unsatisfied(tables, work.watched, setting.p).detach()
        better = going & (judged < best)
        _keep(kept, tables, better if setting.keep_best else going)
        best = torch.where(better, judged, best)
        best_epoch = torch.where(better, epoch, best_epoch)
        epochs = torch.where(going, epoch, epochs)
        going = going & (epoch - best_epoch < setting.patience)
        loss.sum().backward()
        optimiser.step()
        if epoch % 10 == 0:
            left = int(going.sum())
            if on_epoch is not None:
                on_epoch(epoch, left)
            if not left:
                break
    each = sum(p.numel() for p in module.parameters()) // count
    return Trained(kept, best_epoch, epochs, each)


def _keep(kept: Tables, tables: Tables, which: Tensor) -> None:
    for name, table in tables.items():
        if name not in kept:
            kept[name] = table.detach().clone()
        else:
            kept[name] = torch.where(which.reshape(-1, 1, 1), table.detach(), kept[name])


def records(work: Batch, trained: Trained, seconds: float) -> list[dict[str, Any]]:
    """What is written down of each run."""
    with torch.no_grad():
        values = work.axioms(STABLE_PRODUCT.with_p(work.setting.p), trained.tables)(
            work.model(trained.tables)
        )
        crisp = {n: (t >= 0.5).to(t.dtype) for n, t in trained.tables.items()}
        counted = work.axioms(COUNTING, crisp)(work.model(crisp))
    axioms = {n: v.tensor.reshape(-1).expand(len(work.runs)).tolist() for n, v in values.items()}
    broken = {
        n: (1 - v.tensor.reshape(-1)).expand(len(work.runs)).tolist() for n, v in counted.items()
    }
    tables = {n: t.cpu() for n, t in trained.tables.items()}
    name = torch.cuda.get_device_name() if work.device.startswith("cuda") else "cpu"
    found = []
    for i, run in enumerate(work.runs):
        scores, base = {}, {}
        for predicate in LEARNED:
            _, agent, step = work.tests[i].index[predicate]
            truth = work.tests[i].truth[predicate] >= 0.5
            table = tables[predicate][i]
            degree = table[agent, step if table.shape[-1] > 1 else torch.zeros_like(step)]
            scores[predicate], base[predicate] = pr_auc(truth, degree), chance(truth)
        own = {n: v[i] for n, v in axioms.items()}
        wrong = {n: v[i] for n, v in broken.items()}
        found.append({
            "data": run.data, "method": run.method, "fraction": run.fraction,
            "repetition": run.repetition, "seed": run.seed,
            "pr_auc": mean(scores).value, "pr_auc_by": {n: m.value for n, m in scores.items()},
            "chance": mean(base).value, "kb_sat": kb_sat(list(own.values())).value,
            "axioms": own, "violations": wrong,
            "violation_rate": sum(wrong.values()) / len(wrong),
            "epochs": int(trained.epochs[i]), "best_epoch": int(trained.best[i]),
            "seconds": seconds / len(work.runs), "batch": len(work.runs),
            "parameters": trained.parameters, "setting": asdict(work.setting), "device": name,
            "version": __version__,
        })  # fmt: skip
    return found


def run_many(
    runs: Sequence[Run],
    setting: Setting,
    *,
    device: str = "cpu",
    on_epoch: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Train runs of one data set and method together, and give their records."""
    work = batch(runs, setting, device)
    began = time.perf_counter()
    trained = train(work, on_epoch)
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return records(work, trained, time.perf_counter() - began)
