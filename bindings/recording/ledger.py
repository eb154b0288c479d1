"""What is recorded of all connections: equal requests are counted, and memory and file have a maximum size.

When the limit is reached, nothing new is added, and what is there already is still counted: also a full recording shows
how often each of its requests was made. All calls come from one thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from copy import copy
from json import dumps
from typing import Any, Final

from bindings.sources.recording.model import (
    RecordedAnswer,
    RecordedClient,
    RecordedPublishing,
    RecordedRequest,
    Recording,
    UnreadConnections,
)
from exchange.limits import RECORDED_BYTES
from exchange.values.field_json import encode_table

ROW: Final = 512
"""Bytes of a line that are counted beside names and arguments: at least those of its other fields."""
CLIENTS: Final = 2_000
"""Maximum number of different clients; those beyond it are recorded without the names of their connections; if as many
are left even so, as one client without a name."""
NAME: Final = 255
"""Maximum number of characters of what a client states about itself."""
ANSWERS: Final = 20
"""Maximum number of different answers to one request; the others have the text `OTHERS`."""
OTHERS: Final = "another text of this code"
REASONS: Final = 100
"""Maximum number of different reasons why connections were not read."""


class Ledger:
    """Collects what connections show; `copy_recording` returns a copy of what there is."""

    def __init__(self, upstream: str, now: Callable[[], str], most: int = RECORDED_BYTES) -> None:
        self._recording: Final = Recording(upstream, now(), now())
        self._now: Final = now
        self._room = most
        self._requests: Final[dict[tuple[RecordedClient, str, str, str], RecordedRequest]] = {}
        self._publishing: Final[dict[tuple[RecordedClient, str, str, bool, bool], RecordedPublishing]] = {}
        self.changes = 0
        """Grows with everything that is recorded."""

    def open_connection(self) -> None:
        """Count a connection."""
        self._recording.opened += 1
        self.changes += 1

    def add_client(self, client: RecordedClient) -> RecordedClient:
        """Count a connection of a client that has named itself; return the client as it is recorded."""
        known = self._recording.connections
        for candidate in (client, client._replace(name=""), RecordedClient()):
            if candidate in known or len(known) < CLIENTS or candidate == RecordedClient():
                known[candidate] += 1
                self.changes += 1
                return candidate
        raise AssertionError("the last candidate is always taken")

    def add_broker(self, broker: str) -> None:
        """Add the name of a broker behind the address."""
        brokers = self._recording.brokers
        if broker not in brokers and len(brokers) < REASONS:
            brokers.append(broker)

    def add_unread(self, unread: UnreadConnections) -> None:
        """Count a connection that is not read any more."""
        known = self._recording.unread
        known[unread if unread in known or len(known) < REASONS else unread._replace(reason="other reasons")] += 1
        self.changes += 1

    def count_request(
        self, client: RecordedClient, vhost: str, method: str, arguments: Mapping[str, Any]
    ) -> RecordedRequest | None:
        """Count a request; None if there is no room for a new one."""
        text = dumps(encode_table(arguments), sort_keys=True)
        key = (client, vhost, method, text)
        row = self._requests.get(key)
        now = self._now()
        if row is None:
            if not self._takes(ROW + len(text)):
                self.count_left_out()
                return None
            row = self._requests[key] = RecordedRequest(client, vhost, method, arguments, now, now)
            self._recording.requests.append(row)
        row.count += 1
        row.last = now
        self.changes += 1
        return row

    def find_publishing(
        self, client: RecordedClient, vhost: str, exchange: str, *, mandatory: bool, immediate: bool
    ) -> RecordedPublishing | None:
        """Return the row for the messages of a client to an exchange, or a new one; None without room for it."""
        key = (client, vhost, exchange, mandatory, immediate)
        row = self._publishing.get(key)
        if row is None:
            if not self._takes(ROW + 6 * len(exchange)):
                return None
            now = self._now()
            row = self._publishing[key] = RecordedPublishing(client, vhost, exchange, mandatory, immediate, now, now)
            self._recording.publishing.append(row)
        return row

    def count_message(self, row: RecordedPublishing, size: int) -> None:
        """Count a message; ``size`` is that of its body, in bytes."""
        row.messages += 1
        row.max_bytes = max(row.max_bytes, size)
        row.last = self._now()
        self.changes += 1

    def count_returned(self, row: RecordedPublishing) -> None:
        """Count a message that no queue got."""
        row.returned += 1
        self.changes += 1

    def count_answer(self, row: RecordedRequest | RecordedPublishing, answer: RecordedAnswer) -> None:
        """Count an answer of the broker."""
        if answer not in row.answers and (len(row.answers) >= ANSWERS or not self._takes(ROW // 4 + len(answer.text))):
            answer = answer._replace(text=OTHERS if answer.text else "")
        row.answers[answer] += 1
        self.changes += 1

    def count_left_out(self) -> None:
        """Count a call that is not recorded."""
        self._recording.left_out += 1
        self.changes += 1

    def copy_recording(self) -> Recording:
        """Return a copy of what there is, which does not change any more."""
        copied = copy(self._recording)
        copied.ended = self._now()
        copied.brokers = [*copied.brokers]
        copied.connections, copied.unread = Counter(copied.connections), Counter(copied.unread)
        copied.requests = [_copy(row) for row in copied.requests]
        copied.publishing = [_copy(row) for row in copied.publishing]
        return copied

    def _takes(self, size: int) -> bool:
        """Return whether there is room for more bytes, and take it."""
        if size > self._room:
            return False
        self._room -= size
        return True


def _copy(row: Any) -> Any:
    copied = copy(row)
    copied.answers = Counter(row.answers)
    return copied
