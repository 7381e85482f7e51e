"""The contents of a model's folder: tensors and documents."""

from __future__ import annotations

from dataclasses import asdict

from torch import Tensor

from fotltn.learn.store import Document
from fotltn.project.card import CARD, Described, card
from fotltn.project.sampled import WORLDS, pack_posterior
from fotltn.project.stored import pack_world
from fotltn.project.written import show_config
from fotltn.syntax.show import show_theory

_HEAD = "# All settings of this model, including defaults.\n\n"


def pack_model(model: Described) -> tuple[dict[str, Tensor], dict[str, Document]]:
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
