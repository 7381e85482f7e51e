"""Commands over prepared data go over all blocks, and say what they say of all data at once."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from typer.testing import CliRunner, Result

from fotltn.analysis.influence import influence_part
from fotltn.cli.main import app
from fotltn.errors import DataError
from fotltn.evaluation import evaluate_all
from fotltn.project.blocked import (
    BlockedModel,
    model_on_disk,
    model_over_blocks,
    project_on_disk,
)
from fotltn.project.config import read_config
from fotltn.project.find import audit_labels, find_model, load_project
from fotltn.project.model import Model
from fotltn.project.prepare import prepare
from fotltn.project.train import train
from fotltn.semantics.config import STABLE_PRODUCT
from tests.project.many_traces import TOML, many_traces
from tests.test_sharing import together

#: A formula whose value is a mean, one that looks ahead, and a guard that some degrees forbid.
MORE = """\
axiom Soon: forall x where Here(x). G(Alarm(x) -> F Failed(x))
axiom Some: G(exists x. Failed(x))
axiom Gives: forall x, y. G(Near(x, y) & Alarm(x) -> Failed(y))
"""
DOUBLE = TOML.replace("[training]", '[machine]\ndtype = "float64"\n[training]')


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a model, in blocks of two traces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "get_default_dtype", lambda: torch.float32)
        folder = many_traces(tmp_path_factory.mktemp("blocked") / "p", toml=DOUBLE)
        theory = folder / "theory.fot"
        theory.write_text(theory.read_text("utf-8") + MORE, "utf-8")
        lines = (folder / "facts.csv").read_text("utf-8").splitlines()
        certain = [n if ",s0," in n else n.replace(",0.5,", ",,") for n in lines]
        (folder / "facts.csv").write_text("\n".join(certain) + "\n", "utf-8")
        config = read_config(folder)
        prepare(config, folder / "blocks", traces=2)
        train(config).save(folder / "model")
    return folder


@pytest.fixture(scope="module")
def blocked(home: Path) -> BlockedModel:
    return model_on_disk(find_model(home), read_config(home))


@pytest.fixture(scope="module")
def at_once(home: Path, blocked: BlockedModel) -> Model:
    """The same networks over all tables, in memory."""
    return blocked.model.apply(home)


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    """Rows in an order of their own; traces come in another one."""
    columns = sorted(table.column_names)
    return sorted(zip(*(table.column(c).to_pylist() for c in columns), strict=True), key=repr)


def near(one: object, other: object, where: str = "") -> None:
    """All numbers of two documents agree up to rounding, and all else is the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            near(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        assert len(one) == len(other), where
        for number, pair in enumerate(zip(one, other, strict=True)):
            near(*pair, f"{where}.{number}")
    elif isinstance(one, float) and isinstance(other, float):
        assert one == pytest.approx(other, rel=1e-6, abs=1e-9), where
    else:
        assert one == other, where


def test_predictions(blocked: BlockedModel, at_once: Model) -> None:
    tables = list(blocked.predictions())
    assert len(tables) == blocked.worlds.count == 4
    together, alike = rows(pa.concat_tables(tables)), rows(at_once.predictions())
    assert len(together) == len(alike) > 50
    near(together, alike)


def test_metrics(home: Path, blocked: BlockedModel, at_once: Model) -> None:
    everything = model_over_blocks(blocked.model, home / "blocks").metrics()
    expected = at_once.metrics()
    assert everything is not None
    assert expected is not None
    near(everything.as_dict(), expected.as_dict())
    drawn = blocked.metrics()
    assert drawn is not None
    assert drawn.predicates["Failed"].facts < everything.predicates["Failed"].facts


@pytest.mark.parametrize("end", ["undecided", "final"])
def test_audits(home: Path, blocked: BlockedModel, at_once: Model, end) -> None:
    view = blocked.view()
    ours, theirs = view.under(end=end).audit(), at_once.audit(end=end)
    near(ours.as_dict(), theirs.as_dict())
    assert ours.axiom("Spreads").gradient_antecedent is not None
    assert {w.kind for w in ours.warnings} == {w.kind for w in theirs.warnings}
    near(view.under(threshold=0.3).audit().as_dict(), at_once.audit(threshold=0.3).as_dict())
    before, other = project_on_disk(read_config(home)), in_memory(home)
    near(before.view().audit().as_dict(), audit_labels(other).as_dict())


def in_memory(home: Path) -> Path:
    """The same project without prepared data."""
    path = home / "in_memory.toml"
    path.write_text(DOUBLE.replace('prepared = "blocks"\n', ""), "utf-8")
    return path


def test_a_guard_follows_from_all_blocks(blocked: BlockedModel, at_once: Model) -> None:
    """`Near` has degrees in the first block alone, and is no guard of any."""
    view = blocked.view()
    certain = view.each("guards", lambda one, _: "Near" in influence_part(one).crisp)
    assert certain == [False, True, True, True]
    ours, theirs = (one.audit().axiom("Gives").influence for one in (view, at_once))
    assert ours is not None
    assert theirs is not None
    assert ours.suggestion == theirs.suggestion
    assert "where Alarm(x)." in str(ours.suggestion)


@pytest.mark.parametrize("semantics", ["crisp", "godel"])
def test_rules(home: Path, blocked: BlockedModel, at_once: Model, semantics) -> None:
    for ours, theirs in (
        (blocked.view().decided(), at_once.view().decided()),
        (project_on_disk(read_config(home)).view(), load_project(in_memory(home))),
    ):
        assert ours.total == theirs.tables.batch == 8
        for one, other in zip(
            ours.rules(semantics=semantics, resamples=0),
            theirs.rules(semantics=semantics, resamples=0),
            strict=True,
        ):
            near(one.as_dict(), other.as_dict())
    (rule,) = blocked.view().rules(["forall x. G(Failed(x) -> F Alarm(x))"], resamples=200)
    assert rule.overall.confidence.low is not None
    assert blocked.view().rule == at_once.view().rule


def test_parts_of_the_traces(tmp_path: Path) -> None:
    toml = DOUBLE.replace("train = 0.8\n", "") + (
        '[data.split]\nfile = "split.csv"\ntrace = "site"\ncolumn = "part"\ntrain = ["train"]\n'
        'validation = ["validation"]\ntest = ["test"]\n'
    )
    folder = many_traces(tmp_path / "p", toml=toml)
    parts = ["train", "test", "validation", "train"]
    lines = [f"s{n},{parts[n % 4]}" for n in range(8)]
    (folder / "split.csv").write_text("\n".join(["site,part", *lines]) + "\n", "utf-8")
    config = read_config(folder)
    prepare(config, folder / "blocks", traces=3)
    ours = project_on_disk(config).view()
    theirs = load_project(_without_blocks(folder, toml))
    for part in ("train", "test", "validation"):
        for one, other in zip(
            ours.rules(part=part, resamples=0), theirs.rules(part=part, resamples=0), strict=True
        ):
            near(one.as_dict(), other.as_dict())
    with pytest.raises(DataError, match="there is no part 'tset' of the traces"):
        ours.rules(part="tset")


def _without_blocks(folder: Path, toml: str) -> Path:
    path = folder / "other.toml"
    path.write_text(toml.replace('prepared = "blocks"\n', ""), "utf-8")
    return path


# --- theories on prepared facts ---------------------------------------------------------------


@pytest.mark.parametrize("at", ["0", "all", "4"])  # some traces have four steps, others five
def test_values_of_a_theory(home: Path, at: str) -> None:
    words = ("eval", home / "theory.fot", "--facts", home / "blocks", "--at", at, "--json")
    results = json.loads(told(*words))["results"]
    project = load_project(in_memory(home))
    tables, lengths = project.tables, project.tables.lengths.tolist()
    formulas = {a.name: a.formula for a in project.theory.axioms}
    point = None if at == "all" else int(at)
    values = evaluate_all(formulas, tables, STABLE_PRODUCT, at=point)
    assert len(results) == len(formulas) * 8
    for result in results:
        trace = tables.names.traces.index(result["trace"])
        expected = values[result["formula"]].tensor.expand(8, tables.horizon)[trace]
        if point is None:
            near(result["values"], expected[: lengths[trace]].tolist())
        elif point >= lengths[trace]:
            assert result["value"] is None
        else:
            near(result["value"], float(expected[point]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["eval", "THEORY", "--facts", "BLOCKS", "--horizon", "9"], "come alone, without --horiz"),
        (["eval", "THEORY", "--facts", "BLOCKS", "--at", "9"], "the time point 9 does not exist"),
        (["rules", "THEORY", "--facts", "BLOCKS", "--presence", "Here"], "come alone"),
        (["score", "HOME", "--facts", "BLOCKS/x.csv"], "--facts needs data in memory"),
        (["score", "HOME", "--evidence"], "--evidence is for sampled worlds"),
        (["predict", "HOME", "--data", "BLOCKS", "--data", "BLOCKS"], "prepared data come alone"),
        (["ask", "HOME/model", "Some", "--data", "BLOCKS"], "one block is in memory at a time"),
    ],
)
def test_what_is_refused(home: Path, words, message) -> None:
    places = {"THEORY": home / "theory.fot", "BLOCKS": home / "blocks", "HOME": home}
    for name, place in places.items():
        words = [word.replace(name, str(place)) for word in words]
    outcome = invoke(*words)
    assert outcome.exit_code == 1
    assert message in str(outcome.exception), outcome.exception


