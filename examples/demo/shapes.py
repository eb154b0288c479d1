"""Many routing keys as few shapes: words that vary become ``*``.

``order.created`` stays what it is; thousands of ``device.<id>.battery`` are one ``device.*.battery``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from exchange import Message

__all__ = ["UNNAMED", "Caught", "Shape", "Shapes"]

UNNAMED: Final = "\0"
"""Stands for a word that no binding names."""
MANY: Final = 4
"""A word of which there are so many, in keys that are otherwise alike, is one that varies."""
MOST_SHAPES: Final = 5_000
"""What does not fit in so many is counted as other."""


class Caught(NamedTuple):
    """What caught messages that no binding of their exchange led to a queue."""

    exchange: str
    alternate: str | None
    """The alternate exchange; None: nothing did."""


@dataclass(slots=True)
class Shape:
    """Keys that look alike, as they were sent to one exchange."""

    caught: Caught
    words: tuple[str, ...]
    sample: Message | None
    """One such message, of merged shapes from the most frequent; None for those that are not told apart."""
    count: int = 0

    @property
    def text(self) -> str:
        """The key, ``*`` for what varies."""
        return ".".join(self.words)


class Shapes:
    """Counts shapes, in bounded memory however many keys there are."""

    def __init__(self) -> None:
        self._shapes: Final[dict[tuple[Caught, tuple[str, ...]], Shape]] = {}
        self._vocabulary: Final[dict[tuple[Caught, int, int], set[str]]] = {}
        self._other: Final[dict[Caught, Shape]] = {}

    def count(self, caught: Caught, normalised: str, message: Message) -> None:
        """Count a message; ``normalised`` is its key, `UNNAMED` for the words that no binding names."""
        words = tuple(normalised.split("."))
        if UNNAMED in words:
            actual = message.routing_key.split(".")
            words = tuple([
                self._word(caught, (len(words), place), actual[place]) if word == UNNAMED else word
                for place, word in enumerate(words)
            ])  # fmt: skip
        shape = self._shapes.get((caught, words))
        if shape is None:
            if len(self._shapes) < MOST_SHAPES:
                shape = self._shapes[caught, words] = Shape(caught, words, message)
            else:
                shape = self._other.setdefault(caught, Shape(caught, ("(others)",), None))
        shape.count += 1

    def merged(self) -> list[Shape]:
        """The shapes, most frequent first, those merged that differ in one word which varies."""
        shapes = list(self._shapes.values())
        for place in reversed(range(max((len(shape.words) for shape in shapes), default=0))):
            shapes = list(_merged_at(place, shapes))
        shapes = _without_special(shapes)
        return [
            *sorted(shapes, key=lambda shape: (-shape.count, shape.caught.exchange, shape.text)),
            *self._other.values(),
        ]

    def _word(self, caught: Caught, place: tuple[int, int], word: str) -> str:
        """The word itself if it is one of the first few at its place in keys of its length, else ``*``."""
        if len(self._vocabulary) >= MOST_SHAPES:
            return "*"
        words = self._vocabulary.setdefault((caught, *place), set())
        if len(words) < MANY:
            words.add(word)
        return word if word in words else "*"


def _merged_at(place: int, shapes: Iterable[Shape]) -> Iterable[Shape]:
    groups: dict[tuple[object, ...], list[Shape]] = {}
    for shape in shapes:
        rest = (*shape.words[:place], None, *shape.words[place + 1 :])
        groups.setdefault((shape.caught, len(shape.words) > place, *rest), []).append(shape)
    for group in groups.values():
        if len(group) >= MANY or (len(group) > 1 and any(shape.words[place] == "*" for shape in group)):
            commonest = max(group, key=lambda shape: shape.count)
            words = (*commonest.words[:place], "*", *commonest.words[place + 1 :])
            yield Shape(commonest.caught, words, commonest.sample, sum(shape.count for shape in group))
        else:
            yield from group


def _without_special(shapes: Sequence[Shape]) -> list[Shape]:
    """Shapes that a more general one covers are counted with it."""
    found = {(shape.caught, shape.words): shape for shape in shapes}
    masks = {tuple(place for place, word in enumerate(shape.words) if word == "*") for shape in shapes}
    # From the most special to the most general, so that counts move on to the end.
    for shape in sorted(shapes, key=lambda shape: shape.words.count("*")):
        for mask in sorted(masks, key=len):
            general = tuple("*" if place in mask else word for place, word in enumerate(shape.words))
            other = found.get((shape.caught, general))
            if other is not None and other is not shape:
                other.count += shape.count
                del found[shape.caught, shape.words]
                break
    return list(found.values())
