"""One connection to a name server or a broker: our requests with their answers, and the server's requests to us.

Frames written in one turn of the event loop go to the socket together, up to `FLUSH_BYTES`. A request has no task and
no timer of its own: one table has all that are under way, and one timer looks through it
(`NettyRemotingAbstract.scanResponseTable`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from bridge.aside import call_aside, is_look_up_hanging, look_up
from bridge.rocketmq.remoting.acl import Credentials
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.command import CODE_MAX, ONEWAY, Command, Decoder, SerializeType, encode
from bridge.rocketmq.remoting.errors import CommandError, ConnectError, RemotingError, RemotingTimeout, SendRequestError
from exchange.text.numbers import is_digits

LOG: Final = logging.getLogger(__name__)

SCAN_SECONDS: Final = 0.05
"""Minimum number of seconds until the next scan of the table: maximum delay of a timeout."""

HIGH_WATER: Final = 1 << 20
"""Number of bytes waiting for the socket at which `Channel.is_writable` turns false."""

FLUSH_BYTES: Final = 128 << 10
"""Number of bytes of frames that are written without waiting for the end of the turn: the server works on them while
the caller prepares the next."""

CLOSE_SECONDS: Final = 2.0
"""Seconds until all data must be written when a connection is closed."""

OPAQUES: Final = (1 << 31) - 1
"""Bit mask of the ids of requests."""

Answer: TypeAlias = Command | RemotingError
"""Outcome of a request: the server's answer, whatever its code, or why there is none."""


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """Settings of connections (`org.apache.rocketmq.remoting.netty.NettyClientConfig`); times are in seconds."""

    connect_timeout: float = 3.0
    """``connectTimeoutMillis``"""
    serialize_type: SerializeType = SerializeType.ROCKETMQ
    """``rocketmq.serialize.type``, by default JSON in a Java client."""
    tls: ssl.SSLContext | None = None
    """``useTLS``; the context decides how certificates are verified."""
    credentials: Credentials | None = None


