"""The temporal operators and their spellings: one table for the grammar, printers and docs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class OperatorSpelling:
    """The spellings of an operator, and the direction in which it looks."""

    ascii: str
    unicode: str
    latex: str
    arity: int
    past: bool
    words: str  # the operator's name in prose, for messages and documentation


class Temporal(Enum):
    """A temporal operator. F, G, U, R, W, M and their past mirrors include the present."""

    X = OperatorSpelling("X", "○", r"\mathbf{X}", 1, False, "next")
    WX = OperatorSpelling("WX", "●", r"\mathbf{WX}", 1, False, "weak next")
    F = OperatorSpelling("F", "◇", r"\mathbf{F}", 1, False, "eventually")
    G = OperatorSpelling("G", "□", r"\mathbf{G}", 1, False, "always")
    Y = OperatorSpelling("Y", "⊖", r"\mathbf{Y}", 1, True, "previous")
    WY = OperatorSpelling("WY", "⊛", r"\mathbf{WY}", 1, True, "weak previous")
    O = OperatorSpelling("O", "⟐", r"\mathbf{O}", 1, True, "once")  # noqa: E741 the operator's name
    H = OperatorSpelling("H", "⊟", r"\mathbf{H}", 1, True, "historically")
    U = OperatorSpelling("U", "𝒰", r"\mathbin{\mathbf{U}}", 2, False, "until")
    R = OperatorSpelling("R", "ℛ", r"\mathbin{\mathbf{R}}", 2, False, "release")
    W = OperatorSpelling("W", "𝒲", r"\mathbin{\mathbf{W}}", 2, False, "weak until")
    M = OperatorSpelling("M", "ℳ", r"\mathbin{\mathbf{M}}", 2, False, "strong release")
    S = OperatorSpelling("S", "𝒮", r"\mathbin{\mathbf{S}}", 2, True, "since")
    T = OperatorSpelling("T", "𝒯", r"\mathbin{\mathbf{T}}", 2, True, "trigger")

    @property
    def ascii(self) -> str:
        """The ASCII spelling, which is also the name."""
        return self.value.ascii

    @property
    def steps(self) -> bool:
        """Whether the operator looks at one time point, some steps away (X, WX, Y, WY)."""
        return self in _STEPS


_STEPS = frozenset({Temporal.X, Temporal.WX, Temporal.Y, Temporal.WY})

#: Operators with a strict form, which leaves out the present (section 2.2 of the paper).
STRICT = frozenset(op for op in Temporal if not op.steps)

STRICT_MARK = {"ascii": "+", "unicode": "⁺", "latex": "^{+}"}
