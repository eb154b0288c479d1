"""Apicurio's registry, asked as Confluent's: bodies of recorded serializers get their partitions, through the pump."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bridge.cli import hashstar
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.pump.pump import Inlet, Pump
from bridge.registry.client import read_client
from bridge.registry.registry import Registry
from bridge.table import Table
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.partition.partitioning import Partitioning
from tests.support.bridge.behaviour import QUICK
from tests.support.bridge.events import Events
from tests.support.bridge.registry import REGISTRY, frame
from tests.support.servers import server_set
from tests.support.unique import unique_name
from tests.support.waiting import find_limit

pytestmark = pytest.mark.live

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "confluent-serializers.json").read_text("utf-8"))
BODIES = {name: bytes.fromhex(body) for name, body in GOLDEN["bodies"].items()}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server_set(REGISTRY) as servers:
        yield servers.first().url


def register(url: str, subject: str, schema: dict[str, Any]) -> int:
    """Register a schema; return its id."""
    body = json.dumps({key: schema[key] for key in ("schema", "schemaType", "references") if key in schema}).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    request = urllib.request.Request(f"{url}/subjects/{subject}/versions", body, headers)  # noqa: S310  http
    with urllib.request.urlopen(request, timeout=find_limit()) as answer:  # noqa: S310  http
        return int(json.load(answer)["id"])


def answer_of(body: bytes) -> dict[str, Any]:
    """Return the schema of a recorded body, as another registry had it."""
    found: dict[str, Any] = GOLDEN["answers"][f"/schemas/ids/{int.from_bytes(body[1:5])}"]
    return found


def test_bodies_of_confluents_serializers_get_the_partitions_of_their_fields(url: str) -> None:
    kind = unique_name("kind")
    register(url, kind, GOLDEN["answers"]["/subjects/org.shop.Kind/versions/1?deleted=true"])
    avro = {**answer_of(BODIES["avro"]), "references": [{"name": "org.shop.Kind", "subject": kind, "version": 1}]}
    framed = {
        name: frame(register(url, unique_name(name), schema), BODIES[name][5:])
        for name, schema in (("avro", avro), ("json", answer_of(BODIES["json"])))
    }
    bodies = [*framed.values(), frame(2**31 - 1, b"\2"), b'{"customer": {"id": "of no schema"}}', framed["avro"]]
    partitioning = Partitioning.parse('kafka.murmur2 over 97 by body "/customer/id"')
    topology = Topology(
        [Exchange("in", "fanout")], [Queue("q", partitioning=partitioning)], [Binding.to_queue("in", "q")]
    )

    async def move() -> MemoryTarget:
        source, target = MemorySource([Message(body=body) for body in bodies]), MemoryTarget("q")
        source.end()
        inlet = Inlet(source, "in", admission=Registry(read_client(Table({"url": url}, "bridge.toml"))))
        async with asyncio.timeout(find_limit()):
            await Pump([inlet], Router(topology), {"q": target}, Events(), QUICK).run()
        return target

    target = asyncio.run(move())
    assert [each.message.body for each in target.messages] == bodies
    ids = ["00000000-0000-0000-0000-000000000007", "ä7", None, "of no schema", "00000000-0000-0000-0000-000000000007"]
    assert [each.placement.key for each in target.messages if each.placement is not None] == ids
    chosen = [each.placement.partition for each in target.messages if each.placement is not None]
    assert [one for one, key in zip(chosen, ids, strict=True) if key is not None] == [
        partitioning.partition_for(key) for key in ids if key is not None
    ]


def test_a_check_names_what_is_wrong_with_the_address(url: str, tmp_path: Path) -> None:
    (tmp_path / "t.bindings").write_text(
        'exchange orders: fanout\nqueue q: partitioned kafka.murmur2 over 3 by body "/id"\n'
    )
    base, _, _ = url.partition("/apis/")
    for address, finding in (
        (url, "ok           the registry answers, and has schemas of AVRO, JSON, PROTOBUF"),
        (base, f"{base} answers 404 Not Found: is this the address of Confluent's API?"),
        (f"{base}/apis/registry/v3", "is this the address of Confluent's API?"),
    ):
        (tmp_path / "bridge.toml").write_text("\n".join([
            'topology = "t.bindings"', 'ignore = ["q"]', "[registry]", f'url = "{address}"',
            "[sources.a]", 'url = "archive:."', 'exchange = "orders"',
        ]))  # fmt: skip
        found = CliRunner().invoke(hashstar, ["bridge", "check", str(tmp_path / "bridge.toml")])
        assert finding in found.output
