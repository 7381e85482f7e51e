"""Colours for the language on the site."""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

from fotltn.syntax.hints import KEYWORDS, STATEMENTS

_TEMPORAL = tuple(w for w, kind in KEYWORDS.items() if kind in ("UNARY", "BINARY", "QUANTIFIER"))


class FotLexer(RegexLexer):
    """Statements, operators, names and numbers of formulas and theories."""

    name = "FOT"
    aliases: ClassVar = ["fot"]
    tokens: ClassVar = {
        "root": [
            (r"#.*$", Comment.Single),
            (r'"(?:[^"\\\n]|\\.)*"', String),
            (words((*STATEMENTS, "where", "in", "weight"), prefix=r"\b", suffix=r"\b"), Keyword),
            (words(_TEMPORAL, prefix=r"(?<!\w)", suffix=r"(?!\w)"), Operator.Word),
            (r"\b(?:true|false|first|last)\b", Keyword.Constant),
            (r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", Number),
            (r"<->|->|[!&|=<>¬∧∨→↔≤≥≠+⁺∀∃□◇○●⊖⊛⟐⊟]+", Operator),
            (r"[^\W\d]\w*(?=\()", Name.Function),
            (r"[^\W\d]\w*", Name),
            (r"[()\[\],.:]", Punctuation),
            (r"\s+|.", Text),
        ]
    }
