"""Route messages that are lines of JSON: a line out for each line in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any, Final

from exchange.amqp.content import check_properties
from exchange.entities.queue_arguments import read_expiration
from exchange.errors import BrokerError, InputError
from exchange.routing.explain_json import ErrorLine, format_line
from exchange.routing.route import Route
from exchange.routing.router import Router
from exchange.topology.unread import find_unread
from exchange.values.field_json import decode_message, encode_fields
from exchange.values.json_text import draw_line, parse_line
from exchange.values.lines import read_lines

CACHED_LINES: Final = 65_536
"""Maximum number of output lines kept, and of names of ignored fields."""
FIELDS: Final = frozenset({"exchange", "routing_key", "headers", "properties", "body"})
"""Fields of a message that routing reads."""
SIMPLIFIED: Final = {name.replace("_", ""): name for name in FIELDS}
"""Name of a field without separators -> the name."""


@dataclass
class LineNotes:
    """What was noted about lines, to be shown after the last one."""

    skip_bad: bool
    """Whether a bad line is answered and counted, instead of ending the command."""
    bad: int = 0
    """Number of bad lines."""
    first: str = ""
    """Place and reason of the first bad line."""
    ignored: set[str] = field(default_factory=set)
    """Names of ignored fields, at most `CACHED_LINES`."""


def route_lines(router: Router, file: IO[bytes], notes: LineNotes) -> Iterator[bytes]:
    """Yield the line of output for each line of a file, blank ones excepted.

    Raises InputError for a line that cannot be routed; if bad ones are to be skipped, notes it and yields its error.
    """
    lines: dict[tuple[str, str], tuple[Route, bytes]] = {}
    caveat, unread = router.topology.profile.caveat, find_unread(router.topology)
    for number, raw in read_lines(file):
        try:
            value = parse_line(raw)
            if type(value) is dict and not FIELDS.issuperset(value):
                _check_fields(value, notes)
            message = decode_message(value)
            check_properties(message.properties)
            route = router.route(message)
            read_expiration(message.properties)
        except (InputError, BrokerError) as error:
            located = f"{getattr(file, 'name', '-')}:{number}: {error}"
            if not notes.skip_bad:
                drawing = (error.drawing or draw_line(raw, str(error))) if isinstance(error, InputError) else ""
                raise InputError(f"{located}{drawing}\n--skip-bad continues after such a line") from None
            notes.bad += 1
            notes.first = notes.first or located
            answer: ErrorLine = {"error": str(error)}
            yield encode_fields(answer)
            continue
        key = (message.exchange, message.routing_key)
        known = lines.get(key)
        if known is None or known[0] is not route:  # the router caches routes: the same object means the same line
            if len(lines) >= CACHED_LINES:
                lines.clear()
            known = lines[key] = route, format_line(message, route, caveat, unread)
        yield known[1]


def _check_fields(value: dict[str, Any], notes: LineNotes) -> None:
    for name in value.keys() - FIELDS:
        meant = SIMPLIFIED.get(name.casefold().replace("_", "").replace("-", "").replace(" ", ""))
        if meant is not None and meant not in value:
            raise InputError(f"{json.dumps(name)} is not a field of a message; did you mean {json.dumps(meant)}?")
        if len(notes.ignored) < CACHED_LINES:
            notes.ignored.add(name)
