"""The report of an audit beside the topology: the messages of each binding, and keys that were seen.

The report is the JSON of `hashstar audit --json` (``docs/audit-json.md``). Bindings are found by what they are, not by
their number, so a report on an older topology still has the counts of the bindings that are left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from bindings.sources.files import decode_text, read_content
from exchange.entities.entities import Binding, Destination
from exchange.errors import InputError
from exchange.text.display import clip_line
from exchange.values.field_json import decode_table
from exchange.values.json_text import JsonFault, parse

KEYS: Final = 20
"""Maximum number of keys of one sort that are shown for an exchange."""
DEAD: Final = frozenset({"dead", "stale"})
"""States of bindings that nothing matches (any more)."""


class Use(NamedTuple):
    """What the audit counted for one binding."""

    messages: int
    possible: int
    """Further messages that may match it, depending on a random choice."""
    state: str
    """As in the report: ``hit``, ``dead``, ``stale`` ..."""


class ReportTraffic:
    """A report, with its bindings by what they are."""

    def __init__(self, name: str, report: Mapping[str, Any]) -> None:
        """Take a report that was parsed. Raises KeyError, TypeError or InputError where it is none."""
        audited = report["audited"]["topology"]
        self.name: Final = name
        self.source: Final = str(audited["source"])
        self.vhost: Final = str(audited["vhost"])
        self.uses: Final[dict[Binding, Use]] = {
            _read_binding(row): Use(int(row["messages"]), int(row["possible"]), str(row["state"]))
            for row in report["bindings"]
        }
        self._hot: Final = {
            str(row["exchange"]): [(str(key["key"]), int(key["messages"])) for key in row["hot"]["keys"][:KEYS]]
            for row in report["exchanges"]
        }
        self._lost: Final[dict[str, list[tuple[str, int]]]] = {}
        for row in report["unroutable"]:
            lost = self._lost.setdefault(str(row["exchange"]), [])
            lost += [(str(shape["example"]), int(shape["messages"])) for shape in row["shapes"]]

    @classmethod
    def load(cls, path: str) -> ReportTraffic:
        """Read a report. Raises InputError, which names the file."""
        try:
            return cls(path, parse(decode_text(read_content(path), path)))
        except JsonFault as error:
            raise InputError(f"{path}: {error}") from None
        except KeyError as error:
            raise InputError(f"{path}: no report of hashstar audit --format json: it has no {error}") from None
        except (TypeError, ValueError, IndexError, AttributeError):
            raise InputError(f"{path}: no report of hashstar audit --format json") from None

    def keys_of(self, exchange: str) -> dict[str, Any]:
        """Return the frequent keys of an exchange, and examples of keys that reached no queue, as JSON values."""
        return {
            "hot": _keys_json(self._hot.get(exchange, [])),
            "unroutable": _keys_json(self._lost.get(exchange, [])[:KEYS]),
        }


def _keys_json(keys: list[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"key": key, "messages": messages} for key, messages in keys]


def _read_binding(row: Mapping[str, Any]) -> Binding:
    kind = row["destination_type"]
    if kind not in ("queue", "exchange"):
        raise InputError(f"a binding leads to a {clip_line(str(kind), 40)}")
    destination = Destination(kind, str(row["destination"]))
    return Binding(
        str(row["source"]), destination, str(row["routing_key"]), decode_table(row["arguments"], "arguments")
    )
