"""Messages wait for the schemas of their bodies, in order: none gets another partition, and the loop goes on."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.daemon.config import read_config
from bridge.daemon.health import Health
from bridge.daemon.journal import Journal
from bridge.daemon.telemetry.metrics import Metrics
from bridge.endpoint import Delivery, Disconnected
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.mistakes import ConfigWarning
from bridge.pump.policy import Policy
from bridge.pump.pump import Inlet, Pump
from bridge.registry import registry as module
from bridge.registry.avro import compile_schema, find_in_avro
from bridge.registry.client import Schema, SchemaId, read_client
from bridge.registry.registry import HEADER, Registry, find_schema_id
from bridge.table import Table
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.errors import InputError
from exchange.partition.partitioning import Partitioning
from exchange.partition.partitioning.key_source import EncodedBody, KeySource
from tests.support.bridge.behaviour import QUICK, on_a_loop
from tests.support.bridge.events import Events
from tests.support.bridge.registry import frame, registry_server
from tests.support.tiers import examples
from tests.support.virtual_loop import on_a_virtual_loop, pass_time, run_virtually
from tests.support.waiting import until

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "confluent-serializers.json").read_text("utf-8"))
BY_ID = Partitioning.parse('kafka.murmur2 over 5 by body "/id"')
TOPOLOGY = Topology(
    [Exchange("in", "fanout")], [Queue("orders", partitioning=BY_ID)], [Binding.to_queue("in", "orders", "")]
)
COUNT = 4
"""Number of schemas, each with the key behind as many other fields; there is none of the number 0."""


def encode(number: int, key: str) -> bytes:
    """Return a body with a schema, which has a key of at most 60 bytes."""
    return frame(number, b"\x02" * number + bytes([2 * len(key.encode())]) + key.encode())


def make_schema(number: int, size: int = 10) -> Schema:
    fields = [*[{"name": f"f{n}", "type": "int"} for n in range(number)], {"name": "id", "type": "string"}]
    compiled = compile_schema({"type": "record", "name": "Order", "fields": fields}, {})
    return Schema(partial(find_in_avro, compiled), size)


class Given:
    """Schemas that a registry has; it does not answer the first ``failures`` times."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.asked = Counter[SchemaId]()
        self.hanging: threading.Event | None = None
        self.on_fetch: Callable[[], None] = lambda: None

    def fetch(self, schema_id: SchemaId) -> Schema | None:
        self.asked[schema_id] += 1
        self.on_fetch()
        if self.hanging is not None:
            self.hanging.wait()
        if self.failures:
            self.failures -= 1
            raise Disconnected("does not answer")
        assert isinstance(schema_id, int)
        return make_schema(schema_id) if 1 <= schema_id <= COUNT else None

    def fetch_types(self) -> Sequence[str]:
        return ["AVRO"]


def pump_of(messages: Sequence[Message], given: Given, policy: Policy = QUICK) -> tuple[Pump, Inlet, MemoryTarget]:
    source, target = MemorySource(messages), MemoryTarget("kafka")
    source.end()
    inlet = Inlet(source, "in", admission=Registry(given))
    return Pump([inlet], Router(TOPOLOGY), {"orders": target}, Events(), policy), inlet, target


MESSAGE = st.tuples(st.integers(0, COUNT), st.sampled_from(["", "a", "b", "ä-7", "c" * 30]))


@examples(100)
@given(st.lists(MESSAGE, max_size=40), st.integers(0, 4), st.sampled_from([1, 3, 1000]), st.sampled_from([1, 2, 1000]))
def test_all_messages_come_in_order_and_where_their_keys_belong(
    chosen: list[tuple[int, str]], failures: int, kept: int, window: int
) -> None:
    """Whatever the registry fails at, and however few schemas are kept. Where there is none, there is no key."""
    given = Given(failures)
    bodies = [encode(number, key) if number else json.dumps({"id": key}).encode() for number, key in chosen]

    async def work() -> MemoryTarget:
        pump, _, target = pump_of([Message(body=body) for body in bodies], given, Policy(window=window))
        await pump.run()
        return target

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SCHEMAS", kept)
        target = run_virtually(work())
    assert [each.message.body for each in target.messages] == bodies
    partitions = [each.placement.partition for each in target.messages if each.placement is not None]
    assert partitions == [BY_ID.partition_for(key) for _, key in chosen]
    assert given.asked.total() <= failures + (COUNT if kept >= COUNT else kept * len(chosen))


