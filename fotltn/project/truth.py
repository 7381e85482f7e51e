"""Facts against networks: tables of what is stated, and facts of files with a model's numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fotltn.errors import DataError, Diagnostic, Severity, did_you_mean, listing
from fotltn.evaluation import evaluate_all
from fotltn.grounding.facts import Facts, read_facts
from fotltn.grounding.frames import Source
from fotltn.grounding.labels import Labels, labels
from fotltn.networks.definitions import arranged
from fotltn.networks.grounding import Grounding
from fotltn.project.world import World
from fotltn.semantics.interpretation import Tables
from fotltn.semantics.sparse import SparseTable

_DENSE = 2**24  # cells of a table that is laid out, however few facts it has


def stated_model(world: World, grounding: Grounding, dtype: torch.dtype) -> Tables:
    """Tables of what the facts state; what they do not state is false.

    A predicate that is defined by a formula, and of which no fact is stated, is what its formula
    says of the others.
    """
    sizes, traces = world.facts.sizes(), len(world.facts.traces)
    tables: dict[str, Tensor | SparseTable] = {}
    for name in (*grounding.learned, *grounding.definitions):
        if name in grounding.definitions and name not in world.stated.index:
            continue
        decl = world.theory.signature.predicates[name]
        times = 1 if decl.static else max(world.facts.lengths)
        shape = (traces, *(sizes[s] for s in decl.sorts), times)
        tables[name] = _stated(name, world.stated, shape, dtype, world.given.lengths.device)
    model = replace(world.given, predicates={**tables, **world.given.predicates})
    for name, checked in grounding.definitions.items():
        if name not in tables:
            semantics = grounding.defined[name].semantics or grounding.semantics
            with torch.no_grad():
                value = evaluate_all(
                    {name: checked.formula}, model, semantics, at=None
                )[name]  # fmt: skip
            table = arranged(value, checked.free, model)
            model = replace(model, predicates={**model.predicates, name: table})
    return model


def _stated(
    name: str, stated: Labels, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> Tensor | SparseTable:
    if name not in stated.index:
        none = torch.zeros(len(shape), 0, dtype=torch.int64, device=device)
        return SparseTable(none, torch.zeros(0, dtype=dtype, device=device), shape)
    index, truth = stated.index[name], stated.truth[name]
    if math.prod(shape) > max(_DENSE, 8 * len(truth)):
        return SparseTable(index, truth, shape)
    table = torch.zeros(shape, dtype=dtype, device=device)
    table[tuple(index)] = truth.to(dtype)
    return table


# --- facts of files ---------------------------------------------------------------------------


def read_labels(
    world: World, predicates: Sequence[str], sources: Iterable[Source]
) -> tuple[Labels, tuple[Diagnostic, ...]]:
    """Facts of some predicates about the traces and entities of a model, and warnings.

    Facts of other predicates are left out, with a warning.

    Raises:
        DataError: a file cannot be read, or a fact is about what the model does not know.
    """
    signature, known = world.theory.signature, world.facts
    facts = read_facts(sources, signature, local=tuple(known.local))
    chosen = [n for n in predicates if n in facts.rows]
    warnings = list(facts.warnings)
    if others := [n for n in facts.rows if n not in chosen]:
        text = f"facts of {listing(others)} are left out, since the model does not learn that"
        warnings.append(Diagnostic(text, severity=Severity.WARNING))
    if not chosen:
        raise DataError(f"there are no facts of what the model learns: {listing(predicates)}")
    found = labels(facts, signature, chosen, dtype=torch.float64)
    index, truth = {}, {}
    for name in chosen:
        static = signature.predicates[name].static
        rows = [
            (number, row)
            for number, cell in enumerate(found.index[name].T.tolist())
            for row in _renumbered(name, found.sorts[name], static, cell, facts, known)
        ]
        device = world.given.lengths.device
        index[name] = torch.tensor([row for _, row in rows], device=device).T
        truth[name] = found.truth[name][[number for number, _ in rows]].to(device)
    return Labels(index, truth, found.sorts, frozenset(known.local)), tuple(warnings)


def _renumbered(
    name: str, sorts: Sequence[str], static: bool, cell: list[int], facts: Facts, known: Facts
) -> Iterable[list[int]]:
    """A fact with the numbers of the model; a static one without a trace, once for each trace."""
    trace, *arguments, time = cell
    named = [str(facts.name(s, trace, i)) for s, i in zip(sorts, arguments, strict=True)]
    shown = f"{name}({', '.join(named)})" + ("" if static else f" at {time}")
    for where in _traces(shown, facts.traces[trace], static, known):
        if not static and time >= known.lengths[where]:
            last = known.lengths[where] - 1
            raise DataError(f"{shown} is beyond the end of the model's trace, which is at {last}")
        row = [where]
        for sort, entity in zip(sorts, named, strict=True):
            names = known.local[sort][where] if sort in known.local else known.entities[sort]
            if entity not in names:
                hint = did_you_mean(entity, names) or f"it knows {listing(names)}"
                raise DataError(f"{shown}: the model knows no '{entity}' of sort '{sort}'; {hint}")
            row.append(names.index(entity))
        yield [*row, time]


def _traces(shown: str, trace: str, static: bool, known: Facts) -> Sequence[int]:
    if trace in known.traces:
        return [known.traces.index(trace)]
    if trace == "":
        if static or len(known.traces) == 1:
            return range(len(known.traces))
        raise DataError(f"{shown} has no trace, but the model knows {listing(known.traces)}")
    hint = did_you_mean(trace, known.traces) or f"it knows {listing(known.traces)}"
    raise DataError(f"{shown}: the model knows no trace '{trace}'; {hint}")
