"""Numbers that follow the epochs."""

import math

import pytest

from fotltn import DataError
from fotltn.learn.schedule import Schedule, schedule


def test_a_number_is_constant():
    found = schedule(3, "p")
    assert [found.at(e) for e in (0, 1, 100, math.inf)] == [3.0] * 4
    assert found.as_json() == 3.0
    assert found.end == -math.inf


def test_values_are_linear_between_points_and_constant_outside():
    found = schedule([[10, 1.0], [20, 3.0], [40, 2.0]], "p")
    expected = {-5: 1, 0: 1, 10: 1, 12: 1.4, 15: 2, 20: 3, 30: 2.5, 40: 2, 41: 2, math.inf: 2}
    for epoch, value in expected.items():
        assert found.at(epoch) == pytest.approx(value)
    assert found.end == 40


def test_what_is_written_is_read_again():
    for given in (2, [[0, 1.0], [5, 2.0]], ((0, 1), (7, 9.5))):
        found = schedule(given, "p")
        assert schedule(found.as_json(), "p") == found
        assert schedule(found, "p") == found


def test_a_schedule_that_never_changes_has_no_end():
    assert schedule([[0, 1.0], [5, 1.0]], "p").end == -math.inf


@pytest.mark.parametrize(
    "given",
    [
        "4",
        None,
        True,
        [],
        [1, 2],
        [[0, 1, 2]],
        [[0, "a"]],
        [[0, True]],
        math.nan,
        [[0, math.nan]],
        {},
    ],
)
def test_what_is_no_schedule_is_refused(given):
    with pytest.raises(DataError, match="p of 'A1' must be a number, or a list of pairs"):
        schedule(given, "p of 'A1'")


@pytest.mark.parametrize("given", [[[0, 1], [0, 2]], [[5, 1], [0, 2]]])
def test_epochs_increase(given):
    with pytest.raises(DataError, match="increase"):
        schedule(given, "p")
    with pytest.raises(DataError, match="increase"):
        Schedule(tuple((float(e), float(v)) for e, v in given))


def test_values_have_limits():
    with pytest.raises(DataError, match=r"p must be at least 1, not 0\.5"):
        schedule(0.5, "p", low=1)
    with pytest.raises(DataError, match="rate must be from 0 to 1, not 2"):
        schedule([[0, 1], [3, 2]], "rate", high=1)


def test_a_schedule_has_a_point():
    with pytest.raises(DataError, match="at least one"):
        Schedule(())
