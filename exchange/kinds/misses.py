"""How far a message is from a binding it did not match, and which part of the binding kept it out.

A distance is 0 for a binding that matches, else the part of its key or arguments that would have to be different, so
that the nearest binding is the one its owner most likely meant. Distances of different exchange types compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from exchange.message import Message
from exchange.patterns.pattern import MANY, ONE, Word

__all__ = ["MATCH", "OTHER_ROUTE", "Miss", "align", "compare_texts", "describe_difference", "glance"]

KEPT: Final = 0.25
"""How much nearer each right literal word brings a pattern: the more words are right, the likelier it is meant."""

SLIP: Final = 0.3
"""Distance between texts that differ in upper and lower case or in the white space around them."""

OTHER_ROUTE: Final = 1.0
"""Distance of an alternate exchange that was not taken, and of a binding that chance or a hash passed over."""


class Miss(NamedTuple):
    """How far a message is from a binding, and why it missed it."""

    distance: float
    reason: str
    """Empty where the binding matches."""


MATCH: Final = Miss(0.0, "")


def align(pattern: Sequence[Word], words: Sequence[str]) -> Miss:
    """Return the cheapest way to read the words as the pattern, leaving out, adding and changing some."""
    # costs[i][j]: for pattern[i:] and words[j:], with what to do first.
    rows, columns = len(pattern) + 1, len(words) + 1
    costs: list[list[Miss]] = [[MATCH] * columns for _ in range(rows)]
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            ways: list[Miss] = []
            part = pattern[i] if i < len(pattern) else None
            if part is None and j == len(words):
                continue
            if part is MANY:
                ways.append(costs[i + 1][j])
                if j < len(words):
                    ways.append(costs[i][j + 1])
            elif part is not None:
                wanted = "any word" if part is ONE else f"'{part}'"
                if j < len(words):
                    ways.append(_after(_step(part, words[j], j), costs[i + 1][j + 1]))
                ways.append(_after(Miss(1.01, f"{_lacking(words, j)}: it wants {wanted}"), costs[i + 1][j]))
            if j < len(words) and part is not MANY:
                ways.append(_after(Miss(1.02, f"word {j + 1} '{words[j]}' is one too many"), costs[i][j + 1]))
            costs[i][j] = min(ways, key=lambda way: way.distance)
    return costs[0][0]


def _lacking(words: Sequence[str], place: int) -> str:
    if not words:
        return "the key is empty"
    if place < len(words):
        return f"the key lacks a word before word {place + 1} '{words[place]}'"
    return f"the key lacks a word after its {len(words)} word{'s' if len(words) > 1 else ''}"


def _step(part: Word, word: str, place: int) -> Miss:
    if part is ONE:
        return MATCH
    if part == word:
        return Miss(-KEPT, "")
    return Miss(compare_texts(word, str(part)), f"word {place + 1} {describe_difference(word, str(part))}")


def _after(step: Miss, rest: Miss) -> Miss:
    return Miss(step.distance + rest.distance, step.reason or rest.reason)


def glance(wanted: str, message: Message) -> float:
    """Return a rough distance of a binding key from the message's, cheap enough for a million bindings."""
    words = message.routing_key.split(".")
    parts = wanted.split(".")
    same = sum(part in (word, "*", "#") for part, word in zip(parts, words, strict=False))
    return abs(len(parts) - len(words)) + min(len(parts), len(words)) - same


def compare_texts(is_: str, wanted: str) -> float:
    """Return a distance from 0 for equal texts to 1 for texts with nothing in common, `SLIP` for a slip of a key."""
    if is_ == wanted:
        return 0.0
    if is_.strip().lower() == wanted.strip().lower():
        return SLIP
    from difflib import SequenceMatcher  # only needed to explain

    return 0.5 + 0.5 * (1 - SequenceMatcher(None, is_, wanted, autojunk=False).ratio())


def describe_difference(is_: str, wanted: str) -> str:
    """Return in words how a text differs from the wanted one; nothing when it does not."""
    if is_ == wanted:
        return ""
    hint = ""
    if is_.lower() == wanted.lower():
        hint = " (upper and lower case differ)"
    elif is_.strip() == wanted.strip():
        hint = " (white space differs)"
    elif ("*" in wanted or "#" in wanted) and wanted not in ("*", "#"):
        hint = " (a wildcard counts only as a whole word)"
    return f"is '{is_}', it wants '{wanted}'{hint}"
