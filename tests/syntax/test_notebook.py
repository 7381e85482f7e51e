"""HTML for notebooks: escaped, without colours of its own for text, and pictures that are valid."""

from __future__ import annotations

import base64
import html.parser
import math
import re
import struct
import zlib

import pytest

from fotltn.syntax.notebook import Markup, bar, strip, table, text


class Parser(html.parser.HTMLParser):
    """Checks that tags are closed in order, and collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag, attrs):  # noqa: ARG002 the base class says so
        if tag not in ("img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def words(shown: str) -> str:
    """The text of well-formed HTML."""
    parser = Parser()
    parser.feed(shown)
    parser.close()
    assert parser.open == []
    return " ".join(parser.words)


def pixels(shown: str) -> list[tuple[int, int, int, int]]:
    """The colours of a strip, read back from its picture."""
    found = re.search(r"data:image/png;base64,([^\"]+)", shown)
    assert found is not None
    data = base64.b64decode(found[1])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, chunks = 8, {}
    while place < len(data):
        (size,) = struct.unpack(">I", data[place : place + 4])
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        (check,) = struct.unpack(">I", data[place + 8 + size : place + 12 + size])
        assert check == zlib.crc32(kind + body)
        chunks[kind] = body
        place += 12 + size
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (height, depth, colour) == (1, 8, 6)
    line = zlib.decompress(chunks[b"IDAT"])[1:]
    assert len(line) == 4 * width
    return [tuple(line[i : i + 4]) for i in range(0, len(line), 4)]  # type: ignore[misc]


def test_what_is_no_markup_is_escaped():
    shown = table(["<i>"], [["<b>&"], [Markup("<b>bold</b>")]], left=["<i>"], caption="<u>")
    assert "&lt;b&gt;&amp;" in shown
    assert "<b>bold</b>" in shown
    assert "<i>" not in shown
    assert "<u>" not in shown
    assert "bold" in words(shown)
    assert text("<") == "&lt;"


def test_text_has_the_colour_of_the_page():
    shown = table(["a"], [[bar(0.5)]])
    assert re.findall(r"[^-]color:(?!inherit)", shown) == []
    assert "background:transparent" in shown


def test_bars_and_numbers():
    assert "width:25.0%" in bar(0.25)
    assert "width:100.0%" in bar(1.5)
    assert bar(math.nan) == "–"


@pytest.mark.parametrize("count", [1, 3, 150])
def test_a_strip_is_a_picture_of_degrees(count):
    degrees = [i / max(1, count - 1) for i in range(count)]
    found = pixels(strip(degrees, said='"x" over time'))
    assert [p[3] for p in found] == [round(255 * u) for u in degrees]
    wrong = pixels(strip(degrees, said="", wrong=True))
    assert [p[3] for p in wrong] == [round(255 * (1 - u)) for u in degrees]
    assert wrong[0][:3] != found[0][:3]
    assert pixels(strip([math.nan], said=""))[0] == (128, 128, 128, 60)
    assert 'alt="&quot;x&quot; over time"' in strip(degrees, said='"x" over time')
