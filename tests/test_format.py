"""Numbers as text: what is not nothing never reads as nothing, nor what is not all as all."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fotltn.format import (
    NONE,
    about,
    count,
    degree,
    duration,
    entered,
    number,
    share,
    signed,
    size,
)  # fmt: skip

INSIDE = st.floats(0, 1, exclude_min=True, exclude_max=True)


@pytest.mark.parametrize("text", [number, degree, share, signed])
@pytest.mark.parametrize("value", [None, math.nan])
def test_nothing_is_a_dash(text, value):
    assert text(value) == NONE == count(None) == "–"


@given(INSIDE, st.integers(1, 6))
def test_a_degree_inside_reads_as_one_inside(value, digits):
    text = degree(value, digits)
    assert re.fullmatch(rf"[<>]?0\.\d{{{digits}}}", text)
    bound = float(text.strip("<>"))
    assert 0 < bound < 1
    match text[0]:
        case "<":
            assert value < bound
        case ">":
            assert value > bound
        case _:
            assert abs(bound - value) <= 0.5 * 10**-digits + 1e-12


def test_the_ends_of_degrees():
    assert [degree(v) for v in (0.0, 1.0, 0, 1)] == ["0.000", "1.000", "0.000", "1.000"]
    assert [degree(v) for v in (True, False)] == ["true", "false"]


@given(INSIDE)
def test_a_share_inside_reads_as_one_inside(value):
    text = share(value)
    assert text == "<0.001 %" if value < 1e-5 else 0 < float(text.removesuffix(" %")) < 100


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 %"), (1, "100 %"), (0.5, "50 %"), (0.0213, "2.1 %"), (0.00042, "0.04 %"),
        (0.0995, "10 %"), (0.0994, "9.9 %"), (0.00995, "1.0 %"), (0.0099, "0.99 %"),
        (0.00006, "0.006 %"), (0.9999, "99.9 %"), (9e-6, "<0.001 %"),
    ],
)  # fmt: skip
def test_shares(value, text):
    assert share(value) == text


def test_signs():
    assert [signed(v) for v in (0.5, -0.5, 0.0001, -0.0001, 0.0)] == [
        "+0.500", "−0.500", "0.000", "0.000", "0.000",
    ]  # fmt: skip
    assert [number(v, 1) for v in (-2, -0.01, math.inf, -math.inf)] == ["−2.0", "0.0", "∞", "−∞"]


def test_times():
    assert [duration(s) for s in (0.5, 59.96, 3600)] == ["0.5 s", "1 min 0 s", "1 h 0 min"]


@given(INSIDE)
def test_what_is_entered_can_be_read_back(value):
    text = entered(value)
    assert 0 < float(text) < 1
    assert float(text) == pytest.approx(value, abs=5.001e-4)  # half of a digit, rounded


@given(st.floats(1, 1e14))
def test_sizes_have_few_digits_and_say_what_they_are(value):
    for text, base, units in (
        (about(value), 1000, ["", "k", "M", "G", "T"]),
        (size(value), 1024, ["B", "KiB", "MiB", "GiB", "TiB"]),
    ):
        amount, _, unit = text.partition(" ")
        assert sum(letter.isdigit() for letter in amount) <= 4
        told = float(amount.replace(",", "")) * base ** units.index(unit)
        assert told == pytest.approx(value, rel=0.006)
