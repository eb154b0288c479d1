"""Write the TextMate grammar of .bindings files: ``python -m docs.scripts.textmate``.

It is made of the terminals of the language's own grammar, so that an editor splits a line as hashstar does. VS Code,
Sublime Text, JetBrains' editors and GitHub read it; their engine of regular expressions is Oniguruma.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from bindings.sources.language.statements import APPLY_TO, BARE_ATTRIBUTES
from bindings.sources.language.tokens import KEYWORD_KINDS, load_grammar
from exchange.entities.effects import QUEUE_TYPES
from exchange.kinds import KINDS
from exchange.values.notation import MATCH_MODES, VARIABLE

FILE: Final = Path(__file__).parents[2] / "examples/editors/vscode/syntaxes/bindings.tmLanguage.json"

ENDS: Final = r"(?![\w.@$\/+~%]|-(?!>)|\{[^\W\d]\w*\})"
"""Behind a whole name."""

AFTER_COLON: Final = r"(?:(?<=[:,])|(?<=[:,]\s)|(?<=[:,]\s\s))"
"""Where an attribute begins; other words there are names."""

EXPECTATIONS: Final = ("unroutable", "includes", "excludes", "exactly")
CONSTANTS: Final = ("true", "false", "null")

SCOPES: Final = {
    **dict.fromkeys(KEYWORD_KINDS, "keyword.control.bindings"),
    "PARTITIONED": "meta.partitioned.bindings",
    "RANGE": "constant.numeric.range.bindings",
    "NUMBER": "constant.numeric.bindings",
    "ARROW": "keyword.operator.arrow.bindings",
    "STRING": "string.quoted.double.bindings",
    "RAW": "string.quoted.single.bindings",
    "TYPE": "storage.type.bindings",
    "NAME": "entity.name.bindings",
    "COMMENT": "comment.line.number-sign.bindings",
}
"""Terminal of the grammar -> scope, by which a theme chooses the colour."""

PUNCTUATION: Final = (r"[\[\]{}]", r"[:,=]")


def build_grammar() -> dict[str, Any]:
    """Return the grammar as VS Code reads it."""
    terminals = {terminal.name: terminal for terminal in load_grammar().terminals}
    in_order = sorted(SCOPES.keys() & terminals.keys(), key=lambda name: (-terminals[name].priority, name))
    variable = {"match": VARIABLE.pattern, "name": "variable.parameter.bindings"}
    escape = {"match": r'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt{])', "name": "constant.character.escape.bindings"}
    inner = {
        "STRING": [escape, variable],
        "NAME": [variable],
        "PARTITIONED": [
            {"match": r"(?<![\w.])(?:partitioned|over|by)(?![\w.])", "name": "keyword.other.partitioned.bindings"},
            {"match": r'"(?:\\.|[^"\\])*"', "name": SCOPES["STRING"]},
            {"match": r"(?<![\w.])[0-9]+(?![\w.])", "name": SCOPES["NUMBER"]},
        ],
    }  # fmt: skip

    def build_pattern(name: str) -> dict[str, Any]:
        pattern = {"match": _visible(terminals[name].pattern.to_regexp()), "name": SCOPES[name]}
        return pattern | ({"captures": {"0": {"patterns": inner[name]}}} if name in inner else {})

    words = {
        "support.type.bindings": (*KINDS, *QUEUE_TYPES),
        "storage.modifier.bindings": (*(set(BARE_ATTRIBUTES) - {"partitioned"}), *APPLY_TO, *MATCH_MODES),
    }
    attributes = [
        {"match": f"{AFTER_COLON}(?:{_any_of(names)}){ENDS}", "name": scope} for scope, names in words.items()
    ]
    closing = [
        {"match": f"(?<![\\w.-])(?:{_any_of(EXPECTATIONS)}){ENDS}", "name": "keyword.other.expectation.bindings"},
        {"match": f"(?:(?<==)|(?<==\\s))(?:{_any_of(CONSTANTS)}){ENDS}", "name": "constant.language.bindings"},
    ]
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "hashstar bindings",
        "scopeName": "source.bindings",
        "fileTypes": ["bindings"],
        "patterns": [
            *(build_pattern(name) for name in in_order if name in KEYWORD_KINDS or name == "PARTITIONED"),
            *attributes,
            *closing,
            *(build_pattern(name) for name in in_order if name not in KEYWORD_KINDS and name != "PARTITIONED"),
            *({"match": match, "name": "punctuation.bindings"} for match in PUNCTUATION),
        ],
    }


def _visible(regex: str) -> str:
    """Return a regular expression with control characters as escapes."""
    return re.sub(r"[\x00-\x1f]", lambda found: f"\\x{ord(found[0]):02x}", regex)


def _any_of(words: tuple[str, ...]) -> str:
    return "|".join(sorted(words, key=lambda word: (-len(word), word)))


def main() -> None:
    """Write the file."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(build_grammar(), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
