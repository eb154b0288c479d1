"""Files of Avro: what fastavro writes, in blocks of a chosen size, packed in any of the ways that Avro knows."""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import fastavro
import pyarrow as pa

from bindings.archive.avro.container import read_header, walk_blocks


def record_schema(**fields: Any) -> dict[str, Any]:
    """Return the schema of records with these fields."""
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "Event", "namespace": "com.example", "fields": listed}


def encode_rows(
    schema: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, block_bytes: int = 16_000, codec: str = "null"
) -> bytes:
    """Return a file; a block ends with the record that fills it."""
    sink = io.BytesIO()
    fastavro.writer(sink, dict(schema), list(rows), sync_interval=block_bytes, sync_marker=b"0123456789abcdef")
    plain = sink.getvalue()
    if codec == "null":
        return plain
    header = read_header(plain)
    head = plain[: header.end].replace(b"\x14avro.codec\x08null", b"\x14avro.codec" + _text(codec))
    blocks = [head]
    for block in walk_blocks(plain, header.end, len(plain), header.marker):
        packed = CODECS[codec](plain[slice(*block.data)])
        blocks += [_number(block.rows), _number(len(packed)), packed, header.marker]
    return b"".join(blocks)


def start_of_block(data: bytes, number: int) -> int:
    """Return the byte at which a block begins."""
    header = read_header(data)
    return [block.start for block in walk_blocks(data, header.end, len(data), header.marker)][number]


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def _snappy(data: bytes) -> bytes:
    return bytes(pa.Codec("snappy").compress(data, asbytes=True)) + zlib.crc32(data).to_bytes(4, "big")


CODECS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": bytes, "deflate": _deflate, "snappy": _snappy, "bzip2": bz2.compress, "xz": lzma.compress,
    "zstandard": lambda data: bytes(pa.Codec("zstd").compress(data, asbytes=True)),
}  # fmt: skip


def _text(text: str) -> bytes:
    return _number(len(text)) + text.encode()


def _number(number: int) -> bytes:
    number *= 2
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
