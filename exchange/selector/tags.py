"""A subscription by tags, ``a || b``: what the broker sends of it by hash, and what the client keeps of that.

A broker knows tags by their ``String.hashCode`` alone: tags that collide (``Aa`` and ``BB``) come to the client, which
compares the texts and drops what it did not ask for. A message has one tag or none, whatever bars are in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, cast

from exchange.partition.hashing.java import string_hash
from exchange.selector.numbers import BLANK
from exchange.selector.reading import SelectorError

if TYPE_CHECKING:
    from lark import Lark, Token

__all__ = ["ALL", "TAGS", "Tags", "tag_code"]

ALL: Final = "*"
"""The subscription to every message (`SubscriptionData.SUB_ALL`); nothing else is one but the empty text."""

TAGS: Final = "TAGS"
"""The property that a message's tag is (`MessageConst.PROPERTY_TAGS`)."""

TAG_ALONE: Final = frozenset({TAGS})


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags that a consumer asks for; ``Tags.parse("*")`` has none and is every message.

    >>> Tags.parse("paid || shipped")({"TAGS": "paid"})
    True
    """

    text: str
    tags: frozenset[str]
    """The tags; none: see ``everything``."""
    everything: bool = False

    @classmethod
    def parse(cls, text: str, *, exact: bool = False) -> Tags:
        """Read as ``FilterAPI.buildSubscriptionData`` does. Raises SelectorError, with a caret.

        Refused are ``||`` alone, as there, and what the broker takes and nobody means: blanks and bars only, which no
        message matches, and ``*`` among tags, which is a tag of that name there. ``exact`` takes these as the broker.
        """
        if text in ("", ALL):
            return cls(ALL, frozenset(), everything=True)
        tokens = cast("list[Token]", _grammar().parse(text).children)
        tags = {str(token).strip(BLANK): token for token in tokens}
        tags.pop("", None)
        whole = (0, len(text))
        if not tokens or not (tags or exact):
            raise SelectorError("there is no tag in it; * is every message", text, whole)
        if ALL in tags and not exact:
            at = tags[ALL].start_pos or 0
            at += str(tags[ALL]).index(ALL)
            raise SelectorError("* is every message only where it stands alone; here it is a tag", text, (at, at + 1))
        return cls(text, frozenset(tags))

    @property
    def names(self) -> frozenset[str]:
        """The one property it asks for."""
        return TAG_ALONE

    @property
    def codes(self) -> frozenset[int]:
        """The hashes that the broker compares (`SubscriptionData.codeSet`)."""
        return frozenset(map(string_hash, self.tags))

    def sends(self, tag: str | None) -> bool:
        """Whether the broker sends a message of this tag, as it does all whose tags have the same hash."""
        return self.everything or tag_code(tag) in self.codes

    def keeps(self, tag: str | None) -> bool:
        """Whether the client keeps it (`PullAPIWrapper.processPullResult`)."""
        return self.everything or tag in self.tags

    def collisions(self, tags: Iterable[str | None]) -> list[str | None]:
        """Those that the broker would send and the client drop."""
        return [tag for tag in tags if self.sends(tag) and not self.keeps(tag)]

    def __call__(self, properties: Mapping[str, str]) -> bool:
        """Whether a consumer gets a message with these properties."""
        return self.everything or properties.get(TAGS) in self.tags

    def __str__(self) -> str:
        return self.text


def tag_code(tag: str | None) -> int:
    """What a consume queue has of a tag (`MessageExtBrokerInner.tagsString2tagsCode`); 0 without one."""
    return string_hash(tag) if tag else 0


@cache
def _grammar() -> Lark:
    from importlib.resources import files  # not by path: the package may be in a zip, as Spark ships it

    from lark import Lark  # only those who have tags need it

    grammar = files("exchange.selector").joinpath("tags.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", maybe_placeholders=False, regex=False)
