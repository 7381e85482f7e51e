"""Training step by step on parts of the data, and what that does to the aggregate.

A mean error is the root of a mean. The mean over a part drawn at random has the right expectation
for an axiom that is ∀ and G with one exponent around a body without quantifiers over what is drawn;
its root does not quite, and other axioms do not either. `bias` says which, and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeGuard

import torch

from fotltn.analysis.prefix import prefix
from fotltn.errors import DataError, did_you_mean, listing
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.logic.signature import Signature
from fotltn.networks.parts import DataPart, check_cut, part
from fotltn.semantics.interpretation import Tables
from fotltn.tree import postorder


@dataclass(frozen=True, slots=True)
class Batches:
    """How the data are cut.

    Args:
        by: "traces": every epoch goes over all of them in parts; "entities": every step sees some
            entities, drawn anew.
        size: traces in a part at most, or entities in a part.
        sort: whose entities.
    """

    by: Literal["traces", "entities"]
    size: int
    sort: str | None = None


def parts(
    batches: Batches | None,
    fixed: Tables,
    signature: Signature,
    ready: dict[int, DataPart],
    generator: torch.Generator,
) -> Iterator[DataPart | None]:
    """The parts of one epoch; None stands for all data. Parts by traces are kept in `ready`."""
    if batches is None:
        yield None
        return
    check_batches(batches, fixed, signature)
    device = fixed.lengths.device
    if batches.by == "traces":
        # Sizes differ by one at most, so that all traces count about the same.
        count = -(-fixed.batch // batches.size)
        blocks = torch.arange(fixed.batch).tensor_split(count)
        for i in torch.randperm(count, generator=generator).tolist():
            if i not in ready:
                ready[i] = part(fixed, signature, traces=blocks[i].to(device))
            yield ready[i]
        return
    assert batches.sort is not None
    count = fixed.sizes[batches.sort]
    for _ in range(max(1, round(count / batches.size))):
        numbers = torch.randperm(count, generator=generator)[: batches.size].sort().values
        entities = {batches.sort: numbers.to(device)}
        yield part(fixed, signature, entities=entities, again=False)


def check_batches(
    batches: Batches,
    fixed: Tables,
    signature: Signature,
    formulas: Mapping[str, c.Formula] | None = None,
) -> None:
    """See that data can be cut so.

    Args:
        batches: how the data are cut.
        fixed: the data.
        signature: of their symbols.
        formulas: those that are evaluated on parts, by name.

    Raises:
        DataError: there is no such sort, the size makes no sense, or entities are named that may
            be left out.
    """
    if batches.by not in ("traces", "entities"):
        raise DataError(f"parts are cut by traces or by entities, not by '{batches.by}'")
    if batches.size < 1:
        raise DataError(f"a part has at least one of the {batches.by}, not {batches.size}")
    if batches.by == "traces":
        return
    if batches.sort is None or batches.sort not in signature.sorts:
        hint = did_you_mean(batches.sort or "", signature.sorts) or (
            f"declared: {listing(signature.sorts)}"
        )
        sort = "none" if batches.sort is None else f"'{batches.sort}'"
        raise DataError(f"parts by entities need a sort, not {sort}; {hint}")
    if batches.size > fixed.sizes[batches.sort]:
        raise DataError(
            f"a part of {batches.size} entities of '{batches.sort}' is more than all "
            f"{fixed.sizes[batches.sort]}"
        )
    check_cut(batches.sort, signature, formulas)


def bias(batches: Batches, theory: CheckedTheory) -> tuple[str, ...]:
    """Where the value over parts differs from the value over all data, in plain sentences."""
    sentences = [
        "The mean of the errors' powers has the right expectation; its root, which is the error, "
        "is on average a little smaller on parts than on all data.",
        "Facts: the labelled facts of a part are averaged by themselves, so that facts count more "
        "in parts that have few of them.",
    ]
    if batches.by == "traces":
        sentences.append(
            "Traces: if their number is not a multiple of that of the parts, those in parts with "
            "one trace less count a little more."
        )
        return tuple(sentences)
    sentences.append(
        f"Facts about several entities of '{batches.sort}' are seen more rarely than those about "
        "one."
    )
    for axiom in theory.axioms:
        sentences += [f"{axiom.name}: {why}" for why in _reasons(axiom.formula, batches)]
    return tuple(sentences)


def _reasons(formula: c.Formula, batches: Batches) -> list[str]:
    """Why the mean of an axiom's errors' powers over parts is not that over all data."""
    sort, layered = batches.sort, prefix(formula)
    reasons = []
    drawn = [axis for axis in layered.axes if axis.sort == sort]
    if len(drawn) > 1:
        reasons.append(
            f"tuples in which an entity of '{sort}' comes twice count more on a part (for a pair "
            f"1 in {batches.size}) than on all data."
        )
    layers = [n for n in layered.layers if isinstance(n, c.Quantifier)]
    guards = [layer.guard for layer in layers if layer.guard is not None]
    if any(_about(guard, sort) for guard in guards):
        reasons.append(
            f"its guard picks entities of '{sort}', and those of a part are averaged by "
            "themselves, so that entities count more in parts where few are picked."
        )
    inner = [n for n in postorder(layered.body, *guards) if _quantifies(n, sort)]
    if any(not n.universal for n in inner):
        reasons.append(
            f"'exists' over '{sort}' sees only the entities of a part, so that witnesses outside "
            "it are missed."
        )
    if any(n.universal for n in inner):
        reasons.append(
            f"'forall' over '{sort}' inside it sees only the entities of a part, so that "
            "counterexamples outside it are missed."
        )
    return reasons


def _quantifies(node: c.Core, sort: str | None) -> TypeGuard[c.Quantifier]:
    return isinstance(node, c.Quantifier) and any(axis.sort == sort for axis in node.axes)


def _about(formula: c.Formula, sort: str | None) -> bool:
    return any(isinstance(n, c.Variable) and n.sort == sort for n in postorder(formula))