@on_a_virtual_loop
async def test_while_the_registry_is_down_messages_wait_and_the_health_says_so() -> None:
    """Those before the first unknown schema go on."""
    given = Given(10**6)
    messages = [Message(body=b'{"id": "a"}'), Message(body=encode(2, "a")), Message(body=b'{"id": "b"}')]
    pump, inlet, target = pump_of(messages, given)
    metrics = Metrics()
    health = Health(pump, [inlet], metrics, Journal("text", "error", io.StringIO()), config="bridge.toml")
    metrics.up["memory"] = metrics.up["kafka"] = True
    running = asyncio.create_task(pump.run())
    await pass_time(60)
    assert len(target.messages) == 1
    assert 2 <= given.asked[2] <= 20
    health.look()
    [condition] = [each for each in health.conditions if each.kind == "registry"]
    assert (condition.endpoint, condition.reason) == ("memory", "[registry] does not answer")
    assert condition.way_out == "hashstar bridge check bridge.toml finds the cause"
    given.failures = 0
    await running
    assert len(target.messages) == 3
    await pass_time(5)
    health.look()
    assert not [each for each in health.conditions if each.kind == "registry"]


@on_a_virtual_loop
async def test_a_bridge_that_is_stopped_waits_for_no_schema() -> None:
    """What was read goes back to the source."""
    pump, inlet, target = pump_of([Message(body=encode(2, "a"))], Given(10**6))
    running = asyncio.create_task(pump.run())
    await pass_time(10)
    pump.stop()
    await running
    assert not target.messages
    assert isinstance(inlet.source, MemorySource)
    assert inlet.source.unsettled == 1


@on_a_virtual_loop
async def test_an_id_that_the_registry_does_not_know_is_asked_twice_and_then_again_after_a_minute() -> None:
    """A second may pass until a schema that is new is known everywhere."""
    given, loop, asked_at = Given(), asyncio.get_running_loop(), list[float]()
    source, target = MemorySource(), MemoryTarget("kafka")
    pump = Pump([Inlet(source, "in", admission=Registry(given))], Router(TOPOLOGY), {"orders": target}, Events())
    running = asyncio.create_task(pump.run())
    given.on_fetch = lambda: asked_at.append(loop.time())

    async def send(count: int) -> None:
        source.put(Message(body=encode(9, "a")))
        while len(target.messages) < count:
            await pass_time(0.1)

    await send(1)
    first, second = asked_at
    assert second - first >= 1
    await send(2)
    assert len(asked_at) == 2
    await pass_time(60)
    await send(3)
    assert len(asked_at) == 3
    source.end()
    await running


@on_a_loop
async def test_another_source_goes_on_while_the_registry_hangs() -> None:
    given, target = Given(), MemoryTarget("kafka")
    given.hanging = threading.Event()
    waits, other = MemorySource([Message(body=encode(1, "a"))], "waits"), MemorySource(name="other")
    inlets = [Inlet(waits, "in", admission=Registry(given)), Inlet(other, "in")]
    pump = Pump(inlets, Router(TOPOLOGY), {"orders": target}, Events(), QUICK)
    running = asyncio.create_task(pump.run())
    try:
        await until(lambda: given.asked.total() == 1)
        for number in range(20):
            other.put(Message(body=b'{"id": "%d"}' % number))
        await until(lambda: len(target.messages) == 20)
    finally:
        given.hanging.set()
    await until(lambda: len(target.messages) == 21)
    waits.end()
    other.end()
    await running


def test_what_confluents_serializers_write_has_keys() -> None:
    """Recorded: union, nested record, a type of another subject, logical types."""
    with registry_server() as server:
        server.answers.update({path: (200, answer) for path, answer in GOLDEN["answers"].items()})
        registry = Registry(read_client(Table({"url": server.url}, "bridge.toml")))
        deliveries = [Delivery(Message(body=bytes.fromhex(GOLDEN["bodies"][name]))) for name in ("avro", "json")]

        async def prepare() -> None:
            await until(lambda: registry.prepare(deliveries, lambda: None) == 2)

        asyncio.run(prepare())
    assert [each.message.body.hex() for each in deliveries] == [*GOLDEN["bodies"].values()]
    avro, of_json = [each.message for each in deliveries]
    wanted = {
        "/customer/id": str(UUID(int=7)),
        "/customer/referrer/id": str(UUID(int=8)),
        "/customer/referrer/referrer": None,
        "/customer/kind": "WHOLESALE",
        "/labels/region": "eu",
        "/labels/none": None,
        "/lines/0/count": 2,
        "/lines/0": '{"sku":"ä-1","count":2}',
        "/lines/1": None,
        "/at": 1_795_996_800_000,
        "/total": b"\x04\xd2",
    }
    assert {pointer: KeySource("body", pointer).read(avro) for pointer in wanted} == wanted
    assert KeySource("body", "/customer/id").read(of_json) == "ä7"
    assert KeySource("body", "/lines").read(of_json) == "[1,2]"


