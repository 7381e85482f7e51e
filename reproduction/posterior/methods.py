"""The methods of the study: each computes probabilities of all cells of learned predicates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

import fotltn
from fotltn.errors import DataError, did_you_mean, listing
from fotltn.grounding.labels import Labels
from fotltn.logic.check import check_formula
from fotltn.logic.defined import Definition, definitions_in
from fotltn.logic.parts import symbols
from fotltn.logic.signature import Signature
from fotltn.posterior.posterior import Posterior
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sample, sample_each
from fotltn.posterior.sampler import Sampling
from fotltn.project.model import Model
from fotltn.syntax.parse import parse_formula
from reproduction.posterior.cases import Case, Degrees

#: The epochs of the gradient method, which does not stop early.
EPOCHS = 300

#: The methods, by their names in records.
METHODS = ("gradient", "posterior", "posterior, rates learned", "limit")

#: The methods that sample worlds.
SAMPLED = METHODS[1:3]

#: Checks that the limit of the ward does not depend on where its chains start.
FROM_TRUTH = "limit, from the truth"


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The result of a method on a case.

    Args:
        degrees: the probabilities of each predicate, shape (trace, *arguments, time).
        more: further entries for the record.
    """

    degrees: Degrees
    more: Mapping[str, Any] = field(default_factory=dict)


def solve(method: str, case: Case, sampling: Sampling, device: str) -> Outcome:
    """Let a method learn from the labels of a case.

    Raises:
        DataError: there is no such method.
    """
    match method:
        case "gradient":
            return Outcome(gradient(case, device))
        case "posterior":
            return sampled(case, sampling, device, told=True)
        case "posterior, rates learned":
            return sampled(case, sampling, device, told=False)
        case "limit":
            return Outcome(case.limit(case.train, case.seed, device))
        case "limit, from the truth":
            assert case.limit_from_truth is not None  # a job checks that
            return Outcome(case.limit_from_truth(case.train, case.seed, device))
        case _:
            hint = did_you_mean(method, METHODS) or f"there are {listing(METHODS)}"
            raise DataError(f"unknown method '{method}'; {hint}")


# --- the gradient method ---------------------------------------------------------------------


def gradient(case: Case, device: str = "cpu") -> Degrees:
    """Run the recipe as a user would: definitions and reaches are found automatically."""
    stated = {
        name: {"kind": "formula", "variables": ["x"], "formula": text, "semantics": "product"}
        for name, text in case.define.items()
    }
    others = [name for name in case.learned if name not in stated]
    uses = {name: symbols(d.formula) for name, d in definitions(case).items()}
    follows = definitions_in(case.theory, others, uses).by_name
    free = {n: {"kind": "logits", "reach": "auto"} for n in others if n not in follows}
    model = fotltn.train(
        case.theory,
        facts=[case.stated, as_table(case.train, case)],
        learn=case.learned,
        predicates={**stated, **free},
        semantics="witness",
        objective={"preset": "recipe", "missed": case.told.missed, "invented": case.told.invented},
        training={"epochs": EPOCHS, "patience": 0, "rate": 0.05},
        data={"horizon": case.tables.horizon},
        machine={"device": device},
        seed=case.seed,
    )
    return {name: _in_order(model, name, case) for name in case.learned}


def as_table(part: Labels, case: Case) -> pa.Table:
    """Return labels as a table of facts with names."""
    names, parts = case.facts, []
    most = max(len(sorts) for sorts in part.sorts.values())
    for name, index in part.index.items():
        trace, *arguments, time = index.numpy()
        columns: dict[str, Any] = {
            "predicate": np.full(len(time), name),
            "trace": np.array(names.traces)[trace],
        }
        for place in range(most):
            column = f"arg{place + 1}"
            if place < len(arguments):
                known = np.array(names.entities[part.sorts[name][place]])
                columns[column] = known[arguments[place]]
            else:
                columns[column] = pa.nulls(len(time), pa.string())
        static = name in part.static
        columns["time"] = pa.nulls(len(time), pa.int64()) if static else time
        columns["truth"] = part.truth[name].numpy().astype(np.float64)
        parts.append(pa.table(columns))
    return pa.concat_tables(parts)


def _in_order(model: Model, name: str, case: Case) -> Tensor:
    """Return a table of a model, with traces and entities in the order of the case."""
    table = model.tables.predicate(name).cpu().double()
    theirs, ours = model.facts, case.facts
    lists = [(theirs.traces, ours.traces)]
    lists += [(theirs.entities[s], ours.entities[s]) for s in case.train.sorts[name]]
    for axis, (there, here) in enumerate(lists):
        if axis == 0 and table.shape[0] == 1:
            continue
        table = table.index_select(axis, torch.tensor([there.index(one) for one in here]))
    return table


# --- the posterior ---------------------------------------------------------------------------


def sampled(case: Case, sampling: Sampling, device: str, *, told: bool) -> Outcome:
    """Sample worlds that obey the axioms; rates of wrong labels are given, or learned."""
    return _outcome(sample(_problem(case, sampling, device, told=told)))


def sampled_together(
    method: str, cases: Sequence[Case], sampling: Sampling, device: str
) -> list[Outcome]:
    """Do the same for several sets of labels of one world at once."""
    problem = _problem(cases[0], sampling, device, told=method == "posterior")
    return [_outcome(one) for one in sample_each(problem, [case.train for case in cases])]


def _problem(case: Case, sampling: Sampling, device: str, *, told: bool) -> Problem:
    return Problem(
        case.theory,
        case.tables.to(torch.device(device)),
        case.train,
        case.learned,
        rates=dict.fromkeys(case.learned, case.told if told else None),
        sampling=sampling,
        define=definitions(case),
    )


def _outcome(result: Posterior) -> Outcome:
    return Outcome(
        {name: table.cpu() for name, table in result.marginals.items()},
        {
            "rates": {name: list(rate) for name, rate in result.rates.items()},
            "r_hat": dict(result.mixing.r_hat),
            "effective": dict(result.mixing.effective),
            "counted": result.sweeps,
        },
    )


def definitions(case: Case) -> dict[str, Definition]:
    """Return the definitions of the case."""
    return defined(case.define, case.theory.signature)


def defined(stated: Mapping[str, str], signature: Signature) -> dict[str, Definition]:
    """Parse definitions by name, from texts with the variable x."""
    made = {}
    for name, text in stated.items():
        checked = check_formula(parse_formula(text), signature)
        made[name] = Definition(name, checked.free, checked.formula, ())
    return made
