"""A subscription by tags, ``a || b``: which messages the broker sends, by hash, and which of them the client keeps.

The broker compares only the ``String.hashCode`` of tags. So it also sends messages of other tags with the same hash
(``Aa`` and ``BB`` collide); the client compares the texts and drops these messages. A message has at most one tag,
which may contain ``||``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, cast

from exchange.partition.hashing.java import string_hash
from exchange.selector.reading import SelectorError
from exchange.values.java_numbers import BLANK

if TYPE_CHECKING:
    from lark import Lark, Token

ALL_TAGS: Final = "*"
"""The subscription to every message (`SubscriptionData.SUB_ALL`); the empty text means the same."""

TAGS: Final = "TAGS"
"""Name of the property with a message's tag (`MessageConst.PROPERTY_TAGS`)."""

NAMES: Final = frozenset({TAGS})


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags that a consumer subscribes to; ``Tags.parse("*")`` has none and matches every message.

    >>> Tags.parse("paid || shipped")({"TAGS": "paid"})
    True
    """

    text: str
    tags: frozenset[str]
    """The tags; empty if ``everything``."""
    everything: bool = False

    @classmethod
    def parse(cls, text: str, *, exact: bool = False) -> Tags:
        """Parse as ``FilterAPI.buildSubscriptionData`` does. Raises SelectorError, with a caret.

        Refuses ``||`` alone, as RocketMQ does. Also refuses two texts that RocketMQ accepts with an unexpected meaning:
        blanks and bars only, which no message matches, and ``*`` among tags, which is a tag of that name. With
        ``exact``, these two are accepted.
        """
        if text in ("", ALL_TAGS):
            return cls(ALL_TAGS, frozenset(), everything=True)
        tokens = cast("list[Token]", _grammar().parse(text).children)
        tags = {str(token).strip(BLANK): token for token in tokens}
        tags.pop("", None)
        whole = (0, len(text))
        if not tokens or not (tags or exact):
            raise SelectorError("there is no tag in it; * is every message", text, whole)
        if ALL_TAGS in tags and not exact:
            at = tags[ALL_TAGS].start_pos or 0
            at += str(tags[ALL_TAGS]).index(ALL_TAGS)
            raise SelectorError("* is every message only where it stands alone; here it is a tag", text, (at, at + 1))
        return cls(text, frozenset(tags))

    @property
    def names(self) -> frozenset[str]:
        """Names of the properties that are read: ``TAGS`` only."""
        return NAMES

    @property
    def codes(self) -> frozenset[int]:
        """Hashes that the broker compares (`SubscriptionData.codeSet`)."""
        return frozenset(map(string_hash, self.tags))

    def sends(self, tag: str | None) -> bool:
        """Return whether the broker sends a message of this tag: it compares hashes only."""
        return self.everything or tag_code(tag) in self.codes

    def keeps(self, tag: str | None) -> bool:
        """Return whether the client keeps a message of this tag (`PullAPIWrapper.processPullResult`)."""
        return self.everything or tag in self.tags

    def collisions(self, tags: Iterable[str | None]) -> list[str | None]:
        """Return the tags whose messages the broker would send and the client would drop."""
        return [tag for tag in tags if self.sends(tag) and not self.keeps(tag)]

    def __call__(self, properties: Mapping[str, str]) -> bool:
        """Return whether a consumer gets a message with these properties."""
        return self.everything or properties.get(TAGS) in self.tags

    def __str__(self) -> str:
        return self.text


def tag_code(tag: str | None) -> int:
    """Return the hash of a tag in a consume queue (`MessageExtBrokerInner.tagsString2tagsCode`); 0 for no tag."""
    return string_hash(tag) if tag else 0


@cache
def _grammar() -> Lark:
    from importlib.resources import files  # not by path: the package may be in a zip, as Spark ships it

    from lark import Lark  # only those who have tags need it

    grammar = files("exchange.selector").joinpath("tags.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", maybe_placeholders=False, regex=False)
