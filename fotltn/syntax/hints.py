"""Say in words what the parser expected, and recognise common slips."""

from __future__ import annotations

import re

from fotltn.errors import BuildError, did_you_mean
from fotltn.syntax.operators import STRICT, Temporal

#: Words that name a kind of statement in a theory.
DECLARING = ("sort", "predicate", "function", "constant", "relation", "include", "axiom")

#: Words that begin a statement of a theory.
STATEMENTS = (*DECLARING, "static", "temporal", "hard")

#: `hard` begins a statement only before `axiom` on the same line; elsewhere it is a plain name.
HARD = r"hard[ \t]+axiom"

#: Words that the lexer turns from names into other tokens.
KEYWORDS: dict[str, str] = (
    {
        spelling: {1: "UNARY", 2: "BINARY"}[op.value.arity]
        for op in Temporal
        for spelling in (op.value.ascii, op.value.unicode)
    }
    | {"forall": "QUANTIFIER", "exists": "QUANTIFIER", "true": "TRUTH", "false": "TRUTH"}
    | {"first": "EDGE", "last": "EDGE", "static": "MODE", "temporal": "MODE"}
    | {word: word.upper() for word in ("where", "in", "weight", *DECLARING)}
)

_FORMULA = {"QUANTIFIER", "UNARY", "NOT", "TRUTH", "EDGE"}
_WORDS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a name in double quotes",
    "COMPARE": "a comparison",
    "EQUAL": "'='",
    "UNEQUAL": "'!='",
    "AND": "'&'",
    "OR": "'|'",
    "IMPLIES": "'->'",
    "IFF": "'<->'",
    "BINARY": "a binary temporal operator",
    "STRICT": "'+'",
    "MODE": "'static' or 'temporal'",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "COMMA": "','",
    "COLON": "':'",
    "DOT": "'.'",
    "$END": "the end",
}
_INFIX = {"AND", "OR", "IMPLIES", "IFF", "BINARY"}
_SLIPS = [
    (re.compile(r"&&"), "conjunction is a single &"),
    (re.compile(r"\|\|"), "disjunction is a single |"),
    (re.compile(r"<=>"), "equivalence is <->"),
    (re.compile(r"==?>"), "implication is ->"),
    (re.compile(r"=="), "equality is a single ="),
    (re.compile(r"~|\bnot\b|\bNOT\b"), "negation is !"),
    (re.compile(r"\band\b|\bAND\b|/\\"), "conjunction is &"),
    (re.compile(r"\bor\b|\bOR\b|\\/"), "disjunction is |"),
    (re.compile(r"\bimplies\b"), "implication is ->"),
    (re.compile(r"\biff\b"), "equivalence is <->"),
    (re.compile(r"'"), 'names of entities go in double quotes: "car 7"'),
    (re.compile(r"\bnext\b"), "next is X, weak next is WX"),
    (re.compile(r"\bG\s*\{|\bF\s*\{"), "bounds go in square brackets: F[<=3], G[1,4]"),
]

#: Text before a place, the text at the place, and what to write instead of what was meant.
_MEANT = [
    (
        r"(forall|exists|∀|∃)[^.]*:\s*$", r"[!¬□◇]|\w+\s*[(\[]",
        "variables end with a dot, and a colon states their sort: forall x. G(Stop(x)), or "
        "forall x: car. G(Stop(x))",
    ),
    (
        r"(forall|exists|∀|∃)\s*$", r"[<>=!≤≥]|\d",
        "quantifiers do not count; for at least two, write exists x, y. x != y & Stop(x) & Stop(y)",
    ),
    (
        r"\[[^\]]*\d\s*$", r"[^\W\d]+\s*[],]",
        'bounds are numbers of steps without a unit, such as F[<=3]; the length of a step is a '
        'setting of the data, such as step = "1d"',
    ),
    (r"\[\s*\d+\s*$", r"\.|:|-|;", "a range has a comma: F[0,3]"),
    (r"\b(wx|Wx|wX)\s+$", r"\w|\(", "weak next is written in capital letters: WX"),
    (r"^\s*$|\n\s*$", r"[^\W\d]\w*\s*:", "an axiom begins with its word: axiom Stays: …"),
    (
        r"[\w)]\s*$", r"[-+*/]",
        "formulas have no arithmetic: give the result as a function of its own, or compare a "
        "function with a number or with another function: speed(x) > 3",
    ),
]  # fmt: skip