class Channel(asyncio.Protocol):
    """An open connection, made by `open`."""

    def __init__(self, address: str, settings: ChannelSettings) -> None:
        self.address: Final = address
        self.settings: Final = settings
        self.on_request: Callable[[Command], Command | None] | None = None
        """Function that answers a request of the server; its answer to a one-way request is not sent."""
        self.on_closed: Callable[[Channel], None] | None = None
        """Function called once, when the connection has ended from either side."""
        self.is_writable = True
        """Whether data leaves as fast as it is written: False from ``HIGH_WATER`` bytes waiting for the socket on."""
        self.closed = False
        """Whether the connection has ended, for ever."""
        self.is_usable = True
        """Whether new requests may use it. False when it has ended, and when it will end after the requests under
        way."""
        self._loop: Final = asyncio.get_running_loop()
        self.heard_at = self._loop.time()
        """Time at which data came last, by the loop's clock."""
        self.has_heard = False
        """Whether any data came."""
        self._decoder: Final = Decoder()
        self._transport: asyncio.Transport | None = None
        self._waiting: Final[dict[int, tuple[Callable[[Answer], None], float, float]]] = {}
        """Id of a request -> the function for its answer, its deadline by the loop's clock, its timeout in seconds."""
        self._frames: list[bytes] = []
        """Frames of this turn of the event loop."""
        self._size = 0
        """Number of their bytes."""
        self._opaque = 0
        """Id of the last request."""
        self._scan: asyncio.TimerHandle | None = None
        self._ended: Final[asyncio.Future[None]] = self._loop.create_future()
        self._drained: asyncio.Future[None] | None = None
        """Done when it is writable again, if a caller waits for that."""

    @classmethod
    async def open(cls, address: str, settings: ChannelSettings | None = None) -> Channel:
        """Connect to ``host:port``. Raises ConnectError."""
        settings = settings or ChannelSettings()
        host, port = split_address(address)
        try:
            async with asyncio.timeout(settings.connect_timeout):
                channel = await _connect(lambda: cls(address, settings), host, port, settings.tls)
        except TimeoutError:
            hangs = await call_aside(is_look_up_hanging, host)
            missing = "answer from name servers" if hangs else "connection"
            raise ConnectError(f"{address}: no {missing} in {settings.connect_timeout:g} s") from None
        except ssl.SSLError as error:
            raise ConnectError(f"{address}: TLS: {error}") from None
        except OSError as error:
            code = error.errno or 0
            why = os.strerror(code) if code > 0 else error.strerror or error  # of the system, and not of asyncio
            raise ConnectError(f"{address}: {why}") from None
        except UnicodeError as error:  # a name that DNS cannot have
            raise ConnectError(f"{address}: {error}") from None
        return channel

    async def invoke(
        self,
        code: int,
        fields: Mapping[str, str],
        body: bytes = b"",
        timeout: float = 3.0,  # noqa: ASYNC109 - one table has all timeouts
    ) -> Command:
        """Send a request, and return its answer, whatever its code; ``timeout`` is in seconds.

        Raises RemotingTimeout, SendRequestError if the connection ends first, CommandError if it cannot be encoded.
        """
        return await self.invoke_with(lambda opaque: self.encode(Command(code, fields, body, opaque)), timeout)

    async def invoke_with(
        self,
        frame: Callable[[int], bytes],
        timeout: float,  # noqa: ASYNC109
    ) -> Command:
        """Do as `invoke` with a request that the caller encodes: ``frame`` returns it, given its ``opaque``."""
        answered: asyncio.Future[Command] = self._loop.create_future()

        def answer(answer: Answer) -> None:
            if answered.done():
                return
            if isinstance(answer, Command):
                answered.set_result(answer)
            else:
                answered.set_exception(answer)

        opaque = self.expect(answer, timeout)
        try:
            data = frame(opaque)
            if len(self._waiting) == 1 and not self._frames:
                # The only request under way is sent at once: a caller that waits for each answer saves a turn of the
                # loop per request.
                self._send(data)
            else:
                self.write(data)
            return await answered
        finally:
            self._waiting.pop(opaque, None)

    def oneway(self, code: int, fields: Mapping[str, str]) -> None:
        """Send a request without an answer. Raises SendRequestError on a connection that has ended, CommandError."""
        self._opaque = opaque = (self._opaque + 1) & OPAQUES
        self.write(self.encode(Command(code, fields, b"", opaque, ONEWAY)))

    def expect(self, answer: Callable[[Answer], None], timeout: float) -> int:
        """Register a request that is about to be written, and return its ``opaque``; ``answer`` is called once, with
        the outcome.

        Raises SendRequestError on a connection that has ended.
        """
        if self.closed:
            raise SendRequestError(f"{self.address}: the connection has ended")
        self._opaque = opaque = (self._opaque + 1) & OPAQUES
        deadline = self._loop.time() + timeout
        self._waiting[opaque] = answer, deadline, timeout
        self._scan_by(deadline)
        return opaque

    def encode(self, command: Command) -> bytes:
        """Return the frame of a command, signed if there are credentials. Raises CommandError."""
        credentials, kind = self.settings.credentials, self.settings.serialize_type
        if credentials is not None:
            if kind is SerializeType.ROCKETMQ and command.code <= CODE_MAX:
                # A server reads an empty value of a binary header as null, and signs "null"; so it is left out.
                command = command._replace(fields={name: value for name, value in command.fields.items() if value})
            command = credentials.sign(command)
        return encode(command, kind)

    def write(self, frame: bytes) -> None:
        """Write a frame, with all others of this turn. Raises SendRequestError on a connection that has ended."""
        if self.closed:
            raise SendRequestError(f"{self.address}: the connection has ended")
        frames = self._frames
        if not frames:
            self._loop.call_soon(self._flush)
        frames.append(frame)
        self._size += len(frame)
        if self._size >= FLUSH_BYTES:
            self._flush()

    async def wait_until_writable(self) -> None:
        """Wait until the connection is writable again, or has ended."""
        while not self.is_writable and not self.closed:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)

    async def close(self) -> None:
        """End the connection after all data is written; requests without an answer get SendRequestError."""
        self._flush()
        if self._transport is not None:
            self._transport.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.shield(self._ended)
        except TimeoutError:
            pass
        finally:  # also when the caller is cancelled
            self.abort()

    def abort(self, why: str = "closed") -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()
        self._end(why)

    @property
    def local_host(self) -> str:
        """This end's address: that of the interface by which the server is reached."""
        name = None if self._transport is None else self._transport.get_extra_info("sockname")
        return str(name[0]) if name else ""

    # asyncio.Protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(HIGH_WATER)

    def data_received(self, data: bytes) -> None:
        self.heard_at, self.has_heard = self._loop.time(), True
        try:
            commands = self._decoder.feed(data)
        except CommandError as error:
            self.abort(str(error))
            return
        except Exception as error:  # noqa: BLE001  whatever a header in JSON may raise
            self.abort(f"{type(error).__name__}: {error}")
            return
        waiting = self._waiting
        for command in commands:
            if not command.flag & 1:
                self._answer_request(command)
            elif (request := waiting.pop(command.opaque, None)) is not None:  # else its request has timed out
                self._call(request[0], command)

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True
        self._wake_writers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(str(exc) if exc else "the server has ended the connection")

    # Implementation.

    def _flush(self) -> None:
        frames, self._frames, self._size = self._frames, [], 0
        if frames:
            self._send(frames[0] if len(frames) == 1 else b"".join(frames))

    def _send(self, data: bytes) -> None:
        if self._transport is not None and not self.closed:
            self._transport.write(data)

    def _answer_request(self, request: Command) -> None:
        try:
            response = self.on_request(request) if self.on_request is not None else None
        except Exception as error:  # answer it as Java does; other requests go on
            LOG.exception("%s: request %s of the server", self.address, request.code)
            response = request.response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        if request.is_oneway:
            return
        if response is None:
            remark = f" request type {request.code} not supported"
            response = request.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
        if not self.closed:
            self.write(encode(response, self.settings.serialize_type))

    def _scan_by(self, deadline: float) -> None:
        """Scan the table at a deadline, and not before: a pull that waits for half a minute wakes nobody meanwhile."""
        at = max(deadline, self._loop.time() + SCAN_SECONDS)
        if self._scan is None or self._scan.when() > at:
            if self._scan is not None:
                self._scan.cancel()
            self._scan = self._loop.call_at(at, self._end_late)

    def _end_late(self) -> None:
        """End the requests whose deadline has passed; scan again by the deadline of the next."""
        now, self._scan = self._loop.time(), None
        late = [(opaque, *request) for opaque, request in self._waiting.items() if request[1] <= now]
        for opaque, answer, _, timeout in late:
            del self._waiting[opaque]
            self._call(answer, RemotingTimeout(f"{self.address}: no answer in {timeout:.3g} s"))
        if self._waiting:
            self._scan_by(min([deadline for _, deadline, _ in self._waiting.values()]))

    def _call(self, answer: Callable[[Answer], None], outcome: Answer) -> None:
        """Call the function for an answer; its failure must not keep other requests from their answers."""
        try:
            answer(outcome)
        except Exception:
            LOG.exception("%s: the function for an answer failed", self.address)

    def _end(self, why: str) -> None:
        if self.closed:
            return
        self.closed = True
        self.is_usable = False
        if self._scan is not None:
            self._scan.cancel()
        waiting = list(self._waiting.values())
        self._waiting.clear()
        # `closed` is already set: a request that one of these functions makes is refused, and is not left waiting.
        for answer, *_ in waiting:
            self._call(answer, SendRequestError(f"{self.address}: {why}"))
        self._ended.set_result(None)
        self._wake_writers()
        if self.on_closed is not None:
            self.on_closed(self)

    def _wake_writers(self) -> None:
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None


async def _connect(make: Callable[[], Channel], host: str, port: int, tls: ssl.SSLContext | None) -> Channel:
    """Connect to the first address of a host that accepts. Raises OSError, UnicodeError."""
    failure = OSError("no address")
    for *_, address in await look_up(host, port):
        try:
            _, channel = await asyncio.get_running_loop().create_connection(
                make, *address[:2], ssl=tls, server_hostname=host if tls else None
            )
        except ssl.SSLError:
            raise
        except OSError as error:
            failure = error
        else:
            return channel
    raise failure


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` or ``[host]:port``. Raises ConnectError for a malformed address."""
    host, _, port = address.rpartition(":")
    if not host or not is_digits(port) or len(port) > 5 or int(port) > 65535:
        raise ConnectError(f"{address!r} is no address: write host:port")
    return host.strip("[]"), int(port)
