"""`fotltn watch`: lines in, violations out."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fotltn.cli.main import app
from fotltn.errors import DataError
from fotltn.monitor.sources import FollowedFile
from fotltn.monitor.watch import Watch
from tests.cli.conftest import EXAMPLE
from tests.patience import PATIENCE

FOLDER = EXAMPLE.parent / "monitor"
THEORY, STEPS = str(FOLDER / "crossing.fot"), FOLDER / "steps.jsonl"


def run(*args: str, text: str | bytes | None = None):
    return CliRunner().invoke(app, ["watch", THEORY, *args], input=text)


def events(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


def test_every_violation_as_json():
    result = run("--json", text=STEPS.read_text())
    assert result.exit_code == 3
    *told, last = events(result.stdout)
    assert {event["schema"] for event in [*told, last]} == {1}
    assert [(e["event"], e["axiom"], e["time"], e["step"]) for e in told] == [
        ("violation", "Looks", 4, 4), ("violation", "Yield", 4, 5), ("violation", "Looks", 5, 5),
        ("undecided", "Safe", 4, 5), ("undecided", "Safe", 5, 5),
    ]  # fmt: skip
    assert told[1]["binding"] == {"x": "ego", "y": "bo"}
    assert (last["event"], last["steps"], last["held_back"]) == ("standings", 6, 0)


def test_levels_hold_back_and_count():
    result = run("--json", "--at-most", "1", "--input", str(STEPS))
    told = [e["event"] for e in events(result.stdout)]
    assert told == ["violation", "undecided", "undecided", "standings"]
    assert events(result.stdout)[-1]["held_back"] == 2
    result = run("--hard-only", "--input", str(STEPS))
    assert "3 violations were not reported." in result.stdout


def test_it_goes_on_from_its_state(tmp_path):
    lines = STEPS.read_text().splitlines()
    state = str(tmp_path / "state")
    first = run("--json", "--state", state, text="\n".join(lines[:6]) + "\n")
    second = run("--json", "--state", state, "--end", "undecided", text="\n".join(lines[6:]))
    assert "continues after step 4" in second.stderr
    told = [
        {k: v for k, v in e.items() if k != "number"}
        for e in events((tmp_path / "state" / "events.jsonl").read_text())
    ]
    plain = events(run("--json", text=STEPS.read_text()).stdout)
    assert told == plain[:-1]
    assert events(first.stdout)[:-1] + events(second.stdout)[:-1] == told


def test_every_so_often_it_says_how_axioms_stand():
    result = run("--every", "3", "--input", str(STEPS))
    assert "3 steps, after step 2:" in result.stdout
    assert "6 steps, after step 5:" in result.stdout


@pytest.mark.parametrize(
    ("args", "text", "message"),
    [
        (["--follow"], None, "--follow needs a file to follow"),
        (["--input", "none.jsonl"], None, "cannot read none.jsonl"),
        (["--redis", "redis://localhost/s", "--input", "x"], None, "not from both"),
        ([], '{"facts": [["Crosing", "ann"]]}', "did you mean 'Crossing'?"),
        ([], '{"facts": []}\n{"entities": {}}', "'entities' belongs to the first line"),
        ([], "", "a trace has at least one step"),
        (["--presence", "Close"], '{"facts": []}', "does not say where entities are present"),
    ],
)
def test_errors_say_what_is_wrong(args, text, message):
    result = run(*args, text=text)
    assert result.exit_code == 1
    assert message in str(result.exception)


# --- a folder of state ------------------------------------------------------------------------

CROSS = '{"facts": [["Crossing", "bo"]]}'
BAD = '{"facts": [["Crosing", "bo"]]}'


def times(path: Path) -> list[object]:
    """The time points of the violations in a file of events."""
    return [one["time"] for one in events(path.read_text()) if one["event"] == "violation"]


@pytest.mark.parametrize("bad", [BAD.encode(), b'{"facts": [["Crossing", "\xff"]]}', b"{"])
def test_a_line_that_is_refused_loses_nothing_else(tmp_path, bad):
    """What came before it is told and written, and the next run continues after it."""
    state = tmp_path / "state"
    text = b"\n".join([CROSS.encode()] * 2 + [bad] + [CROSS.encode()] * 2) + b"\n"
    first = run("--json", "--state", str(state), text=text)
    assert first.exit_code == 1
    assert "<stdin>:3:" in str(first.exception)
    assert "the next run continues after line 3 of <stdin>" in first.stderr
    assert [one["time"] for one in events(first.stdout)] == [0, 1]
    assert times(state / "events.jsonl") == [0, 1]
    second = run("--json", "--state", str(state), text=CROSS + "\n")
    assert second.exit_code == 3
    assert [one["time"] for one in events(second.stdout)[:-1]] == [2, 3, 4]
    assert times(state / "events.jsonl") == [0, 1, 2, 3, 4]


def test_a_refused_line_of_a_killed_run_is_refused_once(tmp_path):
    """A run that was killed before it could leave out the line that it was about to refuse."""
    state = tmp_path / "state"
    state.mkdir()
    header = '{"entities": {"car": ["ego"]}}'
    (state / "input-0.jsonl").write_text(f"{header}\n{CROSS}\n{BAD}\n{CROSS}\n")
    first = run("--json", "--state", str(state), text="")
    assert "input-0.jsonl:3:" in str(first.exception)
    assert run("--json", "--state", str(state), text="").exit_code == 3
    assert times(state / "events.jsonl") == [0, 1]


def test_a_first_line_that_is_refused_is_not_kept(tmp_path):
    for bad in (BAD, '{"entities": {"cat": ["tom"]}}'):
        state = str(tmp_path / "state")
        assert run("--state", state, text=f"{bad}\n{CROSS}\n").exit_code == 1
        assert run("--state", state, text=f"{CROSS}\n").exit_code == 3


def test_after_a_refused_line_of_a_file_the_place_is_saved(tmp_path):
    source, state = tmp_path / "steps.jsonl", tmp_path / "state"
    source.write_text(f"{CROSS}\n{BAD}\n{CROSS}\n")
    for told in ([0], []):  # refused again, with nothing told twice
        result = run("--json", "--input", str(source), "--state", str(state))
        assert result.exit_code == 1
        assert "continues at line 2 of" in result.stderr
        assert [one["time"] for one in events(result.stdout)] == told
    source.write_text(f"{CROSS}\n{CROSS}\n{CROSS}\n")
    assert run("--input", str(source), "--state", str(state)).exit_code == 3
    assert times(state / "events.jsonl") == [0, 1, 2]


@pytest.mark.parametrize("every", [[], ["--every", "2"]])
def test_errors_can_be_skipped(tmp_path, every):
    state = tmp_path / "state"
    text = "\n".join([BAD, CROSS, BAD, BAD, CROSS, CROSS, "{"]) + "\n"
    args = ["--skip-errors", "--state", str(state), "--save-every", "1", *every]
    result = run(*args, text=text)
    assert result.exit_code == 3
    assert [f"<stdin>:{n}:" in result.stderr for n in range(1, 8)] == [
        True, False, True, True, False, False, True,
    ]  # fmt: skip
    assert "4 lines were skipped." in result.stderr
    assert result.stdout.count("2 steps, after step 1:") == len(every) // 2
    assert times(state / "events.jsonl") == [0, 1, 2]
    over = run("--skip-errors", "--horizon", "1", text=f"{CROSS}\n{CROSS}\n")
    assert "the horizon is 1, but there are more steps" in str(over.exception)


def test_lines_that_were_not_taken_yet_survive_a_snapshot(tmp_path, monkeypatch):
    """A run that is killed right after a snapshot in the middle of what it has received."""
    from fotltn.monitor.journal import Journal

    state, save = tmp_path / "state", Journal.save

    class KilledError(Exception):
        """Stands for a kill."""

    def save_and_die(self, *args):
        save(self, *args)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "save", save_and_die)
        args = ["--every", "2", "--save-every", "2"]
        result = run("--state", str(state), *args, text=f"{CROSS}\n" * 7)
        assert isinstance(result.exception, KilledError)
    assert times(state / "events.jsonl") == [0, 1]
    assert run("--state", str(state), text="").exit_code == 3
    assert times(state / "events.jsonl") == [0, 1, 2, 3, 4, 5, 6]


def test_a_file_that_replaces_another_may_repeat_its_header(tmp_path, monkeypatch):
    """The same header is passed over, also by a later run; another one is refused."""
    monkeypatch.setattr("fotltn.monitor.sources._PAUSE", 0.0)
    header, state = '{"entities": {"car": ["ego"]}}', tmp_path / "state"
    source, aside = tmp_path / "steps.jsonl", tmp_path / "next.jsonl"
    source.write_text(f"{header}\n{CROSS}\n{CROSS}")
    following = [
        f"{header.replace(': ', ':')}\n{CROSS}\n",
        f"{header.replace('ego', 'other')}\n{CROSS}\n",
    ]

    def rotate(_seconds: float) -> None:
        aside.write_text(following.pop(0))
        aside.replace(source)

    monkeypatch.setattr("fotltn.monitor.sources.time.sleep", rotate)
    result = run("--input", str(source), "--follow", "--state", str(state))
    assert "this header is not the one that the watch began with" in str(result.exception)
    assert "steps.jsonl:1:1" in str(result.exception)
    assert times(state / "events.jsonl") == [0, 1, 2]
    state = tmp_path / "other"
    for _ in range(2):
        assert run("--state", str(state), text=f"{header}\n{CROSS}\n").exit_code == 3
    assert times(state / "events.jsonl") == [0, 1]


def test_a_file_is_known_again(tmp_path):
    """A copy is the same file; another one is refused, or read from its start if it is followed."""
    source, state, copy = tmp_path / "steps.jsonl", str(tmp_path / "state"), tmp_path / "copy.jsonl"
    source.write_text(f"{CROSS}\n{CROSS}")
    assert run("--input", str(source), "--state", state).exit_code == 3
    for _ in range(2):  # nothing new; the place stays
        again = run("--json", "--input", str(source), "--state", state)
        assert [one["event"] for one in events(again.stdout)] == ["standings"]
    copy.write_text(f"{CROSS}\n{CROSS}\n{CROSS}\n")
    assert run("--input", str(copy), "--state", state).exit_code == 3
    assert times(tmp_path / "state" / "events.jsonl") == [0, 1, 2]
    source.write_text('{"facts": [["Crossing", "al"]]}\n' * 9)
    other = run("--input", str(source), "--state", state)
    assert "is not the file that was read up to line 3: " in str(other.exception)
    copy.write_text(source.read_text())
    changed = run("--input", str(copy), "--state", state)
    assert "was replaced, or changed before line 4" in str(changed.exception)
    assert "use another folder for --state" in str(changed.exception)
    copy.write_text(f"{CROSS}\n")  # shorter than what was read
    assert "was replaced" in str(run("--input", str(copy), "--state", state).exception)


def followed(source: Path, state: Path, monkeypatch, *then: str):
    """Follow a file that is replaced again and again, until Ctrl-C."""
    following = list(then)

    def rotate(_seconds: float) -> None:
        if not following:
            raise KeyboardInterrupt
        aside = source.with_suffix(".next")
        aside.write_text(following.pop(0))
        aside.replace(source)

    monkeypatch.setattr("fotltn.monitor.sources.time.sleep", rotate)
    return run("--json", "--input", str(source), "--follow", "--state", str(state))


def test_a_file_that_was_replaced_between_runs_is_read_from_its_start(tmp_path, monkeypatch):
    """Every event is written once, though a snapshot was of the file before."""
    source, state = tmp_path / "steps.jsonl", tmp_path / "state"
    source.write_text(f"{CROSS}\n" * 3)
    first = followed(source, state, monkeypatch, f"{CROSS} \n", f"{CROSS}\n{CROSS}")
    assert first.exit_code == 130
    assert times(state / "events.jsonl") == [0, 1, 2, 3, 4]
    source.write_text(f"{CROSS}\n{CROSS}\n{CROSS}\n")  # goes on
    second = followed(source, state, monkeypatch)
    assert times(state / "events.jsonl") == [0, 1, 2, 3, 4, 5, 6]
    assert "was replaced" not in second.stderr
    source.write_text(f"  {CROSS}\n")
    third = followed(source, state, monkeypatch)
    assert "was replaced, and is now read from its start; the earlier file was" in third.stderr
    assert times(state / "events.jsonl")[-1] == events(third.stdout)[-2]["time"]
    numbers = [one["number"] for one in events((state / "events.jsonl").read_text())]
    assert numbers == list(range(8))


def test_a_state_of_another_kind_of_input_is_refused(tmp_path):
    state, file = str(tmp_path / "state"), str(tmp_path / "steps.jsonl")
    Path(file).write_text(f"{CROSS}\n")
    server = ["--redis", "redis://localhost:1/steps"]
    assert run("--input", file, "--state", state).exit_code == 3
    result = run(*server, "--state", state)
    assert "reads a file, not a Redis stream" in str(result.exception)
    assert "continue it with --input FILE" in str(result.exception)
    assert "not standard input" in str(run("--state", state, text=CROSS).exception)
    path = tmp_path / "state" / "watch.json"
    saved = json.loads(path.read_text())
    stream = {"source": "redis", "stream": "steps", "after": "1-0"}
    path.write_text(json.dumps({**saved, "place": stream}))
    result = run("--input", file, "--state", state)
    assert "reads a Redis stream, not a file" in str(result.exception)
    result = run("--redis", "redis://localhost:1/other", "--state", state)
    assert "reads the stream 'steps', not 'other'" in str(result.exception)
    other = str(tmp_path / "other")
    assert run("--state", other, text=f"{CROSS}\n").exit_code == 3
    result = run("--input", file, "--state", other)
    assert "reads standard input, not a file" in str(result.exception)


@pytest.mark.parametrize(
    "damage",
    [
        {"place": "x"}, {"place": [0, 0]}, {"place": {"source": "file"}}, {"events": "5"},
        {"bytes": -1}, {"bytes": None}, {"watch": []}, {"header": 3}, {"offset": "5"},
        {"lines": -1}, {"count": "5"}, {"axioms": []},
    ],
)  # fmt: skip
def test_a_damaged_snapshot_is_an_error_that_says_so(tmp_path, damage):
    source, path = tmp_path / "steps.jsonl", tmp_path / "state" / "watch.json"
    source.write_text(f"{CROSS}\n")
    args = ["--input", str(source), "--state", str(path.parent)]
    assert run(*args).exit_code == 3
    saved = json.loads(path.read_text())
    for part in (saved, saved["place"], saved["watch"]):
        part |= {key: value for key, value in damage.items() if key in part}
    path.write_text(json.dumps(saved))
    result = run(*args)
    assert result.exit_code == 1
    assert isinstance(result.exception, DataError)
    assert "watch.json is damaged: " in str(result.exception)


def test_lines_end_at_line_feeds_alone(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    names = ["a\u2028b", "a\u0085b", "a\u2029b"]
    lines = [json.dumps({"facts": [["Crossing", n]]}, ensure_ascii=False) for n in names]
    (state / "input-0.jsonl").write_bytes(("\n".join(lines) + "\n").encode())
    result = run("--json", "--state", str(state), text="")
    assert result.exit_code == 3
    told = (state / "events.jsonl").read_text("utf-8").split("\n")[:-1]
    assert [json.loads(one)["binding"] for one in told] == [{"y": name} for name in names]


@pytest.mark.parametrize("source", ["file", "stdin"])
def test_a_full_disk_loses_no_event(tmp_path, source):
    """What a limit on files cuts off is written by the next run, once."""
    resource = pytest.importorskip("resource")
    steps = tmp_path / "steps.jsonl"
    steps.write_text("".join(f'{{"facts": [["Crossing", "p{n % 7}"]]}}\n' for n in range(400)))
    state = tmp_path / "state"
    call = [sys.executable, "-m", "fotltn", "watch", THEORY, "--state", str(state)]
    call += ["--save-every", "50"]
    with steps.open("rb") as text:
        full = subprocess.run(
            call + (["--input", str(steps)] if source == "file" else []),
            stdin=text, capture_output=True, text=True, timeout=PATIENCE, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000)),
        )  # fmt: skip
    assert full.returncode == 1
    assert f"cannot write {state / 'events.jsonl'}: " in full.stderr
    rest = ["--input", str(steps)] if source == "file" else []
    assert run("--state", str(state), *rest, text="").exit_code == 3
    run("--state", str(tmp_path / "other"), "--input", str(steps))
    told, wanted = ((tmp_path / n / "events.jsonl").read_text() for n in ("state", "other"))
    assert told == wanted
    assert len(events(told)) == 400


def test_the_place_in_a_file_is_looked_up_for_snapshots(tmp_path, monkeypatch):
    """Not after every step: it is told by thousands of bytes."""
    marks: list[int] = []
    mark = FollowedFile.mark

    def counting(self: FollowedFile, offset: int) -> str | None:
        marks.append(offset)
        return mark(self, offset)

    monkeypatch.setattr(FollowedFile, "mark", counting)
    steps = tmp_path / "steps.jsonl"
    steps.write_text('{"facts": [["Crossing", "bo"]]}\n' * 100)
    result = run("--state", str(tmp_path / "state"), "--input", str(steps), "--every", "1")
    assert result.stdout.count("after step") == 100
    assert len(marks) < 10
    place = json.loads((tmp_path / "state" / "watch.json").read_text())["place"]
    assert (place["offset"], place["lines"]) == (steps.stat().st_size, 100)


def test_ctrl_c_stops_between_steps_and_the_next_run_continues(tmp_path):
    """Even with --end: a watch with a state was stopped, and its trace did not end."""
    steps = tmp_path / "steps.jsonl"
    steps.write_text(
        "".join(f'{{"facts": [["Crossing", "p{n % 7}"]]}}\n' for n in range(200))
        + '{"facts": [["OnSidewalk", "p1"]]}\n'
    )
    state, other = tmp_path / "state", tmp_path / "other"
    args = ["--input", str(steps), "--end", "final", "--every", "1", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fotltn", "watch", THEORY, *args, "--state", str(state)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()  # in the middle of many lines
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    told = run(*args, "--state", str(state))
    assert told.exit_code == 3, told.stderr
    run(*args, "--state", str(other))
    assert (state / "events.jsonl").read_text() == (other / "events.jsonl").read_text()


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_waits_for_the_end_of_a_step_unless_it_comes_twice(times, monkeypatch):
    """Without a state, one ends the trace where it was, and two end the program at once."""
    step, done = Watch.steps, []

    def slow(self: Watch, lines):
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        yield from step(self, lines)
        done.append(self.count)

    monkeypatch.setattr(Watch, "steps", slow)
    result = run("--input", str(STEPS), "--every", "2")
    assert result.exit_code == 130
    assert done == ([2] if times == 1 else [])
    assert ("2 steps, in all" in result.stdout) == (times == 1)
