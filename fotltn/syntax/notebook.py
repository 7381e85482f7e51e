"""HTML for notebooks: tables, bars and strips of degrees that need nothing but a browser.

Text takes its colour from the surrounding page, and the two added hues are translucent. So the
output is readable on light and dark pages.
"""

from __future__ import annotations

import base64
import html
import math
import struct
import zlib
from collections.abc import Collection, Iterable, Sequence

from fotltn.format import NONE, degree

#: The maximum number of rows shown in a table; further rows are only counted.
MOST = 50

_TRUE = (45, 125, 210)
_WRONG = (213, 94, 0)
_GREY = (128, 128, 128)
_BORDER = "1px solid rgba(128,128,128,0.35)"


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    left: Collection[str] = (),
    caption: str = "",
) -> str:
    """Render a table, with cells escaped unless they are `Markup`; rows beyond `MOST` are counted.

    Args:
        heads: the column headings.
        rows: the cells of each row.
        left: the columns that hold words and are aligned left.
        caption: a line above the table.
    """
    sides = ["left" if head in left else "right" for head in heads]
    style = "padding:0.2em 0.7em;vertical-align:top;background:transparent;color:inherit"

    def line(cells: Sequence[object], tag: str) -> str:
        inner = "".join(
            f'<{tag} style="{style};text-align:{side};border-bottom:{_BORDER}">{text(cell)}</{tag}>'
            for cell, side in zip(cells, sides, strict=True)
        )
        return f'<tr style="background:transparent">{inner}</tr>'

    above = ""
    if caption:
        above = f'<caption style="text-align:left;color:inherit">{text(caption)}</caption>'
    lines = [line(row, "td") for row in rows]
    body, rest = "".join(lines[:MOST]), ""
    if len(lines) > MOST:
        rest = f"<p>{len(lines) - MOST:,} more rows</p>"
    return (
        '<div style="overflow-x:auto;margin:0.4em 0"><table style="border-collapse:collapse;'
        f'color:inherit;font-variant-numeric:tabular-nums">{above}'
        f"<thead>{line(heads, 'th')}</thead><tbody>{body}</tbody></table>{rest}</div>"
    )


def text(value: object) -> str:
    """Return a cell or sentence as HTML, escaped unless it is `Markup`."""
    return value if isinstance(value, Markup) else html.escape(str(value))


def code(value: object) -> Markup:
    """Render a formula in Unicode signs, which need no TeX renderer."""
    return Markup(f"<code>{html.escape(str(value))}</code>")


def bar(value: float) -> Markup:
    """Render a degree as a number next to a bar."""
    if math.isnan(value):
        return Markup(NONE)
    width = 100 * min(1.0, max(0.0, value))
    return Markup(
        '<span style="white-space:nowrap"><span style="display:inline-block;width:6em;'
        f'height:0.6em;border:{_BORDER}"><span style="display:block;height:100%;'
        f'width:{width:.1f}%;background:rgba({_rgb(_GREY)},0.7)"></span></span> '
        f"{degree(value)}</span>"
    )


def strip(degrees: Sequence[float], *, said: str, wrong: bool = False) -> Markup:
    """Render degrees as a row of pixels, one per time point; truer pixels are more opaque.

    Args:
        degrees: the degrees; NaN marks a missing one and is shown in grey.
        said: a description of the picture, for readers who cannot see it.
        wrong: colour what is false, in a different hue, instead of what is true.
    """
    pixels = b"".join(_pixel(u, wrong) for u in degrees)
    address = base64.b64encode(_png(len(degrees), pixels)).decode()
    width = min(640, max(120, 8 * len(degrees)))
    return Markup(
        f'<img src="data:image/png;base64,{address}" alt="{html.escape(said)}" '
        f'title="{html.escape(said)}" style="width:{width}px;max-width:none;height:1em;'
        f'image-rendering:pixelated;border:{_BORDER};vertical-align:middle;margin:0">'
    )


def _rgb(colour: tuple[int, int, int]) -> str:
    return ",".join(map(str, colour))


def _pixel(degree: float, wrong: bool) -> bytes:
    if math.isnan(degree):
        return bytes((*_GREY, 60))
    inside = min(1.0, max(0.0, degree))
    return bytes((*(_WRONG if wrong else _TRUE), round(255 * (1 - inside if wrong else inside))))


def _png(width: int, pixels: bytes) -> bytes:
    """Encode a PNG that is one pixel high, with 8-bit red, green, blue and opacity."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = struct.pack(">IIBBBBB", max(1, width), 1, 8, 6, 0, 0, 0)
    line = zlib.compress(b"\0" + (pixels or bytes(4)))
    start = b"\x89PNG\r\n\x1a\n"
    return start + chunk(b"IHDR", head) + chunk(b"IDAT", line) + chunk(b"IEND", b"")
