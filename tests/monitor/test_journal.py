"""A watch that is stopped at any time goes on, and every event is written once."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fotltn.errors import DataError
from fotltn.monitor.journal import Journal
from fotltn.monitor.sources import FollowedFile, Place, lines_of, redis_lines
from fotltn.monitor.steps import read_line
from fotltn.monitor.watch import Watch
from fotltn.syntax.load import parse_theory
from tests.patience import PATIENCE

pytestmark = pytest.mark.reliability

THEORY = """
sort s
static predicate k(s)
predicate a(s), b(s), r(s, s)
axiom A: forall x. G(a(x) -> F[1,5] b(x))
axiom B: forall x, y. G(r(x, y) & O[<=4] a(x) -> X !r(x, y))
axiom C: forall x. G(k(x) & a(x) -> F b(x))
axiom D: forall x. G(a(x) & Y a(x) -> exists y. r(x, y))
axiom E: G((exists x. a(x)) -> WX (forall y. !(a(y) & b(y))) & (forall z. F[<=3] !r(z, z)))
"""


def lines(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    steps = []
    for t in range(count):
        names = [f"e{n}" for n in range(min(3 + t // 40, 9))]
        facts: list[list[object]] = [[p, n] for p in "ab" for n in names if rng.random() < 0.15]
        facts += [["r", x, y] for x in names for y in names if rng.random() < 0.03]
        if t == 0:
            facts += [["k", "e0"], ["k", "e2"]]
        steps.append(json.dumps({"facts": facts}))
    return steps


def plain(steps: list[str], **options) -> list[dict[str, Any]]:
    watch = Watch(parse_theory(THEORY), **options)
    return [event.as_dict() for event in watch.steps(steps)]


def written(folder: Path) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [event.pop("number") for event in events] == list(range(len(events)))
    assert {event.pop("schema") for event in events} <= {1}
    return events


def run(folder: Path, source: Path, rng: random.Random, stop: int, **options) -> bool:
    """Go on for some batches, then be gone; whether the input came to its end."""
    watch = Watch(parse_theory(THEORY), **options)
    with Journal(folder) as journal, source.open("rb") as file:
        journal.resume(watch)
        place = Place(*(journal.place or (0, 0)))
        file.seek(place.offset)
        todo = [one for batch in lines_of(file, "steps", place) for one in batch]
        while todo and stop:
            room = rng.randint(1, 40)
            journal.write(watch.steps(read_line(one.line) for one in todo[:room]))
            if rng.random() < 0.3:
                journal.save(watch, [todo[:room][-1].after, todo[:room][-1].line.number])
            todo = todo[room:]
            stop -= 1
    return not todo


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"resolved": True, "forget": 30},
        {"resolved": True, "forget": 2},
        {"horizon": 400, "window": 3},
        {"presence": ["a"], "forget": 9},
    ],
)
def test_every_event_is_written_once_however_often_it_is_stopped(tmp_path, options):
    source, rng = tmp_path / "steps.jsonl", random.Random(1)
    steps = lines(400)
    source.write_text("\n".join(steps) + "\n")
    folder = tmp_path / "state"
    stops = 0
    while not run(folder, source, rng, rng.randint(1, 9), **options):
        stops += 1
        if rng.random() < 0.5:  # a line that was not written to its end
            with (folder / "events.jsonl").open("ab") as file:
                file.write(b'{"schema": 1, "number": 7, "ev')
        elif rng.random() < 0.3:  # or was not written at all
            path = folder / "events.jsonl"
            saved = (
                json.loads(at.read_text())["bytes"] if (at := folder / "watch.json").exists() else 0
            )
            if (size := path.stat().st_size) > saved:
                os.truncate(path, rng.randint(saved, size))
    assert stops > 5
    expected = plain(steps, **options)
    assert len(expected) > 200
    assert written(folder) == json.loads(json.dumps(expected))


def test_an_input_that_cannot_be_read_again_is_kept(tmp_path):
    steps, rng = lines(150), random.Random(2)
    folder, done = tmp_path / "state", 0
    for _ in range(200):
        watch = Watch(parse_theory(THEORY))
        with Journal(folder, keep_input=True) as journal:
            journal.resume(watch)
            journal.write(watch.steps(journal.again))
            assert watch.count == done
            for _ in range(rng.randint(1, 4)):
                room = rng.randint(1, 10)
                journal.note(steps[done : done + room])
                journal.write(watch.steps(steps[done : done + room]))
                done = min(done + room, len(steps))
                if rng.random() < 0.3:
                    journal.save(watch, None)
        if done == len(steps):
            break
    assert written(folder) == json.loads(json.dumps(plain(steps)))
    assert len(list(folder.glob("input-*"))) == 1


def test_a_state_of_another_theory_is_refused(tmp_path):
    watch = Watch(parse_theory(THEORY))
    with Journal(tmp_path) as journal:
        journal.resume(watch)
        watch.step([("a", "u")])
        journal.save(watch, None)
        other = Watch(parse_theory("predicate a\naxiom A: G a"))
        with pytest.raises(DataError, match="does not fit: another theory"):
            journal.resume(other)
        with pytest.raises(DataError, match="does not fit: another set of options"):
            journal.resume(Watch(parse_theory(THEORY), threshold=0.7))
        (tmp_path / "watch.json").write_text("{")
        with pytest.raises(DataError, match=r"watch\.json is damaged"):
            journal.resume(Watch(parse_theory(THEORY)))


def test_a_file_that_grows_is_followed(tmp_path):
    path = tmp_path / "steps.jsonl"
    path.write_text('{"facts": []}\n{"fac')
    with closing(FollowedFile(path)) as file:
        batches = lines_of(file, "steps")
        assert [one.line.text for one in next(batches)] == ['{"facts": []}']
        assert next(batches) == []
        with path.open("a") as more:
            more.write('ts": [1]}\n')
        while not (batch := next(batches)):
            pass
        assert [(one.line.text, one.line.number) for one in batch] == [('{"facts": [1]}', 2)]
        assert batch[0].after == path.stat().st_size
        path.unlink()
        path.write_text('{"facts": [2]}\n')
        while not (batch := next(batches)):
            pass
        assert [(one.line.text, one.line.number) for one in batch] == [('{"facts": [2]}', 1)]


def test_files_replace_each_other_without_end(tmp_path, monkeypatch):
    """As logs are rotated; the last line of each may lack its line feed."""
    monkeypatch.setattr("fotltn.monitor.sources._PAUSE", 0.0)
    path, aside = tmp_path / "steps.jsonl", tmp_path / "next.jsonl"
    path.write_text("0a\n0b")
    with closing(FollowedFile(path)) as file:
        batches, seen = lines_of(file, "steps"), []
        opened = {file.file}
        for number in range(1, 1501):
            seen += [one.line.text for one in next(batches)]
            aside.write_text(f"{number}a\n{number}b")
            aside.replace(path)
            for _ in range(5):
                if len(seen) == 2 * number:
                    break
                seen += [one.line.text for one in next(batches)]
            opened.add(file.file)
        assert seen == [f"{n}{letter}" for n in range(1500) for letter in "ab"]
        assert sum(not one.closed for one in opened) == 1


# --- the command ------------------------------------------------------------------------------


def command(theory: Path, *args: object) -> list[str]:
    return [sys.executable, "-m", "fotltn", "watch", str(theory), *map(str, args)]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_is_killed_again_and_again(tmp_path):
    """A file that grows, while the command that follows it is killed."""
    theory, source, folder = tmp_path / "t.fot", tmp_path / "steps.jsonl", tmp_path / "state"
    theory.write_text(THEORY)
    steps = lines(20_000)
    source.write_text("")

    def grow() -> None:
        with source.open("a") as file:
            for start in range(0, len(steps), 100):
                file.write("\n".join(steps[start : start + 100]) + "\n")
                file.flush()
                time.sleep(0.1)

    growing = threading.Thread(target=grow)
    growing.start()
    rng, kills = random.Random(3), 0
    call = command(theory, "--input", source, "--follow", "--state", folder, "--save-every", 500)
    while growing.is_alive():
        process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(2, 6))
        process.kill()
        process.wait()
        kills += 1
    growing.join()
    done = subprocess.run(
        command(theory, "--input", source, "--state", folder), capture_output=True, text=True
    )
    assert done.returncode == 3, done.stderr
    assert kills > 3
    assert written(folder) == json.loads(json.dumps(plain(steps)))


# --- a broker ---------------------------------------------------------------------------------


@contextmanager
def redis_server(socket: Path, *options: str) -> Iterator[None]:
    """A Redis server of our own, which is killed in the end."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed (Debian: apt-get install redis-server)")
    socket.unlink(missing_ok=True)
    call = [program, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", socket.parent]
    process = subprocess.Popen([*map(str, call), *options], stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            if socket.exists():
                break
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[tuple[str, Any]]:
    """The address of a Redis server of our own, and a client of it."""
    redis = pytest.importorskip("redis", reason="the package redis is not installed")
    socket = tmp_path / "redis.sock"
    with redis_server(socket), redis.Redis.from_url(f"unix://{socket}") as client:
        yield f"unix://{socket}", client


def test_a_redis_server_that_is_gone_for_a_while_is_waited_for(tmp_path):
    redis = pytest.importorskip("redis", reason="the package redis is not installed")
    socket = tmp_path / "redis.sock"
    notes: list[str] = []
    kept = ["--appendonly", "yes", "--appendfsync", "always"]
    steps = lines(9)
    with redis_server(socket, *kept), redis.Redis.from_url(f"unix://{socket}") as client:
        for step in steps[:5]:
            client.xadd("steps", {"step": step})
        batches = redis_lines(f"unix://{socket}", "steps", pause=0.01, note=notes.append)
        read = [one.line.text for one in next(batches)]
    assert next(batches) == []
    assert next(batches) == []
    with redis_server(socket, *kept), redis.Redis.from_url(f"unix://{socket}") as client:
        for step in steps[5:]:
            client.xadd("steps", {"step": step})
        while len(read) < len(steps):
            read += [one.line.text for one in next(batches)]
    assert read == steps
    gone, back = notes
    assert "does not answer; waiting for it" in gone
    assert back == f"unix://{socket} answers again"


def test_a_redis_server_that_never_answered_is_an_error(tmp_path):
    pytest.importorskip("redis", reason="the package redis is not installed")
    with pytest.raises(DataError, match="cannot read the stream 'steps'"):
        next(redis_lines(f"unix://{tmp_path}/none", "steps", pause=0.01))


def test_a_redis_stream_that_was_begun_again_is_refused(broker):
    """A clock that was set back gives entries with lower numbers, which would never be read."""
    url, client = broker
    client.xadd("steps", {"step": '{"facts": []}'}, id="1700000000000-0")
    batches = redis_lines(url, "steps", pause=0.01)
    assert len(next(batches)) == 1
    client.delete("steps")
    assert next(batches) == []
    client.xadd("steps", {"step": '{"facts": []}'}, id="1600000000000-3")
    with pytest.raises(DataError, match="error: the stream 'steps' is not the one") as caught:
        next(batches)
    assert "its last entry is 1600000000000-3" in str(caught.value)
    assert "cannot read" not in str(caught.value)
    client.xadd("steps", {"step": '{"facts": []}'}, id="1700000000000-1")
    (one,) = next(redis_lines(url, "steps", "1700000000000-0", pause=0.01))
    assert one.after == "1700000000000-1"
    client.xtrim("steps", 0)
    assert next(redis_lines(url, "steps", "1700000000000-1", pause=0.01)) == []


def test_a_redis_stream_is_read(broker, tmp_path):
    url, client = broker
    steps = lines(60)
    for step in steps[:40]:
        client.xadd("steps", {"step": step})
    first = next(redis_lines(url, "steps", pause=0.01))
    assert [one.line.text for one in first] == steps[:40]
    for step in steps[40:]:
        client.xadd("steps", {"step": step})
    # Another reader goes on where a journal says that the first one was.
    folder = tmp_path / "state"
    watch = Watch(parse_theory(THEORY))
    with Journal(folder) as journal:
        journal.resume(watch)
        journal.write(watch.steps(read_line(one.line) for one in first[:25]))
        journal.save(watch, first[24].after)
    watch = Watch(parse_theory(THEORY))
    with Journal(folder) as journal:
        journal.resume(watch)
        rest = next(redis_lines(url, "steps", journal.place, pause=0.01))
        journal.write(watch.steps(read_line(one.line) for one in rest))
    assert written(folder) == json.loads(json.dumps(plain(steps)))
    client.xadd("other", {"words": "none"})
    (other,) = next(redis_lines(url, "other"))
    assert other.refused is not None
    assert "has no field 'step'" in other.refused
    client.set("text", "x")
    with pytest.raises(DataError, match="cannot read the stream 'text'"):
        next(redis_lines(url, "text"))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:se:cret@localhost?db=x", "redis://:***@localhost?db=x"),
        ("redis://me:se@cret@localhost?db=x", "redis://me:***@localhost?db=x"),
        ("redis://localhost?password=se.cret&db=x", "redis://localhost?password=***&db=x"),
        ("redis://localhost:6379?db=x", "redis://localhost:6379?db=x"),
    ],
)
def test_a_password_is_not_shown(url, shown):
    pytest.importorskip("redis", reason="the package redis is not installed")
    with pytest.raises(DataError) as caught:
        next(redis_lines(url, "steps"))
    assert f"of {shown}: " in str(caught.value)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "bad",
    [
        {"words": "none"},
        {"step": b'{"facts": [["a", "\xff"]]}'},
        {"step": '{"entities": {}}'},
    ],
)
def test_entries_before_a_bad_one_are_judged(broker, tmp_path, bad):
    url, client = broker
    theory, folder = tmp_path / "t.fot", tmp_path / "state"
    theory.write_text("predicate p\naxiom P: G p")
    for entry in [{"step": '{"entities": {}}'}, *[{"step": '{"facts": []}'}] * 2, bad]:
        client.xadd("steps", entry)
    call = command(theory, "--redis", f"{url}/steps", "--state", folder)
    for _ in range(2):  # refused again, with nothing written twice
        done = subprocess.run(call, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 1, done.stderr
        assert "the next run continues at line 1 of steps" in done.stderr
        assert [event["time"] for event in written(folder)] == [0, 1]
    place = json.loads((folder / "watch.json").read_text())["place"]
    assert client.xrange("steps")[2][0].decode() in str(place)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_is_killed_while_it_reads_a_redis_stream(broker, tmp_path):
    url, client = broker
    theory, folder = tmp_path / "t.fot", tmp_path / "state"
    theory.write_text(THEORY)
    steps = lines(6000)
    wanted = json.loads(json.dumps(plain(steps)))
    call = command(theory, "--redis", f"{url}/steps", "--state", folder, "--save-every", 300)
    rng, kills, sent = random.Random(5), 0, 0
    while sent < len(steps) or len(written(folder)) < len(wanted):
        process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + rng.uniform(4, 8)
        while time.monotonic() < until:
            for step in steps[sent : sent + 40]:
                client.xadd("steps", {"step": step})
            sent += 40
            time.sleep(0.05)
        process.kill()
        process.wait()
        kills += 1
    assert kills > 1
    assert written(folder) == wanted
