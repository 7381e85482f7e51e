"""Training from prepared data: block by block, as if all were in memory, interrupted or not."""

import threading
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
import torch
from torch import Tensor

from fotltn.errors import DataError, FotError, InterruptedTrainingError
from fotltn.learn import fit
from fotltn.project.build import build_from_disk
from fotltn.project.config import Config, read_config
from fotltn.project.model import Model, load_model
from fotltn.project.prepare import prepare
from fotltn.project.train import train
from fotltn.semantics.sparse import SparseTable
from tests.project.many_traces import TOML, many_traces

ALL = TOML.replace("train = 0.8\n", "").replace(
    "[training]", '[machine]\ndtype = "float64"\n[training]'
)


def prepared(folder: Path, toml: str = TOML, *, size: int | None = None) -> Config:
    config = read_config(many_traces(folder, toml=toml))
    prepare(config, folder / "blocks", traces=size)
    return config


def in_memory(config: Config) -> Config:
    return replace(config, data=replace(config.data, prepared=None))


def weights(model: Model) -> dict[str, Tensor]:
    return model.grounding.state_dict()


LIKELIHOOD = """[objective]
facts = "noise-aware"
learn_flips = true
axioms = "log"
together = "sum"
prior = 0.1
"""
VARIANTS = {
    "network": ALL,
    "blocks": ALL.replace("[training]", "[training]\nblocks = 2"),
    "blocks of bindings": ALL.replace("[training]", "[training]\nblocks = 9"),
    "encoder": ALL.replace("embedding = 0", 'embedding = 0\nencoder = "gru"\nchanges = [1]'),
    "pieces": ALL.replace("embedding = 0", "embedding = 0\nbins = 4"),
    "prior": ALL.replace("[training]", LIKELIHOOD + "[training]"),
}


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "name", ["network", *(pytest.param(n, marks=SLOW) for n in VARIANTS if n != "network")]
)
def test_as_in_memory(tmp_path: Path, name: str) -> None:
    config = prepared(tmp_path, VARIANTS[name])
    ours, theirs = train(config), train(in_memory(config))
    for key, tensor in weights(theirs).items():
        torch.testing.assert_close(weights(ours)[key], tensor, rtol=1e-9, atol=1e-10)
    assert [e.number for e in ours.history] == [1, 2, 3]
    for one, other in zip(ours.history, theirs.history, strict=True):
        assert (one.loss, one.facts) == pytest.approx((other.loss, other.facts), rel=1e-9)
        assert one.values == pytest.approx(other.values, rel=1e-9)


@pytest.mark.slow
def test_steps_smaller_than_blocks(tmp_path: Path) -> None:
    config = prepared(tmp_path, ALL, size=8)  # one block, in steps of three traces
    ours, theirs = train(config), train(in_memory(config))
    for key, tensor in weights(theirs).items():
        torch.testing.assert_close(weights(ours)[key], tensor, rtol=1e-9, atol=1e-10)


