"""The documentation is run: examples give what they show, generated parts are current."""

from __future__ import annotations

import doctest
import importlib
import io
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import torch
import typer.main

import fotltn
from fotltn.algebra.lower import lower
from fotltn.algebra.passes import PASSES
from fotltn.algebra.show import show
from fotltn.cli.main import app
from fotltn.errors import FotError
from fotltn.logic.check import check, check_formula
from fotltn.logic.signature import build_signature
from fotltn.plan.plan import Route
from fotltn.semantics.config import named
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula
from tests.figures import assert_current, drawing

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "reproduction" / "README.md", *sorted(DOCS.glob("**/*.md"))]
LINKED = [*PAGES, *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY"))]
STATEMENT = re.compile(
    r"^(sort|static|temporal|predicate|function|constant|relation|include|axiom)\b", re.MULTILINE
)

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is, its language, what follows the language, its text."""

    page: Path
    line: int
    language: str
    title: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    fences = re.finditer(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(page, text.count("\n", 0, m.start(3)) + 1, m[1], m[2], m[3]) for m in fences]


def prose(page: Path) -> str:
    """A page without its code."""
    fenced = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", fenced)


@pytest.fixture(autouse=True)
def _as_for_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Single precision as outside the tests; the function, not the module, as `evaluate`."""
    torch.set_default_dtype(torch.float32)
    if isinstance(fotltn.evaluate, ModuleType):
        monkeypatch.setattr(fotltn, "evaluate", fotltn.evaluate.evaluate)


@pytest.fixture
def generate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("generate")


def workspace(page: Path, folder: Path) -> None:
    """What the commands of a page find: the examples, and the files that the page shows."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    for block in blocks(page):
        if block.title.endswith((".csv", ".fot", ".toml")) and not added_to(block):
            (folder / block.title).write_text(block.text, "utf-8")


def added_to(block: Block) -> str:
    """The file that a block is added to when its turn comes, as `fot add to project/theory.fot`."""
    return block.title.removeprefix("add to ") if block.title.startswith("add to ") else ""


def trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


# --- examples -----------------------------------------------------------------------------------


def needed(block: Block) -> list[str]:
    """Packages that a block of Python needs, and fotltn does not: `python needs lightning`."""
    return block.title.removeprefix("needs ").split() if block.language == "python" else []


@by_page
def test_python_runs(page, tmp_path, monkeypatch):
    workspace(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    with drawing().saved() as figures:
        run_python([block for block in blocks(page) if not needed(block)])
    for drawn, contents in figures.items():  # a page that draws figures shows these
        if (DOCS / page.stem / drawn.name).exists():
            assert_current(contents, drawn, f"{page.stem}/{drawn.name}")


@pytest.mark.filterwarnings("default")  # those of other packages are not ours
@pytest.mark.parametrize("page", [p for p in PAGES if any(map(needed, blocks(p)))], ids=str)
def test_python_that_needs_more_runs(page, tmp_path, monkeypatch):
    workspace(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    run_python(blocks(page))


def run_python(listed: list[Block]) -> None:
    """Run blocks one after the other, and compare what they print."""
    names: dict[str, object] = {"__name__": "__main__"}
    for block in listed:
        page = block.page
        if block.language != "python":
            continue
        if ">>>" not in block.text:
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
            continue
        test = doctest.DocTestParser().get_doctest(
            block.text, names, block.place, str(page), block.line - 1
        )
        report = io.StringIO()
        runner = doctest.DocTestRunner(verbose=False)
        runner.run(test, out=report.write, clear_globs=False)
        assert runner.failures == 0, report.getvalue()
        names = test.globs


@by_page
def test_formulas_check(page):
    found = (block for block in blocks(page) if not added_to(block))
    for block in found:
        if block.language == "fot" and block.title == "error":
            with pytest.raises(FotError) as error:
                check(parse_theory(block.text))
            shown = next(found)
            assert shown.language == "text", f"{block.place}: the error is to follow as text"
            assert trimmed(str(error.value)) == trimmed(shown.text), block.place
        elif block.language == "fot" and STATEMENT.search(block.text):
            check(parse_theory(block.text, source=block.place))
        elif block.language == "fot":
            for line in block.text.splitlines():
                if line.strip():
                    check_formula(parse_formula(line, source=block.place))


def test_passes_do_what_is_shown():
    declared = "sort s\nstatic predicate A(s)\npredicate B(s), rain\npredicate P(s, s)"
    signature = build_signature(parse_theory(declared).declarations)[0]
    order = [p.__name__ for p in PASSES]
    examples = [b for b in blocks(DOCS / "engine.md") if b.language == "text" and b.title]
    assert [b.title for b in examples] == order
    for block in examples:
        for case in block.text.strip().split("\n\n"):
            told = dict(line.split(": ", 1) for line in case.splitlines())
            formula = check_formula(parse_formula(told["formula"]), signature).formula
            at = None if told["at"] == "all" else int(told["at"])
            expr = lower(formula, signature, named(told["semantics"]), at=at)
            place = order.index(block.title)
            for earlier in PASSES[:place]:
                expr = earlier(expr)
            assert show(expr) == told["before"], block.place
            assert show(PASSES[place](expr)) == told["after"], block.place


def test_fences_are_closed_and_known():
    known = {"python", "console", "fot", "csv", "text", "sh", "toml", "lark"}
    for page in LINKED:
        fences = re.findall(r"^```.*$", page.read_text("utf-8"), re.MULTILINE)
        assert len(fences) % 2 == 0, page
        assert {block.language for block in blocks(page)} <= known, page


def test_a_wrong_example_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "examples").mkdir()
    page = tmp_path / "page.md"
    for number, text in enumerate((">>> 1 + 1\n3\n", "assert False\n")):
        page.write_text(f"```python\n{text}```\n", "utf-8")
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(AssertionError):
            test_python_runs(page, folder, monkeypatch)
    page.write_text("```fot\naxiom A: unknown\n```\n", "utf-8")
    with pytest.raises(FotError):
        test_formulas_check(page)


# --- generated parts ----------------------------------------------------------------------------


def test_generated_parts_are_current(generate):
    stale = [p.name for p, text in generate.outputs().items() if p.read_text("utf-8") != text]
    assert not stale, "run: python docs/generate.py"


def test_check_mode_notices_a_stale_page(generate, tmp_path, monkeypatch, capsys):
    copy = tmp_path / "docs"
    shutil.copytree(DOCS, copy)
    monkeypatch.setattr(generate, "DOCS", copy)
    assert generate.main(["--check"]) == 0
    for name in ("cli.md", "language.md", "semantics.md"):
        page = copy / name
        page.write_text(page.read_text("utf-8").replace("| ", "|  ").replace("--json", ""), "utf-8")
    capsys.readouterr()
    assert generate.main(["--check"]) == 1
    assert "stale: cli.md" in capsys.readouterr().out
    assert generate.main([]) == 0
    assert (copy / "cli.md").read_text("utf-8") == (DOCS / "cli.md").read_text("utf-8")


def test_grammar_page_is_the_grammar():
    (shown,) = [b.text for b in blocks(DOCS / "language.md") if b.language == "lark"]
    assert shown == (ROOT / "fotltn/syntax/grammar.lark").read_text("utf-8")


# --- completeness -------------------------------------------------------------------------------


def options() -> Iterator[tuple[str, str]]:
    group = typer.main.get_command(app)
    commands = {"fotltn": group, **getattr(group, "commands", {})}
    for name, command in commands.items():
        for parameter in command.params:
            if parameter.param_type_name == "option":
                yield from ((name, option) for option in parameter.opts)


def test_options_are_documented():
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    found = set(options())
    assert ("eval", "--facts") in found
    missing = {f"{c} {o}" for c, o in found if not re.search(rf"(?<![\w-]){o}(?![\w-])", text)}
    assert not missing


def test_routes_are_documented():
    page = (DOCS / "engine.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+)` \| ", page, re.MULTILINE) == [str(route) for route in Route]


def test_benchmarks_are_documented():
    page = (DOCS / "performance.md").read_text("utf-8")
    for file in (ROOT / "benchmarks").glob("*.py"):
        if "__main__" in file.read_text("utf-8"):
            assert f"python -m benchmarks.{file.stem}" in page, file.name


def test_figures_of_the_demo_are_in_its_picture():
    text = (ROOT / "README.md").read_text("utf-8")
    told = re.search(
        r"mean PR-AUC is (0\.\d+) from.*?(0\.\d+) with the.*?(0\.\d+) with", text, re.S
    )
    assert told is not None
    picture = (DOCS / "demo.svg").read_text("utf-8")
    assert all(number in picture for number in told.groups())


def test_make_targets_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        used = set(re.findall(r"\bmake ([\w-]+)", page.read_text("utf-8")))
        assert {"demo", "test"} <= used
        assert used <= targets, page


# --- links and files ----------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made when it is shown."""
    fenced = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", fenced, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKED, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_resolve(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(file), f"{page.name}: {target}"


def test_decisions_are_numbered():
    numbers = [int(p.name[:4]) for p in sorted((DOCS / "decisions").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))
    for page in (DOCS / "decisions").glob("*.md"):
        text = page.read_text("utf-8")
        assert text.startswith(f"# {int(page.name[:4])}. "), page.name
        for part in ("**Decision.**", "**Reason.**", "**Consequence.**"):
            assert part in text, f"{page.name}: {part}"


def test_files_are_short():
    kinds = {".py", ".md", ".lark", ".fot", ".toml", ".cff", ".txt"}
    folders = [ROOT / name for name in ("fotltn", "reproduction", "tests", "docs", "examples")]
    files = [f for folder in folders for f in folder.glob("**/*") if f.suffix in kinds]
    files += [f for f in ROOT.glob("*") if f.suffix in kinds and f.name != "CHANGELOG.md"]
    lengths = {str(f.relative_to(ROOT)): len(f.read_text("utf-8").splitlines()) for f in files}
    assert "README.md" in lengths
    del lengths["docs/cli.md"]  # generated
    assert not {name: n for name, n in lengths.items() if n > 800}
    assert len((ROOT / "CONTRIBUTING.md").read_text("utf-8").splitlines()) <= 70


@pytest.mark.reliability
def test_a_page_lists_all_public_names():
    """Those that the package itself has: functions, classes, and what loads on first use."""
    page = (DOCS / "api.md").read_text("utf-8")
    listed = set(re.findall(r"`fotltn\.(\w+)`", page))
    public = {
        name
        for name in dir(fotltn)
        if not name.startswith("_")
        and getattr(getattr(fotltn, name), "__module__", "").startswith("fotltn")
        and not isinstance(getattr(fotltn, name), ModuleType)
    }
    assert "Monitor" in public
    assert public <= listed, public - listed


def test_every_page_has_a_place_on_the_site():
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = {page.name for page in DOCS.glob("*.md")}
    assert not {name for name in pages if not re.search(rf": {re.escape(name)}$", menu, re.M)}
