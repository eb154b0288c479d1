"""Read the names of exchanges and queues off the text of a topology file, in a fraction of the time of reading it.

Shells complete names while a user waits. A text whose names may be others than it shows, as with variables and several
virtual hosts, is left to the readers of topologies.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, TypeAlias

from exchange.entities.predeclared import PREDECLARED_TYPES

Names: TypeAlias = dict[str, list[str]]

REPEATED: Final = re.compile(r"^for\b", re.MULTILINE)
INDENTED: Final = re.compile(r"^[ \t]+(exchange|queue)[ \t]", re.MULTILINE)
"""Matches a declaration below a ``for``, or a line of a binding that goes on."""
FIRST_VHOST: Final = re.compile(r"(?:[ \t]*(?:#.*|profile\b.*)?\r?\n)*+vhost\b.*")
"""Matches the beginning of a text up to its virtual host, with nothing before it that is in another one."""
DECLARATION: Final = re.compile(r"^(exchange|queue)[ \t]+(?=\S)(.*)$", re.MULTILINE)
NAME: Final = re.compile(r"""(?:"([^"\\{]*)"|'([^'{]*)'|([\w.@$/+~%-]+))[ \t\r]*(?:[:#].*)?""")


def read_names(path: Path) -> Names:
    """Return "exchanges" and "queues" -> the names of a file; without those that only its reader knows.

    Raises OSError for what cannot be read, ValueError or InputError for what is no text or JSON.
    """
    text = path.read_text("utf-8")
    found = _read_definitions(text) if text.lstrip()[:1] == "{" else _read_statements(text)
    if "exchanges" in found:
        found["exchanges"] = [*dict.fromkeys([*PREDECLARED_TYPES, *found["exchanges"]])]
    return found


def _read_statements(text: str) -> Names:
    first = FIRST_VHOST.match(text)
    rest = text if first is None else text[first.end() :]
    if re.search(r"^[ \t]*vhost\b", rest, re.MULTILINE):
        return {}
    names: Names = {"exchanges": [], "queues": []}
    unknown = {f"{kind}s" for kind in INDENTED.findall(rest)} if REPEATED.search(rest) else set()
    for kind, written in DECLARATION.findall(rest):
        match = NAME.fullmatch(written)
        if match is None:
            unknown.add(f"{kind}s")
        else:
            names[f"{kind}s"].append(match[match.lastindex or 0])
    return {kind: [*dict.fromkeys(found)] for kind, found in names.items() if kind not in unknown}


def _read_definitions(text: str) -> Names:
    from exchange.values.json_text import parse  # the language has its own names, without it

    document: Any = parse(text)
    parts = {kind: document.get(kind, []) for kind in ("exchanges", "queues")} if isinstance(document, dict) else {}
    listed = [entry for entries in parts.values() if isinstance(entries, list) for entry in entries]
    if not listed or not all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in listed):
        return {}
    if len({str(each.get("vhost")) for each in listed}) > 1:
        return {}
    return {kind: [entry["name"] for entry in entries] for kind, entries in parts.items()}
