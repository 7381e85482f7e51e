"""Format numbers in one way everywhere: in terminals, on pages, in notebooks and messages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

#: The text for a missing value.
NONE = "–"
#: The text for the value of an entity that is not present.
ABSENT = "absent"


def number(value: float | None, digits: int = 3) -> str:
    """Format a number with some digits after the point.

    >>> number(0.95149), number(2.0, 1), number(-0.0001), number(float("nan")), number(None)
    ('0.951', '2.0', '0.000', '–', '–')
    """
    if value is None or math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{abs(value):.{digits}f}"
    return f"−{text}" if value < 0 and text.strip("0.") else text


def degree(value: float | bool | None, digits: int = 3) -> str:
    """Format a degree or a truth value; only 1 reads as 1, and only 0 as 0.

    >>> degree(0.5), degree(0.99999), degree(1e-9), degree(1.0), degree(0.0), degree(True)
    ('0.500', '>0.999', '<0.001', '1.000', '0.000', 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or math.isnan(value):
        return NONE
    text = number(value, digits)
    if 0 < value < 1 and float(text) in (0, 1):
        step = 10**-digits
        return f"<{step:.{digits}f}" if value < 0.5 else f">{1 - step:.{digits}f}"
    return text


def entered(value: float) -> str:
    """Format a degree for an input box; more digits where three would read as 0 or 1.

    >>> [entered(v) for v in (0.8, 0.0, 1.0, 8.92036e-05, 0.99999)]
    ['0.800', '0.000', '1.000', '8.9e-05', '0.99999']
    """
    text = number(value)
    if not 0 < value < 1 or float(text) not in (0, 1):
        return text
    return f"{value:.2g}" if value < 0.5 else repr(value)


def share(value: float | None) -> str:
    """Format a share in percent, with more digits if it is small; 0 and 100 are exact.

    >>> [share(v) for v in (0.5, 0.0213, 0.00042, 0.00006, 1e-9, 0.0, 0.99999)]
    ['50 %', '2.1 %', '0.04 %', '0.006 %', '<0.001 %', '0 %', '99.9 %']
    """
    if value is None or math.isnan(value):
        return NONE
    if 0 < value < 0.00001:
        return "<0.001 %"
    if 0.995 <= value < 1:
        return f"{min(100 * value, 99.9):.1f} %"
    if value in (0, 1) or value >= 0.0995:
        return f"{100 * value:.0f} %"
    return f"{100 * value:.{1 if value >= 0.00995 else 2 if value >= 0.0000995 else 3}f} %"


def count(value: int | None) -> str:
    """Format a number of things.

    >>> count(16000), count(None)
    ('16,000', '–')
    """
    return NONE if value is None else f"{value:,}"


def listed(names: Iterable[str]) -> str:
    """List names as in a sentence.

    >>> listed(["x"]), listed(["x", "y", "time"])
    ('x', 'x, y and time')
    """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def cell_words(
    binding: Mapping[str, str], time: int | None = None, trace: str | None = None
) -> str:
    """Format a cell: the entities of its variables, and its time and trace if they are given.

    >>> cell_words({"x": "ego", "y": "p1"}, 3), cell_words({}, trace="a")
    ('x = ego, y = p1, time 3', 'trace a')
    """
    words = [f"{variable} = {entity}" for variable, entity in binding.items()]
    words += [] if time is None else [f"time {time}"]
    return ", ".join([*words, *([] if trace is None else [f"trace {trace}"])])


def amount(value: float | None) -> str:
    """Format a number of things, or a sum of degrees, which may have a fraction.

    >>> amount(1200.0), amount(1200.25), amount(None)
    ('1,200', '1,200.2', '–')
    """
    if value is None:
        return NONE
    return f"{value:,.0f}" if math.isclose(value, round(value)) else f"{value:,.1f}"


def signed(value: float | None, digits: int = 3) -> str:
    """Format a difference with its sign; one that rounds to 0 has none.

    >>> signed(0.25), signed(-0.25, 1), signed(-0.00001), signed(None)
    ('+0.250', '−0.2', '0.000', '–')
    """
    text = number(value, digits)
    return f"+{text}" if value is not None and value > 0 and text.strip("0.") else text


def points(value: float | None) -> str:
    """Format a difference of two shares in percentage points, with the digits of `share`.

    >>> [points(v) for v in (0.5, -0.0213, 0.0004, -1e-9, 0.0, None)]
    ['+50 pp', '−2.1 pp', '+0.04 pp', '−<0.001 pp', '0 pp', '–']
    """
    if value is None or math.isnan(value):
        return NONE
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return f"{sign}{share(abs(value)).removesuffix(' %')} pp"


def about(value: float) -> str:
    """Format a large number with few digits.

    >>> [about(n) for n in (950, 12_345, 1_200_000, 999_600_000)]
    ['950', '12.3 k', '1.2 M', '1,000 M']
    """
    return _scaled(value, 1000.0, ("", " k", " M", " G", " T"))


def size(value: float) -> str:
    """Format a number of bytes with few digits.

    >>> [size(n) for n in (512, 1234, 5 * 2**20, 1023 * 2**20, 3.5 * 2**30)]
    ['512 B', '1.21 KiB', '5 MiB', '1,023 MiB', '3.5 GiB']
    """
    return _scaled(value, 1024.0, (" B", " KiB", " MiB", " GiB", " TiB"))


def _scaled(value: float, base: float, units: tuple[str, ...]) -> str:
    power = sum(value >= base**n for n in range(1, len(units)))
    scaled = value / base**power
    return f"{scaled:,.0f}{units[power]}" if scaled >= 100 else f"{scaled:.3g}{units[power]}"


def duration(seconds: float) -> str:
    """Format a duration for people.

    >>> [duration(s) for s in (4.2e-6, 0.034, 2.5, 75, 7384)]
    ['4.2 µs', '34 ms', '2.5 s', '1 min 15 s', '2 h 3 min']
    """
    if seconds < 59.95:
        power = sum(seconds < 0.1 * 1000.0**-n for n in range(3))
        return f"{float(f'{seconds * 1000.0**power:.2g}'):g} {('s', 'ms', 'µs', 'ns')[power]}"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def finite(value: Any) -> Any:
    """Replace NaN and infinity by null, because JSON lacks them.

    >>> finite({"a": [1.0, float("nan")], "b": float("inf")})
    {'a': [1.0, None], 'b': None}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return value
