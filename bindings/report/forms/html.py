"""A report as one page of HTML that needs nothing else: no server, no network, no other file.

The page holds the report's JSON, packed (see `_pack`), and a script that draws it, table by table and page by page, so
that a hundred thousand bindings open as quickly as three. Names and keys in a report may be hostile: the JSON has ``<``
escaped, the script puts names into text nodes only, and the page's content security policy lets no other script run and
nothing be loaded.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any, Final

from bindings.checking.rules.table import SEVERITIES
from bindings.report.forms.as_json import to_json
from bindings.report.model import Report
from bindings.sources.management import is_address
from exchange.values.notation import write_encoded_arguments

SCRIPTS: Final = (
    "dom", "data", "bars", "table", "columns", "slots", "timeline", "flow_layout", "flow_layers", "flow_model", "flow",
    "summary", "coverage", "listing", "queues", "unroutable", "findings", "verification", "comparison", "trust", "main",
)  # fmt: skip
"""The modules of the page's script, in the order in which they are joined."""

TABLES: Final = {"bindings": 32_000_000, "queues": 16_000_000, "exchanges": 16_000_000, "findings": 8_000_000}
"""Lists that grow with the topology -> maximum size of their JSON in a page, in bytes."""

ROWS: Final = 100_000
"""Maximum number of rows of each of these lists."""

TEXT: Final = 4_000_000
"""Maximum size in characters of a topology's text in a page."""

TEXT_LINES: Final = 50_000
"""Maximum number of lines of it."""


def to_html(report: Report) -> bytes:
    """Return the page of a report, in UTF-8."""
    return build_page(to_json(report), None if report.listing is None else report.listing.text).encode()


def build_page(report: Mapping[str, Any], text: str | None = None) -> str:
    """Return the page of a report that `bindings.report.forms.as_json.to_json` returned; UTF-8 can always encode it.

    ``text`` is that of the topology's ``.bindings`` file; the page shows it with the counts of its lines. Where a table
    exceeds its limit in `TABLES`, or `ROWS`, the rows that matter least are left out, and of a text that exceeds `TEXT`
    or `TEXT_LINES` its end; the page shows how many.
    """
    shown, left_out = _cut(report)
    script = "'use strict';\n(() => {\n" + "\n".join(_read_part(f"{name}.js") for name in SCRIPTS) + "})();\n"
    digest = b64encode(sha256(script.encode()).digest()).decode()
    source = str(report["audited"]["topology"]["source"])
    name = source if is_address(source) else source.rpartition("/")[2] or source
    conditions = {
        str(row["number"]): write_encoded_arguments(row["arguments"]) for row in shown["bindings"] if row["arguments"]
    }
    parts = {
        "TITLE": escape(f"Audit of {name}").encode("ascii", "xmlcharrefreplace").decode(),
        "STYLE": "".join(map(_read_part, ("colours.css", "base.css", "page.css"))),
        "SCRIPT": script,
        "HASH": f"sha256-{digest}",
        "REPORT": _embed(
            {
                "report": shown,
                "left_out": left_out,
                "conditions": conditions,
                "text": None if text is None else _cut_text(text),
            }
        ),
    }
    return re.sub("@@([A-Z]+)@@", lambda match: parts[match[1]], _read_part("page.html"))


def _read_part(name: str) -> str:
    return files("bindings.report.forms").joinpath("page", name).read_text("utf-8")


def _embed(value: Mapping[str, Any]) -> str:
    """Return JSON that is safe in a script element: nothing in it ends the element or begins a comment."""
    text = json.dumps(_pack(value), separators=(",", ":"))  # ASCII: no U+2028, no surrogate that UTF-8 cannot hold
    return text.replace("<", r"\u003c")


def _pack(value: Any) -> Any:
    """Return a value in which each list of objects with the same fields has their names once, and rows of values."""
    if isinstance(value, Mapping):
        return {_name(name): _pack(each) for name, each in value.items()}
    if not isinstance(value, list | tuple):
        return value
    if len(value) > 1 and all(isinstance(each, Mapping) for each in value):
        names = tuple(value[0])
        if names and all(tuple(each) == names for each in value):
            rows = [list(map(_pack, each.values())) for each in value]
            return {"$columns": list(map(_name, names)), "$rows": rows}
    return list(map(_pack, value))


def _name(name: str) -> str:
    """Return a name with one more ``$`` if it begins with one, so that ``$columns`` marks packed lists only."""
    return f"${name}" if name.startswith("$") else name


def _cut(report: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the report without the rows beyond the limits, and for each table the number of rows left out."""
    shown, left_out = dict(report), {}
    for table, most in TABLES.items():
        rows = report[table]
        fit = _count_fitting(rows, most)
        if fit < len(rows):
            shown[table] = _keep_foremost(table, rows, fit)
            left_out[table] = len(rows) - fit
    return shown, left_out


def _cut_text(text: str) -> dict[str, Any]:
    """Return the beginning of a text that is within both limits, in whole lines, and the number of lines left out."""
    lines = text.removeprefix("\ufeff").removesuffix("\n").split("\n")
    shown, size = 0, 0
    for line in lines[:TEXT_LINES]:
        size += len(line) + 1
        if size > TEXT:
            break
        shown += 1
    return {"text": "\n".join(lines[:shown]), "left_out": len(lines) - shown}


def _count_fitting(rows: list[dict[str, Any]], most: int) -> int:
    """Return how many rows are within both limits; their size in bytes is estimated from a sample."""
    if len(rows) <= 1_000:  # they always fit: a name has 255 bytes at most
        return len(rows)
    sample = rows[:: max(1, len(rows) // 5_000)]
    mean = sum([len(json.dumps(list(row.values()))) for row in sample]) / len(sample)
    return min(len(rows), ROWS, int(most / mean))


def _keep_foremost(table: str, rows: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return the rows that matter most, in their order.

    Of findings, these are the most severe. Of other tables, one half is the rows with the most messages, the other half
    is rows without messages, which owners look for; if there are too few of one sort, more of the other.
    """
    if table == "findings":
        most_severe = sorted(range(len(rows)), key=lambda at: -SEVERITIES.index(rows[at]["severity"]))
        return [rows[at] for at in sorted(most_severe[:count])]
    by_messages = sorted(range(len(rows)), key=lambda at: -(rows[at].get("messages") or rows[at].get("through") or 0))
    idle = [at for at in by_messages if not (rows[at].get("messages") or rows[at].get("through"))]
    busy = len(rows) - len(idle)
    from_idle = min(len(idle), max(count // 2, count - busy))
    return [rows[at] for at in sorted([*by_messages[: count - from_idle], *idle[:from_idle]])]
