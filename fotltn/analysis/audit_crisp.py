"""An axiom in two-valued logic: its violations, and how well its antecedent predicts."""

from __future__ import annotations

import torch

from fotltn.algebra.expr import free_axes
from fotltn.analysis.audit_data import CrispAudit
from fotltn.analysis.evaluate_cells import sweep
from fotltn.analysis.prefix import Prefix, Weights, weights
from fotltn.analysis.truncation import if_longer
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.semantics.config import CRISP
from fotltn.semantics.interpretation import Tables


def count_cells(whole: Prefix, signature: Signature, tables: Tables) -> CrispAudit:
    """Count over all cells of an axiom.

    Args:
        whole: the axiom.
        signature: what it uses.
        tables: tables of Booleans.
    """
    axes, rule = whole.axes, whole.rule
    counted = weights(whole, tables)
    antecedent, consequent = rule if rule is not None else (c.Truth(True), whole.body)
    wished = if_longer(consequent)
    formulas: dict[str, c.Formula] = {"antecedent": antecedent, "consequent": consequent}
    if wished != consequent:
        formulas["wished"] = wished
    cells = support = violations = truncated = 0
    for part in sweep(formulas, axes, signature, tables, CRISP, dtype=torch.float32):
        shape = part.shape(axes, tables)
        seen = counted.at(axes, (part.start, part.stop)) > 0
        active = part.values["antecedent"] & seen
        wrong = active & ~part.values["consequent"]
        cells += int(seen.expand(shape).sum())
        support += int(active.expand(shape).sum())
        violations += int(wrong.expand(shape).sum())
        if "wished" in part.values:
            truncated += int((wrong & part.values["wished"]).expand(shape).sum())
    if rule is None:
        return CrispAudit(cells, violations, truncated)
    return CrispAudit(
        cells,
        violations,
        truncated,
        support,
        1 - violations / support if support else None,
        _base_rate(consequent, axes, counted, signature, tables),
    )


def _base_rate(
    formula: c.Formula,
    axes: tuple[c.Axis, ...],
    counted: Weights,
    signature: Signature,
    tables: Tables,
) -> float | None:
    """How often a formula is true, over the cells as far as it can tell them apart."""
    free = free_axes(formula)
    own = tuple(a for a in axes if a in free)
    others = [1 + i for i, a in enumerate(axes) if a not in free]
    every = counted.at(axes) > 0
    seen = every.amax(others) if others else every
    cells = true = 0
    for part in sweep({"formula": formula}, own, signature, tables, CRISP, dtype=torch.float32):
        shape = part.shape(own, tables)
        here = seen[:, part.start : part.stop] if own and seen.shape[1] > 1 else seen
        cells += int(here.expand(shape).sum())
        true += int((part.values["formula"] & here).expand(shape).sum())
    return true / cells if cells else None
