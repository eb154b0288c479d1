"""Which batches of a segment are counted: those behind a refused one too, and the same ones however the file is cut."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.kafka.segment import KafkaSegment
from bindings.archive.mapping import FieldMapping
from bindings.archive.reading import Bad, Skipped, Split
from bindings.archive.record import to_records
from bridge.cli import hashstar
from exchange.limits import BATCH_BYTES
from tests.support.archives.kafka_files import KafkaRecord, batch
from tests.support.archives.reads import FILES

FORM = KafkaSegment(FieldMapping("=e", "=k"))
NAME = "00000000000000000000.log"
LARGE = b"\xff\xff\xff\xff\x0f"
"""A block of snappy that would unpack to 4 GiB."""


def make_forged(
    base: int, *, last: int = 0, count: int = 1, codec: int = 0, flags: int = 0, packed: bytes = b"no"
) -> bytes:
    """Return a batch whose checksum is right, and whose header need not be."""
    rest = struct.pack(">hiqqqhii", codec | flags, last, 1000, 1000, -1, -1, -1, count) + packed
    return struct.pack(">qiibI", base, len(rest) + 9, 0, 2, google_crc32c.value(rest)) + rest


def good(number: int, codec: int = 0, count: int = 10) -> bytes:
    """Return a batch of ten offsets, with its number in its records."""
    return batch(10 * number, [KafkaRecord(n, value=b"%d" % number) for n in range(count)], codec=codec)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("order") / "orders-0"
    folder.mkdir()
    return folder / NAME


def outcome(splits: Sequence[Split]) -> list[Any]:
    """Return all that is read of some splits, in order."""
    found: list[Any] = []
    for split in splits:
        for item in FORM.read(split):
            if isinstance(item, Bad):
                found.append((item.offset, item.reason))
            elif isinstance(item, Skipped):
                found.append((item.reason, item.records))
            else:
                found.extend((record.offset, record.message.body) for record in to_records(item))
    return found


HUGE = (1 << 31) - 1
REFUSED = {
    "a forged count": make_forged(0, count=HUGE),
    "a forged last offset": make_forged(0, last=HUGE),
    "both": make_forged(0, last=HUGE, count=HUGE),
    "a bomb of snappy": make_forged(0, last=9, count=10, codec=2, packed=LARGE),
}


@cache
def bomb() -> bytes:
    """Return a batch that unpacks to more than is allowed."""
    return make_forged(0, last=9, count=10, codec=1, packed=zlib.compress(bytes(BATCH_BYTES + 1), 1, 31))


@pytest.mark.parametrize(("name", "before"), [*product(REFUSED, (0, 1, 3)), ("a bomb of gzip", 1)])
def test_good_batches_behind_a_refused_one_are_read(tmp_path: Path, name: str, before: int) -> None:
    refused = struct.pack(">q", 10 * before) + (REFUSED[name] if name in REFUSED else bomb())[8:]
    folder = tmp_path / "orders-0"
    folder.mkdir()
    batches = [good(n) for n in range(before + 3)]
    (folder / NAME).write_bytes(b"".join([*batches[:before], refused, *batches[before:]]))
    arguments = ["archive", "inspect", str(folder), "--json", "--exchange", "=e", "--routing-key", "=k"]
    result = CliRunner().invoke(hashstar, arguments)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["records"], sum(each["records"] for each in found["bad"])) == (10 * len(batches), 1), found["bad"]


def test_a_skipped_batch_with_a_forged_last_offset_hides_none_behind_it(path: Path) -> None:
    path.write_bytes(good(0) + make_forged(10, last=HUGE, flags=0x20) + good(2) + good(3))
    offsets = [each for each, _ in outcome([Split(str(path))]) if isinstance(each, int)]
    assert offsets == [*range(10), *range(20, 40)]


PIECES = st.one_of(
    st.tuples(st.just("good"), st.integers(0, 12), st.sampled_from(range(5))),
    st.tuples(st.just("refused"), st.integers(0, 120), st.sampled_from([0, 5, 30, HUGE])),
    st.tuples(st.just("marker"), st.integers(0, 120), st.sampled_from([0, 5, HUGE])),
    st.tuples(st.just("old"), st.integers(0, 12), st.integers(1, 40)),
    st.tuples(st.just("moved"), st.integers(0, 12), st.integers(0, 130)),
    st.tuples(st.just("flipped"), st.integers(0, 12), st.integers(0, 80)),
    st.tuples(st.just("cut"), st.integers(0, 12), st.integers(1, 100)),
)  # fmt: skip


def piece(kind: str, one: int, other: int) -> bytes:
    """Return a batch or what damage left of it."""
    match kind:
        case "good":
            return good(one, other)
        case "refused":
            return make_forged(one, last=other, count=HUGE)
        case "marker":
            return make_forged(one, last=other, flags=0x20)
        case "old":
            return bytes(other) + good(one)
        case "moved":
            return struct.pack(">q", other) + good(one)[8:]
        case "flipped":
            whole = bytearray(good(one))
            whole[other] ^= 1 << other % 8
            return bytes(whole)
    return good(one)[:-other]


@st.composite
def segments(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    """Draw a segment with batches that are damaged, forged, there twice and in disorder, and an index or none."""
    start = draw(st.integers(0, 8))
    pieces = [good(n, n % 5) for n in range(start)]
    pieces += [piece(*each) for each in draw(st.lists(PIECES, max_size=8))]
    pieces += [good(n) for n in range(start + 2, start + 2 + draw(st.integers(0, 4)))]
    entries: list[tuple[int, int]] = []
    place = 0
    for each in pieces:
        if draw(st.booleans()) and len(each) > 61:
            base, delta = struct.unpack_from(">q15xi", each)
            entries.append(((base + delta + draw(st.sampled_from([0, 0, 0, 4, -20]))) % HUGE, place))
        place += len(each)
    index = b"".join([struct.pack(">ii", *entry) for entry in entries]) + bytes(16)
    tail = draw(st.sampled_from([b"", bytes(100), good(40)[:70]]))
    return b"".join(pieces) + tail, draw(st.sampled_from([None, index]))


@FILES
@given(segments(), st.integers(60, 700))
def test_a_damaged_and_doubled_segment_gives_the_same_in_all_splits(
    path: Path, segment: tuple[bytes, bytes | None], size: int
) -> None:
    data, index = segment
    path.write_bytes(data)
    path.with_suffix(".index").unlink(missing_ok=True)
    if index is not None:
        path.with_suffix(".index").write_bytes(index)
    assert outcome(FORM.plan(str(path), size)) == outcome([Split(str(path))])


@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_sound_segment_is_cut_where_batches_begin(path: Path, is_indexed: bool) -> None:
    batches = [good(n) for n in range(20)]
    places = [sum(map(len, batches[:n])) for n in range(20)]
    path.write_bytes(b"".join(batches))
    path.with_suffix(".index").unlink(missing_ok=True)
    if is_indexed:
        entries = [struct.pack(">ii", 10 * n + 9, places[n]) for n in range(1, 16, 3)]
        path.with_suffix(".index").write_bytes(b"".join(entries) + bytes(64))
    splits = FORM.plan(str(path), 4 * len(batches[5]))
    assert len(splits) > 3
    assert {split.start for split in splits} <= set(places)
    assert outcome(splits) == [(n, b"%d" % (n // 10)) for n in range(200)]


def test_a_damaged_segment_is_still_cut_where_its_index_names_batches(path: Path) -> None:
    batches = [good(n) for n in range(20)]
    places = [sum(map(len, batches[:n])) for n in range(20)]
    data = b"".join([*batches[:6], b"\xff" * len(batches[6]), batches[5], *batches[8:]])
    path.write_bytes(data)
    path.with_suffix(".index").write_bytes(b"".join([struct.pack(">ii", 10 * n + 9, places[n]) for n in range(1, 20)]))
    splits = FORM.plan(str(path), 4 * len(batches[5]))
    assert len(splits) > 3
    found = outcome(splits)
    assert found == outcome([Split(str(path))])
    assert [offset for offset, body in found if isinstance(body, bytes)] == [*range(60), *range(80, 200)]
