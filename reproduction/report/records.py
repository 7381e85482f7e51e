"""Read, check and write records of runs, one record per run.

A record file is JSON Lines (one object per line) or Parquet (one row per run). If a file holds a
run twice, with the same data, method, fraction and repetition, the last record counts. This is how
a sweep that is resumed corrects itself.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from fotltn.errors import DataError, Diagnostic, did_you_mean, shown
from fotltn.files import Content, opened, read_file, write_files
from fotltn.strict_json import JsonError, once, read_json
from reproduction import MAX_RECORDS

_JSON = (".jsonl", ".ndjson")
_PARQUET = (".parquet", ".pq")
_OF_REPRODUCTION = ("records.parquet", "runs.jsonl", "limit.jsonl")
_ROUNDING = 1e-6  # how far outside [0, 1] a computed degree may be
_MEAN = 1e-3  # how far a rounded mean may be from the mean of rounded numbers
_FINDINGS = 10  # number of bad records that one error lists


@dataclass(frozen=True, slots=True)
class Record:
    """One run: what was run, how good it was, and how long it took.

    Args:
        data: the name of the data set.
        method: the name of the method.
        fraction: the share of the facts that it was trained on.
        repetition: the number of the run, from 0.
        seed: the seed of the run.
        pr_auc: the mean of `pr_auc_by`.
        pr_auc_by: PR-AUC by predicate, where it is defined.
        chance: the PR-AUC of a constant score.
        seconds: the wall time of the run: that of its batch, divided by the number of its runs.
        kb_sat: the satisfaction of all axioms, if it was computed.
        axioms: the satisfaction of each axiom.
        violations: the share of bindings at which crisp predictions violate each axiom.
        violation_rate: the mean of `violations`.
        epochs: the number of epochs of training.
        best_epoch: the epoch whose parameters were kept.
        batch: the number of runs that were computed together.
        parameters: the number of learned parameters.
        setting: all other settings.
        device: the device that it ran on.
        version: the version of the program.
        extra: fields that are not listed here.
    """

    data: str
    method: str
    fraction: float
    repetition: int
    seed: int
    pr_auc: float
    pr_auc_by: Mapping[str, float]
    chance: float
    seconds: float
    kb_sat: float | None = None
    axioms: Mapping[str, float] = field(default_factory=dict)
    violations: Mapping[str, float] = field(default_factory=dict)
    violation_rate: float | None = None
    epochs: int | None = None
    best_epoch: int | None = None
    batch: int | None = None
    parameters: int | None = None
    setting: Mapping[str, Any] = field(default_factory=dict)
    device: str | None = None
    version: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, float, int]:
        """The fields that identify a run."""
        return (self.data, self.method, self.fraction, self.repetition)

    def as_dict(self) -> dict[str, Any]:
        """Return the record as it is written to a file, without unknown fields."""
        known = {name: getattr(self, name) for name in _FIELDS}
        shown = {k: dict(v) if isinstance(v, Mapping) else v for k, v in known.items()}
        return {k: v for k, v in shown.items() if v is not None and v != {}} | dict(self.extra)


def record(values: Mapping[str, Any]) -> Record:
    """Check the fields of a record, and build it.

    Raises:
        DataError: a field is missing, misspelt or wrong.

    >>> run = {"data": "CarPed35K", "method": "HTGNN", "fraction": 0.1, "repetition": 0, "seed": 1,
    ...        "pr_auc": 0.6, "pr_auc_by": {"Car": 0.5, "Ped": 0.7}, "chance": 0.5, "seconds": 2.0}
    >>> record(run).key
    ('CarPed35K', 'HTGNN', 0.1, 0)
    """
    stated = {name: value for name, value in values.items() if value is not None}
    extra = {name: value for name, value in stated.items() if name not in _FIELDS}
    absent = [name for name in _FIELDS if name not in stated]
    for name in extra:
        if hint := did_you_mean(name, absent, near=0.8):
            raise DataError(Diagnostic(f"unknown field '{name}'", hint=hint))
    for name in absent:
        if name in _REQUIRED:
            raise DataError(f"the field '{name}' is missing")
    known = {
        name: _FIELDS[name](name, value) for name, value in stated.items() if name not in extra
    }
    made = Record(**known, extra=extra)
    _consistent(made)
    return made


def read(*paths: Path | str) -> tuple[Record, ...]:
    """Read all runs of one or several files, each once, in order of first appearance.

    Raises:
        DataError: a file cannot be read, or records are wrong; names the file and line.
    """
    records: dict[tuple[str, str, float, int], Record] = {}
    for path in map(Path, paths):
        wrong: list[Diagnostic] = []
        for place, values in _rows(path, wrong):
            try:
                one = record(values)
            except DataError as error:
                wrong += [
                    Diagnostic(f"{place}: {d.message}", hint=d.hint) for d in error.diagnostics
                ]
                continue
            records[one.key] = one
        if wrong:
            more = len(wrong) - _FINDINGS
            rest = [Diagnostic(f"{path}: {more} more records are wrong")] if more > 0 else []
            raise DataError(*wrong[:_FINDINGS], *rest)
    return tuple(records.values())


def is_record_file(path: Path) -> bool:
    """Return whether a file has the name of a record file."""
    return path.name.lower().endswith((*_JSON, *_PARQUET))


def find_records(folder: Path) -> tuple[Path, ...]:
    """Return the record files of a folder, in order of precedence.

    A folder written by `run` has all runs in one file, and later runs in others. In any other
    folder, every file with the name of a record file counts.
    """
    if not folder.is_dir():
        return ()
    known = [folder / name for name in _OF_REPRODUCTION]
    if any(path.is_file() for path in known):
        return tuple(path for path in known if path.is_file())
    paths = (path for path in folder.iterdir() if is_record_file(path) and path.is_file())
    return tuple(sorted(paths, key=lambda path: path.name))


def write(records: Iterable[Record], path: Path | str) -> Path:
    """Write records as JSON Lines or Parquet, depending on the name, and return the path.

    Raises:
        DataError: the name is neither, or the file cannot be written.
    """
    path = Path(path)
    rows = [one.as_dict() for one in records]
    _kind(path)
    if path.name.lower().endswith(_PARQUET):
        table = _table(rows)
        content: Content = lambda file: parquet.write_table(table, file)  # noqa: E731
    else:
        content = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()
    write_files({path: content}, parents=True)
    return path


# --- files -----------------------------------------------------------------------------------


def _rows(path: Path, wrong: list[Diagnostic]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the rows of a file with their places; add lines that are not objects to `wrong`."""
    _kind(path)
    try:
        if path.name.lower().endswith(_PARQUET):
            with opened(path) as file:
                table = parquet.read_table(file).to_pylist()
            for number, row in enumerate(table, 1):
                try:
                    yield f"{path}, row {number}", _unpacked(row)
                except JsonError as error:
                    wrong.append(Diagnostic(f"{path}, row {number}: {error.reason}"))
            return
        text = read_file(path, limit=MAX_RECORDS, links=True).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"cannot read {path}: it is not UTF-8") from None
    except pa.ArrowException as error:
        raise DataError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            values = read_json(line)
        except JsonError as error:
            wrong.append(Diagnostic(f"{path}:{number}: not JSON: {error.reason}"))
            continue
        if isinstance(values, dict):
            yield f"{path}:{number}", values
        else:
            wrong.append(
                Diagnostic(f"{path}:{number}: a record must be a JSON object, such as {{…}}")
            )


