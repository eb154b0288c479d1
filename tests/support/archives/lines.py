"""Random archives, and formats that fail, for the tests of passes over them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import ClassVar

from bindings.archive.formats.detect import Archive
from bindings.archive.formats.json_lines import encode_line
from bindings.archive.formats.parquet import ParquetWriter
from bindings.archive.places import AnyPath, Place
from bindings.archive.reading import SPLIT_BYTES, Bad, Bias, Format, Item, Skipped, Split
from bindings.archive.record import Record, build_batch
from exchange import Exchange, Message, Profile, Queue, Topology
from exchange.partition.partitioning.specification import Partitioning
from tests.support import topologies

PARTITIONINGS = (
    "kafka.murmur2 over 5 by routing_key", "kafka.murmur2 over 3 by word 2", 'kafka.murmur2 over 4 by header "h"',
    "rocketmq.hash over 4 by property message_id",
)  # fmt: skip

VHOSTS = (None, None, "/", "other")


def topology_for(rng: Random, profile: Profile, *, by_key: bool = False) -> Topology:
    """Return a random topology with some partitioned queues; with ``by_key`` only keys decide."""
    kinds = topologies.Kinds(types=("direct", "fanout", "topic", "topic", "x-modulus-hash")) if by_key else None
    made = topologies.topology(rng, profile, kinds)
    ways = PARTITIONINGS[:2] if by_key else PARTITIONINGS
    queues = [
        Queue(name, partitioning=Partitioning.parse(rng.choice(ways))) if rng.random() < 0.4 else queue
        for name, queue in made.queues.items()
    ]
    exchanges: list[Exchange] = [*made.exchanges.values()]
    return Topology(exchanges, queues, made.bindings, made.policies.values(), vhost=made.vhost, profile=made.profile)


def records_for(rng: Random, topology: Topology, number: int) -> list[Record]:
    """Return records, some of them twice, with and without time, virtual host and routed queues.

    They are of minutes, hours or decades.
    """
    made = [topologies.message(rng, topology) for _ in range(number)]
    made += [Message("nowhere", "a.b"), Message("amq.topic", "a\0.\udcff")]
    queues = list(topology.queues)
    span = rng.choice((10**8, 10**10, 2 * 10**15))
    return [
        Record(
            message,
            rng.choice((None, rng.randrange(-span // 200, span), rng.randrange(span))),
            rng.choice(VHOSTS),
            routed_queues=rng.choice((None, (), tuple(rng.sample(queues, 1)), tuple(queues[:2]))),
        )
        for message in rng.choices(made, k=2 * number)
    ]


def write_parquet(path: Path, records: Sequence[Record]) -> None:
    """Our own archive."""
    with ParquetWriter(path, Bias.EVERYTHING, file_rows=20) as writer:
        for start in range(0, len(records), 10):
            writer.write(build_batch(records[start : start + 10]))


def write_lines(path: Path, records: Sequence[Record], bad: Sequence[bytes] = ()) -> None:
    """JSON lines, with other lines between them."""
    lines = [encode_line(record) for record in records]
    for number, line in enumerate(bad):
        lines.insert(number * len(lines) // len(bad), line)
    path.write_bytes(b"".join(line.rstrip(b"\n") + b"\n" for line in lines))


@dataclass(frozen=True)
class Stumbling(Format):
    """Reads as another format, and fails in the middle of each split the first time that it is read."""

    name: ClassVar[str] = "stumbling"
    inner: Format
    folder: str
    """Folder in which it notes what has failed."""

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        return False

    def plan(self, path: Place, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        return self.inner.plan(path, split_bytes)

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        yield from self.inner.read(split, columns)
        yield Bad(split.source, 1, "told before it failed")
        yield Skipped("told before it failed")
        try:
            os.close(os.open(Path(self.folder) / f"{Path(split.source).name}-{split.start}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        raise RuntimeError("stumbled")

    @staticmethod
    def over(archive: Archive, folder: Path) -> Archive:
        """Return an archive whose reading fails."""
        return Archive(archive.path, tuple([(path, Stumbling(form, str(folder))) for path, form in archive.files]))
