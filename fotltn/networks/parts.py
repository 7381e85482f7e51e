"""Parts of the data, by traces or by entities of a sort, for training in steps.

A mean error is the root of a mean. Over a random part, the mean is unbiased for an axiom of ∀ and
G, with one exponent, around a body that does not quantify over the drawn entities. Its root is
slightly biased, and other axioms may be biased as well. `bias` says which ones, and why.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeGuard, TypeVar

import torch
from torch import Tensor

from fotltn.errors import DataError, did_you_mean, listing, name_hint
from fotltn.grounding.labels import Labels
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.logic.prefix import prefix
from fotltn.logic.signature import Signature
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Names, Tables
from fotltn.tree import postorder

T = TypeVar("T", Tensor, SparseTable, Tensor | SparseTable)

_KEYS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Batches:
    """How to split the data.

    Args:
        by: "traces": each epoch goes through all traces in parts; "entities": each step draws some
            entities at random.
        size: the maximum number of traces in a part, or the number of entities.
        sort: the sort of the entities.
    """

    by: Literal["traces", "entities"]
    size: int
    sort: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DataPart:
    """Some traces and entities, and the given data about them.

    Args:
        traces: the numbers of the traces; None for all.
        entities: for each sort that is split, the numbers of its entities.
        fixed: the given data of this part.
        key: a unique number to cache plans by; None for a part that is used once.
    """

    traces: Tensor | None
    entities: Mapping[str, Tensor]
    fixed: Tables
    key: int | None = None

    def pick(self, table: Tensor, sorts: Sequence[str]) -> Tensor:
        """Return the part of a table of shape (trace, *entities of `sorts`, …)."""
        return _pick(table, [self.traces, *map(self.entities.get, sorts)])

    def labels(self, labels: Labels) -> Labels:
        """Return the labelled facts in this part, with the numbers of this part.

        Raises:
            DataError: entities are split, and the labels do not tell the sorts of their arguments.
        """
        index, truth = {}, {}
        for name, rows in labels.index.items():
            if self.entities and name not in labels.sorts:
                raise DataError(f"the labels of '{name}' do not tell the sorts of its arguments")
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
    """Return a part of given data.

    Args:
        fixed: all data.
        signature: the symbols of the data.
        traces: the numbers of the traces; None for all.
        entities: the numbers of the entities, for the sorts that are split.
        again: whether the part is used again, so that plans for it are worth caching.

    Raises:
        DataError: there are no such traces or entities, or relations, functions or constants refer
            to entities of a sort that is split.
    """
    cut = dict(entities or {})
    if traces is not None:
        _check_numbers("traces", traces, fixed.batch)
    for sort, numbers in cut.items():
        if sort not in fixed.sizes:
            hint = name_hint(sort, fixed.sizes)
            raise DataError(f"cannot leave out entities of the unknown sort '{sort}'; {hint}")
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
        present={s: _pick(mask, chosen([s])) for s, mask in fixed.present.items()},
        names=_names(fixed.names, traces, cut),
    )
    return DataPart(traces, cut, smaller, next(_KEYS) if again else None)


def _names(names: Names, traces: Tensor | None, cut: Mapping[str, Tensor]) -> Names:
    """Return the names of a part; places of a sort that is split have none."""
    local = {sort: each for sort, each in names.local.items() if sort not in cut}
    entities = {sort: each for sort, each in names.entities.items() if sort not in cut}
    if traces is None:
        return replace(names, entities=entities, local=local)
    numbers = traces.tolist()
    return replace(
        names,
        traces=tuple(map(names.trace, numbers)),
        entities=entities,
        local={sort: tuple(each[n] for n in numbers) for sort, each in local.items()},
    )


def _check_numbers(what: str, numbers: Tensor, count: int) -> None:
    plain = numbers.tolist() if numbers.dim() == 1 and not numbers.is_floating_point() else []
    if not plain or min(plain) < 0 or max(plain) >= count or len(set(plain)) < len(plain):
        raise DataError(
            f"a part must have different {what} from 0 to {count - 1}, at least one, not {numbers}"
        )


def _pick(table: T, chosen: Sequence[Tensor | None]) -> T:
    """Return the part of a table with the given numbers on each axis; None keeps all."""
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
    """Return the columns of an index that lie in a part, renumbered, and which they are."""
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
    *,
    again: bool = True,
) -> Iterator[DataPart | None]:
    """Yield the parts of one epoch; None stands for all data.

    Parts by traces are cached in `ready`. Without `again`, no plans are cached for them.
    """
    if batches is None:
        yield None
        return
    check_batches(batches, fixed, signature)
    device = fixed.lengths.device
    if batches.by == "traces":
        # Sizes differ by at most one, so all traces have nearly the same weight.
        count = -(-fixed.batch // batches.size)
        blocks = torch.arange(fixed.batch).tensor_split(count)
        for i in torch.randperm(count, generator=generator).tolist():
            if i not in ready:
                ready[i] = part(fixed, signature, traces=blocks[i].to(device), again=again)
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
    """Check that the data can be split in this way.

    Args:
        batches: how to split the data.
        fixed: the data.
        signature: the symbols of the data.
        formulas: the formulas that are evaluated on parts, by name.

    Raises:
        DataError: there is no such sort, the size is out of range, or the theory names entities
            that may be left out.
    """
    if batches.by not in ("traces", "entities"):
        raise DataError(f"data can be split by traces or by entities, not by '{batches.by}'")
    if batches.size < 1:
        raise DataError(f"a part must have at least one of the {batches.by}, not {batches.size}")
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
            f"a part cannot have {batches.size} entities of '{batches.sort}': there are only "
            f"{fixed.sizes[batches.sort]}"
        )
    check_cut(batches.sort, signature, formulas)


def check_cut(
    sort: str, signature: Signature, formulas: Mapping[str, c.Formula] | None = None
) -> None:
    """Raise an error if relations, functions, constants or formulas refer to the entities."""
    functions, relations = signature.functions.values(), signature.relations.values()
    reasons = [f"the function '{f.name}' returns them" for f in functions if f.result == sort]
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
        raise DataError(f"entities of '{sort}' cannot be left out, because {reasons[0]}")


def bias(batches: Batches, theory: CheckedTheory) -> tuple[str, ...]:
    """Describe where the value over parts differs from the value over all data."""
    sentences = [
        "The mean of the powers of errors is unbiased; its root, which is the error, is on average "
        "a little smaller on parts than on all data.",
        "Facts: the labelled facts of a part are averaged separately, so facts count more in "
        "parts that have few of them.",
    ]
    if batches.by == "traces":
        sentences.append(
            "Traces: if their number is not a multiple of the number of parts, traces in the "
            "smaller parts count a little more."
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
    """Say why the mean of the powers of an axiom's errors is biased on parts."""
    sort, layered = batches.sort, prefix(formula)
    reasons = []
    drawn = [axis for axis in layered.axes if axis.sort == sort]
    if len(drawn) > 1:
        reasons.append(
            f"tuples in which an entity of '{sort}' occurs twice count more on a part (for a pair "
            f"1 in {batches.size}) than on all data."
        )
    layers = [n for n in layered.layers if isinstance(n, c.Quantifier)]
    guards = [layer.guard for layer in layers if layer.guard is not None]
    if any(_about(guard, sort) for guard in guards):
        reasons.append(
            f"its guard selects entities of '{sort}', and those of a part are averaged separately, "
            "so entities count more in parts where few are selected."
        )
    inner = [n for n in postorder(layered.body, *guards) if _quantifies(n, sort)]
    if any(not n.universal for n in inner):
        reasons.append(
            f"'exists' over '{sort}' sees only the entities of a part, so it misses witnesses "
            "outside the part."
        )
    if any(n.universal for n in inner):
        reasons.append(
            f"'forall' over '{sort}' inside it sees only the entities of a part, so it misses "
            "counterexamples outside the part."
        )
    return reasons


def _quantifies(node: c.Core, sort: str | None) -> TypeGuard[c.Quantifier]:
    return isinstance(node, c.Quantifier) and any(axis.sort == sort for axis in node.axes)


def _about(formula: c.Formula, sort: str | None) -> bool:
    return any(isinstance(n, c.Variable) and n.sort == sort for n in postorder(formula))
