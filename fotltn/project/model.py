"""A model: a theory, its data and trained networks, which can be asked, saved and loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from fotltn.errors import DataError
from fotltn.evaluation import Time
from fotltn.grounding.facts import Facts
from fotltn.grounding.features import Features
from fotltn.grounding.labels import Labels
from fotltn.learn.ask import Answer, ask
from fotltn.learn.audit import audit
from fotltn.learn.audit_data import Audit
from fotltn.learn.fit import Epoch, Outcome
from fotltn.learn.metrics import Report, report
from fotltn.learn.objective import predicted
from fotltn.learn.predictions import predictions
from fotltn.learn.store import read_folder, write_folder
from fotltn.learn.violations import Counterexample, Violations, counterexample, violations
from fotltn.logic.check import CheckedTheory, check
from fotltn.networks.grounding import Grounding
from fotltn.project.build import Built, World, device_of, ground, meaning, moved, to_device
from fotltn.project.config import Config, config_of
from fotltn.project.toml import parse_toml
from fotltn.semantics.config import Semantics
from fotltn.semantics.interpretation import Interpretation
from fotltn.semantics.sparse import SparseTable
from fotltn.syntax.load import parse_theory
from fotltn.syntax.show import show_theory

_KIND = "model"


@dataclass(slots=True, eq=False)
class Model:
    """Trained networks with everything that is needed to ask them.

    Args:
        config: the project.
        world: theory, names and given data.
        grounding: the networks.
        semantics: of the axioms.
        history: the epochs of training.
        reason: why training ended.
    """

    config: Config
    world: World
    grounding: Grounding
    semantics: Semantics
    history: tuple[Epoch, ...] = ()
    reason: str = ""
    _tables: Interpretation | None = field(default=None, repr=False)

    @property
    def theory(self) -> CheckedTheory:
        """The theory."""
        return self.world.theory

    @property
    def facts(self) -> Facts:
        """The names of traces and entities."""
        return self.world.facts

    @property
    def tables(self) -> Interpretation:
        """The degrees of all predicates, computed once."""
        if self._tables is None:
            self.grounding.eval()
            with torch.no_grad():
                self._tables = self.grounding()
        return self._tables

    @property
    def truth(self) -> Interpretation:
        """Tables of what the facts state; what they do not state is false."""
        return replace(
            self.world.given,
            predicates={**self.world.given.predicates, **stated_tables(self.world)},
        )

    def ask(self, formula: str, *, at: Time = 0, semantics: Semantics | None = None) -> Answer:
        """The value of any formula, for each binding of its free variables."""
        return ask(
            formula, self.theory.signature, self.tables, semantics or self.semantics, at=at,
            dtype=self.dtype,
        )  # fmt: skip

    def violations(self, axiom: str, *, top: int = 10) -> Violations:
        """The worst violations of an axiom, with their share of its error."""
        return violations(
            axiom, self.theory, self.tables, self.semantics, self.facts.name, top=top,
            dtype=self.dtype,
        )  # fmt: skip

    def counterexample(self, axiom: str, *, threshold: float = 0.5) -> Counterexample | None:
        """Where an axiom is false, degrees from the threshold on being true."""
        return counterexample(axiom, self.theory, self.tables, self.facts.name, threshold=threshold)

    def audit(self) -> Audit:
        """What the values of the axioms are worth."""
        labels = self.truth if self.world.stated.total else None
        return audit(
            self.theory, self.tables, self.semantics, learned=self.grounding.open, labels=labels,
            dtype=self.dtype,
        )  # fmt: skip

    def metrics(self, *, threshold: float = 0.5) -> Report | None:
        """How good predictions of the test facts are; None if there are none."""
        if self.world.test is None or not self.world.test.total:
            return None
        degrees = predicted(self.world.test, self.tables)
        scores = {
            n: ((t >= 0.5).cpu().numpy(), degrees[n].cpu().numpy())
            for n, t in self.world.test.truth.items()
            if len(t)
        }
        return report(scores, threshold=threshold)

    def predictions(self, predicates: Sequence[str] | None = None) -> pa.Table:
        """The degrees of predicates as a table of facts."""
        return predictions(
            self.tables, self.theory.signature, self.facts.name, predicates or self.grounding.open,
            traces=self.facts.traces if len(self.facts.traces) > 1 else None,
        )  # fmt: skip

    @property
    def dtype(self) -> torch.dtype:
        """The precision of degrees."""
        found: torch.dtype = getattr(torch, self.config.dtype)
        return found

    def save(self, path: Path | str) -> None:
        """Write the model as one folder; it replaces a model that is there."""
        world = self.world
        tensors = {f"weights/{n}": t.cpu() for n, t in self.grounding.state_dict().items()}
        shapes: dict[str, Any] = {}
        for name, table in world.given.predicates.items():
            if isinstance(table, SparseTable):
                tensors |= {f"given/{name}/index": table.index, f"given/{name}/value": table.value}
                shapes[name] = [list(table.shape), table.default]
            else:
                tensors[f"given/{name}/table"] = table
        tensors |= {f"functions/{n}": t for n, t in world.given.functions.items()}
        tensors |= {f"relations/{n}": t for n, t in world.given.relations.items()}
        tensors |= {f"features/{n}": f.values for n, f in world.features.items()}
        for kind, labels in (
            ("stated", world.stated),
            ("train", world.labels),
            ("test", world.test),
        ):
            if labels is not None:
                tensors |= {f"{kind}/{n}/index": t for n, t in labels.index.items()}
                tensors |= {f"{kind}/{n}/truth": t for n, t in labels.truth.items()}
        domain = {
            "traces": list(world.facts.traces),
            "lengths": list(world.facts.lengths),
            "entities": {s: list(n) for s, n in world.facts.entities.items()},
            "local": {s: [list(t) for t in n] for s, n in world.facts.local.items()},
            "tables": shapes,
            "features": {s: list(f.names) for s, f in world.features.items()},
            "test": world.test is not None,
        }
        found = self.metrics()
        training = {
            "reason": self.reason,
            "training": repr(self.config.training),
            "objective": repr(self.config.objective),
            "history": [asdict(e) for e in self.history],
        }
        write_folder(
            path,
            {n: t.detach().cpu().contiguous() for n, t in tensors.items()},
            {
                "project.toml": self.config.text,
                "theory.fot": show_theory(world.source),
                "domain.json": domain,
                "metrics.json": {} if found is None else found.as_dict(),
                "training.json": training,
            },
            kind=_KIND,
        )


def model_of(built: Built, config: Config, outcome: Outcome) -> Model:
    """The model that training gave."""
    return Model(
        config, built.world, built.task.grounding, built.semantics, outcome.history, outcome.reason
    )


def load_model(path: Path | str, *, device: str | None = None) -> Model:
    """Read a model; nothing in it is executed.

    Raises:
        DataError: it is no model, is damaged, or was written by another version.
    """
    tensors, documents = read_folder(path, kind=_KIND)
    place = str(path)
    text, domain = documents["project.toml"], documents["domain.json"]
    past: Any = documents["training.json"]
    assert isinstance(text, str)
    try:
        config = config_of(parse_toml(text, f"{place}/project.toml"), Path(path))
        config = config if device is None else replace(config, device=device)
        source = parse_theory(str(documents["theory.fot"]), source=f"{place}/theory.fot")
        world = _world(tensors, domain, source, config)
        grounding = ground(
            config, world.theory.signature, world.given, world.features, world.facts
        ).to(dtype=getattr(torch, config.dtype))
        grounding.load_state_dict(_below(tensors, "weights/"))
    except (KeyError, TypeError, RuntimeError, IndexError) as error:
        raise DataError(f"the model '{place}' does not fit together: {error}") from None
    grounding = grounding.to(device_of(config))
    history = tuple(Epoch(**e) for e in past["history"])
    return Model(config, world, grounding, meaning(config), history, str(past["reason"]))


def _world(tensors: dict[str, Tensor], domain: Any, source: Any, config: Config) -> World:
    theory = check(source)
    facts = Facts(
        tuple(domain["traces"]),
        {s: tuple(n) for s, n in domain["entities"].items()},
        {},
        tuple(domain["lengths"]),
        local={s: tuple(tuple(t) for t in n) for s, n in domain["local"].items()},
    )
    given = _below(tensors, "given/")
    predicates: dict[str, Tensor | SparseTable] = {
        n.removesuffix("/table"): t for n, t in given.items() if n.endswith("/table")
    }
    for name, (shape, default) in domain["tables"].items():
        predicates[name] = SparseTable(
            given[f"{name}/index"], given[f"{name}/value"], tuple(shape), default
        )
    device = device_of(config)
    model = Interpretation(
        facts.sizes(),
        torch.tensor(facts.lengths),
        max(facts.lengths),
        predicates,
        _below(tensors, "functions/"),
        {s: {n: i for i, n in enumerate(names)} for s, names in facts.entities.items()},
        _below(tensors, "relations/"),
    )
    features = {
        s: Features(tuple(names), tensors[f"features/{s}"])
        for s, names in domain["features"].items()
    }
    read = partial(_labels, tensors, theory, facts)
    return World(
        source, theory, facts, features, moved(model, device),
        to_device(read("stated"), device), to_device(read("train"), device),
        to_device(read("test"), device) if domain["test"] else None,
    )  # fmt: skip


def _labels(tensors: dict[str, Tensor], theory: CheckedTheory, facts: Facts, kind: str) -> Labels:
    found = _below(tensors, f"{kind}/")
    names = [n.removesuffix("/index") for n in found if n.endswith("/index")]
    return Labels(
        {n: found[f"{n}/index"] for n in names},
        {n: found[f"{n}/truth"] for n in names},
        {n: theory.signature.predicates[n].sorts for n in names},
        frozenset(facts.local),
    )


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def stated_tables(world: World) -> dict[str, Tensor | SparseTable]:
    """Tables of the learned predicates as the facts state them."""
    sizes, traces = world.facts.sizes(), len(world.facts.traces)
    found: dict[str, Tensor | SparseTable] = {}
    for name, index in world.stated.index.items():
        decl = world.theory.signature.predicates[name]
        times = 1 if decl.static else max(world.facts.lengths)
        shape = (traces, *(sizes[s] for s in decl.sorts), times)
        cells = int(np.prod(shape, dtype=np.float64))
        truth = world.stated.truth[name]
        if cells > 2**24 and cells > 8 * len(truth):
            found[name] = SparseTable(index, truth, shape)
        else:
            table = torch.zeros(shape, dtype=truth.dtype, device=truth.device)
            table[tuple(index)] = truth
            found[name] = table
    return found
