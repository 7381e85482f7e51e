"""Turn a project's tables into prepared data: blocks of traces on disk."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch

from fotltn.errors import DataError, Diagnostic, LimitError, listing, warning
from fotltn.format import size
from fotltn.grounding.block_reader import FeatureColumns
from fotltn.grounding.deal import Dealer, DealtTable
from fotltn.grounding.facts import Facts
from fotltn.grounding.features import Features
from fotltn.grounding.prepared import MANIFEST, PreparedData, block_folder, write_block
from fotltn.grounding.wide import columns_of, read_wide
from fotltn.learn import folders
from fotltn.learn.locks import locked, reserved
from fotltn.learn.store import refused, resolved
from fotltn.logic.signature import Signature
from fotltn.project.config import Config
from fotltn.project.data_config import WideConfig
from fotltn.project.world import checked, wide_table
from fotltn.semantics.tables import Names
from fotltn.syntax.load import load_theory
from fotltn.syntax.show import show_theory
from fotltn.syntax.theory import Theory

#: The number of traces in a block, if neither the command nor `[training.batches]` sets it.
TRACES = 32

#: The most bytes of memory needed to read a block, per byte of its rows.
_TIMES = 12

#: The keys of `[data]` that change no fact.
_WITHOUT = ("folder", "prepared", "split", "train", "by", "sort", "flip", "seed", "test")

#: A function that receives the present task, the progress, and the total if known.
Tell = Callable[[str, int, int | None], None]


@dataclass(frozen=True, slots=True)
class PreparedSummary:
    """A summary of prepared data.

    Args:
        folder: the folder of the data.
        blocks: the number of blocks.
        traces: the number of traces.
        rows: the number of rows of all tables.
        facts: the number of facts in all blocks.
        size: the bytes on disk.
        warnings: oddities that are not errors.
    """

    folder: Path
    blocks: int
    traces: int
    rows: int
    facts: int
    size: int
    warnings: tuple[Diagnostic, ...]


def prepare(
    config: Config,
    out: Path,
    *,
    traces: int | None = None,
    budget: int = 2**32,
    tell: Tell = lambda *_: None,
) -> PreparedSummary:
    """Read a project's tables part by part, and write them in blocks of traces.

    Args:
        config: the project.
        out: the folder; earlier prepared data in it are replaced at the end, in one step.
        traces: the number of traces in a block; by default, as many as in a step of training.
        budget: bytes of memory.
        tell: a function that receives the progress.

    Raises:
        FotError: a file is missing or wrong, or the project's data cannot be prepared.
    """
    theory = load_theory(config.theory_path(), root=next(iter(config.roots), None))
    signature = checked(theory, config).signature
    _refuse(config)
    batches = config.training.batches
    usual = batches.size if batches is not None and batches.by == "traces" else TRACES
    target = resolved(out)
    working = target.with_name(f".{target.name}.preparing")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _check_target(target)
        with reserved(working, "preparation"):
            rows, data = (_emptied(working / name) for name in ("rows", "data"))
            try:
                dealer = _dealer(config, signature, rows, traces or usual, budget)
                for done in dealer.deal():
                    tell("rows read", done, None)
                _check_dealt(dealer)
                blocks = _Blocks(config, signature, dealer, data, budget)
                made = blocks.written(tell)
                replace(made, settings=prepared_with(config, theory)).write()
                size = sum(p.stat().st_size for p in data.rglob("*") if p.is_file())
                with locked(target.parent, exclusive=True):
                    folders.settle(target.parent, lambda name: name == target.name)
                    _check_target(target)
                    folders.move(target, data)
            finally:
                shutil.rmtree(rows, ignore_errors=True)
                shutil.rmtree(data, ignore_errors=True)
        with suppress(OSError):  # left by a preparation that was killed, if there is one
            working.rmdir()
    except OSError as error:
        raise refused("write", error.filename or out, error) from None
    return PreparedSummary(
        out, len(made.traces), sum(made.traces), dealer.rows, sum(made.facts), size,
        blocks.warnings(),
    )  # fmt: skip


def prepared_with(config: Config, theory: Theory) -> str:
    """Return a digest of the declarations and of `[data]`, on which prepared data depend."""
    data = {k: v for k, v in asdict(config.data).items() if k not in _WITHOUT}
    declared = show_theory(replace(theory, axioms=()))
    text = repr((declared, data, config.dtype))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _refuse(config: Config) -> None:
    """Raise an error for data that blocks cannot hold."""
    data = config.data
    if not data.facts and not data.wide:
        raise config.error(("data",), "there are no tables to prepare", 'facts = ["facts.csv"]')
    if data.test:
        raise config.error(
            ("data", "test"),
            "prepared data have no files of test facts",
            "use a table to say which traces are for testing: [data.split]; or set train = 0.8",
        )
    clock = data.timing
    if clock is not None and clock.kind == "shared" and clock.origin is None:
        raise config.error(
            ("data", "step"),
            "blocks are read one after another, so a shared clock needs the beginning of its first "
            "step",
            'origin = "…" in [data]; or clock = "own", if each trace begins at its own step 0',
        )


def _check_target(target: Path) -> None:
    """Raise an error if the folder holds other files, which would be lost."""
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise DataError(f"cannot write {target}: there is a file of that name")
    names = os.listdir(target)
    if names and MANIFEST not in names:
        raise DataError(
            f"cannot write {target}: the folder has other files ({listing(sorted(names), 3)})",
            hint="name a new or an empty folder",
        )


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def _dealer(config: Config, signature: Signature, rows: Path, traces: int, budget: int) -> Dealer:
    long = [DealtTable(config.table(name), "trace") for name in config.data.facts]
    wide = [
        DealtTable(config.table(w.file), w.trace, columns_of(wide_table(w, ()), signature))
        for w in config.data.wide
    ]
    return Dealer(rows, [*long, *wide], traces, budget)


def _check_dealt(dealer: Dealer) -> None:
    if len(dealer.traces.numbers) < 2:
        raise DataError(
            f"the tables have {len(dealer.traces.numbers) or 'no'} trace, and data are "
            "prepared in blocks of traces",
            hint="train without preparing; or name traces: a column 'trace' of facts, "
            'trace = "…" of a wide table',
        )


@dataclass(slots=True)
class _Blocks:
    """Reads and writes blocks until all of them have the same entities and categories.

    A block is read with the entities of the blocks before it, and its own categories. A block that
    lacks an entity with features in every trace, or a category, is read again at the end.
    """

    config: Config
    signature: Signature
    dealer: Dealer
    data: Path
    budget: int
    entities: dict[str, tuple[str, ...]] = field(default_factory=dict)
    room: dict[str, int] = field(default_factory=dict)
    present: dict[str, tuple[str, ...]] = field(default_factory=dict)
    facts: dict[int, int] = field(default_factory=dict)
    columns: dict[int, dict[str, FeatureColumns]] = field(default_factory=dict)
    sizes: dict[int, dict[str, int]] = field(default_factory=dict)
    odd: dict[int, tuple[Diagnostic, ...]] = field(default_factory=dict)

    def written(self, tell: Tell) -> PreparedData:
        """Write all blocks, and return what they have in common."""
        every = range(self.dealer.blocks)
        self.room = dict.fromkeys(self.config.data.local, 1)
        self._write(every, self.config.data.wide, tell)
        words = self._categories()
        late = [b for b in every if self.sizes[b] != self._sizes() or self._read_with(b) != words]
        named = [
            replace(w, categories={c: words[w.sort][c] for c in w.features if c in words[w.sort]})
            if w.sort in words
            else w
            for w in self.config.data.wide
        ]
        self._write(late, named, tell)
        if any(self.columns[b] != self.columns[0] for b in every):
            raise DataError(
                "blocks have different features",
                hint="name the categories of text columns: categories = {column = […]}",
            )
        return PreparedData(
            self.data,
            tuple(len(self.dealer.names(b)) for b in every),
            tuple(self.facts[b] for b in every),
            {s: self.entities.get(s, ()) for s in self.signature.sorts if s not in self.room},
            self.room, self.present, self.columns[0],
        )  # fmt: skip

    def warnings(self) -> tuple[Diagnostic, ...]:
        """Return the warnings about blocks, each once, with the number of blocks."""
        counts: dict[str, int] = {}
        for message in (d.message for odd in self.odd.values() for d in odd):
            counts[message] = counts.get(message, 0) + 1
        texts = (m if n == 1 else f"{m} (and in {n - 1} more blocks)" for m, n in counts.items())
        return tuple(map(warning, texts))

    def _write(self, blocks: Sequence[int], wide: Sequence[WideConfig], tell: Tell) -> None:
        for done, block in enumerate(blocks, 1):
            facts, features = self._read(block, wide)
            self.entities = facts.entities
            for sort, of_traces in facts.local.items():
                self.room[sort] = max(self.room[sort], *map(len, of_traces))
            self.present, self.odd[block] = facts.present, facts.warnings
            self.columns[block] = {
                sort: FeatureColumns(of.names, of.categories, self._static(sort))
                for sort, of in features.items()
            }
            self.sizes[block] = self._sizes()
            shutil.rmtree(block_folder(self.data, block), ignore_errors=True)
            static = [sort for sort in features if self._static(sort)]
            self.facts[block] = write_block(
                self.data, block, facts, features, self.signature, static
            )
            tell("blocks written", done, len(blocks))

    def _read(self, block: int, wide: Sequence[WideConfig]) -> tuple[Facts, dict[str, Features]]:
        data, traces = self.config.data, self.dealer.names(block)
        tables = self.dealer.read(block)
        if (taken := _TIMES * sum(table.nbytes for _, table in tables)) > self.budget:
            raise LimitError(
                f"a block of {len(traces)} traces needs about {size(taken)} to read; the "
                f"budget is {size(self.budget)}",
                hint="use fewer traces per block (--traces), or a larger --budget",
            )
        long, rest = tables[: len(data.facts)], tables[len(data.facts) :]
        return read_wide(
            [wide_table(w, one) for w, one in zip(wide, rest, strict=True)], self.signature,
            facts=long, horizon=data.horizon, local=data.local, on_conflict=data.on_conflict,
            clock=data.timing, beyond=data.beyond, dtype=getattr(torch, self.config.dtype),
            names=Names(traces, self.entities),
        )  # fmt: skip

    def _static(self, sort: str) -> bool:
        """Return whether no feature of a sort changes over time."""
        return all(w.time is None for w in self.config.data.wide if w.sort == sort and w.features)

    def _sizes(self) -> dict[str, int]:
        """Count the entities of shared sorts that need features in every trace."""
        featured = {w.sort for w in self.config.data.wide if w.features}
        shared = featured - {*self.room, *self.present}
        return {sort: len(self.entities.get(sort, ())) for sort in sorted(shared)}

    def _categories(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Return the categories of all blocks together, by sort and column."""
        words: dict[str, dict[str, set[str]]] = {}
        for of_block in self.columns.values():
            for sort, of in of_block.items():
                for column, some in of.categories.items():
                    words.setdefault(sort, {}).setdefault(column, set()).update(some)
        named = {
            (w.sort, column): tuple(some)
            for w in self.config.data.wide
            for column, some in w.categories.items()
        }
        return {
            sort: {c: named.get((sort, c), tuple(sorted(some))) for c, some in of.items()}
            for sort, of in words.items()
        }

    def _read_with(self, block: int) -> dict[str, dict[str, tuple[str, ...]]]:
        """Return the categories that a block was read with, in the same form."""
        of_block = self.columns[block].items()
        return {sort: dict(of.categories) for sort, of in of_block if of.categories}
