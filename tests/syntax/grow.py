"""Random texts: sentences grown from grammar.lark itself, damaged ones, and plain noise."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from importlib import resources

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.grammar import NonTerminal, Rule, Symbol, Terminal

STARTS = ("formula", "term", "statement")
_BLANKS = (" ", " ", " ", " ", "", "  ", "\t", "\n", " # remark\n", "\u00a0")
_NOISE = (
    "()[]{}<>=!&|+-.,:;#\"'\\~^@$%*/?_ \n\t\r0123456789aXFGUx∀∃○◇□¬∧∨→↔⊤⊥≤≥≠⁺𝒰"
    "\x00\x1b\ufeff\u200b\ud800"
)
_FOREIGN = (
    "and", "or", "not", "&&", "||", "=>", "<=>", "==", "always", "until", "<>", "[]", "1e999",
    "F[3", "X+", "[1,2]", '"', "'", "where", "forall", "in", "weight", "axiom A:", "\nsort", "\n",
)  # fmt: skip


@cache
def grammar() -> Lark:
    """The grammar file, compiled as the parser compiles it."""
    text = resources.files("fotltn.syntax").joinpath("grammar.lark").read_text("utf-8")
    return Lark(text, parser="lalr", start=list(STARTS), maybe_placeholders=False)


@cache
def spellings(terminal: str) -> list[str]:
    """Texts that match a terminal's pattern, the same ones on every run."""
    pattern = next(t.pattern for t in grammar().terminals if t.name == terminal)
    if pattern.type == "str":
        return [str(pattern.value)]
    found: set[str] = set()

    @settings(max_examples=60, derandomize=True, database=None, phases=[Phase.generate])
    @given(st.from_regex(pattern.to_regexp(), fullmatch=True))
    def collect(text: str) -> None:
        found.add(text)

    collect()
    return sorted(found)


@cache
def _terminals() -> list[str]:
    return [t.name for t in grammar().terminals]


@cache
def _rules() -> dict[str, list[Rule]]:
    rules: dict[str, list[Rule]] = {}
    for rule in grammar().rules:
        rules.setdefault(rule.origin.name, []).append(rule)
    return rules


@cache
def _heights() -> dict[str, int]:
    """For each rule, the height of its smallest tree: where to go when a text is long enough."""
    heights: dict[str, int] = {}
    changed = True
    while changed:
        changed = False
        for name, rules in _rules().items():
            best = min((_height(rule, heights) for rule in rules), default=_FAR)
            if best < heights.get(name, _FAR):
                heights[name], changed = best, True
    return heights


_FAR = 10**6


def _height(rule: Rule, heights: dict[str, int]) -> int:
    below = (heights.get(s.name, _FAR) for s in rule.expansion if isinstance(s, NonTerminal))
    return 1 + max(below, default=0)


def sentence(rng: random.Random, start: str, size: int = 40) -> list[str]:
    """The tokens of a sentence of the grammar, grown from a start rule."""
    tokens: list[str] = []
    stack: list[Symbol] = [NonTerminal(start)]
    budget = size
    while stack:
        symbol = stack.pop()
        if isinstance(symbol, Terminal):
            tokens.append(_token(rng, symbol.name))
            continue
        budget -= 1
        choices = _rules()[symbol.name]
        if budget < 0:
            choices = [min(choices, key=lambda rule: _height(rule, _heights()))]
        stack.extend(reversed(rng.choice(choices).expansion))
    return tokens


def _token(rng: random.Random, terminal: str) -> str:
    if terminal == "NAME" and rng.random() < 0.7:
        return rng.choice(("x", "y", "P", "Car", "a1", "agent"))
    if terminal == "NUMBER" and rng.random() < 0.7:
        return str(rng.randint(0, 5))
    return rng.choice(spellings(terminal))


def spaced(rng: random.Random, tokens: list[str]) -> str:
    """Tokens with blanks between them; sometimes none, sometimes a comment."""
    if rng.random() < 0.8:
        return " ".join(tokens)
    return "".join(token + rng.choice(_BLANKS) for token in tokens)


def damaged(rng: random.Random, tokens: list[str]) -> str:
    """A sentence with tokens or characters dropped, doubled, swapped or replaced."""
    tokens = list(tokens)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(tokens) + 1)
        match rng.randrange(5):
            case 0:
                del tokens[at : at + 1]
            case 1:
                tokens.insert(at, rng.choice(_FOREIGN))
            case 2:
                tokens.insert(at, rng.choice(spellings(rng.choice(_terminals()))))
            case 3:
                tokens[at : at + 2] = reversed(tokens[at : at + 2])
            case 4:
                tokens[at:at] = tokens[at : at + 3]
    text = spaced(rng, tokens)
    for _ in range(rng.randint(0, 3)):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(("", rng.choice(_NOISE))) + text[at + rng.randint(0, 2) :]
    return text


def soup(rng: random.Random) -> str:
    """Tokens in no order."""
    count = rng.randint(1, 15)
    return spaced(rng, [_token(rng, rng.choice(_terminals())) for _ in range(count)])


def noise(rng: random.Random) -> str:
    """Bytes read as text, or signs in no order."""
    match rng.randrange(4):
        case 0:
            return rng.randbytes(rng.randint(0, 40)).decode("latin-1")
        case 1:
            return rng.randbytes(rng.randint(0, 40)).decode("utf-8", "replace")
        case 2:
            return rng.randbytes(rng.randint(0, 40)).decode("utf-8", "surrogateescape")
    return "".join(rng.choice(_NOISE) for _ in range(rng.randint(0, 30)))


def texts(seed: int, count: int) -> Iterator[str]:
    """A mixture of all kinds."""
    rng = random.Random(seed)
    for _ in range(count):
        start = rng.choice(STARTS)
        tokens = sentence(rng, start, rng.choice((5, 20, 60)))
        match rng.randrange(6):
            case 0:
                yield spaced(rng, tokens)
            case 1 | 2 | 3:
                yield damaged(rng, tokens)
            case 4:
                yield soup(rng)
            case _:
                yield noise(rng)
