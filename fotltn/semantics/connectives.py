"""Connectives as pure functions on degrees in [0, 1], with finite gradients everywhere."""

from __future__ import annotations

import torch
from torch import Tensor

from fotltn.semantics.config import Implication, Negation, TConorm, TNorm


def away_from_zero(u: Tensor, epsilon: float) -> Tensor:
    """LTN's π₀: `(1 - ε) u + ε`."""
    return u if epsilon == 0 else (1 - epsilon) * u + epsilon


def away_from_one(u: Tensor, epsilon: float) -> Tensor:
    """LTN's π₁: `(1 - ε) u`."""
    return u if epsilon == 0 else (1 - epsilon) * u


def negate(u: Tensor, kind: Negation) -> Tensor:
    """Compute ¬u."""
    match kind:
        case Negation.STANDARD:
            return 1 - u
        case Negation.GODEL:
            return (u == 0).to(u.dtype) + 0 * u  # a step function: keep a gradient, which is 0


def conjoin(u: Tensor, v: Tensor, kind: TNorm, epsilon: float = 0.0) -> Tensor:
    """Compute u ∧ v; ε applies to the product, whose gradient vanishes at 0."""
    match kind:
        case TNorm.PRODUCT:
            return away_from_zero(u, epsilon) * away_from_zero(v, epsilon)
        case TNorm.MINIMUM:
            return torch.minimum(u, v)
        case TNorm.LUKASIEWICZ:
            return (u + v - 1).clamp(min=0)


def disjoin(u: Tensor, v: Tensor, kind: TConorm, epsilon: float = 0.0) -> Tensor:
    """Compute u ∨ v; ε applies to the probabilistic sum, whose gradient vanishes at 1."""
    match kind:
        case TConorm.PROBABILISTIC_SUM:
            u, v = away_from_one(u, epsilon), away_from_one(v, epsilon)
            return u + v * (1 - u)  # u + v - u v, exact where u or v is 0 or 1
        case TConorm.MAXIMUM:
            return torch.maximum(u, v)
        case TConorm.LUKASIEWICZ:
            return (u + v).clamp(max=1)


def imply(u: Tensor, v: Tensor, kind: Implication, epsilon: float = 0.0) -> Tensor:
    """Compute u → v."""
    match kind:
        case Implication.REICHENBACH:
            u, v = away_from_zero(u, epsilon), away_from_one(v, epsilon)
            return 1 - u * (1 - v)  # 1 - u + u v, exact where u or v is 0 or 1
        case Implication.KLEENE_DIENES:
            return torch.maximum(1 - u, v)
        case Implication.LUKASIEWICZ:
            return (1 - u + v).clamp(max=1)
        case Implication.GODEL:
            u, v = torch.broadcast_tensors(u, v)
            return torch.where(u <= v, torch.ones_like(v), v)
        case Implication.GOGUEN:
            u = away_from_zero(u, epsilon)
            u, v = torch.broadcast_tensors(u, v)
            holds = u <= v
            # Where u <= v the quotient is unused, but its gradient must still be finite.
            return torch.where(holds, torch.ones_like(v), v / torch.where(holds, 1, u))
