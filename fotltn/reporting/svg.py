"""Figures inside a page: SVG with the colours of the page, light or dark."""

from __future__ import annotations

import io
import re
from html import escape
from typing import TYPE_CHECKING

from fotltn.reporting.theme import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    GRID,
    ORANGE,
    PINK,
    SKY,
    WHITE,
    YELLOW,
    look,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The names of a figure's colours in the stylesheet.
_VARIABLES = {
    colour.lower(): f"var(--{name})"
    for colour, name in (
        (BLUE, "blue"), (ORANGE, "orange"), (GREEN, "green"), (PINK, "pink"), (YELLOW, "yellow"),
        (SKY, "sky"), (BLACK, "ink"), (GREY, "soft"), (GRID, "grid"), (WHITE, "paper"),
    )
}  # fmt: skip

_DROPPED = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>|<style[^>]*>.*?</style>",
    re.DOTALL,
)
_ROOT = re.compile(r"<svg\b[^>]*?viewBox=\"(?P<box>[^\"]*)\"[^>]*>")
_FONT = re.compile(r"font: (?:(\w+) )?([\d.]+)px [^;\"]*(?:&quot;[^;\"]*)*")
_POINTS = 96 / 72 / 16  # rem of a point


def inline_svg(figure: Figure, *, name: str, label: str) -> str:
    """Return a figure as SVG for a page.

    Args:
        figure: the figure; it should have the colours of `fotltn.reporting.theme`.
        name: a prefix for all ids of the figure, unique on the page.
        label: a description for readers who cannot see the figure.
    """
    for ax in figure.axes:
        for spine in ax.spines.values():
            spine.set_color(GREY)
        ax.tick_params(color=GREY)
    out = io.StringIO()
    with look():
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = _DROPPED.sub("", out.getvalue())
    text = re.sub(r'style="[^"]*"', lambda m: _styled(m[0]), text)
    text = _prefixed_ids(text, name)
    root = _ROOT.search(text)
    assert root is not None
    width = float(root["box"].split()[2]) * _POINTS
    opened = (
        f'<svg class="plot" role="img" aria-label="{escape(label)}" viewBox="{root["box"]}" '
        f'style="--width: {width:.1f}rem">'
    )
    return (opened + text[root.end() :]).strip()


def _styled(style: str) -> str:
    """Replace the colours and fonts of a style by those of the page."""
    style = re.sub(r"#[0-9a-f]{6}", lambda m: _VARIABLES.get(m[0], m[0]), style)
    return _FONT.sub(lambda m: f"font-size: {m[2]}px", style)


def _prefixed_ids(text: str, name: str) -> str:
    """Prefix the ids that are used, and remove the others."""
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', text))

    def prefixed(match: re.Match[str]) -> str:
        return f' id="{name}-{match[1]}"' if match[1] in used else ""

    text = re.sub(r'\sid="([^"]*)"', prefixed, text)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", text)
