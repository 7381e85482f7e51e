"""One line from tensors to truth: a formula, a table for each predicate, and its degree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from fotltn.errors import BuildError, DataError, SemanticsError
from fotltn.logic import core as c
from fotltn.logic.check import CheckedFormula, CheckedTheory, check, check_formula
from fotltn.semantics import crisp, reference
from fotltn.semantics.config import STABLE_PRODUCT, Semantics, check_threshold, named
from fotltn.semantics.interpretation import Interpretation, Value
from fotltn.semantics.logspace import to_log
from fotltn.semantics.tables import interpret
from fotltn.syntax.formula import Formula
from fotltn.syntax.parse import parse_formula
from fotltn.syntax.theory import Theory

Time = int | Literal["all"]


def evaluate(
    formula: str | Formula,
    predicates: Mapping[str, Any],
    *,
    theory: Theory | CheckedTheory | None = None,
    semantics: str | Semantics = STABLE_PRODUCT,
    p: float | None = None,
    at: Time = 0,
    lengths: Sequence[int] | Tensor | None = None,
    functions: Mapping[str, Any] | None = None,
    relations: Mapping[str, Any] | None = None,
    constants: Mapping[str, int] | None = None,
    features: Mapping[str, Any] | None = None,
    horizon: int | None = None,
    threshold: float | None = None,
    log: bool = False,
) -> Tensor:
    """The truth of a formula, differentiable with respect to the tables.

    Args:
        formula: text or a formula object. Free variables become axes of the result.
        predicates: a tensor (or array, or nested list) of degrees for each predicate, with axes
            (arguments …, time), or (arguments …) if time does not matter. With `lengths` there is
            an axis for the traces before them.
        theory: declarations that the formula must fit; without, they are read off the formula.
        semantics: a `Semantics` or the name of one.
        p: another exponent for its means.
        at: a time point, or "all" for an axis of time at the end.
        lengths: the number of time points of each trace of a batch.
        functions: results of functions, with the same axes: entity numbers or real numbers.
        relations: tuples of entity numbers for paired variables, with axes (tuple, place).
        constants: entity numbers of names.
        features: vectors for graded equality by sort, with axes (entity, feature), or (trace,
            entity, feature) with `lengths`. Needs a theory, whose sorts they are for.
        horizon: the number of time points, if no table says.
        threshold: for the crisp semantics, the degree from which on a fact is true.
        log: give logarithms of degrees; under a log-space semantics these do not underflow.

    Returns:
        A tensor with axes (trace, with `lengths`; free variables in order of appearance; time,
        with `at="all"`). Points beyond the end of a trace are NaN, or False if crisp.

    >>> evaluate("F p", {"p": [0.2, 0.6, 0.4]}, semantics="godel")
    tensor(0.6000)
    """
    meaning = _semantics(semantics, p)
    check_threshold(threshold, meaning)
    if log and meaning.boolean:
        raise SemanticsError("Boolean truth has no logarithm")
    checked = _checked(formula, theory, constants or {})
    batched = lengths is not None
    model, dtype = interpret(
        checked.signature, predicates, used=checked.formula, lengths=lengths, functions=functions,
        relations=relations, constants=constants, features=features, horizon=horizon,
        declared=theory is not None,
    )  # fmt: skip
    value = evaluate_core(
        checked.formula, model, meaning, dtype=dtype, threshold=threshold, log=log
    )
    return present(value, checked.free, model, at=at, batched=batched)


def evaluate_core(
    formula: c.Formula,
    model: Interpretation,
    semantics: Semantics,
    *,
    dtype: torch.dtype,
    threshold: float | None = None,
    log: bool = False,
) -> Value:
    """The value of a checked formula at all points: degrees, their logarithms, or Booleans."""
    if semantics.boolean:
        return crisp.evaluate(formula, model, threshold=threshold)
    value = reference.evaluate(formula, model, semantics, dtype=dtype)
    if semantics.log_space:
        return value if log else Value(value.axes, value.tensor.exp())
    return Value(value.axes, to_log(value.tensor)) if log else value


def present(
    value: Value, free: tuple[c.Axis, ...], model: Interpretation, *, at: Time, batched: bool
) -> Tensor:
    """A value as users see it: axes in the order of the free variables, time chosen."""
    shape = [model.batch, *(model.size(a) for a in free), model.horizon]
    order = [0, *(1 + value.axes.index(a) for a in free if a in value.axes), value.tensor.dim() - 1]
    tensor = value.tensor.permute(order)
    for place, axis in enumerate(free):
        if axis not in value.axes:
            tensor = tensor.unsqueeze(1 + place)
    tensor = tensor.expand(shape)
    inside = model.inside.reshape(model.batch, *[1] * len(free), model.horizon)
    beyond = torch.tensor(False if tensor.dtype == torch.bool else torch.nan, device=tensor.device)
    if not bool(inside.all()):
        tensor = torch.where(inside, tensor, beyond.to(tensor.dtype))
    if at != "all":
        if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at < model.horizon:
            raise DataError(
                f"the time point {at!r} does not exist: there are 0 to {model.horizon - 1}"
            )
        tensor = tensor[..., at]
    return tensor if batched else tensor[0]


def _semantics(semantics: str | Semantics, p: float | None) -> Semantics:
    meaning = named(semantics) if isinstance(semantics, str) else semantics
    return meaning if p is None else meaning.with_p(p)


def _checked(
    formula: str | Formula, theory: Theory | CheckedTheory | None, constants: Mapping[str, int]
) -> CheckedFormula:
    parsed = parse_formula(formula) if isinstance(formula, str) else formula
    if not isinstance(parsed, Formula):
        raise BuildError(f"expected a formula or its text, not {parsed!r}")
    if isinstance(theory, Theory):
        theory = check(theory)
    signature = theory.signature if theory is not None else None
    return check_formula(parsed, signature, constants=() if signature else tuple(constants))
