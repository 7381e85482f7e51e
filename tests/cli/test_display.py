"""What training looks like in a terminal: the worst axioms first, with where they go."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.styled import Styled

from fotltn.cli.display import Display, shade, trend
from fotltn.cli.terminal import Terminal, bar, following
from fotltn.cli.train import say_next
from fotltn.learn.progress import Epoch
from fotltn.stop import doing


@pytest.fixture
def screen(monkeypatch) -> io.StringIO:
    """What a terminal of 90 columns was told."""
    stream = io.StringIO()

    def made(_: object) -> Terminal:
        return Terminal(stream, force_terminal=True, width=90, height=30, color_system=None)

    monkeypatch.setattr("fotltn.cli.display.Terminal", made)
    monkeypatch.setattr("fotltn.cli.terminal.Terminal", made)
    return stream


def epoch(number: int, **values: float) -> Epoch:
    return Epoch(number, 1 / number, 0.5, 0.25, values, 0.125, best=number == 2)


def test_the_worst_axioms_come_first_with_colour_and_trend(screen):
    display = Display()
    display.go_live()
    display.epoch(epoch(1, High=0.95, Low=0.3, Mid=0.7))
    display.epoch(epoch(2, High=0.95, Low=0.4, Mid=0.6))
    rows = display.axioms(2)
    names, values, _, trends = (list(column.cells) for column in rows.columns)
    assert names == ["Low", "Mid", "…"]
    shown = [(cell.renderable, cell.style) for cell in values if isinstance(cell, Styled)]
    assert shown == [("0.400", "red"), ("0.600", "yellow")]
    assert trends == ["↑", "↓", ""]
    assert "1 more, from 0.950 on" in list(rows.columns[2].cells)
    display.end(None)
    assert "loss" in screen.getvalue()


def test_a_resumed_training_says_where_it_continues(capsys):
    display = Display()
    display.resume([epoch(number, A=0.1 * number) for number in (1, 2, 3)])
    assert (display.best, display.recent[-1].number) == (2, 3)
    display.epoch(epoch(4, A=0.5))
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "continues after epoch 3"
    assert told[1].startswith("epoch 4: ")


def test_a_summary_stays(screen):
    display = Display()
    display.go_live()
    for number in (1, 2, 3):
        display.epoch(epoch(number, A=0.2 * number, B=0.9))
    display.end(object())  # type: ignore[arg-type]
    _, _, after = screen.getvalue().rpartition("the lowest first")
    lines = after.splitlines()
    (first,) = [line for line in lines if "0.600" in line]
    assert "↑ +0.400" in first
    assert lines.index(first) < next(n for n, line in enumerate(lines) if "0.900" in line)


def test_what_comes_next_is_said_to_people(screen, capsys):
    class Trained:
        posterior = None

    say_next(Path("crossing"), Trained())  # type: ignore[arg-type]
    assert "Next:\n  fotltn violations crossing\n  fotltn report crossing" in screen.getvalue()
    assert capsys.readouterr().err == ""


def test_where_nobody_looks_on_nothing_comes_next(capsys):
    say_next(Path("crossing"), None)  # type: ignore[arg-type]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("value", "colour"), [(0.2, "red"), (0.89, "yellow"), (0.9, "green")])
def test_degrees_have_colours(value, colour):
    assert shade(value) == colour


def test_a_small_change_is_none():
    assert [trend(change) for change in (0.001, 0.01, -0.01)] == ["·", "↑", "↓"]


@pytest.mark.parametrize("quiet", [False, True])
def test_long_work_has_lines_in_a_log(capsys, monkeypatch, quiet):
    monkeypatch.setattr("fotltn.cli.terminal.SECONDS", -1.0)
    with bar("samplings", quiet=quiet) as moved:
        moved(3, 1200)
    with following("formulas", quiet=quiet):
        doing("A1")
    told = "" if quiet else "samplings: 3 of 1,200\nformulas: A1\n"
    assert capsys.readouterr().err == told
