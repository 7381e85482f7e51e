"""Read labels about the traces and entities of a model from further files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from fotltn.errors import DataError, Diagnostic, listing, name_hint, warning
from fotltn.grounding.facts import Facts, read_facts
from fotltn.grounding.frames import Source
from fotltn.grounding.labels import Labels, labels
from fotltn.project.world import World


def read_labels(
    world: World, predicates: Sequence[str], sources: Iterable[Source]
) -> tuple[Labels, tuple[Diagnostic, ...]]:
    """Read facts of some predicates about the traces and entities of a model; also warnings.

    Facts of other predicates are left out, with a warning.

    Raises:
        DataError: a file cannot be read, or a fact mentions a trace or entity that the model lacks.
    """
    signature, known = world.theory.signature, world.facts
    facts = read_facts(sources, signature, local=tuple(known.local), clock=known.timeline)
    chosen = [n for n in predicates if n in facts.rows]
    warnings = list(facts.warnings)
    if others := [n for n in facts.rows if n not in chosen]:
        text = f"facts of {listing(others)} are left out, because the model does not learn them"
        warnings.append(warning(text))
    if not chosen:
        raise DataError(f"there are no facts about what the model learns: {listing(predicates)}")
    read = labels(facts, signature, chosen, dtype=torch.float64)
    index, truth = {}, {}
    for name in chosen:
        static = signature.predicates[name].static
        rows = [
            (number, row)
            for number, cell in enumerate(read.index[name].T.tolist())
            for row in _renumbered(name, read.sorts[name], static, cell, facts, known)
        ]
        index[name] = torch.tensor([row for _, row in rows]).T
        truth[name] = read.truth[name][[number for number, _ in rows]]
    renumbered = Labels(index, truth, read.sorts, frozenset(known.local), read.static)
    return renumbered.to(world.fixed.lengths.device), tuple(warnings)


def _renumbered(
    name: str, sorts: Sequence[str], static: bool, cell: list[int], facts: Facts, known: Facts
) -> Iterable[list[int]]:
    """Convert a fact to the model's numbers; a static fact without a trace, once per trace."""
    trace, *arguments, time = cell
    named = [str(facts.name(s, trace, i)) for s, i in zip(sorts, arguments, strict=True)]
    shown = f"{name}({', '.join(named)})" + ("" if static else f" at {time}")
    for where in _traces(shown, facts.traces[trace], static, known):
        if not static and time >= known.lengths[where]:
            last = known.lengths[where] - 1
            raise DataError(f"{shown} is after the end of the model's trace, which is at {last}")
        row = [where]
        for sort, entity in zip(sorts, named, strict=True):
            names = known.local[sort][where] if sort in known.local else known.entities[sort]
            if entity not in names:
                hint = name_hint(entity, names, "it has")
                raise DataError(f"{shown}: the model has no '{entity}' of sort '{sort}'; {hint}")
            row.append(names.index(entity))
        yield [*row, time]


def _traces(shown: str, trace: str, static: bool, known: Facts) -> Sequence[int]:
    if trace in known.traces:
        return [known.traces.index(trace)]
    if trace == "":
        if static or len(known.traces) == 1:
            return range(len(known.traces))
        raise DataError(f"{shown} names no trace; the model has {listing(known.traces)}")
    hint = name_hint(trace, known.traces, "it has")
    raise DataError(f"{shown}: the model has no trace '{trace}'; {hint}")
