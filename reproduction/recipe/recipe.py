"""The recipe on the paper's scenes: what axioms define is defined, labels are known to be noisy.

A1 and A3 say when a car stops and when it runs, A11 and A10 that a pedestrian is on the sidewalk
unless crossing. Read as definitions they leave types and Crossing to be learned. These are free
logits, Crossing averaged over neighbours in time. The likelihood knows of a tenth of wrong labels.
All axioms stay in the loss. Nothing here is special to cars but the formulas.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from fotltn.decisions import rounded
from fotltn.engine import Prepared, compile_formulas
from fotltn.learn.objective import doubted
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory, check_formula
from fotltn.networks.grounding import Grounding
from fotltn.networks.predicates import Defined, Logits, Predicate
from fotltn.project.scene import LEARNED
from fotltn.semantics.config import PRODUCT, WITNESS, PMean, Semantics
from fotltn.semantics.tables import Tables
from fotltn.syntax.parse import parse_formula
from reproduction.paper.many import BUDGET, Batch, Trained, batch, records
from reproduction.paper.protocol import READING, Run, Setting

#: What the axioms say of these, with the head's variable x.
DEFINITIONS: Mapping[str, str] = {
    "Stop": "Car(x) & Y (exists y. Ped(y) & Crossing(y) & Close(x, y))",
    "Run": "Car(x) & !Stop(x)",
    "OnSidewalk": "Ped(x) & !Crossing(x)",
}

#: Errors are averaged as they are, and one witness suffices.
_AVERAGED = replace(PRODUCT, name="averaged", forall=PMean(1), always=PMean(1))


@dataclass(frozen=True, slots=True)
class Recipe:
    """The recipe, or (for ablations) what is left of it.

    Args:
        defined: definitions are used; else all predicates are free logits.
        reach: over how many steps logits are averaged; 0 for none.
        flips: the rate of wrong labels that the likelihood knows of; 0 for plain cross-entropy.
        weight: of the axioms.
        prior: of the parameters.
        exists: the semantics of definitions: under "product", one witness suffices.
        obeyed: the semantics of the axioms in the loss.
        trust: how far to trust each axiom is learned, under a prior with this shape; 0 for not.
        extra: further axioms, declared as additional knowledge; FIFTH in them stands for a fifth
            of the trace. Their errors are averaged over bindings and times, without a power.
        extra_weight: of these.
        rate: of learning.
        epochs: of training; there is no early stopping.
    """

    defined: bool = True
    reach: float = 4.0
    flips: float = 0.1
    weight: float = 0.6
    prior: float = 0.003
    exists: Semantics = PRODUCT
    obeyed: Semantics = WITNESS
    trust: float = 0.0
    extra: tuple[str, ...] = ()
    extra_weight: float = 0.6
    rate: float = 0.05
    epochs: int = 300


def grounding(recipe: Recipe, theory: CheckedTheory, base: Tables, seeds: list[int]) -> Grounding:
    """Free logits for what is learned, a trace for each run; definitions for the rest."""
    sizes, times = base.sizes, base.horizon
    predicates: dict[str, Predicate] = {}
    for name, decl in theory.signature.predicates.items():
        if name in base.predicates:
            continue
        if recipe.defined and name in DEFINITIONS:
            predicates[name] = Defined(("x",), DEFINITIONS[name])
            continue
        shape = (len(seeds), *(sizes[s] for s in decl.sorts), 1 if decl.static else times)
        logits = Logits(shape, reach=recipe.reach)
        with torch.no_grad():
            for number, seed in enumerate(seeds):
                generator = torch.Generator().manual_seed(seed)
                logits.values[number].normal_(0.0, 0.01, generator=generator)
        predicates[name] = logits
    return Grounding(theory.signature, base, predicates, semantics=recipe.exists)


class Ready(nn.Module):
    """The recipe for many runs: tables of all learned predicates, and the loss of each run."""

    def __init__(
        self, recipe: Recipe, theory: CheckedTheory, base: Tables, seeds: list[int]
    ) -> None:
        """Draw initial logits, those of each run by its seed."""
        super().__init__()
        self.recipe, self.theory = recipe, theory
        self.grounding = grounding(recipe, theory, base, seeds)
        self.runs = len(seeds)
        self.ready: Prepared | None = None
        self.more: Prepared | None = None

    def tables(self) -> Tables:
        """Tables of all predicates."""
        tables: Tables = self.grounding()
        return tables

    def axioms(self, model: Tables) -> Tensor:
        """For each run the mean of the negative logarithms of the axioms' values."""
        if self.ready is None:
            formulas = {a.name: a.formula for a in self.theory.axioms}
            self.ready = self._planned(formulas, self.recipe.obeyed, model)
        missing = self._missing(self.ready, model)
        return (doubted(missing, self.recipe.trust) if self.recipe.trust else missing).mean(0)

    def additional(self, model: Tables) -> Tensor:
        """The same for axioms that are declared in addition."""
        if self.more is None:
            fifth = str(model.horizon // 5)
            formulas = {
                text: check_formula(
                    parse_formula(text.replace("FIFTH", fifth)), self.theory.signature
                ).formula
                for text in self.recipe.extra
            }
            self.more = self._planned(formulas, _AVERAGED, model)
        return self._missing(self.more, model).mean(0)

    def _planned(
        self, formulas: Mapping[str, c.Formula], semantics: Semantics, model: Tables
    ) -> Prepared:
        program = compile_formulas(formulas, self.theory.signature, semantics)
        return program.prepare(model, dtype=torch.float32, budget=BUDGET)

    def _missing(self, ready: Prepared, model: Tables) -> Tensor:
        """Negative logarithms with axes (axiom, run)."""
        values = [v.tensor.reshape(-1).expand(self.runs) for v in ready(model).values()]
        return -torch.stack(values).clamp(min=1e-30).log()

    def prior(self) -> Tensor:
        """For each run the sum of the squares of its parameters."""
        squares = [p.square().flatten(1).sum(1) for p in self.grounding.parameters()]
        return torch.stack(squares).sum(0)


def likelihood(degrees: Tensor, truth: Tensor, flips: float) -> Tensor:
    """The negative log-likelihood of labels of which a share is wrong."""
    agree = truth * degrees + (1 - truth) * (1 - degrees)
    return -((1 - flips) * agree + flips * (1 - agree)).clamp(min=1e-6).log()


def run_recipe(
    runs: Sequence[Run], *recipes: Recipe, setting: Setting = READING, device: str = "cpu"
) -> list[dict[str, Any]]:
    """Train runs of one data set together by the recipe, and give their records.

    Violations are those of decisions that agree with the definitions. With several recipes, what
    is learned is the mean over them, to which definitions are applied.
    """
    work = batch(runs, setting, device)
    began = time.perf_counter()
    each = [_trained(recipe, work) for recipe in recipes]
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    taken = time.perf_counter() - began
    with torch.no_grad():
        first = each[0].grounding
        models = [ready.tables() for ready in each]
        learned = {n: torch.stack([m.predicate(n) for m in models]).mean(0) for n in first.learned}
        model = first.applied(replace(models[0], predicates={**models[0].predicates, **learned}))
        crisp = rounded(replace(model, decisions=first.decisions()))
    results = records(work, _outcome(each[0], model), taken)
    for one, decided in zip(results, records(work, _outcome(each[0], crisp), taken), strict=True):
        one |= {k: decided[k] for k in ("violations", "violation_rate")}
        one["setting"] = {**one["setting"], "recipe": [_plain(r) for r in recipes]}
    return results


def _plain(recipe: Recipe) -> dict[str, Any]:
    values = {f.name: getattr(recipe, f.name) for f in fields(recipe)}
    return values | {"exists": recipe.exists.name, "obeyed": recipe.obeyed.name}


def _trained(recipe: Recipe, work: Batch) -> Ready:
    ready = Ready(recipe, work.world.theory, work.base, [run.seed for run in work.runs])
    ready = ready.to(device=work.device, dtype=work.dtype)
    optimiser = torch.optim.Adam(ready.parameters(), lr=recipe.rate)
    for _ in range(recipe.epochs):
        optimiser.zero_grad(set_to_none=True)
        loss(ready, work).sum().backward()  # type: ignore[no-untyped-call, unused-ignore]
        optimiser.step()
    return ready


def loss(ready: Ready, work: Batch) -> Tensor:
    """The loss of each run: facts, axioms and prior, as sums over its facts."""
    recipe, model = ready.recipe, ready.tables()
    total = torch.zeros_like(work.facts.counts)
    for name, cells in work.facts.cells.items():
        table = model.predicate(name)
        degrees = table.expand(ready.runs, *table.shape[1:]).reshape(-1)[cells]
        wrong = likelihood(degrees, work.facts.truth[name], recipe.flips)
        total = total.index_add(0, work.facts.run[name], wrong)
    total = total + recipe.prior * ready.prior()
    if recipe.weight:
        total = total + recipe.weight * work.facts.counts * ready.axioms(model)
    if recipe.extra:
        total = total + recipe.extra_weight * work.facts.counts * ready.additional(model)
    return total


def _outcome(ready: Ready, model: Tables) -> Trained:
    tables = {n: model.predicate(n) for n in LEARNED}
    full = {n: t.expand(ready.runs, *t.shape[1:]).contiguous() for n, t in tables.items()}
    epochs = torch.full((ready.runs,), ready.recipe.epochs)
    count = sum(p.numel() for p in ready.parameters()) // ready.runs
    return Trained(full, epochs, epochs, torch.zeros(0, ready.runs), count)
