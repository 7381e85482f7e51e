"""Draw the worked example: the formula, its checked core, and its value over time."""

from __future__ import annotations

import csv
from html import escape
from pathlib import Path

import torch
from torch import Tensor

import fotltn
from fotltn.syntax.load import load_theory
from fotltn.syntax.show import show

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "appendix_b"
NAMES = {"c1": 0, "p1": 1}
ARITY = {"Car": 1, "Ped": 1, "Crossing": 1, "Stop": 1, "Close": 2}
STATIC = {"Car", "Ped"}
STEPS = 5

_INK, _GREY, _RULE = "#1f2933", "#616e7c", "#cbd2d9"
_FIRST, _SECOND, _THIRD = "#9fb3c8", "#f0b429", "#0967d2"
_MONO = "font-family='DejaVu Sans Mono, Menlo, Consolas, monospace'"
_SANS = "font-family='DejaVu Sans, Helvetica, Arial, sans-serif'"


def tables() -> dict[str, Tensor]:
    """The facts of the example, as tables."""
    found = {
        name: torch.zeros(*[2] * arity, *([] if name in STATIC else [STEPS]), dtype=torch.float64)
        for name, arity in ARITY.items()
    }
    with open(EXAMPLE / "facts.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            place = [NAMES[row[a]] for a in ("arg1", "arg2") if row[a]]
            place += [int(row["time"])] if row["time"] else []
            found[row["predicate"]][tuple(place)] = float(row["truth"])
    return found


def value(formula: str, *, at: int | str = 0) -> Tensor:
    """The value of a formula on those facts, as the paper computes it (p = 2)."""
    return fotltn.evaluate(formula, tables(), p=2, at=at)  # type: ignore[arg-type]


def draw() -> str:
    """The picture as SVG."""
    axiom = load_theory(EXAMPLE / "theory.fot").axiom("A1").formula
    before = "Car(x) & Ped(y) & Crossing(y) & Close(x, y)"
    series = [
        ("antecedent", _FIRST, value(before, at="all")[0, 1]),
        ("WX Stop(x)", _SECOND, value("WX Stop(x)", at="all")[0]),
        ("implication", _THIRD, value(f"{before} -> WX Stop(x)", at="all")[0, 1]),
    ]
    always = value(f"G({before} -> WX Stop(x))")[0, 1]
    parts = [
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 880 456' role='img' "
        "aria-label='A formula, its checked core and its value over time'>",
        "<rect width='880' height='456' rx='8' fill='#ffffff'/>",
        *_box(24, 20, 832, 62, "1  text", [show(axiom, "unicode")]),
        _arrow(440, 82, 108, "parse, check: every name has a meaning and a sort"),
        *_box(24, 110, 832, 112, "2  checked core", _CORE),
        _arrow(440, 222, 248, "evaluate on a table of facts (stable-product, p = 2)"),
        *_box(24, 250, 832, 186, "3  value over time, for x = c1 and y = p1", []),
        *_chart(series),
        *_results(float(always), float(value(show(axiom)))),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


_CORE = [
    "Quantifier ∀  axes x, y of sort agent",
    "└─ Aggregate ∀  over time, window 0 … end",
    "   └─ Implies",
    "      ├─ And … Car(x)  Ped(y)  Crossing(y)  Close(x, y)",
    "      └─ Shift 1 step, true beyond the end …  Stop(x)",
]


def _text(x: float, y: float, text: str, size: float, font: str, **style: str) -> str:
    extra = "".join(f" {k.replace('_', '-')}='{v}'" for k, v in style.items())
    return (
        f"<text x='{x:g}' y='{y:g}' font-size='{size:g}' {font} xml:space='preserve'{extra}>"
        f"{escape(text)}</text>"
    )


def _box(
    x: float, y: float, width: float, height: float, title: str, lines: list[str]
) -> list[str]:
    found = [
        f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' rx='6' fill='none' "
        f"stroke='{_RULE}'/>",
        _text(x + 14, y + 20, title, 12, _SANS, fill=_GREY),
    ]
    for number, line in enumerate(lines):
        size, step = (15, 24) if len(lines) == 1 else (12.5, 15.5)
        found.append(_text(x + 14, y + 22 + step * (number + 1), line, size, _MONO, fill=_INK))
    return found


def _arrow(x: float, top: float, bottom: float, label: str) -> str:
    return (
        f"<path d='M{x:g} {top + 4:g} V{bottom - 6:g} m-4 -5 l4 5 l4 -5' fill='none' "
        f"stroke='{_GREY}' stroke-width='1.4'/>"
        + _text(x + 12, (top + bottom) / 2 + 4, label, 12, _SANS, fill=_GREY)
    )


def _chart(series: list[tuple[str, str, Tensor]]) -> list[str]:
    left, base, height, step, bar = 70, 404, 100, 100, 24
    found = []
    for level in (0.0, 0.5, 1.0):
        y = base - height * level
        found.append(f"<path d='M{left} {y:g} H{left + 5 * step}' stroke='{_RULE}'/>")
        found.append(_text(left - 8, y + 4, f"{level:g}", 11, _SANS, fill=_GREY, text_anchor="end"))
    for t in range(STEPS):
        middle = left + step * (t + 0.5)
        for place, (_, colour, values) in enumerate(series):
            tall = height * float(values[t])
            x = middle + (place - 1.5) * bar
            found.append(
                f"<rect x='{x:g}' y='{base - tall:.1f}' width='{bar - 3}' height='{tall:.1f}' "
                f"fill='{colour}'/>"
            )
        found.append(
            _text(middle, base + 18, f"t = {t}", 12, _SANS, fill=_INK, text_anchor="middle")
        )
    for place, (name, colour, _) in enumerate(series):
        x = 330 + 110 * place
        found.append(f"<rect x='{x}' y='260' width='11' height='11' fill='{colour}'/>")
        found.append(_text(x + 16, 270, name, 12, _SANS, fill=_INK))
    return found


def _results(always: float, whole: float) -> list[str]:
    found = []
    for x, above, number, below in (
        (584, "G over time", always, "for this pair"),
        (712, "∀ over pairs", whole, "the axiom"),
    ):
        found += [
            f"<path d='M{x} 354 h24 m-5 -4 l5 4 l-5 4' fill='none' stroke='{_GREY}' "
            "stroke-width='1.4'/>",
            _text(x + 40, 330, above, 12, _SANS, fill=_GREY),
            _text(x + 40, 358, f"{number:.3f}", 24, _SANS, fill=_THIRD),
            _text(x + 40, 378, below, 12, _SANS, fill=_GREY),
        ]
    return found
