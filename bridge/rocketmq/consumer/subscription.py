"""What a consumer subscribes to: a topic, and tags or a condition in SQL92 that messages must meet.

The broker compares hashes of tags, so that messages come which were not asked for: the client compares the tags
themselves once more. Conditions in SQL92 are the broker's alone. What no broker can read is told here, before it is
sent: to a pull that brings such a condition with it, a broker answers with all messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from exchange.errors import InputError
from exchange.selector import RELEASES, Selector, SelectorError, Tags, tag_code
from exchange.selector.tags import ALL

__all__ = ["SUB_ALL", "ExpressionType", "Subscription"]

SUB_ALL: Final = ALL
"""All messages."""

ExpressionType = Literal["TAG", "SQL92"]


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
        try:
            tags = Tags.parse(expression or SUB_ALL, exact=True)
        except SelectorError as error:
            raise InputError(str(error)) from None
        return cls(topic, tags.text, tags=tags.tags, version=version)

    @classmethod
    def to_sql(cls, topic: str, condition: str, version: int = 0) -> Subscription:
        """Messages whose properties meet a condition, which the broker judges, and may refuse as its release is older.

        Raises InputError for one that brokers of every release refuse. What they ignore of it is not looked at.
        """
        if not condition:
            raise InputError("a condition in SQL92 cannot be empty; write TRUE for all messages")
        refusals = [error for release in RELEASES if (error := _refusal(condition, release)) is not None]
        if len(refusals) == len(RELEASES):
            raise InputError(str(refusals[-1]))
        return cls(topic, condition, "SQL92", version=version)

    def at(self, version: int) -> Subscription:
        """The same, of another version."""
        return replace(self, version=version)

    @property
    def codes(self) -> frozenset[int]:
        """``codeSet``: the hashes of the tags, which the broker compares."""
        return frozenset(map(tag_code, self.tags))

    @property
    def names_tags(self) -> bool:
        """Whether messages are meant by their tags, so that what the broker sent is to be looked at once more."""
        return self.type == "TAG" and self.expression != SUB_ALL

    def accepts(self, tag: str | None) -> bool:
        """Whether a message that the broker sent is meant: hashes collide (`PullAPIWrapper.processPullResult`)."""
        return not self.names_tags or tag in self.tags

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


def _refusal(condition: str, release: str) -> SelectorError | None:
    """Why brokers of a release cannot parse a condition."""
    try:
        Selector.parse(condition, release, exact=True)
    except SelectorError as error:
        return error
    return None
