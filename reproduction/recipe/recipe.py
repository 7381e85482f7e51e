"""The recipe on the paper's scenes: use definitions in axioms, and expect noisy labels.

A1 and A3 say when a car stops and when it runs, and A11 and A10 say that a pedestrian is on the
sidewalk unless crossing. Read as definitions, they leave only types and Crossing to be learned.
These are free logits, and the logits of Crossing are averaged over neighbouring time points. The
likelihood assumes that a tenth of the labels are wrong. All axioms stay in the loss. Only the
formulas are specific to cars.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from fotltn.decisions import rounded
from fotltn.evaluation import Evaluator
from fotltn.learn.objective import doubted
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory, check_formula
from fotltn.networks.grounding import Grounding
from fotltn.networks.predicates import Defined, Logits, Predicate
from fotltn.project.scene import LEARNED
from fotltn.semantics.config import PRODUCT, WITNESS, PMean, Semantics
from fotltn.semantics.tables import Tables
from reproduction.paper.many import BUDGET, Batch, Trained, batch, records
from reproduction.paper.protocol import READING, Run, Setting

#: The definitions in the axioms, with the variable x.
DEFINITIONS: Mapping[str, str] = {
    "Stop": "Car(x) & Y (exists y. Ped(y) & Crossing(y) & Close(x, y))",
    "Run": "Car(x) & !Stop(x)",
    "OnSidewalk": "Ped(x) & !Crossing(x)",
}

#: Errors are averaged without a power, and one witness is enough.
_AVERAGED = replace(PRODUCT, name="averaged", forall=PMean(1), always=PMean(1))


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of the recipe or, for ablations, of a part of it.

    Args:
        defined: whether to use definitions; otherwise all predicates are free logits.
        reach: the number of steps over which logits are averaged; 0 for no average.
        flips: the rate of wrong labels in the likelihood; 0 for plain cross-entropy.
        weight: the weight of the axioms.
        prior: the weight of the parameters' prior.
        exists: the semantics of definitions; under "product", one witness is enough.
        obeyed: the semantics of the axioms in the loss.
        trust: the shape of the prior under which trust in each axiom is learned; 0 not to learn it.
        extra: further axioms as additional knowledge; FIFTH in them stands for a fifth of the
            trace. Their errors are averaged over bindings and times, without a power.
        extra_weight: the weight of these axioms.
        rate: the learning rate.
        epochs: the number of epochs; there is no early stopping.
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
    """Build free logits for learned predicates, one trace per run, and definitions for others."""
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
        """Draw the initial logits of each run by its seed."""
        super().__init__()
        self.recipe, self.theory = recipe, theory
        self.grounding = grounding(recipe, theory, base, seeds)
        self.runs = len(seeds)
        formulas = {a.name: a.formula for a in theory.axioms}
        self.stated = Evaluator(formulas, recipe.obeyed, 0, BUDGET)
        self.added = Evaluator(self._extra(base.horizon), _AVERAGED, 0, BUDGET)

    def tables(self) -> Tables:
        """Return tables of all predicates."""
        tables: Tables = self.grounding()
        return tables

    def axioms(self, tables: Tables) -> Tensor:
        """Return the mean negative logarithm of the axioms' values, shape (run,)."""
        missing = self._missing(self.stated, tables)
        return (doubted(missing, self.recipe.trust) if self.recipe.trust else missing).mean(0)

    def additional(self, tables: Tables) -> Tensor:
        """Return the same for the additional axioms."""
        return self._missing(self.added, tables).mean(0)

    def _extra(self, horizon: int) -> dict[str, c.Formula]:
        fifth, signature = str(horizon // 5), self.theory.signature
        return {
            text: check_formula(text.replace("FIFTH", fifth), signature).formula
            for text in self.recipe.extra
        }

    def _missing(self, axioms: Evaluator, tables: Tables) -> Tensor:
        """Return negative logarithms of values, shape (axiom, run)."""
        values = [v.tensor.reshape(-1).expand(self.runs) for v in axioms(tables).values()]
        return -torch.stack(values).clamp(min=1e-30).log()

    def prior(self) -> Tensor:
        """Return the sum of squares of each run's parameters, shape (run,)."""
        squares = [p.square().flatten(1).sum(1) for p in self.grounding.parameters()]
        return torch.stack(squares).sum(0)


def likelihood(degrees: Tensor, truth: Tensor, flips: float) -> Tensor:
    """Return the negative log-likelihood of labels, a share of which is wrong."""
    agree = truth * degrees + (1 - truth) * (1 - degrees)
    return -((1 - flips) * agree + flips * (1 - agree)).clamp(min=1e-6).log()


def run_recipe(
    runs: Sequence[Run], *recipes: Recipe, setting: Setting = READING, device: str = "cpu"
) -> list[dict[str, Any]]:
    """Train runs of one data set together by the recipe, and return their records.

    Violations are counted on decisions that agree with the definitions. With several recipes,
    learned predicates are averaged over them, and definitions are applied to the average.
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
    """Return the loss of facts, axioms and prior, as sums over each run's facts, shape (run,)."""
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


def _outcome(ready: Ready, tables: Tables) -> Trained:
    learned = {n: tables.predicate(n) for n in LEARNED}
    full = {n: t.expand(ready.runs, *t.shape[1:]).contiguous() for n, t in learned.items()}
    epochs = torch.full((ready.runs,), ready.recipe.epochs)
    count = sum(p.numel() for p in ready.parameters()) // ready.runs
    return Trained(full, epochs, epochs, torch.zeros(0, ready.runs), count)
