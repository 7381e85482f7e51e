"""Parts of the data, some traces or some entities of a sort, for training step by step.

A mean error is the root of a mean. The mean over a part drawn at random has the right expectation
for an axiom that is ∀ and G with one exponent around a body without quantifiers over what is drawn;
its root does not quite, and other axioms do not either. `bias` says which, and why.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeGuard, TypeVar

import torch
from torch import Tensor

from fotltn.analysis.prefix import prefix
from fotltn.errors import DataError, did_you_mean, listing, name_hint
from fotltn.grounding.labels import Labels
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.logic.signature import Signature
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.tree import postorder

T = TypeVar("T", Tensor, SparseTable, Tensor | SparseTable)

_KEYS = itertools.count(1)


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


@dataclass(frozen=True, slots=True, eq=False)
class DataPart:
    """Some traces and entities, and the given data about them.

    Args:
        traces: the numbers of the traces; None for all.
        entities: for each sort that is cut, the numbers of its entities.
        fixed: the given data of this part.
        key: a number of its own, under which plans are kept; None for a part that is met once.
    """

    traces: Tensor | None
    entities: Mapping[str, Tensor]
    fixed: Tables
    key: int | None = None

    def pick(self, table: Tensor, sorts: Sequence[str]) -> Tensor:
        """The part of a table with axes (trace, one for each of `sorts`, …)."""
        return _pick(table, [self.traces, *map(self.entities.get, sorts)])

    def labels(self, labels: Labels) -> Labels:
        """The labelled facts that lie in this part, with its numbers.

        Raises:
            DataError: entities are cut, and labels do not say of which sort theirs are.
        """
        index, truth = {}, {}
        for name, rows in labels.index.items():
            if self.entities and name not in labels.sorts:
                raise DataError(f"the labels of '{name}' do not say the sorts of its arguments")
            chosen = [self.traces, *map(self.entities.get, labels.sorts.get(name, ()))]
            index[name], inside = _pick_facts(rows, chosen)
            truth[name] = labels.truth[name][inside]
        return replace(labels, index=index, truth=truth)


def part(
    fixed: Tables,
    signature: Signature,
    *,
    traces: Tensor | None = None,
    entities: Mapping[str, Tensor] | None = None,
    again: bool = True,
) -> DataPart:
    """A part of given data.

    Args:
        fixed: all data.
        signature: of their symbols.
        traces: the numbers of its traces; None for all.
        entities: the numbers of its entities, for the sorts that are cut.
        again: it is met again, so that plans for it are worth keeping.

    Raises:
        DataError: there are no such traces or entities, or entities are cut that relations,
            functions or constants refer to.
    """
    cut = dict(entities or {})
    if traces is not None:
        _check_numbers("traces", traces, fixed.batch)
    for sort, numbers in cut.items():
        if sort not in fixed.sizes:
            hint = name_hint(sort, fixed.sizes)
            raise DataError(f"entities of the unknown sort '{sort}' are to be left out; {hint}")
        _check_numbers(f"entities of '{sort}'", numbers, fixed.sizes[sort])
        check_cut(sort, signature)

    def chosen(sorts: Sequence[str]) -> list[Tensor | None]:
        return [traces, *map(cut.get, sorts)]

    smaller = replace(
        fixed,
        sizes={**fixed.sizes, **{sort: len(numbers) for sort, numbers in cut.items()}},
        lengths=fixed.lengths if traces is None else fixed.lengths[traces],
        predicates={
            name: _pick(table, chosen(signature.predicates[name].sorts))
            for name, table in fixed.predicates.items()
        },
        functions={
            name: _pick(table, chosen(signature.functions[name].sorts))
            for name, table in fixed.functions.items()
        },
        constants={s: names for s, names in fixed.constants.items() if s not in cut},
        features={s: _pick(f, chosen([s])) for s, f in fixed.features.items()},
    )
    return DataPart(traces, cut, smaller, next(_KEYS) if again else None)


def _check_numbers(what: str, numbers: Tensor, count: int) -> None:
    plain = numbers.tolist() if numbers.dim() == 1 and not numbers.is_floating_point() else []
    if not plain or min(plain) < 0 or max(plain) >= count or len(set(plain)) < len(plain):
        raise DataError(
            f"a part has different {what} from 0 to {count - 1}, at least one, not {numbers}"
        )


def _pick(table: T, chosen: Sequence[Tensor | None]) -> T:
    """The part of a table of which some numbers are chosen on each axis; None for all."""
    if table.shape[0] == 1:
        chosen = [None, *chosen[1:]]
    if isinstance(table, SparseTable):
        index, inside = _pick_facts(table.index, chosen)
        sizes = zip(table.shape, (*chosen, None), strict=True)
        shape = tuple(size if numbers is None else len(numbers) for size, numbers in sizes)
        return SparseTable(index, table.value[inside], shape, table.default)
    for dim, numbers in enumerate(chosen):
        if numbers is not None:
            table = table.index_select(dim, numbers)
    return table


def _pick_facts(index: Tensor, chosen: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
    """The columns of an index that lie in a part, with its numbers; and which these are."""
    rows, inside = list(index), torch.ones_like(index[0], dtype=torch.bool)
    for dim, numbers in enumerate(chosen):
        if numbers is not None:
            row = rows[dim]
            most = max(int(numbers.max()), int(row.max()) if len(row) else 0) + 1
            places = torch.full((most,), -1, dtype=row.dtype, device=row.device)
            order = torch.arange(len(numbers), dtype=row.dtype, device=row.device)
            places[numbers.to(row.device)] = order
            rows[dim] = places[row.long()]
            inside &= rows[dim] >= 0
    return torch.stack(rows)[:, inside], inside


# --- the parts of an epoch ----------------------------------------------------------------------


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


def check_cut(
    sort: str, signature: Signature, formulas: Mapping[str, c.Formula] | None = None
) -> None:
    """Refuse to leave out entities that relations, functions, constants or formulas refer to."""
    functions, relations = signature.functions.values(), signature.relations.values()
    reasons = [f"the function '{f.name}' gives them" for f in functions if f.result == sort]
    reasons += [f"the relation '{r.name}' lists them" for r in relations if sort in r.sorts]
    reasons += [
        f"there is the constant '{constant.name}'"
        for constant in signature.constants.values()
        if constant.sort == sort
    ]
    reasons += [
        f"'{name}' names '{node.name}'"
        for name, formula in (formulas or {}).items()
        for node in postorder(formula)
        if isinstance(node, c.Constant) and node.sort == sort
    ]
    if reasons:
        raise DataError(f"entities of '{sort}' cannot be left out, since {reasons[0]}")


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
