"""topic: the bindings whose key is a pattern that matches the message's routing key."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

from exchange.errors import PreconditionFailed
from exchange.kinds.kind import Choose, Kind
from exchange.matcher import Matcher
from exchange.message import Message
from exchange.parts import Binding, Exchange
from exchange.pattern import Pattern
from exchange.profile import Profile
from exchange.tables import Tables

__all__ = ["Topic"]


class Topic(Kind):
    """`rabbit_exchange_type_topic.erl` and `rabbit_db_topic_exchange.erl`."""

    def __init__(self, exchange: Exchange, profile: Profile, choose: Choose) -> None:
        super().__init__(exchange, profile, choose)
        self._matcher: Matcher[Binding] = Matcher(distinct=True)  # a binding has one key

    def bind(self, binding: Binding) -> None:
        self._matcher.bind(Pattern.of_binding_key(binding.routing_key), binding)

    def unbind(self, binding: Binding) -> None:
        self._matcher.unbind(Pattern.of_binding_key(binding.routing_key), binding)

    def matched(self, message: Message, keys: Sequence[str]) -> Collection[Binding]:
        if len(keys) == 1:
            return self._matcher.match(keys[0])
        return dict.fromkeys(chain.from_iterable(map(self._matcher.match, keys)))

    def keys_affected(self, binding: Binding) -> Collection[str] | None:
        key = binding.routing_key
        may_be_wild = "*" in key or "#" in key  # most keys have neither and need not be taken apart
        return None if may_be_wild and not Pattern.of_binding_key(key).literal else (key,)

    @classmethod
    def check_binding(cls, exchange: Exchange, binding: Binding, tables: Tables, profile: Profile) -> None:
        many = binding.routing_key.split(".").count("#")
        if profile.max_many is not None and many > profile.max_many:
            raise PreconditionFailed(
                f"Topic binding key '{binding.routing_key}' uses {many} '#' wildcards, "
                f"at most {profile.max_many} are allowed"
            )
