"""Make of a dead letter the message that was published: what brokers, bridges and Spring added is taken away again.

All else stays as it is, to the bit. What cannot be restored raises InputError, which says what is missing.

=============  ========================================  ==============================================================
written by     exchange and routing key                  queue
=============  ========================================  ==============================================================
a bridge       `hashstar-exchange`, `-routing-key`       the one that it was read from, `hashstar-origin`
Spring AMQP    `x-original-exchange`, `-routingKey`      none
RabbitMQ       of the first death, with all its keys     of the first death: what died in a queue of retries goes back
                                                         to the one that it was first in
=============  ========================================  ==============================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from bridge.dead.conventions import ADDED, DEATHS, FIRST
from bridge.interop.marks import HOPS, REASON
from bridge.interop.replayed import COPIED, REPLAYED, find_published, keep_published
from bridge.pump.dead_letters import PACKED
from exchange.amqp import ContentHeader, MalformedHeader, build_lazy_message, get_content
from exchange.amqp.content import RAW_HEADER
from exchange.errors import InputError
from exchange.limits import SHORTSTR_BYTES
from exchange.values.field_json import decode_message_line
from exchange.values.field_values import resolve_type
from exchange.values.message import Message

To: TypeAlias = Literal["queue", "exchange", "topic"]
"""Where messages are published again: to the queue or topic where they died first, or to the exchange as before."""

REPLAY: Final = "x-hashstar-replay"
"""Header of a message that was published again: the digest of its dead letter."""
COUNTED: Final = frozenset({b"x-delivery-count", b"x-acquired-count"})
"""Headers that differ with each delivery."""
ORIGIN: Final = "queue "
"""How the origin of a message that a bridge has read from a queue begins."""


class _Origin(NamedTuple):
    """What a dead letter says of its message."""

    content: ContentHeader
    body: bytes
    exchange: str | None
    keys: tuple[str, ...]
    """The routing key, then those of CC."""
    queue: str | None


def restore(message: Message, to: To) -> Message:
    """Return the message that became this dead letter. Raises InputError."""
    try:
        origin = _find_origin(message)
        if origin.exchange == "" and REPLAYED in origin.content.raw:  # it died once more
            key = origin.keys[0].encode("utf-8", "surrogateescape")
            exchange, key, content = find_published(b"", key, origin.content)
            origin = origin._replace(content=content, exchange=_decode(exchange), keys=(_decode(key), *origin.keys[1:]))
        content = origin.content
        names = [origin.exchange or "", origin.queue or "", *origin.keys]
        if max([len(name.encode("utf-8", "surrogateescape")) for name in names]) > SHORTSTR_BYTES:
            raise InputError(f"its headers name an exchange, a queue or a key of more than {SHORTSTR_BYTES} bytes")
        for name in COUNTED:
            if name in content.raw:
                content = content.without_header(name.decode())
        if to == "exchange":
            if origin.exchange is None:
                raise InputError("no header names the exchange that it was published to")
            if len(origin.keys) > 1 and content.find("CC") is None:
                content = content.with_header("CC", [*origin.keys[1:]])
            return build_lazy_message(origin.exchange, origin.keys[0], content, origin.body)
        if origin.queue is None:
            raise InputError("no header names the queue where it died")
        if origin.exchange is not None:
            content = keep_published(content, origin.exchange, origin.keys[0], origin.queue)
        return build_lazy_message("", origin.queue, content, origin.body)
    except (MalformedHeader, ValueError) as error:
        raise InputError(f"its headers cannot be read: {error}") from None


def _find_origin(message: Message) -> _Origin:
    content = get_content(message)
    for mark, find in FINDERS.items():
        if content.find(mark) is not None:
            return find(message, content)
    raise InputError("no header says where it died")


def _of_bridge(message: Message, content: ContentHeader) -> _Origin:
    origin = _text(content, "hashstar-origin") or ""
    queue = origin.removeprefix(ORIGIN) if origin.startswith(ORIGIN) else None
    exchange, key = _text(content, "hashstar-exchange"), _text(content, "hashstar-routing-key") or ""
    body = message.body
    if content.find(PACKED) is not None:
        try:
            packed = decode_message_line(body, any_length=True)
        except InputError:
            raise InputError(f"its body is no message, as the header {PACKED} says") from None
        content, body = get_content(packed), packed.body
    if content.find(RAW_HEADER) is not None:
        raw = content.header(RAW_HEADER)
        if not isinstance(raw, bytes):
            raise InputError(f"the header {RAW_HEADER} has no bytes")
        return _Origin(ContentHeader(raw), body, exchange, (key,), queue)
    kept = {name: content.header(f"hashstar-{name}") for name in ("user_id", "expiration", "CC", "BCC")}
    content = _without(content, ("hashstar-", HOPS))
    for name, value in kept.items():
        if value is not None:
            is_header = name in COPIED
            content = content.with_header(name, value) if is_header else content.with_property(name, value)
    return _Origin(content, body, exchange, (key,), queue)


def _of_spring(message: Message, content: ContentHeader) -> _Origin:
    exchange, key = _text(content, "x-original-exchange"), _text(content, "x-original-routingKey") or ""
    return _Origin(_without(content, (*ADDED, "x-exception-", "x-original-")), message.body, exchange, (key,), None)


def _of_broker(message: Message, content: ContentHeader) -> _Origin:
    found = content.header(DEATHS)
    deaths = [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
    queue, reason = (_text(content, f"{FIRST}{name}") for name in ("queue", "reason"))
    first: Mapping[str, Any] | None = next(
        (each for each in deaths if (_read_text(each.get("queue")), _read_text(each.get("reason"))) == (queue, reason)),
        deaths[-1] if deaths and not queue else None,
    )
    if first is None:
        raise InputError("x-death has no entry of the first death")
    keys, exchange = first.get("routing-keys"), _read_text(first.get("exchange"))
    if exchange is None or not isinstance(keys, list) or not keys:
        raise InputError("x-death does not say how it was published")
    texts = tuple([text for text in map(_read_text, keys) if text is not None])
    if len(texts) < len(keys):
        raise InputError("x-death has a routing key that is no text")
    queue = queue or _read_text(first.get("queue"))
    return _Origin(_without(content, ADDED), message.body, exchange, texts, queue or None)


FINDERS: Final[Mapping[str, Callable[[Message, ContentHeader], _Origin]]] = {
    REASON: _of_bridge,
    "x-original-exchange": _of_spring,
    DEATHS: _of_broker,
}
"""Header -> what reads a dead letter that has it; the first one counts, as in `bridge.dead.conventions`."""


def _text(content: ContentHeader, name: str) -> str | None:
    """Return a header that is text, None if there is none. Raises InputError for another type."""
    value = content.header(name)
    text = _read_text(value)
    if text is None and value is not None:
        raise InputError(f"the header {name} is no text")
    return text


def _read_text(value: object) -> str | None:
    kind, raw = resolve_type(value)
    return _decode(raw) if kind == "longstr" else None


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _without(content: ContentHeader, prefixes: tuple[str, ...]) -> ContentHeader:
    """Return a content header without the headers whose names begin so."""
    beginnings = tuple([each.encode() for each in prefixes])
    fields = [(name, value) for name, value in content.fields() if not name.startswith(beginnings)]
    return content.with_table(b"".join([bytes((len(name),)) + name + value for name, value in fields]))


def digest(message: Message) -> str:
    """Return a digest of a dead letter, equal each time that it is delivered, in 32 hexadecimal digits.

    Its death is a part of it, and so is the header that `stamp` sets: a message that dies once more has another one.
    """
    content = get_content(message)
    pieces = [text.encode("utf-8", "surrogateescape") for text in (message.exchange, message.routing_key)]
    pieces += [piece for name, raw in content.parts() for piece in (name.encode(), raw)]
    pieces += [piece for field in sorted(content.fields()) if field[0] not in COUNTED for piece in field]
    pieces.append(message.body)
    return sha256(b"".join([len(piece).to_bytes(8) + piece for piece in pieces])).hexdigest()[:32]


def stamp(message: Message, identifier: str) -> Message:
    """Return a message with the digest of its dead letter."""
    content = get_content(message).with_header(REPLAY, identifier)
    return build_lazy_message(message.exchange, message.routing_key, content, message.body)
