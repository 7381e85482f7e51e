"""Checks of the input, before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch

from fotltn.analysis.truncation import end_of
from fotltn.errors import DataError, did_you_mean, listing, name_hint
from fotltn.grounding.labels import Labels
from fotltn.logic.check import CheckedTheory
from fotltn.logic.parts import predicates_in
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.ground import atom_text
from fotltn.posterior.problem import Problem
from fotltn.posterior.sampler import Sampling
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables


def check_input(problem: Problem) -> None:
    """Refuse a problem that cannot be sampled.

    Raises:
        DataError: the problem has an error; the message says which, and where.
    """
    tables, labels, rates = problem.tables, problem.labels, problem.rates
    _names(problem)
    if tables.batch == 0 or tables.horizon == 0:
        raise DataError("there is no trace to sample")
    end_of(problem.end)
    _sampling(problem.sampling)
    _weights(problem)
    for name, rate in rates.items():
        _rates(name, rate)
    _given(problem.theory, tables, problem.learned)
    for name in labels.truth:
        _labels(name, labels, tables)
        _at_odds(name, labels, tables, rates.get(name))
    for name, table in problem.logits.items():
        shape = _shape(name, tables)
        if tuple(table.shape) != shape:
            raise DataError(f"the logits of '{name}' have shape {tuple(table.shape)}, not {shape}")
        if not bool(table.isfinite().all()):
            raise DataError(f"the logits of '{name}' must be finite numbers")


def _names(problem: Problem) -> None:
    known, learned = problem.theory.signature.predicates, problem.learned
    options: dict[str, Iterable[str]] = {
        "rates": problem.rates, "logits": problem.logits, "definitions": problem.define,
        "labels": problem.labels.truth,
    }  # fmt: skip
    if not learned:
        raise DataError("there is nothing to learn; name predicates that are not given")
    for name in learned:
        if name not in known:
            hint = did_you_mean(name, known) or "declare it in the theory"
            raise DataError(f"the theory has no predicate '{name}'; {hint}")
        if learned.count(name) > 1:
            raise DataError(f"'{name}' is listed twice among the learned predicates")
    for what, names in options.items():
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known) or f"there are {listing(known)}"
                raise DataError(f"{what}: the theory has no predicate '{name}'; {hint}")
            if name not in learned:
                raise DataError(f"{what}: '{name}' is given, not learned")


def _sampling(sampling: Sampling) -> None:
    for what, least in (
        ("worlds", 1), ("burn_in", 0), ("sweeps", 1), ("enough", 0), ("stored", 1)
    ):  # fmt: skip
        number = getattr(sampling, what)
        if number < least:
            raise DataError(f"{what} is a whole number from {least}, not {number}")


def _weights(problem: Problem) -> None:
    """Check that axioms with learned weights are soft, and have a weight above 0."""
    chosen = problem.sampling.weights
    axioms = {axiom.name: axiom for axiom in problem.theory.axioms}
    for name in () if isinstance(chosen, str) else chosen:
        if name not in axioms:
            hint = did_you_mean(name, axioms) or f"there are {listing(axioms)}"
            raise DataError(f"weights: the theory has no axiom '{name}'; {hint}")
        if axioms[name].hard:
            raise DataError(f"weights: '{name}' is hard, and only soft axioms have a weight")
        if not axioms[name].weight:
            raise DataError(f"weights: '{name}' has the weight 0, so it has no effect")


def _rates(name: str, rate: NoiseRates | None) -> None:
    for value in rate or ():
        if math.isnan(value) or not 0.0 <= value < 1.0:
            raise DataError(f"a rate of '{name}' is {value:g}, not a share from 0 to 1")
    if rate is not None and rate.missed + rate.invented >= 1.0:
        raise DataError(
            f"the rates of '{name}' add to {rate.missed + rate.invented:g}: its labels would say "
            "the opposite of what is true"
        )


def _given(theory: CheckedTheory, tables: Tables, learned: Sequence[str]) -> None:
    """Check that given predicates in use have tables of 0 and 1, and learned ones have none."""
    used = {name for axiom in theory.axioms for name in predicates_in(axiom.formula)}
    for name in theory.signature.predicates:
        if name in learned:
            if name in tables.predicates:
                raise DataError(f"'{name}' is both given and learned")
            continue
        if name not in used:
            continue
        if name not in tables.predicates:
            hint = name_hint(name, tables.predicates, "given are")
            raise DataError(f"'{name}' is neither given nor learned; {hint}")
        table = tables.table(name)
        values = table.value if isinstance(table, SparseTable) else table
        odd = (values != 0) & (values != 1)
        if bool(odd.any()):
            raise DataError(
                f"'{name}' is given with the degree {values[odd][0].item():g}, but facts of worlds "
                "are true or false; learn it, or round it"
            )


def _shape(name: str, tables: Tables) -> tuple[int, ...]:
    decl = tables.signature.predicates[name]
    sizes = (tables.sizes[sort] for sort in decl.sorts)
    return (tables.batch, *sizes, 1 if decl.static else tables.horizon)


def _labels(name: str, labels: Labels, tables: Tables) -> None:
    index, truth = labels.index[name].cpu(), labels.truth[name].cpu()
    shape = _shape(name, tables)
    if index.dim() != 2 or index.shape != (len(shape), truth.numel()):
        raise DataError(
            f"{truth.numel()} labels of '{name}' need an index of shape "
            f"({len(shape)}, {truth.numel()}), not {tuple(index.shape)}"
        )
    limits = torch.tensor(shape).unsqueeze(-1)
    outside = ((index < 0) | (index >= limits)).any(0)
    if bool(outside.any()):
        place = tuple(index[:, outside.nonzero()[0, 0]].tolist())
        raise DataError(f"a label of '{name}' is at {place}, outside of {shape}")
    lengths = tables.lengths.cpu()
    if not tables.signature.predicates[name].static:
        late = index[-1] >= lengths[index[0]]
        if bool(late.any()):
            trace, *_, time = index[:, late.nonzero()[0, 0]].tolist()
            raise DataError(
                f"a label of '{name}' is at time {time} of trace '{tables.names.trace(trace)}', "
                f"which has {int(lengths[trace])} points"
            )
    odd = ~((truth >= 0) & (truth <= 1))
    if bool(odd.any()):
        raise DataError(f"a label of '{name}' has the degree {truth[odd][0].item():g}")


def _at_odds(name: str, labels: Labels, tables: Tables, rate: NoiseRates | None) -> None:
    """Refuse two labels that contradict each other if the rates say that no label is wrong."""
    if rate is None or rate.missed or rate.invented or not labels.truth[name].numel():
        return
    index, truth = labels.index[name].cpu(), labels.truth[name].cpu()
    cells, number = torch.unique(index, dim=1, return_inverse=True)
    said = [torch.bincount(number[truth == t], minlength=cells.shape[1]) > 0 for t in (0, 1)]
    both = said[0] & said[1]
    if bool(both.any()):
        trace, *arguments, time = cells[:, both.nonzero()[0, 0]].tolist()
        static = tables.signature.predicates[name].static
        when = "" if static else f"@{time}"
        where = f" of trace '{tables.names.trace(trace)}'" if tables.batch > 1 else ""
        raise DataError(
            f"labels say that {atom_text(tables, name, trace, arguments)}{when}{where} is true, "
            "and that it is false, but the rates say that no label is wrong; leave one out, or "
            "give rates above 0"
        )
