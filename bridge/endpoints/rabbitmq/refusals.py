"""Errors that explain why a connection or channel ended, with the way out."""

from __future__ import annotations

import re
from typing import Final

import pika
import pika.exceptions

from bridge.endpoint import Disconnected
from exchange.errors import BrokerError

__all__ = ["Refused", "to_answer_error", "explain_connect_error", "to_disconnected", "describe_error"]


class Refused(Disconnected):
    """The broker has closed a channel or the connection because of something it was sent."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code: Final = code
        """AMQP's reply code."""


def explain_connect_error(parameters: pika.URLParameters, error: BaseException) -> Disconnected:
    """Return the reason why no connection could be made, with the way out."""
    where = f"{parameters.host}:{parameters.port}"
    chain: list[BaseException] = []
    while error not in chain:  # pika wraps the cause in exceptions about what it was doing
        chain.append(error)
        inner = (*getattr(error, "exceptions", ()), getattr(error, "exception", None), *error.args)
        error = next((each for each in reversed(inner) if isinstance(each, BaseException)), error)
    text = " ".join([repr(each) for each in chain])
    closed = CLOSED.search(text)
    if closed is not None and int(closed[1]) in NOT_ALLOWED:  # without the broker's code, pika only guesses
        if any(isinstance(each, pika.exceptions.ProbableAuthenticationError) for each in chain):
            user = getattr(parameters.credentials, "username", "")
            return Disconnected(f"{where}: the broker refuses user {user!r} with this password")
        return Disconnected(f"{where}: virtual host {parameters.virtual_host!r}: {describe_error(chain[-1])}")
    for sign, explanation in SIGNS:
        if sign in text:
            return Disconnected(f"{where}{explanation}")
    return Disconnected(f"{where}: {describe_error(chain[-1])}")


SIGNS: Final = (
    ("WRONG_VERSION_NUMBER", ": the broker's port answers TLS with plain text: is this the amqps listener?"),
    ("certificate verify failed: unable to get", ": no authority in ca_file knows the broker's certificate"),
    ("certificate verify failed: self", ": no authority in ca_file knows the broker's certificate"),
    ("StreamLostError", " hung up during the handshake: is this an AMQP port?"),
    ("IncompatibleProtocolError", " hung up during the handshake: is this an AMQP port?"),
    ("ProtocolSyntaxError", " answered something else than AMQP: is this an AMQP port?"),
    ("InvalidFrameError", " answered something else than AMQP: is this an AMQP port?"),
)
"""Text in the exceptions of a failed connection, and its explanation."""

CLOSED: Final = re.compile(r"ConnectionClosedByBroker: \((\d+)\)")
"""The broker's own refusal within pika's exceptions, sometimes only as text."""

NOT_ALLOWED: Final = (402, 403, 530)
"""Reply codes for a user or virtual host that is missing or forbidden; one that is only down has others."""


def to_disconnected(error: BaseException) -> Disconnected:
    """Convert the error that ended a connection or channel to the one that its users get."""
    if isinstance(error, Disconnected):
        return error
    if isinstance(error, pika.exceptions.ChannelClosedByBroker | pika.exceptions.ConnectionClosedByBroker):
        return Refused(error.reply_code, error.reply_text)
    return Disconnected(describe_error(error))


def to_answer_error(error: BaseException) -> Exception:
    """Convert the error that ended a connection or channel to the one that a waiting method raises."""
    if isinstance(error, pika.exceptions.ChannelClosedByBroker):
        refusal = BrokerError(error.reply_text)
        refusal.code = error.reply_code
        return refusal
    return to_disconnected(error)


def describe_error(error: BaseException) -> str:
    """Return the text of an exception of pika; never empty."""
    text = getattr(error, "reply_text", None) or str(error) or type(error).__name__
    return str(text)
