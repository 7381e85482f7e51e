"""Commands keep to their budget, and say which axiom does not fit, and what it needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.reliability

FACTS = "predicate,arg1,arg2,time\n" + "".join(
    f"P,e{i},e{(3 * i + t) % 8},{t}\nA,e{i},,{t}\n" for i in range(8) for t in range(6)
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = ["sort s", "predicate A(s), B(s)", "predicate P(s, s)"]
    lines += ["axiom Near: forall x, y. G(P(x, y) & A(x) -> B(y))", "axiom Any: exists x. F A(x)"]
    (tmp_path / "t.fot").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "f.csv").write_text(FACTS, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("options", [[], ["--p", "25"], ["--semantics", "ltn"]])
def test_eval_and_plan_name_the_axiom_and_count_the_same_bytes(folder, call, options):
    theory, facts = str(folder / "t.fot"), str(folder / "f.csv")
    found = call("eval", theory, "--facts", facts, "--budget", "200", *options)
    sizes = ["--size", "s=8", "--horizon", "6"]
    planned = call("plan", theory, *sizes, "--double", "--budget", "200", *options)
    assert found[0] == planned[0] == 1
    assert found[2] == planned[2]
    assert re.search(r"'Near': .*[\d,]+ bytes.*more than the budget of 200", found[2])


def test_crisp_and_rules_name_the_axiom(folder, call):
    theory, facts = str(folder / "t.fot"), str(folder / "f.csv")
    status, _, err = call(
        "eval", theory, "--facts", facts, "--budget", "200", "--semantics", "crisp"
    )
    assert status == 1
    assert "'Near' needs " in err
    status, _, err = call("rules", theory, "--facts", facts, "--budget", "200")
    assert status == 1
    assert "'Near': " in err
    assert "more than the budget of 200" in err