class _StopAfter:
    """Says to stop when it is asked for the n-th time."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self) -> bool:
        self.left -= 1
        return self.left == 0


@pytest.mark.parametrize(
    ("toml", "times"),
    [
        (TOML.replace("epochs = 3", "epochs = 1"), 2),
        *(pytest.param(t, n, marks=SLOW) for t in (TOML, VARIANTS["blocks"]) for n in (1, 2, 3)),
    ],
)
def test_goes_on_as_if_never_interrupted(tmp_path: Path, toml: str, times: int) -> None:
    config = prepared(tmp_path / "p", toml, size=2)  # four blocks, so that epochs are cut
    unbroken = train(config, checkpoints=tmp_path / "unbroken")
    for _ in range(20):
        try:
            again = train(config, checkpoints=tmp_path / "cut", stop=_StopAfter(times))
        except InterruptedTrainingError:
            continue
        break
    assert again.history == unbroken.history
    for key, tensor in weights(unbroken).items():
        assert torch.equal(weights(again)[key], tensor)


@pytest.mark.slow
def test_saves_within_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = prepared(tmp_path / "p", size=2)
    monkeypatch.setattr(fit, "SECONDS", 0.0)
    steps: list[int] = []
    monkeypatch.setattr(fit, "write_checkpoint", lambda _, step, *__: steps.append(step))
    train(config, checkpoints=tmp_path / "c")
    assert steps == [1, 2, 3, 5, 6, 7, 9, 10, 11, 12]


@pytest.mark.slow
def test_other_data_are_another_task(tmp_path: Path) -> None:
    config = prepared(tmp_path / "p", size=2)
    with pytest.raises(InterruptedTrainingError):
        train(config, checkpoints=tmp_path / "c", stop=lambda: True)
    prepare(config, tmp_path / "p" / "blocks", traces=3)
    with pytest.raises(DataError, match="belong to another task or other settings"):
        train(config, checkpoints=tmp_path / "c")


def test_few_labels_on_disk_are_all_learned_from(tmp_path: Path) -> None:
    toml = TOML.replace("[training]\n", "[training]\nvalidation = 0.001\n")
    model = train(prepared(tmp_path, toml, size=2))
    assert [epoch.watched for epoch in model.history] == [epoch.loss for epoch in model.history]
    assert any("too few labelled facts to watch some" in text for text in model.warnings)


@pytest.mark.slow
def test_labels_are_drawn_once(tmp_path: Path) -> None:
    toml = TOML.replace("[training]\n", "[training]\nvalidation = 0.25\n")
    config = prepared(tmp_path, toml, size=2)
    stream = build_from_disk(config).task.stream
    assert stream is not None
    assert stream.watches
    total = 0
    for number in range(stream.count):
        block, again = stream.read(number), stream.read(number)
        assert block.watched is not None
        for first, second in ((block.labels, again.labels), (block.watched, again.watched)):
            assert second is not None
            assert torch.equal(first.index["Failed"], second.index["Failed"])
        total += block.labels.total
    assert total == stream.total
    model = train(config)
    assert model.history[-1].watched != model.history[-1].loss


@pytest.mark.slow
def test_a_table_says_which_traces_are_watched(tmp_path: Path) -> None:
    toml = TOML.replace("train = 0.8\n", "") + (
        '\n[data.split]\nfile = "split.csv"\ntrace = "site"\ncolumn = "for"\n'
        'validation = ["watch"]\n'
    )
    many_traces(tmp_path, toml=toml)
    rows = [f"s{n},{'test' if n == 1 else 'watch' if n in (2, 6) else 'train'}" for n in range(8)]
    (tmp_path / "split.csv").write_text("\n".join(["site,for", *rows]) + "\n")
    config = read_config(tmp_path)
    prepare(config, tmp_path / "blocks", traces=1)
    built = build_from_disk(config)
    stream, memory = built.task.stream, train(in_memory(config))
    assert stream is not None
    assert [stream.read(n).labels.total > 0 for n in range(8)] == [
        n not in (1, 2, 6) for n in range(8)
    ]
    ours = weights(train(config))
    for name in ("mean", "spread"):  # of the traces to learn from alone
        key = f"inputs.pump.{name}"
        torch.testing.assert_close(ours[key], weights(memory)[key])


def test_a_model_that_is_saved(tmp_path: Path) -> None:
    config = prepared(tmp_path, size=3)
    model = train(config)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    table = again.tables.predicate("Failed")
    assert table.shape[1] == 4  # the places of the largest trace, which another block has
    assert torch.equal(table, model.tables.predicate("Failed"))
    other = again.apply(tmp_path)  # the tables themselves, all at once
    assert len(other.facts.traces) == 8


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("hidden = [4]}", 'hidden = [4]}\nAlarm = "logits"', "'Alarm' has one logit"),
        ("embedding = 0", "embedding = 2", "a separate vector for each 'pump' at each time point"),
        ('by = "traces"\nsize', 'by = "entities"\nsort = "pump"\nsize', "prepared data are cut"),
        ("[training]", "[machine]\ncompile = true\n[training]", "its own compiled plan"),
        (
            "epochs = 3",
            'epochs = 3\nthresholds = "f1"\nvalidation = 0.1',
            "thresholds can be chosen",
        ),
        (
            "[theory]",
            'method = "posterior"\n[theory]',
            "worlds can be sampled only of data in memory",
        ),
        (
            "train = 0.8",
            'train = 0.8\nby = "entities"\nsort = "hall"',
            "drawn separately in each block",
        ),
        ('"pressure", "kind"', '"pressure"', "prepared with other declarations, or another"),
        ('prepared = "blocks"', 'prepared = "nowhere"', "there are no prepared data at"),
        ('prepared = "blocks"', 'prepared = "../blocks"', "is outside the project"),
    ],
)
def test_what_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    prepared(tmp_path / "p")
    assert old in TOML
    (tmp_path / "p" / "project.toml").write_text(TOML.replace(old, new, 1))
    with pytest.raises(FotError, match=message):
        train(read_config(tmp_path / "p"))


def test_rows_in_any_order_are_the_same(tmp_path: Path) -> None:
    """As Spark may write them."""
    config = prepared(tmp_path, ALL, size=8)
    stream = build_from_disk(config).task.stream
    assert stream is not None
    before = stream.read(0)
    for path in (tmp_path / "blocks" / "block-000000").rglob("*s/*.parquet"):
        table = parquet.read_table(path)
        order = torch.randperm(len(table), generator=torch.Generator().manual_seed(0))
        parquet.write_table(table.take(order.numpy()), path)
    after = stream.read(0)
    for sort, seen in before.data.seen.items():
        other = after.data.seen[sort]
        assert seen.values is not None
        assert other.values is not None
        assert torch.equal(seen.values, other.values)
    tables, others = before.data.fixed.predicates, after.data.fixed.predicates
    for name, table in tables.items():
        dense = [t.dense(torch.float64) if isinstance(t, SparseTable) else t for t in
                 (table, others[name])]  # fmt: skip
        assert torch.equal(*dense), name


def test_a_block_that_is_damaged_ends_training(tmp_path: Path) -> None:
    """It is read in another thread, while others are learned from."""
    config = prepared(tmp_path, size=2)
    task = build_from_disk(config).task
    (tmp_path / "blocks" / "block-000002" / "facts" / "Alarm.parquet").write_bytes(b"no table")
    with pytest.raises(DataError, match=r"block-000002/facts/Alarm\.parquet: it cannot be read"):
        fit.fit(task)
    assert [t for t in threading.enumerate() if t.name.startswith("ThreadPool")] == []
