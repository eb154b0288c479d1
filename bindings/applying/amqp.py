"""A connection that carries out one operation at a time, each within a limit of time.

Invariant: each call ends within its seconds, with the broker's answer or an exception. A refusal raises
`OperationRefused` with the broker's own text, and the connection stays usable if AMQP allows that; a closed connection
or a silent broker raises `Lost`. pika's blocking connection has no such limit, so this module runs the event loop of
pika itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from exchange.amqp.methods import METHODS, encode_method
from exchange.errors import HashstarError, InputError
from exchange.text.site import build_install_command

SECONDS: Final = 30.0
"""Maximum duration in seconds of one operation of a broker."""

CLOSING_SECONDS: Final = 2.0
"""Maximum duration in seconds of closing a connection."""


class OperationRefused(HashstarError):
    """The broker has refused an operation; ``code`` is the reply code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code


GONE: Final = "the connection is gone: "


class Lost(HashstarError):
    """The connection is closed, or the broker does not answer; whether the operation was carried out is unknown."""


def require_pika() -> None:
    """Raise InputError if pika is not installed."""
    try:
        import pika  # noqa: F401
    except ImportError:
        raise InputError(f"changing a broker needs pika: {build_install_command('rabbitmq')}") from None


class BrokerConnection:
    """One connection to a broker, with one channel at a time.

    ``address`` is an AMQP URL; user, password and virtual host in it are ignored. ``name`` is the connection's name at
    the broker, ``frame_max`` the maximum size in bytes of a frame, None for the usual one. Raises Lost or
    OperationRefused if the connection cannot be opened.
    """

    way_out: ClassVar[str] = "; if its AMQP is elsewhere, give --other-address amqp://HOST:PORT"
    """What the error of a connection that cannot be opened ends with."""

    def __init__(
        self,
        address: str,
        user: str,
        password: str,
        vhost: str,
        *,
        seconds: float = SECONDS,
        name: str = "hashstar apply",
        frame_max: int | None = None,
    ) -> None:
        import pika  # only needed to talk to a broker

        logger = logging.getLogger("pika")
        if not logger.hasHandlers():
            logger.addHandler(logging.NullHandler())  # pika would print errors that are raised here
        try:
            parameters = pika.URLParameters(address)
        except (ValueError, TypeError, KeyError, AttributeError, OSError):
            # Not pika's own message: it may contain parts of the query, such as the password of a key.
            raise Lost("not an AMQP address: what stands behind its ? is nothing that pika can use") from None
        parameters.credentials = pika.PlainCredentials(user, password)
        parameters.virtual_host = vhost
        parameters.connection_attempts = 1
        parameters.socket_timeout = parameters.stack_timeout = parameters.blocked_connection_timeout = seconds
        parameters.client_properties = {"connection_name": name}
        if frame_max is not None:
            parameters.frame_max = frame_max
        self._seconds: Final = seconds
        self._answer: Any = None
        self._trouble: HashstarError | None = None
        self._gone: Lost | None = None
        self._waits = False
        self._listens = False
        """Whether `wake` ends the wait."""
        self._channel: Any = None
        self._connection = self._open(
            parameters,
            on_open_callback=self._take_answer,
            on_open_error_callback=lambda _, error: self._fail(error),
            on_close_callback=lambda _, error: self._fail(error),
        )
        try:
            self._wait("the connection", seconds)
        except HashstarError as error:
            self.close()
            if not isinstance(error, Lost):
                raise
            why = str(error).removeprefix(GONE)
            text = f"{parameters.host}:{parameters.port}: no connection of AMQP can be opened: {why}"
            raise Lost(f"{text}{self.way_out}") from None

    def _open(self, parameters: Any, **callbacks: Any) -> Any:
        """Begin to open a connection of pika."""
        import pika

        return pika.SelectConnection(parameters, **callbacks)

    def _adopt(self, channel: Any) -> None:
        """Prepare a channel that was opened."""
        channel.add_on_close_callback(lambda _, error: self._fail(error))

    @property
    def cluster(self) -> str:
        """The name that the broker gives its cluster."""
        name = (self._connection.server_properties or {}).get("cluster_name", "")
        return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)

    @property
    def is_open(self) -> bool:
        """Whether the connection can be used: not if a refusal has closed it."""
        return self._gone is None and bool(self._connection.is_open)

    def leave_channel(self) -> None:
        """Let the next operation open a channel of its own; the present one stays open."""
        self._channel = None

    def call(self, what: str, operation: Callable[[Any, Callable[[Any], None]], object]) -> Any:
        """Carry out an operation, and return the broker's answer.

        The operation is called with a pika channel and the callback for the answer; ``what`` names it in errors.
        Raises OperationRefused or Lost.
        """
        if self._channel is None or not self._channel.is_open:
            self._channel = self._start("a channel", lambda done: self._connection.channel(on_open_callback=done))
            self._adopt(self._channel)
        channel = self._channel
        return self._start(what, lambda done: operation(channel, done))

    def send(self, what: str, name: str, arguments: Mapping[str, Any]) -> Any:
        """Send a method of `exchange.amqp.methods`, and return the broker's answer. Raises what `call` raises."""
        try:
            method = to_pika(name, arguments)
        except ValueError as error:
            raise OperationRefused(501, f"not sent: {error}") from None
        # pika's own calls build the method and encode its arguments themselves; all of them end in _rpc.
        return self.call(what, lambda channel, done: channel._rpc(method, done, [_reply_to(name)]))

    def listen(self, seconds: float) -> None:
        """Handle what the broker sends unasked, until `wake`, for at most ``seconds``. Raises what `call` raises."""
        if self._gone is not None:
            raise self._gone
        self._trouble, self._listens = None, True
        try:
            self._run(seconds, self.wake)
        except HashstarError as error:
            self._gone = Lost(str(error))
            raise
        finally:
            self._listens = False

    def wake(self) -> None:
        """End `listen`; anywhere else nothing."""
        if self._listens:
            self._stop()

    def close(self) -> None:
        """Close the connection; errors are ignored."""
        from pika.exceptions import AMQPError

        for end in (self._connection.close, self._abort):
            if not self._connection.is_closed:
                self._trouble = None
                try:
                    end()
                    self._wait("the end of the connection", CLOSING_SECONDS)
                except (HashstarError, AMQPError):
                    continue
        self._connection.ioloop.close()

    def _abort(self) -> None:
        # pika has no other way to close the socket of a broker that does not answer.
        if self._connection._transport is not None:
            self._connection._transport.abort()

    def _start(self, what: str, operation: Callable[[Callable[[Any], None]], object]) -> Any:
        """Start an operation and return its answer. After the connection is lost, every call raises Lost."""
        from pika.exceptions import AMQPError, ShortStringTooLong

        if self._gone is not None:
            raise self._gone
        self._trouble = None
        try:
            operation(self._take_answer)
        except ShortStringTooLong:
            raise OperationRefused(501, "not sent: a name or key has more than 255 bytes") from None
        except AMQPError as error:  # nothing was sent yet
            raise _to_our_error(error) from None
        try:
            return self._wait(what, self._seconds)
        except HashstarError as error:
            if isinstance(error, Lost) or not self._connection.is_open:
                self._gone = Lost(str(error))
            raise

    def _wait(self, what: str, seconds: float) -> Any:
        """Run the event loop until `_take_answer` or `_fail` stops it, or the time is over."""
        self._run(seconds, lambda: self._fail(Lost(f"no answer to {what} in {seconds:g} seconds")))
        return self._answer

    def _run(self, seconds: float, end: Callable[[], None]) -> None:
        """Run the event loop until something stops it; ``end`` does so when the time is over. Raises the trouble."""
        loop = self._connection.ioloop
        self._waits = True
        timer = loop.call_later(seconds, end)
        if self._trouble is None:
            loop.start()
        self._waits = False
        loop.remove_timeout(timer)
        if self._trouble is not None:
            raise self._trouble

    def _take_answer(self, answer: Any) -> None:
        self._answer = answer
        self._stop()

    def _fail(self, error: Any) -> None:
        self._trouble = _to_our_error(error)
        self._stop()

    def _stop(self) -> None:
        if self._waits:
            self._connection.ioloop.stop()


