"""Colours for the `.bindings` language, in blocks of the pages."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from pygments.lexer import RegexLexer, words
from pygments.lexers import _mapping
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

from bindings.sources.language.statements import APPLY_TO, BARE_ATTRIBUTES
from bindings.sources.language.tokens import KEYWORD_KINDS
from exchange.entities.effects import QUEUE_TYPES
from exchange.kinds import KINDS
from exchange.values.notation import MATCH_MODES

NAME: Final = r"[\w./@$+~%{}-]"
"""What a name without quotes is made of; in braces is a variable."""

ATTRIBUTES: Final = (
    *KINDS, *QUEUE_TYPES, *BARE_ATTRIBUTES, *APPLY_TO, *MATCH_MODES,
    "over", "by", "header", "with", "unroutable", "includes", "excludes", "mqtt", "nats", "priority",
    "true", "false", "null",
)  # fmt: skip


def _whole(names: tuple[str, ...]) -> words:
    return words(names, prefix=f"(?<!{NAME})", suffix=f"(?!{NAME})")


class BindingsLexer(RegexLexer):  # type: ignore[misc, unused-ignore]  # Pygments has no types
    """Splits a text of the language into tokens, for their colours only."""

    name = "bindings"
    aliases: ClassVar[list[str]] = ["bindings"]
    filenames: ClassVar[list[str]] = ["*.bindings"]
    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"\s+", Whitespace),
            (r"#.*", Comment.Single),
            (r'"(?:\\.|[^"\\\n])*"', String.Double),
            (r"'[^'\n]*'", String.Single),
            (r"->", Operator),
            (r"[:=,()\[\]]", Punctuation),
            (_whole(tuple(kind.lower() for kind in KEYWORD_KINDS)), Keyword),
            (_whole(ATTRIBUTES), Keyword.Type),
            (rf"-?\d+(?:\.\d+)?(?!{NAME})", Number),
            (rf"{NAME}+", Name),
            (r".", Punctuation),
        ],
    }


def register() -> None:
    """Let Pygments find the lexer by the name of the language."""
    _mapping.LEXERS["BindingsLexer"] = (__name__, "bindings", ("bindings",), ("*.bindings",), ())
