"""The recipe on the paper's scenes: what axioms define is defined, labels are known to be noisy.

A1 and A3 say when a car stops and when it runs, A11 and A10 that a pedestrian is on the sidewalk
unless crossing. Read as definitions they leave types and Crossing to be learned. These are free
logits, Crossing averaged over neighbours in time. The likelihood knows of a tenth of wrong labels.
All axioms stay in the loss. Nothing here is special to cars but the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fotltn.engine import Prepared, compile_formulas
from fotltn.logic.check import CheckedTheory
from fotltn.networks.grounding import Grounding
from fotltn.networks.predicates import Defined, Logits, Predicate
from fotltn.semantics.config import PRODUCT, STABLE_PRODUCT, Semantics
from fotltn.semantics.interpretation import Interpretation

#: What the axioms say of these, with the head's variable x.
DEFINITIONS: Mapping[str, str] = {
    "Stop": "Car(x) & Y (exists y. Ped(y) & Crossing(y) & Close(x, y))",
    "Run": "Car(x) & !Stop(x)",
    "OnSidewalk": "Ped(x) & !Crossing(x)",
}


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
        rate: of learning.
        epochs: of training; there is no early stopping.
    """

    defined: bool = True
    reach: float = 4.0
    flips: float = 0.1
    weight: float = 0.3
    prior: float = 0.003
    exists: Semantics = PRODUCT
    rate: float = 0.05
    epochs: int = 300


def grounding(
    recipe: Recipe, theory: CheckedTheory, base: Interpretation, seeds: list[int]
) -> Grounding:
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
                own = torch.Generator().manual_seed(seed)
                logits.values[number].normal_(0.0, 0.01, generator=own)
        predicates[name] = logits
    return Grounding(theory.signature, base, predicates, semantics=recipe.exists)


class Ready(nn.Module):
    """The recipe for many runs: tables of all learned predicates, and the loss of each run."""

    def __init__(
        self, recipe: Recipe, theory: CheckedTheory, base: Interpretation, seeds: list[int]
    ) -> None:
        """Draw initial logits, those of each run by its seed."""
        super().__init__()
        self.recipe, self.theory = recipe, theory
        self.grounding = grounding(recipe, theory, base, seeds)
        self.runs = len(seeds)
        self.ready: Prepared | None = None

    def tables(self) -> Interpretation:
        """Tables of all predicates."""
        found: Interpretation = self.grounding()
        return found

    def axioms(self, model: Interpretation) -> Tensor:
        """For each run the mean of the negative logarithms of the axioms' values."""
        if self.ready is None:
            formulas = {a.name: a.formula for a in self.theory.axioms}
            program = compile_formulas(formulas, self.theory.signature, STABLE_PRODUCT)
            self.ready = program.prepare(model, dtype=torch.float32, budget=64 * 2**30)
        values = [v.tensor.reshape(-1).expand(self.runs) for v in self.ready(model).values()]
        return -torch.stack(values).clamp(min=1e-30).log().mean(0)

    def prior(self) -> Tensor:
        """For each run the sum of the squares of its parameters."""
        squares = [p.square().flatten(1).sum(1) for p in self.grounding.parameters()]
        return torch.stack(squares).sum(0)


def likelihood(degrees: Tensor, truth: Tensor, flips: float) -> Tensor:
    """The negative log-likelihood of labels of which a share is wrong."""
    agree = truth * degrees + (1 - truth) * (1 - degrees)
    return -((1 - flips) * agree + flips * (1 - agree)).clamp(min=1e-6).log()