def test_other_data_are_refused(home: Path, blocked: BlockedModel, tmp_path: Path) -> None:
    toml = DOUBLE.replace('["pressure", "kind"]', '["pressure"]')
    other = read_config(many_traces(tmp_path / "q", toml=toml))
    (tmp_path / "q" / "theory.fot").write_text((home / "theory.fot").read_text())
    prepare(other, tmp_path / "q" / "blocks")
    with pytest.raises(DataError, match="the model sees these features of 'pump'"):
        model_over_blocks(blocked.model, tmp_path / "q" / "blocks")
    facts = replace(blocked.model.facts, entities={"hall": ("north",)})
    model = replace(blocked.model, world=replace(blocked.model.world, facts=facts))
    with pytest.raises(DataError, match="other entities of 'hall'"):
        model_over_blocks(model, home / "blocks")


# --- the commands -----------------------------------------------------------------------------


def told(*words: object) -> str:
    outcome = invoke(*map(str, words))
    assert outcome.exit_code == 0, outcome.exception
    return outcome.output


def test_commands_go_over_all_blocks(home: Path, blocked: BlockedModel, tmp_path: Path) -> None:
    assert json.loads(told("rules", home, "--json"))["traces"] == 8
    assert (
        json.loads(told("rules", home / "theory.fot", "--facts", home / "blocks", "--json"))[
            "traces"
        ]
        == 8
    )
    audited = json.loads(told("audit", home, "--json"))
    assert not audited["trained"]
    near(audited["axioms"], project_on_disk(read_config(home)).view().audit().as_dict()["axioms"])
    scored = json.loads(told("score", home, "--json"))
    report = blocked.metrics()
    assert report is not None
    near(scored["metrics"], json.loads(json.dumps(report.as_dict())))
    for name in ("p.csv", "p.parquet"):
        assert f"{name}: " in told("predict", home, "-o", tmp_path / name)
    count = sum(t.num_rows for t in blocked.predictions())
    printed = told("predict", home).splitlines()
    assert printed == (tmp_path / "p.csv").read_text("utf-8").splitlines()
    assert len(printed) == count + 1
    assert len(json.loads(told("predict", home, "--json"))["predictions"]) == count
    by_model = told("predict", home / "model", "--data", home / "blocks")
    assert by_model.splitlines() == printed


