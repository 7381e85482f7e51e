"""Labels: facts with known degrees, for training or testing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from fotltn.errors import DataError, name_hint
from fotltn.grounding.facts import Facts
from fotltn.logic.signature import Signature


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Labelled facts of some predicates.

    Args:
        index: the positions of each predicate's facts in its table, shape (dimension, fact); the
            dimensions are (trace, *arguments, time). The time is 0 for a static predicate.
        truth: the degrees of each predicate's facts, shape (fact,).
        sorts: the sorts of each predicate's arguments.
        local: the sorts whose entities are numbered within each trace.
        static: the predicates that do not change over time.
    """

    index: dict[str, Tensor]
    truth: dict[str, Tensor]
    sorts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    local: frozenset[str] = frozenset()
    static: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return self.total

    @property
    def total(self) -> int:
        """The number of facts of all predicates."""
        return sum(truth.shape[0] for truth in self.truth.values())

    def to(self, device: torch.device) -> Labels:
        """Return the labels on a device."""
        return replace(
            self,
            index={n: t.to(device) for n, t in self.index.items()},
            truth={n: t.to(device) for n, t in self.truth.items()},
        )

    def only(self, predicates: Iterable[str]) -> Labels:
        """Return the labels of some predicates."""
        wanted = list(predicates)
        for name in wanted:
            _known(name, self.truth)
        return replace(
            self,
            index={n: self.index[n] for n in wanted},
            truth={n: self.truth[n] for n in wanted},
            sorts={n: self.sorts[n] for n in wanted if n in self.sorts},
        )

    def take(self, masks: Mapping[str, Tensor]) -> Labels:
        """Keep facts where the mask of their predicate is true; no mask means to keep none."""
        for name, mask in masks.items():
            truth = self.truth[_known(name, self.truth)]
            if mask.dtype != torch.bool or mask.shape != truth.shape:
                raise DataError(
                    f"the mask of '{name}' must be a Boolean tensor of shape ({truth.shape[0]},), "
                    f"not {mask.dtype} of shape {tuple(mask.shape)}"
                )
        none = {n: torch.zeros_like(t, dtype=torch.bool) for n, t in self.truth.items()}
        chosen = none | dict(masks)
        return replace(
            self,
            index={n: index[:, chosen[n]] for n, index in self.index.items()},
            truth={n: truth[chosen[n]] for n, truth in self.truth.items()},
        )


def joined(first: Labels, second: Labels) -> Labels:
    """Combine two sets of labels about the same traces and entities."""
    names = dict.fromkeys((*first.index, *second.index))
    parts = {n: [one for one in (first, second) if n in one.index] for n in names}
    return Labels(
        {n: torch.cat([one.index[n] for one in of], dim=1) for n, of in parts.items()},
        {n: torch.cat([one.truth[n] for one in of]) for n, of in parts.items()},
        {**second.sorts, **first.sorts}, first.local, first.static | second.static,
    )  # fmt: skip


def labels(
    facts: Facts,
    signature: Signature,
    predicates: Iterable[str],
    *,
    dtype: torch.dtype = torch.float64,
) -> Labels:
    """Return the stated facts of some predicates as labels; facts that are not stated are unknown.

    Raises:
        DataError: a predicate is not declared.
    """
    index, truth, sorts = {}, {}, {}
    for name in predicates:
        decl = signature.predicates[_known(name, signature.predicates)]
        sorts[name] = decl.sorts
        rows = facts.rows.get(name)
        if rows is None:
            index[name] = torch.zeros(len(decl.sorts) + 2, 0, dtype=torch.int64)
            truth[name] = torch.zeros(0, dtype=dtype)
            continue
        rows, _ = rows.in_every_trace(len(facts.traces))
        cells = np.vstack([rows.trace, *rows.args.T, np.maximum(rows.time, 0)])
        index[name] = torch.from_numpy(cells.astype(np.int64))
        truth[name] = torch.tensor(rows.value, dtype=dtype)
    static = frozenset(n for n in sorts if signature.predicates[n].static)
    return Labels(index, truth, sorts, frozenset(facts.local), static)


def _known(name: str, predicates: Iterable[str]) -> str:
    if name not in (known := list(predicates)):
        raise DataError(f"no predicate '{name}' to label; {name_hint(name, known)}")
    return name
