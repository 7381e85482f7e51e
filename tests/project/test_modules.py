"""Modules of one's own: as a predicate, several, or an encoder; saved, loaded and applied."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fotltn
from fotltn.errors import DataError
from tests.project.test_apply import days, degrees, rows, write

THEORY = """\
sort pump
predicate Failed(pump), Worn(pump), Here(pump)
axiom Cause: forall x where Here(x). G(Failed(x) -> Worn(x))
"""


class Recurrent(nn.Module):
    """A GRU over the time of each pump."""

    def __init__(self, outputs: int = 1) -> None:
        super().__init__()
        self.gru = nn.GRU(2, 4, batch_first=True)
        self.head = nn.Linear(4, outputs)

    def forward(self, seen: Tensor, present: Tensor) -> Tensor:
        rows = (seen * present.unsqueeze(-1)).reshape(-1, *seen.shape[-2:])
        output: Tensor = self.head(self.gru(rows)[0])
        return output.reshape(*seen.shape[:-1], -1)


class Two(Recurrent):
    def __init__(self) -> None:
        super().__init__(2)


class Sums(nn.Module):
    """An encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, seen: Tensor) -> Tensor:
        return torch.cat([seen, (seen * self.scale).cumsum(2)], dim=-1)


class Normal(nn.Module):
    """A network with numbers that training would change, were it not frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.line = nn.Linear(2, 1)

    def forward(self, seen: Tensor) -> Tensor:
        output: Tensor = self.line(self.norm(seen.reshape(-1, 2)))
        return output.reshape(seen.shape[:-1])


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("data"), {"pumps.csv": rows()["pumps.csv"]})


def train(tables: Path, predicates, inputs=None, epochs: int = 3) -> fotltn.Model:
    wide = fotltn.Wide(
        tables / "pumps.csv", "pump", "pump", "hour", "day",
        predicates={"failed": "Failed", "worn": "Worn"}, features=["bar", "degrees"],
        presence="Here",
    )  # fmt: skip
    learned = [n for p in predicates for n in ((p,) if isinstance(p, str) else p)]
    return fotltn.train(
        THEORY, wide=wide, data={"local": ["pump"]}, predicates=predicates, inputs=inputs,
        learn=[n for n in ("Failed", "Worn") if n not in learned], training={"epochs": epochs},
    )  # fmt: skip


CASES: dict[str, tuple[Any, Any, Any]] = {
    "a predicate": ({"Failed": Recurrent()}, None, {"Failed": Recurrent}),
    "several": ({("Failed", "Worn"): Two()}, None, {("Failed", "Worn"): Two()}),
    "an encoder": ({}, {"pump": {"encoder": Sums()}}, {"pump": Sums}),
    "both": ({"Worn": nn.Linear(4, 1)}, {"pump": {"encoder": Sums()}},
             {"Worn": nn.Linear(4, 1), "pump": Sums}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_module_is_trained_saved_loaded_and_applied(tables, tmp_path, case):
    predicates, inputs, modules = CASES[case]
    model = train(tables, predicates, inputs)
    assert model.warnings == ()
    model.save(tmp_path / "model")
    with pytest.raises(
        DataError, match=r"(is|are) computed by the Python object '.*', which files"
    ) as told:
        fotltn.load_model(tmp_path / "model")
    assert "pass it: modules={" in str(told.value)
    loaded = fotltn.load_model(tmp_path / "model", modules=modules)
    before = degrees(model)
    assert degrees(loaded) == before
    new = write(tmp_path / "new", {"pumps.csv": days(rows(), "d1", "d4")["pumps.csv"]})
    applied = degrees(loaded.apply(new / "pumps.csv"))
    assert len(applied) > 30
    assert applied == pytest.approx({k: before[k] for k in applied}, abs=1e-6)


def test_weights_are_the_models_own_and_no_code_is_in_its_folder(tables, tmp_path):
    model = train(tables, {"Failed": Recurrent()})
    model.save(tmp_path / "model")
    settings = (tmp_path / "model" / "project.toml").read_text()
    assert 'kind = "module"' in settings
    assert 'constructor = "Recurrent"' in settings
    suffixes = {".toml", ".json", ".fot", ".md", ".safetensors"}
    assert {f.suffix for f in (tmp_path / "model").iterdir()} == suffixes


def test_another_process_that_has_the_class_gives_the_same(tables, tmp_path):
    model = train(tables, {"Failed": Recurrent()})
    model.save(tmp_path / "model")
    code = (
        "import json, sys, fotltn\n"
        "from tests.project.test_modules import Recurrent\n"
        "model = fotltn.load_model(sys.argv[1], modules={'Failed': Recurrent})\n"
        "print(json.dumps(model.apply(sys.argv[2]).predictions().to_pylist()))\n"
    )
    new = write(tmp_path / "new", {"pumps.csv": days(rows(), "d2")["pumps.csv"]}) / "pumps.csv"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model"), str(new)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert json.loads(done.stdout) == model.apply(new).predictions().to_pylist()


def test_what_is_frozen_stays_with_all_that_it_keeps(tables):
    module = Normal().float().requires_grad_(False)
    before = {n: t.clone() for n, t in module.state_dict().items()}
    train(tables, {"Failed": module})
    assert all(torch.equal(t, before[n]) for n, t in module.state_dict().items())
    warm = Normal().float()
    before = {n: t.clone() for n, t in warm.state_dict().items()}
    train(tables, {"Failed": warm})
    assert not any(torch.equal(t, before[n]) for n, t in warm.state_dict().items())


def test_where_a_pump_is_not_there_nothing_holds(tables):
    model = train(tables, {"Failed": Recurrent()})
    here = model.tables.predicate("Here") > 0
    failed = model.tables.predicate("Failed")
    assert (failed[~here] == 0).all()
    assert (failed[here] > 0).all()


WRONG: dict[str, tuple[Any, str]] = {
    "a class with arguments": (
        {"Failed": nn.Linear},
        r"Linear, for 'Failed', cannot be called without arguments .* pass an instance",
    ),
    "no module": ({"Failed": 3}, "expected a module for 'Failed', not 3"),
    "another size": ({"Failed": Two}, "do not fit together: .*size mismatch"),
    "another name": (
        {"Faield": Recurrent},
        "'Failed' is computed by the Python object 'Recurrent'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_modules_that_do_not_fit_a_model(tables, tmp_path, case):
    modules, expected = WRONG[case]
    train(tables, {"Failed": Recurrent()}, epochs=1).save(tmp_path / "model")
    with pytest.raises(DataError, match=expected):
        fotltn.load_model(tmp_path / "model", modules=modules)


def test_a_class_is_no_module_yet(tables):
    for predicates, inputs in (
        ({"Failed": Two}, None),
        ({("Failed", "Worn"): Two}, None),
        ({}, {"pump": {"encoder": Two}}),
    ):
        with pytest.raises(DataError, match="Two is a class; pass an instance") as error:
            train(tables, predicates, inputs)
        assert error.value.diagnostics[0].hint == "Two(…)"
    with pytest.raises(DataError, match="'level': Linear is a class; pass an instance"):
        functions(tables, nn.Linear)


def test_modules_that_do_not_fit_the_data(tables):
    with pytest.raises(
        DataError, match=r"'Failed': a network returned shape .* expected the same axes"
    ):
        train(tables, {"Failed": nn.Flatten()})
    with pytest.raises(DataError, match="'Failed', 'Worn' can share a module, not 'network'"):
        train(tables, {("Failed", "Worn"): "network"})
    with pytest.raises(DataError, match="must have 2 outputs for 'Failed', 'Worn'"):
        train(tables, {("Failed", "Worn"): Recurrent()})


# --- functions of the theory --------------------------------------------------------------------

LEVELS = """\
sort pump
predicate Failed(pump), Here(pump)
temporal function level(pump): real
temporal function bar(pump): real
axiom Known: G forall x where Here(x). level(x) = bar(x)
axiom Low: G forall x where Here(x). Failed(x) -> level(x) = 0
"""


def functions(tables: Path, how: Any, epochs: int = 3, **more: Any) -> fotltn.Model:
    wide = fotltn.Wide(
        tables / "pumps.csv", "pump", "pump", "hour", "day",
        predicates={"failed": "Failed", "bar": "bar"}, features=["bar", "degrees"],
        presence="Here",
    )  # fmt: skip
    settings: dict[str, Any] = {
        "wide": wide, "data": {"local": ["pump"]}, "learn": ["Failed"],
        "training": {"epochs": epochs, "rate": 0.02}, "functions": {"level": how},
    }  # fmt: skip
    return fotltn.train(LEVELS, **settings | more)


def values(model: fotltn.Model) -> dict[tuple[Any, ...], float]:
    rows = model.predictions(["level"]).to_pylist()
    assert set(rows[0]) == {"predicate", "arg1", "time", "trace", "value"}
    return {(row["trace"], row["arg1"], row["time"]): row["value"] for row in rows}


@pytest.mark.parametrize("how", [Recurrent(), "network", {"kind": "network", "hidden": [4]}])
def test_a_function_is_trained_saved_loaded_and_applied(tables, tmp_path, how):
    model = functions(tables, how)
    model.save(tmp_path / "model")
    handed: Any = {"level": Recurrent} if isinstance(how, nn.Module) else {}
    settings = (tmp_path / "model" / "project.toml").read_text()
    assert "[functions.level]" in settings
    if handed:
        assert 'constructor = "Recurrent"' in settings
        with pytest.raises(
            DataError, match="'level' is computed by the Python object 'Recurrent', which files"
        ):
            fotltn.load_model(tmp_path / "model")
        with pytest.raises(DataError, match=r"do not fit together: .*size mismatch"):
            fotltn.load_model(tmp_path / "model", modules={"level": Two})
    loaded = fotltn.load_model(tmp_path / "model", modules=handed)
    assert loaded.config == model.config
    before = values(model)
    assert values(loaded) == before
    assert degrees(loaded) == degrees(model)
    new = write(tmp_path / "new", {"pumps.csv": days(rows(), "d1", "d4")["pumps.csv"]})
    applied = values(loaded.apply(new / "pumps.csv"))
    assert len(applied) > 10
    assert applied == pytest.approx({k: before[k] for k in applied}, abs=1e-5)
    formula = "forall x. G(level(x) = 1)"
    assert torch.equal(loaded.ask(formula).tensor, model.ask(formula).tensor)
    assert "level(pump)" in (tmp_path / "model" / "README.md").read_text()


def test_a_function_learns_what_an_axiom_says_of_it(tables):
    model = functions(tables, "network", epochs=400)
    model.grounding.eval()
    here = model.tables.predicate("Here") > 0
    level, bar = model.tables.function("level"), model.tables.function("bar")
    off = (level - bar)[here].abs()
    assert off.mean() < 0.5 * (bar[here] - bar[here].mean()).abs().mean()
    assert (level[~here] == 0).all()


def test_all_that_is_asked_of_a_model_goes_with_a_learned_function(tables):
    model = functions(tables, Recurrent())
    assert model.audit().axioms
    assert model.truth.function("level").shape == model.tables.function("level").shape
    assert len(model.worst(3)) == 3
    assert model.decided().predicate("Failed").max() <= 1
    every = model.predictions()
    assert {row["predicate"] for row in every.to_pylist()} == {"Failed", "level"}
    facts = model.predictions(["Here", "Failed", "level", "bar"])
    read = fotltn.read(model.theory, facts, local=["pump"], presence="Here")
    assert read.function("level").flatten().tolist() == pytest.approx(
        model.tables.function("level").flatten().tolist()
    )


def test_a_frozen_function_stays(tables):
    module = Normal().float().requires_grad_(False)
    before = {n: t.clone() for n, t in module.state_dict().items()}
    functions(tables, module)
    assert all(torch.equal(t, before[n]) for n, t in module.state_dict().items())


def test_functions_that_cannot_be_learned(tables):
    with pytest.raises(
        DataError, match="functions: 'level' must be computed by a network or a mod"
    ):
        functions(tables, max)
    with pytest.raises(DataError, match="the project mentions the unknown function 'lvel'"):
        functions(tables, None, functions={"lvel": "network"})
    with pytest.raises(DataError, match=r"functions\.level\.kind: unknown value 'logits'"):
        functions(tables, "logits")
    with pytest.raises(DataError, match="the function 'bar' is computed, but the data") as stated:
        functions(tables, None, functions={"bar": "network", "level": "network"})
    assert str(stated.value).endswith("G(bar(x) = measured(x))")
    with pytest.raises(DataError, match="the function 'level' has no value for"):
        functions(tables, None, functions={})
    with pytest.raises(DataError, match="'level': a network returned shape"):
        functions(tables, nn.Flatten())
