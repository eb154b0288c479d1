"""Targets: files of settings and of state, saved results, baselines, and addresses."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bindings.applying.address import Addresses
from bindings.auditing.spark.growth import Growth
from bindings.auditing.spark.kafka import parse_topic
from bindings.auditing.spark.ledger import BatchLedger
from bindings.checking.baseline import Baseline
from bindings.counts import comparison_file, tally_file, verification_file
from bindings.report.settings import load_settings
from bindings.sources.definitions import Definitions
from bindings.sources.management import Management
from bindings.sources.tree import find_reason_to_skip
from bridge.daemon.config import read_config
from bridge.endpoints.archive.replay import Settled
from bridge.endpoints.kafka.cluster.addresses import read_settings as kafka_settings
from bridge.endpoints.rabbitmq.addresses import read_brokers, read_cluster_name, read_management
from bridge.endpoints.rabbitmq.consumer.offsets import StreamOffsets
from bridge.endpoints.rocketmq.addresses import read_settings as rocketmq_settings
from bridge.rocketmq.consumer.offsets import LocalOffsets
from bridge.table import Table
from exchange.errors import HashstarError, InputError
from tests.fuzz.target import cut, folder, text_of, write


def settings(data: bytes) -> None:
    """Read the settings of an audit."""
    load_settings(write("hashstar.toml", data))


SHOP: Final = (Path(__file__).parents[2] / "examples/bridge/shop.bindings").read_bytes()
ENVIRONMENT: Final = dict.fromkeys(
    ("BRIDGE_PASSWORD", "BRIDGE_KAFKA_PASSWORD", "BRIDGE_RABBITMQ_PASSWORD", "BRIDGE_ROCKETMQ_SECRET"), "secret"
)  # fmt: skip


def bridge_config(data: bytes) -> None:
    """Read the configuration of a bridge; its endpoints are made, and not opened."""
    write("b/shop.bindings", SHOP)
    read_config(write("b/bridge.toml", data), ENVIRONMENT)


LOADERS: Final[dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], pa.Schema]]] = {
    "tally": (tally_file.decode_tally, tally_file.build_table, tally_file.SCHEMA),
    "comparison": (comparison_file.read_comparison_table, comparison_file.build_table, comparison_file.SCHEMA),
    "verification": (
        verification_file.read_verification_table,
        verification_file.build_table,
        verification_file.SCHEMA,
    ),
}
"""Kind -> what reads its table, what makes one, and the schema."""


def saved(kind: str) -> Callable[[bytes], None]:
    """Return a target: rows of a saved result, as JSON; what is read of them is saved and read the same."""
    load, table_of, schema = LOADERS[kind]

    def run(data: bytes) -> None:
        try:
            metadata, rows = json.loads(data)
            table = pa.Table.from_pylist(rows, schema.with_metadata(metadata))
            table.validate(full=True)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError, pa.ArrowException):
            return
        found = load(table)
        assert load(table_of(found)) == found

    return run


def tally_bytes(data: bytes) -> None:
    """Load a saved tally from any bytes."""
    tally_file.load_tally(write("saved.tally", data))


def ledger(data: bytes) -> None:
    """Read the accounts of a stream's batches, and go on with them."""
    state = folder() / "ledger"
    for number, content in enumerate(cut(data, 2)):
        write(f"ledger/account/batch={number:010}.json", content)
    BatchLedger(state, {}).total()


def growth(data: bytes) -> None:
    """Read what was taken of an archive that grows."""
    state, step = cut(data, 2)
    write("grown/archive/a.jsonl", b'{"exchange":"a","routing_key":"b"}\n')
    for name, content in (("taken=0000000000.json", state), ("steps/0000000001.json", step)):
        write(f"grown/state/{name}", content)
    found = Growth(str(folder() / "grown/archive"), folder() / "grown/state")
    found.steps(found.first, found.last)


def state_files(data: bytes) -> None:
    """Read what a bridge kept of where it was: offsets of streams and of RocketMQ, what is settled of a replay."""
    path = write("state", data)
    for read in (lambda: StreamOffsets(path).last, lambda: Settled.read(path), lambda: LocalOffsets(path).load()):
        with suppress(InputError):
            read()


def baseline(data: bytes) -> None:
    """Read a baseline; what is read is saved and read the same."""
    known = Baseline.load(str(write("known.json", data)))
    known.save()
    again = Baseline.load(known.name)
    assert {name: sorted(map(str, found)) for name, found in again.files.items()} == {
        name: sorted(map(str, found)) for name, found in known.files.items() if found
    }


def recognised(data: bytes) -> None:
    """Decide whether a file below a folder is definitions; those that can be read and have a version are."""
    path = write("found.json", data)
    reason = find_reason_to_skip(str(path))
    with suppress(HashstarError):
        assert Definitions.load(path).rabbitmq_version is None or reason is None


def addresses(data: bytes) -> None:
    """Read addresses of brokers of each kind. What is refused is not repeated: it may have a password."""
    text = text_of(data)
    for read in (
        lambda: Management.at(text, environ={}, ask=lambda *_: ("guest", "guest")),
        partial(Addresses.parse, text),
        partial(parse_topic, text),
        lambda: dict(kafka_settings(text, Table({}, "fuzz", environment={}))()),
        lambda: rocketmq_settings(text, Table({}, "fuzz", environment={})),
        lambda: [read_cluster_name(each) for each in read_brokers("a", text, Table({}, "fuzz", environment={}))],
        lambda: read_management(Table({"management": text}, "fuzz", environment={})),
    ):
        with suppress(HashstarError):
            read()
