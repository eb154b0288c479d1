"""One connection to a name server or a broker: requests with their answers, and what the server asks of us.

Frames written in one turn of the event loop go to the socket together. There is no task and no timer for a request:
one table has all that are under way, and one timer looks through it (`NettyRemotingAbstract.scanResponseTable`).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from bridge.rocketmq.remoting.acl import Credentials
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.command import ONEWAY, Command, Decoder, SerializeType, encode
from bridge.rocketmq.remoting.errors import CommandError, ConnectError, RemotingError, RemotingTimeout, SendRequestError

__all__ = ["Answer", "Channel", "ChannelSettings", "split_address"]

LOG: Final = logging.getLogger(__name__)

SCAN_SECONDS: Final = 0.05
"""So late a timeout may be told."""

HIGH_WATER: Final = 1 << 20
"""So many bytes may wait for the socket before `Channel.is_writable` turns false."""

CLOSE_SECONDS: Final = 2.0
"""How long what was written last may take to leave."""

OPAQUES: Final = (1 << 31) - 1

Answer: TypeAlias = Command | RemotingError
"""What became of a request: whatever the server answered, or why there is no answer."""


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """How servers are spoken to (`org.apache.rocketmq.remoting.netty.NettyClientConfig`); times are seconds."""

    connect_timeout: float = 3.0
    """``connectTimeoutMillis``"""
    serialize_type: SerializeType = SerializeType.ROCKETMQ
    """``rocketmq.serialize.type``, JSON in a Java client that was not told otherwise."""
    tls: ssl.SSLContext | None = None
    """``useTLS``: certificates are checked as it says."""
    credentials: Credentials | None = None


class Channel(asyncio.Protocol):
    """An open connection; `open` makes one."""

    def __init__(self, address: str, settings: ChannelSettings) -> None:
        self.address: Final = address
        self.settings: Final = settings
        self.on_request: Callable[[Command], Command | None] | None = None
        """Answers a request of the server's; what it gives for a one-way request is not sent."""
        self.on_closed: Callable[[Channel], None] | None = None
        """Told once, when the connection has ended, whoever ended it."""
        self.is_writable = True
        """Whether what was written leaves as fast as it comes."""
        self.closed = False
        """Whether the connection has ended; it does not come back."""
        self.is_usable = True
        """Whether new requests may go over it: not when it has ended, nor when it is to end after those under way."""
        self._loop: Final = asyncio.get_running_loop()
        self.heard_at = self._loop.time()
        """When something came last, by the loop's clock."""
        self._decoder: Final = Decoder()
        self._transport: asyncio.Transport | None = None
        self._waiting: Final[dict[int, tuple[Callable[[Answer], None], float, float]]] = {}
        self._frames: list[bytes] = []
        self._opaque = 0
        self._scan: asyncio.TimerHandle | None = None
        self._ended: Final[asyncio.Future[None]] = self._loop.create_future()
        self._room: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, address: str, settings: ChannelSettings | None = None) -> Channel:
        """Connect to ``host:port``. Raises ConnectError."""
        settings = settings or ChannelSettings()
        host, port = split_address(address)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(settings.connect_timeout):
                _, channel = await loop.create_connection(lambda: cls(address, settings), host, port, ssl=settings.tls)
        except TimeoutError:
            raise ConnectError(f"{address}: no connection in {settings.connect_timeout:g} s") from None
        except ssl.SSLError as error:
            raise ConnectError(f"{address}: TLS: {error}") from None
        except OSError as error:
            raise ConnectError(f"{address}: {error.strerror or error}") from None
        except UnicodeError as error:  # of a name that DNS cannot have
            raise ConnectError(f"{address}: {error}") from None
        return channel

    async def invoke(
        self,
        code: int,
        fields: Mapping[str, str],
        body: bytes = b"",
        timeout: float = 3.0,  # noqa: ASYNC109 - one table has all timeouts
    ) -> Command:
        """Ask, and wait for the answer, whatever its code; ``timeout`` is in seconds.

        Raises RemotingTimeout, SendRequestError if the connection ends first, CommandError for what cannot be written.
        """
        return await self.invoke_with(lambda opaque: self.encode(Command(code, fields, body, opaque)), timeout)

    async def invoke_with(
        self,
        frame: Callable[[int], bytes],
        timeout: float,  # noqa: ASYNC109
    ) -> Command:
        """`invoke` of a request that is written elsewhere: ``frame`` gives it, with the ``opaque`` that it gets."""
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
            written = frame(opaque)
            if len(self._waiting) == 1 and not self._frames:
                # Who asks one thing after the other need not wait for a turn of the loop each time.
                self._send(written)
            else:
                self.write(written)
            return await answered
        finally:
            self._waiting.pop(opaque, None)

    def oneway(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> None:
        """Ask without an answer. Raises SendRequestError on a connection that has ended, CommandError."""
        self._opaque = opaque = (self._opaque + 1) & OPAQUES
        self.write(self.encode(Command(code, fields, body, opaque, ONEWAY)))

    def expect(self, answer: Callable[[Answer], None], timeout: float) -> int:
        """The ``opaque`` for a request that is written next, of whose answer one will be told exactly once.

        Raises SendRequestError on a connection that has ended.
        """
        if self.closed:
            raise SendRequestError(f"{self.address}: the connection has ended")
        self._opaque = opaque = (self._opaque + 1) & OPAQUES
        self._waiting[opaque] = answer, self._loop.time() + timeout, timeout
        if self._scan is None:
            self._scan = self._loop.call_later(SCAN_SECONDS, self._look_for_late)
        return opaque

    def encode(self, command: Command) -> bytes:
        """The frame of a command, signed if there are credentials. Raises CommandError."""
        credentials, kind = self.settings.credentials, self.settings.serialize_type
        if credentials is not None:
            if kind is SerializeType.ROCKETMQ:
                # A server reads an empty value of a binary header as null, and signs the word; so it is left out.
                command = command._replace(fields={name: value for name, value in command.fields.items() if value})
            command = credentials.sign(command)
        return encode(command, kind)

    def write(self, frame: bytes) -> None:
        """Have a frame leave, with all others of this turn. Raises SendRequestError on a connection that has ended."""
        if self.closed:
            raise SendRequestError(f"{self.address}: the connection has ended")
        frames = self._frames
        if not frames:
            self._loop.call_soon(self._flush)
        frames.append(frame)

    async def writable(self) -> None:
        """Wait until what was written has left, but for the last of it, or the connection has ended."""
        while not self.is_writable and not self.closed:
            if self._room is None:
                self._room = self._loop.create_future()
            await asyncio.shield(self._room)

    async def close(self) -> None:
        """End the connection, once what was written has left; who still waits for an answer gets SendRequestError."""
        self._flush()
        if self._transport is not None:
            self._transport.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.shield(self._ended)
        except TimeoutError:
            pass
        finally:  # also where who waits for it is cancelled
            self.abort()

    def abort(self, why: str = "closed") -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()
        self._end(why)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(HIGH_WATER)

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._loop.time()
        try:
            commands = self._decoder.feed(data)
        except CommandError as error:
            self.abort(str(error))
            return
        except Exception as error:  # noqa: BLE001  whatever a header of JSON comes up with
            self.abort(f"{type(error).__name__}: {error}")
            return
        waiting = self._waiting
        for command in commands:
            if not command.flag & 1:
                self._asked(command)
            elif (found := waiting.pop(command.opaque, None)) is not None:  # else it comes too late
                self._give(found[0], command)

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True
        self._tell_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(str(exc) if exc else "the server has ended the connection")

    # What there is to do.

    def _flush(self) -> None:
        frames, self._frames = self._frames, []
        if frames:
            self._send(frames[0] if len(frames) == 1 else b"".join(frames))

    def _send(self, data: bytes) -> None:
        if self._transport is not None and not self.closed:
            self._transport.write(data)

    def _asked(self, request: Command) -> None:
        try:
            response = self.on_request(request) if self.on_request is not None else None
        except Exception as error:  # as Java does; the requests of others go on
            LOG.exception("%s asked for %s", self.address, request.code)
            response = request.response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        if request.is_oneway:
            return
        if response is None:
            remark = f" request type {request.code} not supported"
            response = request.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
        if not self.closed:
            self.write(encode(response, self.settings.serialize_type))

    def _look_for_late(self) -> None:
        now = self._loop.time()
        late = [(opaque, *found) for opaque, found in self._waiting.items() if found[1] <= now]
        for opaque, answer, _, timeout in late:
            del self._waiting[opaque]
            self._give(answer, RemotingTimeout(f"{self.address}: no answer in {timeout:.3g} s"))
        self._scan = self._loop.call_later(SCAN_SECONDS, self._look_for_late) if self._waiting else None

    def _give(self, answer: Callable[[Answer], None], what: Answer) -> None:
        """Tell one who asked; what fails there must not keep the others from their answers."""
        try:
            answer(what)
        except Exception:
            LOG.exception("%s: what was to become of an answer", self.address)

    def _end(self, why: str) -> None:
        if self.closed:
            return
        self.closed = True
        self.is_usable = False
        if self._scan is not None:
            self._scan.cancel()
        waiting = list(self._waiting.values())
        self._waiting.clear()
        for answer, *_ in waiting:
            self._give(answer, SendRequestError(f"{self.address}: {why}"))
        self._ended.set_result(None)
        self._tell_room()
        if self.on_closed is not None:
            self.on_closed(self)

    def _tell_room(self) -> None:
        if self._room is not None:
            self._room.set_result(None)
            self._room = None


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[host]:port``. Raises ConnectError for what is none."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConnectError(f"{address!r} is no address: write host:port")
    return host.strip("[]"), int(port)
