"""The workloads, generated from a seed: the same patterns and keys for every contestant and in every run.

Each is what one kind of user has. ``dense-1k``: few words, many wildcards, so that a key meets many patterns halfway.
``sparse-100k``: many patterns, most of them literal, of which a key meets few. ``unique-ids``: keys with an id that no
pattern names, so that no key comes twice. A million literal bindings over ten queues. 10,000 bindings by headers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Final

from exchange import Binding

EXCHANGE: Final = "bench"
"""The exchange that all bindings have as their source."""

SEED: Final = 20_261_101


@dataclass(frozen=True)
class Topics:
    """A set of patterns and the distinct keys that are matched against it."""

    name: str
    about: str
    patterns: list[str]
    keys: list[str]


def dense_1k(keys: int) -> Topics:
    """1,000 patterns and keys of two to six words, of a vocabulary of 40; in patterns, 20 % ``*`` and 10 % ``#``."""
    chance = random.Random(SEED)
    vocabulary = [f"w{number}" for number in range(40)]

    def word() -> str:
        which = chance.random()
        return "*" if which < 0.2 else "#" if which < 0.3 else chance.choice(vocabulary)

    patterns = _distinct(1_000, lambda: ".".join(word() for _ in range(chance.randint(2, 6))))
    drawn = (".".join(chance.choices(vocabulary, k=chance.randint(2, 6))) for _ in range(keys))
    about = "1,000 patterns, 40 words, 20 % *, 10 % #, 2-6 words"
    return Topics("dense-1k", about, patterns, list(dict.fromkeys(drawn)))


def sparse_100k(keys: int) -> Topics:
    """100,000 patterns of four words of a large vocabulary, 80 % of them without a wildcard; most keys match some."""
    chance = random.Random(SEED)
    sizes = (20, 200, 2_000, 20_000)

    def literal() -> list[str]:
        return [f"{'abcd'[place]}{chance.randrange(size)}" for place, size in enumerate(sizes)]

    def pattern() -> str:
        words, which = literal(), chance.random()
        if which >= 0.8:
            place = chance.randrange(4) if which < 0.9 else 3 if which < 0.97 else chance.choice((1, 2))
            place = 0 if which >= 0.985 else place
            words[place] = "*" if which < 0.9 else "#"
        return ".".join(words)

    patterns = _distinct(100_000, pattern)

    def key() -> str:
        named = chance.choice(patterns).split(".")
        return ".".join(old if old not in "*#" else new for old, new in zip(named, literal(), strict=True))

    about = "100,000 patterns of 4 words: 80 % literal, 10 % one *, 7 % trailing #, 1.5 % middle #, 1.5 % leading #"
    return Topics("sparse-100k", about, patterns, _distinct(keys, key))


KINDS_OF_DEVICE: Final = ("device", "order", "customer", "sensor", "parcel")
EVENTS: Final = ("created", "updated", "deleted", "temperature", "humidity", "position")


def device_patterns() -> list[str]:
    """Patterns that name the kind of thing and the event, and leave the id between them open."""
    with_event = [f"{kind}.*.{event}" for kind in KINDS_OF_DEVICE for event in EVENTS]
    return [*with_event, *(f"{kind}.#" for kind in KINDS_OF_DEVICE), *(f"#.{event}" for event in EVENTS)]


def device_keys() -> Iterator[str]:
    """Keys without end, each with an id that never came before: no cache of keys can help."""
    chance = random.Random(SEED)
    for number in count():
        yield f"{chance.choice(KINDS_OF_DEVICE)}.{number:08x}.{chance.choice(EVENTS)}"


def million_keys(bindings: int) -> Iterator[tuple[str, str]]:
    """Yield queue and key of literal bindings, spread over ten queues."""
    for number in range(bindings):
        queue = f"q{number % 10}"
        yield queue, f"test.{queue}.{number // 10}"


def headers_bindings(bindings: int) -> list[Binding]:
    """Bindings of two or three conditions: 60 % ``all``, 20 % ``any``, 10 % each ``all-with-x`` and ``any-with-x``."""
    chance = random.Random(SEED)
    made = []
    for number in range(bindings):
        mode = chance.choices(("all", "any", "all-with-x", "any-with-x"), (60, 20, 10, 10))[0]
        names = chance.sample(HEADERS, chance.randint(2, 3))
        arguments: dict[str, Any] = {name: _header(chance, name) for name in names}
        made.append(Binding.to_queue(EXCHANGE, f"q{number % 100}", "", {"x-match": mode, **arguments}))
    return made


def headers_messages(messages: int) -> list[Mapping[str, Any]]:
    """Return the headers of messages: four of those in the bindings."""
    chance = random.Random(SEED + 1)
    return [{name: _header(chance, name) for name in chance.sample(HEADERS, 4)} for _ in range(messages)]


def state_trap(patterns: int) -> Topics:
    """``#.w0.#`` and so on: an automaton that is built ahead has a state for every subset of the words so far."""
    chance = random.Random(SEED)
    words = [f"w{number}" for number in range(patterns)]
    keys = _distinct(2_000, lambda: ".".join(chance.choices(words, k=12)))
    return Topics(f"{patterns} #.wN.#", "every subset is a state", [f"#.{word}.#" for word in words], keys)


def many_hashes() -> Topics:
    """15 ``#`` in one pattern and keys of 31 words that just fail: a walk that backtracks tries C(46, 15) ways."""
    chance = random.Random(SEED)
    keys = _distinct(200, lambda: ".".join([*chance.choices(("a", "b"), k=30), "z"]))
    return Topics("15 #, 31 words", "every placement is a way", [".".join(["#", "a"] * 15)], keys)


HEADERS: Final = ("tenant", "region", "type", "version", "x-shard", "priority")


def _header(chance: random.Random, name: str) -> str | int:
    number = chance.randrange(400)
    return number if name == "priority" else f"{name}-{number}"


def _distinct(number: int, make: Any) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < number:
        found[make()] = None
    return list(islice(found, number))
