"""One connection between a client and a broker, read as it passes: what the client asks, and what it is answered.

Invariant: what is recorded depends on the bytes of both sides and on which came first, not on how they are cut. Nothing
here is raised to the proxy: bytes that cannot be read end the reading of the connection, and are counted.

A broker carries out the methods of a channel in their order, so an answer belongs to the first call of its method that
waits. Of ``connection.start-ok`` only the mechanism is kept, never the response, which has the password.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from bindings.recording.frames import Frame, FrameFault, FrameReader
from bindings.recording.ledger import NAME, Ledger
from bindings.sources.recording.model import (
    ACCEPTED,
    CLOSED,
    CLOSINGS,
    NO_CODE,
    RECORDED,
    RecordedAnswer,
    RecordedClient,
    RecordedPublishing,
    RecordedRequest,
    UnreadConnections,
)
from exchange.amqp import MalformedHeader
from exchange.amqp.methods import HEADER, METHOD, METHODS, decode_method
from exchange.text.display import SECRETIVE, hide_logins

LOG: Final = logging.getLogger(__name__)

ANSWERS: Final[Mapping[str, tuple[str, ...]]] = {
    **{f"{method}-ok": (method,) for method in RECORDED if f"{method}-ok" in METHODS},
    "connection.tune": ("connection.start-ok",),
    "connection.open-ok": ("connection.tune-ok", "connection.open"),
    "basic.get-empty": ("basic.get",),
}
"""Method of a broker -> the calls that it answers."""

_IDS: Final = {(shape.class_id, shape.method_id): name for name, shape in METHODS.items()}
"""Numbers of a method -> its name."""
_READ: Final = frozenset(
    METHODS[name].class_id << 16 | METHODS[name].method_id
    for name in chain(RECORDED, ANSWERS, CLOSINGS, ("connection.start", "channel.open", "channel.close-ok"))
)
"""Class and method as one number, of the methods that are decoded; all others pass unread."""
PUBLISH: Final = 60 << 16 | 40
RETURN: Final = 60 << 16 | 50

HIDDEN: Final = "***"
"""What is recorded in place of a value whose name says that it is a secret."""
WAITING: Final = 10_000
"""Maximum number of calls of a connection that wait for their answers."""
GENERATED: Final = 10_000
"""Maximum number of names that the broker has made for queues of a connection and that are kept."""
CHANNELS: Final = 8_192
"""Maximum number of channels of a connection; RabbitMQ allows 2,047 unless it is configured otherwise."""
EXCHANGES: Final = 1_000
"""Maximum number of exchanges for which a channel keeps what counts the messages to them."""


class _Channel:
    """What is known of a channel."""

    __slots__ = ("pending", "prefetch", "publishing", "sent")

    def __init__(self) -> None:
        self.pending: deque[tuple[str, RecordedRequest | None]] = deque()
        """Calls that wait for an answer; None for one that is not recorded."""
        self.prefetch = (0, False)
        """What basic.qos has set last: the count, and whether it is global."""
        self.publishing: dict[tuple[bytes, int], RecordedPublishing | None] = {}
        """Exchange and flags as basic.publish has them -> what counts such messages."""
        self.sent: RecordedPublishing | None = None
        """What counts the message whose header comes next, or that came last."""


class Conversation:
    """Reads one connection; `from_client` and `from_broker` take its bytes in the order in which they pass."""

    def __init__(self, ledger: Ledger) -> None:
        ledger.open_connection()
        self._ledger: Final = ledger
        self._client_frames: Final = FrameReader(of_client=True)
        self._broker_frames: Final = FrameReader(of_client=False)
        self._is_read = True
        self._client = RecordedClient()
        self._vhost = ""
        self._channels: Final[dict[int, _Channel]] = {}
        self._generated: Final[set[str]] = set()
        self._waiting = 0

    def from_client(self, data: bytes) -> None:
        """Read bytes of the client."""
        if self._is_read:
            self._read("client", self._client_frames, data)

    def from_broker(self, data: bytes) -> None:
        """Read bytes of the broker."""
        if self._is_read:
            self._read("broker", self._broker_frames, data)

    def end(self) -> None:
        """Take the end of the connection: as an answer, if its handshake waits for one."""
        channel = self._channels.pop(0, None)
        for name, request in () if channel is None else channel.pending:
            if request is not None and name.startswith("connection."):
                self._ledger.count_answer(request, RecordedAnswer(NO_CODE, CLOSED))

    def _read(self, side: str, frames: FrameReader, data: bytes) -> None:
        take = self._take_asked if side == "client" else self._take_answered
        try:
            for frame in frames.feed(data):
                take(frame)
        except FrameFault as error:
            self._give_up(side, str(error))
        except MalformedHeader:  # its text has a position and names, and equal faults are counted together
            self._give_up(side, "a method that cannot be decoded")
        except Exception:  # a mistake of ours must not end a connection of others
            LOG.exception("reading a connection")
            self._give_up(side, "an error of hashstar itself, which its log has")

    def _give_up(self, side: str, reason: str) -> None:
        self._is_read = False
        self._ledger.add_unread(UnreadConnections(side, reason))
        self._channels.clear()

    # What the client sends

    def _take_asked(self, frame: Frame) -> None:
        if frame.kind == HEADER:
            channel = self._channels.get(frame.channel)
            if channel is not None and channel.sent is not None:
                self._ledger.count_message(channel.sent, int.from_bytes(frame.payload[4:12]))
            return
        if frame.kind != METHOD:
            return
        number = int.from_bytes(frame.payload[:4])
        if number == PUBLISH:
            self._take_publish(frame)
        elif number in _READ:
            method = decode_method(frame.payload)
            if method.name == "channel.open":
                self._close_channel(frame.channel)
            elif method.name in RECORDED:
                self._take_request(frame.channel, method.name, method.arguments)

    def _take_publish(self, frame: Frame) -> None:
        payload = frame.payload
        end = 7 + payload[6] if len(payload) > 6 else len(payload)
        if end + 2 > len(payload) or end + 2 + payload[end] != len(payload):
            raise MalformedHeader("basic.publish has another length than its arguments", len(payload))
        channel = self._channel(frame.channel)
        key = (payload[7:end], payload[-1])
        if key not in channel.publishing:
            if len(channel.publishing) >= EXCHANGES:
                channel.publishing.clear()
            name = key[0].decode("utf-8", "surrogateescape")
            channel.publishing[key] = self._ledger.find_publishing(
                self._client, self._vhost, name, mandatory=bool(key[1] & 1), immediate=bool(key[1] & 2)
            )
        channel.sent = channel.publishing[key]
        if channel.sent is None:
            self._ledger.count_left_out()

    def _take_request(self, number: int, name: str, given: Mapping[str, Any]) -> None:
        if name == "connection.start-ok":
            self._client = self._ledger.add_client(_read_client(given["client_properties"]))
        elif name == "connection.open":
            self._vhost = given["virtual_host"]
        channel = self._channel(number)
        if name == "basic.consume":
            given = {**given, "prefetch_count": channel.prefetch[0], "prefetch_global": channel.prefetch[1]}
        arguments = {argument: _without_secrets(given[argument]) for argument in RECORDED[name]}
        if arguments.get("queue") in self._generated:
            arguments["queue"] = ""  # else each run of a client would ask something new
        if name == "basic.qos":
            channel.prefetch = (given["prefetch_count"], given["global"])
        request = self._ledger.count_request(self._client, self._vhost, name, arguments)
        if not given.get("nowait"):
            self._waiting += 1
            if self._waiting > WAITING:
                raise FrameFault(f"more than {WAITING:,} calls without an answer")
            channel.pending.append((name, request))

    def _channel(self, number: int) -> _Channel:
        channel = self._channels.get(number)
        if channel is None:
            if len(self._channels) >= CHANNELS:
                raise FrameFault(f"more than {CHANNELS:,} channels")
            channel = self._channels[number] = _Channel()
        return channel

    def _close_channel(self, number: int) -> _Channel | None:
        """Forget a channel, whose calls get no answer any more."""
        channel = self._channels.pop(number, None)
        self._waiting -= 0 if channel is None else len(channel.pending)
        return channel

    # What the broker sends

    def _take_answered(self, frame: Frame) -> None:
        if frame.kind != METHOD:
            return
        number = int.from_bytes(frame.payload[:4])
        if number == RETURN:
            self._take_return(frame)
        elif number in _READ:
            method = decode_method(frame.payload)
            if method.name in ANSWERS:
                self._take_answer(frame.channel, method.name, method.arguments)
            elif method.name == "connection.start":
                self._ledger.add_broker(_read_broker(method.arguments["server_properties"]))
            elif method.name == "channel.close-ok":
                self._close_channel(frame.channel)
            elif method.name in CLOSINGS:
                self._take_refusal(frame.channel, method.name, method.arguments)

    def _take_answer(self, number: int, name: str, given: Mapping[str, Any]) -> None:
        channel = self._channels.get(number)
        for asked in ANSWERS[name]:
            if channel is None:
                return
            while channel.pending:
                waiting, request = channel.pending.popleft()
                self._waiting -= 1
                if waiting == asked:
                    if request is not None:
                        self._ledger.count_answer(request, ACCEPTED)
                        if name == "queue.declare-ok" and request.arguments["queue"] == "":
                            self._keep_generated(given["queue"])
                    break

    def _keep_generated(self, name: str) -> None:
        if len(self._generated) < GENERATED:
            self._generated.add(name)

    def _take_refusal(self, number: int, name: str, given: Mapping[str, Any]) -> None:
        """Give the answer to the call that the broker names; what waits behind it gets none."""
        answer = RecordedAnswer(given["reply_code"], given["reply_text"])
        numbers = [number] if name == "channel.close" else [*self._channels]
        closed = [self._close_channel(each) for each in numbers]
        channels = [channel for channel in closed if channel is not None]
        asked = _IDS.get((given["class_id"], given["method_id"]))
        row = next(_find_refused(channels, asked, answer.text), None)
        if row is None:
            row = self._ledger.count_request(self._client, self._vhost, name, {})
        if row is not None:
            self._ledger.count_answer(row, answer)

    def _take_return(self, frame: Frame) -> None:
        channel = self._channels.get(frame.channel)
        exchange = decode_method(frame.payload).arguments["exchange"]
        rows = [] if channel is None else [row for row in channel.publishing.values() if row is not None]
        for row in rows:
            if row.exchange == exchange and row.mandatory:
                self._ledger.count_returned(row)
                return


def _find_refused(
    channels: list[_Channel], asked: str | None, text: str
) -> Iterator[RecordedRequest | RecordedPublishing]:
    """Yield what a refusal may be about, the likeliest first: the first call of the method that waits.

    A broker that closes before a connection is open often names no method: then it is the call that waits. A message
    is to the exchange in the text, else to the last one that was published to.
    """
    if asked == "basic.publish":
        rows = [row for channel in channels for row in channel.publishing.values() if row is not None]
        yield from (row for row in rows if f"exchange '{row.exchange}'" in text)
        yield from (channel.sent for channel in channels if channel.sent is not None)
    waiting = [(name, request) for channel in channels for name, request in channel.pending if request is not None]
    yield from (request for name, request in waiting if name == asked)
    if asked is None:
        yield from (request for name, request in waiting if name.startswith("connection."))


def _read_client(properties: Mapping[str, Any]) -> RecordedClient:
    version = _read_text(properties.get("version")) or _read_text(properties.get("product_version"))  # py-amqp's name
    product, platform, name = (_read_text(properties.get(key)) for key in ("product", "platform", "connection_name"))
    return RecordedClient(product, version, platform, hide_logins(name))


def _without_secrets(value: Any) -> Any:
    """Return the value of an argument without passwords: neither by the name of a field, nor in an address."""
    if isinstance(value, Mapping):
        return {name: HIDDEN if SECRETIVE.search(name) else _without_secrets(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_secrets(inner) for inner in value]
    return hide_logins(value) if isinstance(value, str) and "://" in value else value


def _read_broker(properties: Mapping[str, Any]) -> str:
    return f"{_read_text(properties.get('product'))} {_read_text(properties.get('version'))}".strip()


def _read_text(value: Any) -> str:
    return value[:NAME] if isinstance(value, str) else ""
