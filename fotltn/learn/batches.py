"""Training step by step on parts of the data, and what that does to the aggregate.

A mean error is the root of a mean. The mean over a part drawn at random has the right expectation
for everything that is aggregated by ∀ and G with one exponent; its root does not quite, and what
is aggregated inside by ∃ over entities that are left out does not either. `bias` says which.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.logic.signature import Signature
from fotltn.networks.parts import Part, part
from fotltn.semantics.interpretation import Interpretation
from fotltn.tree import postorder


@dataclass(frozen=True, slots=True)
class Batches:
    """How the data are cut.

    Args:
        by: "traces": every epoch goes over all of them in parts; "entities": every step sees some
            entities, drawn anew.
        size: traces or entities in a part.
        sort: whose entities.
    """

    by: Literal["traces", "entities"]
    size: int
    sort: str | None = None


def parts(
    batches: Batches | None,
    given: Interpretation,
    signature: Signature,
    kept: dict[int, Part],
    generator: torch.Generator,
) -> Iterator[Part | None]:
    """The parts of one epoch; None stands for all data. Parts by traces are kept and met again."""
    if batches is None:
        yield None
        return
    if batches.by == "traces":
        blocks = torch.arange(given.batch).split(batches.size)
        for i in torch.randperm(len(blocks), generator=generator).tolist():
            if i not in kept:
                kept[i] = part(given, signature, traces=blocks[i].to(given.lengths.device))
            yield kept[i]
        return
    sort = check_batches(batches, given, signature)
    count = given.sizes[sort]
    for _ in range(max(1, round(count / batches.size))):
        numbers = torch.randperm(count, generator=generator)[: batches.size].sort().values
        yield part(given, signature, entities={sort: numbers.to(given.lengths.device)})


def check_batches(batches: Batches, given: Interpretation, signature: Signature) -> str:
    """The sort whose entities are drawn.

    Raises:
        DataError: there is no such sort, or the size makes no sense.
    """
    if batches.size < 1:
        raise DataError(f"a part has at least one of the {batches.by}, not {batches.size}")
    if batches.by == "traces":
        return ""
    if batches.sort is None or batches.sort not in signature.sorts:
        hint = did_you_mean(batches.sort or "", signature.sorts) or (
            f"declared: {listing(signature.sorts)}"
        )
        raise DataError(f"parts by entities need a sort, not '{batches.sort}'; {hint}")
    if batches.size > given.sizes[batches.sort]:
        raise DataError(
            f"a part of {batches.size} entities of '{batches.sort}' is more than all "
            f"{given.sizes[batches.sort]}"
        )
    return batches.sort


def bias(batches: Batches, theory: CheckedTheory) -> tuple[str, ...]:
    """Where the value over parts differs from the value over all data, in plain sentences."""
    found = [
        "The mean of the errors' powers has the right expectation; its root, which is the error, "
        "is on average a little smaller on parts than on all data."
    ]
    if batches.by == "traces":
        return tuple(found)
    for axiom in theory.axioms:
        for node in postorder(axiom.formula):
            if isinstance(node, c.Quantifier) and any(a.sort == batches.sort for a in node.axes):
                if not node.universal:
                    found.append(
                        f"{axiom.name}: 'exists' over '{batches.sort}' sees only the entities of "
                        "a part, so that witnesses outside it are missed."
                    )
                elif sum(a.sort == batches.sort for a in node.axes) > 1:
                    found.append(
                        f"{axiom.name}: pairs of one entity with itself weigh more on a part "
                        f"(1 in {batches.size}) than on all data."
                    )
    return tuple(dict.fromkeys(found))
