"""One connection to the test server: frames in and out, the handshake, channels, errors."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from bindings.testing.server.broker import MessageReceiver, ServedBroker
from bindings.testing.server.channel import Channel
from exchange.amqp import ContentHeader, MalformedHeader
from exchange.amqp.fields import decode_table
from exchange.amqp.methods import (
    BODY,
    END,
    HEAD,
    HEADER,
    HEARTBEAT,
    METHOD,
    PROTOCOL,
    Method,
    decode_method,
    encode_method,
)
from exchange.errors import (
    AccessRefused,
    BrokerError,
    HashstarError,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)
from exchange.limits import BODY_BYTES

LOG: Final = logging.getLogger(__name__)

FRAME_BYTES: Final = 131_072
"""Maximum size in bytes of a frame, its eight bytes of frame included."""
CHANNELS: Final = 2_047
"""Maximum number of channels of a connection."""
HANDSHAKE_SECONDS: Final = 10.0
"""Maximum number of seconds until a client has opened the connection."""

CLOSES_CHANNEL: Final = (AccessRefused, NotFound, PreconditionFailed, ResourceLocked)
"""Errors that close the channel; all others close the connection."""

PROPERTIES: Final = {
    "product": "hashstar",
    "information": "a broker for tests: it routes as RabbitMQ does, and keeps all in memory",
    "capabilities": dict.fromkeys(
        ("publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify",
         "authentication_failure_close", "per_consumer_qos", "direct_reply_to"),
        True,
    ),
}  # fmt: skip


class FrameError(HashstarError):
    """501: bytes that are no AMQP frames, or not the expected ones."""


class NoChannelError(FrameError):
    """A method on a channel that is not open."""


class ServerConnection:
    """Serves one client; `run` ends when the connection is closed."""

    def __init__(
        self, broker: ServedBroker, version: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.broker: Final = broker
        self._version: Final = version
        self._reader: Final = reader
        self._writer: Final = writer
        self._channels: Final[dict[int, Channel | None]] = {}
        """Number -> channel; None for one that the server has closed, until the client confirms."""
        self._contents: Final[dict[int, tuple[ContentHeader, int, list[bytes]]]] = {}
        """Channel -> header, missing bytes and body so far of a content that is being received."""
        self._frame_max = FRAME_BYTES
        self.user = ""
        self.supports_cancels = False
        """Whether the client knows that the server may cancel its consumers."""

    async def run(self) -> None:
        """Serve the client until one of the two closes the connection."""
        try:
            await asyncio.wait_for(self._shake_hands(), HANDSHAKE_SECONDS)
            await self._serve()
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            pass  # the client is gone
        except NoChannelError as error:
            await self._refuse(504, f"CHANNEL_ERROR - {error}")
        except FrameError as error:
            await self._refuse(501, f"FRAME_ERROR - {error}")
        except MalformedHeader as error:
            await self._refuse(502, f"SYNTAX_ERROR - {error}")
        except BrokerError as error:
            await self._refuse(error.code, f"{error.name} - {error.text}")
        except HashstarError as error:
            await self._refuse(503, f"COMMAND_INVALID - {error}")
        except Exception:
            LOG.exception("serving a client")
            await self._refuse(541, "INTERNAL_ERROR")
        finally:
            self._end()

    def _end(self) -> None:
        for channel in self._channels.values():
            if channel is not None:
                channel.close()
        with self.broker.act():
            self.broker.end_connection(self)
        self._writer.close()

    async def _shake_hands(self) -> None:
        if await self._reader.readexactly(len(PROTOCOL)) != PROTOCOL:
            self._writer.write(PROTOCOL)
            raise ConnectionError("another protocol")
        self.send(
            0,
            "connection.start",
            minor=9,
            server_properties={**PROPERTIES, "version": self._version},
            mechanisms=b"PLAIN AMQPLAIN",
            locales=b"en_US",
        )
        login = await self._expect("connection.start-ok")
        self.user = _user_of(login["mechanism"], login["response"])
        capabilities = login["client_properties"].get("capabilities")
        self.supports_cancels = isinstance(capabilities, dict) and capabilities.get("consumer_cancel_notify") is True
        self.send(0, "connection.tune", channel_max=CHANNELS, frame_max=FRAME_BYTES, heartbeat=0)
        tuned = await self._expect("connection.tune-ok")
        self._frame_max = min(tuned["frame_max"] or FRAME_BYTES, FRAME_BYTES)
        vhost = (await self._expect("connection.open"))["virtual_host"]
        if vhost != self.broker.vhost:
            raise NotAllowed(f"vhost {vhost} not found; the vhost of this server is {self.broker.vhost}")
        self.send(0, "connection.open-ok")

    async def _expect(self, name: str) -> Any:
        while True:
            kind, channel, payload = await self._read_frame()
            if kind == HEARTBEAT:
                continue
            method = decode_method(payload) if (kind, channel) == (METHOD, 0) else None
            if method is None or method.name != name:
                raise FrameError(f"{name} is expected")
            return method.arguments

    async def _read_frame(self) -> tuple[int, int, bytes]:
        kind, channel, size = HEAD.unpack(await self._reader.readexactly(HEAD.size))
        if size > FRAME_BYTES - 8:
            raise FrameError(f"a frame of {size} bytes, more than {FRAME_BYTES - 8}")
        payload = await self._reader.readexactly(size + 1)
        if payload[-1] != END:
            raise FrameError("a frame without its end")
        return kind, channel, payload[:-1]

    async def _serve(self) -> None:
        while True:
            kind, channel, payload = await self._read_frame()
            if kind == HEARTBEAT:
                self._write_frame(HEARTBEAT, 0, b"")
            elif kind == METHOD:
                method = decode_method(payload)
                if channel:
                    self._handle(channel, method)
                elif self._handle_own(method):
                    return
            elif kind in (HEADER, BODY):
                self._take_content(channel, kind, payload)
            else:
                raise FrameError(f"a frame of type {kind}")
            await self._writer.drain()

    def _handle_own(self, method: Method) -> bool:
        """Carry out a method of the connection, and return whether it is closed."""
        if method.name == "connection.close":
            self.send(0, "connection.close-ok")
            return True
        if method.name == "connection.update-secret":
            self.send(0, "connection.update-secret-ok")
            return False
        raise NotAllowed(f"{method.name} on channel 0")

    def _handle(self, number: int, method: Method) -> None:
        if method.name == "channel.open":
            if number in self._channels or number > CHANNELS:
                raise NotAllowed(f"channel {number} cannot be opened")
            self._channels[number] = Channel(self, number)
            self.send(number, "channel.open-ok")
            return
        if number not in self._channels:
            raise NoChannelError("expected 'channel.open'")
        channel = self._channels[number]
        if method.name in ("channel.close", "channel.close-ok"):
            del self._channels[number]
            self._contents.pop(number, None)
            if channel is not None:
                channel.close()
            if method.name == "channel.close":
                self.send(number, "channel.close-ok")
            return
        if channel is None:
            return  # sent before the client knew that the channel is closed
        if number in self._contents:
            raise FrameError("the rest of a content is expected")
        try:
            channel.handle(method.name, method.arguments)
        except CLOSES_CHANNEL as error:
            self.close_channel(number, channel, error, method.ids)

    def close_channel(
        self, number: int, channel: MessageReceiver, error: BrokerError, ids: tuple[int, int] = (0, 0)
    ) -> None:
        """Close a channel with an error, which the method of these ids caused."""
        self._channels[number] = None
        self._contents.pop(number, None)
        channel.close()
        text = f"{error.name} - {error.text}".encode("utf-8", "replace")[:255].decode("utf-8", "ignore")
        self.send(number, "channel.close", reply_code=error.code, reply_text=text, class_id=ids[0], method_id=ids[1])

    def _take_content(self, number: int, kind: int, payload: bytes) -> None:
        channel = self._channels.get(number)
        if number in self._channels and channel is None:
            return
        if channel is None or channel.pending is None:
            raise FrameError("a content without basic.publish")
        if kind == HEADER:
            content, size = ContentHeader.parse(payload)
            if size > BODY_BYTES:
                error = PreconditionFailed(f"message size {size} is larger than configured max size {BODY_BYTES}")
                self.close_channel(number, channel, error, (60, 40))
                return
            self._contents[number] = (content, size, [])
        elif number not in self._contents:
            raise FrameError("a body without its header")
        else:
            content, size, parts = self._contents[number]
            parts.append(payload)
            self._contents[number] = (content, size - len(payload), parts)
        content, size, parts = self._contents[number]
        if size < 0:
            raise FrameError("a body that is longer than the size in its header")
        if size == 0:
            del self._contents[number]
            try:
                channel.publish(content, b"".join(parts))
            except CLOSES_CHANNEL as error:
                self.close_channel(number, channel, error, (60, 40))

    def send(self, channel: int, name: str, content: tuple[ContentHeader, bytes] | None = None, **given: Any) -> None:
        """Send a method, with the content of a message."""
        self._write_frame(METHOD, channel, encode_method(name, **given))
        if content is not None:
            header, body = content
            self._write_frame(HEADER, channel, header.payload(len(body)))
            step = self._frame_max - 8
            for start in range(0, len(body), step):
                self._write_frame(BODY, channel, body[start : start + step])

    def _write_frame(self, kind: int, channel: int, payload: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(b"".join((HEAD.pack(kind, channel, len(payload)), payload, bytes((END,)))))

    async def _refuse(self, code: int, text: str) -> None:
        """Close the connection with an error, and wait a moment for the client to agree."""
        LOG.debug("closing a connection: %s", text)
        short = text.encode("utf-8", "replace")[:255].decode("utf-8", "ignore")
        self.send(0, "connection.close", reply_code=code, reply_text=short)
        try:
            async with asyncio.timeout(1):
                await self._writer.drain()
                while await self._reader.read(FRAME_BYTES):
                    pass
        except (TimeoutError, ConnectionError):
            pass


def _user_of(mechanism: str, response: str | bytes) -> str:
    """Return the name in a client's response to the server's start; "" if there is none."""
    raw = response.encode("utf-8", "surrogateescape") if isinstance(response, str) else response
    if mechanism == "AMQPLAIN":
        return str(decode_table(raw).get("LOGIN", ""))
    return raw.split(b"\0")[1].decode("utf-8", "surrogateescape") if raw.count(b"\0") == 2 else ""
