"""HTML for notebooks: tables, bars and strips of degrees that need nothing but a browser.

Colours are those of the page around them, with two hues of our own laid over it. So all of it can
be read on light and on dark pages.
"""

from __future__ import annotations

import base64
import html
import math
import struct
import zlib
from collections.abc import Collection, Iterable, Sequence

from fotltn.format import NONE, degree

_TRUE = (45, 125, 210)
_WRONG = (213, 94, 0)
_GREY = (128, 128, 128)
_BORDER = "1px solid rgba(128,128,128,0.35)"


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    left: Collection[str] = (),
    caption: str = "",
) -> str:
    """A table; what is not `Markup` is escaped.

    Args:
        heads: of the columns.
        rows: their cells.
        left: the columns that hold words, and are set to the left.
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
    body = "".join(line(row, "td") for row in rows)
    return (
        '<div style="overflow-x:auto;margin:0.4em 0"><table style="border-collapse:collapse;'
        f'color:inherit;font-variant-numeric:tabular-nums">{above}'
        f"<thead>{line(heads, 'th')}</thead><tbody>{body}</tbody></table></div>"
    )


def text(value: object) -> str:
    """A cell or a sentence, escaped unless it is markup."""
    return value if isinstance(value, Markup) else html.escape(str(value))


def bar(value: float) -> Markup:
    """A degree as a number and a bar."""
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
    """Degrees in a row, one a point: the truer, the more colour.

    Args:
        degrees: the degrees; NaN where there is none, which is grey.
        said: what it shows, for those who cannot see it.
        wrong: show in another colour what is false, not what is true.
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
    """A picture of one line, with eight bits of red, green, blue and opacity."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = struct.pack(">IIBBBBB", max(1, width), 1, 8, 6, 0, 0, 0)
    line = zlib.compress(b"\0" + (pixels or bytes(4)))
    start = b"\x89PNG\r\n\x1a\n"
    return start + chunk(b"IHDR", head) + chunk(b"IDAT", line) + chunk(b"IEND", b"")
