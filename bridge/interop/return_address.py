"""Return addresses: where the reply to a request must go, and the text in which they travel as a correlation id.

Every system lets a server find its caller by two or three values that it copies from the request to the reply:

===========  =======================================================  ================================================
RabbitMQ     property ``reply_to``, the routing key of the reply      property ``correlation_id``
Kafka        headers ``kafka_replyTopic``, ``kafka_replyPartition``   header ``kafka_correlationId``, any bytes
             (Spring Kafka's ``ReplyingKafkaTemplate``)
RocketMQ     properties ``REPLY_TO_CLIENT``, ``CLUSTER``              property ``CORRELATION_ID``
===========  =======================================================  ================================================

The only value that all servers give back, in any language or library, is the correlation id. So a request that is
passed on to another system asks for its reply at a queue or topic of the bridge, and its correlation id is a *token*,
which holds the return address in the system of the caller. The bridge remembers nothing: whichever process reads the
reply, also one that was started after a crash, finds the caller by the token alone.

A token is ASCII text: ``hs1``, a keyed digest of the rest, the id of the source that the request was read from, the
time limit, and the address. A text that was cut or changed, or that another bridge made, has a wrong digest, and is
no token. Tokens may hold tokens, of bridges that the request passed before; text in them is not encoded again, so that
each bridge adds about fifty characters.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from hashlib import blake2b
from hmac import compare_digest
from typing import Final, NamedTuple


class ReturnAddress(NamedTuple):
    """Where the reply to a request must go, in the system of its caller."""

    name: str
    """RabbitMQ: ``reply_to``; Kafka: the topic; RocketMQ: the id of the client."""
    correlation: bytes | None
    """The caller's correlation id; None: the request had none."""
    detail: str = ""
    """Kafka: the number of the partition, "" for any; RocketMQ: the cluster of the caller's broker, and the broker
    after a colon."""


class ReturnToken(NamedTuple):
    """The contents of a token."""

    caller: str
    """Name of the source that the request was read from."""
    address: ReturnAddress
    deadline: int
    """Time until which the caller waits, in milliseconds since 1970."""


PREFIX: Final = "hs1"
DIGEST_BYTES: Final = 6
ID_BYTES: Final = 3
TIME_BYTES: Final = 6
DIGEST_LENGTH, ID_LENGTH, TIME_LENGTH = (size * 4 // 3 for size in (DIGEST_BYTES, ID_BYTES, TIME_BYTES))
"""Lengths in base64; all three sizes are multiples of three bytes, so that there is no padding."""

DIRECT: Final = "amq.rabbitmq.reply-to."
"""Beginning of addresses of direct reply-to, which are long: one character stands for it."""

# The first character of a value, which shows its form.
NULL, TEXT, BASE64, SHORTENED = "-", ".", "=", "*"


class Sealer:
    """Makes and opens the tokens of the requests that are read from one source.

    ``identity`` is what distinguishes the source from those of all other bridges: its cluster, and its queue, topic or
    group there. It is no secret: who may publish where replies are read can make a token for any address.
    """

    def __init__(self, name: str, identity: str) -> None:
        self.name: Final = name
        raw = f"{len(name)}:{name}{identity}".encode("utf-8", "surrogateescape")
        self._key: Final = blake2b(raw, digest_size=32, key=_digest(b"")).digest()
        self.id: Final = _base64(blake2b(self._key, digest_size=ID_BYTES).digest())

    def seal(self, address: ReturnAddress, deadline: int) -> str:
        """Return the token of a return address; ``deadline`` is in milliseconds since 1970."""
        time = _base64(min(max(deadline, 0), (1 << 8 * TIME_BYTES) - 1).to_bytes(TIME_BYTES))
        name, detail = (_form(text.encode("utf-8", "surrogateescape")) for text in (address.name, address.detail))
        rest = f"{self.id}{time}{_sized(name)}{_sized(detail)}{_form(address.correlation)}"
        return f"{PREFIX}{self._digest(rest)}{rest}"

    def open(self, token: str) -> ReturnToken | None:
        """Return the contents of a token; None if it is no token of this source."""
        digest, rest = token[len(PREFIX) :][:DIGEST_LENGTH], token[len(PREFIX) + DIGEST_LENGTH :]
        if not token.startswith(PREFIX) or not compare_digest(digest, self._digest(rest)):
            return None
        time, fields = rest[ID_LENGTH:][:TIME_LENGTH], rest[ID_LENGTH + TIME_LENGTH :]
        name, fields = _next(fields)
        detail, correlation = _next(fields)
        texts = [(_value(form) or b"").decode("utf-8", "surrogateescape") for form in (name, detail)]
        address = ReturnAddress(texts[0], _value(correlation), texts[1])
        return ReturnToken(self.name, address, int.from_bytes(urlsafe_b64decode(time)))

    def _digest(self, rest: str) -> str:
        return _base64(blake2b(rest.encode(), digest_size=DIGEST_BYTES, key=self._key).digest())


def open_token(correlation: bytes | None, sealers: Mapping[str, Sealer]) -> ReturnToken | None:
    """Return the contents of a reply's correlation id; None if it is no token of these sources.

    ``sealers`` maps ids to sealers.
    """
    if correlation is None or not correlation.isascii():
        return None
    token = correlation.decode()
    at = len(PREFIX) + DIGEST_LENGTH
    sealer = sealers.get(token[at : at + ID_LENGTH])
    return None if sealer is None else sealer.open(token)


def _form(value: bytes | None) -> str:
    """Return a value as printable ASCII."""
    if value is None:
        return NULL
    if not value.isascii() or not (text := value.decode()).isprintable():
        return BASE64 + urlsafe_b64encode(value).decode().rstrip("=")
    return SHORTENED + text[len(DIRECT) :] if text.startswith(DIRECT) else TEXT + text


def _value(form: str) -> bytes | None:
    kind, text = form[0], form[1:]
    if kind == NULL:
        return None
    if kind == BASE64:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return (DIRECT + text if kind == SHORTENED else text).encode()


def _sized(form: str) -> str:
    return f"{len(form)}:{form}"


def _next(fields: str) -> tuple[str, str]:
    """Return the first of the fields, each of which begins with its length, and the rest."""
    size, _, rest = fields.partition(":")
    return rest[: int(size)], rest[int(size) :]


def _base64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode()


def _digest(raw: bytes) -> bytes:
    return blake2b(raw, digest_size=32).digest()
