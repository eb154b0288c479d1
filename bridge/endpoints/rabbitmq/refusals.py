"""What a broker refuses: the reply codes and their meaning, and errors that explain it, with the way out."""

from __future__ import annotations

import re
import ssl
from typing import Final

import pika
import pika.exceptions

from bridge.client_errors import explain_client_error
from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq.tokens import find_tokens
from exchange.errors import AccessRefused, BrokerError, NotAllowed, NotFound, PreconditionFailed, ResourceLocked

NO_ACCESS: Final = AccessRefused.code
NOT_FOUND: Final = NotFound.code

ABOUT_A_MESSAGE: Final = frozenset({PreconditionFailed.code, 501, 502, 503, 505, 506, 540, 541})
"""Reply codes that one message may cause; the cause of others is a permission, the exchange or the broker."""

NOT_OURS_TO_SEE: Final = frozenset({NO_ACCESS, ResourceLocked.code})
"""Reply codes of a passive declare after which publishing may still work: no permission to declare, or a queue that
another connection uses exclusively."""

NOT_ALLOWED: Final = frozenset({402, NO_ACCESS, NotAllowed.code})
"""Reply codes for a user or virtual host that is missing or forbidden; one that is only down has others."""

PASSING: Final = ("in exclusive use", "exclusive access", "RESOURCE_LOCKED")
"""Text in refusals because of another, exclusive consumer."""


INTERNAL: Final = "cannot publish to internal exchange"
"""Text in the refusal to publish to an exchange that takes messages of other exchanges only."""

LOCKED: Final = "locked queue"
"""Text in the refusal of a queue that is exclusive to the connection that declared it."""


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
            if find_tokens(parameters) is not None:
                return Disconnected(f"{where}: the broker refuses the access token; {IN_ITS_LOG}")
            user = getattr(parameters.credentials, "username", "")
            return Disconnected(f"{where}: the broker refuses user {user!r} with this password")
        scope = "" if find_tokens(parameters) is None else f"; {NO_SCOPE}"
        return Disconnected(f"{where}: virtual host {parameters.virtual_host!r}: {describe_error(chain[-1])}{scope}")
    words = explain_client_error(text)
    is_named = isinstance(chain[-1], OSError) and (
        isinstance(chain[-1], ssl.SSLCertVerificationError) or not isinstance(chain[-1], ssl.SSLError)
    )
    if words is not None and not is_named:
        return Disconnected(f"{where}: {words}")  # texts of pika itself, or OpenSSL, are for their authors
    return Disconnected(f"{where}: {describe_error(chain[-1])}")


IN_ITS_LOG: Final = "its log has the reason: the key that signed it, its issuer, its audience (aud) or its time (exp)"
"""What a broker finds wrong with a token, which it does not tell the client."""

NO_SCOPE: Final = "the access token needs scopes for it, such as RESOURCE_SERVER.read:VHOST/QUEUE"
"""Way out where a token is accepted, but not for a virtual host."""

TUPLE: Final = re.compile(r": '[^']*'/\(<AddressFamily.*\)$")
"""An address as pika shows it."""

CLOSED: Final = re.compile(r"ConnectionClosedByBroker: \(([0-9]+)\)(?: (['\"])(.*?)\2)?")
"""The broker's own refusal within pika's exceptions, sometimes only as text."""


def explain_refusal(error: BrokerError, what: str) -> str:
    """Return the text for a broker's refusal to consume, with the way out."""
    if LOCKED in str(error):
        return f"{what}: only the connection that declared it may read it (exclusive), and it goes with that connection"
    if any(each in str(error) for each in PASSING):
        return f"{what}: another consumer has it for itself alone"
    if error.code == NOT_FOUND:
        return f"{what}: there is none; declare it"
    if error.code == NO_ACCESS:
        return f"{what}: this user may not read it; give it the right to read"
    return f"{what}: {error}"


def ask_for_grant(refusal: Disconnected) -> str:
    """Return the text of a refusal to publish with the way out, which is no right for an internal exchange."""
    return f"{refusal}" if INTERNAL in str(refusal) else f"{refusal}; grant it"


def refuses_argument(error: BrokerError, name: str) -> bool:
    """Return whether a queue refuses an argument of a consumer because queues of its type do not know it."""
    return error.code == PreconditionFailed.code and f"invalid arg '{name}'" in error.text


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
        name, _, text = error.reply_text.partition(" - ")
        refusal = BrokerError(text)
        refusal.code, refusal.name = error.reply_code, name  # of this refusal, not of the class
        return refusal
    return to_disconnected(error)


def describe_error(error: BaseException) -> str:
    """Return the text of an exception of pika; never empty."""
    text = str(getattr(error, "reply_text", None) or error) or type(error).__name__
    closed = CLOSED.search(text)
    if closed is not None and closed[3]:  # of an exception that pika knows by its text only
        return f"{closed[1]} {closed[3]}"
    return TUPLE.sub("", text)
