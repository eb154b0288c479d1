"""topic: a message takes the bindings whose key is a pattern that matches its routing key."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import Final

from exchange.entities.entities import Binding, Exchange
from exchange.entities.indexes import Tables
from exchange.entities.profile import Profile
from exchange.errors import PreconditionFailed
from exchange.kinds.kind import Choose, Decider, KeyUse, Kind
from exchange.kinds.misses import Miss, align
from exchange.limits import SHORTSTR_BYTES
from exchange.patterns.matcher import Matcher
from exchange.patterns.pattern import Pattern
from exchange.text.display import clip_line
from exchange.values.field_values import to_bytes
from exchange.values.message import Message

MIN_DISTANCE: Final = 0.1
"""Minimum distance of a pattern that does not match: right words reduce the distance, but not below this."""


class TopicExchange(Kind):
    """`rabbit_exchange_type_topic.erl` and `rabbit_db_topic_exchange.erl`."""

    routes_as = "topic"
    decider = Decider.KEY
    key_use = KeyUse.PATTERN

    def __init__(self, exchange: Exchange, profile: Profile, choose: Choose) -> None:
        super().__init__(exchange, profile, choose)
        self._matcher: Matcher[Binding] = Matcher(distinct=True)  # distinct: each binding is under one pattern only
        self.match_once = self._matcher.match_once

    def bind(self, binding: Binding) -> None:
        self._matcher.bind(Pattern.of_binding_key(binding.routing_key), binding)

    def unbind(self, binding: Binding) -> None:
        self._matcher.unbind(Pattern.of_binding_key(binding.routing_key), binding)

    def match(self, message: Message, keys: Sequence[str]) -> Collection[Binding]:
        if len(keys) == 1:
            return self._matcher.match(keys[0])
        return dict.fromkeys(chain.from_iterable(map(self._matcher.match, keys)))

    @classmethod
    def fault(cls, binding: Binding) -> str | None:
        key = binding.routing_key
        # A character has at most four bytes, so most keys need not be encoded.
        size = len(to_bytes(key)) if len(key) * 4 > SHORTSTR_BYTES else 0
        if size <= SHORTSTR_BYTES:
            return None
        what = f"binding of exchange {binding.source!r} to {binding.destination}"
        return f"{what}: its key has {size} bytes, AMQP allows {SHORTSTR_BYTES}: '{clip_line(key, 60)}'"

    @classmethod
    def literal_key(cls, binding: Binding) -> str | None:
        key = binding.routing_key
        may_be_wild = "*" in key or "#" in key  # most keys have neither and need not be parsed
        return None if may_be_wild and not Pattern.of_binding_key(key).literal else key

    @classmethod
    def pattern(cls, binding: Binding) -> Pattern:
        return Pattern.of_binding_key(binding.routing_key)

    @classmethod
    def miss(cls, binding: Binding, message: Message, profile: Profile) -> Miss:
        pattern = Pattern.of_binding_key(binding.routing_key)
        misses = [align(pattern.words, pattern.dialect.split(key)) for key in message.routing_keys()]
        return min([Miss(max(miss.distance, MIN_DISTANCE) if miss.reason else 0.0, miss.reason) for miss in misses])

    @classmethod
    def check_binding(cls, exchange: Exchange, binding: Binding, tables: Tables, profile: Profile) -> None:
        many = binding.routing_key.split(".").count("#")
        if profile.max_many is not None and many > profile.max_many:
            raise PreconditionFailed(
                f"Topic binding key '{binding.routing_key}' uses {many} '#' wildcards, "
                f"at most {profile.max_many} are allowed"
            )
