"""What Python and the terminal say after training that axioms did not move, and during it."""

from __future__ import annotations

import logging
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import fotltn
from fotltn.cli.main import app
from fotltn.errors import DataError, DataWarning
from fotltn.project import progress

THEORY = """\
sort pump
predicate Failed(pump), Serviced(pump), Here(pump)
axiom Lasts: forall x. G(Here(x) & Failed(x) & !Serviced(x) -> WX Failed(x))
axiom Helps: forall x. G(Here(x) & Serviced(x) -> WX !Failed(x))
"""
HOURS = 5


def rows(pumps: int = 30) -> dict[str, list[Any]]:
    """A trace for each pump, which fails for the rest of it, or until it is serviced."""
    draw = np.random.default_rng(0)
    table: dict[str, list[Any]] = {n: [] for n in ("pump", "run", "hour", "heat", "serviced")}
    table["failed"] = []
    for pump in range(pumps):
        begin = draw.integers(0, HOURS + 1)
        for hour in range(HOURS):
            failed = begin <= hour and (pump % 5 > 0 or hour < HOURS - 1)
            serviced = pump % 5 == 0 and hour == HOURS - 2
            cells = (f"p{pump}", f"r{pump}", hour, draw.normal(2.0 * failed, 1.0), serviced)
            for name, cell in zip(table, cells, strict=False):
                table[name].append(cell)
            table["failed"].append(int(failed) if (pump + hour) % 3 == 0 else None)
    return table


def fitted(trace: str = "pump", theory: str = THEORY, **settings: Any) -> fotltn.Classifier:
    settings = {"training": {"epochs": 40, "rate": 0.02}, **settings}
    return fotltn.Classifier(
        theory, "Failed", sort="pump", entity="pump", time="hour", trace=trace, presence="Here",
        predicates={"failed": "Failed", "serviced": "Serviced"}, features=["heat"], **settings,
    ).fit(rows())  # fmt: skip


def test_a_trace_for_each_entity_makes_its_sort_local_and_axioms_move_predictions():
    with_axioms, without = fitted(), fitted(objective={"axioms": "none"})
    assert with_axioms.model_.config.data.local == ("pump",)
    degrees = [c.predict_proba(rows())[:, 1] for c in (with_axioms, without)]
    assert np.abs(degrees[0] - degrees[1]).max() > 0.001


def test_axioms_whose_cells_are_absent_are_named_with_the_reason():
    absent = r"Lasts, Helps: 4,380 of 4,500 cells are absent, because each 'pump' is present in one"
    with pytest.warns(DataWarning, match=absent + r' trace.*data=\{"local": \["pump"\]\}') as told:
        fitted(data={"local": []})
    assert {Path(one.filename).name for one in told} == {"test_unmoved.py"}
    with pytest.warns(DataWarning, match=absent):
        fitted(trace="run")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(trace="run", data={"local": ["pump"]})


def test_predictions_that_axioms_did_not_change_are_compared_with_none():
    """Conditions that are never true: two models are equal."""
    never = THEORY.replace("Here(x) & Failed(x)", "!Here(x) & Here(x) & Failed(x)")
    never = never.replace("Here(x) & Serviced(x)", "!Here(x) & Here(x) & Serviced(x)")
    with pytest.warns(DataWarning) as told:
        fitted(theory=never)
    texts = [str(one.message) for one in told]
    assert any("Lasts, Helps: no influence on learned predicates" in text for text in texts)
    assert any("axioms changed no prediction by more than 0, compared" in text for text in texts)
    hard = never.replace("axiom", "hard axiom")
    few = {"worlds": 4, "burn_in": 2, "sweeps": 8, "stored": 1}
    with pytest.warns(DataWarning, match="Lasts, Helps: no influence"):
        fitted(theory=hard, posterior=few)


def test_the_terminal_says_it(tmp_path: Path):
    table = rows()
    lines = [",".join(map(str, row)) for row in [[*table], *zip(*table.values(), strict=True)]]
    (tmp_path / "t.csv").write_text("\n".join(lines).replace("None", ""))
    (tmp_path / "theory.fot").write_text(THEORY)
    text = """\
preset = "standard"
[theory]
file = "theory.fot"
[data]
local = []
[[data.wide]]
file = "t.csv"
sort = "pump"
entity = "pump"
time = "hour"
trace = "pump"
presence = "Here"
features = ["heat"]
predicates = { failed = "Failed", serviced = "Serviced" }
[predicates]
Failed = "auto"
[training]
epochs = 5
"""
    (tmp_path / "project.toml").write_text(text)
    said = CliRunner().invoke(app, ["train", str(tmp_path)]).output
    assert "each 'pump' is present in one trace only" in said
    (tmp_path / "project.toml").write_text(text.replace("local = []\n", ""))
    assert "absent" not in CliRunner().invoke(app, ["train", str(tmp_path)]).output


# --- progress -----------------------------------------------------------------------------------


def test_progress_is_shown_if_it_is_asked_for(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_FIRST", 0.0)
    monkeypatch.setattr(progress, "_EACH", 0.0)
    fitted(training={"epochs": 3}, verbose=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert re.fullmatch(r"fotltn: epoch 2 of 3: loss \S+, watched \S+ \(\d+ s\)", lines[1])
    few = {"worlds": 4, "burn_in": 2, "sweeps": 8, "stored": 1}
    fitted(method="posterior", posterior=few, verbose=True)
    assert "fotltn: sweep 10 of at most 10" in capsys.readouterr().err
    for verbose in (False, None):  # nothing here is a terminal
        fitted(training={"epochs": 3}, verbose=verbose)
        assert capsys.readouterr().err == ""


def test_each_room_has_a_logger():
    class Kept(logging.Handler):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def emit(self, record: logging.LogRecord) -> None:
            self.names.append(record.name)

    kept, logger = Kept(), logging.getLogger("fotltn")
    logger.addHandler(kept)
    logger.setLevel(logging.DEBUG)
    try:
        fitted(training={"epochs": 3})
        few = {"worlds": 4, "burn_in": 2, "sweeps": 8, "stored": 1}
        fitted(method="posterior", posterior=few)
    finally:
        logger.removeHandler(kept)
        logger.setLevel(logging.NOTSET)
    assert kept.names.count("fotltn.learn") >= 3
    assert kept.names.count("fotltn.posterior") == 10
    assert "fotltn.project" in kept.names
    assert any(isinstance(one, logging.NullHandler) for one in logger.handlers)


# --- places of what is wrong --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"foo": 1}, "unexpected keyword argument 'foo'"),
        ({"betas": [0.9]}, "index out of range"),
        ({"betas": [0.9, 2]}, "Invalid beta parameter"),
        ({"weight_decay": "much"}, "not supported between"),
        ({"lr": 0.1}, "multiple values.*the learning rate is 'rate'"),
    ],
)
def test_options_of_the_optimiser_are_refused_at_their_place(options, message):
    with pytest.raises(DataError, match=rf"(?s)training\.options: the optimiser 'adam'.*{message}"):
        fitted(training={"options": options})


def test_a_feature_that_is_too_large_is_refused_at_its_row():
    table = rows()
    table["heat"][7] = 1e308
    classifier = fitted(training={"epochs": 1})
    with pytest.raises(DataError, match=r"row 8 of .*'heat'.*1e\+308.*from -1e\+30 to 1e\+30"):
        classifier.fit(table)
