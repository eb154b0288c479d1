"""What a consumer subscribes to: a topic, and tags or a condition in SQL92 that messages must meet.

The broker compares hashes of tags, which can collide, so the client compares the tags themselves once more. Conditions
in SQL92 are evaluated by the broker alone. A condition that no broker can parse is refused here: a broker answers a
pull that brings such a condition with all messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from exchange.errors import InputError
from exchange.selector import RELEASES, Selector, SelectorError, Tags, tag_code
from exchange.selector.tags import ALL_TAGS

SUB_ALL: Final = ALL_TAGS
"""The expression for all messages."""

ExpressionType = Literal["TAG", "SQL92"]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription as brokers get it (`...protocol.heartbeat.SubscriptionData`)."""

    topic: str
    expression: str = SUB_ALL
    """``TagA || TagB``, or a condition."""
    type: ExpressionType = "TAG"
    tags: frozenset[str] = frozenset()
    """The tags of which a message must have one; empty: of any tag."""
    version: int = 0
    """``subVersion``: milliseconds since 1970. A broker that only knows an older version refuses a pull."""

    @classmethod
    def to_tags(cls, topic: str, expression: str | None = SUB_ALL, version: int = 0) -> Subscription:
        """Subscribe to all of a topic, or to messages with one of several tags (`FilterAPI.buildSubscriptionData`).

        Raises InputError for bars with nothing between them.
        """
        try:
            tags = Tags.parse(expression or SUB_ALL, exact=True)
        except SelectorError as error:
            raise InputError(str(error)) from None
        return cls(topic, tags.text, tags=tags.tags, version=version)

    @classmethod
    def to_sql(cls, topic: str, condition: str, version: int = 0) -> Subscription:
        """Subscribe to messages whose properties meet a condition, which the broker evaluates, or refuses if its
        release is too old for it.

        Raises InputError for a condition that brokers of every release refuse. What they ignore is not checked.
        """
        if not condition:
            raise InputError("a condition in SQL92 cannot be empty; write TRUE for all messages")
        refusals = [error for release in RELEASES if (error := _refusal(condition, release)) is not None]
        if len(refusals) == len(RELEASES):
            raise InputError(str(refusals[-1]))
        return cls(topic, condition, "SQL92", version=version)

    def at(self, version: int) -> Subscription:
        """Return the subscription with another version."""
        return replace(self, version=version)

    @property
    def codes(self) -> frozenset[int]:
        """``codeSet``: hashes of the tags, which the broker compares."""
        return frozenset(map(tag_code, self.tags))

    @property
    def names_tags(self) -> bool:
        """Whether it selects messages by tags, which must be compared here once more."""
        return self.type == "TAG" and self.expression != SUB_ALL

    def accepts(self, tag: str | None) -> bool:
        """Return whether a message that the broker sent has a wanted tag: hashes collide
        (`PullAPIWrapper.processPullResult`).
        """
        return not self.names_tags or tag in self.tags

    def to_json(self) -> Mapping[str, Any]:
        """Return the JSON of heartbeats."""
        return {
            "classFilterMode": False,
            "codeSet": sorted(self.codes),
            "expressionType": self.type,
            "subString": self.expression,
            "subVersion": self.version,
            "tagsSet": sorted(self.tags),
            "topic": self.topic,
        }


def _refusal(condition: str, release: str) -> SelectorError | None:
    """Return why brokers of a release cannot parse a condition; None: they can."""
    try:
        Selector.parse(condition, release, exact=True)
    except SelectorError as error:
        return error
    return None
