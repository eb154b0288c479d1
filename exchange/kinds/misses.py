"""Measure how far a message is from a binding that it does not match, and find the part of the binding that differs.

The distance is 0 for a binding that matches, and grows with the part of its key or arguments that would have to be
changed: the nearest binding is the one that its owner most likely meant. Distances of different exchange types can be
compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from exchange.patterns.pattern import MANY, ONE, Word
from exchange.text.display import count_noun
from exchange.values.message import Message

LITERAL_BONUS: Final = 0.25
"""Reduction of the distance for each literal word that is right: the more of them, the likelier it is meant."""

SLIP: Final = 0.3
"""Distance between texts that differ only in upper and lower case, or in the white space around them."""

OTHER_ROUTE: Final = 1.0
"""Distance of an alternate exchange that was not taken, and of a binding that chance or a hash did not pick."""


class Miss(NamedTuple):
    """The distance of a message from a binding, and why the binding does not match."""

    distance: float
    reason: str
    """Empty where the binding matches."""


MATCH: Final = Miss(0.0, "")


def align(pattern: Sequence[Word], words: Sequence[str]) -> Miss:
    """Return the smallest distance between the words of a key and a pattern, with the first change to the key.

    A change removes, adds or replaces a word of the key. Dynamic programming, as for the edit distance of two texts.
    """
    # costs[i][j]: the smallest distance between pattern[i:] and words[j:], with the first change. It depends on the
    # cells below and to the right, so the loops go backwards.
    rows, columns = len(pattern) + 1, len(words) + 1
    costs: list[list[Miss]] = [[MATCH] * columns for _ in range(rows)]
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            choices: list[Miss] = []
            part = pattern[i] if i < len(pattern) else None
            if part is None and j == len(words):
                continue
            if part is MANY:
                choices.append(costs[i + 1][j])  # matches no further word
                if j < len(words):
                    choices.append(costs[i][j + 1])  # matches this word, and perhaps more
            elif part is not None:
                wanted = "any word" if part is ONE else f"'{part}'"
                if j < len(words):
                    choices.append(_add(_compare_word(part, words[j], j), costs[i + 1][j + 1]))
                # 1.01 and 1.02 rather than 1: prefer to replace a word, then to add one, then to remove one.
                choices.append(_add(Miss(1.01, f"{_describe_gap(words, j)}: it wants {wanted}"), costs[i + 1][j]))
            if j < len(words) and part is not MANY:
                choices.append(_add(Miss(1.02, f"word {j + 1} '{words[j]}' is one too many"), costs[i][j + 1]))
            costs[i][j] = min(choices, key=lambda choice: choice.distance)
    return costs[0][0]


def _describe_gap(words: Sequence[str], index: int) -> str:
    if not words:
        return "the key is empty"
    if index < len(words):
        return f"the key lacks a word before word {index + 1} '{words[index]}'"
    return f"the key lacks a word after its {count_noun(len(words), 'word')}"


def _compare_word(part: Word, word: str, index: int) -> Miss:
    if part is ONE:
        return MATCH
    if part == word:
        return Miss(-LITERAL_BONUS, "")
    return Miss(compare_texts(word, str(part)), f"word {index + 1} {describe_difference(word, str(part))}")


def _add(first: Miss, rest: Miss) -> Miss:
    return Miss(first.distance + rest.distance, first.reason or rest.reason)


def estimate_distance(wanted: str, message: Message) -> float:
    """Return a rough distance between a binding key and the message's key, cheap enough for a million bindings."""
    words = message.routing_key.split(".")
    parts = wanted.split(".")
    same = sum(part in (word, "*", "#") for part, word in zip(parts, words, strict=False))
    return abs(len(parts) - len(words)) + min(len(parts), len(words)) - same


def compare_texts(is_: str, wanted: str) -> float:
    """Return a distance from 0 (equal texts) to 1 (nothing in common); `SLIP` if only case or white space differs."""
    if is_ == wanted:
        return 0.0
    if is_.strip().lower() == wanted.strip().lower():
        return SLIP
    from difflib import SequenceMatcher  # needed only to explain

    return 0.5 + 0.5 * (1 - SequenceMatcher(None, is_, wanted, autojunk=False).ratio())


def describe_difference(is_: str, wanted: str) -> str:
    """Describe for people how a text differs from the wanted one; return ``""`` if they are equal."""
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
