"""Colours for the `.bindings` language, in blocks of the pages."""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer, words
from pygments.lexers import _mapping
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

__all__ = ["BindingsLexer"]  # Pygments takes all of these for lexers


class BindingsLexer(RegexLexer):  # type: ignore[misc, unused-ignore]  # Pygments has no types
    """Splits a text of the language into tokens; its grammar is in ``bindings/sources/language/``."""

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
            (r"[:=,(){}\[\]]", Punctuation),
            (words(("exchange", "queue", "policy", "expect", "let", "for", "in", "vhost", "profile"),
                   prefix=r"(?<![\w./@$+~%{}-])", suffix=r"(?![\w./@$+~%{}-])"), Keyword),
            (words(("topic", "direct", "fanout", "headers", "quorum", "stream", "classic", "transient", "auto-delete",
                    "internal", "alternate", "partitioned", "over", "by", "header", "all", "any", "with", "unroutable",
                    "includes", "excludes", "mqtt", "nats", "priority", "true", "false", "null"),
                   prefix=r"(?<![\w./@$+~%{}-])", suffix=r"(?![\w./@$+~%{}-])"), Keyword.Type),
            (r"-?\d+(?:\.\d+)?(?![\w./@$+~%-])", Number),
            (r"[\w./@$+~%{}-]+", Name),
            (r".", Punctuation),
        ],
    }  # fmt: skip


def register() -> None:
    """Let Pygments find the lexer by the name of the language."""
    _mapping.LEXERS["BindingsLexer"] = (__name__, "bindings", ("bindings",), ("*.bindings",), ())
