"""Why a connection or channel ended, in words that name the way out."""

from __future__ import annotations

import re
from typing import Final

import pika
import pika.exceptions

from bridge.endpoint import Disconnected
from exchange.errors import BrokerError

__all__ = ["Refused", "answer_of", "connect_error", "trouble_of", "words_of"]


class Refused(Disconnected):
    """The broker has closed a channel or the connection over something that it was sent."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code: Final = code
        """AMQP's reply code."""


def connect_error(parameters: pika.URLParameters, error: BaseException) -> Disconnected:
    """Return why no connection could be made, in words that name the way out."""
    where = f"{parameters.host}:{parameters.port}"
    found: list[BaseException] = []
    while error not in found:  # pika wraps what happened in what it was about
        found.append(error)
        inner = (*getattr(error, "exceptions", ()), getattr(error, "exception", None), *error.args)
        error = next((each for each in reversed(inner) if isinstance(each, BaseException)), error)
    shown = " ".join([repr(each) for each in found])
    closed = CLOSED.search(shown)
    if closed is not None and int(closed[1]) in NOT_ALLOWED:  # else pika only guesses, from how far it had come
        if any(isinstance(each, pika.exceptions.ProbableAuthenticationError) for each in found):
            user = getattr(parameters.credentials, "username", "")
            return Disconnected(f"{where}: the broker refuses user {user!r} with this password")
        return Disconnected(f"{where}: virtual host {parameters.virtual_host!r}: {words_of(found[-1])}")
    for sign, words in SIGNS:
        if sign in shown:
            return Disconnected(f"{where}{words}")
    return Disconnected(f"{where}: {words_of(found[-1])}")


SIGNS: Final = (
    ("WRONG_VERSION_NUMBER", ": the broker's port answers TLS with plain text: is this the amqps listener?"),
    ("certificate verify failed: unable to get", ": no authority in ca_file knows the broker's certificate"),
    ("certificate verify failed: self", ": no authority in ca_file knows the broker's certificate"),
    ("StreamLostError", " hung up during the handshake: is this an AMQP port?"),
    ("IncompatibleProtocolError", " hung up during the handshake: is this an AMQP port?"),
    ("ProtocolSyntaxError", " answered something else than AMQP: is this an AMQP port?"),
    ("InvalidFrameError", " answered something else than AMQP: is this an AMQP port?"),
)
"""What the exceptions of a connection that could not be made contain, and what it means."""

CLOSED: Final = re.compile(r"ConnectionClosedByBroker: \((\d+)\)")
"""The broker's own refusal, which is in what pika says of it, at times as text."""

NOT_ALLOWED: Final = (402, 403, 530)
"""Reply codes for a user or a virtual host that is not there or not allowed; one that is only down has others."""


def trouble_of(error: BaseException) -> Disconnected:
    """Return the end of a connection or channel as it is reported to its users."""
    if isinstance(error, Disconnected):
        return error
    if isinstance(error, pika.exceptions.ChannelClosedByBroker | pika.exceptions.ConnectionClosedByBroker):
        return Refused(error.reply_code, error.reply_text)
    return Disconnected(words_of(error))


def answer_of(error: BaseException) -> Exception:
    """Return the end of it as what an unanswered method raises."""
    if isinstance(error, pika.exceptions.ChannelClosedByBroker):
        refusal = BrokerError(error.reply_text)
        refusal.code = error.reply_code
        return refusal
    return trouble_of(error)


def words_of(error: BaseException) -> str:
    """Return an error of pika's as text."""
    text = getattr(error, "reply_text", None) or str(error) or type(error).__name__
    return str(text)