def _another(word: str) -> str:
    return f"choose another name, such as {word}1"


def valid_name(name: str) -> str:
    """Return the name if formulas can write it; raise an error otherwise."""
    if not re.fullmatch(r"[^\W\d]\w*", name) or name in KEYWORDS:
        raise BuildError(f"'{name}' cannot be a name: it is a keyword, or not a single word")
    return name


def explain_expected(terminals: set[str]) -> str:
    """Say what could have come next: a formula, an operator, or the literal signs."""
    rest = set(terminals) - {"WHITESPACE", "COMMENT"}
    phrases = []
    if rest >= {"UNARY", "NAME"}:
        phrases.append("a formula")
        rest -= _FORMULA | {"NAME", "NUMBER", "STRING", "LPAR"}
    elif rest >= {"NAME", "STRING"}:
        phrases.append("a term")
        rest -= {"NAME", "STRING", "NUMBER"}
    if rest >= _INFIX:
        phrases.append("an operator")
        rest -= _INFIX
        rest -= {"EQUAL", "UNEQUAL", "COMPARE"}
    phrases += sorted(_WORDS.get(name, f"'{name.lower()}'") for name in rest)
    if len(phrases) > 1:
        return ", ".join(phrases[:-1]) + f" or {phrases[-1]}"
    return phrases[0] if phrases else "an operator or the end"


def hint_for(text: str, start: int, end: int, expected: set[str]) -> str | None:
    """Return a hint for a known slip at the place of the error, or None."""
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', lambda m: '"' + "_" * (len(m[0]) - 2) + '"', text)
    previous = re.search(r"\S*\s*$", text[max(0, start - 20) : start])
    begin = start - len(previous.group()) if previous else start
    nearby = text[begin : end + 2]
    for pattern, hint in _SLIPS:
        if pattern.search(nearby):
            return hint
    for earlier, here, hint in _MEANT:
        if re.search(earlier, text[:start]) and re.match(here, text[start:]):
            return hint
    word = text[start:end]
    if word == "in" and "DOT" in expected:
        return "variables that range over a relation go in parentheses: forall (x, y) in pairs."
    kind = KEYWORDS.get(word)
    if "DOT" in expected and "WHERE" in expected:
        if re.match(r"\w+\s*[,.:]", text[start:]) and kind is None:
            return "variables are separated by commas: forall x, y. G(Near(x, y))"
        return "a quantifier needs a dot after its variables: forall x. G(Stop(x))"
    operator = next((op for op in Temporal if op.ascii == word), None)
    if operator is not None and re.match(r"\s*\(", text[end:]):
        return f"{word} is the operator '{operator.value.words}'; {_another(word)}"
    before = text[:start].rstrip()
    if re.search(r"(^|[^\w.])P$", before) and "AND" in expected:
        return "P is no operator: 'once before' is O"
    if word in ("<", "<=", ">", ">=") and before.endswith(tuple(op.ascii for op in STRICT)):
        return "bounds go in square brackets: F[<=3], G[1,4]"
    if word in STATEMENTS and start == 0:
        return "this is a statement of a theory; read theories with fotltn.parse or fotltn.load"
    if (
        kind == "BINARY"
        and "UNARY" in expected
        and before == text[:start].rstrip()
        and text[end : end + 1] in (" ", "+", "[")
    ):
        return f"{word} goes between two formulas: a {word} b"
    if word in KEYWORDS and "NAME" in expected:
        return f"'{word}' is a keyword of the language; {_another(word)}"
    if re.search(r"\baxiom\s+hard\s+$", text[:start]) and "WEIGHT" in expected:
        return f"hard goes before axiom: hard axiom {word}: …"
    if text[:start].rstrip(" \t").endswith("\n") and "$END" in expected:
        return misspelt(word)
    return None


def misspelt(word: str) -> str | None:
    """Suggest the statement that a word at the beginning of a line was meant to begin."""
    if word == "hard":
        return "hard goes before axiom, on the same line: hard axiom A: …"
    return did_you_mean(word, STATEMENTS)
