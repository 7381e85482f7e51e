"""What the environment says of the processes that train together, and how these share things."""

import pytest

from fotltn import DataError
from fotltn.files import MEETING
from fotltn.learn.ranks import ALONE, Ranks, meeting

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", MEETING)


@pytest.fixture(autouse=True)
def _nobody(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_a_process_that_was_started_by_itself_is_alone(monkeypatch):
    monkeypatch.setenv("RANK", "3")  # without saying of how many
    with meeting("cuda") as met:
        assert met == (ALONE, "cuda")


def test_a_group_of_one_tells_itself_everything(tmp_path, monkeypatch):
    place = (tmp_path / "meeting").as_uri()
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", MEETING: place}.items():
        monkeypatch.setenv(name, value)
    with meeting("cpu") as (ranks, device):
        assert (ranks, device) == (Ranks(0, 1), "cpu")
        assert ranks.objects("here") == ["here"]
        assert ranks.of_first(lambda: 5) == 5


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            {"RANK": "one", "WORLD_SIZE": "2"},
            "RANK='one', which is not a whole number of at least 0",
        ),
        (
            {"RANK": "0", "WORLD_SIZE": "-2"},
            "WORLD_SIZE='-2', which is not a whole number of at least 0",
        ),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "process 2 does not exist: RANK must be from 0 to 1"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "process 0 of 2 cannot meet the others: .*MASTER_ADDR"),
    ],
)
def test_what_makes_no_sense_is_refused(monkeypatch, said, message):
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(DataError, match=message), meeting("cpu"):
        pass


def test_shares_cover_everything_once():
    shares = Ranks(1, 4).shares(6)
    assert [list(share) for share in shares] == [[0], [1, 2], [3], [4, 5]]
    assert [len(share) for share in Ranks(0, 3).shares(1)] == [0, 0, 1]
