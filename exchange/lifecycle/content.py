"""A message as queues hold it, and its deaths: the headers ``x-death``, ``x-first-death-*``, ``x-last-death-*``.

Written after `rabbit_dead_letter.erl` of 3.10 and of 4.3 and `mc.erl`; live brokers are the oracle of the tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from functools import lru_cache
from typing import Any, Final

from exchange.entities.profile import Profile, QueueBehaviour
from exchange.entities.queue_arguments import read_expiration
from exchange.errors import InputError
from exchange.kinds import compute_delivered_headers
from exchange.values.field_values import Typed, resolve_type
from exchange.values.message import Message, assemble_message

MAX_OCTET: Final = 255
Death = Mapping[str, Any]
"""An entry of x-death: count, reason, queue, time, exchange, routing-keys, and original-expiration if there was one."""

DEATH_PARTS: Final = ("reason", "queue", "exchange")
"""What ``x-first-death-*`` and ``x-last-death-*`` name."""


class Content:
    """What the copies of a message in all queues share, from a publish or a death to the next death.

    ``message`` is the message as it was published, without BCC. ``exchange`` and ``keys`` are where it was published
    to, or dead-lettered to: the routing key, then the keys of CC and BCC. ``hidden_keys`` are those of BCC, which
    consumers do not see. ``ttl`` is the time to live in milliseconds that the message brings along, None for none.
    ``deaths_are_headers`` is whether exchanges see the deaths, as a header x-death. ``failures`` is the number of
    failed deliveries that releases since 4.0 remember beyond a death, None for none.
    Nothing of this changes once a queue has it.
    """

    __slots__ = (
        "_headers", "deaths", "deaths_are_headers", "died", "exchange", "failures", "first", "has_cc", "hidden_keys",
        "keys", "last", "message", "ttl",
    )  # fmt: skip

    def __init__(self, message: Message, exchange: str, keys: tuple[str, ...], ttl: int | None) -> None:
        self.message = message
        self.exchange = exchange
        self.keys = keys
        self.ttl = ttl
        self.hidden_keys: tuple[str, ...] = ()
        self.has_cc = True
        self.died = False
        self.deaths: tuple[Death, ...] = ()
        self.deaths_are_headers = False
        self.first: tuple[str, str, str] | None = None
        self.last: tuple[str, str, str] | None = None
        self.failures: int | None = None
        self._headers: Mapping[str, Any] | None = None

    def after_delay(self, delay: int, profile: Profile) -> Content:
        """Return the content of the copies that an exchange sends after it has kept the message for a delay."""
        content = copy(self)
        published = self.message
        headers = compute_delivered_headers(
            published.headers, delay, profile, rewritten=self.died or bool(self.hidden_keys)
        )
        content.message = assemble_message(
            published.exchange, published.routing_key, headers, published.properties, published.body
        )
        content._headers = None
        return content

    @property
    def headers(self) -> Mapping[str, Any]:
        """The headers that a consumer gets, without those that a queue adds."""
        if not self.died:
            return self.message.headers
        if self._headers is None:
            headers = dict(self.message.headers)
            if not self.has_cc:
                headers.pop("CC", None)
            for name, death in (("first", self.first), ("last", self.last)):
                if death is not None:
                    headers |= {f"x-{name}-death-{part}": value for part, value in zip(DEATH_PARTS, death, strict=True)}
            headers["x-death"] = [dict(death) for death in self.deaths]
            self._headers = headers
        return self._headers

    def as_message(self, added: Mapping[str, Any] | None = None) -> Message:
        """Return the message as a consumer gets it, with the headers that its queue adds."""
        published = self.message
        if not self.died and not added:
            return published
        properties = published.properties
        if self.died and "expiration" in properties:
            properties = {name: value for name, value in properties.items() if name != "expiration"}
        headers = {**self.headers, **added} if added else dict(self.headers)
        return assemble_message(self.exchange, self.keys[0], headers, properties, published.body)


class DeadLetter(Message):
    """A dead letter as the router sees it: with all of its keys, and with headers that are composed when read."""

    __slots__ = ("content", "has_one_key")

    content: Content
    has_one_key: bool  # a property there, an attribute here

    def __init__(self, content: Content) -> None:
        _set_exchange(self, content.exchange)
        _set_routing_key(self, content.keys[0])
        _set_body(self, content.message.body)
        _set_content(self, content)
        _set_has_one_key(self, len(content.keys) == 1)

    @property
    def headers(self) -> Mapping[str, Any]:
        """The headers of the content; since 3.13 without x-death, but for one that was published."""
        headers = self.content.headers
        if self.content.deaths_are_headers:
            return headers
        published = self.content.message.headers
        kept = {name: value for name, value in headers.items() if name != "x-death"}
        return {**kept, "x-death": published["x-death"]} if "x-death" in published else kept

    @property
    def properties(self) -> Mapping[str, Any]:
        """The properties of the published message."""
        return self.content.message.properties

    def routing_keys(self) -> tuple[str, ...]:
        """Return the keys of the content."""
        return self.content.keys


_new_content: Final = object.__new__
_set_exchange, _set_routing_key, _set_body = (
    getattr(Message, name).__set__ for name in ("exchange", "routing_key", "body")
)
_set_content, _set_has_one_key = (getattr(DeadLetter, name).__set__ for name in ("content", "has_one_key"))


def publish_content(message: Message, release: QueueBehaviour) -> Content:
    """Return the content of a published message.

    Raises PreconditionFailed for an expiration that is no number, and InputError for a priority that cannot be sent.
    """
    properties, headers = message.properties, message.headers
    if properties and "priority" in properties:
        priority = properties["priority"]
        if not isinstance(priority, int) or not 0 <= priority <= MAX_OCTET:
            raise InputError(f"the property priority is a number from 0 to {MAX_OCTET}, not {priority!r}")
    ttl = read_expiration(properties) if properties else None
    if not headers:
        return Content(message, message.exchange, (message.routing_key,), ttl)
    keys = message.routing_keys()
    hidden = message.keys_in("BCC")
    if "BCC" in headers:
        kept = {name: value for name, value in headers.items() if name != "BCC"}
        message = assemble_message(message.exchange, message.routing_key, kept, properties, message.body)
    content = Content(message, message.exchange, keys, ttl)
    content.hidden_keys = tuple(hidden)
    if "x-death" in headers and release.published_deaths_count:
        content.deaths = tuple(_read_deaths(headers["x-death"], release))
    return content


def _read_deaths(given: Any, release: QueueBehaviour) -> list[Death]:
    """Return the entries of a header x-death that a publisher set, all of them where it is a header like others."""
    value = given.value if isinstance(given, Typed) else given
    tables = [each for each in value if isinstance(each, Mapping)] if isinstance(value, (list, tuple)) else []
    if release.deaths_are_headers:
        return tables
    needed = {"count", "reason", "queue", "time", "exchange", "routing-keys"}
    return [table for table in tables if needed <= table.keys()]


def record_death(
    content: Content, queue: str, reason: str, address: tuple[str, str | None], seconds: int, release: QueueBehaviour
) -> Content:
    """Return the content of the dead letter of a message.

    ``address`` is the dead letter exchange and the routing key that its queue sets, None to keep the message's keys;
    ``seconds`` is the time since the epoch.
    """
    exchange, key = address
    dead = _new_content(Content)  # what its constructor sets is set here, once
    dead.message = content.message
    dead.exchange = exchange
    dead.keys = content.keys if key is None else (key,)
    dead.ttl = dead.first = dead.failures = dead._headers = None
    dead.hidden_keys = content.hidden_keys
    dead.has_cc = not release.deaths_are_headers or (content.has_cc and key is None)
    dead.died = True
    dead.deaths_are_headers = release.deaths_are_headers
    last = (reason, queue, content.exchange)
    dead.last = last if release.names_last_death else None
    deaths = content.deaths
    if deaths:
        dead.first = content.first
        if release.deaths_are_headers:
            deaths = _regroup(deaths)
        for death in deaths:
            if death.get("queue") == queue and death.get("reason") == reason:
                others = tuple([each for each in deaths if each is not death])
                count = resolve_type(death.get("count", 0))[1]  # a publisher may have set anything
                dead.deaths = ({**death, "count": count + 1 if isinstance(count, int) else 1}, *others)
                return dead
    elif content.died or not (release.deaths_are_headers and "x-death" in content.message.headers):
        dead.first = last
    dead.deaths = (_death_of(content, queue, reason, seconds, release), *deaths)
    return dead


def _death_of(content: Content, queue: str, reason: str, seconds: int, release: QueueBehaviour) -> Death:
    """Return the entry of the first death of a message in a queue for a reason."""
    keys: Iterable[str] = content.keys
    if len(content.keys) > 1 or content.hidden_keys or release.sorts_deaths:
        keys = _visible_keys(content, release)
    death = {
        "count": 1,
        "reason": reason,
        "queue": queue,
        "time": _timestamp(seconds),
        "exchange": content.exchange,
        "routing-keys": list(keys),
    }
    if content.ttl is not None:
        published = content.message.properties["expiration"]
        death["original-expiration"] = published if release.deaths_are_headers else str(content.ttl)
    return death


@lru_cache(64)
def _timestamp(seconds: int) -> Typed:
    return Typed("timestamp", seconds)


def _visible_keys(content: Content, release: QueueBehaviour) -> list[str]:
    """Return the keys without those of BCC."""
    if release.deaths_are_headers or release.sorts_deaths:
        return [content.keys[0], *(content.message.keys_in("CC") if content.has_cc else ())]
    keys = list(content.keys)
    for hidden in content.hidden_keys:  # each takes one key away, as Erlang's `--`
        if hidden in keys:
            keys.remove(hidden)
    return keys


def _regroup(deaths: tuple[Death, ...]) -> tuple[Death, ...]:
    """Return the entries as releases up to 3.12 group them before they add one: reversed, without duplicates."""
    if len(deaths) == 1:
        return deaths
    keys = [identify_death(death) for death in deaths]
    grouped: dict[tuple[str, str], Death] = {}
    for key, death in zip(keys, deaths, strict=True):
        if key not in grouped:
            grouped[key] = death if "count" in death else {"count": keys.count(key), **death}
    return tuple(reversed(grouped.values()))


def identify_death(death: Death) -> tuple[str, str]:
    """Return queue and reason of an entry of x-death, which identify it, of whatever types a publisher gave them."""
    queue, reason = death.get("queue"), death.get("reason")
    return queue if isinstance(queue, str) else repr(queue), reason if isinstance(reason, str) else repr(reason)


def is_cycle(deaths: tuple[Death, ...], queue: str, release: QueueBehaviour) -> bool:
    """Return whether a dead letter has been in this queue before without having been rejected since.

    The broker drops it for this queue then. ``deaths`` include the latest one, whose reason is not ``rejected``: a
    rejected message is never dropped for a cycle. A release that sorts deaths takes the order of the names of queues
    for that of time.
    """
    for death in sorted(deaths, key=identify_death) if release.sorts_deaths else deaths:
        if death.get("reason") == "rejected":
            return False
        if death.get("queue") == queue:
            return True
    return False
