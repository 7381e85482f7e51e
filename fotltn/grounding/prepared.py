"""Data in blocks of traces on disk, as Parquet files with numbers instead of names.

A prepared folder holds

- `prepared.json`: the numbers of blocks, traces and facts; for each sort, its features and the
number of entities (for a local sort, the most in a trace);
- `entities.parquet`: the `sort` and `name` of the entities that all traces share, in order;
- `block-000000` and so on: some traces each, with
    - `traces.parquet`: the `name` and `length` of each trace, in order;
    - `entities.parquet`: the `sort`, `trace` and `name` of local entities, in order;
    - `facts/NAME.parquet`: the facts of each predicate, function and relation: `trace` (counted
    from 0 within the block), `arg1`, `arg2` …, `time` unless it is static, and `truth` (of a
      function `value`) unless all are 1;
    - `features/SORT.parquet`: `trace`, `entity`, `time` unless none changes, and a column of
      numbers for each feature.

Entities are counted from 0, those of a local sort within their trace.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import torch

from fotltn.errors import DataError, name_hint, shown
from fotltn.files import read_file, write_files
from fotltn.grounding.block_reader import (
    BlockReader,
    FeatureColumns,
    block_table,
    checked_column,
    counted_column,
    wrong_file,
)
from fotltn.grounding.cells import Floats
from fotltn.grounding.clock import Clock
from fotltn.grounding.dense import present
from fotltn.grounding.facts import Facts
from fotltn.grounding.features import Features
from fotltn.grounding.timeline import StepTimes
from fotltn.logic.signature import Signature
from fotltn.strict_json import read_json

MANIFEST = "prepared.json"
LAYOUT = 1

_ENTITIES, _TRACES, _TIMES = "entities.parquet", "traces.parquet", "times.json"
_MOST = 2**26  # bytes of a manifest
_TAIL = 2**16  # bytes at the end of a Parquet file, with its layout and statistics


@dataclass(frozen=True, slots=True)
class PreparedData:
    """A prepared folder.

    Args:
        folder: the folder.
        traces: the number of traces in each block.
        facts: the number of facts in each block.
        entities: the names of shared entities, by sort.
        room: the most entities in a trace, for each local sort.
        present: the presence predicates of sorts whose entities come and go.
        features: the features, by sort.
        settings: a digest of the settings, if `fotltn prepare` wrote the folder.
    """

    folder: Path
    traces: tuple[int, ...]
    facts: tuple[int, ...]
    entities: Mapping[str, tuple[str, ...]]
    room: Mapping[str, int]
    present: Mapping[str, tuple[str, ...]]
    features: Mapping[str, FeatureColumns]
    settings: str = ""

    def block(self, number: int) -> Path:
        """Return the folder of a block."""
        return block_folder(self.folder, number)

    def write(self) -> None:
        """Write the manifest after the blocks, so that an incomplete folder cannot be read."""
        named = [(sort, name) for sort, names in self.entities.items() for name in names]
        columns = {"sort": [s for s, _ in named], "name": [n for _, n in named]}
        _write(self.folder / _ENTITIES, columns)
        document = {
            "layout": LAYOUT,
            "traces": list(self.traces),
            "facts": list(self.facts),
            "sorts": list(self.entities),
            "local": dict(self.room),
            "present": {sort: list(names) for sort, names in self.present.items()},
            "features": {
                sort: {
                    "names": list(of.names),
                    "categories": {c: list(words) for c, words in of.categories.items()},
                    "static": of.static,
                }
                for sort, of in self.features.items()
            },
            "settings": self.settings,
        }
        write_files({self.folder / MANIFEST: (json.dumps(document) + "\n").encode()})

    def symbols(self) -> set[str]:
        """Return the predicates, functions and relations that have facts in some block."""
        folders = [self.block(number) / "facts" for number in range(len(self.traces))]
        return {path.stem for folder in folders for path in folder.glob("*.parquet")}

    def digest(self) -> str:
        """Return a digest of the data, from the metadata of its files."""
        digest = hashlib.sha256((self.folder / MANIFEST).read_bytes())
        for number in range(len(self.traces)):
            for path in sorted(self.block(number).rglob("*.parquet")):
                with open(path, "rb") as file:
                    size = os.fstat(file.fileno()).st_size
                    file.seek(max(0, size - _TAIL))
                    digest.update(f"{path.relative_to(self.folder)} {size}\n".encode())
                    digest.update(file.read())
        return digest.hexdigest()[:32]

    def read(
        self,
        number: int,
        signature: Signature,
        *,
        dtype: torch.dtype = torch.float64,
        clock: Clock | None = None,
    ) -> tuple[Facts, dict[str, Features]]:
        """Read the facts and the features of a block.

        Raises:
            DataError: a file is missing or cannot be read, or does not fit the rest.
        """
        folder = self.block(number)
        path = folder / _TRACES
        names = checked_column(block_table(path), "name", path)
        if len(names) != self.traces[number] or not len(names):
            raise wrong_file(folder, f"it has {len(names)} traces, not {self.traces[number]}")
        ends = self.lengths(number)
        local = self._local(folder, len(names))
        sizes = {**{s: len(n) for s, n in self.entities.items()}, **self.room}
        reader = BlockReader(folder, signature, sizes, np.array(ends))
        facts = Facts(
            tuple(names.to_pylist()), dict(self.entities), reader.facts(), ends,
            local=local, present=dict(self.present), room=dict(self.room),
            timeline=None if clock is None else _timeline(folder, clock, names.to_pylist()),
        )  # fmt: skip
        return facts, {s: reader.features(s, of, facts, dtype) for s, of in self.features.items()}

    def lengths(self, number: int) -> tuple[int, ...]:
        """Read the lengths of the traces of a block.

        Raises:
            DataError: the file with the lengths is missing or wrong.
        """
        path = self.block(number) / _TRACES
        lengths = counted_column(block_table(path), "length", path, low=1, end=2**31)
        return tuple(lengths.tolist())

    def _local(self, folder: Path, traces: int) -> dict[str, tuple[tuple[str, ...], ...]]:
        """Read the names of local entities, by trace."""
        if not self.room:
            return {}
        path = folder / _ENTITIES
        table = block_table(path)
        sorts, names = (checked_column(table, c, path).to_pylist() for c in ("sort", "name"))
        where = counted_column(table, "trace", path, end=traces).tolist()
        by_trace: dict[str, list[list[str]]] = {s: [[] for _ in range(traces)] for s in self.room}
        for sort, trace, name in zip(sorts, where, names, strict=True):
            if sort not in by_trace:
                raise wrong_file(path, f"'{sort}' is not a local sort")
            by_trace[sort][trace].append(name)
        for sort, of_traces in by_trace.items():
            if max(map(len, of_traces)) > self.room[sort]:
                raise wrong_file(path, f"a trace has more of '{sort}' than {self.room[sort]}")
        return {sort: tuple(map(tuple, of)) for sort, of in by_trace.items()}


def block_folder(folder: Path, number: int) -> Path:
    """Return the folder of a block in a prepared folder."""
    return folder / f"block-{number:06d}"


# --- writing ----------------------------------------------------------------------------------


def write_block(
    folder: Path,
    number: int,
    facts: Facts,
    features: Mapping[str, Features],
    signature: Signature,
    static: Collection[str] = (),
) -> int:
    """Write the facts and features of some traces as a block; return the number of facts.

    Args:
        folder: the folder of all blocks.
        number: the number of the block.
        facts: the facts of its traces.
        features: the features, by sort.
        signature: the declarations of the symbols.
        static: the sorts whose features are all static.
    """
    place = block_folder(folder, number)
    (place / "facts").mkdir(parents=True, exist_ok=True)
    (place / "features").mkdir(exist_ok=True)
    lengths = np.array(facts.lengths, np.int32)
    _write(place / _TRACES, {"name": list(facts.traces), "length": lengths})
    if facts.timeline is not None and facts.timeline.origin is None:
        stored = json.dumps(facts.timeline.as_dict(facts.traces))
        write_files({place / _TIMES: stored.encode()})
    if facts.local:
        named = [
            (sort, trace, name)
            for sort, of_traces in facts.local.items()
            for trace, names in enumerate(of_traces)
            for name in names
        ]
        sorts, traces, names = zip(*named, strict=True) if named else ((), (), ())
        where = np.array(traces, np.int32)
        _write(place / _ENTITIES, {"sort": list(sorts), "trace": where, "name": list(names)})
    timeless = {*signature.relations}
    timeless |= {name for name, predicate in signature.predicates.items() if predicate.static}
    timeless |= {name for name, function in signature.functions.items() if function.static}
    count = 0
    for name, rows in facts.rows.items():
        columns: dict[str, Any] = {}
        every = rows
        if name not in signature.relations:
            every, _ = rows.in_every_trace(len(facts.traces))
            columns["trace"] = every.trace.astype(np.int32)
        columns |= {f"arg{i}": args.astype(np.int32) for i, args in enumerate(every.args.T, 1)}
        if name not in timeless:
            columns["time"] = every.time.astype(np.int32)
        if bool((every.value != 1).any()) or name in signature.functions:
            column = "value" if name in signature.functions else "truth"
            columns[column] = _narrow(every.value)
        _write(place / "facts" / f"{name}.parquet", columns)
        count += len(every.value)
    for sort, of in features.items():
        there = present(facts, sort)
        there = there.any(-1, keepdim=True) if sort in static else there
        cells = there.nonzero().T.to(torch.int32).numpy()
        index = dict(zip(("trace", "entity", "time"), cells, strict=True))
        if sort in static:
            del index["time"]
        rows_of = of.values[there].T.contiguous().numpy()
        numbers = dict(zip(of.names, rows_of, strict=True))
        if taken := sorted({*numbers} & {*index}):
            raise DataError(
                f"a feature of '{sort}' is called '{taken[0]}', a name that prepared data "
                "use for something else; rename the column"
            )
        # Compression hardly helps with such numbers, and reading is twice as fast without it.
        _write(place / "features" / f"{sort}.parquet", {**index, **numbers}, "snappy")
    return count


def _timeline(folder: Path, clock: Clock, traces: Sequence[str]) -> StepTimes:
    """Read where the steps of the traces of a block are in time."""
    if clock.kind == "shared":
        return StepTimes.shared(clock)
    path = folder / _TIMES
    try:
        stored = read_json(read_file(path, limit=_MOST, links=True))
        return StepTimes.of(clock, stored, traces)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise wrong_file(path, f"it does not say where steps are in time ({error})") from None


def _narrow(values: Floats) -> np.ndarray[Any, Any]:
    """Return numbers in four bytes, if that loses nothing."""
    narrow = values.astype(np.float32)
    return narrow if bool((narrow == values).all()) else values


def _write(path: Path, columns: Mapping[str, Any], compression: str = "zstd") -> None:
    table = pa.table({name: pa.array(cells) for name, cells in columns.items()})
    texts = [c.name for c in table.schema if pa.types.is_string(c.type)]
    counted = [c.name for c in table.schema if pa.types.is_integer(c.type)]
    parquet.write_table(
        table, path, compression=compression, use_dictionary=texts,
        column_encoding=dict.fromkeys(counted, "DELTA_BINARY_PACKED"),
    )  # fmt: skip


# --- reading ----------------------------------------------------------------------------------


def read_prepared(folder: Path, signature: Signature) -> PreparedData:
    """Read the manifest of a prepared folder.

    Raises:
        DataError: there is no manifest, it cannot be read, or it does not fit the signature.
    """
    path = folder / MANIFEST
    try:
        document = read_json(read_file(path, limit=_MOST, links=True))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(
            f"there are no prepared data at '{folder}': no file '{MANIFEST}'",
            hint="create them with `fotltn prepare PROJECT`",
        ) from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except DataError as error:
        raise wrong_file(path, error.diagnostics[0].message) from None
    if not isinstance(document, dict) or document.get("layout") != LAYOUT:
        layout = document.get("layout") if isinstance(document, dict) else None
        raise wrong_file(path, f"it has the layout {shown(layout)}; this fotltn reads {LAYOUT}")
    try:
        prepared = PreparedData(
            folder,
            tuple(map(int, document["traces"])),
            tuple(map(int, document.get("facts", ()))),
            _shared(folder, document["sorts"]),
            {str(s): int(n) for s, n in document.get("local", {}).items()},
            {s: tuple(map(str, names)) for s, names in document.get("present", {}).items()},
            {
                sort: FeatureColumns(
                    tuple(map(str, of["names"])),
                    {c: tuple(words) for c, words in of.get("categories", {}).items()},
                    bool(of.get("static", False)),
                )
                for sort, of in document.get("features", {}).items()
            },
            str(document.get("settings", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise wrong_file(path, f"it is incomplete, or not a manifest ({error})") from None
    _check(prepared, signature, path)
    return prepared


def _shared(folder: Path, sorts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    path = folder / _ENTITIES
    table = block_table(path)
    by_sort: dict[str, list[str]] = {str(sort): [] for sort in sorts}
    columns = (checked_column(table, c, path).to_pylist() for c in ("sort", "name"))
    for sort, name in zip(*columns, strict=True):
        if sort not in by_sort:
            raise wrong_file(path, f"'{sort}' is not a sort that all traces share")
        by_sort[sort].append(name)
    return {sort: tuple(names) for sort, names in by_sort.items()}


def _check(prepared: PreparedData, signature: Signature, path: Path) -> None:
    """Check that a folder is about the sorts and predicates of a theory."""
    sorts = {*prepared.entities, *prepared.room}
    if sorts != set(signature.sorts):
        odd = sorted(sorts ^ set(signature.sorts))
        where = "of the theory is not in it" if odd[0] in signature.sorts else "is not declared"
        raise wrong_file(path, f"the sort '{odd[0]}' {where}")
    for name in (n for names in prepared.present.values() for n in names):
        if name not in signature.predicates:
            hint = name_hint(name, signature.predicates)
            raise wrong_file(path, f"unknown predicate '{name}' for presence; {hint}")
    for sort in (*prepared.present, *prepared.features):
        if sort not in sorts:
            raise wrong_file(path, f"the sort '{sort}' is not declared")
    if not prepared.traces or min(prepared.traces) < 1:
        raise wrong_file(path, "it has no blocks, or one without a trace")