def _to_our_error(error: Any) -> HashstarError:
    """Return an error of pika as OperationRefused or Lost; our own errors stay as they are."""
    from pika import exceptions

    if isinstance(error, HashstarError):
        return error
    if isinstance(error, exceptions.ChannelClosedByBroker | exceptions.ConnectionClosedByBroker):
        return OperationRefused(error.reply_code, error.reply_text)
    if isinstance(error, exceptions.ProbableAuthenticationError):
        return OperationRefused(403, "the broker refuses the user or the password, or the access token in their place")
    if isinstance(error, exceptions.ProbableAccessDeniedError):
        return OperationRefused(403, "the user has no access to the virtual host, or there is none of this name")
    causes = getattr(error, "exceptions", None)  # one for each address that pika has tried
    cause = causes[-1] if causes else getattr(error, "exception", None)
    if cause is None and error.args and isinstance(error.args[0], Exception):
        cause = error.args[0]
    if cause is not None:
        return _to_our_error(cause)
    return Lost(f"{GONE}{error}" if str(error) else f"{GONE}{type(error).__name__}")


def to_pika(name: str, arguments: Mapping[str, Any]) -> Any:
    """Return a method, encoded, as an object of pika. Raises ValueError for a name or value that AMQP cannot carry.

    pika chooses the widths of integers and floats by itself and rewrites decimals. But the types must stay: they decide
    what a headers binding matches, and which binding an unbind removes.
    """
    from pika import amqp_object  # only needed to talk to a broker

    payload = encode_method(name, **arguments)

    class Encoded(amqp_object.Method):  # type: ignore[misc]  # pika has no types
        INDEX = _number(name)
        NAME = name
        synchronous = True

        def encode(self) -> list[bytes]:
            return [payload[4:]]  # pika writes the number itself

    return Encoded()


def _reply_to(name: str) -> Any:
    """Return pika's class of the answer to a method."""
    from pika import spec

    return spec.methods[_number(f"{name}-ok")]


def _number(name: str) -> int:
    return METHODS[name].class_id << 16 | METHODS[name].method_id
