"""What a consumer subscribes to: a topic, and tags or a condition in SQL92 that messages must meet.

The broker compares hashes of tags, so that messages come which were not asked for: the client compares the tags
themselves once more. Conditions in SQL92 are the broker's alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from exchange.errors import InputError
from exchange.partition.java import string_hash

__all__ = ["SUB_ALL", "ExpressionType", "Subscription"]

SUB_ALL: Final = "*"
"""All messages."""

ExpressionType = Literal["TAG", "SQL92"]

BLANK: Final = "".join(map(chr, range(0x21)))
"""What ``String.trim`` takes away."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription as brokers are told of it (`...protocol.heartbeat.SubscriptionData`)."""

    topic: str
    expression: str = SUB_ALL
    """``TagA || TagB``, or a condition."""
    type: ExpressionType = "TAG"
    tags: frozenset[str] = frozenset()
    """What a message's tag must be one of, if there are any."""
    version: int = 0
    """``subVersion``: milliseconds since 1970. A broker that knows an older one refuses to be pulled from."""

    @classmethod
    def to_tags(cls, topic: str, expression: str | None = SUB_ALL, version: int = 0) -> Subscription:
        """All of a topic, or messages with one of some tags (`FilterAPI.buildSubscriptionData`).

        Raises InputError for bars with nothing between them.
        """
        if not expression or expression == SUB_ALL:
            return cls(topic, version=version)
        parts = expression.split("||")
        while parts and not parts[-1]:  # Java's split leaves empty texts at the end out
            parts.pop()
        if not parts:
            raise InputError(f"{expression!r} names no tag; write * for all messages, or TagA || TagB")
        tags = frozenset(tag for part in parts if (tag := part.strip(BLANK)))
        return cls(topic, expression, tags=tags, version=version)

    @classmethod
    def to_sql(cls, topic: str, condition: str, version: int = 0) -> Subscription:
        """Messages whose properties meet a condition, which the broker judges and may refuse. Raises InputError."""
        if not condition:
            raise InputError("a condition in SQL92 cannot be empty; write TRUE for all messages")
        return cls(topic, condition, "SQL92", version=version)

    def at(self, version: int) -> Subscription:
        """The same, of another version."""
        return replace(self, version=version)

    @property
    def codes(self) -> frozenset[int]:
        """``codeSet``: the hashes of the tags, which the broker compares."""
        return frozenset(map(string_hash, self.tags))

    def accepts(self, tag: str | None) -> bool:
        """Whether a message that the broker sent is meant: hashes collide (`PullAPIWrapper.processPullResult`)."""
        return not self.tags or tag in self.tags

    def to_json(self) -> Mapping[str, Any]:
        """As in heartbeats."""
        return {
            "classFilterMode": False,
            "codeSet": sorted(self.codes),
            "expressionType": self.type,
            "subString": self.expression,
            "subVersion": self.version,
            "tagsSet": sorted(self.tags),
            "topic": self.topic,
        }
