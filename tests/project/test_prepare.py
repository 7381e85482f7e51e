"""`fotltn prepare`: blocks hold what the tables say, or nothing is there."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest
import torch

from fotltn.errors import DataError, LimitError
from fotltn.grounding.facts import Facts
from fotltn.grounding.features import Features
from fotltn.grounding.prepared import read_prepared
from fotltn.grounding.wide import read_wide
from fotltn.project.config import read_config
from fotltn.project.prepare import prepare
from fotltn.project.world import read_theory, wide_table
from fotltn.strict_json import read_json
from tests.cli.test_cli import invoke
from tests.project.many_traces import TOML, many_traces


def by_name(facts: Facts, sorts: dict[str, tuple[str, ...]]) -> dict[str, set[tuple[object, ...]]]:
    """Facts as they would be written: with the names of traces and entities."""
    named: dict[str, set[tuple[object, ...]]] = {}
    for symbol, rows in facts.rows.items():
        rows, _ = rows.in_every_trace(len(facts.traces))
        named[symbol] = {
            (facts.traces[trace], *map(facts.name, sorts[symbol], [trace] * len(args), args), *rest)
            for trace, args, *rest in zip(
                rows.trace, rows.args.tolist(), rows.time, rows.value, strict=True
            )
        }
    return named


def seen(facts: Facts, features: dict[str, Features]) -> dict[tuple[object, ...], list[float]]:
    """Features by the names of what they are of."""
    return {
        (sort, facts.traces[trace], facts.name(sort, trace, who), time): values[
            trace, who, time
        ].tolist()
        for sort, values in ((sort, of.values) for sort, of in features.items())
        for trace in range(len(facts.traces))
        for who in range(values.shape[1])
        for time in range(min(values.shape[2], facts.lengths[trace]))
        if facts.name(sort, trace, who) is not None
    }


@pytest.mark.parametrize(
    "size", [3, pytest.param(1, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.slow)]
)
def test_blocks_hold_what_tables_say(tmp_path: Path, size: int) -> None:
    config = read_config(many_traces(tmp_path))
    made = prepare(config, tmp_path / "blocks", traces=size)
    _, theory = read_theory(config)
    signature, data = theory.signature, config.data
    facts, features = read_wide(
        [wide_table(w, config.table(w.file)) for w in data.wide], signature,
        facts=[config.table("facts.csv")], local=data.local, dtype=torch.float32,
    )  # fmt: skip
    sorts = {n: d.sorts for n, d in signature.predicates.items()}
    sorts |= {n: d.sorts for n, d in signature.functions.items()}
    prepared = read_prepared(tmp_path / "blocks", signature)
    assert made.blocks == len(prepared.traces) == -(-8 // size)
    assert prepared.room == {"pump": 4}
    blocks = [prepared.read(i, signature, dtype=torch.float32) for i in range(made.blocks)]
    together: dict[str, set[tuple[object, ...]]] = {}
    for of_block, _ in blocks:
        assert of_block.sizes() == facts.sizes()
        for symbol, rows in by_name(of_block, sorts).items():
            together[symbol] = together.get(symbol, set()) | rows
    assert together == by_name(facts, sorts)
    assert {t for f, _ in blocks for t in f.traces} == set(facts.traces)
    lengths = {t: n for f, _ in blocks for t, n in zip(f.traces, f.lengths, strict=True)}
    assert lengths == dict(zip(facts.traces, facts.lengths, strict=True))
    assert {s: of.names for s, of in blocks[0][1].items()} == {
        s: of.names for s, of in features.items()
    }
    assert "kind=rare" in blocks[0][1]["pump"].names  # which the last trace alone has
    every: dict[tuple[object, ...], list[float]] = {}
    for one in blocks:
        every |= seen(*one)
    assert every == seen(facts, features)


@pytest.mark.slow
def test_parquet_as_csv(tmp_path: Path) -> None:
    many_traces(tmp_path / "csv")
    toml = TOML.replace("pumps.csv", "pumps.parquet")
    many_traces(tmp_path / "parquet", toml=toml)
    table = csv.read_csv(tmp_path / "csv" / "pumps.csv")
    for name in ("kind", "site"):  # by number, with other words in other parts
        place = table.column_names.index(name)
        table = table.set_column(place, name, table.column(name).dictionary_encode())
    with parquet.ParquetWriter(tmp_path / "parquet" / "pumps.parquet", table.schema) as file:
        for start in range(0, len(table), 9):
            file.write_table(table.slice(start, 9).combine_chunks())
    made = [prepare(read_config(tmp_path / n), tmp_path / n / "blocks") for n in ("csv", "parquet")]
    for path in sorted((tmp_path / "csv" / "blocks").rglob("*.parquet")):
        other = tmp_path / "parquet" / "blocks" / path.relative_to(tmp_path / "csv" / "blocks")
        assert parquet.read_table(path).equals(parquet.read_table(other))
    assert made[0].facts == made[1].facts


def test_an_entity_that_comes_late_needs_features_before(tmp_path: Path) -> None:
    config = read_config(many_traces(tmp_path))
    with (tmp_path / "halls.csv").open("a") as file:
        file.write("west,s6,3\nwest,s7,3\n")
    with pytest.raises(DataError, match="'width' has no value for 'west' in trace 's0'"):
        prepare(config, tmp_path / "blocks", traces=2)


def test_errors_say_the_line(tmp_path: Path) -> None:
    config = read_config(many_traces(tmp_path))
    lines = (tmp_path / "pumps.csv").read_text().splitlines()
    row = next(i for i, line in enumerate(lines) if ",s7," in line)
    lines[row] = lines[row].replace(",rare,", ",rare,perhaps")
    (tmp_path / "pumps.csv").write_text("\n".join(lines))
    with pytest.raises(DataError, match=rf"pumps\.csv:{row + 1}, column 'alarm'"):
        prepare(config, tmp_path / "blocks", traces=1)
    assert not (tmp_path / "blocks").exists()
    assert not (tmp_path / ".blocks.preparing").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"[data]": '[data]\ntest = ["more.csv"]', "train = 0.8\n": ""}, "no files of test facts"),
        ({"[data]": '[data]\nstep = "1h"'}, "needs the beginning of its first step"),
        ({'trace = "site"': ""}, "has no trace, but each entity of sort 'pump' belongs"),
        ({'trace = "site"\npredicates': 'trace = "place"\npredicates'}, "no column 'place'"),
    ],
)
def test_what_is_refused(tmp_path: Path, change: dict[str, str], message: str) -> None:
    toml = TOML
    for old, new in change.items():
        assert old in toml
        toml = toml.replace(old, new)
    with pytest.raises(DataError, match=message):
        prepare(read_config(many_traces(tmp_path, toml=toml)), tmp_path / "blocks")


def test_one_trace_is_not_cut(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the tables have 1 trace"):
        prepare(read_config(many_traces(tmp_path, traces=1)), tmp_path / "blocks")


def test_a_block_that_does_not_fit(tmp_path: Path) -> None:
    config = read_config(many_traces(tmp_path))
    with pytest.raises(LimitError, match="a block of 8 traces needs about"):
        prepare(config, tmp_path / "blocks", traces=8, budget=2000)


def test_what_is_there_stays_until_the_end(tmp_path: Path) -> None:
    config = read_config(many_traces(tmp_path))
    prepare(config, tmp_path / "blocks", traces=2)
    before = (tmp_path / "blocks" / "prepared.json").read_bytes()

    def stop(what: str, done: int, _: int | None) -> None:
        if what == "blocks written" and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(config, tmp_path / "blocks", traces=4, tell=stop)
    assert (tmp_path / "blocks" / "prepared.json").read_bytes() == before
    left = tmp_path / ".blocks.preparing"  # as a kill leaves it
    (left / "data" / "block-000000").mkdir(parents=True)
    assert prepare(config, tmp_path / "blocks", traces=4).blocks == 2
    assert not left.exists()
    assert len(read_json((tmp_path / "blocks" / "prepared.json").read_bytes())["traces"]) == 2


def test_other_files_are_not_replaced(tmp_path: Path) -> None:
    config = read_config(many_traces(tmp_path))
    with pytest.raises(DataError, match="the folder has other files"):
        prepare(config, tmp_path)


def _rewritten(path: Path, **columns: object) -> None:
    table = parquet.read_table(path)
    for name, cells in columns.items():
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(np.full(len(table), cells)))
    parquet.write_table(table, path)


def test_damage_is_told(tmp_path: Path) -> None:
    config = read_config(many_traces(tmp_path))
    _, theory = read_theory(config)
    prepare(config, tmp_path / "blocks", traces=2)
    block = tmp_path / "blocks" / "block-000001"
    cases: list[tuple[str, dict[str, float] | None, str]] = [
        ("facts/Near.parquet", {"arg2": 9}, "'arg2' has numbers from 9 to 9; expected 0 to 3"),
        ("facts/Near.parquet", {"time": 4}, "has the time 4, but its trace ends at 3"),
        ("facts/Near.parquet", {"trace": 0.5}, "'trace' holds double, not whole numbers"),
        ("facts/Near.parquet", {"truth": 1.5}, "a truth is not from 0 to 1"),
        ("features/pump.parquet", {"time": 0}, "no row is about 'p"),
        ("features/pump.parquet", {"pressure": np.inf}, "numbers that are not finite"),
        ("features/pump.parquet", None, "there is no such file"),
        ("traces.parquet", {"length": 0}, "'length' has numbers from 0 to 0"),
    ]
    for name, columns, message in cases:
        shutil.copytree(block, tmp_path / "as it was")
        if columns is None:
            (block / name).unlink()
        else:
            _rewritten(block / name, **columns)
        with pytest.raises(DataError, match=message):
            read_prepared(tmp_path / "blocks", theory.signature).read(1, theory.signature)
        shutil.rmtree(block)
        (tmp_path / "as it was").rename(block)
    (tmp_path / "blocks" / "prepared.json").write_text('{"layout": 7}')
    with pytest.raises(DataError, match="it has the layout 7; this fotltn reads 1"):
        read_prepared(tmp_path / "blocks", theory.signature)
    with pytest.raises(DataError, match="there are no prepared data"):
        read_prepared(tmp_path / "nowhere", theory.signature)


def test_command(tmp_path: Path) -> None:
    many_traces(tmp_path)
    done = invoke("prepare", str(tmp_path), "--json")
    said = read_json(done.stdout)
    assert (said["ok"], said["blocks"], said["traces"]) == (True, 3, 8)
    assert said["folder"] == str(tmp_path / "blocks")
    assert sum(p.stat().st_size for p in (tmp_path / "blocks").rglob("*.*")) == said["bytes"]