def _kind(path: Path) -> None:
    if not is_record_file(path):
        kinds = ", ".join((*_JSON, *_PARQUET))
        raise DataError(f"the name of a record file must end in one of {kinds}, not '{path.name}'")


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    """Convert rows to a table: mappings of numbers as Parquet maps, other objects as JSON."""
    numbers = pa.map_(pa.string(), pa.float64())
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        if name in ("pr_auc_by", "axioms", "violations"):
            entries = [None if v is None else list(v.items()) for v in values]
            columns[name] = pa.array(entries, numbers)
        elif any(isinstance(v, dict | list) for v in values) or name not in _FIELDS:
            columns[name] = pa.array([None if v is None else json.dumps(v) for v in values])
        else:
            columns[name] = pa.array(values)
    return pa.table(columns)


def _unpacked(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a row of a Parquet file to the object of a JSON line."""
    values: dict[str, Any] = {}
    for name, value in row.items():
        values[name] = value
        if isinstance(value, list) and all(isinstance(v, tuple) for v in value):
            values[name] = once(value)
        elif isinstance(value, str) and (name == "setting" or name not in _FIELDS):
            values[name] = _read_back(value)
    return values


def _read_back(text: str) -> Any:
    """Decode a field that was written as JSON; return any other text as it is."""
    try:
        return read_json(text)
    except JsonError as error:
        if error.offset is None:  # valid JSON, except for a repeated key or the like
            raise
        return text


# --- fields ----------------------------------------------------------------------------------


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"'{name}' is {_shown(value)}; expected a name")
    return value.strip()


def _whole(name: str, value: Any) -> int:
    integral = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not integral or not 0 <= value < 2**63:
        raise DataError(f"'{name}' is {_shown(value)}; expected a whole number of at least 0")
    return int(value)


def _count(name: str, value: Any) -> int:
    if (number := _whole(name, value)) == 0:
        raise DataError(f"'{name}' is 0; expected a whole number of at least 1")
    return number


def _number(value: Any) -> float | None:
    """Return a finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= sys.float_info.max else None


def _degree(name: str, value: Any) -> float:
    number = _number(value)
    if number is None or not -_ROUNDING <= number <= 1 + _ROUNDING:
        raise DataError(f"'{name}' is {_shown(value)}; expected a number from 0 to 1")
    return min(max(number, 0.0), 1.0)


def _share(name: str, value: Any) -> float:
    number = _number(value)
    if number is None or not 0 < number < 1:
        raise DataError(
            f"'{name}' is {_shown(value)}; expected a number between 0 and 1, such as 0.1"
        )
    return round(number, 6)  # to make 0.1 + 0.2 equal to 0.3


def _seconds(name: str, value: Any) -> float:
    number = _number(value)
    if number is None or number < 0:
        raise DataError(f"'{name}' is {_shown(value)}; expected a number of at least 0")
    return number


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DataError(f"'{name}' is {_shown(value)}; expected an object, such as {{…}}")
    return dict(value)


def _degrees(name: str, value: Any) -> Mapping[str, float]:
    entries = _mapping(name, value).items()
    return {key: _degree(f"{name}.{key}", v) for key, v in entries if v is not None}


def _consistent(one: Record) -> None:
    """Raise an error if fields that should agree do not."""
    for mean, parts in (("pr_auc", one.pr_auc_by), ("violation_rate", one.violations)):
        value = getattr(one, mean)
        if value is None or not parts:
            continue
        expected = math.fsum(parts.values()) / len(parts)
        if abs(value - expected) > _MEAN:
            raise DataError(f"'{mean}' is {value:.4f}, but the mean of its parts is {expected:.4f}")
    epochs, best = one.epochs, one.best_epoch
    if epochs is not None and best is not None and best > epochs:
        raise DataError(f"'best_epoch' is {best}, after the last of {epochs}")


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return shown(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


_FIELDS: Mapping[str, Callable[[str, Any], Any]] = {
    "data": _text,
    "method": _text,
    "fraction": _share,
    "repetition": _whole,
    "seed": _whole,
    "pr_auc": _degree,
    "pr_auc_by": _degrees,
    "chance": _degree,
    "kb_sat": _degree,
    "axioms": _degrees,
    "violations": _degrees,
    "violation_rate": _degree,
    "epochs": _whole,
    "best_epoch": _whole,
    "seconds": _seconds,
    "batch": _count,
    "parameters": _whole,
    "setting": _mapping,
    "device": _text,
    "version": _text,
}
_REQUIRED = frozenset(f.name for f in fields(Record)[:9])
