"""The two ids of a message: one given by its producer, and one of the position where a broker stored it.

Both are texts of hexadecimal digits, and nothing in the text shows which of the two it is. A **unique id** (property
``UNIQ_KEY``) is given once, before the first try to send: when a message is stored twice because an answer was lost,
both copies have the same unique id. An **offset id** belongs to a record in a broker's log: the two copies have
different ones.

=================  ==============================================================================================
unique id          the producer's address (4 or 16 bytes), its process id (2), a number of the process (4),
                   milliseconds since its month began, in its time zone (4), a counter (2)
offset id          the broker's address (4 or 16), its port (4), the record's position in its commit log (8)
=================  ==============================================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from exchange.rocketmq.offset_id import OffsetId, parse_id

__all__ = ["OffsetId", "UniqueId", "UniqueIds"]

BEHIND: Final = 1_000_000
"""Milliseconds by which a clock may be behind the begin of the month, because it was set back, and still count as
standing at the begin."""


class UniqueId(NamedTuple):
    """The parts of a unique id (`MessageClientIDSetter`)."""

    host: IPv4Address | IPv6Address
    process: int
    number: int
    since_month: int
    """Milliseconds since the month's begin, a signed 32-bit integer: negative for a clock that was set back."""
    counter: int

    @classmethod
    def parse(cls, text: str) -> UniqueId:
        """Parse a unique id. Raises InputError."""
        raw = parse_id(text, "a unique id")
        at = len(raw) - 12
        return cls(
            ip_address(raw[:at]),
            int.from_bytes(raw[at : at + 2], "big"),
            int.from_bytes(raw[at + 2 : at + 6], "big"),
            int.from_bytes(raw[at + 6 : at + 10], "big", signed=True),
            int.from_bytes(raw[at + 10 :], "big"),
        )


class UniqueIds:
    """A generator of unique ids (`MessageClientIDSetter.createUniqID`).

    ``number`` distinguishes processes of equal id on hosts of equal address, containers for example: let it be random.
    ``now`` returns milliseconds since 1970; months begin in the time zone of this machine, as in Java.
    """

    def __init__(self, host: str, process: int, number: int, now: Callable[[], int]) -> None:
        fixed = ip_address(host).packed + (process & 0xFFFF).to_bytes(2, "big") + (number & 0xFFFFFFFF).to_bytes(4)
        self._fixed = fixed.hex().upper()
        self._now = now
        self._counter = 0
        self._moment = now()
        self._begun, self._ends = _month(self._moment)
        self._head = self._head_at(self._moment)

    def next(self) -> str:
        """Return a new id. The ids are unique as long as at most 65,536 are made within a millisecond."""
        now = self._now()
        if now != self._moment:
            self._moment, self._head = now, self._head_at(now)
        counter = self._counter
        self._counter = (counter + 1) & 0xFFFF
        return f"{self._head}{counter:04X}"

    def take(self, count: int) -> list[str]:
        """Return ``count`` new ids: those of as many calls of `next` within this millisecond."""
        now = self._now()
        if now != self._moment:
            self._moment, self._head = now, self._head_at(now)
        head, start = self._head, self._counter
        self._counter = (start + count) & 0xFFFF
        return [f"{head}{counter & 0xFFFF:04X}" for counter in range(start, start + count)]

    def _head_at(self, now: int) -> str:
        """Return an id's digits before the counter."""
        if now >= self._ends:
            self._begun, self._ends = _month(now)
        since = now - self._begun
        if -BEHIND < since < 0:
            since = 0
        return f"{self._fixed}{since & 0xFFFFFFFF:08X}"


def _month(now: int) -> tuple[int, int]:
    """Return when the month of a time begins and ends, in milliseconds since 1970."""
    at = time.localtime(now // 1000)
    begin = time.mktime((at.tm_year, at.tm_mon, 1, 0, 0, 0, 0, 0, -1))
    end = time.mktime((at.tm_year, at.tm_mon + 1, 1, 0, 0, 0, 0, 0, -1))
    return int(begin) * 1000, int(end) * 1000
