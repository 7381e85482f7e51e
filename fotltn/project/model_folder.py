"""The contents of a model's folder: tensors and documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from fotltn.learn.store import Document
from fotltn.project.card import CARD, Described, card
from fotltn.project.sampled import WORLDS, pack_posterior
from fotltn.project.stored import pack_world
from fotltn.project.written import show_config
from fotltn.syntax.show import show_theory

if TYPE_CHECKING:
    from fotltn.analysis.metrics import Report

_HEAD = "# All settings of this model, including defaults.\n\n"


class Packed(Described, Protocol):
    """The parts of a model that are packed."""

    trust: Mapping[str, float] | None
    thresholds: Mapping[str, float]

    def metrics(self) -> Report | None:
        """Measure how good predictions of test facts are."""


def pack_model(model: Packed) -> tuple[dict[str, Tensor], dict[str, Document]]:
    """Return everything that `load_model` reads, and a card for people."""
    tensors, domain = pack_world(model.world)
    tensors |= {f"weights/{n}": t for n, t in model.grounding.state_dict().items()}
    metrics = model.metrics()
    documents: dict[str, Document] = {
        "project.toml": _HEAD + show_config(model.config),
        "theory.fot": show_theory(model.world.source),
        "domain.json": domain,
        "metrics.json": {} if metrics is None else metrics.as_dict(),
        "training.json": {
            "reason": model.reason,
            "best_epoch": model.best_epoch,
            "flips": model.flips,
            "trust": model.trust,
            "thresholds": dict(model.thresholds),
            "versions": dict(model.versions),
            "history": [asdict(e) for e in model.history],
        },
        CARD: card(model, metrics),
    }
    if model.posterior is not None:
        worlds, documents[WORLDS] = pack_posterior(model.posterior)
        tensors |= worlds
    return tensors, documents
