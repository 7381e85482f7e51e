"""Turn the tables of CAVIAR into tables of pairs of people, one row per ten frames.

    python -m reproduction.caviar.tables FOLDER OUT

FOLDER holds `persons.csv.gz`, `groups.csv.gz` and `videos.csv`, made from the public ground truth
of the EC funded CAVIAR project / IST 2001 37540, which asks to be acknowledged. They are not part
of this repository. The tables in OUT are `pairs.csv`, with one row per pair and step;
`triples.csv`, the three pairs of three people; `frames.csv`, the truth of each frame, for scoring;
and `split.csv`, the fold of each clip.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from fotltn.errors import DataError

#: The number of frames per step, at 25 frames per second.
STEP = 10
#: The number of frames before and after a frame over which a person's speed is measured.
AROUND = 12
#: The number of parts into which clips are divided; each part is tested on once.
FOLDS = 10
#: Two other labellings of the clip fomd3.
LEFT_OUT = ("fomd1", "fomd2")
#: The activities of groups in the tables, and their predicates.
SITUATIONS = {
    "moving": "Moving",
    "interacting": "Meeting",
    "fighting": "Fighting",
}
MOVEMENTS = ("walking", "running", "active", "inactive")
_COLUMNS = {
    "persons.csv.gz": ("video", "frame", "person", "x", "y", "width", "height", "orientation",
                       "movement"),
    "groups.csv.gz": ("video", "frame", "members", "situation"),
    "videos.csv": ("video",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """A person in a frame."""

    x: float
    y: float
    size: float
    orientation: float
    movement: str


Track = dict[int, Seen]
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Video:
    """A clip: who is seen when, and what each pair does in each frame, if it does anything."""

    name: str
    people: dict[int, Track]
    does: dict[tuple[int, int], dict[int, str]]

    def frames(self, pair: tuple[int, int]) -> list[int]:
        """Return the frames in which both of a pair are seen."""
        first, second = (self.people[one] for one in pair)
        return sorted(first.keys() & second.keys())

    def pairs(self) -> list[tuple[int, int]]:
        """Return all pairs that are seen together at some time."""
        return [pair for pair in combinations(sorted(self.people), 2) if self.frames(pair)]


def read(folder: Path) -> list[Video]:
    """Read the clips of a folder.

    Raises:
        DataError: a table or a column is missing, or a cell is not a number.
    """
    names = [row["video"] for _, row in _rows(folder, "videos.csv")]
    videos = {name: Video(name, {}, {}) for name in names if name not in LEFT_OUT}
    for line, row in _rows(folder, "persons.csv.gz"):
        if row["video"] in videos:
            try:
                number, frame = int(row["person"]), int(row["frame"])
                x, y, width, height, angle = (
                    float(row[name]) for name in ("x", "y", "width", "height", "orientation")
                )
            except ValueError as error:
                raise DataError(f"{folder / 'persons.csv.gz'}:{line}: {error}") from None
            seen = Seen(x, y, math.sqrt(width * height), angle, row["movement"])
            videos[row["video"]].people.setdefault(number, {})[frame] = seen
    for line, row in _rows(folder, "groups.csv.gz"):
        if row["video"] in videos:
            try:
                members = sorted(int(one) for one in row["members"].split(";"))
                frame = int(row["frame"])
            except ValueError as error:
                raise DataError(f"{folder / 'groups.csv.gz'}:{line}: {error}") from None
            for pair in combinations(members, 2):
                videos[row["video"]].does.setdefault(pair, {})[frame] = row["situation"]
    return list(videos.values())


def _rows(folder: Path, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    path = folder / name
    if not path.is_file():
        raise DataError(f"there is no '{name}' in '{folder}'")
    data = path.read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode("utf-8")
    rows = csv.DictReader(text.splitlines())
    if missing := [c for c in _COLUMNS[name] if c not in (rows.fieldnames or ())]:
        raise DataError(f"{path} has no column '{missing[0]}'")
    yield from enumerate(rows, 2)


# --- features of a pair ---------------------------------------------------------------------------


def speed(track: Track, frame: int) -> tuple[float, float]:
    """Return how far a person moves per frame, right and down, in sizes of a person."""
    around = [f for f in range(frame - AROUND, frame + AROUND + 1) if f in track]
    first, last = around[0], around[-1]
    time = max(last - first, 1) * track[frame].size
    return (track[last].x - track[first].x) / time, (track[last].y - track[first].y) / time


def distance(first: Seen, second: Seen) -> float:
    """Return the distance in pixels."""
    return math.hypot(first.x - second.x, first.y - second.y)


def between(first: float, second: float) -> float:
    """Return the angle between two directions, in degrees."""
    turn = abs(first - second) % 360
    return min(turn, 360 - turn)


def seen_of(video: Video, pair: tuple[int, int], frame: int) -> Row:
    """Measure a pair in a frame in which both are seen; the order of the two does not matter."""
    tracks = [video.people[one] for one in pair]
    first, second = (track[frame] for track in tracks)
    far, size = distance(first, second), (first.size + second.size) / 2
    (u1, v1), (u2, v2) = (speed(track, frame) for track in tracks)
    pace = sorted((math.hypot(u1, v1), math.hypot(u2, v2)))
    product = math.hypot(u1, v1) * math.hypot(u2, v2)
    together = [f for f in range(frame - AROUND, frame + AROUND + 1)
                if all(f in track for track in tracks)]  # fmt: skip
    ends = [distance(*(track[f] for track in tracks)) for f in (together[0], together[-1])]
    moves = [first.movement, second.movement]
    others = [
        min(distance(track[frame], first), distance(track[frame], second))
        for one, track in video.people.items()
        if one not in pair and frame in track
    ]
    begins = [min(track) for track in tracks]
    closing = (ends[0] - ends[1]) / (max(together[-1] - together[0], 1) * size)
    return {
        "distance": far,
        "log_distance": math.log1p(far),
        "distance_by_size": min(far / size, 10.0),
        "closing": closing,
        "drift": abs(closing) * 25,  # per second
        "turned": between(first.orientation, second.orientation),
        "facing": math.cos(math.radians(between(first.orientation, second.orientation))),
        "heading": (u1 * u2 + v1 * v2) / product if product > 1e-9 else 0.0,
        "slower": pace[0],
        "faster": pace[1],
        "apart": math.hypot(u1 - u2, v1 - v2),
        "size": math.log(size),
        "sizes": abs(math.log(first.size / second.size)),
        **{word: moves.count(word) / 2 for word in MOVEMENTS},
        "still": (moves.count("active") + moves.count("inactive")) / 2,
        "thing": float(
            any(all(s.movement == "inactive" for s in track.values()) for track in tracks)
        ),
        "crowd": 1 / (1 + min(others) / size) if others else 0.0,
        "came": min(abs(begins[0] - begins[1]) / 25, 10.0),
    }


def middle(frames: Sequence[int]) -> int:
    """Return the frame that stands for a step."""
    return frames[len(frames) // 2]


def by_step(frames: Sequence[int]) -> dict[int, list[int]]:
    """Group frames by step."""
    steps: dict[int, list[int]] = {}
    for frame in frames:
        steps.setdefault(frame // STEP, []).append(frame)
    return steps


def pair_name(pair: tuple[int, int]) -> str:
    """Return the name of a pair in its clip."""
    return f"{pair[0]}-{pair[1]}"


def pair_rows(videos: Sequence[Video]) -> Iterator[Row]:
    """Yield a row for each pair and step: the measurements, and what they do."""
    for video in videos:
        for pair in video.pairs():
            for step, frames in by_step(video.frames(pair)).items():
                frame = middle(frames)
                does = video.does.get(pair, {}).get(frame, "")
                cells = {
                    name: round(value, 5) if isinstance(value, float) else value
                    for name, value in seen_of(video, pair, frame).items()
                }
                yield {
                    "video": video.name, "step": step, "pair": pair_name(pair), **cells,
                    **{name: int(does == word) for word, name in SITUATIONS.items()},
                }  # fmt: skip


def triple_rows(videos: Sequence[Video]) -> Iterator[Row]:
    """Yield the pairs of three people; two people tied to a third are tied to each other."""
    for video in videos:
        pairs = set(video.pairs())
        for three in combinations(sorted(video.people), 3):
            sides = list(combinations(three, 2))
            if pairs.issuperset(sides):
                for n in range(3):
                    order = [sides[n], sides[(n + 1) % 3], sides[(n + 2) % 3]]
                    yield {"predicate": "Triple", "trace": video.name,
                           **{f"arg{i}": pair_name(p) for i, p in enumerate(order, 1)}}  # fmt: skip


def frame_rows(videos: Sequence[Video]) -> Iterator[Row]:
    """Yield what each pair does in each frame."""
    for video in videos:
        for pair in video.pairs():
            for frame in video.frames(pair):
                does = video.does.get(pair, {}).get(frame, "")
                yield {
                    "video": video.name, "frame": frame, "step": frame // STEP,
                    "pair": pair_name(pair),
                    **{name: int(does == word) for word, name in SITUATIONS.items()},
                }  # fmt: skip


def folds(rows: Iterable[tuple[str, Sequence[object]]]) -> dict[str, int]:
    """Assign a fold to each clip: first clips with scored classes, then fights, longest first.

    Args:
        rows: for each pair and step, the clip and whether they move together, meet or fight.
    """
    does: dict[str, list[int]] = {}
    for video, truth in rows:
        counts = does.setdefault(video, [0] * (1 + len(truth)))
        for n, cell in enumerate((1, *truth)):
            counts[n] += cell == 1

    def order(video: str) -> tuple[bool, bool, int, str]:
        number, moving, meeting, fighting = does[video]
        return (not moving and not meeting, not fighting, -number, video)

    return {video: n % FOLDS for n, video in enumerate(sorted(does, key=order))}


def write(videos: Sequence[Video], out: Path) -> dict[str, int]:
    """Write all tables; return the number of rows of each."""
    out.mkdir(parents=True, exist_ok=True)
    pairs = list(pair_rows(videos))
    names = SITUATIONS.values()
    split = folds((str(row["video"]), [row[name] for name in names]) for row in pairs)
    tables = {
        "pairs.csv": pairs,
        "split.csv": [{"video": video, "fold": fold} for video, fold in split.items()],
        "triples.csv": triple_rows(videos),
        "frames.csv": frame_rows(videos),
    }
    return {name: _table(out / name, [*rows]) for name, rows in tables.items()}


def _table(path: Path, rows: Sequence[Mapping[str, object]]) -> int:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]) if rows else ["video"])
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


def main() -> int:
    """Read one folder, and write the other."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    try:
        counts = write(read(asked.folder), asked.out)
    except DataError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("".join(f"{asked.out / n}: {c} rows\n" for n, c in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
