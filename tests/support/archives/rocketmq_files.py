"""Files of RocketMQ written plainly: records as `MessageExtEncoder` lays them out, units, indexes and stores."""

from __future__ import annotations

import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from exchange.partition.hashing.java import string_hash
from tests.recorders import golden

LOG_BYTES = 1 << 14


class Sent(NamedTuple):
    """A message for a store."""

    topic: str
    queue: int = 0
    properties: Mapping[str, str] = {}
    body: bytes = b"b"
    flag: int = 0


def message(
    place: int,
    topic: str,
    properties: Mapping[str, str],
    body: bytes = b"",
    *,
    version: int = 1,
    flag: int = 0,
    born: int = 1000,
    queue: int = 3,
    offset: int = 7,
) -> bytes:
    """Return a record at a byte of the log; it is stored a millisecond after it was born."""
    hosts = [struct.pack(">16si" if flag & bit else ">4si", b"\x7f" * (16 if flag & bit else 4), 9) for bit in (16, 32)]
    tail = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()]).encode("utf-8", "surrogateescape")
    name = topic.encode("utf-8", "surrogateescape")
    rest = (
        struct.pack(">Iiiqqiq", zlib.crc32(body) & 0x7FFFFFFF, queue, 0, offset, place, flag, born)
        + hosts[0] + struct.pack(">q", born + 1) + hosts[1] + struct.pack(">iqi", 0, 0, len(body)) + body
        + struct.pack(">B" if version == 1 else ">h", len(name)) + name + struct.pack(">h", len(tail)) + tail
    )  # fmt: skip
    magic = {1: 0xDAA320A7, 2: 0xDAA320AB}[version]
    return struct.pack(">iI", 8 + len(rest), magic) + rest


def part(body: bytes, properties: str) -> bytes:
    """Return a message of a batch in one record, in the form of `MessageDecoder.encodeMessage`."""
    tail = properties.encode()
    rest = struct.pack(">IIii", 0, 0, 0, len(body)) + body + struct.pack(">h", len(tail)) + tail
    return struct.pack(">i", 4 + len(rest)) + rest


def blank(size: int) -> bytes:
    """Return a blank that fills a file up to its end."""
    return struct.pack(">iI", size, 0xCBD43194) + bytes(size - 8)


def unit(place: int, size: int, code: int = 0) -> bytes:
    """Return a unit of a queue."""
    return struct.pack(">qiq", place, size, code)


def batch_unit(place: int, size: int, offset: int, count: int, code: int = 0) -> bytes:
    """Return a unit of a queue of batches, stored at 1000."""
    return struct.pack(">qiqqqhii", place, size, code, 1000, offset, count, -1, 0)


def index(slots: int, units: int, keys: Sequence[tuple[str, int, int]]) -> bytes:
    """Return an index file with ``slots`` slots and room for ``units`` units; keys are (``topic#key``, place, time).

    Key by key as `IndexFile.putKey` writes it.
    """
    data = bytearray(40 + slots * 4 + units * 20)
    used = 0
    for number, (key, place, stored) in enumerate(keys, 1):
        assert number < units
        hashed = abs(string_hash(key))
        slot = 40 + hashed % slots * 4
        (before,) = struct.unpack_from(">i", data, slot)
        used += before == 0
        seconds = (stored - keys[0][2]) // 1000
        struct.pack_into(">iqii", data, 40 + slots * 4 + number * 20, hashed, place, seconds, before)
        struct.pack_into(">i", data, slot, number)
    first, last = (keys[0], keys[-1]) if keys else (("", 0, 0),) * 2
    struct.pack_into(">qqqqii", data, 0, first[2], last[2], first[1], last[1], used, len(keys) + 1)
    return bytes(data)


def store(folder: Path, sent: Sequence[Sent], units_a_file: int = 4, base: int = 0) -> list[int]:
    """Write a store into a folder, with its log in one file; return the places of the messages."""
    log = bytearray()
    queues: dict[tuple[str, int], list[bytes]] = defaultdict(list)
    keys: list[tuple[str, int, int]] = []
    places: list[int] = []
    for n, each in enumerate(sent):
        held = queues[each.topic, each.queue]
        place = base + len(log)
        record = message(
            place, each.topic, each.properties, each.body, flag=each.flag, born=1000 * n, queue=each.queue,
            offset=len(held),
        )  # fmt: skip
        log += record
        places.append(place)
        held.append(unit(place, len(record), string_hash(each.properties.get("TAGS", ""))))
        named = [each.properties.get("UNIQ_KEY", ""), *each.properties.get("KEYS", "").split(" ")]
        keys += [(f"{each.topic}#{key}", place, 1000 * n + 1) for key in named if key]
    files = {f"commitlog/{base:020}": bytes(log).ljust(LOG_BYTES, b"\0"), "checkpoint": bytes(4096)}
    width = units_a_file * 20
    for (topic, queue), units in queues.items():
        data = b"".join(units)
        for at in range(0, len(data), width):
            files[f"consumequeue/{topic}/{queue}/{at:020}"] = data[at : at + width].ljust(width, b"\0")
    files["index/20260101000000000"] = index(7, len(keys) + 2, keys)
    files["config/topics.json"] = json.dumps({
        "topicConfigTable": {
            topic: {"topicName": topic, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
            for topic, _ in queues
        }
    }).encode()  # fmt: skip
    files["config/consumerOffset.json"] = b'{"offsetTable":{"a@group":{0:1,1:0}}}'
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return places


def recorded_store(name: str, folder: Path) -> Path:
    """Unpack the store of a recording into a folder, as the broker left it."""
    golden.unpack(name, folder)
    return folder
