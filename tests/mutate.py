"""Random changes of JSON values and of text, for tests that only errors of ours come of them."""

from __future__ import annotations

import copy
import random
from typing import Any

JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 7, 2**31, 2**62, 10**400, 0.5, -0.0, 1e308, "", "x", "a1",
    "ego", "\0", "\x1b[2J", "\ud7ff", [], [[]], [1, [2]], ["x", ["y"]], {}, {"a": 1}, [None],
    "é" * 50,
)  # fmt: skip
SNIPPETS = (
    "[", "]", "{", "}", '"', "'", ",", ":", "=", "\n", " ", "#", "\\", "\\u0000", "\\ud800", "0",
    "9", "-", "1e999", "NaN", "Infinity", "null", "true", "9" * 30, "9" * 5000, "nan", "inf",
    "\x00", "[[" * 600, '"facts"', '"entities"', "forall", "G", "(", ")", "include", "sort",
    "predicate",
)  # fmt: skip


def changed(value: Any, rng: random.Random) -> Any:
    """A JSON value with one place in it changed."""
    made = copy.deepcopy(value)
    places: list[tuple[Any, Any]] = []
    stack = [made] if isinstance(made, dict | list) else []
    while stack:
        node = stack.pop()
        inner = node.items() if isinstance(node, dict) else enumerate(node)
        for key, child in inner:
            places.append((node, key))
            if isinstance(child, dict | list):
                stack.append(child)
    if not places or rng.random() < 0.01:
        return rng.choice(JUNK)
    node, key = rng.choice(places)
    match rng.randrange(7):
        case 0 | 1:
            node[key] = copy.deepcopy(rng.choice(JUNK))
        case 2:
            del node[key]
        case 3:
            node[key] = [node[key]]
        case 4 if isinstance(node, list):
            node.insert(key, copy.deepcopy(node[key]))
        case 5:
            other, name = rng.choice(places)
            node[key] = copy.deepcopy(other[name])
        case _ if isinstance(node, dict):
            node[rng.choice(["x", "", *map(str, node)])] = node.pop(key)
        case _:
            rng.shuffle(node)
    return made


def garbled(text: str, rng: random.Random) -> str:
    """A text with some pieces of it changed."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((0, 0, 1, 1, 3, 20)))
        letter = chr(rng.randrange(1, 0x2FF))
        piece = rng.choice((rng.choice(SNIPPETS), text[start:end] * 2, "", letter))
        text = text[:start] + piece + text[end:]
    return text


def report(count: int, broken: dict[str, str], outcomes: dict[str, int]) -> None:
    """Fail with an example of each way in which something broke."""
    shown = "\n".join(f"{kind}\n    {text[:2000]}" for kind, text in sorted(broken.items()))
    assert not broken, f"{outcomes} after {count} changes:\n{shown}"
