"""What Terraform makes of the configurations that hashstar writes, as the JSON of a plan.

It knows the few expressions that the writer uses, and fails at any other.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from bindings.sources.formats import FORMATS, Imported, SourceFile

TOKEN: Final = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[A-Za-z_][\w.-]*|-?[0-9][0-9.e+-]*|[{}\[\]()=,])')
ESCAPE: Final = re.compile(r'\\(u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt"\\])|([$%])\2(?=\{)|[$%]\{')
PLAIN: Final = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
WORDS: Final = {"true": True, "false": False, "null": None}


def read_written(text: str) -> Imported:
    """Read what Terraform would make of a written configuration."""
    return FORMATS["terraform"].read([SourceFile("plan.json", plan_of(text))], "plan.json")


def plan_of(text: str) -> str:
    """Return the plan, as ``terraform show -json`` prints it."""
    resources = [
        {"mode": "managed", "type": kind, "address": f"{kind}.{label}", "values": values}
        for kind, label, values in _Parser(text).resources()
    ]
    planned = {"root_module": {"resources": resources}}
    return json.dumps({"format_version": "1.2", "terraform_version": "1.11.4", "planned_values": planned})


class _Parser:
    def __init__(self, text: str) -> None:
        self._rest: list[str] = []
        place, text = 0, text.rstrip()
        while place < len(text):
            found = TOKEN.match(text, place)
            assert found is not None, text[place : place + 40]
            self._rest.append(found[1])
            place = found.end()
        self._rest.reverse()
        self._names: dict[str, str] = {}

    def resources(self) -> list[tuple[str, str, dict[str, Any]]]:
        found = []
        while self._rest:
            block = self._rest.pop()
            labels = [_text(self._rest.pop()) for _ in range(2 if block == "resource" else 0)]
            values = self._body()
            if block == "resource":
                self._names[f"{labels[0]}.{labels[1]}.name"] = str(values.get("name"))
                found.append((labels[0], labels[1], values))
        return found

    def _body(self) -> dict[str, Any]:
        """Read ``{ name = value ... block { ... } }``; a block is a list of one object, as in a plan."""
        values: dict[str, Any] = {}
        self._expect("{")
        while self._rest[-1] != "}":
            name = self._rest.pop()
            name = _text(name) if name.startswith('"') else name
            assert name not in values
            if self._rest[-1] == "=":
                self._rest.pop()
                values[name] = self._value()
            else:
                values[name] = [self._body()]
        self._expect("}")
        return values

    def _value(self) -> Any:
        word = self._rest[-1]
        if word == "{":
            return self._body()
        self._rest.pop()
        if word == "jsonencode":
            self._expect("(")
            value = self._value()
            self._expect(")")
            return json.dumps(value)
        if word == "[":
            items = []
            while self._rest[-1] != "]":
                items.append(self._value())
                self._expect(",")
            self._expect("]")
            return items
        if word.startswith('"'):
            return _text(word)
        if word in WORDS:
            return WORDS[word]
        return self._names[word] if word in self._names else json.loads(word)

    def _expect(self, word: str) -> None:
        found = self._rest.pop()
        assert found == word, (found, word)


def _text(word: str) -> str:
    def plain(found: re.Match[str]) -> str:
        if found[2] is not None:
            return found[2]
        assert found[1] is not None, f"an interpolation: {word}"
        return chr(int(found[1][1:], 16)) if found[1][0] in "uU" else PLAIN[found[1]]

    return ESCAPE.sub(plain, word[1:-1])
