"""What a check of a source finds about the position that it goes on at, and what it then reads."""

from __future__ import annotations

from bridge.endpoint import Source
from tests.support.bridge.behaviour import read_all_of


async def look_at_position(source: Source, key: str) -> list[tuple[str, str]]:
    """Return levels and texts of the findings about a key that are about a position."""
    words = ("goes on", "read from", "not read", "are skipped", "settled")
    return [
        (each.level, each.text)
        for each in await source.check()
        if each.key == key and any(word in each.text for word in words)
    ]


async def read_numbers(source: Source, count: int) -> list[int]:
    """Return the bodies of the first messages, as numbers."""
    await source.open()
    try:
        return [int(each.message.body) for each in await read_all_of(source, count)]
    finally:
        await source.close()