def test_a_model_alone_says_what_it_answers_for(home: Path) -> None:
    for words in (["score", home / "model"], ["ask", home, "G(exists x. Failed(x))"]):
        outcome = invoke(*words)
        assert outcome.exit_code == 0, outcome.exception
        assert "this answer is about the first block only, of 2 traces" in outcome.stderr


# --- several processes ------------------------------------------------------------------------


def everything(home: Path) -> dict[str, object]:
    """What commands ask of all blocks, and which of them were read for that."""
    blocked = model_on_disk(find_model(home), read_config(home))
    view, read = blocked.view(), list[int]()
    seen = {
        "predictions": pa.concat_tables(blocked.predictions()).to_pydict(),
        "rules": [rule.as_dict() for rule in view.rules(resamples=50)],
        "audit": view.audit().as_dict(),
        "blocks": view.each("numbers", lambda one, _: read.append(one.tables.batch)),
    }
    report = blocked.metrics()
    assert report is not None
    return {**seen, "metrics": report.as_dict(), "read": len(read)}


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_processes_have_some_blocks_each_and_say_the_same(home: Path, count: int) -> None:
    """With uneven shares, and with more processes than blocks; threads stand for them."""
    expected = everything(home)
    assert expected.pop("read") == 4
    every = together(count, lambda _: everything(home))
    assert sum(one.pop("read") for one in every) == 4
    for one in every:
        assert one == expected


def test_a_block_that_is_damaged_is_an_error_of_all(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    shutil.copytree(home, folder)
    (folder / "blocks" / "block-000003" / "traces.parquet").write_bytes(b"no table")
    for error in together(2, lambda _: everything(folder)):
        assert isinstance(error, DataError)
        assert "block-000003/traces.parquet" in str(error)