def test_the_id_of_a_schema_is_in_the_frame_or_in_a_header() -> None:
    guid = UUID(int=2**100 + 255)
    cases: list[tuple[Message, tuple[SchemaId, int] | None]] = [
        (Message(body=b"\0\0\0\1\2"), (258, 5)),
        (Message(body=b"\0\0\0\1"), None),
        (Message(body=b"\1\0\0\1\2"), None),
        (Message(body=b""), None),
        (Message(headers={HEADER: b"\1" + guid.bytes}, body=b"{}"), (str(guid), 0)),
        (Message(headers={HEADER: b"\1" + guid.bytes}, body=b"\0\0\0\0\1"), (str(guid), 0)),
        (Message(headers={HEADER: b"\2" + guid.bytes}, body=b"\0\0\0\0\1"), (1, 5)),
        (Message(headers={HEADER: b"\1short"}, body=b"{}"), None),
        (Message(headers={HEADER: 7}, body=b"{}"), None),
    ]
    assert [find_schema_id(message) for message, _ in cases] == [wanted for _, wanted in cases]


def test_a_body_moves_as_it_was() -> None:
    body = EncodedBody(encode(1, "a"))
    assert body == encode(1, "a")
    assert Message(body=body) == Message(body=encode(1, "a"))


def write(folder: Path, *lines: str, topology: str = "") -> Path:
    (folder / "t.json").write_text(
        topology
        or json.dumps(
            {
                "queues": [{"name": "orders", "vhost": "/"}, {"name": "other", "vhost": "/"}],
                "exchanges": [{"name": name, "vhost": "/", "type": "fanout"} for name in ("in", "beside")],
                "bindings": [
                    {
                        "source": source,
                        "vhost": "/",
                        "destination": queue,
                        "destination_type": "queue",
                        "routing_key": "",
                    }
                    for source, queue in (("in", "orders"), ("beside", "other"))
                ],
            }
        )
    )
    path = folder / "bridge.toml"
    path.write_text(
        "\n".join(
            [
                'topology = "t.json"',
                "[dead_letters]",
                'url = "amqp://127.0.0.1"',
                'queue = "dead"',
                *[
                    line
                    for name in ("in", "beside")
                    for line in (
                        f"[sources.{name}]",
                        'url = "amqp://127.0.0.1"',
                        f'queue = "{name}"',
                        f'exchange = "{name}"',
                    )
                ],
                *lines,
            ]
        )
    )
    return path


KAFKA = ("[targets.kafka]", 'url = "kafka://127.0.0.1:9092"')
REGISTRY = ("[registry]", 'url = "https://registry.example/apis/ccompat/v7"')


def test_only_sources_wait_whose_messages_may_have_a_key_in_their_body(tmp_path: Path) -> None:
    own = """queues = { orders = { topic = "o", key = 'body "/id"' }, other = "p" }"""
    config = read_config(write(tmp_path, *REGISTRY, *KAFKA, own))
    assert {inlet.source.name: inlet.admission for inlet in config.inlets} == {"in": config.registry, "beside": None}
    assert config.registry is not None
    assert [each for each in config.warnings if each.key == "registry"] == []


def test_a_registry_that_nothing_asks_is_a_warning(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, *REGISTRY, *KAFKA, 'queues = { orders = "o", other = "p" }'))
    problem = "nothing is asked of it: no partition, key or tag is a field of the body"
    assert ConfigWarning("", "registry", problem) in config.warnings


def test_a_mistake_in_the_table_of_a_registry_has_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "[registry]", 'url = "ftp://a"', *KAFKA, 'queues = { orders = "o", other = "p" }')
    with pytest.raises(InputError, match=r"bridge.toml:14: \[registry\] url: must be https://HOST:PORT/PATH"):
        read_config(path)
