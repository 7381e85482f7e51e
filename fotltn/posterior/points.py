"""Soft axioms that see one time point of a track: they change the worth of letters there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.logic.nnf import nnf
from fotltn.posterior.clauses import replaced_in
from fotltn.posterior.patterns import Moving
from fotltn.posterior.rows import Bindings, RowTruth, atoms_of
from fotltn.semantics.tables import within
from fotltn.tree import postorder

#: The connectives, which stay at one time point.
_PLAIN = (c.Not, c.And, c.Or, c.Implies)


def sees_a_point(formula: c.Formula, moving: Moving, free: int, learned: Collection[str]) -> bool:
    """Whether a formula about one track sees one time point of drawn bits, and given facts.

    Args:
        formula: the formula.
        moving: the bits of tracks.
        free: the number of free bits.
        learned: the predicates that are not given.
    """
    names = {bit.predicate for bit in moving.bits[:free] if not bit.static}
    for node in postorder(formula):
        if isinstance(node, c.Atom):
            if node.predicate in learned and node.predicate not in names:
                return False
        elif isinstance(node, c.Formula) and not isinstance(node, _PLAIN) and moving.inside(node):
            return False
    return True


def worth_of_letters(
    said: Sequence[tuple[str, c.Formula, float]], moving: Moving, letters: Tensor,
    row_truth: RowTruth, rows: Bindings,
) -> Tensor:  # fmt: skip
    """The worth of letters, with axes (track, time, letter): the weights of true formulas.

    Args:
        said: axioms, their formulas about one time point, and their weights.
        moving: the bits of tracks.
        letters: the values of all bits of each letter.
        row_truth: the given facts.
        rows: the tracks.
    """
    inside = within(row_truth.lengths(rows), row_truth.times)
    total = torch.zeros(
        *inside.shape, len(letters), dtype=torch.float64, device=row_truth.times.device
    )
    for _, formula, weight in said:
        places = {a: hit[0] for a in atoms_of(formula, moving.names) if (hit := moving.bit(a))}
        bits = sorted(set(places.values()))
        for values in torch.unique(letters[:, bits], dim=0):
            truth: Mapping[c.Core, c.Formula] = {
                atom: c.Truth(bool(values[bits.index(bit)])) for atom, bit in places.items()
            }
            true = row_truth.truth(nnf(replaced_in(formula, truth)), rows, {})[0]
            same = (letters[:, bits] == values).all(-1)
            total[..., same] += weight * true.to(torch.float64).unsqueeze(-1)
    return total * inside.unsqueeze(-1)
