"""Where a model comes from: the versions that made it, and a fingerprint of its data."""

from __future__ import annotations

import hashlib
import json
import platform
from importlib import metadata

import torch

from fotltn.project.stored import pack_world
from fotltn.project.world import World


def versions() -> dict[str, str]:
    """The versions of what computes here."""
    try:
        own = metadata.version("fotltn")
    except metadata.PackageNotFoundError:
        own = "unknown"
    return {
        "fotltn": own,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": metadata.version("numpy"),
    }


def fingerprint(world: World) -> str:
    """The SHA-256 of the data: names, given tables, features and labels, those for testing too.

    Models with the same fingerprint were trained and tested on the same data.
    """
    tensors, domain = pack_world(world)
    found = hashlib.sha256(json.dumps(domain, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        plain = tensor.detach().cpu().contiguous()
        found.update(json.dumps([name, str(plain.dtype), list(plain.shape)]).encode())
        found.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
